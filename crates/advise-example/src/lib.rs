//! A data-manipulation function of one's own, as a stage: a parity of all words, which is put out with the
//! words masked by a key. Write yours in its place; `fusewire_kernels::stage` says how.
#![forbid(unsafe_code)]

use fusewire_kernels::arch::Lanes;
use fusewire_kernels::stage::{Output, Run, Stage};

/// Masks every word of 64 bits with a key, and keeps the parity of what there was.
#[derive(Clone, Copy)]
pub struct MaskParity(
    /// The key.
    pub u64,
);

impl Stage for MaskParity {
    type Output = u64;
    const NAME: &'static str = "mask-parity";
    const BLOCK: usize = 8;
    const WHOLE_BLOCKS: bool = true;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 16;
    const ORDERED: bool = false;
}

impl<L: Lanes> Run<L> for MaskParity {
    /// The key in every lane, and the parity.
    type State = (L::V, L::V);
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        (lanes.splat64(self.0), lanes.zero())
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        for x in x {
            state.1 = lanes.xor(state.1, *x);
            *x = lanes.xor(*x, state.0);
        }
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, _: usize) -> u64 {
        lanes.xor64(state.1)
    }
}
