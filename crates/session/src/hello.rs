//! The messages that follow the TLS handshake: the client's Hello, the server's Choice or Refusal.
//!
//! Each is the whole content of one TLS application-data record, so TLS authenticates it; and all its
//! bytes go into the exporter's context, so two sides that saw different messages share no key.
//! Specified in `docs/records.md`, section 3. Numbers are big-endian.

use crate::error::Error;
use crate::record::HeaderProtection;
use crate::terms::Terms;
use core::ops::RangeInclusive;
use core::time::Duration;
use fusewire_kernels::{Cipher, Swap};

/// Version of the record protocol.
pub const VERSION: u8 = 1;
/// The most ciphers a Hello may offer.
pub const CIPHERS_MAX: usize = 32;
/// The longest message of this module, in bytes.
pub const MESSAGE_LEN_MAX: usize = 1024;

const HELLO: u8 = 1;
const CHOICE: u8 = 2;
const REFUSAL: u8 = 3;
/// The reason that says which clause it is about.
const TERMS_DIFFER: u8 = 7;
const FLAG_INSECURE: u8 = 1;
/// Type of the extension that asks for shared memory and offers it.
const SHARED_MEMORY: u16 = 1;
/// Type of the extension that says how long a connection may be silent.
const IDLE_TIMEOUT: u16 = 2;
/// Type of the extension that asks for header protection and agrees to it.
const HEADER_PROTECTION: u16 = 3;
/// Type of the extension that says how many ADUs follow the Hello.
const EARLY: u16 = 4;
/// Type of the extension that says what both applications must have alike, and that they have.
const TERMS: u16 = 5;
/// The longest name of a Unix socket in the abstract namespace, in bytes.
pub const SOCKET_NAME_LEN_MAX: usize = 107;

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
    /// The client asks to go on over shared memory.
    pub shared_memory: bool,
    /// The client gives a connection up of which nothing was heard for so long: whole milliseconds, from 1.
    pub idle_timeout: Option<Duration>,
    /// The client wants headers protected, with so much padding at least, and does without a server that does not.
    pub protection: Option<HeaderProtection>,
    /// So many ADUs follow within the handshake.
    pub early: u8,
    /// What the server's application must have alike; none where nothing is asked.
    pub terms: Terms,
}

/// What a server chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Version of the record protocol.
    pub version: u8,
    /// The cipher, both ways.
    pub cipher: Cipher,
    /// Elements of bodies, both ways: as asked.
    pub element: Swap,
    /// Longest body the server takes, bytes.
    pub body_len_max: u32,
    /// Where the server waits with its shared memory, if it was asked for and agrees: the name of a
    /// Unix socket in the abstract namespace.
    pub shared_memory: Option<Vec<u8>>,
    /// The server gives a connection up of which nothing was heard for so long: whole milliseconds, from 1.
    pub idle_timeout: Option<Duration>,
    /// Headers are protected, both ways, if that was asked for: with the padding that was, or more.
    pub protection: Option<HeaderProtection>,
    /// The terms that were asked are the server's, too.
    pub terms: bool,
}

/// Why a server refused a Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The client's key is not on the server's list.
    #[error("the client's key is not on the server's list")]
    NotAllowed,
    /// No cipher is common to both lists.
    #[error("no common cipher")]
    NoCommonCipher,
    /// The only common ciphers are insecure, and not both sides allow one.
    #[error("an insecure cipher must be asked for on both sides")]
    Insecure,
    /// The version is unknown.
    #[error("unknown version of the record protocol")]
    Version,
    /// The Hello breaks its rules.
    #[error("malformed Hello")]
    Malformed,
    /// One side wants headers of records protected, and the other does not.
    #[error("header protection must be asked for on both sides")]
    HeaderProtection,
    /// The two applications have not the same terms. Which is the first that differs.
    #[error("the two programs are of different specifications: clause {0} differs")]
    Terms(u8),
    /// A reason that this version does not know.
    #[error("reason {0}")]
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
            Refusal::HeaderProtection => 6,
            Refusal::Terms(_) => TERMS_DIFFER,
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
            6 => Refusal::HeaderProtection,
            TERMS_DIFFER => Refusal::Terms(0),
            code => Refusal::Other(code),
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
        let Hello { idle_timeout, protection, .. } = *self;
        let shared_memory = self.shared_memory.then_some(&[][..]);
        let early = (self.early > 0).then_some(self.early);
        let terms = (!self.terms.is_empty()).then(|| self.terms.bytes());
        Extensions { shared_memory, idle_timeout, protection, early, terms }.emit(out);
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything that is not one, with the place.
    pub fn parse(bytes: &[u8]) -> Result<Hello, Error> {
        Hello::parse_with(bytes, Cipher::from_code).map(|(hello, _)| hello)
    }

    /// [`Hello::parse`], for who knows these ciphers alone; and whether an insecure one is offered, known or not. Suites
    /// that are not among them need not be in the program.
    pub(crate) fn parse_knowing(bytes: &[u8], known: &[Cipher]) -> Result<(Hello, bool), Error> {
        Hello::parse_with(bytes, |code| of_code(known, code))
    }

    fn parse_with(
        bytes: &[u8],
        cipher: impl Fn([u8; 2]) -> Option<Cipher>,
    ) -> Result<(Hello, bool), Error> {
        let mut reader = Reader { what: "Hello", bytes, at: 0 };
        reader.exactly("message type 1", |t| t == HELLO)?;
        let version = reader.exactly("a version from 1", |v| v >= 1)?;
        let flags = reader.exactly("flags 0 or 1", |f| f <= FLAG_INSECURE)?;
        let element = reader.element()?;
        let body_len_max = reader.body_len_max()?;
        let count =
            reader.exactly("1 to 32 ciphers", |n| n >= 1 && usize::from(n) <= CIPHERS_MAX)?;
        let (mut ciphers, mut is_insecure) = (Vec::with_capacity(usize::from(count)), false);
        for _ in 0..count {
            let code = reader.array()?;
            is_insecure |= Cipher::is_code_insecure(code);
            // A cipher of a later version is skipped: what it is called here is nobody's business yet.
            ciphers.extend(cipher(code));
        }
        let found = reader.extensions(0..=0)?;
        let Extensions { shared_memory, idle_timeout, protection, early, terms } = found;
        let terms = match terms {
            Some(value) => Terms::from_bytes(value).ok_or_else(|| {
                reader.malformed("1 to 128 terms of 4 bytes", value.len() as u64, reader.at)
            })?,
            None => Terms::default(),
        };
        let hello = Hello {
            version,
            allow_insecure: flags & FLAG_INSECURE != 0,
            element,
            body_len_max,
            ciphers,
            shared_memory: shared_memory.is_some(),
            idle_timeout,
            protection,
            early: early.unwrap_or(0),
            terms,
        };
        Ok((hello, is_insecure))
    }
}

impl Choice {
    /// Appends the message to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend([CHOICE, self.version]);
        out.extend(self.cipher.code());
        out.push(element_code(self.element));
        out.extend(self.body_len_max.to_be_bytes());
        let Choice { idle_timeout, protection, .. } = *self;
        let shared_memory = self.shared_memory.as_deref();
        let terms = self.terms.then_some(&[][..]);
        Extensions { shared_memory, idle_timeout, protection, early: None, terms }.emit(out);
    }
}

/// A server's answer to a Hello.
#[derive(Clone, Debug, PartialEq, Eq)]
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
            Answer::Refusal(refusal) => {
                out.extend([REFUSAL, refusal.code()]);
                if let Refusal::Terms(at) = refusal {
                    out.push(*at);
                }
            }
        }
    }

    /// Reads a whole message.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything that is not one, with the place.
    pub fn parse(bytes: &[u8]) -> Result<Answer, Error> {
        Answer::parse_with(bytes, Cipher::from_code)
    }

    /// [`Answer::parse`], for who knows these ciphers alone.
    pub(crate) fn parse_knowing(bytes: &[u8], known: &[Cipher]) -> Result<Answer, Error> {
        Answer::parse_with(bytes, |code| of_code(known, code))
    }

    fn parse_with(
        bytes: &[u8],
        cipher: impl Fn([u8; 2]) -> Option<Cipher>,
    ) -> Result<Answer, Error> {
        let mut reader = Reader { what: "Choice", bytes, at: 0 };
        if reader.exactly("message type 2 or 3", |t| t == CHOICE || t == REFUSAL)? == REFUSAL {
            let refusal = match reader.array()? {
                [TERMS_DIFFER] => Refusal::Terms(reader.array::<1>()?[0]),
                [code] => Refusal::from_code(code),
            };
            reader.end()?;
            return Ok(Answer::Refusal(refusal));
        }
        let version = reader.exactly("version 1", |v| v == VERSION)?;
        let code: [u8; 2] = reader.array()?;
        let cipher = cipher(code).ok_or(Error::Malformed {
            what: "Choice",
            expected: KNOWN_CIPHER,
            found: u64::from(u16::from_be_bytes(code)),
            offset: 2,
        })?;
        let element = reader.element()?;
        let body_len_max = reader.body_len_max()?;
        let found = reader.extensions(1..=SOCKET_NAME_LEN_MAX)?;
        let Extensions { shared_memory, idle_timeout, protection, terms, .. } = found;
        if let Some(value @ [_, ..]) = terms {
            return Err(reader.malformed("terms without a value", value.len() as u64, reader.at));
        }
        Ok(Answer::Choice(Choice {
            version,
            cipher,
            element,
            body_len_max,
            shared_memory: shared_memory.map(<[u8]>::to_vec),
            idle_timeout,
            protection,
            terms: terms.is_some(),
        }))
    }
}

/// What is expected of a Choice's cipher.
const KNOWN_CIPHER: &str = "a known cipher";

fn of_code(known: &[Cipher], code: [u8; 2]) -> Option<Cipher> {
    known.iter().find(|cipher| cipher.code() == code).copied()
}

/// Why a client refuses a Choice that cannot be read: its cipher is none of those that were offered.
pub(crate) fn refused_cipher(error: &Error, allow_insecure: bool) -> Option<Refusal> {
    let Error::Malformed { expected: KNOWN_CIPHER, found, .. } = *error else { return None };
    let code = (found as u16).to_be_bytes();
    Some(match Cipher::is_code_insecure(code) && !allow_insecure {
        true => Refusal::Insecure,
        false => Refusal::NoCommonCipher,
    })
}

/// A server's rule: the first cipher of the client's list that the server's list has and both allow; one that can protect
/// headers, if that is asked for.
///
/// # Errors
/// The reason to refuse.
pub fn choose(
    (hello, offers_insecure): (&Hello, bool),
    ciphers: &[Cipher],
    allow_insecure: bool,
) -> Result<Cipher, Refusal> {
    let both_allow = hello.allow_insecure && allow_insecure;
    let mut reason = Refusal::NoCommonCipher;
    let can = |c: &&Cipher| hello.protection.is_none() || c.mask.is_some();
    for &cipher in hello.ciphers.iter().filter(|c| ciphers.contains(c)).filter(can) {
        if both_allow || !cipher.is_insecure() {
            return Ok(cipher);
        }
        reason = Refusal::Insecure;
    }
    if offers_insecure && !allow_insecure {
        reason = Refusal::Insecure;
    }
    Err(reason)
}

/// What stands behind a message's fixed fields.
#[derive(Default)]
struct Extensions<'a> {
    shared_memory: Option<&'a [u8]>,
    idle_timeout: Option<Duration>,
    protection: Option<HeaderProtection>,
    early: Option<u8>,
    terms: Option<&'a [u8]>,
}

impl Extensions<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend([0, 0]);
        let mut emit = |kind: u16, value: &[u8]| {
            out.extend(kind.to_be_bytes());
            out.extend((value.len() as u16).to_be_bytes());
            out.extend(value);
        };
        if let Some(value) = self.shared_memory {
            emit(SHARED_MEMORY, value);
        }
        if let Some(timeout) = self.idle_timeout {
            let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
            emit(IDLE_TIMEOUT, &ms.to_be_bytes());
        }
        if let Some(protection) = self.protection {
            emit(HEADER_PROTECTION, &[protection.exponent()]);
        }
        if let Some(count) = self.early {
            emit(EARLY, &[count]);
        }
        if let Some(value) = self.terms {
            emit(TERMS, value);
        }
        let len = (out.len() - at - 2) as u16;
        out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
}

struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
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

    /// Type, length, value; what is not known is skipped. The value of the one for shared memory has a length
    /// in `lens`.
    fn extensions(&mut self, lens: RangeInclusive<usize>) -> Result<Extensions<'a>, Error> {
        let total = usize::from(u16::from_be_bytes(self.array()?));
        let end = self.at + total;
        if end != self.bytes.len() {
            return Err(self.malformed("extensions up to the end", total as u64, self.at - 2));
        }
        let mut found = Extensions::default();
        while self.at < end {
            let kind = u16::from_be_bytes(self.array()?);
            let len = usize::from(u16::from_be_bytes(self.array()?));
            let bytes = self.bytes;
            let Some(value) = bytes[..end].get(self.at..self.at + len) else {
                let expected = "an extension within the message";
                return Err(self.malformed(expected, len as u64, self.at - 2));
            };
            match kind {
                SHARED_MEMORY if found.shared_memory.is_none() && lens.contains(&len) => {
                    found.shared_memory = Some(value);
                }
                SHARED_MEMORY => {
                    let expected = "one extension for shared memory, of the length that it has in this message";
                    return Err(self.malformed(expected, len as u64, self.at - 2));
                }
                IDLE_TIMEOUT => {
                    let ms = <[u8; 4]>::try_from(value).map_or(0, u32::from_be_bytes);
                    if ms == 0 || found.idle_timeout.is_some() {
                        let expected = "one idle timeout of 4 bytes, from 1 ms";
                        return Err(self.malformed(expected, len as u64, self.at - 2));
                    }
                    found.idle_timeout = Some(Duration::from_millis(u64::from(ms)));
                }
                HEADER_PROTECTION => {
                    let exponent = <[u8; 1]>::try_from(value).ok();
                    let asked = exponent.and_then(|[e]| HeaderProtection::from_exponent(e));
                    if asked.is_none() || found.protection.is_some() {
                        let expected = "one header protection of 1 byte, at most 10";
                        return Err(self.malformed(expected, len as u64, self.at - 2));
                    }
                    found.protection = asked;
                }
                EARLY => {
                    let count = <[u8; 1]>::try_from(value).map_or(0, |[count]| count);
                    if count == 0 || found.early.is_some() {
                        let expected = "one number of ADUs of 1 byte, from 1";
                        return Err(self.malformed(expected, len as u64, self.at - 2));
                    }
                    found.early = Some(count);
                }
                TERMS if found.terms.is_none() => found.terms = Some(value),
                TERMS => {
                    return Err(self.malformed("one extension of terms", len as u64, self.at - 2));
                }
                _ => {}
            }
            self.at += len;
        }
        Ok(found)
    }

    fn end(&self) -> Result<(), Error> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.malformed("the end of the message", self.bytes.len() as u64, self.at))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: VERSION,
            allow_insecure: true,
            element: Swap::Bytes32,
            body_len_max: 70_000,
            ciphers: vec![Cipher::SAFER_K64.with(3).unwrap(), Cipher::AES_256_GCM, Cipher::NONE],
            shared_memory: false,
            idle_timeout: None,
            protection: None,
            early: 0,
            terms: Terms::default(),
        }
    }

    fn choice() -> Choice {
        Choice {
            version: VERSION,
            cipher: Cipher::AES_128_GCM,
            element: Swap::Bytes64,
            body_len_max: 9,
            shared_memory: None,
            idle_timeout: None,
            protection: None,
            terms: false,
        }
    }

    fn emitted(emit: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        emit(&mut out);
        out
    }

    #[test]
    fn messages_round_trip() {
        assert_eq!(Hello::parse(&emitted(|o| hello().emit(o))).unwrap(), hello());
        for refusal in (0..=255).map(Refusal::from_code).chain((0..=255).map(Refusal::Terms)) {
            let answer = Answer::Refusal(refusal);
            assert_eq!(Answer::parse(&emitted(|o| answer.emit(o))).unwrap(), answer);
        }
        for shared_memory in [None, Some(vec![0]), Some(vec![b'x'; SOCKET_NAME_LEN_MAX])] {
            let answer = Answer::Choice(Choice { shared_memory, ..choice() });
            assert_eq!(Answer::parse(&emitted(|o| answer.emit(o))).unwrap(), answer);
        }
        let idle_timeout = Some(Duration::from_millis(30_000));
        let both = Choice { shared_memory: Some(vec![7]), idle_timeout, ..choice() };
        let answer = Answer::Choice(both);
        assert_eq!(Answer::parse(&emitted(|o| answer.emit(o))).unwrap(), answer);
        let asking = Hello { shared_memory: true, idle_timeout, ..hello() };
        assert_eq!(Hello::parse(&emitted(|o| asking.emit(o))).unwrap(), asking);
    }

    #[test]
    fn shared_memory_is_asked_for_without_a_value_and_offered_with_a_name() {
        let with = |mut bytes: Vec<u8>, extensions: &[u8]| {
            bytes.truncate(bytes.len() - 2);
            bytes.extend((extensions.len() as u16).to_be_bytes());
            bytes.extend(extensions);
            bytes
        };
        let long = [&[0, 1, 0, 108][..], &[7; 108]].concat();
        for wrong in [&[0, 1, 0, 1, 9][..], &[0, 1, 0, 0, 0, 1, 0, 0]] {
            assert!(Hello::parse(&with(emitted(|o| hello().emit(o)), wrong)).is_err(), "{wrong:?}");
        }
        for wrong in [&[0, 1, 0, 0][..], &long, &[0, 1, 0, 1, 9, 0, 1, 0, 1, 9]] {
            let bytes = with(emitted(|o| choice().emit(o)), wrong);
            assert!(Answer::parse(&bytes).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_idle_timeout_is_said_once_in_four_bytes() {
        let with = |extensions: &[u8]| {
            let mut bytes = emitted(|o| hello().emit(o));
            bytes.truncate(bytes.len() - 2);
            bytes.extend((extensions.len() as u16).to_be_bytes());
            bytes.extend(extensions);
            Hello::parse(&bytes).map(|hello| hello.idle_timeout)
        };
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(with(&[0, 2, 0, 4, 0, 0, 0x75, 0x30]).unwrap(), ms(30_000));
        assert_eq!(with(&[0, 2, 0, 4, 255, 255, 255, 255]).unwrap(), ms(u32::MAX.into()));
        let once = [0, 2, 0, 4, 0, 0, 0, 1];
        for wrong in
            [&[0, 2, 0, 4, 0, 0, 0, 0][..], &[0, 2, 0, 0], &[0, 2, 0, 2, 0, 1], &[once; 2].concat()]
        {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
        // What no 32 bits can say is said as the most that they can, and less than one as one.
        for (said, heard) in
            [(Duration::MAX, ms(u32::MAX.into())), (Duration::from_nanos(1), ms(1))]
        {
            let asking = Hello { idle_timeout: Some(said), ..hello() };
            assert_eq!(Hello::parse(&emitted(|o| asking.emit(o))).unwrap().idle_timeout, heard);
        }
    }

    #[test]
    fn header_protection_is_said_once_in_one_byte() {
        let with = |extensions: &[u8]| {
            let mut bytes = emitted(|o| choice().emit(o));
            bytes.truncate(bytes.len() - 2);
            bytes.extend((extensions.len() as u16).to_be_bytes());
            bytes.extend(extensions);
            Answer::parse(&bytes)
        };
        for exponent in 0..=10 {
            let protection = HeaderProtection::with_padding(1 << exponent);
            let agreed = Choice { protection, ..choice() };
            assert_eq!(with(&[0, 3, 0, 1, exponent]).unwrap(), Answer::Choice(agreed.clone()));
            let answer = Answer::Choice(agreed);
            assert_eq!(Answer::parse(&emitted(|o| answer.emit(o))).unwrap(), answer);
            let asking = Hello { protection, ..hello() };
            assert_eq!(Hello::parse(&emitted(|o| asking.emit(o))).unwrap(), asking);
        }
        for wrong in
            [&[0, 3, 0, 0][..], &[0, 3, 0, 1, 11], &[0, 3, 0, 2, 0, 0], &[0, 3, 0, 1, 0].repeat(2)]
        {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn terms_are_said_once_and_answered_by_an_empty_value() {
        for texts in [&["a"][..], &["a", "b"], &["t"; 300]] {
            let asking = Hello { terms: Terms::of(texts), ..hello() };
            let bytes = emitted(|o| asking.emit(o));
            assert!(bytes.len() <= MESSAGE_LEN_MAX);
            assert_eq!(Hello::parse(&bytes).unwrap(), asking);
        }
        let answer = Answer::Choice(Choice { terms: true, ..choice() });
        assert_eq!(Answer::parse(&emitted(|o| answer.emit(o))).unwrap(), answer);
        let with = |mut bytes: Vec<u8>, extensions: &[u8]| {
            bytes.truncate(bytes.len() - 2);
            bytes.extend((extensions.len() as u16).to_be_bytes());
            bytes.extend(extensions);
            bytes
        };
        let once = [0, 5, 0, 4, 1, 2, 3, 4];
        for wrong in [&[0, 5, 0, 0][..], &[0, 5, 0, 3, 1, 2, 3], &once.repeat(2)] {
            assert!(Hello::parse(&with(emitted(|o| hello().emit(o)), wrong)).is_err(), "{wrong:?}");
        }
        for wrong in [&once[..], &[0, 5, 0, 0].repeat(2)] {
            let bytes = with(emitted(|o| choice().emit(o)), wrong);
            assert!(Answer::parse(&bytes).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn no_changed_byte_means_the_same() {
        let bytes = emitted(|o| hello().emit(o));
        let answer = emitted(|o| choice().emit(o));
        for (bytes, same) in [
            (
                &bytes,
                &(|b: &[u8]| Hello::parse(b).is_ok_and(|h| h == hello())) as &dyn Fn(&[u8]) -> bool,
            ),
            (&answer, &|b| Answer::parse(b).is_ok_and(|a| a == Answer::Choice(choice()))),
        ] {
            assert!(same(bytes));
            for at in 0..bytes.len() {
                for byte in 0..=255 {
                    let mut changed = bytes.clone();
                    changed[at] = byte;
                    assert_eq!(same(&changed), byte == bytes[at], "byte {at} as {byte}");
                }
                assert!(!same(&bytes[..at]), "cut at {at}");
            }
            assert!(!same(&[bytes, &[0][..]].concat()));
        }
    }

    #[test]
    fn extensions_and_ciphers_of_later_versions_are_skipped() {
        let mut bytes = emitted(|o| hello().emit(o));
        bytes[9..11].copy_from_slice(&[0x7f, 0x7f]);
        let end = bytes.len() - 2;
        bytes.truncate(end);
        bytes.extend([0, 10, 0xab, 0xcd, 0, 2, 1, 2, 0, 0, 0, 0]);
        let parsed = Hello::parse(&bytes).unwrap();
        assert_eq!(parsed.ciphers, [Cipher::AES_256_GCM, Cipher::NONE]);
        let len = bytes.len();
        bytes[len - 1] = 1;
        let wrong = Hello::parse(&bytes).unwrap_err();
        assert!(
            matches!(wrong, Error::Malformed { expected: "an extension within the message", .. }),
            "{wrong}"
        );
    }

    #[test]
    fn the_first_common_cipher_that_both_allow_is_chosen() {
        let mut hello = hello();
        let all = [Cipher::AES_256_GCM, Cipher::NONE, Cipher::SAFER_K64.with(3).unwrap()];
        assert_eq!(choose((&hello, true), &all, true), Ok(Cipher::SAFER_K64.with(3).unwrap()));
        assert_eq!(choose((&hello, true), &all, false), Ok(Cipher::AES_256_GCM));
        assert_eq!(
            choose((&hello, true), &[Cipher::SAFER_K64.with(4).unwrap()], true),
            Err(Refusal::NoCommonCipher)
        );
        assert_eq!(choose((&hello, true), &[Cipher::AES_128_GCM], false), Err(Refusal::Insecure));
        hello.allow_insecure = false;
        assert_eq!(choose((&hello, true), &all, true), Ok(Cipher::AES_256_GCM));
        assert_eq!(choose((&hello, true), &all[1..], true), Err(Refusal::Insecure));
    }
}
