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
//!            top  += average(x0, x1, .. xn) >> 48
//!            error = all - (top << 48) * n            which is between -2^63 and 2^63
//!            sum   = error + top * n                  as 2^48 is 1 modulo 2^16 - 1
//! ```
//! The first costs three instructions a vector. The second costs, in units of eight, 2.125: an average
//! of 16-bit lanes, rounded up, needs no room for a carry, so a whole unit needs but one shift and one
//! addition for its tops. What rounding took away or added `all` still knows, as long as the error is
//! short of 2^63. An average of averages is too large by `log2(n) / 2` at most, the shift takes off less
//! than 1: a unit's error is between -2 and 1 times `n` times 2^48. So after a number of units the two
//! are put together and begin again. A sum below zero is lifted by a multiple of 2^16 - 1 in the end.
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
    /// What was put together so far, but for `all`.
    settled: u64,
    /// Units until the sums must be settled.
    left: u32,
}

/// Units after which averages are settled: 1024 vectors are off by less than 2^11 times 2^48, so that
/// eight lanes of it add up to less than 2^62.
const fn units(n: usize) -> u32 {
    1024 / n as u32
}

/// The 32-bit halves of each lane, added.
#[inline(always)]
fn halve<L: Lanes>(lanes: L, x: L::V) -> L::V {
    lanes.add64(lanes.and(x, lanes.splat64(0xffff_ffff)), lanes.shr64::<32>(x))
}

impl InternetSum {
    /// `all` and `high` put together.
    #[inline(always)]
    fn together<L: Lanes, const N: usize>(lanes: L, state: &State<L::V>) -> L::V {
        if L::AVERAGES {
            let mut tops = state.high;
            for _ in 0..N.ilog2() {
                tops = lanes.add64(tops, tops);
            }
            lanes.add64(lanes.sub64(state.all, lanes.shl64::<48>(tops)), tops)
        } else {
            let low = lanes.sub64(state.all, lanes.shl64::<32>(state.high));
            lanes.add64(halve(lanes, low), halve(lanes, state.high))
        }
    }
}

impl<L: Lanes> Run<L> for InternetSum {
    type State = State<L::V>;
    #[inline(always)]
    fn start(&self, lanes: L) -> Self::State {
        State { all: lanes.zero(), high: lanes.zero(), settled: 0, left: units(16) }
    }
    #[inline(always)]
    fn unit<const N: usize>(&self, lanes: L, state: &mut Self::State, x: &mut [L::V; N]) {
        if N == 1 {
            state.all = lanes.add64(state.all, halve(lanes, x[0]));
            return;
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
            high[0] = lanes.shr64::<48>(high[0]);
        }
        state.all = lanes.add64(state.all, all[0]);
        state.high = lanes.add64(state.high, high[0]);
        if L::AVERAGES {
            state.left -= 1;
            if state.left == 0 {
                let sum = lifted(lanes.sum64(Self::together::<L, N>(lanes, state)));
                let zero = lanes.zero();
                let settled = state.settled + (sum & 0xffff_ffff) + (sum >> 32);
                *state = State { all: zero, high: zero, settled, left: units(N) };
            }
        }
    }
    #[inline(always)]
    fn pause<const N: usize>(&self, lanes: L, state: &mut Self::State) {
        if N > 1 {
            state.all = Self::together::<L, N>(lanes, state);
            state.high = lanes.zero();
        }
    }
    #[inline(always)]
    fn finish(&self, lanes: L, state: Self::State, _: usize) -> Sum {
        Sum::from_little_endian(state.settled + lifted(lanes.sum64(state.all)))
    }
}

/// The same modulo 2^16 - 1, without a sign. Above -2^62 before, below 2^63 after.
#[inline(always)]
fn lifted(sum: u64) -> u64 {
    let negative = (sum as i64 >> 63) as u64;
    sum.wrapping_add(negative & 0xffff << 47)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    /// Where averages are rounded most, and where 64 bits carry most, over several settlements.
    #[test]
    fn extremes_lose_no_carry() {
        let patterns: [&[u8]; 7] = [
            &[0],
            &[0xff],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 0x80],
            &[0, 0, 0, 0, 0, 0, 1, 0],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff],
            &[0, 0, 0, 0, 0, 0, 0xff, 0x7f, 1],
        ];
        for pattern in patterns {
            let message: Vec<u8> = pattern.iter().copied().cycle().take(300_000).collect();
            // Whole vectors that change are what an average of averages is too large for.
            let mut jumping = message.clone();
            for (i, vector) in jumping.chunks_mut(32).enumerate() {
                if [1, 2, 4, 7].contains(&(i % 8)) {
                    vector.fill(0);
                }
            }
            for level in Level::available() {
                for message in [&message, &jumping] {
                    for len in [0, 1, 2, 63, 256, 1024, 16_384, 16_640, 65_536, 299_999] {
                        let bytes = &message[..len];
                        let sum = crate::sum_of_many(level, bytes);
                        assert_eq!(sum, Sum::of(bytes), "{level}, {len} bytes of {pattern:x?}");
                        let zero = bytes.iter().all(|&byte| byte == 0);
                        assert_eq!(sum.folded() == 0, zero, "{level}, {len} bytes of {pattern:x?}");
                    }
                }
            }
        }
    }
}
