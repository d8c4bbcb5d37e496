//! Poly1305 on the four lanes of a vector of 256 bits: a block in each, in limbs of 26 bits.
//!
//! Inside the fused loop Poly1305 runs on the scalar units, which are idle there. Where no keystream is made
//! beside it, after the last batch, vectors are faster: 6 cycles a block instead of 14.
//!
//! ```text
//! start              acc = (h·r, 0, 0, 0)
//! every 8 blocks     acc = (acc + (m0, …, m3))·r^8 + (m4, …, m7)·r^4, carried once; at last by r^4 and 1
//! end                h = sum of lane j · r^(3-j), the last block not multiplied yet (see poly1305.rs)
//! ```
//! The turn itself is `arch::chacha::avx2`'s, the levels with products of 52 bits have `arch::chacha::ifma`.
//!
//! Bounds: limbs of acc below 2^27, of powers and blocks below 2^26, times 5 below 2^29; ten products below
//! 2^60.
#![forbid(unsafe_code)]

use super::poly1305::{Poly1305, product};
use crate::arch::Lanes;
use zeroize::Zeroize;

/// Powers of the multiplier.
#[derive(Clone, Default, Zeroize)]
pub(crate) struct Powers {
    /// The message is long enough to have them.
    set: bool,
    /// The 4th and the 8th.
    all: [[u64; 3]; 2],
    /// For each lane at last: limb by limb, eight bytes a lane.
    each: [[u8; 32]; 3],
    /// The 12th and the 28th, for [`Poly1305::join`].
    jumps: [[u64; 3]; 2],
}

/// Least number of bytes to be worth it.
const SHORTEST: usize = 513;
const MASK: u64 = (1 << 26) - 1;

impl Powers {
    /// The powers for a message of `len` bytes, and whether it has batches of sixteen blocks.
    #[inline]
    pub(crate) fn set(&mut self, poly: &Poly1305, len: usize, sixteens: bool) {
        self.set = len >= SHORTEST;
        if !self.set {
            return;
        }
        // Lanes 0 to 3 have blocks 0, 2, 1 and 3; block j is multiplied by the power 3 - j.
        let mut power = [1u64, 0, 0];
        for lane in [3, 1, 2, 0] {
            for (each, limb) in self.each.iter_mut().zip(power) {
                each[8 * lane..][..8].copy_from_slice(&limb.to_le_bytes());
            }
            power = poly.times(power);
        }
        let eighth = product(power, power);
        self.all = [power, eighth];
        self.jumps[0] = product(eighth, power);
        if sixteens {
            self.jumps[1] = product(product(eighth, eighth), self.jumps[0]);
        }
    }

    /// Whether the message is long enough to have them.
    pub(crate) fn are_set(&self) -> bool {
        self.set
    }

    /// The 4th and the 8th power.
    pub(crate) fn all(&self) -> [[u64; 3]; 2] {
        self.all
    }

    /// The 12th power, and where there are batches of sixteen blocks the 28th.
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

/// A number in every lane.
#[inline(always)]
pub(crate) fn splat<L: Lanes>(lanes: L, [low, high, top]: [u64; 3]) -> Limbs<L> {
    limbs(lanes, [lanes.splat64(low), lanes.splat64(high), lanes.splat64(top << 24)])
}

/// Another number in every lane.
#[inline(always)]
fn each<L: Lanes>(lanes: L, [low, high, top]: &[[u8; 32]; 3]) -> Limbs<L> {
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
