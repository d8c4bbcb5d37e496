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
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use fusewire_base::{Instant, Sum};
use fusewire_kernels::message::Marshal;
use fusewire_kernels::stage::AnyStage;
use fusewire_kernels::{Level, Transform, sum};
use fusewire_net::Via;
use fusewire_transport::machine::{
    self, Cut, DropCause, Initial, PayloadPlan, ResetCause, Verdict,
};
use fusewire_transport::tcp::{self, Connection, State, Tuple};
use fusewire_wire::tcp::Header;

use super::backlog::Backlog;
use super::config::{Error, Event, Events, Marking, Result, Sent, SocketId};
use super::mover::Mover;
use super::pieces::{BLOCK_MAX, Way, pass_in, pass_out};
use super::reader::Reader;
use super::ring::Ring;
use super::send_memory::SendMemory;
use super::sharing::Sharing;
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
    /// Who else may listen there.
    pub sharing: Sharing,
    /// A connection is there to accept when it has brought something, or after this time (`TCP_DEFER_ACCEPT`).
    pub defer: Option<Duration>,
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
    /// Bytes of the longest message that is sent whole, and that is received whole.
    message_max: [usize; 2],
    /// Bytes before the payload in the frame of the last segment that brought some; 0 when there was none.
    pub head_len: usize,
    /// One past the last byte that was written.
    send_end: u64,
    /// The listener in whose queue it waits.
    pub parent: Option<SocketId>,
    /// Until when its listener keeps it back, as long as it brings nothing.
    pub deferred: Option<Instant>,
    /// What does not fill a segment waits (`TCP_CORK`).
    pub corked: bool,
    pub marking: Marking,
    pub via: Option<Via>,
    /// Until when the peer may take to finish, once the application has closed.
    pub orphaned: Option<Instant>,
    /// The window that it had before it was held back.
    pub held_back: Option<u32>,
    /// What ended it, until it is told.
    pub error: Option<Error>,
    /// What a router said of the destination (RFC 5461): told when the connection times out.
    pub soft_error: Option<Error>,
    /// A write found no room.
    wants_room: bool,
    /// What its writer may queue.
    pub backlog: Backlog,
    pub over: bool,
    /// The peer has finished, and all before its end has come.
    has_end: bool,
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
            message_max: [config.send_buffer as usize, config.recv_window as usize],
            head_len: 0,
            send_end: 0,
            parent: None,
            deferred: None,
            corked: false,
            marking: Marking::default(),
            via: None,
            orphaned: None,
            held_back: None,
            error: None,
            soft_error: None,
            wants_room: false,
            backlog: Backlog::default(),
            over: false,
            has_end: false,
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

    /// Takes what there is room for. With [`Cut::StreamEnd`] what is written next begins a segment of its own.
    pub fn write(&mut self, bytes: &[u8], cut: Cut) -> Result<usize> {
        let Some(range) = self.place(bytes.len(), 1)? else { return Ok(0) };
        let len = (range.end - range.start) as usize;
        self.copy_in(range.start, &bytes[..len]);
        self.commit(&range, if len == bytes.len() { cut } else { Cut::Stream });
        Ok(len)
    }

    /// Takes whole blocks of what `pipeline` makes of a message, as far as there is room: it stores them, and sums each
    /// segment if somebody wants to know, in one loop.
    pub fn write_with<S: AnyStage>(&mut self, pipeline: &S, message: &[u8]) -> Result<usize> {
        let Some(range) = self.place(message.len(), S::BLOCK)? else { return Ok(0) };
        let src = &message[..(range.end - range.start) as usize];
        let (cuts, way) = (self.cuts(), Way { level: self.level, pipeline });
        let dst = self.send.slices_mut(range.clone());
        let segments = self.sums.as_mut().map(|sums| sums.segments(range.start, 0, cuts));
        pass_in(&way, src, dst, segments);
        self.commit(&range, Cut::Stream);
        Ok(src.len())
    }

    /// Takes all of a message, behind its record mark if it has one, or nothing: it is marshalled in the loop that stores
    /// it and sums each segment. Where it lies across the end of the ring it is copied there from `work`.
    ///
    /// # Errors
    /// As [`Stream::write`]; it is longer than the buffer, or gave more or fewer bytes than it had said.
    pub fn write_message<M: Marshal + ?Sized>(
        &mut self,
        passes: &mut Transform,
        work: &mut Vec<u8>,
        (mark, message): (&[u8], &M),
        cut: Cut,
    ) -> Result<bool> {
        let len = mark.len() + message.marshalled_len();
        let max = self.message_max[0];
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        let Some(range) = self.place(len, len)? else { return Ok(len == 0) };
        let (start, cuts) = (range.start, self.cuts());
        if let Some(sums) = &mut self.sums {
            // Those of a message that was given up within, by a panic.
            sums.forget(start);
        }
        let (a, b) = self.send.slices_mut(range.clone());
        let dst = if b.is_empty() {
            &mut *a
        } else {
            work.resize(work.len().max(len), 0);
            &mut work[..len]
        };
        let (front, rest) = dst.split_at_mut(mark.len());
        front.copy_from_slice(mark);
        let is_whole = match &mut self.sums {
            None => passes.send_message(&[], &[], message, rest, &mut []).is_some(),
            Some(sums) => {
                sums.add(start, cuts, mark.len(), |range| Sum::of(&mark[range]));
                let mut segments = sums.segments(start, mark.len(), cuts);
                passes.send_segments(message, rest, &mut segments)
            }
        };
        if !b.is_empty() {
            a.copy_from_slice(&work[..a.len()]);
            b.copy_from_slice(&work[a.len()..len]);
        }
        if !is_whole {
            if let Some(sums) = &mut self.sums {
                sums.forget(start);
            }
            return Err(Error::Misuse("the message gave more or fewer bytes than it had said"));
        }
        self.commit(&range, cut);
        Ok(true)
    }

    /// Takes what there is room for, and leaves it where it is until it is acknowledged; copies what is not worth
    /// that.
    pub fn write_shared(&mut self, bytes: &Bytes, cut: Cut) -> Result<usize> {
        let Some(range) = self.place(bytes.len(), 1)? else { return Ok(0) };
        let len = (range.end - range.start) as usize;
        if self.send.is_shareable(len) {
            let cuts = self.cuts();
            if let Some(sums) = &mut self.sums {
                sums.add(range.start, cuts, len, |range| sum(self.level, &bytes[range]));
            }
            self.send.share(range.start, bytes.slice(..len));
        } else {
            self.copy_in(range.start, &bytes[..len]);
        }
        self.commit(&range, if len == bytes.len() { cut } else { Cut::Stream });
        Ok(len)
    }

    /// Lets `fill` lay up to `most` bytes where they belong, in one piece or two; it says how many they were. `None`: there
    /// is no room. They are summed in a pass of their own, if somebody wants to know.
    pub fn write_from(
        &mut self,
        most: usize,
        fill: impl FnOnce([&mut [u8]; 2]) -> io::Result<usize>,
    ) -> Result<Option<io::Result<usize>>> {
        let Some(range) = self.place(most, 1)? else { return Ok(None) };
        let (cuts, level) = (self.cuts(), self.level);
        let (a, b) = self.send.slices_mut(range.clone());
        let filled = fill([&mut *a, &mut *b]).map(|len| len.min(a.len() + b.len()));
        if let Ok(len @ 1..) = filled {
            if let Some(sums) = &mut self.sums {
                let front = a.len();
                sums.add(range.start, cuts, len, |part| {
                    let (first, second) = (part.start.min(front), part.end.min(front));
                    let mut mover = Mover::new(level, Some(Sum::ZERO));
                    mover.pass(&a[first..second]);
                    mover.pass(&b[part.start.max(front) - front..part.end.max(front) - front]);
                    mover.sum.unwrap_or(Sum::ZERO)
                });
            }
            self.commit(&(range.start..range.start + len as u64), Cut::Stream);
        }
        Ok(Some(filled))
    }

    /// Copies to where the bytes from `start` on belong, and sums them in the same pass if somebody wants to know.
    fn copy_in(&mut self, start: u64, bytes: &[u8]) {
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

    /// Where up to `len` bytes that are written now belong, all or a multiple of `unit` of them; `None` when there is no
    /// room, or nothing to write. They count as written when they are committed.
    fn place(&mut self, len: usize, unit: usize) -> Result<Option<Range<u64>>> {
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
        let most = self.room().min(len);
        let room = match self.backlog.room(&self.tcp, self.send_end.max(una), most) {
            // What is not cut goes whole where a part of it would.
            1.. if unit > 1 => most,
            room => room,
        };
        let room = if room < len { room - room % unit } else { len };
        self.wants_room |= room < len;
        if room == 0 {
            return Ok(None);
        }
        if una == self.send_end {
            self.send.restart(una);
        }
        if let Some(sums) = &mut self.sums {
            sums.free(una);
        }
        Ok(Some(self.send_end..self.send_end + room as u64))
    }

    /// The bytes of a range that was given for them are written. All of what was to be is, if `cut` is
    /// [`Cut::StreamEnd`].
    fn commit(&mut self, range: &Range<u64>, cut: Cut) {
        let Some(reservation) = self.tcp.reserve((range.end - range.start) as u32) else { return };
        debug_assert_eq!(reservation.offset(), range.start);
        self.send_end = range.end;
        self.tcp.commit(reservation, cut);
        if cut == Cut::StreamEnd {
            self.backlog.close_piece();
        }
    }

    /// These bytes may still be sent: they are there, and the peer has not acknowledged all of them.
    pub fn needs(&self, range: &Range<u64>) -> bool {
        !self.over && range.end > self.tcp.snd_una_offset()
    }

    /// The sum of what waits to be acknowledged: ready, or made now.
    pub fn payload_sum(&mut self, range: &Range<u64>) -> Sum {
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

    /// A writer should be woken: a third of the send buffer is free, as on Linux.
    pub fn is_writable(&self) -> bool {
        let una = self.tcp.snd_una_offset();
        let (end, capacity) = (self.send_end.max(una), self.send.capacity() as u64);
        let is_free = (end - una) * 3 <= capacity * 2;
        is_free && self.room() > 0 && self.backlog.is_writable(&self.tcp, end)
    }

    /// What could leave has left.
    pub fn settle_backlog(&mut self, now: Instant) {
        let end = self.send_end.max(self.tcp.snd_una_offset());
        self.backlog.settle(now, &self.tcp, end);
    }

    /// Bytes that were written and not acknowledged, and bytes that nobody has read.
    pub fn waiting(&self) -> u64 {
        let unacked = self.send_end.saturating_sub(self.tcp.snd_una_offset());
        unacked + self.readable() as u64
    }

    /// The application has back what was written without a copy.
    pub fn keep_shared(&mut self) {
        self.send.keep(self.tcp.snd_una_offset());
    }

    /// How far what was written is.
    pub fn sent(&self) -> Sent {
        let acked = self.tcp.snd_una_offset();
        Sent { acked, sent: self.tcp.snd_nxt_offset(), written: self.send_end.max(acked) }
    }

    /// Bytes that were written and not sent.
    pub fn unsent(&self) -> u64 {
        self.send_end.saturating_sub(self.tcp.snd_nxt_offset())
    }

    // ---- receiving

    /// As [`Stream::read`] through `pipeline`: whole blocks, and what is left of one at the end of the stream.
    pub fn read_with<S: AnyStage>(&mut self, pipeline: &S, out: &mut [u8]) -> Result<usize> {
        // A stream that was cut off has no end: what is left of a block is none then.
        let (readable, is_last) =
            (self.readable(), self.has_end || self.peer_has_finished() && self.error.is_none());
        let mut len = readable.min(out.len());
        if S::WHOLE_BLOCKS || !is_last || len < readable {
            len -= len % S::BLOCK;
        }
        if len == 0 && is_last && 0 < readable && readable < S::BLOCK {
            return Err(Error::CutShort);
        }
        pass_out(&Way { level: self.level, pipeline }, self.peek(), &mut out[..len]);
        self.consume(len);
        Ok(len)
    }

    /// Bytes of the longest message that can wait to be whole.
    pub fn message_max(&self) -> usize {
        self.message_max[1]
    }

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

    /// Nothing follows what is there.
    pub fn peer_has_finished(&self) -> bool {
        matches!(
            self.tcp.state(),
            State::CloseWait | State::Closing | State::LastAck | State::TimeWait | State::Closed
        )
    }

    /// The peer has finished, and all was read.
    pub fn at_end(&self) -> bool {
        self.peer_has_finished() && self.readable() == 0
    }

    /// Initial, integrated and final step of a segment.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        s: &Segment<'_>,
        reader: Option<&mut dyn Reader>,
    ) -> Kind {
        let initial = self.tcp.handle_initial(now, s.header, s.len as u32);
        let verdict = match &initial {
            Initial::Drop(cause) => {
                self.trace.segment(Kind::Dropped(*cause), now, s.header, s.len as u32);
                return Kind::Dropped(*cause);
            }
            Initial::Payload(plan) if !plan.duplicate => self.take(s, plan, reader),
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

    /// The next segment could go to the reader's memory as it comes: nothing waits to be read before it, and nothing lies behind
    /// a hole.
    pub fn is_clear(&self) -> bool {
        let open =
            matches!(self.tcp.state(), State::Established | State::FinWait1 | State::FinWait2);
        let next = self.tcp.rcv_nxt_offset();
        open && self.read_offset == next && self.recv_end <= next && self.orphaned.is_none()
    }

    /// Where the payload of the next segment begins in its frame, when that segment could go to the reader's
    /// memory as it comes.
    pub fn next_head(&self) -> Option<usize> {
        (self.is_clear() && self.head_len > 0).then_some(self.head_len)
    }

    /// As [`Stream::handle_segment`] of a payload that lies where it belongs if it is the next, where `verifies` looks at it;
    /// whether it is right. `None`, and nothing was done, when it is not the next.
    pub fn handle_landed(
        &mut self,
        now: Instant,
        s: &Segment<'_>,
        verifies: impl FnOnce(Level) -> bool,
    ) -> Option<bool> {
        let initial = self.tcp.handle_initial(now, s.header, s.len as u32);
        match &initial {
            Initial::Payload(plan)
                if plan.in_order
                    && !plan.duplicate
                    && plan.len as usize == s.len
                    && plan.offset == self.read_offset => {}
            _ => return None,
        }
        let is_right = verifies(self.level);
        let verdict = if is_right {
            self.read_offset += s.len as u64;
            self.recv_end = self.read_offset;
            Verdict::Accept { len: s.len as u32 }
        } else {
            Verdict::Reject(DropCause::Checksum)
        };
        self.conclude(now, s, &initial, verdict);
        Some(is_right)
    }

    /// The integrated step: to the reader's memory or the ring, verified in the same pass.
    fn take(
        &mut self,
        s: &Segment<'_>,
        plan: &PayloadPlan,
        reader: Option<&mut dyn Reader>,
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
        // What was read up to the last block, and waits for the rest of the next.
        let kept = (plan.offset - self.read_offset) as usize;
        let mut reader = reader.filter(|reader| plan.in_order && kept < reader.block());
        let (mut here, mut mover) = (0, Mover::new(self.level, s.head));
        mover.pass(skipped);
        if let Some(reader) = reader.as_deref_mut() {
            let mut memory = [0; BLOCK_MAX];
            self.recv.copy_to(self.read_offset, &mut memory[..kept]);
            here = reader.take(&memory[..kept], bytes, &mut mover);
        }
        if here < bytes.len() {
            let (a, b) = self.recv.slices_mut(plan.offset + here as u64..end);
            let (x, y) = bytes[here..].split_at(a.len());
            mover.copy(x, a);
            mover.copy(y, b);
        }
        mover.pass(behind);
        let is_right = mover.sum.is_none_or(Sum::verifies);
        if let Some(reader) = reader {
            reader.judge(is_right);
        }
        if !is_right {
            return Verdict::Reject(DropCause::Checksum);
        }
        if here > 0 {
            self.read_offset = plan.offset + here as u64;
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
                    if self.send.free(self.tcp.snd_una_offset()) {
                        events.add(Event::Acked);
                    }
                    if self.tcp.snd_una_offset() >= self.send_end {
                        events.add(Event::Congestion);
                    }
                    if self.wants_room && self.is_writable() {
                        self.wants_room = false;
                        events.add(Event::Writable);
                    }
                }
                machine::Event::PeerFinished { .. } => {
                    self.has_end = true;
                    events.add(Event::PeerFinished);
                }
                machine::Event::Urgent { .. } => events.add(Event::Urgent),
                machine::Event::Reset(cause) => {
                    self.error.get_or_insert(match cause {
                        // As the kernel tells it; to RFC 9293 (3.10.7.4) it is "connection reset", too.
                        ResetCause::Peer if self.has_end => Error::Broken,
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
