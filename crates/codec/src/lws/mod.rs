//! LWS: the light-weight syntax, of 16, 32 or 64-bit words. `docs/lws.md` in the repository is its
//! specification.
//!
//! Nothing that the types say already is in the encoding: no tags, no lengths of what has one length. All
//! begins at a word; bytes that do not fill the last word are followed by zeros. [`Encoder`] writes forwards
//! into a [`Sink`], [`Decoder`] reads from a [`Source`](crate::Source); both are generic over the word, so a type implements
//! [`Encode`] and [`Decode`] once.
//!
//! The Rust type says which form an INTEGER has: `u8` to `u64` and `i8` to `i32` are of a type that is
//! constrained to them, and take as many bytes; `i64` and [`Integer`](crate::types::Integer) are of one that
//! is not, and have an escape for what exceeds a word. [`Encoder::fixed`] is for an INTEGER that is constrained
//! to 64 signed bits.

mod array;
mod decode;
mod elements;
mod encode;
mod value;

pub use decode::Decoder;
pub use elements::{Elements, FixedSize};
pub use encode::Encoder;

use crate::{Error, Length, Limits, Sink, SliceSource};
use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// The word of the syntax: `u16`, `u32` or `u64`.
pub trait Word: sealed::Sealed + Copy + Default + 'static {
    /// Bytes of it.
    const BYTES: usize;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! words {
    ($($word:ty),*) => {$(
        impl sealed::Sealed for $word {}
        impl Word for $word {
            const BYTES: usize = size_of::<$word>();
        }
    )*};
}

words!(u16, u32, u64);

/// What [`Encoder`] and [`Decoder`] know of their syntax: the word.
#[derive(Clone, Debug, Default)]
pub struct Words<W>(PhantomData<W>);

crate::forward::traits!("LWS", W: Word);

/// Zero bytes behind `len` bytes, to the end of a word.
pub const fn fill_len<W: Word>(len: usize) -> usize {
    len.wrapping_neg() % W::BYTES
}

/// The encoding of `value` in a new vector.
///
/// # Errors
/// The value is none of its type.
#[cfg(feature = "alloc")]
pub fn to_vec<W: Word, T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    Encoder::<_, W>::apart(|to| value.encode(to))
}

/// Bytes of the encoding of `value`.
///
/// # Errors
/// The value is none of its type.
pub fn encoded_len<W: Word, T: Encode + ?Sized>(value: &T) -> Result<usize, Error> {
    let mut length = Length::default();
    value.encode(&mut Encoder::<_, W>::new(&mut length))?;
    Ok(length.position())
}

/// Decodes a value that takes up all of `bytes`, within the default [`Limits`].
///
/// # Errors
/// The bytes are no encoding of one.
pub fn from_bytes<'a, W: Word, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    Decoder::<_, W>::new(SliceSource::new(bytes), Limits::default()).whole(T::decode)
}
