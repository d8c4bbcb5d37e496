//! Values of ASN.1 types in XDR, as `docs/xdr.md` maps them.

use super::{Decode, Decoder, Encode, Encoder, UNIT};
use crate::types::{
    Alphabet, Any, BitString, Integer, Octets, Oid, RelativeOid, SetOf, Text, character,
};
use crate::{Error, Problem, Sink, Source};
use alloc::vec::Vec;

/// Numbers of less than 32 bits take 32.
macro_rules! narrow {
    ($($type:ty, $wide:ty, $read:ident, $write:ident;)*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
                to.$write(<$wide>::from(*self))
            }
        }

        impl<'a> Decode<'a> for $type {
            #[inline]
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                let offset = from.position();
                let found = from.$read()?;
                <$type>::try_from(found).map_err(|_| {
                    let (least, most) = (<$type>::MIN.into(), <$type>::MAX.into());
                    Problem::Range { found: found.into(), least, most }.at(offset)
                })
            }
        }
    )*};
}

narrow! { u8, u32, uint, uint; u16, u32, uint, uint; i8, i32, int, int; i16, i32, int, int; }

/// Opaque data of any length (RFC 4506, section 4.10).
impl Encode for Octets<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.opaque(self, u32::MAX)
    }
}

impl<'a> Decode<'a> for Octets<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.octets(u32::MAX)
    }
}

/// INTEGER without bounds: opaque data, two's complement in as few bytes as it takes.
impl Encode for Integer<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.opaque(self.as_be_bytes(), u32::MAX)
    }
}

impl<'a> Decode<'a> for Integer<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let octets = from.octets(u32::MAX)?;
        match octets.is_empty() {
            true => Err(Problem::Contents("an INTEGER").at(offset)),
            false => Ok(Integer::of(octets)),
        }
    }
}

/// A string (4.11): the bytes of its encoding.
impl<A: Alphabet> Encode for Text<'_, A> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.opaque(self.as_bytes(), u32::MAX)
    }
}

impl<'a, A: Alphabet> Decode<'a> for Text<'a, A> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.text(u32::MAX)
    }
}

/// BIT STRING: how many bits of the last byte are none, and opaque data.
impl Encode for BitString<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.uint(self.unused().into())?;
        to.opaque(self.as_bytes(), u32::MAX)
    }
}

impl<'a> Decode<'a> for BitString<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let unused = from.uint()?;
        let bytes = from.octets(u32::MAX)?;
        let bits = u8::try_from(unused).ok().and_then(|unused| BitString::new(bytes, unused));
        bits.ok_or_else(|| Problem::Contents("a BIT STRING").at(offset))
    }
}

/// OBJECT IDENTIFIER and RELATIVE-OID: opaque data, as BER has their contents.
macro_rules! oids {
    ($($oid:ident, $name:literal;)*) => {$(
        impl Encode for $oid<'_> {
            fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
                to.opaque(self.as_contents(), u32::MAX)
            }
        }

        impl<'a> Decode<'a> for $oid<'a> {
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                let offset = from.position();
                $oid::from_contents(from.octets(u32::MAX)?)
                    .ok_or_else(|| Problem::Contents($name).at(offset))
            }
        }
    )*};
}

oids! { Oid, "an OBJECT IDENTIFIER"; RelativeOid, "a RELATIVE-OID"; }

/// Open types: opaque data, as they are.
impl Encode for Any<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for Any<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Octets::decode(from).map(Any)
    }
}

/// Variable-length array (4.13).
impl<T: Encode> Encode for Vec<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.array(self, u32::MAX)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.array(u32::MAX)
    }
}

impl<T: Encode> Encode for SetOf<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for SetOf<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Vec::decode(from).map(SetOf)
    }
}

impl<S: Sink> Encoder<S> {
    /// What `write` writes, as opaque data: what a version behind `...` adds, which others pass over.
    ///
    /// # Errors
    /// As `write`'s own.
    pub fn counted(
        &mut self,
        write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut inner = Encoder::new(Vec::new());
        write(&mut inner)?;
        self.opaque(&inner.into_inner(), u32::MAX)
    }

    /// An error at this point.
    #[cold]
    pub fn error(&self, problem: Problem) -> Error {
        problem.at(self.position())
    }
}

impl<'a, S: Source<'a>> Decoder<S> {
    /// Opaque data that `read` reads.
    ///
    /// # Errors
    /// As `read`'s own, or it reads more or less than was counted.
    pub fn counted<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let offset = self.position();
        let len = self.uint()? as usize;
        let left = self.remaining();
        if !len.is_multiple_of(UNIT) {
            return Err(Problem::BadLength.at(offset));
        }
        if len > left {
            return Err(self.error(Problem::Truncated { needed: len, left }));
        }
        let end = self.position() + len;
        let value = self.nested(read)?;
        match self.position() == end {
            true => Ok(value),
            false => Err(self.error(Problem::LeftOver { left: end.abs_diff(self.position()) })),
        }
    }

    /// Passes over opaque data: an extension addition that is not known.
    ///
    /// # Errors
    /// As [`Decoder::octets`].
    pub fn skip_counted(&mut self) -> Result<(), Error> {
        self.octets(u32::MAX).map(drop)
    }

    /// A string of at most `bound` bytes.
    ///
    /// # Errors
    /// As [`Decoder::octets`], or it is of other characters.
    pub fn text<A: Alphabet>(&mut self, bound: u32) -> Result<Text<'a, A>, Error> {
        let offset = self.position();
        let octets = self.octets(bound)?;
        match A::holds(&octets) {
            true => Ok(Text::checked(octets)),
            false => Err(character::<A>(&octets).at(offset)),
        }
    }

    /// Opaque data of fixed length (4.9), lent where the source lends.
    ///
    /// # Errors
    /// Truncated, beyond the limit on size, or a fill byte that is not zero.
    pub fn octets_fixed(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        let octets = self.lent(len)?;
        self.fill(len)?;
        Ok(octets)
    }

    /// An alternative behind `...` that this version does not know, as it is encoded: its number and opaque data.
    ///
    /// # Errors
    /// As [`Decoder::octets`].
    pub fn unknown(&mut self, number: u32) -> Result<Any<'a>, Error> {
        let octets = self.octets(u32::MAX)?;
        let mut encoder = Encoder::new(Vec::new());
        encoder.uint(number)?;
        encoder.opaque(&octets, u32::MAX)?;
        Ok(Any(Octets::from(encoder.into_inner())))
    }
}
