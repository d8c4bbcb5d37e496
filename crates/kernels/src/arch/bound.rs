//! Loops that are chosen once and called many times: a level's shell as a pointer.
//!
//! [`Level::run`] matches the level for each message and hands the loop what it needs through memory.
//! Where a message is short that counts. A [`Bound`] loop was matched when it was made, and takes its
//! message in registers.

use super::simd::{avx2, avx512};
use super::{Avx2, Avx512, Lanes, Portable, portable};
use crate::Level;
use crate::level::Kind;

/// A loop from `src` to `dst` with what it needs besides in `context`. `run` must be
/// `#[inline(always)]`.
///
/// Above the portable level it is compiled twice, for messages of whole units and for all: what treats the
/// rest of a message wants registers that a function has to save for its caller.
pub trait Entry<L: Lanes> {
    /// Bytes of a unit, a power of two: a message of so many, or a multiple, leaves no rest. With 1 the loop
    /// is compiled once.
    const UNIT: usize;
    /// Keys, scratch memory.
    type Context;
    /// What the loop leaves besides what it stores.
    type Output;
    /// Runs the loop.
    fn run(lanes: L, context: &mut Self::Context, src: &[u8], dst: &mut [u8]) -> Self::Output;
}

/// An entry that can run at every level.
pub trait AnyEntry<C, T>:
    Entry<Portable, Context = C, Output = T>
    + Entry<Avx2, Context = C, Output = T>
    + Entry<Avx512, Context = C, Output = T>
{
}
impl<C, T, E> AnyEntry<C, T> for E where
    E: Entry<Portable, Context = C, Output = T>
        + Entry<Avx2, Context = C, Output = T>
        + Entry<Avx512, Context = C, Output = T>
{
}

/// An entry compiled for the level of this CPU that it was bound to.
pub struct Bound<C, T>(
    /// Invariant: this CPU has the features that it is compiled with.
    unsafe fn(&mut C, &[u8], &mut [u8]) -> T,
);

impl<C, T> Clone for Bound<C, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C, T> Copy for Bound<C, T> {}

impl<C, T> Bound<C, T> {
    /// Runs the loop.
    #[inline(always)]
    pub fn run(self, context: &mut C, src: &[u8], dst: &mut [u8]) -> T {
        // SAFETY: this CPU has what it needs, by the invariant.
        unsafe { (self.0)(context, src, dst) }
    }
}

impl Level {
    /// `E` compiled for this level.
    pub fn bind<E: AnyEntry<C, T>, C, T>(self) -> Bound<C, T> {
        // A Level of a kind exists only if detection found the features of the kind's shell.
        Bound(match self.kind {
            Kind::Portable => portable::entry::<E>,
            Kind::Avx2 => avx2::entry::<E>,
            Kind::Avx512 => avx512::entry::<E>,
        })
    }
}
