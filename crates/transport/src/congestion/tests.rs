//! What controllers that count losses share: slow start, timeouts, undo, limits.

use super::*;

const MSS: u64 = 1000;

fn start(algorithm: Algorithm) -> State {
    State::new(algorithm, &Config { mss: MSS as u32, ..Config::default() })
}

fn acked(bytes: u64) -> Acked {
    Acked {
        now: Instant::from_ms(1000),
        bytes,
        in_flight_before: u64::MAX / 4,
        in_flight: u64::MAX / 8,
        snd_una: 0,
        snd_nxt: 1,
        rtt: None,
        srtt: Duration::from_millis(10),
        window_limited: true,
        newest: None,
    }
}

const BOTH: [Algorithm; 2] = [Algorithm::NewReno, Algorithm::Cubic];

#[test]
fn slow_start_doubles_a_round_trip() {
    for algorithm in BOTH {
        let mut state = start(algorithm);
        assert_eq!(state.window(), 10 * MSS);
        for _ in 0..10 {
            state.on_acked(&acked(MSS));
        }
        assert_eq!(state.window(), 20 * MSS);
        state.on_acked(&acked(20 * MSS));
        assert_eq!(state.window(), 40 * MSS, "a stretch acknowledgement counts whole when paced");
        let mut limited = State::new(
            algorithm,
            &Config { mss: MSS as u32, slow_start_segments_max: 8, ..Config::default() },
        );
        limited.on_acked(&acked(20 * MSS));
        assert_eq!(limited.window(), 18 * MSS, "L = 8");
    }
}

#[test]
fn loss_reduces_by_the_laws_factor_and_not_below_two_segments() {
    for (algorithm, target) in [(Algorithm::NewReno, 50), (Algorithm::Cubic, 70)] {
        let mut state = start(algorithm);
        state.on_acked(&acked(90 * MSS));
        state.on_congestion(Instant::ZERO, Signal::Loss, 100 * MSS);
        assert_eq!(state.slow_start_threshold(), target * MSS);
        assert_eq!(state.window(), target * MSS);
        state.on_recovered(Instant::ZERO);
        assert_eq!(state.window(), target * MSS);
        for _ in 0..20 {
            let window = state.window();
            state.on_congestion(Instant::ZERO, Signal::Loss, window);
        }
        assert_eq!((state.window(), state.slow_start_threshold()), (2 * MSS, 2 * MSS));
        state.on_congestion(Instant::ZERO, Signal::Ecn, MSS);
        assert_eq!((state.window(), state.slow_start_threshold()), (MSS, 2 * MSS));
    }
}

#[test]
fn a_timeout_leads_to_slow_start_from_one_segment() {
    for (algorithm, target) in [(Algorithm::NewReno, 50), (Algorithm::Cubic, 70)] {
        let mut state = start(algorithm);
        state.on_acked(&acked(90 * MSS));
        state.on_congestion(Instant::ZERO, Signal::Timeout, 100 * MSS);
        assert_eq!((state.window(), state.slow_start_threshold()), (MSS, target * MSS));
        // RFC 5681, section 3.1: a second timeout of the same data keeps the threshold.
        state.on_congestion(Instant::ZERO, Signal::Timeout, MSS);
        assert_eq!((state.window(), state.slow_start_threshold()), (MSS, target * MSS));
        // RFC 3465, section 2.3: L = 1 after a timeout.
        state.on_acked(&acked(30 * MSS));
        assert_eq!(state.window(), 2 * MSS);
        for _ in 0..target {
            state.on_acked(&acked(MSS));
        }
        assert!(!state.in_slow_start());
        assert!(state.window() < (target + 3) * MSS);
        // A timeout after new data was acknowledged is a new congestion.
        state.on_congestion(Instant::ZERO, Signal::Timeout, 20 * MSS);
        assert!(state.slow_start_threshold() <= 14 * MSS);
    }
}

#[test]
fn a_spurious_reduction_is_taken_back() {
    for algorithm in BOTH {
        for signal in [Signal::Loss, Signal::Timeout, Signal::Ecn] {
            let mut state = start(algorithm);
            state.on_acked(&acked(90 * MSS));
            state.on_congestion(Instant::ZERO, Signal::Loss, 100 * MSS);
            let before = (state.window(), state.slow_start_threshold());
            state.on_congestion(Instant::ZERO, signal, 60 * MSS);
            assert!(state.window() < before.0);
            state.on_spurious(Instant::ZERO);
            assert_eq!((state.window(), state.slow_start_threshold()), before);
            state.on_spurious(Instant::ZERO);
            assert_eq!((state.window(), state.slow_start_threshold()), before);
        }
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for algorithm in BOTH {
        let mut state = start(algorithm);
        let unused = Acked { in_flight_before: 2 * MSS, window_limited: false, ..acked(2 * MSS) };
        for _ in 0..1000 {
            state.on_acked(&unused);
        }
        assert_eq!(state.window(), 10 * MSS);
        state.on_congestion(Instant::ZERO, Signal::Loss, 10 * MSS);
        let window = state.window();
        for _ in 0..1000 {
            state.on_acked(&unused);
        }
        assert_eq!(state.window(), window);
    }
}

#[test]
fn idleness_restarts_at_the_initial_window() {
    for algorithm in BOTH {
        let mut state = start(algorithm);
        state.on_acked(&acked(90 * MSS));
        state.on_congestion(Instant::ZERO, Signal::Loss, 100 * MSS);
        let window = state.window();
        state.on_idle(Instant::from_ms(9000), Duration::from_secs(8));
        assert_eq!(state.window(), 10 * MSS);
        assert!(state.slow_start_threshold() >= window * 3 / 4);
        state.on_congestion(Instant::ZERO, Signal::Timeout, 10 * MSS);
        state.on_idle(Instant::from_ms(9000), Duration::from_secs(8));
        assert_eq!(state.window(), MSS, "RW = min(IW, cwnd)");
    }
}

#[test]
fn a_new_segment_size_keeps_the_bounds() {
    for algorithm in BOTH {
        let mut state = start(algorithm);
        state.set_mss(65_000);
        assert_eq!(state.window(), 650_000, "the initial window counts segments");
        state.on_congestion(Instant::ZERO, Signal::Timeout, 650_000);
        state.set_mss(MSS as u32);
        assert_eq!(state.window(), 65_000);
        state.set_mss(100_000);
        assert_eq!(state.window(), 100_000, "at least a segment");
        assert!(state.slow_start_threshold() >= 200_000);
        state.set_mss(0);
    }
}

#[test]
fn the_window_has_a_maximum() {
    for algorithm in BOTH {
        let config = Config { window_max: 1 << 20, ..Config::default() };
        let mut state = State::new(algorithm, &config);
        for _ in 0..100 {
            state.on_acked(&acked(1 << 20));
        }
        assert_eq!(state.window(), 1 << 20);
    }
}

#[test]
fn the_state_is_small() {
    assert!(size_of::<State>() <= 384, "{} bytes", size_of::<State>());
}

#[test]
fn names_are_read_as_they_are_written() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(*algorithm));
        assert_eq!(Algorithm::from_option(&algorithm.to_option()), Some(*algorithm));
        assert_eq!(Algorithm::from_option(algorithm.name().as_bytes()), Some(*algorithm));
        assert_eq!(State::new(*algorithm, &Config::default()).algorithm(), *algorithm);
    }
    assert_eq!(Algorithm::from_option(b"vegas\0"), None);
    assert_eq!(Algorithm::from_option(b""), None);
    assert!("vegas".parse::<Algorithm>().unwrap_err().ends_with("cubic, reno, bbr"));
}

#[test]
fn any_order_of_events_keeps_the_bounds() {
    let mut x = 0x1234_5678_9abc_def0u64;
    let mut random = |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    for round in 0..300 {
        let mut state = start(Algorithm::ALL[round % Algorithm::ALL.len()]);
        let (mut now, mut mss) = (Instant::ZERO, MSS);
        let mut packets = Vec::new();
        for _ in 0..500 {
            let (time_bits, size_bits) = (random(24), random(40));
            now += Duration::from_micros(random(1 << time_bits));
            let bytes = random(1 << size_bits);
            match random(14) {
                0 => state.on_congestion(now, Signal::Loss, bytes),
                1 => state.on_congestion(now, Signal::Timeout, bytes),
                2 => state.on_congestion(now, Signal::Ecn, bytes),
                3 => state.on_recovered(now),
                4 => state.on_spurious(now),
                5 => state.on_idle(now, Duration::from_secs(1)),
                6 => {
                    mss = random(65_536).max(1);
                    state.set_mss(mss as u32);
                }
                7 => state.on_app_limited(bytes),
                8..10 => {
                    let in_flight = bytes + random(1 << 40);
                    packets.push((now, state.on_sent(&Sent { now, bytes, in_flight })));
                }
                10 => {
                    let packet = packets.pop().map(|(_, packet)| packet);
                    state.on_lost(&Lost { now, start: random(1 << 40), bytes, packet });
                }
                _ => state.on_acked(&Acked {
                    now,
                    bytes,
                    in_flight_before: random(1 << 40),
                    in_flight: random(1 << 40),
                    snd_una: random(1 << 40),
                    snd_nxt: random(1 << 40),
                    rtt: Some(Duration::from_micros(random(1 << 20))),
                    srtt: Duration::from_micros(random(1 << 20)),
                    window_limited: random(4) > 0,
                    newest: packets.pop(),
                }),
            }
            assert!(state.window() >= mss && state.slow_start_threshold() >= 2 * mss);
            assert!(state.window() <= 1 << 30);
            assert!(state.pacing_rate() != Some(0));
        }
    }
}
