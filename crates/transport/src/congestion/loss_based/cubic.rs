//! CUBIC's congestion avoidance (RFC 9438): the window is a cubic function of the time since the
//! last reduction, and never below what NewReno would have.
//!
//! Windows are in segments here, as in the RFC, and floating: this is control, not data.

use core::time::Duration;

use fusewire_base::Instant;

use super::{Acked, Law, Window};

/// How steeply the window grows, in segments per second cubed.
const C: f64 = 0.4;
/// What a reduction multiplies the window by.
const BETA: f64 = 0.7;
/// What NewReno's increase must be for a decrease of BETA to be fair (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// State of congestion avoidance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
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

impl Law for Cubic {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
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
    fn on_unlimited(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += now.saturating_since(epoch.last_limited);
            epoch.last_limited = now;
        }
    }

    /// Sections 4.6 and 4.7: reduces to BETA of the data in flight, and gives way to newer flows when
    /// the window did not reach its former maximum.
    fn reduced(&mut self, window: &Window, in_flight: u64) -> u64 {
        let cwnd = segments(window.cwnd, window);
        self.cwnd_prior = cwnd;
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.epoch = None;
        (in_flight.min(window.cwnd) as f64 * BETA) as u64
    }

    /// Section 4.8: the next congestion avoidance starts on the plateau (K = 0), wherever it is.
    fn on_timeout(&mut self) {
        self.epoch = None;
        self.w_max = 0.0;
    }

    /// The sender was idle: the next acknowledgement begins a new epoch.
    fn on_idle(&mut self) {
        self.epoch = None;
    }
}

impl Cubic {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn window(segments: u64) -> Window {
        Window { cwnd: segments * MSS, ssthresh: 0, mss: MSS, cwnd_max: 1 << 40 }
    }

    fn acked(now: Instant, bytes: u64, srtt: Duration) -> Acked {
        Acked {
            now,
            bytes,
            in_flight_before: 0,
            in_flight: 0,
            snd_una: 0,
            snd_nxt: 0,
            rtt: Some(srtt),
            srtt,
            window_limited: true,
            newest: None,
        }
    }

    /// Acknowledges windows of data for `time`, one segment at a time, evenly spaced.
    fn run(
        cubic: &mut Cubic,
        window: &mut Window,
        now: &mut Instant,
        time: Duration,
        rtt: Duration,
    ) {
        let end = *now + time;
        while *now < end {
            let step = rtt / (window.cwnd / MSS) as u32;
            *now += step;
            cubic.on_ack(window, &acked(*now, MSS, rtt));
        }
    }

    #[test]
    fn follows_the_cubic_function() {
        let rtt = Duration::from_millis(200);
        let mut cubic = Cubic::default();
        let mut window = window(1000);
        let target = cubic.reduced(&window, 1000 * MSS);
        assert_eq!(target, 700 * MSS);
        window.set_cwnd(target);
        let mut now = Instant::ZERO;
        cubic.on_ack(&mut window, &acked(now, 0, rtt));
        // Equation 2: K = cbrt(W_max (1 - beta) / C).
        let k = (1000.0f64 * 0.3 / 0.4).cbrt();
        assert!((cubic.epoch.unwrap().k - k).abs() < 1e-9);
        for fraction in [0.25, 0.5, 0.75, 1.0, 1.25, 1.5] {
            let t = Duration::from_secs_f64(k * fraction);
            let rest = t - (now - Instant::ZERO);
            run(&mut cubic, &mut window, &mut now, rest, rtt);
            let offset = t.as_secs_f64() - k;
            let expected = 0.4 * offset * offset * offset + 1000.0;
            let found = window.cwnd as f64 / MSS as f64;
            assert!(
                (found - expected).abs() < 0.01 * expected,
                "at {fraction} K: {found}, {expected}"
            );
        }
    }

    #[test]
    fn gives_way_when_the_maximum_was_not_reached() {
        let mut cubic = Cubic::default();
        cubic.reduced(&window(100), 100 * MSS);
        assert_eq!(cubic.w_max, 100.0);
        cubic.reduced(&window(80), 80 * MSS);
        assert!((cubic.w_max - 80.0 * 0.85).abs() < 1e-9, "fast convergence, section 4.7");
        cubic.reduced(&window(90), 90 * MSS);
        assert_eq!(cubic.w_max, 90.0);
    }

    /// Loses one segment of 1/p, counting rounds, and returns the mean window in segments.
    fn mean_window(p: f64, rtt: Duration, rounds: u32) -> f64 {
        let mut cubic = Cubic::default();
        let mut window = window(20);
        let mut now = Instant::ZERO;
        let (mut until_loss, mut sent, mut counted) = (1.0 / p, 0.0, 0);
        for round in 0..rounds {
            let segments = window.cwnd / MSS;
            for _ in 0..segments {
                now += rtt / segments as u32;
                cubic.on_ack(&mut window, &acked(now, MSS, rtt));
            }
            until_loss -= segments as f64;
            if until_loss <= 0.0 {
                until_loss += 1.0 / p;
                let target = cubic.reduced(&window, window.cwnd);
                window.set_cwnd(target);
            }
            if round > rounds / 4 {
                sent += segments as f64;
                counted += 1;
            }
        }
        sent / f64::from(counted)
    }

    #[test]
    fn has_the_response_function_of_the_rfc() {
        // Section 5.1: 1.054 (RTT / p)^(3/4) / ... in segments, where the cubic region rules.
        let mean = mean_window(1e-4, Duration::from_millis(100), 20_000);
        let expected = 1.054 * (0.1f64 / 1e-4).powf(0.75);
        assert!((mean / expected - 1.0).abs() < 0.15, "{mean} for {expected}");
        // Section 4.3: NewReno's 1.2247 / sqrt(p), where the Reno-friendly region rules.
        let mean = mean_window(1e-2, Duration::from_millis(20), 20_000);
        let expected = (1.5f64 / 1e-2).sqrt();
        assert!((mean / expected - 1.0).abs() < 0.15, "{mean} for {expected}");
    }

    #[test]
    fn waits_while_the_window_is_not_the_limit() {
        let rtt = Duration::from_millis(100);
        let mut cubic = Cubic::default();
        let mut win = window(500);
        let target = cubic.reduced(&win, 500 * MSS);
        win.set_cwnd(target);
        let mut now = Instant::ZERO;
        run(&mut cubic, &mut win, &mut now, Duration::from_secs(2), rtt);
        let before = win.cwnd;
        for _ in 0..1000 {
            now += rtt;
            cubic.on_unlimited(now);
        }
        cubic.on_ack(&mut win, &acked(now, MSS, rtt));
        assert!(win.cwnd - before <= MSS, "the window jumped from {before} to {}", win.cwnd);
    }

    #[test]
    fn a_jump_of_the_clock_opens_by_half_at_most() {
        let rtt = Duration::from_millis(100);
        let mut cubic = Cubic::default();
        let mut win = window(100);
        let mut now = Instant::ZERO;
        cubic.on_ack(&mut win, &acked(now, MSS, rtt));
        now += Duration::from_secs(3600);
        cubic.on_ack(&mut win, &acked(now, 100 * MSS, rtt));
        assert!(win.cwnd <= 151 * MSS, "section 4.4: target is 1.5 cwnd at most");
    }
}
