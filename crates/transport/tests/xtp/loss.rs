//! Links that lose, reorder, copy and change packets; receivers that stall; both ends close.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::Cut;
use fusewire_transport::xtp::{Config, Retransmission};

use crate::side::App;
use crate::world::{Scenario, World};

pub fn bad_link(random: &mut Random) -> Impairments {
    let delay = random.duration_below(Duration::from_millis(100));
    Impairments {
        rate: random.chance(0.5).then(|| random.range(20_000..3_000_000)),
        delay,
        jitter: delay / random.range(1..10) as u32,
        queue_bytes: random.range(5_000..200_000) as usize,
        mtu_bytes: usize::MAX,
        loss: *random.pick(&[0.0, 0.001, 0.01, 0.05, 0.1, 0.3]),
        loss_burst: *random.pick(&[1.0, 1.0, 3.0]),
        reorder: *random.pick(&[0.0, 0.01, 0.1, 0.3]),
        reorder_delay: random.duration_below(Duration::from_millis(50)),
        duplicate: *random.pick(&[0.0, 0.01, 0.1]),
        corrupt: *random.pick(&[0.0, 0.001, 0.02]),
        ..Impairments::default()
    }
}

pub fn config(random: &mut Random) -> Config {
    Config {
        send_tpdu_len: random.range(200..2000) as usize,
        send_buffer: 1 << random.range(12..20),
        max_packets_in_flight: random.range(4..500) as usize,
        recv_window: 1 << random.range(14..20),
        initial_recv_window: 1 << random.range(14..18),
        max_ranges: random.range(1..64) as usize,
        retransmission: *random.pick(&[Retransmission::SelectiveRepeat, Retransmission::GoBackN]),
        fastnak: random.chance(0.7),
        edge: random.chance(0.3),
        cxor: random.chance(0.2),
        noflow: random.chance(0.1),
        congestion: *random.pick(&[
            Some(Algorithm::Cubic),
            Some(Algorithm::NewReno),
            Some(Algorithm::Bbr),
            None,
        ]),
        pacing: random.chance(0.5),
        tail_probe: random.chance(0.7),
        sort: random.chance(0.2).then_some(5),
        ..patient(Config::default())
    }
}

/// Gives up hardly ever: a link may lose much in a row.
pub fn patient(config: Config) -> Config {
    let long = Duration::from_secs(100_000);
    Config {
        ctimeout: long,
        opening_timeout: long,
        half_open_timeout: long,
        linger: long,
        ..config
    }
}

pub fn app(random: &mut Random, most: u64) -> App {
    let tiny = random.chance(0.1);
    App {
        total: if random.chance(0.1) { 0 } else { random.below(most) },
        adu: if tiny { 1..20 } else { 1..1 << random.range(4..14) },
        cut: *random.pick(&[Cut::Record, Cut::Stream, Cut::StreamEnd]),
        pause: random.duration_below(Duration::from_secs(3)),
        pause_chance: *random.pick(&[0.0, 0.0, 0.05]),
        stall: random.duration_below(Duration::from_secs(10)),
        stall_chance: *random.pick(&[0.0, 0.0, 0.01]),
        reject_chance: *random.pick(&[0.0, 0.0, 0.02]),
        partial_chance: *random.pick(&[0.0, 0.0, 0.05]),
        finishes_last: random.chance(0.3),
        ..App::default()
    }
}

fn scenario(random: &mut Random) -> Scenario {
    let mut scenario = Scenario {
        client: config(random),
        server: config(random),
        client_app: app(random, 100_000),
        server_app: app(random, 100_000),
        links: [bad_link(random), bad_link(random)],
        limit: Duration::from_secs(400_000),
        ..Scenario::default()
    };
    if scenario.client_app.finishes_last {
        // Both cannot.
        scenario.server_app.finishes_last = false;
    }
    scenario
}

#[test]
fn everything_comes_once_and_both_close() {
    for_each_seed("everything_comes_once_and_both_close", |_, random| {
        let scenario = scenario(random);
        let mut world = World::new(&scenario, random);
        world.run();
        world.assert_graceful();
    });
}
