//! Paths, and the headers of packets that take them.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fusewire_base::Sum;
use fusewire_wire::ethernet::{self, Address, EtherType};
use fusewire_wire::ipv6_extension::{self as extension, FRAGMENT_LEN};
use fusewire_wire::{ipv4, ipv6};

/// Longest headers that [`Via::emit`] and [`Via::emit_fragment`] write, in bytes.
pub const MAX_HEADER_LEN: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + FRAGMENT_LEN;

/// Ethernet addresses of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacPair {
    /// Ours.
    pub source: Address,
    /// That of the next hop, or of a group.
    pub destination: Address,
}

/// A path to a destination, found by [`crate::Layer::route`]. It may be kept as long as
/// [`crate::Layer::generation`] stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// Address of ours that packets come from.
    pub source: IpAddr,
    /// Where they go; of the same version.
    pub destination: IpAddr,
    /// Neighbour that takes them there; the destination itself on the link, or for a group.
    pub next_hop: IpAddr,
    /// On Ethernet.
    pub macs: Option<MacPair>,
    /// Largest IP packet that the path takes, as far as is known, in bytes.
    pub mtu: usize,
    /// The path takes no packets as large as it should: they go as fragments, or may be cut under way.
    pub may_fragment: bool,
    /// For packets that do not say otherwise.
    pub hop_limit: u8,
    /// It leads back to this host: packets go into [`crate::Layer::handle_looped`], and not to the link.
    pub loops: bool,
    /// It leads to a group, or to all of a network.
    pub is_shared: bool,
    /// [`crate::Layer::generation`] when the path was found.
    pub generation: u64,
}

/// What [`Via::emit`] has to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What follows the header.
    pub protocol: u8,
    /// Bytes that follow the IP header; up to 65515 over IPv4 and 65535 over IPv6.
    pub payload_len: usize,
    /// Six bits of DSCP, two of ECN.
    pub traffic_class: u8,
    /// IPv4 only; means nothing where routers must not fragment (RFC 6864).
    pub identification: u16,
    /// Routers must not fragment. Always so over IPv6.
    pub dont_fragment: bool,
    /// IPv6 only, 20 bits.
    pub flow_label: u32,
    /// Other than the path's.
    pub hop_limit: Option<u8>,
}

impl Packet {
    /// An ordinary packet.
    pub const fn new(protocol: u8, payload_len: usize) -> Packet {
        Packet {
            protocol,
            payload_len,
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            flow_label: 0,
            hop_limit: None,
        }
    }
}

/// A piece of a payload that is too long for its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it begins, in bytes; a multiple of eight.
    pub offset: usize,
    /// Its bytes.
    pub len: usize,
    /// Not the last.
    pub more: bool,
    /// What all pieces of the payload bear; IPv4 takes 16 bits.
    pub identification: u32,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPath {
    /// No route, or no address of ours to come from.
    NoRoute,
    /// The source is not, or not yet, an address of ours.
    NotOurs,
    /// The destination is an address of ours: it takes no link.
    Own,
    /// The next hop is being asked for its MAC address: transmit what [`crate::Layer::poll_transmit`] gives, and
    /// try again when [`crate::Layer::generation`] changes.
    Resolving,
    /// The next hop does not answer.
    Unreachable,
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoPath::NoRoute => "no route to the destination",
            NoPath::NotOurs => "the source is no address of this host",
            NoPath::Own => "the destination is this host",
            NoPath::Resolving => "the next hop is being asked for its MAC address",
            NoPath::Unreachable => "the next hop does not answer",
        })
    }
}

impl core::error::Error for NoPath {}

impl Via {
    /// Bytes that [`Via::emit`] writes.
    pub const fn header_len(&self) -> usize {
        let link = if self.macs.is_some() { ethernet::HEADER_LEN } else { 0 };
        link + self.ip_header_len()
    }

    /// Bytes of the IP header alone.
    pub const fn ip_header_len(&self) -> usize {
        match self.source {
            IpAddr::V4(_) => ipv4::MIN_HEADER_LEN,
            IpAddr::V6(_) => ipv6::HEADER_LEN,
        }
    }

    /// The sum of the pseudo-header of a payload of `len` bytes.
    pub fn pseudo_header_sum(&self, protocol: u8, len: usize) -> Sum {
        pseudo_header_sum(self.source, self.destination, protocol, len)
    }

    /// Writes the headers in front of a payload that goes in one packet (or in a super-frame that the
    /// device cuts); returns their length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Via::header_len`].
    pub fn emit(&self, packet: &Packet, out: &mut [u8]) -> usize {
        let whole = Fragment { offset: 0, len: packet.payload_len, more: false, identification: 0 };
        self.emit_headers(packet, &whole, false, out)
    }

    /// The piece of a payload of `payload_len` bytes that begins at `offset`; it is the whole payload
    /// where that fits.
    pub fn fragment(&self, payload_len: usize, offset: usize, identification: u32) -> Fragment {
        let rest = payload_len.saturating_sub(offset);
        let room = self.mtu.saturating_sub(self.ip_header_len());
        if offset == 0 && rest <= room {
            return Fragment { offset, len: rest, more: false, identification };
        }
        let room = if self.source.is_ipv6() { room.saturating_sub(FRAGMENT_LEN) } else { room };
        if rest <= room {
            return Fragment { offset, len: rest, more: false, identification };
        }
        Fragment { offset, len: (room & !7).max(8), more: true, identification }
    }

    /// Writes the headers of a piece of the payload of `packet`, whose checksum covers the whole payload;
    /// returns their length, at most [`MAX_HEADER_LEN`].
    ///
    /// # Panics
    /// When `out` is too short.
    pub fn emit_fragment(&self, packet: &Packet, fragment: &Fragment, out: &mut [u8]) -> usize {
        let pieces = fragment.more || fragment.offset != 0;
        self.emit_headers(packet, fragment, pieces, out)
    }

    fn emit_headers(
        &self,
        packet: &Packet,
        piece: &Fragment,
        pieces: bool,
        out: &mut [u8],
    ) -> usize {
        let mut at = 0;
        if let Some(MacPair { source, destination }) = self.macs {
            let ethertype = match self.source {
                IpAddr::V4(_) => EtherType::IPV4,
                IpAddr::V6(_) => EtherType::IPV6,
            };
            at = ethernet::Header { destination, source, ethertype, header_len: 0 }.emit(out);
        }
        let hop_limit = packet.hop_limit.unwrap_or(self.hop_limit);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Header {
                    tos: packet.traffic_class,
                    total_len: (ipv4::MIN_HEADER_LEN + piece.len) as u16,
                    identification: if pieces {
                        piece.identification as u16
                    } else {
                        packet.identification
                    },
                    dont_fragment: packet.dont_fragment && !pieces && !self.may_fragment,
                    more_fragments: piece.more,
                    fragment_offset: piece.offset as u16,
                    ttl: hop_limit,
                    protocol: packet.protocol,
                    source,
                    destination,
                    header_len: ipv4::MIN_HEADER_LEN as u8,
                };
                at + header.emit(&mut out[at..])
            }
            (source, destination) => {
                let extension = if pieces { FRAGMENT_LEN } else { 0 };
                let header = ipv6::Header {
                    traffic_class: packet.traffic_class,
                    flow_label: packet.flow_label,
                    payload_len: (extension + piece.len) as u16,
                    next_header: if pieces { extension::FRAGMENT } else { packet.protocol },
                    hop_limit,
                    source: v6(source),
                    destination: v6(destination),
                };
                at += header.emit(&mut out[at..]);
                if pieces {
                    let header = extension::Fragment {
                        next_header: packet.protocol,
                        offset: piece.offset as u16,
                        more: piece.more,
                        identification: piece.identification,
                    };
                    at += header.emit(&mut out[at..]);
                }
                at
            }
        }
    }
}

/// Both addresses of a path are of one version.
fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
    }
}

/// The sum of the pseudo-header of TCP, UDP and ICMPv6 between two addresses of one version.
pub fn pseudo_header_sum(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Sum {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ipv4::pseudo_header_sum(source, destination, protocol, len as u16)
        }
        _ => ipv6::pseudo_header_sum(v6(source), v6(destination), protocol, len as u32),
    }
}

/// The MAC address of a group (RFC 1112, section 6.4; RFC 2464, section 7), or of all.
pub(crate) fn group_mac(group: IpAddr) -> Address {
    match group {
        IpAddr::V4(Ipv4Addr::BROADCAST) => Address::BROADCAST,
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            Address([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            Address([0x33, 0x33, a, b, c, d])
        }
    }
}
