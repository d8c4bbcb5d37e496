//! How contexts end: in order, at once from one side, by a peer that has forgotten all.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Random, for_each_seed};
use fusewire_transport::machine::{Cut, Event, ResetCause};
use fusewire_transport::xtp::{Config, State};

use crate::account::{Scenario, Side, World, assert_graceful};
use crate::loss;
use crate::thin::{link, sends};
use crate::two_ends::{App, any_link};

fn scenario(up: u64, down: u64) -> Scenario {
    Scenario {
        client_app: sends(up),
        server_app: sends(down),
        links: [link(), link()],
        ..Scenario::default()
    }
}

fn was_reset(side: &Side, cause: ResetCause) -> bool {
    side.is_closed && side.events.contains(&Event::Reset(cause))
}

#[test]
fn an_abort_ends_both_at_any_time() {
    for_each_seed("an_abort_ends_both_at_any_time", |seed, random| {
        let mut world = World::new(&scenario(4_000_000, 4_000_000), random);
        world.run_for(random.duration_below(Duration::from_millis(100)));
        let by_client = seed % 2 == 0;
        match &mut world.server {
            Some(server) if !by_client => server.conn.abort(),
            _ => world.client.conn.abort(),
        }
        world.run_for(Duration::from_secs(100));
        assert!(world.client.is_closed, "{}", world.describe());
        let Some(server) = &world.server else { return };
        assert!(server.is_closed, "{}", world.describe());
        let causes = [&world.client, server].map(|side| was_reset(side, ResetCause::Local));
        assert!(causes.contains(&true), "{}", world.describe());
    });
}

#[test]
fn an_abort_that_is_lost_is_told_by_who_has_no_context() {
    let mut world = World::new(&scenario(4_000_000, 4_000_000), &mut Random::new(4));
    world.run_for(Duration::from_millis(60));
    world.links[1].impairments_mut().loss = 1.0;
    world.server.as_mut().unwrap().conn.abort();
    world.run_for(Duration::from_millis(5));
    world.links[1].impairments_mut().loss = 0.0;
    world.run();
    assert!(was_reset(&world.client, ResetCause::Peer), "{}", world.describe());
    assert!(world.around.diags > 0);
}

#[test]
fn a_peer_that_vanishes_is_given_up_after_ctimeout() {
    let mut world = World::new(&scenario(4_000_000, 0), &mut Random::new(4));
    world.run_for(Duration::from_millis(60));
    world.links[1].impairments_mut().loss = 1.0;
    let since = world.client.conn.heard_at();
    world.run_for(Duration::from_secs(100));
    assert_eq!(world.client.conn.state(), State::Open);
    world.run_for(Duration::from_secs(100));
    assert!(world.client.events.contains(&Event::TimedOut), "{}", world.describe());
    assert!(world.now - since > Config::default().ctimeout);
}

#[test]
fn a_lost_tail_is_asked_about_before_wtimer_ends() {
    let mut scenario = scenario(0, 0);
    scenario.client_app = App { finishes: false, ..sends(900) };
    scenario.server_app = App { finishes: false, ..sends(0) };
    let mut world = World::new(&scenario, &mut Random::new(4));
    // The path is known, and quiet; then one packet is lost.
    world.run_for(Duration::from_millis(300));
    world.links[0].impairments_mut().loss = 1.0;
    let reservation = world.client.conn.reserve(900).expect("room");
    world.client.reserved += 900;
    world.client.committed += 900;
    world.client.conn.commit(reservation, Cut::Record);
    world.settle();
    world.links[0].impairments_mut().loss = 0.0;
    let at = world.now;
    while world.client.acked < 1800 {
        world.run_for(Duration::from_millis(1));
    }
    // Twice the round trip, and one for the answer, and one for what is sent again.
    let took = world.now - at;
    assert!(took <= Duration::from_millis(90), "{took:?}");
}

#[test]
fn a_timeout_for_lost_answers_alone_costs_no_window() {
    let mut world = World::new(&scenario(4_000_000, 0), &mut Random::new(4));
    world.run_for(Duration::from_millis(90));
    let before = world.client.conn.info().cwnd;
    world.links[1].impairments_mut().loss = 1.0;
    world.run_for(Duration::from_millis(300));
    let within = world.client.conn.info();
    assert!(within.timeouts_in_a_row > 0 && within.cwnd < before / 4, "{within:?}");
    world.links[1].impairments_mut().loss = 0.0;
    world.run_for(Duration::from_secs(1));
    let after = world.client.conn.info();
    assert!(after.cwnd >= before && after.counters.spurious == 1, "{before} {after:?}");
    world.run();
    assert_graceful(&world);
    assert_eq!(world.client.counts.retransmitted, 0);
}

#[test]
fn both_close_at_the_same_time_whatever_is_lost() {
    for_each_seed("both_close_at_the_same_time_whatever_is_lost", |_, random| {
        let config = loss::patient(Config::default());
        let mut scenario = scenario(random.below(3000), random.below(3000));
        (scenario.client, scenario.server) = (config.clone(), config);
        scenario.links = [any_link(random), any_link(random)];
        for link in &mut scenario.links {
            link.loss = 0.3;
        }
        let mut world = World::new(&scenario, random);
        world.run();
        assert_graceful(&world);
    });
}

#[test]
fn an_idle_context_closes_when_asked_to_much_later() {
    let idle = App { finishes: false, ..sends(5000) };
    let mut scenario = scenario(0, 0);
    (scenario.client_app, scenario.server_app) = (idle.clone(), idle);
    let mut world = World::new(&scenario, &mut Random::new(2));
    world.run_for(Duration::from_secs(1000));
    assert_eq!(world.client.conn.state(), State::Open, "{}", world.describe());
    world.client.conn.finish();
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server().peer_finished, Some(5000));
    world.server.as_mut().unwrap().conn.finish();
    world.run_for(Duration::from_secs(100));
    assert!(world.client.is_closed && world.server().is_closed, "{}", world.describe());
}

/// CTIMER: who hears nothing asks each 60 s, and gives up CTIMEOUT after the first question that nobody answers.
#[test]
fn an_idle_context_asks_and_gives_a_silent_peer_up() {
    let idle = App { finishes: false, ..sends(5000) };
    let mut scenario = scenario(0, 0);
    (scenario.client_app, scenario.server_app) = (idle.clone(), idle);
    let mut world = World::new(&scenario, &mut Random::new(2));
    world.run_for(Duration::from_secs(5));
    let begun = world.client.conn.counters().probes;
    world.run_for(Duration::from_secs(600));
    let asked = world.client.conn.counters().probes - begun;
    assert!((5..=10).contains(&asked), "{asked} questions in ten minutes");
    assert!(world.client.conn.keep_alive().is_some() && !world.client.is_closed);
    // From here on nothing comes any more.
    world.links.iter_mut().for_each(|link| link.impairments_mut().loss = 1.0);
    world.run_for(Duration::from_secs(60));
    assert!(!world.client.is_closed, "it may still answer");
    world.run_for(Duration::from_secs(130));
    assert!(world.client.events.contains(&Event::TimedOut), "{}", world.describe());
    assert!(world.client.is_closed && world.server().is_closed);
}

#[test]
fn sync_and_echo_wrap() {
    for_each_seed("sync_and_echo_wrap", |_, random| {
        let mut scenario = scenario(100_000, 20_000);
        let config = loss::patient(Config::default());
        (scenario.client, scenario.server) = (config.clone(), config);
        scenario.links = [any_link(random), any_link(random)];
        // The counter begins with these bits of the key.
        scenario.told.key = Some(1 | (0xffff_fff0 + random.below(16)) << 16);
        let mut world = World::new(&scenario, random);
        world.run();
        assert_graceful(&world);
        assert!(world.client.account.last_sync < 1 << 30, "{:x}", world.client.account.last_sync);
        assert!(world.now > Instant::ZERO);
    });
}

#[test]
fn a_window_that_stays_shut_is_asked_about_and_opens() {
    let mut scenario = scenario(200_000, 0);
    scenario.server = Config {
        recv_window: 20_000,
        initial_recv_window: 20_000,
        ..loss::patient(Config::default())
    };
    scenario.server_app = App { stall: Duration::from_secs(200), stall_chance: 0.05, ..sends(0) };
    let mut world = World::new(&scenario, &mut Random::new(8));
    world.run();
    assert_graceful(&world);
    assert!(world.server().counts.zero_windows > 0, "{}", world.describe());
    assert_eq!(world.client.counts.retransmitted, 0, "{}", world.describe());
}

#[test]
fn a_window_that_opens_is_told_at_once() {
    let mut scenario = scenario(200_000, 0);
    scenario.server = Config {
        recv_window: 20_000,
        initial_recv_window: 20_000,
        ..loss::patient(Config::default())
    };
    scenario.server_app = App { stall: Duration::from_secs(60), stall_chance: 0.03, ..sends(0) };
    let mut world = World::new(&scenario, &mut Random::new(8));
    // When an exhausted window was opened by the application.
    let mut opened: Option<Instant> = None;
    let (mut consumed, mut shut) = (0, 0);
    world.run_with(|world| {
        let Some(server) = &world.server else { return };
        let now = world.now;
        let got = server.received.contiguous();
        if opened.is_some_and(|_| got > server.consumed) {
            let since = opened.take().expect("it is");
            assert!(now - since <= Duration::from_millis(21), "{:?}", now - since);
        }
        if server.consumed > consumed && consumed + 20_000 - got < 1000 && got < 190_000 {
            (opened, shut) = (Some(now), shut + 1);
        }
        consumed = server.consumed;
    });
    assert_graceful(&world);
    assert!(shut >= 3, "{shut}");
}

#[test]
fn who_heeds_no_alloc_is_told_what_was_dropped() {
    let mut scenario = scenario(300_000, 0);
    scenario.client = Config { noflow: true, ..loss::patient(Config::default()) };
    scenario.server = Config {
        recv_window: 20_000,
        initial_recv_window: 20_000,
        ..loss::patient(Config::default())
    };
    scenario.server_app = App { stall: Duration::from_secs(2), stall_chance: 0.05, ..sends(0) };
    let mut world = World::new(&scenario, &mut Random::new(8));
    world.run();
    assert_graceful(&world);
    assert!(world.client.counts.retransmitted > 0, "{}", world.describe());
}
