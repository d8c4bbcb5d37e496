//! The ciphers a record can have: names, numbers on the wire, key and tag lengths, limits.

use crate::error::Error;
use crate::kernel::CipherKey;
use core::fmt;
use core::str::FromStr;

/// Rounds of SAFER K-64 that its author asks for.
const SAFER_ROUNDS: u8 = 6;
/// Most rounds that the key schedule is defined for here.
const SAFER_ROUNDS_MAX: u8 = 13;

/// How records are enciphered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-256 in Galois/Counter Mode (RFC 5116).
    Aes256Gcm,
    /// AES-128 in Galois/Counter Mode (RFC 5116).
    Aes128Gcm,
    /// ChaCha20 and Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// Nothing. Insecure.
    None,
    /// The add/xor pseudo-encryption of Abbott and Peterson. Insecure.
    Pes,
    /// The simplified SAFER of Braun and Diot. Insecure.
    SaferSimplified,
    /// SAFER K-64 with a number of rounds. Insecure: 64-bit key, no tag.
    SaferK64 {
        /// Rounds, 1 to 13.
        rounds: u8,
    },
}

impl Cipher {
    /// What is offered unless the user says otherwise, best first.
    pub const DEFAULT: [Cipher; 3] =
        [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm];

    /// True when there is no authentication or no encryption worth the name: must be asked for on both sides.
    pub const fn is_insecure(self) -> bool {
        !matches!(self, Cipher::Aes256Gcm | Cipher::Aes128Gcm | Cipher::ChaCha20Poly1305)
    }

    /// Bytes of the tag: 16, or 0 where there is none.
    pub const fn tag_len(self) -> usize {
        if self.is_insecure() { 0 } else { 16 }
    }

    /// A ciphertext is a multiple of this many bytes; a body is padded with zeros up to it.
    pub const fn block_len(self) -> usize {
        match self {
            Cipher::Pes | Cipher::SaferSimplified | Cipher::SaferK64 { .. } => 8,
            _ => 1,
        }
    }

    /// Bytes of key.
    pub const fn key_len(self) -> usize {
        match self {
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32,
            Cipher::Aes128Gcm => 16,
            Cipher::None => 0,
            Cipher::Pes | Cipher::SaferSimplified | Cipher::SaferK64 { .. } => 8,
        }
    }

    /// Records of a connection that may fail authentication before it must end (RFC 9001, section 6.6).
    /// The figures hold for records up to 2^16 bytes; a longer one was cut over segments that were
    /// acknowledged, and the first such one that fails ends the connection.
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Cipher::ChaCha20Poly1305 => 1 << 36,
            _ => 1 << 52,
        }
    }

    /// Identifier and parameter on the wire.
    pub const fn code(self) -> [u8; 2] {
        match self {
            Cipher::Aes256Gcm => [1, 0],
            Cipher::Aes128Gcm => [2, 0],
            Cipher::ChaCha20Poly1305 => [3, 0],
            Cipher::None => [0x80, 0],
            Cipher::Pes => [0x81, 0],
            Cipher::SaferSimplified => [0x82, 0],
            Cipher::SaferK64 { rounds } => [0x83, rounds],
        }
    }

    /// The inverse of [`code`](Cipher::code); `None` for what this version does not know.
    pub const fn from_code(code: [u8; 2]) -> Option<Cipher> {
        Some(match code {
            [1, 0] => Cipher::Aes256Gcm,
            [2, 0] => Cipher::Aes128Gcm,
            [3, 0] => Cipher::ChaCha20Poly1305,
            [0x80, 0] => Cipher::None,
            [0x81, 0] => Cipher::Pes,
            [0x82, 0] => Cipher::SaferSimplified,
            [0x83, rounds @ 1..=SAFER_ROUNDS_MAX] => Cipher::SaferK64 { rounds },
            _ => return None,
        })
    }

    /// Builds the kernel's key, of the first [`key_len`](Cipher::key_len) bytes of `key`.
    pub(crate) fn kernel_key(self, key: &[u8; 32]) -> CipherKey {
        match self {
            Cipher::Aes256Gcm => CipherKey::Aes256Gcm(*key),
            Cipher::Aes128Gcm => CipherKey::Aes128Gcm(first(key)),
            Cipher::ChaCha20Poly1305 => CipherKey::ChaCha20Poly1305(*key),
            Cipher::None => CipherKey::None,
            Cipher::Pes => CipherKey::Pes(first(key)),
            Cipher::SaferSimplified => CipherKey::SaferSimplified(first(key)),
            Cipher::SaferK64 { rounds } => CipherKey::SaferK64 { key: first(key), rounds },
        }
    }
}

fn first<const N: usize>(key: &[u8; 32]) -> [u8; N] {
    core::array::from_fn(|i| key[i])
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cipher::Aes256Gcm => f.pad("aes-256-gcm"),
            Cipher::Aes128Gcm => f.pad("aes-128-gcm"),
            Cipher::ChaCha20Poly1305 => f.pad("chacha20-poly1305"),
            Cipher::None => f.pad("none"),
            Cipher::Pes => f.pad("pes"),
            Cipher::SaferSimplified => f.pad("safer-simplified"),
            Cipher::SaferK64 { rounds: SAFER_ROUNDS } => f.pad("safer-k64"),
            Cipher::SaferK64 { rounds } => f.pad(&format!("safer-k64:{rounds}")),
        }
    }
}

impl FromStr for Cipher {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cipher, Error> {
        Ok(match text {
            "aes-256-gcm" => Cipher::Aes256Gcm,
            "aes-128-gcm" => Cipher::Aes128Gcm,
            "chacha20-poly1305" => Cipher::ChaCha20Poly1305,
            "none" => Cipher::None,
            "pes" => Cipher::Pes,
            "safer-simplified" => Cipher::SaferSimplified,
            "safer-k64" => Cipher::SaferK64 { rounds: SAFER_ROUNDS },
            _ => {
                let rounds = text.strip_prefix("safer-k64:").and_then(|r| r.parse().ok());
                match rounds.filter(|r| (1..=SAFER_ROUNDS_MAX).contains(r)) {
                    Some(rounds) => Cipher::SaferK64 { rounds },
                    None => {
                        return Err(Error::Text {
                            what: "cipher".into(),
                            expected: "aes-256-gcm, aes-128-gcm, chacha20-poly1305, none, pes, \
                                       safer-simplified or safer-k64[:1 to 13]",
                            found: text.chars().take(40).collect(),
                        });
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        let mut all = vec![
            Cipher::Aes256Gcm,
            Cipher::Aes128Gcm,
            Cipher::ChaCha20Poly1305,
            Cipher::None,
            Cipher::Pes,
            Cipher::SaferSimplified,
        ];
        all.extend((1..=SAFER_ROUNDS_MAX).map(|rounds| Cipher::SaferK64 { rounds }));
        for cipher in all {
            assert_eq!(cipher.to_string().parse::<Cipher>().unwrap(), cipher);
            assert_eq!(Cipher::from_code(cipher.code()), Some(cipher));
            assert_eq!(cipher.is_insecure(), cipher.code()[0] >= 0x80);
        }
        let known = (0..=u16::MAX).filter(|c| Cipher::from_code(c.to_be_bytes()).is_some()).count();
        assert_eq!(known, 6 + usize::from(SAFER_ROUNDS_MAX));
        for bad in ["", "aes", "safer-k64:0", "safer-k64:14", "safer-k64:", "safer-k64:-1", "NONE"]
        {
            assert!(bad.parse::<Cipher>().is_err(), "{bad}");
        }
    }
}
