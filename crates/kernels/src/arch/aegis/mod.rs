//! AEGIS-128L, AEGIS-256 and AEGIS-128X2 (draft-irtf-cfrg-aegis-aead): their states, at every level.
//!
//! ```text
//! AEGIS-128L, 32 bytes m0 ‖ m1               AEGIS-256, 16 bytes m
//! z0 = S1 ^ S6 ^ (S2 & S3)                   z  = S1 ^ S4 ^ S5 ^ (S2 & S3)
//! z1 = S2 ^ S5 ^ (S6 & S7)
//! c  = m ^ z                                 c  = m ^ z
//! S'0 = round(S7, S0 ^ m0)                   S'0 = round(S5, S0 ^ m)
//! S'4 = round(S3, S4 ^ m1)
//! S'i = round(Si-1, Si)                      S'i = round(Si-1, Si)
//! ```
//! What it takes to be fast is that the chain from one block to the next is short, as rounds wait for it:
//!
//! 1. AES adds the round key last, so `round(S7, S0 ^ m0)` is `round(S7, x0) ^ S0` when `x = m` is loaded, and
//!    `round(S7, x0) ^ (S0 ^ z0)` when what is loaded is `x = m ^ z`: neither `m` nor `S0` waits for a round.
//! 2. With VAES, AEGIS-128L is four vectors `(Si, Si+4)`: five rounds a block, and an exchange of halves (`paired`).
//!    What the other stages do stands where the chain leaves the units idle.
//! 3. AEGIS-128X2 has two chains (`twin`), and with VAES no exchanges.
//! 4. AEGIS-256 has half the bytes a round, and its chain leaves nothing to be paired: 128 bits at every level.
//!
//! Without AES the rounds are bit-sliced (`sliced`), so that no table is looked up by secret bytes.

mod paired;
mod sliced;
mod twin;
mod x86;

use super::simd::{self, Aesni, Vaes};
use super::{Avx512, Lanes, LoopBody, Portable, Simd, portable};
use crate::Level;
use crate::level::Kind;
use core::arch::x86_64::__m256i;
use core::array::from_fn;

/// Levels at which AEGIS runs.
pub(crate) trait AegisLanes: Lanes {
    /// The state of AEGIS-128L.
    type Long: State<Self>;
    /// The state of AEGIS-256.
    type Wide: State<Self>;
    /// The state of AEGIS-128X2.
    type Twin: State<Self>;
}

/// A state between two vectors of a message.
pub(crate) trait State<L: Lanes>: Copy {
    /// Init, and Absorb over the additional data. Key and nonce have 16 bytes, or 32.
    fn new(lanes: L, key: &[u8], nonce: &[u8], aad: &[u8]) -> Self;
    /// Enc or Dec, over a whole vector.
    fn crypt<const SEAL: bool>(&mut self, lanes: L, x: L::V) -> L::V;
    /// The same over `N` vectors.
    #[inline(always)]
    fn crypt_unit<const SEAL: bool, const N: usize>(&mut self, lanes: L, x: &mut [L::V; N]) {
        for x in x {
            *x = self.crypt::<SEAL>(lanes, *x);
        }
    }
    /// The same over the last `bytes`, fewer than a vector's.
    fn crypt_last<const SEAL: bool>(&mut self, lanes: L, bytes: &mut [u8]);
    /// Finalize, for so many bytes of additional data and of message. `tag` has 16 bytes, or 32.
    fn finish(self, lanes: L, lengths: [usize; 2], tag: &mut [u8]);
    /// What a message stops with behind whole vectors and blocks.
    fn keep(self, lanes: L) -> Kept;
    /// With which it goes on.
    fn go_on(lanes: L, kept: &Kept) -> Self;
}

/// Bytes of the largest state.
pub(crate) const KEPT: usize = 256;
/// A state between two pieces of a message.
pub(crate) type Kept = [u8; KEPT];

/// Blocks of 16 bytes at a level, and AES rounds.
pub(crate) trait Blocks: Lanes {
    type Block: Copy;
    fn block(self, bytes: &[u8; 16]) -> Self::Block;
    fn bytes(self, x: Self::Block) -> [u8; 16];
    fn xor_blocks(self, a: Self::Block, b: Self::Block) -> Self::Block;
    fn and_blocks(self, a: Self::Block, b: Self::Block) -> Self::Block;
    /// AESRound of each of `x` with the key at its place; at most 8.
    fn rounds<const N: usize>(
        self,
        x: [Self::Block; N],
        keys: [Self::Block; N],
    ) -> [Self::Block; N];
    /// Block `i` of a vector.
    fn part(self, x: Self::V, i: usize) -> Self::Block;
    /// A vector of as many blocks as it has.
    fn join(self, blocks: [Self::Block; 4]) -> Self::V;
}

const C0: [u8; 16] = [
    0x00, 0x01, 0x01, 0x02, 0x03, 0x05, 0x08, 0x0d, 0x15, 0x22, 0x37, 0x59, 0x90, 0xe9, 0x79, 0x62,
];
const C1: [u8; 16] = [
    0xdb, 0x3d, 0x18, 0x55, 0x6d, 0xc2, 0x2f, 0xf1, 0x20, 0x11, 0x31, 0x42, 0x73, 0xb5, 0x28, 0xdd,
];

/// 16 bytes of `bytes` from `at` on, with zeros for what is not there.
#[inline(always)]
fn padded(bytes: &[u8], at: usize) -> [u8; 16] {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(whole) => *whole,
        None => {
            let mut block = [0; 16];
            block[..rest.len()].copy_from_slice(rest);
            block
        }
    }
}

/// What Finalize adds to the state: the lengths in bits.
fn lengths_block(lengths: [usize; 2]) -> [u8; 16] {
    let mut block = [0; 16];
    for (to, len) in block.chunks_exact_mut(8).zip(lengths) {
        to.copy_from_slice(&(8 * len as u64).to_le_bytes());
    }
    block
}

/// Exclusive or of all `blocks`.
#[inline(always)]
fn total<L: Blocks>(lanes: L, blocks: &[L::Block]) -> [u8; 16] {
    let mut total = blocks[0];
    for block in &blocks[1..] {
        total = lanes.xor_blocks(total, *block);
    }
    lanes.bytes(total)
}

/// A state of `N` blocks of its own, of AEGIS-128L (8) or AEGIS-256 (6).
#[derive(Clone, Copy)]
pub(crate) struct Apart<L: Blocks, const N: usize> {
    s: [L::Block; N],
    /// Of a vector that was half a block of AEGIS-128L: what it was in the clear. Zero if there was none.
    half: Option<L::Block>,
}

impl<L: Blocks, const N: usize> Apart<L, N> {
    #[inline(always)]
    fn of(s: [L::Block; N]) -> Self {
        Apart { s, half: None }
    }

    #[inline(always)]
    fn kept(self, lanes: L) -> Kept {
        debug_assert!(self.half.is_none(), "whole blocks");
        let mut kept = [0; KEPT];
        for (to, block) in kept.as_chunks_mut().0.iter_mut().zip(self.s) {
            *to = lanes.bytes(block);
        }
        kept
    }

    #[inline(always)]
    fn gone_on(lanes: L, kept: &Kept) -> Self {
        Apart::of(from_fn(|i| lanes.block(&kept.as_chunks().0[i])))
    }
}

/// The same for both.
macro_rules! kept {
    () => {
        #[inline(always)]
        fn keep(self, lanes: L) -> Kept {
            self.kept(lanes)
        }

        #[inline(always)]
        fn go_on(lanes: L, kept: &Kept) -> Self {
            Apart::gone_on(lanes, kept)
        }
    };
}

impl<L: Blocks> Apart<L, 8> {
    #[inline(always)]
    fn stream(&self, lanes: L) -> [L::Block; 2] {
        let [_, s1, s2, s3, _, s5, s6, s7] = self.s;
        let (a0, a1) = (lanes.xor_blocks(s1, s6), lanes.xor_blocks(s2, s5));
        let (b0, b1) = (lanes.and_blocks(s2, s3), lanes.and_blocks(s6, s7));
        [lanes.xor_blocks(a0, b0), lanes.xor_blocks(a1, b1)]
    }

    /// Update with `x ^ z`.
    #[inline(always)]
    fn update(&mut self, lanes: L, x: [L::Block; 2], z: Option<[L::Block; 2]>) {
        let [mut s0, s1, s2, s3, mut s4, s5, s6, s7] = self.s;
        let next =
            lanes.rounds([s7, s0, s1, s2, s3, s4, s5, s6], [x[0], s1, s2, s3, x[1], s5, s6, s7]);
        if let Some([z0, z1]) = z {
            (s0, s4) = (lanes.xor_blocks(s0, z0), lanes.xor_blocks(s4, z1));
        }
        self.s = next;
        self.s[0] = lanes.xor_blocks(next[0], s0);
        self.s[4] = lanes.xor_blocks(next[4], s4);
    }
}

impl<L: Blocks> State<L> for Apart<L, 8> {
    kept! {}

    #[inline(always)]
    fn new(lanes: L, key: &[u8], nonce: &[u8], aad: &[u8]) -> Self {
        let (key, nonce) = (lanes.block(&padded(key, 0)), lanes.block(&padded(nonce, 0)));
        let (c0, c1) = (lanes.block(&C0), lanes.block(&C1));
        let both = lanes.xor_blocks(key, nonce);
        let (key0, key1) = (lanes.xor_blocks(key, c0), lanes.xor_blocks(key, c1));
        let mut state = Apart::of([both, c1, c0, c1, both, key0, key1, key0]);
        for _ in 0..10 {
            state.update(lanes, [nonce, key], None);
        }
        for at in (0..aad.len()).step_by(32) {
            let (a0, a1) = (lanes.block(&padded(aad, at)), lanes.block(&padded(aad, at + 16)));
            state.update(lanes, [a0, a1], None);
        }
        state
    }

    #[inline(always)]
    fn crypt<const SEAL: bool>(&mut self, lanes: L, x: L::V) -> L::V {
        let mut blocks = [lanes.part(x, 0); 4];
        if L::WIDTH == 16 {
            let (x, z) = (blocks[0], self.stream(lanes)[usize::from(self.half.is_some())]);
            let y = lanes.xor_blocks(x, z);
            let clear = if SEAL { x } else { y };
            match self.half.take() {
                None => self.half = Some(clear),
                Some(first) => self.update(lanes, [first, clear], None),
            }
            return lanes.join([y; 4]);
        }
        for i in (0..L::WIDTH / 16).step_by(2) {
            let z = self.stream(lanes);
            self.update(lanes, [lanes.part(x, i), lanes.part(x, i + 1)], (!SEAL).then_some(z));
            [blocks[i], blocks[i + 1]] = z;
        }
        lanes.xor(x, lanes.join(blocks))
    }

    #[inline(always)]
    fn crypt_last<const SEAL: bool>(&mut self, lanes: L, bytes: &mut [u8]) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            // Where a vector is half a block, the first half may have passed.
            let mut clear = [0; 32];
            let from = match self.half.take() {
                Some(first) => {
                    clear[..16].copy_from_slice(&lanes.bytes(first));
                    16
                }
                None => 0,
            };
            let [z0, z1] = self.stream(lanes);
            let z = [lanes.bytes(z0), lanes.bytes(z1)];
            let now = bytes.len().min(32 - from);
            let (these, after) = bytes.split_at_mut(now);
            let places = clear[from..].iter_mut().zip(&z.as_flattened()[from..]);
            for (byte, (clear, z)) in these.iter_mut().zip(places) {
                let other = *byte ^ z;
                *clear = if SEAL { *byte } else { other };
                *byte = other;
            }
            bytes = after;
            let m = [lanes.block(&padded(&clear, 0)), lanes.block(&padded(&clear, 16))];
            self.update(lanes, m, None);
        }
    }

    #[inline(always)]
    fn finish(mut self, lanes: L, lengths: [usize; 2], tag: &mut [u8]) {
        if let Some(first) = self.half.take() {
            self.update(lanes, [first, lanes.block(&[0; 16])], None);
        }
        let t = lanes.xor_blocks(self.s[2], lanes.block(&lengths_block(lengths)));
        for _ in 0..7 {
            self.update(lanes, [t, t], None);
        }
        if tag.len() == 16 {
            tag.copy_from_slice(&total(lanes, &self.s[..7]));
        } else {
            tag[..16].copy_from_slice(&total(lanes, &self.s[..4]));
            tag[16..].copy_from_slice(&total(lanes, &self.s[4..]));
        }
    }
}

impl<L: Blocks> Apart<L, 6> {
    #[inline(always)]
    fn stream(&self, lanes: L) -> L::Block {
        let [_, s1, s2, s3, s4, s5] = self.s;
        let a = lanes.xor_blocks(s1, s4);
        lanes.xor_blocks(a, lanes.xor_blocks(s5, lanes.and_blocks(s2, s3)))
    }

    /// Update with `x ^ z`.
    #[inline(always)]
    fn update(&mut self, lanes: L, x: L::Block, z: Option<L::Block>) {
        let [mut s0, s1, s2, s3, s4, s5] = self.s;
        let next = lanes.rounds([s5, s0, s1, s2, s3, s4], [x, s1, s2, s3, s4, s5]);
        if let Some(z) = z {
            s0 = lanes.xor_blocks(s0, z);
        }
        self.s = next;
        self.s[0] = lanes.xor_blocks(next[0], s0);
    }
}

impl<L: Blocks> State<L> for Apart<L, 6> {
    kept! {}

    #[inline(always)]
    fn new(lanes: L, key: &[u8], nonce: &[u8], aad: &[u8]) -> Self {
        let (k0, k1) = (lanes.block(&padded(key, 0)), lanes.block(&padded(key, 16)));
        let (n0, n1) = (lanes.block(&padded(nonce, 0)), lanes.block(&padded(nonce, 16)));
        let (c0, c1) = (lanes.block(&C0), lanes.block(&C1));
        let (b0, b1) = (lanes.xor_blocks(k0, n0), lanes.xor_blocks(k1, n1));
        let (k0c0, k1c1) = (lanes.xor_blocks(k0, c0), lanes.xor_blocks(k1, c1));
        let mut state = Apart::of([b0, b1, c1, c0, k0c0, k1c1]);
        for _ in 0..4 {
            for m in [k0, k1, b0, b1] {
                state.update(lanes, m, None);
            }
        }
        for at in (0..aad.len()).step_by(16) {
            state.update(lanes, lanes.block(&padded(aad, at)), None);
        }
        state
    }

    #[inline(always)]
    fn crypt<const SEAL: bool>(&mut self, lanes: L, x: L::V) -> L::V {
        let mut blocks = [lanes.part(x, 0); 4];
        for (i, block) in blocks[..L::WIDTH / 16].iter_mut().enumerate() {
            let z = self.stream(lanes);
            self.update(lanes, lanes.part(x, i), (!SEAL).then_some(z));
            *block = z;
        }
        lanes.xor(x, lanes.join(blocks))
    }

    #[inline(always)]
    fn crypt_last<const SEAL: bool>(&mut self, lanes: L, bytes: &mut [u8]) {
        for bytes in bytes.chunks_mut(16) {
            let z = lanes.bytes(self.stream(lanes));
            let before = padded(bytes, 0);
            bytes.iter_mut().zip(z).for_each(|(byte, z)| *byte ^= z);
            let clear = if SEAL { before } else { padded(bytes, 0) };
            self.update(lanes, lanes.block(&clear), None);
        }
    }

    #[inline(always)]
    fn finish(mut self, lanes: L, lengths: [usize; 2], tag: &mut [u8]) {
        let t = lanes.xor_blocks(self.s[3], lanes.block(&lengths_block(lengths)));
        for _ in 0..7 {
            self.update(lanes, t, None);
        }
        if tag.len() == 16 {
            tag.copy_from_slice(&total(lanes, &self.s));
        } else {
            tag[..16].copy_from_slice(&total(lanes, &self.s[..3]));
            tag[16..].copy_from_slice(&total(lanes, &self.s[3..]));
        }
    }
}

impl AegisLanes for Portable {
    type Long = Apart<Portable, 8>;
    type Wide = Apart<Portable, 6>;
    type Twin = twin::Twin<Portable>;
}

impl Blocks for Portable {
    type Block = [u32; 4];
    #[inline(always)]
    fn block(self, bytes: &[u8; 16]) -> [u32; 4] {
        self.load(bytes)
    }
    #[inline(always)]
    fn bytes(self, x: [u32; 4]) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.store(&mut bytes, x);
        bytes
    }
    #[inline(always)]
    fn xor_blocks(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        self.xor(a, b)
    }
    #[inline(always)]
    fn and_blocks(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        self.and(a, b)
    }
    #[inline(always)]
    fn rounds<const N: usize>(self, x: [[u32; 4]; N], keys: [[u32; 4]; N]) -> [[u32; 4]; N] {
        let mut all = [[0; 4]; 8];
        all[..N].copy_from_slice(&x);
        sliced::rounds(&mut all);
        from_fn(|i| self.xor(all[i], keys[i]))
    }
    #[inline(always)]
    fn part(self, x: [u32; 4], _: usize) -> [u32; 4] {
        x
    }
    #[inline(always)]
    fn join(self, blocks: [[u32; 4]; 4]) -> [u32; 4] {
        blocks[0]
    }
}

/// The token of AVX2 with AES-NI.
type Avx2Aesni = Simd<__m256i, Aesni>;
/// The token of AVX2 with VAES.
type Avx2Vaes = Simd<__m256i, Vaes>;

/// A kernel that runs at every level, with AES where there is AES.
pub(crate) trait AegisLoopBody<T>:
    LoopBody<Portable, Output = T>
    + LoopBody<Avx2Aesni, Output = T>
    + LoopBody<Avx2Vaes, Output = T>
    + LoopBody<Avx512, Output = T>
{
}
impl<T, K> AegisLoopBody<T> for K where
    K: LoopBody<Portable, Output = T>
        + LoopBody<Avx2Aesni, Output = T>
        + LoopBody<Avx2Vaes, Output = T>
        + LoopBody<Avx512, Output = T>
{
}

impl Level {
    /// Runs `body` compiled for this level with AES if it has it, otherwise for the portable level.
    #[inline]
    pub(crate) fn run_with_or_without_aes<T, K: AegisLoopBody<T>>(self, body: K) -> T {
        match self.kind {
            // SAFETY: a Level of this kind exists only if detection found the shell's features.
            Kind::Avx512 => unsafe { simd::avx512::shell(body) },
            // SAFETY: as above; `vaes` is set only by detection.
            Kind::Avx2 if self.features.vaes => unsafe { simd::shell_vaes(body) },
            // SAFETY: as above; `aes` is set only by detection.
            Kind::Avx2 if self.features.aes => unsafe { simd::shell_aesni(body) },
            _ => portable::shell(body),
        }
    }
}
