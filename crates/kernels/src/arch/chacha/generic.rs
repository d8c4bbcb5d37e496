//! The rounds over the lane trait, and one block in plain words.
#![forbid(unsafe_code)]

use super::{Last, Work, quarter};
use crate::arch::{Lanes, Portable};
use zeroize::Zeroize;

/// The quarter rounds of a column round and of a diagonal round (RFC 8439, section 2.3).
pub(super) const COLUMNS: [[usize; 4]; 4] =
    [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
const DIAGONALS: [[usize; 4]; 4] = [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const ROUNDS: [[[usize; 4]; 4]; 2] = [COLUMNS, DIAGONALS];

/// Half a quarter round on each of the four: rotations by `D` and `B` bits.
#[inline(always)]
fn half_round<L: Lanes, const D: u32, const B: u32>(
    lanes: L,
    x: &mut [L::V; 16],
    quarters: &[[usize; 4]; 4],
) {
    for &[a, b, _, d] in quarters {
        x[a] = lanes.add32(x[a], x[b]);
        x[d] = lanes.rotl32::<D>(lanes.xor(x[d], x[a]));
    }
    for &[_, b, c, d] in quarters {
        x[c] = lanes.add32(x[c], x[d]);
        x[b] = lanes.rotl32::<B>(lanes.xor(x[b], x[c]));
    }
}

/// A column round and a diagonal round.
#[inline(always)]
pub(super) fn double_round<L: Lanes>(lanes: L, x: &mut [L::V; 16]) {
    for quarters in &ROUNDS {
        half_round::<L, 16, 12>(lanes, x, quarters);
        half_round::<L, 8, 7>(lanes, x, quarters);
    }
}

/// The authenticator's key: the first half of block 0.
#[inline(never)]
pub(super) fn key_block(work: &mut Work) {
    let mut x = work.block_0();
    for _ in 0..10 {
        for quarters in &ROUNDS {
            for &at in quarters {
                quarter(&mut x, at);
            }
        }
    }
    let [a0, a1, a2, a3, b0, b1, b2, b3, ..] = x;
    work.set_key([a0, a1, a2, a3, b0, b1, b2, b3]);
    x.zeroize();
}

/// A batch of four blocks in plain words.
#[inline(never)]
pub(super) fn portable(lanes: Portable, work: &mut Work, last: Option<Last>) -> usize {
    let input: [[u32; 4]; 16] = core::array::from_fn(|i| {
        let row = &work.input[i];
        [row[0], row[1], row[2], row[3]]
    });
    let mut x = input;
    for _ in 0..10 {
        double_round(lanes, &mut x);
    }
    if let Some(last) = last {
        work.poly.absorb_padded(&work.sealed[last.at].0[..last.len]);
    }
    for lane in 0..4 {
        for word in 0..16 {
            let sum = x[word][lane].wrapping_add(input[word][lane]);
            work.stream.0[64 * lane + 4 * word..][..4].copy_from_slice(&sum.to_le_bytes());
        }
    }
    work.count(4);
    256
}
