//! A circuit breaker (RFC 8084): what does not adapt must stop where it does harm, and what adapts where it can go no slower, or
//! nobody answers (RFC 8083, section 4).

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::feedback::{Metric, Report};

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How long is measured (RFC 8084, section 4): some round trips at least, so that what is under way weighs little.
    pub interval: Duration,
    /// The share of lost packets that is too much.
    pub loss: f64,
    /// So many intervals in a row with too much, or without any report, and it stops.
    pub intervals: u32,
}

/// Why it stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// More was lost than may be, in each of so many intervals; the last one's share.
    Loss(f64),
    /// No report came in so many intervals, while something was sent.
    Silence,
}

/// Counts what is sent and what came of it, and says when to stop. It stays open until it is closed by hand (RFC 8084,
/// section 4: recovery is not to be automatic).
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_transport::media::{Breaker, Cause, Limits};
/// use fusewire_wire::feedback::{Metric, Report, emit};
///
/// let limits = Limits { interval: Duration::from_secs(1), loss: 0.1, intervals: 3 };
/// let mut breaker = Breaker::new(Instant::ZERO, limits);
/// // Each second ten packets, of which two are lost.
/// for second in 0..3 {
///     for _ in 0..10 {
///         breaker.on_sent();
///     }
///     let metrics = (0..10).map(|n| if n % 5 == 1 { Metric::Missing } else { Metric::received(0, 1) });
///     let mut bytes = [0; 100];
///     let len = emit(10 * second, 0, metrics, &mut bytes);
///     breaker.on_report(&Report::parse(&bytes[..len]).unwrap());
///     breaker.handle_timeout(Instant::from_ms(1000 * (u64::from(second) + 1)));
/// }
/// assert_eq!(breaker.tripped(), Some(Cause::Loss(0.2)));
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    limits: Limits,
    until: Instant,
    /// Packets that were sent: the next number.
    sent: u64,
    /// Below this, each was judged.
    judged: u64,
    interval: Interval,
    bad: u32,
    silent: u32,
    yields: bool,
    tripped: Option<Cause>,
}

/// What happened in the interval that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    sent: u64,
    came: u64,
    lost: u64,
    has_report: bool,
}

impl Breaker {
    /// Closed: what is sent may go.
    pub fn new(now: Instant, limits: Limits) -> Breaker {
        Breaker {
            until: now + limits.interval,
            limits,
            sent: 0,
            judged: 0,
            interval: Interval::default(),
            bad: 0,
            silent: 0,
            yields: false,
            tripped: None,
        }
    }

    /// A packet left; its number, which goes up one by one from 0.
    pub fn on_sent(&mut self) -> u64 {
        self.interval.sent += 1;
        self.sent += 1;
        self.sent - 1
    }

    /// A report of the receiver's [`Arrivals`](super::Arrivals). Each packet counts once; one that is missing below another
    /// that came is lost, and numbers that were not sent are passed over.
    pub fn on_report(&mut self, report: &Report<'_>) {
        let back = (self.sent as u32).wrapping_sub(report.begin);
        let Some(begin) = self.sent.checked_sub(back.into()) else { return };
        self.interval.has_report = true;
        let mut lost = 0;
        for (number, metric) in (begin..self.sent).zip(report.metrics()) {
            if number < self.judged {
                continue;
            }
            if metric == Metric::Missing {
                lost += 1;
                continue;
            }
            self.interval.came += 1;
            self.interval.lost += core::mem::take(&mut lost);
            self.judged = number + 1;
        }
    }

    /// Whether who sends can go slower than it does: as long as it can, what is lost is for its controller to answer, and silence
    /// alone trips the breaker.
    pub fn set_yields(&mut self, yields: bool) {
        self.yields = yields;
    }

    /// When an interval ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.tripped.is_none().then_some(self.until)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.tripped.is_some() || now < self.until {
            return;
        }
        self.until = now + self.limits.interval;
        let Interval { sent, came, lost, has_report } = core::mem::take(&mut self.interval);
        let share = lost as f64 / (lost + came).max(1) as f64;
        // An interval in which nothing was sent says nothing.
        self.silent = match (has_report, sent) {
            (true, _) => 0,
            (false, 0) => self.silent,
            (false, _) => self.silent + 1,
        };
        self.bad = match (lost + came, share > self.limits.loss) {
            _ if self.yields => 0,
            (0, _) => self.bad,
            (_, true) => self.bad + 1,
            (_, false) => 0,
        };
        if self.bad >= self.limits.intervals {
            self.tripped = Some(Cause::Loss(share));
        } else if self.silent >= self.limits.intervals {
            self.tripped = Some(Cause::Silence);
        }
    }

    /// Why nothing may be sent; `None`: it may.
    pub fn tripped(&self) -> Option<Cause> {
        self.tripped
    }

    /// Somebody has seen to it, and lets packets go again.
    pub fn close(&mut self, now: Instant) {
        let sent = self.sent;
        *self = Breaker { sent, judged: sent, ..Breaker::new(now, self.limits) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::feedback::emit;

    const LIMITS: Limits = Limits { interval: Duration::from_secs(1), loss: 0.1, intervals: 3 };

    /// Sends 100 packets in a second, of which each `lose`th is lost, and reports twice with an overlap.
    fn second(breaker: &mut Breaker, at: u64, lose: Option<u64>, reports: bool) {
        for _ in 0..100 {
            breaker.on_sent();
        }
        let fate = |n: u64| match lose {
            Some(lose) if n.is_multiple_of(lose) => Metric::Missing,
            _ => Metric::received(0, 1),
        };
        for (from, to) in [(0, 60), (30, 100)].into_iter().filter(|_| reports) {
            let (from, to) = (breaker.sent - 100 + from, breaker.sent - 100 + to);
            let mut bytes = [0; 400];
            let len = emit(from as u32, 0, (from..to).map(fate), &mut bytes);
            breaker.on_report(&Report::parse(&bytes[..len]).unwrap());
        }
        breaker.handle_timeout(Instant::from_ms(1000 * (at + 1)));
    }

    #[test]
    fn it_takes_so_many_bad_intervals_in_a_row() {
        let mut breaker = Breaker::new(Instant::ZERO, LIMITS);
        for (at, lose) in [Some(5), Some(5), None, Some(5), Some(5), Some(50)].iter().enumerate() {
            second(&mut breaker, at as u64, *lose, true);
            assert_eq!(breaker.tripped(), None, "second {at}");
        }
        for at in 6..9 {
            assert_eq!(breaker.tripped(), None);
            second(&mut breaker, at, Some(4), true);
        }
        assert!(
            matches!(breaker.tripped(), Some(Cause::Loss(share)) if (share - 0.25).abs() < 0.02)
        );
        // Good weather does not close it; somebody does.
        second(&mut breaker, 9, None, true);
        assert!(breaker.tripped().is_some() && breaker.poll_timeout().is_none());
        breaker.close(Instant::from_ms(10_000));
        second(&mut breaker, 10, None, true);
        assert_eq!(breaker.tripped(), None);
    }

    #[test]
    fn silence_trips_it_and_rest_does_not() {
        let mut breaker = Breaker::new(Instant::ZERO, LIMITS);
        second(&mut breaker, 0, None, true);
        for at in 1..50 {
            breaker.handle_timeout(Instant::from_ms(1000 * (at + 1)));
        }
        assert_eq!(breaker.tripped(), None, "nothing was sent");
        for at in 50..53 {
            assert_eq!(breaker.tripped(), None);
            second(&mut breaker, at, None, false);
        }
        assert_eq!(breaker.tripped(), Some(Cause::Silence));
    }

    #[test]
    fn what_can_go_slower_is_not_tripped_by_loss() {
        let mut breaker = Breaker::new(Instant::ZERO, LIMITS);
        breaker.set_yields(true);
        (0..9).for_each(|at| second(&mut breaker, at, Some(2), true));
        assert_eq!(breaker.tripped(), None);
        breaker.set_yields(false);
        (9..12).for_each(|at| second(&mut breaker, at, Some(2), true));
        assert!(matches!(breaker.tripped(), Some(Cause::Loss(_))));
        breaker.close(Instant::from_ms(12_000));
        breaker.set_yields(true);
        (12..15).for_each(|at| second(&mut breaker, at, None, false));
        assert_eq!(breaker.tripped(), Some(Cause::Silence));
    }

    #[test]
    fn reports_of_what_was_not_sent_count_for_nothing() {
        let mut breaker = Breaker::new(Instant::ZERO, LIMITS);
        breaker.on_sent();
        let mut bytes = [0; 400];
        for begin in [1, 5, u32::MAX, 1 << 31] {
            let metrics =
                (0..100).map(|n| if n == 99 { Metric::received(0, 0) } else { Metric::Missing });
            let len = emit(begin, 0, metrics, &mut bytes);
            breaker.on_report(&Report::parse(&bytes[..len]).unwrap());
        }
        assert_eq!((breaker.interval.lost, breaker.interval.came), (0, 0));
    }
}
