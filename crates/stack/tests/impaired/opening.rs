//! How many round trips pass before the first ADU reaches the server's application, over each transport.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_device::impair::Rules;
use fusewire_session::{ClientConfig, HeaderProtection, Trust};
use fusewire_stack::{Config, Error, Event};
use fusewire_transport::either::{self, Protocol};

use crate::world::{B, PORT, World, adu, close, identity};

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

/// Round trips until an ADU that is sent before anything has come is at the server's application, and until the answer to
/// it is at the client's.
fn round_trips_at_once(world: &mut World) -> [f64; 2] {
    let begun = world.seconds();
    assert!(world.client.send(world.id, b"the first").unwrap());
    world.client.flush();
    let mut there = None;
    world.run(60.0, "the answer", |w| {
        if there.is_none()
            && let Some(served) = w.served
            && let Some((index, body)) = w.server.recv(served)
        {
            assert_eq!((index, &body[..]), (0, &b"the first"[..]));
            there = Some(w.seconds() - begun);
            assert!(w.server.send(served, b"the answer").unwrap());
            w.server.flush();
        }
        w.client.recv(w.id).inspect(|(_, body)| assert_eq!(body, b"the answer")).is_some()
    });
    let back = world.seconds() - begun;
    for info in [world.client.info(world.id), world.server.info(world.served.unwrap())] {
        let counters = info.unwrap().counters;
        assert_eq!((counters.timeouts, counters.retransmissions), (0, 0));
    }
    [there.unwrap(), back].map(|seconds| seconds / ROUND_TRIP.as_secs_f64())
}

/// Behind the client's Finished, and so a round trip sooner than in a record.
#[test]
fn what_is_sent_at_once_goes_with_the_handshake() {
    let [tcp, xtp] = Protocol::ALL
        .map(|protocol| round_trips_at_once(&mut world(either::Config::of_records(protocol))));
    println!("round trips there and back: {tcp:.2?} over TCP, {xtp:.2?} over XTP");
    let near = |found: [f64; 2], there: f64, back: f64| {
        (found[0] - there).abs() < 0.1 && (found[1] - back).abs() < 0.1
    };
    assert!(near(tcp, 2.5, 3.0), "{tcp:?}");
    assert!(near(xtp, 1.5, 2.0), "{xtp:?}");
    assert!(xtp[1] / tcp[1] <= 0.70);
}

/// A server that knows nothing of it gets the same ADUs as records, once, in order, when it has chosen.
#[test]
fn what_a_server_does_not_take_with_the_handshake_comes_behind_it() {
    for protocol in Protocol::ALL {
        for takes in [true, false] {
            let rules = Rules { delay: ROUND_TRIP / 2, ..Rules::default() };
            let transport = either::Config::of_records(protocol);
            let config = Config { transport, ..Config::default() };
            let mut world = World::taking_early(takes, rules, 1, &config);
            let early = send_at_once(&mut world);
            world.connect();
            let trips = world.seconds() / ROUND_TRIP.as_secs_f64();
            carry_from(&mut world, early, 40);
            close(&mut world);
            let connected = if protocol == Protocol::Tcp { 3.0 } else { 2.0 };
            assert!((trips - connected).abs() < 0.2, "{protocol}, {takes}: {trips}");
        }
    }
}

/// Sends as many as there is room for now; how many.
fn send_at_once(world: &mut World) -> usize {
    let sent = (0..40).take_while(|n| world.client.send(world.id, &adu(*n)).unwrap()).count();
    assert!((2..40).contains(&sent), "{sent}");
    sent
}

/// Goes on behind `sent` ADUs that were given already.
fn carry_from(world: &mut World, sent: usize, end: usize) {
    let mut given = sent;
    let mut got = 0;
    world.run(600.0, "transfer", |w| {
        while given < end && w.client.send(w.id, &adu(given)).unwrap() {
            given += 1;
        }
        w.client.flush();
        let Some(served) = w.served else { return false };
        while let Some((index, body)) = w.server.recv(served) {
            assert_eq!(index as usize, got);
            assert!(body == adu(got), "ADU {got}");
            got += 1;
        }
        got == end
    });
}

/// Whatever is lost, doubled or comes late, with protected headers too: each is there once, in order.
#[test]
fn what_goes_with_the_handshake_is_there_once_whatever_happens_to_it() {
    for seed in 0..24 {
        let rules = Rules {
            delay: ROUND_TRIP / 10,
            loss: 0.15,
            duplicate: 0.1,
            reorder: 0.1,
            ..Rules::default()
        };
        let protocol = Protocol::ALL[seed as usize % 2];
        let transport = either::Config::of_records(protocol);
        let config = Config { transport, ..Config::default() };
        let protection = HeaderProtection::with_padding(64).filter(|_| seed % 3 == 0);
        let mut world = World::protecting(protection, rules, seed, &config);
        let sent = send_at_once(&mut world);
        carry_from(&mut world, sent, 40);
        close(&mut world);
    }
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

/// A client that was told to end takes nothing more, though the handshake would take it along.
#[test]
fn what_is_said_after_the_end_does_not_go_with_the_handshake() {
    let config = either::Config::of_records(Protocol::Xtp);
    let mut finishing = world(config.clone());
    let id = finishing.id;
    assert!(finishing.client.send(id, b"the last").unwrap());
    finishing.client.finish(id);
    assert!(!finishing.client.send(id, b"late").unwrap());
    assert!(!finishing.client.send_message(id, &b"late"[..]).unwrap());
    finishing
        .run(60.0, "the end", |w| w.server_events.iter().any(|e| matches!(e, Event::Finished)));
    let served = finishing.served.unwrap();
    assert!(finishing.server_events.iter().any(|e| matches!(e, Event::Readable)));
    assert_eq!(finishing.server.recv(served).unwrap().1, b"the last");
    assert_eq!(finishing.server.recv(served), None);
    let mut aborted = world(config);
    aborted.client.abort(id);
    let late = aborted.client.send(id, b"late");
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
}

/// A value that the handshake has no room for is not made to bytes for it.
#[test]
fn what_is_longer_than_the_handshake_takes_goes_the_usual_way() {
    let mut world = world(either::Config::of_records(Protocol::Xtp));
    let id = world.id;
    let long = vec![7u8; fusewire_session::EARLY_LEN_MAX + 1];
    assert!(!world.client.send_message(id, &long[..]).unwrap(), "later");
    world.connect();
    assert!(world.client.send_message(id, &long[..]).unwrap());
    world.client.flush();
    let mut came = None;
    world.run(60.0, "it", |w| {
        came = came.take().or_else(|| w.served.and_then(|served| w.server.recv(served)));
        came.is_some()
    });
    assert!(came.unwrap().1 == long);
}
