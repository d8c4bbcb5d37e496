//! The table of neighbours against forged ARP and neighbour discovery: as long as the honest neighbour answers every
//! question, packets to it go to nobody else, and the table stays within its bound.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_net::{Config, Layer, Link, MacPair, Packet, Via};
use fusewire_wire::arp;
use fusewire_wire::ethernet::{self, Address, EtherType};
use fusewire_wire::ndp::{self, Message, NdpOption};
use fusewire_wire::{icmp, icmpv6};

use super::net_layer::OWN;
use crate::Choices;

const HONEST: Address = Address([2, 0, 0, 0, 0, 2]);
const HONEST_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HONEST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// Runs one input.
pub fn run(data: &[u8]) {
    let link = |mac: Address, addresses: [&str; 2]| {
        let mut config = Config::new(Link::Ethernet(mac));
        config.addresses = addresses.map(|a| a.parse().expect("an address")).into();
        config.duplicate_detection = false;
        config
    };
    let now = Instant::from_ms(1_000);
    let mut pair = Pair {
        layer: Layer::new(link(OWN, ["10.0.0.1/8", "2001:db8::1/32"]), &[3; 32], now),
        honest: Layer::new(link(HONEST, ["10.0.0.2/8", "2001:db8::2/32"]), &[4; 32], now),
        now,
    };
    pair.settle();
    for to in [IpAddr::V4(HONEST_V4), IpAddr::V6(HONEST_V6)] {
        let _ = pair.layer.route(now, to, None);
        pair.settle();
        pair.layer.route(now, to, None).expect("found");
    }
    let mut choices = Choices::new(data);
    while !choices.is_empty() {
        pair.step(&mut choices);
        pair.settle();
        for to in [IpAddr::V4(HONEST_V4), IpAddr::V6(HONEST_V6)] {
            if let Ok(via) = pair.layer.route(pair.now, to, None) {
                let mac = via.macs.map(|s| s.destination);
                assert_eq!(mac, Some(HONEST), "{to} was stolen");
            }
        }
        pair.settle();
    }
    assert!(pair.layer.neighbors().count() <= 1024);
}

struct Pair {
    layer: Layer,
    honest: Layer,
    now: Instant,
}

impl Pair {
    fn step(&mut self, choices: &mut Choices<'_>) {
        let what = choices.u8();
        let target = choices.u8();
        let flags = choices.u8();
        match what % 4 {
            0 => self.pass(Duration::from_millis(u64::from(target) << (flags & 15))),
            1 => {
                let frame = forged_arp(target, flags, choices);
                self.layer.handle(self.now, &frame);
            }
            2 => {
                let frame = forged_advertisement(target, flags, choices);
                self.layer.handle(self.now, &frame);
            }
            _ => {
                let to = if flags & 1 == 0 {
                    IpAddr::V4(Ipv4Addr::new(10, 0, flags, target))
                } else {
                    HONEST_V4.into()
                };
                let _ = self.layer.route(self.now, to, None);
                if flags & 2 != 0 {
                    self.layer.confirm(self.now, HONEST_V6.into());
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = [self.layer.poll_timeout(), self.honest.poll_timeout()];
            let next = next.into_iter().flatten().min().filter(|&next| next <= end);
            let Some(next) = next else { break };
            assert!(next > self.now, "a timer that is not served");
            self.now = next;
            self.layer.handle_timeout(self.now);
            self.honest.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// The honest neighbour hears everything and answers at once.
    fn settle(&mut self) {
        let mut out = [0; 1514];
        loop {
            if let Some(len) = self.layer.poll_transmit(self.now, &mut out) {
                self.honest.handle(self.now, &out[..len]);
            } else if let Some(len) = self.honest.poll_transmit(self.now, &mut out) {
                self.layer.handle(self.now, &out[..len]);
            } else {
                return;
            }
        }
    }
}

/// A forger's MAC address: never the honest one's.
fn forger(n: u8) -> Address {
    Address([2, 0, 0, 0, 9, n])
}

fn forged_arp(target: u8, flags: u8, choices: &mut Choices<'_>) -> Vec<u8> {
    let source = forger(flags >> 4);
    let destination = if flags & 1 == 0 { OWN } else { Address::BROADCAST };
    let of = |n: u8| Ipv4Addr::new(10, 0, 0, n);
    let packet = arp::Packet {
        operation: if flags & 2 == 0 { arp::Operation::Reply } else { arp::Operation::Request },
        sender_mac: source,
        sender_ip: if flags & 4 == 0 { HONEST_V4 } else { of(target) },
        target_mac: OWN,
        target_ip: of(choices.u8() % 4),
    };
    let mut frame = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
    let header =
        ethernet::Header { destination, source, ethertype: EtherType::ARP, header_len: 14 };
    header.emit(&mut frame);
    packet.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

fn forged_advertisement(target: u8, flags: u8, choices: &mut Choices<'_>) -> Vec<u8> {
    let address = if flags & 4 == 0 {
        HONEST_V6
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, target.into())
    };
    let own = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let (message, option) = match choices.u8() & 1 {
        0 => (
            Message::NeighborAdvertisement {
                router: flags & 8 != 0,
                solicited: flags & 1 != 0,
                override_cache: flags & 2 != 0,
                target: address,
            },
            NdpOption::TargetAddress(forger(flags >> 4)),
        ),
        _ => (
            Message::NeighborSolicitation { target: own },
            NdpOption::SourceAddress(forger(flags >> 4)),
        ),
    };
    let mut body = [0; ndp::MAX_EMIT_LEN];
    let at = message.emit(&mut body);
    option.emit(&mut body[at..]);
    let via = Via {
        source: address.into(),
        destination: own.into(),
        next_hop: own.into(),
        macs: Some(MacPair { source: forger(flags >> 4), destination: OWN }),
        mtu: 1500,
        may_fragment: false,
        hop_limit: ndp::HOP_LIMIT,
        loops: false,
        is_shared: false,
        generation: 0,
    };
    icmp::emit_checksum(via.pseudo_header_sum(icmpv6::NUMBER, body.len()), &mut body);
    let mut frame = vec![0; via.header_len()];
    via.emit(&Packet::new(icmpv6::NUMBER, body.len()), &mut frame);
    frame.extend(body);
    frame
}

/// Forgeries of every kind, at every state of the entry.
pub fn seeds() -> Vec<Vec<u8>> {
    let wait = |ms: u8, shift: u8| vec![0, ms, shift];
    let mut seeds = Vec::new();
    for flags in 0..8 {
        for waiting in [wait(1, 0), wait(46, 10), wait(52, 10)] {
            let arp = vec![1, 2, flags | 0x10, 1];
            let advertisement = vec![2, 2, flags | 0x10, 0];
            let use_it = vec![3, 2, 1];
            let steps = [waiting, arp, use_it, wait(7, 9), advertisement, wait(6, 10)];
            seeds.push(steps.concat());
        }
    }
    seeds
}
