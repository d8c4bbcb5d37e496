//! Congestion control: how many bytes may be in flight. No I/O, no clock, no allocation.
//!
//! [`Controller`] holds what all algorithms share: slow start with HyStart++ (RFC 9406), the limits
//! of RFC 5681, undo after a spurious reduction. The law of congestion avoidance is NewReno's
//! (RFC 5681, 6582, with byte counting after RFC 3465) or CUBIC's (RFC 9438).
//!
//! How to drive it: [`Controller::on_sent`] after each transmission, [`Controller::on_ack`] for each
//! acknowledgement that delivered something outside of recovery, [`Controller::on_congestion`] once
//! when recovery begins, [`Controller::on_rto`] when the retransmission timer fires. In recovery
//! [`crate::prr::Prr`], not the window, says what may be sent.

mod cubic;
mod hystart;
mod new_reno;

use core::time::Duration;

use fusewire_base::Instant;

use cubic::Cubic;
use hystart::{HyStart, Phase};
use new_reno::NewReno;

/// Which law of congestion avoidance a connection follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681 and 6582.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}

/// What a controller is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The law of congestion avoidance.
    pub algorithm: Algorithm,
    /// Sender maximum segment size (SMSS) in payload bytes; may change later, see [`Controller::set_mss`].
    pub mss: u32,
    /// Initial window in segments (IW); RFC 6928 says 10.
    pub initial_window_segments: u32,
    /// The window never grows beyond this many bytes.
    pub cwnd_bytes_max: u64,
    /// Leave slow start when the round-trip time rises (RFC 9406).
    pub hystart: bool,
    /// Most segments an acknowledgement adds to the window in slow start: L of RFC 3465 and 9406.
    /// `u32::MAX` is right for a paced sender, 8 for one that is not.
    pub slow_start_segments_per_ack_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            algorithm: Algorithm::Cubic,
            mss: 1200,
            initial_window_segments: 10,
            cwnd_bytes_max: 1 << 30,
            hystart: true,
            slow_start_segments_per_ack_max: u32::MAX,
        }
    }
}

/// An acknowledgement that delivered new data.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it came.
    pub now: Instant,
    /// Bytes delivered for the first time: by SND.UNA's advance or by SACK.
    pub delivered: u64,
    /// SND.UNA after it, as a stream offset.
    pub snd_una: u64,
    /// SND.NXT when it came, as a stream offset.
    pub snd_nxt: u64,
    /// The round-trip sample that it carried, if any.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time after it.
    pub srtt: Duration,
}

/// Why the window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Segments were lost.
    Loss,
    /// The peer echoed a congestion mark (ECE).
    Ecn,
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
pub struct Controller {
    window: Window,
    initial_window: u64,
    per_ack_max: u64,
    law: Law,
    hystart: Option<HyStart>,
    undo: Option<Undo>,
    /// Slow start after a timeout counts one segment an acknowledgement (RFC 3465, section 2.3).
    after_rto: bool,
    /// Most bytes in flight in this round, and whether the window held the sender back.
    used_bytes_max: u64,
    was_limited: bool,
    /// The round ends when SND.UNA passes this offset.
    round_end: u64,
}

impl Controller {
    /// A controller in slow start with the initial window.
    pub fn new(config: &Config) -> Self {
        let mss = u64::from(config.mss.max(1));
        let initial_window = mss * u64::from(config.initial_window_segments.max(1));
        let law = match config.algorithm {
            Algorithm::NewReno => Law::NewReno(NewReno::default()),
            Algorithm::Cubic => Law::Cubic(Cubic::default()),
        };
        let mut window = Window {
            cwnd: mss,
            ssthresh: u64::MAX,
            mss,
            cwnd_max: config.cwnd_bytes_max.max(2 * mss),
        };
        window.set_cwnd(initial_window);
        Controller {
            window,
            initial_window,
            per_ack_max: u64::from(config.slow_start_segments_per_ack_max.max(1)),
            law,
            hystart: config.hystart.then(HyStart::default),
            undo: None,
            after_rto: false,
            used_bytes_max: 0,
            was_limited: false,
            round_end: 0,
        }
    }

    /// The congestion window (cwnd) in bytes, at least one segment.
    pub fn cwnd(&self) -> u64 {
        self.window.cwnd
    }

    /// The slow start threshold (ssthresh) in bytes; `u64::MAX` before the first reduction.
    pub fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }

    /// The window is below the threshold (this includes HyStart++'s conservative slow start).
    pub fn in_slow_start(&self) -> bool {
        self.window.cwnd < self.window.ssthresh
    }

    /// Sender maximum segment size in bytes.
    pub fn mss(&self) -> u64 {
        self.window.mss
    }

    /// Bytes that may be sent now when `in_flight` are in the network (not for use in recovery).
    pub fn allowance(&self, in_flight: u64) -> u64 {
        self.window.cwnd.saturating_sub(in_flight)
    }

    /// The path now carries segments of `mss` payload bytes. The window keeps its size in bytes, but
    /// the initial window, while nothing was learnt yet, keeps its size in segments.
    pub fn set_mss(&mut self, mss: u32) {
        let mss = u64::from(mss.max(1));
        let untouched = self.window.cwnd == self.initial_window && self.window.ssthresh == u64::MAX;
        self.initial_window = self.initial_window / self.window.mss * mss;
        self.window.mss = mss;
        self.window.cwnd_max = self.window.cwnd_max.max(2 * mss);
        let cwnd = if untouched { self.initial_window } else { self.window.cwnd };
        self.window.set_cwnd(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(2 * mss);
    }

    /// New data was sent; `in_flight` counts it, `snd_nxt` lies behind it.
    pub fn on_sent(&mut self, _now: Instant, in_flight: u64, snd_nxt: u64) {
        self.used_bytes_max = self.used_bytes_max.max(in_flight);
        self.was_limited |= in_flight + self.window.mss > self.window.cwnd;
        if let Some(hystart) = &mut self.hystart {
            hystart.on_sent(snd_nxt);
        }
    }

    /// An acknowledgement delivered new data and the connection is not in recovery: opens the window,
    /// unless the sender did not use what it had (RFC 7661, section 4.1; RFC 9438, section 5.8).
    pub fn on_ack(&mut self, ack: &Ack) {
        let phase = match &mut self.hystart {
            Some(hystart) if self.window.cwnd < self.window.ssthresh => hystart.on_ack(ack),
            _ => Phase::SlowStart,
        };
        if phase == Phase::Done {
            // RFC 9406, section 4.3: CSS_ROUNDS have passed.
            self.window.ssthresh = self.window.cwnd.max(2 * self.window.mss);
        }
        if self.in_slow_start() {
            if self.was_limited || self.window.cwnd < 2 * self.used_bytes_max {
                self.slow_start(ack, phase);
            }
        } else if self.was_limited {
            match &mut self.law {
                Law::NewReno(law) => law.on_ack(&mut self.window, ack),
                Law::Cubic(law) => law.on_ack(&mut self.window, ack),
            }
        } else if let Law::Cubic(law) = &mut self.law {
            law.on_unlimited(ack.now);
        }
        if ack.snd_una >= self.round_end {
            self.round_end = ack.snd_nxt;
            let in_flight = ack.snd_nxt.saturating_sub(ack.snd_una);
            self.used_bytes_max = in_flight;
            self.was_limited = in_flight + self.window.mss > self.window.cwnd;
        }
        debug_assert!(self.window.cwnd >= self.window.mss);
    }

    fn slow_start(&mut self, ack: &Ack, phase: Phase) {
        let per_ack_max = if self.after_rto { 1 } else { self.per_ack_max };
        let mut bytes = ack.delivered.min(per_ack_max.saturating_mul(self.window.mss));
        if phase == Phase::Conservative {
            bytes /= hystart::CSS_GROWTH_DIVISOR;
        }
        // What goes beyond the threshold is congestion avoidance's to count.
        let room = self.window.ssthresh - self.window.cwnd;
        self.window.grow(bytes.min(room));
    }

    /// Recovery begins: a loss was found, or the peer echoed a congestion mark. Call it once for all
    /// losses of one window of data. `in_flight` is the data outstanding before the loss was marked.
    /// Window and threshold are set to where recovery shall end.
    pub fn on_congestion(&mut self, now: Instant, in_flight: u64, signal: Signal) {
        self.save();
        self.after_rto = false;
        self.hystart = None;
        let target = self.reduced(now, in_flight);
        self.window.ssthresh = target.max(2 * self.window.mss);
        // RFC 9438, section 4.6: after ECE the window may go down to one segment.
        let least = if signal == Signal::Ecn { 1 } else { 2 };
        self.window.set_cwnd(target.max(least * self.window.mss));
    }

    /// The retransmission timer fired. `first` is false when the same segment's timer fired before
    /// (RFC 5681, section 3.1: the threshold then stays).
    pub fn on_rto(&mut self, now: Instant, in_flight: u64, first: bool) {
        if first {
            self.save();
            let target = self.reduced(now, in_flight);
            self.window.ssthresh = target.max(2 * self.window.mss);
        }
        if let Law::Cubic(law) = &mut self.law {
            law.on_rto();
        }
        self.after_rto = true;
        self.hystart = None;
        let loss_window = self.window.mss;
        self.window.set_cwnd(loss_window);
    }

    /// Recovery is over: the window is where PRR steered it, the threshold.
    pub fn on_recovered(&mut self, _now: Instant) {
        self.after_rto = false;
        self.used_bytes_max = 0;
        if self.window.cwnd > self.window.ssthresh {
            let ssthresh = self.window.ssthresh;
            self.window.set_cwnd(ssthresh);
        }
    }

    /// The last reduction was wrong (F-RTO, RFC 5682; DSACK, RFC 3708; timestamps, RFC 4015): takes
    /// it back. Does nothing when there is none to take back.
    pub fn on_spurious(&mut self, _now: Instant) {
        let Some(undo) = self.undo.take() else { return };
        let cwnd = undo.cwnd.max(self.window.cwnd);
        self.window.set_cwnd(cwnd);
        self.window.ssthresh = undo.ssthresh.max(2 * self.window.mss);
        self.law = undo.law;
        self.after_rto = false;
    }

    /// Nothing was sent for longer than a retransmission timeout: the window restarts at
    /// RW = min(IW, cwnd) (RFC 5681, section 4.1). Slow start leads back to the threshold.
    pub fn on_idle(&mut self, _now: Instant) {
        // RFC 7661, section 4.4.1: remember three quarters of what the path carried.
        if self.window.cwnd > self.initial_window {
            let carried = self.window.cwnd / 4 * 3;
            self.window.ssthresh = match self.window.ssthresh {
                u64::MAX => u64::MAX,
                ssthresh => ssthresh.max(carried),
            };
            let restart = self.initial_window;
            self.window.set_cwnd(restart);
        }
        if let Law::Cubic(law) = &mut self.law {
            law.on_idle();
        }
        self.used_bytes_max = 0;
        self.was_limited = false;
    }

    fn save(&mut self) {
        self.undo =
            Some(Undo { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, law: self.law });
    }

    fn reduced(&mut self, now: Instant, in_flight: u64) -> u64 {
        match &mut self.law {
            Law::NewReno(law) => law.reduced(&self.window, in_flight),
            Law::Cubic(law) => law.reduced(&self.window, now, in_flight),
        }
    }
}
