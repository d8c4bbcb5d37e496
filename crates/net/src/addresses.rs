//! Addresses that are ours, and how they come to be: probed for duplicates, announced, defended, expired.
//!
//! ```text
//!   add ──▶ Tentative ──nobody else──▶ Preferred ──preferred lifetime──▶ Deprecated ──valid lifetime──▶ gone
//!               └──────somebody has it──▶ Duplicate
//! ```
//! IPv6: RFC 4862, section 5.4. IPv4: probes and announcements in the manner of RFC 5227.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use fusewire_base::Instant;

use crate::Cidr;
use crate::cidr::common_prefix;
use crate::random::Random;

/// Most addresses at a time.
pub const MAX_ADDRESSES: usize = 16;

/// Solicitations without an answer after which an address is ours (`DupAddrDetectTransmits`).
const DUP_ADDR_DETECT_TRANSMITS: u8 = 1;
/// Probes of an IPv4 address from DHCP.
const ARP_PROBES: u8 = 2;
/// Time between probes (`RetransTimer`), and after the last.
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// Longest wait before the first probe (`MAX_RTR_SOLICITATION_DELAY`).
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Announcements of a new address.
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Least time between two defences of one address.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// Where an address is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Configured.
    Static,
    /// Made for the link alone (RFC 4862, section 5.3).
    LinkLocal,
    /// Made of a router's prefix (RFC 4862, section 5.5).
    Slaac,
    /// Lent by a DHCP server.
    Dhcp,
}

/// What may be done with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    Tentative,
    /// Everything.
    Preferred,
    /// Nothing new.
    Deprecated,
    /// Nothing: another host has it.
    Duplicate,
}

/// How long an address may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Until when it may be used for something new; `None`: for ever.
    pub preferred_until: Option<Instant>,
    /// Until when it may be used; `None`: for ever.
    pub valid_until: Option<Instant>,
}

/// An address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The address and its network.
    pub cidr: Cidr,
    /// Where it is from.
    pub origin: Origin,
    /// What may be done with it.
    pub state: State,
    /// How long.
    pub lifetimes: Lifetimes,
    probes: u8,
    announcements: u8,
    next: Option<Instant>,
    defended: Option<Instant>,
}

/// What is to be sent about an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Has anybody this address? ARP probe, or solicitation from the unspecified address.
    Probe(IpAddr),
    /// This address is ours: gratuitous ARP, or unsolicited advertisement.
    Announce(IpAddr),
}

/// A change that others have to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The address may be used from now on.
    Up(Entry),
    /// The address must not be used any more.
    Down(Entry),
}

/// The addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    entries: Vec<Entry>,
}

/// How a new address begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Ours without a question and without news, as on a link without neighbours.
    Silent,
    /// Ours without a question; the neighbours are told.
    Announced,
    /// Ours when nobody else has it; the first probe goes after a random delay (RFC 4862, section 5.4.2).
    Probed,
}

impl Addresses {
    /// None yet.
    pub(crate) fn new() -> Addresses {
        Addresses { entries: Vec::with_capacity(MAX_ADDRESSES) }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The entry of `address`, whatever its state.
    pub fn entry(&self, address: IpAddr) -> Option<&Entry> {
        self.entries.iter().find(|e| e.cidr.address() == address)
    }

    /// Whether there is no room for another.
    pub fn is_full(&self) -> bool {
        self.entries.len() == MAX_ADDRESSES
    }

    /// Adds an address, unless it is there already or there is no room.
    pub fn add(
        &mut self,
        now: Instant,
        cidr: Cidr,
        origin: Origin,
        lifetimes: Lifetimes,
        begin: Begin,
        random: &mut Random,
    ) -> Option<Change> {
        if self.is_full() || self.entry(cidr.address()).is_some() {
            return None;
        }
        let probes = if cidr.address().is_ipv4() { ARP_PROBES } else { DUP_ADDR_DETECT_TRANSMITS };
        let (state, next) = match begin {
            Begin::Silent => (State::Preferred, None),
            Begin::Announced => (State::Preferred, Some(now)),
            Begin::Probed => {
                (State::Tentative, Some(now + random.between(Duration::ZERO, MAX_DELAY)))
            }
        };
        let announcements = ANNOUNCEMENTS;
        let entry =
            Entry { cidr, origin, state, lifetimes, probes, announcements, next, defended: None };
        self.entries.push(entry);
        (state == State::Preferred).then_some(Change::Up(entry))
    }

    /// Removes an address.
    pub fn remove(&mut self, address: IpAddr) -> Option<Change> {
        let at = self.entries.iter().position(|e| e.cidr.address() == address)?;
        Some(Change::Down(self.entries.swap_remove(at)))
    }

    /// Gives an address new lifetimes.
    pub fn refresh(&mut self, now: Instant, address: IpAddr, lifetimes: Lifetimes) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.cidr.address() == address) {
            entry.lifetimes = lifetimes;
            let preferred = lifetimes.preferred_until.is_none_or(|at| at > now);
            if entry.state == State::Deprecated && preferred {
                entry.state = State::Preferred;
            }
        }
    }

    /// Whether packets to `address` are ours.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.entries.iter().any(|e| e.cidr.address() == address && e.is_usable())
    }

    /// Whether `address` is the broadcast address of a network of ours.
    pub fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.entries.iter().any(|e| e.cidr.broadcast() == Some(address))
    }

    /// The usable address whose network `address` is of, by the longest prefix.
    pub fn on_link(&self, address: IpAddr) -> Option<&Entry> {
        self.usable().filter(|e| e.cidr.contains(address)).max_by_key(|e| e.cidr.prefix_len())
    }

    /// The best source for packets to `destination` (RFC 6724, section 5: rules 1, 2, 3 and 8).
    pub fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let scope = scope(destination);
        self.usable()
            .filter(|e| e.cidr.address().is_ipv4() == destination.is_ipv4())
            .max_by_key(|e| {
                let own = self::scope(e.cidr.address());
                // The smallest scope that is wide enough; failing that, the widest.
                let fit = if own >= scope { 16 + (16 - own) } else { own };
                let prefix = common_prefix(e.cidr.address(), destination).unwrap_or(0);
                (e.cidr.address() == destination, fit, e.state == State::Preferred, prefix)
            })
            .map(|e| e.cidr.address())
    }

    /// The link-local IPv6 address, when it may be used.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.usable().find_map(|e| match e.cidr.address() {
            IpAddr::V6(a) if a.is_unicast_link_local() => Some(a),
            _ => None,
        })
    }

    fn usable(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|e| e.is_usable())
    }

    /// Another host claims `address`. What that means for us.
    pub fn handle_claim(&mut self, now: Instant, address: IpAddr) -> Claim {
        let Some(entry) = self.entries.iter_mut().find(|e| e.cidr.address() == address) else {
            return Claim::Foreign;
        };
        match entry.state {
            State::Tentative => {
                entry.state = State::Duplicate;
                entry.next = None;
                Claim::Lost(*entry)
            }
            State::Duplicate => Claim::Foreign,
            State::Preferred | State::Deprecated => {
                if entry.defended.is_none_or(|at| now >= at + DEFEND_INTERVAL) {
                    entry.defended = Some(now);
                    entry.announcements = entry.announcements.max(1);
                    entry.next = Some(now);
                }
                Claim::Conflict
            }
        }
    }

    /// What is to be sent now, if anything.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Notice> {
        for entry in &mut self.entries {
            if entry.next.is_none_or(|at| at > now) {
                continue;
            }
            let address = entry.cidr.address();
            match entry.state {
                State::Tentative if entry.probes > 0 => {
                    entry.probes -= 1;
                    entry.next = Some(now + RETRANS_TIMER);
                    return Some(Notice::Probe(address));
                }
                State::Preferred | State::Deprecated if entry.announcements > 0 => {
                    entry.announcements -= 1;
                    entry.next = (entry.announcements > 0).then_some(now + ANNOUNCE_INTERVAL);
                    return Some(Notice::Announce(address));
                }
                State::Tentative => {}
                _ => entry.next = None,
            }
        }
        None
    }

    /// The next change that time has brought; ask until there is none.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Change> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        for at in 0..self.entries.len() {
            let entry = &mut self.entries[at];
            if due(entry.lifetimes.valid_until) {
                return Some(Change::Down(self.entries.swap_remove(at)));
            }
            if entry.state == State::Preferred && due(entry.lifetimes.preferred_until) {
                entry.state = State::Deprecated;
            }
            if entry.state == State::Tentative && entry.probes == 0 && due(entry.next) {
                entry.state = State::Preferred;
                entry.next = Some(now);
                return Some(Change::Up(*entry));
            }
        }
        None
    }

    /// When something is to be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let preferred = |e: &Entry| match e.state {
            State::Preferred => e.lifetimes.preferred_until,
            _ => None,
        };
        self.entries
            .iter()
            .flat_map(|e| [e.next, e.lifetimes.valid_until, preferred(e)])
            .flatten()
            .min()
    }
}

/// What another host's claim to an address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The address is not ours.
    Foreign,
    /// It was to be ours, and is not.
    Lost(Entry),
    /// It is ours, and we say so again, though not too often.
    Conflict,
}

impl Entry {
    /// Packets may be sent from it and to it.
    pub const fn is_usable(&self) -> bool {
        matches!(self.state, State::Preferred | State::Deprecated)
    }
}

/// Whether packets from `source` may go as far as `destination` is: those of a link-local address pass no
/// router (RFC 4291, section 2.5.6; RFC 3927, section 2.6.2).
pub(crate) fn reaches(source: IpAddr, destination: IpAddr) -> bool {
    scope(source) >= scope(destination)
}

/// How far an address reaches: 2 the link, 14 everywhere (RFC 4291, section 2.7; RFC 6724, section 3.1).
fn scope(address: IpAddr) -> u8 {
    match address {
        IpAddr::V6(a) if a.is_multicast() => a.octets()[1] & 0xf,
        IpAddr::V6(a) if a.is_unicast_link_local() => 2,
        IpAddr::V4(a) if a.is_link_local() || a.is_loopback() => 2,
        _ => 14,
    }
}
