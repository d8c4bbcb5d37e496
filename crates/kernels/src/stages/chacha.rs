//! ChaCha20-Poly1305 (RFC 8439) as a stage: it enciphers or deciphers and gives the tag.
//!
//! Keystream comes in batches; while a batch is made, the ciphertext of the batch before is absorbed by
//! Poly1305 from a private copy. So every byte of the message is loaded once: what is authenticated is
//! what was deciphered, also when someone else can write to the source.
//!
//! ```text
//! batch k     keystream k (vector units)  |  Poly1305 of ciphertext k-1 (scalar units)
//! unit        x ^= keystream; copy of the ciphertext kept
//! finish      Poly1305 of the last ciphertext and of the lengths
//! ```
#![forbid(unsafe_code)]

use crate::arch::chacha::{Absorb, ChaChaLanes, Work};
use crate::stage::{Output, Run, Stage};
use core::cell::Cell;
use zeroize::Zeroize;

/// An expanded key, with the memory that a message needs. Wiped when dropped.
pub struct ChaChaKey {
    work: Box<Work>,
}

impl ChaChaKey {
    /// Expands the key.
    pub fn new(key: &[u8; 32]) -> Self {
        ChaChaKey { work: Work::new(key) }
    }

    /// The stage that enciphers one message of `len` bytes.
    pub fn seal(&mut self, nonce: &[u8; 12], aad: &[u8], len: usize) -> ChaCha<'_, true> {
        ChaCha::new(&mut self.work, nonce, aad, len)
    }

    /// The stage that deciphers one message of `len` bytes.
    pub fn open(&mut self, nonce: &[u8; 12], aad: &[u8], len: usize) -> ChaCha<'_, false> {
        ChaCha::new(&mut self.work, nonce, aad, len)
    }
}

impl Drop for ChaChaKey {
    fn drop(&mut self) {
        self.work.zeroize();
    }
}

/// One message's stage. It can run once.
pub struct ChaCha<'a, const SEAL: bool> {
    work: Cell<Option<&'a mut Work>>,
    aad_len: usize,
    len: usize,
}

impl<'a, const SEAL: bool> ChaCha<'a, SEAL> {
    fn new(work: &'a mut Work, nonce: &[u8; 12], aad: &[u8], len: usize) -> Self {
        work.begin(nonce, aad);
        ChaCha { work: Cell::new(Some(work)), aad_len: aad.len(), len }
    }
}

/// Where the loop is.
pub struct State<'a> {
    work: &'a mut Work,
    /// Bytes of the current batch that are used.
    at: usize,
    /// Bytes of the current batch; none before the first.
    size: usize,
    /// Which of `work.sealed` is the current batch's.
    turn: usize,
    /// Bytes of message after the current batch.
    left: usize,
}

impl State<'_> {
    /// The next batch.
    #[inline(always)]
    fn refill<L: ChaChaLanes>(&mut self, lanes: L) {
        let absorb = if self.size == 0 { Absorb::Nothing } else { Absorb::Sealed(self.turn) };
        let before = self.size;
        if self.left > L::SMALL && L::LARGE > L::SMALL {
            lanes.batch::<true>(self.work, absorb);
            self.size = L::LARGE;
        } else {
            lanes.batch::<false>(self.work, absorb);
            self.size = L::SMALL;
        }
        if before > self.size {
            let Work { poly, sealed, .. } = &mut *self.work;
            poly.absorb_padded(&sealed[self.turn].0[self.size..before]);
        }
        self.turn ^= 1;
        self.at = 0;
        self.left = self.left.saturating_sub(self.size);
    }

    /// Xors one vector with the keystream and keeps the ciphertext.
    #[inline(always)]
    fn vector<L: ChaChaLanes, const SEAL: bool>(&mut self, lanes: L, x: &mut L::V, valid: usize) {
        let stream = lanes.load(&self.work.stream.0[self.at..]);
        let mut y = lanes.xor(*x, stream);
        if valid < L::WIDTH {
            y = lanes.keep(y, valid);
        }
        let sealed = &mut self.work.sealed[self.turn].0[self.at..];
        lanes.store(sealed, if SEAL { y } else { *x });
        *x = y;
    }
}

impl<const SEAL: bool> Stage for ChaCha<'_, SEAL> {
    type Output = [u8; 16];
    const NAME: &'static str = "chacha20-poly1305";
    const BLOCK: usize = 64;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 4096;
    const ORDERED: bool = true;
    const VECTORS: usize = 4;
}

impl<'a, L: ChaChaLanes, const SEAL: bool> Run<L> for ChaCha<'a, SEAL> {
    type State = State<'a>;
    #[inline(always)]
    fn start(&self, _: L) -> State<'a> {
        let work = self.work.take().expect("a message's stage runs once");
        State { work, at: 0, size: 0, turn: 0, left: self.len }
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut State<'a>, x: &mut [L::V; N]) {
        if state.at == state.size {
            state.refill(lanes);
        }
        for x in x {
            state.vector::<L, SEAL>(lanes, x, L::WIDTH);
            state.at += L::WIDTH;
        }
    }
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut State<'a>, x: &mut L::V, valid: usize) {
        if state.at == state.size {
            state.refill(lanes);
        }
        state.vector::<L, SEAL>(lanes, x, valid);
        state.at += valid.next_multiple_of(16);
    }
    #[inline(always)]
    fn finish(&self, _: L, state: State<'a>, len: usize) -> [u8; 16] {
        debug_assert_eq!(len, self.len);
        let Work { poly, sealed, .. } = state.work;
        poly.absorb_padded(&sealed[state.turn].0[..state.at]);
        poly.clone().tag(self.aad_len, len)
    }
}
