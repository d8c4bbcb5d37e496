//! How old ADUs are that come on a stream, of whose times of sending 24 bits are told: ms, which begin again after 4.66 h. Which
//! turn one is of is known by the time that has passed here since the last; only differences of the two clocks mean anything.

use std::time::Duration;

use fusewire_base::Instant;

use super::HEADER_LEN;
use crate::playout::Times;

/// Where the count begins: a peer's first stamps may be out of order.
const FIRST: u64 = 1 << 32;

/// What ADUs took longer than the fastest of the last ones.
pub(super) struct Ages {
    times: Option<Times>,
    /// When the last came, and when it was sent: ms of the peer's clock, which runs on over what 24 bits hold.
    last: Option<(Instant, u64)>,
}

impl Ages {
    /// Of ADUs that say it.
    pub(super) fn new() -> Ages {
        Ages { times: Some(Times::new()), last: None }
    }

    /// Of ADUs that do not: this takes no memory.
    pub(super) const NONE: Ages = Ages { times: None, last: None };

    /// How much longer than the fastest this one took, that comes now.
    pub(super) fn behind(&mut self, now: Instant, head: [u8; HEADER_LEN]) -> Duration {
        let sent = self.unwrapped(now, u32::from_be_bytes(head));
        let Some(times) = &mut self.times else { return Duration::ZERO };
        // What a peer says of its clock may be more than fits.
        let sent = Instant::from_ns(sent.saturating_mul(1_000_000));
        times.push(now, sent)
    }

    /// When one was sent of which the last 24 bits of this say so: of all times that they may mean, the nearest to the last one's
    /// and what has passed since.
    fn unwrapped(&mut self, now: Instant, stamp: u32) -> u64 {
        let expected = match self.last {
            Some((at, sent)) => sent
                .saturating_add(now.saturating_since(at).as_millis().min(u64::MAX.into()) as u64),
            None => FIRST + u64::from(stamp & 0xff_ffff),
        };
        let ahead = (stamp.wrapping_sub(expected as u32) << 8) as i32 >> 8;
        let sent = expected.saturating_add_signed(ahead.into());
        self.last = Some((now, sent));
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::super::{head, units};
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn stamped(sent: u64) -> [u8; HEADER_LEN] {
        head(3, units(ms(sent)))
    }

    #[test]
    fn how_old_one_is_is_counted_from_the_fastest_over_the_clocks_end() {
        let mut ages = Ages::new();
        let mut behind = |now: u64, sent: u64| ages.behind(Instant::from_ms(now), stamped(sent));
        let end = 1 << 24;
        assert_eq!(behind(1000, end - 20), ms(0));
        assert_eq!(behind(1060, end - 10), ms(50));
        assert_eq!(behind(1100, end + 20), ms(60));
        assert_eq!(behind(1030, end + 10), ms(0));
        let mut none = Ages::NONE;
        assert_eq!(none.behind(Instant::from_ms(9), [3, 0, 0, 1]), ms(0));
    }

    /// What comes after hours is no older for that, and the clock goes on from there.
    #[test]
    fn a_pause_of_any_length_is_no_age() {
        for hours in [1, 2, 3, 5, 9, 24, 240] {
            let (mut ages, gap) = (Ages::new(), hours * HOUR);
            let mut clock = |now: u64, sent: u64| {
                let head = stamped(sent);
                ages.unwrapped(Instant::from_ms(now), u32::from_be_bytes(head))
            };
            let first = clock(1000, 77);
            assert_eq!(clock(1000 + gap, 77 + gap) - first, gap, "{hours} h");
            // Longer on its way, and a drift of 1 in 10,000.
            assert_eq!(clock(1030 + 2 * gap, 77 + 2 * gap) - first, 2 * gap, "{hours} h");
            let drift = gap / 10_000;
            assert_eq!(clock(1000 + 3 * gap, 77 + 3 * gap + drift) - first, 3 * gap + drift);
            let mut behind =
                |now: u64, sent: u64| ages.behind(Instant::from_ms(now), stamped(sent));
            assert_eq!(behind(1000 + 4 * gap, 77 + 4 * gap + drift), ms(0), "{hours} h");
            assert_eq!(behind(2050 + 4 * gap, 1077 + 4 * gap + drift), ms(50), "{hours} h");
        }
    }

    /// A peer may say of its clock what it likes.
    #[test]
    fn a_clock_that_leaps_ever_on_overflows_nothing() {
        let mut ages = Ages::new();
        let all = u64::MAX / 1_000_000 / 0x7f_ffff + 1000;
        for n in 0..all {
            ages.behind(Instant::from_ms(1), stamped(n * 0x7f_ffff));
        }
        assert!(ages.last.is_some_and(|(_, sent)| sent > u64::MAX / 1_000_000));
        ages.last = Some((Instant::ZERO, u64::MAX - 5));
        assert_eq!(ages.unwrapped(Instant::from_ms(20), 7), u64::MAX);
    }
}
