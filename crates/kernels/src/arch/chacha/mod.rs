//! ChaCha20 keystream in batches of blocks, with Poly1305 of the batch before in between.
//!
//! ChaCha20 is bound by its chains of additions, xors and rotations, which leave the scalar units idle;
//! Poly1305 on 64-bit limbs needs nothing else. So one function makes a batch of keystream and absorbs
//! the last batch of ciphertext, the instructions of the two woven into each other.
//!
//! Layout: word `i` of every block lies in one vector, a block a lane ("vertical"), so that a quarter
//! round is plain vector arithmetic; a transposition at the end brings the keystream into the order of
//! the message. [`Work`] is the loop's memory.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod generic;

use super::{Lanes, Portable};
use crate::stages::Poly1305;
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
    /// The keystream of the current batch.
    pub(crate) stream: Batch,
    /// Ciphertext of the current and of the last batch, in turns.
    pub(crate) sealed: [Batch; 2],
    /// The authenticator.
    pub(crate) poly: Poly1305,
    /// Where the woven loop ends in the last ciphertext.
    pub(crate) end: u64,
}

/// What of the last batch to absorb while making the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absorb {
    /// Nothing: there is none.
    Nothing,
    /// Ciphertext that lies in `sealed` of this index, as many bytes as a batch of this size has.
    Sealed(usize),
}

/// Levels at which batches of keystream can be made.
pub trait ChaChaLanes: Lanes {
    /// Bytes of a batch while more than that is left.
    const LARGE: usize;
    /// Bytes of a batch when the rest fits.
    const SMALL: usize;

    /// Makes a batch of keystream in `work.stream`, a large or a small one, counts it in the input's row
    /// 12, and absorbs as many bytes of the last ciphertext.
    fn batch<const LARGE: bool>(self, work: &mut Work, absorb: Absorb);
}

impl ChaChaLanes for Portable {
    const LARGE: usize = 256;
    const SMALL: usize = 256;

    #[inline(always)]
    fn batch<const LARGE: bool>(self, work: &mut Work, absorb: Absorb) {
        generic::portable(self, work, absorb);
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
            stream: batch(),
            sealed: [batch(), batch()],
            poly: Poly1305::default(),
            end: 0,
        });
        for (row, word) in work.input.iter_mut().zip(SIGMA) {
            *row = [word; 16];
        }
        let (words, _) = key.as_chunks::<4>();
        for (row, word) in work.input[4..12].iter_mut().zip(words) {
            *row = [u32::from_le_bytes(*word); 16];
        }
        work
    }

    /// Starts a message: nonce, counters from 1, the authenticator's key from block 0 (section 2.6), and
    /// the additional data.
    pub fn begin(&mut self, nonce: &[u8; 12], aad: &[u8]) {
        let (words, _) = nonce.as_chunks::<4>();
        for (row, word) in self.input[13..].iter_mut().zip(words) {
            *row = [u32::from_le_bytes(*word); 16];
        }
        self.input[12] = core::array::from_fn(|lane| lane as u32);
        let mut block = generic::block(&self.input);
        self.poly = Poly1305::new(block.first_chunk().expect("a block has 64 bytes"));
        block.zeroize();
        for lane in &mut self.input[12] {
            *lane += 1;
        }
        self.poly.absorb_padded(aad);
    }

    /// Counts `blocks` as made.
    #[inline(always)]
    pub(crate) fn count(&mut self, blocks: usize) {
        for lane in &mut self.input[12] {
            *lane = lane.wrapping_add(blocks as u32);
        }
    }
}
