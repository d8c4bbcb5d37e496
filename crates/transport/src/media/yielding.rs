//! Media that yield to what is more important and goes the same way, while the path's queue is longer than that can bear
//! ([`Config::queue_max`](super::Config::queue_max)): as long as the queue gets shorter by it, as then it is their own.

use core::time::Duration;

use fusewire_base::Instant;

use super::nada::Seen;
use super::path::Standing;

/// Within so long it is to be gone what a queue has too much.
const DRAINS: Duration = Duration::from_millis(500);
/// Of what came so much is sent at most, and at least: a queue gets shorter by the rest.
const LEFT_MAX: f64 = 0.9;
const LEFT_MIN: f64 = 0.7;
/// How long it takes until yielding shows, beyond the round trip: two reports, and a filter of delays that is full of new ones.
const SHOWS: Duration = Duration::from_millis(500);
/// A queue of one's own has gone by to so much of what it was at its longest when three times that have passed.
const GONE_BY: f64 = 0.6;
const LONGEST: u32 = 3;
/// Of a longer queue that is waited for as of one of so much: how long it is is told by the peer's clock.
const WAITED_FOR_MAX: Duration = Duration::from_secs(2);
/// A queue that is another's is left to him for so long, twice as long each time.
const RESTS: Duration = Duration::from_secs(2);
const RESTS_MAX: Duration = Duration::from_secs(8);
/// What makes less of its rate than this has not made the queue, if all of it goes through.
const USES: f64 = 0.7;
const THROUGH: f64 = 0.95;

/// Whether media yield now.
#[derive(Clone, Debug)]
pub(super) struct Yielding {
    most: Duration,
    turn: Option<Turn>,
    /// How long the last rest was, less each time that yielding has helped.
    rest: Duration,
    /// Until then the queue is taken for another's.
    rests: Option<Instant>,
}

/// One time of yielding.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// When it began, or was seen to help, and the longest queue since.
    since: Instant,
    longest: Duration,
    /// What came when it began, bit/s; 0: not known yet.
    had: f64,
}

impl Yielding {
    /// To what bears a queue of this length.
    pub fn new(most: Duration) -> Yielding {
        Yielding { most, turn: None, rest: Duration::ZERO, rests: None }
    }

    /// What a queue was is not known any more.
    pub fn forget(&mut self) {
        self.turn = None;
    }

    /// What becomes of the rate by a report; `standing` says of a queue what goes through it.
    pub fn on_report(
        &mut self,
        now: Instant,
        seen: &Seen,
        standing: impl FnOnce(Duration) -> Option<Standing>,
        reference: f64,
    ) -> f64 {
        self.rests.take_if(|until| *until <= now);
        if seen.queue <= self.most {
            if self.turn.take().is_some() {
                self.rest /= 2;
            }
            return reference;
        }
        if self.rests.is_some() {
            return reference;
        }
        let turn = self.turn.get_or_insert(Turn { since: now, longest: seen.queue, had: 0.0 });
        turn.longest = turn.longest.max(seen.queue);
        let wait = LONGEST * turn.longest.min(WAITED_FOR_MAX);
        if now - turn.since >= SHOWS + seen.rtt_least + wait {
            if seen.queue > turn.longest.mul_f64(GONE_BY) {
                // What was yielded is another's gain: it is taken back.
                let had = turn.had;
                self.turn = None;
                self.rest = (2 * self.rest).clamp(RESTS, RESTS_MAX);
                self.rests = Some(now + self.rest);
                return reference.max(had);
            }
            (turn.since, turn.longest) = (now, seen.queue);
        }
        let Some(Standing { sent, came }) = standing(seen.queue) else { return reference };
        if sent < USES * reference && came > THROUGH * sent {
            return reference;
        }
        if turn.had == 0.0 {
            turn.had = came.min(reference);
        }
        let too_much = (seen.queue - self.most).as_secs_f64() / DRAINS.as_secs_f64();
        reference.min((1.0 - too_much).clamp(LEFT_MIN, LEFT_MAX) * came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(20);

    /// Media before a queue, at 1 Mbit/s.
    struct Media {
        yielding: Yielding,
        now: Instant,
        rate: f64,
    }

    impl Media {
        fn new() -> Media {
            let now = Instant::from_ms(10_000);
            Media { yielding: Yielding::new(MOST), now, rate: 1e6 }
        }

        /// A report each tenth of a second, of a queue of so many ms through which so much goes of what is sent.
        fn reports(&mut self, tenths: u64, queue: u64, standing: Option<(f64, f64)>) {
            for _ in 0..tenths {
                self.now += Duration::from_millis(100);
                let seen = Seen {
                    queue: Duration::from_millis(queue),
                    rtt_least: Duration::from_millis(100),
                    ..Seen::default()
                };
                let standing = standing.map(|(sent, came)| Standing { sent, came });
                self.rate = self.yielding.on_report(self.now, &seen, |_| standing, self.rate);
            }
        }

        /// Reports of a queue that stays as long, until it is left alone: so many.
        fn yields_for(&mut self) -> u64 {
            for reports in 1..100 {
                self.reports(1, 100, Some((1e6, 1e6)));
                if self.yielding.turn.is_none() {
                    return reports;
                }
                assert!(self.rate < 1e6, "{}", self.rate);
            }
            panic!("it yields on and on");
        }
    }

    #[test]
    fn a_longer_queue_is_yielded_more() {
        for (queue, left) in [(20, 1.0), (25, 0.9), (120, 0.8), (2000, 0.7)] {
            let mut media = Media::new();
            media.reports(1, queue, Some((1e6, 1e6)));
            assert!((media.rate - left * 1e6).abs() < 1.0, "{queue} ms: {}", media.rate);
        }
    }

    /// What came while the queue stood counts, and not where that is not known, nor what makes little and loses nothing of it.
    #[test]
    fn what_makes_little_keeps_its_rate() {
        for (standing, rate) in [
            (None, 1e6),
            (Some((1e5, 1e5)), 1e6),
            (Some((1e5, 5e4)), 5e4 * 0.84),
            (Some((2.5e6, 6e5)), 6e5 * 0.84),
        ] {
            let mut media = Media::new();
            media.reports(1, 100, standing);
            assert!((media.rate - rate).abs() < 1.0, "{standing:?}: {}", media.rate);
        }
    }

    /// A queue that does not go is somebody else's: what was yielded is taken back, and not again for two seconds, four, and eight.
    #[test]
    fn yielding_ends_where_it_does_not_help_and_each_time_for_longer() {
        let mut media = Media::new();
        for rests in [20, 40, 80, 80] {
            media.rate = 1e6;
            // Behind the first what is tried has a second less a tenth to show.
            assert_eq!(media.yields_for(), 10);
            assert_eq!(media.rate, 1e6, "it is taken back");
            media.reports(rests - 1, 100, Some((1e6, 1e6)));
            assert_eq!(media.rate, 1e6, "{rests}");
            media.reports(1, 100, Some((1e6, 1e6)));
            assert!(media.rate < 1e6, "{rests}");
            media.yielding.forget();
        }
    }

    /// One that gets shorter is yielded to for as long as it does; then the next rest is half as long.
    #[test]
    fn yielding_goes_on_while_it_helps() {
        let mut media = Media::new();
        media.yields_for();
        media.reports(20, 100, None);
        for queue in (2..100).rev() {
            media.reports(1, 20 * queue, Some((1e6, 1e6)));
            assert!(media.yielding.rests.is_none(), "{queue}");
        }
        media.reports(1, 0, None);
        assert_eq!(media.yielding.rest, RESTS / 2);
    }

    /// A peer whose clock runs as it likes tells of a queue as long as it likes, which does not go.
    #[test]
    fn what_a_clock_tells_is_waited_for_so_long_at_most() {
        for queue_s in [3, 60, 1 << 40] {
            let mut media = Media::new();
            for reports in 1.. {
                media.reports(1, 1000 * queue_s, Some((1e6, 1e6)));
                if media.yielding.turn.is_none() {
                    break;
                }
                assert!(reports <= 66, "a queue of {queue_s} s is waited for");
            }
            assert_eq!(media.rate, 1e6, "it is taken back");
        }
    }

    /// Behind a pause a queue is a new one, and yielding has not failed.
    #[test]
    fn silence_is_no_failure() {
        let mut media = Media::new();
        media.reports(1, 100, None);
        media.yielding.forget();
        media.now += Duration::from_secs(60);
        media.reports(1, 100, Some((1e6, 1e6)));
        assert!(media.rate < 1e6 && media.yielding.rests.is_none());
    }
}
