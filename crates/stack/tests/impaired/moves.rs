//! A peer whose address changes, and those who only say so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Memory, Network};
use fusewire_device::{Capabilities, Device, RxBatch, TxFrame};
use fusewire_stack::Config;
use fusewire_transport::either::{self, Protocol};

use crate::world::{A, B, C, World, close, small, transfer, transfer_from};

/// Everything leaves from here, and comes here.
const HERE: u8 = 0;
/// Everything leaves from there: the address has changed.
const THERE: u8 = 1;
/// Somebody who sees all that leaves sends it once more from his own address, and what comes to him he sends
/// on here in the peer's name. Without a look into it, for he has no keys.
const COPIED: u8 = 2;
/// The next frame with a payload leaves from there as well, in the name of somebody who knows nothing of it.
const SPOOFED: u8 = 3;

/// A device with two addresses.
struct Moving {
    here: Memory,
    there: Memory,
    caps: Capabilities,
    mode: Arc<AtomicU8>,
    spoofed: Arc<AtomicU64>,
    /// Bytes that came there for somebody else.
    came: Arc<AtomicU64>,
}

impl Device for Moving {
    fusewire_device::forward!(self => self.here; local_addr wait waker as_fd);

    fn caps(&self) -> &Capabilities {
        &self.caps
    }
    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        match self.mode.load(Ordering::Relaxed) {
            HERE => self.here.transmit(frames),
            THERE => self.there.transmit(frames),
            COPIED => {
                // His are first: he is nearer.
                self.there.transmit(frames)?;
                self.here.transmit(frames)
            }
            _ => {
                for frame in frames {
                    if !frame.payload.is_empty() {
                        self.mode.store(HERE, Ordering::Relaxed);
                        self.spoofed.fetch_add(frame.len() as u64, Ordering::Relaxed);
                        self.there.transmit(&[*frame])?;
                        break;
                    }
                }
                self.here.transmit(frames)
            }
        }
    }
    fn receive(&mut self, batch: &mut RxBatch) -> std::io::Result<usize> {
        match self.mode.load(Ordering::Relaxed) {
            THERE => self.there.receive(batch),
            COPIED if self.there.receive(batch)? > 0 => Ok(batch.len()),
            COPIED => self.here.receive(batch),
            _ => {
                while self.there.receive(batch)? > 0 {
                    let bytes = batch.iter().map(|p| p.bytes.len() as u64).sum();
                    self.came.fetch_add(bytes, Ordering::Relaxed);
                }
                self.here.receive(batch)
            }
        }
    }
}

/// A world whose client has two addresses, the mode that it is in, bytes that were spoofed, and those that
/// came for it.
struct Moves {
    world: World,
    mode: Arc<AtomicU8>,
    spoofed: Arc<AtomicU64>,
    came: Arc<AtomicU64>,
}

fn addr(of: &str) -> SocketAddr {
    of.parse().unwrap()
}

impl Moves {
    /// `is_known`: the largest datagram of the path is known. `delay` is that of one way.
    fn new(config: &Config, is_known: bool, delay: Duration) -> Moves {
        let network = Network::new(memory::Config::default());
        let mode = Arc::new(AtomicU8::new(HERE));
        let (spoofed, came) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let ns = Arc::new(AtomicU64::new(1));
        let end = |here: &str, there: &str, mode: Arc<AtomicU8>| {
            let here = network.attach(addr(here)).unwrap();
            let there = network.attach(addr(there)).unwrap();
            let caps = Capabilities { is_whole_path: is_known, ..here.caps().clone() };
            let (spoofed, came) = (spoofed.clone(), came.clone());
            let device = Moving { here, there, caps, mode, spoofed, came };
            let (rules, t) = (Rules { delay, ..Rules::default() }, ns.clone());
            let now = move || Instant::from_ns(t.load(Ordering::Relaxed));
            Box::new(Impair::new(device, rules, Rules::default(), 1, now))
        };
        let a = end(A, C, mode.clone());
        let b = end(B, "192.0.2.4:4", Arc::new(AtomicU8::new(HERE)));
        let mut world = World::with(a, b, ns, config);
        world.connect();
        Moves { world, mode, spoofed, came }
    }

    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::Relaxed);
    }

    /// Where the server takes its client to be.
    fn client(&self) -> SocketAddr {
        self.world.server.remote_addr(self.world.served.unwrap()).unwrap()
    }
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Xtp];

fn over(protocol: Protocol, config: Config) -> Config {
    Config { transport: either::Config::of_records(protocol), ..config }
}

#[test]
fn a_peer_whose_address_changes_is_followed() {
    PROTOCOLS.into_iter().for_each(is_followed);
}

fn is_followed(protocol: Protocol) {
    let mut m = Moves::new(&over(protocol, small()), true, Duration::ZERO);
    transfer(&mut m.world, 100);
    m.set(THERE);
    let begun = m.world.seconds();
    transfer_from(&mut m.world, 100, 200);
    assert_eq!(m.client(), addr(C));
    let seconds = m.world.seconds() - begun;
    println!("{seconds:.3} s");
    // One timeout of the client's, and the time that the old address has.
    assert!(seconds < 1.0, "{seconds} s");
    // And back again.
    m.set(HERE);
    m.world.run(2.0, "a second", {
        let end = m.world.seconds() + 1.1;
        move |w| w.seconds() > end
    });
    transfer_from(&mut m.world, 200, 300);
    assert_eq!(m.client(), addr(A));
    close(&mut m.world);
}

#[test]
fn who_copies_what_the_peer_sends_does_not_get_the_stream() {
    PROTOCOLS.into_iter().for_each(who_copies_does_not_get_the_stream);
}

fn who_copies_does_not_get_the_stream(protocol: Protocol) {
    let mut m = Moves::new(&over(protocol, small()), true, Duration::ZERO);
    transfer(&mut m.world, 100);
    m.set(COPIED);
    for round in 1..20 {
        transfer_from(&mut m.world, round * 100, (round + 1) * 100);
        assert_eq!(m.client(), addr(A), "in round {round}");
        // Another second, another question.
        let end = m.world.seconds() + 1.1;
        m.world.run(2.0, "a second", |w| w.seconds() > end);
    }
    m.set(HERE);
    close(&mut m.world);
}

#[test]
fn who_is_named_without_his_knowledge_gets_no_stream() {
    for (protocol, is_known) in PROTOCOLS.into_iter().flat_map(|p| [(p, true), (p, false)]) {
        let mut m = Moves::new(&over(protocol, Config::default()), is_known, Duration::ZERO);
        transfer(&mut m.world, 100);
        // Somebody at the address that the client names, and all that comes to him.
        m.set(SPOOFED);
        let served = m.world.served.unwrap();
        let before = m.world.server.info(served).unwrap().max_payload;
        transfer_from(&mut m.world, 100, 200);
        let body = vec![7; 1000];
        // Then the server sends as much as it can.
        let begun = m.world.seconds();
        m.world.run(10.0, "the server's stream", |w| {
            while w.seconds() > begun + 1.2 && w.server.send(served, &body).unwrap() {}
            w.server.flush();
            while let Some((_, received)) = w.client.recv(w.id) {
                w.client.recycle(w.id, received);
            }
            w.seconds() > begun + 1.202
        });
        assert_eq!(m.client(), addr(A));
        assert!(m.world.server.info(served).unwrap().max_payload >= before);
        let spoofed = m.spoofed.load(Ordering::Relaxed);
        assert!(spoofed > 0);
        // He is asked, and that is all that he gets.
        let came = m.came.load(Ordering::Relaxed);
        assert!((1..=3 * spoofed).contains(&came), "{came} bytes for {spoofed}");
    }
}

/// The server's stream: ADUs of 5,000 bytes up to the `end`th, and how many have come.
fn stream(w: &mut World, sent: &mut usize, got: &mut usize, end: usize) {
    let served = w.served.unwrap();
    while *sent < end && w.server.send(served, &[*sent as u8; 5000]).unwrap() {
        *sent += 1;
    }
    w.server.flush();
    while let Some((index, received)) = w.client.recv(w.id) {
        assert_eq!((index as usize, &received[..]), (*got, &[*got as u8; 5000][..]));
        w.client.recycle(w.id, received);
        *got += 1;
    }
}

#[test]
fn a_new_path_begins_with_a_small_window_and_small_datagrams() {
    PROTOCOLS.into_iter().for_each(begins_small);
}

fn begins_small(protocol: Protocol) {
    let config = over(protocol, Config::default());
    let mut m = Moves::new(&config, false, Duration::from_millis(5));
    let w = &mut m.world;
    let served = w.served.unwrap();
    let (mut sent, mut got) = (0, 0);
    w.run(60.0, "the stream", |w| {
        stream(w, &mut sent, &mut got, 2000);
        got == 2000
    });
    w.run(60.0, "the search", |w| w.server.info(served).unwrap().max_payload > 8000);
    let info = w.server.info(served).unwrap();
    assert!(info.cwnd > 100_000, "{}", info.cwnd);
    m.mode.store(THERE, Ordering::Relaxed);
    // The client speaks, so that the server can see where from.
    assert!(w.client.send(w.id, b"I am here").unwrap());
    w.client.flush();
    w.run(60.0, "the move", |w| {
        stream(w, &mut sent, &mut got, 2500);
        w.server.remote_addr(served) == Some(addr(C))
    });
    let info = w.server.info(served).unwrap();
    assert!(info.max_payload <= 1200, "{}", info.max_payload);
    assert!(info.cwnd <= 20 * 1200, "{}", info.cwnd);
    let moved = w.seconds();
    // What had arrived before is acknowledged now, over the new path, and says nothing of that.
    w.run(1.0, "the first answers", |w| w.seconds() > moved + 0.015);
    let info = w.server.info(served).unwrap();
    assert!(info.in_flight <= 40 * 1200, "{}", info.in_flight);
    w.run(60.0, "the rest", |w| {
        stream(w, &mut sent, &mut got, 2500);
        got == 2500
    });
    assert!(w.seconds() - moved < 1.0, "{} s", w.seconds() - moved);
    w.run(60.0, "the search", |w| w.server.info(served).unwrap().max_payload > 8000);
    close(w);
}
