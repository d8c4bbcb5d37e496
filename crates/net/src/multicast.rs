//! IGMP and MLD messages in and out, for [`crate::groups`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fusewire_base::Instant;
use fusewire_wire::groups::{IGMP, Message, Protocol};
use fusewire_wire::ipv6_extension::{self as extension, ROUTER_ALERT};
use fusewire_wire::{icmp, icmpv6, ipv4};

use crate::counters::Cause;
use crate::groups::{Listener, MAX_MESSAGE};
use crate::input::{Input, IpInput};
use crate::layer::Layer;
use crate::membership::MembershipChange;
use crate::output::{Packet, group_mac, pseudo_header_sum};

/// Length of a hop-by-hop header that holds the router alert alone, in bytes.
const ALERT_LEN: usize = 8;

impl Layer {
    /// Changes what the socket of this number wants of a group.
    ///
    /// # Errors
    /// It is no group; sources are to be named in one mode and blocked in the other; there is no room.
    pub fn change_membership(
        &mut self,
        now: Instant,
        socket: u32,
        group: IpAddr,
        change: MembershipChange,
    ) -> Result<(), &'static str> {
        if !group.is_multicast() {
            return Err("no group");
        }
        self.groups.change(now, Listener::Socket(socket), group, change)
    }

    /// Takes the socket of this number out of all groups.
    pub fn leave_groups(&mut self, now: Instant, socket: u32) {
        self.groups.forget(now, Listener::Socket(socket));
    }

    /// Whether the socket of this number wants packets from `source` to `group`.
    pub fn is_listening(&self, socket: u32, group: IpAddr, source: IpAddr) -> bool {
        self.groups.listens(Listener::Socket(socket), group, source)
    }

    /// Groups that the interface is in, for the device's filter; those of all hosts are left out.
    pub fn groups(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.groups.iter()
    }

    /// A query or report came.
    pub(crate) fn group_message(
        &mut self,
        now: Instant,
        protocol: Protocol,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        // RFC 3810, section 6.2: from the link, and marked.
        let is_local = match input.source {
            IpAddr::V6(source) => source.is_unicast_link_local(),
            IpAddr::V4(_) => true,
        };
        let is_marked = input.hop_limit == 1 && input.router_alert;
        if !is_local || (protocol == Protocol::Mld && !is_marked) {
            return Err(Cause::GroupIgnored);
        }
        let message = protocol.parse(bytes).map_err(|_| Cause::GroupMalformed)?;
        if !self.config.responds {
            return Ok(Input::Consumed);
        }
        match message {
            Message::Query(query) => {
                // RFC 3376, section 9.1: a general query is for all, one for a group goes to it.
                let group = query.group;
                let addressed = input.destination == group
                    || input.destination == IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1));
                let is_legal = addressed && (group.is_unspecified() || group.is_multicast());
                if protocol == Protocol::Igmp && !is_legal {
                    return Err(Cause::GroupIgnored);
                }
                self.groups.handle_query(now, &query, &mut self.random);
            }
            Message::Report(group) => self.groups.handle_report(group),
            Message::Leave(_) | Message::Other(_) => return Err(Cause::GroupIgnored),
        }
        Ok(Input::Consumed)
    }

    pub(crate) fn poll_groups(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        if !self.config.responds {
            return None;
        }
        let mut body = [0; MAX_MESSAGE];
        let (to, len) = self.groups.poll_transmit(now, &mut self.random, &mut body)?;
        Some(match to {
            IpAddr::V4(to) => self.emit_igmp(to, &body[..len], out),
            IpAddr::V6(to) => self.emit_mld(to, &mut body[..len], out),
        })
    }

    fn emit_igmp(&self, to: Ipv4Addr, body: &[u8], out: &mut [u8]) -> usize {
        let source = match self.addresses.source_for(to.into()) {
            Some(IpAddr::V4(source)) => source,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let via = self.via(source.into(), to.into(), to.into(), Some(group_mac(to.into())));
        let link_len = via.header_len() - via.ip_header_len();
        via.emit(&Packet::new(IGMP, body.len()), out);
        let header = ipv4::Header {
            tos: 0xc0,
            total_len: (ipv4::ROUTER_ALERT_LEN + body.len()) as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 1,
            protocol: IGMP,
            source,
            destination: to,
            header_len: ipv4::ROUTER_ALERT_LEN as u8,
        };
        let at = link_len + header.emit_router_alert(&mut out[link_len..]);
        out[at..at + body.len()].copy_from_slice(body);
        at + body.len()
    }

    fn emit_mld(&self, to: Ipv6Addr, body: &mut [u8], out: &mut [u8]) -> usize {
        let source = self.addresses.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
        let sum = pseudo_header_sum(source.into(), to.into(), icmpv6::NUMBER, body.len());
        icmp::emit_checksum(sum, body);
        let via = self.via(source.into(), to.into(), to.into(), Some(group_mac(to.into())));
        let packet = Packet::new(extension::HOP_BY_HOP, ALERT_LEN + body.len());
        let at = via.emit(&Packet { hop_limit: Some(1), ..packet }, out);
        // The option's value 0 means MLD (RFC 2711, section 2.1); two bytes of padding follow.
        let alert = [icmpv6::NUMBER, 0, ROUTER_ALERT, 2, 0, 0, 1, 0];
        out[at..at + ALERT_LEN].copy_from_slice(&alert);
        let at = at + ALERT_LEN;
        out[at..at + body.len()].copy_from_slice(body);
        at + body.len()
    }
}
