//! Blocks 0 to 5 of a short message: rows of the state in the lanes of a vector, two blocks in each.
//!
//! Three chains of quarter rounds fill the units as well as the four of [`eight`](super::eight) do, block 0 is one of
//! the blocks, and hardly anything is left to be transposed.

use super::super::{SIGMA, Work};
use super::ROTATIONS;
use crate::arch::{Avx2, Lanes};
use core::arch::x86_64::*;

/// The most bytes that these blocks encipher.
pub(super) const FEW: usize = 320;

/// Two blocks: rows a, b, c and d of the state, a block in each half.
type Pair = [__m256i; 4];

/// Adds, xors and rotates: half of the quarter rounds of a round (RFC 8439, section 2.1).
#[target_feature(enable = "avx2")]
#[inline]
fn half<const LEFT: i32, const RIGHT: i32>([a, b, c, d]: Pair, turn: __m256i) -> Pair {
    let a = _mm256_add_epi32(a, b);
    let d = _mm256_shuffle_epi8(_mm256_xor_si256(d, a), turn);
    let c = _mm256_add_epi32(c, d);
    let b = _mm256_xor_si256(b, c);
    let b = _mm256_or_si256(_mm256_slli_epi32::<LEFT>(b), _mm256_srli_epi32::<RIGHT>(b));
    [a, b, c, d]
}

/// The rows a, c and d turned, so that columns become diagonals, or back. Row b stays: it is the last that a round
/// makes and the first that the next one takes.
#[target_feature(enable = "avx2")]
#[inline]
fn turn<const A: i32, const C: i32>([a, b, c, d]: Pair) -> Pair {
    let (a, c) = (_mm256_shuffle_epi32::<A>(a), _mm256_shuffle_epi32::<C>(c));
    [a, b, c, _mm256_shuffle_epi32::<0x4e>(d)]
}

#[target_feature(enable = "avx2")]
#[inline]
fn put(to: &mut [u8; 32], x: __m256i) {
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn row(words: &[u32; 4]) -> __m256i {
    // SAFETY: 16 bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(words.as_ptr().cast()) })
}

/// Blocks 1 to 5 in `stream`, and the first half of block 0 in `key`.
#[target_feature(enable = "avx2")]
#[inline(never)]
pub(super) fn few(lanes: Avx2, work: &mut Work) {
    // From the registers: a load of what was just written in parts would wait.
    let [.., n0, n1, n2] = work.block_0().map(u32::cast_signed);
    let nonce = _mm256_setr_epi32(0, n0, n1, n2, 0, n0, n1, n2);
    let first = [row(&SIGMA), row(&work.secret[0]), row(&work.secret[1])];
    let mut input = [[nonce; 4]; 3];
    for (i, pair) in input.iter_mut().enumerate() {
        let i = 2 * i as i32;
        let counters = _mm256_setr_epi32(i, 0, 0, 0, i + 1, 0, 0, 0);
        *pair = [first[0], first[1], first[2], _mm256_or_si256(nonce, counters)];
    }
    // The compiler makes two steps of a shuffle that it knows, and moves it to both sides of an xor.
    let [by_16, by_8] = &ROTATIONS.0;
    let (by_16, by_8) = (lanes.pin(lanes.load(by_16)), lanes.pin(lanes.load(by_8)));
    let [mut x, mut y, mut z] = input;
    for _ in 0..10 {
        (x, y, z) = (half::<12, 20>(x, by_16), half::<12, 20>(y, by_16), half::<12, 20>(z, by_16));
        (x, y, z) = (half::<7, 25>(x, by_8), half::<7, 25>(y, by_8), half::<7, 25>(z, by_8));
        (x, y, z) = (turn::<0x93, 0x39>(x), turn::<0x93, 0x39>(y), turn::<0x93, 0x39>(z));
        (x, y, z) = (half::<12, 20>(x, by_16), half::<12, 20>(y, by_16), half::<12, 20>(z, by_16));
        (x, y, z) = (half::<7, 25>(x, by_8), half::<7, 25>(y, by_8), half::<7, 25>(z, by_8));
        (x, y, z) = (turn::<0x39, 0x93>(x), turn::<0x39, 0x93>(y), turn::<0x39, 0x93>(z));
    }
    let Work { key, stream, .. } = work;
    let (stream, _) = stream.0.as_chunks_mut::<32>();
    for (i, (x, input)) in [x, y, z].into_iter().zip(input).enumerate() {
        let (a, b) = (_mm256_add_epi32(x[0], input[0]), _mm256_add_epi32(x[1], input[1]));
        let (c, d) = (_mm256_add_epi32(x[2], input[2]), _mm256_add_epi32(x[3], input[3]));
        let even =
            [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x20>(c, d)];
        let odd =
            [_mm256_permute2x128_si256::<0x31>(a, b), _mm256_permute2x128_si256::<0x31>(c, d)];
        if i == 0 {
            put(key, even[0]);
        } else {
            put(&mut stream[4 * i - 2], even[0]);
            put(&mut stream[4 * i - 1], even[1]);
        }
        put(&mut stream[4 * i], odd[0]);
        put(&mut stream[4 * i + 1], odd[1]);
    }
}
