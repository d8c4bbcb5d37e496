//! Where a decoder is in a message, and what is left of its limits: what all decoders that read forwards share. Each
//! is this with rules of its own, and adds what its syntax has.

use crate::limits::Budget;
use crate::types::Octets;
use crate::{Error, Limits, Problem, Source, Step};

#[cfg(feature = "alloc")]
use alloc::{vec, vec::Vec};

/// Reads a syntax from a source: `R` says which, and holds what it must know.
#[derive(Debug)]
pub struct Cursor<S, R> {
    pub(crate) source: S,
    pub(crate) budget: Budget,
    pub(crate) rules: R,
}

impl<'a, S: Source<'a>, R> Cursor<S, R> {
    pub(crate) fn of(source: S, rules: R, limits: Limits) -> Self {
        Cursor { source, budget: Budget::new(limits), rules }
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
        self.finished()
    }

    /// That no bytes are left.
    ///
    /// # Errors
    /// [`Problem::LeftOver`].
    pub fn finished(&self) -> Result<(), Error> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(Problem::LeftOver { left })),
        }
    }

    /// All of the message, which `read` reads.
    pub(crate) fn whole<T>(
        mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let value = read(&mut self)?;
        self.finish()?;
        Ok(value)
    }

    /// What `read` reads one level deeper, which has to be the next `len` bytes.
    pub(crate) fn exactly<T>(
        &mut self,
        len: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let end = self.position().saturating_add(len);
        let value = self.nested(read)?;
        match self.position() == end {
            true => Ok(value),
            false => Err(self.error(Problem::LeftOver { left: end.abs_diff(self.position()) })),
        }
    }

    /// All bytes that are left.
    ///
    /// # Errors
    /// Beyond the limits.
    #[cfg(feature = "alloc")]
    pub fn rest(&mut self) -> Result<Octets<'a>, Error> {
        self.lent(self.remaining())
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

    /// `count` numbers as they lie in the message, all at once.
    #[cfg(feature = "alloc")]
    pub(crate) fn numbers<T: bytemuck::Pod>(&mut self, count: usize) -> Result<Vec<T>, Error> {
        self.are_there(count.saturating_mul(size_of::<T>()))?;
        let mut numbers = vec![T::zeroed(); count];
        self.source.take_elements(bytemuck::cast_slice_mut(&mut numbers), size_of::<T>())?;
        Ok(numbers)
    }

    /// The next `N` bytes.
    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.source.take(&mut bytes)?;
        Ok(bytes)
    }

    /// The next `len` bytes, lent where the source lends.
    #[inline(always)]
    pub(crate) fn lent(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        match self.source.lend(len) {
            Some(bytes) => Ok(Octets::new(bytes)),
            None => self.copied(len),
        }
    }

    #[cfg(feature = "alloc")]
    fn copied(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        self.are_there(len)?;
        self.budget.bytes(len as u64, self.position())?;
        let mut bytes = vec![0; len];
        self.source.take(&mut bytes)?;
        Ok(Octets::from(bytes))
    }

    #[cfg(not(feature = "alloc"))]
    fn copied(&mut self, len: usize) -> Result<Octets<'a>, Error> {
        self.are_there(len)?;
        Err(self.error(Problem::Unsupported("a source that does not lend")))
    }

    /// Whether so many bytes are left, before anything is allocated for them.
    pub(crate) fn are_there(&self, needed: usize) -> Result<(), Error> {
        match self.remaining() {
            left if left < needed => Err(self.error(Problem::Truncated { needed, left })),
            _ => Ok(()),
        }
    }

    /// What fills `count` bytes, 8 at most, to the end of a unit: zeros.
    #[inline(always)]
    pub(crate) fn zeros(&mut self, count: usize) -> Result<(), Error> {
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
}
