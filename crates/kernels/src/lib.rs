//! Data-manipulation stages and the three ways to run a pipeline of them.
//!
//! A [`stage::Stage`] touches every byte of a message: byte swap, cipher, checksum, copy. Stages are
//! joined with [`stage::Then`] into pipelines, and a pipeline is run by one of the jobs in
//! [`execution`]: integrated (one loop through registers), blocked (each stage over a strip that stays
//! in the first-level cache) or sequential (each stage over the whole message). Which CPU
//! instructions a loop is compiled for is its [`Level`].
//!
//! What marshals or unmarshals on the way is a [`message`].
//!
//! This crate does no I/O, reads no clock and knows no protocol. The only unsafe code is in [`arch`].
#![deny(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        dead_code,
        reason = "the loops are bound to ciphers below, which unit tests are built without"
    )
)]

#[cfg(not(target_arch = "x86_64"))]
compile_error!("fusewire-kernels is written for x86-64: its levels are portable, AVX2 and AVX-512");

pub mod arch;
pub mod arrays;
mod check;
pub mod execution;
mod level;
mod scratch;
pub mod stage;
pub mod stages;
mod swap;

pub use arch::{stream_copy, stream_fence};
pub use check::{Check, Found};
pub use execution::Execution;
pub use level::Level;
pub use stages::Cxor;
pub use swap::Swap;

/// The loops as ciphers and their messages bind them. Unit tests are built without: none needs them, and what is compiled for
/// each level, cipher and execution takes longer than all the rest.
macro_rules! bound {
    ($($item:item)*) => { $(#[cfg(not(test))] $item)* };
}

bound! {
    pub mod gcm;
    mod library;
    mod mask;
    pub mod message;
    mod staged;
    pub mod suites;
    mod tagless;
    mod transform;

    pub use mask::Mask;
    pub use suites::Cipher;
    pub use transform::{Opened, Transform};
}

use fusewire_base::Sum;

/// Fewer bytes are not worth the way to a level's loops: they are summed in a visit of their own, in the first cache.
pub const SHORT: usize = 96;

/// The Internet sum of `bytes` (RFC 1071), an odd last byte being the high half of a word.
#[inline]
pub fn sum(level: Level, bytes: &[u8]) -> Sum {
    match bytes.len() {
        ..SHORT => Sum::of_few(bytes),
        _ => sum_of_many(level, bytes),
    }
}

#[inline(never)]
fn sum_of_many(level: Level, bytes: &[u8]) -> Sum {
    level.run(execution::Scan { stage: &stages::InternetSum, src: bytes })
}

/// Copies `src` to `dst`, which is as long, and sums it on the way.
pub fn copy_sum(level: Level, src: &[u8], dst: &mut [u8]) -> Sum {
    level.run(execution::Integrated { stage: &stages::InternetSum, src, dst })
}

/// CXOR of `bytes`, as [`stages::CxorSum`] finds it.
pub fn cxor(level: Level, bytes: &[u8]) -> Cxor {
    level.run(execution::Scan { stage: &stages::CxorSum, src: bytes })
}

/// Copies `src` to `dst`, which is as long, and finds its CXOR on the way.
pub fn copy_cxor(level: Level, src: &[u8], dst: &mut [u8]) -> Cxor {
    level.run(execution::Integrated { stage: &stages::CxorSum, src, dst })
}
