//! Eight and sixteen blocks in vectors of 256 bits, in assembly; up to six in the compiler's hands.
//!
//! The compiler spills a dozen rows a round where four are enough, and does not keep scalar code between
//! vector code, so the rounds are written out. Rotations by 16 and 8 are byte shuffles.

mod eight;
mod few;
mod sixteen;
mod tail;
mod text;

use super::{ChaChaLanes, Last, Work};
use crate::arch::Avx2;
use core::arch::x86_64::*;
use core::mem::offset_of;
use eight::{eight, eight_first};
use few::{FEW, few};
use sixteen::{sixteen, sixteen_first, spread};

/// Byte shuffles that rotate every 32-bit lane left by 16 and by 8.
#[repr(C, align(32))]
struct Rotations([[u8; 32]; 2]);

static ROTATIONS: Rotations = {
    let mut rotations = [[0; 32]; 2];
    let mut i = 0;
    while i < 32 {
        rotations[0][i] = ((i & 12) + ((i + 2) & 3)) as u8;
        rotations[1][i] = ((i & 12) + ((i + 3) & 3)) as u8;
        i += 1;
    }
    Rotations(rotations)
};

/// Up to so many bytes batches have eight blocks. Sixteen take a fifth less time, but what comes after the last batch,
/// Poly1305 of all of it, has nothing to hide behind.
const EIGHTS: usize = 4096;

/// What the assembly's `w` is: two bytes into [`Work::spill`], as its low six bits are also how far `shrx` shifts.
fn spill(work: &mut Work) -> *mut u8 {
    const { assert!(offset_of!(Work, spill).is_multiple_of(64) && align_of::<Work>() == 64) };
    (&raw mut work.spill).cast::<u8>().wrapping_add(2)
}

/// Offset of a field from `w`.
macro_rules! at {
    ($($field:tt)*) => { (offset_of!(Work, $($field)*) as isize - offset_of!(Work, spill) as isize - 2) };
}
use at;

impl ChaChaLanes for Avx2 {
    #[inline(always)]
    fn first(self, work: &mut Work, left: usize) -> usize {
        if left <= FEW {
            // SAFETY: the token proves AVX2.
            unsafe { few(self, work) };
            return FEW;
        }
        work.start();
        if left <= EIGHTS {
            // SAFETY: the token proves AVX2.
            unsafe { eight_first(work) };
            return 512;
        }
        // SAFETY: the token proves AVX2.
        unsafe {
            spread(work);
            sixteen_first(work);
        }
        1024
    }
    #[inline(always)]
    fn powers(self, work: &mut Work, len: usize) {
        work.powers.set(&work.poly, len, len > EIGHTS);
    }
    #[inline(always)]
    fn next(self, work: &mut Work, last: Last, left: usize) -> usize {
        if left > 512 && last.len == 1024 {
            // SAFETY: the token proves AVX2, BMI1 and BMI2.
            unsafe { sixteen(work, last.at) };
            return 1024;
        }
        // SAFETY: as above.
        unsafe { eight(work, last.at) };
        if last.len > 512 {
            self.absorb(work, last, 512);
        }
        512
    }
    #[inline(always)]
    fn absorb(self, work: &mut Work, last: Last, from: usize) {
        // SAFETY: the token proves AVX2 and BMI2.
        unsafe { tail::absorb(self, work, last, from) };
    }
}

/// Transposes eight words of eight blocks and stores them as 32 bytes of each block of `stream`, from byte `at`
/// of the block on.
#[target_feature(enable = "avx2")]
#[inline]
fn store_stream(stream: &mut [u8], x: [__m256i; 8], at: usize) {
    let pairs = [
        _mm256_unpacklo_epi32(x[0], x[1]),
        _mm256_unpackhi_epi32(x[0], x[1]),
        _mm256_unpacklo_epi32(x[2], x[3]),
        _mm256_unpackhi_epi32(x[2], x[3]),
        _mm256_unpacklo_epi32(x[4], x[5]),
        _mm256_unpackhi_epi32(x[4], x[5]),
        _mm256_unpacklo_epi32(x[6], x[7]),
        _mm256_unpackhi_epi32(x[6], x[7]),
    ];
    for j in 0..4 {
        let (a, b) = (pairs[j / 2], pairs[j / 2 + 2]);
        let (c, d) = (pairs[j / 2 + 4], pairs[j / 2 + 6]);
        // Four words of block j, then of block j + 4.
        let (low, high) = if j % 2 == 0 {
            (_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d))
        } else {
            (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d))
        };
        let to = &mut stream[at..];
        let (first, second) = (64 * j, 64 * (j + 4));
        let to = to[..second + 32].as_mut_ptr();
        // SAFETY: the slice has bytes up to the second store's end.
        unsafe {
            _mm256_storeu_si256(to.add(first).cast(), _mm256_permute2x128_si256::<0x20>(low, high));
            _mm256_storeu_si256(
                to.add(second).cast(),
                _mm256_permute2x128_si256::<0x31>(low, high),
            );
        }
    }
}
