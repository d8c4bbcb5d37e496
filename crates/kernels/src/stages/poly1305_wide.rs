//! Poly1305 on the lanes of a vector: a block in each 64-bit lane, in limbs of 26 bits.
//!
//! Inside the fused loop Poly1305 runs on the scalar units, which are idle there. Where no keystream is made
//! beside it, after the last batch, vectors are faster: 6 cycles a block instead of 14.
//!
//! ```text
//! n lanes:   acc = (h·r + m0, m1, …)
//!            for every n blocks    acc = acc·r^n + (m0, m1, …)
//!            or every 2n blocks    acc = acc·r^2n + (m0, m1, …)·r^n + (mn, …), carried once
//! at last    h = sum of lane j · r^(n-1-j), the last block not multiplied yet (see poly1305.rs)
//! ```
//! Bounds: limbs of acc below 2^27, of powers and blocks below 2^26, times 5 below 2^29; ten products below
//! 2^60.
#![forbid(unsafe_code)]

use super::poly1305::{Poly1305, product};
use crate::arch::{Lanes, Zip};
use zeroize::Zeroize;

/// Powers of the multiplier.
#[derive(Clone, Zeroize)]
pub(crate) struct Powers {
    /// As many lanes as a vector has; none for messages so short that they are of no use.
    lanes: usize,
    /// The powers by which `lanes` blocks multiply, and twice as many.
    all: [[u64; 3]; 2],
    /// For each lane at last: limb by limb, eight bytes a lane.
    each: [[u8; 64]; 3],
    /// The 12th and the 28th, for [`Poly1305::join`].
    jumps: [[u64; 3]; 2],
}

impl Default for Powers {
    fn default() -> Self {
        Powers { lanes: 0, all: [[0; 3]; 2], each: [[0; 64]; 3], jumps: [[0; 3]; 2] }
    }
}

/// Least number of bytes to be worth it.
const SHORTEST: usize = 513;
const MASK: u64 = (1 << 26) - 1;

impl Powers {
    /// The powers for a message of `len` bytes.
    #[inline(always)]
    pub(crate) fn set<L: Lanes>(&mut self, _: L, poly: &Poly1305, len: usize) {
        let n = L::WIDTH / 8;
        self.lanes = 0;
        if len < SHORTEST || n < 4 {
            return;
        }
        self.lanes = n;
        // Lane 2i has block i, lane 2i + 1 has block i + n/2; block j is multiplied by the power n - 1 - j.
        let mut power = [1u64, 0, 0];
        for block in (0..n).rev() {
            let lane = if block < n / 2 { 2 * block } else { 2 * (block - n / 2) + 1 };
            for (each, limb) in self.each.iter_mut().zip(power) {
                each[8 * lane..][..8].copy_from_slice(&limb.to_le_bytes());
            }
            power = poly.times(power);
        }
        let twice = product(power, power);
        self.all = [power, twice];
        self.jumps[0] = product(twice, power);
        if len > 1536 {
            self.jumps[1] = product(product(twice, twice), self.jumps[0]);
        }
    }

    /// Whether the message is long enough to have them.
    pub(crate) fn are_set(&self) -> bool {
        self.lanes > 0
    }

    /// The powers by which as many blocks as there are lanes multiply, and twice as many.
    pub(crate) fn all(&self) -> [[u64; 3]; 2] {
        self.all
    }

    /// The 12th power, and for messages of more than 1536 bytes the 28th.
    #[inline(always)]
    pub(crate) fn jumps(&self) -> [[u64; 3]; 2] {
        self.jumps
    }
}

/// `limbs[i]` of every block in the lanes of one vector.
type Limbs<L> = [<L as Lanes>::V; 5];

/// From 64-bit limbs to limbs of 26 bits, the last of which may be longer.
#[inline(always)]
fn limbs<L: Lanes>(lanes: L, [low, high, top]: [L::V; 3]) -> Limbs<L> {
    let mask = lanes.splat64(MASK);
    let middle = lanes.or(lanes.shr64::<52>(low), lanes.shl64::<12>(high));
    [
        lanes.and(low, mask),
        lanes.and(lanes.shr64::<26>(low), mask),
        lanes.and(middle, mask),
        lanes.and(lanes.shr64::<14>(high), mask),
        lanes.or(lanes.shr64::<40>(high), top),
    ]
}

/// The blocks of two vectors: those of the first in the even lanes, those of the second in the odd ones.
#[inline(always)]
fn blocks<L: Zip>(lanes: L, bytes: &[u8]) -> Limbs<L> {
    let [low, high] = lanes.zip64([lanes.load(bytes), lanes.load(&bytes[L::WIDTH..])]);
    limbs(lanes, [low, high, lanes.splat64(1 << 24)])
}

/// A number in every lane.
#[inline(always)]
pub(crate) fn splat<L: Lanes>(lanes: L, [low, high, top]: [u64; 3]) -> Limbs<L> {
    limbs(lanes, [lanes.splat64(low), lanes.splat64(high), lanes.splat64(top << 24)])
}

/// Another number in every lane.
#[inline(always)]
fn each<L: Lanes>(lanes: L, [low, high, top]: &[[u8; 64]; 3]) -> Limbs<L> {
    limbs(lanes, [lanes.load(low), lanes.load(high), lanes.shl64::<24>(lanes.load(top))])
}

/// Five times each limb.
#[inline(always)]
fn times5<L: Lanes>(lanes: L, x: &Limbs<L>) -> Limbs<L> {
    let mut y = *x;
    for y in &mut y {
        *y = lanes.pin(lanes.add64(*y, lanes.shl64::<2>(*y)));
    }
    y
}

#[inline(always)]
fn add<L: Lanes>(lanes: L, a: Limbs<L>, b: Limbs<L>) -> Limbs<L> {
    let mut sum = a;
    for (sum, b) in sum.iter_mut().zip(b) {
        *sum = lanes.add64(*sum, b);
    }
    sum
}

/// A power in every lane, and its limbs times 5.
struct Power<L: Lanes>([Limbs<L>; 2]);

impl<L: Lanes> Power<L> {
    #[inline(always)]
    fn new(lanes: L, mut limbs: Limbs<L>) -> Self {
        for limb in &mut limbs {
            *limb = lanes.pin(*limb);
        }
        Power([limbs, times5(lanes, &limbs)])
    }

    /// The product, not carried, and `add`.
    #[inline(always)]
    fn multiply(&self, lanes: L, mut a: Limbs<L>, add: Limbs<L>) -> Limbs<L> {
        // Otherwise the compiler gathers factors into products of 64 bits, which take three times as long.
        for a in &mut a {
            *a = lanes.pin(*a);
        }
        let Power([once, times5]) = self;
        let mut sum = add;
        for i in 0..5 {
            // Limb i: a[j]·b[i - j], where limbs past the fourth come back times 5.
            let mut part = add;
            for j in 0..5 {
                let factor = if j <= i { once[i - j] } else { times5[5 + i - j] };
                part[j] = lanes.mul32(a[j], factor);
            }
            let (left, right) = (lanes.add64(part[0], part[1]), lanes.add64(part[2], part[3]));
            sum[i] = lanes.add64(lanes.add64(left, right), lanes.add64(part[4], add[i]));
        }
        sum
    }
}

/// Carries until every limb is below 2^26 or little more.
#[inline(always)]
fn carry<L: Lanes>(lanes: L, mut x: Limbs<L>) -> Limbs<L> {
    let mask = lanes.splat64(MASK);
    // Two chains side by side: 0 to 1 to 2, and 3 to 4 to 0.
    for (i, j) in [(0, 3), (1, 4), (2, 0), (3, usize::MAX)] {
        for from in [i, j] {
            if from == usize::MAX {
                continue;
            }
            let over = lanes.shr64::<26>(x[from]);
            x[from] = lanes.and(x[from], mask);
            if from == 4 {
                // Times 5.
                x[0] = lanes.add64(x[0], lanes.add64(over, lanes.shl64::<2>(over)));
            } else {
                x[from + 1] = lanes.add64(x[from + 1], over);
            }
        }
    }
    x
}

/// Absorbs as much of `bytes` as goes in whole pairs of vectors, and gives the rest.
#[inline(always)]
pub(crate) fn absorb_wide<'a, L: Zip>(
    lanes: L,
    poly: &mut Poly1305,
    powers: &Powers,
    bytes: &'a [u8],
) -> &'a [u8] {
    if powers.lanes != L::WIDTH / 8 || bytes.len() < SHORTEST {
        return bytes;
    }
    let group_len = 2 * L::WIDTH;
    let (groups, rest) = bytes.split_at(bytes.len() - bytes.len() % group_len);
    let [once, twice] = powers.all;
    let once = Power::new(lanes, splat(lanes, once));
    let twice = Power::new(lanes, splat(lanes, twice));
    let mut acc = splat(lanes, poly.times(poly.h));
    for acc in &mut acc {
        *acc = lanes.keep(*acc, 8);
    }
    let (group, mut groups) = groups.split_at(group_len);
    acc = add(lanes, acc, blocks(lanes, group));
    if !groups.len().is_multiple_of(2 * group_len) {
        let group;
        (group, groups) = groups.split_at(group_len);
        acc = carry(lanes, once.multiply(lanes, acc, blocks(lanes, group)));
    }
    for two in groups.chunks_exact(2 * group_len) {
        let (first, second) = two.split_at(group_len);
        let sum = once.multiply(lanes, blocks(lanes, first), blocks(lanes, second));
        acc = carry(lanes, twice.multiply(lanes, acc, sum));
    }
    poly.h = gather(lanes, powers, acc);
    rest
}

/// The sum of the lanes, each multiplied by its power.
#[inline(always)]
pub(crate) fn gather<L: Lanes>(lanes: L, powers: &Powers, acc: Limbs<L>) -> [u64; 3] {
    let by = Power::new(lanes, each(lanes, &powers.each));
    let acc = carry(lanes, by.multiply(lanes, acc, [lanes.zero(); 5]));
    let mut sums = [0; 5];
    for (sum, x) in sums.iter_mut().zip(acc) {
        *sum = lanes.sum64(x);
    }
    whole(sums)
}

/// From limbs of 26 bits, below 2^32, to limbs of 64, the highest of which is at most 4.
#[inline(always)]
fn whole(x: [u64; 5]) -> [u64; 3] {
    let low = u128::from(x[0]) + (u128::from(x[1]) << 26) + (u128::from(x[2]) << 52);
    let high = u128::from(x[3]) + (u128::from(x[4]) << 26);
    // high stands at bit 78.
    let middle = (low >> 64) + ((high << 14) & u128::from(u64::MAX));
    let top = ((high >> 50) as u64) + (middle >> 64) as u64;
    // The sum of the lanes may reach 2^132: what lies above 2^130 comes back times 5.
    let low = u128::from(low as u64) + u128::from(5 * (top >> 2));
    let middle = u128::from(middle as u64) + (low >> 64);
    [low as u64, middle as u64, (top & 3) + (middle >> 64) as u64]
}
