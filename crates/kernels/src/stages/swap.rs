//! Byte order: the bytes of every 16, 32 or 64-bit word reversed.
//!
//! [`Swap`] knows the length of its words when it is compiled, [`AnySwap`] when it is made: with a byte
//! shuffle that makes no difference to the loop, and a pipeline need not be compiled for each.
#![forbid(unsafe_code)]

use crate::arch::{Lanes, reversal};
use crate::stage::{Output, Run, Stage};

/// Reverses the bytes of each word of `BYTES` (2, 4 or 8). An incomplete last word stays as it is, so
/// the stage is its own inverse at every length.
#[derive(Clone, Copy, Debug)]
pub struct Swap<const BYTES: usize>;

impl<const BYTES: usize> Swap<BYTES> {
    #[inline(always)]
    fn vector<L: Lanes>(lanes: L, x: L::V) -> L::V {
        const { assert!(matches!(BYTES, 2 | 4 | 8), "words of 2, 4 or 8 bytes") };
        lanes.swap::<BYTES>(x)
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

/// [`Swap`] with the length of its words chosen at run time.
#[derive(Clone, Copy, Debug)]
pub struct AnySwap {
    /// Byte `i` of sixteen comes from byte `control[i]`.
    control: [u8; 16],
    bytes: usize,
}

impl AnySwap {
    /// Of words of 2, 4 or 8 bytes.
    ///
    /// # Panics
    /// With any other length.
    pub const fn new(bytes: usize) -> Self {
        assert!(matches!(bytes, 2 | 4 | 8), "words of 2, 4 or 8 bytes");
        AnySwap { control: reversal(bytes), bytes }
    }

    #[inline(always)]
    fn vector<L: Lanes>(self, lanes: L, control: L::V, x: L::V) -> L::V {
        match self.bytes {
            _ if L::SHUFFLES => lanes.shuffle_by(x, control),
            2 => lanes.swap::<2>(x),
            4 => lanes.swap::<4>(x),
            _ => lanes.swap::<8>(x),
        }
    }
}

impl Stage for AnySwap {
    type Output = ();
    const NAME: &'static str = "swap";
    const BLOCK: usize = 8;
    const OUTPUT: Output = Output::Same;
    const STATE: usize = 0;
    const ORDERED: bool = false;
}

impl<L: Lanes> Run<L> for AnySwap {
    /// The shuffle's control.
    type State = L::V;
    #[inline(always)]
    fn start(&self, lanes: L) -> L::V {
        lanes.splat128(self.control)
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, control: &mut L::V, x: &mut [L::V; N]) {
        for x in x {
            *x = self.vector(lanes, *control, *x);
        }
    }
    #[inline(always)]
    fn tail(&self, lanes: L, control: &mut L::V, x: &mut L::V, valid: usize) {
        let words = lanes.keep(*x, valid - valid % self.bytes);
        let rest = lanes.xor(*x, words);
        *x = lanes.or(self.vector(lanes, *control, words), rest);
    }
    #[inline(always)]
    fn finish(&self, _: L, _: L::V, _: usize) {}
}
