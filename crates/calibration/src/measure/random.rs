//! Numbers that look random and come again with the same seed.

/// The generator of Marsaglia, by shifts.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // It never leaves zero, and small seeds begin slowly.
        Random((seed ^ 0x9E37_79B9_7F4A_7C15).max(1))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to `bound`, that left out.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.word() >> 32) * u64::from(bound)) >> 32) as u32
    }
}
