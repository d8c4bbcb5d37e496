//! Any BER without its module: what its octets say of themselves.
//!
//! [`walk`] goes through the encodings in order, without recursion, and gives one [`Event`] after the other up
//! to the end or the first error, so that what could be read is shown whatever comes behind it. [`text`] and
//! [`json`] are lines of an event; no control character of the data is in them.

mod contents;
mod header;
pub mod json;
pub mod text;

use std::fmt;

pub use contents::{Contents, contents};
pub use header::{Header, Length};

/// A tag's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Types of the standard.
    Universal,
    /// Types of one application.
    Application,
    /// What the surrounding type says.
    Context,
    /// Types of one organisation.
    Private,
}

impl Class {
    fn of(identifier: u8) -> Class {
        [Class::Universal, Class::Application, Class::Context, Class::Private]
            [usize::from(identifier >> 6)]
    }

    /// Its word in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Universal => "universal",
            Class::Application => "application",
            Class::Context => "context",
            Class::Private => "private",
        }
    }
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether OCTET STRINGs and BIT STRINGs are looked into, which may hold an encoding.
    pub nested: bool,
    /// Deeper encodings are an error.
    pub depth: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { nested: false, depth: 64 }
    }
}

/// One step through the encodings.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Identifier and length, and the contents if they are no encodings.
    Element(Element<'a>),
    /// End-of-contents octets.
    End {
        /// Where.
        offset: usize,
        /// How deep the contents were that they end.
        depth: usize,
    },
}

/// An encoding.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// Where its identifier is.
    pub offset: usize,
    /// How many encodings surround it.
    pub depth: usize,
    /// Identifier and length.
    pub header: Header,
    /// What lies behind the header; nothing of what is constructed.
    pub contents: &'a [u8],
    /// The contents of a string are an encoding, which comes next.
    pub holds: bool,
}

impl Element<'_> {
    /// The name of the type that its tag says, where there is one.
    pub fn name(&self) -> Option<&'static str> {
        match self.header.class {
            Class::Universal => universal_name(self.header.number),
            _ => None,
        }
    }
}

/// What is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Bytes in front of it.
    pub offset: usize,
    /// What.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Problem {
    Truncated { needed: usize, left: usize },
    TagPadded,
    TagTooLong,
    IndefinitePrimitive,
    ReservedLength,
    LengthTooLong { octets: usize },
    Beyond { needed: usize, left: usize },
    Unclosed,
    StrayEnd,
    TooDeep { bound: usize },
}

impl Error {
    fn at(offset: usize, problem: Problem) -> Error {
        Error { offset, problem }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Problem::Truncated { needed, left } => {
                write!(
                    f,
                    "truncated: identifier and length take {needed} bytes or more, {left} left"
                )
            }
            Problem::TagPadded => f.write_str("a tag's number in a longer form than it needs"),
            Problem::TagTooLong => f.write_str("a tag's number of more than 64 bits"),
            Problem::IndefinitePrimitive => {
                f.write_str("a primitive encoding of indefinite length")
            }
            Problem::ReservedLength => f.write_str("the reserved length octet ff"),
            Problem::LengthTooLong { octets } => write!(f, "a length of {octets} octets"),
            Problem::Beyond { needed, left } => {
                write!(f, "the length says {needed} bytes, {left} left")
            }
            Problem::Unclosed => f.write_str("end-of-contents octets are missing"),
            Problem::StrayEnd => f.write_str("end-of-contents octets where nothing is open"),
            Problem::TooDeep { bound } => write!(f, "nested deeper than {bound}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.problem, self.offset)
    }
}

impl std::error::Error for Error {}

/// Contents that are open: where they end at the latest, and whether end-of-contents octets come before.
#[derive(Clone, Copy)]
struct Open {
    end: usize,
    indefinite: bool,
    start: usize,
    /// The length that was said, where there are fewer bytes.
    short: Option<usize>,
}

/// Goes through all encodings in `data`, one after the other.
///
/// # Errors
/// The first thing that is no BER; what comes before it was given.
pub fn walk<'a>(
    data: &'a [u8],
    options: Options,
    mut event: impl FnMut(Event<'a>),
) -> Result<(), Error> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    loop {
        while let Some(&Open { end, indefinite: false, start, short }) = open.last()
            && at >= end
        {
            if let Some(needed) = short {
                return Err(Error::at(start, Problem::Beyond { needed, left: end - start }));
            }
            open.pop();
        }
        let (end, depth) = (open.last().map_or(data.len(), |o| o.end), open.len());
        if at >= end {
            return match open.last() {
                Some(&Open { start, .. }) => Err(Error::at(start, Problem::Unclosed)),
                None => Ok(()),
            };
        }
        let header = header::read(&data[at..end], at)?;
        if header.is_end() {
            match open.last() {
                Some(Open { indefinite: true, .. }) => open.pop(),
                _ => return Err(Error::at(at, Problem::StrayEnd)),
            };
            event(Event::End { offset: at, depth: depth - 1 });
            at += 2;
            continue;
        }
        let start = at + header.octets;
        let len = header.length.definite().unwrap_or(0);
        let left = end - start;
        let mut element = Element { offset: at, depth, header, contents: &[], holds: false };
        // What there is of contents that are cut off is shown, too.
        let len = len.min(left);
        let short = header.length.definite().filter(|needed| *needed > left);
        if !header.constructed {
            element.contents = &data[start..start + len];
        }
        if let (Some(needed), false) = (short, header.constructed) {
            event(Event::Element(element));
            return Err(Error::at(start, Problem::Beyond { needed, left }));
        }
        let skip = held(&element).filter(|_| options.nested && depth < options.depth);
        element.holds = skip.is_some();
        event(Event::Element(element));
        if header.constructed || element.holds {
            if depth >= options.depth {
                return Err(Error::at(at, Problem::TooDeep { bound: options.depth }));
            }
            let indefinite = header.length == Length::Indefinite;
            let end = if indefinite { end } else { start + len };
            let start_of = if indefinite { at } else { start };
            open.push(Open { end, indefinite, start: start_of, short });
            at = start + skip.unwrap_or(0);
        } else {
            at = start + len;
        }
    }
}

/// How many octets of a string's contents are in front of the encoding that it holds, if it holds one.
fn held(element: &Element<'_>) -> Option<usize> {
    let Header { class: Class::Universal, number, constructed: false, .. } = element.header else {
        return None;
    };
    match (number, element.contents) {
        (4, contents) if is_one(contents) => Some(0),
        (3, [0, contents @ ..]) if is_one(contents) => Some(1),
        _ => None,
    }
}

/// Whether the bytes are one encoding, of a type of the standard or with a tag that somebody chose.
fn is_one(bytes: &[u8]) -> bool {
    let Ok(header) = header::read(bytes, 0) else { return false };
    let known = match header.class {
        Class::Universal => header.number != 0 && universal_name(header.number).is_some(),
        _ => header.number < 1000,
    };
    let whole = header.length.definite().is_none_or(|len| header.octets + len == bytes.len());
    let mut tops = 0;
    let count = |event: Event<'_>| {
        tops += usize::from(matches!(event, Event::Element(Element { depth: 0, .. })));
    };
    known && whole && walk(bytes, Options::default(), count).is_ok() && tops == 1
}

/// Whether the bytes are BER from end to end.
pub fn is_ber(bytes: &[u8]) -> bool {
    !bytes.is_empty() && walk(bytes, Options::default(), |_| ()).is_ok()
}

/// The type of a tag of class UNIVERSAL (X.680, 8.6).
pub fn universal_name(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "end-of-contents",
        1 => "BOOLEAN",
        2 => "INTEGER",
        3 => "BIT STRING",
        4 => "OCTET STRING",
        5 => "NULL",
        6 => "OBJECT IDENTIFIER",
        7 => "ObjectDescriptor",
        8 => "EXTERNAL",
        9 => "REAL",
        10 => "ENUMERATED",
        11 => "EMBEDDED PDV",
        12 => "UTF8String",
        13 => "RELATIVE-OID",
        14 => "TIME",
        16 => "SEQUENCE",
        17 => "SET",
        18 => "NumericString",
        19 => "PrintableString",
        20 => "TeletexString",
        21 => "VideotexString",
        22 => "IA5String",
        23 => "UTCTime",
        24 => "GeneralizedTime",
        25 => "GraphicString",
        26 => "VisibleString",
        27 => "GeneralString",
        28 => "UniversalString",
        29 => "CHARACTER STRING",
        30 => "BMPString",
        31 => "DATE",
        32 => "TIME-OF-DAY",
        33 => "DATE-TIME",
        34 => "DURATION",
        35 => "OID-IRI",
        36 => "RELATIVE-OID-IRI",
        _ => return None,
    })
}
