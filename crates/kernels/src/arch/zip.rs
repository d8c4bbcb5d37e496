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

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::Zip;
    use crate::arch::avx2::Flavour;
    use crate::arch::{Avx2, Avx512, Lanes};
    use core::arch::x86_64::*;

    impl<F: Flavour> Zip for Avx2<F> {
        #[inline(always)]
        fn zip8(self, [x, y]: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: the token proves AVX2.
            unsafe { [_mm256_unpacklo_epi8(x, y), _mm256_unpackhi_epi8(x, y)] }
        }
        #[inline(always)]
        fn zip64(self, [x, y]: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: the token proves AVX2.
            unsafe { [_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y)] }
        }
        #[inline(always)]
        fn odd8(self, a: __m256i, b: __m256i) -> __m256i {
            // SAFETY: the token proves AVX2.
            unsafe { _mm256_blendv_epi8(a, b, self.splat16(0xff00)) }
        }
    }

    impl Zip for Avx512 {
        #[inline(always)]
        fn zip8(self, [x, y]: [__m512i; 2]) -> [__m512i; 2] {
            // SAFETY: the token proves AVX-512 BW.
            unsafe { [_mm512_unpacklo_epi8(x, y), _mm512_unpackhi_epi8(x, y)] }
        }
        #[inline(always)]
        fn zip64(self, [x, y]: [__m512i; 2]) -> [__m512i; 2] {
            // SAFETY: the token proves AVX-512.
            unsafe { [_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y)] }
        }
        #[inline(always)]
        fn odd8(self, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: the token proves AVX-512 BW.
            unsafe { _mm512_mask_blend_epi8(0xaaaa_aaaa_aaaa_aaaa, a, b) }
        }
    }
}
