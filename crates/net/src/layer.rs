//! The IP layer of one interface, as a machine without I/O.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use fusewire_base::Instant;
use fusewire_wire::ethernet::Address;
use fusewire_wire::{tcp, udp};

use crate::Cidr;
use crate::addresses::{self, Addresses, Begin, Change, Lifetimes, Origin};
use crate::config::{Config, Link, Route};
use crate::counters::{Cause, Counters};
use crate::dhcp::Dhcp;
use crate::groups::{Groups, Listener};
use crate::identification::Identifications;
use crate::input::solicited_node;
use crate::limit::Limiter;
use crate::loopback::LOOPBACK_MTU;
use crate::membership::MembershipChange;
use crate::neighbors::{Lookup, Neighbors};
use crate::outbox::Outbox;
use crate::output::{MacPair, NoPath, Via, group_mac};
use crate::path_mtu::{Known, PathMtus};
use crate::random::{Keyed, Random};
use crate::reassembly::Reassembly;
use crate::routes::{self, NextHop, Routes};
use crate::slaac::Slaac;

/// Smallest MTU that a link may have: that of IPv6 (RFC 8200, section 5).
pub const MIN_MTU: usize = 1280;
/// Smallest MTU that a DHCP server may give a link.
pub(crate) const LEAST_MTU_V4: usize = 576;

/// The IP layer of one interface.
///
/// Whoever owns one drives it: frames go into [`Layer::handle`]; when that, [`Layer::route`] or
/// [`Layer::handle_timeout`] was called, [`Layer::poll_transmit`] is asked until it gives nothing more;
/// [`Layer::poll_timeout`] says when [`Layer::handle_timeout`] is due. Packets of the transport do not pass
/// through it: they take the headers of a [`Via`].
#[derive(Debug)]
pub struct Layer {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) addresses: Addresses,
    pub(crate) routes: Routes,
    pub(crate) neighbors: Neighbors,
    pub(crate) limiter: Limiter,
    pub(crate) outbox: Outbox,
    pub(crate) counters: Counters,
    pub(crate) path_mtus: PathMtus,
    /// Paths that "too big" narrowed for UDP only: nothing in a quoted datagram proves that it was sent.
    pub(crate) udp_path_mtus: PathMtus,
    pub(crate) reassembly: Reassembly,
    pub(crate) groups: Groups,
    pub(crate) dhcp: Option<Dhcp>,
    pub(crate) slaac: Option<Slaac>,
    pub(crate) keyed: Keyed,
    identifications: Identifications,
    /// Of the frame at hand the transport checksum needs no look.
    pub(crate) is_verified: bool,
    /// The frame at hand is one that we sent to ourselves.
    pub(crate) is_looped: bool,
    /// Protocols that are spoken above IP besides TCP and UDP.
    spoken: Vec<u8>,
    pub(crate) hop_limit_v6: u8,
    pub(crate) mtu_v4: usize,
    pub(crate) mtu_v6: usize,
    /// Where the last reassembled datagram lies.
    pub(crate) whole: Range<usize>,
    /// Tells own probes that come back.
    pub(crate) nonce: [u8; 6],
    changes: u64,
}

impl Layer {
    /// A layer that begins at `now`. `seed` is secret randomness.
    pub fn new(mut config: Config, seed: &[u8; 32], now: Instant) -> Layer {
        config.loopback &= config.responds;
        let (mut random, keyed) = Random::new(seed);
        let [nonce @ .., _, _] = random.bits().to_be_bytes();
        let mut layer = Layer {
            addresses: Addresses::new(),
            routes: Routes::new(),
            neighbors: Neighbors::new(config.limits.neighbors, keyed),
            limiter: Limiter::new(now, config.limits.answers_per_s, keyed),
            outbox: Outbox::new(),
            counters: Counters::default(),
            path_mtus: PathMtus::new(config.limits.path_mtus, keyed),
            udp_path_mtus: PathMtus::new(config.limits.path_mtus / 4, keyed),
            reassembly: Reassembly::new(
                config.limits.reassemblies,
                config.reassembly_timeout,
                keyed,
            ),
            groups: Groups::new(config.limits.groups),
            dhcp: None,
            slaac: None,
            identifications: Identifications::new(keyed, &mut random),
            keyed,
            is_verified: false,
            is_looped: false,
            spoken: Vec::new(),
            hop_limit_v6: config.hop_limit,
            mtu_v4: config.mtu,
            mtu_v6: config.mtu,
            whole: 0..0,
            nonce,
            random,
            changes: 0,
            config,
        };
        for at in 0..layer.config.addresses.len() {
            let cidr = layer.config.addresses[at];
            layer.add_address(now, cidr);
        }
        for at in 0..layer.config.routes.len() {
            let route = layer.config.routes[at];
            layer.routes.add(route, routes::Source::Static);
        }
        if let Link::Ethernet(mac) = layer.config.link {
            if layer.config.slaac {
                layer.begin_slaac(now);
            }
            if layer.config.dhcp {
                layer.dhcp = Some(Dhcp::new(now, mac, &mut layer.random));
            }
        }
        layer
    }

    /// What the layer was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What went through the layer and what did not.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Our addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &addresses::Entry> {
        self.addresses.iter()
    }

    /// Our routes.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Neighbours that were found.
    pub fn neighbors(&self) -> impl Iterator<Item = &crate::neighbors::Entry> {
        self.neighbors.iter()
    }

    /// Changes whenever a [`Via`] may have become wrong, or [`NoPath::Resolving`] may have come to an end:
    /// ask for all of them again.
    pub fn generation(&self) -> u64 {
        self.changes
            + self.neighbors.changes()
            + self.path_mtus.changes()
            + self.udp_path_mtus.changes()
    }

    pub(crate) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Whether somebody above IP speaks a protocol from now on, by its number. Nobody has to say it of TCP and UDP;
    /// who sends another is told that it is not spoken.
    pub fn speak(&mut self, protocol: u8, is_spoken: bool) {
        self.spoken.retain(|spoken| *spoken != protocol);
        if is_spoken {
            self.spoken.push(protocol);
        }
    }

    /// Somebody above IP speaks this protocol.
    pub(crate) fn speaks(&self, protocol: u8) -> bool {
        matches!(protocol, tcp::NUMBER | udp::NUMBER) || self.spoken.contains(&protocol)
    }

    /// Whether packets to `address` are ours.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.is_own(address) || (self.config.loopback && address.is_loopback())
    }

    /// The address of ours that packets to `destination` come from, unless a path says otherwise.
    pub fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        self.addresses.source_for(destination)
    }

    /// Gives the interface an address; false when there is no room.
    pub fn add_address(&mut self, now: Instant, cidr: Cidr) -> bool {
        let begin = match self.config.link {
            _ if !self.config.responds => Begin::Silent,
            Link::Ip => Begin::Silent,
            Link::Ethernet(_) if cidr.address().is_ipv6() && self.config.duplicate_detection => {
                Begin::Probed
            }
            Link::Ethernet(_) => Begin::Announced,
        };
        self.new_address(now, cidr, Origin::Static, Lifetimes::default(), begin);
        self.addresses.entry(cidr.address()).is_some()
    }

    /// An address begins: its group is joined first (RFC 4862, section 5.4.2).
    pub(crate) fn new_address(
        &mut self,
        now: Instant,
        cidr: Cidr,
        origin: Origin,
        lifetimes: Lifetimes,
        begin: Begin,
    ) {
        if self.addresses.entry(cidr.address()).is_some() || self.addresses.is_full() {
            return;
        }
        if let (IpAddr::V6(address), Link::Ethernet(_)) = (cidr.address(), self.config.link) {
            let group = solicited_node(address).into();
            // There is room for one of each address.
            let listener = Listener::Address(address);
            let _ = self.groups.change(now, listener, group, MembershipChange::Join);
        }
        let change = self.addresses.add(now, cidr, origin, lifetimes, begin, &mut self.random);
        self.apply(now, change);
    }

    /// Takes an address away.
    pub fn remove_address(&mut self, now: Instant, address: IpAddr) {
        let change = self.addresses.remove(address);
        self.apply(now, change);
    }

    fn apply(&mut self, now: Instant, change: Option<Change>) {
        let Some(change) = change else { return };
        self.changed();
        match change {
            Change::Up(entry) => {
                if entry.origin == Origin::LinkLocal
                    && let Some(slaac) = &mut self.slaac
                {
                    slaac.begin(now, &mut self.random);
                }
            }
            Change::Down(entry) => {
                if let (IpAddr::V6(address), Link::Ethernet(_)) =
                    (entry.cidr.address(), self.config.link)
                {
                    self.groups.forget(now, Listener::Address(address));
                }
            }
        }
    }

    /// Another host has an address that was to be ours.
    pub(crate) fn lost_address(&mut self, now: Instant, entry: &addresses::Entry) {
        self.changed();
        match entry.origin {
            Origin::Static => {}
            Origin::LinkLocal | Origin::Slaac => self.reform_address(now, entry),
            Origin::Dhcp => {
                self.drop_lease(now);
                if let Some(dhcp) = &mut self.dhcp {
                    dhcp.decline(now, &mut self.random);
                }
            }
        }
    }

    /// Adds a route; false when there is no room.
    pub fn add_route(&mut self, route: Route) -> bool {
        self.changed();
        self.routes.add(route, routes::Source::Static)
    }

    /// These routes in place of all that were added before. What there is no room for is left out: the
    /// widest come first.
    pub fn replace_routes(&mut self, mut routes: Vec<Route>) {
        self.changed();
        self.routes.clear(routes::Source::Static);
        // Of one network the first counts: the order stays.
        routes.sort_by_key(|route| route.destination.prefix_len());
        for route in routes {
            self.routes.add(route, routes::Source::Static);
        }
    }

    /// Removes a route.
    pub fn remove_route(&mut self, route: &Route) {
        self.changed();
        self.routes.remove(route);
    }

    /// A neighbour that is told, not found, as netlink says or the user. `None` forgets it.
    pub fn set_neighbor(&mut self, address: IpAddr, mac: Option<Address>) {
        self.neighbors.set(address, mac);
    }

    /// Of whom somebody else is to find out where it is, where the layer does not ask itself
    /// ([`Config::responds`](crate::Config::responds)); ask until there is none. The answer goes into
    /// [`Layer::neighbor_resolved`].
    pub fn poll_question(&mut self, now: Instant) -> Option<IpAddr> {
        if self.config.responds {
            return None;
        }
        self.neighbors.poll_solicitation(now).map(|question| question.address)
    }

    /// Where a neighbour is, from somebody who knows. Of one that nobody has looked for nothing is kept.
    pub fn neighbor_resolved(&mut self, now: Instant, address: IpAddr, mac: Address) {
        self.neighbors.resolved(now, address, mac, &mut self.random);
    }

    /// An upper layer has had an answer through this next hop (RFC 4861, section 7.3.1).
    pub fn confirm(&mut self, now: Instant, next_hop: IpAddr) {
        self.neighbors.confirm(now, next_hop, &mut self.random);
    }

    /// An upper layer has had no answer through this next hop for a while (RFC 9293, MUST-20; RFC 1122,
    /// section 3.3.1.4): it is asked whether it is there, and if not another router is taken.
    pub fn doubt(&mut self, next_hop: IpAddr) {
        self.neighbors.doubt(next_hop);
    }

    /// The link takes larger or smaller packets than before.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.config.mtu = mtu;
        (self.mtu_v4, self.mtu_v6) = (mtu, mtu);
        self.changed();
    }

    /// A path to `destination`, from `source` when that is fixed already.
    ///
    /// # Errors
    /// See [`NoPath`].
    pub fn route(
        &mut self,
        now: Instant,
        destination: IpAddr,
        source: Option<IpAddr>,
    ) -> Result<Via, NoPath> {
        let loops = self.loops_back(destination);
        if !loops && self.is_own(destination) {
            return Err(NoPath::Own);
        }
        if source.is_some_and(|s| !self.is_own(s) || s.is_ipv4() != destination.is_ipv4()) {
            return Err(NoPath::NotOurs);
        }
        if loops {
            return Ok(self.path_back(destination, source));
        }
        let stays = destination.is_loopback() || source.is_some_and(|source| source.is_loopback());
        if destination.is_unspecified() || stays {
            return Err(NoPath::NoRoute);
        }
        if self.is_group(destination) {
            let source = source.or_else(|| self.addresses.source_for(destination));
            let source = source.ok_or(NoPath::NoRoute)?;
            let mac = match destination {
                IpAddr::V4(a) if !a.is_multicast() => Address::BROADCAST,
                _ => group_mac(destination),
            };
            return Ok(self.via(source, destination, destination, Some(mac)));
        }
        let (next_hop, mac) = self.next_mac(now, destination)?;
        let source = source
            .or_else(|| match next_hop {
                IpAddr::V4(_) => Some(self.addresses.on_link(next_hop)?.cidr.address()),
                IpAddr::V6(_) => None,
            })
            .or_else(|| self.addresses.source_for(destination))
            .filter(|&source| addresses::reaches(source, destination))
            .ok_or(NoPath::NoRoute)?;
        Ok(self.via(source, destination, next_hop, mac))
    }

    /// The next hop and its MAC address. A router that is silent makes way for the next one.
    fn next_mac(
        &mut self,
        now: Instant,
        destination: IpAddr,
    ) -> Result<(IpAddr, Option<Address>), NoPath> {
        for _ in 0..routes::MAX_ROUTERS {
            let next_hop = self.next_hop(destination)?;
            if self.config.link == Link::Ip {
                return Ok((next_hop, None));
            }
            match self.neighbors.lookup(now, next_hop) {
                Lookup::Mac(mac) => return Ok((next_hop, Some(mac))),
                Lookup::Resolving => return Err(NoPath::Resolving),
                Lookup::Failed if self.routes.rotate(next_hop) => {}
                Lookup::Failed => break,
            }
        }
        Err(NoPath::Unreachable)
    }

    /// The neighbour that takes packets to `destination` there.
    ///
    /// # Errors
    /// [`NoPath::NoRoute`].
    pub fn next_hop(&self, destination: IpAddr) -> Result<IpAddr, NoPath> {
        let link_local = matches!(destination, IpAddr::V6(a) if a.is_unicast_link_local());
        let on_link = self.addresses.on_link(destination).map(|e| e.cidr.prefix_len());
        let on_link = on_link.or(link_local.then_some(10));
        let reaches = |router: Ipv6Addr| {
            use crate::neighbors::State;
            let entry = self.neighbors.entry(router.into());
            entry.is_some_and(|e| !matches!(e.state, State::Incomplete | State::Failed))
        };
        match self.routes.lookup(destination, on_link, reaches) {
            Some(NextHop::Link) => Ok(destination),
            Some(NextHop::Gateway(gateway)) => Ok(gateway),
            None => Err(NoPath::NoRoute),
        }
    }

    /// For more than one receiver: multicast, or broadcast.
    pub fn is_group(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => {
                a.is_multicast() || a == Ipv4Addr::BROADCAST || self.addresses.is_broadcast(a)
            }
            IpAddr::V6(a) => a.is_multicast(),
        }
    }

    /// A path whose next hop is known.
    pub(crate) fn via(
        &self,
        source: IpAddr,
        destination: IpAddr,
        next_hop: IpAddr,
        mac: Option<Address>,
    ) -> Via {
        let macs = match (self.config.link, mac) {
            (Link::Ethernet(own), Some(destination)) => Some(MacPair { source: own, destination }),
            _ => None,
        };
        let hop_limit = match destination {
            // RFC 1112, section 6.1, and RFC 3493, section 5.2: groups do not leave the link unasked.
            _ if destination.is_multicast() => 1,
            IpAddr::V4(_) => self.config.hop_limit,
            IpAddr::V6(_) => self.hop_limit_v6,
        };
        let known = self.path_mtu(destination);
        Via {
            source,
            destination,
            next_hop,
            macs,
            mtu: known.mtu,
            may_fragment: known.may_fragment,
            hop_limit,
            loops: self.loops_back(destination),
            is_shared: self.is_group(destination),
            generation: self.generation(),
        }
    }

    /// What is known of the path to `remote`, at most the link's.
    pub(crate) fn path_mtu(&self, remote: IpAddr) -> Known {
        if self.loops_back(remote) {
            return Known { mtu: LOOPBACK_MTU, may_fragment: false };
        }
        let link = if remote.is_ipv6() { self.mtu_v6 } else { self.mtu_v4 };
        match self.path_mtus.lookup(remote) {
            Some(known) => Known { mtu: known.mtu.min(link), ..known },
            None => Known { mtu: link, may_fragment: false },
        }
    }

    /// The largest IP packet that may go to `remote`, as far as is known.
    pub fn mtu_to(&self, remote: IpAddr) -> usize {
        self.path_mtu(remote).mtu
    }

    /// The same for UDP.
    pub fn udp_mtu_to(&self, remote: IpAddr) -> usize {
        let udp = self.udp_path_mtus.lookup(remote).map_or(usize::MAX, |known| known.mtu);
        self.mtu_to(remote).min(udp)
    }

    /// `via` as datagrams of UDP take it: ICMP may have narrowed the path for UDP only.
    #[must_use]
    pub fn udp_via(&self, via: Via) -> Via {
        match self.udp_path_mtus.lookup(via.destination) {
            Some(known) if known.mtu < via.mtu => {
                Via { mtu: known.mtu, may_fragment: known.may_fragment, ..via }
            }
            _ => via,
        }
    }

    /// An identification for a packet that may be cut, or goes in fragments (RFC 6864; RFC 8200, section
    /// 4.5): IPv4 takes its lower 16 bits.
    pub fn identification(&mut self, via: &Via) -> u32 {
        self.identifications.next(via.source, via.destination, &mut self.random)
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.neighbors.handle_timeout(now);
        while let Some(failed) = self.neighbors.poll_failed() {
            if self.routes.rotate(failed) {
                self.changed();
            }
        }
        while let Some(change) = self.addresses.handle_timeout(now) {
            self.apply(now, Some(change));
        }
        self.path_mtus.handle_timeout(now);
        self.udp_path_mtus.handle_timeout(now);
        self.groups.handle_timeout(now);
        if let Some(dhcp) = &mut self.dhcp {
            let outcome = dhcp.handle_timeout(now, &mut self.random);
            self.dhcp_outcome(now, outcome);
        }
        self.reassembly_timeout(now);
        if self.routes.handle_timeout(now) {
            self.changed();
        }
        for _ in 0..self.outbox.handle_timeout(now) {
            self.counters.drops.count(Cause::AnswerUnreachable);
        }
    }

    /// When [`Layer::handle_timeout`] and [`Layer::poll_transmit`] are to be called, at the latest; may lie in
    /// the past.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = [
            self.neighbors.poll_timeout(),
            self.addresses.poll_timeout(),
            self.routes.poll_timeout(),
            self.outbox.poll_timeout(self.neighbors.changes()),
            self.path_mtus.poll_timeout(),
            self.udp_path_mtus.poll_timeout(),
            self.groups.poll_timeout().filter(|_| self.config.responds),
            self.reassembly.poll_timeout(),
            self.dhcp.as_ref().and_then(Dhcp::poll_timeout),
            self.slaac.as_ref().and_then(Slaac::poll_timeout),
        ];
        times.into_iter().flatten().min()
    }
}
