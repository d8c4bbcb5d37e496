//! TCP sockets: a protocol machine and the two rings of memory that belong to it.
//!
//! ```text
//!  write   bytes ──copy, sum──▶ send ring (is also the retransmission memory) ──▶ super-frames
//!          shared bytes ──sum, where they lie, until they are acknowledged───────────────┘
//!  receive payload ──copy, sum──▶ the reader's memory, when it waits and the bytes are the next
//!                          └────▶ receive ring, at the place of their stream offset
//! ```
//! What fails its checksum is not accepted, so the ring's bytes are free to be written again; what the
//! reader was given is wiped (Law 3).

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use fusewire_base::{Instant, Sum};
use fusewire_kernels::{Level, sum};
use fusewire_net::Via;
use fusewire_transport::machine::{
    self, Cut, DropCause, Initial, PayloadPlan, Reservation, ResetCause, Verdict,
};
use fusewire_transport::tcp::{self, Connection, State, Tuple};
use fusewire_wire::tcp::Header;

use super::backlog::Backlog;
use super::config::{Error, Event, Events, Marking, Result, SocketId};
use super::mover::Mover;
use super::ring::Ring;
use super::send_memory::SendMemory;
use super::sums::{Cuts, Sums};
use crate::trace::{Kind, Trace};

/// A port that takes connections.
pub struct ListenerSocket {
    /// What it is bound to; the address may be unspecified.
    pub local: SocketAddr,
    /// One machine a family: their MSS differ.
    pub machines: [Option<tcp::Listener>; 2],
    /// The settings of connections to come.
    pub config: tcp::Config,
    /// What the headers of its answers say, and those of connections to come.
    pub marking: Marking,
    /// Accepted connections that the application has not taken.
    pub waiting: VecDeque<SocketId>,
}

/// A segment, or several that came as one super-frame.
pub struct Segment<'a> {
    pub header: &'a Header,
    /// Sum of pseudo-header and header when the checksum is still to be verified.
    pub head: Option<Sum>,
    /// Empty where the payload lies in the reader's memory already, behind what was filled before.
    pub payload: &'a [u8],
    /// Bytes of payload.
    pub len: usize,
    /// Segments on the wire.
    pub count: u32,
    /// It carried a congestion mark.
    pub marked: bool,
}

/// The reader's memory, while it waits.
pub struct Place<'a> {
    pub memory: &'a mut [u8],
    /// Bytes that are there, verified and in order.
    pub filled: usize,
}

/// A connection.
pub struct Stream {
    pub tuple: Tuple,
    pub tcp: Connection,
    pub send: SendMemory,
    pub recv: Ring,
    /// Where the application reads next.
    pub read_offset: u64,
    /// One past the last byte in the ring.
    recv_end: u64,
    /// Bytes before the payload in the frame of the last segment that brought some; 0 when there was none.
    pub head_len: usize,
    /// One past the last byte that was written.
    send_end: u64,
    /// The listener in whose queue it waits.
    pub parent: Option<SocketId>,
    pub marking: Marking,
    pub via: Option<Via>,
    /// Until when the peer may take to finish, once the application has closed.
    pub orphaned: Option<Instant>,
    /// What ended it, until it is told.
    pub error: Option<Error>,
    /// What a router said of the destination (RFC 5461): told when the connection times out.
    pub soft_error: Option<Error>,
    /// A write found no room.
    wants_room: bool,
    /// What its writer may queue.
    pub backlog: Backlog,
    pub over: bool,
    /// In the queue of sockets in TIME-WAIT.
    pub in_time_wait: bool,
    reported: Reported,
    pub trace: Trace,
    /// Sums of what lies in the send ring, where the interface does not make them.
    pub sums: Option<Sums>,
    /// When the next hop was last confirmed.
    pub confirmed_at: Instant,
    /// `snd_una` when it was.
    pub confirmed: u64,
    /// Timeouts that the path was told of.
    pub timeouts: u32,
    /// What is in flight does not fit the path.
    pub mtu_fell: bool,
    pub level: Level,
}

/// What was last told.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Reported {
    /// Up to where there is something to read.
    next: u64,
    recoveries: u32,
    timeouts: u32,
    echoes: u32,
    marks: u32,
}

impl Stream {
    pub fn new(tuple: Tuple, tcp: Connection, config: &tcp::Config, level: Level) -> Stream {
        Stream {
            tuple,
            tcp,
            send: SendMemory::new(config.send_buffer as usize),
            recv: Ring::new(config.recv_window as usize),
            read_offset: 0,
            recv_end: 0,
            head_len: 0,
            send_end: 0,
            parent: None,
            marking: Marking::default(),
            via: None,
            orphaned: None,
            error: None,
            soft_error: None,
            wants_room: false,
            backlog: Backlog::default(),
            over: false,
            in_time_wait: false,
            reported: Reported::default(),
            trace: Trace::default(),
            sums: None,
            confirmed_at: Instant::ZERO,
            confirmed: 0,
            timeouts: 0,
            mtu_fell: false,
            level,
        }
    }

    // ---- sending

    /// Takes what there is room for.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(reservation) = self.reserve(bytes.len())? else { return Ok(0) };
        let len = reservation.len() as usize;
        self.copy_in(&reservation, &bytes[..len]);
        self.tcp.commit(reservation, Cut::Stream);
        Ok(len)
    }

    /// Takes what there is room for, and leaves it where it is until it is acknowledged; copies what is not worth
    /// that.
    pub fn write_shared(&mut self, bytes: &Bytes) -> Result<usize> {
        let Some(reservation) = self.reserve(bytes.len())? else { return Ok(0) };
        let len = reservation.len() as usize;
        if self.send.is_shareable(len) {
            let cuts = self.cuts();
            if let Some(sums) = &mut self.sums {
                sums.add(reservation.offset(), cuts, len, |range| sum(self.level, &bytes[range]));
            }
            self.send.share(reservation.offset(), bytes.slice(..len));
        } else {
            self.copy_in(&reservation, &bytes[..len]);
        }
        self.tcp.commit(reservation, Cut::Stream);
        Ok(len)
    }

    /// Copies to where the reserved bytes belong, and sums them in the same pass if somebody wants to know.
    fn copy_in(&mut self, reservation: &Reservation, bytes: &[u8]) {
        let start = reservation.offset();
        let (cuts, level) = (self.cuts(), self.level);
        let (mut a, mut b) = self.send.slices_mut(start..start + bytes.len() as u64);
        let Some(sums) = &mut self.sums else {
            let (x, y) = bytes.split_at(a.len());
            a.copy_from_slice(x);
            return b.copy_from_slice(y);
        };
        sums.add(start, cuts, bytes.len(), |range| {
            let (x, y) = bytes[range.clone()].split_at(range.len().min(a.len()));
            let (first, second);
            (first, a) = std::mem::take(&mut a).split_at_mut(x.len());
            (second, b) = std::mem::take(&mut b).split_at_mut(y.len());
            let mut mover = Mover::new(level, Some(Sum::ZERO));
            mover.copy(x, first);
            mover.copy(y, second);
            mover.sum.unwrap_or(Sum::ZERO)
        });
    }

    /// How what is written now will be cut.
    fn cuts(&self) -> Cuts {
        Cuts { join: self.tcp.join_room() as usize, each: self.tcp.max_payload() as usize }
    }

    /// Takes up to `len` bytes that `fill` writes into the ring, given their offset in the message;
    /// called once or twice. With [`Cut::StreamEnd`] what is written next begins a segment of its own.
    pub fn write_cut(
        &mut self,
        len: usize,
        cut: Cut,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<usize> {
        let Some(reservation) = self.reserve(len)? else { return Ok(0) };
        let room = reservation.len() as usize;
        let (a, b) = self.send.slices_mut(reservation.offset()..self.send_end);
        let first = a.len();
        fill(0, a);
        if !b.is_empty() {
            fill(first, b);
        }
        let whole = room == len;
        self.tcp.commit(reservation, if whole { cut } else { Cut::Stream });
        if whole && cut == Cut::StreamEnd {
            self.backlog.close_piece();
        }
        Ok(room)
    }

    /// Room for up to `len` bytes that are written now; none when there is no room, or nothing to write.
    fn reserve(&mut self, len: usize) -> Result<Option<Reservation>> {
        if len == 0 {
            return Ok(None);
        }
        match self.tcp.state() {
            State::Closed => return Err(self.error.unwrap_or(Error::NotConnected)),
            State::Established | State::CloseWait => {}
            State::SynSent | State::SynReceived => {
                self.wants_room = true;
                return Ok(None);
            }
            _ => return Err(Error::Finished),
        }
        let una = self.tcp.snd_una_offset();
        let free = self.send.capacity() - (self.send_end - una) as usize;
        let room = free.min(self.tcp.send_room() as usize).min(len);
        let room = self.backlog.room(&self.tcp, self.send_end.max(una), room);
        self.wants_room |= room < len;
        let Some(reservation) = self.tcp.reserve(room as u32) else { return Ok(None) };
        if una == reservation.offset() {
            self.send.restart(una);
        }
        if let Some(sums) = &mut self.sums {
            sums.free(una);
        }
        self.send_end = reservation.offset() + room as u64;
        Ok(Some(reservation))
    }

    /// These bytes may still be sent: they are there, and the peer has not acknowledged all of them.
    pub fn needs(&self, range: &std::ops::Range<u64>) -> bool {
        !self.over && range.end > self.tcp.snd_una_offset()
    }

    /// The sum of what waits to be acknowledged: ready, or made now.
    pub fn payload_sum(&mut self, range: &std::ops::Range<u64>) -> Sum {
        if let Some(sum) = self.sums.as_mut().and_then(|sums| sums.of(range)) {
            return sum;
        }
        let mut mover = Mover::new(self.level, Some(Sum::ZERO));
        self.send.gather(range.clone(), |piece| mover.pass(piece));
        mover.sum.unwrap_or(Sum::ZERO)
    }

    /// Bytes that `write` would take now.
    pub fn room(&self) -> usize {
        let free = self.send.capacity() - (self.send_end - self.tcp.snd_una_offset()) as usize;
        free.min(self.tcp.send_room() as usize)
    }

    /// The application wants to hear of room.
    pub fn ask_room(&mut self) {
        self.wants_room = true;
    }

    /// A writer should be woken.
    pub fn is_writable(&self) -> bool {
        let end = self.send_end.max(self.tcp.snd_una_offset());
        self.room() > 0 && self.backlog.is_writable(&self.tcp, end)
    }

    /// What could leave has left.
    pub fn settle_backlog(&mut self, now: Instant) {
        let end = self.send_end.max(self.tcp.snd_una_offset());
        self.backlog.settle(now, &self.tcp, end);
    }

    /// Bytes that were written and not sent.
    pub fn unsent(&self) -> u64 {
        self.send_end.saturating_sub(self.tcp.snd_nxt_offset())
    }

    // ---- receiving

    /// Bytes that may be read.
    pub fn readable(&self) -> usize {
        (self.tcp.rcv_nxt_offset() - self.read_offset.min(self.tcp.rcv_nxt_offset())) as usize
    }

    /// Copies out what is there; 0 at the end of the stream and when there is nothing.
    #[inline]
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let len = self.readable().min(out.len());
        if len > 0 {
            self.recv.copy_to(self.read_offset, &mut out[..len]);
            self.consume(len);
        }
        len
    }

    /// What is there, in one piece or two.
    pub fn peek(&self) -> (&[u8], &[u8]) {
        self.recv.slices(self.read_offset..self.read_offset + self.readable() as u64)
    }

    /// The application is done with `len` bytes of what [`Stream::peek`] shows.
    pub fn consume(&mut self, len: usize) {
        self.read_offset += len.min(self.readable()) as u64;
        self.tcp.consumed(self.read_offset);
    }

    /// The peer has finished, and all was read.
    pub fn at_end(&self) -> bool {
        let finished = matches!(
            self.tcp.state(),
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait | State::Closed
        );
        finished && self.readable() == 0
    }

    /// Initial, integrated and final step of a segment.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        s: &Segment<'_>,
        place: Option<&mut Place<'_>>,
    ) -> Kind {
        let initial = self.tcp.handle_initial(now, s.header, s.len as u32);
        let verdict = match &initial {
            Initial::Drop(cause) => {
                self.trace.segment(Kind::Dropped(*cause), now, s.header, s.len as u32);
                return Kind::Dropped(*cause);
            }
            Initial::Payload(plan) if !plan.duplicate => self.take(s, plan, place),
            _ if s.head.is_none_or(|head| (head + sum(self.level, s.payload)).verifies()) => {
                Verdict::Control
            }
            _ => Verdict::Reject(DropCause::Checksum),
        };
        self.conclude(now, s, &initial, verdict)
    }

    /// The final step.
    fn conclude(
        &mut self,
        now: Instant,
        s: &Segment<'_>,
        initial: &Initial,
        verdict: Verdict,
    ) -> Kind {
        let kind = Kind::of(initial, &verdict);
        self.trace.segment(kind, now, s.header, s.len as u32);
        let rejected = matches!(verdict, Verdict::Reject(_));
        self.tcp.handle_final(now, s.header, initial, verdict, s.marked);
        if s.count > 1 && !rejected {
            self.tcp.note_merged(s.count - 1);
        }
        kind
    }

    /// Where the payload of the next segment begins in its frame, when that segment could go to the reader's
    /// memory as it comes: nothing waits to be read before it, and nothing lies behind a hole.
    pub fn next_head(&self) -> Option<usize> {
        let open =
            matches!(self.tcp.state(), State::Established | State::FinWait1 | State::FinWait2);
        let next = self.tcp.rcv_nxt_offset();
        let clear = self.read_offset == next && self.recv_end <= next && self.orphaned.is_none();
        (open && clear && self.head_len > 0).then_some(self.head_len)
    }

    /// As [`Stream::handle_segment`] of a payload that lies where it belongs if it is the next: it is verified
    /// there. False, and nothing was done, when it is not the next.
    pub fn handle_landed(&mut self, now: Instant, s: &Segment<'_>, place: &mut Place<'_>) -> bool {
        let initial = self.tcp.handle_initial(now, s.header, s.len as u32);
        match &initial {
            Initial::Payload(plan)
                if plan.in_order
                    && !plan.duplicate
                    && plan.len as usize == s.len
                    && plan.offset == self.read_offset => {}
            _ => return false,
        }
        let bytes = &mut place.memory[place.filled..place.filled + s.len];
        let verdict = if s.head.is_none_or(|head| (head + sum(self.level, bytes)).verifies()) {
            place.filled += s.len;
            self.read_offset += s.len as u64;
            self.recv_end = self.read_offset;
            Verdict::Accept { len: s.len as u32 }
        } else {
            bytes.fill(0);
            Verdict::Reject(DropCause::Checksum)
        };
        self.conclude(now, s, &initial, verdict);
        true
    }

    /// The integrated step: to the reader's memory or the ring, verified in the same pass.
    fn take(
        &mut self,
        s: &Segment<'_>,
        plan: &PayloadPlan,
        place: Option<&mut Place<'_>>,
    ) -> Verdict {
        if self.orphaned.is_some() {
            // Nobody will read it (RFC 2525, section 2.17; RFC 9293, section 3.6.1).
            self.tcp.refuse_data(s.header);
            return Verdict::Reject(DropCause::Closed);
        }
        let end = plan.offset + u64::from(plan.len);
        if plan.offset < self.read_offset || end - self.read_offset > self.recv.capacity() as u64 {
            return Verdict::Reject(DropCause::NoMemory);
        }
        let front = plan.trim_front as usize;
        let (skipped, rest) = s.payload.split_at(front);
        let (bytes, behind) = rest.split_at(plan.len as usize);
        if plan.in_order && self.recv_end <= self.read_offset && plan.offset == self.read_offset {
            self.recv.restart(plan.offset);
        }
        let direct = place.filter(|_| plan.in_order && plan.offset == self.read_offset);
        let (mut here, mut place_at) = (0, 0);
        let mut mover = Mover::new(self.level, s.head);
        mover.pass(skipped);
        let mut direct = direct;
        if let Some(place) = direct.as_deref_mut() {
            place_at = place.filled;
            here = bytes.len().min(place.memory.len() - place.filled);
            mover.copy(&bytes[..here], &mut place.memory[place_at..place_at + here]);
        }
        if here < bytes.len() {
            let (a, b) = self.recv.slices_mut(plan.offset + here as u64..end);
            let (x, y) = bytes[here..].split_at(a.len());
            mover.copy(x, a);
            mover.copy(y, b);
        }
        mover.pass(behind);
        if mover.sum.is_some_and(|sum| !sum.verifies()) {
            if let Some(place) = direct {
                place.memory[place_at..place_at + here].fill(0);
            }
            return Verdict::Reject(DropCause::Checksum);
        }
        if let Some(place) = direct {
            place.filled += here;
            self.read_offset += here as u64;
        }
        self.recv_end = self.recv_end.max(end);
        Verdict::Accept { len: plan.len }
    }

    // ---- ending

    /// The application has closed: what was written is sent, then FIN. True when nothing is left to do.
    pub fn close(&mut self, now: Instant, patience: std::time::Duration) -> bool {
        if self.tcp.state() == State::Closed {
            return true;
        }
        if self.readable() > 0 || self.tcp.state() == State::SynSent {
            // In SYN-SENT nobody knows of it (RFC 9293, section 3.10.4).
            self.tcp.abort();
        } else {
            self.tcp.finish();
        }
        self.orphaned = Some(now + patience);
        false
    }

    /// Takes what the machine tells; false when it is over.
    pub fn settle(&mut self, events: &mut Events) -> bool {
        while let Some(event) = self.tcp.poll_event() {
            match event {
                machine::Event::Established => {
                    events.add(Event::Connected);
                    if std::mem::take(&mut self.wants_room) {
                        events.add(Event::Writable);
                    }
                }
                machine::Event::Acked { .. } => {
                    self.send.free(self.tcp.snd_una_offset());
                    let room = self.room() >= self.send.capacity() / 4;
                    if self.wants_room && room && self.is_writable() {
                        self.wants_room = false;
                        events.add(Event::Writable);
                    }
                }
                machine::Event::PeerFinished { .. } => events.add(Event::PeerFinished),
                machine::Event::Urgent { .. } => events.add(Event::Urgent),
                machine::Event::Reset(cause) => {
                    self.error.get_or_insert(match cause {
                        ResetCause::Peer => Error::Reset,
                        ResetCause::Refused => Error::Refused,
                        ResetCause::Local => Error::Aborted,
                    });
                }
                machine::Event::TimedOut => {
                    self.error.get_or_insert(self.soft_error.unwrap_or(Error::TimedOut));
                }
                machine::Event::Closed => {
                    self.send.release();
                    self.over = true;
                    events.add(Event::Closed);
                }
            }
        }
        let next = self.tcp.rcv_nxt_offset();
        if next > self.reported.next {
            self.reported.next = next;
            events.add(Event::Readable);
        }
        let counters = self.tcp.counters();
        let news = Reported {
            next: self.reported.next,
            recoveries: counters.recoveries,
            timeouts: counters.timeouts,
            echoes: counters.ecn_echoes,
            marks: counters.ecn_marks,
        };
        if news != self.reported {
            self.reported = news;
            events.add(Event::Congestion);
        }
        !self.over
    }
}
