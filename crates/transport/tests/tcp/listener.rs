//! Passive opens: backlog, half-open table, cookies, resets.

use crate::pair::{End, ISS_A, Packet, Pair, start};
use core::net::SocketAddr;
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_transport::machine::{DropCause, Event, Initial, Listener as _, Secrets, Verdict};
use fusewire_transport::tcp::{
    Config, Connection, Listener, ListenerAction, Ports, State, Tuple, reset_for,
};
use fusewire_wire::tcp::{Flags, Header, Options};

pub fn listener(cfg: &Config, backlog: usize) -> Listener {
    Listener::new(
        cfg,
        backlog,
        &Secrets { isn: *b"key of numbers..", cookie: *b"key of cookies.." },
    )
}

pub fn tuple(n: u16) -> Tuple {
    let local: SocketAddr = "127.0.0.1:7".parse().expect("address");
    let remote = SocketAddr::new(local.ip(), 40_000 + n);
    Tuple { local, remote, flow: Ports { local: 2000, remote: 1000 } }
}

pub fn accept(l: &mut Listener, now: Instant, tuple: &Tuple, ack: &Packet) -> Connection {
    match l.handle_stray(now, tuple, &ack.header, ack.len()) {
        ListenerAction::Accept(c) => *c,
        other => panic!("{other:?}"),
    }
}

fn syn(cfg: &Config) -> Header {
    let now = Instant::from_ms(1000);
    let mut c = Connection::connect(cfg, 1000, 2000, start(ISS_A), now);
    c.poll_transmit(now).expect("SYN").header
}

fn syn_ack(action: ListenerAction) -> Header {
    match action {
        ListenerAction::Reply(h) if h.flags.has(Flags::SYN) => h,
        other => panic!("{other:?}"),
    }
}

fn is_reset(action: &ListenerAction) -> bool {
    matches!(action, ListenerAction::Reply(h) if h.flags.has(Flags::RST))
}

fn ack_of(syn_ack: &Header, echo: bool) -> Header {
    Header {
        src_port: 1000,
        dst_port: 2000,
        seq: syn_ack.ack,
        ack: syn_ack.seq + 1,
        flags: Flags::ACK,
        window: 500,
        options: Options {
            timestamps: syn_ack
                .options
                .timestamps
                .filter(|_| echo)
                .map(|(value, theirs)| (theirs + 3, value)),
            ..Options::default()
        },
        ..Header::default()
    }
}

#[test]
fn initial_numbers_are_keyed_and_differ() {
    let cfg = Config::default();
    let now = Instant::from_ms(5);
    let mut l = listener(&cfg, 8);
    let one = syn_ack(l.handle_stray(now, &tuple(1), &syn(&cfg), 0));
    let two = syn_ack(l.handle_stray(now, &tuple(2), &syn(&cfg), 0));
    assert_ne!(one.seq, two.seq);
    let other = Secrets { isn: *b"another key.....", cookie: [0; 16] };
    let three = syn_ack(Listener::new(&cfg, 8, &other).handle_stray(now, &tuple(1), &syn(&cfg), 0));
    assert_ne!(one.seq, three.seq);
    assert!(!format!("{other:?}").contains("key"));
}

#[test]
fn timestamps_of_a_flow_rise_and_say_nothing_of_its_numbers() {
    let cfg = Config::default();
    // The milliseconds that a SYN-ACK shows, at this time and in this flow.
    let shown = |key: u8, ms: u64, flow: u16| {
        let secrets = Secrets { isn: [key; 16], cookie: [0; 16] };
        let mut l = Listener::new(&cfg, 8, &secrets);
        let answer = l.handle_stray(Instant::from_ms(ms), &tuple(flow), &syn(&cfg), 0);
        let header = syn_ack(answer);
        (header.seq, header.options.timestamps.expect("timestamps").0)
    };
    let mut offsets = std::collections::HashSet::new();
    for flow in 1..100 {
        let ((first, a), (later, b)) = (shown(1, 5, flow), shown(1, 1005, flow));
        // Another incarnation, other numbers, one clock (RFC 6191).
        assert_ne!(first, later);
        assert_eq!(b.wrapping_sub(a), 1000, "flow {flow}");
        offsets.extend([a, shown(2, 5, flow).1]);
    }
    assert_eq!(offsets.len(), 198, "each flow and key has its own");
}

#[test]
fn the_same_syn_again_gets_the_same_answer() {
    let cfg = Config::default();
    let mut l = listener(&cfg, 8);
    let one = syn_ack(l.handle_stray(Instant::from_ms(5), &tuple(1), &syn(&cfg), 0));
    let two = syn_ack(l.handle_stray(Instant::from_ms(900), &tuple(1), &syn(&cfg), 0));
    assert_eq!((one.seq, one.ack), (two.seq, two.ack));
    assert_eq!(l.half_open(), 1);
    // A new incarnation from the same address takes the entry over.
    let newer = Header { seq: Seq(99), ..syn(&cfg) };
    assert_eq!(syn_ack(l.handle_stray(Instant::from_ms(901), &tuple(1), &newer, 0)).ack, Seq(100));
    assert_eq!(l.half_open(), 1);
}

#[test]
fn syn_ack_goes_out_again_and_then_the_entry_dies() {
    let cfg = Config { syn_transmissions: 4, ..Config::default() };
    let mut l = listener(&cfg, 8);
    let first = syn_ack(l.handle_stray(Instant::ZERO, &tuple(1), &syn(&cfg), 0));
    let mut times = Vec::new();
    while let Some(at) = l.poll_timeout() {
        while let Some((to, h)) = l.poll_reply(at) {
            assert_eq!((to, h.seq), (tuple(1), first.seq));
            times.push(at.as_ms());
        }
    }
    assert_eq!(times, [1000, 3000, 7000]);
    assert_eq!(l.half_open(), 0);
}

#[test]
fn a_table_of_many_is_gone_through_once_for_all_that_are_due() {
    let cfg = Config { syn_transmissions: 3, ..Config::default() };
    let mut l = listener(&cfg, 1 << 15);
    let mut half_open = 0;
    for n in 0..25_000 {
        let now = Instant::from_ms(u64::from(n) / 100);
        l.handle_stray(now, &tuple(n), &syn(&cfg), 0);
        half_open = half_open.max(l.half_open());
    }
    assert!(half_open > 20_000, "{half_open} of the table's places are taken");
    let started = std::time::Instant::now();
    let mut sent = std::collections::HashMap::<_, Vec<u64>>::new();
    while let Some(at) = l.poll_timeout() {
        // Late, so that many are due at once.
        let at = at + Duration::from_millis(300);
        while let Some((to, _)) = l.poll_reply(at) {
            sent.entry(to.remote).or_default().push(at.as_ms());
        }
        assert!(l.poll_timeout().is_none_or(|next| next > at), "a turn that nothing was due for");
        assert!(started.elapsed() < Duration::from_secs(20), "each costs a look at all");
    }
    assert_eq!((sent.len(), l.half_open()), (half_open, 0));
    for times in sent.values() {
        let [first, second] = times[..] else { panic!("{times:?}") };
        assert!((1000..2000).contains(&first) && (2000..3000).contains(&(second - first)));
    }
}

#[test]
fn a_full_table_gives_cookies_that_open_a_connection_with_all_options() {
    let cfg = Config::default();
    let mut l = listener(&cfg, 4);
    let mut now = Instant::from_ms(3_000);
    let mut answered = 0;
    for n in 0..500 {
        let Header { .. } = syn_ack(l.handle_stray(now, &tuple(n), &syn(&cfg), 0));
        answered += 1;
    }
    assert_eq!(answered, 500);
    assert!(l.half_open() <= 4 && l.cookies().0 >= 496, "{} {:?}", l.half_open(), l.cookies());
    let answer = syn_ack(l.handle_stray(now, &tuple(1000), &syn(&cfg), 0));
    assert!(answer.options.sack_permitted && answer.options.window_scale.is_some());
    now += Duration::from_millis(30);
    let ack = ack_of(&answer, true);
    // Nobody guesses a cookie, and nobody uses another's.
    let guessed = Header { ack: ack.ack + 1, ..ack };
    assert!(matches!(l.handle_stray(now, &tuple(1000), &guessed, 0), ListenerAction::Drop(_)));
    assert!(matches!(l.handle_stray(now, &tuple(1001), &ack, 0), ListenerAction::Drop(_)));
    let ListenerAction::Accept(mut c) = l.handle_stray(now, &tuple(1000), &ack, 0) else {
        panic!("refused")
    };
    let initial = c.handle_initial(now, &ack, 0);
    c.handle_final(now, &ack, &initial, Verdict::Control, false);
    assert_eq!(c.state(), State::Established);
    assert_eq!(c.poll_event(), Some(Event::Established));
    // The MSS came back rounded down, the scale whole.
    assert!(c.max_payload() >= 1200 && c.max_payload() <= 1440, "{}", c.max_payload());
    assert_eq!(c.info().send_window, 500 << answer.options.window_scale.expect("scale"));
    assert_eq!(c.info().srtt, Duration::ZERO, "a cookie's timestamp is not the time");
    // Much later it is void.
    let late = now + Duration::from_secs(300);
    assert!(is_reset(&l.handle_stray(late, &tuple(1000), &ack, 0)));
}

#[test]
fn cookies_without_timestamps_give_a_plain_connection() {
    let cfg = Config { timestamps: false, ..Config::default() };
    let mut l = listener(&cfg, 1);
    let now = Instant::from_ms(3_000);
    for n in 0..50 {
        syn_ack(l.handle_stray(now, &tuple(n), &syn(&cfg), 0));
    }
    let answer = syn_ack(l.handle_stray(now, &tuple(100), &syn(&cfg), 0));
    assert!(!answer.options.sack_permitted && answer.options.window_scale.is_none());
    assert!(matches!(
        l.handle_stray(now, &tuple(100), &ack_of(&answer, false), 0),
        ListenerAction::Accept(_)
    ));
}

#[test]
fn the_accept_queue_is_bounded() {
    let cfg = Config::default();
    let mut l = listener(&cfg, 2);
    let now = Instant::from_ms(10);
    for n in 0..2 {
        let answer = syn_ack(l.handle_stray(now, &tuple(n), &syn(&cfg), 0));
        assert!(matches!(
            l.handle_stray(now, &tuple(n), &ack_of(&answer, true), 0),
            ListenerAction::Accept(_)
        ));
    }
    let full = l.handle_stray(now, &tuple(9), &syn(&cfg), 0);
    assert!(matches!(full, ListenerAction::Drop(DropCause::Backlog)), "{full:?}");
    l.taken();
    syn_ack(l.handle_stray(now, &tuple(9), &syn(&cfg), 0));
}

#[test]
fn a_full_accept_queue_drops_the_ack_of_a_cookie() {
    let cfg = Config::default();
    let mut l = listener(&cfg, 2);
    let now = Instant::from_ms(3_000);
    let answers: Vec<_> =
        (0..50).map(|n| syn_ack(l.handle_stray(now, &tuple(n), &syn(&cfg), 0))).collect();
    let (mut accepted, mut dropped) = (Vec::new(), 0);
    for (n, answer) in (0..).zip(&answers) {
        match l.handle_stray(now, &tuple(n), &ack_of(answer, true), 0) {
            ListenerAction::Accept(_) => accepted.push(n),
            ListenerAction::Drop(DropCause::Backlog) => dropped += 1,
            other => panic!("client {n}: {other:?}"),
        }
    }
    assert_eq!((accepted.len(), dropped), (2, 48));
    // The clients repeat the segment, and each is accepted when the application has made room.
    for (n, answer) in (0..).zip(&answers).filter(|(n, _)| !accepted.contains(n)) {
        l.taken();
        let again = l.handle_stray(now, &tuple(n), &ack_of(answer, true), 0);
        assert!(matches!(again, ListenerAction::Accept(_)), "client {n}: {again:?}");
    }
}

#[test]
fn strays_are_reset_and_resets_are_not_answered() {
    let cfg = Config::default();
    let mut l = listener(&cfg, 2);
    let stray = Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq(5),
        ack: Seq(9),
        flags: Flags::ACK,
        ..Header::default()
    };
    let ListenerAction::Reply(reset) = l.handle_stray(Instant::ZERO, &tuple(1), &stray, 3) else {
        panic!()
    };
    assert_eq!(
        (reset.seq, reset.flags, reset.src_port, reset.dst_port),
        (Seq(9), Flags::RST, 2, 1)
    );
    let fin = Header { flags: Flags::FIN, ..stray };
    let reset = reset_for(&fin, 10).expect("an answer");
    assert_eq!((reset.seq, reset.ack, reset.flags), (Seq(0), Seq(16), Flags::RST | Flags::ACK));
    assert_eq!(reset_for(&Header { flags: Flags::RST, ..stray }, 0), None);
    assert!(matches!(
        l.handle_stray(Instant::ZERO, &tuple(1), &Header { flags: Flags::RST, ..stray }, 0),
        ListenerAction::Drop(_)
    ));
    assert!(matches!(
        l.handle_stray(Instant::ZERO, &tuple(1), &Header { flags: Flags::PSH, ..stray }, 0),
        ListenerAction::Drop(DropCause::NoAck)
    ));
}

#[test]
fn a_reset_removes_the_half_open_entry_only_when_exact() {
    let cfg = Config::default();
    let mut l = listener(&cfg, 2);
    let answer = syn_ack(l.handle_stray(Instant::ZERO, &tuple(1), &syn(&cfg), 0));
    let blind = Header { seq: answer.ack + 1, flags: Flags::RST, ..Header::default() };
    l.handle_stray(Instant::ZERO, &tuple(1), &blind, 0);
    assert_eq!(l.half_open(), 1);
    l.handle_stray(Instant::ZERO, &tuple(1), &Header { seq: answer.ack, ..blind }, 0);
    assert_eq!(l.half_open(), 0);
}

#[test]
fn the_last_segment_of_the_handshake_may_carry_payload() {
    let cfg = Config::default();
    let mut pair = Pair::closed(&cfg, &cfg);
    let mut l = listener(&cfg, 4);
    let syn = pair.a.output(pair.now).remove(0);
    let answer = syn_ack(l.handle_stray(pair.now, &tuple(1), &syn.header, 0));
    pair.wait();
    let initial = pair.a.tcp.handle_initial(pair.now, &answer, 0);
    assert_eq!(initial, Initial::Control);
    pair.a.tcp.handle_final(pair.now, &answer, &initial, Verdict::Control, false);
    pair.a.send(700);
    let first = pair.a.output(pair.now).remove(0);
    assert_eq!(first.payload, 0..700);
    let mut b = End::new(accept(&mut l, pair.now, &tuple(1), &first));
    b.take(pair.now, &first);
    assert_eq!(b.tcp.rcv_nxt_offset(), 700);
    assert_eq!(b.events, [Event::Established]);
}
