//! The connection's state, how it begins, and what can be asked of it.

use super::config::Config;
use super::info::Stopwatch;
use super::options::Cork;
use super::recovery::{TailLossProbe, Undo};
use super::state::State;
use super::timers::Timers;
use super::window::Receive;
use crate::challenge::{CHALLENGES_A_SECOND, Limit};
use crate::congestion::{self, Algorithm, Controller};
use crate::ecn::Ecn;
use crate::isn::Start;
use crate::machine::{Counters, Event, ResetCause};
use crate::pacing::Pacer;
use crate::queue::{Segment, SendQueue, flag};
use crate::rack::{Phase, Rack};
use crate::rtt::Estimator;
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_wire::tcp::Header;

/// Smallest segment payload that path MTU discovery may lead to.
pub const MIN_PAYLOAD: u32 = 64;
/// Bytes that the timestamps option takes from each segment.
pub(super) const TIMESTAMPS_LEN: u16 = 12;
/// Largest window shift (RFC 7323, section 2.3).
const MAX_SHIFT: u8 = 14;
/// What one batch for the device carries, and the sleep that is not worth taking.
const PACING_BURST: u64 = 64 << 10;
const PACING_QUANTUM: Duration = Duration::from_millis(1);

/// A TCP connection (RFC 9293) that does no I/O, reads no clock and sees no payload byte.
///
/// How to drive it:
/// - A segment came: [`handle_initial`](Self::handle_initial) says where its payload goes; do the integrated
///   step; [`handle_final`](Self::handle_final) with its verdict. After a batch of segments call
///   `poll_transmit` until it gives nothing: that is when acknowledgements are made, one for a batch.
/// - To send: [`reserve`](Self::reserve) a range of offsets, write its bytes, [`commit`](Self::commit), then
///   [`poll_transmit`](Self::poll_transmit). The bytes stay where they are until
///   [`Event::Acked`] lies above them.
/// - After any of these ask [`poll_event`](Self::poll_event) until it gives nothing, and
///   [`poll_timeout`](Self::poll_timeout) for when to call [`handle_timeout`](Self::handle_timeout).
///
/// Positions inside are 64-bit: 0 is SYN, 1 + n is the stream offset n, FIN follows the last byte.
/// `snd_una <= snd_nxt <= end` and `rcv_nxt <= adv`, always.
///
/// Its size is under 2 KiB (a test says so), and 24 bytes more for each segment that was ever queued at
/// once, 16 for each range received beyond a hole. Rings grow no further than [`Config`] says.
#[derive(Debug)]
pub struct Connection {
    pub(super) state: State,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    pub(super) send: Send,
    pub(super) recv: Receive,
    pub(super) ts: Timestamps,
    pub(super) ecn: Ecn,
    pub(super) rtt: Estimator,
    pub(super) cc: congestion::State,
    pub(super) pacer: Pacer,
    pub(super) rack: Rack,
    pub(super) tlp: TailLossProbe,
    pub(super) phase: Phase,
    pub(super) undo: Undo,
    pub(super) timers: Timers,
    pub(super) challenge: Limit,
    pub(super) events: Pending,
    /// As it was told, but for what may change: what was offered and is wanted by both (`sack`, `ecn`), what the
    /// path carries (`send_mss`), and what the application sets.
    pub(super) settings: Config,
    pub(super) counters: Counters,
    pub(super) stopwatch: Stopwatch,
}

/// The send half.
#[derive(Debug, Default)]
pub(super) struct Send {
    /// Initial sequence number (ISS).
    pub iss: Seq,
    /// SND.UNA.
    pub una: u64,
    /// SND.NXT: one past what was ever sent.
    pub nxt: u64,
    /// One past what is queued.
    pub end: u64,
    /// SND.WND in bytes.
    pub wnd: u32,
    /// Largest window that the peer ever offered.
    pub wnd_max: u32,
    /// SND.WL1 and SND.WL2.
    pub wl1: u64,
    pub wl2: u64,
    pub queue: SendQueue,
    /// Length of the open reservation, or 0.
    pub reserved: u32,
    pub max_payload: u32,
    /// What the peer can receive in one segment.
    pub max_payload_peer: u32,
    /// SND.UP, or 0.
    pub urgent: u64,
    /// Where the peer's window is to be shifted left.
    pub shift: u8,
    pub fin_queued: bool,
    /// The congestion window was what stopped the last `poll_transmit`.
    pub window_limited: bool,
    /// Retransmission timeouts in a row.
    pub timeouts: u8,
    /// Duplicate acknowledgements in a row, from a peer without SACK.
    pub duplicate_acks: u32,
    /// When SND.UNA last moved, or data first went out after that.
    pub progress_at: Instant,
    /// When data last went out.
    pub sent_at: Instant,
    /// A probe that a timer asked for.
    pub probe: Probe,
    /// There was nothing more to send when the window had room.
    pub ran_dry: bool,
    /// Unanswered zero-window or keep-alive probes.
    pub probes: u8,
    /// Why a segment that is not full waits.
    pub cork: Cork,
    /// Segments of the burst that is leaving, and where it ends so far.
    pub burst: u32,
    pub burst_end: u64,
    /// Bytes that duplicate acknowledgements of a peer without SACK stood for.
    pub duplicate_bytes: u64,
    /// Most that was under way in this round, and where the round ends (RFC 7661).
    pub in_flight_max: u64,
    pub in_flight_round: u64,
    /// One past what leaves whether it fills a segment or not.
    pub pushed: u64,
    /// Bytes at the end that the application says are followed by more: [`Cork::more`] does not hold back what lies before them.
    pub followed: u32,
    /// Below this, things were sent over an earlier path.
    pub path_from: u64,
}

/// A segment that a timer asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Probe {
    #[default]
    None,
    /// An old sequence number without payload: keep-alive and zero-window probe.
    Empty,
    /// New data beyond the congestion window, or the last segment again (RFC 8985, section 7.3).
    TailLoss,
    /// A part of a segment that does not fit into a small window (RFC 9293, section 3.8.6.2.1).
    SmallWindow,
}

/// Timestamps (RFC 7323).
#[derive(Debug, Default)]
pub(super) struct Timestamps {
    pub enabled: bool,
    /// Each connection's clock starts elsewhere, so that it does not tell how long the host is up.
    pub offset: u32,
    /// TS.Recent.
    pub recent: u32,
    pub recent_at: Instant,
}

/// Events not yet polled, and a reset not yet sent.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub established: bool,
    pub acked: bool,
    pub finished: bool,
    pub urgent: bool,
    pub timed_out: bool,
    pub reset: Option<ResetCause>,
    pub closed: bool,
    /// RST to send: its sequence number, and its acknowledgement number if it has one.
    pub send_reset: Option<(Seq, Option<Seq>)>,
    /// A challenge or another acknowledgement that must leave now.
    pub send_ack: bool,
}

/// What the peer's SYN said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub irs: Seq,
    pub window: u16,
    pub mss: u16,
    pub window_scale: Option<u8>,
    /// The peer's timestamp value.
    pub timestamp: Option<u32>,
    pub sack: bool,
    pub ecn: bool,
    pub user_timeout: Option<Duration>,
}

/// Longest user timeout that a peer can make us wait (U_LIMIT of RFC 5482, section 3.1).
const USER_TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// The user timeout option's field: seconds, or minutes with the granularity bit.
pub(super) fn user_timeout_field(timeout: Duration) -> u16 {
    let seconds = timeout.as_secs().max(1);
    if seconds < 1 << 15 { seconds as u16 } else { (seconds / 60).min(0x7fff) as u16 | 0x8000 }
}

fn user_timeout_of(field: u16) -> Option<Duration> {
    let value = u64::from(field & 0x7fff);
    let seconds = if field & 0x8000 != 0 { value * 60 } else { value };
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

impl Offer {
    /// From a SYN; `ecn` is what its flags say about ECN, which differs with ACK.
    pub fn from_syn(h: &Header, ecn: bool, default_mss: u16) -> Offer {
        let o = &h.options;
        Offer {
            irs: h.seq,
            window: h.window,
            mss: o.mss.unwrap_or(default_mss),
            window_scale: o.window_scale.map(|s| s.min(MAX_SHIFT)),
            timestamp: o.timestamps.map(|t| t.0),
            sack: o.sack_permitted,
            ecn,
            user_timeout: o.user_timeout.and_then(user_timeout_of),
        }
    }
}

impl Connection {
    /// An active open: `poll_transmit` gives the SYN. `start` comes from [`crate::isn`].
    pub fn connect(
        cfg: &Config,
        local_port: u16,
        remote_port: u16,
        start: Start,
        now: Instant,
    ) -> Connection {
        let mut c = Connection::new(cfg, (local_port, remote_port), start, now);
        c.state = State::SynSent;
        c
    }

    /// A passive open whose SYN-ACK has been sent: the listener's. The segment that completes the
    /// handshake is still to be handed in.
    pub(super) fn accept(
        cfg: &Config,
        ports: (u16, u16),
        start: Start,
        offer: &Offer,
        now: Instant,
    ) -> Connection {
        let mut c = Connection::new(cfg, ports, start, now);
        c.state = State::SynReceived;
        c.send.nxt = 1;
        c.send.queue.mark_sent(now, false);
        c.apply_offer(offer, now);
        c.arm_rto(now);
        c
    }

    /// The SYN-ACK was sent again when its timer fired.
    pub(super) fn handshake_timed_out(&mut self, now: Instant) {
        self.forget_handshake_time(now);
        self.rtt.back_off();
    }

    /// The SYN-ACK was sent more than once, or nobody knows when: its acknowledgement is no sample.
    pub(super) fn forget_handshake_time(&mut self, now: Instant) {
        self.send.queue.mark_resent(0, now);
    }

    fn new(cfg: &Config, ports: (u16, u16), start: Start, now: Instant) -> Connection {
        let max_payload = u32::from(cfg.send_mss.min(cfg.mss)).max(MIN_PAYLOAD);
        let mut queue = SendQueue::new(cfg.max_segments_in_flight);
        queue.push(Segment {
            start: 0,
            sent_at: now,
            len: 0,
            unit: 0,
            whole: false,
            flags: flag::SYN,
        });
        let rtt_config = crate::rtt::Config {
            rto_min: cfg.rto_min,
            rto_max: cfg.rto_max,
            granularity: cfg.rto_variance_min,
            ..Default::default()
        };
        let mut c = Connection {
            state: State::Closed,
            local_port: ports.0,
            remote_port: ports.1,
            send: Send {
                iss: start.iss,
                end: 1,
                wnd: 1,
                wnd_max: 1,
                queue,
                max_payload,
                max_payload_peer: max_payload,
                progress_at: now,
                sent_at: now,
                burst_end: u64::MAX,
                ..Send::default()
            },
            recv: Receive::new(cfg, now),
            ts: Timestamps {
                offset: start.timestamp_offset,
                recent_at: now,
                ..Timestamps::default()
            },
            ecn: Ecn::default(),
            rtt: Estimator::new(&rtt_config),
            cc: congestion::State::new(Algorithm::default(), &congestion::Config::default()),
            pacer: Pacer::new(PACING_BURST, PACING_QUANTUM),
            rack: Rack::default(),
            tlp: TailLossProbe::default(),
            phase: Phase::Open,
            undo: Undo::default(),
            timers: Timers::default(),
            challenge: Limit::new(now, CHALLENGES_A_SECOND),
            events: Pending::default(),
            settings: Config { syn_transmissions: cfg.syn_transmissions.max(1), ..cfg.clone() },
            counters: Counters::default(),
            stopwatch: Stopwatch::default(),
        };
        c.start_controller(cfg.congestion, cfg.initial_window_segments);
        c
    }

    /// A controller begins, with a window of so many segments.
    fn start_controller(&mut self, algorithm: Algorithm, window_segments: u32) {
        let config = congestion::Config {
            mss: self.send.max_payload,
            initial_window: window_segments,
            selective: self.settings.sack,
            seed: self.ts.offset.into(),
            ..congestion::Config::default()
        };
        self.cc = congestion::State::new(algorithm, &config);
        self.send.queue.keep_packets(self.cc.keeps_packets());
    }

    /// Another controller, from the window that there is; the same one goes on.
    pub fn set_congestion(&mut self, algorithm: Algorithm) {
        if algorithm == self.cc.algorithm() {
            return;
        }
        self.settings.congestion = algorithm;
        let segments = self.cc.window() / u64::from(self.send.max_payload);
        self.start_controller(algorithm, u32::try_from(segments).unwrap_or(u32::MAX));
        self.pacer = Pacer::new(PACING_BURST, PACING_QUANTUM);
    }

    /// What both sides want, both do (RFC 7323, 2018, 3168).
    pub(super) fn apply_offer(&mut self, offer: &Offer, now: Instant) {
        self.recv.begin(offer.irs);
        match offer.window_scale.filter(|_| self.settings.window_scaling) {
            Some(shift) => self.send.shift = shift,
            None => self.recv.forgo_scaling(),
        }
        if let Some(value) = offer.timestamp.filter(|_| self.settings.timestamps) {
            self.ts.enabled = true;
            (self.ts.recent, self.ts.recent_at) = (value, now);
        }
        self.settings.sack &= offer.sack;
        self.recv.sack = self.settings.sack;
        self.settings.ecn &= offer.ecn;
        self.ecn = Ecn::new(self.settings.ecn);
        // The window of a SYN is never scaled.
        self.send.wnd = u32::from(offer.window);
        self.send.wnd_max = self.send.wnd.max(1);
        (self.send.wl1, self.send.wl2) = (0, self.send.una);
        let options = if self.ts.enabled { TIMESTAMPS_LEN } else { 0 };
        let payload = |mss: u16| u32::from(mss.saturating_sub(options)).max(MIN_PAYLOAD);
        self.send.max_payload_peer = payload(offer.mss);
        self.send.max_payload = payload(offer.mss.min(self.settings.send_mss));
        self.adopt_user_timeout(offer.user_timeout);
        self.start_controller(self.settings.congestion, self.settings.initial_window_segments);
    }

    /// RFC 5482, section 3.1: whoever has a user timeout waits as long as the peer asks for, within limits.
    fn adopt_user_timeout(&mut self, theirs: Option<Duration>) {
        if let (Some(ours), Some(theirs)) = (self.settings.user_timeout, theirs) {
            self.settings.user_timeout = Some(ours.max(theirs.min(USER_TIMEOUT_MAX)));
        }
    }

    /// The peer is reached over another path now (its address changed): estimates and windows begin anew.
    pub fn path_changed(&mut self) {
        self.rtt.reset();
        self.start_controller(self.settings.congestion, self.settings.initial_window_segments);
        self.pacer = Pacer::new(PACING_BURST, PACING_QUANTUM);
        self.undo = Undo::default();
        self.phase = Phase::Open;
        self.tlp.end = 0;
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
            let fin = u64::from(self.send.fin_queued && self.send.una == self.send.end);
            return Some(Event::Acked { upto_offset: self.send.una.saturating_sub(1 + fin) });
        }
        if take(&mut e.urgent) {
            return Some(Event::Urgent { upto_offset: self.recv.urgent.saturating_sub(1) });
        }
        if take(&mut e.finished) {
            return Some(Event::PeerFinished { offset: self.rcv_nxt_offset() });
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

    /// Our port and the peer's.
    pub fn ports(&self) -> (u16, u16) {
        (self.local_port, self.remote_port)
    }

    /// The counters alone: cheap.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The next stream offset that the receiver waits for.
    #[inline]
    pub fn rcv_nxt_offset(&self) -> u64 {
        self.recv.nxt.min(self.recv.fin).saturating_sub(1)
    }

    /// Everything below this stream offset of ours is acknowledged.
    pub fn snd_una_offset(&self) -> u64 {
        let fin = u64::from(self.send.fin_queued && self.send.una == self.send.end);
        self.send.una.saturating_sub(1 + fin)
    }

    /// Everything below this stream offset of ours has been sent.
    pub fn snd_nxt_offset(&self) -> u64 {
        let fin = u64::from(self.send.fin_queued && self.send.nxt == self.send.end);
        self.send.nxt.saturating_sub(1 + fin)
    }

    /// Whether `seq` is of something that was sent and not acknowledged.
    pub fn is_in_flight(&self, seq: Seq) -> bool {
        let position = seq.to_offset(self.send.iss, self.send.una);
        position.is_some_and(|at| self.send.una <= at && at < self.send.nxt)
    }

    /// Whether what begins at `seq` is the next that is expected.
    pub fn is_next(&self, seq: Seq) -> bool {
        seq == self.recv.seq_of(self.recv.nxt)
    }

    /// RFC 6191: a SYN in TIME-WAIT may begin a new connection when its sequence number or timestamp
    /// is beyond the old one's. The caller then drops this machine and asks the listener.
    pub fn time_wait_yields_to(&self, h: &Header) -> bool {
        use fusewire_wire::tcp::Flags;
        if self.state != State::TimeWait
            || !h.flags.has(Flags::SYN)
            || h.flags.any(Flags::ACK | Flags::RST)
        {
            return false;
        }
        match h.options.timestamps {
            Some((value, _)) if self.ts.enabled && value != self.ts.recent => {
                Seq(value).gt(Seq(self.ts.recent))
            }
            _ => h.seq.gt(self.recv.seq_of(self.recv.nxt)),
        }
    }

    /// Checks what must hold between calls, by counting anew. For tests: it takes time in proportion to
    /// the queue.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn assert_invariants(&self) {
        let (s, r) = (&self.send, &self.recv);
        assert!(s.una <= s.nxt && s.nxt <= s.end, "una {} nxt {} end {}", s.una, s.nxt, s.end);
        assert!(r.nxt <= r.adv, "rcv_nxt {} adv {}", r.nxt, r.adv);
        assert!(r.consumed <= r.nxt && r.last_ack <= r.nxt);
        assert!(
            r.ranges.is_consistent(r.nxt, r.adv),
            "nxt {} adv {} fin {} {:?}",
            r.nxt,
            r.adv,
            r.fin,
            r.ranges
        );
        assert!(s.queue.is_consistent());
        if self.state == State::Closed {
            assert!(self.poll_timeout().is_none());
        } else if self.state != State::TimeWait {
            assert_eq!(s.queue.bounds().unwrap_or((s.end, s.end)), (s.una, s.end));
            assert!(s.una == s.nxt || self.poll_timeout().is_some(), "in flight without a timer");
        }
        assert!(self.cc.window() >= u64::from(s.max_payload.min(s.nxt as u32 + 1)));
    }

    /// Our timestamp clock: a tick a millisecond (RFC 7323, section 5.4).
    pub(super) fn ts_value(&self, at: Instant) -> u32 {
        (at.as_ms() as u32).wrapping_add(self.ts.offset)
    }

    pub(super) fn snd_seq(&self, position: u64) -> Seq {
        self.send.iss + position as u32
    }

    /// Enters CLOSED: nothing is sent any more but a pending RST.
    pub(super) fn enter_closed(&mut self) {
        self.state = State::Closed;
        self.timers = Timers::default();
        self.send.queue.clear();
        self.send.probe = Probe::None;
        self.recv.release();
        self.events.send_ack = false;
        self.events.closed = true;
    }

    /// Gives up.
    pub(super) fn time_out(&mut self) {
        self.events.timed_out = true;
        if !matches!(self.state, State::SynSent | State::TimeWait | State::FinWait2) {
            self.events.send_reset =
                Some((self.snd_seq(self.send.nxt), Some(self.recv.seq_of(self.recv.nxt))));
        }
        self.enter_closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_small_and_flat() {
        println!("Connection {} B, Segment {} B", size_of::<Connection>(), size_of::<Segment>());
        assert!(size_of::<Connection>() <= 2048, "{}", size_of::<Connection>());
        assert_eq!(size_of::<Segment>(), 24);
    }
}
