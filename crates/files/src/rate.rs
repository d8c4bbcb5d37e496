//! A token bucket: how many bytes may go now. Time is an argument.

use fusewire_base::Instant;
use std::time::Duration;

/// Bounds bytes per second. The bucket holds a twentieth of a second's bytes, and at least 64 KiB.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bytes_per_s: u64,
    /// Can be below zero: what is sent last may exceed what is left.
    tokens: f64,
    updated: Option<Instant>,
}

impl Rate {
    /// At most `bytes_per_s` bytes a second; zero means no bound.
    pub const fn new(bytes_per_s: u64) -> Self {
        Rate { bytes_per_s, tokens: 0.0, updated: None }
    }

    /// Another bound from now on; what was sent beyond the old one is still owed.
    pub const fn set_bytes_per_s(&mut self, bytes_per_s: u64) {
        self.bytes_per_s = bytes_per_s;
    }

    /// The bound, zero for none.
    pub const fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }

    fn depth(&self) -> f64 {
        (self.bytes_per_s as f64 / 20.0).max(65_536.0)
    }

    /// Bytes that may go now: `Ok` with more than zero, or `Err` with the instant to ask again.
    ///
    /// # Errors
    /// The bucket is empty until the instant given.
    pub fn poll(&mut self, now: Instant) -> Result<u64, Instant> {
        if self.bytes_per_s == 0 {
            return Ok(u64::MAX);
        }
        let rate = self.bytes_per_s as f64;
        let last = self.updated.replace(now).unwrap_or(now);
        let elapsed = now.saturating_since(last).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate).min(self.depth());
        if self.tokens >= 1.0 {
            return Ok(self.tokens as u64);
        }
        let wait = ((1.0 - self.tokens) / rate).max(1e-6);
        Err(now + Duration::from_secs_f64(wait))
    }

    /// `bytes` have gone.
    pub fn spend(&mut self, bytes: u64) {
        if self.bytes_per_s != 0 {
            self.tokens -= bytes as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_at_a_rate_carries_that_many_bytes() {
        for rate in [1_000u64, 300_000, 40_000_000] {
            let mut bucket = Rate::new(rate);
            let (mut now, mut sent) = (Instant::from_ms(7), 0u64);
            let end = Instant::from_ms(60_007);
            while now < end {
                match bucket.poll(now) {
                    Ok(_) => {
                        bucket.spend(1408);
                        sent += 1408;
                    }
                    Err(at) => {
                        assert!(at > now);
                        now = at;
                    }
                }
            }
            let expected = rate * 60;
            assert!(
                sent <= expected + 70_000 && sent + 70_000 >= expected,
                "{rate}: {sent} of {expected}"
            );
        }
    }

    #[test]
    fn no_rate_is_no_bound() {
        assert_eq!(Rate::new(0).poll(Instant::ZERO), Ok(u64::MAX));
    }
}
