//! How many answers a host gives (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 (f)): token buckets.
//!
//! One bucket for all, and one for each of [`BUCKETS`] keyed classes of receivers, so that one that asks for
//! everything leaves something to the others. The bucket for all takes a random
//! cost of each answer: its exact state would tell a stranger what others were answered (the side channel of
//! CVE-2020-25705).

use core::net::IpAddr;

use fusewire_base::Instant;

use crate::random::{Keyed, Purpose, Random};

const BUCKETS: usize = 256;
/// Milli-tokens of one answer.
const ANSWER: u64 = 1000;
/// Answers that a class may have at once.
const CLASS_BURST: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    level: u64,
    filled: Instant,
}

impl Bucket {
    /// Milli-tokens after what `rate` tokens a second have added, at most `most`.
    fn fill(&mut self, now: Instant, rate: u64, most: u64) {
        let elapsed_us = (now - self.filled).as_micros() as u64;
        let gained = elapsed_us.saturating_mul(rate) / 1000;
        if gained > 0 {
            self.level = self.level.saturating_add(gained).min(most);
            self.filled = now;
        }
    }
}

/// The buckets.
#[derive(Debug)]
pub struct Limiter {
    rate: u64,
    all: Bucket,
    /// What the next answer takes of it.
    cost: u64,
    classes: Vec<Bucket>,
    keyed: Keyed,
}

impl Limiter {
    /// `rate` answers a second to all; a quarter of that to one class.
    pub fn new(now: Instant, rate: u32, keyed: Keyed) -> Limiter {
        let rate = u64::from(rate.max(4));
        let all = Bucket { level: Self::burst(rate), filled: now };
        let class = Bucket { level: CLASS_BURST * ANSWER, filled: now };
        Limiter { rate, all, cost: ANSWER, classes: vec![class; BUCKETS], keyed }
    }

    fn burst(rate: u64) -> u64 {
        (rate / 20).max(CLASS_BURST) * ANSWER
    }

    /// Whether an answer may go to `receiver` now; if so it is counted.
    pub fn allow(&mut self, now: Instant, receiver: IpAddr, random: &mut Random) -> bool {
        let at = self.keyed.hash(Purpose::Answer, &receiver) as usize % BUCKETS;
        let class = &mut self.classes[at];
        class.fill(now, self.rate / 4, CLASS_BURST * ANSWER);
        self.all.fill(now, self.rate, Self::burst(self.rate));
        if class.level < ANSWER || self.all.level < self.cost {
            return false;
        }
        class.level -= ANSWER;
        self.all.level -= self.cost;
        self.cost = ANSWER / 2 + random.bits() % ANSWER;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn sent(
        limiter: &mut Limiter,
        random: &mut Random,
        ms: core::ops::Range<u64>,
        peers: u32,
    ) -> u32 {
        let mut sent = 0;
        for ms in ms {
            for n in 0..10 {
                let peer = IpAddr::V4(Ipv4Addr::from_bits((ms as u32 * 10 + n) % peers));
                sent += u32::from(limiter.allow(Instant::from_ms(ms), peer, random));
            }
        }
        sent
    }

    #[test]
    fn a_flood_gets_the_rate_and_one_asker_a_quarter() {
        let (mut random, keyed) = Random::new(&[3; 32]);
        let mut limiter = Limiter::new(Instant::ZERO, 1000, keyed);
        let all = sent(&mut limiter, &mut random, 0..10_000, 100_000);
        assert!((9_500..10_600).contains(&all), "{all} answers in 10 s");
        let mut limiter = Limiter::new(Instant::ZERO, 1000, keyed);
        let one = sent(&mut limiter, &mut random, 0..10_000, 1);
        assert!((2_400..2_600).contains(&one), "{one} answers in 10 s");
        let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        assert!(limiter.allow(Instant::from_ms(10_000), other, &mut random), "others have theirs");
    }
}
