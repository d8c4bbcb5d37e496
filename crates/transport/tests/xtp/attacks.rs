//! Packets that the peer did not send: of each kind, with each field wrong. They change nothing.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Random, for_each_seed, for_each_seed_of};
use fusewire_transport::machine::{DropCause, Event};
use fusewire_transport::xtp::{Header, State};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, Format, JoinControl, Key, Limits, Options, Reason,
    Service, Span, SpanList, Traffic, TrafficControl,
};

use crate::account::{SERVICE, Scenario, Side, World, assert_graceful};
use crate::frame::Frame;
use crate::thin::{link, sends};
use crate::two_ends::{Frame as _, any_link};

/// What is wrong with a forged packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Key,
    NoRtn,
    Sync,
    SeqAhead,
    Rseq,
    Echo,
    EchoOld,
    Span,
    Alloc,
    Xkey,
    BlindEnd,
    First,
    Refused,
    InvalidReturned,
    UnknownDiag,
    Path,
    Unproven,
    Trailer,
    Join,
}

const ALL: [Wrong; 19] = [
    Wrong::Key,
    Wrong::NoRtn,
    Wrong::Sync,
    Wrong::SeqAhead,
    Wrong::Rseq,
    Wrong::Echo,
    Wrong::EchoOld,
    Wrong::Span,
    Wrong::Alloc,
    Wrong::Xkey,
    Wrong::BlindEnd,
    Wrong::First,
    Wrong::Refused,
    Wrong::InvalidReturned,
    Wrong::UnknownDiag,
    Wrong::Path,
    Wrong::Unproven,
    Wrong::Trailer,
    Wrong::Join,
];

/// What an attacker knows who sees all but must get one thing wrong.
struct Sight {
    own: Key,
    peer: Key,
    rcv_nxt: u64,
    edge: u64,
    una: u64,
    /// Beyond everything that was sent.
    unsent: u64,
    sync: u32,
    peer_sync: u32,
}

/// Who opens has no peer yet.
fn sight(side: &Side, peer: Option<&Side>) -> Sight {
    let info = side.conn.info();
    Sight {
        own: side.conn.key(),
        peer: peer.map_or(side.conn.key(), |peer| peer.conn.key()),
        rcv_nxt: side.conn.rcv_nxt_offset(),
        edge: side.offered_edge,
        una: side.conn.snd_una_offset(),
        unsent: side.conn.snd_una_offset() + info.unacked + 1,
        sync: side.account.last_sync,
        peer_sync: peer.map_or(0, |peer| peer.account.last_sync),
    }
}

fn traffic() -> Traffic {
    let limits = Limits { maxdata: 600, inrate: 1, ..Limits::default() };
    Traffic { service: Service::Stream, limits: Some(limits) }
}

/// The cause that it is counted by, if that is wrong in this state.
fn cause(wrong: Wrong, state: State, format: Format) -> Option<DropCause> {
    let opens = state == State::Opening;
    // Who opens takes any sync and key, its refusal, and data; a control tells it nothing but by TCNTL.
    let is_right = matches!(wrong, Wrong::Sync | Wrong::Xkey | Wrong::Refused);
    Some(match wrong {
        Wrong::Key | Wrong::NoRtn => DropCause::Closed,
        // FIRST that came once more is as one that the network has doubled.
        Wrong::First => return None,
        _ if opens && is_right => return None,
        _ if opens && matches!(format, Format::Cntl | Format::Ecntl) => DropCause::Protocol,
        Wrong::SeqAhead => DropCause::OutOfWindow,
        Wrong::Rseq | Wrong::Echo | Wrong::EchoOld | Wrong::Span => DropCause::BadAck,
        Wrong::BlindEnd | Wrong::Refused | Wrong::InvalidReturned | Wrong::UnknownDiag => {
            DropCause::BlindReset
        }
        _ => DropCause::Protocol,
    })
}

/// A packet that would count but for one thing. `None`: before anything has come every END is the latest word.
fn forge(random: &mut Random, s: &Sight, wrong: Wrong) -> Option<Frame> {
    if s.rcv_nxt == 0 && wrong == Wrong::BlindEnd {
        return None;
    }
    let control = Control { rseq: s.una, alloc: s.una + 100, echo: s.sync };
    let tcntl =
        TrafficControl { control, delay_us: 0, xkey: Key::new(9).unwrap(), traffic: traffic() };
    let mut spans = SpanList::new(s.una);
    spans.push(Span { left: s.unsent + 5, right: s.unsent + 9 });
    let bodies = [
        Body::Data { btag: None },
        Body::Cntl(control),
        Body::Tcntl(tcntl),
        Body::Ecntl(control, SpanList::new(s.una)),
    ];
    let mut header = Header {
        key: s.own,
        returned: true,
        options: Options::SREQ | if random.chance(0.5) { Options::FASTNAK } else { Options::NONE },
        check: 0,
        sort: random.next_u32() as u16,
        sync: s.peer_sync,
        seq: s.rcv_nxt,
        data_len: 0,
        body: *random.pick(&bodies),
    };
    let closing = [Options::NONE, Options::WCLOSE, Options::RCLOSE, Options::END];
    header.options |= *random.pick(&closing);
    match wrong {
        Wrong::Key => header.key = Key::new(random.next_u64()).unwrap(),
        Wrong::NoRtn => {
            (header.returned, header.body) = (false, Body::Data { btag: None });
            header.key = if random.chance(0.5) { s.own } else { s.peer };
        }
        Wrong::Sync => {
            header.sync = s.peer_sync.wrapping_add(random.range(1 << 16..1 << 31) as u32)
        }
        Wrong::SeqAhead => header.seq = s.edge + random.range(1..1000),
        Wrong::Rseq => {
            let rseq = s.unsent + random.below(1000);
            header.body = Body::Cntl(Control { rseq, alloc: rseq, ..control });
        }
        Wrong::Echo => {
            let echo = s.sync.wrapping_add(random.range(1..1 << 31) as u32);
            header.body = Body::Cntl(Control { echo, ..control });
        }
        Wrong::EchoOld => {
            let echo = s.sync.wrapping_sub(random.range(1 << 16..1 << 31) as u32);
            header.body = Body::Cntl(Control { echo, ..control });
        }
        Wrong::Span => header.body = Body::Ecntl(control, spans),
        Wrong::Alloc => {
            header.body = Body::Cntl(Control { alloc: s.una + (1 << 32), ..control });
        }
        Wrong::Xkey => header.body = Body::Tcntl(tcntl),
        Wrong::BlindEnd => {
            header.options |= Options::END;
            header.seq = s.rcv_nxt.saturating_sub(random.range(1..1000));
            header.body = Body::Cntl(control);
        }
        Wrong::First => {
            let address = Address::in_udp(SERVICE);
            let first = First { address, traffic: traffic(), xkey: Key::new(5), btag: None };
            header.body = Body::First(first);
        }
        Wrong::Refused => {
            let diag = Diag { code: Code::ContextRefused, reason: Reason::NoListener };
            header.body = Body::Diag(diag);
        }
        Wrong::InvalidReturned => {
            let diag = Diag { code: Code::InvalidContext, reason: Reason::Unspecified };
            header.body = Body::Diag(diag);
        }
        Wrong::UnknownDiag => {
            let number = random.range(8..1 << 32) as u32;
            let diag = Diag { code: Code::from_number(number), reason: Reason::Unspecified };
            header.body = Body::Diag(diag);
        }
        Wrong::Join => {
            let traffic = TrafficControl { xkey: Key::new(5).unwrap(), ..tcntl };
            header.body = Body::Jcntl(JoinControl { traffic, address: Address::in_udp(SERVICE) });
        }
        Wrong::Path => (header.body, header.sync) = (Body::Path, random.next_u32()),
        Wrong::Unproven => header.options |= Options::NOCHECK,
        Wrong::Trailer => {
            header.body = Body::Data { btag: None };
            header.options |= Options::NOCHECK | Options::RES;
        }
    }
    let takes_data = matches!(header.body, Body::Data { .. } | Body::First(_) | Body::Diag(_));
    let mut data = vec![0xa5; if takes_data { random.below(300) as usize } else { 0 }];
    let long = matches!(wrong, Wrong::SeqAhead | Wrong::Trailer);
    if matches!(header.body, Body::Data { .. }) && long {
        data.resize(100, 1);
    }
    header.data_len = data.len() as u32;
    Some(Frame::forged(&header, &data))
}

/// What must not change.
fn state_of(side: &Side) -> String {
    let mut info = side.conn.info();
    info.counters = Default::default();
    let (una, nxt) = (side.conn.snd_una_offset(), side.conn.rcv_nxt_offset());
    format!("{:?} {una} {nxt} {:?} {info:?}", side.conn.state(), side.conn.poll_timeout())
}

/// The forged packet changes nothing but the count of its cause. False where nothing is wrong with it.
fn assert_dropped(
    random: &mut Random,
    side: &mut Side,
    s: &Sight,
    wrong: Wrong,
    now: Instant,
) -> bool {
    let Some(frame) = forge(random, s, wrong) else { return false };
    let format = frame.header().expect("it is well formed").body.format();
    let state = side.conn.state();
    let cause = cause(wrong, state, format);
    if cause.is_none() && state != State::Open {
        return false;
    }
    let (before, drops) = (state_of(side), side.conn.counters().drops);
    side.receive_forged(&frame, now);
    assert_eq!(before, state_of(side), "{wrong:?} {frame}");
    let dropped = side.conn.counters().drops;
    let by_cause = cause.map(|cause| dropped.of(cause) - drops.of(cause));
    let expected = u64::from(cause.is_some());
    assert_eq!(by_cause.unwrap_or(0), expected, "{wrong:?} {frame}");
    assert_eq!(dropped.total() - drops.total(), expected, "{wrong:?} {frame}");
    side.collect();
    let bad = |e: &Event| matches!(e, Event::Reset(_) | Event::TimedOut);
    assert!(!side.events.iter().any(bad), "{wrong:?}");
    true
}

/// One of both, if it is in this state, and its peer.
fn in_state<'a>(
    world: &'a mut World,
    random: &mut Random,
    state: State,
) -> Option<(&'a mut Side, Option<&'a Side>)> {
    let (client, server) = (&mut world.client, world.server.as_mut());
    let Some(server) = server else {
        return (client.conn.state() == state).then_some((client, None));
    };
    let (side, peer) = if random.chance(0.5) { (client, server) } else { (server, client) };
    (side.conn.state() == state).then_some((side, Some(peer)))
}

#[test]
fn a_forged_packet_with_one_field_wrong_changes_nothing() {
    for wrong in ALL {
        let mut forged = 0;
        for_each_seed("a_forged_packet_with_one_field_wrong_changes_nothing", |_, random| {
            let scenario = Scenario {
                client_app: sends(100_000),
                server_app: sends(100_000),
                links: [any_link(random), any_link(random)],
                limit: Duration::from_secs(400_000),
                ..Scenario::default()
            };
            let mut world = World::new(&scenario, random);
            world.run_for(random.duration_below(Duration::from_secs(2)));
            for _ in 0..20 {
                world.run_for(random.duration_below(Duration::from_millis(100)));
                let now = world.now;
                if let Some((side, peer)) = in_state(&mut world, random, State::Open) {
                    let sight = sight(side, peer);
                    forged += u32::from(assert_dropped(random, side, &sight, wrong, now));
                }
            }
        });
        assert!(forged > 0, "{wrong:?}");
    }
}

/// The same before a context is open, and when it has ended.
#[test]
fn a_forged_packet_changes_nothing_before_and_after() {
    for state in [State::Opening, State::HalfOpen, State::Inactive] {
        for wrong in ALL {
            let (mut forged, mut is_right) = (0, false);
            let name = "a_forged_packet_changes_nothing_before_and_after";
            for_each_seed_of(30, name, |_, random| {
                let scenario = Scenario {
                    client_app: sends(2000),
                    server_app: sends(2000),
                    links: [link(), link()],
                    ..Scenario::default()
                };
                let mut world = World::new(&scenario, random);
                world.run_for(Duration::ZERO);
                for _ in 0..100 {
                    let now = world.now;
                    if let Some((side, peer)) = in_state(&mut world, random, state) {
                        let sight = sight(side, peer);
                        let was_wrong = assert_dropped(random, side, &sight, wrong, now);
                        forged += u32::from(was_wrong);
                        is_right |= !was_wrong;
                    }
                    let Some(next) = world.next_event() else { break };
                    world.step_to(next);
                }
                assert_graceful(&world);
            });
            assert!(forged > 0 || is_right, "{wrong:?} {state:?}");
        }
    }
}

#[test]
fn a_stream_of_forged_packets_does_not_stop_a_transfer() {
    for_each_seed("a_stream_of_forged_packets_does_not_stop_a_transfer", |_, random| {
        let scenario = Scenario {
            client_app: sends(60_000),
            server_app: sends(60_000),
            links: [link(), link()],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        let mut attacker = random.fork();
        world.run_with(|world| {
            let now = world.now;
            if let Some((side, peer)) = in_state(world, &mut attacker, State::Open) {
                let wrong = *attacker.pick(&ALL);
                if let Some(frame) = forge(&mut attacker, &sight(side, peer), wrong) {
                    side.receive_forged(&frame, now);
                }
            }
        });
        assert_graceful(&world);
    });
}
