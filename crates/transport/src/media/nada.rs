//! NADA (RFC 8698): a rate for media, from delay, loss and marks as one signal.
//!
//! ```text
//!   reports ──▶ delay, loss, marks, rate (5.1) ──▶ x_curr, rmode (4.2) ──▶ r_ref (4.3) ──▶ target of the encoder,
//!                                                                                          rate of sending (5.2.2)
//! ```
//! All is computed at the sender, from reports of each packet's arrival (section 6.4): the receiver knows no controller.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::feedback::Report;

use super::path::{Path, Summary};
use super::yielding::Yielding;

// Table 2, with its names; where the application decides, it is in `Config`.
/// Reference congestion level, ms.
const XREF_MS: f64 = 10.0;
/// Scaling of the gradual update.
const KAPPA: f64 = 0.5;
/// Weight of the signal's change in it.
const ETA: f64 = 2.0;
/// Upper bound of the round-trip time in it, ms.
const TAU_MS: f64 = 500.0;
/// Target interval of feedback.
pub const DELTA: Duration = Duration::from_millis(100);
/// Observation window.
pub(super) const LOGWIN: Duration = Duration::from_millis(500);
/// Queueing delay from which on a queue builds up.
pub(super) const QEPS: Duration = Duration::from_millis(10);
/// Bound on filtering delay, ms.
const DFILT_MS: f64 = 120.0;
/// Upper bound of the increase in accelerated ramp-up.
const GAMMA_MAX: f64 = 0.5;
/// Upper bound of the queue that ramp-up makes, ms.
const QBOUND_MS: f64 = 50.0;
/// A loss expires after so many average loss intervals.
const MULTILOSS: f64 = 7.0;
/// Delay from which on it is warped while there is loss, ms.
const QTH_MS: f64 = 50.0;
/// Exponent of the warping.
const LAMBDA: f64 = 0.5;
/// Reference ratios of loss and of marks.
const PLRREF: f64 = 0.01;
const PMRREF: f64 = 0.01;
/// Penalties at those, ms.
const DLOSS_MS: f64 = 10.0;
const DMARK_MS: f64 = 2.0;
/// Reference rate of frames, and how much a full rate-shaping buffer moves both rates.
const FPS: f64 = 30.0;
const BETA_S: f64 = 0.1;
const BETA_V: f64 = 0.1;
/// Smoothing of loss and marks.
pub(super) const ALPHA: f64 = 0.1;
/// Samples of delay of which the least counts (section 5.1.1).
pub(super) const MIN_FILTER: usize = 15;
/// Bound of x_curr, ms: with 15 bits of 100 µs it could be 3,277 (section 5.3), but equation 7 would then leave its range of
/// validity in one step. TAU makes one step at most an end of sending.
const XMAX_MS: f64 = TAU_MS;
/// Reports that may be missing before the rate falls (RFC 8888, section 5: one is nothing, several are a broken path).
const SILENT: u32 = 5;

/// What an application says of its media.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// RMIN: the least rate that it has a use for, bit/s.
    pub rate_min: u64,
    /// RMAX: the largest, bit/s.
    pub rate_max: u64,
    /// PRIO: its weight beside other flows of NADA's.
    pub priority: f64,
    /// The longest queue that what is more important than the media and goes the same way can bear: beyond it media yield, for as
    /// long as that helps. `None`: as the RFC has it.
    pub queue_max: Option<Duration>,
    /// Packets in half a second and a round trip at most: those that were sent are remembered, so many of them.
    pub packets_max: usize,
}

impl Default for Config {
    /// Table 2.
    fn default() -> Self {
        Config {
            rate_min: 150_000,
            rate_max: 1_500_000,
            priority: 1.0,
            queue_max: None,
            packets_max: 4096,
        }
    }
}

/// What the controller wants, bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// r_vin: for the encoder, or who else makes the media.
    pub media: u64,
    /// r_send: for the bucket that lets packets out.
    pub send: u64,
}

/// What the last report showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// d_queue.
    pub queue: Duration,
    /// Round-trip time, by its newest packet.
    pub rtt: Duration,
    /// The least round-trip time of the last ten minutes: what is left of it without queues.
    pub rtt_least: Duration,
    /// p_loss, smoothed.
    pub loss: f64,
    /// p_mark, smoothed.
    pub mark: f64,
    /// r_recv, bit/s.
    pub received: u64,
    /// x_curr, ms.
    pub signal_ms: f64,
    /// rmode = 0.
    pub is_ramping_up: bool,
}

/// One flow's controller, at the sender.
///
/// Tell it of each packet ([`on_sent`](Self::on_sent)), of each report of the receiver's [`Arrivals`](super::Arrivals)
/// ([`on_report`](Self::on_report)), and of time ([`poll_timeout`](Self::poll_timeout)); ask it for the
/// [`target`](Self::target) before each frame.
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_transport::media::{Arrivals, Config, DELTA, Nada};
/// use fusewire_wire::feedback::Report;
///
/// let mut nada = Nada::new(Instant::ZERO, Config::default());
/// let mut arrivals = Arrivals::new(DELTA);
/// let start = nada.target(0).media;
/// // A path of 20 ms without a queue, on which each millisecond carries what the target lets out.
/// let (mut owed, mut bytes) = (0, [0; 1200]);
/// for ms in 0..2000 {
///     let now = Instant::from_ms(ms);
///     owed += nada.target(0).send / 8000;
///     while owed >= 500 {
///         owed -= 500;
///         let number = nada.on_sent(now, 500);
///         arrivals.on_packet(now + Duration::from_millis(20), number, 0);
///     }
///     if let Some(len) = arrivals.report(now + Duration::from_millis(20), &mut bytes) {
///         nada.on_report(now + Duration::from_millis(40), &Report::parse(&bytes[..len]).unwrap());
///     }
/// }
/// assert!(nada.target(0).media > 2 * start && nada.seen().is_ramping_up);
/// ```
#[derive(Clone, Debug)]
pub struct Nada {
    config: Config,
    path: Path,
    /// r_ref, bit/s.
    reference: f64,
    /// x_prev, ms.
    signal_before_ms: f64,
    /// t_last.
    last: Instant,
    yielding: Yielding,
    /// When the rate falls for want of reports.
    silent_at: Option<Instant>,
    seen: Seen,
}

impl Nada {
    /// A controller at RMIN (section 4.3: on initialization).
    pub fn new(now: Instant, config: Config) -> Nada {
        let rate_min = config.rate_min.max(1);
        let config = Config { rate_min, rate_max: config.rate_max.max(rate_min), ..config };
        Nada {
            path: Path::new(config.packets_max.max(64)),
            reference: rate_min as f64,
            signal_before_ms: 0.0,
            last: now,
            yielding: Yielding::new(config.queue_max.unwrap_or(Duration::MAX)),
            silent_at: None,
            seen: Seen::default(),
            config,
        }
    }

    /// A packet of `bytes`, headers included, leaves; the number that the receiver has to tell it by. Numbers go up one by
    /// one from 0.
    pub fn on_sent(&mut self, now: Instant, bytes: usize) -> u64 {
        self.silent_at.get_or_insert(now + self.patience());
        self.path.on_sent(now, bytes)
    }

    /// The number that the next packet has.
    pub fn next_number(&self) -> u64 {
        self.path.next()
    }

    /// A report has come. One that tells nothing new changes nothing.
    pub fn on_report(&mut self, now: Instant, report: &Report<'_>) {
        let Some(summary) = self.path.on_report(now, report) else { return };
        let signal_ms = self.signal_ms(&summary);
        self.seen = Seen {
            queue: Duration::from_secs_f64(summary.queue_ms / 1e3),
            rtt: summary.rtt,
            rtt_least: summary.rtt_least,
            loss: summary.loss,
            mark: summary.mark,
            received: summary.received as u64,
            signal_ms,
            is_ramping_up: summary.is_free,
        };
        if summary.is_free {
            self.ramp_up(summary.received);
        } else {
            self.update_gradually((now - self.last).as_secs_f64() * 1e3, signal_ms);
        }
        self.yield_to_others(now);
        self.clip();
        self.signal_before_ms = signal_ms;
        self.last = now;
        let is_under_way = self.path.end() < self.path.next();
        self.silent_at = is_under_way.then(|| now + self.patience());
    }

    /// x_curr (section 4.2, equations 1 and 2), ms.
    fn signal_ms(&self, summary: &Summary) -> f64 {
        let queue = summary.queue_ms;
        let warped = match queue < QTH_MS {
            true => queue,
            false => QTH_MS * (-LAMBDA * (queue - QTH_MS) / QTH_MS).exp(),
        };
        // Warped while a loss counts, then over one average interval back to what it is.
        let delay = match self.path.losses() {
            Some((since, interval)) => {
                let expired = ((since - MULTILOSS * interval) / interval).clamp(0.0, 1.0);
                expired * queue + (1.0 - expired) * warped
            }
            None => queue,
        };
        let mark = DMARK_MS * (summary.mark / PMRREF).powi(2);
        let loss = DLOSS_MS * (summary.loss / PLRREF).powi(2);
        (delay + mark + loss).min(XMAX_MS)
    }

    /// Equations 3 and 4.
    fn ramp_up(&mut self, received: f64) {
        let round = self.seen.rtt.as_secs_f64() * 1e3 + DELTA.as_secs_f64() * 1e3 + DFILT_MS;
        let gamma = GAMMA_MAX.min(QBOUND_MS / round);
        self.reference = self.reference.max((1.0 + gamma) * received);
    }

    /// Equations 5 to 7.
    fn update_gradually(&mut self, interval_ms: f64, signal_ms: f64) {
        let (r, rate_max) = (self.reference, self.config.rate_max as f64);
        let offset = signal_ms - self.config.priority * XREF_MS * rate_max / r;
        let change = signal_ms - self.signal_before_ms;
        // A report that comes late speaks for the time that the loop may be long.
        let interval = interval_ms.min(TAU_MS) / TAU_MS;
        self.reference =
            r - KAPPA * interval * (offset / TAU_MS) * r - KAPPA * ETA * (change / TAU_MS) * r;
    }

    /// Random losses have equations 1 and 2 take a queue for another's (warped), and a largest rate far beyond the path's has
    /// equation 6 aim at a long one: what is more important would stand in it.
    fn yield_to_others(&mut self, now: Instant) {
        if now - self.last > LOGWIN + self.seen.rtt {
            self.yielding.forget();
        }
        let path = &self.path;
        let standing = |queue| path.standing(queue);
        self.reference = self.yielding.on_report(now, &self.seen, standing, self.reference);
    }

    /// Equations 8 and 9.
    fn clip(&mut self) {
        let (least, most) = (self.config.rate_min as f64, self.config.rate_max as f64);
        self.reference = self.reference.clamp(least, most);
    }

    /// How long reports may stay away.
    fn patience(&self) -> Duration {
        SILENT * DELTA + self.seen.rtt
    }

    /// It has gone down to RMIN: it can go no slower.
    pub fn is_at_least(&self) -> bool {
        self.reference <= self.config.rate_min as f64
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None`: nothing was sent since the last report.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.silent_at
    }

    /// Time has passed. Where no report has come for long, the rate halves, each time again (RFC 8888, section 5).
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.silent_at.is_some_and(|at| at <= now) {
            self.reference /= 2.0;
            self.clip();
            self.silent_at = Some(now + self.patience());
            self.yielding.forget();
        }
    }

    /// What to make and what to send, with so many bytes waiting in the rate-shaping buffer (section 5.2.2, equations 11 to 14).
    pub fn target(&self, waiting_bytes: usize) -> Target {
        let reference = self.reference;
        let full = 8.0 * waiting_bytes as f64 * FPS;
        let media = reference - (0.05 * reference).min(BETA_V * full);
        let send = reference + (0.05 * reference).min(BETA_S * full);
        let Config { rate_min, rate_max, .. } = self.config;
        Target { media: (media as u64).max(rate_min), send: (send as u64).min(rate_max) }
    }

    /// What the last report showed.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }
}
