//! OER and COER (X.696): octet-aligned, without tags but those of a CHOICE.
//!
//! [`Encoder`] writes forwards into a [`Sink`](crate::Sink), [`Decoder`] reads from a [`Source`](crate::Source). What is written is COER,
//! except that times are written as they are given ([`Encoder::canonical`] refuses others than COER has); [`Rules`] says whether what is read must be.
//!
//! The Rust type says which form an INTEGER has (clause 10): `u8` to `u64` and `i8` to `i32` are of a type that
//! is constrained to them and have no length; `i64` and [`Integer`](crate::types::Integer) are of one without
//! bounds. [`Encoder::fixed`] is for the bounds of 64 signed bits, [`Encoder::natural`] for 0 and above.

mod decode;
mod encode;
mod value;

pub use decode::Decoder;
pub use encode::{Coer, Encoder};

use crate::{Error, Limits, SliceSource};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Which of the rules of X.696 hold when reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The basic ones.
    Oer,
    /// The canonical ones: one encoding for each value.
    Coer,
}

crate::forward::traits!("OER");

/// The encoding of `value` in a new vector.
///
/// # Errors
/// The value is none of its type.
#[cfg(feature = "alloc")]
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    Encoder::apart(|to| value.encode(to))
}

/// The encoding of `value` in COER in a new vector. [`to_vec`] writes the same, and also times that COER has no form for.
///
/// # Errors
/// The value is none of its type, or has a time that is not in UTC with seconds (X.690, 11.7 and 11.8).
#[cfg(feature = "alloc")]
pub fn to_canonical_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut encoder = Encoder::canonical(Vec::new());
    value.encode(&mut encoder)?;
    Ok(encoder.into_inner())
}

/// Returns the tag that the encoding of a CHOICE begins with, if it begins with one.
pub fn tag_of(bytes: &[u8]) -> Option<crate::ber::Tag> {
    Decoder::new(SliceSource::new(bytes), Rules::Oer, Limits::default()).tag().ok()
}

/// Decodes a value that takes up all of `bytes`, within the default [`Limits`].
///
/// # Errors
/// The bytes are no encoding of one.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8], rules: Rules) -> Result<T, Error> {
    Decoder::new(SliceSource::new(bytes), rules, Limits::default()).whole(T::decode)
}
