//! Who ends last waits for a word that a peer says once: where that is lost and the peer gone, the connection is over in order all
//! the same, if the peer has all, and has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fusewire_device::TxFrame;
use fusewire_device::impair::Rules;
use fusewire_device::memory::{self, Network};
use fusewire_stack::{Config, Error, Event, Keep};
use fusewire_transport::either::{self, Protocol};

use crate::world::{A, Altered, B, World, small, transfer};

/// A connection that has carried ADUs; the server's side has ended, or not.
fn carried(protocol: Protocol, has_ended: bool, seed: u64) -> World {
    let config = Config { transport: either::Config::of_records(protocol), ..small() };
    let rules = Rules { loss: 0.05, delay: Duration::from_millis(5), ..Rules::default() };
    let mut world = World::new(rules, seed, &config);
    world.connect();
    transfer(&mut world, 20);
    if has_ended {
        end_of_server(&mut world);
    }
    world.run(60.0, "acknowledgement", |w| w.client.info(w.id).is_some_and(|i| i.unacked == 0));
    world
}

fn end_of_server(world: &mut World) {
    world.server.finish(world.served.unwrap());
    world.run(60.0, "the server's end", |w| {
        w.client_events.iter().any(|e| matches!(e, Event::Finished))
    });
}

/// So many seconds in which the server's process is not there; or fewer, if the client's connection is over.
fn without_server(world: &mut World, seconds: f64) -> f64 {
    let begun = world.seconds();
    while world.seconds() < begun + seconds && closed(world).is_none() {
        world.ns.fetch_add(1_000_000, Ordering::Relaxed);
        while world.client.poll(&mut Keep).unwrap() {}
        while let Some((_, event)) = world.client.poll_event() {
            world.client_events.push(event);
        }
    }
    world.seconds() - begun
}

fn closed(world: &World) -> Option<&Option<Error>> {
    world.client_events.iter().find_map(|event| match event {
        Event::Closed(why) => Some(why),
        _ => None,
    })
}

#[test]
fn a_peer_that_has_ended_and_has_all_is_not_waited_for_as_if_it_were_silent() {
    for (protocol, seed) in Protocol::ALL.into_iter().flat_map(|p| [(p, 1), (p, 2), (p, 3)]) {
        let mut world = carried(protocol, true, seed);
        // It hears our end, says so, which is lost, and goes.
        world.client.finish(world.id);
        let took = without_server(&mut world, 60.0);
        assert!(matches!(closed(&world), Some(None)), "{protocol:?}: {:?}", world.client_events);
        // It was told several times, and waited for.
        assert!((2.9..4.0).contains(&took), "{protocol:?}: {took} s");
        // Nothing stays of it.
        without_server(&mut world, 1.0);
        for _ in 0..40_000 {
            world.ns.fetch_add(1_000_000, Ordering::Relaxed);
            while world.client.poll(&mut Keep).unwrap() {}
        }
        assert_eq!(world.client.active(), 0, "{protocol:?}");
    }
}

#[test]
fn one_that_was_away_still_hears_our_end() {
    for protocol in Protocol::ALL {
        let config = Config { transport: either::Config::of_records(protocol), ..small() };
        let network = Network::new(memory::Config::default());
        let [client, server] = [A, B].map(|at| network.attach(at.parse().unwrap()).unwrap());
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = is_cut.clone();
        let alter = move |_: &TxFrame<'_>| cut.load(Ordering::Relaxed).then(Vec::new);
        let client = Box::new(Altered { inner: client, alter });
        let mut world = World::with(client, Box::new(server), Arc::new(AtomicU64::new(1)), &config);
        world.connect();
        end_of_server(&mut world);
        is_cut.store(true, Ordering::Relaxed);
        world.client.finish(world.id);
        without_server(&mut world, 10.0);
        assert!(matches!(closed(&world), Some(None)), "{protocol:?}: {:?}", world.client_events);
        is_cut.store(false, Ordering::Relaxed);
        world.run(30.0, "the client's end", |w| {
            w.server_events.iter().any(|e| matches!(e, Event::Closed(None)))
        });
    }
}

#[test]
fn without_all_of_that_a_silent_peer_is_one() {
    for protocol in Protocol::ALL {
        for has_ended in [true, false] {
            let mut world = carried(protocol, has_ended, 5);
            // Of one that has ended it is not known whether this came; another has not said its end.
            if has_ended {
                assert!(world.client.send(world.id, b"the last").unwrap());
            }
            world.client.finish(world.id);
            let took = without_server(&mut world, 60.0);
            let why = closed(&world);
            assert!(matches!(why, Some(Some(Error::Silent { .. }))), "{protocol:?}: {why:?}");
            assert!((25.0..31.0).contains(&took), "{protocol:?}: {took} s");
        }
    }
}
