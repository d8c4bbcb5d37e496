//! 512-bit vectors with VAES, VPCLMULQDQ, VBMI and IFMA.

use super::{AesLanes, Entry, Kernel, Lanes, powers16};
use crate::stage::Run;
use core::arch::x86_64::*;

/// The token of the avx512 level.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

/// Compiles a whole kernel for the level.
///
/// # Safety
/// The CPU has the features that the attribute names.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512ifma,vaes,vpclmulqdq,gfni,avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq"
)]
pub(super) unsafe fn shell<K: Kernel<Avx512>>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

/// Compiles a bound loop for the level.
///
/// # Safety
/// As for `shell`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512ifma,vaes,vpclmulqdq,gfni,avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq"
)]
pub(super) unsafe fn entry<E: Entry<Avx512>>(
    context: &mut E::Context,
    src: &[u8],
    dst: &mut [u8],
) -> E::Output {
    if const { E::UNIT == 1 } || src.len().is_multiple_of(E::UNIT) {
        return E::run(Avx512(()), context, src, dst);
    }
    // SAFETY: the same features.
    unsafe { general::<E>(context, src, dst) }
}

/// The loop for messages that have a rest.
///
/// # Safety
/// As for `shell`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512ifma,vaes,vpclmulqdq,gfni,avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq"
)]
#[inline(never)]
unsafe fn general<E: Entry<Avx512>>(
    context: &mut E::Context,
    src: &[u8],
    dst: &mut [u8],
) -> E::Output {
    E::run(Avx512(()), context, src, dst)
}

const SWAP16: [u8; 16] = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14];
const SWAP32: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];
const SWAP64: [u8; 16] = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8];
// SAFETY for every block below: the token proves AVX-512 (see the module's doc); loads and stores go
// through a slice or array whose length is checked or known and need no alignment.
impl Lanes for Avx512 {
    type V = __m512i;
    const WIDTH: usize = 64;
    const SHUFFLES: bool = true;
    const MOST_VECTORS: usize = 16;
    const AVERAGES: bool = true;

    #[inline(always)]
    fn load(self, from: &[u8]) -> __m512i {
        let from = &from[..64];
        // SAFETY: 64 bytes are readable.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u8], x: __m512i) {
        let to = &mut to[..64];
        // SAFETY: 64 bytes are writable.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }
    #[inline(always)]
    fn load_partial(self, from: &[u8]) -> __m512i {
        assert!(from.len() < 64);
        let mask = (1u64 << from.len()) - 1;
        // SAFETY: AVX-512 BW; only the bytes of `from` are selected, and what is not is not read.
        unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store_partial(self, to: &mut [u8], x: __m512i) {
        assert!(to.len() < 64);
        let mask = (1u64 << to.len()) - 1;
        // SAFETY: AVX-512 BW; only the bytes of `to` are selected, and what is not is not written.
        unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, x) }
    }
    #[inline(always)]
    fn keep(self, x: __m512i, valid: usize) -> __m512i {
        let mask = if valid < 64 { (1u64 << valid) - 1 } else { u64::MAX };
        // SAFETY: AVX-512 BW.
        unsafe { _mm512_maskz_mov_epi8(mask, x) }
    }
    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn splat8(self, x: u8) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_set1_epi8(x as i8) }
    }
    #[inline(always)]
    fn splat16(self, x: u16) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_set1_epi16(x as i16) }
    }
    #[inline(always)]
    fn splat32(self, x: u32) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_set1_epi32(x as i32) }
    }
    #[inline(always)]
    fn splat64(self, x: u64) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_set1_epi64(x as i64) }
    }
    #[inline(always)]
    fn splat128(self, x: [u8; 16]) -> __m512i {
        // SAFETY: AVX-512; x has 16 readable bytes.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(x.as_ptr().cast())) }
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn add8(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_add_epi8(a, b) }
    }
    #[inline(always)]
    fn sub8(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_sub_epi8(a, b) }
    }
    #[inline(always)]
    fn add16(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_add_epi16(a, b) }
    }
    #[inline(always)]
    fn average16(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512 BW.
        unsafe { _mm512_avg_epu16(a, b) }
    }
    #[inline(always)]
    fn add32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn add64(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_add_epi64(a, b) }
    }
    #[inline(always)]
    fn sub64(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_sub_epi64(a, b) }
    }
    #[inline(always)]
    fn shl32<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_sll_epi32(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn shr32<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_srl_epi32(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn rotl32<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_rolv_epi32(x, _mm512_set1_epi32(BITS as i32)) }
    }
    #[inline(always)]
    fn shl64<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_sll_epi64(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn shr64<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_srl_epi64(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn shr16<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_srl_epi16(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn mul32(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_mul_epu32(a, b) }
    }
    #[inline(always)]
    fn swap16(self, x: __m512i) -> __m512i {
        self.shuffle(x, SWAP16)
    }
    #[inline(always)]
    fn swap32(self, x: __m512i) -> __m512i {
        self.shuffle(x, SWAP32)
    }
    #[inline(always)]
    fn swap64(self, x: __m512i) -> __m512i {
        self.shuffle(x, SWAP64)
    }
    #[inline(always)]
    fn shuffle(self, x: __m512i, control: [u8; 16]) -> __m512i {
        // SAFETY: AVX-512.
        unsafe { _mm512_shuffle_epi8(x, self.splat128(control)) }
    }
    #[inline(always)]
    fn shuffle_by(self, x: __m512i, control: __m512i) -> __m512i {
        // SAFETY: AVX-512 BW.
        unsafe { _mm512_shuffle_epi8(x, control) }
    }
    #[inline(always)]
    fn sum_bytes(self, x: __m512i) -> __m512i {
        // SAFETY: AVX-512 BW.
        unsafe { _mm512_sad_epu8(x, self.zero()) }
    }
    #[inline(always)]
    fn dot_bytes(self, x: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: AVX-512 BW.
        unsafe { _mm512_madd_epi16(_mm512_maddubs_epi16(x, weights), self.splat16(1)) }
    }
    #[inline(always)]
    fn crc32c(self, crc: u32, bytes: u64) -> u32 {
        // SAFETY: the level includes SSE4.2.
        unsafe { _mm_crc32_u64(u64::from(crc), bytes) as u32 }
    }
    #[inline(always)]
    fn turn16<const FIRST: usize>(self, x: __m512i) -> __m512i {
        let powers = self.load(const { &powers16(FIRST) });
        // SAFETY: AVX-512.
        unsafe { _mm512_or_si512(_mm512_mullo_epi16(x, powers), _mm512_mulhi_epu16(x, powers)) }
    }
    #[inline(always)]
    fn xor64(self, x: __m512i) -> u64 {
        // SAFETY: AVX-512.
        unsafe {
            let x = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
            let x = _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_xor_si128(x, _mm_unpackhi_epi64(x, x));
            _mm_cvtsi128_si64(x) as u64
        }
    }
    #[inline(always)]
    fn sum64(self, x: __m512i) -> u64 {
        // SAFETY: AVX-512.
        unsafe { _mm512_reduce_add_epi64(x) as u64 }
    }
    #[inline(always)]
    fn pin(self, x: __m512i) -> __m512i {
        // SAFETY: the token proves the feature.
        unsafe { opaque(x) }
    }
    #[inline(always)]
    fn keep_load(self, x: __m512i) {
        // SAFETY: the token proves the feature.
        unsafe { made(x) }
    }
    #[inline(always)]
    fn call_unit<S: Run<Self>, const N: usize>(
        self,
        stage: &S,
        state: &mut S::State,
        x: &mut [__m512i; N],
    ) {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512ifma,vaes,vpclmulqdq,gfni,avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq"
        )]
        fn unit<S: Run<Avx512>, const N: usize>(
            stage: &S,
            state: &mut S::State,
            x: &mut [__m512i; N],
        ) {
            stage.unit(Avx512(()), state, x);
        }
        let pointer: unsafe fn(&S, &mut S::State, &mut [__m512i; N]) =
            core::hint::black_box(unit::<S, N>);
        // SAFETY: the caller holds the token, so the CPU has the features.
        unsafe { pointer(stage, state, x) }
    }
}

impl AesLanes for Avx512 {
    #[inline(always)]
    fn aes_round(self, x: __m512i, key: __m512i) -> __m512i {
        // SAFETY: the token proves VAES.
        unsafe { _mm512_aesenc_epi128(x, key) }
    }
    #[inline(always)]
    fn aes_last(self, x: __m512i, key: __m512i) -> __m512i {
        // SAFETY: the token proves VAES.
        unsafe { _mm512_aesenclast_epi128(x, key) }
    }
    #[inline(always)]
    fn clmul<const HALVES: i32>(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves VPCLMULQDQ.
        unsafe { _mm512_clmulepi64_epi128::<HALVES>(a, b) }
    }
    #[inline(always)]
    fn xor_lanes(self, x: __m512i) -> __m128i {
        // SAFETY: AVX-512.
        unsafe {
            let x = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
            _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))
        }
    }
    #[inline(always)]
    fn lanes128(self, parts: [[u8; 16]; 4]) -> __m512i {
        // SAFETY: AVX-512; `parts` has 64 readable bytes.
        unsafe { _mm512_loadu_si512(parts.as_ptr().cast()) }
    }
}

/// `x`, in a register, hidden from the optimiser.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut x: __m512i) -> __m512i {
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", inout(zmm_reg) x, options(pure, nomem, nostack, preserves_flags));
    }
    x
}

/// `x` has been made and is in a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn made(x: __m512i) {
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", in(zmm_reg) x, options(nomem, nostack, preserves_flags));
    }
}
