//! The machine that unit tests are built over: the least that carries a stream where nothing is lost or overtaken.
//! Its header is no TCP's in any respect: a key instead of ports, 64-bit numbers, another length, no pseudo-header.

use std::collections::VecDeque;

use fusewire_base::Instant;
use fusewire_transport::isn::Key;
use fusewire_transport::machine::{
    self, Again, Counters, Cut, DropCause, Event, Info, Initial, KeepAlive, ListenerAction, Note,
    PayloadPlan, Probe, Reservation, Says, Secrets, Sizes, Stage, Transmit, TransmitKind, Verdict,
};
use fusewire_wire::Error;

pub type Ends = machine::Ends<u64>;

/// What TPDUs are for. A question's or answer's number is its nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Opens a connection to a service.
    Open,
    /// Payload from this offset on.
    Data,
    /// The sender's stream ends at this offset.
    End,
    /// Everything below this was received; the end counts as one more.
    Ack,
    Abort,
    Question,
    Answer,
}

/// ```text
/// 0      8     16    17       20     22       24
/// │ key  │ at   │ kind │ 0      │ check │ service │
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Header {
    key: u64,
    at: u64,
    kind: Kind,
    service: u16,
}

impl machine::Header for Header {
    type Flow = u64;
    const LEN_MIN: usize = 24;
    const LEN_MAX: usize = 24;
    const HEADROOM: usize = 24;
    const CHECKSUM_AT: usize = 20;

    fn header_len(&self) -> usize {
        24
    }

    fn emit_len(&self) -> usize {
        24
    }

    fn emit(&self, out: &mut [u8]) -> usize {
        let out = &mut out[..24];
        out.fill(0);
        out[..8].copy_from_slice(&self.key.to_be_bytes());
        out[8..16].copy_from_slice(&self.at.to_be_bytes());
        out[16] = self.kind as u8;
        out[22..].copy_from_slice(&self.service.to_be_bytes());
        24
    }

    fn flow(&self) -> u64 {
        self.key
    }

    fn service(&self) -> Option<u16> {
        (self.kind == Kind::Open).then_some(self.service)
    }

    fn is_refusal(&self) -> bool {
        self.kind == Kind::Abort
    }

    fn refusal(&self, _: u32) -> Option<Header> {
        (self.kind != Kind::Abort).then_some(Header { kind: Kind::Abort, ..*self })
    }

    fn note(&self) -> Note {
        Note { seq: self.at as u32, flags: 1, ..Note::default() }
    }

    fn probe(&self) -> Option<Probe> {
        let says = match self.kind {
            Kind::Question => Says::Question,
            Kind::Answer => Says::Answer,
            _ => return None,
        };
        Some(Probe { says, nonce: self.at })
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    sizes: Sizes,
}

pub static SETTINGS: Settings = Settings {
    sizes: Sizes {
        tpdu_len: 1200,
        send_tpdu_len: 1200,
        recv_window: 1 << 20,
        initial_recv_window: 256 << 10,
        send_buffer: 64 << 10,
        segments: 256,
        ranges: 1,
    },
};

impl machine::Protocol for Settings {
    type Header = Header;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> &'static str {
        "toy"
    }

    fn number(&self) -> u8 {
        253
    }

    fn letters(&self) -> &'static str {
        "k"
    }

    fn sums_pseudo_header(&self) -> bool {
        false
    }

    fn parse(&self, bytes: &[u8]) -> Result<Header, Error> {
        let truncated = Error::Truncated { protocol: "toy", needed: 24, found: bytes.len() };
        let bytes: &[u8; 24] = bytes.first_chunk().ok_or(truncated)?;
        let number = |at: usize| bytes[at..at + 8].iter().fold(0, |n, b| n << 8 | u64::from(*b));
        let kinds = [
            Kind::Open,
            Kind::Data,
            Kind::End,
            Kind::Ack,
            Kind::Abort,
            Kind::Question,
            Kind::Answer,
        ];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == bytes[16]).ok_or(truncated)?;
        let service = u16::from_be_bytes([bytes[22], bytes[23]]);
        Ok(Header { key: number(0), at: number(8), kind, service })
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn set_sizes(&mut self, sizes: &Sizes) {
        self.sizes = *sizes;
    }

    fn flow_to(&self, service: u16, nth: u16, _: &Key, _: Instant) -> u64 {
        u64::from(service) << 16 | u64::from(nth)
    }

    fn connect(&self, ends: &Ends, service: u16, _: &Key, _: Instant) -> Connection {
        let open = Header { key: ends.flow, at: 0, kind: Kind::Open, service };
        let mut connection = Connection::new(ends.flow, &self.sizes, Stage::Calling);
        connection.say.push_back(open);
        connection
    }

    fn listen(&self, _: usize, _: &Secrets) -> Listener {
        Listener { sizes: self.sizes }
    }
}

#[derive(Debug)]
pub struct Listener {
    sizes: Sizes,
}

impl machine::Listener for Listener {
    type Protocol = Settings;

    fn handle_stray(
        &mut self,
        _: Instant,
        ends: &Ends,
        _: &Header,
        _: u32,
    ) -> ListenerAction<Settings> {
        ListenerAction::Accept(Box::new(Connection::new(ends.flow, &self.sizes, Stage::Open)))
    }
}

#[derive(Debug)]
pub struct Connection {
    key: u64,
    stage: Stage,
    send_buffer: u32,
    max_payload: u32,
    /// Acknowledged, and committed.
    una: u64,
    end: u64,
    /// Committed and not sent.
    queue: VecDeque<(u64, u32)>,
    reserved: u32,
    /// Received.
    nxt: u64,
    finishing: bool,
    /// Our end, and the peer's.
    ended: bool,
    peer_ended: bool,
    ack_due: bool,
    /// Headers without payload that are to leave.
    say: VecDeque<Header>,
    events: VecDeque<Event>,
    keep_alive: Option<KeepAlive>,
    heard_at: Instant,
    counters: Counters,
}

impl Connection {
    fn new(key: u64, sizes: &Sizes, stage: Stage) -> Connection {
        Connection {
            key,
            stage,
            send_buffer: sizes.send_buffer,
            max_payload: sizes.send_tpdu_len as u32 - 24,
            una: 0,
            end: 0,
            queue: VecDeque::new(),
            reserved: 0,
            nxt: 0,
            finishing: false,
            ended: false,
            peer_ended: false,
            ack_due: false,
            say: VecDeque::new(),
            events: VecDeque::new(),
            keep_alive: None,
            heard_at: Instant::ZERO,
            counters: Counters::default(),
        }
    }

    fn header(&self, kind: Kind, at: u64) -> Header {
        Header { key: self.key, at, kind, service: 0 }
    }

    fn close_when_done(&mut self) {
        if self.peer_ended && self.una == self.end + 1 && self.stage == Stage::Open {
            self.stage = Stage::Closed;
            self.events.push_back(Event::Closed);
        }
    }
}

impl machine::Connection for Connection {
    type Header = Header;

    fn handle_initial(&mut self, _: Instant, h: &Header, payload_len: u32) -> Initial {
        match (h.kind, payload_len) {
            (Kind::Data, 1..) if h.at == self.nxt => Initial::Payload(PayloadPlan {
                offset: h.at,
                len: payload_len,
                trim_front: 0,
                trim_back: 0,
                in_order: true,
                duplicate: false,
            }),
            (Kind::Data, _) => {
                self.counters.drop(DropCause::OutOfWindow);
                Initial::Drop(DropCause::OutOfWindow)
            }
            _ => Initial::Control,
        }
    }

    fn handle_final(&mut self, now: Instant, h: &Header, _: &Initial, v: Verdict, _: bool) {
        match v {
            Verdict::Reject(cause) => return self.counters.drop(cause),
            Verdict::Accept { len } | Verdict::Part { len, .. } => self.nxt += u64::from(len),
            Verdict::Control => {}
        }
        self.heard_at = now;
        self.counters.segments_received += 1;
        match h.kind {
            Kind::Open | Kind::Data => self.ack_due = true,
            Kind::End => {
                (self.ack_due, self.peer_ended) = (true, true);
                self.events.push_back(Event::PeerFinished { offset: h.at });
            }
            Kind::Ack => self.una = self.una.max(h.at),
            Kind::Abort => {
                self.stage = Stage::Closed;
                self.events.push_back(Event::Reset(machine::ResetCause::Peer));
            }
            Kind::Question | Kind::Answer => {}
        }
        match h.kind {
            Kind::Ack if self.stage == Stage::Calling => {
                self.stage = Stage::Open;
                self.events.push_back(Event::Established);
            }
            Kind::Open => self.events.push_back(Event::Established),
            Kind::Ack => {
                let upto_offset = self.una.min(self.end);
                self.events.push_back(Event::Acked { upto_offset });
            }
            _ => {}
        }
        self.close_when_done();
    }

    fn could_be_the_peers(&self, _: Instant, h: &Header, _: u32) -> bool {
        h.at == self.nxt
    }

    fn probe(&self, probe: Probe, _: u32) -> Option<Header> {
        let kind = match probe.says {
            Says::Question => Kind::Question,
            Says::Answer => Kind::Answer,
        };
        Some(self.header(kind, probe.nonce))
    }

    fn send_room(&self) -> u32 {
        let is_open = self.stage == Stage::Open && !self.finishing && self.reserved == 0;
        if is_open { self.send_buffer.saturating_sub((self.end - self.una) as u32) } else { 0 }
    }

    fn send_buffer(&self) -> u32 {
        self.send_buffer
    }

    fn max_payload(&self) -> u32 {
        self.max_payload
    }

    fn reserve(&mut self, len: u32) -> Option<Reservation> {
        (len > 0 && len <= self.send_room()).then(|| {
            self.reserved = len;
            Reservation::new(self.end, len)
        })
    }

    fn commit(&mut self, reservation: Reservation, _: Cut) {
        self.reserved = 0;
        let (mut at, end) =
            (reservation.offset(), reservation.offset() + u64::from(reservation.len()));
        while at < end {
            let len = (end - at).min(u64::from(self.max_payload)) as u32;
            self.queue.push_back((at, len));
            at += u64::from(len);
        }
        self.end = end;
    }

    fn finish(&mut self) {
        self.finishing = true;
    }

    fn abort(&mut self) {
        self.stage = Stage::Closed;
        self.say.push_back(self.header(Kind::Abort, 0));
    }

    fn consumed(&mut self, _: u64) {}

    fn widen_window(&mut self, _: u32) {}

    fn wants_ack(&self) -> bool {
        self.ack_due
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Transmit<Header>> {
        let (header, payload, kind) = if let Some(header) = self.say.pop_front() {
            (header, None, TransmitKind::Syn)
        } else if std::mem::take(&mut self.ack_due) {
            let at = self.nxt + u64::from(self.peer_ended);
            (self.header(Kind::Ack, at), None, TransmitKind::Ack)
        } else if let Some((at, len)) = self.queue.pop_front() {
            (self.header(Kind::Data, at), Some(at..at + u64::from(len)), TransmitKind::Data)
        } else if self.finishing && !std::mem::replace(&mut self.ended, true) {
            (self.header(Kind::End, self.end), None, TransmitKind::Fin)
        } else {
            return None;
        };
        self.counters.segments_sent += 1;
        Some(Transmit { header, payload, retransmission: false, kind, ecn_capable: false })
    }

    fn again(&self) -> Again {
        Again::Timeout
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn set_tpdu_len(&mut self, bytes: usize) {
        self.max_payload = bytes as u32 - 24;
    }

    fn path_changed(&mut self) {}

    fn resend_all(&mut self, _: Instant) {}

    fn outlast(&mut self, _: core::time::Duration) {}

    fn take_delivered_len(&mut self) -> u32 {
        0
    }

    fn keep_alive(&self) -> Option<KeepAlive> {
        self.keep_alive
    }

    fn set_keep_alive(&mut self, _: Instant, keep_alive: Option<KeepAlive>) {
        self.keep_alive = keep_alive;
    }

    fn heard_at(&self) -> Instant {
        self.heard_at
    }

    fn stage(&self) -> Stage {
        self.stage
    }

    fn state_name(&self) -> &'static str {
        "toy"
    }

    fn info(&self) -> Info {
        Info { unacked: self.end - self.una.min(self.end), ..Info::default() }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
