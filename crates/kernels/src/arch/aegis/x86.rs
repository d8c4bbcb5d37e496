//! Blocks of 128 bits with AES-NI.

use super::paired::Paired;
use super::twin::Twin;
use super::{AegisLanes, Apart, Avx2Aesni, Avx2Vaes, Blocks};
use crate::arch::Avx512;
use core::arch::x86_64::*;

/// `$part` is block `$i` of a vector, and `$join` a vector of `$blocks`.
macro_rules! blocks {
    ($token:ty, |$x:ident, $i:ident| $part:expr, |$blocks:ident| $join:expr) => {
        impl Blocks for $token {
            type Block = __m128i;
            #[inline(always)]
            fn block(self, bytes: &[u8; 16]) -> __m128i {
                // SAFETY: SSE2; 16 bytes are readable.
                unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
            }
            #[inline(always)]
            fn bytes(self, x: __m128i) -> [u8; 16] {
                let mut bytes = [0; 16];
                // SAFETY: SSE2; 16 bytes are writable.
                unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), x) }
                bytes
            }
            #[inline(always)]
            fn xor_blocks(self, a: __m128i, b: __m128i) -> __m128i {
                // SAFETY: SSE2.
                unsafe { _mm_xor_si128(a, b) }
            }
            #[inline(always)]
            fn and_blocks(self, a: __m128i, b: __m128i) -> __m128i {
                // SAFETY: SSE2.
                unsafe { _mm_and_si128(a, b) }
            }
            #[inline(always)]
            fn rounds<const N: usize>(
                self,
                mut x: [__m128i; N],
                keys: [__m128i; N],
            ) -> [__m128i; N] {
                for (x, key) in x.iter_mut().zip(keys) {
                    // SAFETY: the token proves AES-NI.
                    *x = unsafe { _mm_aesenc_si128(*x, key) };
                }
                x
            }
            #[inline(always)]
            fn part(self, $x: Self::V, $i: usize) -> __m128i {
                // SAFETY: the token proves the instructions of its vectors.
                unsafe { $part }
            }
            #[inline(always)]
            fn join(self, $blocks: [__m128i; 4]) -> Self::V {
                // SAFETY: the token proves the instructions of its vectors.
                unsafe { $join }
            }
        }
    };
}

macro_rules! blocks_of_256 {
    ($token:ty) => {
        blocks!(
            $token,
            |x, i| match i {
                0 => _mm256_castsi256_si128(x),
                _ => _mm256_extracti128_si256::<1>(x),
            },
            |blocks| _mm256_set_m128i(blocks[1], blocks[0])
        );
    };
}
blocks_of_256!(Avx2Aesni);
blocks_of_256!(Avx2Vaes);
blocks!(
    Avx512,
    |x, i| match i {
        0 => _mm512_castsi512_si128(x),
        1 => _mm512_extracti32x4_epi32::<1>(x),
        2 => _mm512_extracti32x4_epi32::<2>(x),
        _ => _mm512_extracti32x4_epi32::<3>(x),
    },
    |blocks| {
        let low = _mm256_set_m128i(blocks[1], blocks[0]);
        let high = _mm256_set_m128i(blocks[3], blocks[2]);
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
);

impl AegisLanes for Avx2Aesni {
    type Long = Apart<Self, 8>;
    type Wide = Apart<Self, 6>;
    type Twin = Twin<Self>;
}

impl AegisLanes for Avx2Vaes {
    type Long = Paired;
    type Wide = Apart<Self, 6>;
    type Twin = Twin<Self>;
}

impl AegisLanes for Avx512 {
    type Long = Paired;
    type Wide = Apart<Self, 6>;
    type Twin = Twin<Self>;
}
