//! Two hosts find each other, and what one sends reaches the other's transport.

mod wire;

use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_net::{
    Cast, Cause, Config, Input, Layer, Link, MAX_HEADER_LEN, NoPath, Packet, Payload,
};
use fusewire_wire::{icmp, icmpv6, udp};
use wire::{Craft, Wire, config, mac_address};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn pair() -> Wire {
    let one = ["10.0.0.1/24", "2001:db8::1/64"];
    let two = ["10.0.0.2/24", "2001:db8::2/64"];
    Wire::new(vec![config(1, &one), config(2, &two)])
}

#[test]
fn a_datagram_goes_from_host_to_host_over_both_versions() {
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
        let mut wire = pair();
        wire.settle();
        let (from, to) = (ip(from), ip(to));
        let before = wire.layers[0].generation();
        assert_eq!(wire.layers[0].route(wire.now, to, None), Err(NoPath::Resolving));
        wire.settle();
        assert_ne!(wire.layers[0].generation(), before, "it is news that the neighbour answered");
        let via = wire.layers[0].route(wire.now, to, None).expect("a path");
        assert_eq!((via.source, via.next_hop, via.mtu), (from, to, 1500));
        let mut frame = vec![0; MAX_HEADER_LEN];
        let packet = Packet { traffic_class: 2, ..Packet::new(udp::NUMBER, 9) };
        let len = via.emit(&packet, &mut frame);
        assert_eq!(len, via.header_len());
        frame.truncate(len);
        frame.extend([0x33; 9]);
        let Input::Transport(datagram) = wire.layers[1].handle(wire.now, &frame) else {
            panic!("not delivered")
        };
        assert_eq!((datagram.source, datagram.destination), (from, to));
        assert_eq!((datagram.cast, datagram.traffic_class), (Cast::Unicast, 2));
        assert_eq!(datagram.hop_limit, 64);
        assert_eq!(datagram.pseudo_header, via.pseudo_header_sum(udp::NUMBER, 9));
        assert_eq!(datagram.payload, Payload::Frame { start: len, end: len + 9 });
        assert_eq!(wire.layers[1].payload(&frame, &datagram.payload), [0x33; 9]);
        // The other side has learned the way back from the question.
        assert!(wire.layers[1].route(wire.now, from, None).is_ok());
    }
}

#[test]
fn an_echo_is_answered_also_when_the_asker_must_be_found_first() {
    let mut wire = pair();
    wire.settle();
    let layer = &mut wire.layers[1];
    for (from, to) in [("10.0.0.7", "10.0.0.2"), ("2001:db8::7", "2001:db8::2")] {
        let (from, to) = (ip(from), ip(to));
        let mut asker = Layer::new(config(7, &[&format!("{from}/24")]), &[9; 32], wire.now);
        asker.set_neighbor(to, Some(mac_address(2)));
        let via = asker.route(wire.now, to, None).expect("a path");
        let mut frame = vec![0; via.header_len()];
        let protocol = if to.is_ipv4() { icmp::NUMBER } else { icmpv6::NUMBER };
        via.emit(&Packet::new(protocol, 20), &mut frame);
        let mut body = [0x61; 20];
        if to.is_ipv4() {
            icmp::Message::EchoRequest { id: 7, seq: 1 }.emit(None, &mut body);
        } else {
            let sum = via.pseudo_header_sum(protocol, 20);
            icmp::Message::EchoRequest { id: 7, seq: 1 }.emit(Some(sum), &mut body);
        }
        frame.extend(body);
        assert_eq!(layer.handle(wire.now, &frame), Input::Consumed);
        let mut out = [0; 1514];
        let len = layer.poll_transmit(wire.now, &mut out).expect("a question");
        assert_eq!(layer.poll_transmit(wire.now, &mut [0; 1514]), None, "the answer waits");
        assert_eq!(asker.handle(wire.now, &out[..len]), Input::Consumed);
        let len = asker.poll_transmit(wire.now, &mut out).expect("its answer");
        // Its own news of addresses come first.
        let mut frames = vec![out[..len].to_vec()];
        while let Some(len) = asker.poll_transmit(wire.now, &mut out) {
            frames.push(out[..len].to_vec());
        }
        for frame in frames {
            layer.handle(wire.now, &frame);
        }
        let len = layer.poll_transmit(wire.now, &mut out).expect("the echo");
        let reply = &out[len - 20..len];
        if to.is_ipv4() {
            assert_eq!(
                icmp::Message::parse(None, reply),
                Ok(icmp::Message::EchoReply { id: 7, seq: 1 })
            );
        } else {
            let sum = via.pseudo_header_sum(protocol, 20);
            let reply = icmp::Message::parse(Some(sum), reply);
            assert_eq!(reply, Ok(icmp::Message::EchoReply { id: 7, seq: 1 }));
        }
        assert_eq!(reply[8..], [0x61; 12]);
    }
}

#[test]
fn a_neighbour_that_is_not_there_is_given_up_after_three_questions() {
    let mut wire = pair();
    wire.settle();
    wire.pass(Duration::from_secs(10));
    let asked = wire.log.len();
    let dead = ip("10.0.0.9");
    assert_eq!(wire.layers[0].route(wire.now, dead, None), Err(NoPath::Resolving));
    wire.pass(Duration::from_millis(3_100));
    assert_eq!(wire.layers[0].route(wire.now, dead, None), Err(NoPath::Unreachable));
    let questions: Vec<Instant> = wire.log[asked..].iter().map(|l| l.0).collect();
    assert_eq!(questions.len(), 3);
    assert!((questions[2] - questions[0]).as_millis().abs_diff(2000) <= 20);
    wire.pass(Duration::from_secs(2));
    assert_eq!(wire.layers[0].route(wire.now, dead, None), Err(NoPath::Resolving), "again");
}

#[test]
fn a_bare_ip_link_has_no_neighbours() {
    let mut config = Config::new(Link::Ip);
    config.addresses = vec!["192.168.0.1/16".parse().unwrap()];
    let mut layer = Layer::new(config, &[1; 32], Instant::ZERO);
    let via = layer.route(Instant::ZERO, ip("192.168.7.7"), None).expect("a path");
    assert_eq!((via.macs, via.header_len()), (None, 20));
    let mut packet = vec![0; 20];
    via.emit(&Packet::new(6, 4), &mut packet);
    packet.extend([0; 4]);
    assert_eq!(layer.handle(Instant::ZERO, &packet), Input::Dropped(Cause::DestinationForeign));
    assert_eq!(layer.counters().drops.of(Cause::DestinationForeign), 1);
    packet[12..20].rotate_left(4);
    assert!(matches!(layer.handle(Instant::ZERO, &packet), Input::Transport(_)));
    assert!(Sum::of(&packet[..20]).verifies());
    assert_eq!(layer.poll_timeout(), None);
}

#[test]
fn the_last_hop_is_not_counted() {
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
        let mut wire = pair();
        wire.settle();
        for hop_limit in [0, 1, 255] {
            let craft = Craft { hop_limit, ..Craft::new(1, 2, from, to) };
            let input = wire.layers[1].handle(wire.now, &craft.udp((1, 2), b"hello"));
            let Input::Transport(datagram) = input else { panic!("{hop_limit}: {input:?}") };
            assert_eq!(datagram.hop_limit, hop_limit, "RFC 1122, section 3.2.1.7");
        }
    }
}

#[test]
fn what_is_dropped_is_counted_by_its_cause() {
    let mut wire = pair();
    wire.settle();
    let udp = Craft::new(1, 2, "10.0.0.1", "10.0.0.2").udp((1, 2), b"hello");
    let udp6 = Craft::new(1, 2, "2001:db8::1", "2001:db8::2").udp((1, 2), b"hello");
    let with = |at: usize, value: u8| {
        let mut frame = udp.clone();
        frame[at] = value;
        frame
    };
    let known = [
        (udp[..13].to_vec(), Cause::EthernetMalformed),
        (with(5, 77), Cause::EthernetDestination),
        (with(6, 1), Cause::EthernetSource),
        (with(12, 0x88), Cause::EthernetType),
        (with(14, 0x65), Cause::Ipv4Malformed),
        (with(14, 0x44), Cause::Ipv4Malformed),
        (with(22, 63), Cause::Ipv4Checksum),
        (udp[..30].to_vec(), Cause::Ipv4Malformed),
        (udp6[..60].to_vec(), Cause::Ipv6Malformed),
    ];
    for (frame, cause) in known {
        let before = wire.layers[1].counters().drops.of(cause);
        assert_eq!(wire.layers[1].handle(wire.now, &frame), Input::Dropped(cause));
        assert_eq!(wire.layers[1].counters().drops.of(cause), before + 1, "{cause:?}");
    }
    // Whatever comes: each frame is delivered, an error, for the layer itself, or counted once (what an
    // answer costs, or another datagram, counts beside it).
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    let layer = &mut wire.layers[1];
    for turn in 0..50_000 {
        let mut frame = if turn % 2 == 0 { udp.clone() } else { udp6.clone() };
        for _ in 0..1 + random() % 3 {
            let at = random() % frame.len();
            frame[at] = random() as u8;
        }
        if frame[14] == 0x45 && turn % 4 == 0 {
            // So that more than the checksum is looked at.
            frame[24..26].fill(0);
            let sum = Sum::of(&frame[14..34]).checksum();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        frame.truncate(frame.len() - random() % 3);
        let sums = |layer: &Layer| {
            let counters = layer.counters();
            let other = Cause::FragmentEvicted.name();
            let drops = counters.drops.named();
            let drops = drops.filter(|(name, _)| *name != other && !name.starts_with("answer-"));
            let drops: u64 = drops.map(|(_, drops)| drops).sum();
            (counters.received, counters.delivered, drops)
        };
        let before = sums(layer);
        let input = layer.handle(wire.now, &frame);
        let (delivered, dropped) = match input {
            Input::Transport(_) => (1, 0),
            Input::Dropped(_) => (0, 1),
            Input::Consumed | Input::Error(_) => (0, 0),
        };
        let after = (before.0 + 1, before.1 + delivered, before.2 + dropped);
        assert_eq!(sums(layer), after, "{input:?}: {frame:02x?}");
    }
}

#[test]
fn a_link_that_takes_less_makes_every_path_narrower() {
    for to in ["10.0.0.2", "2001:db8::2"] {
        let mut wire = pair();
        wire.settle();
        let _ = wire.layers[0].route(wire.now, ip(to), None);
        wire.settle();
        let before = wire.layers[0].route(wire.now, ip(to), None).expect("a path");
        for mtu in [1300, 9000] {
            wire.layers[0].set_mtu(mtu);
            assert_ne!(
                wire.layers[0].generation(),
                before.generation,
                "who keeps a path asks again"
            );
            let now = wire.layers[0].route(wire.now, ip(to), None).expect("a path");
            assert_eq!(now.mtu, mtu);
        }
    }
}
