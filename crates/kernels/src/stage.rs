//! What a stage is, and how stages join into pipelines.
//!
//! [`Stage`] says what a stage is (block, output, state, order); [`Run`] says how it treats a unit of
//! vectors at a level. A pipeline is a stage too: [`Then`] joins two, and takes its constants from
//! them. Loading and storing belong to the jobs in [`crate::execution`], not to stages.
//!
//! To write a stage:
//! 1. a type that holds keys and parameters, made anew or borrowed for each message; `impl Stage`;
//! 2. `impl<L: Lanes> Run<L>`, every method `#[inline(always)]`. What changes from
//!    unit to unit is in `State`, a local of the loop, so that it can live in registers.
//! 3. `unit` takes `N` vectors, first bytes first; a job calls it with `N = VECTORS` as long as there
//!    are that many, then with `N = 1`, then `tail` once with what is left of a vector.
#![forbid(unsafe_code)]

use crate::arch::{Avx2, Avx512, Lanes, Portable};
use crate::execution::Passes;

/// What a stage gives for what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// As many bytes as it took, in their place.
    Same,
    /// No bytes; it only reads. What it found is its [`Stage::Output`].
    None,
}

/// A data-manipulation function: it touches every byte of a message.
///
/// ```
/// use fusewire_base::Sum;
/// use fusewire_kernels::Level;
/// use fusewire_kernels::arch::Lanes;
/// use fusewire_kernels::execution::Integrated;
/// use fusewire_kernels::stage::{Output, Run, Stage, then};
/// use fusewire_kernels::stages::InternetSum;
///
/// /// Inverts every bit, and finds the exclusive-or of the message's words of 64 bits.
/// struct Invert;
///
/// impl Stage for Invert {
///     type Output = u64;
///     const NAME: &'static str = "invert";
///     const BLOCK: usize = 8;
///     const OUTPUT: Output = Output::Same;
///     const STATE: usize = 8;
///     const ORDERED: bool = false;
/// }
///
/// impl<L: Lanes> Run<L> for Invert {
///     type State = L::V;
///     #[inline(always)]
///     fn start(&self, lanes: L) -> L::V {
///         lanes.zero()
///     }
///     #[inline(always)]
///     fn unit<const N: usize>(&self, lanes: L, parity: &mut L::V, x: &mut [L::V; N]) {
///         for x in x {
///             *parity = lanes.xor(*parity, *x);
///             *x = lanes.xor(*x, lanes.splat64(u64::MAX));
///         }
///     }
///     #[inline(always)]
///     fn finish(&self, lanes: L, parity: L::V, _: usize) -> u64 {
///         lanes.xor64(parity)
///     }
/// }
///
/// let message: Vec<u8> = (0..1407).map(|i| i as u8).collect();
/// let inverted: Vec<u8> = message.iter().map(|byte| !byte).collect();
/// for level in Level::available() {
///     // One loop inverts, sums what came of it, and stores.
///     let (pipeline, mut dst) = (then(Invert, InternetSum), vec![0; message.len()]);
///     let (parity, sum) =
///         level.run(Integrated { stage: &pipeline, src: &message, dst: &mut dst });
///     assert_eq!((&dst, sum), (&inverted, Sum::of(&inverted)), "{level}");
///     let words = message.chunks(8).map(|word| {
///         word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
///     });
///     assert_eq!(parity, words.fold(0, |all, word| all ^ word), "{level}");
/// }
/// ```
pub trait Stage {
    /// What `finish` gives: a sum, a tag, nothing.
    type Output;
    /// For tables and messages.
    const NAME: &'static str;
    /// Bytes that it treats together: a power of two, 64 at most.
    const BLOCK: usize;
    /// The message must be a whole number of blocks. Otherwise an incomplete last block is treated by
    /// a rule of the stage's own.
    const WHOLE_BLOCKS: bool = false;
    /// What it puts out.
    const OUTPUT: Output;
    /// Bytes of state and keys that a loop needs at hand.
    const STATE: usize;
    /// Ordering-constrained: it must see the bytes of the message first to last.
    const ORDERED: bool;
    /// Vectors in a unit that suit it best: 1, 2, 4, 8 or 16.
    const VECTORS: usize = 4;
    /// The most that it has registers for; holds for a pipeline that it is in.
    const MOST_VECTORS: usize = 16;
    /// What is left of longer units passes four vectors at a time before it passes one at a time: one alone would wait
    /// for each of many steps.
    const FOURS: bool = false;
}

/// How a stage treats vectors of one level. Every method must be `#[inline(always)]`.
pub trait Run<L: Lanes>: Stage + Sized {
    /// What changes from unit to unit.
    type State;
    /// The state before the first byte.
    fn start(&self, lanes: L) -> Self::State;
    /// Treats `N` whole vectors.
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]);
    /// There have been units of `N` vectors, and now there are none for a while.
    #[inline(always)]
    fn pause<const N: usize>(&self, _: L, _: &mut Self::State) {}
    /// Treats the last `valid` bytes, `0 < valid < WIDTH`. What lies beyond them in `x` is zero
    /// before and must be zero after.
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut Self::State, x: &mut L::V, valid: usize) {
        let mut one = [*x];
        self.unit(lanes, state, &mut one);
        *x = lanes.keep(one[0], valid);
    }
    /// What the stage found. `len` is the length of the message in bytes.
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Self::Output;

    /// One pass of its own over the message or strip in `passes`. Pipelines make a pass a stage.
    #[inline(always)]
    fn pass(&self, lanes: L, state: &mut Self::State, passes: &mut Passes<'_>) {
        passes.run(lanes, self, state);
    }
}

/// A borrowed stage is one too.
impl<S: Stage> Stage for &S {
    type Output = S::Output;
    const NAME: &'static str = S::NAME;
    const BLOCK: usize = S::BLOCK;
    const WHOLE_BLOCKS: bool = S::WHOLE_BLOCKS;
    const OUTPUT: Output = S::OUTPUT;
    const STATE: usize = S::STATE;
    const ORDERED: bool = S::ORDERED;
    const VECTORS: usize = S::VECTORS;
    const MOST_VECTORS: usize = S::MOST_VECTORS;
    const FOURS: bool = S::FOURS;
}

impl<L: Lanes, S: Run<L>> Run<L> for &S {
    type State = S::State;
    #[inline(always)]
    fn start(&self, lanes: L) -> S::State {
        (**self).start(lanes)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut S::State, x: &mut [L::V; N]) {
        (**self).unit(lanes, state, x);
    }
    #[inline(always)]
    fn pause<const N: usize>(&self, lanes: L, state: &mut S::State) {
        (**self).pause::<N>(lanes, state);
    }
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut S::State, x: &mut L::V, valid: usize) {
        (**self).tail(lanes, state, x, valid);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: S::State, len: usize) -> S::Output {
        (**self).finish(lanes, state, len)
    }
    #[inline(always)]
    fn pass(&self, lanes: L, state: &mut S::State, passes: &mut Passes<'_>) {
        (**self).pass(lanes, state, passes);
    }
}

/// A stage that runs at every level.
pub trait AnyStage: Run<Portable> + Run<Avx2> + Run<Avx512> {}
impl<S> AnyStage for S where S: Run<Portable> + Run<Avx2> + Run<Avx512> {}

/// Two stages or pipelines, the first first.
#[derive(Clone, Copy, Debug)]
pub struct Then<A, B>(pub A, pub B);

/// Joins two stages.
pub const fn then<A: Stage, B: Stage>(a: A, b: B) -> Then<A, B> {
    Then(a, b)
}

pub(crate) const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

pub(crate) const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

impl<A: Stage, B: Stage> Stage for Then<A, B> {
    type Output = (A::Output, B::Output);
    const NAME: &'static str = "pipeline";
    /// Blocks are powers of two, so their least common multiple is the larger.
    const BLOCK: usize = max(A::BLOCK, B::BLOCK);
    const WHOLE_BLOCKS: bool = A::WHOLE_BLOCKS || B::WHOLE_BLOCKS;
    const OUTPUT: Output = match (A::OUTPUT, B::OUTPUT) {
        (Output::None, Output::None) => Output::None,
        _ => Output::Same,
    };
    const STATE: usize = A::STATE + B::STATE;
    const ORDERED: bool = A::ORDERED || B::ORDERED;
    const VECTORS: usize = max(A::VECTORS, B::VECTORS);
    const MOST_VECTORS: usize = min(A::MOST_VECTORS, B::MOST_VECTORS);
    const FOURS: bool = A::FOURS || B::FOURS;
}

impl<L: Lanes, A: Run<L>, B: Run<L>> Run<L> for Then<A, B> {
    type State = (A::State, B::State);
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        (self.0.start(lanes), self.1.start(lanes))
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        self.0.unit(lanes, &mut state.0, x);
        self.1.unit(lanes, &mut state.1, x);
    }
    #[inline(always)]
    fn pause<const N: usize>(&self, lanes: L, state: &mut Self::State) {
        self.0.pause::<N>(lanes, &mut state.0);
        self.1.pause::<N>(lanes, &mut state.1);
    }
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut Self::State, x: &mut L::V, valid: usize) {
        self.0.tail(lanes, &mut state.0, x, valid);
        self.1.tail(lanes, &mut state.1, x, valid);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, len: usize) -> Self::Output {
        (self.0.finish(lanes, state.0, len), self.1.finish(lanes, state.1, len))
    }
    #[inline(always)]
    fn pass(&self, lanes: L, state: &mut Self::State, passes: &mut Passes<'_>) {
        self.0.pass(lanes, &mut state.0, passes);
        self.1.pass(lanes, &mut state.1, passes);
    }
}
