//! Flow control: zero windows, silly windows, autotuning, keep-alive.

use crate::pair::{Packet, Pair};
use core::time::Duration;
use fusewire_transport::machine::{Event, KeepAlive, TransmitKind};
use fusewire_transport::tcp::{Config, State};

fn small() -> Config {
    Config { recv_window: 8_000, initial_recv_window: 8_000, ..Config::default() }
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut pair = Pair::open(&Config::default(), &small());
    pair.b.reads = false;
    for _ in 0..20 {
        pair.a.send(1000);
    }
    pair.settle();
    let stopped = pair.received();
    assert_eq!(stopped, 8_000);
    let mut probes = 0;
    for _ in 0..12 {
        pair.sleep_to_timer();
        pair.exchange(|_, p: &Packet| {
            probes += u32::from(p.kind == TransmitKind::Probe);
            assert_eq!(p.len(), 0, "nothing fits");
            false
        });
    }
    assert!(probes >= 5, "{probes}");
    assert_eq!(pair.a.tcp.state(), State::Established);
    // The update that says so is lost: the next probe finds out.
    pair.b.reads = true;
    pair.b.tcp.consumed(8_000);
    let update = pair.b.output(pair.now);
    assert_eq!(update.len(), 1, "a window that opens is told");
    pair.run_until(|_, _| false, |p| p.received() == 20_000);
}

#[test]
fn a_window_smaller_than_an_adu_lets_it_through_in_pieces() {
    let mut pair = Pair::open(
        &Config::default(),
        &Config { recv_window: 600, initial_recv_window: 600, ..Config::default() },
    );
    pair.a.send(1400);
    pair.a.send(1400);
    pair.run_until(|_, _| false, |p| p.received() == 2800);
    assert!(pair.b.accepted.iter().all(|r| r.end - r.start <= 600));
}

#[test]
fn the_receiver_opens_no_silly_window() {
    let mut pair = Pair::open(&Config::default(), &small());
    pair.b.reads = false;
    for _ in 0..10 {
        pair.a.send(1000);
    }
    pair.settle();
    // The application reads byte by byte.
    let mut edges = Vec::new();
    for upto in 1..=8_000 {
        pair.b.tcp.consumed(upto);
        for p in pair.b.output(pair.now) {
            edges.push(p.header.window);
        }
    }
    assert!(edges.len() <= 9, "{} updates", edges.len());
    assert!(edges.iter().all(|w| *w == 0 || u32::from(*w) >= 1000), "{edges:?}");
}

#[test]
fn the_window_grows_while_the_application_keeps_up() {
    let cfg = Config { initial_recv_window: 64 << 10, ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    let before = pair.a.tcp.info().send_window;
    let mut sent = 0u64;
    while pair.received() < 20 << 20 {
        while pair.a.tcp.send_room() >= 1440 {
            pair.a.send(1440);
            sent += 1440;
        }
        pair.exchange(|_, _| false);
        pair.sleep_to_timer();
    }
    assert!(sent >= 20 << 20);
    let after = pair.a.tcp.info().send_window;
    assert!(before <= 64 << 10 && after > 2 << 20, "{before} {after}");
}

#[test]
fn the_window_does_not_grow_for_an_application_that_does_not_read() {
    let cfg = Config { initial_recv_window: 64 << 10, ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    pair.b.reads = false;
    for _ in 0..100 {
        pair.a.send(1440);
    }
    pair.settle();
    assert!(pair.received() <= 64 << 10);
}

#[test]
fn a_promise_that_is_taken_back_loses_nothing() {
    let cfg = Config { initial_recv_window: 64 << 10, ..Config::default() };
    let mut pair = Pair::open(&cfg, &cfg);
    pair.b.reads = false;
    for _ in 0..10 {
        pair.a.send(1000);
    }
    pair.settle();
    assert_eq!(pair.received(), 10_000);
    for _ in 0..30 {
        pair.a.send(1000);
    }
    let before = pair.b.tcp.narrow_window(1000);
    assert!(before >= 60_000, "{before}");
    assert_eq!(pair.b.tcp.info().recv_window, 0);
    // What was promised finds no room any more, however often it comes.
    for _ in 0..5 {
        pair.exchange(|_, _| false);
        pair.sleep_to_timer();
    }
    assert_eq!(pair.received(), 10_000);
    assert_eq!(pair.a.tcp.state(), State::Established);
    pair.b.reads = true;
    pair.b.tcp.consumed(10_000);
    pair.b.tcp.widen_window(before);
    pair.run_until(|_, _| false, |p| p.received() == 40_000);
    // A range beyond a hole stays.
    pair.a.send(1000);
    pair.a.send(1000);
    let mut is_first = true;
    pair.exchange(|_, p: &Packet| p.len() > 0 && std::mem::take(&mut is_first));
    pair.b.tcp.narrow_window(1);
    pair.b.tcp.widen_window(before);
    pair.run_until(|_, _| false, |p| p.received() == 42_000);
}

#[test]
fn reserving_within_the_window_waits_for_room() {
    let cfg = Config { reserve_within_window: true, ..Config::default() };
    let mut pair = Pair::open(&cfg, &small());
    pair.b.reads = false;
    let mut sent = 0;
    while pair.a.tcp.send_room() >= 1000 {
        pair.a.send(1000);
        sent += 1000;
    }
    assert_eq!(sent, 8_000, "as much as the peer offers");
    assert_eq!(pair.a.tcp.reserve(1000), None);
    pair.settle();
    pair.b.tcp.consumed(4_000);
    pair.settle();
    assert!(pair.a.tcp.send_room() >= 4_000);
}

#[test]
fn a_long_record_begins_when_its_first_segment_may_leave() {
    let cfg = Config { reserve_within_window: true, ..Config::default() };
    let mut pair = Pair::open(&cfg, &Config::default());
    let (mss, window) = (pair.a.tcp.max_payload(), pair.a.tcp.info().cwnd as u32);
    assert_eq!(window, 10 * mss, "the initial window");
    pair.a.send(9 * mss - 1);
    assert!(pair.a.tcp.has_room(2 * mss), "its first segment leaves behind what waits");
    assert_eq!(pair.a.tcp.send_room(), mss + 1);
    assert!(!pair.a.tcp.has_room(cfg.send_buffer), "more than there is memory for");
    pair.a.send(2 * mss);
    assert!(!pair.a.tcp.has_room(2 * mss) && !pair.a.tcp.has_room(1), "nothing of it would leave");
    assert_eq!(pair.a.output(pair.now).len(), 10);
    assert!(!pair.a.tcp.has_room(2 * mss) && !pair.a.tcp.has_room(1), "the window is full");
}

#[test]
fn keep_alive_finds_a_peer_that_is_gone_and_leaves_one_that_is_there() {
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(60), interval: Duration::from_secs(5), probes: 3 };
    let cfg = Config { keep_alive: Some(keep_alive), ..Config::default() };
    let mut pair = Pair::open(&cfg, &Config::default());
    for _ in 0..10 {
        pair.sleep_to_timer();
        pair.settle();
    }
    assert_eq!(pair.a.tcp.state(), State::Established);
    assert!(pair.a.tcp.counters().probes >= 4, "{}", pair.a.tcp.counters().probes);
    let start = pair.now;
    while pair.a.tcp.state() != State::Closed {
        pair.a.output(pair.now);
        pair.now = pair.a.tcp.poll_timeout().expect("a deadline");
        pair.a.tcp.handle_timeout(pair.now);
        pair.a.drain_events();
    }
    assert!(pair.a.saw(Event::TimedOut));
    assert!(pair.now - start <= Duration::from_secs(60 + 4 * 5));
}

#[test]
fn the_table_of_ranges_is_bounded() {
    let cfg = Config { max_ranges: 8, ..Config::default() };
    let mut pair = Pair::open(&Config { initial_window_segments: 100, ..Config::default() }, &cfg);
    for _ in 0..60 {
        pair.a.send(1000);
    }
    let out = pair.a.output(pair.now);
    assert_eq!(out.len(), 60);
    for p in out.iter().skip(1).step_by(2) {
        pair.b.take(pair.now, p);
    }
    let c = pair.b.tcp.counters();
    assert_eq!(c.out_of_order, 8);
    assert_eq!(c.dropped(fusewire_transport::machine::DropCause::TooManyRanges), 22);
    pair.run_until(|_, _| false, |p| p.received() == 60_000);
}
