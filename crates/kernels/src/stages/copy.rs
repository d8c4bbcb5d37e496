//! The stages that change nothing.
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::execution::Passes;
use crate::stage::{Output, Run, Stage};

/// The identity: between load and store it makes a copy, and as a pass of its own it is one.
#[derive(Clone, Copy, Debug)]
pub struct Copy;

/// No stage at all, where a pipeline leaves one out: it makes no pass.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Stage for Copy {
    type Output = ();
    const NAME: &'static str = "copy";
    const BLOCK: usize = 1;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 0;
    const ORDERED: bool = false;
    const VECTORS: usize = 1;
}

impl<L: Lanes> Run<L> for Copy {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, _: L, _: &mut (), _: &mut [L::V; N]) {}
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
    #[inline(always)]
    fn pass(&self, _: L, _: &mut (), passes: &mut Passes<'_>) {
        passes.copy();
    }
}

impl Stage for Nothing {
    type Output = ();
    const NAME: &'static str = "nothing";
    const BLOCK: usize = 1;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 0;
    const ORDERED: bool = false;
    const VECTORS: usize = 1;
}

impl<L: Lanes> Run<L> for Nothing {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, _: L, _: &mut (), _: &mut [L::V; N]) {}
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
    #[inline(always)]
    fn pass(&self, _: L, _: &mut (), _: &mut Passes<'_>) {}
}
