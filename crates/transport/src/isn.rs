//! Keyed initial sequence numbers (RFC 6528): `ISN = M + F(flow, key)`, M a clock of 4 µs, F a keyed
//! hash (SipHash-2-4). Who does not know the key learns nothing about one flow's numbers from
//! another's, and the numbers of one flow still rise from incarnation to incarnation.
//!
//! The same generator gives each flow's timestamp clock its own offset (RFC 7323, section 7.1).

use core::hash::{Hash, Hasher};

use fusewire_base::{Instant, Seq};
use siphasher::sip::SipHasher24;

/// 128 secret bits, drawn once for a process.
pub type Key = [u8; 16];

/// M advances once in so many nanoseconds (RFC 9293, section 3.4.1).
const TICK_NS: u64 = 4_000;

/// The numbers that a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The initial sequence number (ISS).
    pub iss: Seq,
    /// What is added to the timestamp clock, in milliseconds (RFC 7323, section 7.1).
    pub timestamp_offset: u32,
}

/// Initial sequence numbers of all flows under one key.
#[derive(Clone, Copy)]
pub struct Generator {
    hasher: SipHasher24,
}

fusewire_base::hidden!(Generator);

/// What a hash is made for; two uses of one key never hash the same input.
#[derive(Clone, Copy, Hash)]
enum Purpose {
    Sequence,
    Timestamp,
    Flow,
}

impl Generator {
    /// A generator keyed with `key`.
    pub fn new(key: &Key) -> Self {
        Generator { hasher: SipHasher24::new_with_key(key) }
    }

    /// The initial sequence number of a connection of `flow` (both addresses and both ports, the
    /// local end first) that begins at `now`.
    pub fn isn<F: Hash>(&self, now: Instant, flow: &F) -> Seq {
        let m = (now.as_ns() / TICK_NS) as u32;
        Seq(m) + self.hash(Purpose::Sequence, flow) as u32
    }

    /// The numbers of a connection of `flow` that begins at `now`.
    pub fn start<F: Hash>(&self, now: Instant, flow: &F) -> Start {
        Start { iss: self.isn(now, flow), timestamp_offset: self.timestamp_offset(flow) }
    }

    /// What is added to the timestamp clock of `flow`: the same in each incarnation, so that its timestamps
    /// go on rising (RFC 6191).
    pub fn timestamp_offset<F: Hash>(&self, flow: &F) -> u32 {
        self.hash(Purpose::Timestamp, flow) as u32
    }

    /// A keyed hash of `flow` for connection tables: who cannot know the key cannot fill one bucket.
    pub fn flow_hash<F: Hash>(&self, flow: &F) -> u64 {
        self.hash(Purpose::Flow, flow)
    }

    fn hash<F: Hash>(&self, purpose: Purpose, flow: &F) -> u64 {
        let mut hasher = self.hasher;
        purpose.hash(&mut hasher);
        flow.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn flow(port: u16) -> (SocketAddr, SocketAddr) {
        (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([10, 0, 0, 1], 443)))
    }

    #[test]
    fn rises_by_one_in_four_microseconds_within_a_flow() {
        let isns = Generator::new(&[7; 16]);
        let at = |us| isns.isn(Instant::from_us(us), &flow(1));
        assert_eq!(at(0), at(3));
        assert_eq!(at(4) - at(0), 1);
        assert_eq!(at(4_000_000) - at(0), 1_000_000);
        // M wraps after 4.77 hours; the sequence goes on.
        let wrap_us = 4 << 32;
        assert_eq!(at(wrap_us + 8) - at(wrap_us - 8), 4);
    }

    #[test]
    fn flows_keys_and_purposes_have_nothing_in_common() {
        let isns = Generator::new(&[7; 16]);
        let mut seen = std::collections::HashSet::new();
        for port in 0..1000 {
            seen.insert(isns.isn(Instant::ZERO, &flow(port)).0);
            seen.insert(isns.timestamp_offset(&flow(port)));
        }
        seen.insert(Generator::new(&[8; 16]).isn(Instant::ZERO, &flow(0)).0);
        assert!(seen.len() > 1998, "{} of 2001 differ", seen.len());
        assert_eq!(isns.flow_hash(&flow(3)), Generator::new(&[7; 16]).flow_hash(&flow(3)));
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", Generator::new(&[0xab; 16])), "Generator(..)");
    }
}
