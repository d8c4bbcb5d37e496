//! Whatever the link does, every byte arrives once and in its place.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::Cut;
use fusewire_transport::tcp::Config;

use crate::side::App;
use crate::world::{Scenario, World};

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

/// Any application; `total` bytes are sent.
fn app(random: &mut Random, total: u64) -> App {
    App {
        total,
        adu: 1..random.range(2..5000),
        cut: *random.pick(&[Cut::Record, Cut::Stream]),
        pause: Duration::from_millis(random.below(50)),
        pause_chance: if random.chance(0.5) { 0.05 } else { 0.0 },
        stall: Duration::from_millis(random.below(2000)),
        stall_chance: if random.chance(0.3) { 0.02 } else { 0.0 },
        reject_chance: if random.chance(0.3) { 0.02 } else { 0.0 },
        partial_chance: if random.chance(0.3) { 0.02 } else { 0.0 },
        finishes: true,
    }
}

/// Any link.
fn link(random: &mut Random) -> Impairments {
    let some = |random: &mut Random, most: f64| {
        if random.chance(0.5) { random.unit() * most } else { 0.0 }
    };
    Impairments {
        rate: random.chance(0.5).then(|| random.range(100_000..100_000_000)),
        delay: random.duration_below(Duration::from_millis(100)),
        jitter: random.duration_below(Duration::from_millis(5)),
        queue_bytes: random.range(20_000..1_000_000) as usize,
        loss: some(random, 0.3),
        loss_burst: if random.chance(0.3) { 1.0 + random.unit() * 3.0 } else { 1.0 },
        reorder: some(random, 0.2),
        reorder_delay: random.duration_below(Duration::from_millis(100)),
        duplicate: some(random, 0.2),
        corrupt: some(random, 0.1),
        mark: some(random, 0.05),
        ..Impairments::default()
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
            client_app: app(random, total),
            server_app: app(random, back),
            links: [link(random), link(random)],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
    });
}
