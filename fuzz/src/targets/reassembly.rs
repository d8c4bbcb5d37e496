//! Reassembly against hostile fragments: what comes out is what went in, byte by byte and place by place, and
//! nothing comes out whose pieces overlapped.

use std::collections::HashMap;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_net::{Config, Fragment, Input, Layer, Limits, Link, MAX_HEADER_LEN, Packet, Via};
use fusewire_wire::udp;

use crate::Choices;

/// What was sent under one identification: places, bytes, and whether it was the last piece.
type Sent = Vec<(usize, Vec<u8>, bool)>;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let v6 = choices.u8() & 1 == 1;
    let mut config = Config::new(Link::Ip);
    let (own, other) = if v6 { ("2001:db8::1", "2001:db8::2") } else { ("10.0.0.1", "10.0.0.2") };
    config.addresses = vec![own.parse().expect("an address")];
    config.limits = Limits { reassemblies: 16, ..Limits::default() };
    let mut now = Instant::from_ms(5);
    let mut layer = Layer::new(config, &[1; 32], now);
    let via = Via {
        source: other.parse().expect("an address"),
        destination: own.parse().expect("an address"),
        next_hop: own.parse().expect("an address"),
        macs: None,
        mtu: 1500,
        may_fragment: false,
        hop_limit: 64,
        loops: false,
        is_shared: false,
        generation: 0,
    };
    let mut sent: HashMap<u32, Sent> = HashMap::new();
    while !choices.is_empty() {
        let what = choices.u8();
        if what & 0x80 != 0 {
            now += Duration::from_secs(u64::from(what & 0x7f));
            layer.handle_timeout(now);
            continue;
        }
        let identification = u32::from(what & 31);
        let (offset, more) = (usize::from(choices.u8()) * 8, what & 32 == 0);
        let len = usize::from(choices.u8()) * if what & 64 == 0 { 8 } else { 1 };
        let fill = choices.u8();
        let body: Vec<u8> = (0..len).map(|n| fill.wrapping_add(n as u8)).collect();
        let mut frame = vec![0; MAX_HEADER_LEN];
        let piece = Fragment { offset, len, more, identification };
        let header_len = via.emit_fragment(&Packet::new(udp::NUMBER, len), &piece, &mut frame);
        frame.truncate(header_len);
        frame.extend(&body);
        let pieces = sent.entry(identification).or_default();
        pieces.push((offset, body, more));
        let Input::Transport(datagram) = layer.handle(now, &frame) else { continue };
        if datagram.payload.in_frame().is_none() {
            check(pieces, layer.payload(&frame, &datagram.payload));
            pieces.clear();
        }
    }
    now += Duration::from_secs(61);
    layer.handle_timeout(now);
    while layer.poll_transmit(now, &mut [0; 1500]).is_some() {}
    assert_eq!(layer.poll_timeout(), None, "nothing is left over");
}

/// Every byte was sent at its place, in pieces that fill the datagram; and one of them was its end.
fn check(pieces: &Sent, whole: &[u8]) {
    let fits = |(at, bytes, _): &&(usize, Vec<u8>, bool)| {
        whole.get(*at..*at + bytes.len()) == Some(bytes.as_slice())
    };
    let mut covered = vec![false; whole.len()];
    for (at, bytes, _) in pieces.iter().filter(fits) {
        covered[*at..*at + bytes.len()].fill(true);
    }
    assert!(covered.iter().all(|c| *c), "a byte that nobody sent there");
    let end = |p: &&(usize, Vec<u8>, bool)| !p.2 && p.0 + p.1.len() == whole.len();
    assert!(pieces.iter().any(|p| end(&p)), "an end that nobody sent");
}

/// Datagrams in pieces: in order, reversed, twice, and overlapping.
pub fn seeds() -> Vec<Vec<u8>> {
    let piece = |id: u8, at: u8, units: u8, last: bool| {
        vec![id | if last { 32 } else { 0 }, at, units, at.wrapping_mul(8)]
    };
    let (a, b, c) = (piece(1, 0, 4, false), piece(1, 4, 4, false), piece(1, 8, 2, true));
    let overlap = piece(1, 2, 4, false);
    let orders = [
        vec![a.clone(), b.clone(), c.clone()],
        vec![c.clone(), b.clone(), a.clone()],
        vec![a.clone(), a.clone(), c.clone(), b.clone()],
        vec![a.clone(), overlap, b, c],
        vec![a, vec![0x80 | 62]],
    ];
    let mut seeds = Vec::new();
    for version in [0, 1] {
        for order in &orders {
            let mut seed = vec![version];
            seed.extend(order.concat());
            seeds.push(seed);
        }
    }
    seeds
}
