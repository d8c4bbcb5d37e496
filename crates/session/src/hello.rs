//! The messages that follow the TLS handshake: the client's Hello, the server's Choice or Refusal.
//!
//! Each is the whole content of one TLS application-data record, so TLS authenticates it; and all its
//! bytes go into the exporter's context, so two sides that saw different messages share no key.
//! Specified in `docs/records.md`, section 3. Numbers are big-endian.

use crate::cipher::Cipher;
use crate::error::Error;
use crate::kernel::Swap;
use core::fmt;

/// Version of the record protocol.
pub const VERSION: u8 = 1;
/// The most ciphers a Hello may offer.
pub const CIPHERS_MAX: usize = 32;
/// The longest message of this module, in bytes.
pub const MESSAGE_LEN_MAX: usize = 1024;

const HELLO: u8 = 1;
const CHOICE: u8 = 2;
const REFUSAL: u8 = 3;
const FLAG_INSECURE: u8 = 1;

/// What a client offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Highest version of the record protocol.
    pub version: u8,
    /// The client allows an insecure cipher.
    pub allow_insecure: bool,
    /// Elements of bodies, both ways.
    pub element: Swap,
    /// Longest body the client takes, bytes.
    pub body_len_max: u32,
    /// Known ciphers offered, best first. Unknown codes were skipped.
    pub ciphers: Vec<Cipher>,
}

/// What a server chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Version of the record protocol.
    pub version: u8,
    /// The cipher, both ways.
    pub cipher: Cipher,
    /// Elements of bodies, both ways: as asked.
    pub element: Swap,
    /// Longest body the server takes, bytes.
    pub body_len_max: u32,
}

/// Why a server refused a Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The client's key is not on the server's list.
    NotAllowed,
    /// No cipher is common to both lists.
    NoCommonCipher,
    /// The only common ciphers are insecure, and not both sides allow one.
    Insecure,
    /// The version is unknown.
    Version,
    /// The Hello breaks its rules.
    Malformed,
    /// A reason that this version does not know.
    Other(u8),
}

impl Refusal {
    fn code(self) -> u8 {
        match self {
            Refusal::NotAllowed => 1,
            Refusal::NoCommonCipher => 2,
            Refusal::Insecure => 3,
            Refusal::Version => 4,
            Refusal::Malformed => 5,
            Refusal::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Refusal {
        match code {
            1 => Refusal::NotAllowed,
            2 => Refusal::NoCommonCipher,
            3 => Refusal::Insecure,
            4 => Refusal::Version,
            5 => Refusal::Malformed,
            code => Refusal::Other(code),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotAllowed => f.write_str("the client's key is not on the server's list"),
            Refusal::NoCommonCipher => f.write_str("no common cipher"),
            Refusal::Insecure => f.write_str("an insecure cipher must be asked for on both sides"),
            Refusal::Version => f.write_str("unknown version of the record protocol"),
            Refusal::Malformed => f.write_str("malformed Hello"),
            Refusal::Other(code) => write!(f, "reason {code}"),
        }
    }
}

fn element_code(element: Swap) -> u8 {
    match element {
        Swap::None => 0,
        Swap::Bytes16 => 2,
        Swap::Bytes32 => 4,
        Swap::Bytes64 => 8,
    }
}

fn element_from_code(code: u8) -> Option<Swap> {
    Some(match code {
        0 => Swap::None,
        2 => Swap::Bytes16,
        4 => Swap::Bytes32,
        8 => Swap::Bytes64,
        _ => return None,
    })
}

impl Hello {
    /// Appends the message to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([HELLO, self.version, u8::from(self.allow_insecure) * FLAG_INSECURE]);
        out.push(element_code(self.element));
        out.extend(self.body_len_max.to_be_bytes());
        out.push(self.ciphers.len() as u8);
        self.ciphers.iter().for_each(|c| out.extend(c.code()));
        out.extend(0u16.to_be_bytes());
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything that is not one, with the place.
    pub fn parse(bytes: &[u8]) -> Result<Hello, Error> {
        let mut reader = Reader { what: "Hello", bytes, at: 0 };
        reader.exactly("message type 1", |t| t == HELLO)?;
        let version = reader.exactly("a version from 1", |v| v >= 1)?;
        let flags = reader.exactly("flags 0 or 1", |f| f <= FLAG_INSECURE)?;
        let element = reader.element()?;
        let body_len_max = reader.body_len_max()?;
        let count =
            reader.exactly("1 to 32 ciphers", |n| n >= 1 && usize::from(n) <= CIPHERS_MAX)?;
        let mut ciphers = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            // A cipher of a later version is skipped: what it is called here is nobody's business yet.
            ciphers.extend(Cipher::from_code(reader.array()?));
        }
        reader.extensions()?;
        let allow_insecure = flags & FLAG_INSECURE != 0;
        Ok(Hello { version, allow_insecure, element, body_len_max, ciphers })
    }
}

impl Choice {
    /// Appends the message to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([CHOICE, self.version]);
        out.extend(self.cipher.code());
        out.push(element_code(self.element));
        out.extend(self.body_len_max.to_be_bytes());
        out.extend(0u16.to_be_bytes());
    }
}

/// A server's answer to a Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It accepts.
    Choice(Choice),
    /// It refuses.
    Refusal(Refusal),
}

impl Answer {
    /// Appends the message to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Choice(choice) => choice.emit(out),
            Answer::Refusal(refusal) => out.extend([REFUSAL, refusal.code()]),
        }
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything that is not one, with the place.
    pub fn parse(bytes: &[u8]) -> Result<Answer, Error> {
        let mut reader = Reader { what: "Choice", bytes, at: 0 };
        if reader.exactly("message type 2 or 3", |t| t == CHOICE || t == REFUSAL)? == REFUSAL {
            let [code] = reader.array()?;
            reader.end()?;
            return Ok(Answer::Refusal(Refusal::from_code(code)));
        }
        let version = reader.exactly("version 1", |v| v == VERSION)?;
        let code: [u8; 2] = reader.array()?;
        let cipher = Cipher::from_code(code).ok_or(Error::Malformed {
            what: "Choice",
            expected: "a known cipher",
            found: u64::from(u16::from_be_bytes(code)),
            offset: 2,
        })?;
        let element = reader.element()?;
        let body_len_max = reader.body_len_max()?;
        reader.extensions()?;
        Ok(Answer::Choice(Choice { version, cipher, element, body_len_max }))
    }
}

/// A server's rule: the first cipher of the client's list that the server's list has and both allow.
///
/// # Errors
/// The reason to refuse.
pub fn choose(hello: &Hello, ciphers: &[Cipher], allow_insecure: bool) -> Result<Cipher, Refusal> {
    let both_allow = hello.allow_insecure && allow_insecure;
    let mut reason = Refusal::NoCommonCipher;
    for &cipher in hello.ciphers.iter().filter(|c| ciphers.contains(c)) {
        if both_allow || !cipher.is_insecure() {
            return Ok(cipher);
        }
        reason = Refusal::Insecure;
    }
    if hello.ciphers.iter().any(|c| c.is_insecure()) && !allow_insecure {
        reason = Refusal::Insecure;
    }
    Err(reason)
}

struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn malformed(&self, expected: &'static str, found: u64, offset: usize) -> Error {
        Error::Malformed { what: self.what, expected, found, offset }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.malformed("more bytes", self.bytes.len() as u64, self.at)),
        }
    }

    fn exactly(&mut self, expected: &'static str, rule: impl Fn(u8) -> bool) -> Result<u8, Error> {
        let [byte] = self.array()?;
        if rule(byte) {
            Ok(byte)
        } else {
            Err(self.malformed(expected, u64::from(byte), self.at - 1))
        }
    }

    fn element(&mut self) -> Result<Swap, Error> {
        let [code] = self.array()?;
        element_from_code(code).ok_or_else(|| {
            self.malformed("element length 0, 2, 4 or 8", u64::from(code), self.at - 1)
        })
    }

    fn body_len_max(&mut self) -> Result<u32, Error> {
        let len = u32::from_be_bytes(self.array()?);
        if len == 0 {
            return Err(self.malformed("a longest body from 1", 0, self.at - 4));
        }
        Ok(len)
    }

    /// Room for later versions: type, length, value. What is not known is skipped.
    fn extensions(&mut self) -> Result<(), Error> {
        let total = usize::from(u16::from_be_bytes(self.array()?));
        let end = self.at + total;
        if end != self.bytes.len() {
            return Err(self.malformed("extensions up to the end", total as u64, self.at - 2));
        }
        while self.at < end {
            let _type: [u8; 2] = self.array()?;
            let len = usize::from(u16::from_be_bytes(self.array()?));
            if len > end - self.at {
                return Err(self.malformed(
                    "an extension within the message",
                    len as u64,
                    self.at - 2,
                ));
            }
            self.at += len;
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Error> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.malformed("the end of the message", self.bytes.len() as u64, self.at))
        }
    }
}
