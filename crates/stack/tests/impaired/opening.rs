//! How many round trips pass before the first ADU reaches the server's application, over each transport.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_device::impair::Rules;
use fusewire_session::{ClientConfig, Trust};
use fusewire_stack::{Config, Event};
use fusewire_transport::either::{self, Protocol};

use crate::world::{B, PORT, World, identity};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// A client that has said its first word.
fn world(transport: either::Config) -> World {
    let rules = Rules { delay: ROUND_TRIP / 2, ..Rules::default() };
    World::new(rules, 1, &Config { transport, ..Config::default() })
}

/// Round trips until the client's first ADU, which is sent as soon as there are keys, is at the server's application.
fn round_trips(world: &mut World) -> f64 {
    let begun = world.ns.load(Ordering::Relaxed);
    let (mut sent, mut got) = (false, None);
    world.run(60.0, "the first ADU", |w| {
        let open = w.client_events.iter().any(|e| matches!(e, Event::Connected { .. }));
        if open && !sent {
            sent = w.client.send(w.id, b"the first").unwrap();
            w.client.flush();
        }
        got = got.take().or_else(|| w.served.and_then(|served| w.server.recv(served)));
        got.is_some()
    });
    assert_eq!(got.unwrap().1, b"the first");
    for info in [world.client.info(world.id), world.server.info(world.served.unwrap())] {
        let counters = info.unwrap().counters;
        assert_eq!((counters.timeouts, counters.retransmissions), (0, 0));
    }
    let ns = world.ns.load(Ordering::Relaxed) - begun;
    ns as f64 / ROUND_TRIP.as_nanos() as f64
}

#[test]
fn the_first_adu_is_there_a_round_trip_sooner_over_xtp() {
    let [tcp, xtp] =
        Protocol::ALL.map(|protocol| round_trips(&mut world(either::Config::of_records(protocol))));
    println!("round trips until the first ADU: {tcp:.2} over TCP, {xtp:.2} over XTP");
    assert!((3.4..3.6).contains(&tcp), "{tcp}");
    assert!((2.4..2.6).contains(&xtp), "{xtp}");
}

/// Who says everything once waits for its key to be shown, but for an address that has shown one.
#[test]
fn an_address_that_is_proven_need_not_say_its_first_words_twice() {
    let mut transport = either::Config::of_records(Protocol::Xtp);
    let either::Config::Xtp(xtp) = &mut transport else { unreachable!() };
    xtp.first_flight_bytes = 0;
    let mut world = world(transport);
    let first = round_trips(&mut world);
    assert!((3.4..3.6).contains(&first), "{first}");
    // With another identity, for which the server has its own answer: let in or not, it comes as soon.
    let client = ClientConfig::new(identity(), Trust::Ask);
    world.id = world.client.connect(B.parse().unwrap(), PORT, &client).unwrap();
    world.client_events.clear();
    let begun = world.seconds();
    world.run(60.0, "the second handshake", |w| {
        w.client_events.iter().any(|e| matches!(e, Event::Connected { .. } | Event::Closed(_)))
    });
    let trips = (world.seconds() - begun) / ROUND_TRIP.as_secs_f64();
    assert!((1.9..2.1).contains(&trips), "{trips}: a handshake is two round trips");
}
