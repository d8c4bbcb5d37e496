//! Values one at a time.

use super::{Decode, Decoder, Encode, Encoder, Rules};
use crate::types::{
    Alphabet, Any, BitString, Integer, Octets, Oid, RelativeOid, Text, canonical_time, character,
    real,
};
use crate::{Error, Problem, Sink, Source};

#[cfg(feature = "alloc")]
use crate::types::SetOf;
#[cfg(feature = "alloc")]
use alloc::{boxed::Box, vec::Vec};

/// The machine's integers, which INTEGERs are constrained to.
macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            #[inline(always)]
            fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
                to.fixed(*self as i64, size_of::<$type>())
            }
            fn encode_all<S: Sink>(values: &[Self], to: &mut Encoder<S>) -> Result<(), Error> {
                to.sink.put_elements(bytemuck::cast_slice(values), size_of::<$type>())
            }
        }

        impl<'a> Decode<'a> for $type {
            #[inline(always)]
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                from.fixed(size_of::<$type>()).map(|value| value as $type)
            }
            #[cfg(feature = "alloc")]
            fn decode_all<S: Source<'a>>(count: usize, from: &mut Decoder<S>) -> Result<Vec<Self>, Error> {
                from.numbers(count)
            }
        }
    )*};
}

integers!(i8, i16, i32, u8, u16, u32, u64);

impl Encode for i64 {
    #[inline(always)]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.integer(*self)
    }
    fn encode_all<S: Sink>(values: &[Self], to: &mut Encoder<S>) -> Result<(), Error> {
        to.integers(values)
    }
}

impl<'a> Decode<'a> for i64 {
    #[inline(always)]
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.integer()
    }
    #[cfg(feature = "alloc")]
    fn decode_all<S: Source<'a>>(count: usize, from: &mut Decoder<S>) -> Result<Vec<Self>, Error> {
        from.integers(count)
    }
}

impl Encode for Integer<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.octets(self.as_be_bytes())
    }
}

#[cfg(feature = "alloc")]
impl<'a> Decode<'a> for Integer<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let octets = from.octets()?;
        if octets.is_empty() {
            return Err(Problem::Contents("an INTEGER").at(offset));
        }
        let len = octets.len();
        let value = Integer::of(octets);
        from.canonical(value.as_be_bytes().len() == len, offset, "the shortest INTEGER")?;
        Ok(value)
    }
}

impl<S: Sink> Encoder<S> {
    /// An INTEGER that is not below zero and has no upper bound (10.3), of any width.
    ///
    /// # Errors
    /// The sink is full, or it is below zero.
    pub fn natural_wide(&mut self, value: &Integer<'_>) -> Result<(), Error> {
        match value.as_be_bytes() {
            [first, ..] if first & 0x80 != 0 => {
                Err(self.error(Problem::Contents("an INTEGER of 0 or more")))
            }
            [0, rest @ ..] if !rest.is_empty() => self.octets(rest),
            octets => self.octets(octets),
        }
    }
}

#[cfg(feature = "alloc")]
impl<'a, S: Source<'a>> Decoder<S> {
    /// An INTEGER that is not below zero and has no upper bound (10.3), of any width.
    ///
    /// # Errors
    /// Truncated, empty, or in COER not the shortest.
    pub fn natural_wide(&mut self) -> Result<Integer<'a>, Error> {
        let offset = self.position();
        let octets = self.octets()?;
        let Some(&first) = octets.first() else {
            return Err(Problem::Contents("an INTEGER").at(offset));
        };
        self.canonical(first != 0 || octets.len() == 1, offset, "the shortest INTEGER")?;
        if first & 0x80 == 0 {
            return Ok(Integer::of(octets));
        }
        let mut signed = Vec::with_capacity(octets.len() + 1);
        signed.push(0);
        signed.extend_from_slice(&octets);
        Ok(Integer::of(Octets::from(signed)))
    }
}

impl Encode for bool {
    #[inline(always)]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.put(&[if *self { 0xff } else { 0 }])
    }
}

impl<'a> Decode<'a> for bool {
    #[inline(always)]
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let found = from.octet()?;
        from.canonical(matches!(found, 0 | 0xff), offset, "a BOOLEAN of 0 or 255")?;
        Ok(found != 0)
    }
}

/// NULL: nothing (15).
impl Encode for () {
    fn encode<S: Sink>(&self, _: &mut Encoder<S>) -> Result<(), Error> {
        Ok(())
    }
}

impl<'a> Decode<'a> for () {
    fn decode<S: Source<'a>>(_: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(())
    }
}

impl<S: Sink> Encoder<S> {
    /// A REAL that is constrained to binary64 (12.3).
    ///
    /// # Errors
    /// The sink is full.
    pub fn binary64(&mut self, value: f64) -> Result<(), Error> {
        self.put(&value.to_bits().to_be_bytes())
    }

    /// A REAL that is constrained to binary32 (12.2).
    ///
    /// # Errors
    /// The sink is full.
    pub fn binary32(&mut self, value: f32) -> Result<(), Error> {
        self.put(&value.to_bits().to_be_bytes())
    }
}

impl<'a, S: Source<'a>> Decoder<S> {
    /// A REAL that is constrained to binary64 (12.3).
    ///
    /// # Errors
    /// Truncated.
    pub fn binary64(&mut self) -> Result<f64, Error> {
        self.chunk().map(|bits| f64::from_bits(u64::from_be_bytes(bits)))
    }

    /// A REAL that is constrained to binary32 (12.2).
    ///
    /// # Errors
    /// Truncated.
    pub fn binary32(&mut self) -> Result<f32, Error> {
        self.chunk().map(|bits| f32::from_bits(u32::from_be_bytes(bits)))
    }
}

/// REAL without such constraints (12.4): as BER has its contents.
impl Encode for f64 {
    #[inline]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        let (octets, len) = real::encode(*self);
        to.octets(&octets[real::MAX_LEN - len..])
    }
}

impl<'a> Decode<'a> for f64 {
    #[inline]
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let octets = from.octets()?;
        real::decode(&octets, from.rules() == Rules::Coer).map_err(|problem| problem.at(offset))
    }
}

impl Encode for Octets<'_> {
    #[inline(always)]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.octets(self)
    }
}

impl<'a> Decode<'a> for Octets<'a> {
    #[inline(always)]
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.octets()
    }
}

/// Character strings without a fixed size (27).
impl<A: Alphabet> Encode for Text<'_, A> {
    #[inline(always)]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.octets(self.as_bytes())
    }
}

impl<'a, A: Alphabet> Decode<'a> for Text<'a, A> {
    #[inline(always)]
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let octets = from.octets()?;
        if !A::holds(&octets) {
            return Err(character::<A>(&octets).at(offset));
        }
        if from.rules() == Rules::Coer && !canonical_time::<A>(&octets) {
            return Err(Problem::NotCanonical("a time in UTC with seconds").at(offset));
        }
        Ok(Text::checked(octets))
    }
}

impl<S: Sink> Encoder<S> {
    /// A BIT STRING of a fixed size (13.2): its octets alone, which [`BitString::as_bytes`] has.
    ///
    /// # Errors
    /// The sink is full.
    pub fn bits_fixed(&mut self, bits: &BitString<'_>) -> Result<(), Error> {
        self.put(bits.as_bytes())
    }
}

impl<'a, S: Source<'a>> Decoder<S> {
    /// A BIT STRING of `len` bits (13.2).
    ///
    /// # Errors
    /// Truncated, or bits behind the last are set.
    pub fn bits_fixed(&mut self, len: usize) -> Result<BitString<'a>, Error> {
        let offset = self.position();
        let bytes = self.octets_fixed(len.div_ceil(8))?;
        BitString::new(bytes, (len.wrapping_neg() % 8) as u8)
            .ok_or_else(|| Problem::Contents("a BIT STRING").at(offset))
    }
}

/// BIT STRING of a variable size (13.3): length, a count of unused bits, octets.
impl Encode for BitString<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.length(1 + self.as_bytes().len())?;
        to.put(&[self.unused()])?;
        to.put(self.as_bytes())
    }
}

impl<'a> Decode<'a> for BitString<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        const BAD: Problem = Problem::Contents("a BIT STRING");
        let offset = from.position();
        let Some(len) = from.length()?.checked_sub(1) else { return Err(BAD.at(offset)) };
        let unused = from.octet()?;
        let bytes = from.octets_fixed(len)?;
        BitString::new(bytes, unused).ok_or_else(|| BAD.at(offset))
    }
}

/// OBJECT IDENTIFIER and RELATIVE-OID (21 and 22): as BER has their contents.
macro_rules! oids {
    ($($oid:ident, $name:literal;)*) => {$(
        impl Encode for $oid<'_> {
            fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
                to.octets(self.as_contents())
            }
        }

        impl<'a> Decode<'a> for $oid<'a> {
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                let offset = from.position();
                $oid::from_contents(from.octets()?)
                    .ok_or_else(|| Problem::Contents($name).at(offset))
            }
        }
    )*};
}

oids! { Oid, "an OBJECT IDENTIFIER"; RelativeOid, "a RELATIVE-OID"; }

/// Open types (30): counted, as they are.
impl Encode for Any<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.octets(self.as_bytes())
    }
}

impl<'a> Decode<'a> for Any<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.octets().map(Any)
    }
}

/// SEQUENCE OF (17): a quantity, and the elements.
impl<T: Encode> Encode for &[T] {
    #[inline]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.natural(self.len() as u64)?;
        T::encode_all(self, to)
    }
}

#[cfg(feature = "alloc")]
impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        self.as_slice().encode(to)
    }
}

#[cfg(feature = "alloc")]
impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    #[inline]
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.sequence_of()
    }
}

/// SET OF (19): as SEQUENCE OF, in the order at hand.
#[cfg(feature = "alloc")]
impl<T: Encode> Encode for SetOf<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

#[cfg(feature = "alloc")]
impl<'a, T: Decode<'a>> Decode<'a> for SetOf<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.sequence_of().map(SetOf)
    }
}

/// What a type contains itself through: one level deeper.
#[cfg(feature = "alloc")]
impl<T: Encode> Encode for Box<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        (**self).encode(to)
    }
}

#[cfg(feature = "alloc")]
impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.nested(T::decode).map(Box::new)
    }
}
