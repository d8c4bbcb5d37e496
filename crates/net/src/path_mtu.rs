//! How large packets may be on the way to a destination (RFC 1191, RFC 8201).
//!
//! Knowledge comes from ICMP, after the transport has said that the packet in question is one of its own, or
//! from the transport's own losses: a path that drops large packets without a word is a black hole. It
//! is forgotten after ten minutes, so that a path that has become wider is found to be so.

use core::net::IpAddr;
use core::time::Duration;

use fusewire_base::Instant;

use crate::random::{Keyed, Purpose};

/// Entries of one set.
const WAYS: usize = 8;
/// RFC 1191, section 6.3; RFC 8201, section 4.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Least that an IPv4 path is believed to need: below it packets go out without DF, as RFC 1191, section 6.1,
/// allows, and stay this large. A forged message gains no more.
pub const MIN_V4: usize = 552;
/// Least MTU of a link for IPv6.
pub const MIN_V6: usize = 1280;
/// Least MTU of a link for IPv4 (RFC 791).
const LEAST_V4: usize = 68;
/// Losses of large packets without a delivery that make a black hole.
const BLACK_HOLE_LOSSES: u8 = 4;
/// Sizes that paths really have (RFC 1191, section 7, and today's tunnels).
const PLATEAUS: [usize; 16] = [
    65_535, 32_000, 17_914, 9_000, 8_166, 4_352, 2_002, 1_500, 1_492, 1_400, 1_280, 1_006, 576,
    508, 296, 68,
];

/// The largest size that paths have and that is less than `len`.
pub fn plateau_below(len: usize) -> usize {
    PLATEAUS.into_iter().find(|&p| p < len).unwrap_or(LEAST_V4)
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    remote: IpAddr,
    /// `None` when nothing but losses is known.
    mtu: Option<usize>,
    may_fragment: bool,
    until: Instant,
    losses: u8,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Routers have to cut packets of that size.
    pub may_fragment: bool,
}

/// The paths of which something is known.
#[derive(Debug)]
pub struct PathMtus {
    entries: Vec<Option<Entry>>,
    keyed: Keyed,
    changes: u64,
    /// No entry ends before this.
    next: Option<Instant>,
}

impl PathMtus {
    /// Nothing is known. At most `limit` paths, rounded up.
    pub fn new(limit: usize, keyed: Keyed) -> PathMtus {
        let entries = vec![None; limit.max(1).next_multiple_of(WAYS)];
        PathMtus { entries, keyed, changes: 0, next: None }
    }

    /// Grows whenever a path is found narrower, or may be wider again.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn set_of(&self, remote: IpAddr) -> core::ops::Range<usize> {
        let sets = (self.entries.len() / WAYS) as u64;
        let set = (self.keyed.hash(Purpose::PathMtu, &remote) % sets) as usize;
        set * WAYS..(set + 1) * WAYS
    }

    fn entry(&self, remote: IpAddr) -> Option<&Entry> {
        self.entries[self.set_of(remote)].iter().flatten().find(|e| e.remote == remote)
    }

    /// What is known of the path to `remote`.
    pub fn lookup(&self, remote: IpAddr) -> Option<Known> {
        let entry = self.entry(remote)?;
        Some(Known { mtu: entry.mtu?, may_fragment: entry.may_fragment })
    }

    /// Whether "too big" with this MTU can be honest, of a packet of `sent_len` bytes, where packets of up to
    /// `current` go: it makes the path's MTU smaller, though not too small, and the packet was larger. What an old
    /// router did not say comes from the packet's size.
    pub fn judge(v6: bool, mtu: usize, sent_len: usize, current: usize) -> Option<usize> {
        let mtu = if mtu == 0 && !v6 { plateau_below(sent_len) } else { mtu };
        let least = if v6 { MIN_V6 } else { LEAST_V4 };
        (mtu >= least && mtu < current && mtu < sent_len).then_some(mtu)
    }

    /// Packets to `remote` must not be larger than `mtu`.
    pub fn reduce(&mut self, now: Instant, remote: IpAddr, mtu: usize) {
        let least = if remote.is_ipv6() { MIN_V6 } else { MIN_V4 };
        let until = now + MAX_AGE;
        let entry = self.place(now, remote);
        if entry.mtu.is_some_and(|known| known <= mtu.max(least)) && !entry.may_fragment {
            entry.may_fragment = mtu < least;
        } else {
            entry.mtu = Some(mtu.max(least));
            entry.may_fragment = mtu < least;
        }
        entry.until = until;
        entry.losses = 0;
        self.changes += 1;
    }

    /// A packet of `len` bytes did not arrive, as far as the transport can tell. True when too many did
    /// not: the path is taken to have a smaller MTU.
    pub fn lost(&mut self, now: Instant, remote: IpAddr, len: usize) -> bool {
        let least = if remote.is_ipv6() { MIN_V6 } else { MIN_V4 };
        if len <= least {
            return false;
        }
        let entry = self.place(now, remote);
        entry.losses = entry.losses.saturating_add(1);
        let black_hole = entry.losses >= BLACK_HOLE_LOSSES;
        if black_hole {
            self.reduce(now, remote, plateau_below(len).max(least));
        }
        black_hole
    }

    /// A packet of `len` bytes has arrived.
    pub fn delivered(&mut self, remote: IpAddr, len: usize) {
        let set = self.set_of(remote);
        let entry = self.entries[set].iter_mut().flatten().find(|e| e.remote == remote);
        if let Some(entry) = entry
            && len > MIN_V4
        {
            entry.losses = 0;
        }
    }

    fn place(&mut self, now: Instant, remote: IpAddr) -> &mut Entry {
        let set = self.set_of(remote);
        let known = set.clone().find(|&at| self.entries[at].is_some_and(|e| e.remote == remote));
        let at = known
            .or_else(|| set.clone().find(|&at| self.entries[at].is_none()))
            .or_else(|| set.clone().min_by_key(|&at| self.entries[at].map(|e| e.until)))
            .unwrap_or(set.start);
        if known.is_none() {
            self.entries[at] = None;
        }
        let until = now + MAX_AGE;
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
        let new = Entry { remote, mtu: None, may_fragment: false, until, losses: 0 };
        self.entries[at].get_or_insert(new)
    }

    /// Forgets what is old.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        for slot in &mut self.entries {
            if let Some(entry) = slot.take_if(|e| e.until <= now)
                && entry.mtu.is_some()
            {
                self.changes += 1;
            }
        }
        self.next = self.entries.iter().flatten().map(|e| e.until).min();
    }

    /// When something is old.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use core::net::Ipv4Addr;

    fn paths(limit: usize) -> PathMtus {
        PathMtus::new(limit, Random::new(&[4; 32]).1)
    }

    fn peer(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))
    }

    #[test]
    fn judges() {
        assert_eq!(PathMtus::judge(false, 1400, 1500, 1500), Some(1400));
        assert_eq!(PathMtus::judge(false, 0, 1500, 1500), Some(1492), "RFC 1191, section 5");
        assert_eq!(PathMtus::judge(false, 67, 1500, 1500), None);
        assert_eq!(PathMtus::judge(false, 1500, 1500, 1500), None, "no narrower");
        assert_eq!(PathMtus::judge(false, 1400, 600, 1500), None, "the packet was small");
        assert_eq!(PathMtus::judge(true, 1280, 1500, 1500), Some(1280));
        assert_eq!(PathMtus::judge(true, 1279, 1500, 1500), None, "RFC 8201, section 4");
        assert_eq!(PathMtus::judge(true, 0, 1500, 1500), None);
    }

    #[test]
    fn falls_never_rises_and_forgets_after_ten_minutes() {
        let mut paths = paths(8);
        let t = Instant::from_ms(5);
        paths.reduce(t, peer(1), 1400);
        paths.reduce(t, peer(1), 1450);
        let known = |paths: &PathMtus| paths.lookup(peer(1)).map(|k| (k.mtu, k.may_fragment));
        assert_eq!(known(&paths), Some((1400, false)));
        paths.reduce(t, peer(1), 100);
        assert_eq!(known(&paths), Some((MIN_V4, true)));
        let end = t + Duration::from_secs(600);
        assert_eq!(paths.poll_timeout(), Some(end));
        let changes = paths.changes();
        paths.handle_timeout(end);
        assert_eq!(known(&paths), None);
        assert!(paths.changes() > changes && paths.poll_timeout().is_none());
        let v6 = "2001:db8::1".parse().unwrap();
        paths.reduce(t, v6, 1000);
        assert_eq!(paths.lookup(v6), Some(Known { mtu: MIN_V6, may_fragment: true }));
    }

    #[test]
    fn four_losses_and_nothing_delivered_make_a_black_hole() {
        let mut paths = paths(8);
        let t = Instant::ZERO;
        for _ in 0..3 {
            assert!(!paths.lost(t, peer(1), 1500));
        }
        paths.delivered(peer(1), 1500);
        for n in 0..4 {
            assert_eq!(paths.lost(t, peer(1), 1500), n == 3);
        }
        assert_eq!(paths.lookup(peer(1)).map(|k| k.mtu), Some(1492));
        assert!((0..20).all(|_| !paths.lost(t, peer(2), MIN_V4)), "small ones have other reasons");
    }

    #[test]
    fn bounded() {
        let mut paths = paths(64);
        for n in 0..10_000 {
            paths.reduce(Instant::from_ms(n.into()), peer(n), 1400);
        }
        assert_eq!(paths.entries.len(), 64);
        assert!(paths.lookup(peer(9_999)).is_some());
    }
}
