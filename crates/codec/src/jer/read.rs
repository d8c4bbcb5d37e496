//! JSON into values, totally and within limits. White space is passed behind what was read, so that a decoder always
//! stands at the next part.

use crate::cursor::Cursor;
use crate::types::characters::{self, Coding};
use crate::types::{Any, BitString, Octets, Oid, RelativeOid, number};
use crate::{Error, Limits, Problem, SliceSource, Source};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// Reads JER from a source that is memory: what JSON means shows only behind it.
pub type Decoder<S> = Cursor<S, Json>;

/// What [`Decoder`] knows of its syntax: nothing but what it reads.
#[derive(Debug)]
pub struct Json;

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

impl<'a, S: Source<'a>> Decoder<S> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, limits: Limits) -> Self {
        let mut decoder = Cursor::of(source, Json, limits);
        decoder.pass(0);
        decoder
    }

    /// Goes on behind the next `len` bytes, which there are, and the space behind them.
    fn pass(&mut self, len: usize) {
        let behind = self.source.ahead().get(len..).unwrap_or_default();
        let space = behind.iter().take_while(|&&byte| is_space(byte)).count();
        self.source.lend(len + space);
    }

    fn is_next(&self, byte: u8) -> bool {
        self.source.ahead().first() == Some(&byte)
    }

    /// Passes a byte if it is the next.
    fn is(&mut self, byte: u8) -> bool {
        let is_next = self.is_next(byte);
        if is_next {
            self.pass(1);
        }
        is_next
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Error> {
        match self.is(byte) {
            true => Ok(()),
            false => Err(self.wrong(what)),
        }
    }

    #[cold]
    fn wrong(&self, what: &'static str) -> Error {
        match (self.source.ahead(), self.remaining()) {
            ([], 0) => self.error(Problem::Truncated { needed: 1, left: 0 }),
            ([], _) => self.error(Problem::Unsupported("a source that does not lend")),
            _ => self.error(Problem::Contents(what)),
        }
    }

    /// An object: `member` reads the value of each member, whose name it gets.
    ///
    /// # Errors
    /// Truncated or malformed, or as `member`'s own.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.expect(b'{', "an object")?;
        if self.is(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            member(self, &name)?;
            if self.is(b'}') {
                return Ok(());
            }
            self.expect(b',', "an object")?;
        }
    }

    fn name(&mut self) -> Result<Cow<'a, str>, Error> {
        let name = self.string()?;
        self.expect(b':', "an object")?;
        Ok(name)
    }

    /// A member, the component `name`, which may be there but once.
    ///
    /// # Errors
    /// It was there before, or as `read`'s own.
    pub fn once<T>(
        &mut self,
        place: &mut Option<T>,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<(), Error> {
        if place.is_some() {
            return Err(self.error(Problem::Twice).in_field(name));
        }
        *place = Some(self.field(name, read)?);
        Ok(())
    }

    /// The error of a component that must be there and was not.
    #[cold]
    pub fn missing(&self, name: &'static str) -> Error {
        self.error(Problem::Missing).in_field(name)
    }

    /// The error of a member that the type does not have.
    #[cold]
    pub fn unexpected(&self, type_name: &'static str) -> Error {
        self.error(Problem::Contents(type_name))
    }

    /// A CHOICE: an object with one member. `read` gets its name, and all that is left from the object on.
    ///
    /// # Errors
    /// Truncated, malformed or with other members, or as `read`'s own.
    pub fn alternative<T>(
        &mut self,
        read: impl FnOnce(&mut Self, &str, &'a [u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        const WHAT: &str = "an object with one alternative";
        let text = self.source.ahead();
        self.expect(b'{', WHAT)?;
        let name = self.name()?;
        let value = read(self, &name, text)?;
        self.expect(b'}', WHAT)?;
        Ok(value)
    }

    /// An alternative behind `...` that this version does not know, as it is encoded: `text`, which
    /// [`Decoder::alternative`] gives, up to its end.
    ///
    /// # Errors
    /// Truncated or malformed.
    pub fn unknown_alternative(&mut self, name: &str, text: &'a [u8]) -> Result<Any<'a>, Error> {
        if name == "$unknown" {
            return self.digits().map(Any);
        }
        self.skip()?;
        let len = text.len() - self.source.ahead().len() + 1;
        Ok(Any::new(text.get(..len).unwrap_or_default()))
    }

    /// A SEQUENCE OF, each element read by `read`.
    ///
    /// # Errors
    /// Truncated or malformed, as `read`'s own, or more than the limit on the count.
    pub fn array<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut elements = Vec::new();
        self.nested(|from| {
            from.expect(b'[', "an array")?;
            if from.is(b']') {
                return Ok(());
            }
            loop {
                from.budget.elements(1, from.position())?;
                elements.push(read(from).map_err(|error| error.in_element(elements.len()))?);
                if from.is(b']') {
                    return Ok(());
                }
                from.expect(b',', "an array")?;
            }
        })?;
        Ok(elements)
    }

    /// Passes over any value, and gives its text.
    ///
    /// # Errors
    /// Truncated, malformed, or nested too deep.
    pub fn skip(&mut self) -> Result<&'a [u8], Error> {
        let text = self.source.ahead();
        self.nested(|from| match from.source.ahead().first() {
            Some(b'{') => from.object(|from, _| from.skip().map(drop)),
            Some(b'[') => from.array(|from| from.skip().map(drop)).map(drop),
            Some(b'"') => from.string().map(drop),
            Some(b't' | b'f') => from.bool().map(drop),
            Some(b'n') => from.null(),
            _ => from.number().map(drop),
        })?;
        let text = &text[..text.len() - self.source.ahead().len()];
        Ok(text.trim_ascii_end())
    }

    /// A string. It is copied if something in it is escaped.
    ///
    /// # Errors
    /// Truncated, malformed, no UTF-8, or beyond the limit on size.
    pub fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        const WHAT: &str = "a string";
        let [b'"', text @ ..] = self.source.ahead() else { return Err(self.wrong(WHAT)) };
        let (mut len, mut is_escaped) = (0, false);
        while let Some(&byte) = text.get(len) {
            match byte {
                b'"' => break,
                b'\\' => is_escaped = true,
                ..0x20 => return Err(self.wrong(WHAT)),
                _ => {}
            }
            len += if byte == b'\\' { 2 } else { 1 };
        }
        let Some(bytes) = text.get(..len).filter(|_| len < text.len()) else {
            return Err(self.error(Problem::Truncated { needed: len + 2, left: text.len() + 1 }));
        };
        let plain = core::str::from_utf8(bytes).map_err(|_| self.wrong("UTF-8"))?;
        let string = match is_escaped {
            true => {
                self.budget.bytes(len as u64, self.position())?;
                Cow::Owned(unescaped(plain).ok_or_else(|| self.wrong(WHAT))?)
            }
            false => Cow::Borrowed(plain),
        };
        self.pass(len + 2);
        Ok(string)
    }

    /// A number, as it is written.
    fn number(&mut self) -> Result<&'a str, Error> {
        let text = self.source.ahead();
        let len = number_len(text).ok_or_else(|| self.wrong("a number"))?;
        self.pass(len);
        Ok(core::str::from_utf8(&text[..len]).unwrap_or_default())
    }

    fn literal(&mut self, literal: &str) -> bool {
        let is_next = self.source.ahead().starts_with(literal.as_bytes());
        if is_next {
            self.pass(literal.len());
        }
        is_next
    }

    /// BOOLEAN.
    ///
    /// # Errors
    /// Truncated, or neither true nor false.
    pub fn bool(&mut self) -> Result<bool, Error> {
        let is_true = self.literal("true");
        match is_true || self.literal("false") {
            true => Ok(is_true),
            false => Err(self.wrong("true or false")),
        }
    }

    /// NULL.
    ///
    /// # Errors
    /// Truncated, or not null.
    pub fn null(&mut self) -> Result<(), Error> {
        match self.literal("null") {
            true => Ok(()),
            false => Err(self.wrong("null")),
        }
    }

    /// An INTEGER of any width: two's complement, most significant byte first, in as few bytes as it takes.
    ///
    /// # Errors
    /// Truncated, or no whole number, or one of more digits than are read.
    pub fn integer(&mut self) -> Result<Vec<u8>, Error> {
        if self.is_next(b'{') {
            return Ok(number::minimal(&self.octets()?).to_vec());
        }
        let offset = self.position();
        let text = self.number()?;
        number::from_decimal(text).ok_or_else(|| Problem::Contents("a whole number").at(offset))
    }

    /// An INTEGER of the machine.
    ///
    /// # Errors
    /// As [`Decoder::integer`], or it is wider.
    pub fn machine_integer<T: TryFrom<i128>>(&mut self) -> Result<T, Error> {
        let offset = self.position();
        let bytes = self.integer()?;
        let number = number::to_i128(&bytes).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| Problem::IntegerTooWide { bytes: bytes.len() }.at(offset))
    }

    /// An ENUMERATED: the item of a name or, where there may be others, of a number.
    ///
    /// # Errors
    /// Truncated, or neither.
    pub fn item<T>(
        &mut self,
        type_name: &'static str,
        named: impl FnOnce(&str) -> Option<T>,
        numbered: impl FnOnce(i64) -> Option<T>,
    ) -> Result<T, Error> {
        let offset = self.position();
        let item = match self.is_next(b'"') {
            true => named(&self.string()?),
            false => self.number()?.parse().ok().and_then(numbered),
        };
        item.ok_or_else(|| Problem::Contents(type_name).at(offset))
    }

    /// REAL (X.697 clause 23).
    ///
    /// # Errors
    /// Truncated, no number, or one beyond those of the machine.
    pub fn real(&mut self) -> Result<f64, Error> {
        let offset = self.position();
        let real = match self.is_next(b'"') {
            true => match &*self.string()? {
                "INF" => Some(f64::INFINITY),
                "-INF" => Some(f64::NEG_INFINITY),
                "NaN" => Some(f64::NAN),
                "-0" => Some(-0.0),
                _ => None,
            },
            false => self.number()?.parse().ok().filter(|real: &f64| real.is_finite()),
        };
        real.ok_or_else(|| Problem::Contents("a number").at(offset))
    }

    /// BIT STRING (X.697 clause 24): with its length beside it, or of the one that its type has.
    ///
    /// # Errors
    /// Truncated or malformed, or beyond the limit on size.
    pub fn bits(&mut self, fixed: Option<usize>) -> Result<BitString<'static>, Error> {
        const WHAT: &str = "a BIT STRING with its length";
        let offset = self.position();
        let (mut value, mut length) = (None, None);
        match fixed.filter(|_| self.is_next(b'"')) {
            Some(len) => (value, length) = (Some(self.digits()?), Some(len)),
            None => self.object(|from, name| match name {
                "value" => from.once(&mut value, "value", Self::digits),
                "length" => from.once(&mut length, "length", Self::machine_integer),
                _ => Err(from.unexpected(WHAT)),
            })?,
        }
        let bits = value.zip(length).filter(|(bytes, len)| len.div_ceil(8) == bytes.len());
        let (bytes, len) = bits.ok_or_else(|| Problem::Contents(WHAT).at(offset))?;
        let (mut bytes, unused) = (bytes.into_vec(), (len.wrapping_neg() % 8) as u8);
        if let Some(last) = bytes.last_mut() {
            *last &= 0xff << unused;
        }
        Ok(BitString::new(bytes, unused).unwrap_or_default())
    }

    /// An OCTET STRING: hexadecimal digits.
    ///
    /// # Errors
    /// Truncated, of other characters, or beyond the limit on size.
    pub fn digits(&mut self) -> Result<Octets<'static>, Error> {
        let offset = self.position();
        let text = self.string()?;
        self.budget.bytes(text.len() as u64 / 2, offset)?;
        match data_encoding::HEXUPPER_PERMISSIVE.decode(text.as_bytes()) {
            Ok(bytes) => Ok(Octets::from(bytes)),
            Err(_) => Err(Problem::Contents("hexadecimal digits").at(offset)),
        }
    }

    /// What there is no text for, as its octets.
    ///
    /// # Errors
    /// Truncated or malformed, or beyond the limit on size.
    pub fn octets(&mut self) -> Result<Octets<'static>, Error> {
        self.alternative(|from, name, _| match name {
            "octets" => from.digits(),
            _ => Err(from.unexpected("octets")),
        })
    }

    /// An open type, as it is: JSON, or the octets that it was written as.
    ///
    /// # Errors
    /// Truncated, malformed, or nested too deep.
    pub fn open(&mut self) -> Result<Any<'a>, Error> {
        let text = self.skip()?;
        let mut octets = Decoder::new(SliceSource::new(text), Limits::default());
        Ok(octets.octets().map_or(Any::new(text), Any))
    }

    /// A character string, in its encoding.
    ///
    /// # Errors
    /// Truncated, of characters that the encoding has not, or beyond the limit on size.
    pub fn characters(&mut self, coding: Coding) -> Result<Octets<'a>, Error> {
        if self.is_next(b'{') {
            return self.octets();
        }
        let offset = self.position();
        let bytes = match (self.string()?, coding) {
            (Cow::Borrowed(text), Coding::Utf8) => return Ok(Octets::new(text.as_bytes())),
            (text, _) => {
                self.budget.bytes(4 * text.len() as u64, offset)?;
                characters::encode(coding, &text)
            }
        };
        bytes.map(Octets::from).ok_or_else(|| Problem::Contents("of its characters").at(offset))
    }

    /// OBJECT IDENTIFIER or RELATIVE-OID, as contents octets.
    ///
    /// # Errors
    /// Truncated, or no numbers with dots between them.
    pub fn oid(&mut self, is_relative: bool) -> Result<Octets<'static>, Error> {
        let offset = self.position();
        let contents = match self.is_next(b'{') {
            true => Some(self.octets()?),
            false => {
                let text = self.string()?;
                let arc = |arc: &str| match arc.bytes().all(|b| b.is_ascii_digit()) {
                    true => arc.parse().ok(),
                    false => None,
                };
                let arcs: Option<Vec<u128>> = text.split('.').map(arc).collect();
                let contents = arcs.and_then(|arcs| match is_relative {
                    true => RelativeOid::from_arcs(&arcs).map(|o| o.as_contents().to_vec()),
                    false => Oid::from_arcs(&arcs).map(|o| o.as_contents().to_vec()),
                });
                contents.map(Octets::from)
            }
        };
        contents.ok_or_else(|| Problem::Contents("an object identifier").at(offset))
    }
}

/// The text of what stands between quotes and has escapes; nothing where one is none.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out += plain;
        rest = escape.get(1..)?;
        out.push(match escape.as_bytes()[0] {
            byte @ (b'"' | b'\\' | b'/') => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let (first, after) = unit(rest)?;
                rest = after;
                match first {
                    0xd800..0xdc00 => {
                        let (second, after) = unit(rest.strip_prefix("\\u")?)?;
                        rest = after;
                        char::decode_utf16([first, second]).next()?.ok()?
                    }
                    unit => char::from_u32(unit.into())?,
                }
            }
            _ => return None,
        });
    }
    out += rest;
    Some(out)
}

/// Four hexadecimal digits, and what is behind them.
fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let are_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
    Some((u16::from_str_radix(digits, 16).ok().filter(|_| are_digits)?, rest))
}

/// How long the number is that a text begins with (RFC 8259, section 6); nothing where there is none.
fn number_len(text: &[u8]) -> Option<usize> {
    let digits = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        rest.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let start = usize::from(text.first() == Some(&b'-'));
    let whole = digits(start);
    if whole == 0 || (whole > 1 && text[start] == b'0') {
        return None;
    }
    let mut len = start + whole;
    if text.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        if fraction == 0 {
            return None;
        }
        len += 1 + fraction;
    }
    if let Some(b'e' | b'E') = text.get(len) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(len + 1 + sign);
        if exponent == 0 {
            return None;
        }
        len += 1 + sign + exponent;
    }
    Some(len)
}
