//! Costs with their units, so that none is taken for another.

use std::fmt;

/// Clock cycles per byte of message.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct ClocksPerByte(pub f64);

/// Nanoseconds per byte of message.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct NsPerByte(pub f64);

impl ClocksPerByte {
    /// The time that they take at a clock frequency in MHz.
    pub fn at_mhz(self, clock_mhz: f64) -> NsPerByte {
        NsPerByte(self.0 / clock_mhz * 1000.0)
    }
}

impl fmt::Display for ClocksPerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NsPerByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
