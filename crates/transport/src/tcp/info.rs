//! What a connection tells of itself, in the manner of `TCP_INFO`; and the stopwatches behind it.

use super::connection::Connection;
use super::state::State;
use crate::congestion::Controller;
use crate::machine::{Again, CongestionPhase, Info};
use crate::rack::Phase;
use core::time::Duration;
use fusewire_base::Instant;

/// How long the sender was in each condition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopwatch {
    condition: Condition,
    since: Instant,
    busy: Duration,
    limited_by_receiver: Duration,
}

/// What holds the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Condition {
    /// Nothing is queued.
    #[default]
    Idle,
    /// Data is queued or under way.
    Busy,
    /// The peer's window is full, and nothing else stops us.
    ReceiverLimited,
}

impl Stopwatch {
    pub fn set(&mut self, now: Instant, condition: Condition) {
        if condition != self.condition {
            *self = self.until(now);
            self.condition = condition;
        }
    }

    /// With the time up to `now` counted.
    fn until(mut self, now: Instant) -> Stopwatch {
        let passed = now - self.since;
        self.since = now;
        if self.condition != Condition::Idle {
            self.busy += passed;
        }
        if self.condition == Condition::ReceiverLimited {
            self.limited_by_receiver += passed;
        }
        self
    }
}

impl Connection {
    /// Estimates and counters.
    pub fn info(&self) -> Info {
        let queue = &self.send.queue;
        let recovering = !matches!(self.phase, Phase::Open);
        Info {
            srtt: self.rtt.srtt().unwrap_or_default(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min().unwrap_or_default(),
            rto: self.rtt.rto(),
            congestion: self.cc.algorithm(),
            cwnd: self.cc.window(),
            ssthresh: self.cc.slow_start_threshold(),
            in_flight: queue.in_flight(),
            unacked: self.send.end - self.send.una,
            send_window: self.send.wnd,
            recv_window: (self.recv.adv - self.recv.nxt) as u32,
            max_payload: self.send.max_payload,
            send_window_max: self.send.wnd_max,
            advertised_mss: self.settings.mss,
            recv_segment: self.recv.segment_len_max,
            send_shift: self.send.shift,
            recv_shift: self.recv.shift,
            window_scaling: self.recv.scaling,
            timestamps: self.ts.enabled,
            sack: self.recv.sack,
            ecn: self.ecn.is_enabled(),
            phase: self.congestion_phase(),
            segments_out: queue.sent() as u32,
            segments_sacked: queue.sacked(),
            segments_lost: queue.lost() + if recovering { queue.resent() } else { 0 },
            segments_resent: queue.resent(),
            timeouts_in_a_row: self.send.timeouts,
            probes_in_a_row: self.send.probes,
            back_off: self.rtt.doublings(),
            reordering: self.rack.reordering().max(3),
            reorderings: self.rack.reorderings(),
            data_sent_at: self.send.sent_at,
            data_received_at: self.recv.data_at,
            heard_at: self.recv.heard_at,
            pacing_rate: self.pacer.rate(),
            counters: self.counters,
        }
    }

    /// Why what is sent again now is sent again.
    pub fn again(&self) -> Again {
        match self.phase {
            _ if matches!(self.state, State::SynSent | State::SynReceived) => Again::Timeout,
            Phase::Recovery { .. } => Again::Rack,
            Phase::Loss { .. } => Again::Timeout,
            Phase::Open if self.tlp.end != 0 => Again::TailLoss,
            Phase::Open => Again::Path,
        }
    }

    /// Congestion window, bytes in the network, and payload of a full segment: cheap.
    pub fn congestion_window(&self) -> (u64, u64, u64) {
        let in_flight = self.send.queue.in_flight();
        (self.cc.window(), in_flight, u64::from(self.send.max_payload.max(1)))
    }

    /// When something acceptable last came from the peer.
    pub fn heard_at(&self) -> Instant {
        self.recv.heard_at
    }

    /// Largest window that the peer ever offered, in bytes.
    pub fn send_window_max(&self) -> u32 {
        self.send.wnd_max
    }

    /// How long data was queued or under way up to `now`, and how much of that the peer's window alone
    /// stopped it.
    pub fn busy_times(&self, now: Instant) -> (Duration, Duration) {
        let watch = self.stopwatch.until(now);
        (watch.busy, watch.limited_by_receiver)
    }

    fn congestion_phase(&self) -> CongestionPhase {
        match self.phase {
            Phase::Recovery { .. } => CongestionPhase::Recovery,
            Phase::Loss { .. } => CongestionPhase::Loss,
            Phase::Open if self.ecn.is_reduced(self.send.una) => CongestionPhase::Reduced,
            Phase::Open if self.send.queue.sacked() > 0 || self.send.duplicate_acks > 0 => {
                CongestionPhase::Disorder
            }
            Phase::Open => CongestionPhase::Open,
        }
    }
}
