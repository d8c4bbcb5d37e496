//! Segments that leave as one super-frame are those that would leave one by one, and leave the same behind.

use crate::pair::{Packet, Pair};
use core::time::Duration;
use fusewire_transport::machine::{Cut, TransmitKind};
use fusewire_transport::tcp::Config;
use fusewire_wire::tcp::Flags;

/// What one side sends now, one by one, without PSH; and where PSH was.
fn singly(pair: &mut Pair) -> (Vec<Packet>, Vec<u64>) {
    let mut pushes = Vec::new();
    let mut out = pair.a.output(pair.now);
    for packet in &mut out {
        if packet.has(Flags::PSH) {
            pushes.push(packet.payload.end);
            packet.header.flags = packet.header.flags.without(Flags::PSH);
        }
    }
    (out, pushes)
}

/// The same in super-frames of at most `most` bytes, cut as a device would; and where PSH was for a super-frame. The
/// longest super-frame in segments comes with it.
fn in_trains(pair: &mut Pair, most: u64) -> (Vec<Packet>, Vec<(u64, u64)>, u64) {
    let (mut out, mut pushes, mut longest) = (Vec::new(), Vec::new(), 0);
    while let Some(mut transmit) = pair.a.tcp.poll_transmit(pair.now) {
        let len = transmit.payload.as_ref().map_or(0, |p| p.end - p.start);
        if transmit.kind == TransmitKind::Data {
            pair.a.tcp.extend(pair.now, &mut transmit, most);
        }
        let whole = transmit.payload.clone().unwrap_or(0..0);
        if transmit.header.flags.has(Flags::PSH) {
            pushes.push((whole.start, whole.end));
            transmit.header.flags = transmit.header.flags.without(Flags::PSH);
        }
        let count = (whole.end - whole.start).div_ceil(len.max(1)).max(1);
        assert!(count == 1 || (whole.end - whole.start) % len == 0 && count * len <= most);
        longest = longest.max(count);
        let whole = Packet::from(transmit);
        for i in 0..count {
            let mut packet = whole.clone();
            packet.payload.start += i * len;
            packet.payload.end = packet.payload.start + len;
            packet.header.seq += (i * len) as u32;
            out.push(packet);
        }
    }
    pair.a.tcp.assert_invariants();
    pair.a.drain_events();
    (out, pushes, longest)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Both ends of both pairs, for a while, with writes and losses from one seed. Returns the longest super-frame.
fn agree(seed: u64, cfg: &Config, loss_in: u64) -> u64 {
    let mut pairs = [Pair::open(cfg, cfg), Pair::open(cfg, cfg)];
    let mut random = Random(seed);
    let mut longest = 0;
    for turn in 0..150 {
        let cut = [Cut::Stream, Cut::Stream, Cut::StreamEnd, Cut::Record][random.below(4) as usize];
        let len = (random.below(40_000) as u32 + 1).min(pairs[0].a.tcp.send_room());
        for pair in &mut pairs {
            if let Some(r) = pair.a.tcp.reserve(len) {
                pair.a.tcp.commit(r, cut);
            }
        }
        let (one, pushes) = singly(&mut pairs[0]);
        let (other, ranges, length) = in_trains(&mut pairs[1], 1 + random.below(65_000));
        longest = longest.max(length);
        let told = |p: &Packet| (p.payload.clone(), format!("{:?}", p.header), p.retransmission);
        let what = format!("seed {seed}, turn {turn}");
        assert_eq!(
            one.iter().map(told).collect::<Vec<_>>(),
            other.iter().map(told).collect::<Vec<_>>(),
            "{what}"
        );
        let covers = |at: &u64, r: &(u64, u64)| r.0 < *at && *at <= r.1;
        assert!(pushes.iter().all(|at| ranges.iter().any(|r| covers(at, r))), "{what}");
        assert!(ranges.iter().all(|r| pushes.iter().any(|at| covers(at, r))), "{what}");
        let lost: Vec<bool> =
            one.iter().map(|_| loss_in > 0 && random.below(loss_in) == 0).collect();
        let pause = Duration::from_millis(random.below(12));
        for (pair, packets) in pairs.iter_mut().zip([&one, &other]) {
            pair.wait();
            for (packet, _) in packets.iter().zip(&lost).filter(|(_, lost)| !**lost) {
                pair.b.take(pair.now, packet);
            }
            let answers = pair.b.output(pair.now);
            pair.wait();
            for packet in &answers {
                pair.a.take(pair.now, packet);
            }
            pair.sleep(pause);
        }
        let [a, b] = &pairs;
        assert_eq!(format!("{:?}", a.a.tcp), format!("{:?}", b.a.tcp), "{what}");
    }
    assert!(pairs[0].received() > 50_000, "seed {seed}: {}", pairs[0].received());
    longest
}

#[test]
fn a_super_frame_is_what_would_leave_one_by_one() {
    let plain = Config { pacing: false, ..Config::default() };
    let narrow =
        Config { recv_window: 30_000, initial_recv_window: 20_000, nagle: true, ..plain.clone() };
    let without =
        Config { timestamps: false, sack: false, tail_loss_probe: false, ..plain.clone() };
    for seed in 0..5 {
        for (cfg, loss_in) in [(&plain, 0), (&plain, 50), (&narrow, 200), (&without, 100)] {
            let longest = agree(seed, cfg, loss_in);
            assert!(longest > 5, "seed {seed}: super-frames of {longest} segments");
        }
    }
}

#[test]
fn who_paces_or_pushes_bursts_sends_one_by_one() {
    for cfg in
        [Config::default(), Config { pacing: false, push_bursts: Some(4), ..Config::default() }]
    {
        assert_eq!(agree(1, &cfg, 0), 1);
    }
}
