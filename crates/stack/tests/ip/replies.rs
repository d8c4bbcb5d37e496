//! What is answered while it is not known yet where the peer is.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fusewire_base::{Instant, Seq, Sum};
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{Checksum, Interface, Segmentation, TxPacket};
use fusewire_stack::Cause;
use fusewire_stack::ip::net::{MacPair, Packet, Via};
use fusewire_stack::ip::{Config, Stack};
use fusewire_wire::ethernet::{self, Address, EtherType};
use fusewire_wire::tcp::{self, Flags, Header};
use fusewire_wire::{arp, ipv4};

use crate::net::{addr, net_config};

const PEER_MAC: Address = Address([2, 0, 0, 0, 0, 7]);

/// A listening stack at one end of an Ethernet, and somebody at the other whom it does not know.
struct Strangers {
    stack: Stack,
    other: Memory,
    ours: Address,
    now: Instant,
}

impl Strangers {
    fn new() -> Strangers {
        let (a, other) = pair(Pair::default()).unwrap();
        let now = Instant::from_ms(5);
        let ours = Address(a.capabilities().mac.unwrap());
        let net = net_config(&a, 1);
        let mut stack = Stack::new(Box::new(a), net, Config::default(), [7; 32], now);
        stack.tcp_listen((addr(false, 1), 80).into(), 200).unwrap();
        Strangers { stack, other, ours, now }
    }

    fn send(&mut self, frame: &[u8]) {
        let packet = TxPacket {
            header: frame,
            payload: &[],
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        };
        assert_eq!(self.other.transmit(&[packet]).unwrap(), 1);
        self.drive();
    }

    fn drive(&mut self) {
        while self.stack.poll(self.now).unwrap() {}
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let due = self.stack.poll_timeout().unwrap_or(end);
            self.now = due.max(self.now + Duration::from_micros(1)).min(end);
            self.drive();
        }
    }

    fn syn(&mut self, host: u8, port: u16) {
        let via = Via {
            source: peer(host).into(),
            destination: addr(false, 1),
            next_hop: addr(false, 1),
            macs: Some(MacPair { source: PEER_MAC, destination: self.ours }),
            mtu: 1500,
            may_fragment: false,
            hop_limit: 64,
            loops: false,
            is_shared: false,
            generation: 0,
        };
        let header = Header {
            src_port: port,
            dst_port: 80,
            seq: Seq(1000),
            flags: Flags::SYN,
            window: 1000,
            ..Header::default()
        };
        let mut out = [0; 200];
        let len = header.emit_len();
        let start = via.emit(&Packet::new(tcp::NUMBER, len), &mut out);
        header.emit(&mut out[start..]);
        let sum = via.pseudo_header_sum(tcp::NUMBER, len) + Sum::of(&out[start..start + len]);
        out[start + 16..start + 18].copy_from_slice(&sum.checksum().to_be_bytes());
        self.send(&out[..start + len]);
    }

    /// The peer says where it is.
    fn reply(&mut self, host: u8) {
        let IpAddr::V4(target_ip) = addr(false, 1) else { unreachable!() };
        let packet = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: PEER_MAC,
            sender_ip: peer(host),
            target_mac: self.ours,
            target_ip,
        };
        let mut out = [0; 60];
        let header = ethernet::Header {
            destination: self.ours,
            source: PEER_MAC,
            ethertype: EtherType::ARP,
            header_len: 0,
        };
        let at = header.emit(&mut out);
        let len = at + packet.emit(&mut out[at..]);
        self.send(&out[..len]);
    }

    /// Ports to which SYN-ACK came meanwhile, and how many questions where somebody is.
    fn heard(&mut self) -> (Vec<u16>, usize) {
        let (mut ports, mut questions) = (Vec::new(), 0);
        while let n @ 1.. = self.other.receive().unwrap() {
            for i in 0..n {
                let bytes = self.other.packet(i).bytes;
                match ethernet::Header::parse(bytes).unwrap().ethertype {
                    EtherType::ARP => questions += 1,
                    EtherType::IPV4 => {
                        let tcp = &bytes[ethernet::HEADER_LEN + ipv4::MIN_HEADER_LEN..];
                        let header = Header::parse(tcp).unwrap();
                        assert!(header.flags.has(Flags::SYN | Flags::ACK), "{header:?}");
                        assert_eq!(header.ack, Seq(1001));
                        ports.push(header.dst_port);
                    }
                    _ => {}
                }
            }
        }
        (ports, questions)
    }
}

fn peer(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

#[test]
fn a_syn_is_answered_as_soon_as_its_sender_is_found() {
    let mut net = Strangers::new();
    net.syn(77, 4000);
    net.syn(77, 4001);
    // Sent again by an impatient peer: one answer is enough.
    net.syn(77, 4000);
    let (ports, questions) = net.heard();
    assert!(ports.is_empty() && questions >= 1, "{ports:?}, {questions}");
    net.wait(Duration::from_millis(50));
    assert!(net.heard().0.is_empty());
    net.reply(77);
    let (mut ports, _) = net.heard();
    ports.sort_unstable();
    assert_eq!(ports, [4000, 4001], "at once, and not after a second");
    assert_eq!(net.stack.counters().drops.of(Cause::Unroutable), 0);
}

#[test]
fn answers_that_wait_are_few_and_end() {
    let mut net = Strangers::new();
    for port in 0..150 {
        net.syn(77, 4000 + port);
    }
    assert_eq!(net.stack.counters().drops.of(Cause::Unroutable), 150 - 64, "the oldest made room");
    net.reply(77);
    let (ports, _) = net.heard();
    assert_eq!(ports.len(), 64);
    net.syn(78, 5000);
    // Nobody says where that one is.
    net.wait(Duration::from_secs(40));
    net.reply(78);
    assert!(!net.heard().0.contains(&5000), "the handshake was given up");
    assert!(net.stack.counters().drops.of(Cause::Unroutable) > 150 - 64);
}
