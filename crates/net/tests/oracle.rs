//! Everything that a layer says is read by another's parser (etherparse), which finds nothing wrong with it.

mod wire;

use std::net::IpAddr;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fusewire_net::{Config, Identifier, Input, Link, MembershipChange};
use fusewire_wire::{icmp, icmpv6};
use wire::{Craft, Wire, config, mac_address};

/// Reads a frame and verifies every checksum in it; says what it was.
fn check(frame: &[u8]) -> &'static str {
    let packet = SlicedPacket::from_ethernet(frame).expect("well-formed");
    let payload = match &packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len) + 14, frame.len(), "no byte more");
            if ip.is_payload_fragmented() {
                return "fragment";
            }
            ip.payload().payload.to_vec()
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            assert_eq!(usize::from(header.payload_length()) + 54, frame.len(), "no byte more");
            if ip.is_payload_fragmented() {
                return "fragment";
            }
            ip.payload().payload.to_vec()
        }
        Some(NetSlice::Arp(arp)) => {
            assert_eq!(frame.len(), 42);
            assert_eq!(arp.sender_hw_addr(), &frame[6..12]);
            return "arp";
        }
        other => panic!("what is this? {other:?}"),
    };
    match packet.transport {
        Some(TransportSlice::Udp(datagram)) => {
            let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("DHCP for IPv6?") };
            let header = ip.header();
            let (from, to) = (header.source(), header.destination());
            let sum = datagram.to_header().calc_checksum_ipv4_raw(from, to, datagram.payload());
            assert_eq!(sum, Ok(datagram.checksum()));
            "udp"
        }
        Some(TransportSlice::Icmpv4(message)) => {
            let header = message.header();
            let sum = header.icmp_type.calc_checksum(message.payload());
            assert_eq!(sum, header.checksum);
            "icmp"
        }
        Some(TransportSlice::Icmpv6(message)) => {
            let Some(NetSlice::Ipv6(ip)) = &packet.net else { panic!("ICMPv6 over IPv4?") };
            let header = ip.header();
            assert!(message.is_checksum_valid(header.source(), header.destination()));
            "icmpv6"
        }
        None => {
            assert_eq!(payload.len() % 4, 0, "IGMP");
            "igmp"
        }
        other => panic!("what is this? {other:?}"),
    }
}

#[test]
fn everything_that_is_said_is_well_formed() {
    let mut lively = Config::new(Link::Ethernet(mac_address(1)));
    lively.dhcp = true;
    lively.slaac = true;
    lively.identifier = Identifier::Opaque([3; 16]);
    lively.addresses = vec!["10.0.0.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()];
    let plain = config(2, &["10.0.0.2/24", "2001:db8::2/64"]);
    let mut wire = Wire::new(vec![lively, plain]);
    let groups: [IpAddr; 2] = ["239.1.2.3".parse().unwrap(), "ff15::7".parse().unwrap()];
    for group in groups {
        let source = if group.is_ipv4() { "10.0.0.9" } else { "fd00::9" }.parse().unwrap();
        for change in [MembershipChange::JoinSource(source), MembershipChange::LeaveSource(source)]
        {
            wire.layers[0].change_membership(wire.now, 1, group, change).unwrap();
            wire.settle();
        }
        wire.layers[0].change_membership(wire.now, 1, group, MembershipChange::Join).unwrap();
    }
    wire.pass(Duration::from_secs(20));
    for ends in [["10.0.0.2", "10.0.0.1"], ["2001:db8::2", "2001:db8::1"]] {
        let craft = Craft::new(2, 1, ends[0], ends[1]);
        let v6 = ends[0].contains(':');
        let mut ping = vec![0x61; 5000];
        let frames = if v6 {
            let from = ends.map(|e| e.parse().unwrap());
            let sum = fusewire_net::pseudo_header_sum(from[0], from[1], icmpv6::NUMBER, 5000);
            icmp::Message::EchoRequest { id: 1, seq: 1 }.emit(Some(sum), &mut ping);
            icmpv6::NUMBER
        } else {
            icmp::Message::EchoRequest { id: 1, seq: 1 }.emit(None, &mut ping);
            icmp::NUMBER
        };
        for (n, part) in ping.chunks(1448).enumerate() {
            let frame = craft.piece(frames, 3, part, n * 1448, (n + 1) * 1448 < 5000);
            assert_eq!(wire.layers[0].handle(wire.now, &frame), Input::Consumed);
        }
        let datagram = craft.udp((7, 8), &[1; 700]);
        let Input::Transport(to) = wire.layers[0].handle(wire.now, &datagram) else { panic!() };
        assert!(wire.layers[0].answer_unreachable(wire.now, &datagram, &to));
        wire.layers[0].handle(wire.now, &craft.packet(200, &[0; 40]));
        wire.settle();
    }
    for group in groups {
        wire.layers[0].change_membership(wire.now, 1, group, MembershipChange::Leave).unwrap();
    }
    wire.pass(Duration::from_secs(100));
    let mut kinds = std::collections::BTreeMap::new();
    for (_, _, frame) in &wire.log {
        *kinds.entry(check(frame)).or_insert(0) += 1;
    }
    let seen: Vec<_> = kinds.keys().copied().collect();
    assert_eq!(seen, ["arp", "fragment", "icmp", "icmpv6", "igmp", "udp"], "{kinds:?}");
    assert_eq!(kinds["fragment"], 8);
}
