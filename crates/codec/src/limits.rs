//! Bounds that hold whatever a message's types allow.

use crate::{Error, Problem};

/// Bounds on what one message may ask for, whatever its types allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep nested types may go.
    pub depth: u32,
    /// Bytes that are copied out of the message: strings of a source that does not lend, and such as lie in
    /// the input in pieces.
    pub size: u64,
    /// Elements of all variable-length arrays together.
    pub count: u64,
}

impl Default for Limits {
    /// 32 levels, 16 MiB and 65,536 elements.
    fn default() -> Self {
        Limits { depth: 32, size: 16 << 20, count: 1 << 16 }
    }
}

/// What is left of the limits while a message is read.
#[cfg_attr(not(feature = "alloc"), allow(dead_code, reason = "counts what is allocated"))]
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    depth: u32,
    size: u64,
    count: u64,
}

#[cfg_attr(not(feature = "alloc"), allow(dead_code, reason = "counts what is allocated"))]
impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Budget { limits, depth: limits.depth, size: limits.size, count: limits.count }
    }

    /// One level deeper; [`Budget::leave`] when it is left again.
    #[inline(always)]
    pub(crate) fn enter(&mut self, offset: usize) -> Result<(), Error> {
        match self.depth.checked_sub(1) {
            Some(depth) => self.depth = depth,
            None => return Err(Problem::TooDeep { bound: self.limits.depth }.at(offset)),
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn leave(&mut self) {
        self.depth += 1;
    }

    #[inline(always)]
    pub(crate) fn elements(&mut self, count: u64, offset: usize) -> Result<(), Error> {
        match self.count.checked_sub(count) {
            Some(count) => self.count = count,
            None => return Err(Problem::TooMany { bound: self.limits.count }.at(offset)),
        }
        Ok(())
    }

    /// Elements that may still come.
    pub(crate) fn elements_left(&self) -> u64 {
        self.count
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, len: u64, offset: usize) -> Result<(), Error> {
        match self.size.checked_sub(len) {
            Some(size) => self.size = size,
            None => return Err(Problem::TooLarge { bound: self.limits.size }.at(offset)),
        }
        Ok(())
    }
}
