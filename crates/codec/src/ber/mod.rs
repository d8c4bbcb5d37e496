//! BER and DER (X.690): tag, length, contents.
//!
//! [`Encoder`] writes backwards into a slice, [`Decoder`] reads a slice and lends from it. A type has
//! [`Encode`] and [`Decode`]; one with a tag of its own also [`Tagged`], [`EncodeContents`] and
//! [`DecodeContents`], which is what IMPLICIT tagging replaces the tag of. The crate's documentation has
//! an example of each.
//!
//! What is written is DER but for the order of a SET OF, which only [`Rules::Der`] sorts. What is read under
//! [`Rules::Ber`] may be of indefinite length, its strings in pieces, its lengths and integers longer than
//! they need be (the standard forbids the last, but there is much of it); under [`Rules::Der`] it must be
//! canonical.
//!
//! Lengths are definite: written backwards they cost one subtraction, the encoding is as short as can be, and who reads
//! it can pass over what it does not want. [`Encoder::indefinite`] writes end-of-contents octets instead, for messages
//! that are but a tree of short values, where that is faster to write; `fusewire bench codec` times both forms of the
//! MPDUs in both directions.

mod array;
mod components;
mod decode;
mod encode;
mod header;
mod place;
mod scalar;
mod string;
mod tag;

pub use decode::{Decode, DecodeContents, Decoder};
pub(crate) use encode::copy;
pub use encode::{Encode, EncodeContents, Encoder, Mark};
pub use header::Header;
pub use tag::{MAX_NUMBER, Tag};

use crate::{Error, Limits};

#[cfg(feature = "alloc")]
use crate::Problem;
#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Which of the rules of X.690 hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The basic ones.
    Ber,
    /// The distinguished ones: one encoding for each value.
    Der,
}

/// A type that has a tag of its own: every type but CHOICE and ANY.
pub trait Tagged {
    /// The outermost tag.
    const TAG: Tag;
    /// Its contents are encodings. Strings, which may be either when they are read, are written primitive.
    const CONSTRUCTED: bool;
}

/// Encodes `value` in `room`, which is made larger as it has to be, and lends the encoding: room that is used
/// again is never made larger again.
///
/// # Errors
/// The value is none of its type.
#[cfg(feature = "alloc")]
pub fn encode_in<'r, T: Encode + ?Sized>(
    value: &T,
    rules: Rules,
    room: &'r mut Vec<u8>,
) -> Result<&'r [u8], Error> {
    /// What a vector begins with.
    const LEAST: usize = 256;
    let start = loop {
        let mut encoder = Encoder::new(room, rules);
        match value.encode(&mut encoder) {
            Ok(()) => break encoder.start(),
            Err(error) => match error.problem() {
                Problem::Full { .. } => {}
                _ => return Err(error),
            },
        }
        let len = (2 * room.len()).max(LEAST);
        room.clear();
        room.resize(len, 0);
    };
    Ok(&room[start..])
}

/// The encoding of `value` in a new vector.
///
/// # Errors
/// The value is none of its type.
#[cfg(feature = "alloc")]
pub fn to_vec<T: Encode + ?Sized>(value: &T, rules: Rules) -> Result<Vec<u8>, Error> {
    let mut room = Vec::new();
    encode_in(value, rules, &mut room).map(<[u8]>::to_vec)
}

/// Encodes `value` at the end of `room`, and lends the encoding.
///
/// # Errors
/// There is no room, or the value is none of its type.
pub fn encode_at_end<'r, T: Encode + ?Sized>(
    value: &T,
    rules: Rules,
    room: &'r mut [u8],
) -> Result<&'r [u8], Error> {
    let mut encoder = Encoder::new(room, rules);
    value.encode(&mut encoder)?;
    let start = encoder.start();
    Ok(&room[start..])
}

/// Decodes a value that takes up all of `bytes`, within the default [`Limits`].
///
/// # Errors
/// The bytes are no encoding of one.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8], rules: Rules) -> Result<T, Error> {
    let mut decoder = Decoder::new(bytes, rules, Limits::default());
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}
