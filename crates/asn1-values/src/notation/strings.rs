//! The notation of numbers and strings that stand alone.

use fusewire_asn1::ast::Simple;
use fusewire_codec::types::{Oid, RelativeOid};

use crate::characters::{self, Coding, is_unsafe};

/// `'0F'H`.
pub fn hex(bytes: &[u8]) -> String {
    format!("'{}'H", data_encoding::HEXUPPER.encode(bytes))
}

/// `'01'B`, or `'0F'H` where the bits are whole digits.
pub fn bits(bytes: &[u8], unused: u8) -> String {
    if unused.is_multiple_of(4) {
        let digits = data_encoding::HEXUPPER.encode(bytes);
        return format!("'{}'H", &digits[..digits.len() - usize::from(unused / 4)]);
    }
    let mut text = String::from("'");
    for n in 0..8 * bytes.len() - usize::from(unused) {
        text.push(if bytes[n / 8] & (0x80 >> (n % 8)) == 0 { '0' } else { '1' });
    }
    text + "'B"
}

/// The bytes of digits; an odd one is followed by zero.
pub fn of_hex(digits: &str) -> Vec<u8> {
    let nibble = |c: &u8| char::from(*c).to_digit(16).unwrap_or(0) as u8;
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| nibble(&pair[0]) << 4 | pair.get(1).map_or(0, nibble)).collect()
}

/// The bytes of binary digits, and how many bits of the last are none of them.
pub fn of_bits(digits: &str) -> (Vec<u8>, u8) {
    let mut bytes = vec![0_u8; digits.len().div_ceil(8)];
    for (n, digit) in digits.bytes().enumerate() {
        bytes[n / 8] |= u8::from(digit == b'1') << (7 - n % 8);
    }
    (bytes, (digits.len().wrapping_neg() % 8) as u8)
}

/// `{ 1 2 840 }`; nothing where an arc is wider than 128 bits.
pub fn oid(contents: &[u8], is_relative: bool) -> Option<String> {
    if contents.split(|b| b & 0x80 == 0).any(|arc| arc.len() > 17) {
        return None;
    }
    let arcs: Vec<String> = match is_relative {
        true => RelativeOid::from_contents(contents)?.arcs().map(|a| a.to_string()).collect(),
        false => Oid::from_contents(contents)?.arcs().map(|a| a.to_string()).collect(),
    };
    Some(format!("{{ {} }}", arcs.join(" ")))
}

/// `"text"`; where characters are in it that a terminal acts on, a list of strings, tuples (X.680, 41.8) and
/// quadruples. What is no text at all is octets.
pub fn text(simple: Simple, bytes: &[u8]) -> String {
    let coding = characters::coding(simple);
    let Some(text) = characters::decode(coding, bytes) else { return hex(bytes) };
    let quoted = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
    if !text.contains(is_unsafe) {
        return quoted(&text);
    }
    let mut parts: Vec<String> = Vec::new();
    let mut plain = String::new();
    for c in text.chars() {
        if !is_unsafe(c) {
            plain.push(c);
            continue;
        }
        if !plain.is_empty() {
            parts.push(quoted(&std::mem::take(&mut plain)));
        }
        let code = u32::from(c);
        parts.push(match coding {
            Coding::Utf8 if simple == Simple::Ia5String => {
                format!("{{{}, {}}}", code >> 4, code & 15)
            }
            _ => format!("{{0, {}, {}, {}}}", code >> 16, code >> 8 & 255, code & 255),
        });
    }
    if !plain.is_empty() {
        parts.push(quoted(&plain));
    }
    format!("{{{}}}", parts.join(", "))
}

/// A number as REAL's notation has it.
pub fn real(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NOT-A-NUMBER".to_owned(),
        f64::INFINITY => "PLUS-INFINITY".to_owned(),
        f64::NEG_INFINITY => "MINUS-INFINITY".to_owned(),
        _ if value == 0.0 && value.is_sign_negative() => "-0.0".to_owned(),
        _ => format!("{value:?}"),
    }
}
