//! CXOR, the check function of XTP 3.6.
//!
//! The form fixed here, over the message's 16-bit words `w[0..n]`, big-endian, an odd last byte being
//! the high half of a word whose low half is zero:
//!
//! ```text
//! xor  = w[0] ^ w[1] ^ … ^ w[n-1]
//! rxor = rotl(w[0], 0) ^ rotl(w[1], 1) ^ … ^ rotl(w[n-1], (n-1) mod 16)
//! ```
//! So zeros behind the message change nothing. A turn by 8 exchanges a word's bytes and turns can be
//! made in any order: words are taken as the CPU has them and both results have their bytes exchanged
//! at the end. Words whose numbers are equal modulo 16 are turned alike: they are xored first, in
//! columns, and turned once; a vector is a row of them.
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::stage::{Output, Run, Stage};

/// The two halves of the check function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cxor {
    /// Exclusive-or of all words.
    pub xor: u16,
    /// Exclusive-or of all words, each turned left one bit further than the one before.
    pub rxor: u16,
}

impl Cxor {
    /// The slow, obvious way.
    #[inline]
    pub fn of(bytes: &[u8]) -> Cxor {
        let mut cxor = Cxor::default();
        for (i, word) in bytes.chunks(2).enumerate() {
            let low = word.get(1).copied().unwrap_or(0);
            let word = u16::from_be_bytes([word[0], low]);
            cxor.xor ^= word;
            cxor.rxor ^= word.rotate_left(i as u32 % 16);
        }
        cxor
    }

    /// That of a piece of `len` bytes, which is even, and of `next` behind it.
    #[must_use]
    pub const fn then(self, len: usize, next: Cxor) -> Cxor {
        debug_assert!(len.is_multiple_of(2), "halves of a word are not joined");
        let turned = next.rxor.rotate_left((len / 2 % 16) as u32);
        Cxor { xor: self.xor ^ next.xor, rxor: self.rxor ^ turned }
    }

    /// The 32 bits: `xor`, then `rxor`.
    pub const fn bits(self) -> u32 {
        (self.xor as u32) << 16 | self.rxor as u32
    }
}

/// The stage: finds the check function in vectors.
#[derive(Clone, Copy, Debug)]
pub struct CxorSum;

impl Stage for CxorSum {
    type Output = Cxor;
    const NAME: &'static str = "cxor";
    const BLOCK: usize = 2;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 1;
    const ORDERED: bool = true;
    const VECTORS: usize = 8;
    // One vector alone waits for the one before the last.
    const FOURS: bool = true;
}

impl<L: Lanes> Run<L> for CxorSum {
    /// Columns. A vector of 16 bytes has but 8 of the 16, so there are two: that of the next vector and
    /// that of the one after.
    type State = [L::V; 2];
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        [lanes.zero(); 2]
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        if N == 1 {
            *state = [state[1], lanes.xor(state[0], x[0])];
            return;
        }
        let mut all = *x;
        let mut n = N;
        while n > 2 {
            n /= 2;
            for i in 0..n {
                all[i] = lanes.xor(all[i], all[i + n]);
            }
        }
        for (state, all) in state.iter_mut().zip(all) {
            *state = lanes.xor(*state, all);
        }
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Cxor {
        let [a, b] = state;
        let (all, turned) = if L::WIDTH == 16 {
            // The columns 0 to 7 are in the vector before last if there is an odd number of them.
            let (a, b) = if len.div_ceil(16) % 2 == 1 { (b, a) } else { (a, b) };
            let turned = lanes.xor(lanes.turn16::<0>(a), lanes.turn16::<8>(b));
            (lanes.xor(a, b), turned)
        } else {
            let all = lanes.xor(a, b);
            (all, lanes.turn16::<0>(all))
        };
        let word = |x: u64| {
            let x = x ^ x >> 32;
            ((x ^ x >> 16) as u16).swap_bytes()
        };
        Cxor { xor: word(lanes.xor64(all)), rxor: word(lanes.xor64(turned)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_finds_it_and_a_copy_too() {
        let bytes: Vec<u8> = (0..1500u32).map(|i| (i * 37 + 11) as u8).collect();
        for level in crate::Level::available() {
            for len in [0, 1, 2, 15, 16, 17, 33, 64, 255, 1024, 1499] {
                let (src, mut dst) = (&bytes[..len], vec![0; len]);
                assert_eq!(crate::cxor(level, src), Cxor::of(src), "{level}, {len}");
                assert_eq!(crate::copy_cxor(level, src, &mut dst), Cxor::of(src), "{level}, {len}");
                assert_eq!(dst, src);
            }
        }
    }

    #[test]
    fn pieces_join_at_every_word() {
        let bytes: Vec<u8> = (0..77u32).map(|i| (i * 37 + 11) as u8).collect();
        for at in (0..bytes.len()).step_by(2) {
            let (first, next) = bytes.split_at(at);
            assert_eq!(Cxor::of(first).then(at, Cxor::of(next)), Cxor::of(&bytes), "at {at}");
        }
    }

    #[test]
    fn words_turn_one_bit_further_each() {
        let cxor = Cxor::of(&[0x80, 0x01, 0x80, 0x01, 0x40]);
        assert_eq!(cxor, Cxor { xor: 0x4000, rxor: 0x8001 ^ 0x0003 ^ 0x0001 });
        assert_eq!(cxor.bits(), 0x4000_8003);
    }
}
