//! Every way to end: half close, both at once, TIME-WAIT, lost FINs, aborts.

use crate::pair::Pair;
use core::time::Duration;
use fusewire_transport::machine::{DropCause, Event, ResetCause, TransmitKind};
use fusewire_transport::tcp::{Config, State};
use fusewire_wire::tcp::Flags;

fn open() -> Pair {
    Pair::open(&Config::default(), &Config::default())
}

#[test]
fn half_close_and_then_the_other_half() {
    let mut pair = open();
    pair.a.send(500);
    pair.a.tcp.finish();
    assert_eq!(pair.a.tcp.state(), State::FinWait1);
    assert_eq!(pair.a.tcp.reserve(1), None);
    pair.settle();
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::FinWait2, State::CloseWait));
    assert!(pair.b.saw(Event::PeerFinished { offset: 500 }));
    assert!(pair.a.saw(Event::Acked { upto_offset: 500 }));
    // The other direction still works.
    pair.b.send(9_000);
    pair.run_until(|_, _| false, |p| p.a.tcp.rcv_nxt_offset() == 9_000);
    pair.b.tcp.finish();
    pair.settle();
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::TimeWait, State::Closed));
    assert!(pair.a.saw(Event::PeerFinished { offset: 9_000 }));
    assert!(pair.b.saw(Event::Closed) && !pair.a.saw(Event::Closed));
    pair.sleep(Config::default().time_wait);
    assert!(pair.a.saw(Event::Closed));
    assert_eq!(pair.a.tcp.poll_timeout(), None);
}

#[test]
fn both_finish_at_once() {
    let mut pair = open();
    pair.a.send(10);
    pair.b.send(20);
    pair.a.tcp.finish();
    pair.b.tcp.finish();
    let (a, b) = (pair.a.output(pair.now), pair.b.output(pair.now));
    pair.wait();
    let now = pair.now;
    a.iter().for_each(|p| pair.b.take(now, p));
    b.iter().for_each(|p| pair.a.take(now, p));
    // Each FIN crossed the other: neither carried an acknowledgement of it.
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::Closing, State::Closing));
    pair.settle();
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::TimeWait, State::TimeWait));
    assert!(
        pair.a.saw(Event::PeerFinished { offset: 20 })
            && pair.b.saw(Event::PeerFinished { offset: 10 })
    );
}

#[test]
fn each_segment_of_a_close_may_be_lost() {
    for lost in 0..8 {
        let mut pair = open();
        pair.a.send(100);
        pair.b.send(100);
        pair.a.tcp.finish();
        let mut n = 0;
        let mut finished = false;
        for _ in 0..60 {
            pair.exchange(|_, _| {
                n += 1;
                n - 1 == lost
            });
            if pair.b.saw(Event::PeerFinished { offset: 100 }) && !finished {
                pair.b.tcp.finish();
                finished = true;
                continue;
            }
            if pair.b.tcp.state() == State::Closed {
                break;
            }
            pair.sleep_to_timer();
        }
        assert_eq!(pair.b.tcp.state(), State::Closed, "lost {lost}");
        assert!(
            matches!(pair.a.tcp.state(), State::TimeWait | State::Closed),
            "lost {lost}: {:?}",
            pair.a.tcp.state()
        );
        assert!(
            pair.b.saw(Event::Closed) && !pair.b.saw(Event::TimedOut),
            "lost {lost}: {:?}",
            pair.b.events
        );
    }
}

#[test]
fn a_fin_before_its_data_waits() {
    let mut pair = open();
    pair.a.send(1000);
    pair.a.send(1000);
    let mut out = pair.a.output(pair.now);
    pair.a.tcp.finish();
    out.extend(pair.a.output(pair.now));
    assert_eq!(out[2].kind, TransmitKind::Fin);
    pair.b.take(pair.now, &out[2]);
    pair.b.take(pair.now, &out[1]);
    assert_eq!(pair.b.tcp.state(), State::Established);
    pair.b.take(pair.now, &out[0]);
    assert_eq!(pair.b.tcp.state(), State::CloseWait);
    assert!(pair.b.saw(Event::PeerFinished { offset: 2000 }));
    assert_eq!(pair.received(), 2000);
}

#[test]
fn a_fin_before_what_was_received_is_refused() {
    let mut pair = open();
    pair.a.send(1000);
    pair.a.send(1000);
    let out = pair.a.output(pair.now);
    pair.b.take(pair.now, &out[1]);
    let mut forged = out[0].clone();
    forged.header.flags |= Flags::FIN;
    forged.payload = 0..0;
    pair.b.take(pair.now, &forged);
    assert_eq!(pair.b.tcp.state(), State::Established);
    assert_eq!(pair.b.tcp.counters().dropped(DropCause::Protocol), 1);
    pair.b.take(pair.now, &out[0]);
    assert_eq!(pair.received(), 2000);
}

#[test]
fn time_wait_answers_a_fin_sent_again_and_starts_anew() {
    let mut pair = open();
    pair.a.tcp.finish();
    pair.settle();
    pair.b.tcp.finish();
    let fin = pair.b.output(pair.now).remove(0);
    pair.a.take(pair.now, &fin);
    assert_eq!(pair.a.output(pair.now).len(), 1);
    assert_eq!(pair.a.tcp.state(), State::TimeWait);
    pair.sleep(Config::default().time_wait / 2);
    // Our acknowledgement was lost.
    let now = pair.now;
    pair.a.take(now, &fin);
    let ack = pair.a.output(now).remove(0);
    assert_eq!(ack.header.ack, fin.header.seq + 1);
    pair.sleep(Config::default().time_wait / 2 + Duration::from_secs(1));
    assert_eq!(pair.a.tcp.state(), State::TimeWait);
    // RFC 1337: an RST does not end it.
    let mut rst = fin.clone();
    rst.header.flags = Flags::RST;
    rst.header.seq = fin.header.seq + 1;
    let now = pair.now;
    pair.a.take(now, &rst);
    assert_eq!(pair.a.tcp.state(), State::TimeWait);
    // RFC 6191: a SYN with a later timestamp may have the pair of ports.
    let mut syn = fin.header;
    syn.flags = Flags::SYN;
    syn.options.timestamps = syn.options.timestamps.map(|(v, _)| (v + 1000, 0));
    assert!(pair.a.tcp.time_wait_yields_to(&syn));
    syn.options.timestamps = syn.options.timestamps.map(|(v, _)| (v - 2000, 0));
    assert!(!pair.a.tcp.time_wait_yields_to(&syn));
}

#[test]
fn fin_wait_2_lasts_as_long_as_the_peer_is_heard_or_for_ever() {
    let silence = Duration::from_secs(60);
    let mut pair =
        Pair::open(&Config { fin_wait_2: Some(silence), ..Config::default() }, &Config::default());
    pair.a.tcp.finish();
    pair.settle();
    assert_eq!(pair.a.tcp.state(), State::FinWait2);
    pair.sleep(silence / 2);
    pair.b.send(10);
    pair.settle();
    pair.sleep(silence / 2);
    assert_eq!(pair.a.tcp.state(), State::FinWait2);
    pair.sleep(silence / 2);
    assert_eq!(pair.a.tcp.state(), State::Closed);
    let mut pair = open();
    pair.a.tcp.finish();
    pair.settle();
    assert_eq!((pair.a.tcp.state(), pair.a.tcp.poll_timeout()), (State::FinWait2, None));
}

#[test]
fn abort_resets_the_peer() {
    let mut pair = open();
    pair.a.send(100);
    pair.a.output(pair.now);
    pair.a.tcp.abort();
    let out = pair.a.output(pair.now);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].kind, TransmitKind::Reset);
    assert!(pair.a.saw(Event::Reset(ResetCause::Local)) && pair.a.saw(Event::Closed));
    // The segment before was lost: the RST is not exactly next for the peer, which asks (RFC 5961) ...
    pair.b.take(pair.now, &out[0]);
    assert_eq!(pair.b.tcp.state(), State::Established);
    let challenge = pair.b.output(pair.now).remove(0);
    // ... and whoever holds no state answers with an exact one.
    let reset = fusewire_transport::tcp::reset_for(&challenge.header, 0).expect("an answer");
    let mut exact = out[0].clone();
    exact.header = reset;
    pair.b.take(pair.now, &exact);
    assert!(pair.b.saw(Event::Reset(ResetCause::Peer)) && pair.b.saw(Event::Closed));
    assert_eq!(pair.b.tcp.poll_timeout(), None);
    assert!(pair.b.output(pair.now).is_empty());
}

#[test]
fn data_after_fin_is_not_taken() {
    let mut pair = open();
    pair.a.send(100);
    let mut out = pair.a.output(pair.now);
    pair.a.tcp.finish();
    out.extend(pair.a.output(pair.now));
    for p in &out {
        pair.b.take(pair.now, p);
    }
    let mut more = out[0].clone();
    more.header.seq = out[1].header.seq + 1;
    more.payload = 100..200;
    pair.b.take(pair.now, &more);
    assert_eq!(pair.received(), 100);
    assert_eq!(pair.b.accepted.len(), 1);
    assert_eq!(pair.b.tcp.counters().dropped(fusewire_transport::machine::DropCause::AfterEnd), 1);
}

#[test]
fn fin_rides_on_data_that_was_not_sent_yet() {
    let mut pair = open();
    pair.a.send(1000);
    pair.a.send(500);
    pair.a.tcp.finish();
    let out = pair.a.output(pair.now);
    assert_eq!(out.len(), 2);
    assert!(out[1].header.flags.has(Flags::FIN | Flags::PSH) && out[1].kind == TransmitKind::Data);
    for p in &out {
        pair.b.take(pair.now, p);
    }
    assert_eq!(pair.b.tcp.state(), State::CloseWait);
    assert_eq!(pair.received(), 1500);
    pair.settle();
    assert_eq!(pair.a.tcp.state(), State::FinWait2);
}

#[test]
fn fin_does_not_hold_back_data_that_fills_the_window() {
    let small = Config { recv_window: 2000, initial_recv_window: 2000, ..Config::default() };
    let mut pair = Pair::open(&Config::default(), &small);
    pair.a.send(1000);
    pair.a.send(1000);
    pair.a.tcp.finish();
    let out = pair.a.output(pair.now);
    assert_eq!(out.len(), 2, "all the data, without the FIN");
    assert!(out.iter().all(|p| !p.header.flags.has(Flags::FIN)));
}

#[test]
fn finish_during_the_handshake_follows_it() {
    let cfg = Config::default();
    let mut pair = Pair::closed(&cfg, &cfg);
    let (a, b) = (pair.a.output(pair.now).remove(0), pair.b.output(pair.now).remove(0));
    pair.a.tcp.finish();
    let now = pair.now;
    pair.a.take(now, &b);
    pair.b.take(now, &a);
    pair.settle();
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::FinWait2, State::CloseWait));
}
