//! AES rounds on eight blocks at a time, bit-sliced: no step depends on secret bytes but by arithmetic.
//!
//! Bit `i` of byte `j` of plane `b` is bit `b` of byte `j` of block `i`. SubBytes is the circuit of Boyar and
//! Peralta, "A depth-16 circuit for the AES S-box" (IACR ePrint 2011/332), ShiftRows is done before the blocks are sliced,
//! and MixColumns turns the words of a plane.

use core::array::from_fn;
use core::ops::{BitAnd, BitXor, Not};

/// A block, or a plane: four words, little-endian.
#[derive(Clone, Copy)]
struct Plane([u32; 4]);

impl BitXor for Plane {
    type Output = Plane;
    #[inline(always)]
    fn bitxor(self, other: Plane) -> Plane {
        Plane(from_fn(|i| self.0[i] ^ other.0[i]))
    }
}

impl BitAnd for Plane {
    type Output = Plane;
    #[inline(always)]
    fn bitand(self, other: Plane) -> Plane {
        Plane(from_fn(|i| self.0[i] & other.0[i]))
    }
}

impl Not for Plane {
    type Output = Plane;
    #[inline(always)]
    fn not(self) -> Plane {
        Plane(self.0.map(|word| !word))
    }
}

impl Plane {
    /// The bytes of each column moved up by `rows`.
    #[inline(always)]
    fn up(self, rows: u32) -> Plane {
        Plane(self.0.map(|word| word.rotate_right(8 * rows)))
    }
}

/// SubBytes, ShiftRows and MixColumns on each block (FIPS 197, section 5.1).
#[inline(never)]
pub(super) fn rounds(blocks: &mut [[u32; 4]; 8]) {
    let mut planes = blocks.map(shift_rows);
    transpose(&mut planes);
    let planes = sub_bytes(planes);
    let mut planes = mix_columns(planes);
    transpose(&mut planes);
    *blocks = planes.map(|plane| plane.0);
}

/// Row `r` of column `c` comes from column `c + r`.
#[inline(always)]
fn shift_rows(block: [u32; 4]) -> Plane {
    Plane(from_fn(|c| (0..4).fold(0, |word, r| word | block[(c + r) % 4] & 0xff << (8 * r))))
}

/// Turns blocks into planes, and back: an 8 by 8 matrix of bits in each byte's place.
#[inline(always)]
fn transpose(planes: &mut [Plane; 8]) {
    for (distance, mask) in [(1, 0x5555_5555), (2, 0x3333_3333), (4, 0x0f0f_0f0f)] {
        for low in (0..8).filter(|i| i & distance == 0) {
            let (a, b) = (planes[low].0, planes[low + distance].0);
            let differ: [u32; 4] = from_fn(|i| (a[i] >> distance ^ b[i]) & mask);
            planes[low].0 = from_fn(|i| a[i] ^ differ[i] << distance);
            planes[low + distance].0 = from_fn(|i| b[i] ^ differ[i]);
        }
    }
}

#[inline(always)]
fn mix_columns(a: [Plane; 8]) -> [Plane; 8] {
    let next = a.map(|plane| plane.up(1));
    let both: [Plane; 8] = from_fn(|b| a[b] ^ next[b]);
    from_fn(|b| {
        // Twice `both`, modulo x^8 + x^4 + x^3 + x + 1.
        let twice = match b {
            0 => both[7],
            1 | 3 | 4 => both[b - 1] ^ both[7],
            _ => both[b - 1],
        };
        twice ^ next[b] ^ both[b].up(2)
    })
}

/// Names as in the paper's program, but for `x` and `s`, which count from the highest bit.
#[rustfmt::skip]
#[inline(always)]
fn sub_bytes([x7, x6, x5, x4, x3, x2, x1, x0]: [Plane; 8]) -> [Plane; 8] {
    let (y14, y13, y9, y8, t0) = (x3 ^ x5, x0 ^ x6, x0 ^ x3, x0 ^ x5, x1 ^ x2);
    let y1 = t0 ^ x7;
    let (y4, y12, y2, y5) = (y1 ^ x3, y13 ^ y14, y1 ^ x0, y1 ^ x6);
    let (y3, t1) = (y5 ^ y8, x4 ^ y12);
    let (y15, y20) = (t1 ^ x5, t1 ^ x1);
    let (y6, y10, y11) = (y15 ^ x7, y15 ^ t0, y20 ^ y9);
    let (y7, y17, y19, y16) = (x7 ^ y11, y10 ^ y11, y10 ^ y8, t0 ^ y11);
    let (y21, y18) = (y13 ^ y16, x0 ^ y16);

    let (t2, t7, t12) = (y12 & y15, y13 & y16, y9 & y11);
    let (t4, t6, t9) = (y3 & y6 ^ t2, y4 & x7 ^ t2, y5 & y1 ^ t7);
    let (t11, t14, t16) = (y2 & y7 ^ t7, y14 & y17 ^ t12, y8 & y10 ^ t12);
    let (t21, t22) = (t4 ^ t14 ^ y20, t6 ^ t16 ^ y19);
    let (t23, t24) = (t9 ^ t14 ^ y21, t11 ^ t16 ^ y18);
    let (t25, t26, t30) = (t21 ^ t22, t21 & t23, t23 ^ t24);
    let (t27, t31) = (t24 ^ t26, t22 ^ t26);
    let (t29, t33) = (t25 & t27 ^ t22, t31 & t30 ^ t24);
    let t36 = t24 & (t27 ^ t33);
    let (t37, t38) = (t36 ^ t23 ^ t33, t27 ^ t36);
    let t40 = t25 ^ t29 & t38;
    let (t41, t42, t43, t44) = (t40 ^ t37, t29 ^ t33, t29 ^ t40, t33 ^ t37);
    let t45 = t42 ^ t41;

    let (z0, z1, z2, z3, z4, z5) = (t44 & y15, t37 & y6, t33 & x7, t43 & y16, t40 & y1, t29 & y7);
    let (z6, z7, z8, z9, z10) = (t42 & y11, t45 & y17, t41 & y10, t44 & y12, t37 & y3);
    let (z11, z12, z13, z14) = (t33 & y4, t43 & y13, t40 & y5, t29 & y2);
    let (z15, z16, z17) = (t42 & y9, t45 & y14, t41 & y8);

    let (t46, t47, t48, t49) = (z15 ^ z16, z10 ^ z11, z5 ^ z13, z9 ^ z10);
    let (t50, t51, t52, t53) = (z2 ^ z12, z2 ^ z5, z7 ^ z8, z0 ^ z3);
    let (t54, t55, t56, t57, t58) = (z6 ^ z7, z16 ^ z17, z12 ^ t48, t50 ^ t53, z4 ^ t46);
    let (t59, t60, t61, t62, t63) = (z3 ^ t54, t46 ^ t57, z14 ^ t57, t52 ^ t58, t49 ^ t58);
    let (t64, t65, t66) = (z4 ^ t59, t61 ^ t62, z1 ^ t63);
    let s3 = t53 ^ t66;
    let (s0, s4, s5, s6) = (t59 ^ t63, t51 ^ t66, t47 ^ t65, t56 ^ !t62);
    let (s1, s2, s7) = (t64 ^ !s3, t55 ^ !(t64 ^ t65), t48 ^ !t60);
    [s7, s6, s5, s4, s3, s2, s1, s0]
}
