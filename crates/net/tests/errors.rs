//! ICMP errors: sent where they must be, never where they must not, and not too often; those about us are
//! believed as far as they can be.

mod wire;

use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::Seq;
use fusewire_net::{Cause, Datagram, Input, Layer, PathError, PathErrorKind};
use fusewire_wire::ethernet::HEADER_LEN;
use fusewire_wire::{icmp, icmpv6, tcp, udp, xtp};
use wire::{Craft, Wire, config, mac_address};

const ENDS: [[&str; 2]; 2] = [["10.0.0.2", "10.0.0.1"], ["2001:db8::2", "2001:db8::1"]];

fn one() -> Wire {
    let mut wire = Wire::new(vec![config(1, &["10.0.0.1/24", "2001:db8::1/64"])]);
    wire.pass(Duration::from_secs(5));
    for n in 2..200 {
        let of = |text: String| text.parse::<IpAddr>().unwrap();
        wire.layers[0].set_neighbor(of(format!("10.0.0.{n}")), Some(mac_address(2)));
        wire.layers[0].set_neighbor(of(format!("2001:db8::{n:x}")), Some(mac_address(2)));
    }
    wire
}

fn delivered(wire: &mut Wire, frame: &[u8]) -> Datagram {
    match wire.layers[0].handle(wire.now, frame) {
        Input::Transport(datagram) => datagram,
        input => panic!("{input:?}"),
    }
}

/// The ICMP message that was sent, with its header.
fn sent(wire: &mut Wire) -> Option<Vec<u8>> {
    let frame = wire.transmit(0)?;
    let at = HEADER_LEN + if frame[12] == 0x08 { 20 } else { 40 };
    Some(frame[at..].to_vec())
}

#[test]
fn nobodys_port_is_told_with_a_quote() {
    for ends in ENDS {
        let mut wire = one();
        let frame = Craft::new(2, 1, ends[0], ends[1]).udp((5, 6), &[7; 900]);
        let datagram = delivered(&mut wire, &frame);
        assert!(wire.layers[0].answer_unreachable(wire.now, &frame, &datagram));
        let message = sent(&mut wire).expect("a message");
        let (kind, most) = if frame[12] == 8 { ([3, 3], 556) } else { ([1, 4], 1240) };
        assert_eq!(message[..2], kind);
        let quote = (frame.len() - HEADER_LEN).min(most - 8);
        assert_eq!(message[8..], frame[HEADER_LEN..HEADER_LEN + quote]);
    }
}

#[test]
fn what_came_in_fragments_or_to_many_is_quoted_or_not_answered() {
    let mut wire = one();
    let craft = Craft::new(2, 1, "10.0.0.2", "10.0.0.1");
    let whole = craft.udp((5, 6), &[7; 2000]);
    let body = &whole[HEADER_LEN + 20..];
    wire.layers[0].handle(wire.now, &craft.piece(udp::NUMBER, 1, &body[..1480], 0, true));
    let last = craft.piece(udp::NUMBER, 1, &body[1480..], 1480, false);
    let datagram = delivered(&mut wire, &last);
    assert!(wire.layers[0].answer_unreachable(wire.now, &last, &datagram));
    let message = sent(&mut wire).expect("a message");
    assert_eq!(message[8 + 20..8 + 20 + 500], body[..500]);

    let all = Craft::new(2, 1, "10.0.0.2", "10.0.0.255").udp((5, 6), b"x");
    let datagram = delivered(&mut wire, &all);
    assert!(!wire.layers[0].answer_unreachable(wire.now, &all, &datagram));
    assert!(wire.layers[0].answer(wire.now, &datagram, 20).is_none());
    assert_eq!(wire.layers[0].counters().drops.of(Cause::AnswerForbidden), 2);
    assert_eq!(wire.transmit(0), None);
}

#[test]
fn an_unknown_protocol_is_told_but_never_an_error_of_it() {
    for (ends, kind) in ENDS.into_iter().zip([[3, 2], [4, 1]]) {
        let mut wire = one();
        let craft = Craft::new(2, 1, ends[0], ends[1]);
        let frame = craft.packet(200, &[1; 40]);
        let dropped = Input::Dropped(Cause::ProtocolUnknown);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), dropped);
        let message = sent(&mut wire).expect("a message");
        assert_eq!(message[..2], kind);
        if kind[0] == 4 {
            assert_eq!(message[4..8], [0, 0, 0, 6], "the field that named it");
        }
        let group = if kind[0] == 4 { "ff02::1" } else { "224.0.0.1" };
        let to_group = Craft::new(2, 1, ends[0], group).packet(200, &[1; 40]);
        assert_eq!(wire.layers[0].handle(wire.now, &to_group), dropped);
        assert_eq!(wire.transmit(0), None);
    }
}

#[test]
fn extension_headers_that_cannot_be_are_told_where() {
    let craft = Craft::new(2, 1, ENDS[1][0], ENDS[1][1]);
    // A routing header with something left; an option to be reported; hop-by-hop behind another.
    let cases: [(u8, &[u8], [u8; 2], u32); 4] = [
        (43, &[17, 0, 0, 1, 0, 0, 0, 0], [4, 0], 43),
        (60, &[17, 0, 0x80, 1, 0, 1, 1, 0], [4, 2], 42),
        (60, &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0], [4, 1], 40),
        (60, &[17, 0, 0xc0, 1, 0, 1, 1, 0], [4, 2], 42),
    ];
    for (first, headers, kind, pointer) in cases {
        let mut wire = one();
        let frame = craft.packet(first, &[headers, &[0; 16]].concat());
        let dropped = Input::Dropped(Cause::Ipv6Extension);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), dropped);
        let message = sent(&mut wire).expect("a message");
        assert_eq!((&message[..2], &message[4..8]), (&kind[..], &pointer.to_be_bytes()[..]));
    }
    // To be dropped in silence, and to be passed over.
    for (kind, delivered) in [(0x40, false), (0x00, true), (0x1e, true)] {
        let mut wire = one();
        let mut body = vec![17, 0, kind, 4, 0, 0, 0, 0];
        body.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        let input = wire.layers[0].handle(wire.now, &craft.packet(60, &body));
        assert_eq!(matches!(input, Input::Transport(_)), delivered, "{kind:#x}");
        assert_eq!(wire.transmit(0), None);
    }
}

#[test]
fn source_routes_are_dropped() {
    let mut wire = one();
    let mut frame = Craft::new(2, 1, "10.0.0.2", "10.0.0.1").udp((1, 2), b"abcdefgh");
    let body = frame.split_off(HEADER_LEN + 20);
    frame[14] = 0x47;
    frame[16..18].copy_from_slice(&(28 + body.len() as u16).to_be_bytes());
    frame.extend([131, 7, 8, 10, 0, 0, 9, 0]);
    frame.extend(body);
    frame[24..26].fill(0);
    let sum = fusewire_base::Sum::of(&frame[14..42]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let dropped = Input::Dropped(Cause::Ipv4SourceRoute);
    assert_eq!(wire.layers[0].handle(wire.now, &frame), dropped);
}

#[test]
fn answers_are_limited_in_number_but_not_for_others() {
    let mut wire = one();
    let mut answered = 0;
    let mut flood = |wire: &mut Wire, source: &str| {
        let frame = Craft::new(2, 1, source, "10.0.0.1").udp((5, 6), b"x");
        let datagram = delivered(wire, &frame);
        let sent = wire.layers[0].answer_unreachable(wire.now, &frame, &datagram);
        while wire.transmit(0).is_some() {}
        answered += u32::from(sent);
        sent
    };
    for _ in 0..1000 {
        flood(&mut wire, "10.0.0.3");
    }
    assert!(flood(&mut wire, "10.0.0.4"), "another one still gets an answer");
    assert!(answered < 20, "{answered}");
    assert!(wire.layers[0].counters().drops.of(Cause::AnswerLimited) > 980);
}

/// An error from `from` about a TCP or UDP packet of ours to `remote`.
fn about(from: &str, ours: &str, remote: &str, protocol: u8, len: u16, header: [u8; 8]) -> Vec<u8> {
    let craft = Craft::new(2, 1, ours, remote)
        .packet(protocol, &[&[0x12, 0x34, 0, 80, 1, 2, 3, 4][..], &[0; 20]].concat());
    let mut quote = craft[HEADER_LEN..].to_vec();
    let v6 = ours.contains(':');
    if v6 {
        quote[4..6].copy_from_slice(&(len - 40).to_be_bytes());
    } else {
        quote[2..4].copy_from_slice(&len.to_be_bytes());
    }
    let message = [&header[..], &quote].concat();
    let craft = Craft::new(2, 1, from, ours);
    if v6 {
        craft.icmpv6(&message)
    } else {
        let mut message = message;
        let sum = fusewire_base::Sum::of(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        craft.packet(icmp::NUMBER, &message)
    }
}

#[test]
fn errors_about_our_packets_name_the_flow() {
    let mut wire = one();
    let kinds: [([u8; 8], PathErrorKind); 5] = [
        ([3, 3, 0, 0, 0, 0, 0, 0], PathErrorKind::Refused),
        ([3, 1, 0, 0, 0, 0, 0, 0], PathErrorKind::Unreachable(1)),
        ([11, 0, 0, 0, 0, 0, 0, 0], PathErrorKind::TimeExceeded),
        ([12, 0, 0, 0, 5, 0, 0, 0], PathErrorKind::ParameterProblem),
        ([3, 4, 0, 0, 0, 0, 5, 0], PathErrorKind::TooBig { mtu: 1280 }),
    ];
    for (header, kind) in kinds {
        let frame = about("192.0.2.1", "10.0.0.1", "198.51.100.7", tcp::NUMBER, 1500, header);
        let expected = PathError {
            kind,
            protocol: tcp::NUMBER,
            local: "10.0.0.1".parse().unwrap(),
            local_port: 0x1234,
            remote: "198.51.100.7".parse().unwrap(),
            remote_port: 80,
            upper: [0x12, 0x34, 0, 80, 1, 2, 3, 4],
            seq: Some(Seq(0x0102_0304)),
            reporter: "192.0.2.1".parse().unwrap(),
        };
        assert_eq!(wire.layers[0].handle(wire.now, &frame), Input::Error(expected));
    }
    let header = [1, 4, 0, 0, 0, 0, 0, 0];
    let frame = about("2001:db8::9", "2001:db8::1", "2001:db8:9::7", udp::NUMBER, 600, header);
    let Input::Error(error) = wire.layers[0].handle(wire.now, &frame) else { panic!() };
    assert_eq!((error.kind, error.seq, error.remote_port), (PathErrorKind::Refused, None, 80));
    let foreign = about("192.0.2.1", "10.0.0.1", "198.51.100.7", 99, 100, [3, 3, 0, 0, 0, 0, 0, 0]);
    let ignored = Input::Dropped(Cause::IcmpIgnored);
    assert_eq!(wire.layers[0].handle(wire.now, &foreign), ignored);
    let mut cut = about("192.0.2.1", "10.0.0.1", "198.51.100.7", 6, 100, [0; 8]);
    cut.truncate(HEADER_LEN + 20 + 8 + 24);
    let length = (cut.len() - HEADER_LEN) as u16;
    cut[16..18].copy_from_slice(&length.to_be_bytes());
    let malformed = wire.layers[0].handle(wire.now, &cut);
    assert!(matches!(malformed, Input::Dropped(_)));
}

#[test]
fn what_somebody_speaks_besides_is_handed_up_and_so_is_what_is_said_of_it() {
    for ends in ENDS {
        let mut wire = one();
        let frame = Craft::new(2, 1, ends[0], ends[1]).packet(xtp::NUMBER, &[7; 900]);
        let is_v6 = ends[0].contains(':');
        let header = if is_v6 { [1, 4, 0, 0, 0, 0, 0, 0] } else { [3, 2, 0, 0, 0, 0, 0, 0] };
        let error = about(ends[0], ends[1], ends[0], xtp::NUMBER, 600, header);
        let unknown = Input::Dropped(Cause::ProtocolUnknown);
        let ignored = Input::Dropped(Cause::IcmpIgnored);
        for spoken in [false, true, false] {
            wire.layers[0].speak(xtp::NUMBER, spoken);
            wire.now += Duration::from_secs(10);
            if !spoken {
                assert_eq!(wire.layers[0].handle(wire.now, &frame), unknown);
                let message = sent(&mut wire).expect("nobody speaks it");
                assert_eq!(message[..2], if is_v6 { [4, 1] } else { [3, 2] });
                assert_eq!(wire.layers[0].handle(wire.now, &error), ignored);
                continue;
            }
            let datagram = delivered(&mut wire, &frame);
            assert_eq!(datagram.protocol, xtp::NUMBER);
            assert_eq!(wire.layers[0].payload(&frame, &datagram.payload), [7; 900]);
            assert!(wire.layers[0].answer_unreachable(wire.now, &frame, &datagram));
            let message = sent(&mut wire).expect("nobody speaks it there");
            assert_eq!(message[..2], if is_v6 { [1, 4] } else { [3, 2] });
            let Input::Error(error) = wire.layers[0].handle(wire.now, &error) else { panic!() };
            assert_eq!(error.kind, PathErrorKind::Refused);
            assert_eq!((error.protocol, error.seq), (xtp::NUMBER, None));
            assert_eq!((error.local_port, error.remote_port), (0, 0), "it has no ports");
            assert_eq!(error.upper, [0x12, 0x34, 0, 80, 1, 2, 3, 4]);
        }
    }
    // A host that does not speak it says so in another way over IPv6.
    let mut wire = one();
    wire.layers[0].speak(xtp::NUMBER, true);
    let header = [4, 1, 0, 0, 0, 0, 0, 6];
    let frame = about("2001:db8::9", "2001:db8::1", "2001:db8::9", xtp::NUMBER, 600, header);
    let Input::Error(error) = wire.layers[0].handle(wire.now, &frame) else { panic!() };
    assert_eq!(error.kind, PathErrorKind::Refused);
}

fn mtu_to(layer: &mut Layer, now: fusewire_base::Instant, to: &str) -> (usize, bool) {
    let via = layer.route(now, to.parse().unwrap(), None).expect("a path");
    (via.mtu, via.may_fragment)
}

#[test]
fn too_big_counts_when_the_transport_accepts_it_and_for_ten_minutes() {
    for (ends, header) in
        ENDS.into_iter().zip([[3, 4, 0, 0, 0, 0, 0x05, 0x14], [2, 0, 0, 0, 0, 0, 0x05, 0x14]])
    {
        let mut wire = one();
        let (ours, remote) = (ends[1], ends[0]);
        let frame = about(remote, ours, remote, tcp::NUMBER, 1500, header);
        let Input::Error(error) = wire.layers[0].handle(wire.now, &frame) else { panic!() };
        assert_eq!(error.kind, PathErrorKind::TooBig { mtu: 1300 });
        let generation = wire.layers[0].generation();
        assert_eq!(mtu_to(&mut wire.layers[0], wire.now, remote), (1500, false));
        wire.layers[0].accept_too_big(wire.now, &error);
        assert_ne!(wire.layers[0].generation(), generation);
        assert_eq!(mtu_to(&mut wire.layers[0], wire.now, remote), (1300, false));
        let forged = Input::Dropped(Cause::IcmpForgedMtu);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), forged, "nothing new");
        wire.pass(Duration::from_secs(599));
        assert_eq!(mtu_to(&mut wire.layers[0], wire.now, remote), (1300, false));
        wire.pass(Duration::from_secs(2));
        assert_eq!(mtu_to(&mut wire.layers[0], wire.now, remote), (1500, false));
    }
}

#[test]
fn forged_too_big_is_refused() {
    let mut wire = one();
    let v4 = |len, mtu: u16| {
        let [a, b] = mtu.to_be_bytes();
        about("10.0.0.2", "10.0.0.1", "10.0.0.2", tcp::NUMBER, len, [3, 4, 0, 0, 0, 0, a, b])
    };
    let v6 = |len, mtu: u16| {
        let [a, b] = mtu.to_be_bytes();
        let ends = ENDS[1];
        about(ends[0], ends[1], ends[0], tcp::NUMBER, len, [2, 0, 0, 0, 0, 0, a, b])
    };
    for frame in [v4(1500, 67), v4(1500, 1500), v4(600, 1400), v6(1500, 1279), v6(1300, 1300)] {
        let forged = Input::Dropped(Cause::IcmpForgedMtu);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), forged);
    }
    let mut without_df = v4(1500, 1400);
    let at = HEADER_LEN + 20 + 8 + 6;
    without_df[at] &= !0x40;
    let icmp = HEADER_LEN + 20;
    without_df[icmp + 2..icmp + 4].fill(0);
    let sum = fusewire_base::Sum::of(&without_df[icmp..]).checksum();
    without_df[icmp + 2..icmp + 4].copy_from_slice(&sum.to_be_bytes());
    let forged = Input::Dropped(Cause::IcmpForgedMtu);
    assert_eq!(wire.layers[0].handle(wire.now, &without_df), forged);
    let other = about("10.0.0.2", "10.0.0.1", "10.0.0.2", 6, 1500, [3, 4, 0, 0, 0, 0, 5, 0]);
    let mut stranger = other.clone();
    stranger[HEADER_LEN + 20 + 8 + 15] = 9;
    stranger[icmp + 2..icmp + 4].fill(0);
    let sum = fusewire_base::Sum::of(&stranger[icmp..]).checksum();
    stranger[icmp + 2..icmp + 4].copy_from_slice(&sum.to_be_bytes());
    let foreign = Input::Dropped(Cause::IcmpForeign);
    assert_eq!(wire.layers[0].handle(wire.now, &stranger), foreign);
    // A path of 300 bytes is taken for one of 552 whose routers may cut.
    let Input::Error(error) = wire.layers[0].handle(wire.now, &v4(1500, 300)) else { panic!() };
    wire.layers[0].accept_too_big(wire.now, &error);
    assert_eq!(mtu_to(&mut wire.layers[0], wire.now, "10.0.0.2"), (552, true));
}

#[test]
fn a_black_hole_is_found_by_losses() {
    let mut wire = one();
    let remote = "10.0.0.2".parse().unwrap();
    let lost: Vec<bool> =
        (0..8).map(|_| wire.layers[0].path_lost(wire.now, remote, 1500)).collect();
    assert_eq!(lost.iter().filter(|l| **l).count(), 2);
    assert_eq!(mtu_to(&mut wire.layers[0], wire.now, "10.0.0.2"), (1492, false));
}

#[test]
fn a_reset_waits_for_its_receiver_and_goes_through_the_layer() {
    let mut wire = one();
    let craft = Craft::new(2, 1, "10.0.0.2", "10.0.0.1");
    let datagram = delivered(&mut wire, &craft.packet(tcp::NUMBER, &[0; 20]));
    let out = wire.layers[0].answer(wire.now, &datagram, 20).expect("a buffer");
    out.copy_from_slice(&[0x55; 20]);
    let frame = wire.transmit(0).expect("the reset");
    assert_eq!((frame.len(), &frame[34..]), (54, &[0x55; 20][..]));
    assert_eq!(frame[30..34], [10, 0, 0, 2]);
    let pings = Craft::new(2, 1, "10.0.0.2", "224.0.0.1");
    let mut ping = [0x61; 16];
    icmp::Message::EchoRequest { id: 1, seq: 1 }.emit(None, &mut ping);
    let dropped = Input::Dropped(Cause::IcmpBroadcast);
    assert_eq!(wire.layers[0].handle(wire.now, &pings.packet(icmp::NUMBER, &ping)), dropped);
    let mut ping6 = vec![128, 0, 0, 0, 0, 1, 0, 1, 7];
    ping6.resize(20, 7);
    let group = Craft::new(2, 1, ENDS[1][0], "ff02::1").icmpv6(&ping6);
    assert_eq!(wire.layers[0].handle(wire.now, &group), dropped);
    let mut wrong = Craft::new(2, 1, ENDS[1][0], ENDS[1][1]).icmpv6(&ping6);
    *wrong.last_mut().unwrap() ^= 1;
    let checksum = Input::Dropped(Cause::IcmpChecksum);
    assert_eq!(wire.layers[0].handle(wire.now, &wrong), checksum);
    assert_eq!(icmpv6::NUMBER, 58);
    assert_eq!(wire.transmit(0), None);
}

#[test]
fn nobody_answers_what_came_to_all() {
    let mut wire = one();
    let mut echo = [0; 16];
    icmp::Message::EchoRequest { id: 1, seq: 1 }.emit(None, &mut echo);
    let mut echo6 = [0; 16];
    icmp::Message::EchoRequest { id: 1, seq: 1 }.emit(Some(Default::default()), &mut echo6);
    let dropped = Input::Dropped(Cause::IcmpBroadcast);
    for to in ["255.255.255.255", "10.0.0.255", "224.0.0.1"] {
        let frame = Craft::new(2, 1, "10.0.0.2", to).packet(icmp::NUMBER, &echo);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), dropped, "{to}");
        assert_eq!(wire.transmit(0), None, "{to}");
    }
    let frame = Craft::new(2, 1, "2001:db8::2", "ff02::1").icmpv6(&echo6);
    assert_eq!(wire.layers[0].handle(wire.now, &frame), dropped);
    assert_eq!(wire.transmit(0), None);
    // TCP, and a datagram for nobody's port, in the same way.
    for to in ["255.255.255.255", "10.0.0.255", "224.0.0.1", "ff02::1"] {
        let craft = Craft::new(2, 1, ENDS[usize::from(to.contains(':'))][0], to);
        let segment = wire.layers[0].handle(wire.now, &craft.packet(tcp::NUMBER, &[0; 20]));
        assert_eq!(segment, Input::Dropped(Cause::TcpToGroup), "{to}");
        let frame = craft.udp((1, 2), b"x");
        let datagram = delivered(&mut wire, &frame);
        assert!(!wire.layers[0].answer_unreachable(wire.now, &frame, &datagram));
        assert_eq!(wire.transmit(0), None, "{to}");
    }
    // And what came to one address in a frame for all.
    let mut all = Craft::new(2, 1, "10.0.0.2", "10.0.0.1").packet(icmp::NUMBER, &echo);
    all[..6].fill(0xff);
    let dropped = Input::Dropped(Cause::DestinationBroadcastFrame);
    assert_eq!(wire.layers[0].handle(wire.now, &all), dropped);
    assert_eq!(wire.transmit(0), None);
}

#[test]
fn messages_of_no_known_kind_are_dropped() {
    let mut wire = one();
    let ignored = Input::Dropped(Cause::IcmpIgnored);
    // Timestamp, information, address mask, and nothing at all.
    for kind in [13, 14, 15, 16, 17, 18, 200] {
        let mut message = [kind, 0, 0, 0, 1, 2, 3, 4];
        let sum = fusewire_base::Sum::of(&message).checksum();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let frame = Craft::new(2, 1, ENDS[0][0], ENDS[0][1]).packet(icmp::NUMBER, &message);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), ignored, "{kind}");
    }
    for kind in [139, 140, 200, 255] {
        let message = [kind, 0, 0, 0, 1, 2, 3, 4];
        let frame = Craft::new(2, 1, ENDS[1][0], ENDS[1][1]).icmpv6(&message);
        assert_eq!(wire.layers[0].handle(wire.now, &frame), ignored, "{kind}");
    }
    assert_eq!(wire.transmit(0), None);
}
