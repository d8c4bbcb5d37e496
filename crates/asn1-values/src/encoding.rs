//! The encodings: what each is called, and how a value is read and written in it.

use fusewire_codec::ber::Rules;

use Encoding::{Forward, Tagged};

use crate::error::Error;
use crate::forward::{self, Syntax};
use crate::limits::Limits;
use crate::schema::{Schema, TypeId};
use crate::value::Value;
use crate::{ber, open};

/// How values are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// With tags (X.690).
    Tagged(Rules),
    /// Mostly without.
    Forward(Syntax),
}

const DER: &str = "X.690, one encoding for each value: anything else is refused";
const COER: &str = "X.696, one encoding for each value: anything else is refused";

impl Encoding {
    /// All that there are: name, what is to be said of it, and the encoding.
    pub const ALL: [(&'static str, &'static str, Encoding); 8] = [
        ("ber", "X.690; in the shortest form when written", Tagged(Rules::Ber)),
        ("der", DER, Tagged(Rules::Der)),
        ("oer", "X.696; canonical when written, but for times", Forward(Syntax::Oer)),
        ("coer", COER, Forward(Syntax::Coer)),
        ("lws16", "Our light-weight syntax, of words of 16 bits", Forward(Syntax::Lws(2))),
        ("lws32", "Of 32 bits", Forward(Syntax::Lws(4))),
        ("lws64", "Of 64 bits", Forward(Syntax::Lws(8))),
        ("xdr", "RFC 4506", Forward(Syntax::Xdr)),
    ];

    /// By its name.
    pub fn from_name(name: &str) -> Option<Encoding> {
        Encoding::ALL.iter().find(|of| of.0 == name).map(|of| of.2)
    }

    /// Decodes a value that takes up all of `bytes`.
    ///
    /// # Errors
    /// The bytes are no encoding of one; in DER and COER also when they are not canonical.
    pub fn decode(
        self,
        schema: &Schema<'_, '_>,
        ty: TypeId,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Value, Error> {
        let mut value = match self {
            Tagged(rules) => ber::decode(schema, ty, bytes, rules, limits)?,
            Forward(syntax) => forward::decode(schema, ty, bytes, syntax, limits)?,
        };
        let mut within = |ty, bytes: &[u8], limits| self.decode(schema, ty, bytes, limits);
        open::resolve(schema, &mut value, ty, limits, &mut within)?;
        Ok(value)
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// It is none of its type, or has no such encoding.
    pub fn encode(
        self,
        schema: &Schema<'_, '_>,
        ty: TypeId,
        value: &Value,
    ) -> Result<Vec<u8>, Error> {
        open::check(schema, value, ty, self)?;
        match self {
            Tagged(rules) => ber::encode(schema, ty, value, rules),
            Forward(syntax) => forward::encode(schema, ty, value, syntax),
        }
    }
}
