//! What a forger sends who does not see the connection (RFC 5961), and what old segments do (PAWS).

use crate::pair::{Packet, Pair};
use core::time::Duration;
use fusewire_base::Seq;
use fusewire_transport::machine::{
    DropCause, Event, Initial, KeepAlive, ResetCause, TransmitKind, Verdict,
};
use fusewire_transport::tcp::{Config, State};
use fusewire_wire::tcp::Flags;

/// An open pair, and a segment that `a` has just sent to `b` with `len` bytes of payload.
fn open() -> (Pair, Packet) {
    let mut pair = Pair::open(&Config::default(), &Config::default());
    pair.a.send(1000);
    pair.settle();
    pair.sleep(Duration::from_millis(100));
    pair.settle();
    pair.a.send(1000);
    let p = pair.a.output(pair.now).remove(0);
    (pair, p)
}

fn forged(p: &Packet, flags: Flags, seq: Seq) -> Packet {
    let mut f = p.clone();
    f.header.flags = flags;
    f.header.seq = seq;
    f.payload = 0..0;
    f.kind = TransmitKind::Ack;
    f
}

#[test]
fn a_reset_must_be_exact() {
    let (mut pair, p) = open();
    let next = p.header.seq;
    for (seq, answered) in [
        (next + 1, true),
        (next + 5_000, true),
        (Seq(next.0.wrapping_sub(1)), false),
        (next + 0x4000_0000, false),
    ] {
        pair.b.take(pair.now, &forged(&p, Flags::RST, seq));
        assert_eq!(pair.b.tcp.state(), State::Established);
        let out = pair.b.output(pair.now);
        assert_eq!(out.len(), usize::from(answered), "{seq}");
        assert!(out.iter().all(|p| p.kind == TransmitKind::Ack));
    }
    pair.b.take(pair.now, &forged(&p, Flags::RST, next));
    assert!(pair.b.saw(Event::Reset(ResetCause::Peer)));
    assert_eq!(pair.b.tcp.state(), State::Closed);
}

#[test]
fn a_syn_on_an_open_connection_is_challenged() {
    let (mut pair, p) = open();
    for seq in [p.header.seq, p.header.seq + 77, Seq(1)] {
        pair.b.take(pair.now, &forged(&p, Flags::SYN, seq));
        assert_eq!(pair.b.tcp.state(), State::Established);
        assert_eq!(pair.b.output(pair.now).len(), 1);
    }
    assert!(pair.b.tcp.counters().dropped(DropCause::BlindOpen) >= 1);
}

#[test]
fn challenges_are_limited_and_the_limit_is_of_this_connection() {
    let (mut pair, p) = open();
    let mut sent = 0;
    for i in 0..1000 {
        pair.b.take(pair.now, &forged(&p, Flags::SYN, p.header.seq + i));
        sent += pair.b.output(pair.now).len();
    }
    assert!((1..=10).contains(&sent), "{sent}");
    pair.sleep(Duration::from_secs(1));
    pair.b.take(pair.now, &forged(&p, Flags::SYN, p.header.seq));
    assert_eq!(pair.b.output(pair.now).len(), 1, "the next second has its own");
}

#[test]
fn acknowledgements_of_what_was_not_sent_and_of_long_ago_are_refused() {
    let (mut pair, p) = open();
    for ack in
        [p.header.ack + 1, p.header.ack + 1_000_000, Seq(p.header.ack.0.wrapping_sub(100_000_000))]
    {
        let mut f = p.clone();
        f.header.ack = ack;
        // With payload: it is not taken.
        let initial = pair.b.tcp.handle_initial(pair.now, &f.header, f.len());
        assert!(matches!(initial, Initial::Payload(plan) if plan.duplicate), "{initial:?}");
        pair.b.tcp.handle_final(pair.now, &f.header, &initial, Verdict::Control, false);
        assert_eq!(pair.received(), 1000);
        // Without.
        f.payload = 0..0;
        pair.b.take(pair.now, &f);
        assert_eq!(pair.b.tcp.state(), State::Established);
    }
    assert_eq!(pair.b.tcp.counters().dropped(DropCause::BadAck), 6);
    pair.b.take(pair.now, &p);
    assert_eq!(pair.received(), 2000);
}

#[test]
fn a_forged_acknowledgement_does_not_free_what_was_not_received() {
    let (mut pair, p) = open();
    let mut f = forged(&p, Flags::ACK, p.header.ack);
    f.header.src_port = 2000;
    f.header.options.timestamps = None;
    f.header.ack = p.header.seq + 1000;
    // No timestamp on a connection that has them: dropped.
    pair.a.take(pair.now, &f);
    assert_eq!(pair.a.tcp.info().unacked, 1000);
    assert!(pair.a.tcp.counters().dropped(DropCause::Paws) >= 1);
}

/// What somebody sends who does not know the numbers: outside of the window, with an acknowledgement of
/// nothing, with an old timestamp, without one; each with payload and without.
fn spoofed(p: &Packet) -> Vec<Packet> {
    let mut all = Vec::new();
    for payload in [p.payload.clone(), 0..0] {
        let plain = Packet { payload, marked: true, ..p.clone() };
        let mut outside = plain.clone();
        outside.header.seq = p.header.seq + 0x1000_0000;
        let mut old = plain.clone();
        old.header.seq = Seq(p.header.seq.0.wrapping_sub(3_000));
        let mut wrong = plain.clone();
        wrong.header.ack = p.header.ack + 1_000_000;
        let mut stale = plain.clone();
        stale.header.options.timestamps =
            p.header.options.timestamps.map(|(v, e)| (v.wrapping_sub(1000), e));
        let mut bare = plain;
        bare.header.options.timestamps = None;
        all.extend([outside, old, wrong, stale, bare]);
    }
    all
}

#[test]
fn a_spoofed_mark_does_not_halve_the_sender() {
    let (mut pair, p) = open();
    for f in spoofed(&p) {
        pair.b.take(pair.now, &f);
        for answer in pair.b.output(pair.now) {
            assert!(!answer.has(Flags::ECE), "{:?}", f.header);
        }
    }
    assert_eq!(pair.b.tcp.counters().ecn_marks, 0);
    // Nor one on a copy of what has come, or on an acknowledgement (RFC 3168, section 6.1.3).
    pair.b.take(pair.now, &p);
    for payload in [p.payload.clone(), 0..0] {
        pair.b.take(pair.now, &Packet { payload, marked: true, ..p.clone() });
    }
    assert!(!pair.b.output(pair.now).remove(0).has(Flags::ECE));
    // The peer's own does.
    pair.a.send(1000);
    let mut next = pair.a.output(pair.now).remove(0);
    next.marked = true;
    pair.b.take(pair.now, &next);
    assert!(pair.b.output(pair.now).remove(0).has(Flags::ECE));
    assert_eq!(pair.b.tcp.counters().ecn_marks, 1);
}

#[test]
fn a_new_mark_counts_beside_the_answer_to_an_old_one() {
    let (mut pair, mut p) = open();
    p.marked = true;
    p.header.flags |= Flags::CWR;
    pair.b.take(pair.now, &p);
    assert!(pair.b.output(pair.now).remove(0).has(Flags::ECE));
}

#[test]
fn spoofed_segments_do_not_hold_off_keep_alive() {
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(60), interval: Duration::from_secs(5), probes: 3 };
    let cfg = Config { keep_alive: Some(keep_alive), ..Config::default() };
    let mut pair = Pair::open(&Config::default(), &cfg);
    pair.a.send(1000);
    pair.settle();
    pair.sleep(Duration::from_millis(100));
    pair.settle();
    pair.a.send(1000);
    let p = pair.a.output(pair.now).remove(0);
    // The peer is gone; somebody else is not.
    let (start, heard) = (pair.now, pair.b.tcp.info());
    while pair.b.tcp.state() == State::Established {
        pair.now += Duration::from_secs(1);
        assert!(pair.now - start < Duration::from_secs(120), "held off");
        for f in spoofed(&p) {
            pair.b.take(pair.now, &f);
        }
        pair.b.tcp.handle_timeout(pair.now);
        pair.b.output(pair.now);
        let info = pair.b.tcp.info();
        let times = (info.heard_at, info.data_received_at);
        assert_eq!(times, (heard.heard_at, heard.data_received_at));
    }
    assert!(pair.b.saw(Event::TimedOut));
}

#[test]
fn old_timestamps_are_refused_and_answered() {
    let (mut pair, p) = open();
    let mut old = p.clone();
    old.header.options.timestamps =
        p.header.options.timestamps.map(|(v, e)| (v.wrapping_sub(1000), e));
    let initial = pair.b.tcp.handle_initial(pair.now, &old.header, old.len());
    assert!(matches!(initial, Initial::Payload(plan) if plan.duplicate));
    pair.b.take(pair.now, &old);
    assert_eq!(pair.received(), 1000);
    assert_eq!(pair.b.tcp.counters().dropped(DropCause::Paws), 1);
    assert_eq!(pair.b.output(pair.now).len(), 1);
    // RFC 7323, section 5.5: after 24 days without a segment the old value does not count.
    pair.now += Duration::from_secs(25 * 24 * 3600);
    pair.b.take(pair.now, &old);
    assert_eq!(pair.received(), 2000);
}

/// A segment of bytes that `b` has, with a timestamp as far ahead as PAWS takes for later.
fn old_with_a_timestamp(p: &Packet, below: u32, ack: Seq, ahead: u32) -> Packet {
    let mut f = p.clone();
    f.header.seq = Seq(p.header.seq.0.wrapping_sub(below));
    f.header.ack = ack;
    f.header.options.timestamps =
        p.header.options.timestamps.map(|(v, e)| (v.wrapping_add(ahead), e));
    f
}

#[test]
fn timestamps_of_what_lies_below_the_window_do_not_stop_the_peer() {
    // Seen on a wire: 28 segments with the right acknowledgement, old numbers and forged timestamps; and
    // 2,000 of one who guesses numbers, acknowledgements and timestamps.
    let right = |p: &Packet, i: u32| old_with_a_timestamp(p, 1000, p.header.ack, (i + 1) << 20);
    let blind = |p: &Packet, i: u32| {
        let guess = |salt: u32| (i + 1).wrapping_mul(0x9e37_79b1).rotate_left(salt);
        old_with_a_timestamp(p, 1000 + i % 7, Seq(guess(3)), guess(11) >> 1)
    };
    type Forge<'a> = &'a dyn Fn(&Packet, u32) -> Packet;
    let cases: [(u32, Forge); 2] = [(28, &right), (2000, &blind)];
    for (count, forge) in cases {
        let (mut pair, p) = open();
        for i in 0..count {
            pair.b.take(pair.now, &forge(&p, i));
            pair.b.output(pair.now);
        }
        pair.b.take(pair.now, &p);
        assert_eq!(pair.received(), 2000, "after {count} forged segments");
        assert_eq!(pair.b.tcp.counters().dropped(DropCause::Paws), 0);
        pair.a.send(1000);
        pair.run_until(|_, _| false, |pair| pair.received() == 3000);
        assert_eq!(pair.a.tcp.counters().retransmissions, 0);
    }
}

#[test]
fn a_forged_duplicate_below_the_window_is_not_reported() {
    let (mut pair, p) = open();
    pair.b.output(pair.now);
    let forged = old_with_a_timestamp(&p, 1000, p.header.ack + 1_000_000, 0);
    pair.b.take(pair.now, &forged);
    let answer = pair.b.output(pair.now).remove(0);
    assert_eq!(answer.header.options.sack_count, 0, "a report to the peer by a stranger");
    // The peer's own is reported (RFC 2883).
    pair.b.take(pair.now, &old_with_a_timestamp(&p, 1000, p.header.ack, 0));
    let answer = pair.b.output(pair.now).remove(0);
    let first = Seq(p.header.seq.0.wrapping_sub(1000));
    assert_eq!(answer.header.options.sack_blocks(), [(first, p.header.seq)]);
}

#[test]
fn a_segment_of_the_last_turn_is_refused_by_its_timestamp() {
    // Four gigabytes later the same sequence numbers are in the window again.
    let (mut pair, p) = open();
    pair.b.take(pair.now, &p);
    pair.settle();
    pair.sleep(Duration::from_secs(50));
    pair.a.send(10);
    pair.settle();
    pair.sleep(Duration::from_secs(1));
    pair.settle();
    let mut wrapped = p.clone();
    wrapped.header.seq = p.header.seq + 1010;
    let initial = pair.b.tcp.handle_initial(pair.now, &wrapped.header, 1000);
    assert!(matches!(initial, Initial::Payload(plan) if plan.duplicate), "{initial:?}");
}

#[test]
fn payload_outside_the_window_is_answered_and_not_taken() {
    let (mut pair, p) = open();
    for seq in [p.header.seq + 0x1000_0000, Seq(p.header.seq.0.wrapping_sub(0x1000_0000))] {
        let mut f = p.clone();
        f.header.seq = seq;
        let initial = pair.b.tcp.handle_initial(pair.now, &f.header, f.len());
        assert!(matches!(initial, Initial::Payload(plan) if plan.duplicate), "{initial:?}");
        pair.b.tcp.handle_final(pair.now, &f.header, &initial, Verdict::Control, false);
        assert_eq!(pair.b.output(pair.now).len(), 1);
    }
    assert_eq!(pair.received(), 1000);
}

#[test]
fn two_confused_peers_do_not_answer_each_other_for_ever() {
    let (mut pair, p) = open();
    pair.a.take(pair.now, &forged(&p, Flags::ACK, Seq(p.header.ack.0.wrapping_sub(5000))));
    let mut carried = 0;
    let mut a = pair.a.output(pair.now);
    while !a.is_empty() && carried < 1000 {
        carried += a.len();
        for p in &mut a {
            p.header.seq = Seq(p.header.seq.0.wrapping_sub(9_000));
            p.payload = 0..0;
            pair.b.take(pair.now, p);
        }
        let mut b = pair.b.output(pair.now);
        for p in &mut b {
            p.header.seq = Seq(p.header.seq.0.wrapping_sub(9_000));
            pair.a.take(pair.now, p);
        }
        a = pair.a.output(pair.now);
    }
    assert!(carried < 30, "{carried}");
}

#[test]
fn sack_blocks_that_lie_are_ignored() {
    let (mut pair, p) = open();
    for _ in 0..5 {
        pair.a.send(1000);
    }
    pair.a.output(pair.now);
    let base = p.header.seq;
    let mut ack = forged(&p, Flags::ACK, p.header.ack);
    (ack.header.src_port, ack.header.dst_port) = (2000, 1000);
    ack.header.ack = base;
    ack.header.options.timestamps = Some((u32::MAX / 4, 0));
    let blocks =
        [(base + 9_000, base + 900_000), (base + 3000, base + 2000), (base + 1, base + 999)];
    for block in blocks {
        let before = pair.a.tcp.info().in_flight;
        ack.header.options.sack_count = 0;
        ack.header.options.push_sack(block.0, block.1);
        ack.header.options.timestamps = pair
            .b
            .output(pair.now)
            .first()
            .and_then(|p| p.header.options.timestamps)
            .or(ack.header.options.timestamps);
        pair.a.take(pair.now, &ack);
        assert_eq!(pair.a.tcp.info().in_flight, before, "{block:?}");
    }
}
