//! SAFER (Massey): simplified, K-64, SK-64 and SK-128. Insecure, kept for the papers' experiments.
//!
//! The variants, the schedule and the simplified cipher, which is ours, are written down in
//! `docs/safer.md`. A round on bytes 1 to 8 of a block, with two subkeys:
//!
//! ```text
//! bytes 1, 4, 5, 8:  exp(x ^ k1) + k2        exp(i) = 45^i mod 257 mod 256
//! bytes 2, 3, 6, 7:  log(x + k1) ^ k2        log is the inverse of exp
//! then on each pair of neighbours, 2-PHT:  (a, b) becomes (2a + b, a + b)
//! ```
//! Two vectors pass together, so that one vector can hold bytes for exp alone and the other bytes for
//! log alone ([`SaferLanes::split`]): each is then looked up whole. Both come out in the order of pairs,
//! so that a pair's bytes lie in one place of the two: `E + L` is `a + b` for every pair at once.
//!
//! Tables are looked up by secret values: fit for experiments, not for secrets.
#![forbid(unsafe_code)]

use crate::arch::safer::SaferLanes;
use crate::stage::{Output, Run, Stage};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// exp: powers of 45 modulo 257, 256 written as 0.
pub const EXP: [u8; 256] = {
    let mut table = [0; 256];
    let mut power = 1u32;
    let mut i = 0;
    while i < 256 {
        table[i] = (power & 0xff) as u8;
        power = power * 45 % 257;
        i += 1;
    }
    table
};

/// log, the inverse of [`EXP`].
pub const LOG: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Most rounds that a key can have.
pub const MAX_ROUNDS: usize = 13;

/// Subkeys of one round, spread as [`SaferLanes::split`] spreads bytes: those of bytes 1, 4, 5 and 8, and
/// those of bytes 2, 3, 6 and 7.
#[derive(Clone, Copy, Default, Zeroize)]
struct Subkey {
    exp: u32,
    log: u32,
}

impl Subkey {
    fn new(k: [u8; 8]) -> Self {
        Subkey {
            exp: u32::from_le_bytes([k[0], k[3], k[4], k[7]]),
            log: u32::from_le_bytes([k[1], k[2], k[5], k[6]]),
        }
    }
}

/// Both subkeys of a round.
#[derive(Clone, Copy, Default, Zeroize)]
struct RoundKey([Subkey; 2]);

impl RoundKey {
    /// Enciphers the bytes of a pair of vectors.
    #[inline(always)]
    fn forth<L: SaferLanes>(&self, lanes: L, [e, l]: [L::V; 2]) -> [L::V; 2] {
        let [k1, k2] = self.0;
        let e = lanes.exp(lanes.xor(e, lanes.splat32(k1.exp)));
        let l = lanes.log(lanes.add8(l, lanes.splat32(k1.log)));
        [lanes.add8(e, lanes.splat32(k2.exp)), lanes.xor(l, lanes.splat32(k2.log))]
    }

    /// Deciphers what `forth` made.
    #[inline(always)]
    fn back<L: SaferLanes>(&self, lanes: L, [e, l]: [L::V; 2]) -> [L::V; 2] {
        let [k1, k2] = self.0;
        let e = lanes.log(lanes.sub8(e, lanes.splat32(k2.exp)));
        let l = lanes.exp(lanes.xor(l, lanes.splat32(k2.log)));
        [lanes.xor(e, lanes.splat32(k1.exp)), lanes.sub8(l, lanes.splat32(k1.log))]
    }
}

/// The key schedule: subkeys `K1` to `K[2r+1]`.
fn schedule(key1: [u8; 8], key2: [u8; 8], rounds: usize, strengthened: bool) -> Vec<[u8; 8]> {
    let ninth = |key: [u8; 8]| {
        let mut nine = [0; 9];
        nine[..8].copy_from_slice(&key);
        nine[8] = key.iter().fold(0, |x, k| x ^ k);
        nine
    };
    let mut a = ninth(key1.map(|k| k.rotate_left(5)));
    let mut b = ninth(key2);
    let mut subkeys = vec![key2];
    for i in 1..=rounds {
        a = a.map(|k| k.rotate_left(6));
        b = b.map(|k| k.rotate_left(6));
        for (register, turn, bias) in [(&a, 2 * i - 1, 18 * i + 1), (&b, 2 * i, 18 * i + 10)] {
            let from = if strengthened { turn } else { 0 };
            subkeys.push(core::array::from_fn(|j| {
                let bias = EXP[usize::from(EXP[bias + j])];
                register[if strengthened { (from + j) % 9 } else { j }].wrapping_add(bias)
            }));
        }
    }
    a.zeroize();
    b.zeroize();
    subkeys
}

/// An expanded key of SAFER simplified.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SaferSimplifiedKey(RoundKey);

impl SaferSimplifiedKey {
    /// `K1` and `K2` are those of SAFER K-64.
    pub fn new(key: [u8; 8]) -> Self {
        let mut subkeys = schedule(key, key, 1, false);
        let round = RoundKey([Subkey::new(subkeys[0]), Subkey::new(subkeys[1])]);
        subkeys.zeroize();
        SaferSimplifiedKey(round)
    }
}

/// An expanded key of SAFER K or SK.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SaferKey {
    rounds: Vec<RoundKey>,
    /// The last subkey: what is xored and what is added, on a block in its order.
    last: [u64; 2],
}

impl SaferKey {
    /// SAFER K-64.
    ///
    /// # Panics
    /// When there are no rounds or more than [`MAX_ROUNDS`].
    pub fn k64(key: [u8; 8], rounds: u8) -> Self {
        Self::expand(key, key, rounds, false)
    }

    /// SAFER SK-64, with the strengthened schedule.
    ///
    /// # Panics
    /// As [`SaferKey::k64`].
    pub fn sk64(key: [u8; 8], rounds: u8) -> Self {
        Self::expand(key, key, rounds, true)
    }

    /// SAFER SK-128, with the strengthened schedule.
    ///
    /// # Panics
    /// As [`SaferKey::k64`].
    pub fn sk128(key: [u8; 16], rounds: u8) -> Self {
        let mut halves = [[0; 8]; 2];
        halves[0].copy_from_slice(&key[..8]);
        halves[1].copy_from_slice(&key[8..]);
        Self::expand(halves[0], halves[1], rounds, true)
    }

    fn expand(key1: [u8; 8], key2: [u8; 8], rounds: u8, strengthened: bool) -> Self {
        let rounds = usize::from(rounds);
        assert!((1..=MAX_ROUNDS).contains(&rounds), "SAFER has 1 to {MAX_ROUNDS} rounds");
        let mut subkeys = schedule(key1, key2, rounds, strengthened);
        let (pairs, rest) = subkeys.as_chunks::<2>();
        let key = SaferKey {
            rounds: pairs.iter().map(|pair| RoundKey(pair.map(Subkey::new))).collect(),
            last: [MIXED_XOR, !MIXED_XOR].map(|mask| u64::from_le_bytes(rest[0]) & mask),
        };
        subkeys.zeroize();
        key
    }
}

/// Bytes 1, 4, 5 and 8 of a block.
const MIXED_XOR: u64 = 0xff00_00ff_ff00_00ff;
/// Bytes 1, 3, 5 and 7 of a block.
const FIRST_OF_PAIR: u64 = 0x00ff_00ff_00ff_00ff;
/// The byte order that brings bytes 1, 3, 5, 7 of a block before its bytes 2, 4, 6, 8, and its inverse.
const DEINTERLEAVE: [u8; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];
const INTERLEAVE: [u8; 16] = [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15];

/// 2-PHT of all pairs of neighbours.
#[inline(always)]
fn pht<L: SaferLanes>(lanes: L, x: L::V) -> L::V {
    let sum = lanes.add8(x, lanes.swap::<2>(x));
    lanes.add8(sum, lanes.and(x, lanes.splat64(FIRST_OF_PAIR)))
}

/// The inverse of [`pht`]: `(c, d)` becomes `(c - d, 2d - c)`.
#[inline(always)]
fn inverse_pht<L: SaferLanes>(lanes: L, x: L::V) -> L::V {
    // c - d in the first byte of each pair and d - c in the second, to which d is added.
    let difference = lanes.sub8(x, lanes.swap::<2>(x));
    lanes.add8(difference, lanes.and(x, lanes.splat64(!FIRST_OF_PAIR)))
}

/// Runs `$body` on every two vectors of `$x`; a single one passes twice.
macro_rules! in_pairs {
    ($x:ident, $pair:ident => $body:expr) => {
        if N == 1 {
            let $pair = [$x[0], $x[0]];
            [$x[0], _] = $body;
        } else {
            for i in 0..N / 2 {
                let $pair = [$x[2 * i], $x[2 * i + 1]];
                [$x[2 * i], $x[2 * i + 1]] = $body;
            }
        }
    };
}

macro_rules! stage {
    ($(#[$doc:meta])* $name:ident, $key:ty, $text:literal, $state:expr, $most_vectors:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(
            /// The key.
            pub &'a $key,
        );
        impl Stage for $name<'_> {
            type Output = ();
            const NAME: &'static str = $text;
            const BLOCK: usize = 8;
            const WHOLE_BLOCKS: bool = true;
            const OUTPUT: Output = Output::Same;
            const STATE: usize = $state;
            const ORDERED: bool = false;
            const VECTORS: usize = 4;
            const MOST_VECTORS: usize = $most_vectors;
            const FOURS: bool = true;
        }
    };
}
stage!(
    /// Enciphers with SAFER simplified.
    SaferSimplifiedEncrypt, SaferSimplifiedKey, "safer-simplified", 16, 2
);
stage!(
    /// Deciphers with SAFER simplified.
    SaferSimplifiedDecrypt, SaferSimplifiedKey, "safer-simplified", 16, 16
);
stage!(
    /// Enciphers with SAFER K or SK.
    SaferEncrypt, SaferKey, "safer", 8 * (2 * MAX_ROUNDS + 1), 16
);
stage!(
    /// Deciphers with SAFER K or SK.
    SaferDecrypt, SaferKey, "safer", 8 * (2 * MAX_ROUNDS + 1), 16
);

impl<L: SaferLanes> Run<L> for SaferSimplifiedEncrypt<'_> {
    type State = RoundState;
    #[inline(always)]
    fn start(&self, _: L) -> RoundState {
        RoundState(self.0.0)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut RoundState, x: &mut [L::V; N]) {
        in_pairs!(x, pair => {
            let [e, l] = state.0.forth(lanes, lanes.split(pair));
            let second = lanes.add8(e, l);
            // The first byte of a pair is at exp in pairs 1 and 3, at log in pairs 2 and 4.
            let first = lanes.add8(second, lanes.odd8(e, l));
            lanes.zip8([first, second])
        });
    }
    #[inline(always)]
    fn finish(&self, _: L, _: RoundState, _: usize) {}
}

impl<L: SaferLanes> Run<L> for SaferSimplifiedDecrypt<'_> {
    type State = RoundState;
    #[inline(always)]
    fn start(&self, _: L) -> RoundState {
        RoundState(self.0.0)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut RoundState, x: &mut [L::V; N]) {
        in_pairs!(x, pair => {
            let [first, second] = lanes.unzip8(pair);
            let a = lanes.sub8(first, second);
            let b = lanes.sub8(second, a);
            let [e, l] = state.0.back(lanes, [lanes.odd8(a, b), lanes.odd8(b, a)]);
            lanes.join([e, l])
        });
    }
    #[inline(always)]
    fn finish(&self, _: L, _: RoundState, _: usize) {}
}

/// The key of the only round.
pub struct RoundState(RoundKey);

impl<L: SaferLanes> Run<L> for SaferEncrypt<'_> {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, _: &mut (), x: &mut [L::V; N]) {
        for round in &self.0.rounds {
            in_pairs!(x, pair => lanes.join(round.forth(lanes, lanes.split(pair))));
            for x in x.iter_mut() {
                let y = lanes.shuffle(pht(lanes, *x), DEINTERLEAVE);
                let y = lanes.shuffle(pht(lanes, y), DEINTERLEAVE);
                *x = pht(lanes, y);
            }
        }
        let [xored, added] = self.0.last.map(|k| lanes.splat64(k));
        for x in x {
            *x = lanes.add8(lanes.xor(*x, xored), added);
        }
    }
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
}

impl<L: SaferLanes> Run<L> for SaferDecrypt<'_> {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, _: &mut (), x: &mut [L::V; N]) {
        let [xored, added] = self.0.last.map(|k| lanes.splat64(k));
        for x in x.iter_mut() {
            *x = lanes.xor(lanes.sub8(*x, added), xored);
        }
        for round in self.0.rounds.iter().rev() {
            for x in x.iter_mut() {
                let y = lanes.shuffle(inverse_pht(lanes, *x), INTERLEAVE);
                let y = lanes.shuffle(inverse_pht(lanes, y), INTERLEAVE);
                *x = inverse_pht(lanes, y);
            }
            in_pairs!(x, pair => lanes.join(round.back(lanes, lanes.split(pair))));
        }
    }
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
}
