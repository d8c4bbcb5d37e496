//! Two stacks, a clock, and what passes between them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, Ecn, TxFrame};
use fusewire_session::{Cipher, ClientConfig, HeaderProtection, Identity, ServerConfig, Trust};
use fusewire_stack::{Clock, Config, ConnectionId, Event, Keep, Stack};
use fusewire_transport::machine::Secrets;

pub const A: &str = "192.0.2.1:1";
pub const B: &str = "192.0.2.2:2";
pub const C: &str = "192.0.2.3:3";
pub const PORT: u16 = 9293;

pub fn identity() -> Arc<Identity> {
    let dir = std::env::temp_dir().join(format!(
        "fusewire-impaired-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

/// Two devices with a link between that does as `rules` say, both ways.
fn impaired(rules: Rules, seed: u64) -> (Box<dyn Device>, Box<dyn Device>, Arc<AtomicU64>) {
    let network = Network::new(memory::Config { coalesce: true, ..memory::Config::default() });
    let a = network.attach(A.parse().unwrap()).unwrap();
    let b = network.attach(B.parse().unwrap()).unwrap();
    let ns = Arc::new(AtomicU64::new(1));
    let t = ns.clone();
    let now = move || Instant::from_ns(t.load(Ordering::Relaxed));
    (Box::new(Impair::new(a, rules, rules, seed, now)), Box::new(b), ns)
}

/// Two stacks, their clock, and what each was told.
pub struct World {
    pub ns: Arc<AtomicU64>,
    pub client: Stack,
    pub server: Stack,
    pub id: ConnectionId,
    pub served: Option<ConnectionId>,
    pub client_events: Vec<Event>,
    pub server_events: Vec<Event>,
}

impl World {
    pub fn new(rules: Rules, seed: u64, config: &Config) -> World {
        World::protecting(None, rules, seed, config)
    }

    /// The client asks for header protection.
    pub fn protecting(
        protection: Option<HeaderProtection>,
        rules: Rules,
        seed: u64,
        config: &Config,
    ) -> World {
        let (a, b, ns) = impaired(rules, seed);
        World::asking(protection, a, b, ns, config)
    }

    pub fn with(
        a: Box<dyn Device>,
        b: Box<dyn Device>,
        ns: Arc<AtomicU64>,
        config: &Config,
    ) -> World {
        World::asking(None, a, b, ns, config)
    }

    pub fn asking(
        protection: Option<HeaderProtection>,
        a: Box<dyn Device>,
        b: Box<dyn Device>,
        ns: Arc<AtomicU64>,
        config: &Config,
    ) -> World {
        World::speaking(&Cipher::DEFAULT, protection, a, b, ns, config)
    }

    /// Both sides take these ciphers alone.
    pub fn speaking(
        ciphers: &[Cipher],
        protection: Option<HeaderProtection>,
        a: Box<dyn Device>,
        b: Box<dyn Device>,
        ns: Arc<AtomicU64>,
        config: &Config,
    ) -> World {
        let is_insecure = ciphers.iter().any(|cipher| cipher.is_insecure());
        let identity = identity();
        let mut serving = ServerConfig::new(identity.clone());
        serving.settings.ciphers = ciphers.to_vec();
        serving.settings.allow_insecure = is_insecure;
        let trust = Trust::Pinned(identity.fingerprint());
        let mut asking = ClientConfig::new(identity, trust);
        asking.settings.ciphers = ciphers.to_vec();
        asking.settings.allow_insecure = is_insecure;
        asking.settings.protection = protection;
        World::between([a, b], ns, config, &asking, serving)
    }

    /// A server that takes ADUs in the handshake, or does not.
    pub fn taking_early(takes: bool, rules: Rules, seed: u64, config: &Config) -> World {
        let (a, b, ns) = impaired(rules, seed);
        let identity = identity();
        let asking = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
        let mut serving = ServerConfig::new(identity);
        serving.settings.early = takes;
        World::between([a, b], ns, config, &asking, serving)
    }

    fn between(
        [a, b]: [Box<dyn Device>; 2],
        ns: Arc<AtomicU64>,
        config: &Config,
        asking: &ClientConfig,
        serving: ServerConfig,
    ) -> World {
        let config = Config { clock: Clock::virtual_ns(ns.clone()), ..config.clone() };
        let mut client = Stack::new(a, config.clone(), &[1; 32]);
        let mut server = Stack::new(b, config, &[2; 32]);
        server.listen(PORT, serving, &Secrets { isn: [3; 16], cookie: [4; 16] });
        let id = client.connect(B.parse().unwrap(), PORT, asking).unwrap();
        World { ns, client, server, id, served: None, client_events: vec![], server_events: vec![] }
    }

    /// One step of 100 µs of virtual time.
    pub fn step(&mut self) {
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

    pub fn seconds(&self) -> f64 {
        self.ns.load(Ordering::Relaxed) as f64 * 1e-9
    }

    pub fn run(&mut self, limit_s: f64, what: &str, mut done: impl FnMut(&mut World) -> bool) {
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

    pub fn connect(&mut self) {
        self.run(60.0, "handshake", |w| {
            w.served.is_some()
                && w.client_events.iter().any(|e| matches!(e, Event::Connected { .. }))
        });
    }
}

pub fn adu(n: usize) -> Vec<u8> {
    let len = match n % 7 {
        0 => 5000,
        1 => 0,
        _ => 900 + n % 300,
    };
    (0..len).map(|i| (i * 13 + n * 7) as u8).collect()
}

/// Sends `count` ADUs from client to server and checks each.
pub fn transfer(world: &mut World, count: usize) {
    carry(world, 0..count, 600.0, adu);
}

/// The same for connections that carried ADUs before.
pub fn transfer_from(world: &mut World, first: usize, end: usize) {
    carry(world, first..end, 600.0, adu);
}

/// ADUs of other bodies.
pub fn carry(
    world: &mut World,
    range: Range<usize>,
    limit_s: f64,
    body_of: impl Fn(usize) -> Vec<u8>,
) {
    let (mut sent, mut got) = (range.start, range.start);
    world.run(limit_s, "transfer", |w| {
        while sent < range.end {
            match w.client.send(w.id, &body_of(sent)) {
                Ok(true) => sent += 1,
                Ok(false) => break,
                Err(e) => panic!("{e}: {:?}, {:?}", w.client_events, w.server_events.last()),
            }
        }
        w.client.flush();
        let served = w.served.unwrap();
        while let Some((index, body)) = w.server.recv(served) {
            assert_eq!(index as usize, got);
            assert!(body == body_of(got), "ADU {got}");
            w.server.recycle(served, body);
            got += 1;
        }
        got == range.end
    });
}

pub fn close(world: &mut World) {
    world.client.finish(world.id);
    let served = world.served.unwrap();
    world.run(60.0, "close", |w| w.server_events.iter().any(|e| matches!(e, Event::Finished)));
    world.server.finish(served);
    world.run(60.0, "close", |w| {
        let closed = |e: &Event| matches!(e, Event::Closed(None));
        w.client_events.iter().any(closed) && w.server_events.iter().any(closed)
    });
}

pub fn small() -> Config {
    Config { datagram_bytes: Some(1452), ..Config::default() }
}

/// A device some of whose frames leave as other bytes: those that `alter` gives for one.
pub struct Altered<D, F> {
    pub inner: D,
    pub alter: F,
}

impl<D: Device, F: Fn(&TxFrame<'_>) -> Option<Vec<u8>> + Send> Device for Altered<D, F> {
    fusewire_device::forward!(self => self.inner; caps local_addr receive wait waker as_fd);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            match (self.alter)(frame) {
                Some(bytes) => {
                    let (peer, header) = (frame.peer, &bytes[..]);
                    let frame = TxFrame { peer, header, payload: &[], ecn: Ecn::NotEct };
                    self.inner.transmit(&[frame])?;
                }
                None => {
                    self.inner.transmit(&[*frame])?;
                }
            }
        }
        Ok(frames.len())
    }
}
