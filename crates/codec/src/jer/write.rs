//! Values into JSON.

use super::Decoder;
use crate::forward::Output;
use crate::types::characters::{self, Coding, is_unsafe};
use crate::types::{Oid, RelativeOid, number};
use crate::{Error, Limits, Sink, SliceSource};
use alloc::format;
use alloc::string::{String, ToString};

/// Writes JER to a sink.
pub type Encoder<S> = Output<S, Commas>;

/// What [`Encoder`] knows of its syntax: whether a part stands in front of the next member or element.
#[derive(Debug, Default)]
pub struct Commas {
    is_behind: bool,
}

impl<S: Sink> Encoder<S> {
    /// Writes to `sink`.
    pub fn new(sink: S) -> Self {
        Output { sink, rules: Commas::default() }
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.sink.put(text.as_bytes())
    }

    fn within(
        &mut self,
        open: &str,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
        close: &str,
    ) -> Result<(), Error> {
        self.put(open)?;
        self.rules.is_behind = false;
        write(self)?;
        self.rules.is_behind = true;
        self.put(close)
    }

    /// The comma between parts, which none has in front of the first.
    fn separate(&mut self) -> Result<(), Error> {
        match core::mem::replace(&mut self.rules.is_behind, true) {
            true => self.put(","),
            false => Ok(()),
        }
    }

    /// An object, whose members `write` writes: a SEQUENCE or SET, or a CHOICE with its one alternative.
    ///
    /// # Errors
    /// As `write`'s own, or the sink is full.
    pub fn object(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.within("{", write, "}")
    }

    /// The name of a member, in front of its value.
    ///
    /// # Errors
    /// The sink is full.
    pub fn name(&mut self, name: &str) -> Result<(), Error> {
        self.separate()?;
        self.string(name)?;
        self.put(":")
    }

    /// A member: the component or alternative of that name.
    ///
    /// # Errors
    /// As `write`'s own, which has `name` in its path, or the sink is full.
    pub fn member(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.name(name)?;
        write(self).map_err(|error| error.in_field(name))
    }

    /// A SEQUENCE OF, each element written by `write`.
    ///
    /// # Errors
    /// As `write`'s own, or the sink is full.
    pub fn array<T>(
        &mut self,
        elements: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let all = |to: &mut Self| {
            elements.iter().enumerate().try_for_each(|(i, element)| {
                to.separate()?;
                write(to, element).map_err(|error| error.in_element(i))
            })
        };
        self.within("[", all, "]")
    }

    /// A string; what a terminal acts on is escaped. Also the name of an ENUMERATED's item.
    ///
    /// # Errors
    /// The sink is full.
    pub fn string(&mut self, text: &str) -> Result<(), Error> {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted += "\\n",
                '\r' => quoted += "\\r",
                '\t' => quoted += "\\t",
                c if is_unsafe(c) => {
                    let units = &mut [0; 2];
                    c.encode_utf16(units).iter().for_each(|u| quoted += &format!("\\u{u:04x}"));
                }
                c => quoted.push(c),
            }
        }
        quoted.push('"');
        self.put(&quoted)
    }

    /// An OCTET STRING: hexadecimal digits.
    ///
    /// # Errors
    /// The sink is full.
    pub fn digits(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.put(&format!("\"{}\"", data_encoding::HEXUPPER.encode(bytes)))
    }

    /// Octets of which JSON can say no more, as the one member of an object.
    fn opaque(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.object(|to| {
            to.name(name)?;
            to.digits(bytes)
        })
    }

    /// What there is no text for, as its octets.
    ///
    /// # Errors
    /// The sink is full.
    pub fn octets(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.opaque("octets", bytes)
    }

    /// An open type: as it is if it is JSON, or else its octets.
    ///
    /// # Errors
    /// The sink is full.
    pub fn open(&mut self, encoding: &[u8]) -> Result<(), Error> {
        let is_json = reads(encoding, |json| json.skip().map(drop));
        match is_json && !reads(encoding, |json| json.octets().map(drop)) {
            true => self.sink.put(encoding),
            false => self.octets(encoding),
        }
    }

    /// An alternative behind `...` that this version does not know: as it is, or else its octets.
    ///
    /// # Errors
    /// The sink is full.
    pub fn unknown_alternative(&mut self, encoding: &[u8]) -> Result<(), Error> {
        let is_json = reads(encoding, |json| {
            json.alternative(|from, name, _| match name {
                "$unknown" => Err(from.unexpected("another alternative")),
                _ => from.skip().map(drop),
            })
        });
        match is_json {
            true => self.sink.put(encoding),
            false => self.opaque("$unknown", encoding),
        }
    }

    /// BOOLEAN.
    ///
    /// # Errors
    /// The sink is full.
    pub fn bool(&mut self, value: bool) -> Result<(), Error> {
        self.put(if value { "true" } else { "false" })
    }

    /// NULL.
    ///
    /// # Errors
    /// The sink is full.
    pub fn null(&mut self) -> Result<(), Error> {
        self.put("null")
    }

    /// A number of the machine, also that of an ENUMERATED's item without a name.
    ///
    /// # Errors
    /// The sink is full.
    pub fn number(&mut self, value: impl Into<i128>) -> Result<(), Error> {
        self.put(&value.into().to_string())
    }

    /// An INTEGER of any width, two's complement, most significant byte first.
    ///
    /// # Errors
    /// The sink is full.
    pub fn integer(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match number::to_decimal(bytes) {
            Some(text) => self.put(&text),
            None => self.octets(bytes),
        }
    }

    /// REAL (X.697 clause 23).
    ///
    /// # Errors
    /// The sink is full.
    pub fn real(&mut self, value: f64) -> Result<(), Error> {
        match value {
            value if value.is_nan() => self.put("\"NaN\""),
            f64::INFINITY => self.put("\"INF\""),
            f64::NEG_INFINITY => self.put("\"-INF\""),
            value if value == 0.0 && value.is_sign_negative() => self.put("\"-0\""),
            value => self.put(&format!("{value:?}")),
        }
    }

    /// BIT STRING (X.697 clause 24), but for the last `unused` bits: its length is the one that its type has, or beside
    /// the bits.
    ///
    /// # Errors
    /// The sink is full.
    pub fn bits(&mut self, bytes: &[u8], unused: u8, fixed: Option<usize>) -> Result<(), Error> {
        let len = (8 * bytes.len()).saturating_sub(unused.into());
        if fixed == Some(len) {
            return self.digits(bytes);
        }
        self.object(|to| {
            to.name("value")?;
            to.digits(bytes)?;
            to.name("length")?;
            to.put(&len.to_string())
        })
    }

    /// A character string.
    ///
    /// # Errors
    /// The sink is full.
    pub fn characters(&mut self, coding: Coding, bytes: &[u8]) -> Result<(), Error> {
        match characters::decode(coding, bytes) {
            Some(text) => self.string(&text),
            None => self.octets(bytes),
        }
    }

    /// OBJECT IDENTIFIER or RELATIVE-OID, of contents octets: numbers with dots between them.
    ///
    /// # Errors
    /// The sink is full.
    pub fn oid(&mut self, contents: &[u8], is_relative: bool) -> Result<(), Error> {
        let text = match contents.split(|b| b & 0x80 == 0).any(|arc| arc.len() > 17) {
            true => None,
            false if is_relative => RelativeOid::from_contents(contents).map(|oid| oid.to_string()),
            false => Oid::from_contents(contents).map(|oid| oid.to_string()),
        };
        match text {
            Some(text) => self.string(&text),
            None => self.octets(contents),
        }
    }
}

/// Whether a reader reads all of some bytes.
fn reads<'a>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Decoder<SliceSource<'a>>) -> Result<(), Error>,
) -> bool {
    let mut json = Decoder::new(SliceSource::new(bytes), Limits::default());
    bytes.trim_ascii() == bytes && read(&mut json).is_ok() && json.finish().is_ok()
}
