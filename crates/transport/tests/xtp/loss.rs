//! Links that lose, reorder, copy and change packets; receivers that stall; both ends close.

use core::time::Duration;

use fusewire_testkit::{Random, for_each_seed};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::xtp::{Config, Retransmission};

use crate::account::{Scenario, World, assert_graceful};
use crate::two_ends::{App, any_link};

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

fn app(random: &mut Random) -> App {
    let total = if random.chance(0.1) { 0 } else { random.below(100_000) };
    App { finishes_last: random.chance(0.3), ..App::any(random, total) }
}

fn scenario(random: &mut Random) -> Scenario {
    let mut scenario = Scenario {
        client: config(random),
        server: config(random),
        client_app: app(random),
        server_app: app(random),
        links: [any_link(random), any_link(random)],
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
        assert_graceful(&world);
    });
}
