//! SAFER's tables and byte orders at each level.
//!
//! - portable: tables of 256 bytes.
//! - avx2, exp: `45^(16h + l) = 45^16h · 45^l` modulo 257, each factor one of 16 (`vpshufb`); the product
//!   modulo 257 is its low byte minus its high byte, since `256 = -1`. The factors are scaled by a number
//!   and its inverse so that none is 256, which a byte could not hold.
//! - avx2, log: `log(257 - y) = log(y) + 128` halves the table; the other half is eight `vpshufb` chosen
//!   from by three bits.
//! - avx512: `vpermi2b` looks 64 bytes up in half a table.

use super::{Portable, Zip};
use crate::stages::{SAFER_EXP as EXP, SAFER_LOG as LOG};

/// The order of a block's bytes that [`SaferLanes::split`] gives: those for exp in the order of pairs, then
/// those for log.
const SPLIT: [u8; 16] = [0, 3, 4, 7, 8, 11, 12, 15, 1, 2, 5, 6, 9, 10, 13, 14];
/// Its inverse.
const JOIN: [u8; 16] = [0, 8, 9, 1, 2, 10, 11, 3, 4, 12, 13, 5, 6, 14, 15, 7];
/// Bytes at even places, then those at odd places.
const UNZIP: [u8; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15];

/// What SAFER needs of a level.
pub trait SaferLanes: Zip {
    /// exp of every byte.
    fn exp(self, x: Self::V) -> Self::V;
    /// log of every byte.
    fn log(self, x: Self::V) -> Self::V;
    /// From two vectors of blocks to the bytes 1, 4, 5, 8 of each block and the bytes 2, 3, 6, 7.
    #[inline(always)]
    fn split(self, [x, y]: [Self::V; 2]) -> [Self::V; 2] {
        self.zip64([self.shuffle(x, SPLIT), self.shuffle(y, SPLIT)])
    }
    /// The inverse of `split`.
    #[inline(always)]
    fn join(self, pair: [Self::V; 2]) -> [Self::V; 2] {
        let [x, y] = self.zip64(pair);
        [self.shuffle(x, JOIN), self.shuffle(y, JOIN)]
    }
    /// The bytes at even places of both, and those at odd places: the inverse of [`Zip::zip8`].
    #[inline(always)]
    fn unzip8(self, [x, y]: [Self::V; 2]) -> [Self::V; 2] {
        self.zip64([self.shuffle(x, UNZIP), self.shuffle(y, UNZIP)])
    }
}

impl SaferLanes for Portable {
    #[inline(always)]
    fn exp(self, x: Self::V) -> Self::V {
        look_up(&EXP, x)
    }
    #[inline(always)]
    fn log(self, x: Self::V) -> Self::V {
        look_up(&LOG, x)
    }
}

#[inline(always)]
fn look_up(table: &[u8; 256], x: [u32; 4]) -> [u32; 4] {
    x.map(|word| u32::from_le_bytes(word.to_le_bytes().map(|byte| table[usize::from(byte)])))
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::{EXP, LOG, SaferLanes};
    use crate::arch::avx2::Flavour;
    use crate::arch::{Avx2, Avx512, Lanes, Zip};
    use core::arch::x86_64::*;

    const fn product(a: u32, b: u32) -> u8 {
        let product = a * b % 257;
        assert!(product < 256, "a factor does not fit a byte");
        product as u8
    }

    /// `3·45^l` and `86·45^16h` modulo 257, where 86 is the inverse of 3.
    const FACTORS: [[u8; 16]; 2] = {
        let mut factors = [[0; 16]; 2];
        let (mut low, mut high) = (1, 1);
        let mut i = 0;
        while i < 16 {
            factors[0][i] = product(3, low);
            factors[1][i] = product(86, high);
            low = low * 45 % 257;
            // 45^16 modulo 257.
            high = high * pow16(45) % 257;
            i += 1;
        }
        factors
    };

    const fn pow16(x: u32) -> u32 {
        let x = x * x % 257;
        let x = x * x % 257;
        let x = x * x % 257;
        x * x % 257
    }

    /// log of 1 to 128, in 16s.
    const HALF_LOG: [[u8; 16]; 8] = {
        let mut table = [[0; 16]; 8];
        let mut i = 0;
        while i < 128 {
            table[i / 16][i % 16] = LOG[i + 1];
            i += 1;
        }
        table
    };

    impl<F: Flavour> SaferLanes for Avx2<F> {
        #[inline(always)]
        fn exp(self, x: __m256i) -> __m256i {
            let nibble = self.splat8(0x0f);
            let (low, high) = (self.and(x, nibble), self.and(self.shr16::<4>(x), nibble));
            let even = self.splat16(0x00ff);
            // SAFETY: the token proves AVX2.
            unsafe {
                let a = _mm256_shuffle_epi8(self.splat128(FACTORS[0]), low);
                let b = _mm256_shuffle_epi8(self.splat128(FACTORS[1]), high);
                let at_even = _mm256_mullo_epi16(self.and(a, even), self.and(b, even));
                let at_odd = _mm256_mullo_epi16(self.shr16::<8>(a), self.shr16::<8>(b));
                let low = self.odd8(at_even, _mm256_slli_epi16::<8>(at_odd));
                let high = self.odd8(self.shr16::<8>(at_even), at_odd);
                // The product is no multiple of 257, so the halves differ.
                let borrow = _mm256_cmpeq_epi8(_mm256_max_epu8(low, high), high);
                self.sub8(self.sub8(low, high), borrow)
            }
        }
        #[inline(always)]
        fn log(self, x: __m256i) -> __m256i {
            // 0 stands for 256, so x - 1 is 0 to 255 in order, and its complement is 257 - x - 1.
            let x = self.sub8(x, self.splat8(1));
            let top = self.and(x, self.splat8(0x80));
            // SAFETY: the token proves AVX2.
            unsafe {
                let index = self.xor(x, _mm256_cmpgt_epi8(self.zero(), x));
                let by_bit4 = _mm256_slli_epi16::<3>(index);
                let by_bit5 = _mm256_slli_epi16::<2>(index);
                let by_bit6 = _mm256_slli_epi16::<1>(index);
                let mut y = [self.zero(); 4];
                for (i, y) in y.iter_mut().enumerate() {
                    let a = _mm256_shuffle_epi8(self.splat128(HALF_LOG[2 * i]), index);
                    let b = _mm256_shuffle_epi8(self.splat128(HALF_LOG[2 * i + 1]), index);
                    *y = _mm256_blendv_epi8(a, b, by_bit4);
                }
                let a = _mm256_blendv_epi8(y[0], y[1], by_bit5);
                let b = _mm256_blendv_epi8(y[2], y[3], by_bit5);
                self.xor(_mm256_blendv_epi8(a, b, by_bit6), top)
            }
        }
    }

    /// A table in two halves of 128 bytes.
    #[inline(always)]
    fn look_up(lanes: Avx512, table: &[u8; 256], x: __m512i) -> __m512i {
        let quarter = |i: usize| lanes.load(&table[64 * i..]);
        // SAFETY: the token proves AVX-512 VBMI and BW.
        unsafe {
            let low = _mm512_permutex2var_epi8(quarter(0), x, quarter(1));
            let high = _mm512_permutex2var_epi8(quarter(2), x, quarter(3));
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high)
        }
    }

    static TABLES: [[u8; 256]; 2] = [EXP, LOG];

    impl SaferLanes for Avx512 {
        #[inline(always)]
        fn exp(self, x: __m512i) -> __m512i {
            look_up(self, &TABLES[0], x)
        }
        #[inline(always)]
        fn log(self, x: __m512i) -> __m512i {
            look_up(self, &TABLES[1], x)
        }
    }
}
