//! IGMP and MLD messages in and out, for [`crate::groups`].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fusewire_base::Instant;
use fusewire_wire::igmp::{self, Query, RecordKind};
use fusewire_wire::ipv6_extension::{self as extension, ROUTER_ALERT};
use fusewire_wire::{icmpv6, ipv4, mld};

use crate::counters::Cause;
use crate::groups::{GroupReport, MAX_MESSAGE, most_records};
use crate::input::{Input, IpInput};
use crate::layer::Layer;
use crate::output::{Packet, group_mac, pseudo_header_sum};

const ALL_ROUTERS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
const REPORTS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
const ALL_ROUTERS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const REPORTS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Length of a hop-by-hop header that holds the router alert alone, in bytes.
const ALERT_LEN: usize = 8;

impl Layer {
    /// Joins a group; as often as it is joined it must be left. False when there is no room, or the address
    /// is that of no group.
    pub fn join(&mut self, now: Instant, group: IpAddr) -> bool {
        group.is_multicast() && self.groups.join(now, group)
    }

    /// Leaves a group.
    pub fn leave(&mut self, now: Instant, group: IpAddr) {
        self.groups.leave(now, group);
    }

    /// Groups that the interface is in, for the device's filter; those of all hosts are left out.
    pub fn groups(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.groups.iter()
    }

    pub(crate) fn igmp(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        let message = igmp::Message::parse(bytes).map_err(|_| Cause::GroupMalformed)?;
        if !self.config.responds {
            return Ok(Input::Consumed);
        }
        match message {
            igmp::Message::Query(query) => {
                // RFC 3376, section 9.1: a general query is for all, one for a group goes to it.
                let group = query.group;
                let addressed = input.destination == IpAddr::V4(group)
                    || input.destination == IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1));
                if !addressed || !(group.is_unspecified() || group.is_multicast()) {
                    return Err(Cause::GroupIgnored);
                }
                let query = any_version(query);
                self.groups.handle_query(now, &query, &mut self.random);
            }
            igmp::Message::Report(group) => self.groups.handle_report(group.into()),
            igmp::Message::Leave(_) | igmp::Message::Other(_) => return Err(Cause::GroupIgnored),
        }
        Ok(Input::Consumed)
    }

    pub(crate) fn mld(
        &mut self,
        now: Instant,
        input: &IpInput,
        bytes: &[u8],
    ) -> Result<Input, Cause> {
        // RFC 3810, section 6.2: from the link, and marked.
        let local = matches!(input.source, IpAddr::V6(a) if a.is_unicast_link_local());
        if input.hop_limit != 1 || !local || !input.router_alert {
            return Err(Cause::GroupIgnored);
        }
        let message = mld::Message::parse(bytes).map_err(|_| Cause::GroupMalformed)?;
        if !self.config.responds {
            return Ok(Input::Consumed);
        }
        match message {
            mld::Message::Query(query) => {
                let query = any_version(query);
                self.groups.handle_query(now, &query, &mut self.random);
            }
            mld::Message::Report(group) => self.groups.handle_report(group.into()),
            mld::Message::Other(_) => return Err(Cause::GroupIgnored),
        }
        Ok(Input::Consumed)
    }

    pub(crate) fn poll_groups(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        if !self.config.responds {
            return None;
        }
        let report = self.groups.poll_transmit(now, &mut self.random)?;
        let mut body = [0; MAX_MESSAGE];
        Some(match report {
            GroupReport::All { v6: false, skip } => {
                let groups = self.groups.reported(false).skip(skip).take(most_records(false));
                let records = groups.filter_map(record_v4);
                let len = igmp::emit_records(records, &mut body);
                self.emit_igmp(REPORTS_V4, &body[..len], out)
            }
            GroupReport::All { v6: true, skip } => {
                let groups = self.groups.reported(true).skip(skip).take(most_records(true));
                let records = groups.filter_map(record_v6);
                let len = mld::emit_records(records, &mut body);
                self.emit_mld(REPORTS_V6, &mut body[..len], out)
            }
            GroupReport::Record(kind, IpAddr::V4(group)) => {
                let len = igmp::emit_records([(kind, group)].into_iter(), &mut body);
                self.emit_igmp(REPORTS_V4, &body[..len], out)
            }
            GroupReport::Record(kind, IpAddr::V6(group)) => {
                let len = mld::emit_records([(kind, group)].into_iter(), &mut body);
                self.emit_mld(REPORTS_V6, &mut body[..len], out)
            }
            GroupReport::Member(version, IpAddr::V4(group)) => {
                let len = igmp::emit_report(version, group, &mut body);
                self.emit_igmp(group, &body[..len], out)
            }
            GroupReport::Member(_, IpAddr::V6(group)) => {
                let len = mld::emit_short(mld::REPORT, group, &mut body);
                self.emit_mld(group, &mut body[..len], out)
            }
            GroupReport::Left(IpAddr::V4(group)) => {
                let len = igmp::emit_leave(group, &mut body);
                self.emit_igmp(ALL_ROUTERS_V4, &body[..len], out)
            }
            GroupReport::Left(IpAddr::V6(group)) => {
                let len = mld::emit_short(mld::DONE, group, &mut body);
                self.emit_mld(ALL_ROUTERS_V6, &mut body[..len], out)
            }
        })
    }

    fn emit_igmp(&self, to: Ipv4Addr, body: &[u8], out: &mut [u8]) -> usize {
        let source = match self.addresses.source_for(to.into()) {
            Some(IpAddr::V4(source)) => source,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let via = self.via(source.into(), to.into(), to.into(), Some(group_mac(to.into())));
        let link_len = via.header_len() - via.ip_header_len();
        via.emit(&Packet::new(igmp::NUMBER, body.len()), out);
        let header = ipv4::Header {
            tos: 0xc0,
            total_len: (ipv4::ROUTER_ALERT_LEN + body.len()) as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 1,
            protocol: igmp::NUMBER,
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
        icmpv6::emit_checksum(sum, body);
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

fn any_version<A: Into<IpAddr>>(query: Query<A>) -> Query<IpAddr> {
    let Query { version, group, max_response, robustness, interval } = query;
    Query { version, group: group.into(), max_response, robustness, interval }
}

fn record_v4(group: IpAddr) -> Option<(RecordKind, Ipv4Addr)> {
    match group {
        IpAddr::V4(group) => Some((RecordKind::IsMember, group)),
        IpAddr::V6(_) => None,
    }
}

fn record_v6(group: IpAddr) -> Option<(RecordKind, Ipv6Addr)> {
    match group {
        IpAddr::V6(group) => Some((RecordKind::IsMember, group)),
        IpAddr::V4(_) => None,
    }
}
