//! Values of ASN.1 types in XDR, as `docs/xdr.md` maps them, and of those of the language itself.

use super::{Decode, Decoder, Encode, Encoder};
use crate::forward::{holders, values};
use crate::types::time::of_notation;
use crate::types::{
    Alphabet, Any, BitString, Date, DateTime, Integer, Moment, Octets, Oid, RelativeOid, Text,
    TimeOfDay,
};
use crate::{Error, Problem, Sink, Source};

/// Numbers: each has a function of the encoder and of the decoder, and of an array all are moved at once.
macro_rules! numbers {
    ($($words:literal, $type:ty, $name:ident;)*) => {
        impl<S: Sink> Encoder<S> {$(
            #[doc = concat!($words, ".")]
            ///
            /// # Errors
            /// The sink is full.
            pub fn $name(&mut self, value: $type) -> Result<(), Error> {
                self.sink.put(&value.to_be_bytes())
            }
        )*}

        impl<'a, S: Source<'a>> Decoder<S> {$(
            #[doc = concat!($words, ".")]
            ///
            /// # Errors
            /// Truncated.
            #[inline]
            pub fn $name(&mut self) -> Result<$type, Error> {
                self.chunk().map(<$type>::from_be_bytes)
            }
        )*}

        values! { [] $(
            #[inline]
            $type =>
                |value, to| to.$name(*value), |from| from.$name(),
                all |values, to| to.numbers(values), |count, from| from.numbers(count);
        )* }
    };
}

numbers! {
    "Integer (4.1)", i32, int;
    "Unsigned integer (4.2); also the number of an enumeration (4.3) and the discriminant of a union (4.15)", u32, uint;
    "Hyper integer (4.5)", i64, hyper;
    "Unsigned hyper integer (4.5)", u64, uhyper;
    "Floating point (4.6)", f32, float;
    "Double-precision floating point (4.7)", f64, double;
}

/// Numbers of less than 32 bits take 32.
macro_rules! narrow {
    ($($type:ty, $name:ident;)*) => {
        values! { [] $(
            #[inline]
            $type =>
                |value, to| to.$name((*value).into()),
                |from, offset| {
                    let found = from.$name()?;
                    <$type>::try_from(found).map_err(|_| {
                        let (least, most) = (<$type>::MIN.into(), <$type>::MAX.into());
                        Problem::Range { found: found.into(), least, most }.at(offset)
                    })
                };
        )* }
    };
}

narrow! { u8, uint; u16, uint; i8, int; i16, int; }

values! { []
    bool => |value, to| to.bool(*value), |from| from.bool();
    /// Void (RFC 4506, section 4.16).
    () => |_value, _to| Ok(()), |_from| Ok(());
    /// Opaque data of any length (4.10).
    Octets<'a> => |octets, to| to.opaque(octets, u32::MAX), |from| from.octets(u32::MAX);
    /// INTEGER without bounds: opaque data, two's complement in as few bytes as it takes.
    Integer<'a> =>
        |value, to| to.opaque(value.as_be_bytes(), u32::MAX),
        |from, offset| Integer::decoded(from.octets(u32::MAX)?, offset);
    /// A string (4.11): the bytes of its encoding.
    Text<'a, A> [A: Alphabet] =>
        |text, to| to.opaque(text.as_bytes(), u32::MAX), |from| from.text(u32::MAX);
    /// The useful time types: a string, their notation.
    Date => |date, to| to.opaque(date.as_bytes(), u32::MAX),
        |from, offset| of_notation(&from.octets(u32::MAX)?, offset);
    TimeOfDay => |time, to| to.opaque(time.as_bytes(), u32::MAX),
        |from, offset| of_notation(&from.octets(u32::MAX)?, offset);
    DateTime => |both, to| to.opaque(both.as_bytes(), u32::MAX),
        |from, offset| of_notation(&from.octets(u32::MAX)?, offset);
    /// How many bits of the last byte are none, and opaque data.
    BitString<'a> =>
        |bits, to| {
            to.uint(bits.unused().into())?;
            to.opaque(bits.as_bytes(), u32::MAX)
        },
        |from, offset| {
            // What is no number of bits in a byte is refused with the others.
            let unused = u8::try_from(from.uint()?).unwrap_or(u8::MAX);
            BitString::decoded(from.octets(u32::MAX)?, unused, offset)
        };
    /// Opaque data, as BER has its contents.
    Oid<'a> =>
        |oid, to| to.opaque(oid.as_contents(), u32::MAX),
        |from, offset| Oid::decoded(from.octets(u32::MAX)?, offset);
    /// Opaque data, as BER has its contents.
    RelativeOid<'a> =>
        |oid, to| to.opaque(oid.as_contents(), u32::MAX),
        |from, offset| RelativeOid::decoded(from.octets(u32::MAX)?, offset);
    /// Open types: opaque data, as they are.
    Any<'a> =>
        |any, to| to.opaque(any.as_bytes(), u32::MAX), |from| from.octets(u32::MAX).map(Any);
}

// Variable-length array (4.13), and what a type contains itself through (4.19).
holders! { []
    list |list, to| to.array(list, u32::MAX), |from| from.array(u32::MAX),
    pointer |from| T::decode(from)
}

/// Fixed-length opaque data (4.9).
impl<const N: usize> Encode for [u8; N] {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.opaque_fixed(self)
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.opaque_fixed()
    }
}

/// Optional data (4.19).
impl<T: Encode> Encode for Option<T> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.optional_data(self.as_ref())
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        from.optional_data()
    }
}
