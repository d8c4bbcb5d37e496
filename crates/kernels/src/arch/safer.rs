//! SAFER's tables and byte orders at each level.
//!
//! - portable: tables of 256 bytes.
//! - avx2, exp: `45^(16h + l) = 45^16h · 45^l` modulo 257, each factor one of 16 (`vpshufb`); the product
//!   is reduced by a multiplication with the inverse. The factors are scaled by a number and its inverse so
//!   that none is 256, which a byte could not hold.
//! - avx2, log: `log(257 - y) = log(y) + 128` halves the table; the other half is eight `vpshufb` chosen
//!   from by three bits.
//! - avx512: `vpermi2b` looks 64 bytes up in half a table.

use super::{Avx2, Avx512, Lanes, Portable, Zip};
use crate::stages::{SAFER_EXP as EXP, SAFER_LOG as LOG};
use core::arch::x86_64::*;

/// The order of a block's bytes that [`SaferLanes::split`] gives: those for exp in the order of pairs, then
/// those for log.
const SPLIT: [u8; 16] = [0, 3, 4, 7, 8, 11, 12, 15, 1, 2, 5, 6, 9, 10, 13, 14];
/// Its inverse.
const JOIN: [u8; 16] = [0, 8, 9, 1, 2, 10, 11, 3, 4, 12, 13, 5, 6, 14, 15, 7];
/// Bytes at even places, then those at odd places.
const UNZIP: [u8; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15];

/// What SAFER needs of a level.
pub trait SaferLanes: Zip {
    /// exp of every byte.
    fn exp(self, x: Self::V) -> Self::V;
    /// log of every byte.
    fn log(self, x: Self::V) -> Self::V;
    /// From two vectors of blocks to the bytes 1, 4, 5, 8 of each block and the bytes 2, 3, 6, 7. Here and in
    /// the others what a shuffle gives or takes is pinned where it meets `zip64`, as the compiler would make a
    /// longer sequence of the two.
    #[inline(always)]
    fn split(self, pair: [Self::V; 2]) -> [Self::V; 2] {
        self.zip64(self.shuffle_both(pair, SPLIT))
    }
    /// The inverse of `split`.
    #[inline(always)]
    fn join(self, pair: [Self::V; 2]) -> [Self::V; 2] {
        let [x, y] = self.zip64(pair);
        [self.shuffle(self.pin(x), JOIN), self.shuffle(self.pin(y), JOIN)]
    }
    /// The bytes at even places of both, and those at odd places: the inverse of [`Zip::zip8`].
    #[inline(always)]
    fn unzip8(self, pair: [Self::V; 2]) -> [Self::V; 2] {
        self.zip64(self.shuffle_both(pair, UNZIP))
    }
    /// Each shuffled.
    #[inline(always)]
    fn shuffle_both(self, [x, y]: [Self::V; 2], control: [u8; 16]) -> [Self::V; 2] {
        [self.pin(self.shuffle(x, control)), self.pin(self.shuffle(y, control))]
    }
}

impl SaferLanes for Portable {
    #[inline(always)]
    fn exp(self, x: Self::V) -> Self::V {
        look_up(&EXP, x)
    }
    #[inline(always)]
    fn log(self, x: Self::V) -> Self::V {
        look_up(&LOG, x)
    }
}

#[inline(always)]
fn look_up(table: &[u8; 256], x: [u32; 4]) -> [u32; 4] {
    x.map(|word| u32::from_le_bytes(word.to_le_bytes().map(|byte| table[usize::from(byte)])))
}

const fn product(a: u32, b: u32) -> u8 {
    let product = a * b % 257;
    assert!(product < 256, "a factor does not fit a byte");
    product as u8
}

/// `3·45^l` and `86·45^16h` modulo 257, where 86 is the inverse of 3.
const FACTORS: [[u8; 16]; 2] = {
    let mut factors = [[0; 16]; 2];
    let (mut low, mut high) = (1, 1);
    let mut i = 0;
    while i < 16 {
        factors[0][i] = product(3, low);
        factors[1][i] = product(86, high);
        low = low * 45 % 257;
        // 45^16 modulo 257.
        high = high * pow16(45) % 257;
        i += 1;
    }
    factors
};

const fn pow16(x: u32) -> u32 {
    let x = x * x % 257;
    let x = x * x % 257;
    let x = x * x % 257;
    x * x % 257
}

/// log of 1 to 128, in 16s.
const HALF_LOG: [[u8; 16]; 8] = {
    let mut table = [[0; 16]; 8];
    let mut i = 0;
    while i < 128 {
        table[i / 16][i % 16] = LOG[i + 1];
        i += 1;
    }
    table
};

/// What the avx2 level's assembly reads; every row twice.
#[repr(C, align(32))]
struct Constants([[[u8; 16]; 2]; 15]);

static CONSTANTS: Constants = {
    let mut rows = [[[0; 16]; 2]; 15];
    let mut i = 0;
    while i < 32 {
        let even = if i % 2 == 0 { 0xff } else { 0 };
        let row = [0x0f, FACTORS[0][i % 16], FACTORS[1][i % 16], even, !even, 0xff, 0x80];
        let mut k = 0;
        while k < 15 {
            rows[k][i / 16][i % 16] = if k < 7 { row[k] } else { HALF_LOG[k - 7][i % 16] };
            k += 1;
        }
        i += 1;
    }
    Constants(rows)
};

// In assembly, with the tables in memory, since the compiler keeps in registers what it can load as
// well, spills the message for it, and makes more of bit tests and products than was written.
impl SaferLanes for Avx2 {
    #[inline(always)]
    fn exp(self, x: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { exp(x) }
    }
    #[inline(always)]
    fn log(self, x: __m256i) -> __m256i {
        // SAFETY: the token proves AVX2.
        unsafe { log(x) }
    }
}

/// Products of the factors at even places and at odd places, 16 bits each, and less their quotients by
/// 257, which are the high halves of the products with 255: `255 / 2^16` is less than `1 / 257` by so
/// little that only multiples of 257 would be divided wrongly, and a product of powers is none.
#[target_feature(enable = "avx2")]
#[inline]
fn exp(mut x: __m256i) -> __m256i {
    // SAFETY: reads CONSTANTS, which is aligned to 32 bytes.
    unsafe {
        core::arch::asm!(
            "vpsrlw {b}, {x}, 4",
            "vpand {x}, {x}, [rip+{c}]",
            "vpand {b}, {b}, [rip+{c}]",
            "vmovdqa {s}, [rip+{c}+32]",
            "vpshufb {x}, {s}, {x}",
            "vmovdqa {t}, [rip+{c}+64]",
            "vpshufb {b}, {t}, {b}",
            "vpand {s}, {x}, [rip+{c}+96]",
            "vpand {t}, {b}, [rip+{c}+96]",
            "vpmullw {s}, {s}, {t}",
            "vpand {x}, {x}, [rip+{c}+128]",
            "vpand {b}, {b}, [rip+{c}+128]",
            "vpmulhuw {x}, {x}, {b}",
            "vpmulhuw {b}, {s}, [rip+{c}+96]",
            "vpmulhuw {t}, {x}, [rip+{c}+96]",
            "vpsubw {s}, {s}, {b}",
            "vpsubw {x}, {x}, {t}",
            "vpsllw {x}, {x}, 8",
            "vpand {s}, {s}, [rip+{c}+96]",
            "vpor {x}, {x}, {s}",
            x = inout(ymm_reg) x,
            b = out(ymm_reg) _, s = out(ymm_reg) _, t = out(ymm_reg) _,
            c = sym CONSTANTS,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    x
}

/// 0 stands for 256, so x - 1 is 0 to 255 in order; its complement is 257 - x - 1, and the lesser of the two
/// is looked up. The bits that choose a table are added up to the sign, as the units that shift are busy.
#[target_feature(enable = "avx2")]
#[inline]
fn log(mut x: __m256i) -> __m256i {
    // SAFETY: reads CONSTANTS, which is aligned to 32 bytes.
    unsafe {
        core::arch::asm!(
            "vpaddb {x}, {x}, [rip+{c}+160]",
            "vpxor {i}, {x}, [rip+{c}+160]",
            "vpminub {i}, {i}, {x}",
            "vpaddb {b6}, {i}, {i}",
            "vpaddb {b5}, {b6}, {b6}",
            "vpaddb {b4}, {b5}, {b5}",
            "vmovdqa {y}, [rip+{c}+224]",
            "vmovdqa {t}, [rip+{c}+256]",
            "vpshufb {y}, {y}, {i}",
            "vpshufb {t}, {t}, {i}",
            "vpblendvb {y}, {y}, {t}, {b4}",
            "vmovdqa {z}, [rip+{c}+288]",
            "vmovdqa {t}, [rip+{c}+320]",
            "vpshufb {z}, {z}, {i}",
            "vpshufb {t}, {t}, {i}",
            "vpblendvb {z}, {z}, {t}, {b4}",
            "vpblendvb {y}, {y}, {z}, {b5}",
            "vmovdqa {z}, [rip+{c}+352]",
            "vmovdqa {t}, [rip+{c}+384]",
            "vpshufb {z}, {z}, {i}",
            "vpshufb {t}, {t}, {i}",
            "vpblendvb {z}, {z}, {t}, {b4}",
            "vmovdqa {u}, [rip+{c}+416]",
            "vmovdqa {t}, [rip+{c}+448]",
            "vpshufb {u}, {u}, {i}",
            "vpshufb {t}, {t}, {i}",
            "vpblendvb {u}, {u}, {t}, {b4}",
            "vpblendvb {z}, {z}, {u}, {b5}",
            "vpblendvb {y}, {y}, {z}, {b6}",
            "vpand {x}, {x}, [rip+{c}+192]",
            "vpxor {x}, {x}, {y}",
            x = inout(ymm_reg) x,
            i = out(ymm_reg) _, b6 = out(ymm_reg) _, b5 = out(ymm_reg) _, b4 = out(ymm_reg) _,
            y = out(ymm_reg) _, z = out(ymm_reg) _, t = out(ymm_reg) _, u = out(ymm_reg) _,
            c = sym CONSTANTS,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    x
}

/// A table in two halves of 128 bytes.
#[inline(always)]
fn look_up_512(lanes: Avx512, table: &[u8; 256], x: __m512i) -> __m512i {
    let quarter = |i: usize| lanes.load(&table[64 * i..]);
    // SAFETY: the token proves AVX-512 VBMI and BW.
    unsafe {
        let low = _mm512_permutex2var_epi8(quarter(0), x, quarter(1));
        let high = _mm512_permutex2var_epi8(quarter(2), x, quarter(3));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high)
    }
}

static TABLES: [[u8; 256]; 2] = [EXP, LOG];

impl SaferLanes for Avx512 {
    #[inline(always)]
    fn exp(self, x: __m512i) -> __m512i {
        look_up_512(self, &TABLES[0], x)
    }
    #[inline(always)]
    fn log(self, x: __m512i) -> __m512i {
        look_up_512(self, &TABLES[1], x)
    }
}
