//! One connection: a transport machine, a session, and the memory between them.
//!
//! ```text
//!  send      body ──seal──▶ SendRing ──locate──▶ device     machine: reserve, commit, poll_transmit
//!  receive   frame ──initial──▶ whole record? ──open──▶ application memory ──final──▶ machine
//!                          └──▶ piece ──sum──▶ Assembly ──final──▶ machine; open when whole
//! ```
//! A record that came as one segment is opened where it lies in the device's buffer, before the
//! transport accepts it: if sum or tag fail, the segment never came. Several in one segment: `packed`. A piece of a record is stored as
//! ciphertext and acknowledged; if the record put together fails, the connection ends (Law 3).

mod early;
mod ending;
mod packed;
mod segment;
mod sending;

pub(crate) use segment::Segment;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::Region;
use fusewire_kernels::{Found, Level};
use fusewire_session::record::{CLOSE_BODY_LEN, HEADER_LEN, OpenError};
use fusewire_session::{
    Calls, Check, Datagrams, Error as SessionError, Exporter, HANDSHAKE_LEN_MAX, Handshake,
    Marshal, Options, RecordHeader, RecordReceiver, RecordSender, RecordType, Rendezvous, Side,
    Unmarshal,
};
use fusewire_transport::machine::{
    Connection as _, Cut, DropCause, Event as Told, Header as _, Initial, PayloadPlan, ResetCause,
    Sizes, Stage, Verdict,
};

use crate::application::{Application, Destination, Keep};
use crate::assembly::Assembly;
use crate::calls::{Answer, Asked, Beside, CallId};
use crate::inbox::{Inbox, Opened};
use crate::machine::{Ends, Flow, HEADROOM, Transport, named_transport};
use crate::path::Path;
use crate::path::question::Keys;
use crate::pieces::Pieces;
use crate::send_ring::{Place, SendRing};
use crate::silence::Silence;
use crate::trace::{Kind, Trace};
use crate::{ConnectionId, Error, Fingerprint, Result};
use ending::LastWord;

/// Most bytes of handshake in one commit.
const HANDSHAKE_PIECE: usize = 1024;
/// How far an ADU may be ahead of the first that is missing or waits: bounds the inbox against a peer whose
/// indices jump. What is farther has to come again, or where its bytes were acknowledged, waits to be opened.
const INDEX_WINDOW: u64 = 1 << 16;
/// The longest record that joins others in a segment that holds it whole. A longer one has a segment of its own: its
/// header costs less than the pass for the sum that a segment of many records takes.
const PACKED_RECORD_BYTES: usize = 4 << 10;
/// A connection from which nothing has come for so long is at rest.
const REST_AFTER: Duration = Duration::from_secs(1);

/// What happened on a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete. Until `trusted`, nothing can be sent: judge `peer`, then call
    /// [`Stack::trust`](crate::Stack::trust) or [`Stack::abort`](crate::Stack::abort).
    Connected {
        /// The peer's key.
        peer: Fingerprint,
        /// Whether the configuration has judged it.
        trusted: bool,
        /// What was agreed on.
        options: Options,
    },
    /// ADUs wait for [`Stack::recv`](crate::Stack::recv), or were given to the application.
    Readable,
    /// After [`Stack::send`](crate::Stack::send) had no room: there may be room again.
    Writable,
    /// The peer has called: its request waits ([`Connection::next_call`](crate::Connection::next_call)).
    Called,
    /// A call of ours is over: [`Stack::take_answer`](crate::Stack::take_answer). Or one more may be begun.
    Answered,
    /// The peer has sent its last ADU, and says so with authentication.
    Finished,
    /// The connection is over. `None`: in order, after both sides finished.
    Closed(Option<Error>),
}

/// Receive window, and memory for pieces, as long as nobody knows who the peer is: a whole handshake.
pub const HANDSHAKE_WINDOW: u32 = HANDSHAKE_LEN_MAX as u32;

/// The session's part of a connection.
enum Phase {
    Handshake(Box<Handshake>),
    Open(Box<Open>),
    Closed,
}

struct Open {
    sender: RecordSender,
    receiver: RecordReceiver,
    peer: Fingerprint,
    options: Options,
    trusted: bool,
    /// For going on over shared memory, until it is taken.
    rendezvous: Option<Box<Rendezvous>>,
    /// For datagrams beside it, until they are taken.
    exporter: Option<(Exporter, Side)>,
}

pub(crate) struct Connection {
    pub ends: Ends,
    /// The second name that TPDUs of the peer's may have, once it is known.
    pub also: Option<Flow>,
    pub machine: Transport,
    pub ring: SendRing,
    pub path: Path,
    /// Transports that differ, as a refusal reported: the peer's and ours.
    named_transport: Option<[&'static str; 2]>,
    /// The first report that the peer's port is closed, since the peer was last heard.
    closed_since: Option<Instant>,
    /// Which of the two it is in the handshake.
    pub side: Side,
    phase: Phase,
    /// Pieces of handshake and records.
    assembly: Assembly,
    /// Stream offset where the next record in order begins, or how far the handshake was read.
    next: u64,
    /// The record at `next` is here and too far ahead of what the application has taken.
    is_held: bool,
    /// Where the peer's stream ends, said before that record was opened.
    ends_at: Option<u64>,
    /// Whole records beyond `next` that were opened already; sorted, at most `ranges`.
    ahead: VecDeque<Range<u64>>,
    sizes: Sizes,
    pub inbox: Inbox,
    /// Records that were opened from a segment when the application had enough, before the segment was accepted.
    opened_before: Range<u64>,
    /// The record being put together, when it does not lie in one piece.
    joined: Vec<u8>,
    handshake_out: Vec<u8>,
    /// Stream bytes that need no memory any more. Counted, not a place: what is held stays within the
    /// window also when ADUs are consumed out of order.
    consumed: u64,
    /// Of ADUs that wait, bytes that are counted there already.
    counted: u64,
    /// ADUs that the handshake did not take along, to be sealed before all others.
    left: VecDeque<Vec<u8>>,
    /// The peer's end-of-stream record came.
    peer_ended: bool,
    /// The code that the peer's application gave the connection up with.
    peer_code: Option<u64>,
    /// `finish` was called.
    finishing: bool,
    /// Ours gave it up with this code.
    closing: Option<u64>,
    last_word: LastWord,
    /// `send` had no room for so many bytes.
    pub wants_room: Option<usize>,
    /// ADUs were delivered since the last look.
    news: bool,
    pub events: VecDeque<Event>,
    /// In the list of connections that have something to transmit.
    pub is_dirty: bool,
    /// In the list of connections with events.
    pub is_eventful: bool,
    /// In the list of connections in TIME-WAIT.
    pub is_waiting: bool,
    /// Counted as one of which nobody waits for anything.
    pub is_counted_done: bool,
    /// Records that wait share segments.
    pub packs: bool,
    /// Records without tags leave without any check, and are taken so.
    pub unchecked: bool,
    /// In the list of connections that owe acknowledgements.
    pub is_owing: bool,
    /// The device takes the ring's memory itself.
    pub is_taken: bool,
    /// Bytes sealed since the last transmission, with room for headers.
    unflushed: u32,
    /// Bytes of the record that was sealed last.
    last_record: u32,
    /// The handshake must be complete by then.
    pub handshake_deadline: Option<Instant>,
    /// What is over for the application tells the peer so until then.
    pub told_until: Option<Instant>,
    /// How long the peer may be silent, once that is agreed on.
    pub silence: Option<Silence>,
    closed: bool,
    /// When the last segment came.
    now: Instant,
    level: Level,
    /// What it did last.
    pub trace: Trace,
    /// Calls beside its stream, once there is a session for them.
    pub calls: Option<Box<Beside>>,
}

impl Connection {
    pub fn new(
        ends: Ends,
        machine: Transport,
        handshake: Handshake,
        path: Path,
        ring: Region,
        sizes: Sizes,
        level: Level,
    ) -> Self {
        let ring = SendRing::new(ring, sizes.segments, machine.trailer_room());
        Connection {
            ends,
            also: None,
            machine,
            ring,
            path,
            side: handshake.side(),
            named_transport: None,
            closed_since: None,
            phase: Phase::Handshake(Box::new(handshake)),
            assembly: Assembly::new(HANDSHAKE_WINDOW as usize, sizes.ranges),
            next: 0,
            is_held: false,
            ends_at: None,
            ahead: VecDeque::new(),
            sizes,
            inbox: Inbox::default(),
            opened_before: 0..0,
            joined: Vec::new(),
            handshake_out: Vec::new(),
            consumed: 0,
            counted: 0,
            left: VecDeque::new(),
            peer_ended: false,
            peer_code: None,
            finishing: false,
            closing: None,
            last_word: LastWord::default(),
            wants_room: None,
            news: false,
            events: VecDeque::new(),
            is_dirty: false,
            is_eventful: false,
            is_waiting: false,
            is_counted_done: false,
            packs: true,
            unchecked: false,
            is_owing: false,
            is_taken: false,
            unflushed: 0,
            last_record: 0,
            handshake_deadline: None,
            told_until: None,
            silence: None,
            closed: false,
            now: Instant::ZERO,
            level,
            trace: Trace::default(),
            calls: None,
        }
    }

    // ---- receive ---------------------------------------------------------------------------

    /// Initial, integrated and final step for one segment. `None`: it holds several records, `app` has enough before the
    /// last, and the segment is to come again.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        id: ConnectionId,
        segment: &Segment<'_>,
        app: &mut dyn Application,
    ) -> Option<Kind> {
        self.now = now;
        let len = segment.payload.len() as u32;
        let initial = self.machine.handle_initial(now, segment.header, len);
        let verdict = match &initial {
            Initial::Drop(cause) => {
                self.trace.segment(Kind::Dropped(*cause), now, segment.header, len);
                return Some(Kind::Dropped(*cause));
            }
            Initial::Payload(plan) if !plan.duplicate => {
                self.take_payload(id, segment, plan, app)?
            }
            _ if segment.verifies(self.level) => Verdict::Control,
            _ => Verdict::Reject(DropCause::Checksum),
        };
        let kind = Kind::of(&initial, &verdict);
        self.trace.segment(kind, now, segment.header, len);
        self.machine.handle_final(now, segment.header, &initial, verdict, segment.marked);
        if segment.header.is_refusal() && self.machine.stage() == Stage::Closed {
            self.named_transport = named_transport(segment.header, segment.payload);
        }
        Some(kind)
    }

    /// The integrated step: opens a whole record or several, or stores a piece.
    fn take_payload(
        &mut self,
        id: ConnectionId,
        segment: &Segment<'_>,
        plan: &PayloadPlan,
        app: &mut dyn Application,
    ) -> Option<Verdict> {
        // Behind a hole a tag alone tells a record from what looks like one within a longer record.
        if let (Phase::Open(open), true) = (&self.phase, plan.is_whole())
            && (plan.offset == self.next
                || plan.offset > self.next && open.receiver.overhead() > HEADER_LEN)
        {
            match packed::whole_record(&open.receiver, plan.offset, segment.payload) {
                Some(packed::Whole::One(header)) => {
                    return Some(self.take_record(id, segment, plan.offset, header, app));
                }
                Some(packed::Whole::Many) => {
                    return self.take_records(id, segment, plan.offset, app);
                }
                None => {}
            }
        }
        Some(self.take_piece(id, segment, plan, app))
    }

    /// One segment is one record: the fast path. It may lie beyond a hole: that it opens at this
    /// offset proves that a record begins here.
    fn take_record(
        &mut self,
        id: ConnectionId,
        segment: &Segment<'_>,
        offset: u64,
        header: RecordHeader,
        app: &mut dyn Application,
    ) -> Verdict {
        if !self.has_range_for(offset) {
            return Verdict::Reject(DropCause::TooManyRanges);
        }
        let len = segment.payload.len();
        let opened = if self.finds(segment.check()) {
            let check = (segment.check(), |found| segment.verifies_with(found));
            self.open(id, offset, segment.payload, header, app, check)
        } else if segment.verifies(self.level) {
            self.open(id, offset, segment.payload, header, app, VERIFIED)
        } else {
            Err(DropCause::Checksum)
        };
        if let Err(cause) = opened {
            return Verdict::Reject(cause);
        }
        self.opened(id, offset..offset + len as u64, app);
        Verdict::Accept { len: len as u32 }
    }

    /// The loop that opens a record finds that of it: all but CXOR beside a tag, which no peer of ours sends.
    #[inline]
    fn finds(&self, check: Check) -> bool {
        check != Check::Cxor
            || matches!(&self.phase, Phase::Open(open) if open.receiver.overhead() == HEADER_LEN)
    }

    /// What begins at `offset` comes in order, or there is memory for that it was opened.
    fn has_range_for(&self, offset: u64) -> bool {
        offset == self.next || self.ahead.len() < self.sizes.ranges
    }

    /// The records of this range were opened.
    fn opened(&mut self, id: ConnectionId, range: Range<u64>, app: &mut dyn Application) {
        if range.start != self.next {
            let at = self.ahead.partition_point(|r| r.start < range.start);
            self.ahead.insert(at, range);
            return;
        }
        self.next = range.end;
        if !self.ahead.is_empty() || !self.assembly.is_empty() {
            self.advance(id, app);
        }
    }

    /// Opens a whole record into the application's memory or the inbox. `is_right` judges what the check function
    /// finds.
    fn open(
        &mut self,
        id: ConnectionId,
        offset: u64,
        record: &[u8],
        header: RecordHeader,
        app: &mut dyn Application,
        (check, is_right): (Check, impl FnOnce(Found) -> bool),
    ) -> std::result::Result<(), DropCause> {
        let Phase::Open(open) = &mut self.phase else { return Err(DropCause::Closed) };
        if self.opened_before.contains(&offset) {
            // The application has it, though the transport has not.
            let found = check.of(self.level, record);
            return if is_right(found) { Ok(()) } else { Err(DropCause::Checksum) };
        }
        if self.inbox.distance(header.index) > INDEX_WINDOW {
            return Err(DropCause::NoMemory);
        }
        let receiver = &mut open.receiver;
        receiver.set_check(check);
        let opened = self.inbox.open(id, &header, app, |to| match to {
            Destination::Bytes(dst) => open_bytes(receiver, offset, record, dst, is_right),
            Destination::Message(into) => open_message(receiver, offset, record, into, is_right),
        });
        match opened {
            Err((cause, error)) => {
                if let Some(error) = error.filter(SessionError::is_fatal) {
                    self.fail(error.into());
                }
                return Err(cause);
            }
            // Counted when it is taken.
            Ok(Opened::Waits) => {}
            Ok(opened) => {
                self.consumed += record.len() as u64;
                self.peer_ended |= opened == Opened::End;
                if let Opened::Close(code) = opened {
                    self.peer_code = Some(code);
                }
            }
        }
        self.news |= header.kind == RecordType::Adu;
        Ok(())
    }

    /// Stores ciphertext whose record is not whole in this segment.
    fn take_piece(
        &mut self,
        id: ConnectionId,
        segment: &Segment<'_>,
        plan: &PayloadPlan,
        app: &mut dyn Application,
    ) -> Verdict {
        let check = segment.check();
        if check == Check::None {
            // No tag tells a piece that came as it left.
            return Verdict::Reject(DropCause::Checksum);
        }
        let (front, rest) = segment.payload.split_at(plan.trim_front as usize);
        let (piece, back) = rest.split_at(plan.len as usize);
        // Records that came whole went by without it.
        self.assembly.advance(self.next);
        let range = plan.offset..plan.offset + u64::from(plan.len);
        let Some((first, second)) = self.assembly.room(&range) else {
            return Verdict::Reject(DropCause::NoMemory);
        };
        // Nobody looks at what lies there before it is added.
        let (to_first, to_second) = piece.split_at(first.len());
        let found = Pieces::new(check)
            .read(self.level, front)
            .copy(self.level, to_first, first)
            .copy(self.level, to_second, second)
            .read(self.level, back)
            .found();
        // Where the cuts lie within words, CXOR takes a pass of its own.
        let is_right = match found {
            Found::Nothing => segment.verifies(self.level),
            found => segment.verifies_with(found),
        };
        if !is_right {
            return Verdict::Reject(DropCause::Checksum);
        }
        self.assembly.add(range);
        self.advance(id, app);
        Verdict::Accept { len: plan.len }
    }

    /// Takes in order whatever is whole: handshake bytes, records from the assembly, records opened before.
    fn advance(&mut self, id: ConnectionId, app: &mut dyn Application) {
        loop {
            while self.ahead.front().is_some_and(|r| r.start == self.next) {
                self.next = self.ahead.pop_front().map_or(self.next, |r| r.end);
            }
            let took = match &self.phase {
                Phase::Handshake(_) => self.advance_handshake(id, app),
                Phase::Open(_) => self.advance_record(id, app),
                Phase::Closed => false,
            };
            if !took {
                break;
            }
        }
        self.assembly.advance(self.next);
    }

    fn advance_handshake(&mut self, id: ConnectionId, app: &mut dyn Application) -> bool {
        let Phase::Handshake(handshake) = &mut self.phase else { return false };
        let available = self.assembly.available(self.next);
        if available == 0 {
            return false;
        }
        self.joined.resize(available, 0);
        self.assembly.copy(self.next, &mut self.joined);
        match handshake.read(&self.joined) {
            Ok(taken) => {
                self.next += taken as u64;
                self.consumed += taken as u64;
                self.flush_session();
                self.poll_handshake(id, app);
                // What is left belongs to records.
                matches!(self.phase, Phase::Open(_))
            }
            Err(error) => {
                // The peer shall learn why: an alert or a refusal, then the end. What keeps the connection
                // open longer than a handshake may take is reset.
                self.flush_session();
                self.machine.finish();
                self.close(Some(error.into()));
                false
            }
        }
    }

    /// Becomes open when the handshake is complete and its last bytes are on their way.
    fn poll_handshake(&mut self, id: ConnectionId, app: &mut dyn Application) {
        let Phase::Handshake(handshake) = &mut self.phase else { return };
        let side = handshake.side();
        let Some(mut established) = handshake.poll() else { return };
        let early = std::mem::take(&mut established.early);
        self.path.open(Keys::new(&established.exporter, side));
        let (sender, receiver) = (&established.sender, &established.receiver);
        let calls = Calls::new(&established.exporter, side, sender, receiver);
        self.calls = calls.ok().map(|keys| Box::new(Beside::new(keys)));
        let open = Open {
            sender: established.sender,
            receiver: established.receiver,
            peer: established.peer,
            options: established.options,
            trusted: established.trusted,
            rendezvous: established.rendezvous,
            exporter: Some((established.exporter, side)),
        };
        // Records without tags do not, but if both sides say that nothing need prove them.
        if open.receiver.overhead() > HEADER_LEN || self.unchecked {
            self.machine.proves_from(open.sender.next_offset(), open.receiver.start_offset());
        }
        let (peer, trusted, options) = (open.peer, open.trusted, open.options);
        self.events.push_back(Event::Connected { peer, trusted, options });
        self.handshake_deadline = None;
        let idle_timeout = open.options.idle_timeout;
        self.silence = idle_timeout.map(|t| Silence::agreed(&mut self.machine, self.now, t));
        // The peer is known and may fill more memory. It hears so at once, lest it wait for a probe.
        self.assembly.widen(self.sizes.recv_window as usize);
        self.machine.widen_window(self.sizes.initial_recv_window);
        self.phase = Phase::Open(Box::new(open));
        match side {
            Side::Client => {
                self.left = early.into();
                self.send_left();
            }
            Side::Server => self.take_early(id, early, app),
        }
    }

    /// Opens the record at `next` if all of it is there, and the application near it. A failure ends the connection: its
    /// bytes were acknowledged.
    fn advance_record(&mut self, id: ConnectionId, app: &mut dyn Application) -> bool {
        let Phase::Open(open) = &self.phase else { return false };
        let available = self.assembly.available(self.next);
        if available < HEADER_LEN {
            return false;
        }
        let mut first = [0; HEADER_LEN];
        self.assembly.copy(self.next, &mut first);
        let header = match open.receiver.header(self.next, &first) {
            Ok(header) => header,
            Err(error) => {
                self.fail(error.into());
                return false;
            }
        };
        let len = open.receiver.record_len(&header);
        if available < len {
            return false;
        }
        // All before it were opened. Where none of them waits, it is not the application that is behind.
        self.is_held = self.inbox.distance(header.index) > INDEX_WINDOW && self.inbox.has_waiting();
        if self.is_held {
            return false;
        }
        let range = self.next..self.next + len as u64;
        // Each piece's sum was verified when it came.
        let assembly = std::mem::take(&mut self.assembly);
        let opened = match assembly.piece(&range) {
            Some(record) => self.open(id, range.start, record, header, app, VERIFIED),
            None => {
                let mut record = std::mem::take(&mut self.joined);
                record.resize(len, 0);
                assembly.copy(range.start, &mut record);
                let opened = self.open(id, range.start, &record, header, app, VERIFIED);
                self.joined = record;
                opened
            }
        };
        self.assembly = assembly;
        match opened {
            Ok(()) => {
                self.next += len as u64;
                true
            }
            Err(_) => {
                self.fail(SessionError::NotAuthentic { offset: self.next }.into());
                false
            }
        }
    }

    /// What names it.
    pub fn flows(&self) -> impl Iterator<Item = Flow> + use<> {
        std::iter::once(self.ends.flow).chain(self.also)
    }

    // ---- calls -----------------------------------------------------------------------------

    /// The calls of this connection, if it can make any.
    pub fn calls_to_make(&mut self) -> Result<&mut Beside> {
        match &self.phase {
            Phase::Open(open) if !open.trusted => return Err(Error::Untrusted(open.peer)),
            Phase::Open(_) if !self.closed => {}
            _ => return Err(Error::Closed),
        }
        let none = Error::Misuse("calls need a cipher that authenticates");
        self.calls.as_deref_mut().ok_or(none)
    }

    /// The peer asks. False when its request is not taken.
    pub fn called(&mut self, asked: Asked, request: Vec<u8>) -> bool {
        let taken = self.calls_to_make().is_ok_and(|calls| calls.ask(asked, request));
        if taken {
            self.events.push_back(Event::Called);
        }
        taken
    }

    /// What became of a call.
    pub fn answered(&mut self, call: CallId, answer: Answer) {
        if let Some(calls) = &mut self.calls {
            calls.answered(call, answer);
            self.events.push_back(Event::Answered);
        }
    }

    // ---- events ----------------------------------------------------------------------------

    /// Takes over what the transport has to tell. True when acknowledged memory was freed.
    pub fn poll_transport(&mut self) {
        self.machine.consumed(self.consumed);
        self.note_delivered(self.now);
        while let Some(event) = self.machine.poll_event() {
            match event {
                Told::Established => self.flush_session(),
                Told::Acked { upto_offset } => {
                    self.ring.acknowledge(upto_offset);
                    self.last_word.acked = upto_offset;
                    let ends = self.finishing || self.closing.is_some();
                    if ends || !self.handshake_out.is_empty() || !self.left.is_empty() {
                        self.flush_session();
                    }
                    if self.wants_room.take().is_some() {
                        self.events.push_back(Event::Writable);
                    }
                }
                Told::PeerFinished { offset } => self.peer_finished(offset),
                Told::Urgent { .. } => {}
                Told::Reset(ResetCause::Refused) => self.fail(self.refused()),
                Told::Reset(ResetCause::Peer) => self.peer_reset(),
                Told::Reset(ResetCause::Local) => self.fail(Error::Closed),
                Told::TimedOut => self.fail(Error::TimedOut(self.ends.remote)),
                Told::Closed => self.transport_closed(),
            }
        }
        // What came behind a hole makes room, too.
        if self.wants_room.is_some_and(|len| self.has_room(len)) {
            self.wants_room = None;
            self.events.push_back(Event::Writable);
        }
        if self.machine.stage() == Stage::Lingering && !self.is_held {
            self.linger();
        }
        if std::mem::take(&mut self.news) {
            self.events.push_back(Event::Readable);
        }
    }

    /// Accepts the peer's key.
    pub fn trust(&mut self) {
        if let Phase::Open(open) = &mut self.phase {
            open.trusted = true;
        }
    }

    /// What seals and opens datagrams beside the stream; once.
    pub fn take_datagrams(&mut self) -> Option<Datagrams> {
        let Phase::Open(open) = &mut self.phase else { return None };
        let (exporter, side) = if open.trusted { open.exporter.take()? } else { return None };
        let data_pass = open.sender.params().data_pass;
        Datagrams::new(&exporter, side, &open.options, data_pass).ok()
    }

    /// What the session can go on with over shared memory; once.
    pub fn take_rendezvous(&mut self) -> Option<Rendezvous> {
        let Phase::Open(open) = &mut self.phase else { return None };
        if open.trusted { open.rendezvous.take().map(|r| *r) } else { None }
    }

    /// The peer's key and what was agreed on, once the handshake is complete.
    pub fn session(&self) -> Option<(Fingerprint, Options)> {
        match &self.phase {
            Phase::Open(open) => Some((open.peer, open.options)),
            _ => None,
        }
    }

    /// The longest body whose record is one segment now, and the longest that the peer takes at all.
    pub fn adu_len(&self) -> Option<(usize, usize)> {
        let Phase::Open(open) = &self.phase else { return None };
        let max = body_len_max(open, &self.ring, &self.machine);
        let fitting =
            open.sender.body_len_fitting(self.machine.max_payload() as usize).unwrap_or(0);
        Some((fitting.min(max), max))
    }

    /// The application took an ADU of `len` bytes out of the inbox.
    pub fn took(&mut self, id: ConnectionId, len: usize) {
        if let Phase::Open(open) = &self.phase {
            let header = RecordHeader { kind: RecordType::Adu, body_len: len as u32, index: 0 };
            let len = open.receiver.record_len(&header) as u64;
            let counted = len.min(self.counted);
            self.counted -= counted;
            self.consumed += len - counted;
            // Before the next transmission, so that it tells the peer of the larger window.
            self.machine.consumed(self.consumed);
        }
        if std::mem::take(&mut self.is_held) {
            self.advance(id, &mut Keep);
            if let Some(offset) = self.ends_at.take() {
                self.peer_finished(offset);
            }
        }
    }
}

/// For a record of which the check is known to be right.
const VERIFIED: (Check, fn(Found) -> bool) = (Check::None, |_| true);

/// Why a record was not opened, and what the session says to that if the sum was right.
type NotOpened = (DropCause, Option<SessionError>);

fn open_bytes(
    receiver: &mut RecordReceiver,
    offset: u64,
    record: &[u8],
    dst: &mut [u8],
    is_right: impl FnOnce(Found) -> bool,
) -> std::result::Result<(), NotOpened> {
    let result = receiver.open(offset, record, dst);
    let found = match &result {
        Ok(opened) => opened.sum,
        Err(error) => error.sum,
    };
    match (result, is_right(found)) {
        (Ok(_), true) => Ok(()),
        (Ok(_), false) => {
            // Authentic, but the sum is not: the header was corrupted on its way.
            dst.fill(0);
            Err((DropCause::Checksum, None))
        }
        (Err(_), false) => Err((DropCause::Checksum, None)),
        (Err(error), true) => Err((DropCause::Tag, Some(error.error))),
    }
}

/// As `open_bytes`, unmarshalled in the pass.
fn open_message(
    receiver: &mut RecordReceiver,
    offset: u64,
    record: &[u8],
    into: &mut dyn Unmarshal,
    is_right: impl FnOnce(Found) -> bool,
) -> std::result::Result<(), NotOpened> {
    // The receiver asks about the sum of what is authentic alone.
    let (mut judge, mut verdict) = (Some(is_right), None);
    let result = receiver.open_message(offset, record, into, |found| {
        *verdict.insert(judge.take().is_some_and(|judge| judge(found)))
    });
    let Err(OpenError { sum, error }) = result else { return Ok(()) };
    match verdict.or_else(|| judge.map(|judge| judge(sum))) {
        Some(true) => Err((DropCause::Tag, Some(error))),
        _ => Err((DropCause::Checksum, None)),
    }
}

/// The longest body that our own memory can hold, and the peer takes.
fn body_len_max(open: &Open, ring: &SendRing, machine: &Transport) -> usize {
    let longest = ring.longest().min(machine.send_buffer() as usize);
    open.sender.body_len_fitting(longest).unwrap_or(0)
}
