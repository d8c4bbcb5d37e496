//! A key's fingerprint: SHA-256 of the SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7), and its text
//! form `fw1:` with 52 characters of lower-case base32 (RFC 4648, section 6, without padding).

use crate::error::Error;
use aws_lc_rs::digest::{SHA256, digest};
use core::fmt;
use core::str::FromStr;

const PREFIX: &str = "fw1:";
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const TEXT_LEN: usize = 52;

/// SHA-256 of a peer's SubjectPublicKeyInfo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a DER-encoded SubjectPublicKeyInfo.
    pub fn of_spki(spki: &[u8]) -> Fingerprint {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, spki).as_ref());
        Fingerprint(bytes)
    }

    /// From the 32 bytes of the hash.
    pub const fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// The 32 bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(PREFIX.len() + TEXT_LEN);
        text.push_str(PREFIX);
        let (mut bits, mut count) = (0u32, 0);
        for byte in self.0 {
            bits = bits << 8 | u32::from(byte);
            count += 8;
            while count >= 5 {
                count -= 5;
                text.push(char::from(ALPHABET[(bits >> count) as usize & 31]));
            }
        }
        text.push(char::from(ALPHABET[(bits << (5 - count)) as usize & 31]));
        f.pad(&text)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    /// Reads what `Display` writes; upper case is taken too.
    fn from_str(text: &str) -> Result<Fingerprint, Error> {
        let wrong = || Error::Text {
            what: "fingerprint".into(),
            expected: "fw1: and 52 characters of a-z and 2-7",
            found: text.chars().take(80).collect(),
        };
        let digits = match text.get(..PREFIX.len()) {
            Some(p) if p.eq_ignore_ascii_case(PREFIX) => &text[PREFIX.len()..],
            _ => return Err(wrong()),
        };
        if digits.len() != TEXT_LEN {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        let (mut bits, mut count, mut at) = (0u32, 0, 0);
        for digit in digits.bytes() {
            let value = match digit.to_ascii_lowercase() {
                c @ b'a'..=b'z' => c - b'a',
                c @ b'2'..=b'7' => c - b'2' + 26,
                _ => return Err(wrong()),
            };
            bits = bits << 5 | u32::from(value);
            count += 5;
            if count >= 8 {
                count -= 8;
                bytes[at] = (bits >> count) as u8;
                at += 1;
            }
        }
        // 260 bits: the last four stand for nothing and must be zero, so that a key has one text.
        if bits & 15 != 0 {
            return Err(wrong());
        }
        Ok(Fingerprint(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_fixed() {
        let print = Fingerprint::from_bytes(core::array::from_fn(|i| i as u8));
        let text = print.to_string();
        // Python: base64.b32encode(bytes(range(32))).decode().lower().rstrip("=")
        assert_eq!(text, "fw1:aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypq");
        assert_eq!(text.parse::<Fingerprint>().unwrap(), print);
        assert_eq!(text.to_uppercase().parse::<Fingerprint>().unwrap(), print);
    }

    #[test]
    fn other_texts_are_refused() {
        let good = Fingerprint::of_spki(b"x").to_string();
        for bad in
            ["", "fw1:", &good[..55], &format!("{good}a"), &good[4..], &good.replace("fw1", "fw2")]
        {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
        let mut loose = Fingerprint::from_bytes([0; 32]).to_string();
        loose.pop();
        loose.push('b');
        assert!(loose.parse::<Fingerprint>().is_err());
        let mut wide = good.clone();
        wide.replace_range(10..11, "é");
        assert!(wide.parse::<Fingerprint>().is_err());
        assert!("fé1:".parse::<Fingerprint>().is_err());
    }
}
