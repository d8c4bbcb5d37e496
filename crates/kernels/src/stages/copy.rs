//! The stage that changes nothing: between load and store it makes a copy.
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::stage::{Output, Run, Stage};

/// The identity.
#[derive(Clone, Copy, Debug)]
pub struct Copy;

impl Stage for Copy {
    type Output = ();
    const NAME: &'static str = "copy";
    const BLOCK: usize = 1;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 0;
    const ORDERED: bool = false;
}

impl<L: Lanes> Run<L> for Copy {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, _: L, _: &mut (), _: &mut [L::V; N]) {}
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
}
