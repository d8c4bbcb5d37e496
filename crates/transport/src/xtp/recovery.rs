//! What is taken for lost, and what follows (`docs/xtp.md`, section 10): by time, as RACK has it (RFC 8985), with the times of
//! packets that spans, rseq and echoes report. Selective repeat sends again what was lost; go-back-N, which looks at no
//! spans, everything from rseq on.

use super::config::Retransmission;
use super::connection::Connection;
use super::timers::Timer;
use crate::congestion::{Acked, Controller, Signal};
use crate::prr;
use crate::rack::{self, Delivered, Phase};
use core::time::Duration;
use fusewire_base::Instant;

/// What one answer did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub una_before: u64,
    pub in_flight_before: u64,
    /// Bytes of what spans named, and is lost all the same.
    pub taken_back: u64,
    pub delivered: Delivered,
    pub rtt: Option<Duration>,
    /// The synchronising handshake has ended.
    pub shook_hands: bool,
}

impl Connection {
    /// Marks what was sent well before something that arrived. Returns the bytes newly taken for lost.
    fn detect_losses(&mut self, now: Instant) -> u64 {
        self.timers.clear(Timer::Reorder);
        if self.settings.noerr {
            return 0;
        }
        let recovering = !matches!(self.phase, Phase::Open);
        let found =
            self.rack.detect(now, &mut self.send.queue, &mut self.cc, &self.rtt, recovering);
        if let Some(wait) = found.wait {
            self.timers.set(Timer::Reorder, now + wait);
        }
        if found.bytes > 0 && self.settings.retransmission == Retransmission::GoBackN {
            // What is under way behind it goes again, too.
            return found.bytes + self.lose_all(now);
        }
        if found.again {
            self.back_off_resending(now);
        }
        found.bytes
    }

    /// Retransmissions were lost, and nothing was delivered since they left. From the second time on, the next one waits for
    /// a timeout that doubles each time: answers keep arriving, so WTIMER does not slow the sender down.
    fn back_off_resending(&mut self, now: Instant) {
        let before = u32::from(self.send.fruitless);
        self.send.fruitless = self.send.fruitless.saturating_add(1);
        if before > 0 {
            let wait = self.rtt.rto() * (1 << (before - 1).min(10));
            self.send.resend_at = now + wait.min(self.settings.wtimer_max);
        }
    }

    /// Everything under way is lost.
    fn lose_all(&mut self, now: Instant) -> u64 {
        let (queue, cc) = (&mut self.send.queue, &mut self.cc);
        (0..queue.sent()).map(|index| rack::mark_lost(now, queue, cc, index)).sum()
    }

    /// The second half of an answer: losses, the controller, and the timers.
    pub(super) fn after_answer(&mut self, now: Instant, progress: &Progress) {
        let Progress { una_before, in_flight_before, taken_back, delivered, rtt, shook_hands } =
            *progress;
        let advanced = self.send.una > una_before;
        self.take_late(now, delivered.late);
        if delivered.bytes > 0 {
            self.send.progress_at = now;
            (self.send.fruitless, self.send.resend_at) = (0, now);
        }
        // What was sent before the question of a handshake is older than any patience.
        let lost = taken_back + self.detect_losses(now);
        if shook_hands && lost == 0 && matches!(self.phase, Phase::Loss { .. }) {
            // Nothing was missing: only answers were.
            self.counters.spurious += 1;
            self.cc.on_spurious(now);
            self.phase = Phase::Open;
        }
        if lost > 0 {
            self.enter_recovery(now, self.send.nxt - una_before);
        }
        let recovering = matches!(self.phase, Phase::Recovery { .. });
        if let Some(prr) = self.phase.prr_mut() {
            prr.on_ack(delivered.bytes, lost, self.send.queue.in_flight(), advanced);
        }
        if advanced && self.phase.leave(self.send.una, &mut self.cc, now) {
            self.rack.narrow();
        }
        if delivered.bytes > 0 {
            if !recovering && advanced || self.cc.steers_recovery() {
                // What had arrived over an earlier path says nothing of this one.
                let is_old = self.send.una <= self.send.path_from;
                let counts = if is_old { in_flight_before } else { u64::MAX };
                self.cc.on_acked(&Acked {
                    now,
                    bytes: delivered.bytes.min(counts),
                    in_flight_before: in_flight_before.max(self.send.in_flight_max),
                    in_flight: self.send.queue.in_flight(),
                    snd_una: self.send.una,
                    snd_nxt: self.send.nxt,
                    rtt,
                    srtt: self.rtt.srtt().unwrap_or_default(),
                    window_limited: self.send.window_limited,
                    newest: self.send.queue.take_newest(),
                });
            }
            self.update_pace();
            self.send.probed = false;
            self.send.persists = 0;
        }
        self.arm_tail(now);
    }

    /// What arrived so soon after it went again had only been late: more patience from here on, and where that is so of
    /// everything that went again, nothing was lost.
    fn take_late(&mut self, now: Instant, late: u32) {
        if late == 0 || self.settings.retransmission == Retransmission::GoBackN {
            return;
        }
        self.rack.reordering_seen = true;
        self.rack.widen(self.send.una, self.send.nxt);
        self.send.unproven = self.send.unproven.saturating_sub(late);
        let recovers = matches!(self.phase, Phase::Recovery { .. });
        // Not one after the other: who says so of each loss is not believed.
        if self.send.unproven == 0 && recovers && self.send.una >= self.send.undone {
            self.send.undone = self.send.nxt;
            self.counters.spurious += 1;
            self.cc.on_spurious(now);
            self.send.queue.unmark_lost();
            self.phase = Phase::Open;
        }
    }

    /// The controller's rate, else the window's over its round trip if this context paces.
    fn update_pace(&mut self) {
        if self.settings.congestion.is_none() {
            return;
        }
        let (srtt, spreads) = (self.rtt.srtt(), self.settings.pacing);
        self.pacer.follow(&self.cc, srtt, self.send.max_payload, spreads);
    }

    /// Losses were found, with so much outstanding before the answer that showed them.
    fn enter_recovery(&mut self, now: Instant, outstanding: u64) {
        if !matches!(self.phase, Phase::Open) {
            return;
        }
        self.cc.on_congestion(now, Signal::Loss, outstanding);
        self.counters.recoveries += 1;
        self.send.unproven = 0;
        self.send.recovers_from = now;
        let mss = u64::from(self.send.max_payload);
        let proportional = !self.cc.steers_recovery() && self.settings.congestion.is_some();
        let prr = proportional
            .then(|| prr::Recovery::new(outstanding, self.cc.slow_start_threshold(), mss));
        self.phase = Phase::Recovery { until: self.send.nxt, prr };
    }

    /// The reordering timer went off.
    pub(super) fn on_reorder_timeout(&mut self, now: Instant) {
        if self.detect_losses(now) > 0 {
            self.enter_recovery(now, self.send.nxt - self.send.una);
        }
        self.arm_tail(now);
    }
}
