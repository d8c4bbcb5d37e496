//! The one loop: load ▸ swap ▸ AES-CTR ▸ GHASH ▸ Internet sum ▸ store, and its inverse.
//!
//! In scalar words, for sealing, with `Y` the hash so far and `E` the block cipher:
//!
//! ```text
//! Y = ghash(aad)
//! for each block i of 16 bytes:
//!     c    = swap(src[i]) ^ E(nonce | 2 + i)      dst[i] = c
//!     Y    = (Y ^ c) * H
//!     sum += c                                    as 16-bit words, one's complement
//! Y   = (Y ^ lengths) * H
//! tag = Y ^ E(nonce | 1)
//! ```
//!
//! What is done to go faster:
//!
//! 1. `N` vectors (a batch) are in flight, so that the latency of an AES round is hidden.
//! 2. Between the AES rounds of a batch stand the products of GHASH: of the batch itself when
//!    opening, of the batch before it when sealing. `pin` keeps LLVM from undoing this order.
//! 3. Products are added unreduced over an aggregate of 64 blocks, each with its own power of H; the
//!    last aggregate takes in the block of lengths. A message up to 1 KiB is reduced once.
//! 4. Karatsuba: the middle products of two vectors share one XOR of unpacked halves.
//! 5. Within 256 blocks only the counter's low byte changes, and with it one column of the state
//!    after the first round. A table of that change stands for the counter, round 0 and round 1.
//! 6. The sum is made of 64-bit elements: their total modulo 2^64, and the total of their high halves.
//!
//! Every source byte is loaded once, also for an opening, where what was authenticated and what is
//! decrypted must be the same bytes even if another process writes to `src` meanwhile.

use super::context::{Context, POWERS};
use super::counter::Counter;
use super::digest::{Digest, product};
use super::edge::{Edge, Lines, Ragged, Whole, reversal};
use crate::arch::Vector;
use core::arch::x86_64::*;

/// Vectors in a batch.
pub(super) const N: usize = 8;
/// Rounds between the first and the last that AES has with every key. GHASH stands between these; those
/// that only AES-256 has come after them.
const EVER: usize = 8;
/// Blocks of the widest vector.
pub(super) const WIDEST: usize = 4;

/// What GHASH has seen before the first block of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HashStart<'a> {
    /// The additional data.
    Aad(&'a [u8]),
    /// More: the hash so far, its bytes reversed.
    Hash(&'a [u8; 16]),
}

/// One message, or a piece of it that is a whole number of blocks.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) nonce: &'a [u8; 12],
    pub(super) start: HashStart<'a>,
    /// Bytes of additional data and of ciphertext, if the message ends here.
    pub(super) lengths: Option<[usize; 2]>,
    /// The counter of the first block: 2 at the begin of a message.
    pub(super) counter: u32,
    /// Bytes of an element that is swapped; 1: none.
    pub(super) element: usize,
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
}

/// What came of it.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    /// The hash, its bytes reversed.
    pub(super) hash: __m128i,
    /// What the hash is masked with to give the tag.
    pub(super) mask: __m128i,
    /// The sum of the ciphertext as little-endian 16-bit words, not folded.
    pub(super) sum: u64,
}

/// Batches kept in memory between two steps of the loop, aligned.
#[repr(C, align(64))]
pub(super) struct Scratch<const BYTES: usize>(pub(super) [u8; BYTES]);

/// Which parts of GHASH on `vectors` vectors stand after round `round` of the eight.
#[inline(always)]
fn parts(vectors: usize, round: usize) -> core::ops::Range<usize> {
    let parts = vectors / 2 * 3;
    round * parts / EVER..(round + 1) * parts / EVER
}

/// The cipher's block for counter 1, from its state after round 1: what masks the tag.
#[inline(always)]
unsafe fn tag_mask<V: Vector>(context: &Context, start: __m128i) -> __m128i {
    // SAFETY: AES-NI, as the caller vouches; round keys of this context at the level's width.
    unsafe {
        let mut mask = start;
        let keys = context.keys.as_ptr();
        if context.rounds == 14 {
            for i in 2..6 {
                mask = _mm_aesenc_si128(mask, _mm_loadu_si128(keys.add(i * V::BYTES).cast()));
            }
        }
        let keys = keys.add((context.rounds - EVER) * V::BYTES);
        for i in 0..EVER {
            mask = _mm_aesenc_si128(mask, _mm_loadu_si128(keys.add(i * V::BYTES).cast()));
        }
        _mm_aesenclast_si128(mask, _mm_loadu_si128(keys.add(EVER * V::BYTES).cast()))
    }
}

/// One AES round on all of `states`.
#[inline(always)]
unsafe fn round<V: Vector, const M: usize>(states: &mut [V; M], key: *const u8) {
    // SAFETY: a round key at the level's width, as the caller vouches.
    unsafe {
        let key = V::load(key);
        for state in states {
            *state = V::aes_round(*state, key);
            V::pin(state);
        }
    }
}

/// Ciphertext vector `i` for GHASH: sealing, of the batch before, from `scratch`; opening, of this one,
/// from the source, and kept in `scratch` for the cipher.
#[inline(always)]
unsafe fn fresh<V: Vector, const SEAL: bool>(edge: &impl Edge<V>, scratch: *mut u8, i: usize) -> V {
    // SAFETY: `i` is a vector of the batch at `edge` and `scratch`.
    unsafe {
        let kept = scratch.add(i * V::BYTES);
        if SEAL {
            return V::load(kept);
        }
        let v = edge.load(i);
        V::store(kept, v);
        v
    }
}

/// `M` vectors: the cipher over them, and GHASH over `G` of the ciphertext's (0: none yet). Sealing,
/// GHASH takes its vectors from `scratch` before the new ones go there; opening, from the source.
#[inline(always)]
unsafe fn batch<V: Vector, const M: usize, const G: usize, const SEAL: bool, const FUSED: bool>(
    context: &Context,
    counter: &mut Counter,
    digest: &mut Digest<V, FUSED>,
    edge: &mut impl Edge<V>,
    scratch: *mut u8,
) {
    // SAFETY: `M` vectors at `edge` and `scratch`, as the caller vouches.
    unsafe {
        let mut states = counter.start::<V, M>(context);
        let keys: *const u8 = context.keys.as_ptr().add(2 * V::BYTES);
        macro_rules! with_ghash {
            ($($r:literal)*) => {$(
                round::<V, M>(&mut states, keys.add($r * V::BYTES));
                for part in parts(G, $r) {
                    let (pair, part) = (part / 3, part % 3);
                    let v = if part < 2 { fresh::<V, SEAL>(edge, scratch, 2 * pair + part) } else { V::zero() };
                    digest.step(context, pair, part, v);
                }
            )*};
        }
        with_ghash!(0 1 2 3 4 5 6 7);
        let mut keys = keys.add(EVER * V::BYTES);
        if context.rounds == 14 {
            round::<V, M>(&mut states, keys);
            round::<V, M>(&mut states, keys.add(V::BYTES));
            round::<V, M>(&mut states, keys.add(2 * V::BYTES));
            round::<V, M>(&mut states, keys.add(3 * V::BYTES));
            keys = keys.add(4 * V::BYTES);
        }
        if G > 0 {
            digest.advance(G * V::BLOCKS);
        }
        let key = V::load(keys);
        for (i, state) in states.into_iter().enumerate() {
            let kept = scratch.add(i * V::BYTES);
            if SEAL {
                let v = edge.load(i);
                let v = if FUSED { edge.swap(i, v) } else { v };
                let v = edge.trim(i, V::aes_last(state, V::xor(key, v)));
                edge.store(i, v);
                V::store(kept, v);
                digest.add(v);
            } else {
                let v = V::load(kept);
                digest.add(v);
                let v = V::aes_last(state, V::xor(key, v));
                let v = if FUSED { edge.swap(i, v) } else { v };
                edge.store(i, v);
            }
        }
    }
}

/// GHASH over `G` vectors at `scratch`, with nothing beside it.
#[inline(always)]
unsafe fn drain<V: Vector, const G: usize, const FUSED: bool>(
    context: &Context,
    digest: &mut Digest<V, FUSED>,
    scratch: *const u8,
) {
    for pair in 0..G / 2 {
        // SAFETY: `G` vectors at `scratch`, as the caller vouches.
        unsafe {
            digest.step(context, pair, 0, V::load(scratch.add(2 * pair * V::BYTES)));
            digest.step(context, pair, 1, V::load(scratch.add((2 * pair + 1) * V::BYTES)));
            digest.step(context, pair, 2, V::zero());
        }
    }
}

/// The last `left` bytes, in `M` vectors; `pending` as in `run`.
#[inline(always)]
unsafe fn tail<V: Vector, const M: usize, const SEAL: bool, const FUSED: bool>(
    context: &Context,
    counter: &mut Counter,
    digest: &mut Digest<V, FUSED>,
    end: &Message<'_>,
    scratch: *mut u8,
    pending: bool,
) {
    // SAFETY: `end` has the bytes, as the caller vouches; `M` vectors hold them.
    unsafe {
        let mut lines = [const { Lines([0; 128]) }; 2];
        let mut edge = Ragged::<V, M>::new(end, &mut lines);
        if !SEAL {
            batch::<V, M, M, SEAL, FUSED>(context, counter, digest, &mut edge, scratch);
        } else if pending {
            batch::<V, M, N, SEAL, FUSED>(context, counter, digest, &mut edge, scratch);
        } else {
            batch::<V, M, 0, SEAL, FUSED>(context, counter, digest, &mut edge, scratch);
        }
        edge.finish();
        if SEAL {
            drain::<V, M, FUSED>(context, digest, scratch);
        }
    }
}

/// The whole message. `SEAL` or open; `FUSED` with swap and sum, or without.
///
/// # Safety
/// The CPU must have the instructions of `V`; `context` must be filled for `V`; `src` and
/// `dst` must be good for `len` bytes of reads and writes, and be the same or not overlap.
#[inline(always)]
pub(super) unsafe fn run<V: Vector, const SEAL: bool, const FUSED: bool>(
    context: &Context,
    message: Message<'_>,
) -> Outcome {
    // SAFETY: as this function's contract; each batch is within `len`.
    unsafe {
        let (mut counter, start) = Counter::new::<V>(context, &message);
        let mut mask = start;
        if !SEAL {
            mask = tag_mask::<V>(context, start);
        }
        let mut digest = Digest::<V, FUSED>::new(context, &message);
        let mut lengths = [_mm_setzero_si128(); 3];
        if let Some([aad, len]) = message.lengths {
            let block = _mm_set_epi64x(8 * aad as i64, 8 * len as i64);
            lengths = product(context, block, POWERS - 1);
        }

        let mut scratch = core::mem::MaybeUninit::<Scratch<{ N * 16 * WIDEST }>>::uninit();
        let scratch: *mut u8 = scratch.as_mut_ptr().cast();
        let swap = V::repeat(reversal(message.element));
        let mut end = message;
        // Sealing, a batch lies in `scratch` that GHASH has not seen.
        let mut pending = false;
        while end.len >= N * V::BYTES {
            let mut edge = Whole { swap, src: end.src, dst: end.dst };
            if !SEAL || pending {
                batch::<V, N, N, SEAL, FUSED>(
                    context,
                    &mut counter,
                    &mut digest,
                    &mut edge,
                    scratch,
                );
            } else {
                batch::<V, N, 0, SEAL, FUSED>(
                    context,
                    &mut counter,
                    &mut digest,
                    &mut edge,
                    scratch,
                );
            }
            pending = SEAL;
            end.src = end.src.add(N * V::BYTES);
            end.dst = end.dst.add(N * V::BYTES);
            end.len -= N * V::BYTES;
        }
        if SEAL {
            // Here it fills what GHASH leaves free at the end.
            mask = tag_mask::<V>(context, start);
        }
        let (c, d) = (&mut counter, &mut digest);
        match end.len.div_ceil(2 * V::BYTES) {
            0 if pending => drain::<V, N, FUSED>(context, d, scratch),
            0 => {}
            1 => tail::<V, 2, SEAL, FUSED>(context, c, d, &end, scratch, pending),
            2 => tail::<V, 4, SEAL, FUSED>(context, c, d, &end, scratch, pending),
            3 => tail::<V, 6, SEAL, FUSED>(context, c, d, &end, scratch, pending),
            _ => tail::<V, 8, SEAL, FUSED>(context, c, d, &end, scratch, pending),
        }
        let hash = digest.reduced(lengths);
        Outcome { hash, mask, sum: if FUSED { digest.sum() } else { 0 } }
    }
}
