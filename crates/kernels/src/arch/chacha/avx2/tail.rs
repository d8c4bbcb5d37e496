//! Poly1305 in vectors, where no keystream is made beside it: after the last batch.
//!
//! As `stages/poly1305_wide.rs` has it: a block in each 64-bit lane, in limbs of 26 bits; the bounds are there.
//! The compiler knows no product of the low halves of 64-bit lanes: it makes three of one where it does not see
//! that the high halves are zero. So a turn of eight blocks is in assembly.

use super::super::{Last, Work};
use crate::arch::Avx2;
use crate::stages::{Poly1305, Powers, gather, splat};
use core::arch::x86_64::*;

/// Five times the limbs 1 to 4 of a factor and its limbs 0 to 4, in every lane.
type Factor = [__m256i; 9];

/// What a turn reads; two factors beside each other are in use.
#[repr(C)]
struct Tables {
    /// The 8th power and the 4th of the multiplier, and one.
    factors: [Factor; 3],
    /// 26 bits.
    mask: __m256i,
    /// The bit above a block.
    high: __m256i,
}

#[target_feature(enable = "avx2")]
#[inline]
fn factor(lanes: Avx2, number: [u64; 3]) -> Factor {
    let [a, b, c, d, e] = splat(lanes, number);
    let times5 = |x| _mm256_add_epi64(x, _mm256_slli_epi64::<2>(x));
    [times5(b), times5(c), times5(d), times5(e), a, b, c, d, e]
}

/// Row `j` of a product: limb `x` times the factor at `at`, added to the sums in ymm5 to ymm9.
macro_rules! row {
    () => {
        r"
.macro fw_row x j at
vpmuludq ymm15, \x, [{tables}+\at+32*(4-\j)]
vpaddq ymm5, ymm5, ymm15
vpmuludq ymm15, \x, [{tables}+\at+32*(5-\j)]
vpaddq ymm6, ymm6, ymm15
vpmuludq ymm15, \x, [{tables}+\at+32*(6-\j)]
vpaddq ymm7, ymm7, ymm15
vpmuludq ymm15, \x, [{tables}+\at+32*(7-\j)]
vpaddq ymm8, ymm8, ymm15
vpmuludq ymm15, \x, [{tables}+\at+32*(8-\j)]
vpaddq ymm9, ymm9, ymm15
.endm
"
    };
}

/// `acc = (acc + first four blocks) · tables[0] + (last four blocks) · tables[1]`, carried.
#[target_feature(enable = "avx2")]
#[inline]
fn turn(tables: &Tables, first: usize, blocks: &[u8; 128], acc: [__m256i; 5]) -> [__m256i; 5] {
    let [mut a0, mut a1, mut a2, mut a3, mut a4] = acc;
    let factors = tables.factors[first..][..2].as_ptr();
    // SAFETY: reads two factors, of 288 bytes each, `blocks`, and mask and bit, and writes nothing.
    unsafe {
        core::arch::asm!(
            row!(),
            "vmovdqu ymm10, [{m}]",
            "vmovdqa ymm14, [{mask}]",
            "vpunpcklqdq ymm11, ymm10, [{m}+32]",
            "vpunpckhqdq ymm10, ymm10, [{m}+32]",
            "vpand ymm12, ymm11, ymm14",
            "vpaddq ymm0, ymm0, ymm12",
            "vpsrlq ymm12, ymm11, 26",
            "vpand ymm12, ymm12, ymm14",
            "vpaddq ymm1, ymm1, ymm12",
            "vpsrlq ymm12, ymm11, 52",
            "vpsllq ymm13, ymm10, 12",
            "vpor ymm12, ymm12, ymm13",
            "vpand ymm12, ymm12, ymm14",
            "vpaddq ymm2, ymm2, ymm12",
            "vpsrlq ymm12, ymm10, 14",
            "vpand ymm12, ymm12, ymm14",
            "vpaddq ymm3, ymm3, ymm12",
            "vpsrlq ymm12, ymm10, 40",
            "vpor ymm12, ymm12, [{mask}+32]",
            "vpaddq ymm4, ymm4, ymm12",
            // The last four blocks' limbs, each as soon as it is there.
            "vmovdqu ymm10, [{m}+64]",
            "vpunpcklqdq ymm11, ymm10, [{m}+96]",
            "vpunpckhqdq ymm10, ymm10, [{m}+96]",
            "vpand ymm12, ymm11, ymm14",
            "vpmuludq ymm5, ymm12, [{tables}+288+32*4]",
            "vpmuludq ymm6, ymm12, [{tables}+288+32*5]",
            "vpmuludq ymm7, ymm12, [{tables}+288+32*6]",
            "vpmuludq ymm8, ymm12, [{tables}+288+32*7]",
            "vpmuludq ymm9, ymm12, [{tables}+288+32*8]",
            "vpsrlq ymm12, ymm11, 26",
            "vpand ymm12, ymm12, ymm14",
            "fw_row ymm12, 1, 288",
            "vpsrlq ymm12, ymm11, 52",
            "vpsllq ymm13, ymm10, 12",
            "vpor ymm12, ymm12, ymm13",
            "vpand ymm12, ymm12, ymm14",
            "fw_row ymm12, 2, 288",
            "vpsrlq ymm12, ymm10, 14",
            "vpand ymm12, ymm12, ymm14",
            "fw_row ymm12, 3, 288",
            "vpsrlq ymm12, ymm10, 40",
            "vpor ymm12, ymm12, [{mask}+32]",
            "fw_row ymm12, 4, 288",
            "fw_row ymm0, 0, 0",
            "fw_row ymm1, 1, 0",
            "fw_row ymm2, 2, 0",
            "fw_row ymm3, 3, 0",
            "fw_row ymm4, 4, 0",
            // Carries: 0 to 1 to 2 to 3 to 4, and 3 to 4 to 0 to 1.
            "vpsrlq ymm0, ymm5, 26",
            "vpsrlq ymm3, ymm8, 26",
            "vpand ymm5, ymm5, ymm14",
            "vpand ymm8, ymm8, ymm14",
            "vpaddq ymm6, ymm6, ymm0",
            "vpaddq ymm9, ymm9, ymm3",
            "vpsrlq ymm1, ymm6, 26",
            "vpsrlq ymm4, ymm9, 26",
            "vpand ymm6, ymm6, ymm14",
            "vpand ymm9, ymm9, ymm14",
            "vpaddq ymm7, ymm7, ymm1",
            "vpaddq ymm5, ymm5, ymm4",
            "vpsllq ymm4, ymm4, 2",
            "vpsrlq ymm2, ymm7, 26",
            "vpaddq ymm5, ymm5, ymm4",
            "vpaddq ymm8, ymm8, ymm2",
            "vpand ymm2, ymm7, ymm14",
            "vpsrlq ymm0, ymm5, 26",
            "vpsrlq ymm3, ymm8, 26",
            "vpaddq ymm1, ymm6, ymm0",
            "vpaddq ymm4, ymm9, ymm3",
            "vpand ymm0, ymm5, ymm14",
            "vpand ymm3, ymm8, ymm14",
            ".purgem fw_row",
            tables = in(reg) factors,
            mask = in(reg) &raw const tables.mask,
            m = in(reg) blocks.as_ptr(),
            inout("ymm0") a0, inout("ymm1") a1, inout("ymm2") a2, inout("ymm3") a3, inout("ymm4") a4,
            out("ymm5") _, out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _,
            out("ymm11") _, out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(pure, readonly, nostack),
        );
    }
    [a0, a1, a2, a3, a4]
}

/// Absorbs `bytes` as far as they are eight blocks and eight blocks, and gives the rest.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline]
fn absorb_groups<'a>(
    lanes: Avx2,
    poly: &mut Poly1305,
    powers: &Powers,
    bytes: &'a [u8],
) -> &'a [u8] {
    let (turns, rest) = bytes.as_chunks::<128>();
    if turns.is_empty() || !powers.are_set() {
        return bytes;
    }
    let [fourth, eighth] = powers.all();
    let zero = _mm256_setzero_si256();
    let mut one = [zero; 9];
    one[4] = _mm256_set1_epi64x(1);
    let tables = Tables {
        factors: [factor(lanes, eighth), factor(lanes, fourth), one],
        mask: _mm256_set1_epi64x((1 << 26) - 1),
        high: _mm256_set1_epi64x(1 << 24),
    };
    let mut acc = splat(lanes, poly.times(poly.h));
    for acc in &mut acc {
        *acc = _mm256_blend_epi32::<3>(zero, *acc);
    }
    let (last, before) = turns.split_last().expect("there are some");
    for blocks in before {
        acc = turn(&tables, 0, blocks, acc);
    }
    poly.h = gather(lanes, powers, turn(&tables, 1, last, acc));
    rest
}

/// The last ciphertext from byte `from` on.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline(never)]
pub(super) fn absorb(lanes: Avx2, work: &mut Work, last: Last, from: usize) {
    let bytes = &work.sealed[last.at].0[from..last.len];
    let rest = absorb_groups(lanes, &mut work.poly, &work.powers, bytes);
    work.poly.absorb_padded(rest);
}
