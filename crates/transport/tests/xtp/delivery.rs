//! What a receiver says when the application has consumed: to who asked for it, and to who cannot send any more.

use fusewire_base::Instant;
use fusewire_transport::machine::{Cut, Event, ResetCause};
use fusewire_transport::xtp::{Config, Connection, Header, State, Transmit};
use fusewire_wire::xtp::{Body, Code, Control, Options};

use crate::hot_path::{open, take};

/// When contexts open, and when all that follows happens: what they ask then is no repetition.
const BEGAN: Instant = Instant::from_ms(1);
const NOW: Instant = Instant::from_ms(5);

/// Sends so many bytes to the other, all of them: the last header, and that of the answer.
fn send(a: &mut Connection, b: &mut Connection, bytes: u32) -> (Header, Header) {
    let reservation = a.reserve(bytes).expect("room");
    a.commit(reservation, Cut::Stream);
    let last = deliver(a, b).expect("data leave");
    (last, deliver(b, a).expect("an answer leaves"))
}

/// The last header of all that leaves.
fn deliver(a: &mut Connection, b: &mut Connection) -> Option<Header> {
    let mut last = None;
    while let Some(t) = a.poll_transmit(NOW) {
        take(b, NOW, &t.header);
        last = Some(t.header);
    }
    last
}

fn alloc(t: &Transmit) -> u64 {
    t.header.body.control().expect("a control").alloc
}

#[test]
fn delivery_is_told_to_who_asked_for_it() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    let (last, answer) = send(&mut a, &mut b, 1000);
    // A control that asks for nothing but delivery.
    let control = Control { rseq: 0, alloc: 20_000, echo: answer.sync };
    let asks = Header {
        options: Options::DREQ,
        seq: 1000,
        data_len: 0,
        body: Body::Cntl(control),
        ..last
    };
    take(&mut b, NOW, &asks);
    assert!(b.poll_transmit(NOW).is_none(), "nothing was delivered");
    b.consumed(999);
    assert!(b.poll_transmit(NOW).is_none(), "not all was delivered");
    b.consumed(1000);
    assert!(b.poll_transmit(NOW).is_some());
    assert!(b.poll_transmit(NOW).is_none(), "once");
    take(&mut b, NOW, &asks);
    assert!(b.poll_transmit(NOW).is_some(), "all is delivered already");
}

#[test]
fn an_exhausted_window_that_opens_is_told_unasked() {
    let cfg = Config { recv_window: 16_384, initial_recv_window: 16_384, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    while b.rcv_nxt_offset() < 16_384 {
        let left = 16_384 - b.rcv_nxt_offset() as u32;
        send(&mut a, &mut b, left.min(4096));
    }
    assert!(b.poll_transmit(NOW).is_none());
    b.consumed(100);
    assert!(b.poll_transmit(NOW).is_none(), "too little to tell of");
    b.consumed(10_000);
    let told = b.poll_transmit(NOW).expect("it has opened");
    assert_eq!(alloc(&told), 26_384);
}

#[test]
fn a_stream_that_ends_twice_ends_the_context() {
    for second in [500, 1200] {
        let (mut a, mut b) = open(&Config::default(), BEGAN);
        let (last, answer) = send(&mut a, &mut b, 1000);
        let ends = |seq| Header {
            options: Options::WCLOSE,
            seq,
            data_len: 0,
            body: Body::Cntl(Control { rseq: 0, alloc: 20_000, echo: answer.sync }),
            ..last
        };
        if second > 1000 {
            take(&mut b, NOW, &ends(1000));
            assert!(deliver(&mut b, &mut a).is_some(), "RCLOSE");
        }
        take(&mut b, NOW, &ends(second));
        let said = b.poll_transmit(NOW).expect("it is told").header;
        let Body::Diag(diag) = said.body else { panic!("{said:?}") };
        assert_eq!(diag.code, Code::ProtocolError);
        take(&mut a, NOW, &said);
        let events: Vec<_> = std::iter::from_fn(|| a.poll_event()).collect();
        assert!(events.contains(&Event::Reset(ResetCause::Peer)), "{events:?}");
        assert_eq!((a.state(), b.state()), (State::Quiescent, State::Quiescent));
    }
}

/// Bytes between two questions of who queues and sends 1,000 at a time, all within `step` of the one before; answers
/// come at once if `answered`.
fn asks_after(step: core::time::Duration, answered: bool) -> Vec<u64> {
    let cfg = Config { pacing: false, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (mut now, mut since, mut found) = (NOW, 0, Vec::new());
    for _ in 0..60 {
        let reservation = a.reserve(1000).expect("room");
        a.commit(reservation, Cut::Record);
        while let Some(t) = a.poll_transmit(now) {
            since += t.payload.map_or(0, |range| range.end - range.start);
            take(&mut b, now, &t.header);
            if t.header.options.has(Options::SREQ) {
                found.push(core::mem::take(&mut since));
            }
        }
        b.consumed(b.rcv_nxt_offset());
        if answered {
            while let Some(t) = b.poll_transmit(now) {
                take(&mut a, now, &t.header);
            }
        }
        now += step;
    }
    found
}

#[test]
fn who_sends_on_and_on_asks_for_a_part_of_the_window() {
    use core::time::Duration;
    // A request now and then is answered at once.
    assert_eq!(asks_after(Duration::from_millis(2), true), [1000; 60]);
    // The first asks; then each eighth of the window does, which has 14,600 bytes and grows.
    let lately = asks_after(Duration::from_micros(10), true);
    assert!(
        lately.len() <= 30 && lately[0] == 1000 && lately[1..].iter().all(|n| *n >= 2000),
        "{lately:?}"
    );
    // And so while nothing is answered, however long that takes.
    let unanswered = asks_after(Duration::from_millis(2), false);
    assert!(unanswered[1..].iter().all(|n| *n >= 2000), "{unanswered:?}");
}

/// Section 8, EDGE.
#[test]
fn an_edge_asks_where_the_question_was_lost() {
    for edge in [true, false] {
        let cfg = Config { edge, fastnak: false, pacing: false, ..Config::default() };
        let (mut a, mut b) = open(&cfg, BEGAN);
        let mut leaves = || {
            let reservation = a.reserve(500).expect("room");
            a.commit(reservation, Cut::Record);
            let left: Vec<_> = std::iter::from_fn(|| a.poll_transmit(NOW)).collect();
            assert_eq!(left.len(), 1);
            left[0].header
        };
        let [lost, next, last] = [leaves(), leaves(), leaves()];
        let asks = |header: &Header| header.options.has(Options::SREQ);
        assert!(asks(&lost) && !asks(&next) && !asks(&last));
        take(&mut b, NOW, &next);
        let answer = b.poll_transmit(NOW).map(|t| t.header.body);
        assert_eq!(matches!(answer, Some(Body::Ecntl(..))), edge, "{answer:?}");
        take(&mut b, NOW, &last);
        assert!(b.poll_transmit(NOW).is_none(), "the bit is the same");
    }
}
