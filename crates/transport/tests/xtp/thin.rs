//! A perfect link: what goes over it, and in how many packets.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::machine::Cut;
use fusewire_transport::xtp::{Config, Rate, State};
use fusewire_wire::xtp::{Body, Options};

use crate::account::{Scenario, World, assert_graceful};
use crate::hot_path::open;
use crate::rules::{BEGAN, deliver};
use crate::two_ends::App;

const DELAY: Duration = Duration::from_millis(10);

pub fn link() -> Impairments {
    Impairments { delay: DELAY, ..Impairments::default() }
}

pub fn sends(total: u64) -> App {
    App { total, ..App::default() }
}

fn scenario(up: u64, down: u64) -> Scenario {
    Scenario {
        client_app: sends(up),
        server_app: sends(down),
        links: [link(), link()],
        ..Scenario::default()
    }
}

#[test]
fn data_flow_both_ways_and_both_close() {
    for (up, down) in [(0, 0), (1, 0), (0, 1), (300, 200), (100_000, 50_000), (0, 3_000_000)] {
        let mut world = World::new(&scenario(up, down), &mut Random::new(up + 7));
        world.run();
        assert_graceful(&world);
        let server = world.server();
        assert_eq!(world.client.counts.retransmitted + server.counts.retransmitted, 0);
        assert_eq!(world.around.diags, 0);
        let timeouts = world.client.conn.counters().timeouts + server.conn.counters().timeouts;
        assert_eq!(timeouts, 0, "{}", world.describe());
    }
}

#[test]
fn the_first_adu_is_there_after_half_a_round_trip() {
    let mut scenario = scenario(300, 0);
    scenario.client_app.adu = 300..301;
    let mut world = World::new(&scenario, &mut Random::new(1));
    world.run_for(DELAY);
    assert_eq!(world.server().received.contiguous(), 300);
    assert_eq!(world.client.account.firsts_sent, 1);
}

#[test]
fn a_request_of_one_packet_and_its_answer_take_one_round_trip() {
    let mut scenario = scenario(300, 200);
    (scenario.client_app.adu, scenario.server_app.adu) = (300..301, 200..201);
    let mut world = World::new(&scenario, &mut Random::new(1));
    world.run_for(2 * DELAY);
    assert_eq!(world.client.received.contiguous(), 200, "{}", world.describe());
}

#[test]
fn bulk_is_acknowledged_by_few_packets() {
    let mut scenario = scenario(8_000_000, 0);
    scenario.client_app.adu = 1300..1400;
    let mut world = World::new(&scenario, &mut Random::new(3));
    world.run();
    assert_graceful(&world);
    let (data, controls) = (world.client.counts.data_sent, world.server().account.controls_sent);
    println!("{data} packets with data, {controls} controls");
    assert!(controls * 8 < data, "{controls} controls for {data} packets");
    let asked = world.client.account.asked;
    assert!(asked * 8 < data, "{asked} questions in {data} packets");
}

#[test]
fn one_direction_closes_long_before_the_other() {
    let mut scenario = scenario(1000, 500_000);
    scenario.server_app.pause = Duration::from_secs(20);
    scenario.server_app.pause_chance = 0.1;
    let mut world = World::new(&scenario, &mut Random::new(5));
    world.run();
    assert_graceful(&world);
}

#[test]
fn who_closes_last_is_gone_at_once_and_the_other_lingers() {
    let mut scenario = scenario(1000, 1000);
    scenario.server_app.finishes_last = true;
    let mut world = World::new(&scenario, &mut Random::new(5));
    world.run_for(Duration::from_secs(1));
    let states = [world.client.conn.state(), world.server().conn.state()];
    assert_eq!(states, [State::Inactive, State::Quiescent], "{}", world.describe());
    world.run();
    assert_graceful(&world);
}

#[test]
fn streams_without_boundaries_are_joined() {
    let mut scenario = scenario(200_000, 0);
    scenario.client_app = App { cut: Cut::Stream, adu: 1..50, ..sends(200_000) };
    let mut world = World::new(&scenario, &mut Random::new(5));
    world.run();
    assert_graceful(&world);
    assert!(world.client.counts.data_sent < 200, "{}", world.describe());
}

#[test]
fn messages_are_told_whole_and_in_order() {
    let mut scenario = scenario(300_000, 40_000);
    for (config, app) in [
        (&mut scenario.client, &mut scenario.server_app),
        (&mut scenario.server, &mut scenario.client_app),
    ] {
        config.messages = true;
        app.adu = 1..9000;
    }
    let mut world = World::new(&scenario, &mut Random::new(9));
    world.run();
    assert_graceful(&world);
    let server = world.server();
    for (sender, receiver) in [(&world.client, server), (server, &world.client)] {
        let told: Vec<_> = receiver.account.messages.iter().map(|m| m.range.clone()).collect();
        assert_eq!(told, sender.account.sent_messages);
    }
}

#[test]
fn a_rate_is_kept_that_the_peer_asks_for() {
    let mut scenario = scenario(1_000_000, 0);
    let rate = Rate { rate: 100_000, burst: 5000 };
    scenario.server = Config { in_rate: rate, ..Config::default() };
    let mut world = World::new(&scenario, &mut Random::new(9));
    let start = world.now;
    world.run_for(Duration::from_secs(1));
    // The initial flight does not know it.
    let had = world.server().received.contiguous();
    world.run_for(Duration::from_secs(5));
    let bytes = world.server().received.contiguous() - had;
    assert!((450_000..=500_000).contains(&bytes), "{bytes} in 5 s from {start}");
    world.run();
    assert_graceful(&world);
}

/// Section 11: a later TCNTL changes the rate, also where some packets are lost.
#[test]
fn a_rate_that_changes_under_way_is_followed() {
    for loss in [0.0, 0.1] {
        for_each_seed_of(10, "thin::a_rate_that_changes_under_way_is_followed", |_, random| {
            let mut scenario = scenario(1 << 40, 0);
            scenario.links.iter_mut().for_each(|link| link.loss = loss);
            let rate = |rate| Rate { rate, burst: 5000 };
            scenario.server = Config { in_rate: rate(100_000), ..Config::default() };
            let mut world = World::new(&scenario, random);
            world.run_for(Duration::from_secs(2));
            for bytes_a_second in [20_000, 400_000, 50_000] {
                let server = world.server.as_mut().expect("it is there");
                server.conn.set_in_rate(rate(bytes_a_second));
                // The news is on its way, and may be lost.
                world.run_for(Duration::from_secs(2));
                let before = world.server().received.contiguous();
                world.run_for(Duration::from_secs(5));
                let bytes = world.server().received.contiguous() - before;
                let most = 5 * u64::from(bytes_a_second) + 10_000;
                assert!(bytes <= most, "{bytes} in 5 s at {bytes_a_second}");
                // What is lost goes again, and a controller may want less.
                assert!(loss > 0.0 || bytes >= most * 8 / 10, "{bytes} in 5 s at {bytes_a_second}");
            }
        });
    }
}

/// That a rate has changed goes by TCNTL that asks, and more than once.
#[test]
fn a_new_rate_is_told_by_tcntl_more_than_once() {
    let (mut a, mut b) = open(&Config::default(), BEGAN);
    b.set_in_rate(Rate { rate: 30_000, burst: 4000 });
    let mut controls = Vec::new();
    for n in 0..8 {
        let now = BEGAN + n * Duration::from_millis(10);
        let reservation = a.reserve(1).expect("room");
        a.commit(reservation, Cut::Stream);
        deliver(&mut a, &mut b, now);
        controls.extend(deliver(&mut b, &mut a, now));
    }
    assert!(controls[0].options.has(Options::SREQ), "{controls:?}");
    let rates = controls.iter().map(|h| match &h.body {
        Body::Tcntl(tcntl) => tcntl.traffic.limits.map(|limits| (limits.inrate, limits.inburst)),
        _ => None,
    });
    let rates: Vec<_> = rates.collect();
    assert!(rates.len() > 4 && rates[..4].iter().all(|r| *r == Some((30_000, 4000))), "{rates:?}");
    assert!(rates[4..].iter().all(Option::is_none), "{rates:?}");
}

#[test]
fn without_a_controller_the_window_of_the_peer_is_the_only_one() {
    let mut scenario = scenario(4_000_000, 0);
    scenario.client = Config { congestion: None, ..Config::default() };
    scenario.server = Config { initial_recv_window: 4 << 20, ..Config::default() };
    let mut world = World::new(&scenario, &mut Random::new(9));
    world.run_for(6 * DELAY);
    assert!(world.server().received.contiguous() > 2_000_000, "{}", world.describe());
    world.run();
    assert_graceful(&world);
}
