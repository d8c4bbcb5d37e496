//! BBR version 3 (draft-ietf-ccwg-bbr), with the draft's names: a model of the path, the bandwidth and
//! the round-trip time that it has when nobody queues, drives the pacing rate and the window. It probes for more
//! bandwidth (Startup, ProbeBW_UP), drains what that queued (Drain, ProbeBW_DOWN), leaves room for others
//! (ProbeBW_CRUISE), and looks for the round-trip time (ProbeRTT). Loss below 2 % of a round does not slow it
//! while it probes; otherwise it follows what is delivered.
//!
//! Where the draft leaves a choice:
//! - A congestion mark (RFC 3168) counts as loss of the round, and as too much in flight while probing.
//! - Both windowed maxima are two slots, the time before and the time now.
//! - State before the losses of a round is saved once a round, so that a recovery which begins with the
//!   second loss does not overwrite it.
//! - `C.inflight` that a careful probe compares with `inflight_longterm` is that before the acknowledgement, within a
//!   segment: after it, the window always has room.
//!
//! In one point this is not the draft. There ProbeBW_UP goes on as long as `inflight_longterm` bounds the window, and
//! raises the bound by 1, 2, 4... segments a round, until more than 2 % are lost. Where a queue is shared, the first
//! of these segments fill it. A flow that counts losses then gives way by a third, while BBR, which lost less than
//! 2 %, takes the place that became free and fills the queue once more: two reductions a probe. CUBIC cannot grow
//! back what that takes before the next probe when the round trip is long. More in flight than UP's pacing gain
//! times the bandwidth-delay product finds no more bandwidth, only more of the queue; so a bound above that does not
//! reset the search for the plateau, and the probe ends after three rounds without growth.

mod model;

use core::time::Duration;

use fusewire_base::Instant;

use super::rate::{Packet, Sample, Sampler};
use super::{Acked, Config, Controller, Lost, Sent, Signal};

/// `StartupPacingGain`: 4 ln 2.
const STARTUP_PACING_GAIN: f64 = 2.77;
/// `PacingMarginPercent`.
const PACING_MARGIN_PERCENT: u64 = 1;
/// `LossThresh`.
const LOSS_THRESH: f64 = 0.02;
/// `Beta`.
const BETA: f64 = 0.7;
/// `Headroom`.
const HEADROOM: f64 = 0.15;
/// `MinPipeCwnd`, in segments.
const MIN_PIPE_CWND: u64 = 4;
/// `MinRTTFilterLen`.
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
/// `ProbeRTTCwndGain`.
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// `ProbeRTTDuration`.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `ProbeRTTInterval`.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `ExtraAckedFilterLen`, in rounds; a slot of the filter is half of it.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;
/// `BBRStartupFullLossCnt`.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// The round-trip time before there is one.
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// No bound is known.
const INFINITY: u64 = u64::MAX;

/// `BBR.state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

impl Mode {
    /// `BBR.pacing_gain`.
    fn pacing_gain(self) -> f64 {
        match self {
            Mode::Startup => STARTUP_PACING_GAIN,
            Mode::Drain => 0.5,
            Mode::ProbeBwDown => 0.9,
            Mode::ProbeBwUp => 1.25,
            Mode::ProbeBwCruise | Mode::ProbeBwRefill | Mode::ProbeRtt => 1.0,
        }
    }

    /// `BBR.cwnd_gain`.
    fn cwnd_gain(self) -> f64 {
        match self {
            Mode::ProbeBwUp => 2.25,
            Mode::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => 2.0,
        }
    }

    /// `IsInAProbeBWState`.
    fn is_probe_bw(self) -> bool {
        !matches!(self, Mode::Startup | Mode::Drain | Mode::ProbeRtt)
    }

    /// `IsProbingBW`.
    fn is_probing_bw(self) -> bool {
        matches!(self, Mode::Startup | Mode::ProbeBwRefill | Mode::ProbeBwUp)
    }
}

/// `BBR.ack_phase`: what acknowledgements tell of the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// A maximum over the slot of time that runs and the one before.
#[derive(Clone, Copy, Debug, Default)]
struct MaxFilter([u64; 2]);

impl MaxFilter {
    fn update(&mut self, value: u64) {
        self.0[1] = self.0[1].max(value);
    }

    /// Another slot begins. One without a sample says nothing and is forgotten.
    fn advance(&mut self) {
        if self.0[1] != 0 {
            self.0 = [self.0[1], 0];
        }
    }

    fn max(&self) -> u64 {
        self.0[0].max(self.0[1])
    }
}

/// What [`Bbr::handle_spurious_loss_detection`] restores.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    /// The state that the losses ended.
    mode: Option<Mode>,
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

/// One connection's BBR.
#[derive(Clone, Debug, Default)]
pub struct Bbr {
    sampler: Sampler,
    /// RS: of the last acknowledgement or loss.
    rs: Sample,
    mss: u64,
    initial_cwnd: u64,
    cwnd: u64,
    cwnd_max: u64,
    prior_cwnd: u64,
    /// `C.pacing_rate`, in bytes a second.
    pacing_rate: u64,
    has_seen_rtt: bool,
    selective: bool,
    /// When the event came that is being handled.
    now: Instant,
    /// `C.inflight`, as of the last event that told it.
    inflight: u64,
    /// `C.is_cwnd_limited`: in the last round or in this one.
    cwnd_limited: [bool; 2],
    in_fast_recovery: bool,
    in_loss_recovery: bool,
    random: u64,

    mode: Mode,
    round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    idle_restart: bool,
    drain_start_round: u64,

    max_bw_filter: MaxFilter,
    bw_shortterm: u64,
    bw: u64,
    min_rtt: Duration,
    min_rtt_stamp: Instant,
    inflight_longterm: u64,
    inflight_shortterm: u64,

    bw_latest: u64,
    inflight_latest: u64,
    is_loss_in_round: bool,
    loss_round_delivered: u64,
    loss_round_start: bool,
    /// Discontiguous ranges lost in this round, and where the last of them ends.
    loss_ranges: u32,
    loss_end: u64,

    extra_acked_filter: MaxFilter,
    extra_acked_round: u64,
    extra_acked_interval_start: Instant,
    extra_acked_delivered: u64,

    full_bw_reached: bool,
    full_bw_now: bool,
    full_bw: u64,
    full_bw_count: u32,

    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    bw_probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    bw_probe_wait: Duration,
    cycle_stamp: Instant,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,

    undo: Undo,

    probe_rtt_min_delay: Duration,
    probe_rtt_min_stamp: Instant,
    probe_rtt_expired: bool,
    probe_rtt_done_stamp: Option<Instant>,
    probe_rtt_round_done: bool,
}

impl From<&Config> for Box<Bbr> {
    /// `OnInit`.
    fn from(config: &Config) -> Self {
        let mss = u64::from(config.mss.max(1));
        let initial_cwnd = mss * u64::from(config.initial_window.max(1));
        let mut bbr = Box::new(Bbr {
            mss,
            initial_cwnd,
            cwnd: initial_cwnd,
            cwnd_max: config.window_max.max(MIN_PIPE_CWND * mss),
            selective: config.selective,
            random: config.seed,
            bw_shortterm: INFINITY,
            inflight_shortterm: INFINITY,
            inflight_longterm: INFINITY,
            probe_up_acked_per_inc: INFINITY,
            loss_end: INFINITY,
            min_rtt: Duration::MAX,
            probe_rtt_min_delay: Duration::MAX,
            ..Bbr::default()
        });
        bbr.init_pacing_rate(NOMINAL_RTT);
        bbr
    }
}

fn scaled(bytes: u64, gain: f64) -> u64 {
    if bytes == INFINITY { INFINITY } else { (bytes as f64 * gain) as u64 }
}

/// Bytes that `rate` carries in `time`.
fn carried(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(INFINITY)
}

impl Bbr {
    // ---- what is derived

    fn max_bw(&self) -> u64 {
        self.max_bw_filter.max()
    }

    fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND * self.mss
    }

    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited[0] || self.cwnd_limited[1]
    }

    /// `BDPMultiple`.
    fn bdp_multiple(&self, bw: u64, gain: f64) -> u64 {
        if self.min_rtt == Duration::MAX {
            return self.initial_cwnd;
        }
        scaled(carried(bw, self.min_rtt), gain)
    }

    /// `C.send_quantum`.
    fn send_quantum(&self) -> u64 {
        carried(self.pacing_rate, Duration::from_millis(1)).min(64 << 10).max(2 * self.mss)
    }

    /// `QuantizationBudget`.
    fn quantization_budget(&self, inflight_cap: u64) -> u64 {
        let offload_budget = 3 * self.send_quantum();
        let more = if self.mode == Mode::ProbeBwUp { 2 * self.mss } else { 0 };
        inflight_cap.max(offload_budget).max(self.min_pipe_cwnd()).saturating_add(more)
    }

    /// `Inflight`.
    fn inflight_of(&self, bw: u64, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// `InflightWithHeadroom`.
    fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = self.mss.max(scaled(self.inflight_longterm, HEADROOM));
        self.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    /// `TargetInflight`.
    fn target_inflight(&self) -> u64 {
        self.bdp_multiple(self.bw, 1.0).min(self.cwnd)
    }

    /// `ProbeRTTCwnd`.
    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(self.bw, PROBE_RTT_CWND_GAIN).max(self.min_pipe_cwnd())
    }

    /// A random number (splitmix64), from the seed that the connection gave.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    // ---- rounds, and Startup and Drain

    fn start_round(&mut self) {
        self.next_round_delivered = self.sampler.delivered;
    }

    /// `UpdateRound`.
    fn update_round(&mut self) {
        self.round_start =
            self.rs.prior_delivered.is_some_and(|prior| prior >= self.next_round_delivered);
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
            self.cwnd_limited = [self.cwnd_limited[1], false];
        }
    }

    /// `ResetFullBW`, with `full_bw` as the baseline.
    fn reset_full_bw(&mut self, full_bw: u64) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (full_bw, 0, false);
    }

    /// `CheckFullBWReached`.
    fn check_full_bw_reached(&mut self) {
        if self.full_bw_now || !self.round_start || self.rs.is_app_limited {
            return;
        }
        if self.rs.delivery_rate as f64 >= self.full_bw as f64 * 1.25 {
            return self.reset_full_bw(self.rs.delivery_rate);
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// `CheckStartupDone`.
    fn check_startup_done(&mut self) {
        if self.mode == Mode::Startup && self.is_startup_loss_high() {
            self.leave_startup_for_loss();
        }
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    /// `CheckStartupHighLoss`: a round in fast recovery, its loss rate, and its losses not of one piece.
    fn is_startup_loss_high(&self) -> bool {
        if !self.selective {
            return self.in_fast_recovery && self.is_loss_in_round;
        }
        self.loss_round_start
            && self.in_fast_recovery
            && self.loss_ranges >= STARTUP_FULL_LOSS_COUNT
            && self.is_inflight_too_high()
    }

    fn leave_startup_for_loss(&mut self) {
        self.undo.mode = Some(Mode::Startup);
        self.full_bw_reached = true;
        self.inflight_longterm = self.bdp_multiple(self.bw, 1.0).max(self.inflight_latest);
    }

    /// `CheckDrainDone`.
    fn check_drain_done(&mut self) {
        if self.mode == Mode::Drain
            && (self.inflight <= self.inflight_of(self.bw, 1.0)
                || self.round_count > self.drain_start_round + 3)
        {
            self.start_probe_bw_down();
        }
    }

    // ---- ProbeBW

    /// `StartProbeBW_DOWN`, with `PickProbeWait`.
    fn start_probe_bw_down(&mut self) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITY;
        self.rounds_since_probe_up = self.random() & 1;
        let up_to_a_second = self.random() % 1_000_000_000;
        self.bw_probe_wait = Duration::from_secs(2) + Duration::from_nanos(up_to_a_second);
        self.cycle_stamp = self.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.mode = Mode::ProbeBwDown;
    }

    /// `StartProbeBW_REFILL`.
    fn start_probe_bw_refill(&mut self) {
        self.reset_short_term_model();
        self.bw_probe_up_rounds = 0;
        self.bw_probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.mode = Mode::ProbeBwRefill;
    }

    /// `StartProbeBW_UP`.
    fn start_probe_bw_up(&mut self) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.reset_full_bw(self.rs.delivery_rate);
        self.mode = Mode::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    fn update_probe_bw_cycle_phase(&mut self) {
        if !self.full_bw_reached || self.adapt_long_term_model() {
            return;
        }
        let mode = self.mode;
        match mode {
            Mode::ProbeBwDown | Mode::ProbeBwCruise if self.is_time_to_probe_bw() => {
                self.start_probe_bw_refill();
            }
            Mode::ProbeBwDown if self.is_time_to_cruise() => self.mode = Mode::ProbeBwCruise,
            Mode::ProbeBwRefill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_probe_bw_up();
            }
            Mode::ProbeBwUp if self.is_time_to_go_down() => {
                self.prev_probe_too_high = false;
                self.start_probe_bw_down();
            }
            _ => {}
        }
    }

    /// `IsTimeToProbeBW`, with `IsRenoCoexistenceProbeTime`.
    fn is_time_to_probe_bw(&self) -> bool {
        self.now > self.cycle_stamp + self.bw_probe_wait
            || self.rounds_since_probe_up >= (self.target_inflight() / self.mss).min(63)
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self) -> bool {
        self.inflight <= self.inflight_with_headroom()
            && self.inflight <= self.inflight_of(self.max_bw(), 1.0)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self) -> bool {
        // Before this acknowledgement: after it, the window always has room for a segment.
        let inflight_before = self.inflight + self.rs.newly_acked;
        if self.prev_probe_too_high && inflight_before + self.mss > self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.is_cwnd_limited()
            && self.cwnd >= self.inflight_longterm
            && self.does_longterm_hide_bw()
        {
            self.reset_full_bw(self.rs.delivery_rate);
            return false;
        }
        self.full_bw_now
    }

    /// `inflight_longterm` is too low to see in ProbeBW_UP whether there is more bandwidth. With as much in flight
    /// as UP's rate puts there in a round trip, more bandwidth would show; what is beyond only waits in the queue.
    fn does_longterm_hide_bw(&self) -> bool {
        let probed = self.bdp_multiple(self.max_bw(), Mode::ProbeBwUp.pacing_gain());
        self.inflight_longterm < probed
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (self.cwnd / growth_this_round).max(self.mss);
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_inflight_longterm_upward(&mut self) {
        if !self.is_cwnd_limited() || self.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked += self.rs.newly_acked;
        let delta = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
        self.bw_probe_up_acked %= self.probe_up_acked_per_inc;
        self.inflight_longterm = self.inflight_longterm.saturating_add(delta * self.mss);
        if self.round_start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// `AdaptLongTermModel`: true when it decided a transition.
    fn adapt_long_term_model(&mut self) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.mode.is_probe_bw() {
                if !self.rs.is_app_limited {
                    self.max_bw_filter.advance();
                }
                if self.prev_probe_precautionary && !self.prev_probe_too_high {
                    self.start_probe_bw_refill();
                    return true;
                }
            }
        }
        if !self.is_inflight_too_high() && self.inflight_longterm != INFINITY {
            self.inflight_longterm = self.inflight_longterm.max(self.rs.tx_in_flight);
            if self.mode == Mode::ProbeBwUp {
                self.probe_inflight_longterm_upward();
            }
        }
        false
    }
}

impl Controller for Bbr {
    fn window(&self) -> u64 {
        self.cwnd.clamp(self.mss, self.cwnd_max)
    }

    fn in_slow_start(&self) -> bool {
        self.mode == Mode::Startup
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn keeps_packets(&self) -> bool {
        true
    }

    fn steers_recovery(&self) -> bool {
        true
    }

    /// `OnTransmit` with `HandleRestartFromIdle`, and `OnPacketSent`.
    fn on_sent(&mut self, sent: &Sent) -> Packet {
        (self.now, self.inflight) = (sent.now, sent.in_flight);
        if sent.in_flight <= sent.bytes && self.sampler.is_app_limited() {
            self.idle_restart = true;
            self.extra_acked_interval_start = sent.now;
            if self.mode.is_probe_bw() {
                self.set_pacing_rate_with_gain(1.0);
            } else if self.mode == Mode::ProbeRtt {
                self.check_probe_rtt_done();
            }
        }
        self.cwnd_limited[1] |= sent.in_flight + self.mss > self.cwnd;
        self.sampler.on_sent(sent)
    }

    /// `UpdateOnACK`.
    fn on_acked(&mut self, acked: &Acked) {
        (self.now, self.inflight) = (acked.now, acked.in_flight);
        if acked.rtt.is_some() && !core::mem::replace(&mut self.has_seen_rtt, true) {
            self.init_pacing_rate(acked.srtt);
        }
        self.rs = self.sampler.on_acked(acked);
        self.update_latest_delivery_signals();
        self.update_congestion_signals();
        self.update_ack_aggregation();
        self.check_full_bw_reached();
        self.check_startup_done();
        self.check_drain_done();
        self.update_probe_bw_cycle_phase();
        self.update_min_rtt();
        self.check_probe_rtt();
        self.advance_latest_delivery_signals();
        self.bw = self.max_bw().min(self.bw_shortterm);
        self.set_pacing_rate_with_gain(self.mode.pacing_gain());
        self.set_cwnd();
    }

    /// `HandleLostPacket`.
    fn on_lost(&mut self, lost: &Lost) {
        self.now = lost.now;
        self.sampler.lost += lost.bytes;
        self.loss_ranges += u32::from(lost.start != self.loss_end);
        self.loss_end = lost.start + lost.bytes;
        self.note_loss();
        let Some(packet) = lost.packet.filter(|_| self.is_bw_probe_sample) else { return };
        self.rs.tx_in_flight = packet.tx_in_flight.into();
        self.rs.lost = self.sampler.lost - packet.lost;
        self.rs.is_app_limited = packet.is_app_limited;
        if self.is_inflight_too_high() {
            self.rs.tx_in_flight = self.inflight_at_loss(lost.bytes);
            self.handle_inflight_too_high();
        }
    }

    /// `OnEnterFastRecovery` and `OnEnterRTO`; a mark is too much in flight, in every state.
    fn on_congestion(&mut self, now: Instant, signal: Signal, _in_flight: u64) {
        self.now = now;
        self.note_loss();
        match signal {
            Signal::Ecn if self.mode == Mode::Startup => self.leave_startup_for_loss(),
            Signal::Ecn if self.is_bw_probe_sample => self.handle_inflight_too_high(),
            Signal::Ecn => {}
            Signal::Loss => {
                self.save_cwnd();
                (self.in_fast_recovery, self.in_loss_recovery) = (true, true);
            }
            Signal::Timeout => {
                self.save_cwnd();
                (self.in_fast_recovery, self.in_loss_recovery) = (false, true);
                self.cwnd = self.mss;
            }
        }
    }

    fn on_recovered(&mut self, _now: Instant) {
        (self.in_fast_recovery, self.in_loss_recovery) = (false, false);
        self.restore_cwnd();
    }

    fn on_spurious(&mut self, now: Instant) {
        self.now = now;
        (self.in_fast_recovery, self.in_loss_recovery) = (false, false);
        self.handle_spurious_loss_detection();
    }

    fn on_app_limited(&mut self, in_flight: u64) {
        self.sampler.mark_app_limited(in_flight);
    }

    fn set_mss(&mut self, mss: u32) {
        let mss = u64::from(mss.max(1));
        let untouched = self.cwnd == self.initial_cwnd && !self.has_seen_rtt;
        self.initial_cwnd = self.initial_cwnd / self.mss * mss;
        self.mss = mss;
        self.cwnd_max = self.cwnd_max.max(self.min_pipe_cwnd());
        if untouched {
            self.cwnd = self.initial_cwnd;
        }
    }
}

#[cfg(test)]
mod tests;
