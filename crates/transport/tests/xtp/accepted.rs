//! What of a packet counts that has the key (`docs/xtp.md`, section 9), packet by packet, and what is answered that does not.

use core::time::Duration;

use fusewire_transport::machine::{Cut, DropCause, Event, Initial, ResetCause, Verdict};
use fusewire_transport::xtp::{Config, Connection, Header, Retransmission, SPANS, State};
use fusewire_wire::xtp::{
    Body, Code, Control, Diag, Key, Options, Reason, Service, Span, SpanList, Traffic,
    TrafficControl,
};

use crate::hot_path::{open, take};
use crate::rules::{BEGAN, NOW, deliver, exchange, first, packet};

const DATA: Body<SpanList<SPANS>> = Body::Data { btag: None };

/// A control that says nothing new.
fn cntl(echo: u32) -> Body<SpanList<SPANS>> {
    Body::Cntl(Control { rseq: 0, alloc: 20_000, echo })
}

/// A packet comes to `c`.
fn comes(
    c: &mut Connection,
    options: Options,
    sync: u32,
    seq: u64,
    data_len: u32,
    body: Body<SpanList<SPANS>>,
) {
    let h = Header { options, ..packet(c, sync, seq, data_len, body) };
    take(c, NOW, &h);
}

fn diag(to: &Connection, code: Code) -> Header {
    packet(to, 0, 0, 0, Body::Diag(Diag { code, reason: Reason::Unspecified }))
}

fn says(c: &mut Connection) -> Vec<Header> {
    core::iter::from_fn(|| c.poll_transmit(NOW)).map(|t| t.header).collect()
}

fn events(c: &mut Connection) -> Vec<Event> {
    core::iter::from_fn(|| c.poll_event()).collect()
}

fn queue(c: &mut Connection, len: u32) {
    let reservation = c.reserve(len).expect("room");
    c.commit(reservation, Cut::Record);
}

/// So many packets drop `h` for `cause`, and nothing is answered.
fn assert_dropped(c: &mut Connection, h: &Header, cause: DropCause) {
    let before = (c.counters().dropped(cause), c.rcv_nxt_offset(), c.snd_una_offset());
    take(c, NOW, h);
    let after = (c.counters().dropped(cause), c.rcv_nxt_offset(), c.snd_una_offset());
    assert_eq!(after, (before.0 + 1, before.1, before.2), "{h:?}");
    assert_eq!(c.poll_transmit(NOW).map(|t| t.header), None, "{h:?}");
}

/// Rule 4: a duplicate is owed an answer, whether it asks or not; what lies beyond alloc where it asks, ten times a second.
#[test]
fn what_is_not_taken_is_answered_as_far_as_it_may_be_the_peers() {
    let cfg = Config { recv_window: 16_384, initial_recv_window: 16_384, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    comes(&mut b, Options::NONE, sync, 1, 100, DATA);
    assert_eq!(says(&mut b), []);
    comes(&mut b, Options::NONE, sync, 0, 1, DATA);
    assert_eq!(says(&mut b).len(), 1, "it came before");

    let beyond = packet(&b, sync, 1 << 20, 100, DATA);
    assert_dropped(&mut b, &beyond, DropCause::OutOfWindow);
    let asks = Header { options: Options::SREQ, ..beyond };
    let mut answers = 0;
    for _ in 0..100 {
        take(&mut b, NOW, &asks);
        answers += says(&mut b).len();
    }
    assert_eq!(answers, 10);
    take(&mut b, NOW + Duration::from_secs(1), &asks);
    assert!(b.poll_transmit(NOW + Duration::from_secs(1)).is_some());
}

/// Two packets of one batch, which were looked at before either was taken.
#[test]
fn a_packet_that_is_looked_at_twice_counts_once() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let data = packet(&b, sync, 1, 100, DATA);
    let plans = [0; 2].map(|_| b.handle_initial(NOW, &data, 100));
    for plan in &plans {
        b.handle_final(NOW, &data, plan, Verdict::Accept { len: 100 }, false);
        b.assert_invariants();
    }
    assert_eq!((b.rcv_nxt_offset(), b.counters().bytes_received), (101, 101));
}

/// Who calls itself by a key is not called by it: RTN is clear on FIRST, before there is another name, and on DIAG 3.
#[test]
fn the_peers_own_key_names_nothing_but_first_and_diag() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, echo) = exchange(&mut a, &mut b);
    let peers = |body, data_len| Header {
        key: Key::new(77).expect("not zero"),
        returned: false,
        ..packet(&b, sync, 1, data_len, body)
    };
    for h in [peers(DATA, 100), peers(cntl(echo), 0)] {
        let before = b.counters().dropped(DropCause::Closed);
        assert_eq!(b.handle_initial(NOW, &h, h.data_len), Initial::Drop(DropCause::Closed));
        assert_eq!(b.counters().dropped(DropCause::Closed), before + 1);
    }
    // Who has sent FIRST is sent none; and an unknown key is said to its owner alone.
    let (_, peer) = a.both_keys().expect("it is open");
    let called = Header { key: peer, returned: false, ..packet(&a, echo, 0, 50, first()) };
    assert_eq!(a.handle_initial(NOW, &called, 50), Initial::Drop(DropCause::Closed));
    let other = Key::new(peer.bits() ^ 1).expect("not zero");
    let unknown = Header { key: other, returned: false, ..diag(&a, Code::InvalidContext) };
    assert_eq!(a.handle_initial(NOW, &unknown, 0), Initial::Drop(DropCause::Closed));
    assert_eq!(a.state(), State::Open);
}

/// What no check covers is taken where it proves itself, and only that.
#[test]
fn data_without_a_check_prove_themselves_or_are_dropped() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let unchecked = |seq, btag| Header {
        options: Options::NOCHECK,
        ..packet(&b, sync, seq, 100, Body::Data { btag })
    };
    let [begins, before, tagged, again] =
        [unchecked(1000, None), unchecked(999, None), unchecked(1000, Some(5)), unchecked(1, None)];
    assert_eq!(b.handle_initial(NOW, &begins, 100), Initial::Drop(DropCause::Protocol));
    b.proves_from(0, 1000);
    assert!(matches!(b.handle_initial(NOW, &begins, 100), Initial::Payload(_)));
    for h in [before, tagged, again] {
        let initial = b.handle_initial(NOW, &h, 100);
        assert_eq!(initial, Initial::Drop(DropCause::Protocol), "{h:?}");
    }
    let opens = Header { options: Options::NOCHECK, ..packet(&b, sync, 0, 100, first()) };
    assert_eq!(b.handle_initial(NOW, &opens, 100), Initial::Drop(DropCause::Protocol));
    // The other way: a tag, and what is sent again, lie under the check.
    let cfg = Config { btag: true, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    exchange(&mut a, &mut b);
    let from = a.send_end_offset();
    a.proves_from(from, 0);
    for (tag, covers) in [(None, false), (Some(7), true)] {
        tag.into_iter().for_each(|tag| a.set_tag(tag));
        queue(&mut a, 100);
        assert_eq!(says(&mut a).pop().expect("data").checks_all(), covers, "{tag:?}");
    }
}

/// Data of FIRST belong nowhere in an open context.
#[test]
fn data_of_first_go_nowhere_once_the_context_is_open() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let again = packet(&b, sync, 1, 500, first());
    let Initial::Payload(plan) = b.handle_initial(NOW, &again, 500) else { panic!() };
    assert_eq!((plan.len, plan.duplicate), (0, true));
}

/// The stream has an end: nothing is placed beyond it, also where all before it has come.
#[test]
fn nothing_is_placed_behind_the_end() {
    for from in [0, 1] {
        let (mut a, mut b) = open(&Config::default(), BEGAN);
        let (sync, echo) = exchange(&mut a, &mut b);
        let end = Header { options: Options::WCLOSE, ..packet(&b, sync, 101, 0, cntl(echo)) };
        take(&mut b, NOW, &end);
        let data = packet(&b, sync, 1 + from, 200, DATA);
        let Initial::Payload(plan) = b.handle_initial(NOW, &data, 200) else { panic!() };
        assert!(plan.offset + u64::from(plan.len) <= 101, "{plan:?}");
        // And who sends some breaks the rules.
        take(&mut b, NOW, &data);
        assert_eq!((b.counters().dropped(DropCause::AfterEnd), b.state()), (1, State::Quiescent));
    }
}

/// DREQ asks when all that had come was delivered, also what lies behind a gap.
#[test]
fn delivery_of_what_lies_behind_a_gap_is_waited_for() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    comes(&mut b, Options::DREQ, sync, 101, 100, DATA);
    b.consumed(1);
    assert_eq!(says(&mut b), []);
    comes(&mut b, Options::NONE, sync, 1, 100, DATA);
    for (upto, answers) in [(101, 0), (201, 1)] {
        b.consumed(upto);
        assert_eq!(says(&mut b).len(), answers, "{upto}");
    }
}

/// Section 12: who sends more than it was told is told again, ten times a second. FIRST is from before it was told.
#[test]
fn what_is_too_large_is_told_with_a_limit() {
    let cfg = Config { tpdu_len: 600, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let large = packet(&b, sync, 1, 1000, DATA);
    let mut told = 0;
    for _ in 0..100 {
        take(&mut b, NOW, &large);
        told += says(&mut b).len();
    }
    assert_eq!((told, b.rcv_nxt_offset()), (10, 1));

    let mut c = Connection::connect(&Config::default(), Key::new(78).expect("not zero"), 7, BEGAN);
    let opens = c.poll_transmit(BEGAN).expect("FIRST").header;
    let mut b = crate::rules::called(&cfg, &opens);
    take(&mut b, BEGAN, &Header { data_len: 1000, ..opens });
    assert_eq!((b.rcv_nxt_offset(), b.counters().dropped(DropCause::Protocol)), (1000, 0));
}

/// The bit of what lies furthest ahead asks when it changes; that of what comes late says nothing.
#[test]
fn an_edge_is_answered_when_it_changes() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    for (seq, option, answers) in [
        (101, Options::NONE, 0),
        (301, Options::EDGE, 1),
        (401, Options::EDGE, 0),
        (201, Options::NONE, 0),
        (501, Options::NONE, 1),
    ] {
        comes(&mut b, option, sync, seq, 100, DATA);
        assert_eq!(says(&mut b).len(), answers, "{seq}");
    }
}

/// Rule 6: END below what has come is no last word. Who is asked for it answers with one that is.
#[test]
fn an_end_from_before_is_asked_about_with_a_limit() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, echo) = exchange(&mut a, &mut b);
    let blind = Header { options: Options::END, ..packet(&b, sync, 0, 0, cntl(echo)) };
    let mut asked = 0;
    for _ in 0..100 {
        take(&mut b, NOW, &blind);
        let said = says(&mut b);
        assert!(said.iter().all(|h| h.options.has(Options::SREQ)), "{said:?}");
        asked += said.len();
    }
    assert_eq!((asked, b.state()), (10, State::Open));
    let end = Header { seq: 1, ..blind };
    take(&mut b, NOW, &end);
    assert_eq!(b.state(), State::Quiescent);
}

/// A sender without NOERR that heeds no alloc passes over nothing; with it, not beyond our memory.
#[test]
fn nothing_beyond_alloc_is_passed_over() {
    let cfg = Config {
        recv_window: 16_384,
        initial_recv_window: 16_384,
        passes_gaps: true,
        ..Config::default()
    };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (sync, echo) = exchange(&mut a, &mut b);
    let options = Options::NOFLOW | Options::NOERR;
    for seq in [1, 100_000] {
        comes(&mut b, options, sync, seq, 0, cntl(echo));
        b.assert_invariants();
        assert_eq!(b.rcv_nxt_offset(), 1);
    }
    // Rule 5: with NOFLOW seq lies less than 2^31 ahead.
    let far = Header { options, ..packet(&b, sync, 2 + (1 << 31), 0, cntl(echo)) };
    assert_dropped(&mut b, &far, DropCause::OutOfWindow);
    let heard = b.heard_at();
    take(&mut b, NOW + Duration::from_millis(1), &Header { seq: 1 << 31, ..far });
    assert!(b.heard_at() > heard, "it counts");
}

/// Section 7, rule 3: nothing counts of controls before TCNTL; a cookie is asked for once.
#[test]
fn only_tcntl_tells_a_key() {
    let mut a = Connection::connect(&Config::default(), Key::new(77).expect("not zero"), 7, BEGAN);
    queue(&mut a, 100);
    let opens = a.poll_transmit(NOW).expect("FIRST").header;
    let early =
        packet(&a, 5, 0, 0, Body::Cntl(Control { rseq: 100, alloc: 9000, echo: opens.sync }));
    assert_dropped(&mut a, &early, DropCause::Protocol);
    let told = |rseq, alloc, xkey| {
        let control = Control { rseq, alloc, echo: opens.sync };
        let traffic = Traffic { service: Service::Stream, limits: None };
        let xkey = Key::new(xkey).expect("not zero");
        let tcntl = TrafficControl { control, delay_us: 0, xkey, traffic };
        packet(&a, 5, 0, 0, Body::Tcntl(tcntl))
    };
    let [asks, other] = [told(0, 0, 9), told(0, 0, 10)];
    take(&mut a, NOW, &asks);
    let shown = says(&mut a);
    assert_eq!((shown.len(), shown[0].key.bits(), a.state()), (1, 9, State::Cookie));
    for again in [asks, other] {
        take(&mut a, NOW, &again);
        assert_eq!((says(&mut a), a.state()), (vec![], State::Cookie), "{again:?}");
    }
}

/// A listener that agrees on no trailer gets none.
#[test]
fn trailers_are_agreed_on_by_both() {
    for agrees in [true, false] {
        let theirs = Config { cxor: agrees, ..Config::default() };
        let ours = Config { cxor: true, ..Config::default() };
        let mut a = Connection::connect(&ours, Key::new(77).expect("not zero"), 7, BEGAN);
        let opens = a.poll_transmit(BEGAN).expect("FIRST").header;
        let mut b = crate::rules::called(&theirs, &opens);
        take(&mut b, BEGAN, &opens);
        deliver(&mut b, &mut a, BEGAN);
        queue(&mut a, 100);
        let data = says(&mut a).into_iter().find(|h| h.data_len > 0).expect("data");
        assert_eq!(data.options.has(Options::RES), agrees, "{data:?}");
        assert_eq!((data.checks_all(), a.trailer_room() > 0), (!agrees, agrees));
    }
}

/// TCNTL has shown the peer's key: it waits for ours, also where there is nothing to say.
#[test]
fn who_has_nothing_to_say_shows_the_key_at_once() {
    let mut a = Connection::connect(&Config::default(), Key::new(77).expect("not zero"), 7, BEGAN);
    let opens = a.poll_transmit(BEGAN).expect("FIRST").header;
    let mut b = crate::rules::called(&Config::default(), &opens);
    take(&mut b, BEGAN, &opens);
    deliver(&mut b, &mut a, BEGAN);
    let shown = deliver(&mut a, &mut b, BEGAN);
    assert!(shown.len() == 1 && shown[0].options.has(Options::SREQ), "{shown:?}");
    assert_eq!(b.state(), State::Open);
    // Nothing of the half-open time is left.
    assert!(b.poll_timeout().is_none_or(|at| at >= BEGAN + Duration::from_secs(60)));
}

/// Section 13: which END is one in order.
#[test]
fn an_end_is_in_order_where_all_was_said_and_came() {
    let all = Options::END | Options::RCLOSE | Options::WCLOSE;
    for (options, rseq, in_order) in [
        (all, 1, true),
        (all.without(Options::RCLOSE), 1, false),
        (all, 0, false),
        (all.without(Options::WCLOSE), 1, false),
    ] {
        let (mut a, mut b) = open(&Config::default(), BEGAN);
        let (_, sync) = exchange(&mut a, &mut b);
        a.finish();
        let asked = says(&mut a).pop().expect("WCLOSE");
        let control = Body::Cntl(Control { rseq, alloc: 20_000, echo: asked.sync });
        comes(&mut a, options, sync, 0, 0, control);
        assert_eq!(a.state(), State::Quiescent, "{options:?} {rseq}");
        let was_reset = events(&mut a).contains(&Event::Reset(ResetCause::Peer));
        assert_eq!(was_reset, !in_order, "{options:?} {rseq}");
    }
}

/// Section 13: RCLOSE before the end says that the rest is for nobody, and is told where the stream ends by that.
#[test]
fn who_reads_no_more_is_told_where_the_stream_ends() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (_, sync) = exchange(&mut a, &mut b);
    queue(&mut a, 200_000);
    let sent = says(&mut a);
    let nxt = sent.last().map(|h| h.seq + u64::from(h.data_len)).expect("some of it leaves");
    assert!(nxt < 200_000);
    let control = Body::Cntl(Control { rseq: 1, alloc: 300_000, echo: sent[0].sync });
    let closes = Header { options: Options::RCLOSE, ..packet(&a, sync, 0, 0, control) };
    take(&mut a, NOW, &closes);
    assert!(events(&mut a).contains(&Event::Acked { upto_offset: nxt }));
    let said = says(&mut a);
    assert!(said.len() == 1 && said[0].options.has(Options::WCLOSE | Options::SREQ), "{said:?}");
    assert_eq!((said[0].seq, a.send_end_offset(), a.send_room()), (nxt, nxt, 0));
}

/// Section 12: which DIAG counts when.
#[test]
fn a_diag_counts_in_its_state_alone() {
    let opened = || {
        let (mut a, mut b) = open(&Config::default(), BEGAN);
        exchange(&mut a, &mut b);
        events(&mut a);
        a
    };
    for code in [Code::ContextRefused, Code::InvalidContext, Code::JoinRefused] {
        let mut a = opened();
        let said = diag(&a, code);
        assert_dropped(&mut a, &said, DropCause::BlindReset);
        assert_eq!(a.state(), State::Open);
    }
    for code in [Code::ContextAbandoned, Code::ProtocolError] {
        let mut a = opened();
        let said = diag(&a, code);
        take(&mut a, NOW, &said);
        assert!(events(&mut a).contains(&Event::Reset(ResetCause::Peer)), "{code:?}");
        // Nobody has answered: there is no context that could be given up.
        let mut a = Connection::connect(&Config::default(), a.key(), 7, BEGAN);
        says(&mut a);
        let said = diag(&a, code);
        assert_dropped(&mut a, &said, DropCause::BlindReset);
        assert_eq!(a.state(), State::Opening);
    }
}

/// Rule 2: who is elsewhere is a suspect of having moved if the rest of the packet is right.
#[test]
fn who_may_have_moved_has_the_numbers() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, echo) = exchange(&mut a, &mut b);
    let right = [packet(&b, sync, 1, 100, DATA), packet(&b, sync, 1, 0, cntl(echo))];
    for h in right {
        assert!(b.could_be_the_peers(&h, h.data_len), "{h:?}");
        let other = Key::new(b.key().bits() ^ 1).expect("not zero");
        for wrong in [
            Header { key: other, ..h },
            Header { returned: false, ..h },
            Header { sync: sync.wrapping_add(1 << 20), ..h },
            Header { seq: 1 << 30, ..h },
        ] {
            assert!(!b.could_be_the_peers(&wrong, wrong.data_len), "{wrong:?}");
        }
    }
    let wrong = packet(&b, sync, 1, 0, cntl(echo.wrapping_add(9)));
    assert!(!b.could_be_the_peers(&wrong, 0));
}

/// Section 8: TCNTL goes first where two are due, and cannot name a gap.
#[test]
fn a_gap_is_named_behind_tcntl() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let behind = packet(&b, sync, 1001, 100, DATA);
    take(&mut b, NOW, &Header { options: Options::FASTNAK, ..behind });
    let again = packet(&b, sync, 0, 0, first());
    let again = Header { key: Key::new(77).expect("not zero"), returned: false, ..again };
    take(&mut b, NOW, &again);
    let said = says(&mut b);
    let is_right = matches!(
        said[..],
        [Header { body: Body::Tcntl(_), .. }, Header { body: Body::Ecntl(..), .. }]
    );
    assert!(is_right, "{said:?}");
    // What is behind the same gap tells nothing new.
    take(&mut b, NOW, &Header { seq: 1101, options: Options::FASTNAK, ..behind });
    assert_eq!(says(&mut b), []);
}

/// A window that was exhausted and has opened may be exhausted again: that is asked about, too.
#[test]
fn each_exhausted_window_is_asked_about_once() {
    let cfg = Config { recv_window: 16_384, initial_recv_window: 16_384, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let mut asked = Vec::new();
    for _ in 0..3 {
        let mut count = 0;
        for _ in 0..40 {
            a.reserve(1000).into_iter().for_each(|r| a.commit(r, Cut::Record));
            let left = deliver(&mut a, &mut b, NOW);
            count += left.iter().filter(|h| h.options.has(Options::DREQ)).count();
            deliver(&mut b, &mut a, NOW);
        }
        asked.push(count);
        b.consumed(b.rcv_nxt_offset());
        deliver(&mut b, &mut a, NOW);
        b.assert_invariants();
    }
    assert_eq!(asked, [1; 3]);
}

/// What the application says that it has consumed, and that has not come, opens nothing; nor does anything when the
/// stream has ended.
#[test]
fn consuming_opens_the_window_for_what_has_come() {
    let cfg = Config { recv_window: 16_384, initial_recv_window: 16_384, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    exchange(&mut a, &mut b);
    b.consumed(1 << 20);
    b.assert_invariants();
    queue(&mut a, 15_000);
    a.finish();
    for _ in 0..4 {
        deliver(&mut a, &mut b, NOW);
        deliver(&mut b, &mut a, NOW);
    }
    assert!(events(&mut b).contains(&Event::PeerFinished { offset: 15_001 }));
    b.consumed(15_001);
    assert_eq!(says(&mut b), []);
}

/// One loss costs the window once: what was lost of the same flight, and is found later, does not do so again.
#[test]
fn the_losses_of_one_flight_cost_the_window_once() {
    let (mut a, mut b) = open(&Config { pacing: false, ..Config::default() }, BEGAN);
    exchange(&mut a, &mut b);
    queue(&mut a, 13_000);
    let flight = says(&mut a);
    assert!(flight.len() >= 9, "{}", flight.len());
    let mut now = NOW + Duration::from_millis(20);
    let mut windows = Vec::new();
    // The first is missing, then the fifth.
    for part in [1..4, 5..9] {
        for h in &flight[part] {
            take(&mut b, now, h);
        }
        let asks = packet(&b, flight[0].sync, flight[1].seq, 10, DATA);
        take(&mut b, now, &asks);
        deliver(&mut b, &mut a, now);
        for _ in 0..3 {
            now = a
                .poll_timeout()
                .expect("something is under way")
                .min(now + Duration::from_millis(20));
            a.handle_timeout(now);
            while a.poll_transmit(now).is_some() {}
        }
        windows.push(a.info().cwnd);
    }
    assert_eq!((a.counters().recoveries, a.counters().retransmissions >= 2), (1, true));
    assert_eq!(windows[0], windows[1]);
}

/// What has come is not placed again: of data in order that reach what lies behind the gap only those before it are new.
#[test]
fn what_has_come_is_not_placed_again() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    comes(&mut b, Options::NONE, sync, 101, 100, DATA);
    let data = packet(&b, sync, 1, 150, DATA);
    let Initial::Payload(plan) = b.handle_initial(NOW, &data, 150) else { panic!() };
    assert_eq!((plan.offset, plan.len, plan.trim_back), (1, 100, 50));
    take(&mut b, NOW, &data);
    assert_eq!(b.rcv_nxt_offset(), 201);
}

/// Who has consumed little gives no little window.
#[test]
fn alloc_moves_by_packets() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    queue(&mut a, 1000);
    let asked = deliver(&mut a, &mut b, NOW).pop().expect("data");
    let alloc = |b: &mut Connection| {
        let ask = Header { options: Options::SREQ, ..asked };
        take(b, NOW, &ask);
        says(b).pop().and_then(|h| h.body.control().map(|c| c.alloc)).expect("an answer")
    };
    let first = alloc(&mut b);
    for (consumed, gain) in [(100, 0), (999, 0), (1000, 1000)] {
        b.consumed(consumed);
        assert_eq!(alloc(&mut b), first + gain, "{consumed}");
    }
}

/// Both are closed: END is the other's last word, and else it is answered.
#[test]
fn an_inactive_context_is_gone_with_the_others_end() {
    for ends in [false, true] {
        let (mut a, mut b) = open(&Config::default(), BEGAN);
        exchange(&mut a, &mut b);
        a.finish();
        deliver(&mut a, &mut b, NOW);
        deliver(&mut b, &mut a, NOW);
        b.finish();
        let last = deliver(&mut b, &mut a, NOW).pop();
        assert_eq!(a.state(), State::Inactive);
        assert_eq!(says(&mut a).len(), 1, "RCLOSE, END");
        let last = last.expect("it closed");
        let options = last.options.without(Options::END);
        let options = if ends { options | Options::END } else { options };
        take(&mut a, NOW, &Header { options, ..last });
        let state = if ends { State::Quiescent } else { State::Inactive };
        assert_eq!((a.state(), says(&mut a).len()), (state, usize::from(!ends)));
    }
}

/// EDGE asks by being the other: who has chosen it flips it where it asks.
#[test]
fn who_asks_by_edge_flips_it() {
    for edge in [false, true] {
        let (mut a, mut b) = open(&Config { edge, pacing: false, ..Config::default() }, BEGAN);
        exchange(&mut a, &mut b);
        queue(&mut a, 13_000);
        let said = says(&mut a);
        let flips = said
            .windows(2)
            .filter(|two| two[0].options.has(Options::EDGE) != two[1].options.has(Options::EDGE));
        let asks = said[1..].iter().filter(|h| h.options.has(Options::SREQ)).count();
        assert!(asks > 1 && flips.count() == if edge { asks } else { 0 }, "{said:?}");
    }
}

/// Section 10: go-back-N sends again what spans have named, and selective repeat what they have not. What is sent again is
/// covered by its check, for it may have come in part.
#[test]
fn what_goes_again_is_what_the_mode_says() {
    for (retransmission, again) in
        [(Retransmission::SelectiveRepeat, 1), (Retransmission::GoBackN, 4)]
    {
        let cfg = Config { retransmission, congestion: None, ..Config::default() };
        let (mut a, mut b) = open(&cfg, BEGAN);
        let (_, sync) = exchange(&mut a, &mut b);
        a.proves_from(1, 0);
        for _ in 0..4 {
            queue(&mut a, 1000);
        }
        let sent = says(&mut a);
        assert!(sent.len() == 4 && sent.iter().all(|h| !h.checks_all()), "{sent:?}");
        // The first is missing.
        let now = NOW + Duration::from_millis(50);
        let mut spans = SpanList::new(1);
        spans.push(Span { left: sent[1].seq, right: sent[3].seq + 1000 });
        let control = Control { rseq: 1, alloc: 100_000, echo: sent[3].sync };
        let report = packet(&a, sync, 0, 0, Body::Ecntl(control, spans));
        take(&mut a, now, &report);
        let mut went = Vec::new();
        for later_ms in [0, 1, 10, 40] {
            let now = now + Duration::from_millis(later_ms);
            a.handle_timeout(now);
            let data = core::iter::from_fn(|| a.poll_transmit(now)).map(|t| t.header);
            went.extend(data.filter(|h| h.data_len > 0));
        }
        assert_eq!(went.len(), again, "{retransmission:?}: {went:?}");
        assert!(went.iter().all(Header::checks_all), "{went:?}");
    }
}
