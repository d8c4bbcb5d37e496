//! Data in both directions without loss: cutting, acknowledging, ALF, wrap-around, urgent data.

use crate::pair::Pair;
use core::time::Duration;
use fusewire_transport::machine::{Cut, Event, Initial, TransmitKind, Verdict};
use fusewire_transport::tcp::Config;
use fusewire_wire::tcp::Flags;

fn open() -> Pair {
    Pair::open(&Config::default(), &Config::default())
}

#[test]
fn one_adu_is_one_segment_and_never_joined() {
    let mut pair = open();
    for len in [1, 700, 1440, 3, 1440] {
        pair.a.send(len);
    }
    let out = pair.a.output(pair.now);
    assert_eq!(out.iter().map(|p| p.len()).collect::<Vec<_>>(), [1, 700, 1440, 3, 1440]);
    assert!(out.iter().all(|p| p.has(Flags::PSH) && p.header.header_len == 32));
}

#[test]
fn a_long_adu_is_cut_at_the_payload_size() {
    let mut pair = open();
    pair.a.send(1440 * 2 + 5);
    let out = pair.a.output(pair.now);
    assert_eq!(
        out.iter().map(|p| p.payload.clone()).collect::<Vec<_>>(),
        [0..1440, 1440..2880, 2880..2885]
    );
    assert_eq!(out.iter().map(|p| p.has(Flags::PSH)).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn stream_bytes_are_joined() {
    let mut pair = open();
    for len in [100, 200, 1500] {
        let r = pair.a.tcp.reserve(len).expect("room");
        pair.a.tcp.commit(r, Cut::Stream);
    }
    pair.a.send(10);
    let out = pair.a.output(pair.now);
    assert_eq!(out.iter().map(|p| p.len()).collect::<Vec<_>>(), [1440, 360, 10]);
}

/// Commits so many bytes of the stream, which are followed by more or not.
fn commit(pair: &mut Pair, len: u32, more: bool) {
    pair.a.tcp.set_more(more);
    let r = pair.a.tcp.reserve(len).expect("room");
    pair.a.tcp.commit(r, Cut::Stream);
}

/// What leaves now, and arrives: lengths, and what is pushed.
fn leaving(pair: &mut Pair) -> Vec<(u32, bool)> {
    let out = pair.a.output(pair.now);
    out.iter().for_each(|p| pair.b.take(pair.now, p));
    out.iter().map(|p| (p.len(), p.has(Flags::PSH))).collect()
}

#[test]
fn what_is_followed_by_more_holds_back_nothing_before_it() {
    let mut pair = open();
    commit(&mut pair, 100, false);
    commit(&mut pair, 50, true);
    assert_eq!(leaving(&mut pair), [(100, true)]);
    // What waits leaves with what ends it, and again that alone.
    commit(&mut pair, 10, false);
    commit(&mut pair, 5, true);
    commit(&mut pair, 5, true);
    assert_eq!(leaving(&mut pair), [(60, true)]);
    commit(&mut pair, 1440, true);
    assert_eq!(leaving(&mut pair), [(1440, false)]);
    pair.settle();
    assert_eq!(pair.received(), 100 + 60 + 1450);
}

#[test]
fn what_waits_already_is_joined_by_what_more_follows() {
    // By Nagle's algorithm, until the acknowledgement.
    let mut pair = open();
    pair.a.tcp.set_nagle(true);
    commit(&mut pair, 100, false);
    assert_eq!(leaving(&mut pair), [(100, true)]);
    commit(&mut pair, 20, false);
    commit(&mut pair, 30, true);
    assert_eq!(leaving(&mut pair), []);
    pair.settle();
    assert_eq!(pair.received(), 150);
    // By a cork.
    pair.a.tcp.set_nagle(false);
    pair.a.tcp.set_cork(true);
    commit(&mut pair, 20, false);
    commit(&mut pair, 30, true);
    assert_eq!(leaving(&mut pair), []);
    pair.a.tcp.set_cork(false);
    assert_eq!(leaving(&mut pair), [(20, true)]);
}

#[test]
fn reservations_follow_each_other_and_only_one_is_open() {
    let mut pair = open();
    let r = pair.a.tcp.reserve(10).expect("room");
    assert_eq!((r.offset(), r.len()), (0, 10));
    assert_eq!(pair.a.tcp.reserve(10), None);
    pair.a.tcp.commit(r, Cut::Record);
    assert_eq!(pair.a.tcp.reserve(10).map(|r| r.offset()), Some(10));
}

#[test]
fn the_send_buffer_and_the_ring_bound_what_is_reserved() {
    let cfg = Config { send_buffer: 10_000, max_segments_in_flight: 8, ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    assert_eq!(pair.a.tcp.send_room(), 10_000);
    assert_eq!(pair.a.tcp.reserve(10_001), None);
    for _ in 0..7 {
        pair.a.send(1);
    }
    assert_eq!(
        (pair.a.tcp.send_room(), pair.a.tcp.reserve(1)),
        (0, None),
        "the ring is full but for FIN"
    );
    pair.settle();
    assert_eq!(pair.a.tcp.send_room(), 10_000);
    assert!(pair.a.saw(Event::Acked { upto_offset: 7 }));
    // One ADU as long as the buffer always goes when it goes alone.
    pair.a.tcp.set_max_payload(100);
    pair.a.send(10_000);
    pair.run_until(|_, _| false, |p| p.received() == 10_007);
}

#[test]
fn both_directions_at_once_across_the_wrap() {
    let mut pair = open();
    let total = 3_000_000u64;
    let (mut a, mut b) = (0u64, 0u64);
    while pair.received() < total || pair.a.tcp.rcv_nxt_offset() < total {
        for (end, sent) in [(&mut pair.a, &mut a), (&mut pair.b, &mut b)] {
            while *sent < total {
                let len = (1 + (*sent * 7919) % 4000).min(total - *sent) as u32;
                let Some(r) = end.tcp.reserve(len) else { break };
                assert_eq!(r.offset(), *sent);
                end.tcp.commit(r, Cut::Record);
                *sent += u64::from(len);
            }
        }
        pair.settle();
        pair.sleep_to_timer();
    }
    let info = pair.a.tcp.info();
    assert_eq!((info.unacked, info.in_flight), (0, 0));
    assert_eq!(info.counters.retransmissions, 0);
    assert_eq!(info.counters.bytes_acked, total);
    assert!(
        info.srtt >= Duration::from_millis(9) && info.srtt <= Duration::from_millis(11),
        "{:?}",
        info.srtt
    );
}

#[test]
fn one_acknowledgement_for_a_batch() {
    let mut pair = open();
    for _ in 0..10 {
        pair.a.send(1440);
    }
    let out = pair.a.output(pair.now);
    assert_eq!(out.len(), 10);
    for p in &out {
        pair.b.take(pair.now, p);
    }
    let acks = pair.b.output(pair.now);
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].header.ack, out[9].header.seq + 1440);
    assert_eq!(acks[0].kind, TransmitKind::Ack);
}

#[test]
fn a_single_segment_is_acknowledged_late_and_data_carries_the_acknowledgement() {
    let acquainted = || {
        // The first acknowledgement tells the scaled window and does not wait.
        let mut pair = open();
        pair.a.send(100);
        pair.settle();
        assert_eq!(pair.a.tcp.info().unacked, 0);
        pair
    };
    let mut pair = acquainted();
    pair.a.send(100);
    let p = pair.a.output(pair.now).remove(0);
    pair.b.take(pair.now, &p);
    assert!(pair.b.output(pair.now).is_empty());
    let due = pair.b.tcp.poll_timeout().expect("delayed acknowledgement");
    assert_eq!(due, pair.now + Config::default().delayed_ack);
    pair.b.send(50);
    let reply = pair.b.output(pair.now).remove(0);
    assert_eq!(reply.header.ack, p.header.seq + 100);
    let mut pair = acquainted();
    pair.a.send(100);
    let p = pair.a.output(pair.now).remove(0);
    pair.b.take(pair.now, &p);
    pair.sleep(Config::default().delayed_ack);
    assert_eq!(pair.b.output(pair.now).len(), 1);
}

#[test]
fn out_of_order_is_accepted_at_once_and_reported() {
    let mut pair = open();
    for _ in 0..4 {
        pair.a.send(1000);
    }
    let out = pair.a.output(pair.now);
    pair.b.take(pair.now, &out[2]);
    pair.b.take(pair.now, &out[1]);
    assert_eq!(pair.b.accepted, [2000..3000, 1000..2000], "before the first one came");
    let ack = pair.b.output(pair.now).remove(0);
    let seq = out[0].header.seq;
    assert_eq!(ack.header.options.sack_blocks(), [(seq + 1000, seq + 3000)]);
    assert_eq!(ack.header.ack, seq);
    pair.b.take(pair.now, &out[0]);
    assert_eq!(pair.received(), 3000);
    assert_eq!(pair.b.output(pair.now).remove(0).header.options.sack_count, 0);
}

#[test]
fn a_duplicate_is_not_written_again_and_is_reported() {
    let mut pair = open();
    pair.a.send(1000);
    pair.a.send(1000);
    let out = pair.a.output(pair.now);
    pair.b.take(pair.now, &out[0]);
    pair.b.take(pair.now, &out[1]);
    pair.b.output(pair.now);
    assert!(
        matches!(pair.b.tcp.handle_initial(pair.now, &out[0].header, 1000), Initial::Payload(p) if p.duplicate)
    );
    pair.b.take(pair.now, &out[0]);
    let ack = pair.b.output(pair.now).remove(0);
    let seq = out[0].header.seq;
    assert_eq!(ack.header.options.sack_blocks(), [(seq, seq + 1000)], "DSACK");
    assert_eq!(pair.b.accepted.len(), 2);
}

#[test]
fn overlapping_payload_is_trimmed_to_what_is_new() {
    let mut pair = open();
    for _ in 0..5 {
        pair.a.send(1000);
    }
    let out = pair.a.output(pair.now);
    pair.b.take(pair.now, &out[0]);
    pair.b.take(pair.now, &out[3]);
    // A middlebox joined the first three and a part of the fourth.
    let mut joined = out[0].clone();
    joined.payload = 500..3500;
    joined.header.seq = out[0].header.seq + 500;
    let Initial::Payload(plan) = pair.b.tcp.handle_initial(pair.now, &joined.header, joined.len())
    else {
        panic!()
    };
    assert_eq!((plan.offset, plan.len, plan.trim_front, plan.trim_back), (1000, 2000, 500, 500));
    assert!(plan.in_order && !plan.is_whole());
    pair.b.take(pair.now, &joined);
    assert_eq!(pair.received(), 4000);
    // The end first: what lies behind a received range is left for later.
    let mut over = out[4].clone();
    over.payload = 3500..5000;
    over.header.seq = out[0].header.seq + 3500;
    pair.b.take(pair.now, &over);
    assert_eq!(pair.received(), 5000);
}

#[test]
fn a_rejected_segment_leaves_no_trace_but_a_count() {
    use fusewire_transport::machine::DropCause;
    let mut pair = open();
    pair.a.send(1000);
    let p = pair.a.output(pair.now).remove(0);
    let before = format!("{:?}", pair.b.tcp);
    let initial = pair.b.tcp.handle_initial(pair.now, &p.header, 1000);
    assert_eq!(format!("{:?}", pair.b.tcp), before, "the initial step changes nothing");
    pair.b.tcp.handle_final(
        pair.now,
        &p.header,
        &initial,
        Verdict::Reject(DropCause::Checksum),
        false,
    );
    assert_eq!(pair.b.tcp.counters().dropped(DropCause::Checksum), 1);
    assert!(pair.b.output(pair.now).is_empty());
    assert_eq!(pair.received(), 0);
    pair.b.take(pair.now, &p);
    assert_eq!(pair.received(), 1000);
}

#[test]
fn a_caller_may_take_less_than_planned() {
    let mut pair = open();
    pair.a.send(1000);
    let p = pair.a.output(pair.now).remove(0);
    let initial = pair.b.tcp.handle_initial(pair.now, &p.header, 1000);
    pair.b.tcp.handle_final(pair.now, &p.header, &initial, Verdict::Accept { len: 300 }, false);
    assert_eq!(pair.received(), 300);
    let Initial::Payload(plan) = pair.b.tcp.handle_initial(pair.now, &p.header, 1000) else {
        panic!()
    };
    assert_eq!((plan.offset, plan.len, plan.trim_front), (300, 700, 300));
}

#[test]
fn urgent_data_is_inline_and_noticed() {
    let mut pair = open();
    pair.a.send(100);
    pair.a.tcp.mark_urgent();
    pair.a.send(200);
    let out = pair.a.output(pair.now);
    assert!(out[0].has(Flags::URG) && out[0].header.urgent == 100);
    assert!(!out[1].has(Flags::URG));
    for p in &out {
        pair.b.take(pair.now, p);
    }
    assert!(pair.b.saw(Event::Urgent { upto_offset: 100 }));
    assert_eq!(pair.received(), 300);
}

#[test]
fn nagle_holds_back_a_small_segment_only_when_it_is_on() {
    for nagle in [false, true] {
        let cfg = Config { nagle, ..Config::default() };
        let mut pair = Pair::open(&cfg, &cfg);
        pair.a.send(10);
        pair.a.send(20);
        let first = pair.a.output(pair.now);
        assert_eq!(first.len(), if nagle { 1 } else { 2 });
        pair.run_until(|_, _| false, |p| p.received() == 30);
    }
}

#[test]
fn a_smaller_path_cuts_again_and_sends_the_long_ones_again() {
    let mut pair = open();
    for _ in 0..6 {
        pair.a.send(1440);
    }
    let lost = pair.a.output(pair.now);
    assert_eq!(lost.len(), 6);
    pair.a.send(1440);
    pair.a.tcp.set_max_payload(500);
    assert_eq!(pair.a.tcp.max_payload(), 500);
    let out = pair.a.output(pair.now);
    assert!(out.iter().all(|p| p.len() <= 500));
    assert!(
        out.len() == 10 && out.iter().all(|p| p.retransmission),
        "the initial window in segments"
    );
    assert_eq!(pair.a.tcp.info().ssthresh, u64::MAX, "no congestion");
    for p in &out {
        pair.b.take(pair.now, p);
    }
    pair.run_until(|_, _| false, |p| p.received() == 7 * 1440);
    assert_eq!(pair.b.accepted.iter().map(|r| r.end - r.start).sum::<u64>(), 7 * 1440);
}

#[test]
fn explicit_congestion_notification_makes_the_round() {
    let mut pair = open();
    for _ in 0..8 {
        pair.a.send(1440);
    }
    let cwnd = pair.a.tcp.info().cwnd;
    let mut out = pair.a.output(pair.now);
    assert!(out.iter().all(|p| p.ecn_capable && !p.has(Flags::CWR)));
    out[3].marked = true;
    for p in &out {
        pair.b.take(pair.now, p);
    }
    pair.wait();
    let echo = pair.b.output(pair.now).remove(0);
    assert!(echo.has(Flags::ECE) && !echo.ecn_capable);
    pair.a.take(pair.now, &echo);
    let info = pair.a.tcp.info();
    assert!(info.cwnd < cwnd, "{} {cwnd}", info.cwnd);
    assert_eq!((info.counters.ecn_echoes, info.counters.retransmissions), (1, 0));
    pair.a.send(100);
    let p = pair.a.output(pair.now).remove(0);
    assert!(p.has(Flags::CWR));
    pair.b.take(pair.now, &p);
    pair.sleep(Duration::from_millis(100));
    assert!(!pair.b.output(pair.now).remove(0).has(Flags::ECE), "the echo ends with CWR");
}
