//! Eight blocks in 16 vectors of 256 bits, in assembly.
//!
//! The compiler spills a dozen rows a round where four are enough, and does not keep scalar code between
//! vector code, so the rounds are written out: rows a, b and d stay in registers, two of the four rows c
//! do, the other two wait in memory and are added from there. Rotations by 16 and 8 are byte shuffles.

mod sixteen;

use super::{ChaChaLanes, Last, Work, generic};
use crate::arch::avx2::{Avx2, Flavour};
use core::arch::x86_64::*;
use core::mem::offset_of;
use sixteen::{sixteen, sixteen_first};

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

impl<F: Flavour> ChaChaLanes for Avx2<F> {
    #[inline(always)]
    fn first(self, work: &mut Work, left: usize) -> usize {
        // SAFETY: the token proves AVX2 and BMI2.
        unsafe {
            if left > 1536 {
                sixteen_first(work);
                work.count(16);
                1024
            } else {
                eight_first(work);
                work.count(8);
                512
            }
        }
    }
    #[inline(always)]
    fn next(self, work: &mut Work, last: Last, left: usize) -> usize {
        if left > 512 && last.len == 1024 {
            // SAFETY: the token proves AVX2 and BMI2.
            unsafe { sixteen(work, last.at) };
            work.count(16);
            1024
        } else {
            // SAFETY: the token proves AVX2 and BMI2.
            unsafe { eight_woven(work, last.at) };
            self.absorb(work, last, 512);
            work.count(8);
            512
        }
    }
    #[inline(always)]
    fn absorb(self, work: &mut Work, last: Last, from: usize) {
        // SAFETY: the token proves AVX2 and BMI2.
        unsafe { absorb(self, work, last, from) };
    }
}

/// The last ciphertext from byte `from` on.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline(never)]
fn absorb<F: Flavour>(lanes: Avx2<F>, work: &mut Work, last: Last, from: usize) {
    generic::absorb(lanes, work, last, from);
}

/// Half of two quarter rounds: additions, xors, and rotations of d by bytes (`$rot` is the shuffle) and of
/// b by `$l = 32 - $r` bits. Row c is added from `$c_from`, a register or memory. Clobbers ymm10, ymm11.
#[rustfmt::skip]
macro_rules! half {
    ($a:literal $b:literal $c:literal $d:literal, $A:literal $B:literal $C:literal $D:literal,
     $c_from:literal, $C_from:literal, $rot:literal, $l:literal, $r:literal) => {
        concat!(
            "vpaddd ymm",
            $a,
            ", ymm",
            $a,
            ", ymm",
            $b,
            "\n",
            "vpaddd ymm",
            $A,
            ", ymm",
            $A,
            ", ymm",
            $B,
            "\n",
            "vpxor ymm",
            $d,
            ", ymm",
            $d,
            ", ymm",
            $a,
            "\n",
            "vpxor ymm",
            $D,
            ", ymm",
            $D,
            ", ymm",
            $A,
            "\n",
            "vpshufb ymm",
            $d,
            ", ymm",
            $d,
            ", [rip+{rot}+",
            $rot,
            "]\n",
            "vpshufb ymm",
            $D,
            ", ymm",
            $D,
            ", [rip+{rot}+",
            $rot,
            "]\n",
            "vpaddd ymm",
            $c,
            ", ymm",
            $d,
            ", ",
            $c_from,
            "\n",
            "vpaddd ymm",
            $C,
            ", ymm",
            $D,
            ", ",
            $C_from,
            "\n",
            "vpxor ymm",
            $b,
            ", ymm",
            $b,
            ", ymm",
            $c,
            "\n",
            "vpxor ymm",
            $B,
            ", ymm",
            $B,
            ", ymm",
            $C,
            "\n",
            "vpsrld ymm10, ymm",
            $b,
            ", ",
            $r,
            "\n",
            "vpsrld ymm11, ymm",
            $B,
            ", ",
            $r,
            "\n",
            "vpslld ymm",
            $b,
            ", ymm",
            $b,
            ", ",
            $l,
            "\n",
            "vpslld ymm",
            $B,
            ", ymm",
            $B,
            ", ",
            $l,
            "\n",
            "vpor ymm",
            $b,
            ", ymm",
            $b,
            ", ymm10\n",
            "vpor ymm",
            $B,
            ", ymm",
            $B,
            ", ymm11\n",
        )
    };
}

/// Both halves for two quarter rounds.
macro_rules! first { ($($q:literal)*, $($Q:literal)*, $c:literal, $C:literal) => {
    half!($($q)*, $($Q)*, $c, $C, "0", "12", "20") } }
macro_rules! second { ($($q:literal)*, $($Q:literal)*) => {
    half!($($q)*, $($Q)*, "ymm8", "ymm9", "32", "7", "25") } }

/// Rows 8 to 11, where they are spilled: after the rows' places in `spill`.
macro_rules! load_rows {
    () => {
        concat!(
            "vmovdqa ymm0, [{input}]\nvmovdqa ymm1, [{input}+64]\n",
            "vmovdqa ymm2, [{input}+128]\nvmovdqa ymm3, [{input}+192]\n",
            "vmovdqa ymm4, [{input}+256]\nvmovdqa ymm5, [{input}+320]\n",
            "vmovdqa ymm6, [{input}+384]\nvmovdqa ymm7, [{input}+448]\n",
            "vmovdqa ymm8, [{input}+640]\nvmovdqa ymm9, [{input}+704]\n",
            "vmovdqa [{input}+{c10}], ymm8\nvmovdqa [{input}+{c11}], ymm9\n",
            "vmovdqa ymm8, [{input}+512]\nvmovdqa ymm9, [{input}+576]\n",
            "vmovdqa ymm12, [{input}+768]\nvmovdqa ymm13, [{input}+832]\n",
            "vmovdqa ymm14, [{input}+896]\nvmovdqa ymm15, [{input}+960]\n",
        )
    };
}

/// Adds the input.
macro_rules! add_input {
    () => {
        concat!(
            "vmovdqa ymm10, [{input}+{c10}]\nvmovdqa ymm11, [{input}+{c11}]\n",
            "vpaddd ymm0, ymm0, [{input}]\nvpaddd ymm1, ymm1, [{input}+64]\n",
            "vpaddd ymm2, ymm2, [{input}+128]\nvpaddd ymm3, ymm3, [{input}+192]\n",
            "vpaddd ymm4, ymm4, [{input}+256]\nvpaddd ymm5, ymm5, [{input}+320]\n",
            "vpaddd ymm6, ymm6, [{input}+384]\nvpaddd ymm7, ymm7, [{input}+448]\n",
            "vpaddd ymm8, ymm8, [{input}+512]\nvpaddd ymm9, ymm9, [{input}+576]\n",
            "vpaddd ymm10, ymm10, [{input}+640]\nvpaddd ymm11, ymm11, [{input}+704]\n",
            "vpaddd ymm12, ymm12, [{input}+768]\nvpaddd ymm13, ymm13, [{input}+832]\n",
            "vpaddd ymm14, ymm14, [{input}+896]\nvpaddd ymm15, ymm15, [{input}+960]\n",
        )
    };
}

/// First half of [`Poly1305::absorb`]: the products.
macro_rules! multiply {
    () => {
        concat!(
            "mov rdx, {h0}\n",
            "mulx {t1}, {t0}, {r0}\n",
            "mulx {t3}, {t2}, {r1}\n",
            "mov rdx, {h1}\n",
            "mulx {h1}, {h0}, [{input}+{s1}]\n",
            "add {h0}, {t0}\n",
            "adc {h1}, {t1}\n",
            "mulx {t1}, {t0}, {r0}\n",
            "mov rdx, {h2}\n",
            "imul rdx, [{input}+{s1}]\n",
            "imul {h2}, {r0}\n",
        )
    };
}

/// Second half: sums, reduction, and the next block, which lies at `$at` in the message.
macro_rules! reduce {
    ($at:literal) => {
        concat!(
            "add {t2}, rdx\n",
            "adc {t3}, 0\n",
            "add {t2}, {t0}\n",
            "adc {t3}, {t1}\n",
            "add {h1}, {t2}\n",
            "adc {h2}, {t3}\n",
            "shrx {t0}, {h2}, {two}\n",
            "and {h2}, 3\n",
            "lea {t0}, [{t0}+4*{t0}]\n",
            "add {h0}, [{message}+",
            $at,
            "]\n",
            "adc {h1}, [{message}+8+",
            $at,
            "]\n",
            "adc {h2}, 1\n",
            "add {h0}, {t0}\n",
            "adc {h1}, 0\n",
            "adc {h2}, 0\n",
        )
    };
}

/// Offset of a field from `input`, which is the first.
macro_rules! at {
    ($($field:tt)*) => { offset_of!(Work, $($field)*) };
}
const _: () = assert!(offset_of!(Work, input) == 0);
const SPILL: usize = offset_of!(Work, spill);

/// A quarter round of block 0 in scalar registers; row c is in memory at `$c`.
macro_rules! scalar_quarter {
    ($a:literal $b:literal $c:literal $d:literal) => {
        concat!(
            "add {a",
            $a,
            ":e}, {b",
            $b,
            ":e}\n",
            "xor {d",
            $d,
            ":e}, {a",
            $a,
            ":e}\n",
            "rol {d",
            $d,
            ":e}, 16\n",
            "mov {t:e}, [{input}+{words}+4*",
            $c,
            "]\n",
            "add {t:e}, {d",
            $d,
            ":e}\n",
            "xor {b",
            $b,
            ":e}, {t:e}\n",
            "rol {b",
            $b,
            ":e}, 12\n",
            "add {a",
            $a,
            ":e}, {b",
            $b,
            ":e}\n",
            "xor {d",
            $d,
            ":e}, {a",
            $a,
            ":e}\n",
            "rol {d",
            $d,
            ":e}, 8\n",
            "add {t:e}, {d",
            $d,
            ":e}\n",
            "mov [{input}+{words}+4*",
            $c,
            "], {t:e}\n",
            "xor {b",
            $b,
            ":e}, {t:e}\n",
            "rol {b",
            $b,
            ":e}, 7\n",
        )
    };
}

/// Eight blocks, and block 0 beside them in scalar registers, which leaves the authenticator's key in
/// `work.key`.
#[target_feature(enable = "avx2")]
#[inline(never)]
fn eight_first(work: &mut Work) {
    let (o0, o1, o2, o3, o4, o5, o6, o7);
    let (o8, o9, o10, o11, o12, o13, o14, o15);
    let words = work.block_0();
    let [mut a0, mut a1, mut a2, mut a3, mut b0, mut b1, mut b2, mut b3, ..] = words;
    work.words.copy_from_slice(&words[8..12]);
    work.end = 10;
    // SAFETY: reads and writes `input`, `spill`, `words` and `end`, which `work` owns and which are aligned to
    // 64 bytes where that is asked for; reads ROTATIONS, aligned to 32 bytes; the target feature is there.
    unsafe {
        core::arch::asm!(
            load_rows!(),
            "2:",
            first!("0" "4" "8" "12", "1" "5" "9" "13", "ymm8", "ymm9"),
            scalar_quarter!("0" "0" "0" "0"),
            second!("0" "4" "8" "12", "1" "5" "9" "13"),
            "vmovdqa [{input}+{c8}], ymm8",
            "vmovdqa [{input}+{c9}], ymm9",
            scalar_quarter!("1" "1" "1" "1"),
            first!("2" "6" "8" "14", "3" "7" "9" "15", "[{input}+{c10}]", "[{input}+{c11}]"),
            scalar_quarter!("2" "2" "2" "2"),
            second!("2" "6" "8" "14", "3" "7" "9" "15"),
            scalar_quarter!("3" "3" "3" "3"),
            first!("0" "5" "8" "15", "1" "6" "9" "12", "ymm8", "ymm9"),
            scalar_quarter!("0" "1" "2" "3"),
            second!("0" "5" "8" "15", "1" "6" "9" "12"),
            "vmovdqa [{input}+{c10}], ymm8",
            "vmovdqa [{input}+{c11}], ymm9",
            scalar_quarter!("1" "2" "3" "0"),
            first!("2" "7" "8" "13", "3" "4" "9" "14", "[{input}+{c8}]", "[{input}+{c9}]"),
            scalar_quarter!("2" "3" "0" "1"),
            second!("2" "7" "8" "13", "3" "4" "9" "14"),
            scalar_quarter!("3" "0" "1" "2"),
            "dec dword ptr [{input}+{end}]",
            "jnz 2b",
            add_input!(),
            input = in(reg) &raw mut *work,
            rot = sym ROTATIONS,
            words = const at!(words),
            end = const at!(end),
            a0 = inout(reg) a0, a1 = inout(reg) a1, a2 = inout(reg) a2, a3 = inout(reg) a3,
            b0 = inout(reg) b0, b1 = inout(reg) b1, b2 = inout(reg) b2, b3 = inout(reg) b3,
            d0 = inout(reg) words[12] => _, d1 = inout(reg) words[13] => _,
            d2 = inout(reg) words[14] => _, d3 = inout(reg) words[15] => _,
            t = out(reg) _,
            c8 = const SPILL,
            c9 = const SPILL + 64,
            c10 = const SPILL + 128,
            c11 = const SPILL + 192,
            out("ymm0") o0, out("ymm1") o1, out("ymm2") o2, out("ymm3") o3,
            out("ymm4") o4, out("ymm5") o5, out("ymm6") o6, out("ymm7") o7,
            out("ymm8") o8, out("ymm9") o9, out("ymm10") o10, out("ymm11") o11,
            out("ymm12") o12, out("ymm13") o13, out("ymm14") o14, out("ymm15") o15,
            options(nostack),
        );
    }
    work.set_key([a0, a1, a2, a3, b0, b1, b2, b3]);
    store_stream(work, 0, [o0, o1, o2, o3, o4, o5, o6, o7], 0);
    store_stream(work, 0, [o8, o9, o10, o11, o12, o13, o14, o15], 32);
}

/// Eight blocks, with 512 bytes of `sealed[i]` absorbed in between: three blocks a double round, two in the
/// end.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline(never)]
fn eight_woven(work: &mut Work, i: usize) {
    let (o0, o1, o2, o3, o4, o5, o6, o7);
    let (o8, o9, o10, o11, o12, o13, o14, o15);
    let message: *const u8 = work.sealed[i].0.as_ptr();
    work.end = message as u64 + 480;
    let [mut h0, mut h1, mut h2] = work.poly.h;
    let [r0, r1] = work.poly.r;
    // SAFETY: as in `eight_first`; reads 512 bytes of `sealed[i]`, 48 a turn until `end`, which is 480, then 32;
    // reads `s1` and `end`.
    unsafe {
        core::arch::asm!(
            load_rows!(),
            "2:",
            first!("0" "4" "8" "12", "1" "5" "9" "13", "ymm8", "ymm9"),
            multiply!(),
            second!("0" "4" "8" "12", "1" "5" "9" "13"),
            "vmovdqa [{input}+{c8}], ymm8",
            "vmovdqa [{input}+{c9}], ymm9",
            reduce!("0"),
            first!("2" "6" "8" "14", "3" "7" "9" "15", "[{input}+{c10}]", "[{input}+{c11}]"),
            multiply!(),
            second!("2" "6" "8" "14", "3" "7" "9" "15"),
            reduce!("16"),
            first!("0" "5" "8" "15", "1" "6" "9" "12", "ymm8", "ymm9"),
            second!("0" "5" "8" "15", "1" "6" "9" "12"),
            "vmovdqa [{input}+{c10}], ymm8",
            "vmovdqa [{input}+{c11}], ymm9",
            multiply!(),
            first!("2" "7" "8" "13", "3" "4" "9" "14", "[{input}+{c8}]", "[{input}+{c9}]"),
            reduce!("32"),
            "add {message}, 48",
            second!("2" "7" "8" "13", "3" "4" "9" "14"),
            "cmp {message}, [{input}+{end}]",
            "jne 2b",
            multiply!(),
            add_input!(),
            reduce!("0"),
            multiply!(),
            reduce!("16"),
            input = in(reg) &raw mut *work,
            rot = sym ROTATIONS,
            message = inout(reg) message => _,
            two = in(reg) 2u64,
            h0 = inout(reg) h0, h1 = inout(reg) h1, h2 = inout(reg) h2,
            r0 = in(reg) r0, r1 = in(reg) r1,
            t0 = out(reg) _, t1 = out(reg) _, t2 = out(reg) _, t3 = out(reg) _,
            out("rdx") _,
            s1 = const at!(poly.s1),
            end = const at!(end),
            c8 = const SPILL,
            c9 = const SPILL + 64,
            c10 = const SPILL + 128,
            c11 = const SPILL + 192,
            out("ymm0") o0, out("ymm1") o1, out("ymm2") o2, out("ymm3") o3,
            out("ymm4") o4, out("ymm5") o5, out("ymm6") o6, out("ymm7") o7,
            out("ymm8") o8, out("ymm9") o9, out("ymm10") o10, out("ymm11") o11,
            out("ymm12") o12, out("ymm13") o13, out("ymm14") o14, out("ymm15") o15,
            options(nostack),
        );
    }
    work.poly.h = [h0, h1, h2];
    store_stream(work, 0, [o0, o1, o2, o3, o4, o5, o6, o7], 0);
    store_stream(work, 0, [o8, o9, o10, o11, o12, o13, o14, o15], 32);
}

/// Transposes eight words of eight blocks and stores them as 32 bytes of each block, from byte `at` of the
/// block on; the first block begins at `from`.
#[target_feature(enable = "avx2")]
#[inline]
fn store_stream(work: &mut Work, from: usize, x: [__m256i; 8], at: usize) {
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
        let to = &mut work.stream.0[from + at..];
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
