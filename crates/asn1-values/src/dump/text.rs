//! Events as lines for people.
//!
//! ```text
//!   offset  header+length  type, indented by depth, and value
//!        0    4+1289       SEQUENCE
//!       13    2+9              OBJECT IDENTIFIER 1.2.840.113549.1.1.11
//! ```

use std::fmt::Write;

use super::{Class, Contents, Element, Event, Length, contents};
use crate::characters::is_unsafe;

/// How lines look.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// With colours of a terminal.
    pub colour: bool,
    /// Octets of a string that are shown; more are counted.
    pub octets: usize,
    /// Columns of an offset.
    pub width: usize,
}

impl Style {
    /// For data of that many bytes.
    pub fn for_bytes(len: usize, colour: bool) -> Style {
        Style { colour, octets: 48, width: len.to_string().len().max(5) }
    }
}

const DIM: &str = "\x1b[2m";
const NAME: &str = "\x1b[36m";
const TAG: &str = "\x1b[33m";
const VALUE: &str = "\x1b[32m";
const WRONG: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// A line without its end.
pub fn line(event: &Event<'_>, style: Style) -> String {
    let mut out = String::new();
    match event {
        Event::End { offset, depth } => {
            let text = format!("{offset:width$}  2+0      ", width = style.width);
            paint(&mut out, style, DIM, &text);
            let text = format!("{:1$}end-of-contents", "", 2 * depth);
            paint(&mut out, style, DIM, &text);
        }
        Event::Element(element) => {
            let length = match element.header.length {
                Length::Indefinite => "inf".to_owned(),
                Length::Short(len) | Length::Long(len, _) => len.to_string(),
            };
            let sizes = format!("{}+{length}", element.header.octets);
            let text = format!("{:width$}  {sizes:<8} ", element.offset, width = style.width);
            paint(&mut out, style, DIM, &text);
            let _ = write!(out, "{:1$}", "", 2 * element.depth);
            tag(&mut out, element, style);
            value(&mut out, element, style);
        }
    }
    out
}

/// The line of an error.
pub fn error_line(error: &super::Error, style: Style) -> String {
    let mut out = format!("{:width$}  ", error.offset, width = style.width);
    paint(&mut out, style, WRONG, &format!("error: {}", error.problem));
    out
}

fn paint(out: &mut String, style: Style, colour: &str, text: &str) {
    match style.colour {
        true => *out += &format!("{colour}{text}{PLAIN}"),
        false => *out += text,
    }
}

fn tag(out: &mut String, element: &Element<'_>, style: Style) {
    let header = element.header;
    match (element.name(), header.class) {
        (Some(name), _) => paint(out, style, NAME, name),
        (None, Class::Context) => paint(out, style, TAG, &format!("[{}]", header.number)),
        (None, class) => {
            let class = class.as_str().to_ascii_uppercase();
            paint(out, style, TAG, &format!("[{class} {}]", header.number));
        }
    }
    let is_string =
        !matches!(element.name(), Some("SEQUENCE" | "SET" | "EXTERNAL" | "EMBEDDED PDV"));
    if header.constructed && element.name().is_some() && is_string {
        *out += " in pieces";
    }
    if header.length.is_padded() {
        *out += " (length longer than need be)";
    }
}

fn value(out: &mut String, element: &Element<'_>, style: Style) {
    if element.header.constructed {
        return;
    }
    if element.holds {
        *out += " holding";
        return;
    }
    let what = contents(element);
    out.push(' ');
    let colour = if matches!(what, Contents::Malformed(_)) { WRONG } else { VALUE };
    let text = match what {
        Contents::Boolean(value) => (if value { "TRUE" } else { "FALSE" }).to_owned(),
        Contents::Null => {
            out.pop();
            return;
        }
        Contents::Number(text) | Contents::Oid(text) => text,
        Contents::Wide(bits) => format!("of {bits} bits: {}", octets(element.contents, style)),
        Contents::Real(real) => format!("{real:?}"),
        Contents::Bits(unused) => {
            let bits = 8 * (element.contents.len() - 1) - usize::from(unused);
            format!("{bits} bits: {}", octets(&element.contents[1..], style))
        }
        Contents::Text(text) => quoted(&text, style),
        Contents::Time(text, iso) => format!("{} {iso}", quoted(&text, style)),
        Contents::Octets if element.contents.is_empty() => "empty".to_owned(),
        Contents::Octets => octets(element.contents, style),
        Contents::Malformed(what) => format!("({what}) {}", octets(element.contents, style)),
    };
    paint(out, style, colour, &text);
}

/// Digits, as many as are shown.
fn octets(bytes: &[u8], style: Style) -> String {
    let shown = &bytes[..bytes.len().min(style.octets)];
    let mut text = data_encoding::HEXLOWER.encode(shown);
    if shown.len() < bytes.len() {
        let _ = write!(text, "… ({} bytes)", bytes.len());
    }
    text
}

/// In quotation marks, what a terminal would act on escaped.
fn quoted(text: &str, style: Style) -> String {
    let mut out = String::from("\"");
    for (n, c) in text.chars().enumerate() {
        if n >= 4 * style.octets {
            let _ = write!(out, "\"… ({} characters)", text.chars().count());
            return out;
        }
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
