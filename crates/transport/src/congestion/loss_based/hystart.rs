//! HyStart++ (RFC 9406): leaves slow start when the round-trip time rises, by way of a conservative
//! slow start that can still find out that the rise was jitter.

use core::time::Duration;

use super::Acked;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
/// Conservative slow start opens the window by this fraction of what slow start does.
pub(super) const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// How fast the window may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    SlowStart,
    /// Conservative slow start (CSS).
    Conservative,
    /// Congestion avoidance begins.
    Done,
}

/// State of the initial slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    /// `windowEnd`: the round ends when SND.UNA reaches it.
    window_end: Option<u64>,
    last_round_rtt_min: Duration,
    current_round_rtt_min: Duration,
    rtt_sample_count: u32,
    /// Set in conservative slow start.
    css_baseline_rtt_min: Option<Duration>,
    css_round_count: u32,
}

impl Default for HyStart {
    fn default() -> Self {
        HyStart {
            window_end: None,
            last_round_rtt_min: Duration::MAX,
            current_round_rtt_min: Duration::MAX,
            rtt_sample_count: 0,
            css_baseline_rtt_min: None,
            css_round_count: 0,
        }
    }
}

impl HyStart {
    /// RFC 9406, section 4.2.
    pub(super) fn on_ack(&mut self, acked: &Acked) -> Phase {
        if let Some(rtt) = acked.rtt {
            self.current_round_rtt_min = self.current_round_rtt_min.min(rtt);
            self.rtt_sample_count = self.rtt_sample_count.saturating_add(1);
        }
        if self.rtt_sample_count >= N_RTT_SAMPLE {
            self.judge();
        }
        if self.window_end.is_none_or(|end| acked.snd_una >= end) {
            self.begin_round(acked.snd_nxt);
        }
        match self.css_baseline_rtt_min {
            None => Phase::SlowStart,
            Some(_) if self.css_round_count >= CSS_ROUNDS => Phase::Done,
            Some(_) => Phase::Conservative,
        }
    }

    fn judge(&mut self) {
        if let Some(baseline) = self.css_baseline_rtt_min {
            if self.current_round_rtt_min < baseline {
                self.css_baseline_rtt_min = None;
                self.css_round_count = 0;
            }
            return;
        }
        if self.last_round_rtt_min == Duration::MAX {
            return;
        }
        let thresh =
            (self.last_round_rtt_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        if self.current_round_rtt_min >= self.last_round_rtt_min + thresh {
            self.css_baseline_rtt_min = Some(self.current_round_rtt_min);
            self.css_round_count = 0;
        }
    }

    fn begin_round(&mut self, snd_nxt: u64) {
        self.window_end = Some(snd_nxt);
        self.last_round_rtt_min = self.current_round_rtt_min;
        self.current_round_rtt_min = Duration::MAX;
        self.rtt_sample_count = 0;
        if self.css_baseline_rtt_min.is_some() {
            self.css_round_count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_base::Instant;

    /// One round of `samples` acknowledgements with a round-trip time; returns the last phase. Each
    /// round has 1000 bytes, the next is in flight when the last acknowledgement comes.
    fn round(hystart: &mut HyStart, offset: &mut u64, rtt_us: u64, samples: u64) -> Phase {
        let mut phase = Phase::SlowStart;
        for i in 1..=samples {
            phase = hystart.on_ack(&Acked {
                now: Instant::ZERO,
                bytes: 1,
                in_flight_before: 0,
                in_flight: 0,
                snd_una: *offset + if i == samples { 1000 } else { i },
                snd_nxt: *offset + 2000,
                rtt: Some(Duration::from_micros(rtt_us)),
                srtt: Duration::ZERO,
                window_limited: true,
                newest: None,
            });
        }
        *offset += 1000;
        phase
    }

    fn settled() -> (HyStart, u64) {
        let (mut hystart, mut offset) = (HyStart::default(), 0);
        for _ in 0..3 {
            assert_eq!(round(&mut hystart, &mut offset, 40_000, 10), Phase::SlowStart);
        }
        (hystart, offset)
    }

    #[test]
    fn leaves_slow_start_when_the_round_trip_time_rises() {
        let (mut hystart, mut offset) = settled();
        // RttThresh = clamp(40 ms / 8) = 5 ms.
        assert_eq!(round(&mut hystart, &mut offset, 44_900, 10), Phase::SlowStart);
        let (mut hystart, mut offset) = settled();
        assert_eq!(round(&mut hystart, &mut offset, 45_000, 10), Phase::Conservative);
        for _ in 0..CSS_ROUNDS - 2 {
            assert_eq!(round(&mut hystart, &mut offset, 45_000, 10), Phase::Conservative);
        }
        assert_eq!(round(&mut hystart, &mut offset, 45_000, 10), Phase::Done);
    }

    #[test]
    fn a_fall_of_the_round_trip_time_resumes_slow_start() {
        let (mut hystart, mut offset) = settled();
        assert_eq!(round(&mut hystart, &mut offset, 60_000, 10), Phase::Conservative);
        assert_eq!(round(&mut hystart, &mut offset, 41_000, 10), Phase::SlowStart);
    }

    #[test]
    fn the_threshold_has_bounds_and_few_samples_say_nothing() {
        let (mut hystart, mut offset) = settled();
        assert_eq!(round(&mut hystart, &mut offset, 400_000, 7), Phase::SlowStart, "7 samples");
        for (base, below, above) in [(1_000, 4_900, 5_000), (400_000, 415_900, 416_000)] {
            for (rtt, phase) in [(below, Phase::SlowStart), (above, Phase::Conservative)] {
                let (mut hystart, mut offset) = (HyStart::default(), 0);
                for _ in 0..3 {
                    round(&mut hystart, &mut offset, base, 10);
                }
                assert_eq!(round(&mut hystart, &mut offset, rtt, 10), phase, "{base} to {rtt}");
            }
        }
    }
}
