//! What BBR knows of the path ("Updating Network Path Model Parameters" of the draft), and the rate and the window
//! that follow from it.

use super::*;

impl Bbr {
    // ---- loss

    /// `IsInflightTooHigh`.
    pub(super) fn is_inflight_too_high(&self) -> bool {
        self.rs.lost as f64 > self.rs.tx_in_flight as f64 * LOSS_THRESH
            || (self.rs.lost > 0 && !self.selective)
    }

    /// `HandleInflightTooHigh`.
    pub(super) fn handle_inflight_too_high(&mut self) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !self.rs.is_app_limited {
            self.inflight_longterm = self.rs.tx_in_flight.max(scaled(self.target_inflight(), BETA));
        }
        if self.mode == Mode::ProbeBwUp {
            self.undo.mode = Some(Mode::ProbeBwUp);
            self.start_probe_bw_down();
        }
    }

    /// `NoteLoss`.
    pub(super) fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.sampler.delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    /// `InflightAtLoss`: how much in flight was when losses crossed the threshold, perhaps within a packet.
    pub(super) fn inflight_at_loss(&self, size: u64) -> u64 {
        let inflight_prev = self.rs.tx_in_flight.saturating_sub(size) as f64;
        let lost_prev = self.rs.lost.saturating_sub(size) as f64;
        let lost_prefix = (LOSS_THRESH * inflight_prev - lost_prev) / (1.0 - LOSS_THRESH);
        (inflight_prev + lost_prefix) as u64
    }

    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery_signals(&mut self) {
        self.bw_latest = self.bw_latest.max(self.rs.delivery_rate);
        self.inflight_latest = self.inflight_latest.max(self.rs.delivered);
        self.loss_round_start =
            self.rs.prior_delivered.is_some_and(|prior| prior >= self.loss_round_delivered);
        if self.loss_round_start {
            self.loss_round_delivered = self.sampler.delivered;
        }
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery_signals(&mut self) {
        if self.loss_round_start {
            self.bw_latest = self.rs.delivery_rate;
            self.inflight_latest = self.rs.delivered;
            self.loss_ranges = 0;
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// `UpdateCongestionSignals`, with `UpdateMaxBw`.
    pub(super) fn update_congestion_signals(&mut self) {
        self.update_round();
        let rate = self.rs.delivery_rate;
        if rate > 0 && (rate >= self.max_bw() || !self.rs.is_app_limited) {
            self.max_bw_filter.update(rate);
        }
        if self.loss_round_start {
            self.adapt_lower_bounds_from_congestion();
        }
    }

    /// `AdaptLowerBoundsFromCongestion`, once a round.
    pub(super) fn adapt_lower_bounds_from_congestion(&mut self) {
        if !core::mem::take(&mut self.is_loss_in_round) || self.mode.is_probing_bw() {
            return;
        }
        let bw = if self.bw_shortterm == INFINITY { self.max_bw() } else { self.bw_shortterm };
        let inflight =
            if self.inflight_shortterm == INFINITY { self.cwnd } else { self.inflight_shortterm };
        self.bw_shortterm = self.bw_latest.max(scaled(bw, BETA));
        self.inflight_shortterm = self.inflight_latest.max(scaled(inflight, BETA));
    }

    /// `ResetShortTermModel`.
    pub(super) fn reset_short_term_model(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (INFINITY, INFINITY);
    }

    /// `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self) {
        let is_good = !self.in_loss_recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if is_good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            mode: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn handle_spurious_loss_detection(&mut self) {
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.reset_full_bw(0);
        let undo = core::mem::take(&mut self.undo);
        self.bw_shortterm = self.bw_shortterm.max(undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        match undo.mode {
            Some(Mode::Startup) if self.mode != Mode::Startup => {
                self.full_bw_reached = false;
                if self.mode != Mode::ProbeRtt {
                    self.mode = Mode::Startup;
                }
            }
            Some(Mode::ProbeBwUp) if !matches!(self.mode, Mode::ProbeBwUp | Mode::ProbeRtt) => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }

    // ---- the path's round-trip time, and how acknowledgements are gathered

    /// `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self) {
        if self.min_rtt == Duration::MAX {
            (self.min_rtt_stamp, self.probe_rtt_min_stamp) = (self.now, self.now);
        }
        self.probe_rtt_expired = self.now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = self.rs.rtt
            && (rtt < self.probe_rtt_min_delay || self.probe_rtt_expired)
        {
            (self.probe_rtt_min_delay, self.probe_rtt_min_stamp) = (rtt, self.now);
        }
        let min_rtt_expired = self.now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        if self.probe_rtt_min_delay < self.min_rtt || min_rtt_expired {
            self.min_rtt = self.probe_rtt_min_delay;
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self) {
        if self.mode != Mode::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.mode == Mode::ProbeRtt {
            self.handle_probe_rtt();
        }
        if self.rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    pub(super) fn handle_probe_rtt(&mut self) {
        // Low samples in this state say nothing of the path.
        self.sampler.mark_app_limited(self.inflight);
        if self.probe_rtt_done_stamp.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done();
            }
        } else if self.inflight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done_stamp = Some(self.now + PROBE_RTT_DURATION);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    /// `CheckProbeRTTDone`, with `ExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.probe_rtt_done_stamp.is_none_or(|done| self.now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = self.now;
        self.restore_cwnd();
        self.reset_short_term_model();
        if self.full_bw_reached {
            self.start_probe_bw_down();
            self.mode = Mode::ProbeBwCruise;
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `UpdateACKAggregation`.
    pub(super) fn update_ack_aggregation(&mut self) {
        let mut expected_delivered = carried(self.bw, self.now - self.extra_acked_interval_start);
        if self.extra_acked_delivered <= expected_delivered {
            self.extra_acked_delivered = 0;
            self.extra_acked_interval_start = self.now;
            expected_delivered = 0;
        }
        self.extra_acked_delivered += self.rs.newly_acked;
        let extra = (self.extra_acked_delivered - expected_delivered).min(self.cwnd);
        let slot = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN / 2 } else { 1 };
        if self.round_count >= self.extra_acked_round + slot {
            self.extra_acked_round = self.round_count;
            self.extra_acked_filter.advance();
        }
        self.extra_acked_filter.update(extra);
    }

    // ---- pacing rate and window

    /// `InitPacingRate`.
    pub(super) fn init_pacing_rate(&mut self, rtt: Duration) {
        let nanoseconds = rtt.as_nanos().max(1) as f64;
        let nominal_bandwidth = self.initial_cwnd as f64 * 1e9 / nanoseconds;
        self.pacing_rate = (STARTUP_PACING_GAIN * nominal_bandwidth) as u64;
    }

    /// `SetPacingRateWithGain`.
    pub(super) fn set_pacing_rate_with_gain(&mut self, pacing_gain: f64) {
        let rate = scaled(self.bw, pacing_gain) / 100 * (100 - PACING_MARGIN_PERCENT);
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate.max(1);
        }
    }

    /// `SetCwnd`, with `UpdateMaxInflight`, `BoundCwndForProbeRTT` and `BoundCwndForModel`.
    pub(super) fn set_cwnd(&mut self) {
        let cap = self.bdp_multiple(self.bw, self.mode.cwnd_gain());
        let max_inflight =
            self.quantization_budget(cap.saturating_add(self.extra_acked_filter.max()));
        let grown = self.cwnd.saturating_add(self.rs.newly_acked);
        if self.full_bw_reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || self.sampler.delivered < self.initial_cwnd {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.mode {
            Mode::ProbeRtt | Mode::ProbeBwCruise => self.inflight_with_headroom(),
            mode if mode.is_probe_bw() => self.inflight_longterm,
            _ => INFINITY,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap).min(self.cwnd_max);
    }
}
