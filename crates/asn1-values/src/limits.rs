//! Bounds on what one encoding may ask for.

use fusewire_codec::Problem;

use crate::error::Error;

/// Bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep values may lie within values.
    pub depth: u32,
    /// Bytes that are put together of pieces.
    pub size: u64,
    /// Components and elements, all together.
    pub count: u64,
}

impl Default for Limits {
    /// 64 levels, 256 MiB and 4 million values.
    fn default() -> Limits {
        Limits { depth: 64, size: 256 << 20, count: 4 << 20 }
    }
}

impl Limits {
    /// For the codec's decoders.
    pub(crate) fn codec(self) -> fusewire_codec::Limits {
        fusewire_codec::Limits { depth: self.depth, size: self.size, count: self.count }
    }

    /// For what lies within a value, so deep.
    pub(crate) fn within(self, depth: u32) -> Limits {
        Limits { depth: self.depth.saturating_sub(depth), ..self }
    }
}

/// What is left of the limits.
pub(crate) struct Budget {
    limits: Limits,
    depth: u32,
    count: u64,
}

impl Budget {
    pub fn new(limits: Limits) -> Budget {
        Budget { limits, depth: limits.depth, count: limits.count }
    }

    /// One level deeper.
    pub fn enter(&mut self, offset: usize) -> Result<(), Error> {
        let too_deep = || Error::at(Problem::TooDeep { bound: self.limits.depth }, offset);
        self.depth = self.depth.checked_sub(1).ok_or_else(too_deep)?;
        Ok(())
    }

    pub fn leave(&mut self) {
        self.depth += 1;
    }

    /// One component or element more.
    pub fn element(&mut self, offset: usize) -> Result<(), Error> {
        self.elements(1, offset)
    }

    /// So many more.
    pub fn elements(&mut self, count: u64, offset: usize) -> Result<(), Error> {
        let too_many = || Error::at(Problem::TooMany { bound: self.limits.count }, offset);
        self.count = self.count.checked_sub(count).ok_or_else(too_many)?;
        Ok(())
    }
}
