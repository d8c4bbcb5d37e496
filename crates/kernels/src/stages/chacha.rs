//! ChaCha20-Poly1305 (RFC 8439) as a stage: it enciphers or deciphers and gives the tag.
//!
//! Keystream comes in batches; while a batch is made, the ciphertext of the batch before is absorbed by
//! Poly1305 from a private copy. So every byte of the message is loaded once: what is authenticated is
//! what was deciphered, also when someone else can write to the source.
//!
//! ```text
//! batch k     keystream k (vector units)  |  Poly1305 of ciphertext k-1 (scalar units)
//! unit        x ^= keystream k; copy of the ciphertext kept
//! finish      Poly1305 of the last ciphertext and of the lengths
//! ```
#![forbid(unsafe_code)]

use crate::arch::chacha::{ChaChaLanes, Last, Work};
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
    pub fn seal<'a>(&'a mut self, nonce: &[u8; 12], aad: &'a [u8], len: usize) -> ChaCha<'a, true> {
        ChaCha::new(&mut self.work, nonce, aad, len)
    }

    /// The stage that deciphers one message of `len` bytes.
    pub fn open<'a>(
        &'a mut self,
        nonce: &[u8; 12],
        aad: &'a [u8],
        len: usize,
    ) -> ChaCha<'a, false> {
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
    aad: &'a [u8],
    len: usize,
}

impl<'a, const SEAL: bool> ChaCha<'a, SEAL> {
    fn new(work: &'a mut Work, nonce: &[u8; 12], aad: &'a [u8], len: usize) -> Self {
        work.begin(nonce);
        ChaCha { work: Cell::new(Some(work)), aad, len }
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

/// The first batch of a message of `len` bytes; gives its length. Not inlined, as it is called from several
/// places and once a message.
#[inline(never)]
fn first<L: ChaChaLanes>(lanes: L, work: &mut Work, len: usize, aad: &[u8]) -> usize {
    let size = lanes.first(work, len);
    work.authenticate(lanes, aad, len);
    size
}

impl State<'_> {
    /// The next batch.
    #[inline(always)]
    fn refill<L: ChaChaLanes>(&mut self, lanes: L, aad: &[u8]) {
        if self.size == 0 {
            self.size = first(lanes, self.work, self.left, aad);
        } else {
            let last = Last { at: self.turn, len: self.size };
            self.size = lanes.next(self.work, last, self.left);
        }
        self.turn ^= 1;
        self.at = 0;
        self.left = self.left.saturating_sub(self.size);
    }

    /// Xors `N` vectors with the keystream and keeps the ciphertext. Of the last only `valid` bytes count.
    #[inline(always)]
    fn xor<L: ChaChaLanes, const SEAL: bool, const N: usize>(
        &mut self,
        lanes: L,
        x: &mut [L::V; N],
        valid: usize,
    ) {
        let Work { stream, sealed, .. } = &mut *self.work;
        let stream = &stream.0[self.at..][..N * L::WIDTH];
        let sealed = &mut sealed[self.turn & 1].0[self.at..][..N * L::WIDTH];
        for (i, x) in x.iter_mut().enumerate() {
            let mut y = lanes.xor(*x, lanes.load(&stream[i * L::WIDTH..]));
            if valid < L::WIDTH {
                y = lanes.keep(y, valid);
            }
            lanes.store(&mut sealed[i * L::WIDTH..], if SEAL { y } else { *x });
            *x = y;
        }
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
            state.refill(lanes, self.aad);
        }
        state.xor::<L, SEAL, N>(lanes, x, L::WIDTH);
        state.at += N * L::WIDTH;
    }
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut State<'a>, x: &mut L::V, valid: usize) {
        if state.at == state.size {
            state.refill(lanes, self.aad);
        }
        let mut one = [*x];
        state.xor::<L, SEAL, 1>(lanes, &mut one, valid);
        *x = one[0];
        state.at += valid.next_multiple_of(16);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, mut state: State<'a>, len: usize) -> [u8; 16] {
        debug_assert_eq!(len, self.len);
        if state.size == 0 {
            state.refill(lanes, self.aad);
        }
        lanes.absorb(state.work, Last { at: state.turn, len: state.at }, 0);
        state.work.poly.clone().tag(self.aad.len(), len)
    }
}
