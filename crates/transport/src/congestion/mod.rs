//! Congestion control: how many bytes may be in the network. No I/O, no clock, no allocation.
//!
//! A controller knows no segment and no scoreboard. The TCP machine tells it what was acknowledged
//! and what kind of congestion was noticed; during fast recovery the machine asks PRR
//! ([`crate::prr`]) instead of the window, and the controller only learns that recovery has ended.
//!
//! [`State`] holds what all algorithms share: slow start with HyStart++ (RFC 9406), the limits of
//! RFC 5681, undo after a spurious reduction. The law of congestion avoidance is NewReno's
//! (RFC 5681, 6582, with byte counting after RFC 3465) or CUBIC's (RFC 9438).

mod cubic;
mod hystart;
mod new_reno;

use core::time::Duration;

use fusewire_base::Instant;

use cubic::Cubic;
use hystart::{HyStart, Phase};
use new_reno::NewReno;

/// What one cumulative or selective acknowledgement did.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When the acknowledgement came.
    pub now: Instant,
    /// Bytes newly delivered (cumulatively or by SACK).
    pub bytes: u64,
    /// Bytes in the network before this acknowledgement was counted, or the most of this round.
    pub in_flight_before: u64,
    /// Cumulative acknowledgement as stream offset (SND.UNA).
    pub snd_una: u64,
    /// Next offset to be sent (SND.NXT): HyStart++ marks the end of a round with it.
    pub snd_nxt: u64,
    /// Round-trip time that this acknowledgement gave, if it gave one.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time, after that sample.
    pub srtt: Duration,
    /// The window was what limited the sender in this flight (RFC 7661; RFC 9438, section 4.2).
    pub window_limited: bool,
}

/// A kind of congestion that was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Loss found by SACK, RACK or duplicate acknowledgements: fast recovery begins. Once a recovery.
    Loss,
    /// ECN echo (RFC 3168). At most once a round trip.
    Ecn,
    /// The retransmission timer went off (RFC 5681, equation 4; window becomes one segment).
    Timeout,
}

/// The window's keeper. One object a connection; no allocation.
pub trait Controller {
    /// Congestion window, in bytes, at least one segment.
    fn window(&self) -> u64;
    /// Slow-start threshold, in bytes; `u64::MAX` before the first congestion.
    fn slow_start_threshold(&self) -> u64;
    /// The window is below the threshold (this includes HyStart++'s conservative slow start).
    fn in_slow_start(&self) -> bool {
        self.window() < self.slow_start_threshold()
    }
    /// Bytes newly acknowledged. Not called during fast recovery (PRR rules then).
    fn on_acked(&mut self, acked: &Acked);
    /// Congestion noticed with `in_flight` bytes in the network. Afterwards `slow_start_threshold` is
    /// the target of the recovery, and the window is already there (one segment after a timeout).
    fn on_congestion(&mut self, now: Instant, signal: Signal, in_flight: u64);
    /// Fast recovery has ended; the window becomes the slow-start threshold.
    fn on_recovered(&mut self, now: Instant);
    /// The last `on_congestion` was a mistake (DSACK, Eifel, F-RTO): the state before it comes back.
    fn on_spurious(&mut self, now: Instant);
    /// Nothing was in the network for `idle`, longer than the retransmission timeout (RFC 5681, section 4.1).
    fn on_idle(&mut self, now: Instant, idle: Duration);
    /// The path's maximum segment payload changed.
    fn set_mss(&mut self, mss: u32);
}

/// Which controller a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681 and RFC 6582.
    NewReno,
    /// RFC 9438 with HyStart++ (RFC 9406).
    #[default]
    Cubic,
}

impl Algorithm {
    /// A controller in slow start, for segments of `mss` payload bytes and an initial window (IW) of
    /// so many segments (RFC 6928: 10). For a paced sender: an acknowledgement of many segments
    /// opens the window by all of them.
    pub fn start(self, mss: u32, initial_window: u32) -> State {
        State::new(&Config { algorithm: self, mss, initial_window, ..Config::default() })
    }
}

/// What a controller is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The law of congestion avoidance.
    pub algorithm: Algorithm,
    /// Sender maximum segment size (SMSS) in payload bytes; see [`Controller::set_mss`].
    pub mss: u32,
    /// Initial window (IW) in segments; RFC 6928 says 10.
    pub initial_window: u32,
    /// The window never grows beyond this many bytes.
    pub window_max: u64,
    /// Leave slow start when the round-trip time rises (RFC 9406).
    pub hystart: bool,
    /// Most segments by which one acknowledgement opens the window in slow start: L of RFC 3465 and
    /// 9406. `u32::MAX` is right for a paced sender, 8 for one that is not.
    pub slow_start_segments_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            algorithm: Algorithm::Cubic,
            mss: 1200,
            initial_window: 10,
            window_max: 1 << 30,
            hystart: true,
            slow_start_segments_max: u32::MAX,
        }
    }
}

/// The window and its threshold, shared by slow start and both laws. All in bytes.
///
/// `mss <= cwnd`, `2 * mss <= ssthresh`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
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

#[derive(Clone, Copy, Debug)]
enum Law {
    NewReno(NewReno),
    Cubic(Cubic),
}

/// What a reduction replaced, for [`Controller::on_spurious`].
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
    law: Law,
}

/// One connection's congestion controller.
#[derive(Clone, Debug)]
pub struct State {
    window: Window,
    initial_window: u64,
    per_ack_max: u64,
    law: Law,
    hystart: Option<HyStart>,
    undo: Option<Undo>,
    /// Set from a timeout until slow start has ended.
    timed_out: Option<TimedOut>,
}

/// Slow start after a timeout.
#[derive(Clone, Copy, Debug)]
struct TimedOut {
    /// Something was acknowledged since.
    acknowledged: bool,
}

impl State {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        let mss = u64::from(config.mss.max(1));
        let initial_window = mss * u64::from(config.initial_window.max(1));
        let law = match config.algorithm {
            Algorithm::NewReno => Law::NewReno(NewReno::default()),
            Algorithm::Cubic => Law::Cubic(Cubic::default()),
        };
        let cwnd_max = config.window_max.max(2 * mss);
        let mut window = Window { cwnd: mss, ssthresh: u64::MAX, mss, cwnd_max };
        window.set_cwnd(initial_window);
        State {
            window,
            initial_window,
            per_ack_max: u64::from(config.slow_start_segments_max.max(1)),
            law,
            hystart: config.hystart.then(HyStart::default),
            undo: None,
            timed_out: None,
        }
    }

    /// Sender maximum segment size in bytes.
    pub fn mss(&self) -> u64 {
        self.window.mss
    }

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
    fn reduce(&mut self, now: Instant, in_flight: u64) -> u64 {
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.ssthresh);
        self.undo = Some(Undo { cwnd, ssthresh, law: self.law });
        let target = match &mut self.law {
            Law::NewReno(law) => law.reduced(&self.window, in_flight),
            Law::Cubic(law) => law.reduced(&self.window, now, in_flight),
        };
        self.window.ssthresh = target.max(2 * self.window.mss);
        target
    }

    fn on_timeout(&mut self, now: Instant, in_flight: u64) {
        // RFC 5681, section 3.1: when the timer goes off again for the same segment, the threshold
        // stays.
        if self.timed_out.is_none_or(|timed_out| timed_out.acknowledged) {
            self.reduce(now, in_flight);
        }
        if let Law::Cubic(law) = &mut self.law {
            law.on_timeout();
        }
        self.timed_out = Some(TimedOut { acknowledged: false });
        let loss_window = self.window.mss;
        self.window.set_cwnd(loss_window);
    }
}

impl Controller for State {
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
            match &mut self.law {
                Law::NewReno(law) => law.on_ack(&mut self.window, acked),
                Law::Cubic(law) => law.on_ack(&mut self.window, acked),
            }
        } else if let Law::Cubic(law) = &mut self.law {
            law.on_unlimited(acked.now);
        }
        if let Some(timed_out) = &mut self.timed_out {
            timed_out.acknowledged = true;
        }
        if !self.in_slow_start() {
            self.timed_out = None;
        }
        debug_assert!(self.window.cwnd >= self.window.mss);
    }

    fn on_congestion(&mut self, now: Instant, signal: Signal, in_flight: u64) {
        // RFC 9406, section 4.3: HyStart++ is for the initial slow start alone.
        self.hystart = None;
        // RFC 9438, section 4.6: after ECE the window may go down to one segment.
        let segments = match signal {
            Signal::Timeout => return self.on_timeout(now, in_flight),
            Signal::Loss => 2,
            Signal::Ecn => 1,
        };
        self.timed_out = None;
        let target = self.reduce(now, in_flight);
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
        if let Law::Cubic(law) = &mut self.law {
            law.on_idle();
        }
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

#[cfg(test)]
mod tests;
