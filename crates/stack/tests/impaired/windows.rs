//! How fast ADUs are that are longer than a segment where windows are small.

use std::time::Duration;

use fusewire_device::impair::Rules;
use fusewire_stack::{Config, Event};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::either::{self, Protocol};

use crate::world::{World, small};

/// Bytes that arrive in so many seconds as ADUs of one length. Who sends them asks again when it is told that there is
/// room, and not before.
fn carried(adu: usize, seconds: f64, seed: u64) -> usize {
    let mut transport = either::Config::of_records(Protocol::Tcp);
    transport.set_congestion(Algorithm::Cubic);
    let rules = Rules { loss: 0.01, delay: Duration::from_millis(10), ..Rules::default() };
    let mut world = World::new(rules, seed, &Config { transport, ..small() });
    world.connect();
    let (body, mut had, mut may_send) = (vec![7; adu], 0, true);
    let end = world.seconds() + seconds;
    world.run(seconds + 1.0, "time", |w| {
        may_send |= w.client_events.drain(..).any(|event| matches!(event, Event::Writable));
        while may_send {
            may_send = w.client.send(w.id, &body).unwrap();
        }
        w.client.flush();
        while let Some((_, body)) = w.server.recv(w.served.unwrap()) {
            had += body.len();
            w.server.recycle(w.served.unwrap(), body);
        }
        w.seconds() >= end
    });
    had
}

#[test]
fn long_adus_are_no_slower_than_short_ones() {
    let [short, long] =
        [1300, 8 << 10].map(|adu| (1..=4).map(|seed| carried(adu, 15.0, seed)).sum::<usize>());
    println!("{} Mbit/s, {} as ADUs of 8 KiB", 8 * short / 60_000_000, 8 * long / 60_000_000);
    assert!(long as f64 >= 0.9 * short as f64, "{long} of {short} bytes");
}
