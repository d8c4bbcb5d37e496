//! Points in time on a monotonic clock whose origin the caller chooses.
//!
//! Below `stack`, time is an argument: a test drives a whole connection on a virtual clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// Nanoseconds since an origin that the caller chose. Covers 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Instant = Instant(0);

    /// The instant `ns` nanoseconds after the origin.
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }

    /// The instant `us` microseconds after the origin.
    pub const fn from_us(us: u64) -> Self {
        Instant(us * 1_000)
    }

    /// The instant `ms` milliseconds after the origin.
    pub const fn from_ms(ms: u64) -> Self {
        Instant(ms * 1_000_000)
    }

    /// Nanoseconds since the origin.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin.
    pub const fn as_ms(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Time from `earlier` to `self`; zero when `earlier` is the later one.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, d: Duration) -> Instant {
        let ns = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(ns))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Instant::from_ms(5);
        assert_eq!(t + Duration::from_millis(2), Instant::from_ms(7));
        assert_eq!(Instant::from_ms(7) - t, Duration::from_millis(2));
        assert_eq!(t - Instant::from_ms(7), Duration::ZERO);
        assert_eq!(Instant::from_ns(u64::MAX) + Duration::from_secs(1), Instant::from_ns(u64::MAX));
    }

    #[test]
    fn shows_seconds_and_microseconds() {
        assert_eq!(Instant::from_us(1_500_042).to_string(), "1.500042s");
    }
}
