//! The Internet checksum's one's-complement sum (RFC 1071).
//!
//! The sum does not mind byte order until its end (RFC 1071, section 2B), so words are taken as the
//! CPU has them, and 64 bits at a time: modulo 2^16 - 1 that is the same. What has to be found is how
//! many carries left the 64 bits. Two ways:
//!
//! ```text
//! exact      all  += x              modulo 2^64, carries lost
//!            high += x >> 32
//!            low   = all - (high << 32)       which has lost nothing, for up to 2^32 vectors
//!            sum   = low + high
//!
//! averaged   all  += x              modulo 2^64, carries lost
//!            top  += (average(x0, x1, .. xn) >> 48) - LESS
//!            error = all - (top << 48) * n            which is below 2^63
//!            sum   = error + top * n                  as 2^48 is 1 modulo 2^16 - 1
//! ```
//! The first costs three instructions a vector. The second costs, in units of eight, 2.25: an average
//! of 16-bit lanes, rounded up, needs no room for a carry, so a whole unit needs but one shift and one
//! addition for its tops. What rounding and `LESS` took away `all` still knows, as long as it is less
//! than 2^63. An average of averages is too large by `log2(n) / 2` at most; `LESS` makes it too small
//! instead (or zero), so that the error is never negative and the sum is zero for zeros only. It is
//! below `(1 + LESS) * n` times 2^48 a unit. So after a number of units the two are put together and
//! begin again.
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
    const VECTORS: usize = 8;
}

/// The running sums.
pub struct State<V> {
    all: V,
    /// Of the high halves, or of the averages' tops.
    high: V,
    /// What was put together so far.
    settled: V,
    /// Binary logarithm of the vectors in a unit.
    shift: u32,
    /// Units until the sums must be settled.
    left: u32,
}

/// What is taken off an average of up to 16 vectors: no less than it was rounded up by.
const LESS: u16 = 2;

/// Units after which averages are settled: 1024 vectors are off by less than 2^12 times 2^48, so that
/// eight lanes of it add up to less than 2^63.
const fn units(n: usize) -> u32 {
    1024 / n as u32
}

/// The 32-bit halves of each lane, added.
#[inline(always)]
fn halve<L: Lanes>(lanes: L, x: L::V) -> L::V {
    lanes.add64(lanes.and(x, lanes.splat64(0xffff_ffff)), lanes.shr64::<32>(x))
}

impl InternetSum {
    #[inline(always)]
    fn settle<L: Lanes>(lanes: L, state: &mut State<L::V>) {
        let sum = if L::AVERAGES {
            let mut tops = state.high;
            for _ in 0..state.shift {
                tops = lanes.add64(tops, tops);
            }
            lanes.add64(lanes.sub64(state.all, lanes.shl64::<48>(tops)), tops)
        } else {
            let low = lanes.sub64(state.all, lanes.shl64::<32>(state.high));
            lanes.add64(halve(lanes, low), halve(lanes, state.high))
        };
        state.settled = lanes.add64(state.settled, sum);
        state.all = lanes.zero();
        state.high = lanes.zero();
    }
}

impl<L: Lanes> Run<L> for InternetSum {
    type State = State<L::V>;
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        let zero = lanes.zero();
        State { all: zero, high: zero, settled: zero, shift: 0, left: units(16) }
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        if N == 1 {
            state.settled = lanes.add64(state.settled, halve(lanes, x[0]));
            return;
        }
        if L::AVERAGES {
            state.shift = N.ilog2();
            if state.left == 0 {
                Self::settle(lanes, state);
                state.settled = halve(lanes, state.settled);
                state.left = units(N);
            }
            state.left -= 1;
        }
        let mut all = *x;
        let mut high = *x;
        if !L::AVERAGES {
            for high in &mut high {
                *high = lanes.shr64::<32>(*high);
            }
        }
        let mut n = N;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                all[i] = lanes.add64(all[i], all[i + n]);
                high[i] = if L::AVERAGES {
                    lanes.average16(high[i], high[i + n])
                } else {
                    lanes.add64(high[i], high[i + n])
                };
            }
        }
        if L::AVERAGES {
            let less = lanes.splat16(LESS);
            high[0] = lanes.shr64::<48>(lanes.sub16_saturating(high[0], less));
        }
        state.all = lanes.add64(state.all, all[0]);
        state.high = lanes.add64(state.high, high[0]);
    }
    #[inline(always)]
    fn finish(&self, lanes: L, mut state: Self::State, _: usize) -> Sum {
        Self::settle(lanes, &mut state);
        fold(lanes.sum64(state.settled))
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
