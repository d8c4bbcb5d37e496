//! Where marshalled bytes go and come from.

use crate::{Error, Problem};

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

/// Takes the bytes of a message in order.
pub trait Sink {
    /// Takes `bytes`.
    ///
    /// # Errors
    /// [`Problem::Full`] when there is no room for all of them; none were taken then.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Bytes taken so far.
    fn position(&self) -> usize;

    /// Takes the elements of an array as they lie in memory, `width` bytes each (1, 2, 4 or 8), in network
    /// byte order: what a pipeline does with a stage of its own.
    ///
    /// # Errors
    /// As [`Sink::put`].
    #[inline(always)]
    fn put_elements(&mut self, elements: &[u8], width: usize) -> Result<(), Error> {
        if let Some(room) = self.lend(elements.len()) {
            swap_to(room, elements, width);
            return Ok(());
        }
        let mut strip = [0; STRIP];
        for elements in elements.chunks(STRIP) {
            let strip = &mut strip[..elements.len()];
            swap_to(strip, elements, width);
            self.put(strip)?;
        }
        Ok(())
    }

    /// Takes `len` bytes unseen, if it only counts them ([`Length`]).
    #[inline(always)]
    fn pass_over(&mut self, _len: usize) -> bool {
        false
    }

    /// The next `len` bytes to be written by the caller, if the sink is memory with room for them.
    fn lend(&mut self, _len: usize) -> Option<&mut [u8]> {
        None
    }

    /// Takes back the last `len` bytes, which were lent.
    fn take_back(&mut self, _len: usize) {}
}

/// Gives the bytes of a message in order.
pub trait Source<'a> {
    /// Fills `into`.
    ///
    /// # Errors
    /// [`Problem::Truncated`] when fewer bytes are left; none were given then.
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error>;

    /// Bytes given so far.
    fn position(&self) -> usize;

    /// Bytes left. Nothing is allocated for a length that exceeds it.
    fn remaining(&self) -> usize;

    /// Fills `into` with the elements of an array, `width` bytes each (1, 2, 4 or 8), in the machine's byte
    /// order.
    ///
    /// # Errors
    /// As [`Source::take`].
    #[inline(always)]
    fn take_elements(&mut self, into: &mut [u8], width: usize) -> Result<(), Error> {
        if let Some(bytes) = self.lend(into.len()) {
            swap_to(into, bytes, width);
            return Ok(());
        }
        self.take(into)?;
        let mut strip = [0; STRIP];
        for into in into.chunks_mut(STRIP) {
            let strip = &mut strip[..into.len()];
            strip.copy_from_slice(into);
            swap_to(into, strip, width);
        }
        Ok(())
    }

    /// The next `len` bytes themselves, if the source is memory that outlives the decoder and has as many.
    fn lend(&mut self, _len: usize) -> Option<&'a [u8]> {
        None
    }

    /// All bytes that are left, not taken yet, if the source is memory that outlives the decoder; otherwise
    /// none.
    fn ahead(&self) -> &'a [u8] {
        &[]
    }
}

/// What is converted at a time where memory is not lent.
const STRIP: usize = 512;

/// From `from` to `to`, which is as long, each `width` bytes from or to network order. These loops are what
/// LLVM makes vectors of. Inlined, for the width is a constant there, and each function in between is paid for once a
/// call.
#[inline(always)]
pub(crate) fn swap_to(to: &mut [u8], from: &[u8], width: usize) {
    macro_rules! words {
        ($type:ty) => {
            for (to, from) in to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
                *to = <$type>::from_ne_bytes(*from).to_be_bytes();
            }
        };
    }
    debug_assert_eq!(to.len(), from.len());
    debug_assert!(from.len().is_multiple_of(width));
    #[cfg(feature = "vectors")]
    if crate::vectors::swap(to, from, width) {
        return;
    }
    match width {
        2 => words!(u16),
        4 => words!(u32),
        8 => words!(u64),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(feature = "alloc")]
impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn position(&self) -> usize {
        self.len()
    }

    #[inline]
    fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        let start = self.len();
        self.resize(start + len, 0);
        Some(&mut self[start..])
    }

    fn take_back(&mut self, len: usize) {
        self.truncate(self.len().saturating_sub(len));
    }
}

/// Takes bytes and keeps only their number: how long an encoding will be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length(usize);

impl Sink for Length {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0 += bytes.len();
        Ok(())
    }

    #[inline(always)]
    fn position(&self) -> usize {
        self.0
    }

    #[inline(always)]
    fn put_elements(&mut self, elements: &[u8], _: usize) -> Result<(), Error> {
        self.0 += elements.len();
        Ok(())
    }

    #[inline(always)]
    fn pass_over(&mut self, len: usize) -> bool {
        self.0 += len;
        true
    }
}

/// A slice that is filled from its start.
#[derive(Debug)]
pub struct SliceSink<'a> {
    slice: &'a mut [u8],
    filled: usize,
}

impl<'a> SliceSink<'a> {
    /// Fills `slice` from its start.
    pub fn new(slice: &'a mut [u8]) -> Self {
        SliceSink { slice, filled: 0 }
    }
}

impl Sink for SliceSink<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let room = &mut self.slice[self.filled..];
        let left = room.len();
        match room.get_mut(..bytes.len()) {
            Some(to) => crate::ber::copy(to, bytes),
            None => return Err(Problem::Full { needed: bytes.len(), left }.at(self.filled)),
        }
        self.filled += bytes.len();
        Ok(())
    }

    #[inline]
    fn position(&self) -> usize {
        self.filled
    }

    #[inline]
    fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        let room = self.slice.get_mut(self.filled..)?.get_mut(..len)?;
        self.filled += len;
        Some(room)
    }

    fn take_back(&mut self, len: usize) {
        self.filled = self.filled.saturating_sub(len);
    }
}

/// A slice that is read from its start, and lends.
#[derive(Clone, Debug)]
pub struct SliceSource<'a> {
    slice: &'a [u8],
    taken: usize,
}

impl<'a> SliceSource<'a> {
    /// Reads `slice` from its start.
    pub fn new(slice: &'a [u8]) -> Self {
        SliceSource { slice, taken: 0 }
    }
}

impl<'a> Source<'a> for SliceSource<'a> {
    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let rest = &self.slice[self.taken..];
        match rest.get(..into.len()) {
            Some(from) => into.copy_from_slice(from),
            None => {
                return Err(
                    Problem::Truncated { needed: into.len(), left: rest.len() }.at(self.taken)
                );
            }
        }
        self.taken += into.len();
        Ok(())
    }

    #[inline]
    fn position(&self) -> usize {
        self.taken
    }

    #[inline]
    fn remaining(&self) -> usize {
        self.slice.len() - self.taken
    }

    #[inline]
    fn lend(&mut self, len: usize) -> Option<&'a [u8]> {
        let slice = self.slice;
        let bytes = slice.get(self.taken..)?.get(..len)?;
        self.taken += len;
        Some(bytes)
    }

    #[inline]
    fn ahead(&self) -> &'a [u8] {
        &self.slice[self.taken..]
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        (**self).put(bytes)
    }

    #[inline(always)]
    fn position(&self) -> usize {
        (**self).position()
    }

    #[inline(always)]
    fn put_elements(&mut self, elements: &[u8], width: usize) -> Result<(), Error> {
        (**self).put_elements(elements, width)
    }

    #[inline(always)]
    fn pass_over(&mut self, len: usize) -> bool {
        (**self).pass_over(len)
    }

    #[inline(always)]
    fn lend(&mut self, len: usize) -> Option<&mut [u8]> {
        (**self).lend(len)
    }

    #[inline(always)]
    fn take_back(&mut self, len: usize) {
        (**self).take_back(len);
    }
}

impl<'a, S: Source<'a> + ?Sized> Source<'a> for &mut S {
    #[inline(always)]
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        (**self).take(into)
    }

    #[inline(always)]
    fn position(&self) -> usize {
        (**self).position()
    }

    #[inline(always)]
    fn remaining(&self) -> usize {
        (**self).remaining()
    }

    #[inline(always)]
    fn take_elements(&mut self, into: &mut [u8], width: usize) -> Result<(), Error> {
        (**self).take_elements(into, width)
    }

    #[inline(always)]
    fn lend(&mut self, len: usize) -> Option<&'a [u8]> {
        (**self).lend(len)
    }

    #[inline(always)]
    fn ahead(&self) -> &'a [u8] {
        (**self).ahead()
    }
}
