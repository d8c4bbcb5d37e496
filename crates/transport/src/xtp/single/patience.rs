//! How long is waited for an answer before a request goes again (`docs/xtp.md`, section 15).

use core::time::Duration;

use crate::rtt::{self, Estimator};
use fusewire_base::Instant;

/// What an answer may take beyond what answers take, before its request goes again: an application that was not running.
pub const ANSWER_SLACK: Duration = Duration::from_millis(10);

/// The same where answers come from so far away (`FAR`) that one which is missing is rather lost than late, and how long they take is
/// known: RFC 9002, section 6.2.1 (`kGranularity`).
const FAR_SLACK: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_millis(1);

/// What is expected of answers at most: one that takes longer may be asked for again, and then is waited for by a context.
const USUAL_MAX: Duration = Duration::from_secs(2);

/// How long a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Before it goes again for the first time, as a probe (RFC 8985, section 7.2), where that is sooner than WTIMER;
    /// `None` where nothing is known of the path.
    pub probe: Option<Duration>,
    /// WTIMER before there is a sample, in as far as the settings let it.
    pub wtimer: Duration,
    /// The shortest round trip: what comes sooner after a repetition answers what went before.
    pub rtt_min: Duration,
}

impl Patience {
    /// Where nothing is known of the path.
    pub const UNKNOWN: Patience =
        Patience { probe: None, wtimer: Duration::from_secs(1), rtt_min: Duration::ZERO };

    /// The probe, for who has a round trip.
    pub(super) fn probe_of(round_trip: Duration) -> Duration {
        2 * round_trip + ANSWER_SLACK
    }
}

/// How long answers take over one path: the round trip, and what the peer's application takes.
#[derive(Clone, Debug)]
pub struct Answers(Estimator);

impl Default for Answers {
    fn default() -> Answers {
        let config = rtt::Config { rto_min: Duration::ZERO, ..rtt::Config::default() };
        Answers(Estimator::new(&config))
    }
}

impl Answers {
    /// An answer has come after so long ([`Request::took`](super::Request::took)).
    pub fn came(&mut self, took: Duration, now: Instant) {
        self.0.sample(took, now);
    }

    /// What the next request waits; `srtt` and `rtt_min` are the path's, by a connection over it, zero where none has told.
    /// One that waits for an application does not go again because that takes long as always.
    pub fn patience(&self, srtt: Duration, rtt_min: Duration) -> Patience {
        let least = [self.0.min().unwrap_or_default(), rtt_min];
        let rtt_min = least.into_iter().filter(|rtt| !rtt.is_zero()).min().unwrap_or_default();
        let round_trip = if srtt.is_zero() { rtt_min } else { srtt };
        if round_trip.is_zero() {
            return Patience::UNKNOWN;
        }
        let usual = self.0.srtt().map_or(Duration::ZERO, |took| took + 4 * self.0.rttvar());
        let usual = usual.min(USUAL_MAX);
        let probe = match self.0.srtt() {
            // Where the path has become longer each goes again, and tells no time: the connection knows.
            Some(took) if rtt_min >= FAR => {
                usual.max((took.max(round_trip) + FAR_SLACK).min(USUAL_MAX))
            }
            _ => Patience::probe_of(round_trip).max(usual + ANSWER_SLACK),
        };
        let wtimer = self.0.srtt().map_or(Duration::ZERO, |_| self.0.rto().min(USUAL_MAX));
        let wtimer = wtimer.max(2 * round_trip);
        Patience { probe: Some(probe), wtimer, rtt_min }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_probe_waits_for_the_path_and_for_the_application() {
        let mut answers = Answers::default();
        assert_eq!(answers.patience(Duration::ZERO, Duration::ZERO), Patience::UNKNOWN);
        let first = answers.patience(ms(20), ms(18));
        assert_eq!(first, Patience { probe: Some(ms(50)), wtimer: ms(40), rtt_min: ms(18) });
        // An application that takes 300 ms over a path of 20.
        for _ in 0..100 {
            answers.came(ms(320), Instant::ZERO);
        }
        let usual = answers.patience(ms(20), ms(18));
        let whole_ms = |patience: Patience| patience.probe.map(|wait| wait.as_millis());
        assert_eq!((whole_ms(usual), usual.wtimer, usual.rtt_min), (Some(321), ms(321), ms(18)));
        // By answers alone.
        assert_eq!(answers.patience(Duration::ZERO, Duration::ZERO).rtt_min, ms(320));
        for _ in 0..100 {
            answers.came(ms(20), Instant::ZERO);
        }
        assert_eq!(whole_ms(answers.patience(ms(20), ms(18))), Some(21), "it is quick again");
        // Longer than who asks waits without being told that he is heard.
        answers.came(ms(35_000), Instant::ZERO);
        let long = answers.patience(ms(20), ms(18));
        assert_eq!((long.probe, long.wtimer), (Some(ms(2000)), ms(2000)));
    }

    /// Near by, who has not answered in time was perhaps not running; far away, a packet was lost.
    #[test]
    fn a_probe_waits_longer_for_who_is_near() {
        let us = Duration::from_micros;
        for (took, probe) in
            [(us(50), us(10_100)), (us(900), us(11_800)), (ms(2), ms(3)), (ms(10), ms(11))]
        {
            let mut answers = Answers::default();
            for _ in 0..100 {
                answers.came(took, Instant::ZERO);
            }
            let waits = answers.patience(took, took).probe.unwrap();
            let off = waits.abs_diff(probe);
            assert!(off < us(20), "{took:?}: {waits:?}");
        }
    }
}
