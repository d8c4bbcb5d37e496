//! The checksum of ISO transport class 4 (RFC 905, annex B): Fletcher's, modulo 255.
//!
//! ```text
//! for each byte b:  c0 += b;  c1 += c0          modulo 255
//! ```
//! Said otherwise, with bytes numbered from 0 in a message of `len`: `c0` is their sum and `c1` the sum
//! of `(len - i) * b[i]`. With `i = k * width + p`, vector `k` and place `p` in it, that is
//! `len * c0 - width * Σ k * s[k] - Σ p * b`, where `s[k]` is the sum of vector `k`; `Σ k * s[k]` comes
//! from adding up the running sum after each vector. Nothing is reduced modulo 255 before the end.

use fusewire_kernels::arch::Lanes;
use fusewire_kernels::stage::{Output, Run, Stage};

/// Finds the two sums.
#[derive(Clone, Copy, Debug)]
pub struct FletcherSum;

/// The two sums, `0..=254` each. A message whose checksum bytes were included and right has both zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fletcher {
    /// Sum of the bytes.
    pub c0: u8,
    /// Sum of the sums.
    pub c1: u8,
}

impl Fletcher {
    /// The two sums of no bytes.
    pub const ZERO: Fletcher = Fletcher { c0: 0, c1: 0 };

    /// The slow, obvious way.
    pub fn of(bytes: &[u8]) -> Fletcher {
        let (mut c0, mut c1) = (0u32, 0u32);
        for &byte in bytes {
            c0 = (c0 + u32::from(byte)) % 255;
            c1 = (c1 + c0) % 255;
        }
        Fletcher { c0: c0 as u8, c1: c1 as u8 }
    }

    /// Both sums are zero.
    pub const fn verifies(self) -> bool {
        self.c0 == 0 && self.c1 == 0
    }

    /// The two bytes that make a message of `len` bytes verify when put at `at` and `at + 1` (counted
    /// from 0), where zeros were when the sums were made (RFC 905, annex B.3).
    ///
    /// # Panics
    /// When the two do not lie inside the message.
    pub fn checksum(self, len: usize, at: usize) -> [u8; 2] {
        assert!(at + 2 <= len, "both bytes lie in the message");
        let (c0, c1) = (i64::from(self.c0), i64::from(self.c1));
        // The RFC counts from 1: its n is at + 1.
        let after = ((len - at - 1) % 255) as i64;
        let x = (after * c0 - c1).rem_euclid(255);
        let y = (c1 - (after + 1) * c0).rem_euclid(255);
        [x as u8, y as u8]
    }
}

impl Stage for FletcherSum {
    type Output = Fletcher;
    const NAME: &'static str = "iso-tp4";
    const BLOCK: usize = 1;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 2;
    const ORDERED: bool = true;
}

/// What is added up.
pub struct State<V> {
    /// Bytes, in 64-bit lanes.
    sum: V,
    /// `sum` before each vector.
    sums: V,
    /// Bytes times their places, in 32-bit lanes, and what has been moved from there.
    places: V,
    places64: V,
    /// 0, 1, 2, …
    weights: V,
    /// Vectors until `places` could overflow.
    left: u32,
}

/// A 32-bit lane of `places` grows by less than 2^16 with a vector.
const VECTORS: u32 = 1 << 16;

impl<L: Lanes> Run<L> for FletcherSum {
    type State = State<L::V>;
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        const PLACES: [u8; 64] = {
            let mut places = [0; 64];
            let mut i = 0;
            while i < 64 {
                places[i] = i as u8;
                i += 1;
            }
            places
        };
        let zero = lanes.zero();
        let weights = lanes.load(&PLACES);
        State { sum: zero, sums: zero, places: zero, places64: zero, weights, left: VECTORS }
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        if state.left < N as u32 {
            let low = lanes.and(state.places, lanes.splat64(0xffff_ffff));
            let high = lanes.shr64::<32>(state.places);
            state.places64 = lanes.add64(state.places64, lanes.add64(low, high));
            state.places = lanes.zero();
            state.left = VECTORS;
        }
        state.left -= N as u32;
        for x in x {
            state.sums = lanes.add64(state.sums, state.sum);
            state.sum = lanes.add64(state.sum, lanes.sum_bytes(*x));
            state.places = lanes.add32(state.places, lanes.dot_bytes(*x, state.weights));
        }
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Fletcher {
        let low = lanes.and(state.places, lanes.splat64(0xffff_ffff));
        let places = lanes.add64(lanes.add64(low, lanes.shr64::<32>(state.places)), state.places64);
        let sum = lanes.sum64(state.sum) % 255;
        let sums = lanes.sum64(state.sums) % 255;
        let places = lanes.sum64(places) % 255;
        let vectors = len.div_ceil(L::WIDTH).saturating_sub(1) as u64 % 255;
        // Σ k * s[k], then c1; 255 * 255 keeps the differences positive.
        let ranks = (vectors * sum + 255 - sums) % 255;
        let c1 = len as u64 % 255 * sum + (255 - L::WIDTH as u64) * ranks + 255 - places;
        Fletcher { c0: sum as u8, c1: (c1 % 255) as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_its_checksum_verifies() {
        for len in [2usize, 3, 17, 254, 255, 256, 1000] {
            for at in [0, 1, len / 2, len - 2] {
                let at = at.min(len - 2);
                let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
                bytes[at..at + 2].fill(0);
                let check = Fletcher::of(&bytes).checksum(len, at);
                bytes[at..at + 2].copy_from_slice(&check);
                assert!(Fletcher::of(&bytes).verifies(), "{len} bytes, checksum at {at}");
                bytes[len / 3] ^= 4;
                assert!(!Fletcher::of(&bytes).verifies());
            }
        }
    }
}
