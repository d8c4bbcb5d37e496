//! Contexts of XTP: messages of an application's, without a session, straight from its memory and to it.
//!
//! The interface is that of Dabbous, section 4.1. The application makes a context first and gives it a [`ControlBlock`]: the
//! mechanisms that it wants and its largest buffers. Writes gather, and one pass brings what they gather to the packets with
//! the check made on the way. Of a packet that comes the header alone is looked at; then the application, or the context's
//! receive buffer, says where the data belong ([`Placement`]), and one pass brings them there and checks them. The
//! application hears of whole messages, if it wants also behind a gap. `docs/context.md` shows all of it.
//!
//! | file | what |
//! |---|---|
//! | `block` | the control block |
//! | `association` | one context of a stream: its machine, its memory, its messages that wait |
//! | `exchange`, `single` | one of services 1 to 3: a message and what is said to it |
//! | `services` | services of ours that take such messages |
//! | `table`, `standing` | all contexts, by their keys; what the list knows of each |
//! | `messages` | what the application does with contexts that are there |
//! | `sorted` | whose turn it is: SORT, and nobody starves |
//! | `place` | where data go, and the pass that brings them there |
//! | `input`, `output` | packets in and out |
//! | `path` | questions about the path, and answers |
//! | `event` | what is told |
//!
//! There is neither secrecy nor authenticity: sums are for errors, not for enemies. Who wants those has
//! [`Endpoint`](crate::Endpoint), over XTP too.

mod association;
mod block;
mod event;
mod exchange;
mod input;
mod messages;
#[cfg(feature = "view")]
mod observe;
mod output;
mod path;
mod place;
mod services;
mod single;
mod sorted;
mod standing;
mod table;

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::capture::feed::{self, Blocks, Options};
use fusewire_device::{Device, RxBatch, Waker};
use fusewire_kernels::Level;
use fusewire_transport::machine::{Connection as _, Counters, Ends, Listener as _, Protocol as _};
use fusewire_transport::timer::Wheel;
use fusewire_transport::xtp::{self, Listener, Name, State};
use fusewire_wire::xtp::{Key, KeyHash};

pub use fusewire_transport::machine::Secrets;
/// XTP's number as a protocol of IP.
pub use fusewire_wire::xtp::NUMBER;

pub use block::{Check, ControlBlock, Kind, Rate, Retransmission};
pub use event::{Code, Diag, Ended, Event, Message, Reason};
pub use place::{Facts, Kept, Placement, Scatter};

use crate::asked::Asked;
use crate::clock::Clock;
use crate::drops::{Cause, Drops};
use crate::generations::Generations;
use crate::path::Path;
use crate::path::question::Nonces;
use crate::trace::Trace;
use crate::watch::Watch;
use crate::{Error, Refusals, Result};
use association::Association;
use exchange::{Exchange, Role, Singles};
use output::Output;
use sorted::Sorted;
use standing::Standing;
use table::{Made, Place};

/// The page's example.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/context.md")]
struct Page;

/// Super-packets taken from the device in one call.
const RECEIVE_SLOTS: usize = 8;
/// Resolution of timers.
const TICK: Duration = Duration::from_micros(500);

/// Names a context. A name is never used again while it is in use, and a stale one finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    index: u32,
    generation: u32,
}

/// Settings of all contexts of a device.
#[derive(Clone, Debug)]
pub struct Config {
    /// CPU level of the loops.
    pub level: Level,
    /// Contexts at once; further ones are refused.
    pub max_contexts: usize,
    /// Contexts of a service that are half open, and those that wait to be heard of.
    pub backlog: usize,
    /// Bytes of a packet, where the user knows all paths.
    pub packet_bytes: Option<usize>,
    /// How many DIAGs leave in a second to who is no context's peer; a clone is shared.
    pub refusals: Refusals,
    /// How long to look for packets without sleeping after there was work.
    pub spin: Duration,
    /// What time it is; a test brings its own.
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            level: Level::detect(),
            max_contexts: 4096,
            backlog: 256,
            packet_bytes: None,
            refusals: Refusals::default(),
            spin: Duration::from_micros(50),
            clock: Clock::new(),
        }
    }
}

/// What a message says besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// 8 bytes of the application's, with [`ControlBlock::tags`].
    pub tag: Option<u64>,
    /// Its priority, with [`ControlBlock::sort`]; otherwise the context's.
    pub sort: Option<u16>,
}

/// What a stream has, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that wait here: of messages that were sent and not acknowledged, came and were not released.
    pub bytes: u64,
    /// Packets that it has sent.
    pub packets: u64,
}

/// Messages of services 1 to 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Ours that were begun.
    pub sent: u64,
    /// Those whose fate is known, and is what they were sent for: delivered, answered, or left as a datagram.
    pub done: u64,
    /// Those that came whole, and were told of.
    pub received: u64,
    /// Those of them that were answered.
    pub answered: u64,
}

impl Counted {
    /// As views name them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("messages_sent", self.sent),
            ("messages_done", self.done),
            ("messages_received", self.received),
            ("messages_answered", self.answered),
        ]
        .into_iter()
    }
}

/// Who waits for a turn to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiter {
    Context(u32),
    /// What this service has to say to messages that came.
    Service(u16),
}

/// Who takes contexts of a service.
enum Listening {
    Streams(Box<Streams>),
    Singles(Box<Singles>),
}

struct Streams {
    listener: Listener,
    block: ControlBlock,
}

/// Contexts over one device. Single-threaded, and nothing blocks but [`Contexts::wait`].
pub struct Contexts {
    device: Box<dyn Device>,
    batch: Option<RxBatch>,
    clock: Clock,
    config: Config,
    places: Vec<Option<Place>>,
    generations: Generations,
    /// Keys that are ours, and keys of peers'.
    by_key: HashMap<u64, u32, BuildHasherDefault<KeyHash>>,
    by_peer: HashMap<(SocketAddr, Key), u32>,
    listening: HashMap<u16, Listening>,
    /// Contexts that have something to send, perhaps.
    ready: Sorted<Waiter>,
    /// Contexts of which packets of this batch came.
    touched: Vec<u32>,
    eventful: VecDeque<u32>,
    /// Contexts that linger, since when first in front.
    lingering: VecDeque<Context>,
    timers: Wheel,
    output: Output,
    /// Makes keys.
    key: [u8; 16],
    next: u16,
    drops: Drops,
    counted: Counted,
    nonces: Nonces,
    /// Memory of the question that is being asked.
    question: Vec<u8>,
    /// Counters of streams that are gone, and what those dropped who listen.
    past: Counters,
    watch: Watch,
    /// What became last of messages that go alone, and of what answers them.
    requests: Trace<Option<Context>>,
    asked: Option<Asked<Contexts>>,
    last_work: Instant,
}

impl Contexts {
    /// Contexts over `device`. `seed` makes their keys: 32 secret random bytes.
    pub fn new(device: Box<dyn Device>, config: Config, seed: &[u8; 32]) -> Contexts {
        let now = config.clock.now();
        let mut key = [0; 16];
        key.copy_from_slice(&seed[..16]);
        Contexts {
            device,
            batch: Some(RxBatch::new(RECEIVE_SLOTS)),
            clock: config.clock.clone(),
            places: Vec::new(),
            generations: Generations::default(),
            by_key: HashMap::default(),
            by_peer: HashMap::new(),
            listening: HashMap::new(),
            ready: Sorted::default(),
            touched: Vec::new(),
            eventful: VecDeque::new(),
            lingering: VecDeque::new(),
            timers: Wheel::new(now, TICK, config.max_contexts),
            output: Output::new(),
            key,
            next: u16::from_ne_bytes([seed[30], seed[31]]),
            drops: Drops::default(),
            counted: Counted::default(),
            nonces: Nonces::new(seed),
            question: Vec::new(),
            past: Counters::default(),
            watch: Watch::default(),
            requests: Trace::default(),
            asked: None,
            last_work: now,
            config,
        }
    }

    /// Our address as the device knows it.
    pub fn local_addr(&self) -> SocketAddr {
        self.device.local_addr()
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Wakes [`Contexts::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.device.waker()
    }

    /// Begins a capture of every packet that comes and leaves, each that was dropped with a comment. It ends when its blocks
    /// are dropped. `None`: one is under way.
    pub fn capture(&mut self, options: Options) -> Option<Blocks> {
        let (caps, local, now) = (self.device.caps(), self.device.local_addr(), self.clock.now());
        self.watch.begin(|| feed::of_device(caps.name, local, NUMBER, options, now))
    }

    /// What came and left of services 1 to 3.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// What was dropped before a context was found.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Contexts that are made, open or closing.
    pub fn count(&self) -> usize {
        self.generations.taken()
    }

    // ---- opening and closing

    /// A context that is to do what `block` says.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there are too many.
    pub fn context(&mut self, block: ControlBlock) -> Result<Context> {
        let made = Made { block, memory: Vec::new(), to: None };
        self.insert(Place::Made(Box::new(made)))
    }

    /// The receive buffer of a context that was made, in place of memory of its own: the first bytes of the peer's stream
    /// come to its first bytes.
    ///
    /// # Errors
    /// [`Error::Misuse`] when the context is open, or the memory shorter than [`ControlBlock::receive_bytes`].
    pub fn lend(&mut self, context: Context, memory: Vec<u8>) -> Result<()> {
        match self.place_mut(context) {
            Some(Place::Made(made)) if memory.len() >= made.block.receive_bytes as usize => {
                made.memory = memory;
                Ok(())
            }
            _ => Err(Error::Misuse("a receive buffer is lent before the context opens, and whole")),
        }
    }

    /// Opens a context to a service of the peer's. What is sent at once leaves with the first packet; one for a single
    /// message ([`ControlBlock::kind`]) has nothing to say before that is sent.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a context that was opened already; [`Error::Closed`].
    pub fn connect(&mut self, context: Context, remote: SocketAddr, service: u16) -> Result<()> {
        let remote = self.device.named(remote);
        let made = match self.place_mut(context) {
            Some(Place::Made(made)) if made.to.is_none() => made,
            Some(Place::Unopened(_)) | None => return Err(Error::Closed),
            _ => return Err(Error::Misuse("a context is opened once")),
        };
        if made.block.kind != Kind::Stream {
            made.to = Some((remote, service));
            return Ok(());
        }
        let (block, memory) = (made.block.clone(), std::mem::take(&mut made.memory));
        let now = self.clock.now();
        let settings = self.settings(&block, remote);
        let flow = self.draw(&settings, service, now);
        let ends = Ends { local: self.device.local_addr(), remote, flow };
        let machine = Box::new(settings.connect(&ends, service, &self.key, now));
        let mut association = self.associate(remote, machine, block);
        if !memory.is_empty() {
            association.lend(memory)?;
        }
        self.places[context.index as usize] = Some(Place::Open(Box::new(association)));
        self.name(context.index);
        self.make_ready(context.index);
        Ok(())
    }

    /// A key of ours that no context has.
    fn draw(&mut self, settings: &xtp::Config, service: u16, now: Instant) -> Name {
        loop {
            self.next = self.next.wrapping_add(1);
            let name = settings.flow_to(service, self.next, &self.key, now);
            if !self.by_key.contains_key(&name.key.bits()) {
                return name;
            }
        }
    }

    /// Takes contexts of this service from now on, each made with `block`; [`Event::Accepted`] tells of them.
    pub fn listen(&mut self, service: u16, block: ControlBlock, secrets: &Secrets) {
        self.stop_listening(service);
        let settings = self.settings(&block, self.device.local_addr());
        let listening = if block.kind == Kind::Stream {
            let listener = settings.listen(self.config.backlog, secrets);
            Listening::Streams(Box::new(Streams { listener, block }))
        } else {
            Listening::Singles(Box::new(self.singles(&settings, block, secrets)))
        };
        self.listening.insert(service, listening);
    }

    /// Takes no further contexts of this service. Those that are open go on; single messages that came and were not
    /// answered are not any more.
    pub fn stop_listening(&mut self, service: u16) {
        if let Some(Listening::Singles(singles)) = self.listening.remove(&service) {
            self.ready.remove(|waiter| *waiter == Waiter::Service(service));
            for index in singles.asked.into_values() {
                self.lose(index);
            }
        }
    }

    /// Ends our stream in order: all messages before arrive, then the end.
    pub fn finish(&mut self, context: Context) {
        if let Some(association) = self.get_mut(context) {
            association.finish();
            self.make_ready(context.index);
        }
    }

    /// Ends a context immediately and discards what was not sent. [`Event::Closed`] follows, also of a context that was never
    /// connected or never sent.
    pub fn abort(&mut self, context: Context) {
        match self.place_mut(context) {
            Some(Place::Open(association)) => {
                association.machine.abort();
                association.standing.outstanding = 0;
                self.settle(context.index);
                self.make_ready(context.index);
            }
            Some(place @ Place::Made(_)) => {
                place.end_unopened();
                self.settle(context.index);
            }
            Some(Place::Single(_)) => self.give_up(context.index),
            Some(Place::Unopened(_)) | None => {}
        }
    }

    fn associate(
        &self,
        remote: SocketAddr,
        machine: Box<xtp::Connection>,
        block: ControlBlock,
    ) -> Association {
        // Each packet has room for a header and a trailer, and what is left where memory ends is not used.
        let bytes = block.send_bytes as usize;
        let ring = self.device.region(bytes + bytes / 4 + (128 << 10));
        let is_known =
            self.is_whole_path(remote) || block.packet_bytes.or(self.config.packet_bytes).is_some();
        let path = Path::new((!is_known).then_some(self.device.caps().max_datagram));
        Association::new(remote, machine, ring, block, self.config.level, path)
    }

    fn settings(&self, block: &ControlBlock, remote: SocketAddr) -> xtp::Config {
        let caps = self.device.caps();
        let packet = block.packet(&self.config, caps, self.is_whole_path(remote));
        block.settings(caps, packet)
    }

    /// Nothing lies between, that might carry less than the device.
    fn is_whole_path(&self, remote: SocketAddr) -> bool {
        remote.ip().is_loopback() || self.device.caps().is_whole_path
    }
}
