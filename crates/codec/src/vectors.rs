//! Loops over arrays of numbers with the vectors of this CPU, where the crate has them (the feature `vectors`).
//!
//! Encoders and decoders are made in many places, by generated code too, so the level is not handed to each of them:
//! it is said once for the process, or found when the first array comes.

use crate::Loops;
use fusewire_kernels::arch::{Lanes, LoopBody};
use fusewire_kernels::{Level, arrays};
use std::sync::OnceLock;

static LEVEL: OnceLock<Level> = OnceLock::new();

/// Arrays of fewer bytes are not worth the way there.
pub(crate) const LEAST: usize = 64;

/// Says which CPU level arrays are encoded and decoded at; gives the one that holds, which was said or used before.
pub fn use_level(level: Level) -> Level {
    *LEVEL.get_or_init(|| level)
}

#[inline]
fn level() -> Level {
    *LEVEL.get_or_init(Level::detect)
}

/// Reverses the bytes of numbers, if they are many enough.
#[inline]
pub(crate) fn swap(to: &mut [u8], from: &[u8], width: usize) -> bool {
    let is_long = from.len() >= LEAST;
    if is_long {
        arrays::swap(level(), from, to, width);
    }
    is_long
}

/// Writes numbers in 32 bits each, and says whether all fit.
#[inline]
pub(crate) fn narrow(from: &[i64], to: &mut [u8]) -> bool {
    arrays::narrow(level(), from, to)
}

/// The numbers that 32 bits each are.
#[inline]
pub(crate) fn widen(from: &[u8]) -> alloc::vec::Vec<i64> {
    arrays::widen(level(), from)
}

/// Runs a loop over so many elements, with this CPU's instructions if they are many enough: shifts by a variable
/// number of bits take one each there, and three without.
#[inline]
pub(crate) fn run<T: Loops>(count: usize, loops: T) -> T::Output {
    /// Fewer are not worth the way there.
    const FEWEST: usize = 16;
    match count < FEWEST {
        true => loops.run(),
        false => level().run(Compiled(loops)),
    }
}

struct Compiled<T>(T);

impl<T: Loops, L: Lanes> LoopBody<L> for Compiled<T> {
    type Output = T::Output;

    #[inline(always)]
    fn run(self, _: L) -> T::Output {
        self.0.run()
    }
}
