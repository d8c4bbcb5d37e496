//! Windows of zero, and sequence numbers that wrap.

use core::time::Duration;

use fusewire_base::Seq;
use fusewire_testkit::{Impairments, for_each_seed, for_each_seed_of};
use fusewire_transport::tcp::Config;

use crate::account::{Scenario, Told, World};
use crate::two_ends::App;

#[test]
fn a_reader_that_stops_stops_the_sender_and_loses_nothing() {
    let mut zero_windows = 0;
    for_each_seed("a_reader_that_stops_stops_the_sender_and_loses_nothing", |_, random| {
        let link = Impairments {
            rate: Some(10_000_000),
            delay: Duration::from_millis(random.range(1..50)),
            // Window updates get lost too: probes must find the window open.
            loss: 0.1 * random.unit(),
            ..Impairments::default()
        };
        let window = random.range(500..20_000) as u32;
        let config = Config {
            recv_window: window,
            initial_recv_window: window,
            timestamps: random.chance(0.5),
            sack: random.chance(0.5),
            window_scaling: random.chance(0.5),
            ..Config::default()
        };
        let scenario = Scenario {
            client: config.clone(),
            server: config,
            client_app: App {
                total: random.range(30_000..100_000),
                adu: 1..3000,
                ..App::default()
            },
            server_app: App { stall: Duration::from_secs(10), stall_chance: 0.3, ..App::default() },
            links: [link.clone(), link],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
        zero_windows += world.server().counts.zero_windows;
    });
    assert!(zero_windows > 0, "no window was ever closed");
}

#[test]
fn sequence_numbers_wrap_unseen() {
    for_each_seed("sequence_numbers_wrap_unseen", |_, random| {
        let link = Impairments {
            delay: Duration::from_millis(10),
            loss: 0.1 * random.unit(),
            reorder: 0.1 * random.unit(),
            reorder_delay: Duration::from_millis(15),
            duplicate: 0.1 * random.unit(),
            ..Impairments::default()
        };
        let total = random.range(10_000..100_000);
        let before = random.below(total + 3) as u32;
        let config = Config {
            timestamps: random.chance(0.5),
            sack: random.chance(0.5),
            ..Config::default()
        };
        let scenario = Scenario {
            client: config.clone(),
            server: config,
            client_app: App { total, ..App::default() },
            server_app: App { total: 5000, ..App::default() },
            links: [link.clone(), link],
            told: Told { iss: Some(Seq(0u32.wrapping_sub(before))) },
            ..Scenario::default()
        };
        World::new(&scenario, random).run();
    });
}

#[test]
fn nine_gigabytes_pass_the_wrap_twice() {
    for_each_seed_of(1, "nine_gigabytes_pass_the_wrap_twice", |_, random| {
        let link = Impairments {
            rate: Some(2_000_000_000),
            delay: Duration::from_millis(2),
            queue_bytes: 8 << 20,
            ..Impairments::default()
        };
        let config = Config {
            mss: 60_000,
            send_mss: 60_000,
            recv_window: 16 << 20,
            initial_recv_window: 1 << 20,
            send_buffer: 16 << 20,
            ..Config::default()
        };
        let scenario = Scenario {
            client: config.clone(),
            server: config,
            client_app: App { total: 9 << 30, adu: 59_988..59_989, ..App::default() },
            links: [Impairments { loss: 1e-4, ..link.clone() }, link],
            with_bytes: false,
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        let start = world.now;
        world.run();
        assert_eq!(world.server().received.contiguous(), 9 << 30);
        let seconds = (world.now - start).as_secs_f64();
        assert!(seconds < 12.0, "{seconds} s of virtual time for 4.8");
    });
}
