//! Costs with their units, so that none is taken for another.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div};

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

impl Add for ClocksPerByte {
    type Output = ClocksPerByte;
    fn add(self, other: ClocksPerByte) -> ClocksPerByte {
        ClocksPerByte(self.0 + other.0)
    }
}

impl Sum for ClocksPerByte {
    fn sum<I: Iterator<Item = ClocksPerByte>>(parts: I) -> ClocksPerByte {
        parts.fold(ClocksPerByte(0.0), Add::add)
    }
}

/// How many times the one is the other.
impl Div for ClocksPerByte {
    type Output = f64;
    fn div(self, other: ClocksPerByte) -> f64 {
        self.0 / other.0
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
