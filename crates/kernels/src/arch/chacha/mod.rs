//! ChaCha20 keystream in batches of blocks, with Poly1305 of the batch before in between.
//!
//! ChaCha20 is bound by its chains of additions, xors and rotations, which leave the scalar units idle;
//! Poly1305 on 64-bit limbs needs nothing else. So one function makes a batch of keystream and absorbs
//! the last batch of ciphertext, the instructions of the two woven into each other.
//!
//! Layout: word `i` of every block lies in one vector, a block a lane ("vertical"), so that a quarter
//! round is plain vector arithmetic; a transposition at the end brings the keystream into the order of
//! the message. [`Work`] is the loop's memory.

mod avx2;
mod avx512;
mod generic;
mod ifma;

use super::{Portable, Zip};
use crate::stages::{Poly1305, Powers};
use zeroize::Zeroize;

/// Bytes of the largest batch.
pub const LARGEST: usize = 1024;

/// One batch of bytes.
#[derive(Clone, Zeroize)]
#[repr(C, align(64))]
pub struct Batch(pub [u8; LARGEST]);

/// A row of the state: one word of up to 16 blocks.
pub type Row = [u32; 16];

/// The loop's memory. It holds key and keystream; its owner wipes it.
#[derive(Clone, Zeroize)]
#[repr(C, align(64))]
pub struct Work {
    /// The state before the rounds (RFC 8439, section 2.3). Row 12 counts up from the next block.
    pub(crate) input: [Row; 16],
    /// Rows that do not fit registers.
    pub(crate) spill: [Row; 16],
    /// What round 1 makes of the input in all blocks alike, once a message: all but row 12; of rows 0, 4 and 8
    /// what comes before row 12 has its part.
    pub(crate) start_words: [u32; 16],
    /// The same in every lane, for long messages.
    pub(crate) start: [Row; 16],
    /// The keystream of the current batch.
    pub(crate) stream: Batch,
    /// Ciphertext of the current and of the last batch, in turns.
    pub(crate) sealed: [Batch; 2],
    /// The authenticator.
    pub(crate) poly: Poly1305,
    /// Powers of its multiplier.
    pub(crate) powers: Powers,
    /// The authenticator's one-time key, as [`ChaChaLanes::first`] leaves it.
    pub(crate) key: [u8; 32],
    /// Row c of block 0.
    pub(crate) words: [u32; 4],
    /// Where the woven loop ends in the last ciphertext, or turns to go.
    pub(crate) end: u64,
    /// The key.
    pub(crate) secret: [[u32; 4]; 2],
    /// Accumulator and powers in vectors, at the levels that have products for it.
    pub(crate) wide: ifma::Wide,
}

/// The ciphertext of the last batch: `sealed[at]`, `len` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Which of `sealed`.
    pub at: usize,
    /// Bytes in it: what the last batch had.
    pub len: usize,
}

/// Levels at which batches of keystream can be made.
pub trait ChaChaLanes: Zip {
    /// Makes the first batch of keystream in `work.stream`, with `left` bytes of message to come, and gives
    /// its length in bytes: a multiple of four vectors. Leaves the first half of block 0 in `work.key`.
    fn first(self, work: &mut Work, left: usize) -> usize;
    /// Makes the powers of the authenticator's multiplier that a message of `len` bytes needs.
    fn powers(self, work: &mut Work, len: usize);
    /// Makes the next batch and absorbs the ciphertext of the last.
    fn next(self, work: &mut Work, last: Last, left: usize) -> usize;
    /// Absorbs the last ciphertext from byte `from` on.
    fn absorb(self, work: &mut Work, last: Last, from: usize);
}

impl ChaChaLanes for Portable {
    #[inline(always)]
    fn first(self, work: &mut Work, _: usize) -> usize {
        generic::key_block(work);
        generic::portable(self, work, None)
    }
    #[inline(always)]
    fn powers(self, _: &mut Work, _: usize) {}
    #[inline(always)]
    fn next(self, work: &mut Work, last: Last, _: usize) -> usize {
        generic::portable(self, work, Some(last))
    }
    #[inline(always)]
    fn absorb(self, work: &mut Work, last: Last, from: usize) {
        work.poly.absorb_padded(&work.sealed[last.at].0[from..last.len]);
    }
}

/// The quarter round (RFC 8439, section 2.1).
#[inline(always)]
fn quarter(x: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for [l, m] in [[16, 12], [8, 7]] {
        x[a] = x[a].wrapping_add(x[b]);
        x[d] = (x[d] ^ x[a]).rotate_left(l);
        x[c] = x[c].wrapping_add(x[d]);
        x[b] = (x[b] ^ x[c]).rotate_left(m);
    }
}

const SIGMA: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

impl Work {
    /// For a key; a message begins with [`Work::begin`].
    pub fn new(key: &[u8; 32]) -> Box<Work> {
        let batch = || Batch([0; LARGEST]);
        let mut work = Box::new(Work {
            input: [[0; 16]; 16],
            spill: [[0; 16]; 16],
            start_words: [0; 16],
            start: [[0; 16]; 16],
            stream: batch(),
            sealed: [batch(), batch()],
            poly: Poly1305::default(),
            powers: Powers::default(),
            key: [0; 32],
            words: [0; 4],
            end: 0,
            secret: [[0; 4]; 2],
            wide: ifma::Wide::default(),
        });
        for (row, word) in work.input.iter_mut().zip(SIGMA) {
            *row = [word; 16];
        }
        let (words, _) = key.as_chunks::<4>();
        let secret = work.secret.as_flattened_mut();
        for ((row, secret), word) in work.input[4..12].iter_mut().zip(secret).zip(words) {
            *secret = u32::from_le_bytes(*word);
            *row = [*secret; 16];
        }
        work
    }

    /// Starts a message: nonce, and counters from 1.
    pub fn begin(&mut self, nonce: &[u8; 12]) {
        let (words, _) = nonce.as_chunks::<4>();
        for (row, word) in self.input[13..].iter_mut().zip(words) {
            *row = [u32::from_le_bytes(*word); 16];
        }
        self.input[12] = core::array::from_fn(|lane| lane as u32 + 1);
    }

    /// Starts the authenticator with the key that `first` left (section 2.6) and the additional data. The
    /// message has `len` bytes.
    #[inline(always)]
    pub fn authenticate<L: ChaChaLanes>(&mut self, lanes: L, aad: &[u8], len: usize) {
        self.poly = Poly1305::new(&self.key);
        lanes.powers(self, len);
        self.poly.absorb_padded(aad);
    }

    /// The words of block 0.
    #[inline]
    pub(crate) fn block_0(&self) -> [u32; 16] {
        core::array::from_fn(|i| if i == 12 { 0 } else { self.input[i][0] })
    }

    /// Does the common part of round 1.
    #[inline]
    pub(crate) fn start(&mut self) {
        let mut x = self.block_0();
        x[0] = x[0].wrapping_add(x[4]);
        for column in generic::COLUMNS.into_iter().skip(1) {
            quarter(&mut x, column);
        }
        self.start_words = x;
    }

    /// The words of block 0 after round 1.
    #[inline]
    pub(crate) fn block_0_started(&self) -> [u32; 16] {
        let mut x = self.start_words;
        x[0] = x[0].wrapping_sub(x[4]);
        quarter(&mut x, generic::COLUMNS[0]);
        x
    }

    /// Takes the first words of block 0 after its rounds.
    #[inline]
    pub(crate) fn set_key(&mut self, words: [u32; 8]) {
        let (key, _) = self.key.as_chunks_mut::<4>();
        for ((to, word), row) in key.iter_mut().zip(words).zip(&self.input) {
            *to = word.wrapping_add(row[0]).to_le_bytes();
        }
    }

    /// Counts `blocks` as made.
    #[inline(always)]
    pub(crate) fn count(&mut self, blocks: usize) {
        for lane in &mut self.input[12] {
            *lane = lane.wrapping_add(blocks as u32);
        }
    }
}
