//! The receive half: what is expected, what is advertised, when to acknowledge (RFC 9293, sections
//! 3.8.6.2.2 and 3.8.6.3).

use super::config::Config;
use super::connection::Connection;
use super::state::State;
use super::timers::Timer;
use crate::autotune::Round;
use crate::ranges::Ranges;
use fusewire_base::{Instant, Seq};

/// Largest window that shift 14 expresses, so that sequence numbers stay within 2^31.
const WINDOW_MAX: u32 = 1 << 30;

/// Acknowledgements of one window that is received without a pause, with [`Config::stretch_acks`].
const ACKS_A_WINDOW: u32 = 16;

/// The receive half of a connection.
#[derive(Debug, Default)]
pub(super) struct Receive {
    /// Initial receive sequence number (IRS).
    pub irs: Seq,
    /// RCV.NXT.
    pub nxt: u64,
    /// One past the window's right edge as it was advertised: RCV.NXT + RCV.WND. Moves left by
    /// [`Connection::narrow_window`] alone.
    pub adv: u64,
    /// Position up to which the application has consumed.
    pub consumed: u64,
    /// Size of the window now, in bytes.
    pub window: u32,
    /// Size up to which autotuning goes.
    pub window_max: u32,
    /// Last.ACK.sent of RFC 7323.
    pub last_ack: u64,
    pub ranges: Ranges,
    /// Position of the peer's FIN; `u64::MAX` until it is known.
    pub fin: u64,
    /// RCV.UP, or 0.
    pub urgent: u64,
    /// In-order payload segments not yet acknowledged.
    pub unacked: u32,
    /// Duplicate acknowledgements owed to a peer without SACK.
    pub duplicate_acks: u8,
    /// Shift of the window that we advertise.
    pub shift: u8,
    /// Both sides scale windows.
    pub scaling: bool,
    pub sack: bool,
    /// Most payload in one segment so far.
    pub segment_len_max: u32,
    /// In-order segments that are still acknowledged one by one.
    pub quick_acks: u8,
    /// When a segment was last accepted.
    pub heard_at: Instant,
    /// When payload was last accepted.
    pub data_at: Instant,
    round: Round,
}

/// The shift that lets the window field express the largest window (RFC 7323, section 2.3).
pub(super) fn window_shift(cfg: &Config) -> u8 {
    let mut shift = 0;
    while cfg.window_scaling && cfg.recv_window.min(WINDOW_MAX) >> shift > u32::from(u16::MAX) {
        shift += 1;
    }
    shift
}

impl Receive {
    pub fn new(cfg: &Config, now: Instant) -> Receive {
        let window_max = cfg.recv_window.clamp(1, WINDOW_MAX);
        let window_max =
            if cfg.window_scaling { window_max } else { window_max.min(u32::from(u16::MAX)) };
        Receive {
            window: cfg.initial_recv_window.clamp(1, window_max),
            window_max,
            ranges: Ranges::new(cfg.max_ranges),
            fin: u64::MAX,
            shift: window_shift(cfg),
            scaling: cfg.window_scaling,
            quick_acks: cfg.quick_acks,
            heard_at: now,
            data_at: now,
            ..Receive::default()
        }
    }

    /// The peer's SYN came.
    pub fn begin(&mut self, irs: Seq) {
        self.irs = irs;
        (self.nxt, self.consumed, self.last_ack) = (1, 1, 1);
        let window = self.window.min(u32::from(u16::MAX));
        self.adv = 1 + u64::from(window);
        self.round = Round::begin(1, 1, window);
    }

    /// The peer does not scale windows.
    pub fn forgo_scaling(&mut self) {
        self.scaling = false;
        self.shift = 0;
        self.window_max = self.window_max.min(u32::from(u16::MAX));
        self.window = self.window.min(self.window_max);
    }

    /// Frees memory when nothing will be received any more.
    pub fn release(&mut self) {
        self.ranges = Ranges::new(1);
        self.unacked = 0;
    }

    pub fn seq_of(&self, position: u64) -> Seq {
        self.irs + position as u32
    }

    /// The position that `seq` stands for, within 2^31 of RCV.NXT; `None` before the stream's start.
    pub fn position_of(&self, seq: Seq) -> Option<u64> {
        seq.to_offset(self.irs, self.nxt)
    }

    /// Moves the right edge as far as silly-window avoidance lets it and gives the window field.
    pub fn advertise(&mut self) -> u16 {
        let edge = self.consumed + u64::from(self.window);
        let worth = u64::from(self.window / 2).min(u64::from(self.segment_len_max.max(1)));
        if edge >= self.adv + worth {
            self.adv = edge;
        }
        // Rounded down: the edge seen by the peer may lie up to 2^shift - 1 bytes left of an earlier one
        // (RFC 7323, section 2.4); what lies between is still accepted.
        let field = ((self.adv - self.nxt) >> self.shift).min(u64::from(u16::MAX));
        field as u16
    }

    /// The window field of a SYN, never scaled.
    pub fn syn_window(&self) -> u16 {
        self.window.min(u32::from(u16::MAX)) as u16
    }
}

impl Connection {
    /// The application has consumed everything below the stream offset `upto`: the window opens, and when
    /// it had become small an acknowledgement says so at once.
    pub fn consumed(&mut self, upto: u64) {
        let recv = &mut self.recv;
        let position = (upto + 1).min(recv.nxt.min(recv.fin));
        if position <= recv.consumed {
            return;
        }
        recv.consumed = position;
        recv.window = recv.round.window(recv.window, recv.window_max, recv.nxt, recv.consumed);
        let edge = recv.consumed + u64::from(recv.window);
        let gain = edge.saturating_sub(recv.adv);
        let open = recv.adv - recv.nxt;
        let segment = u64::from(recv.segment_len_max.max(1));
        let half = u64::from(recv.window / 2);
        if gain >= half.min(2 * segment) && (gain >= half || open < 2 * segment) {
            self.events.send_ack |= self.receives();
        }
    }

    /// The receiver holds more than it did: the window is at least `bytes` from now on, as far as
    /// [`Config::recv_window`] lets it, and the peer is told at once.
    pub fn widen_window(&mut self, bytes: u32) {
        let recv = &mut self.recv;
        if bytes.min(recv.window_max) > recv.window {
            // The peer sees it rounded down; what it lacked of the last bytes only probes would bring.
            let window = bytes.saturating_add((1 << recv.shift) - 1).min(recv.window_max);
            recv.window = window;
            recv.round = Round::begin(recv.consumed, recv.nxt, window);
            self.events.send_ack |= self.receives();
        }
    }

    /// The receiver has no memory left: the window is at most `bytes` from now on, and what the peer was promised beyond
    /// that is taken back, which it has to bear with (RFC 9293, section 3.8.6; RFC 7323, section 2.4). Gives the window as it
    /// was, for [`Connection::widen_window`].
    pub fn narrow_window(&mut self, bytes: u32) -> u32 {
        let recv = &mut self.recv;
        let before = recv.window;
        recv.window = before.min(bytes.max(1));
        recv.round = Round::begin(recv.consumed, recv.nxt, recv.window);
        let edge = recv.consumed + u64::from(recv.window);
        // What came beyond a hole is kept.
        recv.adv = recv.adv.min(edge.max(recv.nxt).max(recv.ranges.end()));
        before
    }

    /// An acknowledgement should leave now.
    pub fn wants_ack(&self) -> bool {
        self.events.send_ack
    }

    /// Payload may still come.
    pub(super) fn receives(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// In-order payload was accepted: its acknowledgement may wait a little, and leaves with the next
    /// batch when there are two or more.
    pub(super) fn owe_ack(&mut self, now: Instant) {
        self.recv.unacked += 1;
        if self.recv.quick_acks > 0 {
            self.recv.quick_acks -= 1;
            self.events.send_ack = true;
        } else if self.recv.unacked == 1 {
            self.timers.set(Timer::DelayedAck, now + self.settings.delayed_ack);
        }
    }

    /// The segment that was just accepted stood for so many more, which the device had joined.
    pub fn note_merged(&mut self, more: u32) {
        if self.recv.unacked > 0 {
            self.recv.unacked = self.recv.unacked.saturating_add(more);
        }
    }

    /// An acknowledgement should leave in this batch.
    pub(super) fn ack_is_due(&self) -> bool {
        let owed = self.recv.nxt - self.recv.last_ack;
        let waits =
            self.settings.stretch_acks && owed < u64::from(self.recv.window / ACKS_A_WINDOW);
        self.events.send_ack || self.recv.unacked >= 2 && !waits
    }

    /// An acknowledgement of two segments or more waits for what comes with them.
    pub fn owes_ack(&self) -> bool {
        self.recv.unacked >= 2
    }

    /// Nothing else has come: what is owed leaves now.
    pub fn acknowledge(&mut self) {
        self.events.send_ack |= self.recv.unacked > 0;
    }

    /// A segment with the ACK bit leaves.
    pub(super) fn ack_was_sent(&mut self) {
        self.recv.last_ack = self.recv.nxt;
        if self.recv.unacked > 0 {
            self.recv.unacked = 0;
            self.timers.clear(Timer::DelayedAck);
        }
        self.events.send_ack = false;
    }
}
