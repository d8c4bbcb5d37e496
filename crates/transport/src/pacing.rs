//! Pacing: spreads a window over its round trip with a bucket of bytes that fills at the rate.
//!
//! The rate is a gain times cwnd / SRTT: 2 in slow start, so that the window can double, 1.25 in
//! congestion avoidance, so that pacing never becomes the limit.

use core::time::Duration;

use fusewire_base::Instant;

/// What the rate is made from.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time; `None` before the first sample: no pacing.
    pub srtt: Option<Duration>,
    /// Segment size in bytes.
    pub mss: u64,
    /// The controller is in slow start.
    pub in_slow_start: bool,
}

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
    /// taking: 1 ms), whichever is more.
    pub fn new(now: Instant, burst_bytes_least: u64, quantum: Duration) -> Self {
        Pacer {
            rate: None,
            burst: burst_bytes_least,
            bytes: burst_bytes_least as i64,
            filled: now,
            burst_least: burst_bytes_least,
            quantum,
        }
    }

    /// The window or the round-trip time changed.
    pub fn update(&mut self, now: Instant, shape: &Shape) {
        self.fill(now);
        let Some(srtt) = shape.srtt.filter(|srtt| *srtt > self.quantum) else {
            // A window shorter than a quantum leaves as one burst.
            self.rate = None;
            return;
        };
        let gain = if shape.in_slow_start { 8 } else { 5 };
        let rate = u128::from(shape.cwnd) * gain * 1_000_000_000 / 4 / srtt.as_nanos();
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        let quantum = u128::from(rate) * self.quantum.as_nanos() / 1_000_000_000;
        self.burst =
            u64::try_from(quantum).unwrap_or(u64::MAX).max(self.burst_least).max(2 * shape.mss);
        self.rate = Some(rate);
        self.bytes = self.bytes.min(self.burst as i64);
    }

    /// Bytes that may leave now; `u64::MAX` when not paced. A segment may leave when this is not
    /// zero: the bucket then goes below zero and has to fill again.
    pub fn allowance(&mut self, now: Instant) -> u64 {
        self.fill(now);
        match self.rate {
            None => u64::MAX,
            Some(_) => u64::try_from(self.bytes).unwrap_or(0),
        }
    }

    /// `bytes` left.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.fill(now);
        if self.rate.is_some() {
            self.bytes = self.bytes.saturating_sub_unsigned(bytes);
        }
    }

    /// When the bucket will hold something; `None` when it does now.
    pub fn next_release(&self) -> Option<Instant> {
        let rate = self.rate?;
        if self.bytes > 0 {
            return None;
        }
        // Waits for a segment or so at once rather than for single bytes.
        let missing = self.bytes.unsigned_abs().saturating_add((self.burst / 4).max(1));
        let ns = u128::from(missing) * 1_000_000_000 / u128::from(rate);
        Some(
            self.filled
                + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
                + Duration::from_nanos(1),
        )
    }

    /// The rate in bytes a second, when paced.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    fn fill(&mut self, now: Instant) {
        let Some(rate) = self.rate else {
            self.bytes = self.burst as i64;
            self.filled = now;
            return;
        };
        let elapsed = now - self.filled;
        let bytes = elapsed.as_nanos() * u128::from(rate) / 1_000_000_000;
        if bytes == 0 {
            // Keeps the fraction: `filled` stays until a whole byte came.
            return;
        }
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.bytes = self.bytes.saturating_add(bytes).min(self.burst as i64);
        self.filled = now;
    }
}
