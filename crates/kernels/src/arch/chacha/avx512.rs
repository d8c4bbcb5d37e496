//! Sixteen blocks in 16 vectors of 512 bits.

use super::{ChaChaLanes, Last, Work, generic};
use crate::arch::{Avx512, Lanes};
use core::arch::x86_64::*;

impl ChaChaLanes for Avx512 {
    #[inline(always)]
    fn first(self, work: &mut Work, _: usize) -> usize {
        // SAFETY: the token proves the features.
        unsafe {
            generic::key_block(work);
            sixteen(self, work, None)
        }
    }
    #[inline(always)]
    fn next(self, work: &mut Work, last: Last, _: usize) -> usize {
        // SAFETY: the token proves the features.
        unsafe { sixteen(self, work, Some(last)) }
    }
    #[inline(always)]
    fn absorb(self, work: &mut Work, last: Last, from: usize) {
        // SAFETY: the token proves the features.
        unsafe { absorb(self, work, last, from) }
    }
}

/// Sixteen blocks, with the last ciphertext absorbed in between.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline(never)]
fn sixteen(lanes: Avx512, work: &mut Work, last: Option<Last>) -> usize {
    let mut x = [lanes.zero(); 16];
    for (x, row) in x.iter_mut().zip(&work.input) {
        // SAFETY: a row has 64 bytes.
        *x = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    }
    let input = x;
    let Work { poly, sealed, .. } = work;
    let message = last.map_or(&[][..], |last| sealed[last.at].0[..last.len].as_chunks().0);
    generic::rounds(lanes, &mut x, poly, message);
    for (x, input) in x.iter_mut().zip(input) {
        *x = lanes.add32(*x, input);
    }
    let blocks = transpose(x);
    for (to, block) in work.stream.0.chunks_exact_mut(64).zip(blocks) {
        lanes.store(to, block);
    }
    work.count(16);
    1024
}

/// The last ciphertext from byte `from` on.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline(never)]
fn absorb(lanes: Avx512, work: &mut Work, last: Last, from: usize) {
    generic::absorb(lanes, work, last, from);
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
