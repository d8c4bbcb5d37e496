//! Words into values, totally and within limits.

use super::{Word, fill_len};
use crate::limits::Budget;
use crate::types::Octets;
use crate::{Error, Limits, Problem, Source, Step};
use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use crate::types::Any;
#[cfg(feature = "alloc")]
use alloc::{vec, vec::Vec};

/// A type that LWS can read.
pub trait Decode<'a>: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// The input is no encoding of `Self`; the error says what is wrong and where.
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error>;

    /// Reads the elements of a SEQUENCE OF, `count` of them, which the limits have been asked about.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    #[cfg(feature = "alloc")]
    fn decode_all<S: Source<'a>, W: Word>(
        count: usize,
        from: &mut Decoder<S, W>,
    ) -> Result<Vec<Self>, Error> {
        from.elements(count, Self::decode)
    }
}

/// Reads LWS of words `W` from a source.
#[derive(Debug)]
pub struct Decoder<S, W> {
    pub(super) source: S,
    pub(super) budget: Budget,
    word: PhantomData<W>,
}

impl<'a, S: Source<'a>, W: Word> Decoder<S, W> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, limits: Limits) -> Self {
        Decoder { source, budget: Budget::new(limits), word: PhantomData }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.source.position()
    }

    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.source.remaining()
    }

    /// An error at this point.
    #[cold]
    pub fn error(&self, problem: Problem) -> Error {
        problem.at(self.position())
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`Problem::LeftOver`] when bytes are left.
    pub fn finish(self) -> Result<(), Error> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(Problem::LeftOver { left })),
        }
    }

    /// Reads a type that can contain itself one level deeper.
    ///
    /// # Errors
    /// [`Problem::TooDeep`], or as `read`'s own.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.budget.enter(self.position())?;
        let value = read(self);
        self.budget.leave();
        value
    }

    /// What `read` reads, as the component `name`.
    ///
    /// # Errors
    /// As `read`'s own, which has `name` in its path.
    #[inline(always)]
    pub fn field<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut result = read(self);
        if let Err(error) = &mut result {
            error.push(Step::Field(name));
        }
        result
    }

    /// What `read` reads if `present`, as the component `name`.
    ///
    /// # Errors
    /// As `read`'s own, which has `name` in its path.
    #[inline(always)]
    pub fn optional<T>(
        &mut self,
        present: bool,
        name: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match present {
            true => self.field(name, read).map(Some),
            false => Ok(None),
        }
    }

    /// `bytes` bytes (2, 4 or 8) as a signed number.
    #[inline(always)]
    fn signed(&mut self, bytes: usize) -> Result<i64, Error> {
        Ok(match bytes {
            2 => i64::from(i16::from_be_bytes(self.chunk()?)),
            4 => i64::from(i32::from_be_bytes(self.chunk()?)),
            _ => i64::from_be_bytes(self.chunk()?),
        })
    }

    #[inline(always)]
    pub(super) fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.source.take(&mut bytes)?;
        Ok(bytes)
    }

    /// A word as a number without sign.
    #[inline(always)]
    pub(super) fn word(&mut self) -> Result<u64, Error> {
        self.signed(W::BYTES).map(|word| word as u64 & (u64::MAX >> (64 - 8 * W::BYTES)))
    }

    /// A signed integer of `bytes` bytes (1, 2, 4 or 8), or of a word if that is more.
    ///
    /// # Errors
    /// Truncated.
    #[inline(always)]
    pub fn fixed(&mut self, bytes: usize) -> Result<i64, Error> {
        self.signed(bytes.max(W::BYTES))
    }

    /// A BOOLEAN.
    ///
    /// # Errors
    /// Truncated, or neither 0 nor 1.
    #[inline(always)]
    pub fn bool(&mut self) -> Result<bool, Error> {
        let offset = self.position();
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(Problem::Boolean { found: found as u32 }.at(offset)),
        }
    }

    /// The alternative of a CHOICE; the caller says [`Decoder::unknown`] of one that there is not.
    ///
    /// # Errors
    /// Truncated.
    #[inline(always)]
    pub fn index(&mut self) -> Result<u64, Error> {
        self.word()
    }

    /// The error of an alternative or number that the type does not have.
    #[cold]
    pub fn unknown(&self, found: i64, type_name: &'static str) -> Error {
        self.error(Problem::Discriminant { found, type_name })
    }

    /// An alternative behind `...` that this version does not know, as it is encoded: its number and what is counted.
    ///
    /// # Errors
    /// As [`Decoder::octets`].
    #[cfg(feature = "alloc")]
    pub fn unknown_alternative(&mut self, index: u64) -> Result<Any<'a>, Error> {
        let octets = self.octets()?;
        let mut encoder = super::Encoder::<_, W>::new(Vec::new());
        encoder.fixed(index as i64, W::BYTES)?;
        encoder.octets(&octets)?;
        Ok(Any(Octets::from(encoder.into_inner())))
    }

    /// Which OPTIONAL and DEFAULT components follow, `count` of them, 64 at most, the first in the highest of
    /// the `count` bits.
    ///
    /// # Errors
    /// Truncated, or bits are set that stand for nothing.
    #[inline(always)]
    pub fn presence(&mut self, count: u32) -> Result<u64, Error> {
        debug_assert!((1..=64).contains(&count));
        let offset = self.position();
        let len = (count.div_ceil(8) as usize).next_multiple_of(W::BYTES);
        let mut bits = 0u64;
        for word in 0..len / W::BYTES {
            bits |= self.word()? << (64 - 8 * W::BYTES * (word + 1));
        }
        match bits.trailing_zeros() >= 64 - count {
            true => Ok(bits >> (64 - count)),
            false => Err(Problem::Fill { found: bits as u8 }.at(offset)),
        }
    }

    /// A count of things that take at least `least` bytes each; that many are there.
    ///
    /// # Errors
    /// Truncated.
    #[inline(always)]
    pub fn count(&mut self, least: usize) -> Result<usize, Error> {
        let mut count = self.word()?;
        if W::BYTES < 8 && count == u64::MAX >> (64 - 8 * W::BYTES) {
            count = u64::from_be_bytes(self.chunk()?);
        }
        let left = self.remaining();
        let needed = count.saturating_mul(least as u64);
        if needed > left as u64 || count > usize::MAX as u64 {
            let needed = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(self.error(Problem::Truncated { needed, left }));
        }
        Ok(count as usize)
    }

    /// Bytes whose length the type says.
    ///
    /// # Errors
    /// Truncated, or followed by fill that is not zero.
    #[inline(always)]
    pub fn octets_fixed(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        let octets = match self.source.lend(len) {
            Some(bytes) => Octets::new(bytes),
            None => self.copied(len)?,
        };
        self.fill(len)?;
        Ok(octets)
    }

    /// A count of bytes, and the bytes.
    ///
    /// # Errors
    /// Truncated, or followed by fill that is not zero.
    #[inline(always)]
    pub fn octets(&mut self) -> Result<Octets<'a>, Error> {
        let len = self.count(1)?;
        self.octets_fixed(len)
    }

    #[cfg(feature = "alloc")]
    fn copied(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        let left = self.remaining();
        if len > left {
            return Err(self.error(Problem::Truncated { needed: len, left }));
        }
        self.budget.bytes(len as u64, self.position())?;
        let mut bytes = vec![0; len];
        self.source.take(&mut bytes)?;
        Ok(Octets::from(bytes))
    }

    #[cfg(not(feature = "alloc"))]
    fn copied(&mut self, needed: usize) -> Result<Octets<'a>, Error> {
        match self.remaining() {
            left if left < needed => Err(self.error(Problem::Truncated { needed, left })),
            _ => Err(self.error(Problem::Unsupported("a source that does not lend"))),
        }
    }

    /// The zeros behind `len` bytes.
    #[inline(always)]
    pub(super) fn fill(&mut self, len: usize) -> Result<(), Error> {
        let count = fill_len::<W>(len);
        if count == 0 {
            return Ok(());
        }
        let offset = self.position();
        let mut fill = [0; 8];
        self.source.take(&mut fill[..count])?;
        match fill.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(at) => Err(Problem::Fill { found: fill[at] }.at(offset + at)),
        }
    }

    /// What `read` reads, behind a count of its bytes.
    ///
    /// # Errors
    /// As `read`'s own, or it reads more or less than was counted.
    pub fn counted<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let len = self.count(1)?;
        let end = self.position() + len;
        let value = self.nested(read)?;
        if self.position() != end {
            let left = end.abs_diff(self.position());
            return Err(self.error(Problem::LeftOver { left }));
        }
        self.fill(len)?;
        Ok(value)
    }

    /// Passes over an extension addition that is not known, behind a count of its bytes.
    ///
    /// # Errors
    /// Truncated.
    pub fn skip_counted(&mut self) -> Result<(), Error> {
        let len = self.count(1)?;
        self.skip(len)?;
        self.fill(len)
    }

    /// Passes over the extension additions of a SEQUENCE or SET, which come behind its other components: a
    /// count of them, and each behind a count of its bytes.
    ///
    /// # Errors
    /// Truncated, or more than the limit on the count.
    pub fn skip_additions(&mut self) -> Result<(), Error> {
        let offset = self.position();
        let count = self.count(W::BYTES)?;
        self.budget.elements(count as u64, offset)?;
        (0..count).try_for_each(|_| self.skip_counted())
    }

    /// Passes over `len` bytes.
    ///
    /// # Errors
    /// Truncated.
    pub fn skip(&mut self, len: usize) -> Result<(), Error> {
        if self.source.lend(len).is_some() {
            return Ok(());
        }
        let (mut left, mut bytes) = (len, [0; 64]);
        while left > 0 {
            let now = left.min(bytes.len());
            self.source.take(&mut bytes[..now])?;
            left -= now;
        }
        Ok(())
    }

    /// A SEQUENCE OF: its count, and its elements.
    ///
    /// # Errors
    /// As an element's own, or more than the limit on the count.
    #[cfg(feature = "alloc")]
    pub fn sequence_of<T: Decode<'a>>(&mut self) -> Result<Vec<T>, Error> {
        let offset = self.position();
        let count = self.count(0)?;
        self.budget.elements(count as u64, offset)?;
        self.nested(|from| T::decode_all(count, from))
    }

    /// A SEQUENCE OF: its count, and its elements, each read by `read`.
    ///
    /// # Errors
    /// As `read`'s own, or more than the limit on the count.
    #[cfg(feature = "alloc")]
    pub fn sequence_of_each<T>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let offset = self.position();
        let count = self.count(0)?;
        self.budget.elements(count as u64, offset)?;
        self.nested(|from| from.elements(count, read))
    }

    /// Exactly `count` elements, each read by `read`.
    ///
    /// # Errors
    /// As `read`'s own.
    #[cfg(feature = "alloc")]
    #[inline]
    pub fn elements<T>(
        &mut self,
        count: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        // What is reserved is bounded by the input, whatever the count says.
        let most = 4 * self.remaining() / size_of::<T>().max(1) + 1;
        let mut elements = Vec::with_capacity(count.min(most));
        for i in 0..count {
            elements.push(read(self).map_err(|e| e.in_element(i))?);
        }
        Ok(elements)
    }
}
