//! What a receiver takes, and what it says.

use core::time::Duration;
use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_transport::machine::{DropCause, Initial, Verdict};
use fusewire_transport::xtp::group::{Heard, Receiver, ReceiverConfig, ReceiverEvent};
use fusewire_transport::xtp::{Header, SPANS};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, JoinControl, Options, Reason, Service, SpanList,
    Traffic, TrafficControl,
};

use super::{MULTI, NOW, at, key};

/// Where a receiver begins in these tests.
const BEGIN: u64 = 1000;
const SYNC: u32 = 70;

type Said = Body<SpanList<SPANS>>;

/// A packet of the sender's to all.
fn to_all(seq: u64, data_len: u32, body: Said) -> Header {
    Header {
        key: key(77),
        returned: false,
        options: MULTI,
        check: 0,
        sort: 0,
        sync: SYNC,
        seq,
        data_len,
        body,
    }
}

fn data(seq: u64, data_len: u32) -> Header {
    to_all(seq, data_len, Body::Data { btag: None })
}

fn announces(service: Service, seq: u64) -> Header {
    let traffic = Traffic { service, limits: None };
    let first = First { address: Address::in_udp(0), traffic, xkey: None, btag: None };
    to_all(seq, 0, Body::First(first))
}

/// A packet to this receiver alone, whose key is 5.
fn alone(options: Options, seq: u64, body: Said) -> Header {
    Header { key: key(5), returned: true, options, ..to_all(seq, 0, body) }
}

fn control() -> Control {
    Control { rseq: BEGIN, alloc: BEGIN, echo: 0 }
}

fn joined(echo: u32, id: u64, delay_us: u32) -> Said {
    let control = Control { echo, ..control() };
    let traffic = Traffic { service: Service::Multicast, limits: None };
    let traffic = TrafficControl { control, delay_us, xkey: key(id), traffic };
    Body::Jcntl(JoinControl { traffic, address: Address::in_udp(0) })
}

fn take_at(r: &mut Receiver, now: Instant, from: SocketAddr, h: &Header) -> Option<DropCause> {
    let initial = r.handle_initial(from, h, h.data_len);
    let verdict = match &initial {
        Initial::Drop(cause) => return Some(*cause),
        Initial::Payload(plan) if plan.len > 0 => Verdict::Accept { len: plan.len },
        _ => Verdict::Control,
    };
    let dropped = |r: &Receiver| r.counters().drops;
    let before = dropped(r);
    r.handle_final(now, from, h, &initial, verdict);
    r.assert_invariants();
    DropCause::ALL.iter().copied().find(|cause| dropped(r).of(*cause) > before.of(*cause))
}

fn take(r: &mut Receiver, h: &Header) -> Option<DropCause> {
    take_at(r, NOW, at(1), h)
}

fn events(r: &mut Receiver) -> Vec<ReceiverEvent> {
    core::iter::from_fn(|| r.poll_event()).collect()
}

/// What leaves until then, and when.
fn says_until(r: &mut Receiver, end: Instant) -> Vec<(Instant, Header)> {
    let (mut now, mut said) = (NOW, Vec::new());
    loop {
        r.handle_timeout(now);
        while let Some(transmit) = r.poll_transmit(now) {
            said.push((now, transmit.header));
        }
        match r.poll_timeout() {
            Some(at) if at <= end => now = at.max(now),
            _ => return said,
        }
    }
}

fn hears(config: &ReceiverConfig, service: Service) -> (Receiver, Heard) {
    let mut r = Receiver::new(config, NOW);
    assert_eq!(take(&mut r, &announces(service, BEGIN)), None);
    let Some(ReceiverEvent::Heard(heard)) = r.poll_event() else { panic!("it is heard") };
    (r, heard)
}

/// One that has asked to join, and its question.
fn joining(config: &ReceiverConfig) -> (Receiver, Header) {
    let (mut r, heard) = hears(config, Service::Multicast);
    r.join(NOW, &heard, key(5));
    let asks = r.poll_transmit(NOW).expect("JCNTL").header;
    (r, asks)
}

/// A member, which the sender calls 9, that answers after `delay`.
fn member(config: &ReceiverConfig, delay: Duration) -> Receiver {
    let (mut r, asks) = joining(config);
    let answer = alone(MULTI, BEGIN, joined(asks.sync, 9, delay.as_micros() as u32));
    assert_eq!(take(&mut r, &answer), None);
    assert_eq!(events(&mut r), [ReceiverEvent::Joined { begins_at: BEGIN }]);
    assert!(!says_until(&mut r, NOW + delay.min(Duration::from_secs(1))).is_empty());
    r
}

fn plain() -> Receiver {
    member(&ReceiverConfig::default(), Duration::ZERO)
}

/// What a member takes of a stream, and from whom.
#[test]
fn a_member_takes_what_its_sender_says_to_all() {
    let nocheck = MULTI | Options::NOCHECK;
    let good = data(BEGIN, 100);
    let cntl = to_all(BEGIN, 0, Body::Cntl(control()));
    for (from, h, cause) in [
        (1, good, None),
        (2, good, Some(DropCause::Closed)),
        (1, Header { key: key(78), ..good }, Some(DropCause::Closed)),
        (1, cntl, Some(DropCause::Closed)),
        (1, Header { options: Options::NONE, ..good }, Some(DropCause::Protocol)),
        (1, Header { options: nocheck, ..good }, Some(DropCause::Protocol)),
        (1, Header { sync: SYNC + (1 << 17), ..good }, Some(DropCause::Protocol)),
        (1, Header { seq: 1 << 30, ..good }, Some(DropCause::OutOfWindow)),
    ] {
        let mut r = plain();
        assert_eq!(take_at(&mut r, NOW, at(from), &h), cause, "{h:?}");
        assert_eq!(r.rcv_nxt(), BEGIN + if cause.is_none() { 100 } else { 0 });
    }
    let mut r = member(&ReceiverConfig { nocheck: true, ..Default::default() }, Duration::ZERO);
    let empty = Header { options: nocheck, data_len: 0, ..good };
    assert_eq!(take(&mut r, &empty), Some(DropCause::Protocol), "nothing proves itself");
    assert_eq!(take(&mut r, &Header { options: nocheck, ..good }), None);
    // Nor does a control, to one alone or to all.
    let to_one = alone(nocheck, BEGIN, Body::Cntl(control()));
    let announced = Header { options: nocheck, ..announces(Service::Multicast, BEGIN) };
    for control in [to_one, announced] {
        assert_eq!(take(&mut r, &control), Some(DropCause::Protocol), "{control:?}");
    }
    // What is said in a group says so.
    for h in [
        alone(Options::WCLOSE, BEGIN + 100, Body::Cntl(control())),
        alone(Options::NONE, BEGIN, joined(1, 9, 0)),
    ] {
        assert_eq!(take(&mut r, &h), Some(DropCause::Protocol), "{h:?}");
    }
    assert!(!r.has_finished());
    // Who is not a member yet, or no more, takes nothing.
    let (mut r, _) = joining(&ReceiverConfig::default());
    assert_eq!(take(&mut r, &good), Some(DropCause::Closed));
    let mut r = plain();
    r.leave();
    assert_eq!(take(&mut r, &good), Some(DropCause::Closed));
    let dropped = Body::Cntl(control());
    assert_eq!(take(&mut r, &alone(MULTI, BEGIN, dropped)), Some(DropCause::Closed));
}

/// Messages that nobody takes have a bound.
#[test]
fn messages_that_nobody_takes_come_again() {
    let mut r = plain();
    let one = |n: u64| Header { options: MULTI | Options::EOM, ..data(BEGIN + n, 1) };
    for n in 0..4096 {
        assert_eq!(take(&mut r, &one(n)), None, "{n}");
    }
    assert_eq!(take(&mut r, &one(4096)), Some(DropCause::NoMemory));
    r.consumed(BEGIN + 10);
    assert_eq!(take(&mut r, &one(4096)), None);
}

/// Where the stream ends is said once, not below what has come, and not beyond what may have been sent.
#[test]
fn a_stream_ends_once() {
    let window = u64::from(ReceiverConfig::default().recv_window);
    let ends = |seq, len| Header { options: MULTI | Options::WCLOSE, ..data(seq, len) };
    let closes = |seq| alone(MULTI | Options::WCLOSE, seq, Body::Cntl(control()));
    for (h, cause) in [
        (closes(BEGIN + 150), None),
        (closes(BEGIN + window + 1), Some(DropCause::OutOfWindow)),
        (Header { sync: SYNC + (1 << 17), ..closes(BEGIN + 200) }, Some(DropCause::Protocol)),
        (
            Header { options: MULTI | Options::WCLOSE, ..announces(Service::Multicast, BEGIN + 1) },
            None,
        ),
        (
            Header {
                options: MULTI | Options::WCLOSE,
                ..announces(Service::Multicast, BEGIN + window + 1)
            },
            None,
        ),
    ] {
        let mut r = plain();
        take(&mut r, &data(BEGIN, 100));
        take(&mut r, &data(BEGIN + 150, 50));
        assert_eq!(take(&mut r, &h), cause, "{h:?}");
        // It is not the end: the stream goes on, and ends elsewhere.
        assert_eq!(take(&mut r, &data(BEGIN + 100, 50)), None);
        assert_eq!((r.rcv_nxt(), r.has_finished()), (BEGIN + 200, false), "{h:?}");
        take(&mut r, &ends(BEGIN + 200, 100));
        assert!(r.has_finished());
        take(&mut r, &ends(BEGIN + 300, 100));
        assert_eq!(r.rcv_nxt(), BEGIN + 300);
    }
    let mut r = plain();
    take(&mut r, &ends(BEGIN + 100, 100));
    take(&mut r, &closes(BEGIN + 300));
    assert_eq!(take(&mut r, &data(BEGIN + 200, 1)), Some(DropCause::Protocol), "behind the end");
    // Nobody else says where it ends, nor anything before the numbers are right.
    let mut r = plain();
    take_at(
        &mut r,
        NOW,
        at(2),
        &Header { options: MULTI | Options::WCLOSE, ..announces(Service::Multicast, BEGIN) },
    );
    let late = Header {
        sync: SYNC + (1 << 17),
        options: MULTI | Options::WCLOSE,
        ..announces(Service::Multicast, BEGIN)
    };
    take(&mut r, &late);
    assert!(!r.has_finished());
    take(
        &mut r,
        &Header { options: MULTI | Options::WCLOSE, ..announces(Service::Multicast, BEGIN) },
    );
    assert!(r.has_finished());
}

/// The sender says that it is over: that is an end where all has come, and else the member was dropped.
#[test]
fn an_end_is_one_for_who_has_all() {
    for (finishes, options, ended) in [
        (true, Options::RCLOSE | Options::WCLOSE, true),
        (true, Options::WCLOSE, false),
        (false, Options::RCLOSE, false),
    ] {
        let mut r = plain();
        if finishes {
            take(&mut r, &Header { options: MULTI | Options::WCLOSE, ..data(BEGIN, 100) });
        }
        events(&mut r);
        let end = alone(MULTI | Options::END | options, BEGIN + 100, Body::Cntl(control()));
        take(&mut r, &end);
        let told =
            if ended { ReceiverEvent::Ended } else { ReceiverEvent::Dropped(Reason::Unspecified) };
        assert_eq!(events(&mut r), [told], "{finishes} {options:?}");
    }
}

#[test]
fn a_diag_ends_a_join_or_a_member() {
    let diag =
        |code| alone(Options::NONE, 0, Body::Diag(Diag { code, reason: Reason::JoinDenied }));
    for (code, joins, is) in [
        (Code::JoinRefused, true, false),
        (Code::ContextAbandoned, false, true),
        (Code::ProtocolError, false, true),
        (Code::InvalidContext, false, false),
    ] {
        for (mut r, counts) in [(joining(&ReceiverConfig::default()).0, joins), (plain(), is)] {
            assert_eq!(take_at(&mut r, NOW, at(2), &diag(code)), Some(DropCause::Closed));
            let dropped = take(&mut r, &diag(code));
            assert_eq!((dropped.is_none(), r.is_over()), (counts, counts), "{code:?}");
        }
    }
}

/// What lets in is the answer to the latest question, and its numbers are alike; later it comes again and changes nothing.
#[test]
fn a_member_is_who_was_answered() {
    let config = ReceiverConfig::default();
    let wrong = |control: Control| {
        let Body::Jcntl(mut join) = joined(control.echo, 9, 0) else { panic!() };
        join.traffic.control = control;
        Body::Jcntl(join)
    };
    for (echo, rseq, alloc, cause) in [
        (0, BEGIN, BEGIN, None),
        (1, BEGIN, BEGIN, Some(DropCause::BadAck)),
        (u32::MAX, BEGIN, BEGIN, Some(DropCause::Protocol)),
        (0, BEGIN - 1, BEGIN, Some(DropCause::Protocol)),
        (0, BEGIN, BEGIN + 1, Some(DropCause::Protocol)),
    ] {
        let (mut r, asks) = joining(&config);
        let control = Control { rseq, alloc, echo: asks.sync.wrapping_add(echo) };
        assert_eq!(take(&mut r, &alone(MULTI, BEGIN, wrong(control))), cause, "{control:?}");
        assert_eq!(!r.is_joining(), cause.is_none());
    }
    let (mut r, asks) = joining(&config);
    for (id, cause) in [(9, None), (9, None), (10, Some(DropCause::Protocol))] {
        let answer = alone(MULTI, BEGIN, joined(asks.sync, id, 0));
        assert_eq!(take(&mut r, &answer), cause, "{id}");
    }
    // Who has given up is let in no more.
    let (mut r, asks) = joining(&config);
    r.leave();
    take(&mut r, &alone(MULTI, BEGIN, joined(asks.sync, 9, 0)));
    assert!(!events(&mut r).contains(&ReceiverEvent::Joined { begins_at: BEGIN }));
}

/// Answers wait for their delay, which is that of a second at most, and is told by who knows the member's name.
#[test]
fn a_delay_has_a_bound() {
    let second = Duration::from_secs(1);
    for (delay, waits) in
        [(Duration::from_millis(7), Duration::from_millis(7)), (10 * second, second)]
    {
        let tcntl = |xkey, sync| {
            let traffic = Traffic { service: Service::Multicast, limits: None };
            let delay_us = delay.as_micros() as u32;
            let tcntl = TrafficControl { control: control(), delay_us, xkey: key(xkey), traffic };
            Header { sync, ..alone(MULTI, BEGIN, Body::Tcntl(tcntl)) }
        };
        for told_later in [false, true] {
            let mut r =
                member(&ReceiverConfig::default(), if told_later { Duration::ZERO } else { delay });
            if told_later {
                assert_eq!(take(&mut r, &tcntl(10, SYNC)), Some(DropCause::Protocol), "another's");
                assert_eq!(take(&mut r, &tcntl(9, SYNC + (1 << 17))), Some(DropCause::Protocol));
                assert_eq!(take(&mut r, &tcntl(9, SYNC)), None);
                says_until(&mut r, NOW + 2 * second);
            }
            take(
                &mut r,
                &Header { options: MULTI | Options::SREQ, sync: SYNC + 1, ..data(BEGIN, 10) },
            );
            let said = says_until(&mut r, NOW + 2 * second);
            assert_eq!((said.len(), said[0].0), (1, NOW + waits), "{told_later}");
        }
    }
}

/// What asks is a newer sync, whether the packet that asked has come or not; a gap, where FASTNAK says so; not one that
/// another's repair has filled.
#[test]
fn a_member_answers_what_was_asked() {
    let delay = Duration::from_millis(5);
    let said = |packets: &[(u64, u32, Options)]| {
        let mut r = member(&ReceiverConfig::default(), delay);
        says_until(&mut r, NOW + delay);
        for (seq, sync, options) in packets {
            take(
                &mut r,
                &Header { options: MULTI | *options, sync: *sync, ..data(BEGIN + seq, 100) },
            );
        }
        says_until(&mut r, NOW + 4 * delay).into_iter().map(|(_, h)| h).collect::<Vec<_>>()
    };
    assert_eq!(said(&[(0, SYNC, Options::NONE)]), []);
    let answers = said(&[(0, SYNC + 1, Options::NONE)]);
    assert!(
        matches!(answers[..], [Header { body: Body::Cntl(Control { echo, .. }), .. }] if echo == SYNC + 1)
    );
    assert_eq!(said(&[(200, SYNC, Options::NONE)]), []);
    let answers = said(&[(200, SYNC, Options::FASTNAK), (300, SYNC, Options::FASTNAK)]);
    assert!(matches!(answers[..], [Header { body: Body::Ecntl(..), .. }]), "{answers:?}");
    let filled = [(100, SYNC, Options::FASTNAK), (0, SYNC, Options::NONE)];
    assert_eq!(said(&filled), []);
}

/// Who hears of its sender goes on; who hears nothing for CTIMEOUT is done.
#[test]
fn a_member_that_hears_nothing_is_done() {
    let mut r = plain();
    for n in 1..4 {
        let now = NOW + Duration::from_secs(100 * n);
        r.handle_timeout(now);
        assert_eq!(take_at(&mut r, now, at(1), &data(BEGIN, 10)), None, "{n}");
    }
    r.handle_timeout(NOW + Duration::from_secs(425));
    assert!(events(&mut r).contains(&ReceiverEvent::TimedOut));
}

/// Groups that others make up take no memory, and are told of no more often than somebody listens.
#[test]
fn groups_that_are_heard_have_a_bound() {
    let mut r =
        Receiver::new(&ReceiverConfig { address: Address::in_udp(7), ..Default::default() }, NOW);
    let first = |n, port| {
        let Body::First(first) = announces(Service::Multicast, 0).body else { panic!() };
        let body = Body::First(First { address: Address::in_udp(port), ..first });
        Header { key: key(n), ..to_all(0, 0, body) }
    };
    take(&mut r, &first(1, 8));
    assert_eq!(events(&mut r), [], "another group's");
    for n in 1..=1000 {
        take(&mut r, &first(n, 7));
    }
    assert_eq!(events(&mut r).len(), 256);
    // Those of late are known, and are news no more.
    take(&mut r, &first(1000, 7));
    assert_eq!(events(&mut r).len(), 0);
    take(&mut r, &first(1000 - 16, 7));
    assert_eq!(events(&mut r).len(), 1, "it was forgotten");
}

/// What was heard since is what is joined.
#[test]
fn who_joins_without_answers_begins_with_the_latest() {
    let (mut r, heard) = hears(&ReceiverConfig::default(), Service::UnacknowledgedMulticast);
    take(&mut r, &announces(Service::UnacknowledgedMulticast, BEGIN + 500));
    r.join(NOW, &heard, key(5));
    assert_eq!(events(&mut r), [ReceiverEvent::Joined { begins_at: BEGIN + 500 }]);
}

/// Another announces a stream by the same key, before and behind its sender: who joins takes that from whom it was heard.
#[test]
fn who_joins_takes_the_sender_that_it_means() {
    for service in [Service::Multicast, Service::UnacknowledgedMulticast] {
        let mut r = Receiver::new(&ReceiverConfig::default(), NOW);
        for (from, seq) in [(2, 7), (1, BEGIN), (3, 9)] {
            assert_eq!(take_at(&mut r, NOW, at(from), &announces(service, seq)), None);
        }
        let heard = events(&mut r);
        let [_, ReceiverEvent::Heard(meant), _] = heard[..] else { panic!("{heard:?}") };
        r.join(NOW, &meant, key(5));
        assert_eq!(r.peer(), Some(at(1)));
    }
}

/// Without answers the stream goes on where it is, as far as the memory that is free can hold it.
#[test]
fn without_answers_a_hole_is_passed_over() {
    let config = ReceiverConfig { recv_window: 10_000, ..ReceiverConfig::default() };
    let far = BEGIN + 50_000;
    let unfinished = Options::NONE;
    for (has, options, seq, len, cause) in [
        (0, unfinished, far, 100, None),
        (100, unfinished, far, 100, None),
        (100, Options::EOM, far, 100, Some(DropCause::OutOfWindow)),
        (0, unfinished, BEGIN + 9_950, 100, None),
        (0, unfinished, far, 10_001, Some(DropCause::OutOfWindow)),
    ] {
        let (mut r, heard) = hears(&config, Service::UnacknowledgedMulticast);
        r.join(NOW, &heard, key(5));
        if has > 0 {
            let first = data(BEGIN, has);
            take(&mut r, &Header { options: first.options | options, ..first });
        }
        assert_eq!(take(&mut r, &data(seq, len)), cause, "{has} {options:?} {seq} {len}");
    }
}

/// What begins with a tag right behind a hole that was passed over is whole, and has that tag: of what was there before it has
/// nothing.
#[test]
fn without_answers_a_tag_begins_a_message_behind_a_hole() {
    let config = ReceiverConfig { recv_window: 10_000, ..ReceiverConfig::default() };
    let (mut r, heard) = hears(&config, Service::UnacknowledgedMulticast);
    r.join(NOW, &heard, key(5));
    let tagged = |seq, tag| to_all(seq, 100, Body::Data { btag: Some(tag) });
    let far = BEGIN + 50_000;
    assert_eq!(take(&mut r, &tagged(BEGIN, 6)), None);
    let last = tagged(far, 7);
    assert_eq!(take(&mut r, &Header { options: MULTI | Options::EOM, ..last }), None);
    let message = r.poll_message().map(|message| (message.range, message.tag));
    assert_eq!(message, Some((far..far + 100, Some(7))), "{:?}", events(&mut r));
    assert!(r.poll_message().is_none());
}

/// Who goes says so, to whom it was; who only asked to join is not asked again.
#[test]
fn who_leaves_says_so() {
    let mut r = plain();
    r.leave();
    let said = r.poll_transmit(NOW).expect("a last word").header;
    assert!(said.options.has(Options::RCLOSE | Options::END) && said.key == key(9), "{said:?}");
    let (mut r, _) = joining(&ReceiverConfig::default());
    r.leave();
    assert!(r.is_over() && r.poll_transmit(NOW).is_none());
}

/// Who asks to join and is not answered asks again, later each time.
#[test]
fn each_question_of_who_joins_waits_twice_as_long() {
    let (mut r, _) = joining(&ReceiverConfig::default());
    let said = says_until(&mut r, NOW + Duration::from_secs(29));
    let waits: Vec<_> = said.windows(2).map(|two| two[1].0 - two[0].0).collect();
    assert!(waits.len() >= 4 && waits.windows(2).all(|two| two[1] == 2 * two[0]), "{waits:?}");
    assert!(r.is_joining());
    says_until(&mut r, NOW + Duration::from_secs(31));
    assert_eq!(events(&mut r), [ReceiverEvent::TimedOut]);
}
