//! Addresses are tried before they are used, announced, defended, and expire.

mod wire;

use std::time::Duration;

use fusewire_net::addresses::State;
use fusewire_net::{Cause, Input, Layer, NoPath};
use fusewire_wire::arp::{Operation, Packet};
use fusewire_wire::ndp::Message;
use wire::{Wire, config, mac_address};

fn state(layer: &Layer, text: &str) -> Option<State> {
    let address: std::net::IpAddr = text.parse().expect("an address");
    layer.addresses().find(|e| e.cidr.address() == address).map(|e| e.state)
}

fn with_detection(n: u8, address: &str) -> fusewire_net::Config {
    let mut config = config(n, &[address]);
    config.duplicate_detection = true;
    config
}

#[test]
fn an_ipv6_address_is_used_after_a_second_without_objection() {
    let mut wire = Wire::new(vec![with_detection(1, "2001:db8::1/64")]);
    let begin = wire.now;
    let to = "2001:db8::2".parse().unwrap();
    assert_eq!(state(&wire.layers[0], "2001:db8::1"), Some(State::Tentative));
    assert_eq!(wire.layers[0].route(wire.now, to, None), Err(NoPath::NoRoute));
    let own = "2001:db8::1".parse().unwrap();
    assert_eq!(wire.layers[0].route(wire.now, to, Some(own)), Err(NoPath::NotOurs));
    wire.pass(Duration::from_secs(3));
    assert_eq!(state(&wire.layers[0], "2001:db8::1"), Some(State::Preferred));
    let solicits = |f: &&(_, _, Vec<u8>)| f.2.get(54) == Some(&135);
    let probes: Vec<_> = wire.log.iter().filter(solicits).collect();
    assert_eq!(probes.len(), 1, "DupAddrDetectTransmits");
    assert!(probes[0].0 - begin <= Duration::from_secs(1), "MAX_RTR_SOLICITATION_DELAY");
    assert_eq!(probes[0].2[22..38], [0; 16], "from nobody");
    assert_eq!(probes[0].2[..6], [0x33, 0x33, 0xff, 0, 0, 1]);
    let report = wire.log.iter().position(|f| f.2[54..].contains(&143)).expect("a report");
    let probe = wire.log.iter().position(|f| f.2.get(54) == Some(&135)).expect("a probe");
    assert!(report < probe, "the group is joined before (RFC 4862, section 5.4.2)");
}

#[test]
fn of_two_that_want_one_address_at_most_one_gets_it() {
    let configs = vec![with_detection(1, "2001:db8::7/64"), with_detection(2, "2001:db8::7/64")];
    let mut wire = Wire::new(configs);
    wire.pass(Duration::from_secs(5));
    let states: Vec<_> = wire.layers.iter().map(|l| state(l, "2001:db8::7")).collect();
    assert!(states.contains(&Some(State::Duplicate)), "{states:?}");
    // One that came later always yields.
    let configs = vec![config(1, &["2001:db8::7/64"]), with_detection(2, "2001:db8::7/64")];
    let mut wire = Wire::new(configs);
    wire.pass(Duration::from_secs(5));
    assert_eq!(state(&wire.layers[0], "2001:db8::7"), Some(State::Preferred));
    assert_eq!(state(&wire.layers[1], "2001:db8::7"), Some(State::Duplicate));
}

#[test]
fn a_probe_of_our_own_that_comes_back_is_no_objection() {
    let mut wire = Wire::new(vec![with_detection(1, "2001:db8::1/64")]);
    for _ in 0..5 {
        wire.pass(Duration::from_millis(500));
        for (_, _, frame) in std::mem::take(&mut wire.log) {
            wire.layers[0].handle(wire.now, &frame);
        }
    }
    assert_eq!(state(&wire.layers[0], "2001:db8::1"), Some(State::Preferred));
}

#[test]
fn an_ipv4_address_is_announced_twice_and_defended_once_in_ten_seconds() {
    let mut wire = Wire::new(vec![config(1, &["10.0.0.1/24"])]);
    wire.pass(Duration::from_secs(5));
    assert_eq!(wire.log.len(), 2, "announcements");
    for (_, _, frame) in &wire.log {
        let packet = Packet::parse(&frame[14..]).unwrap();
        assert_eq!((packet.operation, packet.sender_ip), (Operation::Request, packet.target_ip));
    }
    let mut thief = wire.log[0].2.clone();
    thief[6..12].copy_from_slice(&mac_address(9).0);
    thief[22..28].copy_from_slice(&mac_address(9).0);
    for _ in 0..100 {
        let conflict = Input::Dropped(Cause::AddressConflict);
        assert_eq!(wire.layers[0].handle(wire.now, &thief), conflict);
        wire.pass(Duration::from_millis(290));
    }
    assert_eq!(wire.log.len() - 2, 3, "29 seconds of theft");
    assert_eq!(state(&wire.layers[0], "10.0.0.1"), Some(State::Preferred));
    assert_eq!(wire.layers[0].counters().drops.of(Cause::AddressConflict), 100);
}

#[test]
fn a_stolen_ipv6_address_is_advertised_again() {
    let mut wire = Wire::new(vec![config(1, &["2001:db8::1/64"])]);
    wire.pass(Duration::from_secs(5));
    let news = wire.log.iter().rfind(|f| f.2.get(54) == Some(&136)).expect("news").2.clone();
    let parsed = Message::parse(&news[54..]).unwrap();
    assert!(matches!(parsed, Some((Message::NeighborAdvertisement { solicited: false, .. }, 24))));
    let quiet = wire.log.len();
    let mut other = wire::Craft::new(9, 9, "2001:db8::9", "ff02::1");
    other.hop_limit = 255;
    let mut body = news[54..].to_vec();
    body[26..32].copy_from_slice(&mac_address(9).0);
    let mut claim = other.icmpv6(&body);
    claim[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    let conflict = Input::Dropped(Cause::AddressConflict);
    assert_eq!(wire.layers[0].handle(wire.now, &claim), conflict);
    wire.pass(Duration::from_secs(5));
    assert_eq!(wire.log.len(), quiet + 1);
    assert_eq!(wire.log[quiet].2[54..], news[54..]);
}

#[test]
fn martians_and_foreigners_are_told_apart() {
    let mut wire = Wire::new(vec![config(1, &["10.0.0.1/24", "2001:db8::1/64"])]);
    wire.pass(Duration::from_secs(5));
    let cases = [
        ("127.0.0.1", "10.0.0.1", Cause::SourceMartian),
        ("0.0.0.0", "10.0.0.1", Cause::SourceMartian),
        ("224.0.0.1", "10.0.0.1", Cause::SourceMartian),
        ("240.0.0.1", "10.0.0.1", Cause::SourceMartian),
        ("10.0.0.255", "10.0.0.1", Cause::SourceMartian),
        ("10.0.0.1", "10.0.0.1", Cause::SourceOwn),
        ("10.0.0.2", "127.0.0.1", Cause::DestinationMartian),
        ("10.0.0.2", "0.0.0.0", Cause::DestinationMartian),
        ("10.0.0.2", "10.0.0.3", Cause::DestinationForeign),
        ("10.0.0.2", "239.1.1.1", Cause::DestinationGroup),
        ("ff02::1", "2001:db8::1", Cause::SourceMartian),
        ("::1", "2001:db8::1", Cause::SourceMartian),
        ("::", "2001:db8::1", Cause::SourceMartian),
        ("::ffff:10.0.0.2", "2001:db8::1", Cause::SourceMartian),
        ("2001:db8::1", "2001:db8::1", Cause::SourceOwn),
        ("2001:db8::2", "::1", Cause::DestinationMartian),
        ("2001:db8::2", "::ffff:10.0.0.1", Cause::DestinationMartian),
        ("2001:db8::2", "2001:db8::3", Cause::DestinationForeign),
        ("2001:db8::2", "ff15::1", Cause::DestinationGroup),
    ];
    for (source, destination, cause) in cases {
        let frame = wire::Craft::new(2, 1, source, destination).udp((1, 2), b"x");
        let input = wire.layers[0].handle(wire.now, &frame);
        assert_eq!(input, Input::Dropped(cause), "{source} to {destination}");
    }
    let craft = wire::Craft::new(2, 1, "10.0.0.2", "10.0.0.1");
    let mut all = craft.udp((1, 2), b"x");
    all[..6].fill(0xff);
    let cause = Cause::DestinationBroadcastFrame;
    assert_eq!(wire.layers[0].handle(wire.now, &all), Input::Dropped(cause));
    let broadcast = wire::Craft::new(2, 1, "10.0.0.2", "10.0.0.255");
    let Input::Transport(datagram) = wire.layers[0].handle(wire.now, &broadcast.udp((1, 2), b"x"))
    else {
        panic!("UDP to all is delivered")
    };
    assert_eq!(datagram.cast, fusewire_net::Cast::Broadcast);
    let tcp = broadcast.packet(6, &[0; 20]);
    assert_eq!(wire.layers[0].handle(wire.now, &tcp), Input::Dropped(Cause::TcpToGroup));
    assert_eq!(wire.transmit(0), None, "nobody is answered");
}
