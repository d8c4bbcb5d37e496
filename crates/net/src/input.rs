//! The initial step of IP: from a frame to the transport's datagram.

use core::net::{IpAddr, Ipv6Addr};
use core::ops::Range;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_wire::ethernet::{self, Address, EtherType};
use fusewire_wire::groups::{IGMP, Protocol};
use fusewire_wire::icmp::{self, Message};
use fusewire_wire::{icmpv6, ipv6_extension as extension, tcp, udp};

use crate::config::Link;
use crate::counters::Cause;
use crate::layer::Layer;
use crate::output::{Packet, pseudo_header_sum};
use crate::reassembly::Whole;

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
    /// TCP, UDP, or what else is spoken ([`Layer::speak`]), by number.
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
    /// The packet's protocol: TCP, UDP, or what else is spoken ([`Layer::speak`]), by number.
    pub protocol: u8,
    /// Our address.
    pub local: IpAddr,
    /// Our port, of TCP and UDP; otherwise 0.
    pub local_port: u16,
    /// Where the packet went.
    pub remote: IpAddr,
    /// The port there, likewise.
    pub remote_port: u16,
    /// The packet's first bytes behind IP.
    pub upper: [u8; 8],
    /// TCP's sequence number.
    pub seq: Option<Seq>,
    /// Who says so.
    pub reporter: IpAddr,
}

/// What is known of a packet before its IP header is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Who sent the frame.
    pub mac: Option<Address>,
    /// The frame was for more hosts than us.
    pub to_group: bool,
}

/// Source, destination, traffic class, hops and header length of a plain packet.
pub(crate) type Head = (IpAddr, IpAddr, u8, u8, usize);

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
    /// It came in fragments.
    pub reassembled: bool,
    /// Routers were to look at it.
    pub router_alert: bool,
    /// Where the field lies that names the protocol, from the beginning of the IP header.
    pub named_at: usize,
}

impl IpInput {
    pub fn pseudo_header(&self) -> Sum {
        pseudo_header_sum(self.source, self.destination, self.protocol, self.len)
    }
}

impl Layer {
    /// As [`Layer::handle`], of a frame whose transport checksum the device has verified, or that never left
    /// this host and has none yet.
    pub fn handle_verified(&mut self, now: Instant, frame: &[u8]) -> Input {
        self.is_verified = true;
        let input = self.handle(now, frame);
        self.is_verified = false;
        input
    }

    /// Takes a frame as it came from the device: one packet, or a super-frame of several of one flow.
    pub fn handle(&mut self, now: Instant, frame: &[u8]) -> Input {
        self.counters.received += 1;
        let result = match self.config.link {
            Link::Ethernet(own) => self.ethernet(now, frame, own),
            Link::Ip => {
                let arrival = Arrival { mac: None, to_group: false };
                match frame.first().map(|b| b >> 4) {
                    Some(4) => self.ipv4(now, frame, 0, arrival),
                    Some(6) => self.ipv6(now, frame, 0, arrival),
                    _ => Err(Cause::IpVersion),
                }
            }
        };
        let input = result.unwrap_or_else(|cause| {
            self.counters.drops.count(cause);
            Input::Dropped(cause)
        });
        self.counters.delivered += u64::from(matches!(input, Input::Transport(_)));
        input
    }

    /// The plain case of [`Layer::handle`] for a frame that does not lie in one piece: `head` is its beginning,
    /// and `rest` bytes follow it somewhere else. A TCP segment that is for us alone, whole and without IP
    /// options, whose headers up to TCP's lie in `head`; `None` for all else, which `handle` then takes as a
    /// whole. Nothing is counted: that is [`Layer::note_delivered`]'s.
    pub fn handle_head(&self, head: &[u8], rest: usize) -> Option<Datagram> {
        let (ip_at, version) = match self.config.link {
            Link::Ethernet(own) => {
                let header = ethernet::Header::parse(head).ok()?;
                let plain = header.destination == own && !header.source.is_multicast();
                let version = match header.ethertype {
                    EtherType::IPV4 => 4,
                    EtherType::IPV6 => 6,
                    _ => 0,
                };
                let at = usize::from(header.header_len);
                (at, version * u8::from(plain && at == ethernet::HEADER_LEN))
            }
            Link::Ip => (0, head.first()? >> 4),
        };
        let bytes = head.get(ip_at..)?;
        let packet_len = bytes.len() + rest;
        let (source, destination, traffic_class, hop_limit, start) = match version {
            4 => self.head_v4(bytes, packet_len)?,
            6 => self.head_v6(bytes, packet_len)?,
            _ => return None,
        };
        let len = packet_len - start;
        Some(Datagram {
            protocol: tcp::NUMBER,
            source,
            destination,
            cast: Cast::Unicast,
            traffic_class,
            hop_limit,
            pseudo_header: pseudo_header_sum(source, destination, tcp::NUMBER, len),
            payload: Payload::Frame { start: ip_at + start, end: ip_at + packet_len },
            ip_at,
        })
    }

    /// A datagram of [`Layer::handle_head`] was delivered.
    pub fn note_delivered(&mut self) {
        self.counters.received += 1;
        self.counters.delivered += 1;
    }

    /// The bytes of a datagram that came in `frame`.
    pub fn payload<'a>(&'a self, frame: &'a [u8], payload: &Payload) -> &'a [u8] {
        match *payload {
            Payload::Frame { start, end } => frame.get(start..end).unwrap_or_default(),
            Payload::Reassembled => {
                self.reassembly.bytes().get(self.whole.clone()).unwrap_or_default()
            }
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
        let arrival = Arrival { mac: Some(header.source), to_group };
        let at = ethernet::HEADER_LEN;
        match header.ethertype {
            EtherType::IPV4 => self.ipv4(now, frame, at, arrival),
            EtherType::IPV6 => self.ipv6(now, frame, at, arrival),
            EtherType::ARP => self.arp(now, &frame[at..], own, header.source),
            _ => Err(Cause::EthernetType),
        }
    }

    /// A datagram was made whole: it takes the way of one that came whole.
    pub(crate) fn reassembled(
        &mut self,
        now: Instant,
        base: &IpInput,
        whole: &Whole,
    ) -> Result<Input, Cause> {
        self.counters.reassembled += 1;
        let mut memory = core::mem::take(self.reassembly.memory());
        let input = self.rebuild(&mut memory, base, whole);
        let result = match base.source {
            IpAddr::V4(_) => self.dispatch(now, &memory, &input),
            IpAddr::V6(_) => self.ipv6_chain(now, &memory, input),
        };
        *self.reassembly.memory() = memory;
        result.map(|input| match input {
            Input::Transport(datagram) => {
                self.whole = datagram.payload.in_frame().unwrap_or_default();
                Input::Transport(Datagram { payload: Payload::Reassembled, ..datagram })
            }
            other => other,
        })
    }

    /// Writes an IP header in front of a datagram that was made whole, or of the beginning of one.
    pub(crate) fn rebuild(&self, memory: &mut [u8], base: &IpInput, whole: &Whole) -> IpInput {
        let len = whole.place.len();
        let via = self.via(base.source, base.destination, base.destination, None);
        let packet = Packet {
            traffic_class: whole.traffic_class,
            hop_limit: Some(whole.hop_limit),
            dont_fragment: false,
            ..Packet::new(whole.next_header, len)
        };
        let ip_at = whole.place.start - via.ip_header_len();
        via.emit(&packet, &mut memory[ip_at..whole.place.start]);
        IpInput {
            traffic_class: whole.traffic_class,
            hop_limit: whole.hop_limit,
            protocol: whole.next_header,
            ip_at,
            payload: Payload::Frame { start: whole.place.start, end: whole.place.end },
            len,
            reassembled: true,
            ..*base
        }
    }

    /// A whole packet for us.
    pub(crate) fn dispatch(
        &mut self,
        now: Instant,
        frame: &[u8],
        input: &IpInput,
    ) -> Result<Input, Cause> {
        let place = input.payload.in_frame().unwrap_or_default();
        let bytes = frame.get(place).unwrap_or_default();
        match (input.protocol, input.source) {
            (tcp::NUMBER, _) if input.cast != Cast::Unicast => Err(Cause::TcpToGroup),
            (udp::NUMBER, source)
                if input.cast == Cast::Multicast
                    && !self.groups.wants(input.destination, source) =>
            {
                Err(Cause::SourceUnwanted)
            }
            (udp::NUMBER, IpAddr::V4(_)) if self.dhcp.is_some() => {
                match self.dhcp_input(now, frame, input) {
                    Some(result) => result,
                    None => Ok(Input::Transport(datagram(input))),
                }
            }
            (tcp::NUMBER | udp::NUMBER, _) => Ok(Input::Transport(datagram(input))),
            (icmp::NUMBER, IpAddr::V4(_)) | (icmpv6::NUMBER, IpAddr::V6(_)) => {
                self.icmp(now, input, bytes)
            }
            (IGMP, IpAddr::V4(_)) => self.group_message(now, Protocol::Igmp, input, bytes),
            (extension::NO_NEXT_HEADER, IpAddr::V6(_)) => Ok(Input::Consumed),
            (spoken, _) if self.speaks(spoken) => Ok(Input::Transport(datagram(input))),
            (_, source) => {
                let pointer = input.named_at as u32;
                let code = icmpv6::parameter_problem::NEXT_HEADER;
                let report = match source {
                    IpAddr::V4(_) => Message::Unreachable { code: icmp::unreachable::PROTOCOL },
                    IpAddr::V6(_) => Message::ParameterProblem { code, pointer },
                };
                self.report(now, frame, input, report);
                Err(Cause::ProtocolUnknown)
            }
        }
    }
}

fn datagram(input: &IpInput) -> Datagram {
    Datagram {
        protocol: input.protocol,
        source: input.source,
        destination: input.destination,
        cast: input.cast,
        traffic_class: input.traffic_class,
        hop_limit: input.hop_limit,
        pseudo_header: input.pseudo_header(),
        payload: input.payload,
        ip_at: input.ip_at,
    }
}

/// The group that a node with `address` is in (RFC 4291, section 2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}
