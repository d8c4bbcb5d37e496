//! Two endpoints that know each other.
#![allow(dead_code)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fusewire_device::{Capabilities, Device, RxBatch, TxFrame, udp};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Config, Connection, Endpoint, Listener};

pub fn identity() -> Arc<Identity> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("fusewire-stack-{}-{n}", std::process::id()));
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

pub fn device() -> udp::Udp {
    udp::Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap()
}

/// A device that shows what it was given at once and has taken, and what came at once.
pub struct Shown<L, C> {
    inner: udp::Udp,
    caps: Capabilities,
    left: L,
    came: C,
}

/// One of no longer packets than `max_datagram`.
pub fn shown<L, C>(max_datagram: usize, left: L, came: C) -> Shown<L, C> {
    let inner = device();
    let caps = Capabilities { max_datagram, ..inner.caps().clone() };
    Shown { inner, caps, left, came }
}

impl<L: FnMut(&[TxFrame<'_>]) + Send, C: FnMut(&RxBatch) + Send> Device for Shown<L, C> {
    fusewire_device::forward!(self => self.inner; local_addr wait next_timeout waker as_fd);

    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let taken = self.inner.transmit(frames)?;
        (self.left)(&frames[..taken]);
        Ok(taken)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let count = self.inner.receive(batch)?;
        (self.came)(batch);
        Ok(count)
    }
}

pub fn endpoint(config: Config) -> Endpoint {
    over(device(), config)
}

pub fn over(device: impl Device + 'static, config: Config) -> Endpoint {
    Endpoint::new(Box::new(device) as Box<dyn Device>, config).unwrap()
}

pub struct Pair {
    pub client: Endpoint,
    pub listener: Listener,
    pub server: Endpoint,
    pub identity: Arc<Identity>,
}

pub fn pair(config: &Config) -> Pair {
    join(endpoint(config.clone()), endpoint(config.clone()))
}

/// `client` and a listener of `server`.
pub fn join(client: Endpoint, server: Endpoint) -> Pair {
    let identity = identity();
    let listener = server.listen(ServerConfig::new(identity.clone())).unwrap();
    Pair { client, listener, server, identity }
}

impl Pair {
    pub fn config(&self) -> ClientConfig {
        ClientConfig::new(self.identity.clone(), Trust::Pinned(self.identity.fingerprint()))
    }

    pub fn connect(&self) -> (Connection, Connection) {
        self.connect_as(&self.config())
    }

    pub fn connect_as(&self, config: &ClientConfig) -> (Connection, Connection) {
        std::thread::scope(|s| {
            let accepted = s.spawn(|| self.listener.accept().unwrap());
            let connected = self.client.connect(self.server.local_addr(), config).unwrap();
            (connected, accepted.join().unwrap())
        })
    }
}

pub fn content(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ seed.wrapping_mul(101) ^ (i >> 8)) as u8).collect()
}
