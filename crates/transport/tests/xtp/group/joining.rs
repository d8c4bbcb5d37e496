//! Joining: late, refused, and again.

use core::time::Duration;

use fusewire_testkit::{Impairments, for_each_seed_of};
use fusewire_transport::xtp::group::{ReceiverEvent, SenderConfig};
use fusewire_wire::xtp::{Reason, Service};

use super::world::{Plan, Scenario, World};

fn plan(joins_after: u64) -> Plan {
    let link = Impairments {
        delay: Duration::from_millis(2),
        rate: Some(1_000_000),
        ..Impairments::default()
    };
    let joins_after = Duration::from_millis(joins_after);
    Plan { links: [link.clone(), link], joins_after, ..Plan::default() }
}

#[test]
fn who_comes_late_begins_with_a_message() {
    for_each_seed_of(30, "group::joining::who_comes_late_begins_with_a_message", |_, random| {
        let late = 150 + random.below(200);
        let scenario = Scenario {
            plans: vec![plan(0), plan(late)],
            waits_for: 1,
            total: 1_000_000,
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
        world.assert_all_have_all();
        let begins_at = world.sides[1].begins_at.expect("it joined");
        assert!(begins_at > 0, "{}", world.describe());
    });
}

#[test]
fn who_may_not_join_is_told_so() {
    for_each_seed_of(5, "group::joining::who_may_not_join_is_told_so", |_, random| {
        let denied = Plan { denied: true, ..plan(0) };
        let scenario = Scenario { plans: vec![plan(0), denied], ..Scenario::default() };
        let mut world = World::new(&scenario, random);
        world.run();
        world.assert_all_have_all();
        let refused = ReceiverEvent::Refused(Reason::JoinDenied);
        assert!(world.sides[1].events.contains(&refused), "{}", world.describe());
        assert!(world.sides[1].messages.is_empty());
    });
}

#[test]
fn what_no_check_covers_is_taken_by_who_wants_it_alone() {
    for_each_seed_of(5, "group::joining::what_no_check_covers", |_, random| {
        let mut plans = vec![plan(0), plan(0)];
        plans[0].config.nocheck = true;
        let sender = SenderConfig { nocheck: true, ..Scenario::default().sender };
        let scenario = Scenario { plans, sender, ..Scenario::default() };
        let mut world = World::new(&scenario, random);
        world.run();
        world.assert_all_have_all();
        let [takes, refuses] = &world.sides[..] else { unreachable!() };
        assert!(!takes.messages.is_empty() && refuses.messages.is_empty());
        // The other did not wait for it.
        assert!(takes.left.is_none() && refuses.left.is_some(), "{}", world.describe());
    });
}

#[test]
fn without_answers_what_comes_whole_is_told_and_the_rest_is_told_to_be_lost() {
    let name = "group::joining::without_answers";
    for_each_seed_of(30, name, |_, random| {
        let mut plans = vec![plan(0), plan(0)];
        plans[1].links[0].loss = 0.05;
        let sender = SenderConfig {
            service: Service::UnacknowledgedMulticast,
            out_rate: fusewire_transport::xtp::Rate { rate: 500_000, burst: 5000 },
            ..SenderConfig::default()
        };
        let scenario = Scenario {
            plans,
            sender,
            message: 1..3000,
            waits: Duration::from_secs(2),
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
        let [good, bad] = &world.sides[..] else { unreachable!() };
        assert_eq!(good.messages, world.sent, "{}", world.describe());
        assert_eq!(world.sides.iter().map(|side| side.controls).sum::<u64>(), 0);
        let (got, lost) = (bad.messages.len(), &bad.lost);
        assert!(!lost.is_empty(), "{got} of {}\n{}", world.sent.len(), world.describe());
        assert!(got > world.sent.len() / 2, "{got} and {lost:?}\n{}", world.describe());
        for message in &bad.messages {
            assert!(world.sent.contains(message), "{message:?} was never sent");
        }
    });
}

/// Nobody waits for who reads a stream without answers: whatever its memory, and whatever it lacks, it goes on, to the end.
#[test]
fn without_answers_a_stream_outlives_any_memory() {
    let name = "group::joining::without_answers_a_stream_outlives_any_memory";
    for_each_seed_of(30, name, |_, random| {
        let nocheck = random.chance(0.3);
        let window = 1 << 16;
        let mut plans = vec![plan(0); 5];
        for plan in &mut plans {
            plan.config.recv_window = window;
            plan.config.nocheck = nocheck;
            plan.misses_end = true;
        }
        plans[1].takes = Some(200_000);
        plans[2].takes = Some(200_000);
        plans[2].links[0].loss = 0.05;
        plans[2].links[0].corrupt = 0.05;
        plans[3].links[0].loss = 0.05;
        plans[3].links[0].reorder = 0.05;
        plans[3].links[0].reorder_delay = Duration::from_millis(10);
        // Some messages find no room at all.
        plans[4].config.recv_window = 1 << 13;
        plans[4].links[0].corrupt = 0.05;
        let sender = SenderConfig {
            service: Service::UnacknowledgedMulticast,
            out_rate: fusewire_transport::xtp::Rate { rate: 500_000, burst: 5000 },
            nocheck,
            ..SenderConfig::default()
        };
        let total = 10 * u64::from(window);
        let waits = Duration::from_secs(2);
        let message = 2000..12_000;
        let scenario = Scenario { plans, sender, total, message, waits, ..Scenario::default() };
        let mut world = World::new(&scenario, random);
        world.run();
        let end = world.sender.sent();
        for (n, side) in world.sides.iter().enumerate() {
            let finished = side.events.contains(&ReceiverEvent::Finished { offset: end });
            assert!(finished, "{n}: {}", world.describe());
            let is_sent = |m: &core::ops::Range<u64>| nocheck || world.sent.contains(m);
            assert!(side.messages.iter().all(is_sent), "{n}: {:?}", side.messages);
            let last = side.messages.last().map_or(0, |message| message.end);
            let near = end - last <= 3 * u64::from(window);
            assert!(near, "{n}: {last} of {end}\n{}", world.describe());
        }
        let (all, sent) = (&world.sides[0].messages, &world.sent);
        assert_eq!(all[..], sent[..sent.len() - 1], "{}", world.describe());
        assert!(world.sides[1].messages.len() > sent.len() / 5, "{}", world.describe());
    });
}
