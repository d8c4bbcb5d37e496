//! Round-trip time and retransmission timeout (RFC 6298), with the correction for many samples a
//! round trip that timestamps bring (RFC 7323, appendix G), and the windowed minimum RACK needs
//! (RFC 8985, section 6.2).

use core::time::Duration;

use fusewire_base::Instant;

/// Bounds of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The timeout before the first sample (RFC 6298, rule 2.1).
    pub rto_initial: Duration,
    /// The timeout is never shorter. RFC 6298 (2.4) says 1 s; with RACK-TLP finding losses sooner,
    /// 200 ms keeps a tail loss short without firing on a delayed acknowledgement.
    pub rto_min: Duration,
    /// The timeout is never longer (rule 2.5: at least 60 s).
    pub rto_max: Duration,
    /// Clock granularity G.
    pub granularity: Duration,
    /// How long a minimum counts.
    pub rtt_min_window: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            granularity: Duration::from_millis(1),
            rtt_min_window: Duration::from_secs(300),
        }
    }
}

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub struct Estimator {
    config: Config,
    srtt: Option<Duration>,
    rttvar: Duration,
    /// The timeout before back-off, within its bounds.
    base: Duration,
    doublings: u32,
    /// The timeout with back-off is not longer, unless the estimate is.
    longest: Duration,
    min: Minimum,
}

impl Estimator {
    /// An estimator without samples.
    pub fn new(config: &Config) -> Self {
        Estimator {
            config: *config,
            srtt: None,
            rttvar: Duration::ZERO,
            base: config.rto_initial.clamp(config.rto_min, config.rto_max),
            doublings: 0,
            longest: config.rto_max,
            min: Minimum::default(),
        }
    }

    /// A sample, taken from a segment sent once or from a timestamp's echo (Karn's algorithm is the
    /// caller's), with RFC 6298's own weights. Ends back-off.
    pub fn sample(&mut self, rtt: Duration, now: Instant) {
        self.sample_of(rtt, now, 1);
    }

    /// A sample, of which about `in_flight_segments / 2` come in a round trip: each then weighs less
    /// (RFC 7323, appendix G).
    pub fn sample_of(&mut self, rtt: Duration, now: Instant, in_flight_segments: u32) {
        self.min.insert(now, rtt, self.config.rtt_min_window);
        match self.srtt {
            None => {
                // Rule 2.2.
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
            }
            Some(srtt) => {
                // Rule 2.3 with alpha' = 1/8 and beta' = 1/4, each divided by the expected samples.
                let expected = in_flight_segments.div_ceil(2).max(1);
                self.rttvar = towards(self.rttvar, srtt.abs_diff(rtt), 4 * u64::from(expected));
                self.srtt = Some(towards(srtt, rtt, 8 * u64::from(expected)));
            }
        }
        let srtt = self.srtt.unwrap_or(rtt);
        let rto = srtt + self.config.granularity.max(4 * self.rttvar);
        self.base = rto.clamp(self.config.rto_min, self.config.rto_max);
        self.doublings = 0;
    }

    /// The retransmission timeout with back-off.
    pub fn rto(&self) -> Duration {
        let factor = 1u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.longest.max(self.base))
    }

    /// Back-off ends at `longest` from now on, if that is shorter than before.
    pub fn limit_back_off(&mut self, longest: Duration) {
        self.longest = self.longest.min(longest);
    }

    /// The timer fired: doubles the timeout (rule 5.5).
    pub fn back_off(&mut self) {
        self.doublings = (self.doublings + 1).min(31);
    }

    /// How many times the timeout was doubled since the last sample.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// New data was acknowledged, without a sample: halves the timeout towards the estimate. A peer
    /// without timestamps behind a path that loses much may give no sample for long, and the timeout
    /// would stay at its most (Karn's algorithm); was the halving wrong, the next timeout doubles again.
    pub fn ease_back_off(&mut self) {
        self.doublings = self.doublings.saturating_sub(1);
    }

    /// New data was acknowledged, without a sample: the path lives (RFC 6298, section 5, note).
    pub fn reset_back_off(&mut self) {
        self.doublings = 0;
    }

    /// The handshake is complete. If its timer fired and it gave no sample, data begins with a timeout of three
    /// seconds (rule 5.7).
    pub fn begin_data(&mut self) {
        if self.srtt.is_none() && self.doublings > 0 {
            self.base = Duration::from_secs(3).clamp(self.config.rto_min, self.config.rto_max);
            self.doublings = 0;
        }
    }

    /// The path is another one (peer address changed): estimates are forgotten.
    pub fn reset(&mut self) {
        let longest = self.longest;
        *self = Estimator { longest, ..Estimator::new(&self.config.clone()) };
    }

    /// Smoothed round-trip time (SRTT), once there was a sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// Variation (RTTVAR).
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// The least sample of the window, once there was one.
    pub fn min(&self) -> Option<Duration> {
        self.srtt.map(|_| self.min.best[0].1)
    }
}

/// `from` moved by one `n`th of the way to `to`, in nanoseconds.
fn towards(from: Duration, to: Duration, n: u64) -> Duration {
    let (a, b) = (from.as_nanos() as i128, to.as_nanos() as i128);
    Duration::from_nanos((a + (b - a) / i128::from(n)) as u64)
}

/// The least value of a sliding window in constant space: the best, the best after it, the best
/// after that (Kathleen Nichols' windowed filter).
#[derive(Clone, Copy, Debug, Default)]
struct Minimum {
    best: [(Instant, Duration); 3],
    filled: bool,
}

impl Minimum {
    fn insert(&mut self, now: Instant, value: Duration, window: Duration) {
        let new = (now, value);
        if !self.filled || value <= self.best[0].1 || now - self.best[2].0 > window {
            self.best = [new; 3];
            self.filled = true;
            return;
        }
        if value <= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if value <= self.best[2].1 {
            self.best[2] = new;
        }
        self.age(new, window);
    }

    fn age(&mut self, new: (Instant, Duration), window: Duration) {
        let age = |at: Instant| new.0 - at;
        if age(self.best[0].0) > window {
            self.best = [self.best[1], self.best[2], new];
            if age(self.best[0].0) > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && age(self.best[1].0) > window / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && age(self.best[2].0) > window / 2 {
            self.best[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn estimator() -> Estimator {
        Estimator::new(&Config { rto_min: Duration::ZERO, ..Config::default() })
    }

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = estimator();
        assert_eq!((rtt.rto(), rtt.srtt(), rtt.min()), (ms(1000), None, None));
        rtt.sample(ms(100), Instant::ZERO);
        // (2.2) SRTT = R, RTTVAR = R / 2, RTO = SRTT + 4 RTTVAR.
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.rto()), (Some(ms(100)), ms(50), ms(300)));
        rtt.sample(ms(180), Instant::ZERO);
        // (2.3) RTTVAR = 3/4 50 + 1/4 80 = 57.5, SRTT = 7/8 100 + 1/8 180 = 110.
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(110)), Duration::from_micros(57_500)));
        assert_eq!(rtt.rto(), ms(340));
        rtt.sample(ms(30), Instant::ZERO);
        // RTTVAR = 3/4 57.5 + 1/4 80 = 63.125, SRTT = 7/8 110 + 1/8 30 = 100.
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(100)), Duration::from_micros(63_125)));
        assert_eq!(rtt.min(), Some(ms(30)));
    }

    #[test]
    fn the_timeout_has_bounds_and_granularity() {
        let mut rtt = Estimator::new(&Config::default());
        for _ in 0..100 {
            rtt.sample(Duration::from_micros(50), Instant::ZERO);
        }
        assert_eq!(rtt.rto(), ms(200));
        let mut rtt = estimator();
        for _ in 0..100 {
            rtt.sample(ms(20), Instant::ZERO);
        }
        assert_eq!(rtt.rto(), ms(21), "SRTT + max(G, 4 RTTVAR)");
        rtt.sample(Duration::from_secs(500), Instant::ZERO);
        assert_eq!(rtt.rto(), Duration::from_secs(60));
    }

    #[test]
    fn back_off_doubles_up_to_the_bound_and_ends_with_a_sample() {
        let mut rtt = estimator();
        rtt.sample(ms(100), Instant::ZERO);
        for factor in [1, 2, 4, 8, 16, 32, 64, 128] {
            assert_eq!(rtt.rto(), ms(300 * factor));
            rtt.back_off();
        }
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Duration::from_secs(60));
        assert!(rtt.doublings() >= 8);
        rtt.sample(ms(100), Instant::ZERO);
        assert_eq!(rtt.doublings(), 0);
        assert!(rtt.rto() < ms(300));
        rtt.back_off();
        rtt.reset_back_off();
        assert!(rtt.rto() < ms(300));
    }

    #[test]
    fn many_samples_a_round_trip_weigh_less() {
        // RFC 7323, appendix G: 20 segments in flight give 10 samples, alpha' = 1/80.
        let mut rtt = estimator();
        rtt.sample(ms(100), Instant::ZERO);
        rtt.sample_of(ms(180), Instant::ZERO, 20);
        assert_eq!(rtt.srtt(), Some(ms(101)));
        assert_eq!(rtt.rttvar(), Duration::from_micros(50_750), "beta' = 1/40");
    }

    #[test]
    fn the_minimum_forgets_what_is_older_than_its_window() {
        let window = Duration::from_secs(10);
        let mut rtt = Estimator::new(&Config { rtt_min_window: window, ..Config::default() });
        let mut recent = std::collections::VecDeque::new();
        let mut x = 88_172_645_463_325_252u64;
        for i in 0..20_000u64 {
            let now = Instant::from_ms(i * 50);
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let value = ms(20 + (i / 1000 % 7) * 10 + x % 10);
            rtt.sample(value, now);
            recent.push_back((now, value));
            while recent.front().is_some_and(|(at, _)| now - *at > window) {
                recent.pop_front();
            }
            let exact = recent.iter().map(|(_, value)| *value).min().unwrap();
            let found = rtt.min().unwrap();
            assert!(found >= exact, "older than the window at {now}");
            assert!(found <= exact + ms(30), "{found:?} for {exact:?} at {now}");
        }
    }
}
