//! Links that lose, reorder, copy and change packets, each for itself.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::xtp::group::{Receiver, ReceiverConfig, Sender, SenderConfig};
use fusewire_wire::xtp::Key;

use super::attacks;
use super::world::{Plan, Scenario, World};

pub fn link(random: &mut Random) -> Impairments {
    let delay = random.duration_below(Duration::from_millis(30));
    Impairments {
        rate: random.chance(0.5).then(|| random.range(200_000..5_000_000)),
        delay,
        jitter: delay / random.range(1..10) as u32,
        queue_bytes: random.range(20_000..200_000) as usize,
        loss: *random.pick(&[0.0, 0.001, 0.01, 0.05, 0.1, 0.3]),
        loss_burst: *random.pick(&[1.0, 1.0, 2.0]),
        reorder: *random.pick(&[0.0, 0.01, 0.1, 0.3]),
        reorder_delay: random.duration_below(Duration::from_millis(20)),
        duplicate: *random.pick(&[0.0, 0.01, 0.1]),
        corrupt: *random.pick(&[0.0, 0.001, 0.02]),
        ..Impairments::default()
    }
}

pub fn scenario(random: &mut Random) -> Scenario {
    let count = random.range(1..9) as usize;
    let nocheck = random.chance(0.3);
    let plans = (0..count).map(|_| Plan {
        config: ReceiverConfig {
            recv_window: 1 << random.range(16..21),
            max_ranges: random.range(4..256) as usize,
            patience: Duration::from_secs(1000),
            nocheck,
            ..ReceiverConfig::default()
        },
        links: [link(random), link(random)],
        joins_after: random.duration_below(Duration::from_secs(5)),
        leaves_after: random.chance(0.1).then(|| random.range(1..40) as usize),
        ..Plan::default()
    });
    let plans: Vec<Plan> = plans.collect();
    Scenario {
        plans,
        sender: SenderConfig {
            send_tpdu_len: random.range(200..2000) as usize,
            send_buffer: 1 << random.range(17..20),
            max_packets_in_flight: random.range(200..4000) as usize,
            // Links that lose one packet of three both ways: nobody is given up.
            silence: Duration::from_secs(40),
            floor: 0,
            nocheck,
            congestion: *random.pick(&[
                Some(Algorithm::Bbr),
                Some(Algorithm::Bbr),
                Some(Algorithm::Cubic),
                Some(Algorithm::NewReno),
                None,
            ]),
            ..SenderConfig::default()
        },
        message: 1..1 << random.range(4..15),
        total: random.below(120_000),
        waits_for: random.below(count as u64 + 1) as usize,
        waits: Duration::from_secs(3),
        ..Scenario::default()
    }
}

#[test]
fn all_that_stay_get_every_message() {
    for_each_seed_of(100, "group::loss::all_that_stay_get_every_message", |_, random| {
        let scenario = scenario(random);
        let mut world = World::new(&scenario, random);
        world.run();
        world.assert_all_have_all();
        for side in &world.sides {
            // Who leaves says so once, and is found to be silent if that is lost.
            let leaves = side.plan.leaves_after.is_some();
            let gone = !leaves && side.left.is_some();
            assert!(!gone, "dropped without need\n{}", world.describe());
        }
    });
}

/// Whom nobody hears: the times at which it says something, until it gives up.
fn monologue(machine: &mut Receiver) -> Vec<Instant> {
    let mut said = Vec::new();
    while let Some(at) = machine.poll_timeout() {
        machine.handle_timeout(at);
        while machine.poll_transmit(at).is_some() {
            said.push(at);
        }
    }
    said
}

/// A sender answers for a minute after its end: where one packet of three is lost both ways, a few questions are too few.
#[test]
fn who_has_everything_says_so_often_while_nobody_answers() {
    let mut random = Random::new(1);
    let scenario = Scenario { plans: vec![Plan::default()], waits_for: 1, ..Scenario::default() };
    let mut world = World::new(&scenario, &mut random);
    let mut said = Vec::new();
    world.run_with(|world| {
        let (now, side) = (world.now, &mut world.sides[0]);
        if side.machine.has_finished() && said.is_empty() {
            said = monologue(&mut side.machine);
            side.machine = Receiver::new(&side.plan.config, now);
            side.machine.leave();
        }
    });
    let longest = said.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest.is_some_and(|pause| pause <= Duration::from_millis(1600)), "{longest:?}");
    assert!(said.len() >= 18, "said {} times", said.len());
}

/// What went again for one member, and is named by another's report that left before it came there, says nothing of when
/// that left: what the other lacks and went again meanwhile is under way.
#[test]
fn an_old_report_of_what_went_again_loses_nothing() {
    let key = |n: u64| Key::new(n).expect("not zero");
    let at = |n: u64| ([10, 0, 0, n as u8], 4000).into();
    let ms = |ms: u64| Instant::from_ms(1000 + ms);
    let config = SenderConfig { congestion: None, ..SenderConfig::default() };
    let mut sender = Sender::new(&config, key(77), ms(0));
    let mut sync = 0;
    for n in 1..=2 {
        sender.handle(ms(0), at(n), &attacks::jcntl(key(77), n));
        assert_eq!(sender.accept(ms(0), key(n), key(n + 10)), Some(0));
    }
    let mut sent = |sender: &mut Sender, now| {
        let mut data = Vec::new();
        while let Some((_, transmit)) = sender.poll_transmit(now) {
            sync = transmit.header.sync;
            data.extend(transmit.payload.map(|range| range.start));
        }
        (data, sync)
    };
    let (_, echo) = sent(&mut sender, ms(0));
    for n in 1..=2 {
        // A round trip of 20 ms.
        sender.handle(ms(20), at(n), &attacks::report(key(n + 10), (0, echo), &[]));
    }
    let len = u64::from(sender.max_payload());
    for n in 0..5 {
        let reservation = sender.reserve(len as u32).expect("there is room");
        sender.commit(reservation);
        assert_eq!(sent(&mut sender, ms(20 + 10 * n)).0, [n * len]);
    }
    let mut told = |now, n: u64, packets: &[(u64, u64)]| {
        let spans: Vec<_> = packets.iter().map(|(from, to)| (from * len, to * len)).collect();
        sender.handle(now, at(n), &attacks::report(key(n + 10), (0, echo), &spans));
        let again = sent(&mut sender, now).0;
        again.iter().map(|start| start / len).collect::<Vec<_>>()
    };
    assert_eq!(told(ms(70), 1, &[(1, 2)]), [0]);
    assert_eq!(told(ms(80), 1, &[(1, 2), (3, 4)]), [2]);
    assert_eq!(told(ms(85), 2, &[(1, 3)]), [], "the first went again 15 ms ago");
}
