//! AES of single blocks, for what is no stage: a block takes as long as its rounds, and no vector makes it faster.

use super::gcm::round_keys;
use super::{AesLoopBody, Vector};
use crate::Level;
use core::arch::x86_64::*;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Round keys of AES-256.
const KEYS: usize = 15;

/// An expanded key of AES-128 or AES-256. Wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct AesKey {
    #[zeroize(skip)]
    level: Level,
    keys: [[u8; 16]; KEYS],
    /// 10 or 14.
    rounds: usize,
}

impl AesKey {
    /// Expands `key`, of 16 or 32 bytes. `None` if the level has no AES instructions.
    pub(crate) fn new(level: Level, key: &[u8]) -> Option<AesKey> {
        let mut expanded = AesKey { level, keys: [[0; 16]; KEYS], rounds: 0 };
        let expand = Expand { key, keys: &mut expanded.keys };
        expanded.rounds = level.run_aes(expand).ok()?;
        Some(expanded)
    }

    /// Enciphers one block.
    #[inline]
    pub(crate) fn encipher(&self, block: [u8; 16]) -> [u8; 16] {
        match self.level.run_aes(Encipher { keys: &self.keys[..=self.rounds], block }) {
            Ok(block) => block,
            Err(_) => unreachable!("a key exists only at a level with AES"),
        }
    }
}

struct Expand<'a> {
    key: &'a [u8],
    keys: &'a mut [[u8; 16]; KEYS],
}

impl AesLoopBody for Expand<'_> {
    type Output = usize;
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> usize {
        // SAFETY: the trait's: a level with AES has SSSE3 too.
        unsafe { round_keys(self.key, self.keys) }
    }
}

struct Encipher<'a> {
    keys: &'a [[u8; 16]],
    block: [u8; 16],
}

impl AesLoopBody for Encipher<'_> {
    type Output = [u8; 16];
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> [u8; 16] {
        // SAFETY: the trait's.
        unsafe { encipher(self.keys, self.block) }
    }
}

/// FIPS 197, section 5.1.
#[inline]
#[target_feature(enable = "aes")]
fn encipher(keys: &[[u8; 16]], bytes: [u8; 16]) -> [u8; 16] {
    let [first, middle @ .., last] = keys else { return bytes };
    let mut state = _mm_xor_si128(block(bytes), block(*first));
    for key in middle {
        state = _mm_aesenc_si128(state, block(*key));
    }
    let state = _mm_aesenclast_si128(state, block(*last));
    // SAFETY: both are sixteen plain bytes.
    unsafe { core::mem::transmute(state) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn block(bytes: [u8; 16]) -> __m128i {
    // SAFETY: both are sixteen plain bytes.
    unsafe { core::mem::transmute(bytes) }
}
