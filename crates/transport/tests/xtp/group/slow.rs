//! Nobody holds the others: who is frozen or slow is dropped in the time that the sender states. And answers do not
//! implode.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Impairments, Random, for_each_seed_of};
use fusewire_transport::xtp::group::{
    Leaving, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use fusewire_wire::xtp::Key;

use super::attacks;
use super::world::{Plan, Scenario, World};

const SILENCE: Duration = Duration::from_secs(2);
/// What a question and its repetition take beside the times that are stated.
const SLACK: Duration = Duration::from_millis(300);

fn link(random: &mut Random, loss: f64) -> Impairments {
    Impairments {
        rate: Some(5_000_000),
        delay: Duration::from_micros(random.range(50..5000)),
        queue_bytes: 200_000,
        loss,
        ..Impairments::default()
    }
}

/// Eight receivers on a good network.
pub fn scenario(random: &mut Random, loss: f64) -> Scenario {
    let plan = |random: &mut Random| Plan {
        config: ReceiverConfig { recv_window: 1 << 18, ..ReceiverConfig::default() },
        links: [link(random, loss), link(random, loss)],
        ..Plan::default()
    };
    Scenario {
        plans: (0..8).map(|_| plan(random)).collect(),
        sender: SenderConfig { silence: SILENCE, send_buffer: 1 << 19, ..SenderConfig::default() },
        total: 3_000_000,
        waits_for: 8,
        ..Scenario::default()
    }
}

/// Runs it; only the first receiver may be dropped, and nobody waited for longer than is stated.
pub fn run(scenario: &Scenario, random: &mut Random) -> World {
    let mut world = World::new(scenario, random);
    world.run();
    world.assert_all_have_all();
    assert!(world.sides[1..].iter().all(|side| side.left.is_none()), "{}", world.describe());
    let most = SILENCE + Duration::from_secs(1) + SLACK;
    assert!(world.stall <= most, "held for {:?}\n{}", world.stall, world.describe());
    world
}

/// Who says nothing is slower than the floor, too: whichever is found first.
fn assert_dropped(world: &World) {
    let why = world.sides[0].left.map(|(why, _)| why);
    assert!(matches!(why, Some(Leaving::Silent | Leaving::Slow)), "{}", world.describe());
}

#[test]
fn who_is_frozen_is_dropped_and_told_so() {
    for_each_seed_of(30, "group::slow::who_is_frozen_is_dropped_and_told_so", |_, random| {
        let mut scenario = scenario(random, 0.01);
        let at = Duration::from_millis(random.range(150..400));
        scenario.plans[0].frozen = Some((at, Duration::from_secs(4)));
        // The others are still there when it wakes.
        scenario.plans.iter_mut().for_each(|plan| plan.links[0].rate = Some(400_000));
        let world = run(&scenario, random);
        let side = &world.sides[0];
        if side.joined_at.is_some_and(|joined| joined - world.start > at) {
            // What it asked, or the answer that let it in, was lost: it froze before it knew that it was a member, and asked
            // again when it woke.
            return;
        }
        assert_dropped(&world);
        let dropped = side.events.iter().any(|e| matches!(e, ReceiverEvent::Dropped(_)));
        assert!(dropped, "{}", world.describe());
    });
}

#[test]
fn who_is_killed_holds_nobody_for_longer_than_is_stated() {
    for_each_seed_of(30, "group::slow::who_is_killed_holds_nobody", |_, random| {
        let mut scenario = scenario(random, 0.01);
        scenario.plans[0].killed_after = Some(Duration::from_millis(random.range(150..400)));
        let world = run(&scenario, random);
        // What it asked, or the answer, may have been lost: then it was killed before it was a member.
        if world.sides[0].joined_at.is_some() {
            assert_dropped(&world);
        }
    });
}

#[test]
fn who_is_slower_than_the_floor_is_dropped() {
    for_each_seed_of(30, "group::slow::who_is_slower_than_the_floor_is_dropped", |_, random| {
        let mut scenario = scenario(random, 0.01);
        scenario.plans[0].takes = Some(random.range(1000..40_000));
        let world = run(&scenario, random);
        let left = world.sides[0].left.map(|(why, _)| why);
        assert_eq!(left, Some(Leaving::Slow), "{}", world.describe());
    });
}

/// A repair that is lost, too, comes late where much waits before it: who lacks one packet, and has a second's others, is
/// kept; a second time it holds the others.
#[test]
fn who_lacks_a_repair_has_another_second() {
    let mut now = Instant::from_ms(5);
    let key = |n: u64| Key::new(n).expect("not zero");
    let config = SenderConfig { congestion: None, ..SenderConfig::default() };
    let mut sender = Sender::new(&config, key(77), now);
    let at = |n: u64| ([10, 0, 0, n as u8], 4000).into();
    for n in 1..=2 {
        sender.handle(now, at(n), &attacks::jcntl(key(77), n));
        assert_eq!(sender.accept(now, key(n), key(n + 10)), Some(0));
    }
    let mut sync = 0;
    for second in 0..4 {
        let reservation = sender.reserve(200_000).expect("there is room");
        sender.commit(reservation);
        while let Some((_, transmit)) = sender.poll_transmit(now) {
            sync = transmit.header.sync;
        }
        let sent = sender.sent();
        for n in 1..=2 {
            // The second never has the first packet.
            let rseq = if n == 1 { sent } else { 0 };
            let spans = if n == 1 { &[][..] } else { &[(1440, sent)] };
            sender.handle(now, at(n), &attacks::report(key(n + 10), (rseq, sync), spans));
        }
        let is_kept = sender.members().count() == 2;
        assert_eq!(is_kept, second < 3, "after {second} looks");
        let next = now + Duration::from_secs(1);
        while sender.poll_timeout().is_some_and(|due| due <= next) {
            now = sender.poll_timeout().expect("it announces");
            sender.handle_timeout(now);
            while sender.poll_transmit(now).is_some() {}
        }
        now = next;
    }
    let events = std::iter::from_fn(|| sender.poll_event());
    let left: Vec<_> = events.filter(|e| matches!(e, SenderEvent::Left { .. })).collect();
    assert_eq!(left, [SenderEvent::Left { id: key(12), why: Leaving::Slow }]);
}

/// Who holds the others and has said nothing since the last look was silent, and not slow, however long one may be.
#[test]
fn who_is_not_there_is_not_called_slow() {
    let mut now = Instant::from_ms(5);
    let key = |n: u64| Key::new(n).expect("not zero");
    let silence = Duration::from_secs(30);
    let config = SenderConfig { congestion: None, silence, ..SenderConfig::default() };
    let mut sender = Sender::new(&config, key(77), now);
    let at = |n: u64| ([10, 0, 0, n as u8], 4000).into();
    for n in 1..=2 {
        sender.handle(now, at(n), &attacks::jcntl(key(77), n));
        assert_eq!(sender.accept(now, key(n), key(n + 10)), Some(0));
    }
    let (mut sync, until) = (0, now + Duration::from_secs(4));
    let reservation = sender.reserve(20_000).expect("there is room");
    sender.commit(reservation);
    while now < until && sender.members().count() == 2 {
        while let Some((_, transmit)) = sender.poll_transmit(now) {
            sync = transmit.header.sync;
        }
        // The second is never heard again.
        sender.handle(now, at(1), &attacks::report(key(11), (sender.sent(), sync), &[]));
        now = sender.poll_timeout().expect("it announces").min(now + Duration::from_millis(100));
        sender.handle_timeout(now);
    }
    let events = std::iter::from_fn(|| sender.poll_event());
    let left: Vec<_> = events.filter(|e| matches!(e, SenderEvent::Left { .. })).collect();
    assert_eq!(left, [SenderEvent::Left { id: key(12), why: Leaving::Silent }]);
}

/// Who sends was not there for as long as members may be silent: it could not hear them, and drops none.
#[test]
fn a_look_that_comes_late_drops_nobody() {
    let mut now = Instant::from_ms(5);
    let key = |n: u64| Key::new(n).expect("not zero");
    let config = SenderConfig { congestion: None, ..SenderConfig::default() };
    let mut sender = Sender::new(&config, key(77), now);
    let at = |n: u64| ([10, 0, 0, n as u8], 4000).into();
    for n in 1..=2 {
        sender.handle(now, at(n), &attacks::jcntl(key(77), n));
        assert_eq!(sender.accept(now, key(n), key(n + 10)), Some(0));
    }
    let says = |sender: &mut Sender, now| {
        std::iter::from_fn(|| sender.poll_transmit(now)).map(|(_, t)| t.header.sync).max()
    };
    let reservation = sender.reserve(20_000).expect("there is room");
    sender.commit(reservation);
    let sync = says(&mut sender, now).expect("it is sent");
    now += 5 * SILENCE;
    sender.handle_timeout(now);
    let sync = says(&mut sender, now).unwrap_or(sync);
    assert_eq!(sender.members().count(), 2);
    // What they say is read then; who still says nothing is dropped.
    let sent = sender.sent();
    sender.handle(now, at(1), &attacks::report(key(11), (sent, sync), &[]));
    sender.handle_timeout(now + Duration::from_secs(1));
    let left: Vec<_> = sender.members().map(|member| member.id).collect();
    assert_eq!(left, [key(11)]);
}

#[test]
fn answers_do_not_implode() {
    for loss in [0.0, 0.01, 0.05] {
        for_each_seed_of(10, "group::slow::answers_do_not_implode", |_, random| {
            let scenario = scenario(random, loss);
            let world = run(&scenario, random);
            let controls: u64 = world.sides.iter().map(|side| side.controls).sum();
            // One answer for two packets; and as each receiver misses others, two for each packet that one has missed: a
            // report, and a question where the window waits for the repair.
            let receivers = world.sides.len() as f64;
            let bound = world.data_packets as f64 * (0.5 + 2.0 * receivers * loss) + 100.0;
            println!("loss {loss}: {controls} answers to {} packets", world.data_packets);
            assert!(controls as f64 <= bound, "{controls} of {bound}\n{}", world.describe());
        });
    }
}
