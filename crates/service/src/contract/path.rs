//! A way between two ends on a virtual clock: what [`Rules`] say, and losses in a row, by a seed.

use std::collections::BTreeMap;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::Rules;

/// Bytes around a datagram: headers of UDP and IPv4.
const AROUND: usize = 28;

/// One way.
pub struct Path {
    /// What it does now.
    pub rules: Rules,
    /// Bytes that came through, headers included.
    pub carried_bytes: u64,
    /// Bytes of the longest datagram that was sent, headers included.
    pub longest: usize,
    /// Datagrams that are lost in a row, in the mean (Gilbert's channel).
    burst: f64,
    is_losing: bool,
    state: u64,
    /// When the last has left the slowest hop.
    busy: Instant,
    held: BTreeMap<(Instant, u64), Vec<u8>>,
    count: u64,
}

impl Path {
    pub fn new(rules: Rules, burst: f64, seed: u64) -> Path {
        Path {
            rules,
            carried_bytes: 0,
            longest: 0,
            burst: burst.max(1.0),
            is_losing: false,
            // splitmix64's: each seed another sequence.
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            busy: Instant::ZERO,
            held: BTreeMap::new(),
            count: 0,
        }
    }

    /// From 0 to 1, by splitmix64.
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn loses(&mut self) -> bool {
        let loss = self.rules.loss;
        let begins = match self.burst > 1.0 {
            true => loss / (self.burst * (1.0 - loss)),
            false => loss,
        };
        let goes_on = if self.burst > 1.0 { 1.0 - 1.0 / self.burst } else { loss };
        self.is_losing = self.draw() < if self.is_losing { goes_on } else { begins };
        self.is_losing
    }

    pub fn send(&mut self, now: Instant, datagram: &[u8]) {
        let rules = self.rules;
        self.longest = self.longest.max(datagram.len() + AROUND);
        if self.loses() {
            return;
        }
        for _ in 0..1 + u8::from(self.draw() < rules.duplicate) {
            let mut bytes = datagram.to_vec();
            if self.draw() < rules.corrupt {
                let at = (self.draw() * bytes.len() as f64) as usize;
                bytes[at] ^= 1 << (self.draw() * 8.0) as u32;
            }
            if let Some(rate) = rules.rate {
                let time = |bytes: usize| Duration::from_secs_f64(bytes as f64 / rate as f64);
                if self.busy.saturating_since(now) > time(rules.queue_bytes) {
                    continue;
                }
                self.busy = self.busy.max(now) + time(bytes.len() + AROUND);
            }
            let mut at = self.busy.max(now) + rules.delay + rules.jitter.mul_f64(self.draw());
            if self.draw() < rules.reorder {
                at += rules.reorder_delay;
            }
            self.count += 1;
            self.held.insert((at, self.count), bytes);
        }
    }

    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (&(at, count), _) = self.held.first_key_value()?;
        if at > now {
            return None;
        }
        let bytes = self.held.remove(&(at, count))?;
        self.carried_bytes += (bytes.len() + AROUND) as u64;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It loses what it says, in rows as long as it says.
    #[test]
    fn losses_are_as_many_and_as_long_as_said() {
        for burst in [1.0, 2.0, 5.0] {
            let mut path = Path::new(Rules { loss: 0.05, ..Rules::NONE }, burst, 7);
            let lost: Vec<bool> = (0..200_000).map(|_| path.loses()).collect();
            let all = lost.iter().filter(|lost| **lost).count() as f64;
            let runs = lost.windows(2).filter(|two| !two[0] && two[1]).count() as f64;
            assert!((all / 200_000.0 - 0.05).abs() < 0.005, "{burst}: {all}");
            let expected = if burst > 1.0 { burst } else { 1.0 / 0.95 };
            assert!((all / runs / expected - 1.0).abs() < 0.1, "{burst}: {}", all / runs);
        }
    }
}
