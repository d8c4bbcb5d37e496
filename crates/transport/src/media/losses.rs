//! The average loss interval (RFC 5348, section 5.4), by which NADA knows how long a loss counts (RFC 8698, section 4.2).

use core::time::Duration;

use fusewire_base::Instant;

/// Weights of the intervals, the newest first (RFC 5348, section 5.4; n = 8).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Packets from loss event to loss event, of those that came: where most are lost, as after a step down from a high rate, an
/// event is not far from the next for being many numbers away.
#[derive(Clone, Debug, Default)]
pub(super) struct LossIntervals {
    /// Where the last loss event began: packets that had come, and time of sending.
    last: Option<(u64, Instant)>,
    /// Intervals that have ended, the newest first; so many of them.
    ended: [f64; WEIGHTS.len()],
    count: usize,
}

impl LossIntervals {
    /// A packet is lost, behind so many that came. Those that were sent within a round trip of an event's first are one event (RFC 5348, section
    /// 5.2).
    pub fn on_lost(&mut self, came: u64, sent_at: Instant, rtt: Duration) {
        if let Some((first, at)) = self.last {
            if sent_at <= at + rtt {
                return;
            }
            self.ended.rotate_right(1);
            self.ended[0] = (came - first).max(1) as f64;
            self.count = (self.count + 1).min(WEIGHTS.len());
        }
        self.last = Some((came, sent_at));
    }

    /// Packets since the last loss event, when so many came, and loss_int, their average number between two;
    /// `None` before the first loss.
    ///
    /// After a single event there is no interval: an observation window stands for it, of which `window` are the packets, so
    /// that the loss counts some seconds. (What RFC 5348, section 6.3.1, guesses from the rate is minutes after a step down
    /// from a high one.) The open interval is not averaged, as RFC 5348 would have it: seven of those would never have
    /// passed.
    pub fn current(&self, came: u64, window: u32) -> Option<(f64, f64)> {
        let (first, _) = self.last?;
        let since = came.saturating_sub(first) as f64;
        let (mut sum, mut weights) = (0.0, 0.0);
        for (interval, weight) in self.ended[..self.count].iter().zip(WEIGHTS) {
            (sum, weights) = (sum + interval * weight, weights + weight);
        }
        Some((since, if self.count == 0 { f64::from(window.max(1)) } else { sum / weights }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_round_trip_are_one_event_and_intervals_are_weighted() {
        let (mut losses, rtt) = (LossIntervals::default(), Duration::from_millis(100));
        let at = |n: u64| Instant::from_ms(10 * n);
        let lose = |losses: &mut LossIntervals, n| losses.on_lost(n, at(n), rtt);
        assert_eq!(losses.current(5, 40), None);
        lose(&mut losses, 10);
        lose(&mut losses, 15);
        assert_eq!(losses.current(17, 40), Some((7.0, 40.0)), "one event, and no interval yet");
        lose(&mut losses, 30);
        lose(&mut losses, 70);
        assert_eq!(losses.ended[..2], [40.0, 20.0]);
        assert_eq!(losses.current(75, 40), Some((5.0, 30.0)));
        for n in 1..20 {
            lose(&mut losses, 70 + 50 * n);
        }
        assert_eq!(losses.current(1021, 40), Some((1.0, 50.0)));
        lose(&mut losses, 2020);
        let weighted = (1000.0 + 3.0 * 50.0 + 2.0 * 50.0) / 6.0;
        assert!((losses.current(2021, 40).unwrap().1 - weighted).abs() < 1e-9);
    }
}
