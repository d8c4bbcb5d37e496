//! Rules of services 1 to 3 that a transaction over a link does not show, packet by packet (`docs/xtp.md`, section 15).

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{DropCause, Initial, Secrets, Verdict};
use fusewire_transport::xtp::single::{
    Arrived, Bounds, Event, Id, Incoming, Message, Outcome, Patience, Request, Responder,
};
use fusewire_transport::xtp::{Config, Header, SPANS};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, Key, Limits, Options, Reason, Service, SpanList,
    Traffic, TrafficControl,
};

use super::{CLIENT, PORT, ends};

const NOW: Instant = Instant::from_ms(5000);
const WHOLE: Options = Options::RCLOSE.with(Options::WCLOSE).with(Options::EOM);

fn key(n: u64) -> Key {
    Key::new(n).expect("not zero")
}

/// A request of so many bytes, and the packets that it leaves in.
fn asks(service: Service, len: u32, proves_itself: bool) -> (Request, Vec<Header>) {
    let message = Message { service, port: PORT, len, btag: Some(9), proves_itself };
    let cfg = Config::default();
    let wait = Patience::UNKNOWN;
    let mut request = Request::new(cfg.clone(), message, key(77), wait, NOW).expect("short enough");
    let left = core::iter::from_fn(|| request.poll_transmit(NOW)).map(|t| t.header).collect();
    (request, left)
}

fn tells(request: &mut Request, h: &Header) -> Option<Outcome> {
    let initial = request.handle_initial(NOW, h, h.data_len);
    let verdict = match initial {
        Initial::Drop(_) => return None,
        Initial::Control => Verdict::Control,
        Initial::Payload(plan) => Verdict::Accept { len: plan.len },
    };
    request.handle_final(NOW, h, &initial, verdict);
    request.assert_invariants();
    request.poll_event()
}

/// A packet under the request's key.
fn answer(first: &Header, options: Options, data_len: u32, body: Body<SpanList<SPANS>>) -> Header {
    Header { key: key(77), returned: true, options, seq: 0, data_len, body, ..*first }
}

/// What ends a request of service 2, and what its end is.
#[test]
fn an_acknowledged_datagram_was_delivered_where_all_is_said() {
    let all = Options::RCLOSE | Options::WCLOSE | Options::END;
    for (options, rseq, late, outcome) in [
        (all, 100, 0, Some(Outcome::Delivered)),
        (all.without(Options::RCLOSE), 100, 0, Some(Outcome::Reset)),
        (all.without(Options::WCLOSE), 100, 0, Some(Outcome::Reset)),
        (all, 99, 0, Some(Outcome::Reset)),
        (all.without(Options::END), 100, 0, None),
        (all, 101, 0, None),
        (all, 100, 1, None),
        (all, 100, (1 << 31) + 1, None),
    ] {
        let (mut request, left) = asks(Service::AcknowledgedDatagram, 100, false);
        let echo = left[0].sync.wrapping_add(late);
        let control = Body::Cntl(Control { rseq, alloc: 200, echo });
        let told = tells(&mut request, &answer(&left[0], options, 0, control));
        assert_eq!(told, outcome, "{options:?} {rseq} {late}");
        // Data answer a transaction alone.
        let data = answer(&left[0], WHOLE, 9, Body::Data { btag: None });
        assert_eq!(tells(&mut request, &data), None);
    }
    // Service 2 says the same of a transaction: it was not answered.
    let (mut request, left) = asks(Service::Transaction, 100, false);
    let control = Body::Cntl(Control { rseq: 100, alloc: 200, echo: left[0].sync });
    let told = tells(&mut request, &answer(&left[0], all, 0, control));
    assert_eq!(told, Some(Outcome::Reset));
}

/// What answers a transaction in one packet.
#[test]
fn an_answer_of_one_packet_is_whole_short_and_proven() {
    let data = Body::Data { btag: None };
    let nocheck = WHOLE | Options::NOCHECK;
    for (proves_itself, options, len, takes) in [
        (false, WHOLE, 16_384, true),
        (false, WHOLE, 16_385, false),
        (false, nocheck, 9, false),
        (true, nocheck, 9, true),
        (true, nocheck | Options::RES, 9, false),
        (true, WHOLE, 9, true),
    ] {
        let (mut request, left) = asks(Service::Transaction, 100, proves_itself);
        let told = tells(&mut request, &answer(&left[0], options, len, data));
        let expected = takes.then_some(Outcome::Answered { len: len.into() });
        assert_eq!(told, expected, "{proves_itself} {options:?} {len}");
    }
}

/// TCNTL says that all of a request has come, or it says nothing.
#[test]
fn a_request_has_come_where_all_of_it_is_acknowledged() {
    for (options, rseq, alloc, late, came) in [
        (Options::RCLOSE, 100, 200, 0, true),
        (Options::NONE, 100, 200, 0, false),
        (Options::RCLOSE, 99, 200, 0, false),
        (Options::RCLOSE, 101, 200, 0, false),
        (Options::RCLOSE, 100, 200, 1, false),
    ] {
        let (mut request, left) = asks(Service::Transaction, 100, false);
        let echo = left[0].sync.wrapping_add(late);
        let control = Control { rseq, alloc, echo };
        let traffic = Traffic { service: Service::Transaction, limits: None };
        let tcntl = TrafficControl { control, delay_us: 0, xkey: key(5), traffic };
        tells(&mut request, &answer(&left[0], options, 0, Body::Tcntl(tcntl)));
        assert_eq!(!request.is_asking(), came, "{options:?} {rseq} {late}");
        assert_eq!(request.also().is_some(), came);
    }
}

/// DIAG ends it with what it says; one of no use does not.
#[test]
fn a_diag_ends_a_request_by_what_it_says() {
    let reason = Reason::NoListener;
    for (code, outcome) in [
        (Code::ContextRefused, Some(Outcome::Refused(reason))),
        (Code::ContextAbandoned, Some(Outcome::Reset)),
        (Code::ProtocolError, Some(Outcome::Reset)),
        (Code::InvalidContext, None),
        (Code::JoinRefused, None),
    ] {
        let (mut request, left) = asks(Service::Transaction, 100, false);
        let diag = Body::Diag(Diag { code, reason });
        let said = answer(&left[0], Options::NONE, 0, diag);
        assert_eq!(tells(&mut request, &said), outcome, "{code:?}");
        // The key is not returned: it is another's.
        let (mut request, _) = asks(Service::Transaction, 100, false);
        assert_eq!(tells(&mut request, &Header { returned: false, ..said }), None);
    }
    // Who has given up hears no more.
    let (mut request, left) = asks(Service::Transaction, 100, false);
    request.abort();
    let data = answer(&left[0], WHOLE, 9, Body::Data { btag: None });
    assert_eq!(tells(&mut request, &data), None);
}

/// What is in several packets has its tag on the first and its check on each, and all ask on the last.
#[test]
fn a_request_of_several_packets_says_it_once() {
    let (_, left) = asks(Service::Transaction, 5000, true);
    assert_eq!(left.len(), 4);
    for (n, h) in left.iter().enumerate() {
        let Body::First(first) = h.body else { panic!("{h:?}") };
        assert_eq!(first.btag, (n == 0).then_some(9), "{n}");
        assert!(h.checks_all());
        let asks = Options::DREQ | Options::WCLOSE | Options::EOM;
        assert_eq!(h.options.any(asks), n == 3, "{h:?}");
    }
    let (_, left) = asks(Service::Transaction, 500, true);
    assert!(!left[0].checks_all(), "it is whole, and proves itself");
}

// ---- the responder

struct Asked {
    responder: Responder,
    taken: Option<Id>,
}

impl Asked {
    fn new(cfg: &Config, bounds: Bounds) -> Asked {
        let secrets = Secrets { isn: [1; 16], cookie: [2; 16] };
        Asked { responder: Responder::new(cfg, bounds, &secrets, NOW), taken: None }
    }

    /// A packet comes from an address: what is to be done with it.
    fn comes_from(&mut self, from: [u8; 4], is_proven: bool, h: &Header) -> Incoming {
        let ends = ends(h, from);
        let incoming = self.responder.handle_initial(NOW, &ends, is_proven, h, h.data_len);
        if let Incoming::Take(initial) = incoming {
            let verdict = match initial {
                Initial::Payload(plan) if plan.len > 0 => Verdict::Accept { len: plan.len },
                _ => Verdict::Control,
            };
            let told = (&initial, h.data_len);
            self.taken = self.responder.handle_final(NOW, &ends, is_proven, h, told, verdict);
        }
        self.responder.assert_invariants();
        incoming
    }

    fn comes(&mut self, h: &Header) -> Incoming {
        self.comes_from(CLIENT, true, h)
    }

    fn arrived(&mut self) -> Option<Arrived> {
        core::iter::from_fn(|| self.responder.poll_event()).find_map(|(_, event)| match event {
            Event::Arrived(arrived) => Some(arrived),
            Event::Gone => None,
        })
    }

    fn says(&mut self) -> Vec<Header> {
        core::iter::from_fn(|| self.responder.poll_transmit(NOW))
            .map(|(_, _, t)| t.header)
            .collect()
    }
}

fn with(h: &Header, change: impl Fn(&mut First)) -> Header {
    let Body::First(mut first) = h.body else { panic!("{h:?}") };
    change(&mut first);
    Header { body: Body::First(first), ..*h }
}

/// What makes no context, and who is told so.
#[test]
fn what_is_no_request_is_dropped_or_refused() {
    let first = |service, len| asks(service, len, false).1[0];
    let [datagram, request] =
        [Service::UnacknowledgedDatagram, Service::Transaction].map(|s| first(s, 100));
    let elsewhere = |h: &Header| {
        with(h, |first| {
            let (dsthost, srchost) = ([10, 0, 0, 1].into(), [10, 0, 0, 3].into());
            let dstport = PORT;
            first.address = Address::V4 { dsthost, srchost, dstport, srcport: 0 };
        })
    };
    let options = |h: &Header, options| Header { options, ..*h };
    let mut asked = Asked::new(&Config::default(), Bounds::default());
    assert!(matches!(asked.comes(&datagram), Incoming::Datagram(_)));
    let kept = datagram.options;
    for dropped in [
        options(&datagram, kept.without(Options::END)),
        options(&datagram, kept.without(Options::RCLOSE)),
        options(&datagram, kept.without(Options::EOM)),
        options(&datagram, kept | Options::NOCHECK),
        Header { seq: 1, ..datagram },
        with(&Header { returned: true, ..datagram }, |first| first.xkey = Some(key(5))),
        elsewhere(&datagram),
        options(&request, request.options | Options::MULTI),
        // Beyond what may be sent before an alloc is known; a cookie that nobody gave; and one that says no key.
        Header { seq: 16_300, ..request },
        with(&Header { returned: true, ..request }, |first| first.xkey = Some(key(5))),
        Header { returned: true, ..request },
    ] {
        assert!(matches!(asked.comes(&dropped), Incoming::Drop(_)), "{dropped:?}");
    }
    for (refused, reason) in [
        (options(&request, request.options | Options::NOCHECK), Reason::Options),
        (elsewhere(&request), Reason::MalformedAddress),
        (with(&request, |first| first.traffic.service = Service::Stream), Reason::Service),
    ] {
        let Incoming::Reply(reply) = asked.comes(&refused) else { panic!("{refused:?}") };
        let expected = Diag { code: Code::ContextRefused, reason };
        assert!(matches!(reply.body, Body::Diag(diag) if diag == expected), "{reply:?}");
    }
    assert_eq!((asked.responder.contexts(), asked.arrived()), (0, None));
}

/// A piece proves nothing of itself; a whole request does, where that is taken.
#[test]
fn a_piece_of_a_request_is_checked() {
    let cfg = Config { nocheck: true, ..Config::default() };
    let (_, whole) = asks(Service::Transaction, 100, true);
    let mut asked = Asked::new(&cfg, Bounds::default());
    asked.comes(&whole[0]);
    assert_eq!(asked.arrived().map(|a| (a.len, a.btag)), Some((100, Some(9))));
    let (_, pieces) = asks(Service::Transaction, 5000, true);
    let unchecked =
        |h: &Header| Header { key: key(78), options: h.options | Options::NOCHECK, ..*h };
    let checked = |h: &Header| Header { key: key(78), ..*h };
    assert!(matches!(asked.comes(&unchecked(&pieces[0])), Incoming::Drop(DropCause::Protocol)));
    for (n, piece) in pieces.iter().enumerate().rev() {
        assert!(matches!(asked.comes(&checked(piece)), Incoming::Take(_)), "{n}");
        assert!(
            matches!(asked.comes(&unchecked(piece)), Incoming::Drop(DropCause::Protocol)) || n == 0
        );
    }
    // The tag is that of the first.
    assert_eq!(asked.arrived().map(|a| (a.len, a.btag)), Some((5000, Some(9))));
    let mut asked = Asked::new(&Config::default(), Bounds::default());
    for piece in &pieces {
        asked.comes(&with(piece, |first| first.btag = first.btag.or(Some(6))));
    }
    assert_eq!(asked.arrived().and_then(|a| a.btag), Some(9));
}

/// Where a request ends is said once, and not below what has come.
#[test]
fn a_request_that_ends_below_what_has_come_is_none() {
    let (_, whole) = asks(Service::Transaction, 100, false);
    let going_on = whole[0].options.without(Options::WCLOSE | Options::EOM);
    for pieces in [
        // Where it begins, and whether it ends there.
        [(200, false), (0, true)],
        [(100, true), (150, false)],
        [(100, true), (300, true)],
    ] {
        let mut asked = Asked::new(&Config::default(), Bounds::default());
        for (seq, ends) in pieces {
            let options = if ends { whole[0].options } else { going_on };
            asked.comes(&Header { seq, options, ..whole[0] });
        }
        let said = asked.says();
        let diag = |h: &Header| matches!(h.body, Body::Diag(d) if d.code == Code::ProtocolError);
        assert!(said.len() == 1 && diag(&said[0]), "{pieces:?}: {said:?}");
        assert_eq!(asked.responder.drops().of(DropCause::Protocol), 1);
    }
}

/// An answer is one packet where that fits what the initiator takes, its path, and what it said.
#[test]
fn an_answer_leaves_as_one_packet_where_it_fits() {
    let (_, first) = asks(Service::Transaction, 100, false);
    let takes = |maxdata| {
        with(&first[0], |first| {
            first.traffic.limits = Some(Limits { maxdata, ..Limits::default() });
        })
    };
    let [small, large] = [700, 60_000].map(takes);
    for (h, is_proven, path, len, fits) in [
        (&large, true, 1472, 1440, true),
        (&large, true, 1472, 1441, false),
        (&small, true, 1472, 700, true),
        (&small, true, 1472, 701, false),
        (&first[0], false, 1472, 100, true),
        (&first[0], false, 1472, 1000, false),
        (&large, true, 65_000, 16_384, true),
        (&large, true, 65_000, 16_385, false),
    ] {
        let mut asked = Asked::new(&Config::default(), Bounds::default());
        asked.comes_from(CLIENT, is_proven, h);
        let id = asked.taken.expect("it came");
        asked.responder.set_tpdu_len(id, path);
        asked.responder.answer(NOW, id, len, false);
        let said = asked.says();
        let is_one = matches!(said[..], [Header { body: Body::Data { .. }, .. }]);
        assert_eq!(is_one, fits, "{is_proven} {path} {len}: {said:?}");
        // Once.
        asked.responder.answer(NOW, id, 10, false);
        assert_eq!(asked.says(), []);
    }
}

/// Who has proven nothing is answered with no more than it said, however often it says it; a shorter one with no more than
/// that.
#[test]
fn what_is_said_again_is_no_more_than_came() {
    let (_, first) = asks(Service::Transaction, 1000, false);
    let mut asked = Asked::new(&Config::default(), Bounds::default());
    asked.comes_from(CLIENT, false, &first[0]);
    let id = asked.taken.expect("it came");
    asked.responder.answer(NOW, id, 1000, false);
    let answered = asked.says();
    assert_eq!(answered.len(), 1);
    let short = Header { data_len: 0, ..first[0] };
    let mut said = (0, 0);
    for _ in 0..20 {
        asked.comes_from(CLIENT, false, &short);
        said.0 += asked.says().len() * answered[0].packet_len();
        said.1 += short.packet_len();
    }
    assert!(said.0 > 0 && said.0 <= said.1 + first[0].packet_len(), "{said:?}");
}

/// Contexts have a bound, of which requests that wait are never forgotten; a place is free again when its key was shown.
#[test]
fn requests_have_a_bound_and_places() {
    let bounds = Bounds { contexts: 2, half_open: 4, ..Bounds::default() };
    let (_, first) = asks(Service::Transaction, 100, false);
    let of = |n| Header { key: key(n), ..first[0] };
    let mut asked = Asked::new(&Config::default(), bounds);
    for n in 1..=2 {
        assert!(matches!(asked.comes_from([10, 1, 0, n], false, &of(n.into())), Incoming::Take(_)));
    }
    assert_eq!(asked.responder.half_open(), 2);
    let third = asked.comes_from([10, 1, 0, 3], false, &of(3));
    assert_eq!(third, Incoming::Drop(DropCause::Backlog));
    // What was handed over waits for nothing.
    assert_eq!(asked.responder.poll_timeout(), None);
    // One is answered, and makes room.
    asked.responder.answer(NOW, asked.taken.expect("the second"), 10, false);
    assert_eq!(asked.responder.half_open(), 1);
    assert!(matches!(asked.comes_from([10, 1, 0, 3], false, &of(3)), Incoming::Take(_)));
    // FIRST again: it is told what came, and shows the key.
    asked.says();
    asked.comes_from([10, 1, 0, 3], false, &of(3));
    let told = asked.says().pop().expect("TCNTL");
    let Body::Tcntl(tcntl) = told.body else { panic!("{told:?}") };
    let control = Body::Cntl(Control { rseq: 0, alloc: 20_000, echo: told.sync });
    let shows = Header {
        key: tcntl.xkey,
        returned: true,
        options: Options::NONE,
        data_len: 0,
        seq: 100,
        body: control,
        ..first[0]
    };
    asked.comes_from([10, 1, 0, 3], false, &shows);
    assert_eq!(asked.responder.half_open(), 1, "the first has shown nothing");
}

/// A message of service 2 is delivered, and not answered; a request is answered, and not delivered.
#[test]
fn each_service_has_its_own_end() {
    for (service, delivers, answers) in
        [(Service::AcknowledgedDatagram, true, false), (Service::Transaction, false, true)]
    {
        let (_, first) = asks(service, 100, false);
        let mut asked = Asked::new(&Config::default(), Bounds::default());
        asked.comes(&first[0]);
        let id = asked.taken.expect("it came");
        asked.responder.delivered(NOW, id);
        assert_eq!(!asked.says().is_empty(), delivers);
        asked.responder.answer(NOW, id, 10, false);
        assert_eq!(!asked.says().is_empty(), answers);
    }
}

/// A request of which a piece is lost for good is forgotten after 30 seconds.
#[test]
fn half_a_request_is_forgotten() {
    let (_, pieces) = asks(Service::Transaction, 5000, false);
    let mut asked = Asked::new(&Config::default(), Bounds::default());
    asked.comes(&pieces[1]);
    for (after_s, contexts) in [(29, 1), (31, 0)] {
        asked.responder.handle_timeout(NOW + Duration::from_secs(after_s));
        assert_eq!(asked.responder.contexts(), contexts, "{after_s}");
    }
    assert!(matches!(asked.responder.poll_event(), Some((_, Event::Gone))));
}
