//! Character strings as Unicode, and back.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// How the characters of a string type are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// UTF-8; ASCII is part of it.
    Utf8,
    /// A character is a byte, those of ISO 8859-1: what the older types that switch sets hold most often.
    Latin,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
}

impl Coding {
    /// The coding of the string type that has that tag of class UNIVERSAL.
    pub fn of_tag(tag: u64) -> Coding {
        match tag {
            7 | 20 | 21 | 25 | 27 => Coding::Latin,
            30 => Coding::Two,
            28 => Coding::Four,
            _ => Coding::Utf8,
        }
    }
}

/// The characters of bytes; nothing where they are none. Halves of surrogate pairs in a BMPString are joined.
pub fn decode(coding: Coding, bytes: &[u8]) -> Option<String> {
    match coding {
        Coding::Utf8 => core::str::from_utf8(bytes).ok().map(str::to_owned),
        Coding::Latin => Some(bytes.iter().map(|&b| char::from(b)).collect()),
        Coding::Two => {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let units = pairs.iter().map(|p| u16::from_be_bytes(*p));
            let text: Result<String, _> = char::decode_utf16(units).collect();
            text.ok().filter(|_| rest.is_empty())
        }
        Coding::Four => {
            let (quads, rest) = bytes.as_chunks::<4>();
            let text = quads.iter().map(|q| char::from_u32(u32::from_be_bytes(*q))).collect();
            if rest.is_empty() { text } else { None }
        }
    }
}

/// The bytes of characters; nothing where the coding has not all of them.
pub fn encode(coding: Coding, text: &str) -> Option<Vec<u8>> {
    match coding {
        Coding::Utf8 => Some(text.as_bytes().to_vec()),
        Coding::Latin => text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect(),
        Coding::Two => Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        Coding::Four => Some(text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect()),
    }
}

/// Whether a character would do something to a terminal, or to the direction of the text around it.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
