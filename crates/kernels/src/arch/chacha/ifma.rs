//! Poly1305 in eight lanes of 64 bits, with products of 52 bits (AVX-512 IFMA: `vpmadd52luq`, `vpmadd52huq`).
//!
//! The algorithm is written over [`Lanes52`], whose methods are an instruction each; a model of them in plain Rust runs
//! it in tests on every machine. A number has limbs of 44, 44 and 42 bits, and 2^132 is 20 modulo the prime:
//!
//! ```text
//! b·2^44(i+j):  its low 52 bits stay, what is above comes times 2^8 into the next limb; limbs past the third come
//!               back times 20, which is in the factor already
//! turn          acc = acc·r^8 + (m0, …, m7)                                  a block a lane
//! end, k more   h = sum over lanes j of acc·r^(7-j+k) + m·r^(k-1-j)          the last block not multiplied yet
//! ```
//! Bounds: what is multiplied is below 2^46, factors times 20 below 2^49; six low parts of 2^52 and what is carried stay
//! below 2^57.
#![forbid(unsafe_code)]

use crate::stages::{Poly1305, product};
use zeroize::Zeroize;

/// Eight lanes of 64 bits.
pub(super) trait Lanes52: Copy {
    type V: Copy;
    fn splat(self, x: u64) -> Self::V;
    fn load(self, from: &[u64; 8]) -> Self::V;
    fn store(self, to: &mut [u64; 8], x: Self::V);
    /// The low and the high words of eight blocks; block `i`, of the first four, is in lane `2i`, block `i + 4` in lane
    /// `2i + 1`.
    fn words(self, blocks: &[u8; 128]) -> [Self::V; 2];
    /// What was in the order of blocks in the order of `words`.
    fn order(self, x: Self::V) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    fn left<const BITS: u32>(self, x: Self::V) -> Self::V;
    fn right<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// `sum` and the low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn add_low(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// `sum` and the high 52 bits of that product.
    fn add_high(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V;
}

/// Limbs of a number in every lane.
pub(super) type Number<L> = [<L as Lanes52>::V; 3];

const BITS_44: u64 = (1 << 44) - 1;
const BITS_42: u64 = (1 << 42) - 1;

/// Limbs of 44 bits of a number in limbs of 64, the highest of which is small.
fn limbs([low, middle, high]: [u64; 3]) -> [u64; 3] {
    [low & BITS_44, (low >> 44 | middle << 20) & BITS_44, middle >> 24 | high << 40]
}

/// Accumulator and powers of one message.
#[derive(Clone, Default, Zeroize)]
#[repr(C, align(64))]
pub(crate) struct Wide {
    /// The accumulator's limbs, once `begun`.
    acc: [[u64; 8]; 3],
    /// Limbs of powers of the multiplier: the 15th to the 0th, and zeros.
    falling: [[u64; 24]; 3],
    /// Limbs of the 8th, and those but the lowest times 20.
    eighth: [u64; 5],
    /// There are powers: the message is long enough.
    set: bool,
    begun: bool,
}

/// What is multiplied with: limbs, and those but the lowest times 20.
#[derive(Clone, Copy)]
struct Factor<L: Lanes52>([L::V; 5]);

impl<L: Lanes52> Factor<L> {
    #[inline(always)]
    fn of(lanes: L, [a, b, c]: Number<L>) -> Self {
        let times_20 = |x| lanes.add(lanes.left::<4>(x), lanes.left::<2>(x));
        Factor([a, b, c, times_20(b), times_20(c)])
    }

    /// Eight lanes of powers from `at` on, in the order of blocks.
    #[inline(always)]
    fn falling(lanes: L, powers: &[[u64; 24]; 3], at: usize) -> Self {
        let [a, b, c] = powers;
        let eight = |limb: &[u64; 24]| {
            let eight = limb[at..].first_chunk().expect("eight from 16 on at most");
            lanes.order(lanes.load(eight))
        };
        Factor::of(lanes, [eight(a), eight(b), eight(c)])
    }
}

/// Sums of products, not carried: low parts of limbs, and high parts.
struct Sums<L: Lanes52>([L::V; 3], [L::V; 3]);

impl<L: Lanes52> Sums<L> {
    #[inline(always)]
    fn new(lanes: L) -> Self {
        let zero = lanes.splat(0);
        Sums([zero; 3], [zero; 3])
    }

    #[inline(always)]
    fn add(&mut self, lanes: L, [a0, a1, a2]: Number<L>, factor: &Factor<L>) {
        let Factor([b0, b1, b2, s1, s2]) = *factor;
        let rows = [
            [(a0, b0), (a1, s2), (a2, s1)],
            [(a0, b1), (a1, b0), (a2, s2)],
            [(a0, b2), (a1, b1), (a2, b0)],
        ];
        let Sums(low, high) = self;
        for ((low, high), row) in low.iter_mut().zip(high).zip(rows) {
            for (a, b) in row {
                *low = lanes.add_low(*low, a, b);
                *high = lanes.add_high(*high, a, b);
            }
        }
    }

    /// Limbs of 44, 44 and 42 bits, of which the second may reach 2^44.
    #[inline(always)]
    fn carried(self, lanes: L) -> Number<L> {
        let Sums([l0, l1, l2], [h0, h1, h2]) = self;
        let (bits_44, bits_42) = (lanes.splat(BITS_44), lanes.splat(BITS_42));
        // 20·2^8 = 2^12 + 2^10.
        let above = lanes.add(lanes.left::<12>(h2), lanes.left::<10>(h2));
        let t0 = lanes.add(l0, above);
        let t1 = lanes.add(lanes.add(l1, lanes.left::<8>(h0)), lanes.right::<44>(t0));
        let t2 = lanes.add(lanes.add(l2, lanes.left::<8>(h1)), lanes.right::<44>(t1));
        let over = lanes.right::<42>(t2);
        let over = lanes.add(over, lanes.left::<2>(over));
        let t0 = lanes.add(lanes.and(t0, bits_44), over);
        let t1 = lanes.add(lanes.and(t1, bits_44), lanes.right::<44>(t0));
        [lanes.and(t0, bits_44), t1, lanes.and(t2, bits_42)]
    }
}

/// The limbs of eight blocks, and 2^128 of those that `bit` has it for.
#[inline(always)]
fn blocks<L: Lanes52>(lanes: L, bytes: &[u8; 128], bit: L::V) -> Number<L> {
    let [low, high] = lanes.words(bytes);
    let mask = lanes.splat(BITS_44);
    let middle = lanes.or(lanes.right::<44>(low), lanes.left::<20>(high));
    [lanes.and(low, mask), lanes.and(middle, mask), lanes.or(lanes.right::<24>(high), bit)]
}

/// Where 2^128 is in the third limb.
const BIT: u64 = 1 << 40;

/// Least number of bytes of a message for which powers are worth making.
const SHORTEST: usize = 320;

impl Wide {
    /// The powers for a message of `len` bytes. Call for every message.
    #[inline(always)]
    pub(super) fn set<L: Lanes52>(&mut self, lanes: L, poly: &Poly1305, len: usize) {
        (self.begun, self.set) = (false, len >= SHORTEST);
        if !self.set {
            return;
        }
        let first = [poly.r[0], poly.r[1], 0];
        let second = poly.times(first);
        let third = poly.times(second);
        let fourth = poly.times(third);
        let eighth = limbs(product(fourth, fourth));
        let (few, fourth) = ([[1, 0, 0], first, second, third].map(limbs), limbs(fourth));
        // Lane l: the power 7 - l, and that times the 8th.
        let (mut a, mut b) = ([[0; 8]; 3], [[0; 8]; 3]);
        for lane in 0..8 {
            let power = 7 - lane;
            for limb in 0..3 {
                a[limb][lane] = few[power % 4][limb];
                b[limb][lane] = if power < 4 { few[0][limb] } else { fourth[limb] };
            }
        }
        let [a, b] = [a, b].map(|number| number.map(|limb| lanes.load(&limb)));
        let mut sums = Sums::new(lanes);
        sums.add(lanes, a, &Factor::of(lanes, b));
        let low = sums.carried(lanes);
        let mut sums = Sums::new(lanes);
        sums.add(lanes, low, &Factor::of(lanes, eighth.map(|limb| lanes.splat(limb))));
        let high = sums.carried(lanes);
        for ((falling, low), high) in self.falling.iter_mut().zip(low).zip(high) {
            let (eights, _) = falling.as_chunks_mut::<8>();
            lanes.store(&mut eights[0], high);
            lanes.store(&mut eights[1], low);
        }
        let [_, middle, top] = eighth;
        self.eighth = [eighth[0], middle, top, 20 * middle, 20 * top];
    }

    /// The factor of a turn.
    #[inline(always)]
    fn factor<L: Lanes52>(&self, lanes: L) -> Factor<L> {
        let [a, b, c, d, e] = self.eighth;
        Factor([lanes.splat(a), lanes.splat(b), lanes.splat(c), lanes.splat(d), lanes.splat(e)])
    }

    /// Whether [`Wide::begin`] can be called for so many bytes: there are powers, and all goes this way.
    #[inline(always)]
    pub(super) fn takes(&self, bytes: usize) -> bool {
        self.set && (self.begun || bytes >= 128)
    }

    /// Takes the first eight blocks of what follows, and the accumulator as it is.
    #[inline(always)]
    pub(super) fn begin<L: Lanes52>(
        &mut self,
        lanes: L,
        poly: &Poly1305,
        bytes: &[u8; 128],
    ) -> Turns<L> {
        let mut turns = Turns { factor: self.factor(lanes), acc: [lanes.splat(0); 3] };
        for (acc, limb) in turns.acc.iter_mut().zip(&self.acc) {
            *acc = lanes.load(limb);
        }
        if self.begun {
            turns.turn(lanes, bytes);
            return turns;
        }
        self.begun = true;
        let mut start = [[0; 8]; 3];
        for (lanes, limb) in start.iter_mut().zip(limbs(poly.times(poly.h))) {
            lanes[0] = limb;
        }
        let first = blocks(lanes, bytes, lanes.splat(BIT));
        for ((acc, start), block) in turns.acc.iter_mut().zip(&start).zip(first) {
            *acc = lanes.add(lanes.load(start), block);
        }
        turns
    }

    /// Keeps the accumulator for the next batch.
    #[inline(always)]
    pub(super) fn keep<L: Lanes52>(&mut self, lanes: L, turns: &Turns<L>) {
        for (to, acc) in self.acc.iter_mut().zip(turns.acc) {
            lanes.store(to, acc);
        }
    }

    /// Absorbs the last bytes, at least 128 if nothing was absorbed before, filled up to a block. The accumulator is in
    /// `poly` then.
    #[inline(always)]
    pub(super) fn end<L: Lanes52>(&mut self, lanes: L, poly: &mut Poly1305, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<128>();
        if let Some((first, eights)) = eights.split_first() {
            let mut turns = self.begin(lanes, poly, first);
            for eight in eights {
                turns.turn(lanes, eight);
            }
            self.keep(lanes, &turns);
        }
        debug_assert!(self.begun);
        let more = rest.len().div_ceil(16);
        let (mut last, mut bits) = ([0; 128], [0; 8]);
        last[..rest.len()].copy_from_slice(rest);
        bits[..more].fill(BIT);
        let mut acc = [lanes.splat(0); 3];
        for (acc, limb) in acc.iter_mut().zip(&self.acc) {
            *acc = lanes.load(limb);
        }
        let mut sums = Sums::new(lanes);
        sums.add(lanes, acc, &Factor::falling(lanes, &self.falling, 8 - more));
        let last = blocks(lanes, &last, lanes.order(lanes.load(&bits)));
        sums.add(lanes, last, &Factor::falling(lanes, &self.falling, 16 - more));
        let mut totals = [0; 3];
        for (total, limb) in totals.iter_mut().zip(sums.carried(lanes)) {
            let mut each = [0; 8];
            lanes.store(&mut each, limb);
            *total = each.iter().sum();
        }
        poly.h = whole(totals);
    }
}

/// Turns of a batch.
pub(super) struct Turns<L: Lanes52> {
    factor: Factor<L>,
    acc: Number<L>,
}

impl<L: Lanes52> Turns<L> {
    /// Absorbs eight more blocks.
    #[inline(always)]
    pub(super) fn turn(&mut self, lanes: L, bytes: &[u8; 128]) {
        let mut sums = Sums::new(lanes);
        sums.add(lanes, self.acc, &self.factor);
        let more = blocks(lanes, bytes, lanes.splat(BIT));
        for ((acc, limb), more) in self.acc.iter_mut().zip(sums.carried(lanes)).zip(more) {
            *acc = lanes.add(limb, more);
        }
    }
}

/// From limbs of 44 bits, below 2^48, to limbs of 64, the highest of which is at most 4.
#[inline(always)]
fn whole([a, b, c]: [u64; 3]) -> [u64; 3] {
    let low = u128::from(a) + (u128::from(b) << 44);
    let middle = (low >> 64) + (u128::from(c) << 24);
    let top = (middle >> 64) as u64;
    // What lies above 2^130 comes back times 5.
    let low = u128::from(low as u64) + u128::from(5 * (top >> 2));
    let middle = u128::from(middle as u64) + (low >> 64);
    [low as u64, middle as u64, (top & 3) + (middle >> 64) as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Avx2, Avx512, LoopBody, Portable};

    /// What the instructions do.
    #[derive(Clone, Copy)]
    struct Model;

    fn each(a: [u64; 8], b: [u64; 8], f: impl Fn(u64, u64) -> u64) -> [u64; 8] {
        core::array::from_fn(|i| f(a[i], b[i]))
    }

    fn product_52(a: u64, b: u64) -> u128 {
        let low = |x: u64| u128::from(x & ((1 << 52) - 1));
        low(a) * low(b)
    }

    impl Lanes52 for Model {
        type V = [u64; 8];
        fn splat(self, x: u64) -> [u64; 8] {
            [x; 8]
        }
        fn load(self, from: &[u64; 8]) -> [u64; 8] {
            *from
        }
        fn store(self, to: &mut [u64; 8], x: [u64; 8]) {
            *to = x;
        }
        fn words(self, blocks: &[u8; 128]) -> [[u64; 8]; 2] {
            let word = |i: usize| u64::from_le_bytes(blocks[8 * i..][..8].try_into().unwrap());
            let block = |lane: usize| lane / 2 + 4 * (lane % 2);
            [0, 1].map(|half| core::array::from_fn(|lane| word(2 * block(lane) + half)))
        }
        fn order(self, x: [u64; 8]) -> [u64; 8] {
            core::array::from_fn(|lane| x[lane / 2 + 4 * (lane % 2)])
        }
        fn add(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
            // Overflow is a fault of the algorithm.
            each(a, b, |a, b| a.checked_add(b).unwrap())
        }
        fn and(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
            each(a, b, |a, b| a & b)
        }
        fn or(self, a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
            each(a, b, |a, b| a | b)
        }
        fn left<const BITS: u32>(self, x: [u64; 8]) -> [u64; 8] {
            x.map(|x| x << BITS)
        }
        fn right<const BITS: u32>(self, x: [u64; 8]) -> [u64; 8] {
            x.map(|x| x >> BITS)
        }
        fn add_low(self, sum: [u64; 8], a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
            assert!(a.iter().chain(&b).all(|x| x >> 52 == 0), "bits above the 52nd are lost");
            let low = each(a, b, |a, b| (product_52(a, b) & ((1 << 52) - 1)) as u64);
            self.add(sum, low)
        }
        fn add_high(self, sum: [u64; 8], a: [u64; 8], b: [u64; 8]) -> [u64; 8] {
            self.add(sum, each(a, b, |a, b| (product_52(a, b) >> 52) as u64))
        }
    }

    /// The same message through [`Wide`] in batches of 1024 bytes, as the loop has them, and block by block.
    fn check<L: Lanes52>(lanes: L, key: &[u8; 32], message: &[u8], len: usize) {
        let mut one = Poly1305::new(key);
        one.absorb_padded(b"additional data");
        let mut other = one.clone();
        one.absorb_padded(&message[..len]);
        let mut wide = Wide::default();
        wide.set(lanes, &other, len);
        let mut rest = &message[..len];
        while rest.len() > 1024 {
            let (batch, after) = rest.split_at(1024);
            let (eights, _) = batch.as_chunks::<128>();
            let mut turns = wide.begin(lanes, &other, &eights[0]);
            eights[1..].iter().for_each(|eight| turns.turn(lanes, eight));
            wide.keep(lanes, &turns);
            rest = after;
        }
        match wide.takes(rest.len()) {
            true => wide.end(lanes, &mut other, rest),
            false => other.absorb_padded(rest),
        }
        assert_eq!(other.tag(15, len), one.tag(15, len), "{len} bytes");
    }

    fn walk<L: Lanes52>(lanes: L) {
        let mut word = 5u64;
        for round in 0..12 {
            let mut byte = || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                if round % 3 == 0 { 0xff } else { (word >> 40) as u8 }
            };
            let mut key: [u8; 32] = core::array::from_fn(|_| byte());
            if round % 4 == 1 {
                key[..16].fill(0xff);
            }
            let message: Vec<u8> = (0..3500).map(|_| byte()).collect();
            for len in (0..700).chain(1000..1450).chain([2047, 2048, 2049, 3071, 3072, 3500]) {
                check(lanes, &key, &message, len);
            }
        }
    }

    #[test]
    fn the_model_is_poly1305() {
        walk(Model);
    }

    /// On a machine that has them: each instruction is what the model says, and so is the whole.
    #[test]
    fn the_instructions_are_the_model() {
        match crate::Level::from_name("avx512") {
            Some(level) => level.run(Compare),
            None => println!("this machine has no avx512"),
        }
    }

    struct Compare;
    impl LoopBody<Avx512> for Compare {
        type Output = ();
        fn run(self, lanes: Avx512) {
            compare(lanes);
            walk(lanes);
        }
    }
    impl LoopBody<Portable> for Compare {
        type Output = ();
        fn run(self, _: Portable) {}
    }
    impl LoopBody<Avx2> for Compare {
        type Output = ();
        fn run(self, _: Avx2) {}
    }

    fn compare<L: Lanes52>(lanes: L) {
        let mut word = 3u64;
        for _ in 0..1000 {
            let mut eight = |bits: u32| -> [u64; 8] {
                core::array::from_fn(|_| {
                    word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                    (word ^ word >> 29) >> (64 - bits)
                })
            };
            let (a, b, sum) = (eight(52), eight(52), eight(60));
            let (x, y, z) = (lanes.load(&a), lanes.load(&b), lanes.load(&sum));
            let of = |x| {
                let mut to = [0; 8];
                lanes.store(&mut to, x);
                to
            };
            assert_eq!(of(lanes.add_low(z, x, y)), Model.add_low(sum, a, b));
            assert_eq!(of(lanes.add_high(z, x, y)), Model.add_high(sum, a, b));
            assert_eq!(of(lanes.add(x, z)), Model.add(a, sum));
            assert_eq!(of(lanes.and(x, z)), Model.and(a, sum));
            assert_eq!(of(lanes.or(x, z)), Model.or(a, sum));
            assert_eq!(of(lanes.left::<20>(x)), Model.left::<20>(a));
            assert_eq!(of(lanes.right::<44>(z)), Model.right::<44>(sum));
            assert_eq!(of(lanes.order(x)), Model.order(a));
            assert_eq!(of(lanes.splat(a[0])), [a[0]; 8]);
            let bytes: [u8; 128] = core::array::from_fn(|i| (a[i % 8] >> (i / 16)) as u8);
            assert_eq!(lanes.words(&bytes).map(of), Model.words(&bytes));
        }
    }
}
