//! The IP layer as the stack sees it: static addresses and neighbours only, fragments refused.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use fusewire_base::Instant;
use fusewire_device::interface::Link;
use fusewire_wire::{ethernet, ipv4, ipv6};

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

/// Settings of the layer.
#[derive(Clone, Debug, Default)]
pub struct NetConfig {
    /// Our station's address; none on an interface of bare IP packets.
    pub mac: Option<[u8; 6]>,
    /// Our addresses.
    pub addresses: Vec<Cidr>,
    /// Neighbours that are known.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Largest IP packet in bytes.
    pub mtu: usize,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub struct Via {
    /// Our address.
    pub src: IpAddr,
    /// The next station.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet on the path, in bytes.
    pub mtu: usize,
}

/// Why a packet cannot go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// No way leads there.
    Unreachable,
    /// The neighbour is being asked for.
    Resolving,
}

/// What a packet is.
#[derive(Debug)]
pub enum Input {
    /// For TCP or UDP.
    Transport(Datagram),
    /// Nothing for the transport.
    Done,
}

/// A packet's payload for the transport, with what the IP header says.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// Protocol number.
    pub protocol: u8,
    /// Sender.
    pub src: IpAddr,
    /// Receiver: we, a group, or all.
    pub dst: IpAddr,
    /// ECN bits.
    pub ecn: u8,
    /// Where the payload lies in the frame.
    pub payload: Range<usize>,
}

/// See the module's text.
#[derive(Debug)]
pub struct Layer {
    config: NetConfig,
    neighbours: HashMap<IpAddr, [u8; 6]>,
    /// Packets that were not for us, or broken.
    pub drops: u64,
}

impl Layer {
    /// A layer with these settings.
    pub fn new(config: NetConfig) -> Layer {
        let neighbours = config.neighbours.iter().copied().collect();
        Layer { config, neighbours, drops: 0 }
    }

    /// The initial step of IP.
    pub fn handle(&mut self, _now: Instant, frame: &[u8], link: Link) -> Input {
        match self.parse(frame, link) {
            Some(datagram) => Input::Transport(datagram),
            None => {
                self.drops += 1;
                Input::Done
            }
        }
    }

    fn parse(&self, frame: &[u8], link: Link) -> Option<Datagram> {
        let mut at = 0;
        if link == Link::Ethernet {
            at = usize::from(ethernet::Header::parse(frame).ok()?.header_len);
        }
        let packet = &frame[at..];
        match packet.first()? >> 4 {
            4 => {
                let h = ipv4::Header::parse(packet).ok()?;
                if h.is_fragment() || !self.accepts(h.destination.into()) {
                    return None;
                }
                let payload = at + usize::from(h.header_len)..at + usize::from(h.total_len);
                Some(Datagram {
                    protocol: h.protocol,
                    src: h.source.into(),
                    dst: h.destination.into(),
                    ecn: h.tos & 3,
                    payload,
                })
            }
            6 => {
                let h = ipv6::Header::parse(packet).ok()?;
                if !self.accepts(h.destination.into()) {
                    return None;
                }
                let upper = ipv6::upper_layer(h.next_header, h.payload(packet)).ok()?;
                let start = at + ipv6::HEADER_LEN;
                Some(Datagram {
                    protocol: upper.protocol,
                    src: h.source.into(),
                    dst: h.destination.into(),
                    ecn: h.traffic_class & 3,
                    payload: start + upper.offset..start + h.payload(packet).len(),
                })
            }
            _ => None,
        }
    }

    fn accepts(&self, dst: IpAddr) -> bool {
        self.is_local(dst) || dst.is_multicast() || dst == IpAddr::V4(Ipv4Addr::BROADCAST)
    }

    /// One of our addresses.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        self.config.addresses.iter().any(|cidr| cidr.addr == addr)
    }

    /// Our address towards `dst`.
    pub fn source(&self, dst: IpAddr, asked: Option<IpAddr>) -> Option<IpAddr> {
        let ours = self.config.addresses.iter().find(|c| c.addr.is_ipv4() == dst.is_ipv4());
        asked.or(ours.map(|c| c.addr))
    }

    /// Where a packet to `dst` goes.
    ///
    /// # Errors
    /// See [`NoRoute`].
    pub fn route(
        &mut self,
        _now: Instant,
        dst: IpAddr,
        src: Option<IpAddr>,
    ) -> Result<Via, NoRoute> {
        let ours = self.config.addresses.iter().find(|c| c.addr.is_ipv4() == dst.is_ipv4());
        let src = src.or(ours.map(|c| c.addr)).ok_or(NoRoute::Unreachable)?;
        let mac = match self.config.mac {
            None => None,
            Some(_) => Some(*self.neighbours.get(&dst).ok_or(NoRoute::Resolving)?),
        };
        Ok(Via { src, mac, mtu: self.config.mtu })
    }

    /// Writes link and IP header of a packet with `len` bytes of payload; returns their length.
    pub fn header(
        &self,
        via: &Via,
        dst: IpAddr,
        protocol: u8,
        len: usize,
        ecn: u8,
        out: &mut [u8],
    ) -> usize {
        let mut at = 0;
        if let (Some(source), Some(destination)) = (self.config.mac, via.mac) {
            let ethertype =
                if dst.is_ipv4() { ethernet::EtherType::IPV4 } else { ethernet::EtherType::IPV6 };
            at = ethernet::Header {
                destination: ethernet::Address(destination),
                source: ethernet::Address(source),
                ethertype,
                header_len: 0,
            }
            .emit(out);
        }
        let out = &mut out[at..];
        at + match (via.src, dst) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Header {
                tos: ecn,
                total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol,
                source,
                destination,
                header_len: 0,
            }
            .emit(out),
            (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Header {
                traffic_class: ecn,
                flow_label: 0,
                payload_len: len as u16,
                next_header: protocol,
                hop_limit: 64,
                source,
                destination,
            }
            .emit(out),
            _ => 0,
        }
    }
}
