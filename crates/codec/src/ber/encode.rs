//! Values into bytes, last byte first.
//!
//! ```text
//!            ┌───────── free ─────────┬──── written ────┐
//!   room     │                        │ tag len contents│
//!            └────────────────────────┴─────────────────┘
//!                                     ▲ at; moves to the left
//! ```
//! Contents are written before their length is, so that no length is ever computed twice, guessed, or moved
//! into place. Generated code therefore encodes the components of a type in reverse order.

use super::{Rules, Tag, Tagged};
use crate::{Error, Problem};

/// A value of an ASN.1 type. What has a tag of its own is also [`EncodeContents`]; a CHOICE or ANY is not.
pub trait Encode {
    /// Writes the complete encoding: identifier, length, contents.
    ///
    /// # Errors
    /// There is no room, or the value is none of its type.
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error>;

    /// Writes the complete encodings of all values, so that the first comes first.
    ///
    /// # Errors
    /// As [`Encode::encode`].
    #[inline]
    fn encode_all(values: &[Self], to: &mut Encoder<'_>) -> Result<(), Error>
    where
        Self: Sized,
    {
        for (i, value) in values.iter().enumerate().rev() {
            value.encode(to).map_err(|e| e.in_element(i))?;
        }
        Ok(())
    }
}

/// A value of a type with a tag of its own, which IMPLICIT tagging can replace.
pub trait EncodeContents: Tagged + Encode {
    /// Writes the contents octets.
    ///
    /// # Errors
    /// As [`Encode::encode`].
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error>;

    /// Writes the complete encoding with `tag` in place of the type's own.
    ///
    /// # Errors
    /// As [`Encode::encode`].
    #[inline]
    fn encode_as(&self, tag: Tag, to: &mut Encoder<'_>) -> Result<(), Error> {
        if Self::CONSTRUCTED && to.indefinite {
            return to.around(tag, |to| self.encode_contents(to));
        }
        let mark = to.mark();
        self.encode_contents(to)?;
        to.header(tag, Self::CONSTRUCTED, mark)
    }
}

/// Where the contents end that are being written.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// Writes BER or DER backwards into a slice.
#[derive(Debug)]
pub struct Encoder<'b> {
    room: &'b mut [u8],
    /// `at <= room.len()`.
    at: usize,
    rules: Rules,
    indefinite: bool,
}

impl<'b> Encoder<'b> {
    /// Writes to the end of `room`.
    pub fn new(room: &'b mut [u8], rules: Rules) -> Self {
        Encoder { at: room.len(), room, rules, indefinite: false }
    }

    /// What is constructed has the indefinite form from now on, if the rules are the basic ones: end-of-contents octets
    /// instead of a length (X.690, 8.1.3.6).
    #[must_use]
    pub fn indefinite(mut self) -> Self {
        self.indefinite = self.rules == Rules::Ber;
        self
    }

    /// What `write` writes as the contents of a value of indefinite length.
    #[inline(always)]
    fn around(
        &mut self,
        tag: Tag,
        write: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.chunk([0, 0])?;
        write(self)?;
        if let Some(single) = tag.single() {
            return self.chunk([single | 0x20, 0x80]);
        }
        self.byte(0x80)?;
        let (octets, len) = tag.octets(true);
        self.put(&octets[6 - len..])
    }

    /// Where the encoding begins in the room: it goes from there to its end.
    pub fn start(&self) -> usize {
        self.at
    }

    /// Which rules hold.
    #[inline(always)]
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Here end the contents that are written next.
    #[inline(always)]
    pub fn mark(&self) -> Mark {
        Mark(self.at)
    }

    /// Bytes written since `mark`.
    #[inline(always)]
    pub fn since(&self, mark: Mark) -> usize {
        mark.0 - self.at
    }

    /// An error at this point.
    #[cold]
    #[inline(never)]
    pub fn error(&self, problem: Problem) -> Error {
        problem.at(self.room.len() - self.at)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn full(&self, needed: usize) -> Error {
        self.error(Problem::Full { needed, left: self.at })
    }

    /// What is not written yet.
    #[inline(always)]
    pub(crate) fn free(&mut self) -> &mut [u8] {
        &mut self.room[..self.at]
    }

    /// What was written since `mark`.
    #[cfg(feature = "alloc")]
    pub(crate) fn written(&mut self, mark: Mark) -> &mut [u8] {
        &mut self.room[self.at..mark.0]
    }

    /// The last bytes of what is free are written now, down to `at`.
    #[inline(always)]
    pub(crate) fn advance_to(&mut self, at: usize) {
        debug_assert!(at <= self.at);
        self.at = at;
    }

    /// Writes `bytes` in front of what is written.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(to) = self.at.checked_sub(bytes.len()) else {
            return Err(self.full(bytes.len()));
        };
        copy(&mut self.room[to..self.at], bytes);
        self.at = to;
        Ok(())
    }

    /// Writes one byte.
    ///
    /// # Errors
    /// There is no room.
    #[inline(always)]
    pub fn byte(&mut self, byte: u8) -> Result<(), Error> {
        self.chunk([byte])
    }

    /// Writes `N` bytes.
    ///
    /// # Errors
    /// There is no room.
    #[inline(always)]
    pub fn chunk<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Error> {
        match self.free().last_chunk_mut() {
            Some(place) => *place = bytes,
            None => return Err(self.full(N)),
        }
        self.at -= N;
        Ok(())
    }

    /// Writes the last `len` bytes of `bytes`, at most eight.
    ///
    /// # Errors
    /// There is no room.
    #[inline(always)]
    pub(crate) fn tail(&mut self, bytes: [u8; 8], len: usize) -> Result<(), Error> {
        match self.free().last_chunk_mut() {
            // All eight are stored; those in front will be overwritten.
            Some(place) => *place = bytes,
            None => return self.put(&bytes[8 - len..]),
        }
        self.at -= len;
        Ok(())
    }

    /// Writes the header of contents that end at `mark` and begin here.
    ///
    /// # Errors
    /// There is no room.
    #[inline(always)]
    pub fn header(&mut self, tag: Tag, constructed: bool, mark: Mark) -> Result<(), Error> {
        let len = self.since(mark);
        self.header_of(tag, constructed, len)
    }

    #[inline(always)]
    pub(crate) fn header_of(
        &mut self,
        tag: Tag,
        constructed: bool,
        len: usize,
    ) -> Result<(), Error> {
        if let Some(single) = tag.single()
            && len < 0x80
        {
            let form = if constructed { 0x20 } else { 0 };
            return self.chunk([single | form, len as u8]);
        }
        self.long_header(tag, constructed, len)
    }

    #[inline(never)]
    fn long_header(&mut self, tag: Tag, constructed: bool, len: usize) -> Result<(), Error> {
        self.length(len)?;
        let (octets, len) = tag.octets(constructed);
        self.put(&octets[6 - len..])
    }

    /// Writes length octets in their shortest form; also OER's length determinant.
    ///
    /// # Errors
    /// There is no room.
    #[inline]
    pub(crate) fn length(&mut self, len: usize) -> Result<(), Error> {
        if len < 0x80 {
            return self.byte(len as u8);
        }
        let octets = (len as u64).to_be_bytes();
        let count = 8 - octets.iter().take_while(|octet| **octet == 0).count();
        self.tail(octets, count)?;
        self.byte(0x80 | count as u8)
    }

    /// Writes `value` with `tag` instead of its own: IMPLICIT.
    ///
    /// # Errors
    /// As the value's own.
    #[inline(always)]
    pub fn implicit<T: EncodeContents>(&mut self, tag: Tag, value: &T) -> Result<(), Error> {
        value.encode_as(tag, self)
    }

    /// Writes `value` within a value of `tag`: EXPLICIT.
    ///
    /// # Errors
    /// As the value's own.
    #[inline(always)]
    pub fn explicit<T: Encode>(&mut self, tag: Tag, value: &T) -> Result<(), Error> {
        if self.indefinite {
            return self.around(tag, |to| value.encode(to));
        }
        let mark = self.mark();
        value.encode(self)?;
        self.header(tag, true, mark)
    }

    /// Writes the elements of a SET OF: in DER sorted by their encodings (X.690, 11.6).
    ///
    /// # Errors
    /// As an element's own.
    #[cfg(feature = "alloc")]
    pub fn set_of<T: Encode>(&mut self, values: &[T]) -> Result<(), Error> {
        if self.rules == Rules::Ber || values.len() < 2 {
            return T::encode_all(values, self);
        }
        let mark = self.mark();
        let mut lens = alloc::vec::Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate().rev() {
            let mark = self.mark();
            value.encode(self).map_err(|e| e.in_element(i))?;
            lens.push(self.since(mark));
        }
        let written = self.written(mark);
        let mut encodings = alloc::vec::Vec::with_capacity(lens.len());
        let mut rest = &*written;
        for &len in lens.iter().rev() {
            let (encoding, after) = rest.split_at(len);
            encodings.push(encoding);
            rest = after;
        }
        // Shorter ones count as filled up with zeros; no encoding is the front of another, so that is plain order.
        if encodings.is_sorted() {
            return Ok(());
        }
        encodings.sort_unstable();
        let sorted = encodings.concat();
        written.copy_from_slice(&sorted);
        Ok(())
    }

    /// In DER a SET OF cannot be sorted without an allocator.
    ///
    /// # Errors
    /// As an element's own, and [`Problem::Unsupported`].
    #[cfg(not(feature = "alloc"))]
    pub fn set_of<T: Encode>(&mut self, values: &[T]) -> Result<(), Error> {
        if self.rules == Rules::Ber || values.len() < 2 {
            return T::encode_all(values, self);
        }
        Err(self.error(Problem::Unsupported("sorting a SET OF without an allocator")))
    }
}

/// Copies few bytes without a call: `to` is as long as `from`.
#[inline(always)]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    debug_assert_eq!(to.len(), from.len());
    let len = from.len();
    macro_rules! ends {
        ($n:literal) => {
            if let (Some(first), Some(last)) = (from.first_chunk::<$n>(), from.last_chunk::<$n>())
                && let Some(place) = to.first_chunk_mut::<$n>()
            {
                *place = *first;
                if let Some(place) = to.last_chunk_mut::<$n>() {
                    *place = *last;
                }
                return;
            }
        };
    }
    if len > 32 {
        to.copy_from_slice(from);
        return;
    }
    ends!(16);
    ends!(8);
    ends!(4);
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}
