//! What a receiver says when the application has consumed: to who asked for it, and to who cannot send any more.

use fusewire_base::Instant;
use fusewire_transport::machine::{Cut, Event, ResetCause};
use fusewire_transport::xtp::{Config, Connection, Header, State, Transmit};
use fusewire_wire::xtp::{Body, Code, Control, Options};

use crate::hot_path::{open, take};

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
    let (mut a, mut b) = open(&Config::default(), NOW);
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
    let (mut a, mut b) = open(&cfg, NOW);
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
        let (mut a, mut b) = open(&Config::default(), NOW);
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
