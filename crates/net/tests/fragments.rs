//! Fragments become datagrams again in any order, whatever is wrong with them is dropped, and what is longer than
//! its path goes as fragments.

mod wire;

use std::net::IpAddr;
use std::time::Duration;

use fusewire_net::{Cause, Config, Input, Layer, MAX_HEADER_LEN, Packet, Payload, Via};
use fusewire_wire::ethernet::HEADER_LEN;
use fusewire_wire::ipv6_extension::{self as extension, FRAGMENT};
use fusewire_wire::ndp::Message;
use fusewire_wire::{icmp, icmpv6, ipv4, ipv6, tcp, udp};
use wire::{Craft, Wire, config, mac_address};

const ENDS: [[&str; 2]; 2] = [["10.0.0.2", "10.0.0.1"], ["2001:db8::2", "2001:db8::1"]];

fn one() -> Wire {
    let mut wire = Wire::new(vec![config(1, &["10.0.0.1/24", "2001:db8::1/64"])]);
    wire.pass(Duration::from_secs(5));
    wire.layers[0].set_neighbor("10.0.0.2".parse().unwrap(), Some(mac_address(2)));
    wire.layers[0].set_neighbor("2001:db8::2".parse().unwrap(), Some(mac_address(2)));
    wire
}

fn craft(ends: [&str; 2]) -> Craft {
    Craft::new(2, 1, ends[0], ends[1])
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// `data` in pieces of `step` bytes.
fn pieces(craft: Craft, id: u32, data: &[u8], step: usize) -> Vec<Vec<u8>> {
    let piece = |(n, part): (usize, &[u8])| {
        let at = n * step;
        craft.piece(udp::NUMBER, id, part, at, at + part.len() < data.len())
    };
    data.chunks(step).enumerate().map(piece).collect()
}

#[test]
fn every_order_gives_the_same_datagram() {
    let orders: [[usize; 4]; 6] =
        [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [3, 0, 1, 2], [1, 2, 3, 0]];
    for ends in ENDS {
        let mut wire = one();
        let data = content(100);
        for (id, order) in orders.into_iter().enumerate() {
            let frames = pieces(craft(ends), id as u32, &data, 32);
            for (n, &at) in order.iter().enumerate() {
                match wire.layers[0].handle(wire.now, &frames[at]) {
                    Input::Transport(datagram) => {
                        assert_eq!((n, datagram.payload), (3, Payload::Reassembled));
                        let payload = wire.layers[0].payload(&[], &datagram.payload);
                        assert_eq!(payload, data);
                        let whole = craft(ends).packet(udp::NUMBER, &data);
                        let Input::Transport(other) = wire.layers[0].handle(wire.now, &whole)
                        else {
                            panic!()
                        };
                        assert_eq!(datagram.pseudo_header, other.pseudo_header);
                        assert_eq!((datagram.source, datagram.hop_limit), (other.source, 64));
                    }
                    input => assert_eq!(input, Input::Consumed, "piece {at} as number {n}"),
                }
            }
        }
        assert_eq!(wire.layers[0].counters().reassembled, 6);
        assert_eq!(wire.layers[0].poll_timeout().filter(|&t| t < wire.now), None);
    }
}

#[test]
fn the_longest_datagram_and_one_byte_more() {
    for (ends, header) in ENDS.into_iter().zip([20, 0]) {
        let mut wire = one();
        let data = content(65_535 - header);
        let frames = pieces(craft(ends), 1, &data, 1448);
        let last = frames.iter().map(|f| wire.layers[0].handle(wire.now, f)).last();
        let Some(Input::Transport(datagram)) = last else { panic!("{last:?}") };
        assert_eq!(wire.layers[0].payload(&[], &datagram.payload), data);
        let long = craft(ends).piece(udp::NUMBER, 2, &[0; 1448], 65_535 / 1448 * 1448, true);
        let dropped = Input::Dropped(Cause::FragmentMalformed);
        assert_eq!(wire.layers[0].handle(wire.now, &long), dropped);
    }
}

#[test]
fn overlaps_drop_the_whole_and_what_still_comes_of_it() {
    for ends in ENDS {
        for (at, len) in [(8, 24), (24, 8), (0, 40), (40, 32), (16, 24)] {
            let mut wire = one();
            let data = content(96);
            let frames = pieces(craft(ends), 1, &data, 32);
            wire.layers[0].handle(wire.now, &frames[0]);
            wire.layers[0].handle(wire.now, &frames[1]);
            let bad = craft(ends).piece(udp::NUMBER, 1, &vec![0x66; len], at, true);
            let overlap = Input::Dropped(Cause::FragmentOverlap);
            assert_eq!(wire.layers[0].handle(wire.now, &bad), overlap, "{len} at {at}");
            for frame in frames {
                assert_eq!(wire.layers[0].handle(wire.now, &frame), overlap);
            }
            wire.pass(Duration::from_secs(61));
            assert_eq!(wire.layers[0].counters().drops.of(Cause::FragmentTimeout), 0);
            assert_eq!(wire.log.iter().filter(|f| f.0 == wire.now).count(), 0);
        }
    }
}

#[test]
fn an_end_in_two_places_is_an_overlap() {
    for ends in ENDS {
        let mut wire = one();
        let piece = |at, more| craft(ends).piece(udp::NUMBER, 1, &[0x11; 32], at, more);
        assert_eq!(wire.layers[0].handle(wire.now, &piece(64, false)), Input::Consumed);
        let overlap = Input::Dropped(Cause::FragmentOverlap);
        assert_eq!(wire.layers[0].handle(wire.now, &piece(96, true)), overlap);
        let mut wire = one();
        assert_eq!(wire.layers[0].handle(wire.now, &piece(64, true)), Input::Consumed);
        assert_eq!(wire.layers[0].handle(wire.now, &piece(32, false)), overlap);
    }
}

#[test]
fn an_exact_duplicate_changes_nothing_and_another_content_is_an_overlap() {
    for ends in ENDS {
        let mut wire = one();
        let data = content(96);
        let frames = pieces(craft(ends), 1, &data, 32);
        for frame in &frames[..2] {
            assert_eq!(wire.layers[0].handle(wire.now, frame), Input::Consumed);
            let again = Input::Dropped(Cause::FragmentDuplicate);
            assert_eq!(wire.layers[0].handle(wire.now, frame), again);
        }
        assert!(matches!(wire.layers[0].handle(wire.now, &frames[2]), Input::Transport(_)));
        for frame in &frames[..2] {
            wire.layers[0].handle(wire.now, frame);
        }
        let forged = craft(ends).piece(udp::NUMBER, 1, &[0x99; 32], 32, true);
        let overlap = Input::Dropped(Cause::FragmentOverlap);
        assert_eq!(wire.layers[0].handle(wire.now, &forged), overlap);
    }
}

#[test]
fn one_that_is_not_whole_in_a_minute_is_given_up_and_its_sender_told() {
    for ends in ENDS {
        let mut wire = one();
        let data = content(2000);
        let frames = pieces(craft(ends), 1, &data, 1000);
        wire.layers[0].handle(wire.now, &frames[0]);
        let quiet = wire.log.len();
        wire.pass(Duration::from_secs(59));
        assert_eq!(wire.log.len(), quiet);
        wire.pass(Duration::from_secs(2));
        assert_eq!(wire.layers[0].counters().drops.of(Cause::FragmentTimeout), 1);
        assert_eq!(wire.log.len(), quiet + 1);
        let report = &wire.log[quiet].2;
        assert!(report.len() <= HEADER_LEN + if ends[0].contains(':') { 1280 } else { 576 });
        let at = if ends[0].contains(':') { 54 } else { 34 };
        assert_eq!(report[at..at + 2], if at == 54 { [3, 1] } else { [11, 1] });
        assert_eq!(report[at + 8 + at - 14..][..64], data[..64], "it quotes the beginning");
        // Without the beginning nobody is told.
        wire.layers[0].handle(wire.now, &frames[1]);
        wire.pass(Duration::from_secs(61));
        assert_eq!(wire.log.len(), quiet + 1);
        assert_eq!(wire.layers[0].counters().drops.of(Cause::FragmentTimeout), 2);
    }
}

#[test]
fn tiny_first_fragments_and_odd_lengths_are_dropped() {
    for ends in ENDS {
        let mut wire = one();
        let tiny = craft(ends).piece(tcp::NUMBER, 1, &[0; 16], 0, true);
        let dropped = Input::Dropped(Cause::FragmentTiny);
        assert_eq!(wire.layers[0].handle(wire.now, &tiny), dropped);
        let odd = craft(ends).piece(udp::NUMBER, 1, &[0; 15], 0, true);
        let dropped = Input::Dropped(Cause::FragmentMalformed);
        assert_eq!(wire.layers[0].handle(wire.now, &odd), dropped);
        let empty = craft(ends).piece(udp::NUMBER, 1, &[], 16, true);
        assert_eq!(wire.layers[0].handle(wire.now, &empty), dropped);
    }
}

#[test]
fn an_atomic_fragment_is_whole_whatever_else_bears_its_number() {
    let mut wire = one();
    let craft = craft(ENDS[1]);
    wire.layers[0].handle(wire.now, &craft.piece(udp::NUMBER, 7, &[1; 32], 0, true));
    let mut body = vec![0; 8];
    let header =
        extension::Fragment { next_header: udp::NUMBER, offset: 0, more: false, identification: 7 };
    header.emit(&mut body);
    body.extend([2; 32]);
    let Input::Transport(atomic) = wire.layers[0].handle(wire.now, &craft.packet(FRAGMENT, &body))
    else {
        panic!()
    };
    assert!(matches!(atomic.payload, Payload::Frame { .. }));
    let last = craft.piece(udp::NUMBER, 7, &[3; 8], 32, false);
    let Input::Transport(whole) = wire.layers[0].handle(wire.now, &last) else { panic!() };
    assert_eq!(wire.layers[0].payload(&[], &whole.payload)[..33], [&[1; 32][..], &[3]].concat());
}

#[test]
fn neighbour_discovery_in_a_fragment_is_refused() {
    let mut wire = one();
    let craft = Craft { hop_limit: 255, ..craft(ENDS[1]) };
    let mut solicitation = [0; 24];
    let target = "2001:db8::1".parse().unwrap();
    Message::NeighborSolicitation { target }.emit(&mut solicitation);
    let plain = craft.icmpv6(&solicitation);
    assert_eq!(wire.layers[0].handle(wire.now, &plain), Input::Consumed);
    let header = extension::Fragment { next_header: 58, offset: 0, more: false, identification: 7 };
    let mut body = vec![0; 8];
    header.emit(&mut body);
    body.extend(&plain[14 + 40..]);
    let refused = Input::Dropped(Cause::NdpForeign);
    let atomic = craft.packet(FRAGMENT, &body);
    assert_eq!(wire.layers[0].handle(wire.now, &atomic), refused);
    let message = &plain[14 + 40..];
    wire.layers[0].handle(wire.now, &craft.piece(58, 8, &message[..16], 0, true));
    let last = craft.piece(58, 8, &message[16..], 16, false);
    assert_eq!(wire.layers[0].handle(wire.now, &last), refused);
}

#[test]
fn congestion_marks_survive_and_impossible_ones_drop() {
    let cases = [([2, 2], Some(2)), ([2, 3], Some(3)), ([0, 0], Some(0)), ([0, 3], None)];
    for (n, (marks, expected)) in cases.into_iter().enumerate() {
        let mut wire = one();
        let mut frames = pieces(craft(ENDS[0]), n as u32, &content(48), 24);
        for (frame, mark) in frames.iter_mut().zip(marks) {
            frame[15] = mark;
            frame[24..26].fill(0);
            let sum = fusewire_base::Sum::of(&frame[14..34]).checksum();
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        wire.layers[0].handle(wire.now, &frames[0]);
        let last = wire.layers[0].handle(wire.now, &frames[1]);
        match expected {
            Some(mark) => {
                let Input::Transport(whole) = last else { panic!("{last:?}") };
                assert_eq!(whole.traffic_class, mark);
            }
            None => assert_eq!(last, Input::Dropped(Cause::FragmentOverlap)),
        }
    }
}

#[test]
fn a_flood_of_beginnings_is_bounded_and_whole_ones_still_get_through() {
    let mut wire = one();
    for n in 0..5_000u32 {
        let source = format!("10.0.0.{}", 3 + n % 200);
        let craft = Craft::new(2, 1, &source, "10.0.0.1");
        wire.layers[0].handle(wire.now, &craft.piece(udp::NUMBER, n, &[0; 32], 0, true));
        if n % 100 == 0 {
            for (m, frame) in
                pieces(self::craft(ENDS[0]), n, &content(64), 32).into_iter().enumerate()
            {
                let input = wire.layers[0].handle(wire.now, &frame);
                assert_eq!(matches!(input, Input::Transport(_)), m == 1);
            }
        }
    }
    let evicted = wire.layers[0].counters().drops.of(Cause::FragmentEvicted);
    assert!(evicted >= 5_000 - 128, "{evicted} made room");
    wire.pass(Duration::from_secs(61));
    let (over, sent) = (Cause::FragmentTimeout, wire.layers[0].counters());
    assert_eq!(sent.drops.of(over) + evicted, 5_000);
}

fn path(layer: &mut Layer, wire_now: fusewire_base::Instant, to: &str) -> Via {
    let to: IpAddr = to.parse().unwrap();
    layer.route(wire_now, to, None).expect("a path")
}

#[test]
fn what_is_cut_on_one_side_is_whole_on_the_other() {
    for (to, len) in ENDS.into_iter().flat_map(|e| [(e, 1400), (e, 1481), (e, 9000), (e, 65_000)]) {
        let mut wire = one();
        let via = path(&mut wire.layers[0], wire.now, to[0]);
        let mut other = Layer::new(config(2, &[&format!("{}/24", to[0])]), &[3; 32], wire.now);
        let data = content(len);
        let packet = Packet { dont_fragment: false, ..Packet::new(udp::NUMBER, len) };
        let identification = wire.layers[0].identification(&via);
        let (mut at, mut count, mut last) = (0, 0, Input::Consumed);
        while at < len {
            let piece = via.fragment(len, at, identification);
            let mut frame = vec![0; MAX_HEADER_LEN];
            let header_len = via.emit_fragment(&packet, &piece, &mut frame);
            frame.truncate(header_len);
            frame.extend(&data[piece.offset..piece.offset + piece.len]);
            assert!(frame.len() <= HEADER_LEN + 1500);
            at += piece.len;
            count += 1;
            last = other.handle(wire.now, &frame);
            assert_eq!(matches!(last, Input::Transport(_)), !piece.more);
        }
        let Input::Transport(datagram) = last else { panic!() };
        assert_eq!(count == 1, datagram.payload != Payload::Reassembled);
        if count > 1 {
            assert_eq!(other.payload(&[], &datagram.payload), data);
            assert_eq!(count, len.div_ceil(if to[0].contains(':') { 1448 } else { 1480 }));
        }
    }
}

#[test]
fn a_long_echo_comes_back_in_fragments() {
    for ends in ENDS {
        let v6 = ends[0].contains(':');
        let mut wire = one();
        let mut other: Config = config(2, &[&format!("{}/24", ends[0])]);
        other.responds = false;
        let mut other = Layer::new(other, &[3; 32], wire.now);
        let mut body = content(9000);
        let protocol = if v6 { icmpv6::NUMBER } else { icmp::NUMBER };
        let via = path(&mut wire.layers[0], wire.now, ends[0]);
        if v6 {
            let sum = via.pseudo_header_sum(protocol, 9000);
            icmp::Message::EchoRequest { id: 1, seq: 2 }.emit(Some(sum), &mut body);
        } else {
            icmp::Message::EchoRequest { id: 1, seq: 2 }.emit(None, &mut body);
        }
        for (n, part) in body.chunks(1448).enumerate() {
            let more = (n + 1) * 1448 < 9000;
            let frame = craft(ends).piece(protocol, 9, part, n * 1448, more);
            assert_eq!(wire.layers[0].handle(wire.now, &frame), Input::Consumed);
        }
        let quiet = wire.log.len();
        wire.settle();
        let echo = &wire.log[quiet..];
        assert_eq!(echo.len(), 7);
        // The other side's echo reply is of no interest to it, but is whole and has a right checksum.
        let inputs: Vec<_> = echo.iter().map(|f| other.handle(wire.now, &f.2)).collect();
        assert_eq!(inputs[6], Input::Dropped(Cause::IcmpIgnored));
        assert_eq!(other.counters().reassembled, 1);
        let header_len = HEADER_LEN + if v6 { ipv6::HEADER_LEN + 8 } else { ipv4::MIN_HEADER_LEN };
        assert_eq!(echo[1].2[header_len..][..100], body[echo[0].2.len() - header_len..][..100]);
    }
}
