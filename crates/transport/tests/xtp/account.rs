//! XTP's numbers, as one end of a simulated association knows them.

use fusewire_base::Instant;
use fusewire_testkit::{Random, Received};
use fusewire_transport::machine::{Event, Header as _, Listener as _, Secrets};
use fusewire_transport::xtp::{
    Config, Connection, Ends, Header, Listener, ListenerAction, Message, State, Transmit,
};
use fusewire_wire::xtp::{Body, Key, Options, Spans as _};

use crate::frame::Frame;
use crate::two_ends::{self, Account, Frame as _};

pub type Scenario = two_ends::Scenario<Xtp>;
pub type Side = two_ends::Side<Xtp>;
pub type World = two_ends::World<Xtp>;

pub const SERVICE: u16 = 7;
/// What may be sent before an alloc is known.
const INITIAL_ALLOC: u64 = 16_384;

/// The accounts of one end.
#[derive(Clone, Debug)]
pub struct Xtp {
    config: Config,
    overtaking: bool,
    /// Messages that were sent, by their ends, and that were told.
    pub sent_messages: Vec<core::ops::Range<u64>>,
    pub messages: Vec<Message>,
    /// Bytes that never came (NOERR).
    pub missing: Received,
    /// Bytes of packets sent and received, while the peer has not shown our key.
    wire: [u64; 2],
    /// The sync of the last packet that left.
    pub last_sync: u32,
    pub controls_sent: u64,
    pub firsts_sent: u64,
    pub asked: u64,
}

/// What a scenario says besides.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The client's key.
    pub key: Option<u64>,
    /// Nobody listens.
    pub refuses: bool,
    /// Messages may overtake each other, and each has a tag.
    pub overtaking: bool,
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Around {
    /// Contexts that were made of FIRSTs of the client's: one, or another after the first was gone.
    pub accepted: u64,
    pub diags: u64,
}

/// All went well: everything came, and both closed in order.
pub fn assert_graceful(world: &World) {
    let server = world.server();
    for (sender, receiver) in [(&world.client, server), (server, &world.client)] {
        let got = receiver.received.contiguous();
        assert_eq!(got, sender.app.total, "all has come\n{}", world.describe());
        assert_eq!(receiver.peer_finished, Some(got), "{}", world.describe());
        assert_eq!(sender.acked, got, "{}", world.describe());
        assert!(sender.is_closed, "{}", world.describe());
        let bad = |e: &Event| matches!(e, Event::Reset(_) | Event::TimedOut);
        assert!(!sender.events.iter().any(bad), "{}", world.describe());
    }
    assert_eq!(world.around.accepted, 1);
}

fn is_for(side: &Side, header: &Header) -> bool {
    let name = header.flow();
    side.conn.state() != State::Quiescent
        && (name == side.conn.name() || Some(name) == side.conn.also())
}

impl Account for Xtp {
    type Config = Config;
    type Frame = Frame;
    type Told = Told;
    type Around = Around;

    fn new(config: &Config, told: &Told) -> (Xtp, [u64; 2]) {
        let window = u64::from(config.initial_recv_window.min(config.recv_window));
        let granted = if config.noflow { u64::MAX } else { INITIAL_ALLOC };
        let account = Xtp {
            config: config.clone(),
            overtaking: told.overtaking,
            sent_messages: Vec::new(),
            messages: Vec::new(),
            missing: Received::default(),
            wire: [0; 2],
            last_sync: 0,
            controls_sent: 0,
            firsts_sent: 0,
            asked: 0,
        };
        (account, [window, granted])
    }

    fn connect(scenario: &Scenario, random: &mut Random, now: Instant) -> (Connection, Around) {
        let key = scenario.told.key.unwrap_or(random.next_u64());
        let key = Key::new(key).expect("not zero");
        (Connection::connect(&scenario.client, key, SERVICE, now), Around::default())
    }

    fn listen(scenario: &Scenario, secrets: &Secrets) -> Listener {
        Listener::new(&scenario.server, scenario.backlog, secrets)
    }

    fn rcv_nxt(conn: &Connection) -> u64 {
        conn.rcv_nxt_offset()
    }

    fn snd_una(conn: &Connection) -> u64 {
        conn.snd_una_offset()
    }

    fn assert_invariants(conn: &Connection) {
        conn.assert_invariants();
    }

    fn may_write(side: &Side) -> bool {
        side.conn.state() != State::Quiescent
    }

    fn may_finish(_: &Side) -> bool {
        true
    }

    fn before_commit(side: &mut Side, range: core::ops::Range<u64>) {
        if side.app.cut == fusewire_transport::machine::Cut::Record {
            if side.account.overtaking {
                side.conn.set_tag(range.start ^ 0x5555);
            }
            side.account.sent_messages.push(range);
        }
    }

    fn before_consumed(side: &mut Side) {
        while let Some(message) = side.conn.poll_message(side.account.overtaking) {
            side.account.messages.push(message);
        }
    }

    fn heard(side: &mut Side, header: &Header, frame: &Frame) {
        side.account.wire[1] += frame.bytes.len() as u64;
        if let Some(control) = header.body.control() {
            side.granted_edge = side.granted_edge.max(control.alloc);
        }
    }

    fn after_final(side: &mut Side) {
        while let Some(gap) = side.conn.poll_gap() {
            assert!(side.account.missing.insert(gap.clone()), "{gap:?} told twice");
        }
        if side.account.overtaking {
            while let Some(message) = side.conn.poll_message(true) {
                let range = &message.range;
                let has = |r: &core::ops::Range<u64>| r.start <= range.start && range.end <= r.end;
                assert!(side.received.iter().any(|r| has(&r)), "{message:?}");
                side.account.messages.push(message);
            }
        }
    }

    fn check_transmit(side: &mut Side, transmit: &Transmit) {
        let header = &transmit.header;
        let account = &mut side.account;
        account.last_sync = header.sync;
        account.asked += u64::from(header.options.has(Options::SREQ));
        account.firsts_sent += u64::from(matches!(header.body, Body::First(_)));
        if let Some(range) = &transmit.payload {
            assert!(header.packet_len() <= account.config.send_tpdu_len, "{transmit:?}");
            assert_eq!(header.seq, range.start);
        }
        if let Some(control) = header.body.control() {
            account.controls_sent += 1;
            assert_eq!(control.rseq, side.conn.rcv_nxt_offset());
            assert!(control.rseq >= side.acknowledged, "rseq moved back to {}", control.rseq);
            side.acknowledged = control.rseq;
            assert!(control.alloc >= side.offered_edge, "alloc moved left: {control:?}");
            side.offered_edge = control.alloc;
            side.counts.zero_windows += u64::from(control.alloc == control.rseq);
        }
        if let Body::Ecntl(_, spans) = &header.body {
            for span in spans.iter() {
                let has = side.received.iter().any(|r| r.start <= span.left && span.right <= r.end);
                assert!(has, "reports {span:?}, has {:?}", side.received);
            }
        }
    }

    fn check_frame(side: &mut Side, frame: &Frame) {
        assert!(frame.parse().is_some(), "{frame} does not parse");
        let wire = &mut side.account.wire;
        wire[0] += frame.bytes.len() as u64;
        // A cookie proves an address.
        if side.conn.state() == State::HalfOpen && !side.conn.name().returned {
            assert!(wire[0] <= wire[1], "amplifies: {wire:?}");
        }
    }

    fn check(side: &Side) {
        assert!(side.conn.info().unacked <= side.send_buffer);
        if side.account.missing.is_empty() {
            assert_eq!(side.conn.rcv_nxt_offset(), side.received.contiguous());
        }
    }

    /// Both have all, and both contexts are gone, or stay as they are.
    fn is_over(world: &World) -> bool {
        assert!(world.steps < 3_000_000, "goes on and on:\n{}", world.describe());
        let Some(server) = &world.server else { return world.client.is_closed };
        let scenario = &world.scenario;
        let finishes = scenario.client_app.finishes && scenario.server_app.finishes;
        if finishes || world.client.is_closed || server.is_closed {
            world.client.is_closed && server.is_closed
        } else {
            world.client.is_done() && server.is_done()
        }
    }

    fn arrive_at_client(world: &mut World, frame: &Frame) {
        let Some((header, data)) = frame.parse() else { return frame.assert_changed() };
        if is_for(&world.client, &header) {
            return world.client.receive(frame, world.now);
        }
        if frame.verifies()
            && let Some(diag) = header.refusal(data.len() as u32)
        {
            world.around.diags += 1;
            world.answer(0, &diag);
        }
    }

    fn arrive_at_server(world: &mut World, frame: &Frame) {
        let Some((header, data)) = frame.parse() else { return frame.assert_changed() };
        let now = world.now;
        if let Some(server) = world.server.as_mut().filter(|server| is_for(server, &header)) {
            return server.receive(frame, now);
        }
        if !frame.verifies() {
            return;
        }
        let len = data.len() as u32;
        let ends = Ends {
            local: ([10, 0, 0, 1], 4433).into(),
            remote: ([10, 0, 0, 2], 5544).into(),
            flow: header.flow(),
        };
        let reply = if world.scenario.told.refuses || header.service() != Some(SERVICE) {
            header.refusal(len)
        } else if world.server.is_some() {
            // A FIRST that comes late: what it opens nobody will show a key to. It is not looked at here.
            return;
        } else {
            match world.listener.handle_stray(now, &ends, &header, len) {
                ListenerAction::Reply(reply) => Some(reply),
                ListenerAction::Accept(conn) => {
                    world.around.accepted += 1;
                    let server = world.accept(*conn);
                    return world.server.insert(server).receive(frame, now);
                }
                ListenerAction::Drop(_) => None,
            }
        };
        if let Some(reply) = reply {
            world.around.diags += 1;
            world.answer(1, &reply);
        }
    }
}
