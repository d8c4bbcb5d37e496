//! Where a decoder is in a message, and what is left of its limits: what all decoders that read forwards share. Each
//! is this with rules of its own, and adds what its syntax has.

use crate::limits::Budget;
use crate::types::Octets;
use crate::{Error, Limits, Problem, Source, Step};

#[cfg(feature = "alloc")]
use alloc::{vec, vec::Vec};
#[cfg(feature = "alloc")]
use core::marker::PhantomData;

/// Reads a syntax from a source: `R` says which, and holds what it must know.
#[derive(Debug)]
pub struct Cursor<S, R> {
    pub(crate) source: S,
    pub(crate) budget: Budget,
    pub(crate) rules: R,
}

impl<'a, S: Source<'a>, R> Cursor<S, R> {
    #[inline]
    pub(crate) fn of(source: S, rules: R, limits: Limits) -> Self {
        Cursor { source, budget: Budget::new(limits), rules }
    }

    /// Bytes read so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.source.position()
    }

    /// Bytes left.
    #[inline]
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
    #[inline]
    pub fn finish(self) -> Result<(), Error> {
        self.finished()
    }

    /// That no bytes are left.
    ///
    /// # Errors
    /// [`Problem::LeftOver`].
    #[inline]
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

    /// What `read` reads into its place, as the component `name`.
    ///
    /// # Errors
    /// As `read`'s own, which has `name` in its path.
    #[inline(always)]
    pub fn field_into<T>(
        &mut self,
        name: &'static str,
        place: &mut T,
        read: impl FnOnce(&mut T, &mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.field(name, |from| read(place, from))
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
        let mut elements = self.room(count);
        for i in 0..count {
            elements.push(read(self).map_err(|e| e.in_element(i))?);
        }
        Ok(elements)
    }

    /// Exactly `count` elements, each read by `read` over what `blank` makes.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn elements_in_place<T>(
        &mut self,
        count: usize,
        blank: fn() -> T,
        mut read: impl FnMut(&mut T, &mut Self) -> Result<(), Error>,
    ) -> Result<Vec<T>, Error> {
        let mut elements = self.room(count);
        for i in 0..count {
            // Made in the vector: what is pushed is made beside it, and moved.
            elements.extend(core::iter::once_with(blank));
            if let Some(place) = elements.last_mut() {
                read(place, self).map_err(|e| e.in_element(i))?;
            }
        }
        Ok(elements)
    }

    /// A vector for `count` elements: what is reserved is bounded by the input, whatever the count says.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn room<T>(&self, count: usize) -> Vec<T> {
        let most = 4 * self.remaining() / size_of::<T>().max(1) + 1;
        Vec::with_capacity(count.min(most))
    }

    /// `count` numbers as they lie in the message, all at once.
    #[cfg(feature = "alloc")]
    pub(crate) fn numbers<T: bytemuck::Pod>(&mut self, count: usize) -> Result<Vec<T>, Error> {
        let len = count.saturating_mul(size_of::<T>());
        if let Some(bytes) = self.source.lend(len) {
            return Ok(crate::run(count, Numbers(bytes, PhantomData)));
        }
        self.are_there(len)?;
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

    /// The next `len` bytes and the zeros that fill them up to a multiple of `unit`: 2, 4 or 8.
    #[inline(always)]
    pub(crate) fn filled_octets(&mut self, len: usize, unit: usize) -> Result<Octets<'a>, Error> {
        let fill = len.wrapping_neg() % unit;
        if let Some(whole) = self.source.lend(len.saturating_add(fill)) {
            return match crate::cursor::fill(whole, len, unit) {
                0 => Ok(Octets::new(&whole[..len])),
                _ => Err(self.not_zeros(&whole[len..])),
            };
        }
        let octets = self.lent(len)?;
        self.zeros(fill)?;
        Ok(octets)
    }

    #[cold]
    #[inline(never)]
    fn not_zeros(&self, fill: &[u8]) -> Error {
        let at = fill.iter().position(|byte| *byte != 0).unwrap_or_default();
        Problem::Fill { found: fill[at] }.at(self.position() - fill.len() + at)
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

/// How a syntax reads what stands behind a count of its bytes.
pub trait TakeCounted: Sized {
    /// The count.
    ///
    /// # Errors
    /// Truncated or malformed.
    fn count<'a, S: Source<'a>>(from: &mut Cursor<S, Self>) -> Result<usize, Error>;

    /// What follows so many bytes.
    ///
    /// # Errors
    /// Truncated, or not zeros.
    fn fill<'a, S: Source<'a>>(_: &mut Cursor<S, Self>, _len: usize) -> Result<(), Error> {
        Ok(())
    }
}

impl<'a, S: Source<'a>, R: TakeCounted> Cursor<S, R> {
    /// What `read` reads, behind a count of its bytes.
    ///
    /// # Errors
    /// As `read`'s own, or it reads more or less than was counted.
    pub fn counted<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let len = R::count(self)?;
        let value = self.exactly(len, read)?;
        R::fill(self, len)?;
        Ok(value)
    }
}

/// What follows the first `len` bytes of `whole`, which is a multiple of `unit` (2, 4 or 8 bytes), fewer than that more.
#[inline(always)]
pub(crate) fn fill(whole: &[u8], len: usize, unit: usize) -> u64 {
    let last = match unit {
        2 => whole.last_chunk().map_or(0, |last| u16::from_be_bytes(*last).into()),
        4 => whole.last_chunk().map_or(0, |last| u32::from_be_bytes(*last).into()),
        _ => whole.last_chunk().map_or(0, |last| u64::from_be_bytes(*last)),
    };
    last & ((1 << (8 * (whole.len() - len))) - 1)
}

/// Numbers in network byte order, each as long as a `T`.
#[cfg(feature = "alloc")]
struct Numbers<'d, T>(&'d [u8], PhantomData<T>);

#[cfg(feature = "alloc")]
impl<T: bytemuck::Pod> crate::Loops for Numbers<'_, T> {
    type Output = Vec<T>;

    /// Into memory that holds nothing yet: to fill it with zeros first takes as long as all of it.
    #[inline(always)]
    fn run(self) -> Vec<T> {
        macro_rules! each {
            ($word:ty) => {{
                let words = self.0.as_chunks().0.iter();
                words.map(|bytes| bytemuck::cast(<$word>::from_be_bytes(*bytes))).collect()
            }};
        }
        match size_of::<T>() {
            1 => each!(u8),
            2 => each!(u16),
            4 => each!(u32),
            _ => each!(u64),
        }
    }
}
