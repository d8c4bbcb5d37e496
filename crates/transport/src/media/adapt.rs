//! From a target of bits a second to what an application makes: how large its ADUs are, and how many a second.

use core::ops::RangeInclusive;

/// What gives way when there is less to send with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yields {
    /// Bits of an ADU.
    Quality,
    /// ADUs a second.
    Frequency,
}

/// What to make now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Made {
    /// Bits of an ADU.
    pub bits: u64,
    /// ADUs a second.
    pub hz: f64,
    /// Not even the least that the application has a use for fits the target: this is it, and it is too much. Who hears of
    /// it stops something, or lets a circuit breaker do so ([`Breaker`](super::Breaker)).
    pub is_below: bool,
}

/// Sizes and frequencies that an application can make, and the order in which they yield: the first goes down to its least
/// before the next moves at all. What is not in the order stays at its most.
///
/// ```
/// use fusewire_transport::media::{Adapt, Yields::{Frequency, Quality}};
///
/// // 150 to 2,500 kbit/s at 5 to 30 frames a second.
/// let adapt = Adapt::new(150_000..=2_500_000, 5.0..=30.0, &[Quality, Frequency]);
/// let made = adapt.to(2_500_000);
/// assert_eq!((made.bits, made.hz, made.is_below), (83_333, 30.0, false));
/// // Worse frames, as many of them;
/// let made = adapt.to(1_200_000);
/// assert_eq!((made.bits, made.hz), (40_000, 30.0));
/// // the worst, fewer of them;
/// let made = adapt.to(300_000);
/// assert_eq!((made.bits, made.hz, made.is_below), (30_000, 10.0, false));
/// // and what is less than the least.
/// let made = adapt.to(149_000);
/// assert_eq!((made.bits, made.hz, made.is_below), (30_000, 5.0, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adapt {
    bits: (f64, f64),
    hz: (f64, f64),
    order: [Option<Yields>; 2],
    least: u64,
}

impl Adapt {
    /// Of bits a second, ADUs a second, and what yields. An ADU is largest at the highest rate and frequency, and smallest
    /// at the lowest of what yields.
    ///
    /// # Panics
    /// If a range is empty, a frequency is not above zero, or more than two yield.
    pub fn new(rate: RangeInclusive<u64>, hz: RangeInclusive<f64>, order: &[Yields]) -> Adapt {
        let (least, most) = (*rate.start(), *rate.end());
        let (hz_min, hz_max) = (*hz.start(), *hz.end());
        assert!(least <= most && 0.0 < hz_min && hz_min <= hz_max && order.len() <= 2);
        let yields = |what| order.contains(&what);
        let hz_min = if yields(Yields::Frequency) { hz_min } else { hz_max };
        let bits_max = most as f64 / hz_max;
        let bits_min = if yields(Yields::Quality) { least as f64 / hz_min } else { bits_max };
        Adapt {
            bits: (bits_min.min(bits_max), bits_max),
            hz: (hz_min, hz_max),
            order: [order.first().copied(), order.get(1).copied()],
            least,
        }
    }

    /// What `target` bits a second are used for.
    pub fn to(&self, target: u64) -> Made {
        let (mut bits, mut hz) = (self.bits.1, self.hz.1);
        for yields in self.order.iter().flatten() {
            let is_least = match yields {
                Yields::Quality => {
                    bits = (target as f64 / hz).clamp(self.bits.0, self.bits.1);
                    bits <= self.bits.0
                }
                Yields::Frequency => {
                    hz = (target as f64 / bits).clamp(self.hz.0, self.hz.1);
                    hz <= self.hz.0
                }
            };
            if !is_least {
                break;
            }
        }
        let (made, bits) = (bits * hz, bits as u64);
        // What is lost to rounding is no want.
        let is_below = target < self.least || made > target as f64 * (1.0 + 1e-9);
        Made { bits, hz, is_below }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Yields::{Frequency, Quality};

    #[test]
    fn the_first_yields_first_and_all_is_used() {
        for order in [[Quality, Frequency], [Frequency, Quality]] {
            let adapt = Adapt::new(150_000..=2_500_000, 5.0..=30.0, &order);
            let mut before = adapt.to(u64::MAX);
            assert_eq!((before.bits, before.hz), (83_333, 30.0));
            for target in (150_000..2_500_000u64).rev().step_by(10_000) {
                let made = adapt.to(target);
                assert!(made.bits <= before.bits && made.hz <= before.hz && !made.is_below);
                let rate = made.bits as f64 * made.hz;
                assert!((target as f64 - rate).abs() < 60.0, "{target}: {made:?}");
                let moved = (made.bits != before.bits, made.hz != before.hz);
                let (first_is_least, second_moved) = match order[0] {
                    Quality => (made.bits == 30_000, moved.1),
                    Frequency => (made.hz == 5.0, moved.0),
                };
                assert!(!second_moved || first_is_least, "{target}: {made:?} after {before:?}");
                before = made;
            }
            assert!(adapt.to(149_999).is_below);
        }
    }

    #[test]
    fn what_is_not_in_the_order_stays() {
        let quality = Adapt::new(300_000..=3_000_000, 5.0..=30.0, &[Quality]);
        assert_eq!(quality.to(300_000), Made { bits: 10_000, hz: 30.0, is_below: false });
        assert!(quality.to(299_999).is_below);
        let frequency = Adapt::new(1..=3_000_000, 6.0..=30.0, &[Frequency]);
        assert_eq!(frequency.to(1_000_000), Made { bits: 100_000, hz: 10.0, is_below: false });
        assert_eq!(frequency.to(500_000), Made { bits: 100_000, hz: 6.0, is_below: true });
        let fixed = Adapt::new(64_000..=64_000, 50.0..=50.0, &[]);
        assert_eq!(fixed.to(64_000), Made { bits: 1280, hz: 50.0, is_below: false });
        assert!(fixed.to(63_000).is_below);
    }
}
