//! Rules of `docs/xtp.md` that a transfer does not show, packet by packet: what is answered, when, and what is not.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{
    Cut, DropCause, Ends, Event, Header as _, Listener as _, ResetCause, Secrets,
};
use fusewire_transport::xtp::{
    Config, Connection, Header, Listener, ListenerAction, Rate, SPANS, State,
};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, Key, Options, Reason, Service, Span, SpanList,
    Spans as _, Traffic,
};

use crate::hot_path::{open, take};

/// When contexts open, and when all that follows happens: what they ask then is no repetition.
pub const BEGAN: Instant = Instant::from_ms(1);
pub const NOW: Instant = Instant::from_ms(5);

/// A packet for `to` that asks for nothing.
pub fn packet(
    to: &Connection,
    sync: u32,
    seq: u64,
    data_len: u32,
    body: Body<SpanList<SPANS>>,
) -> Header {
    Header {
        key: to.key(),
        returned: true,
        options: Options::NONE,
        check: 0,
        sort: 0,
        sync,
        seq,
        data_len,
        body,
    }
}

pub fn first() -> Body<SpanList<SPANS>> {
    let traffic = Traffic { service: Service::Stream, limits: None };
    Body::First(First { address: Address::in_udp(7), traffic, xkey: None, btag: None })
}

/// Everything that leaves `from` comes to `to`.
pub fn deliver(from: &mut Connection, to: &mut Connection, now: Instant) -> Vec<Header> {
    let mut left = Vec::new();
    while let Some(t) = from.poll_transmit(now) {
        take(to, now, &t.header);
        left.push(t.header);
    }
    left
}

/// The context that this FIRST opens.
pub fn called(cfg: &Config, first: &Header) -> Connection {
    let mut listener = Listener::new(cfg, 2, &Secrets { isn: [1; 16], cookie: [2; 16] });
    let at = ([192, 0, 2, 1], 7).into();
    let ends = Ends { local: at, remote: at, flow: first.flow() };
    let ListenerAction::Accept(mut b) = listener.handle_stray(BEGAN, &ends, first, 0) else {
        panic!()
    };
    take(&mut b, BEGAN, first);
    *b
}

/// A byte goes to `b` and is answered: the syncs of both.
pub fn exchange(a: &mut Connection, b: &mut Connection) -> (u32, u32) {
    let reservation = a.reserve(1).expect("room");
    a.commit(reservation, Cut::Stream);
    let said = deliver(a, b, NOW).pop().expect("data");
    let answer = deliver(b, a, NOW).pop().expect("an answer");
    (said.sync, answer.sync)
}

fn says(c: &mut Connection) -> Vec<Header> {
    core::iter::from_fn(|| c.poll_transmit(NOW)).map(|t| t.header).collect()
}

/// What a TCNTL says of the rate.
fn inrate(h: &Header) -> Option<u32> {
    let Body::Tcntl(tcntl) = &h.body else { return None };
    tcntl.traffic.limits.map(|limits| limits.inrate)
}

/// Section 8: where two answers are due TCNTL goes first, and what it cannot name follows as long as it is so.
#[test]
fn a_gap_that_is_asked_for_is_named_behind_tcntl() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let comes = |b: &mut Connection, seq, options| {
        let data = packet(b, sync, seq, 100, Body::Data { btag: None });
        take(b, NOW, &Header { options, ..data });
    };
    comes(&mut b, 101, Options::FASTNAK);
    assert!(matches!(says(&mut b)[..], [Header { body: Body::Ecntl(..), .. }]));
    // It was reported. Who asks is told of it again.
    comes(&mut b, 201, Options::SREQ);
    b.set_in_rate(Rate { rate: 30_000, burst: 4000 });
    let said = says(&mut b);
    let [Header { body: Body::Tcntl(_), .. }, Header { body: Body::Ecntl(_, spans), .. }] =
        &said[..]
    else {
        panic!("{said:?}");
    };
    assert!(spans.iter().eq([Span { left: 101, right: 301 }]), "{said:?}");
    // Filled in the batch that opened it: there is nothing to name, and what goes again does not go at once.
    comes(&mut b, 1, Options::NONE);
    comes(&mut b, 401, Options::FASTNAK);
    comes(&mut b, 301, Options::NONE);
    b.set_in_rate(Rate { rate: 60_000, burst: 4000 });
    let said = says(&mut b);
    assert!(matches!(said[..], [Header { body: Body::Tcntl(_), .. }]), "{said:?}");
}

/// Section 7, rule 4: a FIRST without data lets no limits out before the key was shown; they are said then.
#[test]
fn limits_for_which_there_was_no_room_are_told_later() {
    let mut a = Connection::connect(&Config::default(), Key::new(77).unwrap(), 7, BEGAN);
    let first = a.poll_transmit(BEGAN).expect("FIRST").header;
    let in_rate = Rate { rate: 30_000, burst: 4000 };
    let mut b = called(&Config { in_rate, ..Config::default() }, &first);
    let opens = deliver(&mut b, &mut a, BEGAN);
    assert!(matches!(opens[0].body, Body::Tcntl(_)) && inrate(&opens[0]).is_none(), "{opens:?}");
    assert_ne!(a.info().pacing_rate, Some(30_000));
    deliver(&mut a, &mut b, NOW);
    deliver(&mut b, &mut a, NOW);
    assert_eq!(a.info().pacing_rate, Some(30_000));
}

/// Section 11: of two TCNTLs the later counts, whichever comes last; one that is not taken says nothing.
#[test]
fn a_tcntl_that_was_overtaken_or_is_dropped_changes_no_rate() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (_, echo) = exchange(&mut a, &mut b);
    let [early, late] = [30_000, 60_000].map(|rate| {
        b.set_in_rate(Rate { rate, burst: 4000 });
        says(&mut b).remove(0)
    });
    assert_eq!((inrate(&early), inrate(&late)), (Some(30_000), Some(60_000)));
    take(&mut a, NOW, &late);
    take(&mut a, NOW, &early);
    assert_eq!(a.info().pacing_rate, Some(60_000));
    // END in the name of who is further.
    let data = packet(&a, echo, 0, 100, Body::Data { btag: None });
    take(&mut a, NOW, &data);
    b.set_in_rate(Rate { rate: 90_000, burst: 4000 });
    let mut blind = says(&mut b).remove(0);
    blind.options |= Options::END;
    take(&mut a, NOW, &blind);
    assert_eq!(a.counters().dropped(DropCause::BlindReset), 1);
    assert_eq!(a.info().pacing_rate, Some(60_000));
}

/// Section 7, rule 7.
#[test]
fn a_first_for_an_open_context_is_answered_for_ten_seconds() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    for (after, is_answered) in [(9_900, true), (10_100, false)] {
        let now = BEGAN + Duration::from_millis(after);
        let again = packet(&b, sync, 0, 500, first());
        let again = Header { key: Key::new(77).unwrap(), returned: false, ..again };
        let (came, blind) = (b.rcv_nxt_offset(), b.counters().dropped(DropCause::BlindOpen));
        take(&mut b, now, &again);
        let answer = b.poll_transmit(now).map(|t| t.header.body);
        assert_eq!(matches!(answer, Some(Body::Tcntl(_))), is_answered, "{answer:?}");
        assert_eq!(b.rcv_nxt_offset(), came, "its data are not taken");
        let dropped = b.counters().dropped(DropCause::BlindOpen) - blind;
        assert_eq!(dropped, u64::from(!is_answered));
    }
}

/// Section 7, rule 2: whatever the window is.
#[test]
fn firsts_bring_no_more_than_may_be_sent_before_an_alloc_is_known() {
    let cfg = Config { initial_recv_window: 1 << 17, recv_window: 1 << 17, ..Config::default() };
    let mut a = Connection::connect(&cfg, Key::new(77).unwrap(), 7, BEGAN);
    let opens = a.poll_transmit(BEGAN).expect("FIRST").header;
    let mut b = called(&cfg, &opens);
    for (seq, data_len) in [(15_384, 1000), (15_385, 1000), (20_000, 1000)] {
        let before = b.counters().dropped(DropCause::OutOfWindow);
        take(&mut b, BEGAN, &Header { seq, data_len, ..opens });
        let dropped = b.counters().dropped(DropCause::OutOfWindow) - before;
        assert_eq!(dropped, u64::from(seq + 1000 > 16_384), "{seq}");
    }
    assert_eq!(b.counters().bytes_received, 1000);
}

/// Section 8, WTIMER: nobody answers.
#[test]
fn each_question_waits_twice_as_long_as_the_one_before() {
    let (mut a, _) = open(&Config::default(), BEGAN);
    let reservation = a.reserve(1000).expect("room");
    a.commit(reservation, Cut::Stream);
    let (mut now, mut asked) = (BEGAN, Vec::new());
    while now < BEGAN + Duration::from_secs(50) {
        while let Some(t) = a.poll_transmit(now) {
            let is_question = t.header.options.has(Options::SREQ) && t.header.data_len == 0;
            assert!(is_question || now == BEGAN, "data in the handshake: {:?}", t.header);
            if is_question {
                asked.push(now);
            }
        }
        now = a.poll_timeout().expect("it asks").max(now);
        a.handle_timeout(now);
    }
    let waits: Vec<_> = asked.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(waits.len() >= 5, "{waits:?}");
    // The first ended the tail probe's wait.
    assert!(waits[1..].windows(2).all(|two| two[1] == 2 * two[0]), "{waits:?}");
}

/// `a` has sent two packets of which the first is lost, and shakes hands; its first question of that is lost, too. When, and what
/// it asked before.
fn shaking_hands(a: &mut Connection, b: &mut Connection) -> (Instant, Header) {
    exchange(a, b);
    let mut left = Vec::new();
    for _ in 0..2 {
        let reservation = a.reserve(1000).expect("room");
        a.commit(reservation, Cut::Record);
        left.extend(says(a));
    }
    let [_, second] = &left[..] else { panic!("{left:?}") };
    let second = Header { options: second.options, ..*second };
    let (mut now, mut before) = (NOW, second);
    loop {
        now = a.poll_timeout().expect("it asks").max(now);
        a.handle_timeout(now);
        let asked = core::iter::from_fn(|| a.poll_transmit(now)).last();
        match asked {
            Some(question) if a.counters().timeouts > 0 => {
                assert!(question.header.options.has(Options::SREQ));
                break;
            }
            Some(question) => before = question.header,
            None => {}
        }
    }
    take(b, NOW, &left[1]);
    (now, before)
}

/// Section 8: an answer to an earlier question ends no handshake, but what answers its sender asks along: otherwise a question that
/// was lost is made up for when WTIMER has ended, and after a long round trip that is seconds later.
#[test]
fn what_leaves_during_a_handshake_asks_along() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (now, before) = shaking_hands(&mut a, &mut b);
    take(&mut b, now, &before);
    // It asks as well: there is something to be told.
    b.set_in_rate(Rate { rate: 1_000_000, burst: 4000 });
    let answer = b.poll_transmit(now).expect("an answer").header;
    assert_eq!(answer.body.control().map(|c| c.echo), Some(before.sync));
    assert!(answer.options.has(Options::SREQ));
    let now = now + Duration::from_millis(4);
    take(&mut a, now, &answer);
    let asked: Vec<_> = core::iter::from_fn(|| a.poll_transmit(now)).map(|t| t.header).collect();
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    assert!(asked.options.has(Options::SREQ) && asked.data_len == 0, "{asked:?}");
    // Not again at once, whoever says how often.
    take(&mut a, now, &answer);
    let again = a.poll_transmit(now).expect("an answer").header;
    assert!(!again.options.has(Options::SREQ) && again.data_len == 0, "{again:?}");
    take(&mut b, now, asked);
    let now = now + Duration::from_millis(4);
    let answers = deliver(&mut b, &mut a, now);
    let again = a.poll_transmit(now).unwrap_or_else(|| panic!("{answers:?} {:?}", a.info())).header;
    assert_eq!((again.seq, again.data_len), (1, 1000), "{again:?}");
}

/// Of the questions of one handshake any is as good: nothing has left since the first.
#[test]
fn an_answer_to_any_question_of_a_handshake_ends_it() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (mut now, before) = shaking_hands(&mut a, &mut b);
    let first = before.sync.wrapping_add(1);
    for _ in 0..2 {
        now = a.poll_timeout().expect("it asks").max(now);
        a.handle_timeout(now);
        let asked = a.poll_transmit(now).expect("a question").header;
        assert!(asked.options.has(Options::SREQ) && asked.data_len == 0, "{asked:?}");
    }
    let echoes = |echo: u32| {
        let mut spans = SpanList::new(0);
        assert!(spans.push(Span { left: 1001, right: 2001 }));
        Body::Ecntl(Control { rseq: 1, alloc: 100_000, echo }, spans)
    };
    // The one from before ends nothing, however often it comes.
    let sync = b.poll_transmit(now).map_or(0, |t| t.header.sync);
    for _ in 0..3 {
        let old = packet(&a, sync, 0, 0, echoes(before.sync));
        take(&mut a, now, &old);
        assert!(a.poll_transmit(now).is_none());
    }
    let answer = packet(&a, sync, 0, 0, echoes(first));
    take(&mut a, now, &answer);
    let again = a.poll_transmit(now).expect("what was lost").header;
    assert_eq!((again.seq, again.data_len), (1, 1000), "{again:?}");
}

/// Section 10, NOERR: what was sent last is lost, and a control says how much was sent.
#[test]
fn a_control_passes_over_what_is_not_sent_again() {
    let (mut a, mut b) = open(&Config { passes_gaps: true, ..Config::default() }, BEGAN);
    let (sync, echo) = exchange(&mut a, &mut b);
    let control = packet(&b, sync, 1001, 0, Body::Cntl(Control { rseq: 0, alloc: 20_000, echo }));
    take(&mut b, NOW, &control);
    assert_eq!((b.rcv_nxt_offset(), b.poll_gap()), (1, None), "it goes again");
    take(&mut b, NOW, &Header { options: Options::NOERR, ..control });
    assert_eq!((b.rcv_nxt_offset(), b.poll_gap()), (1001, Some(1..1001)));
}

/// The same for who reads in order, to whom it would be a hole in the stream: the bit says nothing.
#[test]
fn who_wants_every_byte_passes_over_none() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, echo) = exchange(&mut a, &mut b);
    let control = packet(&b, sync, 1001, 0, Body::Cntl(Control { rseq: 0, alloc: 20_000, echo }));
    take(&mut b, NOW, &Header { options: Options::NOERR, ..control });
    assert_eq!((b.rcv_nxt_offset(), b.poll_gap()), (1, None));
    let data = packet(&b, sync, 101, 100, Body::Data { btag: None });
    take(&mut b, NOW, &Header { options: Options::NOERR, ..data });
    assert_eq!((b.rcv_nxt_offset(), b.poll_gap()), (1, None));
    // What was missing comes after all.
    take(&mut b, NOW, &Header { seq: 1, ..data });
    assert_eq!((b.rcv_nxt_offset(), b.poll_gap()), (201, None));
}

/// Section 10, spans: the lowest, and in the last place the one that came last.
#[test]
fn the_last_place_is_of_what_came_last() {
    let cfg = Config { initial_recv_window: 1 << 17, recv_window: 1 << 17, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let at = |n: u64| Span { left: 2000 * n, right: 2000 * n + 500 };
    let lowest: Vec<Span> = (1..=15).map(at).collect();
    for n in (1..=17).chain([20, 19]) {
        let data = packet(&b, sync, at(n).left, 500, Body::Data { btag: None });
        take(&mut b, NOW, &data);
    }
    for (last, seq) in [(19, None), (16, Some(16))] {
        if let Some(n) = seq {
            // It came before: what it says now is the same, longer by a byte.
            let data = packet(&b, sync, at(n).right, 1, Body::Data { btag: None });
            take(&mut b, NOW, &data);
        }
        let asks = packet(&b, sync, at(1).left, 1, Body::Data { btag: None });
        let asks = Header { options: Options::SREQ, ..asks };
        take(&mut b, NOW, &asks);
        let answer = b.poll_transmit(NOW).expect("an answer").header;
        let Body::Ecntl(_, spans) = answer.body else { panic!("{answer:?}") };
        let spans: Vec<_> = spans.iter().collect();
        assert_eq!(spans[..15], lowest);
        assert_eq!((spans.len(), spans[15].left), (16, at(last).left));
    }
}

/// Section 11: who has more than the window lets out asks by DREQ, once.
#[test]
fn an_exhausted_window_is_asked_about_by_dreq() {
    let cfg = Config { recv_window: 16_384, initial_recv_window: 16_384, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let mut asked = 0;
    for _ in 0..40 {
        if let Some(reservation) = a.reserve(1000) {
            a.commit(reservation, Cut::Stream);
        }
        let left = deliver(&mut a, &mut b, NOW);
        asked += left.iter().filter(|h| h.options.has(Options::DREQ)).count();
        deliver(&mut b, &mut a, NOW);
    }
    // What is left of the window is too little to cut a packet for.
    assert_eq!((asked, b.rcv_nxt_offset()), (1, 16_000));
    // What is delivered is told.
    b.consumed(16_000);
    assert!(b.poll_transmit(NOW).is_some());
}

/// A context that has said `bytes` and all that it will, and who has heard that and will say nothing.
fn both_end_at_once() -> (Connection, Header) {
    let cfg = Config::default();
    let mut a = Connection::connect(&cfg, Key::new(77).unwrap(), 7, BEGAN);
    let reservation = a.reserve(1).expect("room");
    a.commit(reservation, Cut::Stream);
    a.finish();
    let opens = a.poll_transmit(BEGAN).expect("FIRST").header;
    assert!(opens.options.has(Options::WCLOSE), "{opens:?}");
    let mut b = called(&cfg, &opens);
    b.finish();
    (a, b.poll_transmit(BEGAN).expect("TCNTL").header)
}

/// Section 13: END could be lost, and a responder that has not seen its key has no bytes to ask by.
#[test]
fn who_was_answered_by_tcntl_alone_asks_before_it_ends() {
    let (mut a, answer) = both_end_at_once();
    let closed = Options::RCLOSE | Options::WCLOSE;
    assert!(matches!(answer.body, Body::Tcntl(_)) && answer.options.has(closed), "{answer:?}");
    take(&mut a, BEGAN, &answer);
    let said = a.poll_transmit(BEGAN).expect("it shows the key").header;
    assert!(said.options.has(closed | Options::SREQ), "{said:?}");
    assert!(!said.options.has(Options::END), "{said:?}");
}

/// Section 13: data that overtake TCNTL are taken, and what they say of the end is not.
#[test]
fn the_end_counts_once_the_key_is_known() {
    let (mut a, _) = both_end_at_once();
    let options = Options::WCLOSE | Options::RCLOSE;
    let data = Header { options, ..packet(&a, 5, 0, 10, Body::Data { btag: None }) };
    take(&mut a, BEGAN, &data);
    assert_eq!(a.rcv_nxt_offset(), 10);
    let events: Vec<_> = std::iter::from_fn(|| a.poll_event()).collect();
    let ends = |event: &Event| matches!(event, Event::PeerFinished { .. } | Event::Acked { .. });
    assert!(!events.iter().any(ends), "{events:?}");
}

/// Section 13: nobody knows the context any more, after all was said and had come.
#[test]
fn diag_3_after_everything_is_an_end_in_order() {
    for finishes in [true, false] {
        let (mut a, mut b) = open(&Config::default(), BEGAN);
        exchange(&mut a, &mut b);
        b.finish();
        deliver(&mut b, &mut a, NOW);
        deliver(&mut a, &mut b, NOW);
        if finishes {
            a.finish();
            while a.poll_transmit(NOW).is_some() {}
        }
        let diag = Diag { code: Code::InvalidContext, reason: Reason::Unspecified };
        let unknown = packet(&b, 0, 0, 0, Body::Diag(diag));
        take(&mut a, NOW, &Header { returned: false, ..unknown });
        assert_eq!(a.state(), State::Quiescent);
        let events: Vec<_> = std::iter::from_fn(|| a.poll_event()).collect();
        let was_reset = events.contains(&Event::Reset(ResetCause::Peer));
        assert_eq!(was_reset, !finishes, "{events:?}");
    }
}
