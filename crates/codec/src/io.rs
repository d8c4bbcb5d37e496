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
}

/// Gives the bytes of a message in order.
pub trait Source {
    /// Fills `into`.
    ///
    /// # Errors
    /// [`Problem::Truncated`] when fewer bytes are left; none were given then.
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error>;

    /// Bytes given so far.
    fn position(&self) -> usize;

    /// Bytes left. Nothing is allocated for a length that exceeds it.
    fn remaining(&self) -> usize;
}

#[cfg(feature = "alloc")]
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn position(&self) -> usize {
        self.len()
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
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let room = &mut self.slice[self.filled..];
        let left = room.len();
        match room.get_mut(..bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => return Err(Problem::Full { needed: bytes.len(), left }.at(self.filled)),
        }
        self.filled += bytes.len();
        Ok(())
    }

    fn position(&self) -> usize {
        self.filled
    }
}

/// A slice that is read from its start.
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

impl Source for SliceSource<'_> {
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

    fn position(&self) -> usize {
        self.taken
    }

    fn remaining(&self) -> usize {
        self.slice.len() - self.taken
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        (**self).put(bytes)
    }

    fn position(&self) -> usize {
        (**self).position()
    }
}

impl<S: Source + ?Sized> Source for &mut S {
    fn take(&mut self, into: &mut [u8]) -> Result<(), Error> {
        (**self).take(into)
    }

    fn position(&self) -> usize {
        (**self).position()
    }

    fn remaining(&self) -> usize {
        (**self).remaining()
    }
}
