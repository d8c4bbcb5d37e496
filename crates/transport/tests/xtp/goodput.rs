//! How fast, under loss and by which choice.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::xtp::{Config, Retransmission};

use crate::account::{Scenario, World};
use crate::thin::sends;
use crate::two_ends::App;

/// 100 Mbit/s.
const RATE: u64 = 12_500_000;
const RTT: Duration = Duration::from_millis(20);

/// Bytes of payload that arrive in ten seconds, as a part of what the link carries.
fn share(
    retransmission: Retransmission,
    algorithm: Algorithm,
    impaired: Impairments,
    random: &mut Random,
) -> f64 {
    let config = Config {
        retransmission,
        congestion: Some(algorithm),
        initial_recv_window: 4 << 20,
        ..Config::default()
    };
    let path = Impairments { rate: Some(RATE), delay: RTT / 2, queue_bytes: 250_000, ..impaired };
    let scenario = Scenario {
        client: config.clone(),
        server: config,
        client_app: App { adu: 1400..1401, ..sends(1 << 40) },
        links: [path, Impairments { delay: RTT / 2, ..Impairments::default() }],
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, random);
    world.run_for(Duration::from_secs(2));
    let before = world.server().received.contiguous();
    world.run_for(Duration::from_secs(5));
    let bytes = world.server().received.contiguous() - before;
    bytes as f64 / 5.0 / (RATE as f64 * 1400.0 / 1460.0)
}

#[test]
fn an_empty_link_is_filled() {
    for_each_seed_of(1, "an_empty_link_is_filled", |_, random| {
        for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
            let had =
                share(Retransmission::SelectiveRepeat, algorithm, Impairments::default(), random);
            println!("100 Mbit/s, 20 ms, {algorithm}: {had:.3}");
            assert!(had > 0.9, "{algorithm}: {had:.3}");
        }
    });
}

/// With so little of the link CUBIC loses some 30 packets in a run, and by which it loses early its shares differ by a tenth:
/// it is judged by the mean of many runs, BBR by one.
#[test]
fn at_one_percent_of_loss_selective_repeat_is_faster() {
    for_each_seed_of(1, "at_one_percent_of_loss_selective_repeat_is_faster", |_, random| {
        let lossy = Impairments { loss: 0.01, ..Impairments::default() };
        for (algorithm, runs) in [(Algorithm::Cubic, 12), (Algorithm::Bbr, 1)] {
            let mean = |mode: Retransmission, random: &mut Random| {
                let sum: f64 =
                    (0..runs).map(|_| share(mode, algorithm, lossy.clone(), random)).sum();
                sum / f64::from(runs)
            };
            let [selective, back] = [Retransmission::SelectiveRepeat, Retransmission::GoBackN]
                .map(|mode| mean(mode, random));
            println!("1 % lost, {algorithm}: selective {selective:.4}, go-back-N {back:.4}");
            assert!(selective > back, "{algorithm}: {selective:.4} {back:.4}");
        }
    });
}

/// One packet of fifty comes as much as half a round trip late.
#[test]
fn reordering_is_not_taken_for_loss() {
    for_each_seed_of(1, "reordering_is_not_taken_for_loss", |_, random| {
        let reordered = Impairments {
            reorder: 0.02,
            reorder_delay: Duration::from_millis(9),
            ..Impairments::default()
        };
        for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
            let had = share(Retransmission::SelectiveRepeat, algorithm, reordered.clone(), random);
            println!("reordered, {algorithm}: {had:.3}");
            assert!(had > 0.8, "{algorithm}: {had:.3}");
        }
        // Nor loss for reordering.
        let both = Impairments { loss: 0.01, ..reordered };
        let had = share(Retransmission::SelectiveRepeat, Algorithm::Cubic, both, random);
        println!("reordered and lost: {had:.3}");
        assert!(had < 0.25, "{had:.3}");
    });
}
