//! Whatever the link does, every byte arrives once and in its place.

use core::time::Duration;

use fusewire_testkit::{Random, for_each_seed};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::tcp::Config;

use crate::account::{Scenario, World};
use crate::two_ends::{App, any_link};

/// Any configuration.
fn config(random: &mut Random) -> Config {
    let recv_window = 1 << random.range(12..22);
    Config {
        mss: random.range(200..9000) as u16,
        send_mss: random.range(200..9000) as u16,
        send_buffer: 1 << random.range(13..22),
        max_segments_in_flight: random.range(8..2000) as usize,
        recv_window,
        initial_recv_window: recv_window.min(1 << random.range(12..20)),
        max_ranges: random.range(1..100) as usize,
        window_scaling: random.chance(0.8),
        timestamps: random.chance(0.8),
        sack: random.chance(0.8),
        ecn: random.chance(0.5),
        congestion: *random.pick(&[Algorithm::NewReno, Algorithm::Cubic]),
        initial_window_segments: random.range(1..11) as u32,
        pacing: random.chance(0.7),
        nagle: random.chance(0.3),
        delayed_ack: Duration::from_millis(random.below(200)),
        syn_transmissions: 20,
        max_retransmissions: 100,
        // Longer than the retransmission timeout, so that an end that lasts is answered.
        time_wait: Duration::from_secs(3600),
        reserve_within_window: random.chance(0.2),
        ..Config::default()
    }
}

#[test]
fn any_scenario_delivers_every_byte_once() {
    for_each_seed("any_scenario_delivers_every_byte_once", |_, random| {
        let total = 1 << random.range(8..18);
        let back = if random.chance(0.5) { random.below(1 << 16) } else { 0 };
        let scenario = Scenario {
            client: config(random),
            server: config(random),
            client_app: App::any(random, total),
            server_app: App::any(random, back),
            links: [any_link(random), any_link(random)],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
    });
}
