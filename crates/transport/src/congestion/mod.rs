//! Congestion control: how many bytes may be in the network (RFC 5681, 9438, 9406).
//!
//! A controller knows no segment and no scoreboard. The TCP machine tells it what was acknowledged and
//! what kind of congestion was noticed; during fast recovery the machine asks PRR (`crate::prr`) instead
//! of the window, and the controller only learns where the window shall be when recovery ends.

use core::time::Duration;
use fusewire_base::Instant;

/// What one cumulative or selective acknowledgement did.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When the acknowledgement came.
    pub now: Instant,
    /// Bytes newly delivered (cumulatively or by SACK).
    pub bytes: u64,
    /// Bytes in the network before this acknowledgement was counted.
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
    /// Congestion window, in bytes.
    fn window(&self) -> u64;
    /// Slow-start threshold, in bytes; `u64::MAX` before the first congestion.
    fn slow_start_threshold(&self) -> u64;
    /// Bytes newly acknowledged. Not called during fast recovery (PRR rules then).
    fn on_acked(&mut self, acked: &Acked);
    /// Congestion noticed with `in_flight` bytes in the network. Afterwards `slow_start_threshold` is the
    /// target of the recovery (for [`Signal::Loss`] the window is set to it when recovery ends).
    fn on_congestion(&mut self, now: Instant, signal: Signal, in_flight: u64);
    /// Fast recovery has ended; the window becomes the slow-start threshold.
    fn on_recovered(&mut self, now: Instant);
    /// The last `on_congestion` was a mistake (DSACK, Eifel): the state before it comes back.
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
