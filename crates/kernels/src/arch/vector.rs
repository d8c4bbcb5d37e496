//! Vectors of one, two or four blocks of 16 bytes: the intrinsics of each width behind one name. What is made of
//! them is written once, over these traits: stages over [`Lanes`](super::Lanes), AES-GCM over [`Vector`].
//!
//! Every method is `unsafe` for one reason: it may be called only on a CPU that has the instructions of its
//! implementor, and is fast only when it is inlined into a function compiled for them. Pointers need no alignment.

use super::{LoopBody, Simd, partial, simd};
use core::arch::asm;
use core::arch::x86_64::*;
use core::hint::black_box;

/// A vector of `BLOCKS` blocks of 16 bytes, and what AES-GCM does with it: AES-NI and PCLMULQDQ in their
/// three-operand form for one block, VAES and VPCLMULQDQ for more.
///
/// # Safety
/// Callers of any method must run on a CPU with the implementor's instructions; `load` reads and
/// `store` writes `BYTES` bytes at the pointer.
pub(crate) trait Vector: Copy + Send + Sync + 'static {
    /// Blocks in a vector.
    const BLOCKS: usize;
    /// Bytes in a vector.
    const BYTES: usize = 16 * Self::BLOCKS;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(to: *mut u8, v: Self);
    /// The same block in every place.
    unsafe fn broadcast(block: __m128i) -> Self;
    /// The same sixteen bytes in every block.
    #[inline(always)]
    unsafe fn repeat(block: &[u8; 16]) -> Self {
        // SAFETY: sixteen bytes; the caller vouches for the instructions.
        unsafe { Self::broadcast(_mm_loadu_si128(block.as_ptr().cast())) }
    }
    /// `block` first, zero after it.
    unsafe fn first(block: __m128i) -> Self;
    /// `block` at place `1 % BLOCKS`, zero elsewhere.
    unsafe fn second(block: __m128i) -> Self;
    unsafe fn xor(a: Self, b: Self) -> Self;
    unsafe fn and(a: Self, b: Self) -> Self;
    unsafe fn add64(a: Self, b: Self) -> Self;
    unsafe fn sub64(a: Self, b: Self) -> Self;
    unsafe fn shl64<const BITS: u32>(a: Self) -> Self;
    unsafe fn shr64<const BITS: u32>(a: Self) -> Self;
    /// The sum of the 64-bit elements, modulo 2^64.
    unsafe fn sum64(a: Self) -> u64;
    /// Bytes shuffled inside each block.
    unsafe fn shuffle(a: Self, control: Self) -> Self;
    unsafe fn aes_round(state: Self, key: Self) -> Self;
    unsafe fn aes_last(state: Self, key: Self) -> Self;
    /// Carry-less product of the low halves of each block.
    unsafe fn mul_low(a: Self, b: Self) -> Self;
    /// Carry-less product of the high halves of each block.
    unsafe fn mul_high(a: Self, b: Self) -> Self;
    /// Low halves of `a` and `b`, block by block.
    unsafe fn unpack_low(a: Self, b: Self) -> Self;
    /// High halves of `a` and `b`, block by block.
    unsafe fn unpack_high(a: Self, b: Self) -> Self;
    /// The XOR of all blocks.
    unsafe fn fold(a: Self) -> __m128i;
    /// Emits nothing, but fixes the place of `v` in the order of the instructions.
    unsafe fn pin(v: &mut Self);

    /// The high half of every 64-bit element, as a 64-bit number.
    #[inline(always)]
    unsafe fn high32(a: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { Self::shr64::<32>(a) }
    }
    /// The low half of every 64-bit element, as a 64-bit number.
    #[inline(always)]
    unsafe fn low32(a: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { Self::shr64::<32>(Self::shl64::<32>(a)) }
    }
}

/// A vector that a level has lanes of: what stages need besides.
///
/// # Safety
/// As for [`Vector`].
pub(crate) trait Wide: Vector {
    unsafe fn load_partial(from: &[u8]) -> Self;
    unsafe fn store_partial(to: &mut [u8], v: Self);
    unsafe fn keep(v: Self, valid: usize) -> Self;
    unsafe fn splat16(x: u16) -> Self;
    unsafe fn splat32(x: u32) -> Self;
    unsafe fn splat64(x: u64) -> Self;
    unsafe fn or(a: Self, b: Self) -> Self;
    unsafe fn add8(a: Self, b: Self) -> Self;
    unsafe fn sub8(a: Self, b: Self) -> Self;
    unsafe fn average16(a: Self, b: Self) -> Self;
    unsafe fn add32(a: Self, b: Self) -> Self;
    unsafe fn sub32(a: Self, b: Self) -> Self;
    unsafe fn rotl32<const BITS: u32>(a: Self) -> Self;
    /// Low halves of the products of 16-bit elements.
    unsafe fn mul16_low(a: Self, b: Self) -> Self;
    /// High halves of the products of 16-bit elements.
    unsafe fn mul16_high(a: Self, b: Self) -> Self;
    unsafe fn mul32(a: Self, b: Self) -> Self;
    /// Sums of two products of bytes each, those of `b` with a sign.
    unsafe fn dot8(a: Self, b: Self) -> Self;
    /// Sums of two products of 16-bit elements each.
    unsafe fn dot16(a: Self, b: Self) -> Self;
    /// The differences of eight bytes each, added up.
    unsafe fn distance8(a: Self, b: Self) -> Self;
    /// The first eight bytes of each block of `a` and `b` in turns.
    unsafe fn zip8_low(a: Self, b: Self) -> Self;
    /// The last eight.
    unsafe fn zip8_high(a: Self, b: Self) -> Self;
    /// Bytes at even places of `a`, at odd places of `b`.
    unsafe fn odd8(a: Self, b: Self) -> Self;
    /// `v` in a register, hidden from the optimiser.
    unsafe fn hide(v: Self) -> Self;
    /// Runs `body` in the level's shell, through a pointer that the optimiser does not see through.
    unsafe fn call<K: LoopBody<Simd<Self>>>(body: K) -> K::Output;
}

/// Methods of one expression each.
macro_rules! methods {
    ($($name:ident($($x:ident: $t:ty),*) $(-> $r:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        #[allow(unused_unsafe)] // some need no more than every x86-64 has
        unsafe fn $name($($x: $t),*) $(-> $r)? {
            // SAFETY: the caller vouches for the instructions and for the bytes at a pointer; a slice has those
            // that are read or written.
            unsafe { $body }
        }
    )*};
}

/// Methods of two vectors.
macro_rules! of_two {
    ($($name:ident = $instruction:ident;)*) => {
        methods! { $($name(a: Self, b: Self) -> Self = $instruction(a, b);)* }
    };
}

/// Methods of a vector and a number of bits.
macro_rules! of_bits {
    ($($name:ident = $instruction:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name<const BITS: u32>(a: Self) -> Self {
            // SAFETY: the caller vouches for the instructions.
            unsafe { $instruction(a, _mm_cvtsi32_si128(BITS as i32)) }
        }
    )*};
}

/// A vector that passes an assembler's block without instructions, in a register of `$class`.
macro_rules! held {
    ($name:ident($v:ty, $class:ident $feature:literal) $($pure:ident)?) => {
        #[inline]
        #[target_feature(enable = $feature)]
        fn $name(mut v: $v) -> $v {
            // SAFETY: there is no instruction in it, and the register keeps its value.
            unsafe {
                asm!("/* {0} */", inout($class) v, options($($pure,)? nomem, nostack, preserves_flags));
            }
            v
        }
    };
}
held!(pin128(__m128i, xmm_reg "sse2"));
held!(pin256(__m256i, ymm_reg "avx"));
held!(hide256(__m256i, ymm_reg "avx") pure);
held!(pin512(__m512i, zmm_reg "avx512f"));
held!(hide512(__m512i, zmm_reg "avx512f") pure);

impl Vector for __m128i {
    const BLOCKS: usize = 1;
    methods! {
        zero() -> Self = _mm_setzero_si128();
        load(from: *const u8) -> Self = _mm_loadu_si128(from.cast());
        store(to: *mut u8, v: Self) = _mm_storeu_si128(to.cast(), v);
        broadcast(block: __m128i) -> Self = block;
        first(block: __m128i) -> Self = block;
        second(block: __m128i) -> Self = block;
        sum64(a: Self) -> u64 = _mm_cvtsi128_si64(_mm_add_epi64(a, _mm_unpackhi_epi64(a, a))) as u64;
        mul_low(a: Self, b: Self) -> Self = _mm_clmulepi64_si128::<0x00>(a, b);
        mul_high(a: Self, b: Self) -> Self = _mm_clmulepi64_si128::<0x11>(a, b);
        fold(a: Self) -> __m128i = a;
        pin(v: &mut Self) = *v = pin128(*v);
    }
    of_two! {
        xor = _mm_xor_si128;
        and = _mm_and_si128;
        add64 = _mm_add_epi64;
        sub64 = _mm_sub_epi64;
        shuffle = _mm_shuffle_epi8;
        aes_round = _mm_aesenc_si128;
        aes_last = _mm_aesenclast_si128;
        unpack_low = _mm_unpacklo_epi64;
        unpack_high = _mm_unpackhi_epi64;
    }
    of_bits! {
        shl64 = _mm_sll_epi64;
        shr64 = _mm_srl_epi64;
    }
}

impl Vector for __m256i {
    const BLOCKS: usize = 2;
    methods! {
        zero() -> Self = _mm256_setzero_si256();
        load(from: *const u8) -> Self = _mm256_loadu_si256(from.cast());
        store(to: *mut u8, v: Self) = _mm256_storeu_si256(to.cast(), v);
        broadcast(block: __m128i) -> Self = _mm256_broadcastsi128_si256(block);
        first(block: __m128i) -> Self = _mm256_zextsi128_si256(block);
        second(block: __m128i) -> Self = _mm256_inserti128_si256::<1>(Self::zero(), block);
        sum64(a: Self) -> u64 = __m128i::sum64(_mm_add_epi64(
            _mm256_castsi256_si128(a),
            _mm256_extracti128_si256::<1>(a),
        ));
        mul_low(a: Self, b: Self) -> Self = _mm256_clmulepi64_epi128::<0x00>(a, b);
        mul_high(a: Self, b: Self) -> Self = _mm256_clmulepi64_epi128::<0x11>(a, b);
        fold(a: Self) -> __m128i =
            _mm_xor_si128(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
        pin(v: &mut Self) = *v = pin256(*v);
    }
    of_two! {
        xor = _mm256_xor_si256;
        and = _mm256_and_si256;
        add64 = _mm256_add_epi64;
        sub64 = _mm256_sub_epi64;
        shuffle = _mm256_shuffle_epi8;
        aes_round = _mm256_aesenc_epi128;
        aes_last = _mm256_aesenclast_epi128;
        unpack_low = _mm256_unpacklo_epi64;
        unpack_high = _mm256_unpackhi_epi64;
    }
    of_bits! {
        shl64 = _mm256_sll_epi64;
        shr64 = _mm256_srl_epi64;
    }
}

/// 32 bytes of ones, 32 of zeros: a load from `32 - valid` on is a mask that keeps `valid` bytes.
static KEEP: [[u8; 32]; 2] = [[0xff; 32], [0; 32]];

impl Wide for __m256i {
    methods! {
        load_partial(from: &[u8]) -> Self = partial::load32(from);
        store_partial(to: &mut [u8], v: Self) = partial::store32(to, v);
        keep(v: Self, valid: usize) -> Self =
            Self::and(v, Self::load(KEEP.as_flattened()[32 - valid.min(32)..][..32].as_ptr()));
        splat16(x: u16) -> Self = _mm256_set1_epi16(x as i16);
        splat32(x: u32) -> Self = _mm256_set1_epi32(x as i32);
        splat64(x: u64) -> Self = _mm256_set1_epi64x(x as i64);
        odd8(a: Self, b: Self) -> Self = _mm256_blendv_epi8(a, b, Self::splat16(0xff00));
        hide(v: Self) -> Self = hide256(v);
    }
    of_two! {
        or = _mm256_or_si256;
        add8 = _mm256_add_epi8;
        sub8 = _mm256_sub_epi8;
        average16 = _mm256_avg_epu16;
        add32 = _mm256_add_epi32;
        sub32 = _mm256_sub_epi32;
        mul16_low = _mm256_mullo_epi16;
        mul16_high = _mm256_mulhi_epu16;
        mul32 = _mm256_mul_epu32;
        dot8 = _mm256_maddubs_epi16;
        dot16 = _mm256_madd_epi16;
        distance8 = _mm256_sad_epu8;
        zip8_low = _mm256_unpacklo_epi8;
        zip8_high = _mm256_unpackhi_epi8;
    }
    #[inline(always)]
    unsafe fn rotl32<const BITS: u32>(a: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let left = _mm256_sll_epi32(a, _mm_cvtsi32_si128(BITS as i32));
            Self::or(left, _mm256_srl_epi32(a, _mm_cvtsi32_si128(32 - BITS as i32)))
        }
    }
    #[inline(always)]
    unsafe fn call<K: LoopBody<Simd<Self>>>(body: K) -> K::Output {
        let shell: unsafe fn(K) -> K::Output = black_box(simd::avx2::shell::<K>);
        // SAFETY: the caller vouches for the instructions.
        unsafe { shell(body) }
    }
}

impl Vector for __m512i {
    const BLOCKS: usize = 4;
    methods! {
        zero() -> Self = _mm512_setzero_si512();
        load(from: *const u8) -> Self = _mm512_loadu_si512(from.cast());
        store(to: *mut u8, v: Self) = _mm512_storeu_si512(to.cast(), v);
        broadcast(block: __m128i) -> Self = _mm512_broadcast_i32x4(block);
        first(block: __m128i) -> Self = _mm512_zextsi128_si512(block);
        second(block: __m128i) -> Self = _mm512_inserti32x4::<1>(Self::zero(), block);
        sum64(a: Self) -> u64 = _mm512_reduce_add_epi64(a) as u64;
        mul_low(a: Self, b: Self) -> Self = _mm512_clmulepi64_epi128::<0x00>(a, b);
        mul_high(a: Self, b: Self) -> Self = _mm512_clmulepi64_epi128::<0x11>(a, b);
        fold(a: Self) -> __m128i = __m256i::fold(_mm256_xor_si256(
            _mm512_castsi512_si256(a),
            _mm512_extracti64x4_epi64::<1>(a),
        ));
        pin(v: &mut Self) = *v = pin512(*v);
    }
    of_two! {
        xor = _mm512_xor_si512;
        and = _mm512_and_si512;
        add64 = _mm512_add_epi64;
        sub64 = _mm512_sub_epi64;
        shuffle = _mm512_shuffle_epi8;
        aes_round = _mm512_aesenc_epi128;
        aes_last = _mm512_aesenclast_epi128;
        unpack_low = _mm512_unpacklo_epi64;
        unpack_high = _mm512_unpackhi_epi64;
    }
    of_bits! {
        shl64 = _mm512_sll_epi64;
        shr64 = _mm512_srl_epi64;
    }
}

/// Ones for the first `count` of 64 bytes.
#[inline(always)]
fn mask64(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

impl Wide for __m512i {
    // What a mask does not select is not touched.
    methods! {
        load_partial(from: &[u8]) -> Self = {
            assert!(from.len() < 64);
            _mm512_maskz_loadu_epi8(mask64(from.len()), from.as_ptr().cast())
        };
        store_partial(to: &mut [u8], v: Self) = {
            assert!(to.len() < 64);
            _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask64(to.len()), v)
        };
        keep(v: Self, valid: usize) -> Self = _mm512_maskz_mov_epi8(mask64(valid), v);
        splat16(x: u16) -> Self = _mm512_set1_epi16(x as i16);
        splat32(x: u32) -> Self = _mm512_set1_epi32(x as i32);
        splat64(x: u64) -> Self = _mm512_set1_epi64(x as i64);
        odd8(a: Self, b: Self) -> Self = _mm512_mask_blend_epi8(0xaaaa_aaaa_aaaa_aaaa, a, b);
        hide(v: Self) -> Self = hide512(v);
    }
    of_two! {
        or = _mm512_or_si512;
        add8 = _mm512_add_epi8;
        sub8 = _mm512_sub_epi8;
        average16 = _mm512_avg_epu16;
        add32 = _mm512_add_epi32;
        sub32 = _mm512_sub_epi32;
        mul16_low = _mm512_mullo_epi16;
        mul16_high = _mm512_mulhi_epu16;
        mul32 = _mm512_mul_epu32;
        dot8 = _mm512_maddubs_epi16;
        dot16 = _mm512_madd_epi16;
        distance8 = _mm512_sad_epu8;
        zip8_low = _mm512_unpacklo_epi8;
        zip8_high = _mm512_unpackhi_epi8;
    }
    #[inline(always)]
    unsafe fn rotl32<const BITS: u32>(a: Self) -> Self {
        // SAFETY: the caller vouches for the instructions.
        unsafe { _mm512_rolv_epi32(a, Self::splat32(BITS)) }
    }
    #[inline(always)]
    unsafe fn call<K: LoopBody<Simd<Self>>>(body: K) -> K::Output {
        let shell: unsafe fn(K) -> K::Output = black_box(simd::avx512::shell::<K>);
        // SAFETY: the caller vouches for the instructions.
        unsafe { shell(body) }
    }
}
