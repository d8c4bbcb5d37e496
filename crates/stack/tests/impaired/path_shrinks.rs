//! A path whose MTU shrinks during a transfer: RFC 8899, section 4.3. Datagrams that are too long vanish, with or without a
//! message to their sender, in one direction or in both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Network};
use fusewire_device::{Capabilities, Device, Event as Told, TxFrame};
use fusewire_stack::{Config, Error, Event};
use fusewire_transport::either::{self, Protocol};

use crate::world::{A, B, World};

/// Treatment of datagrams by the path.
struct Path {
    limit: Arc<AtomicUsize>,
    has_icmp: Arc<AtomicBool>,
}

/// A device before a path that carries `limit` bytes in a datagram.
struct Narrow<D> {
    inner: D,
    limit: Arc<AtomicUsize>,
    /// The path reports datagrams that it drops.
    has_icmp: Arc<AtomicBool>,
    events: Vec<Told>,
    caps: Capabilities,
}

impl<D: Device> Device for Narrow<D> {
    fusewire_device::forward!(self => self.inner; local_addr receive wait waker as_fd);

    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            let len = frame.header.len() + frame.payload.len();
            if len <= self.limit.load(Ordering::Relaxed) {
                self.inner.transmit(&[*frame])?;
            } else if self.has_icmp.load(Ordering::Relaxed) {
                self.events.push(Told::TooBig { peer: frame.peer, len });
            }
        }
        Ok(frames.len())
    }

    fn poll_event(&mut self) -> Option<Told> {
        self.events.pop()
    }
}

/// Two stacks over a path of 5 ms that carries `limit` bytes.
fn world(protocol: Protocol, path: &Path) -> World {
    let network = Network::new(memory::Config { coalesce: true, ..memory::Config::default() });
    let ns = Arc::new(AtomicU64::new(1));
    let rules = Rules { delay: Duration::from_millis(5), ..Rules::NONE };
    let [a, b] = [A, B].map(|at| {
        let device = network.attach(at.parse().unwrap()).unwrap();
        let ns = ns.clone();
        let now = move || Instant::from_ns(ns.load(Ordering::Relaxed));
        let inner = Impair::new(device, rules, Rules::NONE, 1, now);
        let caps = Capabilities { is_whole_path: false, ..inner.caps().clone() };
        let (limit, has_icmp) = (path.limit.clone(), path.has_icmp.clone());
        Box::new(Narrow { inner, limit, has_icmp, events: vec![], caps }) as Box<dyn Device>
    });
    let config = Config { transport: either::Config::of_records(protocol), ..Config::default() };
    World::with(a, b, ns, &config)
}

/// The client sends, as with `put`, or the server, as with `get`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sender {
    Client,
    Server,
}

fn body(len: usize, n: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + n * 7) as u8).collect()
}

/// ADUs of one length, in order, at about 2 MB/s.
struct Stream {
    sender: Sender,
    len: usize,
    sent: usize,
    got: usize,
}

impl Stream {
    fn step(&mut self, w: &mut World) {
        let served = w.served.unwrap();
        let (from, from_id, to, to_id) = match self.sender {
            Sender::Client => (&mut w.client, w.id, &mut w.server, served),
            Sender::Server => (&mut w.server, served, &mut w.client, w.id),
        };
        let due = (w.ns.load(Ordering::Relaxed) / 500) as usize / self.len;
        if self.sent.saturating_sub(self.got) * self.len < 100_000
            && due > self.sent
            && from.send(from_id, &body(self.len, self.sent)).unwrap_or(false)
        {
            self.sent += 1;
        }
        from.flush();
        while let Some((_, adu)) = to.recv(to_id) {
            assert!(adu == body(self.len, self.got), "ADU {}", self.got);
            to.recycle(to_id, adu);
            self.got += 1;
        }
        w.step();
    }
}

const ICMP: [bool; 2] = [false, true];
const SENDERS: [Sender; 2] = [Sender::Client, Sender::Server];

/// A world in which the sender has found that the path carries `before` bytes.
fn begun(protocol: Protocol, len: usize, sender: Sender, before: usize) -> (World, Stream, Path) {
    let path = Path {
        limit: Arc::new(AtomicUsize::new(before)),
        // The sender's own interface reports the first limit.
        has_icmp: Arc::new(AtomicBool::new(true)),
    };
    let mut w = world(protocol, &path);
    w.connect();
    let mut stream = Stream { sender, len, sent: 0, got: 0 };
    while w.seconds() < 0.2 || adu_len(&w, sender) + 100 < before {
        assert!(w.seconds() < 10.0, "{protocol} {sender:?}: {} of {before}", adu_len(&w, sender));
        stream.step(&mut w);
    }
    (w, stream, path)
}

#[test]
fn a_transfer_continues_within_two_seconds_over_a_path_that_became_smaller() {
    let sizes = [(1472, 1272), (1452, 1232), (65_507, 1452)];
    for protocol in Protocol::ALL {
        for (has_icmp, sender) in ICMP.iter().flat_map(|icmp| SENDERS.map(|sender| (*icmp, sender)))
        {
            for ((before, after), len) in
                sizes.iter().flat_map(|it| [1350, 16_384].map(|len| (*it, len)))
            {
                let case = format!("{protocol} {sender:?} icmp {has_icmp} {before} {after} {len}");
                let (mut w, mut stream, path) = begun(protocol, len, sender, before);
                path.limit.store(after, Ordering::Relaxed);
                path.has_icmp.store(has_icmp, Ordering::Relaxed);
                let (shrunk_at, sent) = (w.seconds(), stream.sent);
                while stream.got < sent + 20 {
                    stream.step(&mut w);
                    let info = || w.client.info(w.id);
                    assert!(w.seconds() < shrunk_at + 2.0, "{case}: no progress, {:?}", info());
                }
            }
        }
    }
}

#[test]
fn a_sender_gives_up_after_the_idle_timeout_when_the_path_drops_even_the_base_size() {
    for protocol in Protocol::ALL {
        for sender in SENDERS {
            let (mut w, mut stream, path) = begun(protocol, 16_384, sender, 1472);
            path.limit.store(1100, Ordering::Relaxed);
            path.has_icmp.store(false, Ordering::Relaxed);
            let shrunk_at = w.seconds();
            let closed = |events: &[Event]| {
                events.iter().any(|e| matches!(e, Event::Closed(Some(Error::Silent { .. }))))
            };
            while !closed(&w.client_events) && !closed(&w.server_events) {
                w.ns.fetch_add(2_000_000, Ordering::Relaxed);
                stream.step(&mut w);
                assert!(w.seconds() < shrunk_at + 40.0, "{protocol} {sender:?}: still open");
                let info = match sender {
                    Sender::Client => w.client.info(w.id),
                    Sender::Server => w.server.info(w.served.unwrap()),
                };
                let resent = info.map_or(0, |info| info.counters.retransmissions);
                assert!(resent < 250, "{protocol} {sender:?}: {resent} retransmissions");
            }
        }
    }
}

fn adu_len(w: &World, sender: Sender) -> usize {
    match sender {
        Sender::Client => w.client.adu_len(w.id).unwrap().0,
        Sender::Server => w.server.adu_len(w.served.unwrap()).unwrap().0,
    }
}

#[test]
fn a_transfer_continues_after_an_outage_of_six_sevenths_of_the_idle_timeout() {
    for protocol in Protocol::ALL {
        for sender in SENDERS {
            let (mut w, mut stream, path) = begun(protocol, 16_384, sender, 1472);
            path.limit.store(0, Ordering::Relaxed);
            path.has_icmp.store(false, Ordering::Relaxed);
            let cut_at = w.seconds();
            // The idle timeout is 30 seconds by default.
            while w.seconds() < cut_at + 25.7 {
                w.ns.fetch_add(2_000_000, Ordering::Relaxed);
                stream.step(&mut w);
            }
            path.limit.store(1472, Ordering::Relaxed);
            let (restored_at, sent) = (w.seconds(), stream.sent);
            while stream.got < sent + 20 {
                stream.step(&mut w);
                let case = format!("{protocol} {sender:?}");
                assert!(w.seconds() < restored_at + 4.0, "{case}: {:?}", w.client_events);
            }
        }
    }
}
