//! The cipher suites: one static entry each, which kernels, session, program and documents read.
//!
//! To add one: a file here with its [`Suite`], and its place in [`Cipher::ALL`]. What its entry binds is a
//! [`Pipeline`]: [`Staged`](crate::staged::Staged) makes one of a cipher that is a
//! stage and gives a tag, [`tagless::bind`](crate::tagless::bind) of one without a tag,
//! [`LibraryLoops`](crate::library::LibraryLoops) of one that is the library's. `docs/records.md` has the table, and a test of `session` compares.
#![forbid(unsafe_code)]

mod aegis;
mod aes_gcm;
mod blocks;
mod chacha20_poly1305;

use crate::{Check, Level};
use crate::mask::Mask;
use crate::transform::{Pipeline, Plan};
use aws_lc_rs::aead::Algorithm;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use core::str::FromStr;

/// Bytes of the longest key of a suite.
pub const KEY_LEN_MAX: usize = 32;
/// Bytes of the longest nonce of a suite.
pub const NONCE_LEN_MAX: usize = 32;
/// Bytes of the longest tag of a suite.
pub const TAG_LEN_MAX: usize = 32;

/// What can be said for a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A standard.
    Standard,
    /// As good as is known, after a draft that can still change: never taken unless it is asked for.
    Draft,
    /// No authentication, or no encryption worth the name. It is there for its history, and must be asked for
    /// on both sides.
    Insecure,
}

/// A number that a suite can be had with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// What it counts.
    pub what: &'static str,
    /// The least.
    pub min: u8,
    /// The most.
    pub max: u8,
    /// What the name alone stands for.
    pub usual: u8,
}

/// How messages are enciphered: all that is said of it anywhere. Lengths are in bytes.
pub struct Suite {
    /// Its number where two sides agree on one; 0x80 and above if it is insecure. 0: it is never agreed on.
    pub id: u8,
    /// As the user names it.
    pub name: &'static str,
    /// What stands behind the name and a colon, if it has a parameter.
    pub parameter: Option<Parameter>,
    /// Of the key.
    pub key_len: usize,
    /// Of the nonce; 0 if it has none.
    pub nonce_len: usize,
    /// Of the tag; 0 if it has none.
    pub tag_len: usize,
    /// A ciphertext is a multiple of this many.
    pub block_len: usize,
    /// Messages of a connection that may fail authentication before it must end.
    pub integrity_limit: u64,
    /// Whether it can be relied on.
    pub standing: Standing,
    /// Where it is specified.
    pub source: &'static str,
    /// Makes masks of a key that has [`Suite::key_len`] bytes; `None` for what makes no tag.
    pub mask: Option<fn(Level, &[u8]) -> Mask>,
    /// The library's, if it has it.
    pub(crate) library: Option<&'static Algorithm>,
    /// Makes one direction's state, of a key that has [`Suite::key_len`] bytes.
    pub(crate) bind: fn(Plan, &[u8]) -> Box<dyn Pipeline>,
}

/// A suite with its parameter: what users name, and sides agree on.
#[derive(Clone, Copy)]
pub struct Cipher {
    suite: &'static Suite,
    parameter: u8,
}

impl Cipher {
    /// Every cipher that two sides can agree on, in the order of their numbers; one with a parameter has the usual
    /// one.
    pub const ALL: [Cipher; 10] = [
        Cipher::AES_256_GCM,
        Cipher::AES_128_GCM,
        Cipher::CHACHA20_POLY1305,
        Cipher::AEGIS_128L,
        Cipher::AEGIS_256,
        Cipher::AEGIS_128X2,
        Cipher::NONE,
        Cipher::PES,
        Cipher::SAFER_SIMPLIFIED,
        Cipher::SAFER_K64,
    ];

    /// What is offered unless the user says otherwise, best first.
    pub const DEFAULT: [Cipher; 3] =
        [Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305, Cipher::AES_128_GCM];

    /// With the usual parameter.
    const fn of(suite: &'static Suite) -> Cipher {
        let parameter = match suite.parameter {
            Some(parameter) => parameter.usual,
            None => 0,
        };
        Cipher { suite, parameter }
    }

    /// The same suite with another parameter; `None` if it cannot be had with it.
    pub const fn with(self, parameter: u8) -> Option<Cipher> {
        match self.suite.parameter {
            Some(Parameter { min, max, .. }) if min <= parameter && parameter <= max => {
                Some(Cipher { suite: self.suite, parameter })
            }
            _ => None,
        }
    }

    /// Its entry.
    #[inline]
    pub const fn suite(self) -> &'static Suite {
        self.suite
    }

    /// Number and parameter, as two sides agree on them.
    pub const fn code(self) -> [u8; 2] {
        [self.suite.id, self.parameter]
    }

    /// The inverse of [`code`](Cipher::code); `None` for what this version does not know. What calls this has all suites in
    /// it; who has a list of its own looks there.
    pub fn from_code([id, parameter]: [u8; 2]) -> Option<Cipher> {
        let cipher = Cipher::ALL.into_iter().find(|cipher| cipher.id == id)?;
        if cipher.parameter == parameter { Some(cipher) } else { cipher.with(parameter) }
    }

    /// Whether a code is that of a cipher without authentication or without encryption worth the name, known or not.
    pub const fn is_code_insecure([id, _]: [u8; 2]) -> bool {
        id >= 0x80
    }

    /// True when there is no authentication or no encryption worth the name.
    pub const fn is_insecure(self) -> bool {
        matches!(self.suite.standing, Standing::Insecure)
    }

    /// What a user should know who chooses it; `None` for a standard.
    pub fn warning(self) -> Option<String> {
        match self.standing {
            Standing::Standard => None,
            Standing::Draft => {
                Some(format!("cipher {self} is a draft ({}), not a standard yet", self.source))
            }
            Standing::Insecure => Some(format!(
                "cipher {self} is insecure: whoever is in between can read and change everything"
            )),
        }
    }

    /// The names to choose from, `and` before the last: `a, b and c`.
    fn names(and: &str) -> String {
        let names: Vec<String> = Cipher::ALL
            .iter()
            .map(|cipher| match cipher.suite.parameter {
                Some(Parameter { min, max, .. }) => format!("{}[:{min} to {max}]", cipher.name),
                None => cipher.name.to_string(),
            })
            .collect();
        let (last, first) = names.split_last().expect("there are ciphers");
        format!("{} {and} {last}", first.join(", "))
    }
}

impl Deref for Cipher {
    type Target = Suite;

    #[inline]
    fn deref(&self) -> &Suite {
        self.suite
    }
}

impl PartialEq for Cipher {
    fn eq(&self, other: &Cipher) -> bool {
        (self.name, self.parameter) == (other.name, other.parameter)
    }
}

impl Eq for Cipher {}

impl Hash for Cipher {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.parameter).hash(state);
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Cipher::of(self.suite) {
            return f.pad(self.name);
        }
        f.pad(&format!("{}:{}", self.name, self.parameter))
    }
}

/// A name that no cipher has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCipher {
    found: String,
}

impl fmt::Display for UnknownCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cipher: expected {}, found {:?}", Cipher::names("or"), self.found)
    }
}

impl core::error::Error for UnknownCipher {}

impl FromStr for Cipher {
    type Err = UnknownCipher;

    fn from_str(text: &str) -> Result<Cipher, UnknownCipher> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let cipher = Cipher::ALL.into_iter().find(|cipher| cipher.name == name);
        let found = match parameter {
            None => cipher,
            Some(parameter) => parameter.parse().ok().and_then(|p| cipher?.with(p)),
        };
        found.ok_or_else(|| UnknownCipher { found: text.chars().take(40).collect() })
    }
}

impl Check {
    /// What there is of it beside the tags of a cipher.
    #[inline]
    pub fn beside(self, cipher: Cipher) -> Check {
        if self == Check::Cxor && cipher.tag_len > 0 { Check::None } else { self }
    }
}
