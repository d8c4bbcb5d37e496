//! The contents of primitive encodings, as their types read them.

use fusewire_codec::types::{Oid, RelativeOid, real};

use super::{Class, Element};
use crate::{characters, number};

/// What contents mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// BOOLEAN.
    Boolean(bool),
    /// NULL.
    Null,
    /// INTEGER or ENUMERATED in decimal.
    Number(String),
    /// The width of an INTEGER that is too long for that, in bits.
    Wide(usize),
    /// REAL.
    Real(f64),
    /// OBJECT IDENTIFIER or RELATIVE-OID, with dots.
    Oid(String),
    /// A BIT STRING: how many bits of the last octet are none of it.
    Bits(u8),
    /// Characters.
    Text(String),
    /// A time, and the same as ISO 8601 has it.
    Time(String, String),
    /// Octets.
    Octets,
    /// Not what the tag says.
    Malformed(&'static str),
}

/// What the contents of a primitive encoding mean.
pub fn contents(element: &Element<'_>) -> Contents {
    let bytes = element.contents;
    if element.header.class != Class::Universal {
        return match std::str::from_utf8(bytes) {
            Ok(text) if readable(text) => Contents::Text(text.to_owned()),
            _ => Contents::Octets,
        };
    }
    match element.header.number {
        1 => match bytes {
            [byte] => Contents::Boolean(*byte != 0),
            _ => Contents::Malformed("a BOOLEAN is one octet"),
        },
        2 | 10 if bytes.is_empty() => Contents::Malformed("a number has at least one octet"),
        2 | 10 => {
            number::to_decimal(bytes).map_or(Contents::Wide(8 * bytes.len()), Contents::Number)
        }
        3 => match bytes {
            [unused @ 0..=7] if *unused != 0 => Contents::Malformed("unused bits of no octet"),
            [unused @ 0..=7, ..] => Contents::Bits(*unused),
            _ => Contents::Malformed("a BIT STRING begins with 0 to 7 unused bits"),
        },
        5 if bytes.is_empty() => Contents::Null,
        5 => Contents::Malformed("a NULL is empty"),
        6 => match Oid::from_contents(bytes) {
            Some(oid) if short(bytes) => Contents::Oid(oid.to_string()),
            _ => Contents::Malformed("no OBJECT IDENTIFIER"),
        },
        13 => match RelativeOid::from_contents(bytes) {
            Some(oid) if short(bytes) => Contents::Oid(oid.to_string()),
            _ => Contents::Malformed("no RELATIVE-OID"),
        },
        9 => match real::decode(bytes, false) {
            Ok(real) => Contents::Real(real),
            Err(_) => Contents::Malformed("no REAL"),
        },
        tag @ (23 | 24) => match (
            std::str::from_utf8(bytes),
            characters::iso_time(bytes, if tag == 23 { 2 } else { 4 }),
        ) {
            (Ok(text), Some(iso)) => Contents::Time(text.to_owned(), iso),
            _ => Contents::Malformed("no time"),
        },
        7 | 12 | 14 | 18..=22 | 25..=28 | 30..=36 => {
            match characters::of_tag(element.header.number, bytes) {
                Some(text) => Contents::Text(text),
                None => Contents::Malformed("characters that the type does not have"),
            }
        }
        _ => Contents::Octets,
    }
}

/// Whether no arc is wider than a program's number.
fn short(oid: &[u8]) -> bool {
    oid.split(|b| b & 0x80 == 0).all(|arc| arc.len() < 18)
}

/// Whether octets of an unknown type are most likely text.
fn readable(text: &str) -> bool {
    text.len() >= 2 && text.chars().all(|c| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric())
}
