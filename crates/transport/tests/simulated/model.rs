//! BBR on a path and beside CUBIC: what a model of the path is for.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::congestion::Algorithm;

use crate::account::{Scenario, World};
use crate::goodput::{PAYLOAD, bulk};
use crate::shared::Shared;

/// 100 Mbit/s.
const RATE: u64 = 12_500_000;
const RTT: Duration = Duration::from_millis(100);
/// What lies on the path when it is full and nothing waits: 1.25 MB.
const BDP: usize = 1_250_000;

/// Payload bytes a second as a part of what the link carries: a frame has 60 bytes beside its payload.
fn share(bytes: u64, time: Duration) -> f64 {
    let full = RATE as f64 * PAYLOAD as f64 / (PAYLOAD + 60) as f64;
    bytes as f64 / time.as_secs_f64() / full
}

fn bottleneck(queue_bytes: usize, loss: f64) -> Impairments {
    Impairments { rate: Some(RATE), delay: RTT / 2, queue_bytes, loss, ..Impairments::default() }
}

fn flow(algorithm: Algorithm, link: Impairments) -> Scenario {
    let mut scenario = bulk(0.0, RTT, algorithm);
    for config in [&mut scenario.client, &mut scenario.server] {
        config.send_buffer = 8 << 20;
        config.max_segments_in_flight = 6000;
    }
    scenario.links[0] = link;
    scenario
}

/// The share of the link that one flow has from the third second on.
fn alone(algorithm: Algorithm, link: &Impairments, random: &mut Random) -> f64 {
    let mut world = World::new(&flow(algorithm, link.clone()), random);
    world.run_for(Duration::from_secs(3));
    let before = world.server().received.contiguous();
    let time = Duration::from_secs(20);
    world.run_for(time);
    if std::env::var_os("FUSEWIRE_SHOW").is_some() {
        println!("{}", world.describe());
    }
    share(world.server().received.contiguous() - before, time)
}

#[test]
fn random_loss_of_one_percent_leaves_four_fifths_of_the_link() {
    let (mut sum, mut runs) = (0.0, 0);
    for_each_seed_of(1, "random_loss_of_one_percent", |_, random| {
        let link = bottleneck(BDP, 0.01);
        let [bbr, cubic] = [Algorithm::Bbr, Algorithm::Cubic].map(|a| alone(a, &link, random));
        println!("100 Mbit/s, 100 ms, 1 % lost: BBR {bbr:.3} of the link, CUBIC {cubic:.3}");
        // Whose probe meets an unlucky round has a little less.
        assert!(bbr >= 0.75, "BBR has {bbr:.3} of the link");
        assert!(cubic < 0.1, "CUBIC has {cubic:.3} of the link: is anything lost?");
        (sum, runs) = (sum + bbr, runs + 1);
    });
    let mean = sum / f64::from(runs);
    assert!(mean >= 0.8, "BBR has {mean:.3} of the link");
}

/// Shares of two flows in a queue of one bandwidth-delay product, for a minute after 20 seconds: long enough that a
/// part which one loses to the other's probes would be lost.
fn together(of: [Algorithm; 2], rate: u64, rtt: Duration, random: &mut Random) -> [f64; 2] {
    let flows = of.map(|algorithm| {
        let mut flow = flow(algorithm, Impairments::default());
        flow.links[1].delay = rtt / 2;
        flow
    });
    let queue_bytes = (rate as f64 * rtt.as_secs_f64()) as usize;
    let link = Impairments { rate: Some(rate), delay: rtt / 2, ..bottleneck(queue_bytes, 0.0) };
    let mut shared = Shared::new(&flows, link, random);
    shared.run_for(Duration::from_secs(20));
    let time = Duration::from_secs(60);
    let bytes = shared.run_for(time);
    assert!(shared.counts().overflowed > 0, "the queue is used to its end");
    [0, 1].map(|flow| share(bytes[flow], time) * RATE as f64 / rate as f64)
}

fn neither_starves(name: &str, rate: u64, rtt_ms: u64) {
    let both = [Algorithm::Bbr, Algorithm::Cubic];
    for_each_seed_of(1, "beside_cubic_neither_starves", |_, random| {
        let [bbr, cubic] = together(both, rate, Duration::from_millis(rtt_ms), random);
        println!("{name}: BBR {bbr:.3} of the link, CUBIC {cubic:.3}");
        assert!(bbr.min(cubic) >= 0.2, "{name}: {bbr:.3} and {cubic:.3}");
        assert!(bbr + cubic > 0.9, "{name}: {bbr:.3} and {cubic:.3}");
    });
}

#[test]
fn beside_cubic_neither_starves_at_home() {
    neither_starves("25 Mbit/s, 30 ms", 3_125_000, 30);
}

#[test]
fn beside_cubic_neither_starves_near_by() {
    neither_starves("100 Mbit/s, 20 ms", RATE, 20);
}

#[test]
fn beside_cubic_neither_starves_across_a_continent() {
    neither_starves("100 Mbit/s, 40 ms", RATE, 40);
}

#[test]
fn beside_cubic_neither_starves_across_an_ocean() {
    neither_starves("100 Mbit/s, 100 ms", RATE, 100);
}

#[test]
fn two_of_a_kind_share() {
    for_each_seed_of(1, "two_of_a_kind_share", |_, random| {
        let [one, other] = together([Algorithm::Bbr; 2], RATE, Duration::from_millis(40), random);
        println!("100 Mbit/s, 40 ms: {one:.3} and {other:.3}");
        assert!(one.min(other) >= 0.3 && one + other > 0.9, "{one:.3} and {other:.3}");
    });
}

#[test]
fn a_model_keeps_the_queue_short() {
    for_each_seed_of(1, "a_model_keeps_the_queue_short", |_, random| {
        let link = bottleneck(4 * BDP, 0.0);
        let mut world = World::new(&flow(Algorithm::Bbr, link), random);
        world.run_for(Duration::from_secs(3));
        let before = world.server().received.contiguous();
        let mut rtts = Vec::new();
        for _ in 0..100 {
            world.run_for(Duration::from_millis(100));
            rtts.push(world.client.conn.info().srtt);
        }
        let had = share(world.server().received.contiguous() - before, Duration::from_secs(10));
        rtts.sort();
        println!("deep queue: {had:.3} of the link, median {:?}", rtts[50]);
        assert!(had >= 0.9, "{had:.3} of the link");
        assert!(rtts[50] < RTT * 5 / 4, "a median of {:?}", rtts[50]);
        assert_eq!(world.links[0].counts().overflowed, 0);
    });
}
