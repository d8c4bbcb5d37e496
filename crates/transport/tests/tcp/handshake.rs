//! Active opens and what is agreed in them.

use crate::pair::{End, ISS_A, ISS_B, Packet, Pair, start};
use core::time::Duration;
use fusewire_base::Seq;
use fusewire_transport::machine::{Event, Listener as _, ResetCause, TransmitKind};
use fusewire_transport::tcp::{Config, Connection, ListenerAction, State};
use fusewire_wire::tcp::{Flags, Header};

#[test]
fn options_are_agreed_only_when_both_want_them() {
    for bits in 0..256u32 {
        let cfg = |bits: u32| Config {
            timestamps: bits & 1 != 0,
            sack: bits & 2 != 0,
            window_scaling: bits & 4 != 0,
            ecn: bits & 8 != 0,
            ..Config::default()
        };
        let mut pair = Pair::open(&cfg(bits), &cfg(bits >> 4));
        let both = bits & bits >> 4;
        let options = if both & 1 != 0 { 12 } else { 0 };
        assert_eq!(
            (pair.a.tcp.max_payload(), pair.b.tcp.max_payload()),
            (1452 - options, 1452 - options)
        );
        pair.a.send(1000);
        let p = pair.a.output(pair.now).remove(0);
        assert_eq!(p.header.options.timestamps.is_some(), both & 1 != 0);
        assert_eq!(p.ecn_capable, both & 8 != 0);
        pair.b.take(pair.now, &p);
        pair.settle();
        pair.b.send(1000);
        pair.settle();
        assert_eq!((pair.received(), pair.a.tcp.rcv_nxt_offset()), (1000, 1000), "bits {bits:08b}");
        let scaled = pair.a.tcp.info().send_window > u32::from(u16::MAX);
        assert_eq!(scaled, both & 4 != 0, "bits {bits:08b}");
    }
}

#[test]
fn the_smaller_segment_size_wins() {
    let small = Config { mss: 900, ..Config::default() };
    let pair = Pair::open(&Config::default(), &small);
    assert_eq!((pair.a.tcp.max_payload(), pair.b.tcp.max_payload()), (888, 1440));
    let careful = Config { send_mss: 700, ..Config::default() };
    assert_eq!(Pair::open(&careful, &small).a.tcp.max_payload(), 688);
}

#[test]
fn the_longer_user_timeout_is_taken_by_whoever_has_one() {
    // RFC 5482: seconds, or minutes with the top bit.
    for (ours, theirs, field, waited) in
        [(5, 20, 20, 20), (40_000, 7, 7, 3600), (5, 36_000, 0x8000 | 600, 3600)]
    {
        let with = |s| Config { user_timeout: Some(Duration::from_secs(s)), ..Config::default() };
        let mut pair = Pair::closed(&with(theirs), &with(ours));
        let syn = pair.a.output(pair.now).remove(0);
        assert_eq!(syn.header.options.user_timeout, Some(field));
        let mut pair = Pair::open(&with(ours.min(3600)), &with(theirs));
        pair.a.send(100);
        let start = pair.now;
        while pair.a.tcp.state() != State::Closed {
            pair.a.output(pair.now);
            pair.now = pair.a.tcp.poll_timeout().expect("a deadline");
            pair.a.tcp.handle_timeout(pair.now);
            pair.a.drain_events();
        }
        let secs = (pair.now - start).as_secs();
        assert!(secs >= waited && secs <= waited + 61, "{secs} for {waited}");
    }
    // Who has none takes none from the peer, so that it cannot hold us.
    let with = Config { user_timeout: Some(Duration::from_secs(3000)), ..Config::default() };
    let none = Config { max_retransmissions: 3, ..Config::default() };
    let mut pair = Pair::open(&none, &with);
    pair.a.send(100);
    let start = pair.now;
    while pair.a.tcp.state() != State::Closed {
        pair.a.output(pair.now);
        pair.now = pair.a.tcp.poll_timeout().expect("a deadline");
        pair.a.tcp.handle_timeout(pair.now);
    }
    assert!(pair.now - start < Duration::from_secs(30));
}

#[test]
fn a_new_path_begins_anew() {
    let cfg = Config::default();
    let mut pair = Pair::open(&cfg, &cfg);
    for _ in 0..40 {
        pair.a.send(1440);
    }
    pair.settle();
    assert!(pair.a.tcp.info().cwnd > 14_400);
    pair.a.tcp.path_changed();
    let info = pair.a.tcp.info();
    assert_eq!((info.cwnd, info.srtt), (14_400, Duration::ZERO));
    // What the peer can receive is not a matter of the path.
    pair.a.tcp.set_max_payload(60_000);
    assert_eq!(pair.a.tcp.max_payload(), 1440);
    pair.a.send(1440);
    pair.run_until(|_, _| false, |p| p.received() == 41 * 1440);
}

#[test]
fn syn_is_sent_again_with_back_off_and_then_given_up() {
    let cfg = Config { syn_transmissions: 4, ..Config::default() };
    let mut pair = Pair::closed(&cfg, &cfg);
    let start = pair.now;
    let mut times = Vec::new();
    loop {
        for p in pair.a.output(pair.now) {
            assert!(p.has(Flags::SYN) && !p.has(Flags::ACK));
            times.push((pair.now - start).as_millis());
        }
        let Some(at) = pair.a.tcp.poll_timeout() else { break };
        pair.now = at;
        pair.a.tcp.handle_timeout(at);
    }
    assert_eq!(times, [0, 1000, 3000, 7000]);
    pair.a.drain_events();
    assert_eq!(pair.a.events, [Event::TimedOut, Event::Closed]);
}

#[test]
fn a_lost_syn_or_syn_ack_or_ack_is_survived() {
    for lost in 0..3 {
        let cfg = Config::default();
        let mut pair = Pair::closed(&cfg, &cfg);
        let mut l = crate::listener::listener(&cfg, 4);
        let tuple = crate::listener::tuple(1);
        let mut b: Option<End> = None;
        let mut sent = 0;
        for _ in 0..20 {
            let now = pair.now;
            for p in pair.a.output(now) {
                sent += 1;
                if sent - 1 == lost && lost != 1 {
                    continue;
                }
                if let Some(b) = &mut b {
                    b.take(now, &p);
                    continue;
                }
                match l.handle_stray(now, &tuple, &p.header, p.len()) {
                    ListenerAction::Reply(h) if h.flags.has(Flags::SYN) => {
                        sent += 1;
                        if sent - 1 != lost {
                            pair.a.take(now, &plain(h));
                        }
                    }
                    ListenerAction::Accept(c) => {
                        let mut end = End::new(*c);
                        end.take(now, &p);
                        b = Some(end);
                    }
                    other => panic!("{other:?}"),
                }
            }
            while let Some((_, h)) = l.poll_reply(now) {
                pair.a.take(now, &plain(h));
            }
            pair.sleep(Duration::from_millis(400));
        }
        assert_eq!(pair.a.tcp.state(), State::Established, "lost {lost}");
        assert_eq!(b.expect("accepted").tcp.state(), State::Established, "lost {lost}");
    }
}

#[test]
fn after_a_timeout_of_the_handshake_data_begins_with_three_seconds() {
    // RFC 6298, (5.7). Without SACK no probe comes before the timeout.
    let cfg = Config { sack: false, ..Config::default() };
    for syn_ack_is_lost in [false, true] {
        let mut pair = Pair::closed(&cfg, &cfg);
        let mut l = crate::listener::listener(&cfg, 4);
        let tuple = crate::listener::tuple(1);
        let mut syn = pair.a.output(pair.now).remove(0);
        if !syn_ack_is_lost {
            pair.now = pair.a.tcp.poll_timeout().expect("the SYN's");
            pair.a.tcp.handle_timeout(pair.now);
            syn = pair.a.output(pair.now).remove(0);
        }
        let action = l.handle_stray(pair.now, &tuple, &syn.header, 0);
        let ListenerAction::Reply(mut syn_ack) = action else { panic!("{action:?}") };
        if syn_ack_is_lost {
            pair.now = l.poll_timeout().expect("the SYN-ACK's");
            syn_ack = l.poll_reply(pair.now).expect("a second").1;
        }
        pair.a.take(pair.now, &plain(syn_ack));
        let ack = pair.a.output(pair.now).remove(0);
        let action = l.handle_stray(pair.now, &tuple, &ack.header, 0);
        let ListenerAction::Accept(accepted) = action else { panic!("{action:?}") };
        let mut b = End::new(*accepted);
        b.take(pair.now, &ack);
        let timed_out = if syn_ack_is_lost { &mut b } else { &mut pair.a };
        timed_out.send(1000);
        assert_eq!(timed_out.output(pair.now).len(), 1);
        assert_eq!(timed_out.tcp.info().rto, Duration::from_secs(3));
        let again = timed_out.tcp.poll_timeout();
        assert_eq!(again, Some(pair.now + Duration::from_secs(3)), "{syn_ack_is_lost}");
    }
}

fn plain(header: Header) -> Packet {
    Packet {
        header,
        payload: 0..0,
        kind: TransmitKind::Syn,
        retransmission: false,
        marked: false,
        ecn_capable: false,
    }
}

#[test]
fn simultaneous_open() {
    let cfg = Config::default();
    let mut pair = Pair::closed(&cfg, &cfg);
    // Both SYNs cross.
    let (a, b) = (pair.a.output(pair.now).remove(0), pair.b.output(pair.now).remove(0));
    pair.wait();
    let now = pair.now;
    pair.a.take(now, &b);
    pair.b.take(now, &a);
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::SynReceived, State::SynReceived));
    pair.settle();
    assert_eq!((pair.a.tcp.state(), pair.b.tcp.state()), (State::Established, State::Established));
    pair.a.send(5000);
    pair.b.send(7000);
    pair.run_until(|_, _| false, |p| p.received() == 5000 && p.a.tcp.rcv_nxt_offset() == 7000);
}

#[test]
fn simultaneous_open_survives_the_loss_of_each_segment() {
    for lost in 0..6 {
        let cfg = Config::default();
        let mut pair = Pair::closed(&cfg, &cfg);
        let (a, b) = (pair.a.output(pair.now).remove(0), pair.b.output(pair.now).remove(0));
        pair.wait();
        let now = pair.now;
        if lost != 0 {
            pair.a.take(now, &b);
        }
        if lost != 1 {
            pair.b.take(now, &a);
        }
        let mut n = 1;
        pair.run_until(
            |_, _| {
                n += 1;
                n == lost
            },
            |p| p.a.tcp.state() == State::Established && p.b.tcp.state() == State::Established,
        );
    }
}

#[test]
fn a_refused_connection() {
    let cfg = Config::default();
    let mut pair = Pair::closed(&cfg, &cfg);
    let syn = pair.a.output(pair.now).remove(0);
    let reset = fusewire_transport::tcp::reset_for(&syn.header, 0).expect("an answer");
    // A forged one that acknowledges something else changes nothing.
    let now = pair.now;
    pair.a.take(now, &plain(Header { ack: reset.ack + 1, ..reset }));
    pair.a.take(now, &plain(Header { flags: Flags::RST, ..reset }));
    assert_eq!(pair.a.tcp.state(), State::SynSent);
    pair.a.take(now, &plain(reset));
    assert_eq!(pair.a.events, [Event::Reset(ResetCause::Refused), Event::Closed]);
}

#[test]
fn an_old_syn_ack_is_reset_and_the_open_goes_on() {
    // RFC 9293, figure 8.
    let cfg = Config::default();
    let mut pair = Pair::closed(&cfg, &cfg);
    pair.a.output(pair.now);
    let stale = Header {
        src_port: 2000,
        dst_port: 1000,
        seq: ISS_B,
        ack: Seq(12345),
        flags: Flags::SYN | Flags::ACK,
        ..Header::default()
    };
    let now = pair.now;
    pair.a.take(now, &plain(stale));
    let reset = pair.a.output(now).remove(0);
    assert_eq!((reset.header.flags, reset.header.seq), (Flags::RST, Seq(12345)));
    assert_eq!(pair.a.tcp.state(), State::SynSent);
    let good = Header { ack: ISS_A + 1, ..stale };
    pair.a.take(now, &plain(good));
    assert_eq!(pair.a.tcp.state(), State::Established);
}

#[test]
fn nothing_is_reserved_before_the_connection_is_open() {
    let cfg = Config::default();
    let mut c = Connection::connect(&cfg, 1, 2, start(Seq(0)), fusewire_base::Instant::ZERO);
    assert_eq!(c.send_room(), 0);
    assert_eq!(c.reserve(1), None);
    c.finish();
    assert_eq!(c.state(), State::Closed, "nothing was sent yet");
}
