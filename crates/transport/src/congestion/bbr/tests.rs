//! The draft's example test cases that need no path: what the state machine does with what it is told.

use super::*;

const MSS: u64 = 1000;
const RTT: Duration = Duration::from_millis(50);

/// A path of a rate without a queue: what is sent comes back a round trip later, as fast as the path carries.
struct Path {
    bbr: Box<Bbr>,
    now: Instant,
    rate: u64,
    /// When the path has carried what was sent.
    busy_until: Instant,
    under_way: std::collections::VecDeque<(Instant, Instant, Packet)>,
    snd: u64,
    /// One in so many is lost; 0: none.
    loss_in: u64,
}

impl Path {
    fn new(rate: u64) -> Path {
        let config = Config { mss: MSS as u32, seed: 7, ..Config::default() };
        Path {
            bbr: Box::<Bbr>::from(&config),
            now: Instant::from_ms(1000),
            rate,
            busy_until: Instant::ZERO,
            under_way: Default::default(),
            snd: 0,
            loss_in: 0,
        }
    }

    fn in_flight(&self) -> u64 {
        self.under_way.len() as u64 * MSS
    }

    /// Sends one packet a turn, as the rate lets it, until `done` or for so long.
    fn run(&mut self, time: Duration, mut done: impl FnMut(&Bbr) -> bool) {
        let end = self.now + time;
        let mut next_send = self.now;
        while self.now < end && !done(&self.bbr) {
            let arrival = self.under_way.front().map(|(_, at, _)| *at);
            let may = self.in_flight() + MSS <= self.bbr.window();
            if may && arrival.is_none_or(|at| next_send <= at) {
                self.now = self.now.max(next_send);
                self.send();
                let rate = self.bbr.pacing_rate().expect("BBR paces");
                next_send = self.now + Duration::from_nanos(MSS * 1_000_000_000 / rate);
            } else {
                self.now = arrival.expect("something is under way");
                self.receive();
            }
        }
    }

    fn send(&mut self) {
        let in_flight = self.in_flight() + MSS;
        let packet = self.bbr.on_sent(&Sent { now: self.now, bytes: MSS, in_flight });
        let takes = Duration::from_nanos(MSS * 1_000_000_000 / self.rate);
        self.busy_until = self.busy_until.max(self.now) + takes;
        self.under_way.push_back((self.now, self.busy_until + RTT, packet));
        self.snd += MSS;
    }

    fn receive(&mut self) {
        let in_flight_before = self.in_flight();
        let (sent, _, packet) = self.under_way.pop_front().expect("something is under way");
        let (now, snd_una) = (self.now, self.snd - self.in_flight());
        if self.loss_in > 0 && (snd_una / MSS).is_multiple_of(self.loss_in) {
            let lost = Lost { now, start: snd_una - MSS, bytes: MSS, packet: Some(packet) };
            self.bbr.on_lost(&lost);
            if !self.bbr.in_fast_recovery {
                self.bbr.on_congestion(now, Signal::Loss, in_flight_before);
            }
            return;
        }
        self.bbr.on_acked(&Acked {
            now,
            bytes: MSS,
            in_flight_before,
            in_flight: self.in_flight(),
            snd_una,
            snd_nxt: self.snd,
            rtt: Some(now - sent),
            srtt: now - sent,
            window_limited: false,
            newest: Some((sent, packet)),
        });
    }

    fn until(&mut self, mode: Mode) {
        self.run(Duration::from_secs(60), |bbr| bbr.mode == mode);
        assert_eq!(self.bbr.mode, mode, "{:?}", self.bbr);
    }
}

#[test]
fn startup_ends_when_the_rate_no_longer_grows() {
    for rate in [100_000, 1_250_000, 125_000_000] {
        let mut path = Path::new(rate);
        assert!(path.bbr.in_slow_start());
        path.until(Mode::Drain);
        let found = path.bbr.max_bw() as f64 / rate as f64;
        assert!((0.98..=1.02).contains(&found), "{found} of the rate");
        assert!(path.bbr.full_bw_reached && path.bbr.full_bw_count >= 3);
        assert!(!path.bbr.in_slow_start());
        let start = path.bbr.drain_start_round;
        path.run(Duration::from_secs(60), |bbr| bbr.mode != Mode::Drain);
        assert!(path.bbr.mode.is_probe_bw() && path.bbr.round_count <= start + 4);
    }
}

#[test]
fn the_probe_goes_through_its_states_and_keeps_the_rate() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwDown);
    for _ in 0..3 {
        for mode in [Mode::ProbeBwCruise, Mode::ProbeBwRefill, Mode::ProbeBwUp, Mode::ProbeBwDown] {
            path.until(mode);
            let gain = path.bbr.pacing_rate as f64 / path.bbr.bw as f64 / 0.99;
            let gains = [0.5, 0.9, 1.0, 1.25];
            assert!(gains.iter().any(|g| (gain - g).abs() < 0.02), "{mode:?} at {gain}");
        }
        let found = path.bbr.max_bw() as f64 / 1_250_000.0;
        assert!((0.97..=1.02).contains(&found), "{found} of the rate");
    }
}

#[test]
fn the_round_trip_time_is_looked_for_every_five_seconds() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwCruise);
    path.until(Mode::ProbeRtt);
    let (start, window) = (path.now, path.bbr.prior_cwnd);
    assert!(start - Instant::from_ms(1000) >= PROBE_RTT_INTERVAL);
    path.run(Duration::from_secs(2), |bbr| bbr.mode != Mode::ProbeRtt);
    assert_eq!(path.bbr.mode, Mode::ProbeBwCruise);
    assert!(path.now - start >= PROBE_RTT_DURATION, "{:?}", path.now - start);
    assert!(path.bbr.min_rtt < RTT + Duration::from_millis(2), "{:?}", path.bbr.min_rtt);
    assert!(path.bbr.cwnd >= window / 2);
}

#[test]
fn loss_of_a_round_ends_startup_and_bounds_what_is_in_flight() {
    let mut path = Path::new(125_000_000);
    path.run(Duration::from_millis(300), |_| false);
    assert_eq!(path.bbr.mode, Mode::Startup);
    path.loss_in = 20;
    path.until(Mode::Drain);
    assert!(path.bbr.full_bw_count < 3 && path.bbr.inflight_longterm != INFINITY);
    // And when it all was a mistake, the search goes on.
    path.bbr.on_spurious(path.now);
    assert_eq!((path.bbr.mode, path.bbr.full_bw_reached), (Mode::Startup, false));
    assert_eq!(path.bbr.inflight_longterm, INFINITY);
}

#[test]
fn loss_while_cruising_follows_what_is_delivered_and_is_forgotten_by_the_next_probe() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwCruise);
    path.loss_in = 10;
    path.run(4 * RTT, |_| false);
    assert_eq!(path.bbr.mode, Mode::ProbeBwCruise);
    assert!(path.bbr.bw_shortterm < path.bbr.max_bw(), "{:?}", path.bbr);
    assert!(path.bbr.inflight_shortterm != INFINITY);
    path.loss_in = 0;
    path.bbr.on_recovered(path.now);
    path.until(Mode::ProbeBwRefill);
    assert_eq!(path.bbr.bw_shortterm, INFINITY);
}

#[test]
fn a_probe_that_loses_goes_down_and_the_next_one_is_careful() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwUp);
    path.loss_in = 10;
    path.until(Mode::ProbeBwDown);
    assert!(path.bbr.prev_probe_too_high && path.bbr.inflight_longterm != INFINITY);
    assert_eq!(path.bbr.undo.mode, Some(Mode::ProbeBwUp));
    let mut mistaken = path.bbr.clone();
    mistaken.on_spurious(path.now);
    assert_eq!((mistaken.mode, mistaken.inflight_longterm), (Mode::ProbeBwRefill, INFINITY));
    path.loss_in = 0;
    path.bbr.on_recovered(path.now);
    path.until(Mode::ProbeBwUp);
    let (bound, start) = (path.bbr.inflight_longterm, path.now);
    path.until(Mode::ProbeBwDown);
    assert!(path.bbr.prev_probe_precautionary && !path.bbr.prev_probe_too_high);
    assert!(path.bbr.inflight_longterm <= bound + MSS, "it only reaches the bound");
    assert!(path.now - start < 2 * RTT, "{:?} at the bound", path.now - start);
    path.until(Mode::ProbeBwRefill);
    assert!(path.now - start < 4 * RTT, "it was safe: another probe follows at once");
}

#[test]
fn a_bound_above_what_the_path_holds_does_not_prolong_the_probe() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwRefill);
    let bound = path.bbr.bdp_multiple(path.bbr.max_bw(), 1.5);
    path.bbr.inflight_longterm = bound;
    path.until(Mode::ProbeBwUp);
    let start = path.bbr.round_count;
    path.until(Mode::ProbeBwDown);
    assert!(path.bbr.full_bw_now && !path.bbr.prev_probe_too_high);
    assert!(path.bbr.round_count - start <= 5, "{} rounds", path.bbr.round_count - start);
    assert!(path.bbr.inflight_longterm <= bound + 16 * MSS, "1, 2, 4 and 8 segments");
}

#[test]
fn a_bound_that_hides_bandwidth_is_raised_ever_faster() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwRefill);
    path.bbr.inflight_longterm = path.bbr.bdp_multiple(path.bbr.max_bw(), 1.0);
    path.rate *= 10;
    path.until(Mode::ProbeBwUp);
    let start = path.now;
    path.until(Mode::ProbeBwDown);
    assert!(path.bbr.max_bw() > path.rate / 10 * 9, "{} of {}", path.bbr.max_bw(), path.rate);
    assert!(path.now - start < Duration::from_secs(5), "{:?}", path.now - start);
}

#[test]
fn a_timeout_leaves_one_segment_and_recovery_brings_the_window_back() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwCruise);
    let before = path.bbr.window();
    path.bbr.on_congestion(path.now, Signal::Timeout, before);
    assert_eq!(path.bbr.window(), MSS);
    path.bbr.on_recovered(path.now);
    assert_eq!(path.bbr.window(), before);
}

#[test]
fn idleness_is_no_reason_to_look_for_the_round_trip_time() {
    let mut path = Path::new(1_250_000);
    path.until(Mode::ProbeBwCruise);
    while !path.under_way.is_empty() {
        path.now = path.under_way[0].1;
        path.receive();
    }
    path.now += Duration::from_secs(6);
    path.bbr.on_app_limited(0);
    path.run(Duration::from_millis(20), |_| false);
    assert!(path.bbr.idle_restart);
    let bw = path.bbr.bw;
    assert_eq!(path.bbr.pacing_rate, bw / 100 * 99, "as fast as the path, no faster");
    path.run(Duration::from_millis(200), |bbr| bbr.mode == Mode::ProbeRtt);
    assert_ne!(path.bbr.mode, Mode::ProbeRtt);
}

#[test]
fn a_mark_counts_as_loss() {
    let mut path = Path::new(1_250_000);
    path.run(Duration::from_millis(120), |_| false);
    path.bbr.on_congestion(path.now, Signal::Ecn, path.in_flight());
    path.run(RTT, |bbr| bbr.mode != Mode::Startup);
    assert_ne!(path.bbr.mode, Mode::Startup);
    path.until(Mode::ProbeBwUp);
    path.bbr.on_congestion(path.now, Signal::Ecn, path.in_flight());
    assert_eq!(path.bbr.mode, Mode::ProbeBwDown);
}
