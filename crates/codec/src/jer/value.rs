//! What each type is in JSON.

use super::{Decode, Decoder, Encode, Encoder};
use crate::types::characters::Coding;
use crate::types::{
    Alphabet, Any, BitString, Integer, Octets, Oid, RelativeOid, SetOf, Text, character,
};
use crate::{Error, Problem, Sink, Source};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Numbers of the machine.
macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
                to.number(*self)
            }
        }

        impl<'a> Decode<'a> for $type {
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                from.machine_integer()
            }
        }
    )*};
}

numbers! { u8, u16, u32, u64, i8, i16, i32, i64 }

impl Encode for bool {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.bool(*self)
    }
}

impl<'a> Decode<'a> for bool {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.bool()
    }
}

/// NULL.
impl Encode for () {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.null()
    }
}

impl<'a> Decode<'a> for () {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.null()
    }
}

impl Encode for f64 {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.real(*self)
    }
}

impl<'a> Decode<'a> for f64 {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.real()
    }
}

impl Encode for Integer<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.integer(self.as_be_bytes())
    }
}

impl<'a> Decode<'a> for Integer<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.integer().map(|bytes| Integer::of(Octets::from(bytes)))
    }
}

/// BIT STRING of any length.
impl Encode for BitString<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.bits(self.as_bytes(), self.unused(), None)
    }
}

impl<'a> Decode<'a> for BitString<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.bits(None)
    }
}

impl Encode for Octets<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.digits(self)
    }
}

impl<'a> Decode<'a> for Octets<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.digits()
    }
}

macro_rules! oids {
    ($($oid:ident, $is_relative:literal;)*) => {$(
        impl Encode for $oid<'_> {
            fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
                to.oid(self.as_contents(), $is_relative)
            }
        }

        impl<'a> Decode<'a> for $oid<'a> {
            fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
                let offset = from.position();
                $oid::from_contents(from.oid($is_relative)?)
                    .ok_or_else(|| Problem::Contents("an object identifier").at(offset))
            }
        }
    )*};
}

oids! { Oid, false; RelativeOid, true; }

impl<A: Alphabet> Encode for Text<'_, A> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.characters(Coding::of_tag(A::TAG.into()), self.as_bytes())
    }
}

impl<'a, A: Alphabet> Decode<'a> for Text<'a, A> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        let offset = from.position();
        let octets = from.characters(Coding::of_tag(A::TAG.into()))?;
        match A::holds(&octets) {
            true => Ok(Text::checked(octets)),
            false => Err(character::<A>(&octets).at(offset)),
        }
    }
}

/// An open type.
impl Encode for Any<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.open(self.as_bytes())
    }
}

impl<'a> Decode<'a> for Any<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.open()
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.array(self, |to, element| element.encode(to))
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.array(T::decode)
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

impl<T: Encode> Encode for Box<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        (**self).encode(to)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        T::decode(from).map(Box::new)
    }
}
