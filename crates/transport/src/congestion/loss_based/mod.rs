//! Controllers that count acknowledgements and losses: what they share is slow start with HyStart++
//! (RFC 9406), the limits of RFC 5681, undo after a spurious reduction; what they differ in is the [`Law`] of
//! congestion avoidance: NewReno's (RFC 5681, 6582, with byte counting after RFC 3465) or CUBIC's (RFC 9438).

mod cubic;
mod hystart;
mod new_reno;

use core::fmt;
use core::time::Duration;

use fusewire_base::Instant;

use super::{Acked, Config, Controller, Signal};

pub use cubic::Cubic;
use hystart::{HyStart, Phase};
pub use new_reno::NewReno;

/// The window and its threshold, shared by slow start and both laws. All in bytes.
///
/// `mss <= cwnd`, `2 * mss <= ssthresh`.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    cwnd: u64,
    ssthresh: u64,
    mss: u64,
    cwnd_max: u64,
}

impl Window {
    fn set_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd.min(self.cwnd_max).max(self.mss);
    }

    fn grow(&mut self, bytes: u64) {
        self.set_cwnd(self.cwnd.saturating_add(bytes));
    }
}

/// A law of congestion avoidance.
pub trait Law: Copy + Default + fmt::Debug {
    /// Bytes were delivered while the window was the limit.
    fn on_ack(&mut self, window: &mut Window, acked: &Acked);
    /// An acknowledgement came while the sender did not use its window.
    fn on_unlimited(&mut self, _now: Instant) {}
    /// Congestion with `in_flight` bytes in the network: what the window becomes.
    fn reduced(&mut self, window: &Window, in_flight: u64) -> u64;
    /// The retransmission timer went off.
    fn on_timeout(&mut self) {}
    /// The sender was idle.
    fn on_idle(&mut self) {}
}

/// What a reduction replaced, for [`Controller::on_spurious`].
#[derive(Clone, Copy, Debug)]
struct Undo<L> {
    cwnd: u64,
    ssthresh: u64,
    law: L,
}

/// One connection's controller.
#[derive(Clone, Debug)]
pub struct LossBased<L> {
    window: Window,
    initial_window: u64,
    per_ack_max: u64,
    law: L,
    hystart: Option<HyStart>,
    undo: Option<Undo<L>>,
    /// Set from a timeout until slow start has ended.
    timed_out: Option<TimedOut>,
}

/// Slow start after a timeout.
#[derive(Clone, Copy, Debug)]
struct TimedOut {
    /// Something was acknowledged since.
    acknowledged: bool,
}

impl<L: Law> From<&Config> for LossBased<L> {
    /// In slow start with the initial window.
    fn from(config: &Config) -> Self {
        let mss = u64::from(config.mss.max(1));
        let initial_window = mss * u64::from(config.initial_window.max(1));
        let cwnd_max = config.window_max.max(2 * mss);
        let mut window = Window { cwnd: mss, ssthresh: u64::MAX, mss, cwnd_max };
        window.set_cwnd(initial_window);
        LossBased {
            window,
            initial_window,
            per_ack_max: u64::from(config.slow_start_segments_max.max(1)),
            law: L::default(),
            hystart: config.hystart.then(HyStart::default),
            undo: None,
            timed_out: None,
        }
    }
}

impl<L: Law> LossBased<L> {
    fn slow_start(&mut self, acked: &Acked, phase: Phase) {
        // RFC 3465, section 2.3: after a timeout one segment an acknowledgement.
        let segments = if self.timed_out.is_some() { 1 } else { self.per_ack_max };
        let mut bytes = acked.bytes.min(segments.saturating_mul(self.window.mss));
        if phase == Phase::Conservative {
            bytes /= hystart::CSS_GROWTH_DIVISOR;
        }
        // What goes beyond the threshold is congestion avoidance's to count.
        let room = self.window.ssthresh - self.window.cwnd;
        self.window.grow(bytes.min(room));
    }

    /// Window and threshold that the law asks for after congestion with `in_flight` bytes out.
    fn reduce(&mut self, in_flight: u64) -> u64 {
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.ssthresh);
        self.undo = Some(Undo { cwnd, ssthresh, law: self.law });
        let target = self.law.reduced(&self.window, in_flight);
        self.window.ssthresh = target.max(2 * self.window.mss);
        target
    }

    fn on_timeout(&mut self, in_flight: u64) {
        // RFC 5681, section 3.1: when the timer goes off again for the same segment, the threshold
        // stays.
        if self.timed_out.is_none_or(|timed_out| timed_out.acknowledged) {
            self.reduce(in_flight);
        }
        self.law.on_timeout();
        self.timed_out = Some(TimedOut { acknowledged: false });
        let loss_window = self.window.mss;
        self.window.set_cwnd(loss_window);
    }
}

impl<L: Law> Controller for LossBased<L> {
    fn window(&self) -> u64 {
        self.window.cwnd
    }

    fn slow_start_threshold(&self) -> u64 {
        self.window.ssthresh
    }

    fn on_acked(&mut self, acked: &Acked) {
        let phase = match &mut self.hystart {
            Some(hystart) if self.window.cwnd < self.window.ssthresh => hystart.on_ack(acked),
            _ => Phase::SlowStart,
        };
        if phase == Phase::Done {
            // RFC 9406, section 4.3: CSS_ROUNDS have passed.
            self.window.ssthresh = self.window.cwnd.max(2 * self.window.mss);
            self.hystart = None;
        }
        if self.in_slow_start() {
            // More than half a window in use is enough: slow start doubles it (RFC 7661, section 4.1).
            if acked.window_limited || self.window.cwnd < 2 * acked.in_flight_before {
                self.slow_start(acked, phase);
            }
        } else if acked.window_limited {
            self.law.on_ack(&mut self.window, acked);
        } else {
            self.law.on_unlimited(acked.now);
        }
        if let Some(timed_out) = &mut self.timed_out {
            timed_out.acknowledged = true;
        }
        if !self.in_slow_start() {
            self.timed_out = None;
        }
        debug_assert!(self.window.cwnd >= self.window.mss);
    }

    fn on_congestion(&mut self, _now: Instant, signal: Signal, in_flight: u64) {
        // RFC 9406, section 4.3: HyStart++ is for the initial slow start alone.
        self.hystart = None;
        // RFC 9438, section 4.6: after ECE the window may go down to one segment.
        let segments = match signal {
            Signal::Timeout => return self.on_timeout(in_flight),
            Signal::Loss => 2,
            Signal::Ecn => 1,
        };
        self.timed_out = None;
        let target = self.reduce(in_flight);
        self.window.set_cwnd(target.max(segments * self.window.mss));
    }

    fn on_recovered(&mut self, _now: Instant) {
        self.timed_out = None;
        if self.window.cwnd > self.window.ssthresh {
            let ssthresh = self.window.ssthresh;
            self.window.set_cwnd(ssthresh);
        }
    }

    fn on_spurious(&mut self, _now: Instant) {
        let Some(undo) = self.undo.take() else { return };
        let cwnd = undo.cwnd.max(self.window.cwnd);
        self.window.set_cwnd(cwnd);
        self.window.ssthresh = undo.ssthresh.max(2 * self.window.mss);
        self.law = undo.law;
        self.timed_out = None;
    }

    fn on_idle(&mut self, _now: Instant, _idle: Duration) {
        // RW = min(IW, cwnd); three quarters of what the path carried are remembered (RFC 7661,
        // section 4.4.3).
        if self.window.cwnd > self.initial_window {
            if self.window.ssthresh != u64::MAX {
                self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
            }
            let restart = self.initial_window;
            self.window.set_cwnd(restart);
        }
        self.law.on_idle();
    }

    /// The window keeps its size in bytes; while nothing was learnt yet, its size in segments.
    fn set_mss(&mut self, mss: u32) {
        let mss = u64::from(mss.max(1));
        let untouched = self.window.cwnd == self.initial_window && self.window.ssthresh == u64::MAX;
        self.initial_window = self.initial_window / self.window.mss * mss;
        self.window.mss = mss;
        self.window.cwnd_max = self.window.cwnd_max.max(2 * mss);
        let cwnd = if untouched { self.initial_window } else { self.window.cwnd };
        self.window.set_cwnd(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(2 * mss);
    }
}
