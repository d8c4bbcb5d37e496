//! Loss detection and recovery: RACK-TLP (RFC 8985), the retransmission timer (RFC 6298), and the way back
//! from losses that were none (RFC 3522, 4015, 3708).

use super::connection::{Connection, Probe};
use super::state::State;
use super::timers::Timer;
use crate::congestion::{Controller, Signal};
use crate::prr;
use crate::rack::{self, Phase};
use core::time::Duration;
use fusewire_base::{Instant, Seq};

/// Tail loss probe before there is a round-trip time.
const PROBE_TIMEOUT_INITIAL: Duration = Duration::from_secs(1);

/// A timer of a busy host is late by so much.
const PROBE_TIMEOUT_MIN: Duration = Duration::from_millis(2);

/// The open tail loss probe (RFC 8985, section 7.1).
#[derive(Debug, Default)]
pub(super) struct TailLossProbe {
    /// SND.NXT when the probe was sent, or 0.
    pub end: u64,
    pub retransmitted: bool,
}

/// What is needed to take a reduction back.
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// SND.UNA when the reduction was made; retransmissions above belong to it.
    marker: u64,
    /// Retransmissions not yet reported as duplicates.
    outstanding: u32,
    /// Our timestamp at the first retransmission, if one left (RFC 3522).
    first_resent_ts: Option<u32>,
    /// Nothing was under way again when the reduction was made: an older timestamp that is echoed is that of
    /// an original.
    by_timestamp: bool,
    armed: bool,
}

impl Connection {
    /// RFC 8985, section 6.2, step 5: marks what was sent well before something that arrived. Returns the
    /// bytes newly taken for lost.
    pub(super) fn detect_losses(&mut self, now: Instant) -> u64 {
        if !self.rack.has_delivered() || !self.send.queue.is_disordered() {
            self.timers.clear(Timer::Reorder);
            return 0;
        }
        let recovering = !matches!(self.phase, Phase::Open);
        let found =
            self.rack.detect(now, &mut self.send.queue, &mut self.cc, &self.rtt, recovering);
        match found.wait {
            Some(wait) => self.timers.set(Timer::Reorder, now + wait),
            None => self.timers.clear(Timer::Reorder),
        }
        found.bytes
    }

    /// A segment is taken for lost. Returns the bytes that thereby left the network.
    pub(super) fn mark_lost(&mut self, now: Instant, index: usize) -> u64 {
        rack::mark_lost(now, &mut self.send.queue, &mut self.cc, index)
    }

    /// Losses were found, by RACK, by duplicate acknowledgements or by a probe. `outstanding` is FlightSize
    /// before the acknowledgement that showed them: one for a whole batch may cover most of the window,
    /// and what is left then says nothing of what the path carried.
    pub(super) fn enter_recovery(&mut self, now: Instant, outstanding: u64) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        self.cc.on_congestion(now, Signal::Loss, outstanding);
        self.ecn.on_reduced(self.send.nxt);
        self.counters.recoveries += 1;
        self.arm_undo();
        let mss = u64::from(self.send.max_payload);
        let proportional = !self.cc.steers_recovery();
        let prr = proportional
            .then(|| prr::Recovery::new(outstanding, self.cc.slow_start_threshold(), mss));
        self.phase = Phase::Recovery { until: self.send.nxt, prr };
        self.timers.clear(Timer::TailLoss);
    }

    /// SND.UNA moved: is the recovery over?
    pub(super) fn leave_recovery(&mut self, now: Instant) {
        if !self.phase.leave(self.send.una, &mut self.cc, now) {
            return;
        }
        self.rack.narrow();
    }

    /// A DSACK came for `left..right` (RFC 8985, section 6.2, step 4; RFC 3708).
    pub(super) fn on_dsack(&mut self, now: Instant, left: u64, right: u64) {
        self.counters.dsacks += 1;
        // What RACK took for lost was late.
        self.rack.reordering_seen |= matches!(self.phase, Phase::Recovery { .. });
        self.rack.widen(self.send.una, self.send.nxt);
        if self.tlp.end != 0 && self.tlp.retransmitted && right == self.tlp.end {
            // The probe's original had arrived: nothing was lost.
            self.tlp.end = 0;
        }
        if self.undo.armed && left >= self.undo.marker {
            self.undo.outstanding = self.undo.outstanding.saturating_sub(1);
            if self.undo.outstanding == 0 {
                self.undo_reduction(now);
            }
        }
    }

    /// RFC 3522: an acknowledgement that moves SND.UNA echoes a timestamp from before the first
    /// retransmission, so the original had arrived.
    pub(super) fn detect_spurious(&mut self, now: Instant, echo: Option<u32>) {
        let (Some(first), Some(echo)) = (self.undo.first_resent_ts.take(), echo) else { return };
        if self.undo.armed && Seq(echo).lt(Seq(first)) {
            self.rack.reordering_seen |= matches!(self.phase, Phase::Recovery { .. });
            self.undo_reduction(now);
        }
    }

    fn arm_undo(&mut self) {
        self.undo = Undo {
            marker: self.send.una,
            outstanding: 0,
            first_resent_ts: None,
            by_timestamp: !self.send.queue.has_retransmitted(),
            armed: true,
        };
    }

    fn undo_reduction(&mut self, now: Instant) {
        self.undo.armed = false;
        self.counters.spurious += 1;
        self.cc.on_spurious(now);
        self.send.queue.unmark_lost();
        self.phase = Phase::Open;
        self.send.timeouts = 0;
        self.rtt.reset_back_off();
    }

    /// A segment left again.
    pub(super) fn note_retransmission(&mut self, now: Instant) {
        self.counters.retransmissions += 1;
        if self.undo.armed {
            if self.undo.outstanding == 0 && self.ts.enabled && self.undo.by_timestamp {
                self.undo.first_resent_ts = Some(self.ts_value(now));
            }
            self.undo.outstanding += 1;
        }
    }

    /// The retransmission timer (RFC 6298, section 5), while something is in the network or lost.
    pub(super) fn arm_rto(&mut self, now: Instant) {
        if self.send.una < self.send.nxt {
            self.timers.set(Timer::Rto, now + self.rtt.rto());
        } else {
            self.timers.clear(Timer::Rto);
        }
    }

    /// Schedules a tail loss probe (RFC 8985, section 7.2), or leaves it to the other timers.
    pub(super) fn arm_tail_loss_probe(&mut self, now: Instant) {
        let q = &self.send.queue;
        let may = self.settings.sack
            && self.settings.tail_loss_probe
            && matches!(self.phase, Phase::Open)
            && self.tlp.end == 0
            && q.sent() > 0
            && q.sacked() == 0
            && self.state != State::SynSent
            && self.state != State::SynReceived;
        if !may {
            self.timers.clear(Timer::TailLoss);
            return;
        }
        let mut wait =
            self.rtt.srtt().map_or(PROBE_TIMEOUT_INITIAL, |srtt| 2 * srtt + PROBE_TIMEOUT_MIN);
        if q.sent() == 1 {
            wait += self.settings.peer_delayed_ack;
        }
        // In place of the retransmission timeout when that would come first.
        let rto = self.timers.at(Timer::Rto).unwrap_or(now + wait);
        self.timers.set(Timer::TailLoss, rto.min(now + wait));
    }

    /// An acknowledgement came while a probe was open (RFC 8985, section 7.4).
    pub(super) fn resolve_tail_loss_probe(&mut self, now: Instant, ack: u64) {
        if self.tlp.end == 0
            || ack < self.tlp.end
            || (self.tlp.retransmitted && ack == self.tlp.end)
        {
            // Exactly the probe's end: a DSACK may follow and say that nothing was lost.
            return;
        }
        let repaired = self.tlp.retransmitted;
        self.tlp.end = 0;
        if repaired && matches!(self.phase, Phase::Open) {
            // The probe repaired a loss that nothing else would have shown: one reduction.
            self.cc.on_congestion(now, Signal::Loss, self.send.nxt - self.send.una);
            self.ecn.on_reduced(self.send.nxt);
            self.cc.on_recovered(now);
        }
    }

    /// The tail loss timer went off: `poll_transmit` sends the probe.
    pub(super) fn on_tail_loss_timeout(&mut self, now: Instant) {
        if self.send.queue.sent() == 0 || self.tlp.end != 0 {
            return;
        }
        self.send.probe = Probe::TailLoss;
        self.counters.tail_loss_probes += 1;
        self.arm_rto(now);
    }

    /// The reordering timer went off.
    pub(super) fn on_reorder_timeout(&mut self, now: Instant) {
        if self.detect_losses(now) > 0 {
            self.enter_recovery(now, self.send.nxt - self.send.una);
            self.arm_rto(now);
        }
    }

    /// The retransmission timer went off (RFC 6298, section 5.4 to 5.7; RFC 5681, section 3.1).
    pub(super) fn on_rto(&mut self, now: Instant) {
        if self.send.queue.sent() == 0 {
            return;
        }
        self.send.timeouts = self.send.timeouts.saturating_add(1);
        self.counters.timeouts += 1;
        let limit = match self.state {
            State::SynSent | State::SynReceived => self.settings.syn_transmissions,
            _ if self.settings.user_timeout.is_some() => u8::MAX,
            _ => self.settings.max_retransmissions.saturating_add(1),
        };
        let patience = self.settings.user_timeout.unwrap_or(Duration::MAX);
        if self.send.timeouts >= limit || now - self.send.progress_at >= patience {
            return self.time_out();
        }
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.rtt.back_off();
        } else {
            let outstanding = self.send.nxt - self.send.una;
            if !matches!(self.phase, Phase::Loss { .. }) {
                self.arm_undo();
            }
            if self.cc.keeps_packets() {
                for index in 0..self.send.queue.sent() {
                    self.mark_lost(now, index);
                }
            }
            self.cc.on_congestion(now, Signal::Timeout, outstanding);
            self.ecn.on_reduced(self.send.nxt);
            self.rtt.back_off();
            self.phase = Phase::Loss { until: self.send.nxt };
        }
        self.tlp.end = 0;
        self.send.probe = Probe::None;
        self.send.queue.mark_all_lost();
        self.timers.clear(Timer::TailLoss);
        self.timers.clear(Timer::Reorder);
        let mut wait = self.rtt.rto();
        if let Some(user_timeout) = self.settings.user_timeout {
            wait = wait
                .min((self.send.progress_at + user_timeout) - now)
                .max(Duration::from_millis(1));
        }
        self.timers.set(Timer::Rto, now + wait);
    }
}
