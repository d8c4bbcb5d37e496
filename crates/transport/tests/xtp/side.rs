//! One end: a machine, the part that the stack plays, an application, and the accounts that say
//! whether all is right.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Content, Random, Received};
use fusewire_transport::machine::{
    Cut, DropCause, Event, Initial, PayloadPlan, Reservation, Verdict,
};
use fusewire_transport::xtp::{Config, Connection, Header, Message, State, Transmit};
use fusewire_wire::xtp::{Body, Options, Spans as _};

use crate::frame::Frame;

/// The least that an application waits: time moves on.
const INSTANT: Duration = Duration::from_nanos(1);
/// What may be sent before an alloc is known.
const INITIAL_ALLOC: u64 = 16_384;

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
    /// Stops reading for up to this long, with the probability `stall_chance` for each packet.
    pub stall: Duration,
    pub stall_chance: f64,
    /// A good payload is refused (no memory, wrong tag): it must come again.
    pub reject_chance: f64,
    /// Only a part of a good payload is taken.
    pub partial_chance: f64,
    /// Finishes when all is sent; otherwise the context stays open.
    pub finishes: bool,
    /// Finishes only when the peer has.
    pub finishes_last: bool,
    /// Messages may overtake each other, and each has a tag.
    pub overtaking: bool,
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
            finishes_last: false,
            overtaking: false,
        }
    }
}

/// One end of an association.
pub struct Side {
    pub conn: Connection,
    pub app: App,
    config: Config,
    random: Random,
    sends: Content,
    expects: Content,
    pub received: Received,
    pub consumed: u64,
    pub reserved: u64,
    pub committed: u64,
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
    /// The largest alloc that we gave, and rseq.
    pub offered_edge: u64,
    acknowledged: u64,
    /// The largest that an accepted control of the peer's gave.
    pub granted_edge: u64,
    window_most: u64,
    /// Messages that were sent, by their ends, and that were told.
    pub sent_messages: Vec<core::ops::Range<u64>>,
    pub messages: Vec<Message>,
    /// Bytes that never came (NOERR).
    pub missing: Received,
    /// Bytes of packets sent and received, while the peer has not shown our key.
    pub wire: [u64; 2],
    /// The sync of the last packet that left.
    pub last_sync: u32,
    pub counts: Counts,
}

/// What passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub frames_sent: u64,
    pub data_sent: u64,
    pub controls_sent: u64,
    pub firsts_sent: u64,
    pub asked: u64,
    pub retransmitted: u64,
    pub bytes_retransmitted: u64,
    pub bad_checksums: u64,
    pub refused: u64,
    pub out_of_order: u64,
    pub zero_windows: u64,
}

/// How a side is made.
pub struct Setup<'a> {
    pub conn: Connection,
    pub config: &'a Config,
    pub app: App,
    pub sends: Content,
    pub expects: Content,
    pub random: Random,
}

impl Side {
    pub fn new(setup: Setup<'_>) -> Side {
        let window = u64::from(setup.config.initial_recv_window.min(setup.config.recv_window));
        Side {
            conn: setup.conn,
            app: setup.app,
            config: setup.config.clone(),
            random: setup.random,
            sends: setup.sends,
            expects: setup.expects,
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
            offered_edge: window,
            acknowledged: 0,
            granted_edge: INITIAL_ALLOC,
            window_most: 0,
            sent_messages: Vec::new(),
            messages: Vec::new(),
            missing: Received::default(),
            wire: [0; 2],
            last_sync: 0,
            counts: Counts::default(),
        }
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
        let may_send = self.conn.state() != State::Quiescent;
        while may_send && self.reserved < self.app.total && now >= self.paused_until {
            let mut len =
                self.random.range(self.app.adu.clone()).min(self.app.total - self.reserved);
            let room = u64::from(self.conn.send_room());
            if self.acked == self.reserved {
                // What never fits is sent in pieces.
                assert!(room > 0, "an idle context has room");
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
        assert!(self.reserved - self.acked <= u64::from(self.config.send_buffer), "bounded");
        let may_finish = !self.app.finishes_last || self.peer_finished.is_some();
        if self.app.finishes && may_finish && !self.finished && self.committed == self.app.total {
            self.conn.finish();
            self.finished = true;
        }
        if now >= self.stalled_until && self.consumed < self.conn.rcv_nxt_offset() {
            self.consumed = self.conn.rcv_nxt_offset();
            while let Some(message) = self.conn.poll_message(self.app.overtaking) {
                self.messages.push(message);
            }
            self.conn.consumed(self.consumed);
        }
        if self.conn.poll_timeout().is_some_and(|at| at <= now) {
            self.conn.handle_timeout(now);
        }
    }

    fn commit(&mut self, reservation: Reservation) {
        let start = self.committed;
        self.committed += u64::from(reservation.len());
        if self.app.cut == Cut::Record {
            self.sent_messages.push(start..self.committed);
            if self.app.overtaking {
                self.conn.set_tag(start ^ 0x5555);
            }
        }
        self.conn.commit(reservation, self.app.cut);
    }

    /// A frame arrived.
    pub fn receive(&mut self, frame: &Frame, now: Instant) {
        let Some((header, data)) = frame.parse() else {
            frame.assert_changed();
            return;
        };
        let initial = self.conn.handle_initial(now, &header, header.data_len);
        if let Initial::Drop(_) = initial {
            return;
        }
        let verdict = match &initial {
            _ if !frame.verifies() => {
                self.counts.bad_checksums += 1;
                Verdict::Reject(DropCause::Checksum)
            }
            Initial::Payload(plan) if !plan.duplicate => self.take(&header, plan, data, now),
            _ => Verdict::Control,
        };
        if !matches!(verdict, Verdict::Reject(_)) {
            self.wire[1] += frame.bytes.len() as u64;
            if let Some(control) = header.body.control() {
                self.granted_edge = self.granted_edge.max(control.alloc);
            }
        }
        self.conn.handle_final(now, &header, &initial, verdict, false);
        while let Some(gap) = self.conn.poll_gap() {
            assert!(self.missing.insert(gap.clone()), "{gap:?} told twice");
        }
        if self.app.overtaking {
            while let Some(message) = self.conn.poll_message(true) {
                let has = |m: &Message| {
                    self.received.iter().any(|r| r.start <= m.range.start && m.range.end <= r.end)
                };
                assert!(has(&message), "{message:?} of {:?}", self.received);
                self.messages.push(message);
            }
        }
    }

    /// A packet with a right check that the peer did not send: its data, where they are new, do not open.
    pub fn receive_forged(&mut self, frame: &Frame, now: Instant) {
        let (header, data) = frame.parse().expect("the attacker writes packets that parse");
        let initial = self.conn.handle_initial(now, &header, data.len() as u32);
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Payload(plan) if plan.len > 0 => Verdict::Reject(DropCause::Tag),
            _ => Verdict::Control,
        };
        self.conn.handle_final(now, &header, &initial, verdict, false);
    }

    /// The integrated step: the payload is what it must be and goes where nothing is yet.
    fn take(&mut self, header: &Header, plan: &PayloadPlan, data: &[u8], now: Instant) -> Verdict {
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
        assert_eq!(front + plan.len as usize + plan.trim_back as usize, data.len());
        assert_eq!(header.seq + u64::from(plan.trim_front), plan.offset);
        let bytes = &data[front..front + len as usize];
        assert!(self.expects.matches(plan.offset, bytes), "wrong bytes at {}", plan.offset);
        assert!(plan.offset >= self.conn.rcv_nxt_offset(), "below what is whole: {header:?}");
        assert_eq!(plan.in_order, plan.offset == self.conn.rcv_nxt_offset());
        assert!(end <= self.offered_edge, "beyond the window that was offered: {end}");
        assert!(
            self.received.insert(plan.offset..end),
            "{plan:?} came before: {:?}",
            self.received
        );
        self.counts.out_of_order += u64::from(!plan.in_order);
        Verdict::Accept { len }
    }

    /// Gives out everything that the machine wants to send now.
    pub fn transmit(&mut self, now: Instant, mut out: impl FnMut(Frame)) {
        let mut count = 0;
        while let Some(transmit) = self.conn.poll_transmit(now) {
            count += 1;
            assert!(count < 20_000, "the machine does not stop sending");
            self.check_transmit(&transmit);
            let frame = Frame::new(&transmit, &self.sends);
            assert!(frame.parse().is_some(), "{transmit:?} does not parse");
            self.wire[0] += frame.bytes.len() as u64;
            // A cookie proves an address.
            if self.conn.state() == State::HalfOpen && !self.conn.name().returned {
                assert!(self.wire[0] <= self.wire[1], "amplifies: {:?}", self.wire);
            }
            out(frame);
        }
    }

    fn check_transmit(&mut self, transmit: &Transmit) {
        let header = &transmit.header;
        self.counts.frames_sent += 1;
        self.last_sync = header.sync;
        self.counts.asked += u64::from(header.options.has(Options::SREQ));
        self.counts.firsts_sent += u64::from(matches!(header.body, Body::First(_)));
        if let Some(range) = &transmit.payload {
            let len = range.end - range.start;
            assert!(header.packet_len() <= self.config.send_tpdu_len, "{transmit:?}");
            assert_eq!(header.seq, range.start);
            assert!(range.start >= self.acked, "sends what was given back: {transmit:?}");
            assert!(range.end <= self.committed, "sends what was not committed: {transmit:?}");
            let edge = self.granted_edge;
            let heeds = !self.config.noflow;
            assert!(!heeds || range.end <= edge, "beyond alloc {edge}: {transmit:?}");
            self.counts.data_sent += 1;
            if transmit.retransmission {
                self.counts.retransmitted += 1;
                self.counts.bytes_retransmitted += len;
            } else {
                let info = self.conn.info();
                let limit =
                    self.window_most.max(info.cwnd).saturating_add(2 * u64::from(info.max_payload));
                assert!(info.in_flight <= limit, "{} in flight, window {limit}", info.in_flight);
            }
        }
        if let Some(control) = header.body.control() {
            self.counts.controls_sent += 1;
            let whole = self.conn.rcv_nxt_offset();
            assert_eq!(control.rseq, whole);
            assert!(control.rseq >= self.acknowledged, "rseq moved back to {}", control.rseq);
            self.acknowledged = control.rseq;
            assert!(control.alloc >= self.offered_edge, "alloc moved left: {control:?}");
            self.offered_edge = control.alloc;
            self.counts.zero_windows += u64::from(control.alloc == control.rseq);
        }
        if let Body::Ecntl(_, spans) = &header.body {
            for span in spans.iter() {
                let has = self.received.iter().any(|r| r.start <= span.left && span.right <= r.end);
                assert!(has, "reports {span:?}, has {:?}", self.received);
            }
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
                    assert_eq!(offset, self.conn.rcv_nxt_offset(), "the peer's end");
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
            "{:?} reserved {} committed {} acked {} received {} in {} ranges consumed {} peer's end {:?} {:?}\n  {:?}\n  {:?}",
            self.conn.state(),
            self.reserved,
            self.committed,
            self.acked,
            self.received.contiguous(),
            self.received.len(),
            self.consumed,
            self.peer_finished,
            self.events.iter().filter(|e| !matches!(e, Event::Acked { .. })).collect::<Vec<_>>(),
            self.conn.info(),
            self.counts,
        )
    }

    /// Inequalities that hold after every step.
    pub fn check(&mut self) {
        let info = self.conn.info();
        assert!(info.cwnd >= u64::from(info.max_payload), "cwnd {} under a packet", info.cwnd);
        assert!(info.in_flight <= info.unacked, "{info:?}");
        assert!(info.unacked <= u64::from(self.config.send_buffer));
        assert!(self.conn.snd_una_offset() <= self.committed);
        if self.missing.is_empty() {
            assert_eq!(self.conn.rcv_nxt_offset(), self.received.contiguous());
        }
        self.window_most = self.window_most.max(info.cwnd);
        self.conn.assert_invariants();
    }
}
