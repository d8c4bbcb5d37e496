//! Two stacks on a bad link, on a virtual clock, from one seed: nothing is lost, nothing is believed
//! that is not authentic, and what came out of order is delivered out of order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, RxBatch, TxFrame, Waker};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Clock, Config, ConnectionId, Error, Event, Keep, Stack};
use fusewire_transport::tcp::Secrets;

const A: &str = "192.0.2.1:1";
const B: &str = "192.0.2.2:2";
const C: &str = "192.0.2.3:3";
const PORT: u16 = 9293;

fn identity() -> Arc<Identity> {
    let dir = std::env::temp_dir().join(format!(
        "fusewire-impaired-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

/// Two stacks, their clock, and what each was told.
struct World {
    ns: Arc<AtomicU64>,
    client: Stack,
    server: Stack,
    id: ConnectionId,
    served: Option<ConnectionId>,
    client_events: Vec<Event>,
    server_events: Vec<Event>,
}

impl World {
    fn new(rules: Rules, seed: u64, config: &Config) -> World {
        let network = Network::new(memory::Config { coalesce: true, ..memory::Config::default() });
        let a = network.attach(A.parse().unwrap()).unwrap();
        let b = network.attach(B.parse().unwrap()).unwrap();
        let ns = Arc::new(AtomicU64::new(1));
        let (t, rules_back) = (ns.clone(), rules);
        let device = Impair::new(a, rules, rules_back, seed, move || {
            Instant::from_ns(t.load(Ordering::Relaxed))
        });
        World::with(Box::new(device), Box::new(b), ns, config)
    }

    fn with(a: Box<dyn Device>, b: Box<dyn Device>, ns: Arc<AtomicU64>, config: &Config) -> World {
        let config = Config { clock: Clock::virtual_ns(ns.clone()), ..config.clone() };
        let mut client = Stack::new(a, config.clone(), &[1; 32]);
        let mut server = Stack::new(b, config, &[2; 32]);
        let identity = identity();
        server.listen(
            PORT,
            ServerConfig::new(identity.clone()),
            &Secrets { isn: [3; 16], cookie: [4; 16] },
        );
        let trust = Trust::Pinned(identity.fingerprint());
        let id =
            client.connect(B.parse().unwrap(), PORT, &ClientConfig::new(identity, trust)).unwrap();
        World { ns, client, server, id, served: None, client_events: vec![], server_events: vec![] }
    }

    /// One step of 100 µs of virtual time.
    fn step(&mut self) {
        self.ns.fetch_add(100_000, Ordering::Relaxed);
        while self.client.poll(&mut Keep).unwrap() | self.server.poll(&mut Keep).unwrap() {}
        while let Some((_, event)) = self.client.poll_event() {
            self.client_events.push(event);
        }
        while let Some((id, event)) = self.server.poll_event() {
            if matches!(event, Event::Connected { .. }) {
                self.served = Some(id);
            }
            self.server_events.push(event);
        }
    }

    fn seconds(&self) -> f64 {
        self.ns.load(Ordering::Relaxed) as f64 * 1e-9
    }

    fn run(&mut self, limit_s: f64, what: &str, mut done: impl FnMut(&mut World) -> bool) {
        let end = self.seconds() + limit_s;
        while !done(self) {
            assert!(
                self.seconds() < end,
                "{what}: not done in {limit_s} s; client {:?}, server {:?}, {:?}",
                self.client_events,
                self.server_events,
                self.client.info(self.id)
            );
            self.step();
        }
    }

    fn connect(&mut self) {
        self.run(60.0, "handshake", |w| {
            w.served.is_some()
                && w.client_events.iter().any(|e| matches!(e, Event::Connected { .. }))
        });
    }
}

fn adu(n: usize) -> Vec<u8> {
    let len = match n % 7 {
        0 => 5000,
        1 => 0,
        _ => 900 + n % 300,
    };
    (0..len).map(|i| (i * 13 + n * 7) as u8).collect()
}

/// Sends `count` ADUs from client to server and checks each.
fn transfer(world: &mut World, count: usize) {
    let (mut sent, mut got) = (0, 0);
    world.run(600.0, "transfer", |w| {
        while sent < count && w.client.send(w.id, &adu(sent)).unwrap() {
            sent += 1;
        }
        w.client.flush();
        let served = w.served.unwrap();
        while let Some((index, body)) = w.server.recv(served) {
            assert_eq!(index as usize, got);
            assert!(body == adu(got), "ADU {got}");
            w.server.recycle(served, body);
            got += 1;
        }
        got == count
    });
}

fn close(world: &mut World) {
    world.client.finish(world.id);
    let served = world.served.unwrap();
    world.run(60.0, "close", |w| w.server_events.iter().any(|e| matches!(e, Event::Finished)));
    world.server.finish(served);
    world.run(60.0, "close", |w| {
        let closed = |e: &Event| matches!(e, Event::Closed(None));
        w.client_events.iter().any(closed) && w.server_events.iter().any(closed)
    });
}

fn small() -> Config {
    Config { datagram_bytes: Some(1452), ..Config::default() }
}

#[test]
fn every_impairment_at_once() {
    for seed in 1..=6 {
        let rules = Rules {
            loss: 0.01 * seed as f64,
            duplicate: 0.02,
            corrupt: 0.02,
            reorder: 0.05,
            reorder_delay: Duration::from_millis(2),
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(1),
            mark: 0.01,
            ..Rules::default()
        };
        let mut world = World::new(rules, seed, &small());
        world.connect();
        transfer(&mut world, 1500);
        close(&mut world);
    }
}

#[test]
fn large_adus_are_put_together() {
    let rules = Rules {
        loss: 0.02,
        reorder: 0.05,
        reorder_delay: Duration::from_millis(1),
        ..Rules::default()
    };
    let mut world = World::new(rules, 7, &small());
    world.connect();
    let body: Vec<u8> = (0..200_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let (mut sent, mut got) = (0, 0);
    world.run(600.0, "large ADUs", |w| {
        while sent < 10 && w.client.send(w.id, &body).unwrap() {
            sent += 1;
        }
        w.client.flush();
        while let Some((_, received)) = w.server.recv(w.served.unwrap()) {
            assert!(received == body);
            got += 1;
        }
        got == 10
    });
    close(&mut world);
}

/// Drops the `n`-th frame with a payload of more than `over` bytes, once; moves to another address on demand.
struct Drop1 {
    inner: memory::Memory,
    over: usize,
    n: usize,
}

impl Device for Drop1 {
    fn caps(&self) -> &fusewire_device::Capabilities {
        self.inner.caps()
    }
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            if frame.payload.len() > self.over && self.n > 0 {
                self.n -= 1;
                if self.n == 0 {
                    continue;
                }
            }
            self.inner.transmit(&[*frame])?;
        }
        Ok(frames.len())
    }
    fn receive(&mut self, batch: &mut RxBatch) -> std::io::Result<usize> {
        self.inner.receive(batch)
    }
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> std::io::Result<bool> {
        self.inner.wait(timeout, want_write)
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.inner.as_fd()
    }
}

#[test]
fn what_follows_a_lost_tpdu_is_delivered_before_it_is_sent_again() {
    let network = Network::new(memory::Config::default());
    let a = Drop1 { inner: network.attach(A.parse().unwrap()).unwrap(), over: 1300, n: 3 };
    let b = network.attach(B.parse().unwrap()).unwrap();
    let ns = Arc::new(AtomicU64::new(1));
    let mut world = World::with(Box::new(a), Box::new(b), ns, &small());
    world.connect();
    let body = |n: u8| vec![n; 1380];
    for n in 0..5 {
        assert!(world.client.send(world.id, &body(n)).unwrap());
    }
    world.client.flush();
    // Only the server works: nothing can be sent again.
    let served = world.served.unwrap();
    while world.server.poll(&mut Keep).unwrap() {}
    let mut early: Vec<u64> = Vec::new();
    while let Some((index, adu)) = world.server.recv_any(served) {
        assert_eq!(adu, body(index as u8));
        early.push(index);
    }
    assert_eq!(early, [0, 1, 3, 4], "the third was lost");
    let mut late = None;
    world.run(5.0, "retransmission", |w| {
        late = late.take().or_else(|| w.server.recv_any(w.served.unwrap()));
        late.is_some()
    });
    assert_eq!(late, Some((2, body(2))));
    close(&mut world);
}

/// Sends from another address after `moved` is set.
struct Moving {
    here: memory::Memory,
    there: memory::Memory,
    moved: Arc<std::sync::atomic::AtomicBool>,
}

impl Moving {
    fn now(&mut self) -> &mut memory::Memory {
        if self.moved.load(Ordering::Relaxed) { &mut self.there } else { &mut self.here }
    }
}

impl Device for Moving {
    fn caps(&self) -> &fusewire_device::Capabilities {
        self.here.caps()
    }
    fn local_addr(&self) -> SocketAddr {
        self.here.local_addr()
    }
    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        self.now().transmit(frames)
    }
    fn receive(&mut self, batch: &mut RxBatch) -> std::io::Result<usize> {
        self.now().receive(batch)
    }
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> std::io::Result<bool> {
        self.now().wait(timeout, want_write)
    }
    fn waker(&self) -> Waker {
        self.here.waker()
    }
    fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.here.as_fd()
    }
}

#[test]
fn a_peer_whose_address_changes_is_followed() {
    let network = Network::new(memory::Config::default());
    let moved = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let here = network.attach(A.parse().unwrap()).unwrap();
    let there = network.attach(C.parse().unwrap()).unwrap();
    let a = Moving { here, there, moved: moved.clone() };
    let b = network.attach(B.parse().unwrap()).unwrap();
    let mut world = World::with(Box::new(a), Box::new(b), Arc::new(AtomicU64::new(1)), &small());
    world.connect();
    transfer(&mut world, 100);
    moved.store(true, Ordering::Relaxed);
    transfer_from(&mut world, 100, 200);
    assert_eq!(world.server.remote_addr(world.served.unwrap()), Some(C.parse().unwrap()));
    close(&mut world);
}

/// The same as `transfer`, for connections that carried ADUs before.
fn transfer_from(world: &mut World, first: usize, end: usize) {
    let (mut sent, mut got) = (first, first);
    world.run(600.0, "transfer after the move", |w| {
        while sent < end && w.client.send(w.id, &adu(sent)).unwrap() {
            sent += 1;
        }
        w.client.flush();
        while let Some((index, body)) = w.server.recv(w.served.unwrap()) {
            assert_eq!((index as usize, body == adu(got)), (got, true));
            got += 1;
        }
        got == end
    });
}

#[test]
fn forged_and_corrupted_frames_change_nothing() {
    let rules = Rules { corrupt: 0.3, ..Rules::default() };
    let mut world = World::new(rules, 12, &small());
    world.connect();
    // At such a rate timeouts double up to a minute: what is asked is that it gets through.
    transfer(&mut world, 100);
    let drops = world.server.info(world.served.unwrap()).unwrap().counters.drops;
    assert!(drops.iter().sum::<u32>() > 0, "corruption was seen: {drops:?}");
    close(&mut world);
}

#[test]
fn a_connection_that_only_waits_for_strays_makes_room() {
    let config = Config { max_connections: 1, ..small() };
    let mut world = World::new(Rules::default(), 1, &config);
    world.connect();
    close(&mut world);
    let trust = Trust::Ask;
    let client = ClientConfig::new(identity(), trust);
    // The client closed first and waits; the server has nothing left.
    assert_eq!((world.client.connections(), world.server.connections()), (1, 0));
    let first = world.id;
    world.id = world.client.connect(B.parse().unwrap(), PORT, &client).unwrap();
    assert_ne!(world.id, first);
    assert!(world.client.connect(B.parse().unwrap(), PORT, &client).is_err(), "this one is open");
    (world.served, world.client_events) = (None, vec![]);
    let server_got_in = |w: &mut World| {
        w.client_events.iter().any(|e| matches!(e, Event::Connected { .. } | Event::Closed(_)))
    };
    world.run(60.0, "second handshake", server_got_in);
}

/// Two clients of one server that chose the same ports: the second is no sign that the first has moved.
#[test]
fn two_clients_may_have_the_same_ports() {
    let network = Network::new(memory::Config::default());
    let a = network.attach(A.parse().unwrap()).unwrap();
    let b = network.attach(B.parse().unwrap()).unwrap();
    let ns = Arc::new(AtomicU64::new(1));
    let mut world = World::with(Box::new(a), Box::new(b), ns.clone(), &small());
    world.connect();
    transfer(&mut world, 10);
    let first = world.served.unwrap();
    // The same seed chooses the same port.
    let c = network.attach(C.parse().unwrap()).unwrap();
    let config = Config { clock: Clock::virtual_ns(ns), ..small() };
    let mut second = Stack::new(Box::new(c), config, &[1; 32]);
    let trust = Trust::Ask;
    let id =
        second.connect(B.parse().unwrap(), PORT, &ClientConfig::new(identity(), trust)).unwrap();
    let mut told = None;
    world.run(60.0, "the second handshake", |_| {
        second.poll(&mut Keep).unwrap();
        told = told.take().or_else(|| second.poll_event().filter(|(i, _)| *i == id));
        told.is_some()
    });
    // Its key is another one, and the server serves only its own: that it hears so is enough.
    let refusal =
        matches!(&told, Some((_, Event::Closed(Some(e)))) if e.to_string().contains("list"));
    assert!(refusal || matches!(told, Some((_, Event::Connected { .. }))), "{told:?}");
    assert_eq!(world.server.remote_addr(first), Some(A.parse().unwrap()));
    transfer_from(&mut world, 10, 50);
    close(&mut world);
}

/// An idle connection lives as long as both ends do; of a peer that is gone both learn within the smaller of the
/// two times that they said.
#[test]
fn a_silent_peer_is_given_up_after_the_time_agreed_on() {
    let mut world = World::new(Rules::NONE, 5, &Config::default());
    world.connect();
    let (begun, mut last) = (world.seconds(), world.seconds());
    let idle = |world: &mut World, with_server: bool| {
        world.ns.fetch_add(1_000_000, Ordering::Relaxed);
        while world.client.poll(&mut Keep).unwrap() {}
        while with_server && world.server.poll(&mut Keep).unwrap() {}
        while let Some((_, event)) = world.client.poll_event() {
            world.client_events.push(event);
        }
        assert!(world.server.poll_event().is_none());
    };
    let mut heard = world.client.info(world.id).unwrap().heard_at;
    while world.seconds() < begun + 100.0 {
        idle(&mut world, true);
        let info = world.client.info(world.id).expect("an idle connection lives");
        if info.heard_at != heard {
            heard = info.heard_at;
            assert!(world.seconds() - last < 11.0, "the peer is asked at a third of 30 s");
            last = world.seconds();
        }
    }
    assert!(last > begun + 89.0, "last heard at {last} s");
    // From here on the server's process is gone.
    while !world.client_events.iter().any(|e| matches!(e, Event::Closed(_))) {
        assert!(world.seconds() < begun + 200.0, "{:?}", world.client.info(world.id));
        idle(&mut world, false);
    }
    let Some(Event::Closed(Some(Error::Silent { peer, after }))) = world.client_events.pop() else {
        panic!("{:?}", world.client_events);
    };
    assert_eq!((peer, after), (B.parse().unwrap(), Duration::from_secs(30)));
    assert!((29.9..30.2).contains(&(world.seconds() - last)), "{} s", world.seconds() - last);
}
