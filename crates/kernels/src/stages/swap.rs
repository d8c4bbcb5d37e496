//! Byte order: the bytes of every 16, 32 or 64-bit word reversed.
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::stage::{Output, Run, Stage};

/// Reverses the bytes of each word of `BYTES` (2, 4 or 8). An incomplete last word stays as it is, so
/// the stage is its own inverse at every length.
#[derive(Clone, Copy, Debug)]
pub struct Swap<const BYTES: usize>;

impl<const BYTES: usize> Swap<BYTES> {
    #[inline(always)]
    fn vector<L: Lanes>(lanes: L, x: L::V) -> L::V {
        const { assert!(matches!(BYTES, 2 | 4 | 8), "words of 2, 4 or 8 bytes") };
        match BYTES {
            2 => lanes.swap16(x),
            4 => lanes.swap32(x),
            _ => lanes.swap64(x),
        }
    }
}

impl<const BYTES: usize> Stage for Swap<BYTES> {
    type Output = ();
    const NAME: &'static str = match BYTES {
        2 => "swap16",
        4 => "swap32",
        _ => "swap64",
    };
    const BLOCK: usize = BYTES;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 0;
    const ORDERED: bool = false;
}

impl<L: Lanes, const BYTES: usize> Run<L> for Swap<BYTES> {
    type State = ();
    #[inline(always)]
    fn start(&self, _: L) {}
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, _: &mut (), x: &mut [L::V; N]) {
        for x in x {
            *x = Self::vector(lanes, *x);
        }
    }
    #[inline(always)]
    fn tail(&self, lanes: L, _: &mut (), x: &mut L::V, valid: usize) {
        let whole = valid - valid % BYTES;
        let words = lanes.keep(*x, whole);
        let rest = lanes.xor(*x, words);
        *x = lanes.or(Self::vector(lanes, words), rest);
    }
    #[inline(always)]
    fn finish(&self, _: L, _: (), _: usize) {}
}
