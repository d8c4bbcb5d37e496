//! Two hosts, the link between them, and a clock that goes on as soon as nothing is left to do at its time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, TxFrame};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::transport::Secrets;
use fusewire_stack::{Clock, Config, ConnectionId, Event, Keep, Stack};

use super::wrong;
use crate::joined::address;
use crate::{Error, Result};

/// The server's port, in its transport.
const SERVICE: u16 = 9293;
/// Bytes around a datagram: headers of UDP and IPv4.
const AROUND: u64 = 28;
/// How long a packet waits for its turn on the link, at most.
const QUEUE: Duration = Duration::from_millis(100);
/// The clock goes on by so much at most: while there is work, as acknowledgements wait for a moment; and otherwise.
const STEPS: [Duration; 2] = [Duration::from_micros(25), Duration::from_millis(1)];
/// And by so much at least.
const STEP_MIN: Duration = Duration::from_micros(5);
/// What a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What lies between two hosts, both ways alike.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Twice the way.
    pub round_trip: Duration,
    /// What passes, headers of UDP and IP left out.
    pub bits_per_s: u64,
    /// The share of packets that are lost, each by itself.
    pub loss: f64,
}

impl Path {
    fn rules(&self) -> Rules {
        let bytes_per_s = self.bits_per_s / 8;
        Rules {
            loss: self.loss,
            delay: self.round_trip / 2,
            rate: Some(bytes_per_s),
            queue_bytes: (bytes_per_s as f64 * QUEUE.as_secs_f64()) as usize,
            ..Rules::NONE
        }
    }
}

/// The link's clock, and what went over it.
#[derive(Clone)]
pub(super) struct Link {
    ns: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    /// From the first host to the second.
    forth: Arc<Mutex<Rules>>,
}

impl Link {
    /// With the device of each host.
    pub fn new(path: &Path, seed: u64) -> Result<(Link, [Box<dyn Device>; 2])> {
        let network = Network::new(memory::Config { mailbox_bytes: 8 << 20, ..Default::default() });
        let (ns, sent) = (Arc::new(AtomicU64::new(1)), Arc::<AtomicU64>::default());
        let time = ns.clone();
        let now = move || Instant::from_ns(time.load(Ordering::Relaxed));
        let attach = |host| {
            let memory = network.attach(address(host, 1));
            memory.map_err(Error::os("attaching to the network in memory"))
        };
        let forth = Arc::new(Mutex::new(path.rules()));
        let one = Impair::new(attach(1)?, path.rules(), path.rules(), seed, now);
        let one = one.following(forth.clone());
        let other = attach(2)?;
        let one = Counted { inner: one, sent: sent.clone() };
        let other = Counted { inner: other, sent: sent.clone() };
        Ok((Link { ns, sent, forth }, [Box::new(one), Box::new(other)]))
    }

    pub fn now(&self) -> Instant {
        Instant::from_ns(self.ns.load(Ordering::Relaxed))
    }

    pub fn pass(&self, time: Duration) {
        self.ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// So much passes from the first host to the second from now on, and so long a packet waits for its turn at most.
    pub fn set_forth(&self, bits_per_s: u64, queue: Duration) {
        let mut forth = self.forth.lock().unwrap_or_else(PoisonError::into_inner);
        forth.rate = Some(bits_per_s / 8);
        forth.queue_bytes = ((bits_per_s / 8) as f64 * queue.as_secs_f64()) as usize;
    }

    /// Bytes of packets that left either host, headers of UDP and IPv4 included.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// Counts what leaves.
struct Counted<D> {
    inner: D,
    sent: Arc<AtomicU64>,
}

impl<D: Device> Device for Counted<D> {
    fusewire_device::forward!(self => self.inner; caps local_addr named receive wait next_timeout);
    fusewire_device::forward!(self => self.inner; waker as_fd drops poll_event);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let taken = self.inner.transmit(frames)?;
        let bytes = frames[..taken].iter().map(|frame| frame.len() as u64 + AROUND).sum();
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        Ok(taken)
    }
}

/// Two stacks with a session: who opened it, and who took it.
pub(super) struct World {
    pub link: Link,
    pub ends: [Stack; 2],
    pub ids: [ConnectionId; 2],
}

impl World {
    /// A session over that path, whose datagrams have so many bytes.
    pub fn new(path: &Path, config: Config, datagram_bytes: usize, seed: u64) -> Result<World> {
        let (link, devices) = Link::new(path, seed)?;
        let clock = Clock::virtual_ns(link.ns.clone());
        let config = Config { clock, datagram_bytes: Some(datagram_bytes), ..config };
        let mut host = 0;
        let [mut client, mut server] = devices.map(|device| {
            host += 1;
            // Nobody else is here: what is drawn need not be secret, and is the same each time.
            Stack::new(device, config.clone(), &[host; 32])
        });
        let identity = Arc::new(Identity::ephemeral()?);
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        server.listen(SERVICE, ServerConfig::new(identity.clone()), &secrets);
        let asking = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
        client.connect(server.local_addr(), SERVICE, &asking)?;
        let mut ends = [client, server];
        let mut ids = [None; 2];
        while ids.contains(&None) {
            let worked = settle(&mut ends)?;
            for (end, opened) in ends.iter_mut().zip(&mut ids) {
                while let Some((id, event)) = end.poll_event() {
                    check(&event)?;
                    *opened = opened.or(matches!(event, Event::Connected { .. }).then_some(id));
                }
            }
            if link.now() > Instant::ZERO + HANDSHAKE {
                return Err(wrong("no session is open".into()));
            }
            advance(&link, &ends, worked, None);
        }
        let [Some(client), Some(server)] = ids else {
            return Err(wrong("no session is open".into()));
        };
        Ok(World { link, ends, ids: [client, server] })
    }

    /// Goes on until `app`, which is asked whenever something may have happened, says so by `None`, and otherwise when it wants
    /// to be asked at the latest; for so long at most.
    pub fn run(
        &mut self,
        limit: Duration,
        mut app: impl FnMut(&mut [Stack; 2], [ConnectionId; 2], Instant) -> Result<Option<Instant>>,
    ) -> Result<()> {
        let until = self.link.now() + limit;
        loop {
            let worked = settle(&mut self.ends)?;
            for end in &mut self.ends {
                while let Some((_, event)) = end.poll_event() {
                    check(&event)?;
                }
            }
            let now = self.link.now();
            let Some(next) = app(&mut self.ends, self.ids, now)? else { return Ok(()) };
            if now > until {
                return Err(wrong(format!("not all has come in {limit:?}")));
            }
            self.ends.iter_mut().for_each(Stack::flush);
            let worked = settle(&mut self.ends)? || worked;
            advance(&self.link, &self.ends, worked, Some(next));
        }
    }
}

/// Does what is to be done now; whether there was something.
fn settle(ends: &mut [Stack; 2]) -> Result<bool> {
    let mut worked = false;
    loop {
        let [client, server] = ends;
        if !(client.poll(&mut Keep)? | server.poll(&mut Keep)?) {
            return Ok(worked);
        }
        worked = true;
    }
}

/// Lets the time pass until there is something to do.
fn advance(link: &Link, ends: &[Stack; 2], worked: bool, next: Option<Instant>) {
    let next = next.map(|next| next.saturating_since(link.now()));
    let due = ends.iter().filter_map(Stack::next_timeout).chain(next).min();
    let most = STEPS[usize::from(!worked)];
    link.pass(due.map_or(most, |due| due.clamp(STEP_MIN, most)));
}

/// The session goes on.
fn check(event: &Event) -> Result<()> {
    match event {
        Event::Closed(why) => Err(wrong(format!("the session ended: {why:?}"))),
        _ => Ok(()),
    }
}
