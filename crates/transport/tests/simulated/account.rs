//! TCP's numbers, as one end of a simulated connection knows them.

use fusewire_base::{Instant, Seq};
use fusewire_testkit::Random;
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{Initial, Listener as _, Secrets};
use fusewire_transport::tcp::{
    Config, Connection, Listener, ListenerAction, Ports, State, Transmit, Tuple,
};
use fusewire_wire::tcp::{Flags, Header};

use crate::frame::Frame;
use crate::two_ends::{self, Account, Frame as _};

pub type Scenario = two_ends::Scenario<Tcp>;
pub type Side = two_ends::Side<Tcp>;
pub type World = two_ends::World<Tcp>;

pub const CLIENT_PORT: u16 = 40_000;
pub const SERVER_PORT: u16 = 7;

/// The connection, as the server names it.
fn tuple() -> Tuple {
    Tuple {
        local: ([10, 0, 0, 1], 4433).into(),
        remote: ([10, 0, 0, 2], 5544).into(),
        flow: Ports { local: SERVER_PORT, remote: CLIENT_PORT },
    }
}

/// What one end knows of the sequence space of the other.
#[derive(Clone, Copy, Debug, Default)]
struct Space {
    isn: Option<Seq>,
    /// The window scale that its SYN offered.
    scale: Option<u8>,
    /// Its SYN permitted SACK.
    sack: bool,
}

/// The accounts of one end.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    /// Our own sequence space, as our SYN opened it, and the peer's, as a verified SYN opened it.
    own: Space,
    peer: Space,
    /// Right edge that we offered; the side's has besides what the scale cuts off.
    offered_edge: u64,
    /// Timestamps and window of the last verified segment.
    pub last_heard: Option<(Option<(u32, u32)>, u16)>,
    /// Where a verified FIN of the peer's stood.
    fin_seen: Option<u64>,
}

/// What a scenario says besides.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The client's initial sequence number.
    pub iss: Option<Seq>,
}

/// What the listener said, and to what.
#[derive(Debug, Default)]
pub struct Around {
    syn: Option<Header>,
    syn_ack: Option<Header>,
}

/// What an attacker aims at: the receiver's next sequence number and its window, and what the receiver
/// would take for an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub rcv_nxt: Seq,
    pub window: u32,
    pub snd_una: Seq,
    pub snd_nxt: Seq,
}

/// Where an attacker who knows almost everything would aim.
pub fn target(side: &Side) -> Option<Target> {
    let (own, peer) = (side.account.own.isn?, side.account.peer.isn?);
    let fin = u64::from(side.peer_finished.is_some());
    let rcv_nxt = side.received.contiguous();
    Some(Target {
        rcv_nxt: peer + 1 + (rcv_nxt + fin) as u32,
        window: side.account.offered_edge.saturating_sub(rcv_nxt + fin) as u32,
        snd_una: own + 1 + side.acked as u32,
        snd_nxt: own + 1 + side.conn.info().unacked as u32 + side.acked as u32,
    })
}

/// Nothing of a frame's payload is taken: what it does is up to its header.
pub fn has_all_of(side: &mut Side, frame: &Frame, now: Instant) -> bool {
    let header = frame.header().expect("the attacker writes headers that parse");
    let initial = side.conn.handle_initial(now, &header, frame.payload_len());
    matches!(initial, Initial::Payload(plan) if plan.len == 0)
}

/// For a connection that a listener made: what the listener's SYN-ACK and the peer's SYN said.
fn adopt(side: &mut Side, syn: &Header, syn_ack: &Header) {
    learn(side, syn);
    check_syn(side, syn_ack);
    check_acknowledgement(side, syn_ack);
}

/// What a verified segment tells of the peer's space and of the window it grants.
fn learn(side: &mut Side, header: &Header) {
    let (own, peer) = (side.account.own, &mut side.account.peer);
    if header.flags.has(Flags::SYN) && peer.isn.is_none() {
        peer.isn = Some(header.seq);
        peer.scale = header.options.window_scale;
        peer.sack = header.options.sack_permitted;
        if !header.flags.has(Flags::ACK) {
            side.granted_edge = u64::from(header.window);
        }
    }
    let Some(isn) = own.isn.filter(|_| header.flags.has(Flags::ACK)) else { return };
    if let Some(ack) = header.ack.to_offset(isn + 1, side.acked) {
        let shift = side.account.shift_of(header, &side.account.peer);
        side.granted_edge = side.granted_edge.max(ack + (u64::from(header.window) << shift));
    }
}

/// Our own SYN.
fn check_syn(side: &mut Side, header: &Header) {
    if !header.flags.has(Flags::SYN) {
        return;
    }
    let own = &mut side.account.own;
    assert!(own.isn.is_none_or(|isn| isn == header.seq));
    own.isn = Some(header.seq);
    own.scale = header.options.window_scale;
    own.sack = header.options.sack_permitted;
    if !header.flags.has(Flags::ACK) {
        side.account.offered_edge = u64::from(header.window);
        side.offered_edge = u64::from(header.window);
    }
}

/// Nothing is acknowledged that was not accepted, and the window does not move left.
fn check_acknowledgement(side: &mut Side, header: &Header) {
    let Some(isn) = side.account.peer.isn else { return };
    let whole = side.received.contiguous();
    let ack = header.ack.to_offset(isn + 1, whole).expect("not before the stream");
    assert!(ack <= whole + 1, "acknowledges {ack} of {whole}");
    assert!(ack <= whole || side.conn.state() != State::Established, "acknowledges a FIN early");
    assert!(ack >= side.acknowledged, "the acknowledgement moved back to {ack}");
    side.acknowledged = ack;
    let shift = side.account.shift_of(header, &side.account.own);
    let edge = ack + (u64::from(header.window) << shift);
    // What the scale cuts off may seem to move the edge (RFC 7323, section 2.4).
    let offered = side.account.offered_edge;
    assert!(edge + (1 << shift) > offered, "the window moved left: {edge} {offered}");
    side.account.offered_edge = offered.max(edge);
    side.offered_edge = side.offered_edge.max(edge + (1 << shift) - 1);
    side.counts.zero_windows += u64::from(header.window == 0);
    for (left, right) in header.options.sack_blocks() {
        // Position 0 is SYN, which a forged duplicate may have begun with.
        let left = left.to_offset(isn, whole + 1).expect("in the stream").max(1) - 1;
        let right = right.to_offset(isn, whole + 1).expect("in the stream").max(1) - 1;
        assert!(left < right, "an empty block {left}..{right}");
        // The last of the sequence space is the peer's FIN, once that came.
        let end = if side.account.fin_seen == Some(right - 1) { right - 1 } else { right };
        let accepted = left == end || side.received.iter().any(|r| r.start <= left && end <= r.end);
        assert!(accepted, "reports {left}..{right}, has {:?}", side.received);
    }
}

impl Tcp {
    /// How far the window field of a header from `sender` is shifted: only when both offered it, and
    /// never with SYN (RFC 7323, section 2.2).
    fn shift_of(&self, header: &Header, sender: &Space) -> u8 {
        let both = self.own.scale.and(self.peer.scale).and(sender.scale);
        both.filter(|_| !header.flags.has(Flags::SYN)).unwrap_or(0).min(14)
    }
}

impl Account for Tcp {
    type Config = Config;
    type Frame = Frame;
    type Told = Told;
    type Around = Around;

    fn new(_: &Config, _: &Told) -> (Tcp, [u64; 2]) {
        (Tcp::default(), [0; 2])
    }

    fn connect(scenario: &Scenario, random: &mut Random, now: Instant) -> (Connection, Around) {
        let iss = scenario.told.iss.unwrap_or(Seq(random.next_u32()));
        let start = Start { iss, timestamp_offset: random.next_u32() };
        let conn = Connection::connect(&scenario.client, CLIENT_PORT, SERVER_PORT, start, now);
        (conn, Around::default())
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
        side.is_established
    }

    fn may_finish(side: &Side) -> bool {
        side.is_established
    }

    fn heard(side: &mut Side, header: &Header, frame: &Frame) {
        learn(side, header);
        side.account.last_heard = Some((header.options.timestamps, header.window));
        let isn = side.account.peer.isn.filter(|_| header.flags.has(Flags::FIN));
        let start = isn.and_then(|isn| header.seq.to_offset(isn + 1, side.received.contiguous()));
        if let Some(start) = start {
            side.account.fin_seen = Some(start + u64::from(frame.payload_len()));
        }
    }

    fn check_transmit(side: &mut Side, transmit: &Transmit) {
        let header = &transmit.header;
        check_syn(side, header);
        if let Some(range) = &transmit.payload {
            let most = u64::from(side.conn.info().max_payload).max(64);
            assert!((1..=most).contains(&(range.end - range.start)), "{transmit:?}");
            let isn = side.account.own.isn.expect("SYN goes first");
            assert_eq!(header.seq, isn + 1 + range.start as u32);
        }
        if !header.flags.has(Flags::RST) && header.flags.has(Flags::ACK) {
            check_acknowledgement(side, header);
        }
    }

    /// Without SACK nobody knows what has left the network (RFC 6582 inflates the window), and losses that were none
    /// come back into what is in flight.
    fn knows_in_flight(side: &Side) -> bool {
        let Tcp { own, peer, .. } = &side.account;
        own.sack && peer.sack && side.conn.counters().spurious == 0
    }

    fn check(side: &Side) {
        let info = side.conn.info();
        assert!(info.ssthresh >= 2 * u64::from(info.max_payload));
        // SYN and FIN are counted.
        assert!(info.unacked <= side.send_buffer + 2);
        assert_eq!(side.conn.rcv_nxt_offset(), side.received.contiguous());
    }

    fn is_the_clients(ends: &Tuple) -> bool {
        *ends == tuple()
    }

    fn is_over(world: &World) -> bool {
        world.client.is_done() && world.server.as_ref().is_some_and(Side::is_done)
    }

    fn arrive_at_client(world: &mut World, frame: &Frame) {
        world.client.receive(frame, world.now);
    }

    fn arrive_at_server(world: &mut World, frame: &Frame) {
        if let Some(server) = &mut world.server {
            return server.receive(frame, world.now);
        }
        let Some(header) = frame.header().filter(|_| frame.verifies()) else { return };
        match world.listener.handle_stray(world.now, &tuple(), &header, frame.payload_len()) {
            ListenerAction::Reply(reply) => {
                if reply.flags.has(Flags::SYN) {
                    world.around = Around { syn: Some(header), syn_ack: Some(reply) };
                }
                world.answer(1, &reply);
            }
            ListenerAction::Accept(conn) => {
                let mut server = world.accept(*conn);
                // The last SYN-ACK's options, and the number of the one that is answered.
                let syn_ack = world.around.syn_ack.expect("SYN-ACK went");
                let seq = Seq(header.ack.0.wrapping_sub(1));
                let syn = world.around.syn.expect("SYN came");
                adopt(&mut server, &syn, &Header { seq, ..syn_ack });
                world.server.insert(server).receive(frame, world.now);
            }
            ListenerAction::Drop(_) => {}
        }
    }
}
