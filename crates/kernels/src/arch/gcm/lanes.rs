//! Vectors of one, two or four 16-byte AES blocks: the instructions that the GCM loop is written in.
//!
//! Every method is `unsafe` for one reason: it may be called only on a CPU that has the instructions
//! of its implementor, and is fast only when it is inlined into a function compiled for them. The
//! pointers of `load` and `store` need no alignment.

use core::arch::asm;
use core::arch::x86_64::*;

/// A vector of `BLOCKS` AES blocks and what the GCM loop does with it.
///
/// # Safety
/// Callers of any method must run on a CPU with the implementor's instructions; `load` reads and
/// `store` writes `16 * BLOCKS` bytes at the pointer.
pub(crate) trait GcmLanes: Copy {
    /// The vector.
    type V: Copy;
    /// AES blocks in a vector.
    const BLOCKS: usize;
    /// Bytes in a vector.
    const BYTES: usize = 16 * Self::BLOCKS;

    unsafe fn zero() -> Self::V;
    unsafe fn load(from: *const u8) -> Self::V;
    unsafe fn store(to: *mut u8, v: Self::V);
    /// The same block in every lane.
    unsafe fn broadcast(block: __m128i) -> Self::V;
    /// The same sixteen bytes in every lane.
    #[inline(always)]
    unsafe fn repeat(block: &[u8; 16]) -> Self::V {
        // SAFETY: sixteen bytes; the caller vouches for the instructions.
        unsafe { Self::broadcast(_mm_loadu_si128(block.as_ptr().cast())) }
    }
    /// `block` at lane 0, zero elsewhere.
    unsafe fn first(block: __m128i) -> Self::V;
    /// `block` at lane `1 % BLOCKS`, zero elsewhere.
    unsafe fn second(block: __m128i) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn add64(a: Self::V, b: Self::V) -> Self::V;
    /// The high half of every 64-bit element, as a 64-bit number.
    unsafe fn high32(a: Self::V) -> Self::V;
    /// The low half of every 64-bit element, as its high half; the low half zero.
    unsafe fn low32_up(a: Self::V) -> Self::V;
    /// The low half of every 64-bit element, as a 64-bit number.
    unsafe fn low32(a: Self::V) -> Self::V;
    unsafe fn sub64(a: Self::V, b: Self::V) -> Self::V;
    /// The sum of the 64-bit elements, modulo 2^64.
    unsafe fn sum64(a: Self::V) -> u64;
    /// Bytes shuffled inside each block.
    unsafe fn shuffle(a: Self::V, control: Self::V) -> Self::V;
    unsafe fn aes_round(state: Self::V, key: Self::V) -> Self::V;
    unsafe fn aes_last(state: Self::V, key: Self::V) -> Self::V;
    /// Carry-less product of the low halves of each block.
    unsafe fn mul_low(a: Self::V, b: Self::V) -> Self::V;
    /// Carry-less product of the high halves of each block.
    unsafe fn mul_high(a: Self::V, b: Self::V) -> Self::V;
    /// Low halves of `a` and `b`, block by block.
    unsafe fn unpack_low(a: Self::V, b: Self::V) -> Self::V;
    /// High halves of `a` and `b`, block by block.
    unsafe fn unpack_high(a: Self::V, b: Self::V) -> Self::V;
    /// The XOR of all blocks.
    unsafe fn fold(a: Self::V) -> __m128i;
    /// Emits nothing, but fixes the place of `v` in the order of the instructions.
    unsafe fn pin(v: &mut Self::V);
}

/// One block: AES-NI and PCLMULQDQ, in their three-operand form.
#[derive(Clone, Copy, Default)]
pub(crate) struct Single;

/// Two blocks: VAES and VPCLMULQDQ on 256 bits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Double;

/// Four blocks: VAES and VPCLMULQDQ on 512 bits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quad;

/// `impl GcmLanes` where only the names of the intrinsics differ.
macro_rules! lanes {
    ($lanes:ty, $v:ty, $blocks:literal, $class:ident $feature:literal,
     zero: $zero:expr, load: $load:expr, store: $store:expr, broadcast: |$w:ident| $broadcast:expr,
     first: |$f:ident| $first:expr, second: |$b:ident| $second:expr, xor: $xor:path, and: $and:path, add64: $add64:path, srl64: $srl64:ident, sll64: $sll64:ident, sub64: $sub64:path, sum64: |$s:ident| $sum64:expr,
     shuffle: $shuffle:path, aes_round: $aes:path, aes_last: $last:path, clmul: $clmul:ident,
     unpack_low: $ul:path, unpack_high: $uh:path, fold: |$a:ident| $fold:expr) => {
        #[allow(unused_unsafe)] // some lanes need no instruction for some methods
        impl GcmLanes for $lanes {
            type V = $v;
            const BLOCKS: usize = $blocks;

            #[inline(always)]
            unsafe fn zero() -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $zero }
            }
            #[inline(always)]
            unsafe fn load(from: *const u8) -> $v {
                // SAFETY: the caller vouches for the instructions and for the bytes at `from`.
                unsafe { $load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut u8, v: $v) {
                // SAFETY: the caller vouches for the instructions and for the bytes at `to`.
                unsafe { $store(to.cast(), v) }
            }
            #[inline(always)]
            unsafe fn broadcast($w: __m128i) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $broadcast }
            }
            #[inline(always)]
            unsafe fn first($f: __m128i) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $first }
            }
            #[inline(always)]
            unsafe fn second($b: __m128i) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $second }
            }
            #[inline(always)]
            unsafe fn xor(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $xor(a, b) }
            }
            #[inline(always)]
            unsafe fn and(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $and(a, b) }
            }
            #[inline(always)]
            unsafe fn add64(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $add64(a, b) }
            }
            #[inline(always)]
            unsafe fn high32(a: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $srl64::<32>(a) }
            }
            #[inline(always)]
            unsafe fn low32_up(a: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $sll64::<32>(a) }
            }
            #[inline(always)]
            unsafe fn low32(a: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $srl64::<32>($sll64::<32>(a)) }
            }
            #[inline(always)]
            unsafe fn sub64(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $sub64(a, b) }
            }
            #[inline(always)]
            unsafe fn sum64($s: $v) -> u64 {
                // SAFETY: the caller vouches for the instructions.
                unsafe { ($sum64) as u64 }
            }
            #[inline(always)]
            unsafe fn shuffle(a: $v, control: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $shuffle(a, control) }
            }
            #[inline(always)]
            unsafe fn aes_round(state: $v, key: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $aes(state, key) }
            }
            #[inline(always)]
            unsafe fn aes_last(state: $v, key: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $last(state, key) }
            }
            #[inline(always)]
            unsafe fn mul_low(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $clmul::<0x00>(a, b) }
            }
            #[inline(always)]
            unsafe fn mul_high(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $clmul::<0x11>(a, b) }
            }
            #[inline(always)]
            unsafe fn unpack_low(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $ul(a, b) }
            }
            #[inline(always)]
            unsafe fn unpack_high(a: $v, b: $v) -> $v {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $uh(a, b) }
            }
            #[inline(always)]
            unsafe fn fold($a: $v) -> __m128i {
                // SAFETY: the caller vouches for the instructions.
                unsafe { $fold }
            }
            #[inline(always)]
            unsafe fn pin(v: &mut $v) {
                #[inline]
                #[target_feature(enable = $feature)]
                fn hold(v: $v) -> $v {
                    let mut v = v;
                    // SAFETY: no instruction is emitted; the register keeps its value.
                    unsafe { asm!("/* {0} */", inout($class) v, options(nomem, nostack, preserves_flags)) }
                    v
                }
                // SAFETY: the caller vouches for the instructions.
                *v = unsafe { hold(*v) };
            }
        }
    };
}

lanes!(Single, __m128i, 1, xmm_reg "sse2",
    zero: _mm_setzero_si128(), load: _mm_loadu_si128, store: _mm_storeu_si128,
    broadcast: |block| block, first: |block| block, second: |block| block,
    xor: _mm_xor_si128, and: _mm_and_si128, add64: _mm_add_epi64, srl64: _mm_srli_epi64, sll64: _mm_slli_epi64, sub64: _mm_sub_epi64, sum64: |a| _mm_cvtsi128_si64(_mm_add_epi64(a, _mm_unpackhi_epi64(a, a))),
    shuffle: _mm_shuffle_epi8, aes_round: _mm_aesenc_si128, aes_last: _mm_aesenclast_si128,
    clmul: _mm_clmulepi64_si128, unpack_low: _mm_unpacklo_epi64, unpack_high: _mm_unpackhi_epi64,
    fold: |a| a);

lanes!(Double, __m256i, 2, ymm_reg "avx",
    zero: _mm256_setzero_si256(), load: _mm256_loadu_si256, store: _mm256_storeu_si256,
    broadcast: |block| _mm256_broadcastsi128_si256(block),
    first: |block| _mm256_zextsi128_si256(block),
    second: |block| _mm256_inserti128_si256::<1>(_mm256_setzero_si256(), block),
    xor: _mm256_xor_si256, and: _mm256_and_si256, add64: _mm256_add_epi64, srl64: _mm256_srli_epi64, sll64: _mm256_slli_epi64, sub64: _mm256_sub_epi64, sum64: |a| { let a = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)); _mm_cvtsi128_si64(_mm_add_epi64(a, _mm_unpackhi_epi64(a, a))) },
    shuffle: _mm256_shuffle_epi8, aes_round: _mm256_aesenc_epi128, aes_last: _mm256_aesenclast_epi128,
    clmul: _mm256_clmulepi64_epi128, unpack_low: _mm256_unpacklo_epi64, unpack_high: _mm256_unpackhi_epi64,
    fold: |a| _mm_xor_si128(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)));

lanes!(Quad, __m512i, 4, zmm_reg "avx512f",
zero: _mm512_setzero_si512(), load: _mm512_loadu_si512, store: _mm512_storeu_si512,
broadcast: |block| _mm512_broadcast_i32x4(block),
first: |block| _mm512_zextsi128_si512(block),
second: |block| _mm512_inserti32x4::<1>(_mm512_setzero_si512(), block),
xor: _mm512_xor_si512, and: _mm512_and_si512, add64: _mm512_add_epi64, srl64: _mm512_srli_epi64, sll64: _mm512_slli_epi64, sub64: _mm512_sub_epi64, sum64: |a| _mm512_reduce_add_epi64(a),
shuffle: _mm512_shuffle_epi8, aes_round: _mm512_aesenc_epi128, aes_last: _mm512_aesenclast_epi128,
clmul: _mm512_clmulepi64_epi128, unpack_low: _mm512_unpacklo_epi64, unpack_high: _mm512_unpackhi_epi64,
fold: |a| {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64::<1>(a));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
});

/// A block in memory.
///
/// # Safety
/// None but the baseline of x86-64.
#[inline(always)]
pub(super) unsafe fn narrow(block: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}
