//! The DHCP client's frames in and out, and what a lease means for addresses and routes.

use core::net::{IpAddr, Ipv4Addr};

use fusewire_base::Instant;
use fusewire_wire::dhcp::{CLIENT_PORT, EMIT_LEN, Message, SERVER_PORT};
use fusewire_wire::ethernet::Address;
use fusewire_wire::udp;

use crate::Cidr;
use crate::addresses::{Begin, Lifetimes, Origin};
use crate::config::{Link, Route};
use crate::counters::Cause;
use crate::dhcp::{Lease, Outcome};
use crate::input::{Input, IpInput};
use crate::layer::{LEAST_MTU_V4, Layer};
use crate::output::{NoPath, Packet};
use crate::routes;

const UDP_LEN: usize = udp::HEADER_LEN + EMIT_LEN;

impl Layer {
    /// What a DHCP server lends us.
    pub fn lease(&self) -> Option<&Lease> {
        self.dhcp.as_ref()?.lease()
    }

    /// A datagram to an address that is not ours, or not yet: perhaps it brings it.
    pub(crate) fn dhcp_early(
        &mut self,
        now: Instant,
        frame: &[u8],
        input: &IpInput,
    ) -> Option<Input> {
        let waits = self.dhcp.as_ref().is_some_and(|d| d.waits());
        if !waits || input.arrival.to_group || input.protocol != udp::NUMBER {
            return None;
        }
        self.dhcp_input(now, frame, input)?.ok()
    }

    /// `None` when the datagram is not for the client.
    pub(crate) fn dhcp_input(
        &mut self,
        now: Instant,
        frame: &[u8],
        input: &IpInput,
    ) -> Option<Result<Input, Cause>> {
        let dhcp = self.dhcp.as_mut()?;
        let bytes = frame.get(input.payload.in_frame()?)?;
        let header = udp::Header::parse(bytes).ok()?;
        if (header.src_port, header.dst_port) != (SERVER_PORT, CLIENT_PORT) {
            return None;
        }
        let is_right = self.is_verified && !input.reassembled;
        if !is_right && !header.verifies(input.pseudo_header(), bytes) {
            return Some(Err(Cause::DhcpMalformed));
        }
        let Ok(message) = Message::parse(header.payload(bytes)) else {
            return Some(Err(Cause::DhcpMalformed));
        };
        match dhcp.handle(now, &message, &mut self.random) {
            Outcome::Ignored => return Some(Err(Cause::DhcpIgnored)),
            outcome => self.dhcp_outcome(now, outcome),
        }
        Some(Ok(Input::Consumed))
    }

    pub(crate) fn dhcp_outcome(&mut self, now: Instant, outcome: Outcome) {
        match outcome {
            Outcome::Nothing | Outcome::Ignored => {}
            Outcome::Lost(_) => self.drop_lease(now),
            Outcome::Bound(lease) => self.apply_lease(now, &lease),
        }
    }

    /// Forgets what a lease brought.
    pub(crate) fn drop_lease(&mut self, now: Instant) {
        let leased = self.addresses.iter().find(|e| e.origin == Origin::Dhcp);
        if let Some(address) = leased.map(|e| e.cidr.address()) {
            self.remove_address(now, address);
        }
        self.routes.clear(routes::Source::Dhcp);
        self.mtu_v4 = self.config.mtu;
        self.changed();
    }

    fn apply_lease(&mut self, now: Instant, lease: &Lease) {
        let Some(cidr) = Cidr::new(IpAddr::V4(lease.address), lease.prefix_len) else { return };
        let same = |e: &crate::addresses::Entry| e.origin == Origin::Dhcp && e.cidr == cidr;
        if !self.addresses.iter().any(same) {
            self.drop_lease(now);
            let begin =
                if self.config.duplicate_detection { Begin::Probed } else { Begin::Announced };
            self.new_address(now, cidr, Origin::Dhcp, Lifetimes::default(), begin);
        }
        self.routes.clear(routes::Source::Dhcp);
        let classless = lease.routes.iter().map(|r| (r.network, r.prefix_len, r.router));
        let routers = lease.routers.iter().filter(|_| lease.routes.is_empty());
        let routers = routers.map(|router| (Ipv4Addr::UNSPECIFIED, 0, router));
        for (network, prefix_len, router) in classless.chain(routers) {
            let gateway = Some(IpAddr::V4(router)).filter(|router| !router.is_unspecified());
            // A router that is no neighbour is of no use.
            let reached = gateway.is_none_or(|router| cidr.contains(router));
            if let Some(destination) = Cidr::new(network.into(), prefix_len).filter(|_| reached) {
                self.routes.add(Route { destination, gateway }, routes::Source::Dhcp);
            }
        }
        let mtu = lease.mtu.map_or(self.config.mtu, usize::from);
        self.mtu_v4 = mtu.clamp(LEAST_MTU_V4.min(self.config.mtu), self.config.mtu);
        self.changed();
    }

    pub(crate) fn poll_dhcp(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let Link::Ethernet(_) = self.config.link else { return None };
        let outgoing = self.dhcp.as_mut()?.poll_transmit(now, &mut self.random)?;
        let via = match outgoing.unicast {
            None => {
                let (from, to) = (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into());
                self.via(from, to, to, Some(Address::BROADCAST))
            }
            Some((from, to)) => match self.route(now, to.into(), Some(from.into())) {
                Ok(via) => via,
                Err(NoPath::Resolving) => {
                    self.dhcp.as_mut()?.postpone(now);
                    return self.poll_questions(now, out);
                }
                Err(_) => return None,
            },
        };
        let mut body = [0; UDP_LEN];
        outgoing.message.emit(&mut body[udp::HEADER_LEN..]);
        let header = udp::Header {
            src_port: CLIENT_PORT,
            dst_port: SERVER_PORT,
            len: UDP_LEN as u16,
            checksum: 0,
        };
        header.emit(&mut body);
        let checksum = udp::checksum(via.pseudo_header_sum(udp::NUMBER, UDP_LEN), &body);
        udp::Header { checksum, ..header }.emit(&mut body);
        let packet = Packet { dont_fragment: false, ..Packet::new(udp::NUMBER, UDP_LEN) };
        let at = via.emit(&packet, out);
        out[at..at + UDP_LEN].copy_from_slice(&body);
        Some(at + UDP_LEN)
    }
}
