//! Pacing: spreads a window over its round trip with a bucket of bytes that fills at the rate.
//!
//! The rate is the congestion controller's, if it has one; else a gain times cwnd / SRTT: 2 in slow start, so
//! that the window can double, 1.25 in congestion avoidance, so that pacing never becomes the limit.

use core::time::Duration;

use crate::congestion::Controller;
use fusewire_base::Instant;

/// One connection's pacer.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Bytes a second; `None`: not paced.
    rate: Option<u64>,
    /// Bytes that may leave at once.
    burst: u64,
    /// Bytes in the bucket at `filled`. Never above `burst`; below zero after a large send.
    bytes: i64,
    filled: Instant,
    burst_least: u64,
    quantum: Duration,
}

impl Pacer {
    /// A pacer that lets at least `burst_bytes_least` leave at once (one batch for the device, one
    /// super-packet: 64 KiB), or what the rate carries in `quantum` (the sleep that is not worth
    /// taking: 1 ms), whichever is more. It does not pace before the first [`Pacer::set_rate`].
    pub fn new(burst_bytes_least: u64, quantum: Duration) -> Self {
        Pacer {
            rate: None,
            burst: burst_bytes_least,
            bytes: burst_bytes_least as i64,
            filled: Instant::ZERO,
            burst_least: burst_bytes_least.max(1),
            quantum,
        }
    }

    /// What the controller says: its rate, or if the connection `spreads` its window over the round trip.
    pub fn follow(
        &mut self,
        cc: &impl Controller,
        srtt: Option<Duration>,
        mss: u32,
        spreads: bool,
    ) {
        if let Some(rate) = cc.pacing_rate() {
            self.set_pace(rate, 2 * u64::from(mss));
        } else if spreads && let Some(srtt) = srtt {
            self.set_rate(cc.window(), srtt, cc.in_slow_start());
        }
    }

    /// Something leaves after there was nothing more to send. When meanwhile the bucket ran over, that gap is the
    /// application's, and the controller hears of it.
    pub fn show_gap(&self, cc: &mut impl Controller, in_flight: u64, now: Instant) {
        if cc.keeps_packets() && in_flight < cc.window() && self.is_full(now) {
            cc.on_app_limited(in_flight);
        }
    }

    /// Window (bytes) or smoothed round-trip time changed. A window whose round trip is not longer
    /// than a quantum is not paced.
    pub fn set_rate(&mut self, window: u64, srtt: Duration, slow_start: bool) {
        if srtt <= self.quantum {
            self.rate = None;
            return;
        }
        let gain = if slow_start { 8 } else { 5 };
        let rate = u128::from(window) * gain * 1_000_000_000 / 4 / srtt.as_nanos();
        self.set_pace(u64::try_from(rate).unwrap_or(u64::MAX), self.burst_least);
    }

    /// Lets out `rate` bytes a second, at once what that is in a quantum but at least `burst_bytes_least`.
    pub fn set_pace(&mut self, rate: u64, burst_bytes_least: u64) {
        let rate = rate.max(1);
        let quantum = u128::from(rate) * self.quantum.as_nanos() / 1_000_000_000;
        self.burst = i64::try_from(quantum).unwrap_or(i64::MAX) as u64;
        self.burst = self.burst.max(burst_bytes_least);
        self.rate = Some(rate);
        self.bytes = self.bytes.min(self.burst as i64);
    }

    /// The bucket has run over, or nothing is paced.
    pub fn is_full(&self, now: Instant) -> bool {
        self.rate.is_none_or(|rate| self.filled_to(now, rate) >= self.burst as i64)
    }

    /// Bytes that may leave now; `u64::MAX` when not paced. A segment may leave when this is not
    /// zero: the bucket then goes below zero and has to fill again.
    pub fn room(&self, now: Instant) -> u64 {
        match self.rate {
            None => u64::MAX,
            Some(rate) => u64::try_from(self.filled_to(now, rate)).unwrap_or(0),
        }
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(rate) = self.rate {
            self.bytes = self.filled_to(now, rate).saturating_sub_unsigned(bytes);
        }
        self.filled = now;
    }

    /// When something may be sent; `None` or a time that has passed: now.
    pub fn next_send(&self) -> Option<Instant> {
        let rate = self.rate?;
        if self.bytes > 0 {
            return None;
        }
        // Waits for a part of a burst rather than for single bytes.
        let missing = self.bytes.unsigned_abs().saturating_add((self.burst / 4).max(1));
        let ns = (u128::from(missing) * 1_000_000_000).div_ceil(u128::from(rate));
        Some(self.filled + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// The rate in bytes a second, when paced.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// What the bucket holds at `now`.
    fn filled_to(&self, now: Instant, rate: u64) -> i64 {
        let bytes = (now - self.filled).as_nanos() * u128::from(rate) / 1_000_000_000;
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes.saturating_add(bytes).min(self.burst as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1200;

    fn pacer() -> Pacer {
        Pacer::new(10 * MSS, Duration::from_millis(1))
    }

    /// Sends as fast as it may for `time`, waking when it says; returns bytes and wake-ups.
    fn run(pacer: &mut Pacer, start: Instant, time: Duration) -> (u64, u32) {
        let (mut now, mut bytes, mut wakes) = (start, 0, 0);
        while now < start + time {
            while pacer.room(now) > 0 {
                pacer.on_sent(now, MSS);
                bytes += MSS;
            }
            let next = pacer.next_send().expect("an empty bucket says when");
            assert!(next > now);
            assert!(pacer.room(next) > 0, "and then holds something");
            now = next;
            wakes += 1;
        }
        (bytes, wakes)
    }

    #[test]
    fn the_rate_is_the_gain_times_the_window_over_the_round_trip() {
        for (slow_start, gain) in [(true, 2.0), (false, 1.25)] {
            for (window, rtt_ms) in [(12_000u64, 20u64), (2_000, 300), (1 << 24, 100)] {
                let mut pacer = pacer();
                pacer.set_rate(window, Duration::from_millis(rtt_ms), slow_start);
                let (bytes, wakes) = run(&mut pacer, Instant::from_ms(5), Duration::from_secs(20));
                let expected = gain * window as f64 / (rtt_ms as f64 / 1000.0) * 20.0;
                let ratio = bytes as f64 / expected;
                assert!((0.98..1.1).contains(&ratio), "{window} bytes, {rtt_ms} ms: {ratio}");
                assert!(wakes <= 20_000 * 5, "{wakes} wake-ups in 20 s");
            }
        }
    }

    #[test]
    fn a_burst_is_bounded_however_long_it_was_idle() {
        let mut pacer = pacer();
        pacer.set_rate(100 * MSS, Duration::from_millis(100), false);
        assert_eq!(pacer.room(Instant::from_ms(1_000_000)), 10 * MSS);
        pacer.on_sent(Instant::from_ms(1_000_000), 10 * MSS);
        assert_eq!(pacer.room(Instant::from_ms(1_000_000)), 0);
    }

    #[test]
    fn short_round_trips_and_unknown_ones_are_not_paced() {
        let mut pacer = pacer();
        assert_eq!((pacer.room(Instant::ZERO), pacer.next_send()), (u64::MAX, None));
        pacer.on_sent(Instant::ZERO, 1 << 40);
        pacer.set_rate(1 << 20, Duration::from_micros(80), true);
        assert_eq!((pacer.room(Instant::ZERO), pacer.next_send()), (u64::MAX, None));
        pacer.set_rate(1 << 20, Duration::from_millis(80), true);
        assert!(pacer.room(Instant::ZERO) <= 10 * MSS + (1 << 20) * 2 / 80);
    }

    #[test]
    fn a_controllers_rate_holds_for_short_round_trips_and_small_bursts() {
        let mut pacer = pacer();
        for rate in [10_000u64, 1_250_000, 1_000_000_000] {
            pacer.set_pace(rate, 2 * MSS);
            assert_eq!(pacer.rate(), Some(rate));
            assert!(pacer.room(Instant::from_ms(1 << 30)) <= (rate / 1000).max(2 * MSS));
            assert!(pacer.is_full(Instant::from_ms(1 << 30)));
        }
        pacer.set_pace(1_250_000, 2 * MSS);
        let (bytes, _) = run(&mut pacer, Instant::from_ms(1 << 31), Duration::from_secs(20));
        assert!((0.99..1.01).contains(&(bytes as f64 / 25e6)), "{bytes} bytes");
        assert!(!pacer.is_full(Instant::from_ms(1 << 31)));
    }

    #[test]
    fn a_large_send_is_paid_back() {
        let mut pacer = pacer();
        // 1.25 * 80,000 / 0.1 s = 1 byte a microsecond.
        pacer.set_rate(80_000, Duration::from_millis(100), false);
        pacer.on_sent(Instant::ZERO, 100_000);
        assert_eq!(pacer.room(Instant::from_ms(88)), 0);
        assert_eq!(pacer.room(Instant::from_ms(89)), 1000);
    }
}
