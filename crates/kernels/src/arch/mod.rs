//! Vectors of one CPU level behind one trait, and the shells that compile a whole loop for a level.
//!
//! This is the crate's one room for unsafe code. A token type stands for each level ([`Portable`],
//! [`Avx2`], [`Avx512`]); its methods are the level's instructions. A token is made only inside the
//! level's shell, a `#[target_feature]` function that is called only with a [`Level`] in hand, and a
//! `Level` is made only by detection: so the methods are safe to call.
//!
//! Everything between shell and instruction must be `#[inline(always)]`. A function that is not
//! inlined into its shell is compiled without the level's instructions and is slow, though right;
//! closures are to be avoided for the same reason.
#![allow(unsafe_code)]

pub(crate) mod aegis;
pub(crate) mod aes;
mod bound;
pub mod chacha;
pub(crate) mod gcm;
mod partial;
mod portable;
pub mod safer;
mod simd;
mod stream;
mod vector;
mod zip;

pub use bound::{AnyEntry, Bound, Entry};
pub use portable::Portable;
pub(crate) use simd::AesLoopBody;
pub use simd::{Avx2, Avx512, Simd};
pub use stream::{stream_copy, stream_fence};
pub(crate) use vector::Vector;
pub use zip::Zip;

use crate::Level;
use crate::level::Kind;

/// The vectors of one CPU level. `V` holds `WIDTH` bytes; lanes of 16 to 64 bits are little-endian;
/// byte 0 of a vector is the byte at the lowest address.
pub trait Lanes: Copy + Send + Sync + 'static {
    /// A vector.
    type V: Copy;
    /// Bytes in a vector: 16, 32 or 64.
    const WIDTH: usize;
    /// The most vectors that a unit should have.
    const MOST_VECTORS: usize;
    /// `shuffle_by` is one instruction.
    const SHUFFLES: bool;
    /// `average16` is one instruction.
    const AVERAGES: bool;

    /// The first `WIDTH` bytes of `from`, at any alignment. Panics when there are fewer.
    fn load(self, from: &[u8]) -> Self::V;
    /// Writes the first `WIDTH` bytes of `to`. Panics when there are fewer.
    fn store(self, to: &mut [u8], x: Self::V);
    /// `from.len()` bytes, fewer than `WIDTH`, and zeros after them.
    fn load_partial(self, from: &[u8]) -> Self::V;
    /// Writes the first `to.len()` bytes of `x`, fewer than `WIDTH`.
    fn store_partial(self, to: &mut [u8], x: Self::V);
    /// `x` with every byte from `valid` on made zero.
    fn keep(self, x: Self::V, valid: usize) -> Self::V;

    /// All bits zero.
    fn zero(self) -> Self::V;
    /// `x` in every 16-bit lane.
    fn splat16(self, x: u16) -> Self::V;
    /// `x` in every 32-bit lane.
    fn splat32(self, x: u32) -> Self::V;
    /// `x` in every 64-bit lane.
    fn splat64(self, x: u64) -> Self::V;
    /// `x` in every 16 bytes.
    fn splat128(self, x: [u8; 16]) -> Self::V;

    /// Bitwise exclusive or.
    fn xor(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise and.
    fn and(self, a: Self::V, b: Self::V) -> Self::V;
    /// Bitwise or.
    fn or(self, a: Self::V, b: Self::V) -> Self::V;
    /// Sum of each byte, modulo 2^8.
    fn add8(self, a: Self::V, b: Self::V) -> Self::V;
    /// Difference of each byte, modulo 2^8.
    fn sub8(self, a: Self::V, b: Self::V) -> Self::V;
    /// Half the sum of each 16-bit lane, rounded up, nothing lost on the way.
    fn average16(self, a: Self::V, b: Self::V) -> Self::V;
    /// Sum of each 32-bit lane, modulo 2^32.
    fn add32(self, a: Self::V, b: Self::V) -> Self::V;
    /// Difference of each 32-bit lane, modulo 2^32.
    fn sub32(self, a: Self::V, b: Self::V) -> Self::V;
    /// Sum of each 64-bit lane, modulo 2^64.
    fn add64(self, a: Self::V, b: Self::V) -> Self::V;
    /// Difference of each 64-bit lane, modulo 2^64.
    fn sub64(self, a: Self::V, b: Self::V) -> Self::V;
    /// Each 32-bit lane rotated left.
    fn rotl32<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 64-bit lane shifted left.
    fn shl64<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 64-bit lane shifted right.
    fn shr64<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Product of the low 32 bits of each 64-bit lane, 64 bits wide.
    fn mul32(self, a: Self::V, b: Self::V) -> Self::V;

    /// The bytes of each 16, 32 or 64-bit lane reversed: of each `BYTES`, 2, 4 or 8.
    fn swap<const BYTES: usize>(self, x: Self::V) -> Self::V;
    /// In each 16 bytes: byte `i` becomes byte `control[i] % 16` of `x`. Controls are 0 to 15.
    fn shuffle(self, x: Self::V, control: [u8; 16]) -> Self::V;

    /// As `shuffle`, with the control in a vector.
    fn shuffle_by(self, x: Self::V, control: Self::V) -> Self::V;
    /// In each 64-bit lane: the sum of its eight bytes.
    fn sum_bytes(self, x: Self::V) -> Self::V;
    /// In each 32-bit lane: its four bytes times those of `weights`, 0 to 63 each, added up.
    fn dot_bytes(self, x: Self::V, weights: Self::V) -> Self::V;
    /// Each 16-bit lane turned left by its number and `first`, modulo 16.
    fn turn16<const FIRST: usize>(self, x: Self::V) -> Self::V;
    /// Exclusive or of the 64-bit lanes.
    fn xor64(self, x: Self::V) -> u64;
    /// The 64-bit lanes added up, modulo 2^64.
    fn sum64(self, x: Self::V) -> u64;
    /// CRC-32C of eight more bytes, little-endian, without inversions (`crc32` of SSE4.2).
    fn crc32c(self, crc: u32, bytes: u64) -> u32;
    /// `x` again; the optimiser cannot see through it, so what made `x` stays before its uses.
    fn pin(self, x: Self::V) -> Self::V;
    /// Does nothing with `x`; but what made it, a load say, is done.
    fn keep_load(self, x: Self::V);
    /// Runs `body` in a function of its own, through a pointer that the optimiser cannot see through: what a
    /// loop costs whose stages are chosen at run time.
    fn call<K: LoopBody<Self>>(self, body: K) -> K::Output;
}

/// `x`, in a general register, hidden from the optimiser: what is computed with it stays scalar.
#[inline(always)]
pub fn in_register(x: u64) -> u64 {
    let mut x = x;
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) x, options(pure, nomem, nostack, preserves_flags));
    }
    x
}

/// `x` has been made and is in a register.
#[inline(always)]
fn made(x: u64) {
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) x, options(nomem, nostack, preserves_flags));
    }
}

/// The byte shuffle of 16 that reverses each `bytes` of them, a power of two.
pub(crate) const fn reversal(bytes: usize) -> [u8; 16] {
    let mut control = [0; 16];
    let mut i = 0;
    while i < 16 {
        // Within a word, a byte comes from as far from the other end.
        control[i] = (i ^ (bytes - 1)) as u8;
        i += 1;
    }
    control
}

/// A whole loop, generic over the level it is compiled for. `run` must be `#[inline(always)]`.
pub trait LoopBody<L: Lanes> {
    /// What the loop leaves besides what it stores.
    type Output;
    /// Runs the loop.
    fn run(self, lanes: L) -> Self::Output;
}

/// A body that can run at every level.
pub trait AnyLoopBody<T>:
    LoopBody<Portable, Output = T> + LoopBody<Avx2, Output = T> + LoopBody<Avx512, Output = T>
{
}
impl<T, K> AnyLoopBody<T> for K where
    K: LoopBody<Portable, Output = T> + LoopBody<Avx2, Output = T> + LoopBody<Avx512, Output = T>
{
}

impl Level {
    /// Runs `body` compiled for this level. The one dispatch of a message.
    #[inline]
    pub fn run<T, K: AnyLoopBody<T>>(self, body: K) -> T {
        match self.kind {
            Kind::Portable => portable::shell(body),
            // SAFETY: a Level of this kind exists only if detection found the shell's features.
            Kind::Avx2 => unsafe { simd::avx2::shell(body) },
            // SAFETY: as above.
            Kind::Avx512 => unsafe { simd::avx512::shell(body) },
        }
    }

    /// Runs `body` compiled for this level with AES, or gives it back when the level has none.
    ///
    /// # Errors
    /// The body itself, when [`Level::aes`] is false.
    #[inline]
    pub(crate) fn run_aes<K: AesLoopBody>(self, body: K) -> Result<K::Output, K> {
        match self.kind {
            // SAFETY: a Level of this kind exists only if detection found the shell's features.
            Kind::Avx512 => Ok(unsafe { simd::avx512::shell(simd::Aes(body)) }),
            // SAFETY: as above; `vaes` is set only by detection.
            Kind::Avx2 if self.features.vaes => Ok(unsafe { simd::shell_vaes(simd::Aes(body)) }),
            // SAFETY: as above; `aes` is set only by detection.
            Kind::Avx2 if self.features.aes => Ok(unsafe { simd::shell_aesni(simd::Aes(body)) }),
            _ => Err(body),
        }
    }
}

/// What detection found, as far as levels are concerned.
pub(crate) struct Cpu {
    pub(crate) avx2: bool,
    pub(crate) aes: bool,
    pub(crate) vaes: bool,
    pub(crate) avx512: bool,
}

pub(crate) fn detect() -> Cpu {
    use std::arch::is_x86_feature_detected as has;
    let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2") && has!("sse4.2") && has!("popcnt");
    let aes = avx2 && has!("aes") && has!("pclmulqdq");
    let vaes = aes && has!("vaes") && has!("vpclmulqdq");
    let avx512 = vaes
        && has!("avx512f")
        && has!("avx512bw")
        && has!("avx512vl")
        && has!("avx512dq")
        && has!("avx512vbmi")
        && has!("avx512ifma")
        && has!("gfni");
    Cpu { avx2, aes, vaes, avx512 }
}
