//! Words into values, totally and within limits.

use super::{Word, Words, fill_len};
use crate::cursor::{Cursor, TakeCounted};
use crate::types::Octets;
use crate::{Error, Limits, Problem, Source};

#[cfg(feature = "alloc")]
use super::{Decode, Encoder};
#[cfg(feature = "alloc")]
use crate::types::Any;
#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Reads LWS of words `W` from a source.
pub type Decoder<S, W> = Cursor<S, Words<W>>;

impl<'a, S: Source<'a>, W: Word> Decoder<S, W> {
    /// Reads from `source` within `limits`.
    pub fn new(source: S, limits: Limits) -> Self {
        Cursor::of(source, Words::default(), limits)
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
        let whole = Encoder::<_, W>::apart(|to| {
            to.fixed(index as i64, W::BYTES)?;
            to.octets(&octets)
        });
        whole.map(|whole| Any(Octets::from(whole)))
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
        self.filled_octets(len, W::BYTES)
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

    /// The zeros behind `len` bytes.
    #[inline(always)]
    pub(crate) fn fill(&mut self, len: usize) -> Result<(), Error> {
        self.zeros(fill_len::<W>(len))
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
}

impl<W: Word> TakeCounted for Words<W> {
    fn count<'a, S: Source<'a>>(from: &mut Decoder<S, W>) -> Result<usize, Error> {
        from.count(1)
    }

    fn fill<'a, S: Source<'a>>(from: &mut Decoder<S, W>, len: usize) -> Result<(), Error> {
        from.fill(len)
    }
}
