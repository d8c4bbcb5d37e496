//! Loss detection and recovery: RACK-TLP (RFC 8985), the retransmission timer (RFC 6298), and the way back
//! from losses that were none (RFC 3522, 4015, 3708).

use super::connection::{Connection, Probe};
use super::queue::{Segment, flag};
use super::state::State;
use super::timers::Timer;
use crate::congestion::{Controller, Lost, Signal};
use crate::prr;
use core::time::Duration;
use fusewire_base::{Instant, Seq};

/// Sacked segments that end the patience for reordering (DupThresh).
const DUPLICATE_THRESHOLD: u32 = 3;
/// Recoveries for which a widened reordering window lasts (RFC 8985, section 6.2, step 4).
const REORDER_PERSIST: u8 = 16;
/// Tail loss probe before there is a round-trip time.
const PROBE_TIMEOUT_INITIAL: Duration = Duration::from_secs(1);

/// A timer of a busy host is late by so much.
const PROBE_TIMEOUT_MIN: Duration = Duration::from_millis(2);

/// What the sender is doing about losses.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery until SND.UNA reaches `until` (RFC 6675), led by PRR (RFC 6937) unless the controller
    /// does that.
    Recovery { until: u64, prr: Option<prr::Recovery> },
    /// Slow start after a timeout until SND.UNA reaches `until`.
    Loss { until: u64 },
}

impl Phase {
    /// Proportional rate reduction, when it rules instead of the window.
    pub fn prr(&self) -> Option<&prr::Recovery> {
        let Phase::Recovery { prr, .. } = self else { return None };
        prr.as_ref()
    }

    pub fn prr_mut(&mut self) -> Option<&mut prr::Recovery> {
        let Phase::Recovery { prr, .. } = self else { return None };
        prr.as_mut()
    }
}

/// RACK's variables (RFC 8985, section 5.2).
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// Send time and end of the most recently sent segment that was delivered.
    sent_at: Instant,
    end: u64,
    /// Its round-trip time.
    rtt: Duration,
    /// Highest position delivered, and what it was before this acknowledgement: the segments of one
    /// acknowledgement say nothing about each other's order.
    fack: u64,
    fack_before: u64,
    reordering_seen: bool,
    /// Lowest position that this acknowledgement delivered late.
    late: u64,
    /// How far reordering went, in segments, and how many acknowledgements showed some.
    reordering: u32,
    reorderings: u32,
    /// Extra quarters of the minimum round-trip time to wait.
    extra_quarters: u8,
    persist: u8,
    /// A DSACK widened the window in the round that ends here.
    dsack_round: u64,
}

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

/// What one acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    pub bytes: u64,
    pub segments: u32,
    /// Send time of the latest segment that was sent once.
    pub latest_once: Option<Instant>,
    /// Last send time of the latest segment that had been sent again.
    pub latest_again: Option<Instant>,
}

impl Rack {
    /// The deliveries of another acknowledgement follow.
    pub fn begin_ack(&mut self) {
        self.fack_before = self.fack;
        self.late = u64::MAX;
    }

    /// These were all.
    pub fn end_ack(&mut self, max_payload: u32) {
        if self.late < self.fack_before {
            let distance = (self.fack_before - self.late).div_ceil(u64::from(max_payload.max(1)));
            self.reordering = self.reordering.max(distance.min(300) as u32);
            self.reorderings += 1;
        }
    }

    pub fn reordering(&self) -> u32 {
        self.reordering
    }

    pub fn reorderings(&self) -> u32 {
        self.reorderings
    }

    /// Steps 2 and 3 of RFC 8985, section 6.2, for one newly delivered segment. `echo_is_older` says
    /// that the acknowledgement echoes a timestamp from before the segment's last transmission.
    fn on_delivered(&mut self, s: &Segment, now: Instant, min_rtt: Duration, echo_is_older: bool) {
        let end = s.end();
        if !s.has(flag::RETRANSMITTED) && end < self.fack_before {
            self.reordering_seen = true;
            self.late = self.late.min(s.start);
        }
        self.fack = self.fack.max(end);
        let rtt = now - s.sent_at;
        if s.has(flag::RETRANSMITTED) && (echo_is_older || rtt < min_rtt) {
            return;
        }
        self.rtt = rtt;
        if (s.sent_at, end) > (self.sent_at, self.end) {
            (self.sent_at, self.end) = (s.sent_at, end);
        }
    }

    fn reordering_window(
        &self,
        sacked: u32,
        recovering: bool,
        min_rtt: Duration,
        srtt: Duration,
    ) -> Duration {
        if !self.reordering_seen && (recovering || sacked >= DUPLICATE_THRESHOLD) {
            return Duration::ZERO;
        }
        (min_rtt / 4 * (1 + u32::from(self.extra_quarters))).min(srtt)
    }
}

impl Connection {
    /// Accounts for one newly delivered segment. A free function of the parts, for the queue's callback.
    pub(super) fn on_delivered(
        rack: &mut Rack,
        delivered: &mut Delivered,
        s: &Segment,
        at: (Instant, Duration),
        echo: impl Fn(Instant) -> bool,
    ) {
        delivered.segments += 1;
        if s.has(flag::RETRANSMITTED) {
            delivered.latest_again = delivered.latest_again.max(Some(s.sent_at));
            rack.on_delivered(s, at.0, at.1, echo(s.sent_at));
        } else {
            delivered.latest_once = delivered.latest_once.max(Some(s.sent_at));
            rack.on_delivered(s, at.0, at.1, false);
        }
    }

    /// RFC 8985, section 6.2, step 5: marks what was sent well before something that arrived. Returns the
    /// bytes newly taken for lost.
    pub(super) fn detect_losses(&mut self, now: Instant) -> u64 {
        self.timers.clear(Timer::Reorder);
        if self.rack.fack == 0 || !self.send.queue.is_disordered() {
            return 0;
        }
        let recovering = !matches!(self.phase, Phase::Open);
        let min_rtt = self.rtt.min().unwrap_or_default();
        let srtt = self.rtt.srtt().unwrap_or_default();
        let patience = self.rack.rtt
            + self.rack.reordering_window(self.send.queue.sacked(), recovering, min_rtt, srtt);
        let newest = (self.rack.sent_at, self.rack.end);
        let mut lost = 0;
        let mut wait = Duration::ZERO;
        for index in 0..self.send.queue.sent() {
            let s = *self.send.queue.at(index);
            if newest <= (s.sent_at, s.end()) {
                if s.has(flag::RETRANSMITTED) {
                    continue;
                }
                // First transmissions lie in order of time: none after this was sent earlier.
                break;
            }
            if s.has(flag::SACKED | flag::LOST) {
                continue;
            }
            let due = s.sent_at + patience;
            if due <= now {
                lost += self.mark_lost(now, index);
            } else {
                wait = wait.max(due - now);
            }
        }
        if wait > Duration::ZERO {
            self.timers.set(Timer::Reorder, now + wait);
        }
        lost
    }

    /// A segment is taken for lost. Returns the bytes that thereby left the network.
    pub(super) fn mark_lost(&mut self, now: Instant, index: usize) -> u64 {
        let bytes = self.send.queue.mark_lost(index);
        if bytes > 0 && self.cc.keeps_packets() {
            let (start, packet) = (self.send.queue.at(index).start, self.send.queue.packet(index));
            self.cc.on_lost(&Lost { now, start, bytes, packet });
        }
        bytes
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
        match self.phase {
            Phase::Recovery { until, .. } if self.send.una >= until => self.cc.on_recovered(now),
            Phase::Loss { until } if self.send.una >= until => {
                if self.cc.steers_recovery() {
                    self.cc.on_recovered(now);
                }
            }
            _ => return,
        }
        self.phase = Phase::Open;
        self.rack.persist = self.rack.persist.saturating_sub(1);
        if self.rack.persist == 0 {
            self.rack.extra_quarters = 0;
        }
    }

    /// A DSACK came for `left..right` (RFC 8985, section 6.2, step 4; RFC 3708).
    pub(super) fn on_dsack(&mut self, now: Instant, left: u64, right: u64) {
        self.counters.dsacks += 1;
        // What RACK took for lost was late.
        self.rack.reordering_seen |= matches!(self.phase, Phase::Recovery { .. });
        if self.send.una >= self.rack.dsack_round {
            self.rack.dsack_round = self.send.nxt;
            self.rack.extra_quarters = self.rack.extra_quarters.saturating_add(1);
            self.rack.persist = REORDER_PERSIST;
        }
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
