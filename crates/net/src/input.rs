//! The initial step of IP: from a frame to the transport's datagram.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_wire::ethernet::{self, Address, EtherType};
use fusewire_wire::{Error, icmp, icmpv6, ipv4, ipv6, ipv6_extension as extension, tcp, udp};

use crate::config::Link;
use crate::counters::Cause;
use crate::layer::Layer;
use crate::output::pseudo_header_sum;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// It is for the transport.
    Transport(Datagram),
    /// Something that we sent has met with an error.
    Error(PathError),
    /// It was for the layer itself.
    Consumed,
    /// It was dropped, and counted.
    Dropped(Cause),
}

/// Whom a packet was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// Us alone.
    Unicast,
    /// A group that we are in.
    Multicast,
    /// All on the link.
    Broadcast,
}

/// A transport's datagram: whole, but its checksum is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// TCP or UDP, by number.
    pub protocol: u8,
    /// Who sent it; an address that can be somebody's.
    pub source: IpAddr,
    /// Whom to.
    pub destination: IpAddr,
    /// How many it was sent to; for TCP always one.
    pub cast: Cast,
    /// Six bits of DSCP, two of ECN.
    pub traffic_class: u8,
    /// Hops that it could still have gone.
    pub hop_limit: u8,
    /// Sum of the pseudo-header.
    pub pseudo_header: Sum,
    /// Where it lies; [`Layer::payload`] gives the bytes.
    pub payload: Payload,
    /// Where in the frame the IP header lies.
    pub(crate) ip_at: usize,
}

/// Where a datagram lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// In the frame.
    Frame {
        /// First byte.
        start: usize,
        /// Behind the last.
        end: usize,
    },
    /// In the layer, put together from fragments, until the next [`Layer::handle`].
    Reassembled,
}

impl Payload {
    /// Its place in the frame.
    pub const fn in_frame(&self) -> Option<Range<usize>> {
        match *self {
            Payload::Frame { start, end } => Some(start..end),
            Payload::Reassembled => None,
        }
    }
}

/// What happened to a packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathErrorKind {
    /// A router cannot pass packets of that size on. The path is used as before until
    /// [`Layer::accept_too_big`] is called.
    TooBig {
        /// What it can pass on: the size of an IP packet in bytes.
        mtu: usize,
    },
    /// Nobody listens there (port or protocol unreachable): a hard error.
    Refused,
    /// No way there now; ICMP's code.
    Unreachable(u8),
    /// It went around too long, or was not whole in time.
    TimeExceeded,
    /// A header of ours was not understood.
    ParameterProblem,
}

/// An ICMP error about a packet of ours, as far as the layer can verify it: the packet's addresses are right.
/// Whether the ports, and for TCP the sequence number, are those of something that is under way is the
/// transport's to verify (RFC 5927, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathError {
    /// What happened.
    pub kind: PathErrorKind,
    /// The packet's protocol: TCP or UDP, by number.
    pub protocol: u8,
    /// Our address.
    pub local: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// Where the packet went.
    pub remote: IpAddr,
    /// The port there.
    pub remote_port: u16,
    /// TCP's sequence number.
    pub seq: Option<Seq>,
    /// Who says so.
    pub reporter: IpAddr,
}

/// What is known of a packet before its IP header is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Who sent the frame.
    pub station: Option<Address>,
    /// The frame was for more stations than us.
    pub to_group: bool,
}

/// What is known of a packet when its IP header is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpInput {
    pub arrival: Arrival,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub cast: Cast,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub protocol: u8,
    /// Where the IP header begins.
    pub ip_at: usize,
    pub payload: Payload,
    /// Bytes of the payload.
    pub len: usize,
}

impl IpInput {
    pub fn pseudo_header(&self) -> Sum {
        pseudo_header_sum(self.source, self.destination, self.protocol, self.len)
    }
}

impl Layer {
    /// Takes a frame as it came from the device: one packet, or a super-frame of several of one flow.
    pub fn handle(&mut self, now: Instant, frame: &[u8]) -> Input {
        self.counters.received += 1;
        let result = match self.config.link {
            Link::Ethernet(own) => self.ethernet(now, frame, own),
            Link::Ip => {
                let arrival = Arrival { station: None, to_group: false };
                match frame.first().map(|b| b >> 4) {
                    Some(4) => self.ipv4(now, frame, 0, arrival),
                    Some(6) => self.ipv6(now, frame, 0, arrival),
                    _ => Err(Cause::IpVersion),
                }
            }
        };
        let input = result.unwrap_or_else(|cause| {
            self.counters.drop(cause);
            Input::Dropped(cause)
        });
        self.counters.delivered += u64::from(matches!(input, Input::Transport(_)));
        input
    }

    /// The bytes of a datagram that came in `frame`.
    pub fn payload<'a>(&'a self, frame: &'a [u8], payload: &Payload) -> &'a [u8] {
        match *payload {
            Payload::Frame { start, end } => frame.get(start..end).unwrap_or_default(),
            Payload::Reassembled => &[],
        }
    }

    fn ethernet(&mut self, now: Instant, frame: &[u8], own: Address) -> Result<Input, Cause> {
        let header = ethernet::Header::parse(frame).map_err(|_| Cause::EthernetMalformed)?;
        let to_group = header.destination.is_multicast();
        if !to_group && header.destination != own {
            return Err(Cause::EthernetDestination);
        }
        if header.source.is_multicast() {
            return Err(Cause::EthernetSource);
        }
        if usize::from(header.header_len) != ethernet::HEADER_LEN {
            return Err(Cause::EthernetType);
        }
        let arrival = Arrival { station: Some(header.source), to_group };
        let at = ethernet::HEADER_LEN;
        match header.ethertype {
            EtherType::IPV4 => self.ipv4(now, frame, at, arrival),
            EtherType::IPV6 => self.ipv6(now, frame, at, arrival),
            EtherType::ARP => self.arp(now, &frame[at..], own, header.source),
            _ => Err(Cause::EthernetType),
        }
    }

    fn ipv4(
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
        let cast = self.cast_v4(header.destination)?;
        self.check_source_v4(header.source)?;
        if cast == Cast::Unicast && arrival.to_group {
            return Err(Cause::DestinationBroadcastFrame);
        }
        let (start, end) = (usize::from(header.header_len), usize::from(header.total_len));
        let input = IpInput {
            arrival,
            source: header.source.into(),
            destination: header.destination.into(),
            cast,
            traffic_class: header.tos,
            hop_limit: header.ttl,
            protocol: header.protocol,
            ip_at,
            payload: Payload::Frame { start: ip_at + start, end: ip_at + end },
            len: end - start,
        };
        if header.is_fragment() {
            return Err(Cause::FragmentMany);
        }
        self.dispatch(now, &input, &bytes[start..end])
    }

    fn cast_v4(&self, destination: Ipv4Addr) -> Result<Cast, Cause> {
        if self.addresses.is_own(destination.into()) {
            return Ok(Cast::Unicast);
        }
        if destination == Ipv4Addr::BROADCAST || self.addresses.is_broadcast(destination) {
            return Ok(Cast::Broadcast);
        }
        if destination.is_multicast() {
            let all_systems = destination == Ipv4Addr::new(224, 0, 0, 1);
            return if all_systems { Ok(Cast::Multicast) } else { Err(Cause::DestinationGroup) };
        }
        let first = destination.octets()[0];
        let martian = first == 0 || first == 127 || first >= 240;
        Err(if martian { Cause::DestinationMartian } else { Cause::DestinationForeign })
    }

    /// RFC 1122, sections 3.2.1.3 and 3.3.6.
    fn check_source_v4(&self, source: Ipv4Addr) -> Result<(), Cause> {
        let first = source.octets()[0];
        if first == 0 || first == 127 || first >= 224 || self.addresses.is_broadcast(source) {
            return Err(Cause::SourceMartian);
        }
        if self.addresses.is_own(source.into()) {
            return Err(Cause::SourceOwn);
        }
        Ok(())
    }

    fn ipv6(
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
        };
        match header.next_header {
            tcp::NUMBER | udp::NUMBER | icmpv6::NUMBER => {
                self.dispatch(now, &input, header.payload(bytes))
            }
            extension::FRAGMENT => Err(Cause::FragmentMany),
            _ => Err(Cause::Ipv6Extension),
        }
    }

    fn cast_v6(&self, destination: Ipv6Addr) -> Result<Cast, Cause> {
        if destination.is_multicast() {
            let own = self.is_joined_v6(destination);
            return if own { Ok(Cast::Multicast) } else { Err(Cause::DestinationGroup) };
        }
        if self.addresses.is_own(destination.into()) {
            return Ok(Cast::Unicast);
        }
        let martian = destination.is_unspecified()
            || destination.is_loopback()
            || destination.to_ipv4_mapped().is_some();
        Err(if martian { Cause::DestinationMartian } else { Cause::DestinationForeign })
    }

    /// The unspecified address is a source for ICMPv6 alone (duplicate detection, first reports).
    fn check_source_v6(&self, source: Ipv6Addr, next_header: u8) -> Result<(), Cause> {
        let nobody = source.is_unspecified()
            && !matches!(next_header, icmpv6::NUMBER | extension::HOP_BY_HOP);
        let mapped = source.to_ipv4_mapped().is_some();
        if nobody || source.is_multicast() || source.is_loopback() || mapped {
            return Err(Cause::SourceMartian);
        }
        if self.addresses.is_own(source.into()) {
            return Err(Cause::SourceOwn);
        }
        Ok(())
    }

    fn is_joined_v6(&self, group: Ipv6Addr) -> bool {
        if matches!(group.segments(), [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1]) {
            return true;
        }
        let solicited = |a: &crate::addresses::Entry| match a.cidr.address() {
            IpAddr::V6(a) => solicited_node(a) == group,
            IpAddr::V4(_) => false,
        };
        self.addresses.iter().any(solicited)
    }

    /// A whole packet for us.
    fn dispatch(&mut self, now: Instant, input: &IpInput, bytes: &[u8]) -> Result<Input, Cause> {
        match (input.protocol, input.source) {
            (tcp::NUMBER, _) if input.cast != Cast::Unicast => Err(Cause::TcpToGroup),
            (tcp::NUMBER | udp::NUMBER, _) => Ok(Input::Transport(Datagram {
                protocol: input.protocol,
                source: input.source,
                destination: input.destination,
                cast: input.cast,
                traffic_class: input.traffic_class,
                hop_limit: input.hop_limit,
                pseudo_header: input.pseudo_header(),
                payload: input.payload,
                ip_at: input.ip_at,
            })),
            (icmp::NUMBER, IpAddr::V4(_)) => self.icmp(now, input, bytes),
            (icmpv6::NUMBER, IpAddr::V6(_)) => self.icmpv6(now, input, bytes),
            _ => Err(Cause::ProtocolUnknown),
        }
    }
}

/// The group that a node with `address` is in (RFC 4291, section 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}
