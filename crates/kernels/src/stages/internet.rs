//! The Internet checksum's one's-complement sum (RFC 1071).
//!
//! The sum does not mind byte order until its end (RFC 1071, section 2B), so words are taken as the
//! CPU has them, 64 bits at a time. What matters modulo 2^16 - 1 is the sum of the 32-bit halves:
//!
//! ```text
//! all  += x          modulo 2^64, carries lost
//! high += x >> 32
//! low   = all - (high << 32)     the sum of the low halves, which has lost nothing
//! sum   = low + high             for up to 2^32 vectors
//! ```
//! Three additions and a shift for each vector, of which the first addition of each kind is a tree
//! over the unit, so that no chain is longer than one addition a unit.
#![forbid(unsafe_code)]

use crate::arch::Lanes;
use crate::stage::{Output, Run, Stage};
use fusewire_base::Sum;

/// Sums what passes.
#[derive(Clone, Copy, Debug)]
pub struct InternetSum;

impl Stage for InternetSum {
    type Output = Sum;
    const NAME: &'static str = "internet";
    const BLOCK: usize = 2;
    const OUTPUT: Output = Output::None;
    const STATE: usize = 2;
    const ORDERED: bool = false;
}

/// The two running sums.
pub struct State<V> {
    all: V,
    high: V,
}

impl<L: Lanes> Run<L> for InternetSum {
    type State = State<L::V>;
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        State { all: lanes.zero(), high: lanes.zero() }
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        let mut all = *x;
        let mut high = *x;
        for high in &mut high {
            *high = lanes.shr64::<32>(*high);
        }
        let mut n = N;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                all[i] = lanes.add64(all[i], all[i + n]);
                high[i] = lanes.add64(high[i], high[i + n]);
            }
        }
        state.all = lanes.add64(state.all, all[0]);
        state.high = lanes.add64(state.high, high[0]);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, _: usize) -> Sum {
        let low = lanes.sub64(state.all, lanes.shl64::<32>(state.high));
        // Halve once more, so that adding up lanes cannot overflow.
        let mask = lanes.splat64(0xffff_ffff);
        let low = lanes.add64(lanes.and(low, mask), lanes.shr64::<32>(low));
        let high = lanes.add64(lanes.and(state.high, mask), lanes.shr64::<32>(state.high));
        fold(lanes.sum64(lanes.add64(low, high)))
    }
}

/// The sum of four little-endian words, folded and put in network order. Adding a number to itself
/// turned by half leaves in the upper half what both halves add up to, end-around carry included.
#[inline(always)]
fn fold(sum: u64) -> Sum {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    let sum = (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
    Sum::from_folded(u16::from_be(sum))
}
