//! One end: a machine, the part that the stack plays, an application, and the accounts that say
//! whether all is right.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Content, Random, Received};
use fusewire_transport::machine::{
    Connection as _, DropCause, Event, Initial, PayloadPlan, Protocol as _, Reservation, Verdict,
};

use super::{Account, App, Connection, Frame as _, Header, Transmit};

/// The least that an application waits: time moves on.
const INSTANT: Duration = Duration::from_nanos(1);

/// One end of a connection.
pub struct Side<A: Account> {
    pub conn: Connection<A>,
    pub app: App,
    pub account: A,
    pub send_buffer: u64,
    random: Random,
    sends: Content,
    expects: Content,
    pub with_bytes: bool,
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
    /// The largest right edge of the window that was offered, and the acknowledgement, as stream offsets.
    pub offered_edge: u64,
    pub acknowledged: u64,
    /// Right edge that the peer offered, in what was found to be right.
    pub granted_edge: u64,
    window_most: u64,
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

/// How a side is made.
pub struct Setup<'a, A: Account> {
    pub conn: Connection<A>,
    pub config: &'a A::Config,
    pub told: &'a A::Told,
    pub app: App,
    pub sends: Content,
    pub expects: Content,
    pub with_bytes: bool,
    pub random: Random,
}

impl<A: Account> Side<A> {
    pub fn new(setup: Setup<'_, A>) -> Side<A> {
        let (account, [offered_edge, granted_edge]) = A::new(setup.config, setup.told);
        Side {
            conn: setup.conn,
            app: setup.app,
            account,
            send_buffer: u64::from(setup.config.sizes().send_buffer),
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
            offered_edge,
            acknowledged: 0,
            granted_edge,
            window_most: 0,
            counts: Counts::default(),
        }
    }

    /// All below has come.
    pub fn whole(&self) -> u64 {
        A::rcv_nxt(&self.conn)
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
        while A::may_write(self) && self.reserved < self.app.total && now >= self.paused_until {
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
        let all = !self.finished && self.committed == self.app.total;
        let may_finish = !self.app.finishes_last || self.peer_finished.is_some();
        if self.app.finishes && all && may_finish && A::may_finish(self) {
            self.conn.finish();
            self.finished = true;
        }
        if now >= self.stalled_until && self.consumed < self.whole() {
            self.consumed = self.whole();
            A::before_consumed(self);
            self.conn.consumed(self.consumed);
        }
        if self.conn.poll_timeout().is_some_and(|at| at <= now) {
            self.conn.handle_timeout(now);
        }
    }

    fn commit(&mut self, reservation: Reservation) {
        let start = self.committed;
        self.committed += u64::from(reservation.len());
        A::before_commit(self, start..self.committed);
        self.conn.commit(reservation, self.app.cut);
    }

    /// A frame arrived.
    pub fn receive(&mut self, frame: &A::Frame, now: Instant) {
        let Some(header) = frame.header() else {
            frame.assert_changed();
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
            Initial::Payload(plan) if !plan.duplicate => self.take(&header, plan, frame, now),
            _ => Verdict::Control,
        };
        if !matches!(verdict, Verdict::Reject(_)) {
            A::heard(self, &header, frame);
        }
        self.conn.handle_final(now, &header, &initial, verdict, frame.is_marked());
        A::after_final(self);
    }

    /// A frame with a right checksum that the peer did not send: its payload, where it is new, does
    /// not open (wrong tag).
    pub fn receive_forged(&mut self, frame: &A::Frame, now: Instant) {
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
        header: &Header<A>,
        plan: &PayloadPlan,
        frame: &A::Frame,
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
        let end = plan.offset + u64::from(len);
        frame.assert_carries(plan, len, &self.expects);
        assert!(plan.offset >= self.whole(), "below what is whole: {header:?}");
        assert_eq!(plan.in_order, plan.offset == self.whole());
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
    pub fn transmit(&mut self, now: Instant, mut out: impl FnMut(A::Frame)) {
        let mut count = 0;
        while let Some(transmit) = self.conn.poll_transmit(now) {
            count += 1;
            assert!(count < 20_000, "the machine does not stop sending");
            self.check_transmit(&transmit);
            let frame = A::Frame::of(&transmit, &self.sends, self.with_bytes);
            A::check_frame(self, &frame);
            out(frame);
        }
    }

    fn check_transmit(&mut self, transmit: &Transmit<A>) {
        self.counts.frames_sent += 1;
        A::check_transmit(self, transmit);
        let Some(range) = &transmit.payload else { return };
        assert!(range.start >= self.acked, "sends what was given back: {transmit:?}");
        assert!(range.end <= self.committed, "sends what was not committed: {transmit:?}");
        let edge = self.granted_edge;
        assert!(range.end <= edge, "beyond the peer's window {edge}: {transmit:?}");
        self.counts.data_sent += 1;
        if transmit.retransmission {
            self.counts.retransmitted += 1;
            self.counts.bytes_retransmitted += range.end - range.start;
        } else if A::knows_in_flight(self) {
            let info = self.conn.info();
            let window = self.window_most.max(info.cwnd);
            let limit = window.saturating_add(2 * u64::from(info.max_payload));
            assert!(info.in_flight <= limit, "{} in flight, window {limit}", info.in_flight);
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
                    assert_eq!(offset, self.whole(), "the peer's end");
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
            "{} reserved {} committed {} acked {} received {} in {} ranges consumed {} peer's end {:?} {:?}\n  {:?}\n  {:?}",
            self.conn.state_name(),
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
        assert!(info.cwnd >= u64::from(info.max_payload), "cwnd {} under a segment", info.cwnd);
        assert!(info.in_flight <= info.unacked, "{info:?}");
        assert!(A::snd_una(&self.conn) <= self.committed);
        A::check(self);
        self.window_most = self.window_most.max(info.cwnd);
        if self.with_bytes {
            // Counts anew what the machine keeps: too slow for the long runs.
            A::assert_invariants(&self.conn);
        }
    }
}
