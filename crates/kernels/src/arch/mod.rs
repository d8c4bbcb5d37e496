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

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bound;
pub mod chacha;
pub(crate) mod gcm;
#[cfg(target_arch = "x86_64")]
mod partial;
mod portable;
pub mod safer;
mod stream;
mod zip;

#[cfg(target_arch = "x86_64")]
pub use avx2::{Aesni, Avx2, Plain, Vaes};
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "x86_64")]
pub use bound::{AnyEntry, Bound, Entry};
pub use portable::Portable;
pub use stream::{stream_copy, stream_fence};
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
    /// `x` in every byte.
    fn splat8(self, x: u8) -> Self::V;
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
    /// Sum of each 16-bit lane, modulo 2^16.
    fn add16(self, a: Self::V, b: Self::V) -> Self::V;
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
    /// Each 32-bit lane shifted left.
    fn shl32<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 32-bit lane shifted right.
    fn shr32<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 32-bit lane rotated left.
    fn rotl32<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 64-bit lane shifted left.
    fn shl64<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 64-bit lane shifted right.
    fn shr64<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Each 16-bit lane shifted right.
    fn shr16<const BITS: u32>(self, x: Self::V) -> Self::V;
    /// Product of the low 32 bits of each 64-bit lane, 64 bits wide.
    fn mul32(self, a: Self::V, b: Self::V) -> Self::V;

    /// The two bytes of each 16-bit lane exchanged.
    fn swap16(self, x: Self::V) -> Self::V;
    /// The four bytes of each 32-bit lane reversed.
    fn swap32(self, x: Self::V) -> Self::V;
    /// The eight bytes of each 64-bit lane reversed.
    fn swap64(self, x: Self::V) -> Self::V;
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
    /// Calls `stage.unit` through a function pointer that the optimiser cannot see through.
    fn call_unit<S: crate::stage::Run<Self>, const N: usize>(
        self,
        stage: &S,
        state: &mut S::State,
        x: &mut [Self::V; N],
    );
}

/// `x`, in a general register, hidden from the optimiser: what is computed with it stays scalar.
#[inline(always)]
pub fn in_register(x: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut x = x;
        // SAFETY: there is no instruction in it.
        unsafe {
            core::arch::asm!("/* {0} */", inout(reg) x, options(pure, nomem, nostack, preserves_flags));
        }
        x
    }
    #[cfg(not(target_arch = "x86_64"))]
    core::hint::black_box(x)
}

/// `x` has been made and is in a register.
#[inline(always)]
fn made(x: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: there is no instruction in it.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) x, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    core::hint::black_box(x);
}

/// Levels with AES rounds and carry-less multiplication over every 16 bytes of a vector.
pub trait AesLanes: Lanes {
    /// One AES round: ShiftRows, SubBytes, MixColumns, then xor of `key`, in each 16 bytes.
    fn aes_round(self, x: Self::V, key: Self::V) -> Self::V;
    /// The last AES round, without MixColumns.
    fn aes_last(self, x: Self::V, key: Self::V) -> Self::V;
    /// Carry-less product in each 16 bytes of 64-bit halves: bit 0 of `HALVES` chooses the half of
    /// `a`, bit 4 that of `b`.
    fn clmul<const HALVES: i32>(self, a: Self::V, b: Self::V) -> Self::V;
    /// Exclusive or of all 16-byte lanes.
    fn xor_lanes(self, x: Self::V) -> core::arch::x86_64::__m128i;
    /// `parts[i % lanes]` in 16-byte lane `i`, for vectors of up to four lanes.
    fn lanes128(self, parts: [[u8; 16]; 4]) -> Self::V;
}

/// `2^(i + first)` for the 16-bit lanes `i` of a vector, powers going round after 2^15: a product with it
/// has in its halves what a turn by as many bits leaves at each end.
const fn powers16(first: usize) -> [u8; 64] {
    let mut powers = [0; 64];
    let mut i = 0;
    while i < 32 {
        let power = 1u16 << ((i + first) % 16);
        [powers[2 * i], powers[2 * i + 1]] = power.to_le_bytes();
        i += 1;
    }
    powers
}

/// A whole loop, generic over the level it is compiled for. `run` must be `#[inline(always)]`.
pub trait Kernel<L: Lanes> {
    /// What the loop leaves besides what it stores.
    type Output;
    /// Runs the loop.
    fn run(self, lanes: L) -> Self::Output;
}

/// A kernel that can run at every level.
#[cfg(target_arch = "x86_64")]
pub trait AnyKernel<T>:
    Kernel<Portable, Output = T> + Kernel<Avx2<Plain>, Output = T> + Kernel<Avx512, Output = T>
{
}
#[cfg(target_arch = "x86_64")]
impl<T, K> AnyKernel<T> for K where
    K: Kernel<Portable, Output = T> + Kernel<Avx2<Plain>, Output = T> + Kernel<Avx512, Output = T>
{
}

/// A kernel that can run at every level that has AES.
#[cfg(target_arch = "x86_64")]
pub trait AesKernel<T>:
    Kernel<Avx2<Aesni>, Output = T> + Kernel<Avx2<Vaes>, Output = T> + Kernel<Avx512, Output = T>
{
}
#[cfg(target_arch = "x86_64")]
impl<T, K> AesKernel<T> for K where
    K: Kernel<Avx2<Aesni>, Output = T>
        + Kernel<Avx2<Vaes>, Output = T>
        + Kernel<Avx512, Output = T>
{
}

#[cfg(target_arch = "x86_64")]
impl Level {
    /// Runs `kernel` compiled for this level. The one dispatch of a message.
    #[inline]
    pub fn run<T, K: AnyKernel<T>>(self, kernel: K) -> T {
        match self.kind {
            Kind::Portable => portable::shell(kernel),
            // SAFETY: a Level of this kind exists only if detection found the shell's features.
            Kind::Avx2 => unsafe { avx2::shell(kernel) },
            // SAFETY: as above.
            Kind::Avx512 => unsafe { avx512::shell(kernel) },
        }
    }

    /// Runs `kernel` compiled for this level with AES, or gives it back when the level has none.
    ///
    /// # Errors
    /// The kernel itself, when [`Level::aes`] is false.
    #[inline]
    pub fn run_aes<T, K: AesKernel<T>>(self, kernel: K) -> Result<T, K> {
        match self.kind {
            // SAFETY: a Level of this kind exists only if detection found the shell's features.
            Kind::Avx512 => Ok(unsafe { avx512::shell(kernel) }),
            // SAFETY: as above; `vaes` is set only by detection.
            Kind::Avx2 if self.features.vaes => Ok(unsafe { avx2::shell_vaes(kernel) }),
            // SAFETY: as above; `aes` is set only by detection.
            Kind::Avx2 if self.features.aes => Ok(unsafe { avx2::shell_aesni(kernel) }),
            _ => Err(kernel),
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

#[cfg(target_arch = "x86_64")]
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
