//! 256-bit vectors, with no AES, with AES-NI on 128-bit halves, or with VAES.

use super::{AesLanes, Entry, Kernel, Lanes, partial, powers16};
use crate::stage::Run;
use core::arch::x86_64::*;
use core::marker::PhantomData;

/// The token of the avx2 level; `F` says which AES instructions come with it.
#[derive(Clone, Copy, Debug)]
pub struct Avx2<F>(PhantomData<F>);

/// No AES.
#[derive(Clone, Copy, Debug)]
pub struct Plain;
/// AES-NI and PCLMULQDQ, 128 bits.
#[derive(Clone, Copy, Debug)]
pub struct Aesni;
/// VAES and VPCLMULQDQ, 256 bits.
#[derive(Clone, Copy, Debug)]
pub struct Vaes;

/// Calls a stage's unit with the features of the token's shell.
pub trait Flavour: Copy + Send + Sync + Sized + 'static {
    #[doc(hidden)]
    fn call<S: Run<Avx2<Self>>, const N: usize>(
        stage: &S,
        state: &mut S::State,
        x: &mut [__m256i; N],
    );
}

macro_rules! flavour {
    ($name:ident, $shell:ident, $features:literal) => {
        /// Compiles a whole kernel for the level.
        ///
        /// # Safety
        /// The CPU has the features that the attribute names.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $shell<K: Kernel<Avx2<$name>>>(kernel: K) -> K::Output {
            kernel.run(Avx2(PhantomData))
        }

        impl Flavour for $name {
            #[inline(always)]
            fn call<S: Run<Avx2<Self>>, const N: usize>(
                stage: &S,
                state: &mut S::State,
                x: &mut [__m256i; N],
            ) {
                #[target_feature(enable = $features)]
                fn unit<S: Run<Avx2<$name>>, const N: usize>(
                    stage: &S,
                    state: &mut S::State,
                    x: &mut [__m256i; N],
                ) {
                    stage.unit(Avx2(PhantomData), state, x);
                }
                let pointer: unsafe fn(&S, &mut S::State, &mut [__m256i; N]) =
                    core::hint::black_box(unit::<S, N>);
                // SAFETY: the caller holds the token, so the CPU has the features.
                unsafe { pointer(stage, state, x) }
            }
        }
    };
}
flavour!(Plain, shell, "avx2,bmi1,bmi2,sse4.2,popcnt");
flavour!(Aesni, shell_aesni, "avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq");
flavour!(Vaes, shell_vaes, "avx2,bmi1,bmi2,sse4.2,popcnt,aes,pclmulqdq,vaes,vpclmulqdq");

/// Compiles a bound loop for the level.
///
/// # Safety
/// As for `shell`.
#[target_feature(enable = "avx2,bmi1,bmi2,sse4.2,popcnt")]
pub(super) unsafe fn entry<E: Entry<Avx2<Plain>>>(
    context: &mut E::Context,
    src: &[u8],
    dst: &mut [u8],
) -> E::Output {
    if const { E::UNIT == 1 } || src.len().is_multiple_of(E::UNIT) {
        return E::run(Avx2(PhantomData), context, src, dst);
    }
    // SAFETY: the same features.
    unsafe { general::<E>(context, src, dst) }
}

/// The loop for messages that have a rest.
///
/// # Safety
/// As for `shell`.
#[target_feature(enable = "avx2,bmi1,bmi2,sse4.2,popcnt")]
#[inline(never)]
unsafe fn general<E: Entry<Avx2<Plain>>>(
    context: &mut E::Context,
    src: &[u8],
    dst: &mut [u8],
) -> E::Output {
    E::run(Avx2(PhantomData), context, src, dst)
}

const SWAP16: [u8; 16] = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14];
const SWAP32: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];
const SWAP64: [u8; 16] = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8];
/// 32 bytes of ones, 32 of zeros: a load from `32 - valid` on is a mask that keeps `valid` bytes.
static KEEP: [u8; 64] = {
    let mut keep = [0; 64];
    let mut i = 0;
    while i < 32 {
        keep[i] = 0xff;
        i += 1;
    }
    keep
};

// SAFETY for every block below: the token proves AVX2 (see the module's doc); loads and stores go
// through a slice or array whose length is checked or known and need no alignment.
impl<F: Flavour> Lanes for Avx2<F> {
    type V = __m256i;
    const WIDTH: usize = 32;
    const SHUFFLES: bool = true;
    const MOST_VECTORS: usize = 16;
    const AVERAGES: bool = true;

    #[inline(always)]
    fn load(self, from: &[u8]) -> __m256i {
        let from = &from[..32];
        // SAFETY: 32 bytes are readable.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
    #[inline(always)]
    fn store(self, to: &mut [u8], x: __m256i) {
        let to = &mut to[..32];
        // SAFETY: 32 bytes are writable.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
    }
    #[inline(always)]
    fn load_partial(self, from: &[u8]) -> __m256i {
        // SAFETY: AVX2.
        unsafe { partial::load32(from) }
    }
    #[inline(always)]
    fn store_partial(self, to: &mut [u8], x: __m256i) {
        // SAFETY: AVX2.
        unsafe { partial::store32(to, x) }
    }
    #[inline(always)]
    fn keep(self, x: __m256i, valid: usize) -> __m256i {
        let mask = self.load(&KEEP[32 - valid.min(32)..]);
        self.and(x, mask)
    }
    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    fn splat8(self, x: u8) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_set1_epi8(x as i8) }
    }
    #[inline(always)]
    fn splat16(self, x: u16) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_set1_epi16(x as i16) }
    }
    #[inline(always)]
    fn splat32(self, x: u32) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_set1_epi32(x as i32) }
    }
    #[inline(always)]
    fn splat64(self, x: u64) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_set1_epi64x(x as i64) }
    }
    #[inline(always)]
    fn splat128(self, x: [u8; 16]) -> __m256i {
        // SAFETY: AVX2; x has 16 readable bytes.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(x.as_ptr().cast())) }
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn add8(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_add_epi8(a, b) }
    }
    #[inline(always)]
    fn sub8(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_sub_epi8(a, b) }
    }
    #[inline(always)]
    fn add16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_add_epi16(a, b) }
    }
    #[inline(always)]
    fn average16(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_avg_epu16(a, b) }
    }
    #[inline(always)]
    fn add32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn add64(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }
    #[inline(always)]
    fn sub64(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_sub_epi64(a, b) }
    }
    #[inline(always)]
    fn shl32<const BITS: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_sll_epi32(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn shr32<const BITS: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_srl_epi32(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn rotl32<const BITS: u32>(self, x: __m256i) -> __m256i {
        const ROTL8: [u8; 16] = [3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14];
        const ROTL16: [u8; 16] = [2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13];
        match BITS {
            8 => self.shuffle(x, ROTL8),
            16 => self.shuffle(x, ROTL16),
            _ => {
                // SAFETY: AVX2.
                let right = unsafe { _mm256_srl_epi32(x, _mm_cvtsi32_si128(32 - BITS as i32)) };
                self.or(self.shl32::<BITS>(x), right)
            }
        }
    }
    #[inline(always)]
    fn shl64<const BITS: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_sll_epi64(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn shr64<const BITS: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_srl_epi64(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn shr16<const BITS: u32>(self, x: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_srl_epi16(x, _mm_cvtsi32_si128(BITS as i32)) }
    }
    #[inline(always)]
    fn mul32(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_mul_epu32(a, b) }
    }
    #[inline(always)]
    fn swap16(self, x: __m256i) -> __m256i {
        self.shuffle(x, SWAP16)
    }
    #[inline(always)]
    fn swap32(self, x: __m256i) -> __m256i {
        self.shuffle(x, SWAP32)
    }
    #[inline(always)]
    fn swap64(self, x: __m256i) -> __m256i {
        self.shuffle(x, SWAP64)
    }
    #[inline(always)]
    fn shuffle(self, x: __m256i, control: [u8; 16]) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_shuffle_epi8(x, self.splat128(control)) }
    }
    #[inline(always)]
    fn shuffle_by(self, x: __m256i, control: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_shuffle_epi8(x, control) }
    }
    #[inline(always)]
    fn sum_bytes(self, x: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_sad_epu8(x, self.zero()) }
    }
    #[inline(always)]
    fn dot_bytes(self, x: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: AVX2.
        unsafe { _mm256_madd_epi16(_mm256_maddubs_epi16(x, weights), self.splat16(1)) }
    }
    #[inline(always)]
    fn crc32c(self, crc: u32, bytes: u64) -> u32 {
        // SAFETY: the level includes SSE4.2.
        unsafe { _mm_crc32_u64(u64::from(crc), bytes) as u32 }
    }
    #[inline(always)]
    fn turn16<const FIRST: usize>(self, x: __m256i) -> __m256i {
        let powers = self.load(const { &powers16(FIRST) });
        // SAFETY: AVX2.
        unsafe { _mm256_or_si256(_mm256_mullo_epi16(x, powers), _mm256_mulhi_epu16(x, powers)) }
    }
    #[inline(always)]
    fn xor64(self, x: __m256i) -> u64 {
        // SAFETY: AVX2.
        unsafe {
            let x = _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_xor_si128(x, _mm_unpackhi_epi64(x, x));
            _mm_cvtsi128_si64(x) as u64
        }
    }
    #[inline(always)]
    fn sum64(self, x: __m256i) -> u64 {
        // SAFETY: AVX2.
        unsafe {
            let x = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_add_epi64(x, _mm_unpackhi_epi64(x, x));
            _mm_cvtsi128_si64(x) as u64
        }
    }
    #[inline(always)]
    fn pin(self, x: __m256i) -> __m256i {
        // SAFETY: the token proves the feature.
        unsafe { opaque(x) }
    }
    #[inline(always)]
    fn keep_load(self, x: __m256i) {
        // SAFETY: the token proves the feature.
        unsafe { made(x) }
    }
    #[inline(always)]
    fn call_unit<S: Run<Self>, const N: usize>(
        self,
        stage: &S,
        state: &mut S::State,
        x: &mut [__m256i; N],
    ) {
        F::call(stage, state, x);
    }
}

#[inline(always)]
fn halves(x: __m256i) -> (__m128i, __m128i) {
    // SAFETY: called with a token of this level in hand.
    unsafe { (_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x)) }
}

#[inline(always)]
fn join(low: __m128i, high: __m128i) -> __m256i {
    // SAFETY: called with a token of this level in hand.
    unsafe { _mm256_set_m128i(high, low) }
}

#[inline(always)]
fn xor_halves(x: __m256i) -> __m128i {
    let (low, high) = halves(x);
    // SAFETY: called with a token of this level in hand.
    unsafe { _mm_xor_si128(low, high) }
}

#[inline(always)]
fn two_lanes(parts: [[u8; 16]; 4]) -> __m256i {
    // SAFETY: called with a token of this level in hand; `parts` has 64 readable bytes.
    unsafe { _mm256_loadu_si256(parts.as_ptr().cast()) }
}

impl AesLanes for Avx2<Aesni> {
    #[inline(always)]
    fn aes_round(self, x: __m256i, key: __m256i) -> __m256i {
        let ((x0, x1), (k0, k1)) = (halves(x), halves(key));
        // SAFETY: the token proves AES-NI.
        unsafe { join(_mm_aesenc_si128(x0, k0), _mm_aesenc_si128(x1, k1)) }
    }
    #[inline(always)]
    fn aes_last(self, x: __m256i, key: __m256i) -> __m256i {
        let ((x0, x1), (k0, k1)) = (halves(x), halves(key));
        // SAFETY: the token proves AES-NI.
        unsafe { join(_mm_aesenclast_si128(x0, k0), _mm_aesenclast_si128(x1, k1)) }
    }
    #[inline(always)]
    fn clmul<const HALVES: i32>(self, a: __m256i, b: __m256i) -> __m256i {
        let ((a0, a1), (b0, b1)) = (halves(a), halves(b));
        // SAFETY: the token proves PCLMULQDQ.
        unsafe {
            join(_mm_clmulepi64_si128::<HALVES>(a0, b0), _mm_clmulepi64_si128::<HALVES>(a1, b1))
        }
    }
    #[inline(always)]
    fn xor_lanes(self, x: __m256i) -> __m128i {
        xor_halves(x)
    }
    #[inline(always)]
    fn lanes128(self, parts: [[u8; 16]; 4]) -> __m256i {
        two_lanes(parts)
    }
}

impl AesLanes for Avx2<Vaes> {
    #[inline(always)]
    fn aes_round(self, x: __m256i, key: __m256i) -> __m256i {
        // SAFETY: the token proves VAES.
        unsafe { _mm256_aesenc_epi128(x, key) }
    }
    #[inline(always)]
    fn aes_last(self, x: __m256i, key: __m256i) -> __m256i {
        // SAFETY: the token proves VAES.
        unsafe { _mm256_aesenclast_epi128(x, key) }
    }
    #[inline(always)]
    fn clmul<const HALVES: i32>(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token proves VPCLMULQDQ.
        unsafe { _mm256_clmulepi64_epi128::<HALVES>(a, b) }
    }
    #[inline(always)]
    fn xor_lanes(self, x: __m256i) -> __m128i {
        xor_halves(x)
    }
    #[inline(always)]
    fn lanes128(self, parts: [[u8; 16]; 4]) -> __m256i {
        two_lanes(parts)
    }
}

/// `x`, in a register, hidden from the optimiser.
#[inline]
#[target_feature(enable = "avx")]
fn opaque(mut x: __m256i) -> __m256i {
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", inout(ymm_reg) x, options(pure, nomem, nostack, preserves_flags));
    }
    x
}

/// `x` has been made and is in a register.
#[inline]
#[target_feature(enable = "avx")]
fn made(x: __m256i) {
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", in(ymm_reg) x, options(nomem, nostack, preserves_flags));
    }
}
