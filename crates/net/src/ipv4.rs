//! The initial step of IPv4 (RFC 791; RFC 1122, section 3.2.1).

use core::net::Ipv4Addr;

use fusewire_base::{Instant, Sum};
use fusewire_wire::{Error, ipv4, tcp};

use crate::counters::Cause;
use crate::input::{Arrival, Cast, Head, Input, IpInput, Payload};
use crate::ipv6::upper_header_len;
use crate::layer::Layer;
use crate::reassembly::{Key, MAX_LEN, Piece};

impl Layer {
    pub(crate) fn ipv4(
        &mut self,
        now: Instant,
        frame: &[u8],
        ip_at: usize,
        arrival: Arrival,
    ) -> Result<Input, Cause> {
        let bytes = frame.get(ip_at..).unwrap_or_default();
        let header = ipv4::Header::parse(bytes).map_err(|error| match error {
            Error::Checksum { .. } => Cause::Ipv4Checksum,
            _ => Cause::Ipv4Malformed,
        })?;
        let (start, end) = (usize::from(header.header_len), usize::from(header.total_len));
        let input = IpInput {
            arrival,
            source: header.source.into(),
            destination: header.destination.into(),
            cast: Cast::Unicast,
            traffic_class: header.tos,
            hop_limit: header.ttl,
            protocol: header.protocol,
            ip_at,
            payload: Payload::Frame { start: ip_at + start, end: ip_at + end },
            len: end - start,
            reassembled: false,
            router_alert: false,
            named_at: 9,
        };
        let cast = match self.cast_v4(header.destination) {
            Ok(cast) => cast,
            Err(cause) => return self.dhcp_early(now, frame, &input).ok_or(cause),
        };
        let input = IpInput { cast, ..input };
        self.check_source_v4(header.source)?;
        if cast == Cast::Unicast && arrival.to_group {
            return Err(Cause::DestinationBroadcastFrame);
        }
        if start > ipv4::MIN_HEADER_LEN {
            match ipv4::is_source_routed(bytes, start) {
                Ok(false) => {}
                Ok(true) => return Err(Cause::Ipv4SourceRoute),
                Err(_) => return Err(Cause::Ipv4Malformed),
            }
        }
        if header.is_fragment() {
            return self.fragment_v4(now, &header, header.payload(bytes), &input);
        }
        self.dispatch(now, frame, &input)
    }

    /// Source, destination, type of service, hops and header length of a whole TCP packet of `len` bytes for us
    /// alone, without options, that begins with `bytes`.
    pub(crate) fn head_v4(&self, bytes: &[u8], len: usize) -> Option<Head> {
        let header = ipv4::Header::parse_quoted(bytes).ok()?;
        let start = usize::from(header.header_len);
        let plain = start == ipv4::MIN_HEADER_LEN
            && usize::from(header.total_len) == len
            && header.protocol == tcp::NUMBER
            && !header.is_fragment()
            && Sum::of_few(&bytes[..start]).verifies()
            && self.cast_v4(header.destination) == Ok(Cast::Unicast)
            && self.check_source_v4(header.source).is_ok();
        plain.then_some((
            header.source.into(),
            header.destination.into(),
            header.tos,
            header.ttl,
            start,
        ))
    }

    fn fragment_v4(
        &mut self,
        now: Instant,
        header: &ipv4::Header,
        data: &[u8],
        input: &IpInput,
    ) -> Result<Input, Cause> {
        let offset = usize::from(header.fragment_offset);
        if usize::from(header.header_len) + offset + data.len() > MAX_LEN {
            return Err(Cause::FragmentMalformed);
        }
        if offset == 0 && data.len() < upper_header_len(header.protocol) {
            return Err(Cause::FragmentTiny);
        }
        let piece = Piece {
            key: Key {
                source: input.source,
                destination: input.destination,
                identification: header.identification.into(),
                protocol: header.protocol,
            },
            offset,
            more: header.more_fragments,
            data,
            next_header: header.protocol,
            traffic_class: header.tos,
            hop_limit: header.ttl,
        };
        self.insert_piece(now, &piece, input)
    }

    pub(crate) fn insert_piece(
        &mut self,
        now: Instant,
        piece: &Piece<'_>,
        input: &IpInput,
    ) -> Result<Input, Cause> {
        let (result, evicted) = self.reassembly.insert(now, piece);
        if let Some(cause) = evicted {
            self.counters.drops.count(cause);
        }
        match result? {
            Some(whole) => self.reassembled(now, input, &whole),
            None => Ok(Input::Consumed),
        }
    }

    fn cast_v4(&self, destination: Ipv4Addr) -> Result<Cast, Cause> {
        if self.addresses.is_own(destination.into()) || self.is_looped_address(destination.into()) {
            return Ok(Cast::Unicast);
        }
        if destination == Ipv4Addr::BROADCAST || self.addresses.is_broadcast(destination) {
            return Ok(Cast::Broadcast);
        }
        if destination.is_multicast() {
            let own = self.groups.is_member(destination.into());
            return if own { Ok(Cast::Multicast) } else { Err(Cause::DestinationGroup) };
        }
        let first = destination.octets()[0];
        let martian = first == 0 || first == 127 || first >= 240;
        Err(if martian { Cause::DestinationMartian } else { Cause::DestinationForeign })
    }

    /// RFC 1122, sections 3.2.1.3 and 3.3.6.
    fn check_source_v4(&self, source: Ipv4Addr) -> Result<(), Cause> {
        if self.is_looped_address(source.into()) {
            return Ok(());
        }
        let first = source.octets()[0];
        if first == 0 || first == 127 || first >= 224 || self.addresses.is_broadcast(source) {
            return Err(Cause::SourceMartian);
        }
        if self.addresses.is_own(source.into()) {
            return Err(Cause::SourceOwn);
        }
        Ok(())
    }
}
