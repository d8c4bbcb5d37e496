//! A token bucket: how many bytes may go now. Time is an argument.

use fusewire_base::Instant;
use std::time::Duration;

/// Who found the bucket empty is woken again when there are so many seconds' bytes in it: each wake is a sleep,
/// a read and a system call, on both sides.
const BURST_S: f64 = 0.02;

/// Bounds bytes per second. The bucket holds a twentieth of a second's bytes, and at least 64 KiB.
///
/// Invariant: `tokens ≤ depth`, and what a burst needs is less than `depth`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    bytes_per_s: u64,
    /// Can be below zero: what is sent last may exceed what is left.
    tokens: f64,
    updated: Option<Instant>,
    /// It was found empty, and nothing goes before there is a burst in it.
    is_filling: bool,
}

impl Rate {
    /// At most `bytes_per_s` bytes a second; zero means no bound.
    pub const fn new(bytes_per_s: u64) -> Self {
        Rate { bytes_per_s, tokens: 0.0, updated: None, is_filling: false }
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

    /// Bytes in the bucket without which nothing goes.
    fn needed(&self) -> f64 {
        if self.is_filling { (self.bytes_per_s as f64 * BURST_S).max(1.0) } else { 1.0 }
    }

    /// Bytes that may go now: `Ok` with more than zero, or `Err` with the instant to ask again.
    ///
    /// # Errors
    /// The bucket is empty, and holds a burst at the instant given.
    pub fn poll(&mut self, now: Instant) -> Result<u64, Instant> {
        if self.bytes_per_s == 0 {
            return Ok(u64::MAX);
        }
        let rate = self.bytes_per_s as f64;
        let last = self.updated.replace(now).unwrap_or(now);
        let elapsed = now.saturating_since(last).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate).min(self.depth());
        if self.tokens >= self.needed() {
            self.is_filling = false;
            return Ok(self.tokens as u64);
        }
        self.is_filling = true;
        let wait = ((self.needed() - self.tokens) / rate).max(1e-6);
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
                sent <= expected + 70_000 && sent + 70_000 + rate / 50 >= expected,
                "{rate}: {sent} of {expected}"
            );
        }
    }

    /// Wakes cost more than bytes do: seen at 10 MB/s, 0.4 of a core on each side for a wake a datagram.
    #[test]
    fn a_second_at_a_rate_takes_few_wakes() {
        for (rate, chunk) in [(10_000_000u64, 1168u64), (1_000_000, 1168), (40_000_000, 61_700)] {
            let mut bucket = Rate::new(rate);
            let (mut now, mut wakes, mut sent) = (Instant::from_ms(7), 0, 0);
            while now < Instant::from_ms(1_007) {
                match bucket.poll(now) {
                    Ok(_) => {
                        bucket.spend(chunk);
                        sent += chunk;
                    }
                    Err(at) => {
                        wakes += 1;
                        now = at;
                    }
                }
            }
            assert!(wakes <= 60, "{rate}: {wakes}");
            // The last burst may still be filling.
            assert!(sent + 70_000 + rate / 50 >= rate, "{rate}: {sent}");
        }
    }

    #[test]
    fn no_rate_is_no_bound() {
        assert_eq!(Rate::new(0).poll(Instant::ZERO), Ok(u64::MAX));
    }
}
