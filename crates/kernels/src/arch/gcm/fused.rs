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

use super::context::{AGGREGATE, Context, POWERS, REVERSE, multiply, reduce};
use super::edge::{Edge, Ragged, Whole};
use super::lanes::GcmLanes;
use core::arch::x86_64::*;

/// Vectors in a batch.
pub(super) const N: usize = 8;
/// Blocks of the widest vector.
const WIDEST: usize = 4;

/// One message.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) nonce: &'a [u8; 12],
    pub(super) aad: &'a [u8],
    /// The counter of the first block: 2, but for tests.
    pub(super) counter: u32,
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) len: usize,
}

/// What came of it.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) tag: __m128i,
    /// The sum of the ciphertext as little-endian 16-bit words, not folded.
    pub(super) sum: u64,
}

/// Batches kept in memory between two steps of the loop, aligned.
#[repr(C, align(64))]
struct Scratch<const BYTES: usize>([u8; BYTES]);

/// The state of GHASH and of the sum while they run beside the cipher.
struct Digest<L: GcmLanes, const SUM: bool> {
    low: L::V,
    middle: L::V,
    high: L::V,
    /// The first ciphertext vector of a pair, reversed, until the middle products.
    first: L::V,
    second: L::V,
    /// The hash of the aggregates before, times H, at the place of the second block of a batch.
    carry: L::V,
    total: L::V,
    total_high: L::V,
    /// Index of the power that meets the first block of the next batch.
    power: usize,
    /// Blocks that are still to come, the lengths among them.
    left: usize,
    /// Blocks left in this aggregate; of no meaning in the last.
    room: usize,
}

impl<L: GcmLanes, const SUM: bool> Digest<L, SUM> {
    /// Begins with the additional data, at the power before the first block's.
    #[inline(always)]
    unsafe fn new(context: &Context, message: &Message<'_>) -> Self {
        // SAFETY: vectors of the level that the caller vouches for.
        unsafe {
            let zero = L::zero();
            let left = message.len.div_ceil(16) + 1;
            let power = if left < POWERS { POWERS - left } else { POWERS - AGGREGATE - 1 };
            let [mut low, mut middle, mut high] = [zero; 3];
            if let Some(block) = additional(context, message.aad) {
                let products = product(context, block, power - 1);
                [low, middle, high] =
                    [L::first(products[0]), L::first(products[1]), L::first(products[2])];
            }
            let (first, second, carry, total, total_high) = (zero, zero, zero, zero, zero);
            let room = if left < POWERS { usize::MAX } else { AGGREGATE };
            Digest { low, middle, high, first, second, carry, total, total_high, power, left, room }
        }
    }

    /// A part of the work on ciphertext vectors `2 * pair` and `2 * pair + 1` of a batch: 0 and 1
    /// multiply the outer halves of one, `v`, 2 the middle of both.
    #[inline(always)]
    unsafe fn step(&mut self, context: &Context, pair: usize, part: usize, v: L::V) {
        // SAFETY: `power` plus a batch stays within the table and the zeros behind it.
        unsafe {
            if part < 2 {
                let i = 2 * pair + part;
                let mut v = L::shuffle(v, L::repeat(&REVERSE));
                // Otherwise LLVM makes one shuffle of this and of the unpacking below: four of two.
                L::pin(&mut v);
                if i == 1 / L::BLOCKS {
                    v = L::xor(v, self.carry);
                }
                let power = L::load(context.powers.as_ptr().add(self.power + i * L::BLOCKS).cast());
                let [low, high] = Self::products(v, power);
                self.low = L::xor(self.low, low);
                self.high = L::xor(self.high, high);
                L::pin(&mut self.low);
                L::pin(&mut self.high);
                if part == 0 { self.first = v } else { self.second = v }
            } else {
                let halves = L::xor(
                    L::unpack_low(self.first, self.second),
                    L::unpack_high(self.first, self.second),
                );
                let middles = context.middles.as_ptr().add(self.power + 2 * pair * L::BLOCKS);
                let power = L::load(middles.cast());
                let [near, far] = Self::products(halves, power);
                self.middle = L::xor(L::xor(self.middle, near), far);
                L::pin(&mut self.middle);
            }
        }
    }

    /// The products of low and of high halves, made one right after the other: Zen 4 dispatches nothing
    /// else in the cycle of a carry-less product, and a lone instruction between two costs a cycle.
    #[inline(always)]
    unsafe fn products(mut a: L::V, mut b: L::V) -> [L::V; 2] {
        // SAFETY: as the caller vouches.
        unsafe {
            L::pin(&mut a);
            L::pin(&mut b);
            let (mut low, mut high) = (L::mul_low(a, b), L::mul_high(a, b));
            L::pin(&mut low);
            L::pin(&mut high);
            [low, high]
        }
    }

    /// Adds ciphertext vector `v` to the sum.
    #[inline(always)]
    unsafe fn add(&mut self, v: L::V) {
        if SUM {
            // SAFETY: as the caller vouches.
            unsafe {
                self.total = L::add64(self.total, v);
                self.total_high = L::add64(self.total_high, L::high32(v));
                L::pin(&mut self.total);
                L::pin(&mut self.total_high);
            }
        }
    }

    /// After a batch of `blocks` blocks: goes to its powers' end, and reduces if the aggregate is full.
    #[inline(always)]
    unsafe fn advance(&mut self, blocks: usize) {
        self.power += blocks;
        self.room -= blocks;
        // SAFETY: as the caller vouches.
        unsafe {
            self.carry = L::zero();
            if self.room == 0 {
                self.carry = L::second(self.reduced([_mm_setzero_si128(); 3]));
                (self.low, self.middle, self.high) = (L::zero(), L::zero(), L::zero());
                self.left -= AGGREGATE;
                let last = self.left < POWERS;
                self.power = if last { POWERS - self.left } else { POWERS - AGGREGATE - 1 };
                self.room = if last { usize::MAX } else { AGGREGATE };
            }
        }
    }

    /// The hash so far, with `more` products.
    #[inline(always)]
    unsafe fn reduced(&self, more: [__m128i; 3]) -> __m128i {
        // SAFETY: as the caller vouches.
        unsafe {
            let low = _mm_xor_si128(L::fold(self.low), more[0]);
            let middle = _mm_xor_si128(L::fold(self.middle), more[1]);
            let high = _mm_xor_si128(L::fold(self.high), more[2]);
            reduce(low, _mm_xor_si128(middle, _mm_xor_si128(low, high)), high)
        }
    }

    /// The total as a sum of 16-bit little-endian words.
    #[inline(always)]
    unsafe fn sum(&self) -> u64 {
        let mut totals = Scratch::<{ 16 * WIDEST }>([0; 16 * WIDEST]);
        let mut highs = Scratch::<{ 16 * WIDEST }>([0; 16 * WIDEST]);
        // SAFETY: as the caller vouches; the arrays hold the widest vector.
        unsafe {
            L::store(totals.0.as_mut_ptr(), self.total);
            L::store(highs.0.as_mut_ptr(), self.total_high);
        }
        let mut sum = 0u64;
        for (total, high) in totals.0.as_chunks::<8>().0.iter().zip(highs.0.as_chunks::<8>().0) {
            let (total, high) = (u64::from_le_bytes(*total), u64::from_le_bytes(*high));
            let low = total.wrapping_sub(high << 32);
            for part in [low, high] {
                sum += (part & 0xffff_ffff) + (part >> 32);
            }
        }
        sum
    }
}

/// The counter and what it starts the cipher with.
struct Counter {
    /// The state after round 1 of the block with low counter byte 0, in this run of 256.
    base: __m128i,
    nonce: __m128i,
    key: [__m128i; 2],
    low: usize,
    high: u32,
}

impl Counter {
    #[inline(always)]
    unsafe fn new<L: GcmLanes>(context: &Context, message: &Message<'_>) -> (Counter, __m128i) {
        // SAFETY: twelve bytes of nonce are read as eight and four.
        unsafe {
            let start = message.nonce.as_ptr();
            let nonce = _mm_insert_epi32::<2>(
                _mm_loadl_epi64(start.cast()),
                i32::from_le_bytes([*start.add(8), *start.add(9), *start.add(10), *start.add(11)]),
            );
            let key = [
                _mm_loadu_si128(context.keys.as_ptr().cast()),
                _mm_loadu_si128(context.keys.as_ptr().add(L::BYTES).cast()),
            ];
            let zero = _mm_setzero_si128();
            let mut counter = Counter { base: zero, nonce, key, low: 0, high: 0 };
            let first = counter.base(0);
            counter.low = (message.counter & 255) as usize;
            counter.high = message.counter >> 8;
            counter.base = if counter.high == 0 { first } else { counter.base(counter.high) };
            (counter, _mm_xor_si128(first, _mm_loadu_si128(context.counter.as_ptr().add(1).cast())))
        }
    }

    /// The state after round 1 of counter `high << 8`.
    #[inline(always)]
    unsafe fn base(&self, high: u32) -> __m128i {
        // SAFETY: AES-NI and SSE4.1, as the caller vouches.
        unsafe {
            let block = _mm_insert_epi32::<3>(self.nonce, (high << 8).swap_bytes() as i32);
            _mm_aesenc_si128(_mm_xor_si128(block, self.key[0]), self.key[1])
        }
    }

    /// The states after round 1 of the next `M` vectors.
    #[inline(always)]
    unsafe fn start<L: GcmLanes, const M: usize>(&mut self, context: &Context) -> [L::V; M] {
        // SAFETY: the table goes on behind its 256 entries for more than a batch.
        unsafe {
            let mut table: *const u8 = context.counter.as_ptr().add(self.low).cast();
            let mut wrapped = core::mem::MaybeUninit::<Scratch<{ N * 16 * WIDEST }>>::uninit();
            let wrapped: *mut u8 = wrapped.as_mut_ptr().cast();
            self.low += M * L::BLOCKS;
            if self.low >= 256 {
                self.wrap::<L, M>(table, wrapped);
                table = wrapped;
            }
            let base = L::broadcast(self.base);
            let mut states = [base; M];
            for (i, state) in states.iter_mut().enumerate() {
                *state = L::xor(base, L::load(table.add(i * L::BYTES)));
            }
            states
        }
    }

    /// Goes on to the next 256 counters, and writes to `wrapped` the `M` vectors at `table`, changed so
    /// that with the new base they give the blocks before the wrap their old one.
    #[inline(always)]
    unsafe fn wrap<L: GcmLanes, const M: usize>(&mut self, table: *const u8, wrapped: *mut u8) {
        // SAFETY: as in `start`; the array holds the difference for a whole vector, then zeros.
        unsafe {
            let old = self.base;
            self.low -= 256;
            self.high = self.high.wrapping_add(1) & 0x00ff_ffff;
            self.base = self.base(self.high);
            let mut changes = Scratch::<{ 32 * WIDEST }>([0; 32 * WIDEST]);
            L::store(changes.0.as_mut_ptr(), L::broadcast(_mm_xor_si128(old, self.base)));
            for i in 0..M {
                // Blocks of this vector that come after the wrap.
                let after =
                    (self.low + (i + 1) * L::BLOCKS).saturating_sub(M * L::BLOCKS).min(L::BLOCKS);
                let change = L::load(changes.0.as_ptr().add(16 * after));
                L::store(
                    wrapped.add(i * L::BYTES),
                    L::xor(change, L::load(table.add(i * L::BYTES))),
                );
            }
        }
    }
}

/// Which parts of GHASH on `vectors` vectors stand after middle round `round` of `of`.
#[inline(always)]
fn parts(vectors: usize, round: usize, of: usize) -> core::ops::Range<usize> {
    let parts = vectors / 2 * 3;
    round * parts / of..(round + 1) * parts / of
}

/// The products of `block` and the power at `index`: low, middle (Karatsuba's), high.
#[inline(always)]
unsafe fn product(context: &Context, block: __m128i, index: usize) -> [__m128i; 3] {
    // SAFETY: `index` is within the table; PCLMULQDQ, as the caller vouches.
    unsafe {
        let power = narrow(&context.powers[index]);
        let middle = narrow(&context.middles[index]);
        let halves = _mm_xor_si128(block, _mm_shuffle_epi32::<0x4e>(block));
        [
            _mm_clmulepi64_si128::<0x00>(block, power),
            _mm_clmulepi64_si128::<0x00>(halves, middle),
            _mm_clmulepi64_si128::<0x11>(block, power),
        ]
    }
}

/// The last block of the additional data, with the hash of those before it. `None`: no data.
#[inline(always)]
unsafe fn additional(context: &Context, aad: &[u8]) -> Option<__m128i> {
    // SAFETY: SSSE3 and PCLMULQDQ, as the caller vouches.
    unsafe {
        if let Ok(block) = <&[u8; 16]>::try_from(aad) {
            return Some(_mm_shuffle_epi8(narrow(block), narrow(&REVERSE)));
        }
        if aad.is_empty() { None } else { Some(additional_long(context, aad)) }
    }
}

/// The same for any length but 0 and 16.
#[inline(never)]
#[target_feature(enable = "ssse3,pclmulqdq")]
fn additional_long(context: &Context, aad: &[u8]) -> __m128i {
    let mut hash = _mm_setzero_si128();
    for (i, bytes) in aad.chunks(16).enumerate() {
        let mut block = [0; 16];
        block[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: arrays of sixteen bytes.
        let (block, first) = unsafe { (narrow(&block), narrow(&context.powers[POWERS - 1])) };
        if i > 0 {
            hash = multiply(hash, first);
        }
        // SAFETY: an array of sixteen bytes.
        hash = _mm_xor_si128(hash, _mm_shuffle_epi8(block, unsafe { narrow(&REVERSE) }));
    }
    hash
}

/// The cipher's block for counter 1, from its state after round 1: what masks the tag.
#[inline(always)]
unsafe fn tag_mask<L: GcmLanes, const ROUNDS: usize>(context: &Context, start: __m128i) -> __m128i {
    // SAFETY: AES-NI, as the caller vouches; round keys of this context at the level's width.
    unsafe {
        let mut mask = start;
        for round in 2..ROUNDS {
            let key = context.keys.as_ptr().add(round * L::BYTES);
            mask = _mm_aesenc_si128(mask, _mm_loadu_si128(key.cast()));
        }
        let key = context.keys.as_ptr().add(ROUNDS * L::BYTES);
        _mm_aesenclast_si128(mask, _mm_loadu_si128(key.cast()))
    }
}

/// Ciphertext vector `i` for GHASH: sealing, of the batch before, from `scratch`; opening, of this one,
/// from the source, and kept in `scratch` for the cipher.
#[inline(always)]
unsafe fn fresh<L: GcmLanes, const SEAL: bool, const ELEMENT: usize>(
    edge: &impl Edge<L, ELEMENT>,
    scratch: *mut u8,
    i: usize,
) -> L::V {
    // SAFETY: `i` is a vector of the batch at `edge` and `scratch`.
    unsafe {
        let kept = scratch.add(i * L::BYTES);
        if SEAL {
            return L::load(kept);
        }
        let v = edge.load(i);
        L::store(kept, v);
        v
    }
}

/// `M` vectors: the cipher over them, and GHASH over `G` of the ciphertext's (0: none yet). Sealing,
/// GHASH takes its vectors from `scratch` before the new ones go there; opening, from the source.
#[inline(always)]
unsafe fn batch<
    L: GcmLanes,
    const ROUNDS: usize,
    const M: usize,
    const G: usize,
    const SEAL: bool,
    const ELEMENT: usize,
    const SUM: bool,
>(
    context: &Context,
    counter: &mut Counter,
    digest: &mut Digest<L, SUM>,
    edge: &mut impl Edge<L, ELEMENT>,
    scratch: *mut u8,
) {
    // SAFETY: `M` vectors at `edge` and `scratch`, as the caller vouches.
    unsafe {
        let mut states = counter.start::<L, M>(context);
        macro_rules! round {
            ($($r:literal)*) => {$(
                if $r < ROUNDS {
                    let key = L::load(context.keys.as_ptr().add($r * L::BYTES));
                    for state in &mut states {
                        *state = L::aes_round(*state, key);
                        L::pin(state);
                    }
                    for part in parts(G, $r - 2, ROUNDS - 2) {
                        let (pair, part) = (part / 3, part % 3);
                        let v = if part < 2 { fresh::<L, SEAL, ELEMENT>(edge, scratch, 2 * pair + part) } else { L::zero() };
                        digest.step(context, pair, part, v);
                    }
                }
            )*};
        }
        round!(2 3 4 5 6 7 8 9 10 11 12 13);
        if G > 0 {
            digest.advance(G * L::BLOCKS);
        }
        let key = L::load(context.keys.as_ptr().add(ROUNDS * L::BYTES));
        for (i, state) in states.into_iter().enumerate() {
            let kept = scratch.add(i * L::BYTES);
            if SEAL {
                let v = edge.swap(i, edge.load(i));
                let v = edge.trim(i, L::aes_last(state, L::xor(key, v)));
                edge.store(i, v);
                L::store(kept, v);
                digest.add(v);
            } else {
                let v = L::load(kept);
                digest.add(v);
                let v = edge.swap(i, L::aes_last(state, L::xor(key, v)));
                edge.store(i, v);
            }
        }
    }
}

/// GHASH over `G` vectors at `scratch`, with nothing beside it.
#[inline(always)]
unsafe fn drain<L: GcmLanes, const G: usize, const SUM: bool>(
    context: &Context,
    digest: &mut Digest<L, SUM>,
    scratch: *const u8,
) {
    for pair in 0..G / 2 {
        // SAFETY: `G` vectors at `scratch`, as the caller vouches.
        unsafe {
            digest.step(context, pair, 0, L::load(scratch.add(2 * pair * L::BYTES)));
            digest.step(context, pair, 1, L::load(scratch.add((2 * pair + 1) * L::BYTES)));
            digest.step(context, pair, 2, L::zero());
        }
    }
}

/// The last `left` bytes, in `M` vectors; `pending` as in `run`.
#[inline(always)]
unsafe fn tail<
    L: GcmLanes,
    const ROUNDS: usize,
    const M: usize,
    const SEAL: bool,
    const ELEMENT: usize,
    const SUM: bool,
>(
    context: &Context,
    counter: &mut Counter,
    digest: &mut Digest<L, SUM>,
    end: &Message<'_>,
    scratch: *mut u8,
    pending: bool,
) {
    // SAFETY: `end` has the bytes, as the caller vouches; `M` vectors hold them.
    unsafe {
        let mut edge = Ragged::<L, M>::new(end.src, end.dst, end.len);
        if !SEAL {
            batch::<L, ROUNDS, M, M, SEAL, ELEMENT, SUM>(
                context, counter, digest, &mut edge, scratch,
            );
        } else if pending {
            batch::<L, ROUNDS, M, N, SEAL, ELEMENT, SUM>(
                context, counter, digest, &mut edge, scratch,
            );
        } else {
            batch::<L, ROUNDS, M, 0, SEAL, ELEMENT, SUM>(
                context, counter, digest, &mut edge, scratch,
            );
        }
        edge.finish();
        if SEAL {
            drain::<L, M, SUM>(context, digest, scratch);
        }
    }
}

/// The whole message. `SEAL` or open; `ELEMENT` bytes are swapped (1: none); `SUM` or not.
///
/// # Safety
/// The CPU must have the instructions of `L`; `context` must be filled for `L` and `ROUNDS`; `src` and
/// `dst` must be good for `len` bytes of reads and writes, and not overlap.
#[inline(always)]
pub(super) unsafe fn run<
    L: GcmLanes,
    const ROUNDS: usize,
    const SEAL: bool,
    const ELEMENT: usize,
    const SUM: bool,
>(
    context: &Context,
    message: Message<'_>,
) -> Outcome {
    // SAFETY: as this function's contract; each batch is within `len`.
    unsafe {
        let (mut counter, start) = Counter::new::<L>(context, &message);
        let mask = tag_mask::<L, ROUNDS>(context, start);
        let mut digest = Digest::<L, SUM>::new(context, &message);
        let lengths = _mm_set_epi64x(8 * message.aad.len() as i64, 8 * message.len as i64);
        let lengths = product(context, lengths, POWERS - 1);

        let mut scratch = core::mem::MaybeUninit::<Scratch<{ N * 16 * WIDEST }>>::uninit();
        let scratch: *mut u8 = scratch.as_mut_ptr().cast();
        let mut end = message;
        // Sealing, a batch lies in `scratch` that GHASH has not seen.
        let mut pending = false;
        while end.len >= N * L::BYTES {
            let mut edge = Whole { src: end.src, dst: end.dst };
            if !SEAL || pending {
                batch::<L, ROUNDS, N, N, SEAL, ELEMENT, SUM>(
                    context,
                    &mut counter,
                    &mut digest,
                    &mut edge,
                    scratch,
                );
            } else {
                batch::<L, ROUNDS, N, 0, SEAL, ELEMENT, SUM>(
                    context,
                    &mut counter,
                    &mut digest,
                    &mut edge,
                    scratch,
                );
            }
            pending = SEAL;
            end.src = end.src.add(N * L::BYTES);
            end.dst = end.dst.add(N * L::BYTES);
            end.len -= N * L::BYTES;
        }
        let (c, d) = (&mut counter, &mut digest);
        match end.len.div_ceil(2 * L::BYTES) {
            0 if pending => drain::<L, N, SUM>(context, d, scratch),
            0 => {}
            1 => tail::<L, ROUNDS, 2, SEAL, ELEMENT, SUM>(context, c, d, &end, scratch, pending),
            2 => tail::<L, ROUNDS, 4, SEAL, ELEMENT, SUM>(context, c, d, &end, scratch, pending),
            3 => tail::<L, ROUNDS, 6, SEAL, ELEMENT, SUM>(context, c, d, &end, scratch, pending),
            _ => tail::<L, ROUNDS, 8, SEAL, ELEMENT, SUM>(context, c, d, &end, scratch, pending),
        }
        let hash = digest.reduced(lengths);
        let tag = _mm_xor_si128(_mm_shuffle_epi8(hash, narrow(&REVERSE)), mask);
        Outcome { tag, sum: if SUM { digest.sum() } else { 0 } }
    }
}

#[inline(always)]
unsafe fn narrow(block: &[u8; 16]) -> __m128i {
    // SAFETY: sixteen bytes.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}
