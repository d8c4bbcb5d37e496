//! Addresses and routers from advertisements (RFC 4861, section 6.3; RFC 4862, section 5.5).

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::ethernet::Address;
use fusewire_wire::ndp::{Message, NdpOption, Prefix, Router, options};

use crate::Cidr;
use crate::addresses::{Begin, Entry, Lifetimes, Origin};
use crate::config::{Identifier, Link};
use crate::counters::Cause;
use crate::input::{Input, IpInput};
use crate::layer::{Layer, MIN_MTU};
use crate::neighbors::Evidence;
use crate::output::group_mac;
use crate::random::{Keyed, Purpose, Random};

/// `MAX_RTR_SOLICITATIONS`.
const MAX_RTR_SOLICITATIONS: u8 = 3;
/// `RTR_SOLICITATION_INTERVAL`.
const RTR_SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
/// `MAX_RTR_SOLICITATION_DELAY`.
const MAX_RTR_SOLICITATION_DELAY: Duration = Duration::from_secs(1);
/// A valid lifetime is not cut below this by who may be anybody (RFC 4862, section 5.5.3 (e)).
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// A hop limit below this is not taken from a router: packets would end on the way (CVE-2015-2922). No path of the
/// Internet is much longer.
const MIN_HOP_LIMIT: u8 = 32;
/// Duplicates after which no further identifier is tried.
const MAX_RETRIES: u8 = 3;
/// Most prefixes of one advertisement that are read.
const MAX_PREFIXES: usize = 16;
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
const PREFIX_LEN: u8 = 64;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Slaac {
    solicitations: u8,
    next: Option<Instant>,
    /// Identifiers that turned out to be another's (`DAD_Counter`).
    duplicates: u8,
}

impl Slaac {
    pub fn new() -> Slaac {
        Slaac { solicitations: 0, next: None, duplicates: 0 }
    }

    /// The link-local address may be used: routers can be asked.
    pub fn begin(&mut self, now: Instant, random: &mut Random) {
        if self.solicitations == 0 && self.next.is_none() {
            self.solicitations = MAX_RTR_SOLICITATIONS;
            self.next = Some(now + random.between(Duration::ZERO, MAX_RTR_SOLICITATION_DELAY));
        }
    }

    fn poll(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|at| at <= now) && self.solicitations > 0;
        if due {
            self.solicitations -= 1;
            let more = self.solicitations > 0;
            self.next = more.then_some(now + RTR_SOLICITATION_INTERVAL);
        }
        due
    }

    /// When routers are to be asked.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

/// The lower half of an address in the network of `prefix`.
pub(crate) fn identifier(
    how: Identifier,
    keyed: Keyed,
    prefix: Ipv6Addr,
    mac: Address,
    duplicates: u8,
) -> u64 {
    match how {
        Identifier::Eui64 => {
            let [a, b, c, d, e, f] = mac.0;
            u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
        }
        Identifier::Opaque(key) => {
            let parts = (key, prefix.octets(), mac.0, duplicates);
            keyed.rekeyed(&key).hash(Purpose::Identifier, &parts)
        }
    }
}

impl Layer {
    /// Begins to have a link-local address, and asks for routers when it is there.
    pub(crate) fn begin_slaac(&mut self, now: Instant) {
        self.slaac = Some(Slaac::new());
        self.form_address(now, LINK_LOCAL, Origin::LinkLocal, Lifetimes::default());
    }

    fn form_address(
        &mut self,
        now: Instant,
        prefix: Ipv6Addr,
        origin: Origin,
        lifetimes: Lifetimes,
    ) {
        let (Link::Ethernet(own), Some(slaac)) = (self.config.link, &self.slaac) else { return };
        let how = self.config.identifier;
        let low = identifier(how, self.keyed, prefix, own, slaac.duplicates);
        let high = prefix.to_bits() >> 64 << 64;
        let address = IpAddr::V6(Ipv6Addr::from_bits(high | u128::from(low)));
        let Some(cidr) = Cidr::new(address, PREFIX_LEN) else { return };
        let begin = if self.config.duplicate_detection { Begin::Probed } else { Begin::Silent };
        self.new_address(now, cidr, origin, lifetimes, begin);
    }

    /// Another host has an address that we made: another one is tried, where that can be another.
    pub(crate) fn reform_address(&mut self, now: Instant, lost: &Entry) {
        let (Identifier::Opaque(_), Some(slaac)) = (self.config.identifier, &mut self.slaac) else {
            return;
        };
        let IpAddr::V6(address) = lost.cidr.address() else { return };
        if slaac.duplicates < MAX_RETRIES {
            slaac.duplicates += 1;
            self.remove_address(now, lost.cidr.address());
            let prefix = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
            self.form_address(now, prefix, lost.origin, lost.lifetimes);
        }
    }

    pub(crate) fn poll_slaac(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let Link::Ethernet(own) = self.config.link else { return None };
        let source = self.addresses.link_local();
        let slaac = self.slaac.as_mut()?;
        if !slaac.poll(now) {
            return None;
        }
        let source = source?;
        let option = Some(NdpOption::SourceAddress(own));
        let mac = group_mac(ALL_ROUTERS.into());
        let ends = (source, ALL_ROUTERS);
        Some(self.emit_ndp(Message::RouterSolicitation, option, ends, mac, out))
    }

    /// A router's advertisement whose hop limit was right; `bytes` are its options, which are well-formed.
    pub(crate) fn router_advertisement(
        &mut self,
        now: Instant,
        input: &IpInput,
        router: &Router,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        let IpAddr::V6(source) = input.source else { return Err(Cause::NdpIgnored) };
        if !source.is_unicast_link_local() {
            return Err(Cause::NdpMalformed);
        }
        if self.slaac.is_none() {
            return Err(Cause::NdpIgnored);
        }
        // Before anything of it counts: whose is it?
        for option in options(bytes).flatten() {
            if let NdpOption::SourceAddress(mac) = option
                && !mac.is_multicast()
            {
                self.learn(now, source.into(), mac, Evidence::Mentioned)?;
                self.neighbors.set_router(source.into(), true, true);
            }
        }
        if router.lifetime_s > 0
            && let Some(slaac) = &mut self.slaac
        {
            // Section 6.3.7: one was found.
            (slaac.next, slaac.solicitations) = (None, 0);
        }
        if router.hop_limit >= MIN_HOP_LIMIT {
            self.hop_limit_v6 = router.hop_limit;
        }
        self.neighbors.set_times(router.reachable_time_ms, router.retrans_timer_ms);
        let lifetime = Duration::from_secs(router.lifetime_s.into());
        if self.routes.advertise(now, source, lifetime) {
            self.changed();
        }
        let mut prefixes = 0;
        for option in options(bytes).flatten() {
            match option {
                NdpOption::Mtu(mtu) => {
                    let mtu = mtu as usize;
                    if (MIN_MTU..=self.config.mtu).contains(&mtu) && mtu != self.mtu_v6 {
                        self.mtu_v6 = mtu;
                        self.changed();
                    }
                }
                NdpOption::Prefix(prefix) if prefixes < MAX_PREFIXES => {
                    prefixes += 1;
                    self.prefix(now, &prefix);
                }
                _ => {}
            }
        }
        Ok(Input::Consumed)
    }

    /// RFC 4861, section 6.3.4, and RFC 4862, section 5.5.3.
    fn prefix(&mut self, now: Instant, prefix: &Prefix) {
        let address = prefix.prefix;
        if address.is_unicast_link_local() || address.is_multicast() || prefix.len > 128 {
            return;
        }
        let until = |s: u32| (s != u32::MAX).then(|| now + Duration::from_secs(s.into()));
        let valid = until(prefix.valid_lifetime_s);
        if prefix.on_link
            && let Some(cidr) = Cidr::new(address.into(), prefix.len)
            && self.routes.on_link(now, cidr.network(), valid)
        {
            self.changed();
        }
        if !prefix.autonomous
            || prefix.preferred_lifetime_s > prefix.valid_lifetime_s
            || prefix.len != PREFIX_LEN
        {
            return;
        }
        let preferred_until = until(prefix.preferred_lifetime_s);
        let network = Cidr::new(address.into(), PREFIX_LEN);
        let of_prefix = |e: &&Entry| {
            e.origin == Origin::Slaac && network.is_some_and(|n| n.contains(e.cidr.address()))
        };
        let known = self.addresses.iter().find(of_prefix).copied();
        if let Some(entry) = known {
            let lengthened = match (valid, entry.lifetimes.valid_until) {
                (None, _) => true,
                (Some(new), _) if new > now + TWO_HOURS => true,
                (Some(new), Some(old)) => new > old,
                (Some(_), None) => false,
            };
            let short = entry.lifetimes.valid_until.is_some_and(|old| old <= now + TWO_HOURS);
            let valid_until = match (lengthened, short) {
                (true, _) => valid,
                (false, true) => entry.lifetimes.valid_until,
                (false, false) => Some(now + TWO_HOURS),
            };
            let lifetimes = Lifetimes { preferred_until, valid_until };
            self.addresses.refresh(now, entry.cidr.address(), lifetimes);
        } else if prefix.valid_lifetime_s > 0 {
            let lifetimes = Lifetimes { preferred_until, valid_until: valid };
            self.form_address(now, address, Origin::Slaac, lifetimes);
        }
    }
}
