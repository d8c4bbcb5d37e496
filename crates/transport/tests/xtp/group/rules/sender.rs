//! What a sender takes of its members and of others, and what it says.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::DropCause;
use fusewire_transport::xtp::group::{Leaving, Sender, SenderConfig, SenderEvent, To};
use fusewire_transport::xtp::{Header, Rate};
use fusewire_wire::xtp::{Address, Body, Code, Control, Diag, Options, Reason, Service, Unfit};

use super::super::attacks::{jcntl, report};
use super::{MULTI, NOW, at, key};

fn ms(ms: u64) -> Instant {
    NOW + Duration::from_millis(ms)
}

/// A sender of a group with these members, who have said nothing, and the latest question.
fn sender(config: &SenderConfig, members: u64) -> (Sender, u32) {
    let mut s = Sender::new(config, key(77), NOW);
    for n in 1..=members {
        joins(&mut s, n);
    }
    let said = poll(&mut s, NOW);
    (s, said.last().map_or(0, |(_, h)| h.sync))
}

fn joins(s: &mut Sender, n: u64) {
    assert_eq!(s.handle(NOW, at(n), &jcntl(key(77), n)), None);
    assert!(s.accept(NOW, key(n), key(n + 10)).is_some());
}

fn poll(s: &mut Sender, now: Instant) -> Vec<(To, Header)> {
    let said = core::iter::from_fn(|| s.poll_transmit(now)).map(|(to, t)| (to, t.header)).collect();
    s.assert_invariants();
    said
}

fn told(s: &mut Sender) -> Vec<SenderEvent> {
    core::iter::from_fn(|| s.poll_event()).collect()
}

fn commit(s: &mut Sender, len: u32) {
    let reservation = s.reserve(len).expect("room");
    s.commit(reservation);
}

/// Section 9 for a member's reports.
#[test]
fn a_report_counts_that_a_member_may_make() {
    let config = SenderConfig { congestion: None, ..SenderConfig::default() };
    let with = |h: Header, control: Control| Header { body: Body::Cntl(control), ..h };
    let (ok, echo) = (report(key(11), (0, 0), &[]), 0);
    for (n, from, rseq, later, seq, far, spans, cause) in [
        (11, 1, 5000, 0, 0, 0, None, None),
        (11, 2, 5000, 0, 0, 0, None, Some(DropCause::Closed)),
        (12, 1, 5000, 0, 0, 0, None, Some(DropCause::Closed)),
        (11, 1, 5000, 0, 1, 0, None, Some(DropCause::OutOfWindow)),
        (11, 1, 5000, 1, 0, 0, None, Some(DropCause::BadAck)),
        (11, 1, 5000, u32::MAX << 16, 0, 0, None, Some(DropCause::BadAck)),
        (11, 1, 5001, 0, 0, 0, None, Some(DropCause::BadAck)),
        (11, 1, 5000, 0, 0, 1 << 32, None, Some(DropCause::Protocol)),
        (11, 1, 0, 0, 0, 0, Some((1440, 5000)), None),
        (11, 1, 0, 0, 0, 0, Some((1440, 5001)), Some(DropCause::BadAck)),
    ] {
        let (mut s, _) = sender(&config, 1);
        commit(&mut s, 5000);
        let asked = poll(&mut s, NOW).last().expect("data").1.sync;
        let echo = asked.wrapping_add(later).wrapping_add(echo);
        let named: Vec<_> = spans.into_iter().collect();
        let mut h = Header { seq, ..report(key(n), (rseq, echo), &named) };
        if far > 0 {
            h = with(h, Control { rseq, alloc: rseq + far, echo });
        }
        assert_eq!(s.handle(NOW, at(from), &h), cause, "{h:?}");
        let rseqs: Vec<_> = s.members().map(|m| m.rseq).collect();
        assert_eq!(rseqs, [if cause.is_none() { rseq } else { 0 }]);
        s.assert_invariants();
    }
    let (mut s, sync) = sender(&config, 1);
    for (h, cause) in [
        (Header { returned: false, ..ok }, DropCause::Closed),
        (Header { key: key(77), ..ok }, DropCause::Protocol),
        (Header { body: Body::Data { btag: None }, ..ok }, DropCause::Protocol),
        (
            Header {
                body: Body::Diag(Diag { code: Code::InvalidContext, reason: Reason::State }),
                ..ok
            },
            DropCause::BlindReset,
        ),
    ] {
        assert_eq!(s.handle(NOW, at(1), &h), Some(cause), "{h:?}");
    }
    // It joined late: what lies before is nobody's.
    commit(&mut s, 5000);
    poll(&mut s, NOW);
    let asked = poll(&mut s, NOW).last().map_or(sync, |(_, h)| h.sync);
    joins(&mut s, 2);
    let early = report(key(12), (4999, asked), &[]);
    assert_eq!(s.handle(NOW, at(2), &early), Some(DropCause::BadAck));
}

/// What a member has said it said: the window that it gave does not close, and that it is one is told once.
#[test]
fn an_old_report_takes_nothing_back() {
    let (mut s, _) = sender(&SenderConfig { congestion: None, ..SenderConfig::default() }, 1);
    commit(&mut s, 5000);
    let asked = poll(&mut s, NOW).last().expect("data").1.sync;
    let (newer, older) =
        (report(key(11), (5000, asked), &[]), report(key(11), (1440, asked.wrapping_sub(1)), &[]));
    for h in [newer, older, newer] {
        assert_eq!(s.handle(ms(5), at(1), &h), None);
        let m = s.members().next().expect("it is one");
        assert_eq!((m.rseq, m.alloc), (5000, 5000 + (1 << 21)));
    }
    let joined = SenderEvent::Joined { id: key(11), begins_at: 0 };
    assert_eq!(told(&mut s).iter().filter(|event| **event == joined).count(), 1);
}

/// Who may ask to join, and what it is told else.
#[test]
fn who_asks_wrongly_is_refused() {
    let ask = |n| jcntl(key(77), n);
    let to = |port, service| {
        let mut h = ask(5);
        if let Body::Jcntl(join) = &mut h.body {
            (join.address, join.traffic.traffic.service) = (Address::in_udp(port), service);
        }
        h
    };
    let unreliable =
        SenderConfig { service: Service::UnacknowledgedMulticast, ..SenderConfig::default() };
    let over = |s: &mut Sender| {
        s.finish();
        poll(s, NOW);
    };
    let full = SenderConfig { members_max: 1, ..SenderConfig::default() };
    type Case<'a> = (&'a SenderConfig, bool, Header, Option<Reason>);
    let plain = SenderConfig::default();
    let cases: [Case<'_>; 7] = [
        (&plain, false, ask(5), None),
        (&unreliable, false, to(0, Service::UnacknowledgedMulticast), Some(Reason::State)),
        (&plain, true, ask(5), Some(Reason::State)),
        (&plain, false, to(9, Service::Multicast), Some(Reason::NoListener)),
        (&plain, false, to(0, Service::UnacknowledgedMulticast), Some(Reason::Service)),
        (&plain, false, ask(1), Some(Reason::JoinDenied)),
        (&full, false, ask(5), Some(Reason::NoResource)),
    ];
    for (config, ends, h, reason) in cases {
        let (mut s, _) = if config.service == Service::Multicast {
            sender(config, 1)
        } else {
            (Sender::new(config, key(77), NOW), 0)
        };
        if ends {
            over(&mut s);
        }
        told(&mut s);
        poll(&mut s, NOW);
        assert_eq!(s.handle(NOW, at(5), &h), None);
        let said = poll(&mut s, NOW);
        let refused = said.iter().find_map(|(to, h)| match h.body {
            Body::Diag(Diag { code: Code::JoinRefused, reason }) if *to == To::One(at(5)) => {
                Some(reason)
            }
            _ => None,
        });
        assert_eq!(refused, reason, "{h:?}");
        let asked = told(&mut s).iter().any(|event| matches!(event, SenderEvent::Asked { .. }));
        assert_eq!(asked, reason.is_none());
    }
}

/// What comes to a sender has nothing that proves itself: its check covers all, and it says MULTI. Who asks with segments that nobody takes
/// is told which.
#[test]
fn what_is_said_to_a_sender_is_covered_and_readable() {
    let (mut s, _) = sender(&SenderConfig::default(), 1);
    told(&mut s);
    let uncovered = |h: Header| Header { options: h.options | Options::NOCHECK, ..h };
    // Nor is it anything else's than a group's.
    let alone = |h: Header| Header { options: h.options.without(MULTI), ..h };
    let leaves = Header { options: MULTI | Options::END, ..report(key(11), (0, 0), &[]) };
    for h in [leaves, jcntl(key(77), 5)] {
        for h in [uncovered(h), alone(h)] {
            assert_eq!(s.handle(NOW, at(1), &h), Some(DropCause::Protocol), "{h:?}");
        }
    }
    assert_eq!(s.members().count(), 1);
    assert_eq!(told(&mut s), []);
    let diag = Diag { code: Code::JoinRefused, reason: Reason::AddressFormat };
    let unfit = Body::Unfit(Unfit { diag, key: key(5) });
    assert_eq!(s.handle(NOW, at(5), &Header { body: unfit, ..jcntl(key(77), 5) }), None);
    let said = poll(&mut s, NOW);
    assert!(
        said.iter().any(|(to, h)| *to == To::One(at(5))
            && h.key == key(5)
            && matches!(h.body, Body::Diag(told) if told == diag)),
        "{said:?}"
    );
    assert_eq!(told(&mut s), []);
}

/// Who says nothing is asked alone 32 times before it counts as silent, however little patience there is.
#[test]
fn who_is_silent_was_asked_often() {
    for silence in [100, 500, 2000] {
        let silence = Duration::from_millis(silence);
        let (mut s, _) = sender(&SenderConfig { silence, ..SenderConfig::default() }, 1);
        joins(&mut s, 2);
        commit(&mut s, 1000);
        let (mut now, mut asked) = (NOW, 0);
        let left = loop {
            for (to, h) in poll(&mut s, now) {
                let alone = to == To::One(at(1)) && h.options.has(Options::SREQ);
                asked += u32::from(alone);
                // The other answers at once.
                if h.options.has(Options::SREQ) {
                    s.handle(now, at(2), &report(key(12), (1000, h.sync), &[]));
                }
            }
            if let Some(left) =
                told(&mut s).into_iter().find(|event| matches!(event, SenderEvent::Left { .. }))
            {
                break left;
            }
            now = s.poll_timeout().expect("somebody is waited for").max(now);
            s.handle_timeout(now);
        };
        assert!(
            matches!(left, SenderEvent::Left { id, why: Leaving::Silent } if id == key(11)),
            "{left:?}"
        );
        assert!(asked >= 32, "{asked} in {silence:?}");
    }
}

/// Who asks twice is told of once, and answered by its latest question; no key is given twice, and none after the end.
#[test]
fn who_asks_twice_is_answered_once() {
    let (mut s, _) = sender(&SenderConfig::default(), 1);
    told(&mut s);
    let again = Header { sync: 500, ..jcntl(key(77), 5) };
    s.handle(NOW, at(5), &jcntl(key(77), 5));
    s.handle(NOW, at(5), &again);
    assert_eq!(told(&mut s), [SenderEvent::Asked { key: key(5), from: at(5) }]);
    for taken in [key(11), key(77)] {
        assert_eq!(s.accept(NOW, key(5), taken), None);
    }
    assert_eq!(s.accept(NOW, key(6), key(16)), None, "nobody asked");
    assert_eq!(s.accept(NOW, key(5), key(15)), Some(0));
    let said = poll(&mut s, NOW);
    let answers: Vec<_> =
        said.iter().filter_map(|(_, h)| h.body.control().filter(|_| h.key == key(5))).collect();
    assert_eq!(answers.iter().map(|c| c.echo).collect::<Vec<_>>(), [500]);
    s.handle(NOW, at(6), &jcntl(key(77), 6));
    s.finish();
    poll(&mut s, NOW);
    assert_eq!(s.accept(NOW, key(6), key(16)), None, "the stream has ended");
}

/// Who asks by one key from several addresses before any is answered is one member.
#[test]
fn one_key_is_one_member() {
    let mut s = Sender::new(&SenderConfig::default(), key(77), NOW);
    for from in 1..=3 {
        assert_eq!(s.handle(NOW, at(from), &jcntl(key(77), 5)), None);
    }
    let accepted: Vec<_> = (11..14).map(|id| s.accept(NOW, key(5), key(id))).collect();
    assert_eq!(accepted, [Some(0), None, None]);
    assert_eq!(s.members().map(|member| member.addr).collect::<Vec<_>>(), [at(1)]);
    let denied = poll(&mut s, NOW).into_iter().filter(|(_, h)| matches!(h.body, Body::Diag(_)));
    assert_eq!(denied.map(|(to, _)| to).collect::<Vec<_>>(), [To::One(at(2)), To::One(at(3))]);
}

/// Who comes within a message begins behind it, though the others have acknowledged all of it that was sent.
#[test]
fn who_comes_begins_with_a_message() {
    let config = SenderConfig { congestion: None, ..SenderConfig::default() };
    let (mut s, sync) = sender(&config, 1);
    commit(&mut s, 40_000);
    commit(&mut s, 100);
    poll(&mut s, NOW);
    let sent = s.sent();
    assert!((1..40_000).contains(&sent));
    assert_eq!(s.handle(NOW, at(1), &report(key(11), (sent, sync), &[])), None);
    s.handle(NOW, at(2), &jcntl(key(77), 2));
    assert_eq!(s.accept(NOW, key(2), key(12)), Some(40_000));
}

/// What carries a packet counts for the rate where that is said: of short packets it is a good part of the path.
#[test]
fn headers_below_count_for_the_rate() {
    let packets = |carried_by| {
        let out_rate = Rate { rate: 100_000, burst: 1 };
        let service = Service::UnacknowledgedMulticast;
        let config = SenderConfig { service, out_rate, carried_by, ..SenderConfig::default() };
        let (mut s, _) = sender(&config, 0);
        (0..2000).for_each(|_| commit(&mut s, 60));
        let (mut now, mut sent) = (NOW, 0);
        while now < ms(1000) {
            sent += poll(&mut s, now).iter().filter(|(_, h)| h.data_len > 0).count();
            now += Duration::from_micros(10);
        }
        sent
    };
    let (alone, carried) = (packets(0), packets(28));
    let share = carried as f64 / alone as f64;
    let len = 100_000.0 / alone as f64;
    assert!((share - len / (len + 28.0)).abs() < 0.02, "{carried} of {alone}");
}

/// Answers of members are a slot apart.
#[test]
fn each_member_has_a_slot() {
    let mut s = Sender::new(&SenderConfig::default(), key(77), NOW);
    let mut slots = Vec::new();
    for n in [1, 2, 3, 1, 4] {
        if n == 1 && !slots.is_empty() {
            s.remove(NOW, key(12));
        }
        joins(&mut s, if slots.len() == 3 { 5 } else { n });
        let delay = poll(&mut s, NOW).into_iter().find_map(|(_, h)| match h.body {
            Body::Jcntl(join) => Some(join.traffic.delay_us),
            _ => None,
        });
        slots.push(delay.expect("it is told"));
    }
    assert_eq!(slots, [0, 20, 40, 20, 60], "a free one is given again");
}

/// Who is a member no more is told so again when it asks, ten times a second; not by its last word, nor by a DIAG.
#[test]
fn who_was_a_member_is_told_so_again() {
    let (mut s, sync) = sender(&SenderConfig::default(), 2);
    s.remove(NOW, key(12));
    poll(&mut s, NOW);
    let h = report(key(12), (0, sync), &[]);
    let is_told = |said: &[(To, Header)]| {
        let dropped =
            |h: &Header| matches!(h.body, Body::Diag(d) if d.code == Code::ContextAbandoned);
        said.iter().filter(|(to, h)| *to == To::One(at(2)) && dropped(h)).count()
    };
    for (from, h, times) in [
        (2, h, 1),
        (3, h, 0),
        (2, Header { options: MULTI | Options::END, ..h }, 0),
        (
            2,
            Header {
                body: Body::Diag(Diag { code: Code::InvalidContext, reason: Reason::State }),
                ..h
            },
            0,
        ),
    ] {
        s.handle(NOW, at(from), &h);
        assert_eq!(is_told(&poll(&mut s, NOW)), times, "{from} {h:?}");
    }
    let mut count = 0;
    for _ in 0..200 {
        s.handle(NOW, at(2), &h);
        count += is_told(&poll(&mut s, NOW));
    }
    assert_eq!(count, 99, "a hundred in all");
}

/// A member is done when it has all of a stream that ends, and says so; END says that it goes.
#[test]
fn a_member_is_done_when_it_has_all() {
    for (finishes, options, rseq, done, left) in [
        (true, Options::RCLOSE, 1000, true, false),
        (false, Options::RCLOSE, 1000, false, false),
        (true, Options::RCLOSE, 999, false, false),
        (true, Options::NONE, 1000, false, false),
        (true, Options::RCLOSE | Options::END, 500, false, true),
    ] {
        let (mut s, _) = sender(&SenderConfig { congestion: None, ..SenderConfig::default() }, 2);
        commit(&mut s, 1000);
        if finishes {
            s.finish();
        }
        let asked = poll(&mut s, NOW).last().expect("data").1.sync;
        told(&mut s);
        let h = report(key(11), (rseq, asked), &[]);
        for _ in 0..2 {
            s.handle(NOW, at(1), &Header { options: MULTI | options, ..h });
        }
        let events = told(&mut s);
        let count = |event| events.iter().filter(|e| **e == event).count();
        assert_eq!(
            count(SenderEvent::Done { id: key(11) }),
            usize::from(done),
            "{options:?} {rseq}"
        );
        let leaves = SenderEvent::Left { id: key(11), why: Leaving::Left };
        assert_eq!(count(leaves), usize::from(left));
        assert_eq!(s.members().count(), 2 - usize::from(left));
        // Who is done is asked no more.
        s.handle(NOW, at(2), &report(key(12), (0, asked), &[]));
        let mut now = NOW;
        while now < ms(1500) {
            now = s.poll_timeout().expect("it goes on").max(now);
            s.handle_timeout(now);
            let said = poll(&mut s, now);
            let asks =
                said.iter().any(|(to, h)| *to == To::One(at(1)) && h.options.has(Options::SREQ));
            assert!(!(asks && (done || left)), "{options:?} {rseq}");
        }
    }
}

/// What a member's window does not let out does not leave; a message that is longer than may be is not taken.
#[test]
fn the_lowest_alloc_lets_out() {
    let config = SenderConfig { congestion: None, send_buffer: 1 << 20, ..SenderConfig::default() };
    let (mut s, _) = sender(&config, 2);
    commit(&mut s, 200_000);
    let sent = |s: &mut Sender| {
        poll(s, NOW);
        s.sent()
    };
    assert!((1..=16_384).contains(&sent(&mut s)), "before anybody has said more");
    assert_eq!(s.max_message(), (1 << 20) / 4);
    assert!(s.reserve((1 << 20) / 4 + 1).is_none());
}

/// Nothing leaves to nobody; what was queued for who has gone is for nobody.
#[test]
fn nothing_is_sent_to_nobody() {
    let (mut s, _) = sender(&SenderConfig::default(), 0);
    commit(&mut s, 1000);
    assert!(poll(&mut s, NOW).iter().all(|(_, h)| h.data_len == 0));
    assert_eq!(s.sent(), 0);
    s.finish();
    poll(&mut s, NOW);
    assert!(s.has_ended(), "nobody waits");
}

/// Those who were members are remembered as long as there is room: the oldest goes first.
#[test]
fn who_was_a_member_long_ago_is_nobody() {
    let (mut s, sync) = sender(&SenderConfig::default(), 0);
    for n in 1..=65 {
        joins(&mut s, n);
        s.remove(NOW, key(n + 10));
        poll(&mut s, NOW);
    }
    for (n, cause) in [(1, Some(DropCause::Closed)), (2, None), (65, None)] {
        let h = report(key(n + 10), (0, sync), &[]);
        assert_eq!(s.handle(NOW, at(n), &h), cause, "{n}");
    }
}
