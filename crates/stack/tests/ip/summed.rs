//! Packets that come with the sum of all their bytes: whatever the sum and wherever in the packet the datagram lies, what becomes
//! of it is what becomes of a packet of which nobody has made one.

use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::relay;
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, TxPacket};
use fusewire_stack::Cause;
use fusewire_stack::ip::net::{MacPair, Packet, Via};
use fusewire_stack::ip::{Config, SocketId, Stack};
use fusewire_testkit::Random;
use fusewire_wire::ethernet::Address;
use fusewire_wire::tcp::{self, Flags, Header};
use fusewire_wire::udp;

use crate::net::{addr, net_config};

const PORT: u16 = 7;
const PEER_MAC: Address = Address([2, 0, 0, 0, 0, 7]);

/// A stack with a socket for datagrams and a listener, and the bare other end of its interface.
struct Scene {
    stack: Stack,
    socket: SocketId,
    other: Memory,
    macs: Option<MacPair>,
    now: Instant,
}

fn scene(link: Link, v6: bool) -> Scene {
    let (a, other) = pair(Pair { link, ..Pair::default() }).unwrap();
    let now = Instant::from_ms(5);
    let net = net_config(&a, 1);
    let macs =
        a.capabilities().mac.map(|mac| MacPair { source: PEER_MAC, destination: Address(mac) });
    let mut stack = Stack::new(Box::new(a), net, Config::default(), [1; 32], now);
    let socket = stack.udp_bind((addr(v6, 1), PORT).into()).unwrap();
    stack.tcp_listen((addr(v6, 1), PORT).into(), 8).unwrap();
    Scene { stack, socket, other, macs, now }
}

fn via(v6: bool, macs: Option<MacPair>) -> Via {
    Via {
        source: addr(v6, 0),
        destination: addr(v6, 1),
        next_hop: addr(v6, 1),
        macs,
        mtu: 1500,
        may_fragment: false,
        hop_limit: 64,
        loops: false,
        is_shared: false,
        generation: 0,
    }
}

/// A packet of this protocol with these bytes, whose checksum field at `field` is made right.
fn packet(via: &Via, protocol: u8, mut bytes: Vec<u8>, field: usize) -> Vec<u8> {
    let mut packet = vec![0; via.header_len()];
    via.emit(&Packet::new(protocol, bytes.len()), &mut packet);
    let sum = via.pseudo_header_sum(protocol, bytes.len()) + Sum::of(&bytes);
    bytes[field..field + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    packet.extend(bytes);
    packet
}

fn datagram(via: &Via, contents: &[u8]) -> Vec<u8> {
    let len = (udp::HEADER_LEN + contents.len()) as u16;
    let mut bytes = vec![0; udp::HEADER_LEN];
    udp::Header { src_port: 1, dst_port: PORT, len, checksum: 0 }.emit(&mut bytes);
    bytes.extend(contents);
    packet(via, udp::NUMBER, bytes, 6)
}

fn syn(via: &Via) -> Vec<u8> {
    let (seq, flags) = (Seq(1000), Flags::SYN);
    let header =
        Header { src_port: 1, dst_port: PORT, seq, flags, window: 1000, ..Header::default() };
    let mut bytes = vec![0; header.emit_len()];
    header.emit(&mut bytes);
    packet(via, tcp::NUMBER, bytes, 16)
}

/// A question whether somebody is there.
fn echo(via: &Via) -> Vec<u8> {
    let (protocol, kind, pseudo) = match via.source {
        IpAddr::V4(_) => (1, 8, Sum::ZERO),
        IpAddr::V6(_) => (58, 128, via.pseudo_header_sum(58, 12)),
    };
    let bytes = [kind, 0, 0, 0, 0, 1, 0, 1, b'h', b'e', b'r', b'e'];
    let mut packet = packet(via, protocol, bytes.to_vec(), 2);
    let sum = (pseudo + Sum::of(&bytes)).checksum();
    packet[via.header_len() + 2..][..2].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The packets, and what may be wrong with them.
fn packets(via: &Via) -> Vec<Vec<u8>> {
    let mut random = Random::new(3);
    let mut sound = vec![echo(via), syn(via)];
    for len in [0, 1, 2, 3, 17, 1000, 1401] {
        let contents: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        sound.push(datagram(via, &contents));
    }
    let mut all = sound.clone();
    let start = via.header_len();
    for packet in &sound {
        // A bit of each byte of the headers, and of some of the others.
        for at in (0..packet.len()).filter(|at| *at < start + 24 || at % 97 == 0) {
            let mut wrong = packet.clone();
            wrong[at] ^= 1 << (at % 8);
            all.push(wrong);
        }
        // What Ethernet fills up with, be it zeros or not, from an odd place or an even one.
        for padding in [&[0][..], &[0; 8], &[1, 2, 3], &[0xff; 40]] {
            all.push([packet, padding].concat());
        }
    }
    for packet in &sound[2..] {
        // Without a checksum.
        let mut without = packet.clone();
        without[start + 6..start + 8].fill(0);
        all.push(without);
        // One that says that it ends sooner than its packet: as if its checksum were right for either length.
        if packet.len() > start + udp::HEADER_LEN {
            let bytes = packet[start..].to_vec();
            let shorter = (bytes.len() - 1) as u16;
            let mut bytes = bytes;
            bytes[4..6].copy_from_slice(&shorter.to_be_bytes());
            bytes[6..8].fill(0);
            all.push(self::packet(via, udp::NUMBER, bytes, 6));
        }
    }
    // Whose sum is such that one without a checksum would be right.
    let mut without = datagram(via, &[0, 0]);
    let checksum = [without[start + 6], without[start + 7]];
    without[start + 8..start + 10].copy_from_slice(&checksum);
    without[start + 6..start + 8].fill(0);
    all.push(without);
    all
}

impl Scene {
    /// What becomes of a packet: what the socket has, what is sent, and what is counted.
    fn take(
        &mut self,
        bytes: &[u8],
        checksum: Checksum,
    ) -> (Option<Vec<u8>>, Vec<Vec<u8>>, String) {
        let packet = TxPacket { header: bytes, checksum, ..TxPacket::default() };
        assert_eq!(self.other.transmit(&[packet]).unwrap(), 1);
        while self.stack.poll(self.now).unwrap() {}
        let mut out = [0; 2000];
        let got = self.stack.udp_recv(self.socket, &mut out).unwrap();
        let count = self.other.receive().unwrap();
        let sent = (0..count).map(|i| self.other.packet(i).bytes.to_vec()).collect();
        let counted = format!("{:?}", self.stack.counters());
        (got.map(|got| out[..got.len].to_vec()), sent, counted)
    }
}

#[test]
fn a_packet_with_a_sum_is_taken_as_one_without() {
    for link in [Link::Ip, Link::Ethernet] {
        for v6 in [false, true] {
            let [mut plain, mut right, mut wrong] = [(); 3].map(|()| scene(link, v6));
            let mut delivered = 0;
            for (i, bytes) in packets(&via(v6, plain.macs)).iter().enumerate() {
                let sum = Sum::of(bytes);
                let expected = plain.take(bytes, Checksum::InPlace);
                delivered += u32::from(expected.0.is_some());
                assert_eq!(
                    right.take(bytes, Checksum::Summed(sum)),
                    expected,
                    "{link:?} {v6} packet {i}"
                );
                // Nobody is to believe a sum of something else.
                let wrong = wrong.take(bytes, Checksum::Summed(sum.word(0x1234)));
                assert_eq!(wrong, expected, "{link:?} {v6} packet {i}, another's sum");
            }
            assert!(delivered > 8, "{delivered}");
            assert!(plain.stack.counters().drops.of(Cause::Checksum) > 50);
        }
    }
}

/// A packet whose sum is told is not summed again: what lies there is another now.
#[test]
fn the_sum_that_is_told_is_the_one_that_counts() {
    for protocol in [tcp::NUMBER, udp::NUMBER] {
        for padding in [&[][..], &[1, 2], &[1, 2, 3]] {
            let mut scene = scene(Link::Ip, false);
            let via = via(false, None);
            // The datagram ends at an odd place.
            let (mut bytes, last) = match protocol {
                tcp::NUMBER => (syn(&via), via.header_len() + 19),
                _ => (datagram(&via, b"as it was"), via.header_len() + 16),
            };
            bytes.extend(padding);
            let sum = Sum::of(&bytes);
            bytes[last] ^= 1;
            let (got, sent, _) = scene.take(&bytes, Checksum::Summed(sum));
            assert!(got.is_some() || sent.len() == 1, "protocol {protocol}, {padding:?}");
        }
    }
}

#[test]
fn a_thread_that_receives_brings_what_is_right_in_order() {
    const COUNT: u32 = 3000;
    let Scene { mut stack, socket, mut other, now, .. } = scene(Link::Ip, false);
    let config = relay::Config { cpu: None, spin: Duration::from_micros(20) };
    // Nothing is lost to a thread that could not begin.
    let nowhere = relay::Config { cpu: Some(1 << 20), ..config };
    assert!(stack.receive_by_thread(nowhere).is_err());
    stack.receive_by_thread(config).unwrap();
    let second = stack.receive_by_thread(config).unwrap_err();
    assert_eq!(second.kind(), std::io::ErrorKind::Unsupported);
    let via = via(false, None);
    let (mut given, mut seen, mut out) = (0, 0, [0; 2000]);
    let expected: Vec<u32> = (0..COUNT).filter(|n| n % 10 != 0).collect();
    while seen < expected.len() {
        while given < COUNT && given < expected[seen] + 200 {
            let mut bytes = datagram(&via, &given.to_be_bytes());
            // Every tenth is not what was sent.
            *bytes.last_mut().unwrap() ^= u8::from(given.is_multiple_of(10));
            let packet = TxPacket {
                header: &bytes,
                segmentation: Segmentation::None,
                ..TxPacket::default()
            };
            assert_eq!(other.transmit(&[packet]).unwrap(), 1);
            given += 1;
        }
        let patience = Some(Duration::from_secs(20));
        assert!(stack.wait(now, patience, false).unwrap(), "nothing came in time");
        stack.poll(now).unwrap();
        while let Some(got) = stack.udp_recv(socket, &mut out).unwrap() {
            assert_eq!(out[..got.len], expected[seen].to_be_bytes());
            assert_eq!(got.from.ip(), addr(false, 0));
            seen += 1;
        }
    }
    assert_eq!(stack.counters().drops.of(Cause::Checksum), u64::from(COUNT / 10));
    assert!(other.receive().is_ok());
}
