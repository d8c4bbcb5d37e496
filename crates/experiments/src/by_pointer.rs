//! Stages that are called through function pointers, once a unit: what integration costs when stages are chosen at run
//! time (Braun and Diot, section 3.2.1, call them with macros to avoid it).

use fusewire_kernels::arch::{Lanes, LoopBody};
use fusewire_kernels::stage::{Output, Run, Stage};

/// A stage of a pipeline whose unit is called through a pointer, in a function of its own.
#[derive(Clone, Copy, Debug)]
pub struct ByPointer<S>(
    /// The stage.
    pub S,
);

impl<S: Stage> Stage for ByPointer<S> {
    type Output = S::Output;
    const NAME: &'static str = S::NAME;
    const BLOCK: usize = S::BLOCK;
    const WHOLE_BLOCKS: bool = S::WHOLE_BLOCKS;
    const OUTPUT: Output = S::OUTPUT;
    const STATE: usize = S::STATE;
    const ORDERED: bool = S::ORDERED;
    const VECTORS: usize = S::VECTORS;
    const MOST_VECTORS: usize = S::MOST_VECTORS;
}

/// One unit, by itself.
struct Unit<'a, L: Lanes, S: Run<L>, const N: usize> {
    stage: &'a S,
    state: &'a mut S::State,
    x: &'a mut [L::V; N],
}

impl<L: Lanes, S: Run<L>, const N: usize> LoopBody<L> for Unit<'_, L, S, N> {
    type Output = ();
    #[inline(always)]
    fn run(self, lanes: L) {
        self.stage.unit(lanes, self.state, self.x);
    }
}

impl<L: Lanes, S: Run<L>> Run<L> for ByPointer<S> {
    type State = S::State;
    #[inline(always)]
    fn start(&self, lanes: L) -> S::State {
        self.0.start(lanes)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut S::State, x: &mut [L::V; N]) {
        lanes.call(Unit::<L, S, N> { stage: &self.0, state, x });
    }
    #[inline(always)]
    fn pause<const N: usize>(&self, lanes: L, state: &mut S::State) {
        self.0.pause::<N>(lanes, state);
    }
    #[inline(always)]
    fn tail(&self, lanes: L, state: &mut S::State, x: &mut L::V, valid: usize) {
        self.0.tail(lanes, state, x, valid);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: S::State, len: usize) -> S::Output {
        self.0.finish(lanes, state, len)
    }
}
