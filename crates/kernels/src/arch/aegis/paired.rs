//! AEGIS-128L with VAES: block `i` of the state and block `i + 4` in one vector.
//!
//! ```text
//! (S'0, S'4) = round((S7, S3), x) ^ (S0, S4)      the halves exchanged
//! (S'1, S'5) = round((S0, S4), (S1, S5))          and so on
//! z          = (S1, S5) ^ ((S2, S6) & (S3, S7)) ^ (S6, S2)
//! ```
//! `(S7, S3)` is kept besides: as `(S6, S2)` is needed for `z`, one more round takes the place of an exchange, for
//! which the next block would wait.

use super::{Apart, Avx2Vaes, Kept, State};
use crate::arch::Avx512;
use core::arch::asm;
use core::arch::x86_64::*;

/// The halves of `v` exchanged. The chain from block to block waits for it, and the compiler would take `vpermq`, which
/// is two steps on AMD.
#[inline]
#[target_feature(enable = "avx2")]
fn exchanged(v: __m256i) -> __m256i {
    let exchanged;
    // SAFETY: AVX2; it writes its output and nothing else.
    unsafe {
        asm!(
            "vperm2i128 {0}, {1}, {1}, 1",
            out(ymm_reg) exchanged,
            in(ymm_reg) v,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    exchanged
}

/// `(S0, S4)` to `(S3, S7)`, and `(S7, S3)`.
#[derive(Clone, Copy)]
pub(crate) struct Paired([__m256i; 5]);

impl Paired {
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn pack(s: [__m128i; 8]) -> Paired {
        // SAFETY: as the caller vouches.
        let pair = |i: usize| unsafe { _mm256_set_m128i(s[i + 4], s[i]) };
        // SAFETY: as the caller vouches.
        let last = unsafe { exchanged(pair(3)) };
        Paired([pair(0), pair(1), pair(2), pair(3), last])
    }

    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn unpack(self) -> [__m128i; 8] {
        // SAFETY: as the caller vouches.
        unsafe {
            let [a, b, c, d, _] = self.0.map(|pair| _mm256_castsi256_si128(pair));
            let [e, f, g, h, _] = self.0.map(|pair| _mm256_extracti128_si256::<1>(pair));
            [a, b, c, d, e, f, g, h]
        }
    }

    /// Enc or Dec of one block.
    ///
    /// # Safety
    /// The CPU has AVX2 and VAES.
    #[inline(always)]
    unsafe fn crypt<const SEAL: bool>(&mut self, x: __m256i) -> __m256i {
        let [v0, v1, v2, v3, v3_exchanged] = self.0;
        // SAFETY: as the caller vouches.
        unsafe {
            let v2_exchanged = exchanged(v2);
            let z = _mm256_xor_si256(v1, _mm256_and_si256(v2, v3));
            let z = _mm256_xor_si256(z, v2_exchanged);
            let next = _mm256_aesenc_epi128(v3_exchanged, x);
            let clear = if SEAL { v0 } else { _mm256_xor_si256(v0, z) };
            self.0 = [
                _mm256_xor_si256(next, clear),
                _mm256_aesenc_epi128(v0, v1),
                _mm256_aesenc_epi128(v1, v2),
                _mm256_aesenc_epi128(v2, v3),
                _mm256_aesenc_epi128(v2_exchanged, v3_exchanged),
            ];
            _mm256_xor_si256(x, z)
        }
    }
}

/// Before the first vector and after the last whole one, a state of blocks of their own.
macro_rules! state {
    ($token:ty, |$self:ident, $x:ident| $crypt:expr) => {
        impl State<$token> for Paired {
            #[inline(always)]
            fn new(lanes: $token, key: &[u8], nonce: &[u8], aad: &[u8]) -> Paired {
                let apart = Apart::<$token, 8>::new(lanes, key, nonce, aad);
                // SAFETY: the token proves AVX2.
                unsafe { Paired::pack(apart.s) }
            }
            #[inline(always)]
            fn crypt<const SEAL: bool>(
                &mut $self,
                _: $token,
                $x: <$token as crate::arch::Lanes>::V,
            ) -> <$token as crate::arch::Lanes>::V {
                // SAFETY: the token proves VAES, and AVX2 or AVX-512.
                unsafe { $crypt }
            }
            #[inline(always)]
            fn crypt_last<const SEAL: bool>(&mut self, lanes: $token, bytes: &mut [u8]) {
                // SAFETY: the token proves AVX2.
                let mut apart = Apart::<$token, 8>::of(unsafe { self.unpack() });
                apart.crypt_last::<SEAL>(lanes, bytes);
                // SAFETY: as above.
                *self = unsafe { Paired::pack(apart.s) };
            }
            #[inline(always)]
            fn finish(self, lanes: $token, lengths: [usize; 2], tag: &mut [u8]) {
                // SAFETY: the token proves AVX2.
                Apart::<$token, 8>::of(unsafe { self.unpack() }).finish(lanes, lengths, tag);
            }
            #[inline(always)]
            fn keep(self, lanes: $token) -> Kept {
                // SAFETY: the token proves AVX2.
                Apart::<$token, 8>::of(unsafe { self.unpack() }).keep(lanes)
            }
            #[inline(always)]
            fn go_on(lanes: $token, kept: &Kept) -> Paired {
                let apart = Apart::<$token, 8>::go_on(lanes, kept);
                // SAFETY: the token proves AVX2.
                unsafe { Paired::pack(apart.s) }
            }
        }
    };
}
state!(Avx2Vaes, |self, x| Paired::crypt::<SEAL>(self, x));
state!(Avx512, |self, x| {
    let low = Paired::crypt::<SEAL>(self, _mm512_castsi512_si256(x));
    let high = Paired::crypt::<SEAL>(self, _mm512_extracti64x4_epi64::<1>(x));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
});
