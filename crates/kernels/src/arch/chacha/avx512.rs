//! Sixteen blocks in 16 vectors of 512 bits, Poly1305 in eight lanes of 52-bit products beside them.
//!
//! A quarter round waits for each of its twelve steps, so that the vector units are half idle; a turn of Poly1305, of
//! eight blocks, stands in every double round but the last. Block 0 takes its rounds in vectors of its own beside the
//! first sixteen.
//!
//! How fast it is has not been measured yet: it was written without a machine that has these instructions, after a model
//! of them that is tested everywhere (`ifma`).

use super::ifma::Lanes52;
use super::{ChaChaLanes, Last, SIGMA, Work, generic};
use crate::arch::{Avx512, Lanes};
use core::arch::x86_64::*;

impl ChaChaLanes for Avx512 {
    #[inline(always)]
    fn first(self, work: &mut Work, _: usize) -> usize {
        // SAFETY: the token proves the features.
        unsafe { sixteen_first(self, work) }
    }
    #[inline(always)]
    fn powers(self, work: &mut Work, len: usize) {
        // SAFETY: the token proves the features.
        unsafe { powers(self, work, len) }
    }
    #[inline(always)]
    fn next(self, work: &mut Work, last: Last, _: usize) -> usize {
        debug_assert_eq!(last.len, 1024);
        // SAFETY: the token proves the features.
        unsafe { sixteen(self, work, last) }
    }
    #[inline(always)]
    fn absorb(self, work: &mut Work, last: Last, from: usize) {
        // SAFETY: the token proves the features.
        unsafe { absorb(self, work, last, from) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma,bmi1,bmi2")]
#[inline(never)]
fn powers(lanes: Avx512, work: &mut Work, len: usize) {
    work.wide.set(lanes, &work.poly, len);
}

/// The input's rows.
#[target_feature(enable = "avx512f")]
#[inline]
fn rows(work: &Work) -> [__m512i; 16] {
    let mut x = [_mm512_setzero_si512(); 16];
    for (x, row) in x.iter_mut().zip(&work.input) {
        // SAFETY: a row has 64 bytes.
        *x = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    }
    x
}

/// Adds the input, and leaves sixteen blocks as keystream.
#[target_feature(enable = "avx512f")]
#[inline]
fn finish(lanes: Avx512, work: &mut Work, mut x: [__m512i; 16]) -> usize {
    for (x, input) in x.iter_mut().zip(rows(work)) {
        *x = _mm512_add_epi32(*x, input);
    }
    let blocks = transpose(x);
    for (to, block) in work.stream.0.chunks_exact_mut(64).zip(blocks) {
        Lanes::store(lanes, to, block);
    }
    work.count(16);
    1024
}

/// Half of the quarter rounds of a round of one block, whose rows are `x`.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn half<const D: i32, const B: i32>([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
    let a = _mm_add_epi32(a, b);
    let d = _mm_rol_epi32::<D>(_mm_xor_si128(d, a));
    let c = _mm_add_epi32(c, d);
    [a, _mm_rol_epi32::<B>(_mm_xor_si128(b, c)), c, d]
}

/// Two rounds of one block.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn double_round(x: [__m128i; 4]) -> [__m128i; 4] {
    let [a, b, c, d] = half::<8, 7>(half::<16, 12>(x));
    let (b, c, d) =
        (_mm_shuffle_epi32::<0x39>(b), _mm_shuffle_epi32::<0x4e>(c), _mm_shuffle_epi32::<0x93>(d));
    let [a, b, c, d] = half::<8, 7>(half::<16, 12>([a, b, c, d]));
    let (b, c, d) =
        (_mm_shuffle_epi32::<0x93>(b), _mm_shuffle_epi32::<0x4e>(c), _mm_shuffle_epi32::<0x39>(d));
    [a, b, c, d]
}

/// Sixteen blocks, and block 0 beside them, which leaves the authenticator's key in `work.key`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline(never)]
fn sixteen_first(lanes: Avx512, work: &mut Work) -> usize {
    // From the registers: a load of what was just written in parts would wait.
    let [.., n0, n1, n2] = work.block_0().map(u32::cast_signed);
    let row = |words: &[u32; 4]| {
        let [a, b, c, d] = words.map(u32::cast_signed);
        _mm_setr_epi32(a, b, c, d)
    };
    let start =
        [row(&SIGMA), row(&work.secret[0]), row(&work.secret[1]), _mm_setr_epi32(0, n0, n1, n2)];
    let (mut x, mut block) = (rows(work), start);
    for _ in 0..10 {
        generic::double_round(lanes, &mut x);
        block = double_round(block);
    }
    let (key, _) = work.key.as_chunks_mut::<16>();
    // SAFETY: 16 bytes each.
    unsafe {
        _mm_storeu_si128(key[0].as_mut_ptr().cast(), _mm_add_epi32(block[0], start[0]));
        _mm_storeu_si128(key[1].as_mut_ptr().cast(), _mm_add_epi32(block[1], start[1]));
    }
    finish(lanes, work, x)
}

/// Sixteen blocks, with the last ciphertext absorbed in between, 1024 bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma,bmi1,bmi2")]
#[inline(never)]
fn sixteen(lanes: Avx512, work: &mut Work, last: Last) -> usize {
    let mut x = rows(work);
    let Work { poly, wide, sealed, .. } = work;
    let (message, _) = sealed[last.at].0.as_chunks::<128>();
    let mut turns = wide.begin(lanes, poly, &message[0]);
    for eight in &message[1..] {
        generic::double_round(lanes, &mut x);
        turns.turn(lanes, eight);
    }
    wide.keep(lanes, &turns);
    for _ in 0..3 {
        generic::double_round(lanes, &mut x);
    }
    finish(lanes, work, x)
}

/// The last ciphertext from byte `from` on.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512ifma,bmi1,bmi2")]
#[inline(never)]
fn absorb(lanes: Avx512, work: &mut Work, last: Last, from: usize) {
    let Work { poly, wide, sealed, .. } = work;
    let bytes = &sealed[last.at].0[from..last.len];
    match wide.takes(bytes.len()) {
        true => wide.end(lanes, poly, bytes),
        false => poly.absorb_padded(bytes),
    }
}

/// Methods of one expression each.
macro_rules! instructions {
    ($($name:ident($($x:ident: $t:ty),*) -> $r:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($x: $t),*) -> $r {
            // SAFETY: the token proves AVX-512 F and IFMA; arrays have the bytes that are read.
            unsafe { $body }
        }
    )*};
}

impl Lanes52 for Avx512 {
    type V = __m512i;
    instructions! {
        splat(x: u64) -> __m512i = _mm512_set1_epi64(x.cast_signed());
        load(from: &[u64; 8]) -> __m512i = _mm512_loadu_si512(from.as_ptr().cast());
        words(blocks: &[u8; 128]) -> [__m512i; 2] = {
            let first = _mm512_loadu_si512(blocks.as_ptr().cast());
            let last = _mm512_loadu_si512(blocks[64..].as_ptr().cast());
            [_mm512_unpacklo_epi64(first, last), _mm512_unpackhi_epi64(first, last)]
        };
        order(x: __m512i) -> __m512i =
            _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), x);
        add(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi64(a, b);
        and(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        add_low(sum: __m512i, a: __m512i, b: __m512i) -> __m512i = _mm512_madd52lo_epu64(sum, a, b);
        add_high(sum: __m512i, a: __m512i, b: __m512i) -> __m512i =
            _mm512_madd52hi_epu64(sum, a, b);
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; 8], x: __m512i) {
        // SAFETY: the token proves AVX-512 F; 64 bytes are writable.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }
    #[inline(always)]
    fn left<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512 F.
        unsafe { _mm512_slli_epi64::<BITS>(x) }
    }
    #[inline(always)]
    fn right<const BITS: u32>(self, x: __m512i) -> __m512i {
        // SAFETY: the token proves AVX-512 F.
        unsafe { _mm512_srli_epi64::<BITS>(x) }
    }
}

/// From a word of every block a vector to a block a vector.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose(x: [__m512i; 16]) -> [__m512i; 16] {
    let mut blocks = x;
    // In each 128 bits: words 4i to 4i + 3 of block 4·lane + j, for every i and j.
    for i in 0..4 {
        let [a, b, c, d] = [x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]];
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        blocks[4 * i] = _mm512_unpacklo_epi64(ab, cd);
        blocks[4 * i + 1] = _mm512_unpackhi_epi64(ab, cd);
        let (ab, cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        blocks[4 * i + 2] = _mm512_unpacklo_epi64(ab, cd);
        blocks[4 * i + 3] = _mm512_unpackhi_epi64(ab, cd);
    }
    // A transposition of 4 by 4 lanes of 128 bits for every j.
    let mut out = blocks;
    for j in 0..4 {
        let [a, b, c, d] = [blocks[j], blocks[4 + j], blocks[8 + j], blocks[12 + j]];
        let (ab, cd) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d));
        out[j] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        out[4 + j] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
        let (ab, cd) = (_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d));
        out[8 + j] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        out[12 + j] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
    }
    out
}
