//! AEGIS-128X2 (draft-irtf-cfrg-aegis-aead, section "AEGIS-128X"): two states of AEGIS-128L side by side, whose chains
//! do not wait for each other. A vector of 256 bits holds a block of each.
//!
//! ```text
//! 64 bytes m0 ‖ m1, a block of each state in m0 and in m1:
//! z0 = V1 ^ V6 ^ (V2 & V3)        V'0 = round(V7, V0 ^ m0)        V'i = round(Vi-1, Vi)
//! z1 = V2 ^ V5 ^ (V6 & V7)        V'4 = round(V3, V4 ^ m1)
//! ```

use super::{Avx2Aesni, Avx2Vaes, Blocks, C0, C1, KEPT, Kept, State, lengths_block, padded};
use crate::arch::{Avx512, Lanes, Portable};
use core::arch::asm;
use core::arch::x86_64::*;

/// Bytes that pass at a time.
const RATE: usize = 64;

/// Levels with a block of each of two states, one after the other: what stands at one place of both.
pub(crate) trait Twos: Lanes {
    type Two: Copy;
    fn two(self, bytes: [[u8; 16]; 2]) -> Self::Two;
    fn two_bytes(self, x: Self::Two) -> [[u8; 16]; 2];
    fn xor_twos(self, a: Self::Two, b: Self::Two) -> Self::Two;
    fn and_twos(self, a: Self::Two, b: Self::Two) -> Self::Two;
    /// AESRound of each of `x` with the key at its place.
    fn rounds_of_twos(self, x: [Self::Two; 8], keys: [Self::Two; 8]) -> [Self::Two; 8];
    /// 64 bytes, which are so many vectors.
    fn of_vectors(self, x: &[Self::V]) -> [Self::Two; 2];
    /// The inverse.
    fn to_vectors(self, halves: [Self::Two; 2], x: &mut [Self::V]);
    /// Enc or Dec of 64 bytes, which are `x` before and after.
    #[inline(always)]
    fn crypt_twos<const SEAL: bool>(self, s: &mut [Self::Two; 8], x: &mut [Self::Two; 2]) {
        let z = stream(self, s);
        update(self, s, *x, (!SEAL).then_some(z));
        *x = [self.xor_twos(x[0], z[0]), self.xor_twos(x[1], z[1])];
    }
}

#[inline(always)]
fn stream<L: Twos>(lanes: L, s: &[L::Two; 8]) -> [L::Two; 2] {
    let [_, s1, s2, s3, _, s5, s6, s7] = *s;
    let (a0, a1) = (lanes.xor_twos(s1, s6), lanes.xor_twos(s2, s5));
    let (b0, b1) = (lanes.and_twos(s2, s3), lanes.and_twos(s6, s7));
    [lanes.xor_twos(a0, b0), lanes.xor_twos(a1, b1)]
}

/// Update with `x ^ z`. What is loaded is a round's key, which comes last: no round waits for `z`.
#[inline(always)]
fn update<L: Twos>(lanes: L, s: &mut [L::Two; 8], x: [L::Two; 2], z: Option<[L::Two; 2]>) {
    let [mut s0, s1, s2, s3, mut s4, s5, s6, s7] = *s;
    let before = [s7, s0, s1, s2, s3, s4, s5, s6];
    let next = lanes.rounds_of_twos(before, [x[0], s1, s2, s3, x[1], s5, s6, s7]);
    if let Some([z0, z1]) = z {
        (s0, s4) = (lanes.xor_twos(s0, z0), lanes.xor_twos(s4, z1));
    }
    *s = next;
    s[0] = lanes.xor_twos(next[0], s0);
    s[4] = lanes.xor_twos(next[4], s4);
}

/// Both states, and the part of 64 bytes that has passed.
#[derive(Clone, Copy)]
pub(crate) struct Twin<L: Twos> {
    s: [L::Two; 8],
    /// What has passed of them, in the clear.
    clear: [u8; RATE],
    /// A multiple of a vector's bytes up to the last.
    passed: usize,
}

impl<L: Twos> Twin<L> {
    /// The stream as bytes of the message are.
    #[inline(always)]
    fn stream_bytes(&self, lanes: L) -> [u8; RATE] {
        let mut bytes = [0; RATE];
        let (halves, _) = bytes.as_chunks_mut::<32>();
        for (half, z) in halves.iter_mut().zip(stream(lanes, &self.s)) {
            half.copy_from_slice(lanes.two_bytes(z).as_flattened());
        }
        bytes
    }

    /// Update with what has passed.
    #[inline(always)]
    fn update_passed(&mut self, lanes: L) {
        let halves = Self::halves(lanes, &self.clear, 0);
        update(lanes, &mut self.s, halves, None);
        self.passed = 0;
    }

    #[inline(always)]
    fn halves(lanes: L, bytes: &[u8], at: usize) -> [L::Two; 2] {
        let block = |i: usize| padded(bytes, at + 16 * i);
        [lanes.two([block(0), block(1)]), lanes.two([block(2), block(3)])]
    }

    /// Enc or Dec of some bytes, of which there can be fewer than pass at a time. It takes a copy of the state, as
    /// [`Twin::crypt_vector`] does: what is addressed by a number does not stay in registers.
    #[inline(always)]
    fn crypt_bytes<const SEAL: bool>(mut self, lanes: L, mut bytes: &mut [u8]) -> Self {
        while !bytes.is_empty() {
            let z = self.stream_bytes(lanes);
            let (now, after) = bytes.split_at_mut((RATE - self.passed).min(bytes.len()));
            let place = self.passed..self.passed + now.len();
            let mut block = [0; RATE];
            block[place.clone()].copy_from_slice(now);
            let other: [u8; RATE] = core::array::from_fn(|i| block[i] ^ z[i]);
            let clear = if SEAL { &block } else { &other };
            self.clear[place.clone()].copy_from_slice(&clear[place.clone()]);
            now.copy_from_slice(&other[place]);
            self.passed += now.len();
            bytes = after;
            if self.passed == RATE {
                self.update_passed(lanes);
            }
        }
        self
    }
}

impl<L: Twos> Twin<L> {
    /// Enc or Dec of one vector.
    #[inline(always)]
    fn crypt_vector<const SEAL: bool>(mut self, lanes: L, x: L::V) -> (Self, L::V) {
        let stream = self.stream_bytes(lanes);
        let y = lanes.xor(x, lanes.load(&stream[self.passed..]));
        lanes.store(&mut self.clear[self.passed..], if SEAL { x } else { y });
        self.passed += L::WIDTH;
        if self.passed == RATE {
            self.update_passed(lanes);
        }
        (self, y)
    }
}

impl<L: Twos> State<L> for Twin<L> {
    #[inline(always)]
    fn new(lanes: L, key: &[u8], nonce: &[u8], aad: &[u8]) -> Self {
        let both = |block: [u8; 16]| lanes.two([block, block]);
        let (key, nonce) = (both(padded(key, 0)), both(padded(nonce, 0)));
        let (c0, c1) = (both(C0), both(C1));
        let keyed = lanes.xor_twos(key, nonce);
        let (key0, key1) = (lanes.xor_twos(key, c0), lanes.xor_twos(key, c1));
        let s = [keyed, c1, c0, c1, keyed, key0, key1, key0];
        let mut state = Twin { s, clear: [0; RATE], passed: 0 };
        // Which of the states it is, and the number of the last.
        let context = lanes.two([padded(&[0, 1], 0), padded(&[1, 1], 0)]);
        for _ in 0..10 {
            state.s[3] = lanes.xor_twos(state.s[3], context);
            state.s[7] = lanes.xor_twos(state.s[7], context);
            update(lanes, &mut state.s, [nonce, key], None);
        }
        for at in (0..aad.len()).step_by(RATE) {
            update(lanes, &mut state.s, Self::halves(lanes, aad, at), None);
        }
        state
    }

    #[inline(always)]
    fn crypt<const SEAL: bool>(&mut self, lanes: L, x: L::V) -> L::V {
        let (after, y) = self.crypt_vector::<SEAL>(lanes, x);
        *self = after;
        y
    }

    #[inline(always)]
    fn crypt_unit<const SEAL: bool, const N: usize>(&mut self, lanes: L, x: &mut [L::V; N]) {
        if !(N * L::WIDTH).is_multiple_of(RATE) || self.passed > 0 {
            for x in x {
                *x = self.crypt::<SEAL>(lanes, *x);
            }
            return;
        }
        for i in 0..N * L::WIDTH / RATE {
            let vectors = &mut x[i * RATE / L::WIDTH..][..RATE / L::WIDTH];
            let mut halves = lanes.of_vectors(vectors);
            lanes.crypt_twos::<SEAL>(&mut self.s, &mut halves);
            lanes.to_vectors(halves, vectors);
        }
    }

    #[inline(always)]
    fn crypt_last<const SEAL: bool>(&mut self, lanes: L, bytes: &mut [u8]) {
        *self = self.crypt_bytes::<SEAL>(lanes, bytes);
    }

    #[inline(always)]
    fn finish(mut self, lanes: L, lengths: [usize; 2], tag: &mut [u8]) {
        if self.passed > 0 {
            self.clear[self.passed..].fill(0);
            self.update_passed(lanes);
        }
        let lengths = lengths_block(lengths);
        let t = lanes.xor_twos(self.s[2], lanes.two([lengths, lengths]));
        for _ in 0..7 {
            update(lanes, &mut self.s, [t, t], None);
        }
        if tag.len() == 16 {
            tag.copy_from_slice(&total(lanes, &self.s[..7]));
        } else {
            tag[..16].copy_from_slice(&total(lanes, &self.s[..4]));
            tag[16..].copy_from_slice(&total(lanes, &self.s[4..]));
        }
    }

    #[inline(always)]
    fn keep(self, lanes: L) -> Kept {
        debug_assert_eq!(self.passed, 0, "whole blocks");
        let mut kept = [0; KEPT];
        for (to, two) in kept.as_chunks_mut::<32>().0.iter_mut().zip(self.s) {
            to.copy_from_slice(lanes.two_bytes(two).as_flattened());
        }
        kept
    }

    #[inline(always)]
    fn go_on(lanes: L, kept: &Kept) -> Self {
        let s =
            core::array::from_fn(|i| lanes.two([padded(kept, 32 * i), padded(kept, 32 * i + 16)]));
        Twin { s, clear: [0; RATE], passed: 0 }
    }
}

/// Exclusive or of all blocks of both states.
#[inline(always)]
fn total<L: Twos>(lanes: L, all: &[L::Two]) -> [u8; 16] {
    let mut total = all[0];
    for two in &all[1..] {
        total = lanes.xor_twos(total, *two);
    }
    let [a, b] = lanes.two_bytes(total);
    core::array::from_fn(|i| a[i] ^ b[i])
}

/// Two blocks apart.
macro_rules! apart {
    ($token:ty) => {
        impl Twos for $token {
            type Two = [<$token as Blocks>::Block; 2];
            #[inline(always)]
            fn two(self, [a, b]: [[u8; 16]; 2]) -> Self::Two {
                [self.block(&a), self.block(&b)]
            }
            #[inline(always)]
            fn two_bytes(self, [a, b]: Self::Two) -> [[u8; 16]; 2] {
                [self.bytes(a), self.bytes(b)]
            }
            #[inline(always)]
            fn xor_twos(self, a: Self::Two, b: Self::Two) -> Self::Two {
                [self.xor_blocks(a[0], b[0]), self.xor_blocks(a[1], b[1])]
            }
            #[inline(always)]
            fn and_twos(self, a: Self::Two, b: Self::Two) -> Self::Two {
                [self.and_blocks(a[0], b[0]), self.and_blocks(a[1], b[1])]
            }
            #[inline(always)]
            fn rounds_of_twos(self, x: [Self::Two; 8], keys: [Self::Two; 8]) -> [Self::Two; 8] {
                let of = |all: [Self::Two; 8], i: usize| all.map(|two| two[i]);
                let first = self.rounds(of(x, 0), of(keys, 0));
                let second = self.rounds(of(x, 1), of(keys, 1));
                core::array::from_fn(|i| [first[i], second[i]])
            }
            #[inline(always)]
            fn of_vectors(self, x: &[Self::V]) -> [Self::Two; 2] {
                let blocks = Self::WIDTH / 16;
                let block = |i: usize| self.part(x[i / blocks], i % blocks);
                [[block(0), block(1)], [block(2), block(3)]]
            }
            #[inline(always)]
            fn to_vectors(self, halves: [Self::Two; 2], x: &mut [Self::V]) {
                let (blocks, all) = (Self::WIDTH / 16, halves.as_flattened());
                for (i, x) in x.iter_mut().enumerate() {
                    let at = i * blocks;
                    *x = self.join([
                        all[at],
                        all[(at + 1) % 4],
                        all[(at + 2) % 4],
                        all[(at + 3) % 4],
                    ]);
                }
            }
        }
    };
}
apart!(Portable);
apart!(Avx2Aesni);

/// Two blocks in one vector.
macro_rules! together {
    ($token:ty, |$from:ident| $halves:expr, |$to:ident, $x:ident| $vectors:expr; $($more:tt)*) => {
        impl Twos for $token {
            type Two = __m256i;
            $($more)*
            #[inline(always)]
            fn two(self, bytes: [[u8; 16]; 2]) -> __m256i {
                // SAFETY: the token proves AVX2; 32 bytes are readable.
                unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
            }
            #[inline(always)]
            fn two_bytes(self, x: __m256i) -> [[u8; 16]; 2] {
                let mut bytes = [[0; 16]; 2];
                // SAFETY: the token proves AVX2; 32 bytes are writable.
                unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), x) }
                bytes
            }
            #[inline(always)]
            fn xor_twos(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: the token proves AVX2.
                unsafe { _mm256_xor_si256(a, b) }
            }
            #[inline(always)]
            fn and_twos(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: the token proves AVX2.
                unsafe { _mm256_and_si256(a, b) }
            }
            #[inline(always)]
            fn rounds_of_twos(self, mut x: [__m256i; 8], keys: [__m256i; 8]) -> [__m256i; 8] {
                for (x, key) in x.iter_mut().zip(keys) {
                    // SAFETY: the token proves VAES.
                    *x = unsafe { _mm256_aesenc_epi128(*x, key) };
                }
                x
            }
            #[inline(always)]
            fn of_vectors(self, $from: &[Self::V]) -> [__m256i; 2] {
                $halves
            }
            #[inline(always)]
            fn to_vectors(self, $to: [__m256i; 2], $x: &mut [Self::V]) {
                $vectors
            }
        }
    };
}
together!(
    Avx2Vaes,
    |x| [x[0], x[1]],
    |halves, x| x.copy_from_slice(&halves);
    // The state and 64 bytes take ten of the sixteen vectors there are. The compiler, which wants more for a round than
    // there are besides, puts parts of the state into memory, and the next round waits for them.
    #[inline(always)]
    fn crypt_twos<const SEAL: bool>(self, s: &mut [__m256i; 8], x: &mut [__m256i; 2]) {
        // SAFETY: the token proves VAES.
        unsafe { if SEAL { seal(s, x) } else { open(s, x) } }
    }
);
together!(
    Avx512,
    |x| {
        // SAFETY: the token proves AVX-512.
        unsafe { [_mm512_castsi512_si256(x[0]), _mm512_extracti64x4_epi64::<1>(x[0])] }
    },
    |halves, x| {
        // SAFETY: as above.
        x[0] = unsafe { _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]) };
    };
);

/// A function over the state in `s0` to `s7` and 64 bytes in `x0` and `x1`, with `z0`, `z1` and `u` besides.
macro_rules! in_registers {
    ($(#[$doc:meta])* $name:ident: $($line:literal)*) => {
        $(#[$doc])*
        #[target_feature(enable = "avx2,vaes")]
        #[inline]
        fn $name(s: &mut [__m256i; 8], x: &mut [__m256i; 2]) {
            let ([s0, s1, s2, s3, s4, s5, s6, s7], [x0, x1]) = (s, x);
            // SAFETY: AVX2 and VAES; it touches no memory.
            unsafe {
                asm!(
                    $($line,)*
                    s0 = inout(ymm_reg) *s0, s1 = inout(ymm_reg) *s1, s2 = inout(ymm_reg) *s2,
                    s3 = inout(ymm_reg) *s3, s4 = inout(ymm_reg) *s4, s5 = inout(ymm_reg) *s5,
                    s6 = inout(ymm_reg) *s6, s7 = inout(ymm_reg) *s7,
                    x0 = inout(ymm_reg) *x0, x1 = inout(ymm_reg) *x1,
                    z0 = out(ymm_reg) _, z1 = out(ymm_reg) _, u = out(ymm_reg) _,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
        }
    };
}
in_registers! {
    /// Enc: `x` is what is taken in.
    seal:
    "vpand {z0}, {s2}, {s3}"
    "vpand {z1}, {s6}, {s7}"
    "vaesenc {u}, {s7}, {x0}"
    "vpxor {z0}, {z0}, {s1}"
    "vpxor {z1}, {z1}, {s2}"
    "vaesenc {s7}, {s6}, {s7}"
    "vpxor {z0}, {z0}, {s6}"
    "vpxor {z1}, {z1}, {s5}"
    "vaesenc {s6}, {s5}, {s6}"
    "vaesenc {s5}, {s4}, {s5}"
    "vpxor {x0}, {x0}, {z0}"
    "vaesenc {z0}, {s3}, {x1}"
    "vaesenc {s3}, {s2}, {s3}"
    "vpxor {x1}, {x1}, {z1}"
    "vaesenc {s2}, {s1}, {s2}"
    "vaesenc {s1}, {s0}, {s1}"
    "vpxor {s0}, {s0}, {u}"
    "vpxor {s4}, {s4}, {z0}"
}
in_registers! {
    /// Dec: `x ^ z` is.
    open:
    "vpand {z0}, {s2}, {s3}"
    "vpand {z1}, {s6}, {s7}"
    "vaesenc {u}, {s7}, {x0}"
    "vpxor {z0}, {z0}, {s1}"
    "vpxor {z1}, {z1}, {s2}"
    "vaesenc {s7}, {s6}, {s7}"
    "vpxor {z0}, {z0}, {s6}"
    "vpxor {z1}, {z1}, {s5}"
    "vaesenc {s6}, {s5}, {s6}"
    "vaesenc {s5}, {s4}, {s5}"
    "vpxor {x0}, {x0}, {z0}"
    "vpxor {z0}, {z0}, {u}"
    "vaesenc {u}, {s3}, {x1}"
    "vaesenc {s3}, {s2}, {s3}"
    "vpxor {x1}, {x1}, {z1}"
    "vaesenc {s2}, {s1}, {s2}"
    "vpxor {z1}, {z1}, {u}"
    "vaesenc {s1}, {s0}, {s1}"
    "vpxor {s0}, {s0}, {z0}"
    "vpxor {s4}, {s4}, {z1}"
}
