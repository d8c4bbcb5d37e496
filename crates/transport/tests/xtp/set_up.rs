//! Who takes FIRST, packet by packet (`docs/xtp.md`, section 7): what is kept of it, what is asked, and what is refused.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{Cut, DropCause, Ends, Header as _, Listener as _, Secrets};
use fusewire_transport::xtp::{Config, Connection, Header, Listener, ListenerAction, Rate, State};
use fusewire_wire::xtp::{
    Address, Body, Code, Diag, First, Key, Limits, Options, Reason, Service, Traffic,
};

use crate::account::SERVICE;
use crate::hot_path::take;

const NOW: Instant = Instant::from_ms(5000);
const SECRETS: Secrets = Secrets { isn: [1; 16], cookie: [2; 16] };

/// One of many hosts, and FIRST of its own.
fn first_of(n: u64) -> (Ends<fusewire_transport::xtp::Name>, Header) {
    let key = Key::new(0x1000 + n).expect("not zero");
    let mut conn = Connection::connect(&Config::default(), key, SERVICE, NOW);
    let header = conn.poll_transmit(NOW).expect("FIRST").header;
    let remote = ([10, 1, (n >> 8) as u8, n as u8], 4000).into();
    (Ends { local: ([10, 0, 0, 1], 4433).into(), remote, flow: header.flow() }, header)
}

fn listens(cfg: &Config, backlog: usize) -> Listener {
    Listener::new(cfg, backlog, &SECRETS)
}

/// The context that FIRST opens; the application has taken it.
fn accepted(
    listener: &mut Listener,
    ends: &Ends<fusewire_transport::xtp::Name>,
    h: &Header,
) -> Connection {
    let ListenerAction::Accept(conn) = listener.handle_stray(NOW, ends, h, 0) else {
        panic!("{h:?}");
    };
    listener.taken();
    *conn
}

/// FIRST again, with the cookie that this one was told.
fn shows(listener: &mut Listener, n: u64) -> (Ends<fusewire_transport::xtp::Name>, Header) {
    let (ends, header) = first_of(n);
    let ListenerAction::Reply(reply) = listener.handle_stray(NOW, &ends, &header, 0) else {
        panic!("there is no room");
    };
    let (Body::Tcntl(tcntl), Body::First(first)) = (reply.body, header.body) else { panic!() };
    let body = Body::First(First { xkey: Some(header.key), ..first });
    (ends, Header { key: tcntl.xkey, returned: true, body, ..header })
}

/// Section 7, rules 1 and 2, and 12: what is refused, and to whom nothing is said.
#[test]
fn what_a_listener_does_not_take_is_refused_or_dropped() {
    let (ends, opens) = first_of(1);
    let Body::First(first) = opens.body else { panic!() };
    let of = |service| {
        let traffic = Traffic { service, ..first.traffic };
        Header { body: Body::First(First { traffic, ..first }), ..opens }
    };
    let refused = |reason| Some(Diag { code: Code::ContextRefused, reason });
    let with = |options| Header { options: opens.options | options, ..opens };
    for (nocheck, h, expected) in [
        (false, of(Service::Transaction), refused(Reason::Service)),
        // Who sends a datagram is told nothing, nor is who speaks to many, or by a key that nobody gave.
        (false, of(Service::UnacknowledgedDatagram), None),
        (false, with(Options::MULTI), None),
        (false, Header { returned: true, ..of(Service::Transaction) }, None),
        (false, with(Options::NOCHECK), refused(Reason::Options)),
    ] {
        let cfg = Config { nocheck, ..Config::default() };
        let mut listener = listens(&cfg, 8);
        match (listener.handle_stray(NOW, &ends, &h, 0), expected) {
            (ListenerAction::Reply(reply), Some(diag)) => {
                assert!(matches!(reply.body, Body::Diag(said) if said == diag), "{reply:?}");
                assert!(reply.returned && reply.key == opens.key, "{reply:?}");
            }
            (ListenerAction::Drop(_), None) => assert_eq!(listener.drops(), 1),
            (action, _) => panic!("{h:?}: {action:?}"),
        }
        assert_eq!(listener.half_open(), 0);
    }
    for (cfg, h) in [
        (Config { nocheck: true, ..Config::default() }, with(Options::NOCHECK)),
        (Config::default(), of(Service::Unspecified)),
    ] {
        accepted(&mut listens(&cfg, 8), &ends, &h);
    }
}

/// Contexts that wait for the application have the same bound as those that are half open, however they were opened.
#[test]
fn what_waits_for_the_application_has_a_bound() {
    let mut listener = listens(&Config::default(), 2);
    let held: Vec<_> = (0..3)
        .map(|n| {
            let (ends, header) = first_of(n);
            listener.handle_stray(NOW, &ends, &header, 0)
        })
        .collect();
    assert!(matches!(
        held[..],
        [
            ListenerAction::Accept(_),
            ListenerAction::Accept(_),
            ListenerAction::Drop(DropCause::Backlog)
        ]
    ));
    for _ in 0..2 {
        listener.taken();
    }
    let [one, two, three] = [10, 11, 12].map(|n| shows(&mut listener, n));
    for (ends, header) in [one, two] {
        let action = listener.handle_stray(NOW, &ends, &header, 0);
        assert!(matches!(action, ListenerAction::Accept(_)), "{action:?}");
    }
    let action = listener.handle_stray(NOW, &three.0, &three.1, 0);
    assert!(matches!(action, ListenerAction::Drop(DropCause::Backlog)), "{action:?}");
    listener.taken();
    accepted(&mut listener, &three.0, &three.1);
}

/// Section 7, rule 8: a cookie is for what was asked for: the service, its trailers.
#[test]
fn a_cookie_is_for_the_same_first() {
    let mut listener = listens(&Config { cxor: true, ..Config::default() }, 1);
    let (ends, held) = first_of(0);
    let held = accepted(&mut listener, &ends, &held);
    let (ends, shown) = shows(&mut listener, 1);
    let Body::First(first) = shown.body else { panic!() };
    let elsewhere = First { address: Address::in_udp(SERVICE + 1), ..first };
    for wrong in [
        Header { body: Body::First(elsewhere), ..shown },
        Header { options: shown.options | Options::RES, ..shown },
        Header { body: Body::First(First { xkey: None, ..first }), ..shown },
    ] {
        let action = listener.handle_stray(NOW, &ends, &wrong, 0);
        assert!(matches!(action, ListenerAction::Drop(_)), "{wrong:?}: {action:?}");
    }
    let opened = accepted(&mut listener, &ends, &shown);
    assert_eq!((opened.key(), opened.state()), (shown.key, State::HalfOpen));
    drop(held);
}

/// How many packets a context says at once to who has shown no key of this context.
fn said_at_once(mut conn: Connection, first: &Header) -> usize {
    take(&mut conn, NOW, first);
    let reservation = conn.reserve(12_000).expect("room");
    conn.commit(reservation, Cut::Record);
    core::iter::from_fn(|| conn.poll_transmit(NOW)).filter(|t| t.payload.is_some()).count()
}

/// Section 7, rules 4 and 5: who has shown a key lately, or a cookie, is answered with more than it said, on each context
/// that it opens; another port of its host is not.
#[test]
fn a_proven_address_is_answered_with_more_than_it_said() {
    let mut listener = listens(&Config::default(), 1);
    let (ends, first) = first_of(1);
    let mut opens = accepted(&mut listener, &ends, &first);
    take(&mut opens, NOW, &first);
    let (other, second) = first_of(2);
    let told = shows(&mut listener, 2);
    assert_eq!(said_at_once(opens, &first), 0);
    // The one that opened by a cookie, and the next from there.
    let cookies = accepted(&mut listener, &told.0, &told.1);
    assert!(said_at_once(cookies, &told.1) > 5);
    let again = Header { key: Key::new(5).expect("not zero"), ..second };
    let next = accepted(&mut listener, &other, &again);
    assert!(said_at_once(next, &again) > 5);
    let remote = ([10, 1, 0, 2], 4001).into();
    let stranger = accepted(&mut listener, &Ends { remote, ..other }, &again);
    assert_eq!(said_at_once(stranger, &again), 0);
}

/// What was said before the key is shown comes within what came: a control, too, which waits.
#[test]
fn a_control_waits_for_what_it_may_say() {
    let mut listener = listens(&Config::default(), 1);
    let (ends, first) = first_of(1);
    let mut conn = accepted(&mut listener, &ends, &first);
    take(&mut conn, NOW, &first);
    let said: Vec<_> = core::iter::from_fn(|| conn.poll_transmit(NOW)).collect();
    let bytes: usize = said.iter().map(|t| t.header.packet_len()).sum();
    assert!(said.len() == 1 && bytes <= first.packet_len(), "{bytes}");
    conn.widen_window(1 << 20);
    assert!(conn.wants_ack() && conn.poll_transmit(NOW).is_none());
    take(&mut conn, NOW, &first);
    assert!(conn.poll_transmit(NOW).is_some());
}

/// Section 7, rule 8, and its end: who has opened by a cookie and says nothing more is let go after 30 seconds, and FIRST
/// with it shows no key that counts.
#[test]
fn a_context_of_a_cookie_ends_if_nothing_else_comes() {
    let mut listener = listens(&Config::default(), 1);
    let (ends, held) = first_of(0);
    let held = accepted(&mut listener, &ends, &held);
    let (ends, shown) = shows(&mut listener, 1);
    let mut conn = accepted(&mut listener, &ends, &shown);
    take(&mut conn, NOW, &shown);
    assert_eq!(conn.state(), State::HalfOpen, "it does not know yet that it was taken");
    for (after_s, state) in [(29, State::HalfOpen), (30, State::Quiescent)] {
        let now = NOW + Duration::from_secs(after_s);
        take(&mut conn, now, &shown);
        conn.handle_timeout(now);
        assert_eq!(conn.state(), state, "{after_s}");
    }
    drop(held);
}

/// What FIRST says of sizes and rates counts from the first packet of the answer.
#[test]
fn the_limits_of_first_are_kept() {
    let cfg = Config { out_rate: Rate { rate: 0, burst: 0 }, ..Config::default() };
    let (ends, opens) = first_of(1);
    let Body::First(first) = opens.body else { panic!() };
    let limits = Limits { maxdata: 700, ..Limits::default() };
    let traffic = Traffic { limits: Some(limits), ..first.traffic };
    let small = Header { body: Body::First(First { traffic, ..first }), ..opens };
    let mut listener = listens(&cfg, 1);
    let conn = accepted(&mut listener, &ends, &small);
    assert_eq!(conn.info().max_payload, 700);
}

/// A trailer is what both want: the listener agrees to none that was not offered.
#[test]
fn a_trailer_is_agreed_to_where_it_was_offered() {
    for offers in [false, true] {
        let cfg = Config { cxor: true, ..Config::default() };
        let (ends, opens) = first_of(1);
        let res = if offers { Options::RES } else { Options::NONE };
        let opens = Header { options: opens.options | res, ..opens };
        let mut conn = accepted(&mut listens(&cfg, 1), &ends, &opens);
        take(&mut conn, NOW, &opens);
        let told = conn.poll_transmit(NOW).expect("TCNTL").header;
        assert_eq!((told.options.has(Options::RES), conn.sends_trailers()), (offers, offers));
    }
}
