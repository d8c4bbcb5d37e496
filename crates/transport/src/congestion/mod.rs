//! Congestion control: how many bytes may be in the network, and how fast they may leave. No I/O, no
//! clock, no randomness of its own; no allocation after the start.
//!
//! A controller knows no segment and no scoreboard. The TCP machine tells it what it sends, what was
//! acknowledged and what kind of congestion was noticed ([`Controller`]). There are two kinds:
//! - Those that count acknowledgements and losses, in `loss_based`: NewReno and CUBIC, with slow start and
//!   HyStart++ (RFC 9406) in common. During fast recovery the machine asks PRR ([`crate::prr`]) instead of
//!   their window.
//! - Those that have a model of the path, fed by samples of the delivery rate (`rate`): BBR. What they
//!   keep of each packet travels with it; their window and their rate hold in recovery, too.
//!
//! Another one is a file here and a line in the table below. A program adds its own, without changing this crate, as a
//! [`Factory`] behind [`Algorithm::Own`].

mod bbr;
mod loss_based;
mod rate;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

pub use fusewire_base::Instant;

use bbr::Bbr;
use loss_based::{Cubic, LossBased, NewReno};
pub use rate::Packet;

/// All controllers by name: what [`Algorithm`] lists and [`State`] holds.
macro_rules! controllers {
    ($d:tt $($(#[$about:meta])* $variant:ident = $name:literal: $state:ty;)*) => {
        /// Which controller a connection uses.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Algorithm {
            $($(#[$about])* $variant,)*
            /// The application's own.
            Own(&'static dyn Factory),
        }

        impl Algorithm {
            /// Every controller of this crate.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$variant),*];

            /// Its name, as `TCP_CONGESTION` of Linux spells it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Algorithm::$variant => $name,)*
                    Algorithm::Own(factory) => factory.name(),
                }
            }
        }

        /// One connection's congestion controller.
        #[derive(Debug)]
        pub enum State {
            $(#[doc = concat!("`", $name, "`")] $variant($state),)*
            /// The application's own.
            Own(Own),
        }

        impl State {
            /// A controller at the start.
            pub fn new(algorithm: Algorithm, config: &Config) -> State {
                match algorithm {
                    $(Algorithm::$variant => State::$variant(<$state>::from(config)),)*
                    Algorithm::Own(factory) => {
                        State::Own(Own { factory, controller: factory.start(config) })
                    }
                }
            }

            /// Which one it is.
            pub fn algorithm(&self) -> Algorithm {
                match self {
                    $(State::$variant(_) => Algorithm::$variant,)*
                    State::Own(own) => Algorithm::Own(own.factory),
                }
            }
        }

        /// The same of whichever it is.
        macro_rules! each {
            ($d self:expr, $d controller:ident => $d value:expr) => {
                match $d self {
                    $(State::$variant($d controller) => $d value,)*
                    State::Own(Own { controller: $d controller, .. }) => $d value,
                }
            };
        }
    };
}

controllers! { $
    /// RFC 9438, with HyStart++ (RFC 9406).
    #[default]
    Cubic = "cubic": LossBased<Cubic>;
    /// RFC 5681 and RFC 6582, with HyStart++ (RFC 9406).
    NewReno = "reno": LossBased<NewReno>;
    /// BBR version 3 (draft-ietf-ccwg-bbr): a model of the path's bandwidth and round-trip time.
    Bbr = "bbr": Box<Bbr>;
}

impl Algorithm {
    /// The value of the socket option `TCP_CONGESTION`: the name, filled up with zeros to `TCP_CA_NAME_MAX`.
    pub fn to_option(self) -> [u8; 16] {
        core::array::from_fn(|at| self.name().as_bytes().get(at).copied().unwrap_or(0))
    }

    /// What such a value names, up to a zero if there is one; `None` when there is no such controller.
    pub fn from_option(value: &[u8]) -> Option<Algorithm> {
        let name = value.split(|byte| *byte == 0).next()?;
        core::str::from_utf8(name).ok()?.parse().ok()
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Algorithm, String> {
        Algorithm::ALL.iter().copied().find(|a| a.name() == name).ok_or_else(|| {
            let names: Vec<_> = Algorithm::ALL.iter().map(|a| a.name()).collect();
            format!("congestion control is one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Starts congestion controllers of an application's own. One object serves any number of connections; an application that
/// makes it at run time leaks it (`Box::leak`).
pub trait Factory: fmt::Debug + Send + Sync {
    /// The controller's name, as statistics show it and `TCP_CONGESTION` returns it: at most 15 bytes.
    fn name(&self) -> &'static str;
    /// Starts the controller of one connection.
    fn start(&self, config: &Config) -> Box<dyn Controller + Send + Sync>;
}

impl PartialEq for dyn Factory {
    fn eq(&self, other: &dyn Factory) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Factory {}

/// A controller of an application's own, of one connection.
pub struct Own {
    factory: &'static dyn Factory,
    controller: Box<dyn Controller + Send + Sync>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.factory).finish_non_exhaustive()
    }
}

/// What a controller is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
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
    /// The receiver reports what arrives behind a hole (RFC 2018).
    pub selective: bool,
    /// Where a controller's random numbers begin.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            mss: 1200,
            initial_window: 10,
            window_max: 1 << 30,
            hystart: true,
            slow_start_segments_max: u32::MAX,
            selective: true,
            seed: 0,
        }
    }
}

/// A packet leaves, for the first time or again.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Instant,
    /// Its length in sequence space.
    pub bytes: u64,
    /// Bytes in the network, this packet included.
    pub in_flight: u64,
}

/// What one cumulative or selective acknowledgement did.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When the acknowledgement came.
    pub now: Instant,
    /// Bytes newly delivered (cumulatively or by SACK).
    pub bytes: u64,
    /// Bytes in the network before this acknowledgement was counted, or the most of this round.
    pub in_flight_before: u64,
    /// Bytes in the network now.
    pub in_flight: u64,
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
    /// Of what was newly delivered the packet that was sent last: when, and what
    /// [`Controller::on_sent`] gave for it. Only for a controller that [keeps
    /// packets](Controller::keeps_packets).
    pub newest: Option<(Instant, Packet)>,
}

/// A packet is taken for lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// When that was found.
    pub now: Instant,
    /// Where it begins in sequence space: whether losses lie side by side.
    pub start: u64,
    /// Its length in sequence space.
    pub bytes: u64,
    /// What [`Controller::on_sent`] gave for it; `None` when that was another controller.
    pub packet: Option<Packet>,
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

/// Decides how much may be in the network. One object per connection.
///
/// An application's own controller must define its window and the events that change it; the other methods have defaults. A
/// [`Factory`] starts it for each connection that is set to [`Algorithm::Own`]. This one knows the path and keeps it full:
///
/// ```
/// use core::time::Duration;
/// use fusewire_transport::congestion::{
///     Acked, Algorithm, Config, Controller, Factory, Instant, Signal, State,
/// };
/// use fusewire_transport::tcp;
///
/// /// A path of a known rate: the window is what it holds, and packets are spread over it.
/// struct Leased {
///     bytes_per_s: u64,
///     window: u64,
///     mss: u64,
/// }
///
/// impl Controller for Leased {
///     fn window(&self) -> u64 {
///         self.window
///     }
///     fn pacing_rate(&self) -> Option<u64> {
///         Some(self.bytes_per_s)
///     }
///     fn on_acked(&mut self, acked: &Acked) {
///         let held = acked.srtt.as_nanos() * u128::from(self.bytes_per_s) / 1_000_000_000;
///         self.window = (held as u64).max(2 * self.mss);
///     }
///     fn on_congestion(&mut self, _: Instant, signal: Signal, _in_flight: u64) {
///         if signal == Signal::Timeout {
///             self.window = self.mss;
///         }
///     }
///     fn set_mss(&mut self, mss: u32) {
///         self.mss = u64::from(mss);
///     }
///     // Losses are the radio's: no proportional reduction.
///     fn steers_recovery(&self) -> bool {
///         true
///     }
/// }
///
/// /// Lines of 1 MB/s.
/// #[derive(Debug)]
/// struct Lease;
///
/// impl Factory for Lease {
///     fn name(&self) -> &'static str {
///         "leased"
///     }
///     fn start(&self, config: &Config) -> Box<dyn Controller + Send + Sync> {
///         let mss = u64::from(config.mss);
///         Box::new(Leased { bytes_per_s: 1_000_000, window: 10 * mss, mss })
///     }
/// }
///
/// // Each connection with these settings has a controller of its own.
/// let settings = tcp::Config { congestion: Algorithm::Own(&Lease), ..tcp::Config::default() };
///
/// let mut controller = State::new(settings.congestion, &Config::default());
/// assert_eq!(controller.window(), 12_000);
/// controller.on_acked(&Acked {
///     now: Instant::from_ms(50),
///     bytes: 1200,
///     in_flight_before: 12_000,
///     in_flight: 10_800,
///     snd_una: 1201,
///     snd_nxt: 12_001,
///     rtt: Some(Duration::from_millis(50)),
///     srtt: Duration::from_millis(50),
///     window_limited: true,
///     newest: None,
/// });
/// assert_eq!(controller.window(), 50_000);
/// controller.on_congestion(Instant::from_ms(60), Signal::Loss, 50_000);
/// assert_eq!(controller.window(), 50_000);
/// ```
pub trait Controller {
    /// Congestion window, in bytes, at least one segment.
    fn window(&self) -> u64;
    /// Slow-start threshold, in bytes; `u64::MAX` before the first congestion, and where there is none.
    fn slow_start_threshold(&self) -> u64 {
        u64::MAX
    }
    /// The rate is still being searched for: the window is below the threshold (this includes HyStart++'s
    /// conservative slow start).
    fn in_slow_start(&self) -> bool {
        self.window() < self.slow_start_threshold()
    }
    /// Bytes a second at which packets leave, whether the connection is set to pace or not; `None`: the
    /// connection paces by the window, if it paces.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
    /// What [`on_sent`](Self::on_sent) gives is kept with the packet and comes back, and
    /// [`on_lost`](Self::on_lost) and [`on_app_limited`](Self::on_app_limited) are called.
    fn keeps_packets(&self) -> bool {
        false
    }
    /// Window and rate hold in fast recovery, too, and every acknowledgement is told. Otherwise PRR
    /// ([`crate::prr`]) leads from the data in flight to the threshold, and the controller only learns that
    /// recovery has ended.
    fn steers_recovery(&self) -> bool {
        false
    }
    /// A packet leaves. Called for a controller that [keeps packets](Self::keeps_packets).
    fn on_sent(&mut self, _sent: &Sent) -> Packet {
        Packet::default()
    }
    /// Bytes newly acknowledged.
    fn on_acked(&mut self, acked: &Acked);
    /// A packet is taken for lost; called for each, before `on_congestion` and before the `on_acked` of the
    /// acknowledgement that showed it.
    fn on_lost(&mut self, _lost: &Lost) {}
    /// Congestion noticed with `in_flight` bytes in the network. Afterwards `slow_start_threshold` is
    /// the target of the recovery, and the window is already there (one segment after a timeout).
    fn on_congestion(&mut self, now: Instant, signal: Signal, in_flight: u64);
    /// Recovery has ended: fast recovery, or for one that steers also that of a timeout.
    fn on_recovered(&mut self, _now: Instant) {}
    /// The last `on_congestion` was a mistake (DSACK, Eifel, F-RTO): the state before it comes back.
    fn on_spurious(&mut self, _now: Instant) {}
    /// Nothing was in the network for `idle`, longer than the retransmission timeout (RFC 5681, section 4.1).
    fn on_idle(&mut self, _now: Instant, _idle: Duration) {}
    /// Window and rate would have let out more than the application gave; `in_flight` bytes are in the
    /// network. Called before the next packet leaves.
    fn on_app_limited(&mut self, _in_flight: u64) {}
    /// The path's maximum segment payload changed.
    fn set_mss(&mut self, mss: u32);
}

impl Controller for State {
    fn window(&self) -> u64 {
        each!(self, c => c.window())
    }
    fn slow_start_threshold(&self) -> u64 {
        each!(self, c => c.slow_start_threshold())
    }
    fn in_slow_start(&self) -> bool {
        each!(self, c => c.in_slow_start())
    }
    fn pacing_rate(&self) -> Option<u64> {
        each!(self, c => c.pacing_rate())
    }
    fn keeps_packets(&self) -> bool {
        each!(self, c => c.keeps_packets())
    }
    fn steers_recovery(&self) -> bool {
        each!(self, c => c.steers_recovery())
    }
    fn on_sent(&mut self, sent: &Sent) -> Packet {
        each!(self, c => c.on_sent(sent))
    }
    fn on_acked(&mut self, acked: &Acked) {
        each!(self, c => c.on_acked(acked))
    }
    fn on_lost(&mut self, lost: &Lost) {
        each!(self, c => c.on_lost(lost))
    }
    fn on_congestion(&mut self, now: Instant, signal: Signal, in_flight: u64) {
        each!(self, c => c.on_congestion(now, signal, in_flight))
    }
    fn on_recovered(&mut self, now: Instant) {
        each!(self, c => c.on_recovered(now))
    }
    fn on_spurious(&mut self, now: Instant) {
        each!(self, c => c.on_spurious(now))
    }
    fn on_idle(&mut self, now: Instant, idle: Duration) {
        each!(self, c => c.on_idle(now, idle))
    }
    fn on_app_limited(&mut self, in_flight: u64) {
        each!(self, c => c.on_app_limited(in_flight))
    }
    fn set_mss(&mut self, mss: u32) {
        each!(self, c => c.set_mss(mss))
    }
}

#[cfg(test)]
mod tests;
