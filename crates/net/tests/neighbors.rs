//! Neighbours are asked, believed, doubted and forgotten as RFC 4861, section 7.3, says, over both versions; and
//! nobody can fill the table or steal an entry that is in use.

mod wire;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fusewire_net::neighbors::State;
use fusewire_net::{Cause, Input, Layer, NoPath, Route};
use fusewire_wire::arp::{Operation, PACKET_LEN, Packet};
use fusewire_wire::ethernet::{Address, EtherType, Header};
use fusewire_wire::ndp::{self, Message, NdpOption};
use wire::{Craft, Wire, config, mac_address};

const PAIRS: [[&str; 2]; 2] =
    [["10.0.0.1/24", "10.0.0.2/24"], ["2001:db8::1/64", "2001:db8::2/64"]];

fn pair(addresses: [&str; 2]) -> (Wire, IpAddr) {
    let configs = vec![config(1, &addresses[..1]), config(2, &addresses[1..])];
    let mut wire = Wire::new(configs);
    wire.pass(Duration::from_secs(30));
    let other = addresses[1].split('/').next().expect("an address").parse().expect("an address");
    (wire, other)
}

fn resolve(wire: &mut Wire, address: IpAddr) {
    assert_eq!(wire.layers[0].route(wire.now, address, None), Err(NoPath::Resolving));
    wire.settle();
    assert!(wire.layers[0].route(wire.now, address, None).is_ok());
}

fn state(layer: &Layer, address: IpAddr) -> Option<State> {
    layer.neighbors().find(|n| n.address == address).map(|n| n.state)
}

/// ARP from `mac`.
fn arp(mac: u8, to: Address, operation: Operation, sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 14 + PACKET_LEN];
    let source = mac_address(mac);
    Header { destination: to, source, ethertype: EtherType::ARP, header_len: 14 }.emit(&mut frame);
    let packet = Packet {
        operation,
        sender_mac: source,
        sender_ip: sender.into(),
        target_mac: to,
        target_ip: target.into(),
    };
    packet.emit(&mut frame[14..]);
    frame
}

fn advertisement(mac: u8, target: &str, flags: (bool, bool)) -> Vec<u8> {
    let target: Ipv6Addr = target.parse().unwrap();
    let message = Message::NeighborAdvertisement {
        router: false,
        solicited: flags.0,
        override_cache: flags.1,
        target,
    };
    let mut body = [0; 32];
    let at = message.emit(&mut body);
    NdpOption::TargetAddress(mac_address(mac)).emit(&mut body[at..]);
    let craft = Craft::new(mac, 1, &target.to_string(), "2001:db8::1");
    Craft { hop_limit: ndp::HOP_LIMIT, ..craft }.icmpv6(&body)
}

#[test]
fn reachable_stale_delay_probe_and_reachable_again() {
    for addresses in PAIRS {
        let (mut wire, other) = pair(addresses);
        resolve(&mut wire, other);
        assert_eq!(state(&wire.layers[0], other), Some(State::Reachable));
        let generation = wire.layers[0].generation();
        wire.pass(Duration::from_secs(14));
        assert_eq!(state(&wire.layers[0], other), Some(State::Reachable));
        wire.pass(Duration::from_secs(32));
        assert_eq!(state(&wire.layers[0], other), Some(State::Stale), "after 15 to 45 s");
        assert_ne!(wire.layers[0].generation(), generation, "who keeps the path asks again");
        let quiet = wire.log.len();
        assert!(wire.layers[0].route(wire.now, other, None).is_ok());
        assert_eq!(state(&wire.layers[0], other), Some(State::Delay));
        wire.pass(Duration::from_millis(4_900));
        assert_eq!(wire.log.len(), quiet, "five seconds for an upper layer to confirm it");
        wire.pass(Duration::from_millis(200));
        assert_eq!(state(&wire.layers[0], other), Some(State::Reachable), "asked, and answered");
        let question = &wire.log[quiet].2;
        assert_eq!(question[..6], mac_address(2).0, "asked alone");
    }
}

#[test]
fn an_upper_layer_that_hears_answers_makes_questions_needless() {
    for addresses in PAIRS {
        let (mut wire, other) = pair(addresses);
        resolve(&mut wire, other);
        let quiet = wire.log.len();
        for _ in 0..100 {
            wire.pass(Duration::from_secs(4));
            wire.layers[0].route(wire.now, other, None).expect("a path");
            wire.layers[0].confirm(wire.now, other);
        }
        assert_eq!(wire.log.len(), quiet);
        assert_eq!(state(&wire.layers[0], other), Some(State::Reachable));
    }
}

#[test]
fn one_that_went_away_is_asked_thrice_alone_and_thrice_with_all() {
    for addresses in PAIRS {
        let (mut wire, other) = pair(addresses);
        resolve(&mut wire, other);
        wire.pass(Duration::from_secs(60));
        wire.layers.truncate(1);
        let quiet = wire.log.len();
        wire.layers[0].route(wire.now, other, None).expect("nobody knows yet");
        let generation = wire.layers[0].generation();
        wire.pass(Duration::from_millis(8_200));
        assert_ne!(wire.layers[0].generation(), generation);
        assert_eq!(wire.layers[0].route(wire.now, other, None), Err(NoPath::Resolving));
        wire.pass(Duration::from_millis(2_900));
        assert_eq!(wire.layers[0].route(wire.now, other, None), Err(NoPath::Unreachable));
        let alone: Vec<bool> =
            wire.log[quiet..].iter().map(|(_, _, f)| f[..6] == mac_address(2).0).collect();
        assert_eq!(alone, [true, true, true, false, false, false]);
    }
}

#[test]
fn a_forged_claim_does_not_move_an_entry_in_use() {
    let (mut wire, other) = pair(PAIRS[0]);
    resolve(&mut wire, other);
    let claims = [
        arp(66, mac_address(1), Operation::Reply, [10, 0, 0, 2], [10, 0, 0, 1]),
        arp(66, Address::BROADCAST, Operation::Request, [10, 0, 0, 2], [10, 0, 0, 2]),
        arp(66, Address::BROADCAST, Operation::Request, [10, 0, 0, 2], [10, 0, 0, 1]),
    ];
    for claim in claims {
        let contested = Input::Dropped(Cause::NeighborContested);
        for _ in 0..3 {
            assert_eq!(wire.layers[0].handle(wire.now, &claim), contested);
            let via = wire.layers[0].route(wire.now, other, None).expect("still there");
            assert_eq!(via.macs.map(|s| s.destination), Some(mac_address(2)));
        }
        wire.settle();
        assert_eq!(state(&wire.layers[0], other), Some(State::Reachable), "asked, and answered");
    }

    let (mut wire, other) = pair(PAIRS[1]);
    resolve(&mut wire, other);
    for flags in [(false, true), (true, true), (true, false)] {
        let claim = advertisement(66, "2001:db8::2", flags);
        let contested = Input::Dropped(Cause::NeighborContested);
        assert_eq!(wire.layers[0].handle(wire.now, &claim), contested);
        let via = wire.layers[0].route(wire.now, other, None).expect("still there");
        assert_eq!(via.macs.map(|s| s.destination), Some(mac_address(2)));
        wire.settle();
    }
}

#[test]
fn an_address_that_really_moves_is_followed_when_the_old_mac_is_silent() {
    let (mut wire, other) = pair(PAIRS[0]);
    resolve(&mut wire, other);
    wire.layers.truncate(1);
    let gratuitous = arp(7, Address::BROADCAST, Operation::Request, [10, 0, 0, 2], [10, 0, 0, 2]);
    wire.layers[0].handle(wire.now, &gratuitous);
    wire.pass(Duration::from_millis(3_050));
    let answer = arp(7, mac_address(1), Operation::Reply, [10, 0, 0, 2], [10, 0, 0, 1]);
    assert_eq!(wire.layers[0].handle(wire.now, &answer), Input::Consumed);
    let via = wire.layers[0].route(wire.now, other, None).expect("at its new place");
    assert_eq!(via.macs.map(|s| s.destination), Some(mac_address(7)));
}

#[test]
fn nothing_is_learned_of_who_was_not_asked() {
    let (mut wire, _) = pair(PAIRS[0]);
    let frames = [
        arp(9, mac_address(1), Operation::Reply, [10, 0, 0, 9], [10, 0, 0, 1]),
        arp(9, Address::BROADCAST, Operation::Request, [10, 0, 0, 9], [10, 0, 0, 9]),
        arp(9, Address::BROADCAST, Operation::Request, [10, 0, 0, 9], [10, 0, 0, 3]),
    ];
    let before = wire.layers[0].neighbors().count();
    for frame in frames {
        wire.layers[0].handle(wire.now, &frame);
        assert_eq!(wire.layers[0].neighbors().count(), before);
    }
    let foreign = arp(9, Address::BROADCAST, Operation::Request, [192, 0, 2, 9], [10, 0, 0, 1]);
    assert_eq!(wire.layers[0].handle(wire.now, &foreign), Input::Dropped(Cause::ArpIgnored));
    let mut liar = arp(9, mac_address(1), Operation::Reply, [10, 0, 0, 9], [10, 0, 0, 1]);
    liar[14 + 8 + 5] ^= 1;
    assert_eq!(wire.layers[0].handle(wire.now, &liar), Input::Dropped(Cause::ArpIgnored));
}

#[test]
fn a_flood_fills_the_table_and_displaces_none_that_is_in_use() {
    let (mut wire, other) = pair(["10.0.0.1/8", "10.0.0.2/8"]);
    resolve(&mut wire, other);
    let layer = &mut wire.layers[0];
    for n in 0..50_000u32 {
        let sender = Ipv4Addr::from_bits(0x0a01_0000 + n).octets();
        let frame = arp(9, Address::BROADCAST, Operation::Request, sender, [10, 0, 0, 1]);
        layer.handle(wire.now, &frame);
        while layer.poll_transmit(wire.now, &mut [0; 1514]).is_some() {}
    }
    assert!(layer.neighbors().count() <= 1024);
    assert_eq!(state(layer, other), Some(State::Reachable));
    // Questions to nobody are bounded too, and cost the ones that answer nothing at once.
    for n in 0..50_000u32 {
        let to = IpAddr::V4(Ipv4Addr::from_bits(0x0a02_0000 + n));
        let _ = layer.route(wire.now, to, None);
        layer.route(wire.now, other, None).expect("it is used all the time");
    }
    assert!(layer.neighbors().count() <= 1024);
}

#[test]
fn who_finds_no_place_in_the_table_is_answered_all_the_same() {
    let mut config = config(1, &["10.0.0.1/24", "2001:db8::1/64"]);
    config.limits.neighbors = 16;
    let mut wire = Wire::new(vec![config]);
    wire.pass(Duration::from_secs(30));
    let (broadcast, us) = (Address::BROADCAST, [10, 0, 0, 1]);
    for n in 100..116 {
        let _ = wire.layers[0].route(wire.now, IpAddr::V4([10, 0, 0, n].into()), None);
        let answer = arp(n, mac_address(1), Operation::Reply, [10, 0, 0, n], us);
        assert_eq!(wire.layers[0].handle(wire.now, &answer), Input::Consumed);
    }
    wire.pass(Duration::from_secs(1));
    let stranger = arp(9, broadcast, Operation::Request, [10, 0, 0, 9], us);
    assert_eq!(wire.layers[0].handle(wire.now, &stranger), Input::Consumed);
    let reply = wire.transmit(0).expect("a reply");
    assert_eq!((&reply[..6], &reply[12..14]), (&mac_address(9).0[..], &[8, 6][..]));
    let mut body = [0; 32];
    let at =
        Message::NeighborSolicitation { target: "2001:db8::1".parse().unwrap() }.emit(&mut body);
    NdpOption::SourceAddress(mac_address(9)).emit(&mut body[at..]);
    let craft = Craft { hop_limit: 255, ..Craft::new(9, 1, "2001:db8::9", "2001:db8::1") };
    assert_eq!(wire.layers[0].handle(wire.now, &craft.icmpv6(&body)), Input::Consumed);
    assert_eq!(wire.transmit(0).expect("an advertisement")[..6], mac_address(9).0);
    assert_eq!(wire.layers[0].counters().drops.of(Cause::NeighborsFull), 2);
    assert_eq!(state(&wire.layers[0], "10.0.0.9".parse().unwrap()), None);
}

#[test]
fn neighbour_discovery_from_beyond_the_link_is_refused() {
    let (mut wire, _) = pair(PAIRS[1]);
    let mut frame = advertisement(9, "2001:db8::9", (true, true));
    frame[14 + 7] = 254;
    assert_eq!(wire.layers[0].handle(wire.now, &frame), Input::Dropped(Cause::NdpForeign));
    let mut body = [0; 24];
    Message::NeighborSolicitation { target: "2001:db8::1".parse().unwrap() }.emit(&mut body);
    let craft = Craft::new(9, 1, "2001:db8::9", "2001:db8::1");
    let craft = Craft { hop_limit: 255, ..craft };
    let short = craft.icmpv6(&body[..20]);
    assert_eq!(wire.layers[0].handle(wire.now, &short), Input::Dropped(Cause::NdpMalformed));
    let zero = craft.icmpv6(&[&body[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
    assert_eq!(wire.layers[0].handle(wire.now, &zero), Input::Dropped(Cause::NdpMalformed));
    assert_eq!(wire.layers[0].handle(wire.now, &craft.icmpv6(&body)), Input::Consumed);
    let reply = wire.transmit(0).expect("an advertisement");
    assert_eq!(reply[..6], mac_address(9).0);
}

#[test]
fn a_router_without_an_answer_is_asked_and_makes_way() {
    let mut configs = vec![config(1, &["10.0.0.1/24"]), config(2, &["10.0.0.2/24"])];
    configs.push(config(3, &["10.0.0.3/24"]));
    let route = |gateway: &str| Route {
        destination: "0.0.0.0/0".parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
    };
    configs[0].routes = vec![route("10.0.0.2"), route("10.0.0.3")];
    let mut wire = Wire::new(configs);
    let far: IpAddr = "192.0.2.7".parse().unwrap();
    resolve(&mut wire, far);
    let hop = |wire: &mut Wire| wire.layers[0].route(wire.now, far, None).map(|via| via.next_hop);
    let (first, second) = ("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap());
    assert_eq!(hop(&mut wire), Ok(first));
    // It is there: to be doubted does it no harm.
    wire.layers[0].doubt(first);
    wire.pass(Duration::from_secs(8));
    assert_eq!(
        (hop(&mut wire), state(&wire.layers[0], first)),
        (Ok(first), Some(State::Reachable))
    );
    // It is gone, with its address; nobody has noticed yet.
    wire.layers[1].remove_address(wire.now, first);
    assert_eq!(hop(&mut wire), Ok(first));
    wire.layers[0].doubt(first);
    wire.pass(Duration::from_secs(20));
    let _ = hop(&mut wire);
    wire.settle();
    assert_eq!(hop(&mut wire), Ok(second));
}

#[test]
fn beside_a_kernel_it_is_the_kernel_that_asks() {
    let mut configs = vec![config(1, &["10.0.0.1/24"]), config(2, &["10.0.0.2/24"])];
    configs[0].responds = false;
    let mut wire = Wire::new(configs);
    wire.pass(Duration::from_secs(10));
    let other: IpAddr = "10.0.0.2".parse().unwrap();
    wire.log.clear();
    assert_eq!(wire.layers[0].route(wire.now, other, None), Err(NoPath::Resolving));
    wire.settle();
    assert_eq!(wire.log.len(), 0);
    let asked = wire.layers[0].poll_question(wire.now);
    assert_eq!((asked, wire.layers[0].poll_question(wire.now)), (Some(other), None));
    let generation = wire.layers[0].generation();
    wire.layers[0].neighbor_resolved(wire.now, other, mac_address(2));
    assert_ne!(wire.layers[0].generation(), generation);
    let via = wire.layers[0].route(wire.now, other, None).unwrap();
    assert_eq!(via.macs.map(|s| s.destination), Some(mac_address(2)));
    // It has moved, as the kernel says.
    wire.layers[0].neighbor_resolved(wire.now, other, mac_address(7));
    let via = wire.layers[0].route(wire.now, other, None).unwrap();
    assert_eq!(via.macs.map(|s| s.destination), Some(mac_address(7)));
    // Of whom nobody has asked for nothing is kept.
    wire.layers[0].neighbor_resolved(wire.now, "10.0.0.9".parse().unwrap(), mac_address(9));
    assert_eq!(wire.layers[0].neighbors().count(), 1);
}
