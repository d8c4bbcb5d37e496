//! GHASH and the Internet sum, in parts that the loop puts between the cipher's rounds.
//!
//! With blocks `c[i]`, GHASH is the sum of `c[i] * H^(n - i)`. Products are added unreduced, low, middle
//! and high halves (Karatsuba) apart, each lane of a vector by itself, over an aggregate of blocks. An
//! aggregate that is not the last leaves its hash times `H`, and this is added to the second block of
//! the next, whose power is one less than the first's: so the first block of every aggregate can meet
//! its power at the begin of a cache line.

use super::context::{AGGREGATE, Context, POWERS, REVERSE, multiply, reduce};
use super::fused::{HashStart, Message};
use super::narrow;
use crate::arch::Vector;
use core::arch::x86_64::*;

/// The state of GHASH and of the sum while they run beside the cipher.
pub(super) struct Digest<V: Vector, const FUSED: bool> {
    low: V,
    middle: V,
    high: V,
    /// The first ciphertext vector of a pair, reversed, until the middle products.
    first: V,
    second: V,
    /// The hash of the aggregates before, times H, at the place of the second block of a batch.
    carry: V,
    total: V,
    total_high: V,
    /// Index of the power that meets the first block of the next batch.
    power: usize,
    /// Blocks that are still to come, the lengths among them.
    left: usize,
    /// Blocks left in this aggregate; of no meaning in the last.
    room: usize,
}

impl<V: Vector, const FUSED: bool> Digest<V, FUSED> {
    /// Begins with what comes before the first block.
    #[inline(always)]
    pub(super) unsafe fn new(context: &Context, message: &Message<'_>) -> Self {
        // SAFETY: vectors of the level that the caller vouches for.
        unsafe {
            let zero = V::zero();
            let left = message.len.div_ceil(16) + usize::from(message.lengths.is_some());
            let power = if left < POWERS { POWERS - left } else { POWERS - AGGREGATE - 1 };
            let [mut low, mut middle, mut high] = [zero; 3];
            let start = match message.start {
                // One block before the first.
                HashStart::Aad(aad) => (additional(context, aad), power - 1),
                // To be added to the first.
                HashStart::Hash(hash) => (Some(narrow(hash)), power),
            };
            if let (Some(block), index) = start {
                let products = product(context, block, index);
                [low, middle, high] =
                    [V::first(products[0]), V::first(products[1]), V::first(products[2])];
            }
            let (first, second, carry, total, total_high) = (zero, zero, zero, zero, zero);
            let room = if left < POWERS { usize::MAX } else { AGGREGATE };
            Digest { low, middle, high, first, second, carry, total, total_high, power, left, room }
        }
    }

    /// A part of the work on ciphertext vectors `2 * pair` and `2 * pair + 1` of a batch: 0 and 1
    /// multiply the outer halves of one, `v`, 2 the middle of both.
    #[inline(always)]
    pub(super) unsafe fn step(&mut self, context: &Context, pair: usize, part: usize, v: V) {
        // SAFETY: `power` plus a batch stays within the table and the zeros behind it.
        unsafe {
            if part < 2 {
                let i = 2 * pair + part;
                let mut v = V::shuffle(v, V::repeat(&REVERSE));
                // Otherwise LLVM makes one shuffle of this and of the unpacking below: four of two.
                V::pin(&mut v);
                if i == 1 / V::BLOCKS {
                    v = V::xor(v, self.carry);
                }
                let power = V::load(context.powers.as_ptr().add(self.power + i * V::BLOCKS).cast());
                let [low, high] = Self::products(v, power);
                self.low = V::xor(self.low, low);
                self.high = V::xor(self.high, high);
                V::pin(&mut self.low);
                V::pin(&mut self.high);
                if part == 0 { self.first = v } else { self.second = v }
            } else {
                let halves = V::xor(
                    V::unpack_low(self.first, self.second),
                    V::unpack_high(self.first, self.second),
                );
                let middles = context.middles.as_ptr().add(self.power + 2 * pair * V::BLOCKS);
                let power = V::load(middles.cast());
                let [near, far] = Self::products(halves, power);
                self.middle = V::xor(V::xor(self.middle, near), far);
                V::pin(&mut self.middle);
            }
        }
    }

    /// The products of low and of high halves, made one right after the other: Zen 4 dispatches nothing
    /// else in the cycle of a carry-less product, and a lone instruction between two costs a cycle.
    #[inline(always)]
    unsafe fn products(mut a: V, mut b: V) -> [V; 2] {
        // SAFETY: as the caller vouches.
        unsafe {
            V::pin(&mut a);
            V::pin(&mut b);
            let (mut low, mut high) = (V::mul_low(a, b), V::mul_high(a, b));
            V::pin(&mut low);
            V::pin(&mut high);
            [low, high]
        }
    }

    /// Adds ciphertext vector `v` to the sum.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, v: V) {
        if FUSED {
            // SAFETY: as the caller vouches.
            unsafe {
                self.total = V::add64(self.total, v);
                self.total_high = V::add64(self.total_high, V::high32(v));
                V::pin(&mut self.total);
                V::pin(&mut self.total_high);
            }
        }
    }

    /// After a batch of `blocks` blocks: goes to its powers' end, and reduces if the aggregate is full.
    #[inline(always)]
    pub(super) unsafe fn advance(&mut self, blocks: usize) {
        self.power += blocks;
        self.room -= blocks;
        // SAFETY: as the caller vouches.
        unsafe {
            self.carry = V::zero();
            if self.room == 0 {
                self.carry = V::second(self.reduced([_mm_setzero_si128(); 3]));
                (self.low, self.middle, self.high) = (V::zero(), V::zero(), V::zero());
                self.left -= AGGREGATE;
                let last = self.left < POWERS;
                self.power = if last { POWERS - self.left } else { POWERS - AGGREGATE - 1 };
                self.room = if last { usize::MAX } else { AGGREGATE };
            }
        }
    }

    /// The hash so far, with `more` products.
    #[inline(always)]
    pub(super) unsafe fn reduced(&self, more: [__m128i; 3]) -> __m128i {
        // SAFETY: as the caller vouches.
        unsafe {
            let low = _mm_xor_si128(V::fold(self.low), more[0]);
            let middle = _mm_xor_si128(V::fold(self.middle), more[1]);
            let high = _mm_xor_si128(V::fold(self.high), more[2]);
            reduce(low, _mm_xor_si128(middle, _mm_xor_si128(low, high)), high)
        }
    }

    /// The total as a sum of 16-bit little-endian words.
    #[inline(always)]
    pub(super) unsafe fn sum(&self) -> u64 {
        // SAFETY: as the caller vouches.
        unsafe {
            let low = V::sub64(self.total, V::shl64::<32>(self.total_high));
            let low = V::add64(V::low32(low), V::high32(low));
            let high = V::add64(V::low32(self.total_high), V::high32(self.total_high));
            V::sum64(V::add64(low, high))
        }
    }
}

/// The products of `block` and the power at `index`: low, middle (Karatsuba's), high.
#[inline(always)]
pub(super) unsafe fn product(context: &Context, block: __m128i, index: usize) -> [__m128i; 3] {
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
