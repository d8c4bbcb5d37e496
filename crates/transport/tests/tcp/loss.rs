//! Loss of each segment in turn, reordering, timeouts, probes, spurious retransmissions.

use crate::pair::{Packet, Pair};
use core::time::Duration;
use fusewire_transport::machine::Event;
use fusewire_transport::tcp::{Config, State};

const ADU: u32 = 1440;

fn open() -> Pair {
    Pair::open(&Config::default(), &Config::default())
}

fn queue(pair: &mut Pair, adus: u32) {
    for _ in 0..adus {
        pair.a.send(ADU);
    }
}

#[test]
fn each_data_segment_may_be_lost_once() {
    for sack in [true, false] {
        for lost in 0..30 {
            let cfg = Config { sack, ..Config::default() };
            let mut pair = Pair::open(&cfg, &cfg);
            let total = u64::from(ADU) * 30;
            queue(&mut pair, 30);
            pair.a.tcp.finish();
            let mut n = 0;
            let start = pair.now;
            pair.run_until(
                |from_a, p: &Packet| {
                    n += u64::from(from_a && p.len() > 0);
                    from_a && p.len() > 0 && n == lost + 1
                },
                |p| p.received() == total && p.a.tcp.state() == State::FinWait2,
            );
            let c = *pair.a.tcp.counters();
            assert!(c.retransmissions >= 1, "{c:?}");
            if sack {
                assert_eq!((c.retransmissions, c.timeouts), (1, 0), "lost {lost}: {c:?}");
                assert!(pair.now - start < Duration::from_millis(150), "{:?}", pair.now - start);
            }
        }
    }
}

#[test]
fn each_acknowledgement_may_be_lost_once() {
    for lost in 0..12 {
        let mut pair = open();
        queue(&mut pair, 30);
        let mut n = 0;
        pair.run_until(
            |from_a, _| {
                n += u64::from(!from_a);
                !from_a && n == lost + 1
            },
            |p| p.received() == 30 * u64::from(ADU) && p.a.tcp.info().unacked == 0,
        );
    }
}

#[test]
fn the_hole_alone_is_sent_again() {
    let mut pair = open();
    queue(&mut pair, 10);
    let out = pair.a.output(pair.now);
    pair.wait();
    for p in out
        .iter()
        .filter(|p| p.payload.start != u64::from(ADU) * 2 && p.payload.start != u64::from(ADU) * 5)
    {
        pair.b.take(pair.now, p);
    }
    let acks = pair.b.output(pair.now);
    pair.wait();
    for ack in &acks {
        pair.a.take(pair.now, ack);
    }
    let again = pair.a.output(pair.now);
    let starts: Vec<_> =
        again.iter().map(|p| (p.payload.start / u64::from(ADU), p.retransmission)).collect();
    assert_eq!(starts, [(2, true), (5, true)]);
    assert_eq!(pair.a.tcp.counters().recoveries, 1);
}

#[test]
fn a_lost_tail_is_found_by_a_probe_and_not_by_the_timer() {
    let mut pair = open();
    queue(&mut pair, 5);
    let mut out = pair.a.output(pair.now);
    out.pop();
    out.pop();
    pair.wait();
    for p in &out {
        pair.b.take(pair.now, p);
    }
    pair.run_until(|_, _| false, |p| p.received() == 5 * u64::from(ADU));
    let c = pair.a.tcp.counters();
    assert_eq!((c.tail_loss_probes, c.timeouts), (1, 0), "{c:?}");
    assert!(c.retransmissions <= 2);
}

#[test]
fn a_probe_that_repairs_a_single_loss_reduces_the_window_once() {
    let mut pair = open();
    queue(&mut pair, 10);
    let cwnd = pair.a.tcp.info().cwnd;
    let mut out = pair.a.output(pair.now);
    out.pop();
    pair.wait();
    for p in &out {
        pair.b.take(pair.now, p);
    }
    pair.run_until(|_, _| false, |p| p.a.tcp.info().unacked == 0);
    // Whether it was a loss shows when no duplicate is reported (RFC 8985, section 7.4.2).
    assert_eq!(pair.a.tcp.info().ssthresh, u64::MAX);
    queue(&mut pair, 1);
    pair.run_until(|_, _| false, |p| p.a.tcp.info().unacked == 0);
    let info = pair.a.tcp.info();
    assert_eq!((info.counters.tail_loss_probes, info.counters.retransmissions), (1, 1));
    assert!(info.cwnd < cwnd + 10 * u64::from(ADU) && info.ssthresh != u64::MAX, "{info:?}");
}

#[test]
fn a_silent_path_backs_off_and_times_out() {
    let cfg = Config { max_retransmissions: 5, ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    queue(&mut pair, 3);
    let mut times = Vec::new();
    while pair.a.tcp.state() != State::Closed {
        for p in pair.a.output(pair.now) {
            if p.retransmission && p.payload.start == 0 {
                times.push(pair.now);
            }
        }
        let Some(at) = pair.a.tcp.poll_timeout() else { break };
        pair.now = at;
        pair.a.tcp.handle_timeout(at);
        pair.a.drain_events();
    }
    assert_eq!(times.len(), 5);
    for w in times.windows(3) {
        let (first, second) = (w[1] - w[0], w[2] - w[1]);
        assert!(second > first.mul_f64(1.9) && second < first.mul_f64(2.1), "{first:?} {second:?}");
    }
    assert!(pair.a.saw(Event::TimedOut) && pair.a.saw(Event::Closed));
}

#[test]
fn the_user_timeout_bounds_the_wait() {
    let cfg = Config { user_timeout: Some(Duration::from_secs(3)), ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    pair.sleep(Duration::from_secs(100));
    queue(&mut pair, 3);
    let start = pair.now;
    while pair.a.tcp.state() != State::Closed {
        pair.a.output(pair.now);
        pair.now = pair.a.tcp.poll_timeout().expect("a deadline");
        pair.a.tcp.handle_timeout(pair.now);
        pair.a.drain_events();
    }
    assert!(pair.a.saw(Event::TimedOut));
    let waited = pair.now - start;
    assert!(
        waited >= Duration::from_secs(3) && waited < Duration::from_millis(3_100),
        "{waited:?}"
    );
}

#[test]
fn everything_lost_for_a_while_comes_through_later() {
    let mut pair = open();
    queue(&mut pair, 50);
    let until = pair.now + Duration::from_secs(20);
    while pair.now < until {
        pair.a.output(pair.now);
        pair.b.output(pair.now);
        pair.sleep_to_timer();
    }
    pair.run_until(|_, _| false, |p| p.received() == 50 * u64::from(ADU));
    assert_eq!(
        pair.a.tcp.info().rto,
        Config::default().rto_min,
        "back-off ends with the first sample"
    );
}

#[test]
fn reordering_is_learnt_and_then_not_taken_for_loss() {
    let mut pair = open();
    let mut recoveries = Vec::new();
    for _ in 0..10 {
        queue(&mut pair, 10);
        let mut out = pair.a.output(pair.now);
        // The first of each flight arrives two milliseconds after the others.
        let late = out.remove(0);
        pair.wait();
        for p in &out {
            pair.b.take(pair.now, p);
        }
        let acks = pair.b.output(pair.now);
        pair.sleep(Duration::from_millis(2));
        pair.b.take(pair.now, &late);
        for ack in &acks {
            pair.a.take(pair.now, ack);
        }
        pair.run_until(|_, _| false, |p| p.a.tcp.info().unacked == 0);
        recoveries.push(pair.a.tcp.counters().recoveries);
    }
    assert_eq!(
        recoveries[9], recoveries[4],
        "no more recoveries once reordering is known: {recoveries:?}"
    );
}

#[test]
fn a_spurious_recovery_is_undone() {
    let mut pair = open();
    queue(&mut pair, 10);
    let cwnd = pair.a.tcp.info().cwnd;
    let mut out = pair.a.output(pair.now);
    let late = out.remove(0);
    pair.wait();
    for p in &out {
        pair.b.take(pair.now, p);
    }
    for ack in pair.b.output(pair.now) {
        pair.a.take(pair.now, &ack);
    }
    assert_eq!(pair.a.tcp.counters().recoveries, 1);
    assert!(pair.a.tcp.info().cwnd < cwnd);
    let again = pair.a.output(pair.now);
    assert!(again[0].retransmission);
    // The original arrives after all, and is acknowledged with its own timestamp.
    pair.b.take(pair.now, &late);
    pair.wait();
    for ack in pair.b.output(pair.now) {
        pair.a.take(pair.now, &ack);
    }
    assert_eq!(pair.a.tcp.counters().spurious, 1);
    assert!(pair.a.tcp.info().cwnd >= cwnd, "{} {cwnd}", pair.a.tcp.info().cwnd);
}

#[test]
fn a_spurious_recovery_is_undone_by_dsack_without_timestamps() {
    let cfg = Config { timestamps: false, ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    queue(&mut pair, 10);
    let cwnd = pair.a.tcp.info().cwnd;
    let mut out = pair.a.output(pair.now);
    let late = out.remove(0);
    pair.wait();
    for p in out.iter().chain([&late]) {
        pair.b.take(pair.now, p);
        for ack in pair.b.output(pair.now) {
            pair.a.take(pair.now, &ack);
        }
    }
    assert_eq!(pair.a.tcp.counters().recoveries, 1);
    let again = pair.a.output(pair.now);
    pair.wait();
    // The copy arrives and is reported as a duplicate.
    if again.is_empty() {
        return;
    }
    for p in &again {
        pair.b.take(pair.now, p);
    }
    for ack in pair.b.output(pair.now) {
        pair.a.take(pair.now, &ack);
    }
    assert_eq!(pair.a.tcp.counters().spurious, 1);
    assert!(pair.a.tcp.info().cwnd >= cwnd);
}

#[test]
fn heavy_loss_both_ways_still_delivers() {
    for seed in 0..20u64 {
        let mut pair = open();
        let total = 300u32;
        queue(&mut pair, total);
        pair.a.tcp.finish();
        let mut x = seed * 2 + 1;
        pair.run_until(
            |_, _| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 33) % 10 < 3
            },
            |p| p.received() == u64::from(total * ADU) && p.b.tcp.state() == State::CloseWait,
        );
    }
}
