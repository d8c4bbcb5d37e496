//! Applications over one transport for all, and over what their requirements chose: on a virtual clock, so that each figure is
//! the same each time.

use std::time::Duration;

use bulk_example::Source;
use fusewire_lab::subsystem::{Makes, Offered, Path, Way, answers, blocks, call, chosen, course};
use fusewire_service::profile::Profile;

/// What a profile has that is no list of clauses.
fn constants<P: Profile>() -> String {
    let of_all = (P::NAME, P::MACHINE, P::CONGESTION, P::PACKS, P::SPIN, P::DSCP, P::CIPHERS.len());
    let of_datagrams = (P::MTU, P::RATES, P::ADUS, P::NETWORK);
    format!("{:?}", (of_all, of_datagrams, P::SENDS, P::TAKES))
}

#[test]
fn profiles_are_what_is_generated_for_the_examples() {
    assert_eq!(constants::<chosen::Bulk>(), constants::<Source>());
    assert_eq!(constants::<chosen::Client>(), constants::<rpc_example::Client>());
    assert_eq!(constants::<chosen::Conference>(), constants::<conference_example::A>());
}

const PATH: Path =
    Path { round_trip: Duration::from_millis(20), bits_per_s: 20_000_000, loss: 0.0 };

/// By hand: a way there and back and nothing else, but for the time of a packet on the link.
#[test]
fn without_losses_an_answer_takes_a_round_trip_and_a_block_half_of_one() {
    for way in Way::BOTH {
        let found = answers(way, &PATH, 50.0, 50, 1).unwrap();
        let (least, most) = (found.delays_ms[0], found.delays_ms[49]);
        assert!(least >= 20.0 && most < 21.5, "{way:?}: {least} to {most}");
        let each = Offered::Every(Duration::from_millis(2));
        let found = blocks(way, &PATH, each, 1024, Duration::from_secs(1), 1).unwrap();
        let (count, most) = (found.delays_ms.len(), found.delays_ms[499]);
        assert!(count == 500 && found.delays_ms[0] >= 10.0 && most < 11.5, "{way:?}: {most}");
        assert!(found.wire > 1.0 && found.wire < 1.3, "{way:?}: {}", found.wire);
    }
}

/// The clock is nobody's: each time the same, and with another seed something else.
#[test]
fn a_seed_gives_one_result() {
    let path = Path { loss: 0.03, ..PATH };
    let time = Duration::from_secs(2);
    for way in Way::BOTH {
        let all = |seed| {
            let answers = answers(way, &path, 100.0, 100, seed).unwrap();
            let blocks = blocks(way, &path, Offered::AsTaken, 8192, time, seed).unwrap();
            let call = call(way, &path, time, seed).unwrap();
            (answers.delays_ms, answers.wire, blocks.delays_ms, blocks.wire, format!("{call:?}"))
        };
        let first = all(5);
        assert!(first == all(5), "{way:?}");
        assert!(first != all(6), "{way:?}");
    }
}

/// What was asked for shows: a lost packet holds up nobody else's block, and no other request's answer.
#[test]
fn what_is_lost_holds_up_what_it_must() {
    let path = Path { loss: 0.01, ..PATH };
    let held_up = |sorted: &[f64]| {
        let prompt = sorted[0] + 2.0;
        sorted.iter().filter(|ms| **ms > prompt).count() as f64 / sorted.len() as f64
    };
    // So few that no window is in the way: what is held up is so by order alone.
    let each = Offered::Every(Duration::from_millis(10));
    let [in_order, as_they_come] = Way::BOTH.map(|way| {
        held_up(&blocks(way, &path, each, 1024, Duration::from_secs(30), 3).unwrap().delays_ms)
    });
    println!("blocks held up: {in_order:.3} in order, {as_they_come:.3} as they come");
    assert!(as_they_come < 0.02 && in_order > 4.0 * as_they_come);
    let [in_order, each_alone] =
        Way::BOTH.map(|way| held_up(&answers(way, &path, 1000.0, 3000, 3).unwrap().delays_ms));
    assert!(each_alone < 0.04 && in_order > 4.0 * each_alone, "{in_order} {each_alone}");
}

/// What is told of the path makes what it has room for; who makes all that he may fills the queue, and is late.
#[test]
fn over_the_course_twice_as_many_are_in_time_as_over_a_stream() {
    let time = Duration::from_secs(25);
    let in_time = |way, makes| {
        let call = course(way, makes, 0.0, time, 7).unwrap();
        println!("{makes:?}: {call:?}");
        (call.in_time.iter().sum::<u64>(), call.bytes_in_time)
    };
    let (told, told_bytes) = in_time(Way::Chosen, Makes::AsTold);
    let (most, _) = in_time(Way::One, Makes::Most);
    let (least, least_bytes) = in_time(Way::One, Makes::Least);
    assert!(told >= 2 * most, "{told} and {most}");
    // Who knows the least capacity has as many, and less in them.
    assert!(least >= 2 * most && least_bytes < told_bytes, "{least_bytes} of {told_bytes}");
}
