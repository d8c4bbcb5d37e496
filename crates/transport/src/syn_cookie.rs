//! SYN cookies (RFC 4987, section 3.6): a listener under attack keeps no state for a SYN. What it
//! needs to know comes back in the third segment of the handshake: the maximum segment size in the
//! cookie, which is our initial sequence number, and the rest in the timestamp we sent.
//!
//! ```text
//! cookie     31                          5 4       3 2         0
//!           ┌─────────────────────────────┬─────────┬───────────┐
//!           │ SipHash-2-4 of flow, client │ period  │ MSS index │
//!           │ ISN, period, index          │ mod 4   │           │
//!           └─────────────────────────────┴─────────┴───────────┘
//! timestamp  bit 5: ECN, bit 4: SACK, bits 3 to 0: window scale (15: none)
//! ```
//! A forger who sees nothing hits one of 2^27 with each segment, for the two periods that are valid.

use core::hash::{Hash, Hasher};

use fusewire_base::{Instant, Seq};
use siphasher::sip::SipHasher24;

use crate::isn::Key;

/// Segment sizes a cookie can stand for; a peer's is rounded down.
const MSS: [u16; 8] = [536, 1200, 1360, 1440, 1460, 8932, 16_344, 65_455];
/// A cookie is valid in the period it was made in and in the next.
const PERIOD_NS: u64 = 64_000_000_000;
const INDEX_BITS: u32 = 3;
const PERIOD_BITS: u32 = 2;
const MAC_SHIFT: u32 = INDEX_BITS + PERIOD_BITS;
/// Bits at the low end of the timestamp that carry options.
const OPTION_BITS: u32 = 6;
const NO_SCALE: u32 = 15;

/// What the client's SYN offered, as far as a cookie can carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Maximum segment size.
    pub mss: u16,
    /// Window scale, 0 to 14. Kept only with timestamps.
    pub window_scale: Option<u8>,
    /// SACK permitted. Kept only with timestamps.
    pub sack: bool,
    /// ECN was asked for. Kept only with timestamps.
    pub ecn: bool,
    /// Timestamps were offered.
    pub timestamps: bool,
}

/// Who a cookie is for.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a, F> {
    /// Both addresses and both ports.
    pub flow: &'a F,
    /// The sequence number of the client's SYN.
    pub isn: Seq,
}

/// Makes and checks cookies under one key.
#[derive(Clone, Copy)]
pub struct Cookies {
    hasher: SipHasher24,
}

fusewire_base::hidden!(Cookies);

impl Cookies {
    /// Cookies keyed with `key`, which should be used for nothing else.
    pub fn new(key: &Key) -> Self {
        Cookies { hasher: SipHasher24::new_with_key(key) }
    }

    /// The initial sequence number of the SYN,ACK.
    pub fn issue<F: Hash>(&self, now: Instant, client: Client<'_, F>, offer: &Offer) -> Seq {
        let index = MSS.iter().rposition(|mss| *mss <= offer.mss).unwrap_or(0) as u32;
        let period = now.as_ns() / PERIOD_NS;
        Seq(self.cookie(client, period, index))
    }

    /// The timestamp value of the SYN,ACK: `clock` with its low bits replaced, not after `clock`, so
    /// that the timestamps that follow do not run backwards.
    pub fn timestamp(clock: u32, offer: &Offer) -> u32 {
        let scale = offer.window_scale.map_or(NO_SCALE, |scale| u32::from(scale.min(14)));
        let options = u32::from(offer.ecn) << 5 | u32::from(offer.sack) << 4 | scale;
        let mask = (1 << OPTION_BITS) - 1;
        let value = clock & !mask | options;
        if Seq(value).gt(Seq(clock)) { value.wrapping_sub(1 << OPTION_BITS) } else { value }
    }

    /// Checks the third segment of a handshake: `cookie` is its acknowledgement number less one,
    /// `client.isn` its sequence number less one, `timestamp_echo` what it echoes. Returns what the
    /// SYN offered, or `None` when the cookie is not ours or is too old.
    pub fn check<F: Hash>(
        &self,
        now: Instant,
        client: Client<'_, F>,
        cookie: Seq,
        timestamp_echo: Option<u32>,
    ) -> Option<Offer> {
        let period_now = now.as_ns() / PERIOD_NS;
        let age = period_now.wrapping_sub(u64::from(cookie.0 >> INDEX_BITS)) % (1 << PERIOD_BITS);
        if age > 1 {
            return None;
        }
        let period = period_now.checked_sub(age)?;
        let index = cookie.0 % (1 << INDEX_BITS);
        if self.cookie(client, period, index) != cookie.0 {
            return None;
        }
        let mss = MSS[index as usize];
        let Some(echo) = timestamp_echo else {
            return Some(Offer {
                mss,
                window_scale: None,
                sack: false,
                ecn: false,
                timestamps: false,
            });
        };
        Some(Offer {
            mss,
            window_scale: Some(echo & 15).filter(|s| *s != NO_SCALE).map(|s| s as u8),
            sack: echo & 1 << 4 != 0,
            ecn: echo & 1 << 5 != 0,
            timestamps: true,
        })
    }

    fn cookie<F: Hash>(&self, client: Client<'_, F>, period: u64, index: u32) -> u32 {
        let mut hasher = self.hasher;
        client.flow.hash(&mut hasher);
        client.isn.0.hash(&mut hasher);
        period.hash(&mut hasher);
        index.hash(&mut hasher);
        let mac = (hasher.finish() >> 32) as u32 >> MAC_SHIFT;
        let period = (period % (1 << PERIOD_BITS)) as u32;
        mac << MAC_SHIFT | period << INDEX_BITS | index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: (u32, u16) = (0x7f00_0001, 4242);

    fn client(isn: u32) -> Client<'static, (u32, u16)> {
        Client { flow: &FLOW, isn: Seq(isn) }
    }

    fn offer(mss: u16, window_scale: Option<u8>) -> Offer {
        Offer { mss, window_scale, sack: true, ecn: mss.is_multiple_of(2), timestamps: true }
    }

    #[test]
    fn every_offer_comes_back() {
        let cookies = Cookies::new(&[1; 16]);
        let now = Instant::from_ms(123_456_789);
        for mss in MSS {
            for scale in (0..=14).map(Some).chain([None]) {
                for clock in [0, 1, 63, 64, 0x7fff_ffff, u32::MAX] {
                    let offer = offer(mss, scale);
                    let cookie = cookies.issue(now, client(99), &offer);
                    let echo = Cookies::timestamp(clock, &offer);
                    assert!(Seq(echo).le(Seq(clock)) && Seq(clock) - Seq(echo) < 64);
                    assert_eq!(cookies.check(now, client(99), cookie, Some(echo)), Some(offer));
                    let plain = Offer {
                        mss,
                        window_scale: None,
                        sack: false,
                        ecn: false,
                        timestamps: false,
                    };
                    assert_eq!(cookies.check(now, client(99), cookie, None), Some(plain));
                }
            }
        }
    }

    #[test]
    fn segment_sizes_are_rounded_down() {
        let cookies = Cookies::new(&[1; 16]);
        for (offered, kept) in
            [(1, 536), (1199, 536), (1459, 1440), (9000, 8932), (u16::MAX, 65_455)]
        {
            let cookie = cookies.issue(Instant::ZERO, client(1), &offer(offered, None));
            let found = cookies.check(Instant::ZERO, client(1), cookie, None).unwrap();
            assert_eq!(found.mss, kept);
        }
    }

    #[test]
    fn a_cookie_lives_for_two_periods() {
        let cookies = Cookies::new(&[1; 16]);
        for start_s in [0u64, 63, 64, 100, 1000] {
            let at = |s: u64| Instant::from_ms(s * 1000);
            let cookie = cookies.issue(at(start_s), client(1), &offer(1460, None));
            for age_s in 0..1000 {
                let valid = cookies.check(at(start_s + age_s), client(1), cookie, None).is_some();
                let periods = (start_s + age_s) / 64 - start_s / 64;
                assert_eq!(valid, periods <= 1, "made at {start_s} s, {age_s} s old");
            }
        }
    }

    #[test]
    fn other_flows_isns_keys_and_changed_bits_fail() {
        let now = Instant::from_ms(1_000_000);
        let cookies = Cookies::new(&[1; 16]);
        let cookie = cookies.issue(now, client(5), &offer(1460, None));
        assert!(cookies.check(now, client(6), cookie, None).is_none());
        let other = Client { flow: &(0x7f00_0001u32, 4243u16), isn: Seq(5) };
        assert!(cookies.check(now, other, cookie, None).is_none());
        assert!(Cookies::new(&[2; 16]).check(now, client(5), cookie, None).is_none());
        for bit in 0..32 {
            let changed = Seq(cookie.0 ^ 1 << bit);
            assert!(cookies.check(now, client(5), changed, None).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn guessing_does_not_pay() {
        let cookies = Cookies::new(&[3; 16]);
        let mut hits = 0;
        let mut guess = 1u32;
        for _ in 0..200_000 {
            guess = guess.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
            hits += u32::from(cookies.check(Instant::ZERO, client(1), Seq(guess), None).is_some());
        }
        assert!(hits <= 1, "{hits} of 200,000 guesses were taken");
    }
}
