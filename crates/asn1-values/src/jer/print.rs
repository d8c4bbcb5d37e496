//! Values into JSON, in the order of the type.

use std::fmt::Write;

use crate::characters::{self, is_unsafe};
use crate::number;
use crate::schema::{Kind, Schema, TypeId};
use crate::value::{Open, Unknown, Value};

/// A value of a type on one line.
pub fn to_json(schema: &Schema<'_, '_>, value: &Value, ty: TypeId) -> String {
    let mut out = String::new();
    print(schema, value, ty, &mut out);
    out
}

fn digits(bytes: &[u8]) -> String {
    data_encoding::HEXUPPER.encode(bytes)
}

fn octets(out: &mut String, bytes: &[u8]) {
    let _ = write!(out, "{{\"octets\":\"{}\"}}", digits(bytes));
}

/// A JSON string; what a terminal acts on is escaped.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => *out += "\\n",
            '\r' => *out += "\\r",
            '\t' => *out += "\\t",
            c if is_unsafe(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn unknown(value: &Unknown) -> &[u8] {
    match value {
        Unknown::Ber(bytes) | Unknown::Counted(_, bytes) => bytes,
    }
}

fn print(schema: &Schema<'_, '_>, value: &Value, ty: TypeId, out: &mut String) {
    let kind = &schema.get(ty).kind;
    match (value, kind) {
        (Value::Structure(of), Kind::Structure(kind)) => {
            out.push('{');
            for (member, value) in kind.members.iter().zip(&of.members) {
                let Some(value) = value else { continue };
                comma(out, '{');
                quote(out, &member.name);
                out.push(':');
                print(schema, value, member.ty, out);
            }
            if !of.unknown.is_empty() {
                comma(out, '{');
                *out += "\"$unknown\":[";
                for part in &of.unknown {
                    comma(out, '[');
                    quote(out, &digits(unknown(part)));
                }
                out.push(']');
            }
            out.push('}');
        }
        (Value::List(elements), Kind::List(kind)) => {
            out.push('[');
            for (n, element) in elements.iter().enumerate() {
                if n > 0 {
                    out.push(',');
                }
                print(schema, element, kind.element, out);
            }
            out.push(']');
        }
        (Value::Choice(index, value), Kind::Choice(kind)) => {
            let Some(alternative) = kind.alternatives.get(*index) else { return };
            out.push('{');
            quote(out, &alternative.name);
            out.push(':');
            print(schema, value, alternative.ty, out);
            out.push('}');
        }
        (Value::Open(Open::Typed(ty, value)), _) => print(schema, value, *ty, out),
        (value, kind) => scalar(value, kind, out),
    }
}

/// Between parts, but not in front of the first.
fn comma(out: &mut String, open: char) {
    if !out.ends_with(open) {
        out.push(',');
    }
}

fn scalar(value: &Value, kind: &Kind, out: &mut String) {
    match (value, kind) {
        (Value::Boolean(value), _) => *out += if *value { "true" } else { "false" },
        (Value::Null, _) => *out += "null",
        (Value::Integer(bytes), _) => match number::to_decimal(bytes) {
            Some(text) => *out += &text,
            None => octets(out, bytes),
        },
        (Value::Enumerated(number), Kind::Enumerated(of)) => {
            match of.items.iter().find(|(_, n)| n == number) {
                Some((name, _)) => quote(out, name),
                None => *out += &number.to_string(),
            }
        }
        (Value::Enumerated(number), _) => *out += &number.to_string(),
        // X.697, 23.
        (Value::Real(real), _) => match real.value {
            value if value.is_nan() => *out += "\"NaN\"",
            f64::INFINITY => *out += "\"INF\"",
            f64::NEG_INFINITY => *out += "\"-INF\"",
            value if value == 0.0 && value.is_sign_negative() => *out += "\"-0\"",
            value => {
                let _ = write!(out, "{value:?}");
            }
        },
        // X.697, 24: the length is in the type, or beside the bits.
        (Value::Bits(bytes, unused), kind) => {
            let length = 8 * bytes.len() - usize::from(*unused);
            match kind {
                Kind::Bits(_, size) if size.fixed() == Some(length) => quote(out, &digits(bytes)),
                _ => {
                    let _ = write!(out, "{{\"value\":\"{}\",\"length\":{length}}}", digits(bytes));
                }
            }
        }
        (Value::Octets(bytes), _) => quote(out, &digits(bytes)),
        (Value::Oid(contents), kind) => match dotted(contents, matches!(kind, Kind::RelativeOid)) {
            Some(text) => quote(out, &text),
            None => octets(out, contents),
        },
        (Value::Text(bytes), Kind::Text(simple, _)) => {
            match characters::decode(characters::coding(*simple), bytes) {
                Some(text) => quote(out, &text),
                None => octets(out, bytes),
            }
        }
        (Value::UnknownChoice(of), _) => {
            let _ = write!(out, "{{\"$unknown\":\"{}\"}}", digits(unknown(of)));
        }
        (Value::Text(bytes) | Value::Open(Open::Raw(bytes, _)), _) => octets(out, bytes),
        // A value that is none of its type, which no decoder gives.
        (Value::Structure(_) | Value::List(_) | Value::Choice(..) | Value::Open(_), _) => {
            *out += "null";
        }
    }
}

/// `1.2.840`.
fn dotted(contents: &[u8], is_relative: bool) -> Option<String> {
    use fusewire_codec::types::{Oid, RelativeOid};
    if contents.split(|b| b & 0x80 == 0).any(|arc| arc.len() > 17) {
        return None;
    }
    match is_relative {
        true => RelativeOid::from_contents(contents).map(|oid| oid.to_string()),
        false => Oid::from_contents(contents).map(|oid| oid.to_string()),
    }
}
