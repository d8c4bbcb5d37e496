//! The generated conference over the course of RFC 8867, section 5.1, on a virtual clock.

#[path = "../../../crates/service/tests/datagram/rfc8867.rs"]
mod rfc8867;
#[path = "../../../crates/service/tests/datagram/tcp.rs"]
mod tcp;
#[path = "../../../crates/service/tests/datagram/world.rs"]
mod world;

use conference_example::A;
use fusewire_service::profile::Profile;
use fusewire_testkit::{Impairments, for_each_seed_of};
use fusewire_transport::media::Made;

use rfc8867::{Call, course, over_tcp, pictures, shares};

/// What an application makes that looks at nothing: as much as its clauses let it.
fn most() -> Made {
    let most = pictures::<A>();
    Made { bits: (most.bits.1 as f64 / most.hz.1) as u64, hz: most.hz.1, is_below: false }
}

/// Of what is made most is in time: where the path falls to a quarter it is not for a while.
fn is_in_time(call: &Call) {
    let made = call.pushed.iter().map(Vec::len).sum::<usize>() as u64;
    assert!(call.all_in_time() * 100 >= made * 80, "{:?} of {made}", call.in_time);
}

/// Five seconds after each step 0.9 to 1.0 of the capacity; quality yields before frequency; and at least twice as many ADUs in
/// time as over TCP.
#[test]
fn the_generated_ends_follow_the_course() {
    for_each_seed_of(4, "the_generated_ends_follow_the_course", |_, random| {
        let path = Impairments::default();
        let (call, seconds) = course::<A>(&path, random);
        let shares = shares(&seconds);
        println!("of the capacity {shares:.2?}; in time {:?}, {} late", call.in_time, call.late);
        assert!(shares.iter().all(|share| (0.9..1.01).contains(share)), "{shares:?}: {seconds:?}");
        assert_eq!(call.wrong, 0, "the frequency yields while the quality can");
        is_in_time(&call);
        let tcp = over_tcp::<A>(&path, random, most());
        println!("over TCP {:?}, {} late", tcp.in_time, tcp.late);
        assert!(call.all_in_time() >= 2 * tcp.all_in_time());
    });
}

/// On a path that also loses what the specification vouches for, NADA takes losses for congestion and uses less: less than is wanted
/// of the course; and at least twice as many ADUs are in time as over TCP.
#[test]
fn with_the_losses_that_are_vouched_for_less_is_used() {
    for_each_seed_of(4, "with_the_losses_that_are_vouched_for_less_is_used", |_, random| {
        let (loss, loss_burst) = (A::NETWORK.loss, A::NETWORK.loss_burst);
        let path = Impairments { loss, loss_burst, ..Impairments::default() };
        let (call, seconds) = course::<A>(&path, random);
        let shares = shares(&seconds);
        println!("of the capacity {shares:.2?}; in time {:?}, {} late", call.in_time, call.late);
        assert!(shares.iter().all(|share| *share >= 0.25), "{shares:?}: {seconds:?}");
        assert!(shares[1] < 0.7, "of 2.5 Mbit/s: {shares:?}: {seconds:?}");
        is_in_time(&call);
        let tcp = over_tcp::<A>(&path, random, most());
        println!("over TCP {:?}, {} late", tcp.in_time, tcp.late);
        assert!(call.all_in_time() >= 2 * tcp.all_in_time());
    });
}
