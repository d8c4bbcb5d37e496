//! What an answer says has come, and later ones do not know of: a stream never stands still for that (`docs/xtp.md`, section 9,
//! rule 5).

use fusewire_base::Instant;
use fusewire_transport::machine::{Cut, DropCause, Event};
use fusewire_transport::xtp::{Config, Connection, Header, Rate, SPANS, State};
use fusewire_wire::xtp::{Body, Control, Options, Span, SpanList};

use crate::hot_path::{open, take};
use crate::rules::{BEGAN, NOW, deliver, exchange, packet};

/// Both ends, a byte further; of three ADUs that the first sends then, only the second arrives.
fn with_a_gap() -> (Connection, Connection) {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    exchange(&mut a, &mut b);
    for n in 0..3 {
        let reservation = a.reserve(1000).expect("room");
        a.commit(reservation, Cut::Record);
        let left: Vec<_> = core::iter::from_fn(|| a.poll_transmit(NOW)).collect();
        assert_eq!(left.len(), 1);
        if n == 1 {
            take(&mut b, NOW, &left[0].header);
        }
    }
    while b.poll_transmit(NOW).is_some() {}
    (a, b)
}

/// What `a` is told.
fn told(a: &Connection, body: Body<SpanList<SPANS>>, sync: u32) -> Header {
    Header { options: Options::NONE, ..packet(a, sync, 0, 0, body) }
}

/// `a` asks, and its answer is lost: when, and the latest syncs, `a`'s, which an answer echoes, and `b`'s.
fn syncs(a: &mut Connection, b: &mut Connection, now: Instant) -> (Instant, u32, u32) {
    let asked = a.poll_timeout().expect("it will ask").max(now);
    a.handle_timeout(asked);
    let question = a.poll_transmit(asked).expect("a question").header;
    assert!(question.options.has(Options::SREQ));
    take(b, asked, &question);
    let answer = b.poll_transmit(asked).expect("an answer").header;
    (asked, question.sync, answer.sync)
}

/// So many questions of `a`'s that are answered: when.
fn ask(a: &mut Connection, b: &mut Connection, mut now: Instant, questions: usize) -> Instant {
    for _ in 0..questions {
        now = a.poll_timeout().unwrap_or(now).max(now);
        a.handle_timeout(now);
        deliver(a, b, now);
        deliver(b, a, now);
        a.assert_invariants();
        b.assert_invariants();
    }
    now
}

fn control(rseq: u64, echo: u32) -> Control {
    Control { rseq, alloc: rseq + 100_000, echo }
}

/// That the first byte lacks, and this has come.
fn span(left: u64, right: u64, echo: u32) -> Body<SpanList<SPANS>> {
    let mut spans = SpanList::new(0);
    assert!(spans.push(Span { left, right }));
    Body::Ecntl(control(0, echo), spans)
}

/// Someone acknowledges what has not come: it cannot be sent again, and both ends are told so.
#[test]
fn what_was_acknowledged_and_is_waited_for_ends_the_context() {
    let (mut a, mut b) = with_a_gap();
    let (now, echo, sync) = syncs(&mut a, &mut b, NOW);
    let forged = told(&a, Body::Cntl(control(1500, echo)), sync);
    take(&mut a, now, &forged);
    assert_eq!(a.snd_una_offset(), 1500);
    let now = ask(&mut a, &mut b, now, 30);
    for end in [&mut a, &mut b] {
        assert_eq!(end.state(), State::Quiescent, "after {now:?}: {:?}", end.info());
        let events: Vec<_> = core::iter::from_fn(|| end.poll_event()).collect();
        assert!(events.iter().any(|e| matches!(e, Event::Reset(_))), "{events:?}");
    }
    assert_eq!(a.counters().dropped(DropCause::Protocol), 1);
}

/// A question of `a`'s that leaves at once: its sync.
fn asked(a: &mut Connection, rate: u32) -> Header {
    a.set_in_rate(Rate { rate, burst: 4000 });
    let question = a.poll_transmit(NOW).expect("a question").header;
    assert!(question.options.has(Options::SREQ));
    question
}

fn send(a: &mut Connection) -> Header {
    let reservation = a.reserve(1000).expect("room");
    a.commit(reservation, Cut::Record);
    a.poll_transmit(NOW).expect("data").header
}

/// All of it was acknowledged, and has not come: what waits for an answer that it has got asks again, and not when CTIMER ends.
#[test]
fn what_was_all_acknowledged_and_is_waited_for_ends_soon() {
    let (mut a, mut b) = with_a_gap();
    let question = asked(&mut a, 1_000_000);
    take(&mut b, NOW, &question);
    let answer = b.poll_transmit(NOW).expect("an answer").header;
    let forged = told(&a, Body::Cntl(control(3001, question.sync)), answer.sync);
    take(&mut a, NOW, &forged);
    assert_eq!(a.snd_una_offset(), 3001);
    take(&mut a, NOW, &answer);
    for _ in 0..4 {
        deliver(&mut a, &mut b, NOW);
        deliver(&mut b, &mut a, NOW);
    }
    assert_eq!((a.state(), b.state()), (State::Quiescent, State::Quiescent), "{:?}", a.info());
}

/// One control of somebody else's is ahead of answers that were on the way: these rise, and then agree.
#[test]
fn answers_that_were_on_the_way_dispute_nothing() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (_, sync) = exchange(&mut a, &mut b);
    let mut answers = Vec::new();
    let mut question = 0;
    for n in 0..6 {
        let data = send(&mut a);
        take(&mut b, NOW, &data);
        let asks = asked(&mut a, 1_000_000 + n);
        take(&mut b, NOW, &asks);
        while let Some(answer) = b.poll_transmit(NOW) {
            answers.push(answer.header);
        }
        if n == 0 {
            question = asks.sync;
        }
    }
    assert!(answers.len() >= 6);
    let forged = told(&a, Body::Cntl(control(6001, question)), sync);
    take(&mut a, NOW, &forged);
    assert_eq!(a.snd_una_offset(), 6001);
    for answer in &answers {
        take(&mut a, NOW, answer);
        assert_eq!(a.state(), State::Open);
    }
    send(&mut a);
    ask(&mut a, &mut b, NOW, 5);
    assert_eq!((a.state(), a.snd_una_offset()), (State::Open, 7001));
}

/// What is taken back has been lost, and nothing besides: the controller hears of it.
#[test]
fn what_is_taken_back_is_a_loss() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (_, sync) = exchange(&mut a, &mut b);
    let first = asked(&mut a, 1_000_000).sync;
    let second = asked(&mut a, 2_000_000).sync;
    for _ in 0..6 {
        send(&mut a);
    }
    while a.poll_transmit(NOW).is_some() {}
    let window = a.info().cwnd;
    let forged = told(&a, span(1, 2001, first), sync);
    take(&mut a, NOW, &forged);
    assert_eq!(a.counters().recoveries, 0);
    let answer = told(&a, Body::Cntl(control(1, second)), sync);
    take(&mut a, NOW, &answer);
    assert_eq!(a.counters().recoveries, 1, "{:?}", a.info());
    let again: Vec<_> = core::iter::from_fn(|| a.poll_transmit(NOW)).map(|t| t.header).collect();
    let data: Vec<_> = again.iter().filter(|h| h.data_len > 0).map(|h| h.seq).collect();
    assert!(!data.is_empty() && data.iter().all(|seq| *seq < 2001), "{data:?}");
    assert!(a.info().cwnd < window, "{:?}", a.info());
    a.assert_invariants();
}

/// What knows of less may itself be another's word: as long as others agree between, nothing happens; and what echoes nothing later
/// is only late.
#[test]
fn one_answer_that_knows_of_less_ends_nothing() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    exchange(&mut a, &mut b);
    let mut now = NOW;
    for una in 1..50 {
        let reservation = a.reserve(1).expect("room");
        a.commit(reservation, Cut::Stream);
        deliver(&mut a, &mut b, now);
        while b.poll_transmit(now).is_some() {}
        for _ in 0..2 {
            let (asked, echo, sync) = syncs(&mut a, &mut b, now);
            now = asked;
            for echo in [echo.wrapping_sub(9), echo, echo] {
                let forged = told(&a, Body::Cntl(control(una - 1, echo)), sync);
                take(&mut a, now, &forged);
            }
        }
        assert_eq!(a.snd_una_offset(), una);
        now = ask(&mut a, &mut b, now, 1);
        assert_eq!((a.state(), b.state()), (State::Open, State::Open));
        assert_eq!(a.snd_una_offset(), una + 1);
    }
}

/// Someone has a span of what has not come: it goes again when an answer to a later question lacks it.
#[test]
fn what_a_span_told_of_and_later_answers_lack_goes_again() {
    for [left, right] in [[1, 1001], [1, 2001], [2001, 3001], [1, 3001]] {
        let (mut a, mut b) = with_a_gap();
        let (now, echo, sync) = syncs(&mut a, &mut b, NOW);
        let forged = told(&a, span(left, right, echo), sync);
        take(&mut a, now, &forged);
        assert_eq!((a.counters().drops.total(), a.counters().spans_received), (0, 1));
        ask(&mut a, &mut b, now, 30);
        assert_eq!((a.state(), a.snd_una_offset(), b.rcv_nxt_offset()), (State::Open, 3001, 3001));
    }
}
