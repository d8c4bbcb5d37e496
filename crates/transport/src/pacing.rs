//! Pacing: spreads a window over its round trip with a bucket of bytes that fills at the rate.
//!
//! The rate is a gain times cwnd / SRTT: 2 in slow start, so that the window can double, 1.25 in
//! congestion avoidance, so that pacing never becomes the limit.

use core::time::Duration;

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

    /// Window (bytes) or smoothed round-trip time changed. A window whose round trip is not longer
    /// than a quantum is not paced.
    pub fn set_rate(&mut self, window: u64, srtt: Duration, slow_start: bool) {
        if srtt <= self.quantum {
            self.rate = None;
            return;
        }
        let gain = if slow_start { 8 } else { 5 };
        let rate = u128::from(window) * gain * 1_000_000_000 / 4 / srtt.as_nanos();
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        let quantum = u128::from(rate) * self.quantum.as_nanos() / 1_000_000_000;
        self.burst = u64::try_from(quantum).unwrap_or(u64::MAX).max(self.burst_least);
        self.rate = Some(rate);
        self.bytes = self.bytes.min(self.burst as i64);
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
