//! How fast a connection is, in virtual time, against the formulas.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::Cut;
use fusewire_transport::tcp::Config;

use crate::account::{Scenario, World};
use crate::two_ends::App;

const MSS: u16 = 1452;
/// Payload of a segment: timestamps take 12 bytes.
pub const PAYLOAD: u64 = 1440;

/// A bulk transfer from client to server over a path with no limit but loss and delay.
pub fn bulk(loss: f64, rtt: Duration, algorithm: Algorithm) -> Scenario {
    let link = Impairments { delay: rtt / 2, loss, ..Impairments::default() };
    let config = Config {
        mss: MSS,
        send_mss: MSS,
        // More than any window here grows to; the machine walks its queue after each step of a test.
        send_buffer: 4 << 20,
        max_segments_in_flight: 3000,
        recv_window: 16 << 20,
        initial_recv_window: 16 << 20,
        max_ranges: 1000,
        congestion: algorithm,
        ..Config::default()
    };
    let app =
        App { total: u64::MAX / 2, adu: PAYLOAD..PAYLOAD + 1, cut: Cut::Record, ..App::default() };
    Scenario {
        client: config.clone(),
        server: config,
        client_app: app,
        server_app: App { finishes: false, ..App::default() },
        links: [link.clone(), Impairments { loss: 0.0, ..link }],
        with_bytes: false,
        ..Scenario::default()
    }
}

/// Segments of new payload a round trip, over `time` after a start of `start`.
fn segments_per_round(
    scenario: &Scenario,
    random: &mut Random,
    start: Duration,
    time: Duration,
) -> f64 {
    let rtt = scenario.links[0].delay + scenario.links[1].delay;
    let mut world = World::new(scenario, random);
    world.run_for(start);
    let before = world.server().received.contiguous();
    world.run_for(time);
    let bytes = world.server().received.contiguous() - before;
    let segments = bytes as f64 / PAYLOAD as f64 / (time.as_secs_f64() / rtt.as_secs_f64());
    if std::env::var_os("FUSEWIRE_SHOW").is_some() {
        println!("{segments:.1} segments a round trip\n{}", world.describe());
    }
    segments
}

#[test]
fn one_percent_loss_and_twenty_ms_reach_the_reno_friendly_window() {
    let rtt = Duration::from_millis(20);
    // RFC 9438, section 5.1: AVG_W_aimd with alpha 0.53 and beta 0.7 is that of NewReno,
    // sqrt(3 / (2 p)) = 12.2 segments.
    let window = (1.5f64 / 0.01).sqrt();
    for_each_seed_of(4, "one_percent_loss_and_twenty_ms", |_, random| {
        for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
            let scenario = bulk(0.01, rtt, algorithm);
            let found = segments_per_round(
                &scenario,
                random,
                Duration::from_secs(5),
                Duration::from_secs(200),
            );
            println!("{algorithm:?}: {found:.2} segments a round trip, formula {window:.2}");
            assert!(found >= 0.8 * window, "{algorithm:?}: {found:.1} of {window:.1}");
            assert!(
                found <= 1.5 * window,
                "{algorithm:?} takes too much: {found:.1} of {window:.1}"
            );
        }
    });
}

#[test]
fn a_hundredth_of_a_percent_and_a_hundred_ms_reach_the_response_function() {
    let rtt = Duration::from_millis(100);
    // RFC 9438, section 5.1: 1.054 (RTT / p)^(3/4).
    let window = 1.054 * (0.1f64 / 1e-4).powf(0.75);
    for_each_seed_of(2, "a_hundredth_of_a_percent_and_a_hundred_ms", |_, random| {
        let scenario = bulk(1e-4, rtt, Algorithm::Cubic);
        let found = segments_per_round(
            &scenario,
            random,
            Duration::from_secs(60),
            Duration::from_secs(1000),
        );
        println!("Cubic: {found:.1} segments a round trip, formula {window:.1}");
        assert!(found >= 0.8 * window, "{found:.1} of {window:.1}");
        assert!(found <= 1.5 * window, "takes too much: {found:.1} of {window:.1}");
    });
}

/// A bottleneck of `rate` bytes a second with a queue of one bandwidth-delay product.
fn bottleneck(rate: u64, rtt: Duration) -> Scenario {
    let mut scenario = bulk(0.0, rtt, Algorithm::Cubic);
    scenario.links[0].rate = Some(rate);
    scenario.links[0].queue_bytes = (rate as f64 * rtt.as_secs_f64()) as usize;
    scenario
}

#[test]
fn a_bottleneck_is_kept_busy() {
    for_each_seed_of(1, "a_bottleneck_is_kept_busy", |_, random| {
        for (rate, rtt_ms) in [(1_250_000u64, 40u64), (12_500_000, 10), (12_500_000, 100)] {
            let rtt = Duration::from_millis(rtt_ms);
            let scenario = bottleneck(rate, rtt);
            let found = segments_per_round(
                &scenario,
                random,
                Duration::from_secs(2),
                Duration::from_secs(20),
            );
            // A frame is payload, 32 bytes of TCP and 28 around it.
            let full = rate as f64 * rtt.as_secs_f64() / (PAYLOAD + 60) as f64;
            println!("{rate} bytes/s, {rtt_ms} ms: {:.3} of the rate", found / full);
            assert!(found >= 0.95 * full, "{rate} bytes/s, {rtt_ms} ms: {found:.1} of {full:.1}");
        }
    });
}

#[test]
fn marks_steer_without_loss() {
    for_each_seed_of(1, "marks_steer_without_loss", |_, random| {
        let mut scenario = bottleneck(12_500_000, Duration::from_millis(20));
        scenario.links[0].mark_queue_bytes = scenario.links[0].queue_bytes / 2;
        scenario.links[0].queue_bytes *= 4;
        let mut world = World::new(&scenario, random);
        world.run_for(Duration::from_secs(20));
        let counts = world.links[0].counts();
        assert!(counts.marked > 0 && world.client.conn.counters().ecn_echoes > 3);
        assert_eq!(counts.overflowed, 0, "no loss where marks are obeyed");
        let rate = world.server().received.contiguous() as f64 / 20.0;
        assert!(rate > 0.85 * 12_500_000.0, "{rate} bytes/s");
    });
}

#[test]
fn slow_start_fills_a_long_path_in_a_few_round_trips() {
    for_each_seed_of(1, "slow_start_fills_a_long_path", |_, random| {
        let scenario = bottleneck(12_500_000, Duration::from_millis(100));
        let mut world = World::new(&scenario, random);
        // 10 segments doubling to 833 takes seven round trips, and one for the handshake.
        world.run_for(Duration::from_millis(1500));
        let bytes = world.server().received.contiguous();
        assert!(bytes > 4_000_000, "{bytes} bytes in 1.5 s");
    });
}

#[test]
fn reserving_within_the_window_costs_no_speed() {
    for_each_seed_of(1, "reserving_within_the_window_costs_no_speed", |_, random| {
        let mut scenario = bulk(0.01, Duration::from_millis(20), Algorithm::Cubic);
        scenario.client.reserve_within_window = true;
        let found =
            segments_per_round(&scenario, random, Duration::from_secs(5), Duration::from_secs(100));
        let window = (1.5f64 / 0.01).sqrt();
        assert!(found >= 0.8 * window, "{found:.1} of {window:.1}");
    });
}

/// A record that is longer than the window, or than what is left of it, begins to leave as soon as its first segment may.
#[test]
fn long_records_within_the_window_are_no_slower_than_short_ones() {
    for_each_seed_of(1, "long_records_within_the_window_are_no_slower", |_, random| {
        for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
            let mut found = |within: bool, record: u64| {
                let mut scenario = bulk(0.01, Duration::from_millis(20), algorithm);
                scenario.client.reserve_within_window = within;
                scenario.client_app.adu = record..record + 1;
                let (start, time) = (Duration::from_secs(5), Duration::from_secs(200));
                segments_per_round(&scenario, random, start, time)
            };
            let whole = found(true, PAYLOAD);
            for record in [8 << 10, 20_000, 64 << 10] {
                let (long, ahead) = (found(true, record), found(false, record));
                println!(
                    "{algorithm}, {record} bytes: {long:.2}, ahead {ahead:.2}; short {whole:.2}"
                );
                assert!(long >= 0.9 * whole, "{algorithm}, {record} bytes");
            }
        }
    });
}

#[test]
fn a_window_that_is_not_used_stays() {
    for_each_seed_of(1, "a_window_that_is_not_used_stays", |_, random| {
        let mut scenario = bulk(0.0, Duration::from_millis(20), Algorithm::Cubic);
        scenario.client_app.pause = Duration::from_millis(20);
        scenario.client_app.pause_chance = 1.0;
        let mut world = World::new(&scenario, random);
        world.run_for(Duration::from_secs(60));
        assert!(world.server().received.contiguous() > 4000 * PAYLOAD, "it does send");
        let cwnd = world.client.conn.info().cwnd;
        assert!(cwnd <= 40 * PAYLOAD, "a window of {cwnd} for two segments a round trip");
    });
}

#[test]
fn slow_start_overshoots_a_deep_queue_by_little() {
    for_each_seed_of(1, "slow_start_overshoots_a_deep_queue_by_little", |_, random| {
        let mut scenario = bottleneck(12_500_000, Duration::from_millis(50));
        scenario.links[0].queue_bytes *= 3;
        let mut world = World::new(&scenario, random);
        world.run_for(Duration::from_secs(3));
        // Plain slow start would lose as much as path and queue hold, 4 * 417 segments; conservative
        // slow start grows by a quarter each round.
        let lost = world.links[0].counts().overflowed;
        println!("{lost} segments lost");
        assert!(lost < 4 * 417 / 3, "HyStart++ came too late: {lost} lost");
        let rate = world.server().received.contiguous() as f64 / 3.0;
        assert!(rate > 0.8 * 12_500_000.0, "{rate} bytes/s");
    });
}

#[test]
fn reordering_is_not_taken_for_loss_for_long() {
    for_each_seed_of(1, "reordering_is_not_taken_for_loss_for_long", |_, random| {
        let rtt = Duration::from_millis(40);
        let mut scenario = bottleneck(12_500_000, rtt);
        scenario.links[0].reorder = 0.02;
        scenario.links[0].reorder_delay = Duration::from_millis(9);
        // What comes late behind a retransmission is dropped for its timestamp (PAWS) and so really
        // lost: early in slow start that costs CUBIC some seconds, which are not measured.
        let (start, time) = (Duration::from_secs(20), Duration::from_secs(40));
        let found = segments_per_round(&scenario, random, start, time);
        let full = 12_500_000.0 * rtt.as_secs_f64() / (PAYLOAD + 60) as f64;
        println!("{:.3} of the rate", found / full);
        assert!(found >= 0.85 * full, "{found:.1} of {full:.1}");
    });
}

#[test]
fn loopback_is_limited_by_the_window_and_not_by_timers() {
    for_each_seed_of(1, "loopback_is_limited_by_the_window_and_not_by_timers", |_, random| {
        // What a socket buffer of 208 KiB holds, in datagrams of 16 KiB, at 4 GB/s and 10 µs.
        let mut scenario = bottleneck(4_000_000_000, Duration::from_micros(20));
        scenario.links[0].queue_bytes = usize::MAX;
        for config in [&mut scenario.client, &mut scenario.server] {
            (config.mss, config.send_mss) = (16_384, 16_384);
            (config.recv_window, config.initial_recv_window) = (200_000, 200_000);
        }
        scenario.client_app.adu = 16_372..16_373;
        let mut world = World::new(&scenario, random);
        world.run_for(Duration::from_secs(1));
        let rate = world.server().received.contiguous() as f64;
        let info = world.client.conn.info();
        println!("{:.2} GB/s, {} retransmissions", rate / 1e9, info.counters.retransmissions);
        assert!(rate > 0.9 * 4e9, "{rate} bytes/s\n{}", world.describe());
        assert_eq!(info.counters.retransmissions, 0);
    });
}
