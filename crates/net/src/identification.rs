//! What fragments of one packet have in common (RFC 6864; RFC 8200, section 4.5).
//!
//! A counter for each keyed class of address pairs, which begins anywhere and goes on by random steps: who sees
//! one pair's identifications learns nothing of another's.

use core::net::IpAddr;

use crate::random::{Keyed, Purpose, Random};

const COUNTERS: usize = 1024;

/// The counters.
#[derive(Debug)]
pub(crate) struct Identifications {
    counters: Vec<u32>,
    keyed: Keyed,
}

impl Identifications {
    pub fn new(keyed: Keyed, random: &mut Random) -> Identifications {
        Identifications { counters: (0..COUNTERS).map(|_| random.bits() as u32).collect(), keyed }
    }

    /// Different from the last 2^13 of the same pair in its lower 16 bits.
    pub fn next(&mut self, source: IpAddr, destination: IpAddr, random: &mut Random) -> u32 {
        let pair = (source, destination);
        let at = self.keyed.hash(Purpose::Identification, &pair) as usize % COUNTERS;
        let counter = &mut self.counters[at];
        *counter = counter.wrapping_add(1 + (random.bits() % 7) as u32);
        *counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_comes_again_soon() {
        let (mut random, keyed) = Random::new(&[2; 32]);
        let mut ids = Identifications::new(keyed, &mut random);
        let pair = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let mut last = std::collections::VecDeque::new();
        for _ in 0..100_000 {
            let id = ids.next(pair.0, pair.1, &mut random) as u16;
            assert!(last.len() < 8192 || last.pop_front().is_some());
            last.push_back(id);
            let previous = last.iter().rev().nth(1);
            assert_ne!(previous, Some(&id));
        }
        let distinct: std::collections::HashSet<_> = last.iter().collect();
        assert_eq!(distinct.len(), last.len());
    }
}
