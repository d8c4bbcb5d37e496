//! A context: its state, how it begins, what can be asked of it.

use super::Header;
use super::config::Config;
use super::disputes::Said;
use super::half_open::Place;
use super::messages::Messages;
use super::rate::RateControl;
use super::receive::Receive;
use super::state::State;
use super::sync::{Sync, WTIMER_INITIAL};
use super::timers::{Timer, Timers};
use crate::challenge::{CHALLENGES_A_SECOND, Limit};
use crate::congestion::{self, Algorithm, Controller};
use crate::machine::{Counters, Event, ResetCause};
use crate::pacing::Pacer;
use crate::queue::SendQueue;
use crate::rack::{Phase, Rack};
use crate::rtt::Estimator;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Address, Diag, HEADER_LEN, Key, Limits, Service, TRAILER_LEN};

/// Bytes that may be sent before an alloc is known.
pub(super) const INITIAL_ALLOC: u64 = 16_384;
/// Smallest payload that path MTU discovery may lead to.
pub(super) const MIN_PAYLOAD: u32 = 64;
/// Bytes of an address segment within UDP, and over IPv4.
const ADDRESS_LEN: u32 = 16;
/// Bytes of FIRST before its data that DATA has not: segments within UDP, and a key.
pub(super) const FIRST_EXTRA: u32 = ADDRESS_LEN + 24 + 8;
/// Bytes of a packet's tag.
const BTAG_LEN: u32 = 8;
/// What one batch for the device carries, and the sleep that is not worth taking.
const PACING_BURST: u64 = 64 << 10;
const PACING_QUANTUM: Duration = Duration::from_millis(1);

/// TCNTLs that tell of a change, so that one of them comes.
pub(super) const TELLS: u8 = 4;

/// What names a context in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The 63 bits.
    pub key: Key,
    /// RTN: they are the receiver's.
    pub returned: bool,
}

/// A context of XTP (`docs/xtp.md`) that does no I/O, reads no clock and sees no payload byte. It is driven as
/// [`crate::machine::Connection`] says.
///
/// Positions are stream offsets. `una <= nxt <= end` and `rcv_nxt <= adv`, always.
#[derive(Debug)]
pub struct Connection {
    pub(super) state: State,
    pub(super) keys: Keys,
    /// What FIRST asks for.
    pub(super) address: Address,
    pub(super) send: Send,
    pub(super) recv: Receive,
    pub(super) sync: Sync,
    pub(super) rtt: Estimator,
    pub(super) cc: congestion::State,
    pub(super) pacer: Pacer,
    pub(super) rate: RateControl,
    pub(super) rack: Rack,
    pub(super) phase: Phase,
    pub(super) timers: Timers,
    pub(super) limit: Limit,
    pub(super) events: Pending,
    pub(super) messages: Messages,
    pub(super) half_open: Option<Place>,
    pub(super) ended_by: Option<Diag>,
    /// The peer has shown our key, or answered to its own.
    pub(super) confirmed: bool,
    /// Bytes that may be sent before the peer has shown our key.
    pub(super) credit: u64,
    pub(super) began: Instant,
    pub(super) settings: Config,
    pub(super) counters: Counters,
}

/// The names of a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub own: Key,
    pub peer: Option<Key>,
    /// What the context is known by from its beginning.
    pub first: Name,
}

/// The send half.
#[derive(Debug, Default)]
pub(super) struct Send {
    /// Everything below is acknowledged.
    pub una: u64,
    /// One past what was ever sent.
    pub nxt: u64,
    /// One past what is queued.
    pub end: u64,
    /// What lies below may be sent.
    pub alloc: u64,
    pub queue: SendQueue,
    /// Length of the open reservation, or 0.
    pub reserved: u32,
    pub max_payload: u32,
    /// The largest dlen that the peer takes.
    pub maxdata: u32,
    /// The application has finished: WCLOSE follows.
    pub finishing: bool,
    /// WCLOSE has left.
    pub wclosed: bool,
    /// The peer has acknowledged it, or reads no more.
    pub done: bool,
    /// The time of sending of the last packet: no two are alike, so that they tell the order.
    pub stamp: Instant,
    pub sent_at: Instant,
    /// When the peer last reported data that it had not reported before, or the first data left after a pause.
    pub progress_at: Instant,
    /// Retransmissions in a row of which the peer reported nothing, and when the next one may leave.
    pub fruitless: u8,
    pub resend_at: Instant,
    /// FIRST is due, whether there are data or not.
    pub first_due: bool,
    /// FIRSTs that went twice at once, and bytes of these packets.
    pub twice: usize,
    pub twice_bytes: u64,
    /// A packet with SREQ is due, whether there are data or not.
    pub ask: bool,
    /// Packets that went again in this recovery, and of which is not known that what went first had arrived.
    pub unproven: u32,
    /// When this recovery began.
    pub recovers_from: Instant,
    /// Below this no recovery is taken back: it was so of one before.
    pub undone: u64,
    /// So many of the next controls are TCNTLs: what the peer may send has changed.
    pub tells: u8,
    /// The exhausted window was asked about with DREQ.
    pub exhausted: bool,
    /// The tail was asked about since something was last delivered.
    pub probed: bool,
    /// Questions about an exhausted window in a row.
    pub persists: u8,
    pub window_limited: bool,
    pub ran_dry: bool,
    /// Most that was under way in this round, and where the round ends (RFC 7661).
    pub in_flight_max: u64,
    pub in_flight_round: u64,
    /// CXOR is agreed on.
    pub trailers: bool,
    /// Records from here on prove themselves.
    pub proves_from: Option<u64>,
    /// Tags of messages by where they begin.
    pub tags: std::collections::VecDeque<(u64, u64)>,
    /// Tag of the next message.
    pub tag: Option<u64>,
    /// Below this, things were sent over an earlier path.
    pub path_from: u64,
    /// When what has come was said to have come.
    pub said: Said,
}

/// Events not yet polled, and packets not yet sent.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub established: bool,
    pub acked: bool,
    pub finished: bool,
    pub timed_out: bool,
    pub reset: Option<ResetCause>,
    pub closed: bool,
    /// A control is owed.
    pub answer: bool,
    /// A gap has opened: ECNTL is owed.
    pub gap: bool,
    /// TCNTL is owed.
    pub traffic: bool,
    /// DIAG 7 is owed: a packet was larger than we take.
    pub too_large: bool,
    /// RCLOSE and END are to leave.
    pub end: bool,
    /// The last words of a context that is gone.
    pub last: Option<Last>,
}

/// The last packet of a context.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last {
    End,
    Diag(Diag),
}

/// Who a context is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub state: State,
    pub keys: Keys,
    pub address: Address,
    /// Where our sync begins.
    pub sync: u32,
}

/// Where the sync of the context with this key begins: at random.
pub(super) fn first_sync(own: Key) -> u32 {
    (own.bits() >> 16) as u32
}

impl Connection {
    pub(super) fn new(cfg: &Config, origin: &Origin, now: Instant) -> Connection {
        let rtt_config = crate::rtt::Config {
            rto_initial: WTIMER_INITIAL,
            rto_min: cfg.wtimer_min,
            rto_max: cfg.wtimer_max,
            ..Default::default()
        };
        let mut c = Connection {
            state: origin.state,
            keys: origin.keys,
            address: origin.address,
            send: Send {
                alloc: INITIAL_ALLOC,
                queue: SendQueue::new(cfg.max_packets_in_flight),
                maxdata: u32::MAX,
                progress_at: now,
                sent_at: now,
                first_due: origin.state == State::Opening,
                said: Said::new(origin.sync),
                ..Send::default()
            },
            recv: Receive::new(cfg, now),
            sync: Sync::new(origin.sync),
            rtt: Estimator::new(&rtt_config),
            cc: congestion::State::new(Algorithm::default(), &congestion::Config::default()),
            pacer: Pacer::new(PACING_BURST, PACING_QUANTUM),
            rate: RateControl::new(cfg.out_rate),
            rack: Rack::default(),
            phase: Phase::Open,
            timers: Timers::default(),
            limit: Limit::new(now, CHALLENGES_A_SECOND),
            events: Pending::default(),
            messages: Messages::new(cfg.messages),
            half_open: None,
            ended_by: None,
            confirmed: false,
            credit: 0,
            began: now,
            settings: cfg.clone(),
            counters: Counters::default(),
        };
        c.send.max_payload = c.payload_for(cfg.send_tpdu_len);
        c.start_controller(cfg.initial_window_packets);
        c
    }

    /// An active open over UDP: `poll_transmit` gives FIRST. `own` is drawn from a generator that nobody foretells.
    pub fn connect(cfg: &Config, own: Key, service: u16, now: Instant) -> Connection {
        Connection::connect_to(cfg, own, Address::in_udp(service), now)
    }

    /// The same, to whom an address segment names.
    pub fn connect_to(cfg: &Config, own: Key, address: Address, now: Instant) -> Connection {
        let first = Name { key: own, returned: true };
        let origin = Origin {
            state: State::Opening,
            keys: Keys { own, peer: None, first },
            address,
            sync: first_sync(own),
        };
        Connection::new(cfg, &origin, now)
    }

    /// Payload of DATA, or while nobody has answered of FIRST, in a packet of so many bytes.
    pub(super) fn payload_for(&self, tpdu_len: usize) -> u32 {
        let tpdu_len = u32::try_from(tpdu_len).unwrap_or(u32::MAX);
        let body = tpdu_len.saturating_sub(HEADER_LEN as u32).min(self.send.maxdata);
        let trailer = self.trailer_room() as u32;
        let tag = if self.settings.btag { BTAG_LEN } else { 0 };
        let (first, max) = if self.is_opening() {
            (FIRST_EXTRA - ADDRESS_LEN + self.address.emit_len() as u32, INITIAL_ALLOC as u32)
        } else {
            (0, u32::MAX)
        };
        body.saturating_sub(trailer + tag + first).min(max).max(MIN_PAYLOAD)
    }

    /// A controller begins, with a window of so many packets.
    fn start_controller(&mut self, window_packets: u32) {
        let config = congestion::Config {
            mss: self.send.max_payload,
            initial_window: window_packets,
            selective: true,
            seed: self.keys.own.bits(),
            ..congestion::Config::default()
        };
        self.cc = congestion::State::new(self.settings.congestion.unwrap_or_default(), &config);
        self.send.queue.keep_packets(self.cc.keeps_packets());
    }

    /// The congestion window, in bytes; without a controller there is none.
    pub(super) fn window(&self) -> u64 {
        if self.settings.congestion.is_some() { self.cc.window() } else { u64::MAX / 2 }
    }

    /// Nobody has answered.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening | State::Cookie)
    }

    /// The largest body that we take, rates, and the service.
    pub(super) fn limits(&self) -> Limits {
        let maxdata = self.settings.tpdu_len.saturating_sub(HEADER_LEN);
        Limits {
            maxdata: u32::try_from(maxdata).unwrap_or(u32::MAX).max(512),
            inrate: self.settings.in_rate.rate,
            inburst: self.settings.in_rate.burst,
            outrate: self.settings.out_rate.rate,
            outburst: self.settings.out_rate.burst,
        }
    }

    /// The peer's traffic segment.
    pub(super) fn take_limits(&mut self, limits: &Limits) {
        self.send.maxdata = limits.dlen_max();
        self.rate.bound(limits.inrate, limits.inburst);
        self.set_tpdu_len(self.settings.send_tpdu_len);
    }

    /// Our key and the peer's, once both are known.
    pub fn both_keys(&self) -> Option<(Key, Key)> {
        Some((self.keys.own, self.keys.peer?))
    }

    /// What we ask for.
    pub fn service(&self) -> Service {
        self.settings.service
    }

    /// The path carries so many bytes of header and body together. Never more than the peer said that it takes.
    pub fn set_tpdu_len(&mut self, bytes: usize) {
        self.settings.send_tpdu_len = bytes;
        let max_payload = self.payload_for(bytes);
        if max_payload != self.send.max_payload && self.state != State::Quiescent {
            self.send.max_payload = max_payload;
            self.cc.set_mss(max_payload);
            self.send.queue.recut(max_payload);
        }
    }

    /// The peer is reached over another path now: estimates and windows begin anew.
    pub fn path_changed(&mut self) {
        self.rtt.reset();
        self.start_controller(self.settings.initial_window_packets);
        self.pacer = Pacer::new(PACING_BURST, PACING_QUANTUM);
        self.phase = Phase::Open;
        self.send.probed = false;
        self.send.path_from = self.send.nxt;
    }

    /// What happened, oldest kind first; `None` when there is nothing new.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        use core::mem::take;
        let e = &mut self.events;
        if take(&mut e.established) {
            return Some(Event::Established);
        }
        if take(&mut e.acked) {
            return Some(Event::Acked { upto_offset: self.send.una });
        }
        if take(&mut e.finished) {
            return Some(Event::PeerFinished { offset: self.recv.nxt });
        }
        if take(&mut e.timed_out) {
            return Some(Event::TimedOut);
        }
        if let Some(cause) = e.reset.take() {
            return Some(Event::Reset(cause));
        }
        take(&mut e.closed).then_some(Event::Closed)
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// What it is known by from its beginning.
    pub fn name(&self) -> Name {
        self.keys.first
    }

    /// What else names it, once that is known: our key returned, and the peer's that is not.
    pub fn also(&self) -> Option<Name> {
        if self.keys.first.returned {
            self.keys.peer.map(|key| Name { key, returned: false })
        } else {
            Some(Name { key: self.keys.own, returned: true })
        }
    }

    /// The counters alone: cheap.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The next stream offset that the receiver waits for.
    pub fn rcv_nxt_offset(&self) -> u64 {
        self.recv.nxt
    }

    /// The stream offset that is reserved next.
    pub fn send_end_offset(&self) -> u64 {
        self.send.end
    }

    /// Everything below this stream offset of ours is acknowledged.
    pub fn snd_una_offset(&self) -> u64 {
        self.send.una
    }

    /// Bytes behind data, as long as CXOR is offered or agreed on.
    #[inline]
    pub fn trailer_room(&self) -> usize {
        if self.settings.cxor { TRAILER_LEN } else { 0 }
    }

    /// CXOR leaves behind the data of every packet from now on.
    #[inline]
    pub fn sends_trailers(&self) -> bool {
        self.send.trailers && !self.is_opening()
    }

    /// The DIAG of the peer's that ended the context.
    pub fn ended_by(&self) -> Option<Diag> {
        self.ended_by
    }

    /// When something acceptable last came from the peer. While data are under way, an answer that reports no progress
    /// does not count: questions and answers are short, so they arrive even if the path drops every data packet.
    pub fn heard_at(&self) -> Instant {
        if self.send.queue.sent() > 0 && !self.settings.noerr {
            return self.recv.heard_at.min(self.send.progress_at);
        }
        self.recv.heard_at
    }

    /// Checks what must hold between calls, by counting anew. For tests: it takes time in proportion to
    /// the queue.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn assert_invariants(&self) {
        let (s, r) = (&self.send, &self.recv);
        assert!(s.una <= s.nxt && s.nxt <= s.end, "una {} nxt {} end {}", s.una, s.nxt, s.end);
        assert!(s.nxt <= s.alloc.max(INITIAL_ALLOC) || self.settings.noflow, "beyond alloc");
        assert!(r.consumed <= r.nxt && r.nxt <= r.adv, "{} {} {}", r.consumed, r.nxt, r.adv);
        assert!(r.ranges.is_consistent(r.nxt, r.adv), "nxt {} adv {} {:?}", r.nxt, r.adv, r.ranges);
        assert!(s.queue.is_consistent());
        if self.state == State::Quiescent {
            assert!(self.poll_timeout().is_none());
        } else if self.state != State::Inactive {
            assert_eq!(s.queue.bounds().unwrap_or((s.end, s.end)), (s.una, s.end));
            let waits = s.una < s.nxt || s.wclosed && !s.done;
            let timed = [Timer::W, Timer::Tail, Timer::Reorder, Timer::Pace, Timer::Persist];
            let timed = timed.into_iter().any(|timer| self.timers.is_set(timer));
            let owed = s.ask || s.queue.lost() > 0;
            assert!(!waits || timed || owed, "in flight without a timer: {self:?}");
        }
    }

    /// The context is gone: nothing is sent any more but its last words.
    pub(super) fn enter_quiescent(&mut self) {
        self.state = State::Quiescent;
        self.timers = Timers::default();
        self.send.queue.clear();
        self.send.tags.clear();
        self.recv.release();
        self.half_open = None;
        let Pending { answer, gap, traffic, end, .. } = &mut self.events;
        (*answer, *gap, *traffic, *end) = (false, false, false, false);
        (self.send.ask, self.send.first_due) = (false, false);
        self.events.closed = true;
    }

    /// The peer violates the protocol: it is told, and the context ends.
    pub(super) fn violated(&mut self) {
        use fusewire_wire::xtp::{Code, Reason};
        let diag = Diag { code: Code::ProtocolError, reason: Reason::Unspecified };
        self.counters.drop(crate::machine::DropCause::Protocol);
        self.events.last = Some(Last::Diag(diag));
        self.events.reset = Some(ResetCause::Local);
        self.enter_quiescent();
    }

    /// Gives up.
    pub(super) fn time_out(&mut self) {
        self.events.timed_out = true;
        if self.keys.peer.is_some() {
            self.events.last = Some(Last::End);
        }
        self.enter_quiescent();
    }

    /// Ends the context at once: END where the peer may have one. An open reservation is void.
    pub fn abort(&mut self) {
        if self.state == State::Quiescent {
            return;
        }
        if self.keys.peer.is_some() && self.state != State::Inactive {
            self.events.last = Some(Last::End);
        }
        self.send.reserved = 0;
        self.events.reset = Some(ResetCause::Local);
        self.enter_quiescent();
    }

    /// Whether a packet that came another way could be the peer's. Changes nothing.
    pub fn could_be_the_peers(&self, h: &Header, payload_len: u32) -> bool {
        let is_open = matches!(self.state, State::Open | State::HalfOpen);
        is_open
            && h.returned
            && h.key == self.keys.own
            && self.sync.is_acceptable(h.sync)
            && match h.body.control() {
                Some(control) => self.control_is_acceptable(h, control).is_ok(),
                None => self.recv.is_acceptable(h.seq, h.seq + u64::from(payload_len)),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_small_and_flat() {
        println!("Connection {} B", size_of::<Connection>());
        assert!(size_of::<Connection>() <= 2640, "{}", size_of::<Connection>());
    }
}
