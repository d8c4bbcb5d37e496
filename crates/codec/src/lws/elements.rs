//! Elements of a SEQUENCE OF by their index: where all have one size, none before has to be read.

use super::{Decode, Decoder, Word};
use crate::{Error, Problem, Source};
use core::fmt;

/// A type whose encodings all have one size, whatever the value.
///
/// The numbers that a type constrains to 1, 2, 4 or 8 bytes, REAL, BOOLEAN and NULL have it, strings of octets or bits
/// and lists of such that have a fixed size; a SEQUENCE has it when all its components do and none is OPTIONAL, has a
/// DEFAULT or is behind an extension marker: its size is then the sum of theirs. The ASN.1 compiler writes it for those.
pub trait FixedSize<'a>: Decode<'a> {
    /// Bytes of a value that stands for itself.
    fn size<W: Word>() -> usize;

    /// Bytes from one element of an array to the next.
    fn stride<W: Word>() -> usize {
        Self::size::<W>()
    }

    /// The element that `bytes` are, as many as the stride.
    ///
    /// # Errors
    /// They are none.
    fn element<W: Word>(bytes: &'a [u8]) -> Result<Self, Error> {
        super::from_bytes::<W, Self>(bytes)
    }
}

/// Numbers, which lie as close as their own size allows.
macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl FixedSize<'_> for $type {
            fn size<W: Word>() -> usize {
                size_of::<$type>().max(W::BYTES)
            }
            fn stride<W: Word>() -> usize {
                size_of::<$type>()
            }
            #[inline]
            fn element<W: Word>(bytes: &[u8]) -> Result<Self, Error> {
                match bytes.try_into() {
                    Ok(bytes) => Ok(<$type>::from_be_bytes(bytes)),
                    Err(_) => {
                        let (needed, left) = (size_of::<$type>(), bytes.len());
                        Err(Problem::Truncated { needed, left }.at(0))
                    }
                }
            }
        }
    )*};
}

numbers!(i8, i16, i32, u8, u16, u32, u64, f64);

impl FixedSize<'_> for bool {
    fn size<W: Word>() -> usize {
        W::BYTES
    }
}

impl FixedSize<'_> for () {
    fn size<W: Word>() -> usize {
        0
    }
}

/// A SEQUENCE OF as it lies in the input: its elements are read when they are asked for, in any order.
///
/// ```
/// use fusewire_codec::lws::{self, Elements};
/// let bytes = lws::to_vec::<u32, Vec<u16>>(&vec![1, 1991, 3])?;
/// let years = lws::from_bytes::<u32, Elements<u16>>(&bytes)?;
/// assert_eq!(years.get(1)?, Some(1991));
/// assert_eq!(years.get(3)?, None);
/// # Ok::<(), fusewire_codec::Error>(())
/// ```
/// It is a [`Decode`] type, and can so be a component of another; its input must be memory.
pub struct Elements<'a, T> {
    bytes: &'a [u8],
    count: usize,
    stride: usize,
    /// Where they begin in the message, for errors.
    offset: usize,
    read: fn(&'a [u8]) -> Result<T, Error>,
}

impl<'a, T: FixedSize<'a>> Elements<'a, T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The element at `index`; `None` behind the last.
    ///
    /// # Errors
    /// Its bytes are no value of its type: a number that the type does not have.
    #[inline]
    pub fn get(&self, index: usize) -> Result<Option<T>, Error> {
        if index >= self.count {
            return Ok(None);
        }
        // In range: `stride * count` is the length of `bytes`.
        let at = index * self.stride;
        let bytes = self.bytes;
        match (self.read)(&bytes[at..at + self.stride]) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(error.later(self.offset + at).in_element(index)),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<T, Error>> + '_ {
        (0..self.count).filter_map(|index| self.get(index).transpose())
    }

    /// `count` elements at this place; what a type with a fixed size of the array reads.
    ///
    /// # Errors
    /// Truncated, or followed by fill that is not zero.
    pub fn decode_fixed<S: Source<'a>, W: Word>(
        count: usize,
        from: &mut Decoder<S, W>,
    ) -> Result<Self, Error> {
        let (stride, offset, left) = (T::stride::<W>(), from.position(), from.remaining());
        if stride == 0 {
            // There may be any number of what takes no room.
            from.budget.elements(count as u64, offset)?;
        }
        let needed = stride.saturating_mul(count);
        if needed > left {
            return Err(from.error(Problem::Truncated { needed, left }));
        }
        let Some(bytes) = from.source.lend(needed) else {
            return Err(from.error(Problem::Unsupported("elements of a source that does not lend")));
        };
        from.fill(needed)?;
        Ok(Elements { bytes, count, stride, offset, read: T::element::<W> })
    }
}

impl<'a, T: FixedSize<'a>> Decode<'a> for Elements<'a, T> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let count = from.count(T::stride::<W>())?;
        Elements::decode_fixed(count, from)
    }
}

impl<T> Clone for Elements<'_, T> {
    fn clone(&self) -> Self {
        Elements { ..*self }
    }
}

impl<'a, T: FixedSize<'a> + fmt::Debug> fmt::Debug for Elements<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
