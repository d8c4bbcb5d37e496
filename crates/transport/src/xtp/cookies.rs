//! Keys that nobody foretells, and keys that are cookies (`docs/xtp.md`, sections 5 and 7).
//!
//! ```text
//! cookie   62 61  60                                            0
//!         ┌──────┬───────────────────────────────────────────────┐
//!         │period│ SipHash-2-4 of ends, initiator's key, service,│
//!         │mod 4 │ what was offered, period                      │
//!         └──────┴───────────────────────────────────────────────┘
//! ```

use core::hash::{Hash, Hasher};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashSet, VecDeque};

use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Control, First, Key, Options, Service, Traffic, TrafficControl};
use siphasher::sip::SipHasher24;

use super::connection::first_sync;
use super::{Ends, Header};
use crate::isn;

/// A cookie is valid in the period it was made in and in the next.
const PERIOD_NS: u64 = 64_000_000_000;
const MAC_BITS: u32 = 61;

/// What a hash is made for; two uses of one secret never hash the same input.
#[derive(Clone, Copy, Hash)]
enum Purpose {
    Key,
    Cookie,
}

/// What of a FIRST a key is bound to.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Opening {
    pub remote: SocketAddr,
    /// The initiator's key.
    pub key: u64,
    pub service: u16,
    /// CXOR was offered.
    pub offers_cxor: bool,
}

impl Opening {
    /// What this FIRST asks for, under the initiator's `key`.
    pub fn of(ends: &Ends, h: &Header, first: &First, key: Key) -> Opening {
        Opening {
            remote: ends.remote,
            key: key.bits(),
            service: first.address.dstport().unwrap_or(0),
            offers_cxor: h.options.has(Options::RES),
        }
    }
}

/// Keys under one secret.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    hasher: SipHasher24,
}

fusewire_base::hidden!(Keys);

impl Keys {
    pub fn new(secret: &isn::Key) -> Keys {
        Keys { hasher: SipHasher24::new_with_key(secret) }
    }

    /// A key for what is unlike anything before.
    pub fn key<T: Hash>(&self, now: Instant, of: &T) -> Key {
        let mut hasher = self.hasher;
        (Purpose::Key, now.as_ns()).hash(&mut hasher);
        of.hash(&mut hasher);
        not_zero(hasher.finish())
    }

    /// A key that says what was asked for.
    pub fn cookie(&self, now: Instant, opening: &Opening) -> Key {
        self.of_period(now.as_ns() / PERIOD_NS, opening)
    }

    /// Nothing is kept of this FIRST: TCNTL says what is to be shown.
    pub fn tell_cookie(
        &self,
        now: Instant,
        ends: &Ends,
        (h, first): (&Header, &First),
        service: Service,
    ) -> Header {
        let xkey = self.cookie(now, &Opening::of(ends, h, first, h.key));
        let control = Control { rseq: 0, alloc: 0, echo: h.sync };
        let traffic = Traffic { service, limits: None };
        Header {
            key: h.key,
            returned: true,
            options: Options::NONE,
            check: 0,
            sort: 0,
            sync: first_sync(xkey),
            seq: 0,
            data_len: 0,
            body: Body::Tcntl(TrafficControl { control, delay_us: 0, xkey, traffic }),
        }
    }

    /// Whether `key` is a cookie that was given for this, lately.
    pub fn is_cookie(&self, now: Instant, opening: &Opening, key: Key) -> bool {
        let period = now.as_ns() / PERIOD_NS;
        let age = period.wrapping_sub(key.bits() >> MAC_BITS) % 4;
        age <= 1 && period.checked_sub(age).is_some_and(|p| self.of_period(p, opening) == key)
    }

    fn of_period(&self, period: u64, opening: &Opening) -> Key {
        let mut hasher = self.hasher;
        (Purpose::Cookie, period).hash(&mut hasher);
        opening.hash(&mut hasher);
        let mac = hasher.finish() >> (64 - MAC_BITS);
        not_zero(((period % 4) << MAC_BITS) | mac)
    }
}

/// Most cookies that are remembered for having opened a context; as many do in the time that one is good for.
const SPENT_MAX: usize = 16 << 10;

/// Cookies that have opened a context: no other is opened by them.
#[derive(Debug, Default)]
pub(super) struct Spent {
    keys: HashSet<Key>,
    /// In order of time.
    since: VecDeque<(Instant, Key)>,
}

impl Spent {
    /// What no period accepts any more need not be remembered.
    pub fn forget(&mut self, now: Instant) {
        let lifetime = Duration::from_nanos(2 * PERIOD_NS);
        while let Some((_, key)) = self.since.pop_front_if(|(since, _)| now - *since > lifetime) {
            self.keys.remove(&key);
        }
    }

    pub fn has(&self, key: Key) -> bool {
        self.keys.contains(&key)
    }

    /// Remembers one; false when there is no room.
    pub fn spend(&mut self, now: Instant, key: Key) -> bool {
        let room = self.since.len() < SPENT_MAX;
        if room && self.keys.insert(key) {
            self.since.push_back((now, key));
        }
        room
    }
}

/// The lower 63 bits, unless they are zero.
fn not_zero(bits: u64) -> Key {
    Key::new(bits).or(Key::new(1)).unwrap_or_else(|| unreachable!("1 is not zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(port: u16) -> Opening {
        let remote = ([10, 0, 0, 1], port).into();
        Opening { remote, key: 0x1234_5678_9abc, service: 80, offers_cxor: false }
    }

    #[test]
    fn a_cookie_is_good_for_two_periods_and_for_what_it_was_given_for() {
        let keys = Keys::new(&[7; 16]);
        for start_s in [0, 63, 64, 1000, 255, 256] {
            let at = |s: u64| Instant::from_ms((start_s + s) * 1000);
            let cookie = keys.cookie(at(0), &opening(9));
            assert!(keys.is_cookie(at(0), &opening(9), cookie));
            assert!(keys.is_cookie(at(64), &opening(9), cookie), "{start_s}");
            for late in [128, 192, 256, 300] {
                assert!(!keys.is_cookie(at(late), &opening(9), cookie), "{start_s} {late}");
            }
            let other = Opening { key: 5, ..opening(9) };
            for wrong in [opening(8), other, Opening { service: 81, ..opening(9) }] {
                assert!(!keys.is_cookie(at(0), &wrong, cookie));
            }
            let cxor = Opening { offers_cxor: true, ..opening(9) };
            assert!(!keys.is_cookie(at(0), &cxor, cookie));
            for bit in 0..63 {
                let wrong = Key::new(cookie.bits() ^ 1 << bit).unwrap();
                assert!(!keys.is_cookie(at(0), &opening(9), wrong), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_spent_cookie_is_known_as_long_as_it_would_be_good() {
        let mut spent = Spent::default();
        let key = |n: usize| Key::new(n as u64 + 1).unwrap();
        for n in 0..SPENT_MAX {
            assert!(spent.spend(Instant::from_ms(n as u64), key(n)));
        }
        assert!(!spent.spend(Instant::from_ms(99_000), key(SPENT_MAX)), "no room");
        spent.forget(Instant::from_ms(128_000));
        assert!(spent.has(key(0)));
        spent.forget(Instant::from_ms(128_001));
        assert!(!spent.has(key(0)) && spent.has(key(1)));
        assert!(spent.spend(Instant::from_ms(128_001), key(SPENT_MAX)));
    }

    #[test]
    fn keys_have_nothing_in_common() {
        let keys = Keys::new(&[7; 16]);
        let mut seen = std::collections::HashSet::new();
        for n in 0..1000u64 {
            seen.insert(keys.key(Instant::from_ns(n), &1u64));
            seen.insert(keys.key(Instant::from_ns(7), &(n + 2)));
            seen.insert(keys.cookie(Instant::from_ns(n * PERIOD_NS), &opening(1)));
        }
        assert_eq!(seen.len(), 3000);
    }
}
