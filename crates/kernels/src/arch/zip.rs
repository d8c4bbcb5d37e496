//! Bytes and words of two vectors in turns.

use super::{Lanes, Portable};

/// Levels at which two vectors can be zipped, in each 16 bytes.
pub trait Zip: Lanes {
    /// The first eight bytes of both in turns, and the last eight.
    fn zip8(self, pair: [Self::V; 2]) -> [Self::V; 2];
    /// The first halves of both, and the second halves. Its own inverse.
    fn zip64(self, pair: [Self::V; 2]) -> [Self::V; 2];
    /// Bytes at even places of `a`, at odd places of `b`.
    fn odd8(self, a: Self::V, b: Self::V) -> Self::V;
}

impl Zip for Portable {
    #[inline(always)]
    fn zip8(self, [x, y]: [Self::V; 2]) -> [Self::V; 2] {
        /// The bytes of the low half of `x` at even places.
        const fn spread(x: u32) -> u32 {
            (x & 0xff) | (x & 0xff00) << 8
        }
        let zip = |x: u32, y: u32| spread(x) | spread(y) << 8;
        let word = |i: usize| [zip(x[i], y[i]), zip(x[i] >> 16, y[i] >> 16)];
        let ([a, b], [c, d], [e, f], [g, h]) = (word(0), word(1), word(2), word(3));
        [[a, b, c, d], [e, f, g, h]]
    }
    #[inline(always)]
    fn zip64(self, [x, y]: [Self::V; 2]) -> [Self::V; 2] {
        [[x[0], x[1], y[0], y[1]], [x[2], x[3], y[2], y[3]]]
    }
    #[inline(always)]
    fn odd8(self, a: Self::V, b: Self::V) -> Self::V {
        let even = self.splat16(0x00ff);
        self.or(self.and(a, even), self.and(b, self.splat16(0xff00)))
    }
}
