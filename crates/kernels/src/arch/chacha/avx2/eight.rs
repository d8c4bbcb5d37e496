//! Eight blocks in 16 vectors, for messages of middling length and the end of long ones.
//!
//! Rows a, b and d stay in registers, two of the four rows c do, the other two wait in memory and are added
//! from there.

use super::super::Work;
use super::text::{absorb, halves, nothing, quarter};
use super::{ROTATIONS, at, spill, store_stream};
use core::mem::offset_of;

/// Rows to registers, the common part of round 1 done ([`Work::start_words`]); then the quarter round with the
/// counter, and rows 8 and 9 to memory.
macro_rules! load_rows {
    () => {
        r"
vpbroadcastd ymm0, [{w}+{start}]
vpbroadcastd ymm4, [{w}+{start}+16]
vpbroadcastd ymm8, [{w}+{start}+32]
vpxor ymm12, ymm0, [{w}+{input}+768]
vpshufb ymm12, ymm12, [rip+{rot}]
vpaddd ymm8, ymm8, ymm12
vpxor ymm4, ymm4, ymm8
vpsrld ymm10, ymm4, 20
vpslld ymm4, ymm4, 12
vpor ymm4, ymm4, ymm10
vpaddd ymm0, ymm0, ymm4
vpxor ymm12, ymm12, ymm0
vpshufb ymm12, ymm12, [rip+{rot}+32]
vpaddd ymm8, ymm8, ymm12
vmovdqa [{w}-2], ymm8
vpxor ymm4, ymm4, ymm8
vpsrld ymm10, ymm4, 25
vpslld ymm4, ymm4, 7
vpor ymm4, ymm4, ymm10
vpbroadcastd ymm9, [{w}+{start}+36]
vmovdqa [{w}+64-2], ymm9
vpbroadcastd ymm1, [{w}+{start}+4]
vpbroadcastd ymm2, [{w}+{start}+8]
vpbroadcastd ymm3, [{w}+{start}+12]
vpbroadcastd ymm5, [{w}+{start}+20]
vpbroadcastd ymm6, [{w}+{start}+24]
vpbroadcastd ymm7, [{w}+{start}+28]
vpbroadcastd ymm8, [{w}+{start}+40]
vpbroadcastd ymm9, [{w}+{start}+44]
vpbroadcastd ymm13, [{w}+{start}+52]
vpbroadcastd ymm14, [{w}+{start}+56]
vpbroadcastd ymm15, [{w}+{start}+60]
"
    };
}

/// Adds the input.
macro_rules! add_input {
    () => {
        r"
vmovdqa ymm10, [{w}+128-2]
vmovdqa ymm11, [{w}+192-2]
.irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
vpaddd ymm\i, ymm\i, [{w}+{input}+64*\i]
.endr
"
    };
}

/// Eight blocks, and block 0 beside them in scalar registers, which leaves the authenticator's key in
/// `work.key`.
#[target_feature(enable = "avx2")]
#[inline(never)]
pub(super) fn eight_first(work: &mut Work) {
    let (o0, o1, o2, o3, o4, o5, o6, o7);
    let (o8, o9, o10, o11, o12, o13, o14, o15);
    let words = work.block_0_started();
    let [mut a0, mut a1, mut a2, mut a3, mut b0, mut b1, mut b2, mut b3, ..] = words;
    work.words.copy_from_slice(&words[8..12]);
    work.end = 9;
    // SAFETY: reads and writes `spill`, `words` and `end` and reads `input` and `start_words`, which `work` owns
    // and which are aligned to 64 bytes where that is asked for; reads ROTATIONS, aligned to 32 bytes.
    unsafe {
        core::arch::asm!(
            quarter!(),
            halves!(),
            load_rows!(),
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 0,12,20, fw_quarter,{a0:e},{b1:e},2,{d3:e}",
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 32,7,25, fw_quarter,{a1:e},{b2:e},3,{d0:e}",
            "vmovdqa [{w}+128-2], ymm8\nvmovdqa [{w}+192-2], ymm9",
            "fw_half 2,7,8,13, 3,4,9,14, [{w}-2],[{w}+64-2], 0,12,20, fw_quarter,{a2:e},{b3:e},0,{d1:e}",
            "fw_half 2,7,8,13, 3,4,9,14, ymm8,ymm9, 32,7,25, fw_quarter,{a3:e},{b0:e},1,{d2:e}",
            ".p2align 6\n2:",
            "fw_half 0,4,8,12, 1,5,9,13, ymm8,ymm9, 0,12,20, fw_quarter,{a0:e},{b0:e},0,{d0:e}",
            "fw_half 0,4,8,12, 1,5,9,13, ymm8,ymm9, 32,7,25, fw_quarter,{a1:e},{b1:e},1,{d1:e}",
            "vmovdqa [{w}-2], ymm8\nvmovdqa [{w}+64-2], ymm9",
            "fw_half 2,6,8,14, 3,7,9,15, [{w}+128-2],[{w}+192-2], 0,12,20, fw_quarter,{a2:e},{b2:e},2,{d2:e}",
            "fw_half 2,6,8,14, 3,7,9,15, ymm8,ymm9, 32,7,25, fw_quarter,{a3:e},{b3:e},3,{d3:e}",
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 0,12,20, fw_quarter,{a0:e},{b1:e},2,{d3:e}",
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 32,7,25, fw_quarter,{a1:e},{b2:e},3,{d0:e}",
            "vmovdqa [{w}+128-2], ymm8\nvmovdqa [{w}+192-2], ymm9",
            "fw_half 2,7,8,13, 3,4,9,14, [{w}-2],[{w}+64-2], 0,12,20, fw_quarter,{a2:e},{b3:e},0,{d1:e}",
            "fw_half 2,7,8,13, 3,4,9,14, ymm8,ymm9, 32,7,25, fw_quarter,{a3:e},{b0:e},1,{d2:e}",
            "dec dword ptr [{w}+{end}]",
            "jnz 2b",
            ".purgem fw_quarter\n.purgem fw_half",
            add_input!(),
            w = in(reg) spill(work),
            rot = sym ROTATIONS,
            input = const at!(input),
            start = const at!(start_words),
            words = const at!(words),
            end = const at!(end),
            a0 = inout(reg) a0, a1 = inout(reg) a1, a2 = inout(reg) a2, a3 = inout(reg) a3,
            b0 = inout(reg) b0, b1 = inout(reg) b1, b2 = inout(reg) b2, b3 = inout(reg) b3,
            d0 = inout(reg) words[12] => _, d1 = inout(reg) words[13] => _,
            d2 = inout(reg) words[14] => _, d3 = inout(reg) words[15] => _,
            t = out(reg) _,
            out("ymm0") o0, out("ymm1") o1, out("ymm2") o2, out("ymm3") o3,
            out("ymm4") o4, out("ymm5") o5, out("ymm6") o6, out("ymm7") o7,
            out("ymm8") o8, out("ymm9") o9, out("ymm10") o10, out("ymm11") o11,
            out("ymm12") o12, out("ymm13") o13, out("ymm14") o14, out("ymm15") o15,
            options(nostack),
        );
    }
    work.set_key([a0, a1, a2, a3, b0, b1, b2, b3]);
    store_stream(&mut work.stream.0, [o0, o1, o2, o3, o4, o5, o6, o7], 0);
    store_stream(&mut work.stream.0, [o8, o9, o10, o11, o12, o13, o14, o15], 32);
    work.count(8);
}

/// Eight blocks, with the last ciphertext absorbed in between, 512 bytes in `sealed[i]`: its first 320 bytes and its
/// last 192 as two chains side by side, since from block to block one waits for 14 cycles.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline(never)]
pub(super) fn eight(work: &mut Work, i: usize) {
    let (o0, o1, o2, o3, o4, o5, o6, o7);
    let (o8, o9, o10, o11, o12, o13, o14, o15);
    let message: *const u8 = work.sealed[i].0.as_ptr();
    work.end = message as u64 + 320;
    let [mut h0, mut h1, mut h2] = work.poly.h;
    let [mut g0, mut g1, mut g2] = [0u64; 3];
    // SAFETY: as in `eight_first`; reads 512 bytes of `sealed[i]`: from the front 32, then 32 a turn until `end`,
    // which is nine turns; from byte 320 on 32, then 16 a turn, then 16; reads `poly` and `end`.
    unsafe {
        core::arch::asm!(
            nothing!(),
            absorb!(),
            halves!(),
            load_rows!(),
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 0,12,20, fw_absorb,{h0},{h1},{h2},{first}",
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 32,7,25, fw_absorb,{g0},{g1},{g2},{second}",
            "vmovdqa [{w}+128-2], ymm8\nvmovdqa [{w}+192-2], ymm9",
            "fw_half 2,7,8,13, 3,4,9,14, [{w}-2],[{w}+64-2], 0,12,20, fw_absorb,{h0},{h1},{h2},{first}+16",
            "fw_half 2,7,8,13, 3,4,9,14, ymm8,ymm9, 32,7,25, fw_absorb,{g0},{g1},{g2},{second}+16",
            "add {first}, 32\nadd {second}, 32",
            ".p2align 6\n2:",
            "fw_half 0,4,8,12, 1,5,9,13, ymm8,ymm9, 0,12,20, fw_absorb,{h0},{h1},{h2},{first}",
            "fw_half 0,4,8,12, 1,5,9,13, ymm8,ymm9, 32,7,25",
            "vmovdqa [{w}-2], ymm8\nvmovdqa [{w}+64-2], ymm9",
            "fw_half 2,6,8,14, 3,7,9,15, [{w}+128-2],[{w}+192-2], 0,12,20",
            "fw_half 2,6,8,14, 3,7,9,15, ymm8,ymm9, 32,7,25, fw_absorb,{g0},{g1},{g2},{second}",
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 0,12,20",
            "fw_half 0,5,8,15, 1,6,9,12, ymm8,ymm9, 32,7,25, fw_absorb,{h0},{h1},{h2},{first}+16",
            "vmovdqa [{w}+128-2], ymm8\nvmovdqa [{w}+192-2], ymm9",
            "fw_half 2,7,8,13, 3,4,9,14, [{w}-2],[{w}+64-2], 0,12,20",
            "fw_half 2,7,8,13, 3,4,9,14, ymm8,ymm9, 32,7,25",
            "add {first}, 32\nadd {second}, 16",
            "cmp {first}, [{w}+{end}]",
            "jne 2b",
            add_input!(),
            "fw_alone {g0},{g1},{g2},{second}",
            ".purgem fw_nothing\n.purgem fw_absorb\n.purgem fw_alone\n.purgem fw_half",
            w = in(reg) spill(work),
            rot = sym ROTATIONS,
            first = inout(reg) message => _,
            second = inout(reg) message.wrapping_add(320) => _,
            h0 = inout(reg) h0, h1 = inout(reg) h1, h2 = inout(reg) h2,
            g0 = inout(reg) g0, g1 = inout(reg) g1, g2 = inout(reg) g2,
            t0 = out(reg) _, t1 = out(reg) _, t2 = out(reg) _, t3 = out(reg) _,
            out("rdx") _,
            r0 = const at!(poly.r),
            r1 = const at!(poly.r) + 8,
            s1 = const at!(poly.s1),
            input = const at!(input),
            start = const at!(start_words),
            end = const at!(end),
            out("ymm0") o0, out("ymm1") o1, out("ymm2") o2, out("ymm3") o3,
            out("ymm4") o4, out("ymm5") o5, out("ymm6") o6, out("ymm7") o7,
            out("ymm8") o8, out("ymm9") o9, out("ymm10") o10, out("ymm11") o11,
            out("ymm12") o12, out("ymm13") o13, out("ymm14") o14, out("ymm15") o15,
            options(nostack),
        );
    }
    work.poly.h = [h0, h1, h2];
    work.poly.join([g0, g1, g2], work.powers.jumps()[0]);
    store_stream(&mut work.stream.0, [o0, o1, o2, o3, o4, o5, o6, o7], 0);
    store_stream(&mut work.stream.0, [o8, o9, o10, o11, o12, o13, o14, o15], 32);
    work.count(8);
}
