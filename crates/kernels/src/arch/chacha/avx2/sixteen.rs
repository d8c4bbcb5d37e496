//! Sixteen blocks as two batches of eight whose rounds alternate, Poly1305 as two chains beside them.
//!
//! One batch has four chains of quarter rounds, too few to fill the vector units: 50 cycles a double round
//! where 32 would do (measured on Zen 4: the chains wait for the two units that shift and shuffle). Two
//! batches have eight chains and take 41 each. Rows b stay in registers; rows a, c and d are read from memory
//! as operands and written back, which needs no vector unit.
//!
//! Poly1305 has a latency of 14 cycles a block. So two parts of the last ciphertext are absorbed side by side, and
//! joined with a power of the key. All of it but a block stands in the loop: at both ends of it nothing else would hide
//! how long a chain takes.
//!
//! Of round 1 only the quarter round with the counter differs between blocks; the others are done once a
//! message ([`Work::start`]).

use super::super::{Row, Work};
use super::text::{absorb, first_column, nothing, pairs, quarter};
use super::{ROTATIONS, at, spill, store_stream};
use core::arch::x86_64::*;
use core::mem::offset_of;

/// The state of the common part of round 1, in every lane.
#[target_feature(enable = "avx2")]
pub(super) fn spread(work: &mut Work) {
    for (row, word) in work.start.iter_mut().zip(work.start_words) {
        *row = [word; 16];
    }
}

/// Sixteen blocks, and block 0 beside them in scalar registers, which leaves the authenticator's key in
/// `work.key`.
#[target_feature(enable = "avx2")]
#[inline(never)]
pub(super) fn sixteen_first(work: &mut Work) {
    let words = work.block_0_started();
    let [mut a0, mut a1, mut a2, mut a3, mut b0, mut b1, mut b2, mut b3, ..] = words;
    work.words.copy_from_slice(&words[8..12]);
    work.end = 9;
    let (r0, r1, r2, r3, r4, r5, r6, r7);
    // SAFETY: reads and writes `spill`, `words` and `end` and reads `input` and `start`, which `work` owns and
    // which are aligned to 64 bytes where that is asked for; reads ROTATIONS, aligned to 32 bytes.
    unsafe {
        core::arch::asm!(
            quarter!(),
            pairs!(),
            first_column!(),
            "fw_pair_from 0, 1,0,10,15, 0,{start}+2+640,{start}+2+960, 2,1,11,12, {start}+2+64,{start}+2+704,768, fw_quarter,{a0:e},{b1:e},2,{d3:e}",
            "fw_pair_from 0, 3,2,8,13, {start}+2+128,512,{start}+2+832, 0,3,9,14, {start}+2+192,{start}+2+576,{start}+2+896, fw_quarter,{a1:e},{b2:e},3,{d0:e}",
            "fw_pair_from 32, 5,0,10,15, 0,{start}+2+640,{start}+2+960, 6,1,11,12, {start}+2+64,{start}+2+704,768, fw_quarter,{a2:e},{b3:e},0,{d1:e}",
            "fw_pair_from 32, 7,2,8,13, {start}+2+128,512,{start}+2+832, 4,3,9,14, {start}+2+192,{start}+2+576,{start}+2+896, fw_quarter,{a3:e},{b0:e},1,{d2:e}",
            ".p2align 6\n2:",
            "fw_pair 0, 0,0,8,12, 1,1,9,13, fw_quarter,{a0:e},{b0:e},0,{d0:e}",
            "fw_pair 0, 2,2,10,14, 3,3,11,15, fw_quarter,{a1:e},{b1:e},1,{d1:e}",
            "fw_pair 32, 4,0,8,12, 5,1,9,13, fw_quarter,{a2:e},{b2:e},2,{d2:e}",
            "fw_pair 32, 6,2,10,14, 7,3,11,15, fw_quarter,{a3:e},{b3:e},3,{d3:e}",
            "fw_pair 0, 1,0,10,15, 2,1,11,12, fw_quarter,{a0:e},{b1:e},2,{d3:e}",
            "fw_pair 0, 3,2,8,13, 0,3,9,14, fw_quarter,{a1:e},{b2:e},3,{d0:e}",
            "fw_pair 32, 5,0,10,15, 6,1,11,12, fw_quarter,{a2:e},{b3:e},0,{d1:e}",
            "fw_pair 32, 7,2,8,13, 4,3,9,14, fw_quarter,{a3:e},{b0:e},1,{d2:e}",
            "dec dword ptr [{w}+{end}]",
            "jnz 2b",
            ".purgem fw_quarter\n.purgem fw_pair\n.purgem fw_pair_from",
            w = in(reg) spill(work),
            a0 = inout(reg) a0, a1 = inout(reg) a1, a2 = inout(reg) a2, a3 = inout(reg) a3,
            b0 = inout(reg) b0, b1 = inout(reg) b1, b2 = inout(reg) b2, b3 = inout(reg) b3,
            d0 = inout(reg) words[12] => _, d1 = inout(reg) words[13] => _,
            d2 = inout(reg) words[14] => _, d3 = inout(reg) words[15] => _,
            t = out(reg) _,
            rot = sym ROTATIONS,
            input = const at!(input),
            start = const at!(start),
            words = const at!(words),
            end = const at!(end),
            out("ymm0") r0, out("ymm1") r1, out("ymm2") r2, out("ymm3") r3,
            out("ymm4") r4, out("ymm5") r5, out("ymm6") r6, out("ymm7") r7,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack),
        );
    }
    work.set_key([a0, a1, a2, a3, b0, b1, b2, b3]);
    let b = [r0, r1, r2, r3, r4, r5, r6, r7];
    finish(work, &b, 0);
    finish(work, &b, 1);
    work.count(16);
}

/// Sixteen blocks, with the last ciphertext absorbed, 1024 bytes in `sealed[i]`.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline(never)]
pub(super) fn sixteen(work: &mut Work, i: usize) {
    let message: *const u8 = work.sealed[i].0.as_ptr();
    work.end = message as u64 + 576;
    let [mut h0, mut h1, mut h2] = work.poly.h;
    let [mut g0, mut g1, mut g2] = [0u64; 3];
    let (b0, b1, b2, b3, b4, b5, b6, b7);
    // SAFETY: reads and writes `spill`, which `work` owns and which is aligned to 64 bytes; reads `input` and
    // `start`, aligned as well, and ROTATIONS, aligned to 32 bytes; reads 1024 bytes of `sealed`: from
    // the front 64 a turn until `end`, which is nine turns; from byte 576 on 16, then 48 a turn; reads `poly`, `end`.
    unsafe {
        core::arch::asm!(
            nothing!(),
            absorb!(),
            pairs!(),
            first_column!(),
            "fw_pair_from 0, 1,0,10,15, 0,{start}+2+640,{start}+2+960, 2,1,11,12, {start}+2+64,{start}+2+704,768, fw_absorb,{g0},{g1},{g2},{second}",
            "fw_pair_from 0, 3,2,8,13, {start}+2+128,512,{start}+2+832, 0,3,9,14, {start}+2+192,{start}+2+576,{start}+2+896,fw_nothing,0,0,0,0",
            "fw_pair_from 32, 5,0,10,15, 0,{start}+2+640,{start}+2+960, 6,1,11,12, {start}+2+64,{start}+2+704,768,fw_nothing,0,0,0,0",
            "fw_pair_from 32, 7,2,8,13, {start}+2+128,512,{start}+2+832, 4,3,9,14, {start}+2+192,{start}+2+576,{start}+2+896,fw_nothing,0,0,0,0",
            "add {second}, 16",
            ".p2align 6\n2:",
            "fw_pair 0, 0,0,8,12, 1,1,9,13, fw_absorb,{h0},{h1},{h2},{first}",
            "fw_pair 0, 2,2,10,14, 3,3,11,15, fw_absorb,{g0},{g1},{g2},{second}",
            "fw_pair 32, 4,0,8,12, 5,1,9,13, fw_absorb,{h0},{h1},{h2},{first}+16",
            "fw_pair 32, 6,2,10,14, 7,3,11,15, fw_absorb,{g0},{g1},{g2},{second}+16",
            "fw_pair 0, 1,0,10,15, 2,1,11,12, fw_absorb,{h0},{h1},{h2},{first}+32",
            "fw_pair 0, 3,2,8,13, 0,3,9,14, fw_absorb,{g0},{g1},{g2},{second}+32",
            "fw_pair 32, 5,0,10,15, 6,1,11,12, fw_absorb,{h0},{h1},{h2},{first}+48",
            "fw_pair 32, 7,2,8,13, 4,3,9,14",
            "add {first}, 64\nadd {second}, 48",
            "cmp {first}, [{w}+{end}]",
            "jne 2b",
            ".purgem fw_nothing\n.purgem fw_absorb\n.purgem fw_alone\n.purgem fw_pair\n.purgem fw_pair_from",
            w = in(reg) spill(work),
            first = inout(reg) message => _,
            second = inout(reg) message.wrapping_add(576) => _,
            h0 = inout(reg) h0, h1 = inout(reg) h1, h2 = inout(reg) h2,
            g0 = inout(reg) g0, g1 = inout(reg) g1, g2 = inout(reg) g2,
            t0 = out(reg) _, t1 = out(reg) _, t2 = out(reg) _, t3 = out(reg) _,
            out("rdx") _,
            rot = sym ROTATIONS,
            r0 = const at!(poly.r),
            r1 = const at!(poly.r) + 8,
            s1 = const at!(poly.s1),
            end = const at!(end),
            input = const at!(input),
            start = const at!(start),
            out("ymm0") b0, out("ymm1") b1, out("ymm2") b2, out("ymm3") b3,
            out("ymm4") b4, out("ymm5") b5, out("ymm6") b6, out("ymm7") b7,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            options(nostack),
        );
    }
    let b: [__m256i; 8] = [b0, b1, b2, b3, b4, b5, b6, b7];
    work.poly.h = [h0, h1, h2];
    work.poly.join([g0, g1, g2], work.powers.jumps()[1]);
    finish(work, &b, 0);
    finish(work, &b, 1);
    work.count(16);
}

/// The keystream of batch `k` from its rows, of which `b` has rows 4 to 7 and `spill` the others.
#[target_feature(enable = "avx2")]
#[inline]
fn finish(work: &mut Work, b: &[__m256i; 8], k: usize) {
    let mut rows = [_mm256_setzero_si256(); 16];
    for (i, row) in rows.iter_mut().enumerate() {
        let x = if i / 4 == 1 { b[4 * k + i % 4] } else { half_row(&work.spill[i], k) };
        *row = _mm256_add_epi32(x, half_row(&work.input[i], k));
    }
    let (halves, _) = rows.as_chunks::<8>();
    let stream = &mut work.stream.0[512 * k..];
    store_stream(stream, halves[0], 0);
    store_stream(stream, halves[1], 32);
}

/// The words of batch `k` of a row.
#[target_feature(enable = "avx2")]
#[inline]
fn half_row(row: &Row, k: usize) -> __m256i {
    let half = &row[8 * k..][..8];
    // SAFETY: the slice has 32 bytes.
    unsafe { _mm256_loadu_si256(half.as_ptr().cast()) }
}
