//! CUBIC's congestion avoidance (RFC 9438): the window is a cubic function of the time since the
//! last reduction, and never below what NewReno would have.
//!
//! Windows are in segments here, as in the RFC, and floating: this is control, not data.

use core::time::Duration;

use fusewire_base::Instant;

use super::{Acked, Window};

/// How steeply the window grows, in segments per second cubed.
const C: f64 = 0.4;
/// What a reduction multiplies the window by.
const BETA: f64 = 0.7;
/// What NewReno's increase must be for a decrease of BETA to be fair (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of congestion avoidance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// `W_max`: the window before the last reduction, after fast convergence.
    w_max: f64,
    /// `cwnd_prior`: the window before the last reduction.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// One congestion avoidance stage, from reduction to reduction.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// `t_epoch`, moved forward by the time in which the window was not the limit.
    start: Instant,
    /// `K`, in seconds.
    k: f64,
    /// `W_est`: NewReno's window.
    w_est: f64,
    /// `cwnd`, with its fraction of a segment.
    cwnd: f64,
    /// When the window was last the limit.
    last_limited: Instant,
}

fn segments(bytes: u64, window: &Window) -> f64 {
    bytes as f64 / window.mss as f64
}

impl Cubic {
    pub(super) fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        let cwnd = segments(window.cwnd, window);
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(acked.now, cwnd));
        if (epoch.cwnd - cwnd).abs() >= 1.0 {
            // The window was changed from outside: its size in segments, a limit, an undo.
            epoch.cwnd = cwnd;
        }
        epoch.last_limited = acked.now;
        let segments_acked = segments(acked.bytes, window);
        let t = acked.now.saturating_since(epoch.start);

        // Section 4.3: NewReno's window, with its own increase once it is back where it came from.
        let alpha = if epoch.w_est >= self.cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * segments_acked / epoch.cwnd;

        if self.w_cubic(epoch.k, t) < epoch.w_est {
            epoch.cwnd = epoch.cwnd.max(epoch.w_est);
        } else {
            // Sections 4.2, 4.4 and 4.5.
            let target = self.w_cubic(epoch.k, t + acked.srtt).clamp(epoch.cwnd, 1.5 * epoch.cwnd);
            epoch.cwnd += (target - epoch.cwnd) / epoch.cwnd * segments_acked;
            epoch.cwnd = epoch.cwnd.min(target);
        }
        let bytes = (epoch.cwnd * window.mss as f64) as u64;
        if bytes > window.cwnd {
            window.set_cwnd(bytes);
        }
        self.epoch = Some(epoch);
    }

    /// An acknowledgement came while the sender did not use its window: the curve waits
    /// (section 5.8).
    pub(super) fn on_unlimited(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += now.saturating_since(epoch.last_limited);
            epoch.last_limited = now;
        }
    }

    /// Sections 4.6 and 4.7: reduces to BETA of the data in flight, and gives way to newer flows when
    /// the window did not reach its former maximum.
    pub(super) fn reduced(&mut self, window: &Window, _now: Instant, in_flight: u64) -> u64 {
        let cwnd = segments(window.cwnd, window);
        self.cwnd_prior = cwnd;
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.epoch = None;
        (in_flight.min(window.cwnd) as f64 * BETA) as u64
    }

    /// Section 4.8: the next congestion avoidance starts at the plateau, not on its way there.
    pub(super) fn on_rto(&mut self) {
        self.epoch = None;
    }

    /// The sender was idle: the next acknowledgement begins a new epoch.
    pub(super) fn on_idle(&mut self) {
        self.epoch = None;
    }

    fn begin(&mut self, now: Instant, cwnd: f64) -> Epoch {
        if self.w_max <= cwnd {
            // Section 4.10 and the case after a slow start that ended without loss: K is zero.
            self.w_max = cwnd;
            self.cwnd_prior = self.cwnd_prior.max(cwnd);
        }
        let k = ((self.w_max - cwnd) / C).cbrt();
        Epoch { start: now, k, w_est: cwnd, cwnd, last_limited: now }
    }

    /// Equation 1.
    fn w_cubic(&self, k: f64, t: Duration) -> f64 {
        let t = t.as_secs_f64() - k;
        C * t * t * t + self.w_max
    }
}
