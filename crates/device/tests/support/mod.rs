//! Packets for tests of interfaces, made and read by etherparse: an eye that is not ours.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod exchange;
pub mod process;

use std::io::IoSlice;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use etherparse::{PacketBuilder, SlicedPacket, TcpHeader, TransportSlice};
use fusewire_device::interface::{Checksum, Interface, Link, RxPacket, Segmentation, TxPacket};

/// What most interfaces here begin with.
pub const ETHERNET: Link = Link::Ethernet;

/// Both ends of a flow, and the Ethernet addresses where there are some.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub macs: Option<([u8; 6], [u8; 6])>,
}

impl Flow {
    pub fn new(from: &str, to: &str) -> Flow {
        Flow { from: from.parse().unwrap(), to: to.parse().unwrap(), macs: None }
    }

    pub fn over(self, from: [u8; 6], to: [u8; 6]) -> Flow {
        Flow { macs: Some((from, to)), ..self }
    }

    /// Bytes before the transport header.
    pub fn network_end(&self) -> usize {
        if self.macs.is_some() { 34 } else { 20 }
    }

    /// Headers of a UDP datagram with `payload`; its checksum complete.
    pub fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (self.from.ip().octets(), self.to.ip().octets());
        let ip = match self.macs {
            Some((from, to)) => PacketBuilder::ethernet2(from, to).ipv4(source, destination, 64),
            None => PacketBuilder::ipv4(source, destination, 64),
        };
        let mut packet = Vec::new();
        ip.udp(self.from.port(), self.to.port()).write(&mut packet, payload).unwrap();
        packet.truncate(packet.len() - payload.len());
        packet
    }

    /// Headers of a TCP segment; its checksum complete.
    pub fn tcp(&self, header: TcpHeader, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (self.from.ip().octets(), self.to.ip().octets());
        let ip = match self.macs {
            Some((from, to)) => PacketBuilder::ethernet2(from, to).ipv4(source, destination, 64),
            None => PacketBuilder::ipv4(source, destination, 64),
        };
        let header =
            TcpHeader { source_port: self.from.port(), destination_port: self.to.port(), ..header };
        let mut packet = Vec::new();
        ip.tcp_header(header).write(&mut packet, payload).unwrap();
        packet.truncate(packet.len() - payload.len());
        packet
    }

    /// Puts the sum of the pseudo-header where the checksum is, and says so.
    pub fn partial(&self, header: &mut [u8], payload_len: usize, protocol: u8) -> Checksum {
        let start = self.network_end();
        let offset = if protocol == 17 { 6 } else { 16 };
        let len = (header.len() - start + payload_len) as u32;
        let mut sum = [self.from.ip(), self.to.ip()]
            .iter()
            .map(|ip| (u32::from(**ip) >> 16) + (u32::from(**ip) & 0xffff))
            .sum::<u32>()
            + u32::from(protocol)
            + len;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        header[start + offset..start + offset + 2].copy_from_slice(&(sum as u16).to_be_bytes());
        Checksum::Partial { start: start as u16, offset: offset as u16 }
    }
}

/// One whole packet.
pub fn whole<'a>(header: &'a [u8], payload: &'a [IoSlice<'a>]) -> TxPacket<'a> {
    TxPacket { header, payload, checksum: Checksum::InPlace, segmentation: Segmentation::None }
}

/// The next packets that `wanted` takes, within five seconds; `wanted` says when it has enough.
pub fn receive_until(interface: &mut dyn Interface, mut wanted: impl FnMut(RxPacket<'_>) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let count = interface.receive().unwrap();
        for i in 0..count {
            if wanted(interface.packet(i)) {
                return;
            }
        }
        if count == 0 {
            assert!(Instant::now() < end, "the packet did not come");
            interface.wait(Some(Duration::from_millis(100)), false).unwrap();
        }
    }
}

/// What etherparse reads in a packet.
pub fn slice(link: Link, bytes: &[u8]) -> Option<SlicedPacket<'_>> {
    match link {
        Link::Ethernet => SlicedPacket::from_ethernet(bytes).ok(),
        Link::Ip => SlicedPacket::from_ip(bytes).ok(),
    }
}

/// The payload of a UDP datagram to `port`; `None` for another packet.
pub fn udp_payload(link: Link, bytes: &[u8], port: u16) -> Option<&[u8]> {
    match slice(link, bytes)?.transport? {
        TransportSlice::Udp(udp) if udp.destination_port() == port => Some(udp.payload()),
        _ => None,
    }
}

/// Bytes that differ from their neighbours.
pub fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

/// The Ethernet address of an interface.
pub fn mac_of(name: &str) -> [u8; 6] {
    let line = fusewire_testkit::namespace::sh(&format!("ip -o link show {name}"));
    let text = line.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
    let mut octets = text.split(':').map(|b| u8::from_str_radix(b, 16).unwrap());
    std::array::from_fn(|_| octets.next().unwrap())
}

/// A pair of Ethernet interfaces: the kernel has 10.78.0.1 on `fwa` and knows 10.78.0.2 at `fwb`.
/// Both are up when it ends: what is sent before that is lost without a word.
pub const VETH: &str = "\
ip link add fwa type veth peer name fwb
ip addr add 10.78.0.1/24 dev fwa
ip addr add fd00:78::1/64 dev fwa nodad
ip link set fwa up
ip link set fwb up
ip neigh add 10.78.0.2 lladdr $(ip -o link show fwb | sed 's/.*ether \\([^ ]*\\) .*/\\1/') dev fwa
for i in $(seq 500); do [ $(ip -o link show | grep -c 'fw[ab]@.* state UP') = 2 ] && break; sleep 0.01; done
";

/// The flow from us at `fwb` to the kernel at `fwa`.
pub fn veth_flow() -> Flow {
    Flow::new("10.78.0.2:7000", "10.78.0.1:7001").over(mac_of("fwb"), mac_of("fwa"))
}
