//! One end: a machine, the part that the stack plays, an application, and the accounts that say
//! whether all is right.

use core::time::Duration;

use fusewire_base::{Instant, Seq};
use fusewire_testkit::{Content, Random, Received};
use fusewire_transport::machine::{
    Cut, DropCause, Event, Initial, PayloadPlan, Reservation, Verdict,
};
use fusewire_transport::tcp::{Config, Connection, State, Transmit};
use fusewire_wire::tcp::{Flags, Header};

use crate::frame::{Frame, Payload};

/// The least that an application waits: time moves on.
const INSTANT: Duration = Duration::from_nanos(1);

/// What an application does.
#[derive(Clone, Debug)]
pub struct App {
    /// Bytes that it sends, and then finishes.
    pub total: u64,
    /// Lengths of what it sends at once.
    pub adu: core::ops::Range<u64>,
    /// Whether these may be joined.
    pub cut: Cut,
    /// Pauses between two, up to this long, with the probability `pause_chance`.
    pub pause: Duration,
    pub pause_chance: f64,
    /// Stops reading for up to this long, with the probability `stall_chance` for each segment.
    pub stall: Duration,
    pub stall_chance: f64,
    /// A good payload is refused (no memory, wrong tag): it must come again.
    pub reject_chance: f64,
    /// Only a part of a good payload is taken.
    pub partial_chance: f64,
    /// Finishes when all is sent; otherwise the connection stays open.
    pub finishes: bool,
}

impl Default for App {
    fn default() -> Self {
        App {
            total: 0,
            adu: 1..4000,
            cut: Cut::Record,
            pause: Duration::ZERO,
            pause_chance: 0.0,
            stall: Duration::ZERO,
            stall_chance: 0.0,
            reject_chance: 0.0,
            partial_chance: 0.0,
            finishes: true,
        }
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

/// One end of a connection.
pub struct Side {
    pub conn: Connection,
    pub app: App,
    pub send_buffer: u64,
    random: Random,
    sends: Content,
    expects: Content,
    with_bytes: bool,
    pub received: Received,
    pub consumed: u64,
    reserved: u64,
    committed: u64,
    held: Option<Reservation>,
    /// `Event::Acked`: what lies below was given back.
    pub acked: u64,
    paused_until: Instant,
    stalled_until: Instant,
    finished: bool,
    pub events: Vec<Event>,
    pub peer_finished: Option<u64>,
    pub is_established: bool,
    pub is_closed: bool,
    /// Our own sequence space, as our SYN opened it, and the peer's, as a verified SYN opened it.
    own: Space,
    peer: Space,
    /// Right edge that we offered, and the acknowledgement, as stream offsets.
    offered_edge: u64,
    /// The same with what the scale cuts off.
    accepted_edge: u64,
    acknowledged: u64,
    /// Right edge that a verified segment of the peer's offered to us.
    granted_edge: u64,
    window_most: u64,
    /// Timestamps and window of the last verified segment.
    pub last_heard: Option<(Option<(u32, u32)>, u16)>,
    /// Where a verified FIN of the peer's stood.
    fin_seen: Option<u64>,
    pub counts: Counts,
}

/// What passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub frames_sent: u64,
    pub data_sent: u64,
    pub retransmitted: u64,
    pub bytes_retransmitted: u64,
    pub bad_checksums: u64,
    pub refused: u64,
    pub out_of_order: u64,
    pub zero_windows: u64,
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

/// How a side is made.
pub struct Setup<'a> {
    pub conn: Connection,
    pub config: &'a Config,
    pub app: App,
    pub sends: Content,
    pub expects: Content,
    pub with_bytes: bool,
    pub random: Random,
}

impl Side {
    pub fn new(setup: Setup<'_>) -> Side {
        Side {
            conn: setup.conn,
            app: setup.app,
            send_buffer: u64::from(setup.config.send_buffer),
            random: setup.random,
            sends: setup.sends,
            expects: setup.expects,
            with_bytes: setup.with_bytes,
            received: Received::default(),
            consumed: 0,
            reserved: 0,
            committed: 0,
            held: None,
            acked: 0,
            paused_until: Instant::ZERO,
            stalled_until: Instant::ZERO,
            finished: false,
            events: Vec::new(),
            peer_finished: None,
            is_established: false,
            is_closed: false,
            own: Space::default(),
            peer: Space::default(),
            offered_edge: 0,
            accepted_edge: 0,
            acknowledged: 0,
            granted_edge: 0,
            window_most: 0,
            last_heard: None,
            fin_seen: None,
            counts: Counts::default(),
        }
    }

    /// For a connection that a listener made: what the listener's SYN-ACK and the peer's SYN said.
    pub fn adopt(&mut self, syn: &Header, syn_ack: &Header) {
        self.learn(syn);
        self.check_header(syn_ack);
        self.check_acknowledgement(syn_ack);
    }

    /// When the application or the machine wants to be called.
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        let app = [self.paused_until, self.stalled_until].into_iter().filter(|at| *at > now).min();
        [self.conn.poll_timeout(), app].into_iter().flatten().min()
    }

    /// Everything was sent, acknowledged, received and read.
    pub fn is_done(&self) -> bool {
        let sent = self.committed == self.app.total && self.acked == self.app.total;
        let read = self.peer_finished.is_none_or(|end| self.consumed == end);
        sent && read && (!self.app.finishes || self.finished)
    }

    /// The application writes and reads.
    pub fn act(&mut self, now: Instant) {
        if let Some(reservation) = self.held.take() {
            self.commit(reservation);
        }
        while self.is_established && self.reserved < self.app.total && now >= self.paused_until {
            let mut len =
                self.random.range(self.app.adu.clone()).min(self.app.total - self.reserved);
            let room = u64::from(self.conn.send_room());
            if self.acked == self.reserved {
                // What never fits is sent in pieces.
                assert!(room > 0, "an idle connection has room");
                len = len.min(room);
            }
            let Some(reservation) = self.conn.reserve(len as u32) else {
                assert!(room < len, "no reservation of {len} in a room of {room}");
                break;
            };
            assert_eq!(reservation.offset(), self.reserved, "reservations follow one another");
            assert_eq!(u64::from(reservation.len()), len);
            self.reserved += u64::from(reservation.len());
            if self.random.chance(self.app.pause_chance) {
                self.paused_until = now + INSTANT + self.random.duration_below(self.app.pause);
                self.held = Some(reservation);
                break;
            }
            self.commit(reservation);
        }
        assert!(self.reserved - self.acked <= self.send_buffer, "memory is bounded");
        if self.app.finishes
            && !self.finished
            && self.committed == self.app.total
            && self.is_established
        {
            self.conn.finish();
            self.finished = true;
        }
        if now >= self.stalled_until && self.consumed < self.received.contiguous() {
            self.consumed = self.received.contiguous();
            self.conn.consumed(self.consumed);
        }
        if self.conn.poll_timeout().is_some_and(|at| at <= now) {
            self.conn.handle_timeout(now);
        }
    }

    fn commit(&mut self, reservation: Reservation) {
        self.committed += u64::from(reservation.len());
        self.conn.commit(reservation, self.app.cut);
    }

    /// A frame arrived.
    pub fn receive(&mut self, frame: &Frame, now: Instant) {
        let Some(header) = frame.header() else {
            assert!(!frame.verifies(), "what we sent parses");
            return;
        };
        let initial = self.conn.handle_initial(now, &header, frame.payload_len());
        if let Initial::Drop(_) = initial {
            return;
        }
        let verdict = match &initial {
            _ if !frame.verifies() => {
                self.counts.bad_checksums += 1;
                Verdict::Reject(DropCause::Checksum)
            }
            Initial::Payload(plan) if !plan.duplicate => {
                self.take(&header, plan, &frame.payload, now)
            }
            _ => Verdict::Control,
        };
        if !matches!(verdict, Verdict::Reject(_)) {
            self.learn(&header);
            self.last_heard = Some((header.options.timestamps, header.window));
            self.learn_fin(&header, frame.payload_len());
        }
        self.conn.handle_final(now, &header, &initial, verdict, frame.marked);
    }

    /// Where an attacker who knows almost everything would aim.
    pub fn target(&self) -> Option<Target> {
        let (own, peer) = (self.own.isn?, self.peer.isn?);
        let fin = u64::from(self.peer_finished.is_some());
        let rcv_nxt = self.received.contiguous();
        Some(Target {
            rcv_nxt: peer + 1 + (rcv_nxt + fin) as u32,
            window: self.offered_edge.saturating_sub(rcv_nxt + fin) as u32,
            snd_una: own + 1 + self.acked as u32,
            snd_nxt: own + 1 + self.conn.info().unacked as u32 + self.acked as u32,
        })
    }

    /// Nothing of a frame's payload is taken: what it does is up to its header.
    pub fn has_all_of(&mut self, frame: &Frame, now: Instant) -> bool {
        let header = frame.header().expect("the attacker writes headers that parse");
        let initial = self.conn.handle_initial(now, &header, frame.payload_len());
        matches!(initial, Initial::Payload(plan) if plan.len == 0)
    }

    /// A frame with a right checksum that the peer did not send: its payload, where it is new, does
    /// not open (wrong tag).
    pub fn receive_forged(&mut self, frame: &Frame, now: Instant) {
        let header = frame.header().expect("the attacker writes headers that parse");
        let initial = self.conn.handle_initial(now, &header, frame.payload_len());
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Payload(plan) if plan.len > 0 => Verdict::Reject(DropCause::Tag),
            _ => Verdict::Control,
        };
        self.conn.handle_final(now, &header, &initial, verdict, false);
    }

    /// The integrated step: the payload is what it must be and goes where nothing is yet.
    fn take(
        &mut self,
        header: &Header,
        plan: &PayloadPlan,
        payload: &Payload,
        now: Instant,
    ) -> Verdict {
        if self.random.chance(self.app.reject_chance) {
            self.counts.refused += 1;
            let cause = *self.random.pick(&[DropCause::Tag, DropCause::NoMemory]);
            return Verdict::Reject(cause);
        }
        let mut len = plan.len;
        if self.random.chance(self.app.partial_chance) {
            len = self.random.below(u64::from(len) + 1) as u32;
        }
        if self.random.chance(self.app.stall_chance) {
            self.stalled_until = now + INSTANT + self.random.duration_below(self.app.stall);
        }
        let (front, end) = (plan.trim_front as usize, plan.offset + u64::from(len));
        match payload {
            Payload::Bytes(bytes) => {
                assert_eq!(front + plan.len as usize + plan.trim_back as usize, bytes.len());
                let bytes = &bytes[front..front + len as usize];
                assert!(self.expects.matches(plan.offset, bytes), "wrong bytes at {}", plan.offset);
            }
            Payload::Range { range, .. } => {
                assert_eq!(range.start + u64::from(plan.trim_front), plan.offset, "wrong place");
            }
        }
        assert!(plan.offset >= self.received.contiguous(), "below what is whole: {header:?}");
        assert_eq!(plan.in_order, plan.offset == self.received.contiguous());
        assert!(end <= self.accepted_edge, "beyond the window that was offered: {end}");
        assert!(
            self.received.insert(plan.offset..end),
            "{plan:?} came before: {:?}",
            self.received
        );
        self.counts.out_of_order += u64::from(!plan.in_order);
        Verdict::Accept { len }
    }

    /// What a verified segment tells of the peer's space and of the window it grants.
    fn learn(&mut self, header: &Header) {
        if header.flags.has(Flags::SYN) && self.peer.isn.is_none() {
            self.peer.isn = Some(header.seq);
            self.peer.scale = header.options.window_scale;
            self.peer.sack = header.options.sack_permitted;
            if !header.flags.has(Flags::ACK) {
                self.granted_edge = u64::from(header.window);
            }
        }
        let Some(isn) = self.own.isn.filter(|_| header.flags.has(Flags::ACK)) else { return };
        if let Some(ack) = header.ack.to_offset(isn + 1, self.acked) {
            let edge = ack + (u64::from(header.window) << self.shift_of(header, &self.peer));
            self.granted_edge = self.granted_edge.max(edge);
        }
    }

    fn learn_fin(&mut self, header: &Header, payload_len: u32) {
        let Some(isn) = self.peer.isn.filter(|_| header.flags.has(Flags::FIN)) else { return };
        if let Some(start) = header.seq.to_offset(isn + 1, self.received.contiguous()) {
            self.fin_seen = Some(start + u64::from(payload_len));
        }
    }

    /// How far the window field of a header from `sender` is shifted: only when both offered it, and
    /// never with SYN (RFC 7323, section 2.2).
    fn shift_of(&self, header: &Header, sender: &Space) -> u8 {
        let both = self.own.scale.and(self.peer.scale).and(sender.scale);
        both.filter(|_| !header.flags.has(Flags::SYN)).unwrap_or(0).min(14)
    }

    /// Gives out everything that the machine wants to send now.
    pub fn transmit(&mut self, now: Instant, mut out: impl FnMut(Frame)) {
        let mut count = 0;
        while let Some(transmit) = self.conn.poll_transmit(now) {
            count += 1;
            assert!(count < 20_000, "the machine does not stop sending");
            self.check_transmit(&transmit);
            out(Frame::new(&transmit, &self.sends, self.with_bytes));
        }
    }

    /// Our own SYN.
    fn check_header(&mut self, header: &Header) {
        if header.flags.has(Flags::SYN) {
            assert!(self.own.isn.is_none_or(|isn| isn == header.seq));
            self.own.isn = Some(header.seq);
            self.own.scale = header.options.window_scale;
            self.own.sack = header.options.sack_permitted;
            if !header.flags.has(Flags::ACK) {
                self.offered_edge = u64::from(header.window);
                self.accepted_edge = self.offered_edge;
            }
        }
    }

    fn check_transmit(&mut self, transmit: &Transmit) {
        let header = &transmit.header;
        self.counts.frames_sent += 1;
        self.check_header(header);
        if let Some(range) = &transmit.payload {
            let len = range.end - range.start;
            assert!(
                len > 0 && len <= u64::from(self.conn.info().max_payload).max(64),
                "{transmit:?}"
            );
            assert!(range.start >= self.acked, "sends what was given back: {transmit:?}");
            assert!(range.end <= self.committed, "sends what was not committed: {transmit:?}");
            assert!(
                range.end <= self.granted_edge,
                "beyond the peer's window {}: {transmit:?}",
                self.granted_edge
            );
            let isn = self.own.isn.expect("SYN goes first");
            assert_eq!(header.seq, isn + 1 + range.start as u32);
            self.counts.data_sent += 1;
            if transmit.retransmission {
                self.counts.retransmitted += 1;
                self.counts.bytes_retransmitted += len;
            } else if self.own.sack && self.peer.sack && self.conn.counters().spurious == 0 {
                // Without SACK nobody knows what has left the network (RFC 6582 inflates the window), and
                // losses that were none come back into what is in flight.
                let info = self.conn.info();
                let limit = self.window_most.max(info.cwnd) + 2 * u64::from(info.max_payload);
                assert!(info.in_flight <= limit, "{} in flight, window {limit}", info.in_flight);
            }
        }
        if !header.flags.has(Flags::RST) && header.flags.has(Flags::ACK) {
            self.check_acknowledgement(header);
        }
    }

    /// Nothing is acknowledged that was not accepted, and the window does not move left.
    fn check_acknowledgement(&mut self, header: &Header) {
        let Some(isn) = self.peer.isn else { return };
        let whole = self.received.contiguous();
        let ack = header.ack.to_offset(isn + 1, whole).expect("not before the stream");
        assert!(ack <= whole + 1, "acknowledges {ack} of {whole}");
        assert!(
            ack <= whole || self.conn.state() != State::Established,
            "acknowledges a FIN early"
        );
        assert!(ack >= self.acknowledged, "the acknowledgement moved back to {ack}");
        self.acknowledged = ack;
        let shift = self.shift_of(header, &self.own);
        let edge = ack + (u64::from(header.window) << shift);
        // What the scale cuts off may seem to move the edge (RFC 7323, section 2.4).
        assert!(
            edge + (1 << shift) > self.offered_edge,
            "the window moved left: {edge} {}",
            self.offered_edge
        );
        self.offered_edge = self.offered_edge.max(edge);
        self.accepted_edge = self.accepted_edge.max(edge + (1 << shift) - 1);
        self.counts.zero_windows += u64::from(header.window == 0);
        for (left, right) in header.options.sack_blocks() {
            // Position 0 is SYN, which a forged duplicate may have begun with.
            let left = left.to_offset(isn, whole + 1).expect("in the stream").max(1) - 1;
            let right = right.to_offset(isn, whole + 1).expect("in the stream").max(1) - 1;
            assert!(left < right, "an empty block {left}..{right}");
            // The last of the sequence space is the peer's FIN, once that came.
            let end = if self.fin_seen == Some(right - 1) { right - 1 } else { right };
            let accepted =
                left == end || self.received.iter().any(|r| r.start <= left && end <= r.end);
            assert!(accepted, "reports {left}..{right}, has {:?}", self.received);
        }
    }

    /// Takes events.
    pub fn collect(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Established => self.is_established = true,
                Event::Acked { upto_offset } => {
                    assert!(upto_offset >= self.acked && upto_offset <= self.committed);
                    self.acked = upto_offset;
                }
                Event::PeerFinished { offset } => {
                    assert_eq!(offset, self.received.contiguous(), "the peer's end");
                    assert_eq!(self.peer_finished.replace(offset), None, "the peer finished twice");
                }
                Event::Closed => self.is_closed = true,
                _ => {}
            }
            self.events.push(event);
        }
    }

    /// For a failure.
    pub fn describe(&self) -> String {
        format!(
            "reserved {} committed {} acked {} received {} in {} ranges consumed {} peer's end {:?}\n  {:?}\n  {:?}",
            self.reserved,
            self.committed,
            self.acked,
            self.received.contiguous(),
            self.received.len(),
            self.consumed,
            self.peer_finished,
            self.conn.info(),
            self.counts,
        )
    }

    /// Inequalities that hold after every step.
    pub fn check(&mut self) {
        let info = self.conn.info();
        assert!(info.cwnd >= u64::from(info.max_payload), "cwnd {} under a segment", info.cwnd);
        assert!(info.ssthresh >= 2 * u64::from(info.max_payload));
        assert!(info.in_flight <= info.unacked, "{info:?}");
        assert!(info.unacked <= self.send_buffer + 2);
        assert!(self.conn.snd_una_offset() <= self.committed);
        assert_eq!(self.conn.rcv_nxt_offset(), self.received.contiguous());
        self.window_most = self.window_most.max(info.cwnd);
        if self.with_bytes {
            // Counts anew what the machine keeps: too slow for the long runs.
            self.conn.assert_invariants();
        }
    }
}
