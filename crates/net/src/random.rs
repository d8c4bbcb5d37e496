//! Randomness and keyed hashes from the seed that the layer was given.

use core::hash::{Hash, Hasher};
use core::time::Duration;

use siphasher::sip::SipHasher24;

/// A generator that nobody who does not know the seed can foretell: SipHash of a counter.
#[derive(Clone)]
pub struct Random {
    hasher: SipHasher24,
    counter: u64,
}

impl core::fmt::Debug for Random {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Random { .. }")
    }
}

impl Random {
    /// From 256 secret bits: 128 for numbers; the others key the hashes.
    pub fn new(seed: &[u8; 32]) -> (Random, Keyed) {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        a.copy_from_slice(&seed[..16]);
        b.copy_from_slice(&seed[16..]);
        let hasher = SipHasher24::new_with_key(&a);
        (Random { hasher, counter: 0 }, Keyed { hasher: SipHasher24::new_with_key(&b) })
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.counter += 1;
        let mut hasher = self.hasher;
        self.counter.hash(&mut hasher);
        hasher.finish()
    }

    /// A time from `least` to `most`, both included.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_nanos() + 1;
        let nanos = (u128::from(self.bits()) * span) >> 64;
        least + Duration::from_nanos(nanos as u64)
    }
}

/// What a hash is made for; two uses of one key never hash the same input.
#[derive(Clone, Copy, Hash)]
pub enum Purpose {
    /// A place in the table of neighbours.
    Neighbor,
    /// A place in the table of fragments.
    Fragment,
    /// A counter of identifications.
    Identification,
    /// A place in the table of path MTUs.
    PathMtu,
    /// A bucket of answers.
    Answer,
    /// An interface identifier.
    Identifier,
}

/// Keyed hashes: who cannot know the key cannot fill one place of a table.
#[derive(Clone, Copy)]
pub struct Keyed {
    hasher: SipHasher24,
}

impl core::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Keyed { .. }")
    }
}

impl Keyed {
    /// The same hashes under another key, one that lasts.
    pub fn rekeyed(&self, key: &[u8; 16]) -> Keyed {
        Keyed { hasher: SipHasher24::new_with_key(key) }
    }

    /// The hash of `value`.
    pub fn hash<T: Hash>(&self, purpose: Purpose, value: &T) -> u64 {
        let mut hasher = self.hasher;
        purpose.hash(&mut hasher);
        value.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_and_repeatable() {
        let (mut a, key) = Random::new(&[7; 32]);
        let (mut b, _) = Random::new(&[7; 32]);
        let (least, most) = (Duration::from_millis(500), Duration::from_millis(1500));
        let mut above = 0;
        for _ in 0..1000 {
            let t = a.between(least, most);
            assert!(t >= least && t <= most && t == b.between(least, most));
            above += usize::from(t > Duration::from_secs(1));
        }
        assert!((400..600).contains(&above), "{above} of 1000 in the upper half");
        assert_eq!(a.between(least, least), least);
        assert_ne!(key.hash(Purpose::Answer, &1), key.hash(Purpose::PathMtu, &1));
        assert_eq!(format!("{a:?}{key:?}"), "Random { .. }Keyed { .. }");
    }
}
