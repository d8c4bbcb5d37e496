//! The counter, and the cipher's state after its first round.
//!
//! Within 256 blocks only the last byte of the counter changes, and with it one column of the state
//! after round 1. So a table of that change, one for each byte, and the state of byte 0 (`base`) stand
//! for the counter's arithmetic, round 0 and round 1. The table's index is public.

use super::context::Context;
use super::fused::{Message, N, Scratch, WIDEST};
use crate::arch::Vector;
use core::arch::x86_64::*;

/// The counter and what it starts the cipher with.
pub(super) struct Counter {
    /// The state after round 1 of the block with low counter byte 0, in this run of 256.
    base: __m128i,
    nonce: __m128i,
    key: [__m128i; 2],
    low: usize,
    high: u32,
}

impl Counter {
    #[inline(always)]
    pub(super) unsafe fn new<V: Vector>(
        context: &Context,
        message: &Message<'_>,
    ) -> (Counter, __m128i) {
        // SAFETY: twelve bytes of nonce are read as eight and four.
        unsafe {
            let start = message.nonce.as_ptr();
            let nonce = _mm_insert_epi32::<2>(
                _mm_loadl_epi64(start.cast()),
                i32::from_le_bytes([*start.add(8), *start.add(9), *start.add(10), *start.add(11)]),
            );
            let key = [
                _mm_loadu_si128(context.keys.as_ptr().cast()),
                _mm_loadu_si128(context.keys.as_ptr().add(V::BYTES).cast()),
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
    pub(super) unsafe fn start<V: Vector, const M: usize>(&mut self, context: &Context) -> [V; M] {
        // SAFETY: the table goes on behind its 256 entries for more than a batch.
        unsafe {
            let mut table: *const u8 = context.counter.as_ptr().add(self.low).cast();
            let mut wrapped = core::mem::MaybeUninit::<Scratch<{ N * 16 * WIDEST }>>::uninit();
            let wrapped: *mut u8 = wrapped.as_mut_ptr().cast();
            self.low += M * V::BLOCKS;
            if self.low >= 256 {
                self.wrap::<V, M>(table, wrapped);
                table = wrapped;
            }
            let base = V::broadcast(self.base);
            let mut states = [base; M];
            for (i, state) in states.iter_mut().enumerate() {
                *state = V::xor(base, V::load(table.add(i * V::BYTES)));
            }
            states
        }
    }

    /// Goes on to the next 256 counters, and writes to `wrapped` the `M` vectors at `table`, changed so
    /// that with the new base they give the blocks before the wrap their old one.
    #[inline(always)]
    unsafe fn wrap<V: Vector, const M: usize>(&mut self, table: *const u8, wrapped: *mut u8) {
        // SAFETY: as in `start`; the array holds the difference for a whole vector, then zeros.
        unsafe {
            let old = self.base;
            self.low -= 256;
            self.high = self.high.wrapping_add(1) & 0x00ff_ffff;
            self.base = self.base(self.high);
            let mut changes = Scratch::<{ 32 * WIDEST }>([0; 32 * WIDEST]);
            V::store(changes.0.as_mut_ptr(), V::broadcast(_mm_xor_si128(old, self.base)));
            for i in 0..M {
                // Blocks of this vector that come after the wrap.
                let after =
                    (self.low + (i + 1) * V::BLOCKS).saturating_sub(M * V::BLOCKS).min(V::BLOCKS);
                let change = V::load(changes.0.as_ptr().add(16 * after));
                V::store(
                    wrapped.add(i * V::BYTES),
                    V::xor(change, V::load(table.add(i * V::BYTES))),
                );
            }
        }
    }
}
