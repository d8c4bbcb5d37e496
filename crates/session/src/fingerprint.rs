//! A key's fingerprint: SHA-256 of the SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7), and its text
//! form `fw1:` with 52 characters of lower-case base32 (RFC 4648, section 6, without padding).

use crate::error::Error;
use aws_lc_rs::digest::{SHA256, digest};
use core::fmt;
use core::str::FromStr;
use data_encoding::BASE32_NOPAD_NOCASE as BASE32;

const PREFIX: &str = "fw1:";

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
        let mut text = PREFIX.to_owned();
        BASE32.encode_append(&self.0, &mut text);
        text.make_ascii_lowercase();
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
        // 260 bits: the last four stand for nothing and must be zero, so that a key has one text.
        let bytes = BASE32.decode(digits.as_bytes()).map_err(|_| wrong())?;
        Ok(Fingerprint(bytes.try_into().map_err(|_| wrong())?))
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
