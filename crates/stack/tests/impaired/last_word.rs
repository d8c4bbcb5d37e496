//! Who ends last waits for a word that a peer says once: where that is lost and the peer gone, the connection is over in order all
//! the same, if the peer has all, and has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fusewire_device::TxFrame;
use fusewire_device::impair::Rules;
use fusewire_device::memory::{self, Network};
use fusewire_session::{ClientConfig, Trust};
use fusewire_stack::{Clock, Config, Error, Event, Keep, Stack};
use fusewire_transport::either::{self, Protocol};

use crate::world::{A, Altered, B, C, PORT, World, identity, small, transfer};

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
    all_acknowledged(&mut world);
    world
}

fn all_acknowledged(world: &mut World) {
    world.run(60.0, "acknowledgement", |w| w.client.info(w.id).is_some_and(|i| i.unacked == 0));
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
        // Nobody waits for what it goes on telling, and at last nothing stays of it.
        assert_eq!((world.client.active(), world.client.connections()), (0, 1), "{protocol:?}");
        for _ in 0..40_000 {
            world.ns.fetch_add(1_000_000, Ordering::Relaxed);
            while world.client.poll(&mut Keep).unwrap() {}
        }
        assert_eq!(world.client.connections(), 0, "{protocol:?}");
    }
}

/// A connection over a link that takes nothing to one side, or to the other, while that is said; the server has ended.
fn cut(config: &Config) -> (World, [Arc<AtomicBool>; 2], Network) {
    let network = Network::new(memory::Config::default());
    let cuts = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let [client, server] = [(A, &cuts[0]), (B, &cuts[1])].map(|(at, cut)| {
        let (inner, cut) = (network.attach(at.parse().unwrap()).unwrap(), cut.clone());
        let alter = move |_: &TxFrame<'_>| cut.load(Ordering::Relaxed).then(Vec::new);
        Box::new(Altered { inner, alter })
    });
    let mut world = World::with(client, server, Arc::new(AtomicU64::new(1)), config);
    world.connect();
    transfer(&mut world, 20);
    end_of_server(&mut world);
    all_acknowledged(&mut world);
    (world, cuts, network)
}

/// It has heard our end and its word is lost; then it knows nothing of the connection any more.
#[test]
fn a_peer_that_says_that_it_is_gone_has_said_its_last_word() {
    for protocol in Protocol::ALL {
        let config = Config { transport: either::Config::of_records(protocol), ..small() };
        let (mut world, [_, is_cut], network) = cut(&config);
        is_cut.store(true, Ordering::Relaxed);
        world.client.finish(world.id);
        world.run(1.0, "the client's end", |w| {
            w.server_events.iter().any(|e| matches!(e, Event::Closed(None)))
        });
        assert!(closed(&world).is_none(), "{protocol:?}: {:?}", world.client_events);
        // Another process has its port.
        let config = Config { clock: Clock::virtual_ns(world.ns.clone()), ..config };
        let elsewhere = network.attach(C.parse().unwrap()).unwrap();
        world.server = Stack::new(Box::new(elsewhere), config.clone(), &[5; 32]);
        let there = network.attach(B.parse().unwrap()).unwrap();
        world.server = Stack::new(Box::new(there), config, &[6; 32]);
        let begun = world.seconds();
        world.run(60.0, "the answer", |w| closed(w).is_some());
        assert!(matches!(closed(&world), Some(None)), "{protocol:?}: {:?}", world.client_events);
        let took = world.seconds() - begun;
        assert!(took < 2.9, "{protocol:?}: it has answered, {took} s");
    }
}

/// Until it has said that it has all, a peer that knows nothing of the connection is a failure; so is one that has not ended.
#[test]
fn a_peer_that_is_gone_before_is_a_failure() {
    for protocol in Protocol::ALL {
        let config = Config { transport: either::Config::of_records(protocol), ..small() };
        let (mut world, [is_cut, _], network) = cut(&config);
        is_cut.store(true, Ordering::Relaxed);
        assert!(world.client.send(world.id, b"the last").unwrap());
        world.client.finish(world.id);
        world.step();
        let config = Config { clock: Clock::virtual_ns(world.ns.clone()), ..config };
        let elsewhere = network.attach(C.parse().unwrap()).unwrap();
        world.server = Stack::new(Box::new(elsewhere), config.clone(), &[5; 32]);
        let there = network.attach(B.parse().unwrap()).unwrap();
        world.server = Stack::new(Box::new(there), config, &[6; 32]);
        is_cut.store(false, Ordering::Relaxed);
        world.run(60.0, "the answer", |w| closed(w).is_some());
        let why = closed(&world);
        assert!(matches!(why, Some(Some(Error::Reset(_)))), "{protocol:?}: {why:?}");
    }
}

/// Where there is no room, what goes on telling its end is no handshake that a new client may push out.
#[test]
fn what_tells_its_end_is_no_handshake() {
    for protocol in Protocol::ALL {
        let transport = either::Config::of_records(protocol);
        let config = Config { transport, max_connections: 1, ..small() };
        let network = Network::new(memory::Config::default());
        let [a, b, c] = [A, B, C].map(|at| network.attach(at.parse().unwrap()).unwrap());
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = is_cut.clone();
        let alter = move |frame: &TxFrame<'_>| {
            (frame.peer.to_string() == A && cut.load(Ordering::Relaxed)).then(Vec::new)
        };
        let server = Box::new(Altered { inner: b, alter });
        let mut world = World::with(Box::new(a), server, Arc::new(AtomicU64::new(1)), &config);
        world.connect();
        world.client.finish(world.id);
        world.run(60.0, "the client's end", |w| {
            w.server_events.iter().any(|e| matches!(e, Event::Finished))
        });
        is_cut.store(true, Ordering::Relaxed);
        world.server.finish(world.served.unwrap());
        world.run(60.0, "the last word", |w| {
            w.server_events.iter().any(|e| matches!(e, Event::Closed(None)))
        });
        let config = Config { clock: Clock::virtual_ns(world.ns.clone()), ..config };
        let mut other = Stack::new(Box::new(c), config, &[7; 32]);
        let client = ClientConfig::new(identity(), Trust::Ask);
        other.connect(B.parse().unwrap(), PORT, &client).unwrap();
        for _ in 0..1000 {
            world.step();
            while other.poll(&mut Keep).unwrap() {}
        }
        let dropped = world.server.dropped();
        assert!(
            !dropped.iter().any(|(name, _)| *name == "handshake-unfinished"),
            "{protocol:?}: {dropped:?}"
        );
        assert_eq!((world.server.active(), world.server.connections()), (0, 1), "{protocol:?}");
        is_cut.store(false, Ordering::Relaxed);
        world.run(30.0, "the server's end", |w| matches!(closed(w), Some(None)));
    }
}

#[test]
fn one_that_was_away_still_hears_our_end() {
    for protocol in Protocol::ALL {
        let config = Config { transport: either::Config::of_records(protocol), ..small() };
        let (mut world, [is_cut, _], _) = cut(&config);
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
