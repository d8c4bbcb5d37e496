//! The initial step of IPv6 (RFC 8200): extension headers, and fragments.

use core::net::{IpAddr, Ipv6Addr};

use fusewire_base::Instant;
use fusewire_wire::icmp::{self, Message};
use fusewire_wire::ipv6_extension::{
    self as extension, Chain, Extension, Fragment, Step, Unknown, options,
};
use fusewire_wire::{icmpv6, ipv6, tcp, udp, xtp};

use crate::counters::Cause;
use crate::input::{Arrival, Cast, Head, Input, IpInput, Payload};
use crate::layer::Layer;
use crate::reassembly::{Key, MAX_LEN, Piece};

/// Bytes that the first fragment must hold of the header above IP (RFC 7112; for IPv4 RFC 1858).
pub(crate) const fn upper_header_len(protocol: u8) -> usize {
    match protocol {
        tcp::NUMBER => tcp::MIN_HEADER_LEN,
        udp::NUMBER | icmp::NUMBER | icmpv6::NUMBER => 8,
        xtp::NUMBER => xtp::HEADER_LEN,
        _ => 1,
    }
}

impl Layer {
    pub(crate) fn ipv6(
        &mut self,
        now: Instant,
        frame: &[u8],
        ip_at: usize,
        arrival: Arrival,
    ) -> Result<Input, Cause> {
        let bytes = frame.get(ip_at..).unwrap_or_default();
        let header = ipv6::Header::parse(bytes).map_err(|_| Cause::Ipv6Malformed)?;
        let cast = self.cast_v6(header.destination)?;
        self.check_source_v6(header.source, header.next_header)?;
        if cast == Cast::Unicast && arrival.to_group {
            return Err(Cause::DestinationBroadcastFrame);
        }
        let start = ip_at + ipv6::HEADER_LEN;
        let len = usize::from(header.payload_len);
        let input = IpInput {
            arrival,
            source: header.source.into(),
            destination: header.destination.into(),
            cast,
            traffic_class: header.traffic_class,
            hop_limit: header.hop_limit,
            protocol: header.next_header,
            ip_at,
            payload: Payload::Frame { start, end: start + len },
            len,
            reassembled: false,
            router_alert: false,
            named_at: 6,
        };
        match header.next_header {
            tcp::NUMBER | udp::NUMBER | icmpv6::NUMBER | xtp::NUMBER => {
                self.dispatch(now, frame, &input)
            }
            _ => self.ipv6_chain(now, frame, input),
        }
    }

    /// As [`Layer::head_v4`], without extension headers.
    pub(crate) fn head_v6(&self, bytes: &[u8], len: usize) -> Option<Head> {
        let header = ipv6::Header::parse_quoted(bytes).ok()?;
        let plain = ipv6::HEADER_LEN + usize::from(header.payload_len) == len
            && header.next_header == tcp::NUMBER
            && self.cast_v6(header.destination) == Ok(Cast::Unicast)
            && self.check_source_v6(header.source, header.next_header).is_ok();
        plain.then_some((
            header.source.into(),
            header.destination.into(),
            header.traffic_class,
            header.hop_limit,
            ipv6::HEADER_LEN,
        ))
    }

    /// Walks the extension headers at the beginning of the payload of `input`.
    pub(crate) fn ipv6_chain(
        &mut self,
        now: Instant,
        frame: &[u8],
        mut input: IpInput,
    ) -> Result<Input, Cause> {
        let place = input.payload.in_frame().unwrap_or_default();
        let payload = frame.get(place.clone()).unwrap_or_default();
        let mut chain = Chain::new(input.protocol);
        loop {
            let named_at = chain.named_at;
            let Some(step) = chain.step(payload).map_err(|_| Cause::Ipv6Extension)? else { break };
            match step.extension {
                Extension::HopByHop if step.offset > 0 => {
                    let code = icmpv6::parameter_problem::NEXT_HEADER;
                    return Err(self.problem(now, frame, &input, code, named_at));
                }
                Extension::HopByHop | Extension::DestinationOptions => {
                    self.options(now, frame, &mut input, payload, &step)?;
                }
                Extension::Routing { segments_left: 0, .. } => {}
                Extension::Routing { .. } => {
                    let pointer = ipv6::HEADER_LEN + step.offset + 3;
                    let code = icmpv6::parameter_problem::FIELD;
                    return Err(self.problem(now, frame, &input, code, pointer));
                }
                Extension::Fragment(_) if input.reassembled => return Err(Cause::Ipv6Extension),
                // RFC 6946: whole, whatever else bears its identification. RFC 6980 forbids it to
                // neighbour discovery.
                Extension::Fragment(Fragment { offset: 0, more: false, .. }) => {
                    input.reassembled = true;
                }
                Extension::Fragment(fragment) => {
                    let data = &payload[step.offset + step.len..];
                    return self.fragment_v6(now, frame, &input, &fragment, data, step.offset);
                }
            }
        }
        let start = place.start + chain.offset;
        input.protocol = chain.next_header;
        input.named_at = chain.named_at;
        input.payload = Payload::Frame { start, end: place.end };
        input.len = place.end - start;
        let unspecified = input.source.is_unspecified() && input.protocol != icmpv6::NUMBER;
        if unspecified {
            return Err(Cause::SourceMartian);
        }
        self.dispatch(now, frame, &input)
    }

    /// RFC 8200, section 4.2.
    fn options(
        &mut self,
        now: Instant,
        frame: &[u8],
        input: &mut IpInput,
        payload: &[u8],
        step: &Step,
    ) -> Result<(), Cause> {
        let header = &payload[step.offset..step.offset + step.len];
        for option in options(header) {
            let option = option.map_err(|_| Cause::Ipv6Extension)?;
            if option.kind == extension::ROUTER_ALERT {
                input.router_alert |= step.extension == Extension::HopByHop;
                continue;
            }
            let pointer = ipv6::HEADER_LEN + step.offset + option.offset;
            let code = icmpv6::parameter_problem::OPTION;
            match option.unknown() {
                Unknown::Skip => {}
                Unknown::Drop => return Err(Cause::Ipv6Extension),
                Unknown::ReportUnlessMulticast if input.cast != Cast::Unicast => {
                    return Err(Cause::Ipv6Extension);
                }
                Unknown::Report | Unknown::ReportUnlessMulticast => {
                    return Err(self.problem(now, frame, input, code, pointer));
                }
            }
        }
        Ok(())
    }

    /// Says that the byte at `pointer` of the packet is a problem.
    fn problem(
        &mut self,
        now: Instant,
        frame: &[u8],
        input: &IpInput,
        code: u8,
        pointer: usize,
    ) -> Cause {
        let message = Message::ParameterProblem { code, pointer: pointer as u32 };
        self.report(now, frame, input, message);
        Cause::Ipv6Extension
    }

    fn fragment_v6(
        &mut self,
        now: Instant,
        frame: &[u8],
        input: &IpInput,
        fragment: &Fragment,
        data: &[u8],
        at: usize,
    ) -> Result<Input, Cause> {
        let field = icmpv6::parameter_problem::FIELD;
        let offset = usize::from(fragment.offset);
        if fragment.more && !data.len().is_multiple_of(8) {
            // The payload length is the problem.
            self.problem(now, frame, input, field, 4);
            return Err(Cause::FragmentMalformed);
        }
        if offset + data.len() > MAX_LEN {
            self.problem(now, frame, input, field, ipv6::HEADER_LEN + at + 2);
            return Err(Cause::FragmentMalformed);
        }
        if offset == 0 && !holds_chain(fragment.next_header, data) {
            let code = icmpv6::parameter_problem::INCOMPLETE_CHAIN;
            self.problem(now, frame, input, code, 0);
            return Err(Cause::FragmentTiny);
        }
        let piece = Piece {
            key: Key {
                source: input.source,
                destination: input.destination,
                identification: fragment.identification,
                protocol: 0,
            },
            offset,
            more: fragment.more,
            data,
            next_header: fragment.next_header,
            traffic_class: input.traffic_class,
            hop_limit: input.hop_limit,
        };
        self.insert_piece(now, &piece, input)
    }

    fn cast_v6(&self, destination: Ipv6Addr) -> Result<Cast, Cause> {
        if destination.is_multicast() {
            let own = self.groups.is_member(destination.into());
            return if own { Ok(Cast::Multicast) } else { Err(Cause::DestinationGroup) };
        }
        if self.addresses.is_own(destination.into()) || self.is_looped_address(destination.into()) {
            return Ok(Cast::Unicast);
        }
        let martian = destination.is_unspecified()
            || destination.is_loopback()
            || destination.to_ipv4_mapped().is_some();
        Err(if martian { Cause::DestinationMartian } else { Cause::DestinationForeign })
    }

    /// The unspecified address is a source for ICMPv6 alone (duplicate detection, first reports).
    fn check_source_v6(&self, source: Ipv6Addr, next_header: u8) -> Result<(), Cause> {
        if self.is_looped_address(source.into()) {
            return Ok(());
        }
        let nobody = source.is_unspecified()
            && !matches!(next_header, icmpv6::NUMBER | extension::HOP_BY_HOP);
        let mapped = source.to_ipv4_mapped().is_some();
        if nobody || source.is_multicast() || source.is_loopback() || mapped {
            return Err(Cause::SourceMartian);
        }
        if self.addresses.is_own(IpAddr::V6(source)) {
            return Err(Cause::SourceOwn);
        }
        Ok(())
    }
}

/// Whether a first fragment holds all headers up to the upper layer's.
fn holds_chain(next_header: u8, data: &[u8]) -> bool {
    let mut chain = Chain::new(next_header);
    loop {
        match chain.step(data) {
            Ok(Some(_)) => {}
            Ok(None) => {
                let upper = data.len() - chain.offset;
                return chain.next_header == extension::NO_NEXT_HEADER
                    || upper >= upper_header_len(chain.next_header);
            }
            Err(_) => return false,
        }
    }
}
