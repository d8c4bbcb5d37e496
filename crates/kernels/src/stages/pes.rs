//! PES, the pseudo-encryption of Abbott and Peterson: additions and exclusive-ors of constants.
//!
//! It hides nothing and is here for the papers' comparisons (Ahlgren, section 5.1: a block of two
//! 32-bit words, six instructions, two constants). The papers give no formula; ours, on the two
//! little-endian words `x0 x1` of a block with the key words `k0 k1`, modulo 2^32:
//!
//! ```text
//! y0 = (x0 + k0) ^ k1        x0 = (y0 ^ k1) - k0
//! y1 = (x1 + k1) ^ k0        x1 = (y1 ^ k0) - k1
//! ```
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::stage::{Output, Run, Stage};

/// The two key words.
#[derive(Clone, Copy)]
pub struct PesKey {
    /// `k0 k1` and `k1 k0`, as a block has them.
    pairs: [u64; 2],
}

impl PesKey {
    /// From eight bytes: two little-endian words.
    pub const fn new(key: [u8; 8]) -> Self {
        let pair = u64::from_le_bytes(key);
        PesKey { pairs: [pair, pair.rotate_left(32)] }
    }

    /// `k0` and `k1`.
    pub const fn words(self) -> [u32; 2] {
        [self.pairs[0] as u32, self.pairs[1] as u32]
    }

    /// The vectors that are added and xored.
    #[inline(always)]
    fn vectors<L: Lanes>(self, lanes: L) -> (L::V, L::V) {
        (lanes.splat64(self.pairs[0]), lanes.splat64(self.pairs[1]))
    }
}

/// Enciphers.
#[derive(Clone, Copy)]
pub struct PesEncrypt(
    /// The key.
    pub PesKey,
);

/// Deciphers.
#[derive(Clone, Copy)]
pub struct PesDecrypt(
    /// The key.
    pub PesKey,
);

impl Stage for PesEncrypt {
    type Output = ();
    const NAME: &'static str = "pes";
    const BLOCK: usize = 8;
    const WHOLE_BLOCKS: bool = true;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 8;
    const ORDERED: bool = false;
}

impl Stage for PesDecrypt {
    type Output = ();
    const NAME: &'static str = "pes";
    const BLOCK: usize = 8;
    const WHOLE_BLOCKS: bool = true;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 8;
    const ORDERED: bool = false;
}

impl<L: Lanes> Run<L> for PesEncrypt {
    /// The vectors that are added and xored; they do not change.
    type State = (L::V, L::V);
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        self.0.vectors(lanes)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        for x in &mut *x {
            *x = lanes.add32(*x, state.0);
        }
        for x in x {
            *x = lanes.xor(*x, state.1);
        }
    }
    #[inline(always)]
    fn finish(&self, _: L, _: Self::State, _: usize) {}
}

impl<L: Lanes> Run<L> for PesDecrypt {
    /// The vectors that are subtracted and xored; they do not change.
    type State = (L::V, L::V);
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        self.0.vectors(lanes)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        for x in x {
            *x = lanes.sub32(lanes.xor(*x, state.1), state.0);
        }
    }
    #[inline(always)]
    fn finish(&self, _: L, _: Self::State, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::execution::InPlace;

    /// The example of `docs/check-functions.md`.
    #[test]
    fn documented_example() {
        let key = PesKey::new([1, 0, 0, 0, 2, 0, 0, 0]);
        for level in Level::available() {
            let mut block = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
            level.run(InPlace { stage: &PesEncrypt(key), bytes: &mut block });
            assert_eq!(block, [2, 0, 0, 0, 3, 0, 0, 0]);
            level.run(InPlace { stage: &PesDecrypt(key), bytes: &mut block });
            assert_eq!(block, [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        }
    }
}
