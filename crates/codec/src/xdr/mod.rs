//! XDR: External Data Representation (RFC 4506).
//!
//! Everything is big-endian and takes a multiple of four bytes. [`Encoder`] and [`Decoder`] have one method
//! for each type of section 4; [`Encode`] and [`Decode`] are what a message type implements, by hand or by
//! a generator. Constants (4.17) and type definitions (4.18) are the implementing language's own. There is
//! no 128-bit float in Rust, so a quadruple (4.8) is its sixteen bytes.

mod decode;
mod encode;
mod value;

pub use crate::Limits;
pub use decode::Decoder;
pub use encode::Encoder;

use crate::{Error, SliceSource};
use alloc::vec::Vec;

crate::forward::traits!("XDR");

/// What [`Encoder`] and [`Decoder`] know of their syntax: nothing, for all of it is in multiples of [`UNIT`].
#[derive(Clone, Debug, Default)]
pub struct Units;

/// All items are multiples of this many bytes (RFC 4506, section 3).
pub const UNIT: usize = 4;

/// Zero bytes that follow `len` bytes of opaque data, 0 to 3.
pub const fn fill_len(len: usize) -> usize {
    len.wrapping_neg() % UNIT
}

/// The XDR form of `value` in a new vector.
///
/// # Errors
/// A variable length exceeds its bound.
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    Encoder::apart(|to| value.encode(to))
}

/// Reads one value that takes up all of `bytes`, with the default [`Limits`].
///
/// # Errors
/// As [`Decode::decode`], and [`LeftOver`](crate::Problem::LeftOver).
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    Decoder::new(SliceSource::new(bytes), Limits::default()).whole(T::decode)
}
