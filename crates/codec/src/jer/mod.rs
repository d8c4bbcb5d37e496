//! JER (X.697): values as JSON (RFC 8259), without encoding instructions.
//!
//! [`Encoder`] writes forwards into a [`Sink`](crate::Sink) and adds no space; [`Decoder`] reads from a [`Source`](crate::Source)
//! that is memory. Components come in any order, each once; what is not known is passed over where an extension marker
//! lets it be. Whole numbers have any width, but of more than [`number::DECIMAL_BYTES_MAX`] bytes they are no digits.
//!
//! X.697 has nothing for what cannot be said in JSON: such a number, a string that is no text, and what was read from
//! another encoding and is not understood. It is an object with one member `octets`, of hexadecimal digits, and an
//! alternative behind `...` one with a member `$unknown`. An open type is the JSON that it was.
//!
//! [`number::DECIMAL_BYTES_MAX`]: crate::types::number::DECIMAL_BYTES_MAX

mod read;
mod value;
mod write;

pub use read::{Decoder, Json};
pub use write::{Commas, Encoder};

use crate::{Error, Limits, SliceSource};
use alloc::vec::Vec;

crate::forward::traits!("JER");

/// The encoding of `value` in a new vector: UTF-8.
///
/// # Errors
/// The value is none of its type.
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    Encoder::apart(|to| value.encode(to))
}

/// Decodes a value that takes up all of `bytes`, but for white space, within the default [`Limits`].
///
/// # Errors
/// The bytes are no encoding of one.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    Decoder::new(SliceSource::new(bytes), Limits::default()).whole(T::decode)
}
