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
//! | `association` | one context: its machine, its memory, its messages that wait |
//! | `sorted` | whose turn it is: SORT, and nobody starves |
//! | `place` | where data go, and the pass that brings them there |
//! | `input`, `output` | packets in and out |
//! | `event` | what is told |
//!
//! There is neither secrecy nor authenticity: sums are for errors, not for enemies. Who wants those has
//! [`Endpoint`](crate::Endpoint), over XTP too.

mod association;
mod block;
mod event;
mod input;
mod output;
mod place;
mod sorted;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::{Device, RxBatch, Waker};
use fusewire_kernels::Level;
use fusewire_transport::machine::{Ends, Info, Listener as _, Protocol as _};
use fusewire_transport::timer::Wheel;
use fusewire_transport::xtp::{self, Listener, Name, State};
use fusewire_wire::xtp::Key;

pub use fusewire_transport::machine::Secrets;

pub use block::{Check, ControlBlock, Rate, Retransmission};
pub use event::{Code, Diag, Ended, Event, Message, Reason};
pub use place::{Facts, Kept, Placement, Scatter};

use crate::clock::Clock;
use crate::drops::{Cause, Drops};
use crate::generations::Generations;
use crate::{Error, Result};
use association::Association;
use output::Output;
use sorted::Sorted;

/// The page's example.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/context.md")]
struct Page;

/// Super-packets taken from the device in one call.
const RECEIVE_SLOTS: usize = 8;
/// Resolution of timers.
const TICK: Duration = Duration::from_micros(500);
/// DIAGs to who is no context's peer, a second.
const DIAGS_A_SECOND: u32 = 100;

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

/// A context that was made and is not open: what it will be, and the memory that was lent to it.
struct Made {
    block: ControlBlock,
    memory: Vec<u8>,
}

enum Place {
    Made(Box<Made>),
    Open(Box<Association>),
}

/// Keys are drawn at random, by us: they are their own hash.
#[derive(Default)]
struct KeyHash(u64);

impl Hasher for KeyHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 ^ u64::from(*byte) ^ self.0 >> 56);
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

struct Listening {
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
    ready: Sorted<u32>,
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
    /// DIAGs since then.
    diags: (Instant, u32),
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
            diags: (now, 0),
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
        let made = Made { block, memory: Vec::new() };
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

    /// Opens a context to a service of the peer's. What is sent at once leaves with the first packet.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a context that was opened already; [`Error::Closed`].
    pub fn connect(&mut self, context: Context, remote: SocketAddr, service: u16) -> Result<()> {
        let Some(Place::Made(made)) = self.place_mut(context) else {
            return Err(Error::Misuse("a context is opened once"));
        };
        let (block, memory) = (made.block.clone(), std::mem::take(&mut made.memory));
        let now = self.clock.now();
        let remote = self.device.named(remote);
        let settings = self.settings(&block, remote);
        let flow = loop {
            self.next = self.next.wrapping_add(1);
            let flow = settings.flow_to(service, self.next, &self.key, now);
            if !self.by_key.contains_key(&flow.key.bits()) {
                break flow;
            }
        };
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

    /// Takes contexts of this service from now on, each made with `block`; [`Event::Accepted`] tells of them.
    pub fn listen(&mut self, service: u16, block: ControlBlock, secrets: &Secrets) {
        let settings = self.settings(&block, self.device.local_addr());
        let listener = settings.listen(self.config.backlog, secrets);
        self.listening.insert(service, Listening { listener, block });
    }

    /// Takes no further contexts of this service; those that are open go on.
    pub fn stop_listening(&mut self, service: u16) {
        self.listening.remove(&service);
    }

    /// Ends our stream in order: all messages before arrive, then the end.
    pub fn finish(&mut self, context: Context) {
        if let Some(association) = self.get_mut(context) {
            association.finish();
            self.make_ready(context.index);
        }
    }

    /// Ends a context at once, and forgets what was not sent.
    pub fn abort(&mut self, context: Context) {
        match self.place_mut(context) {
            Some(Place::Open(association)) => {
                association.machine.abort();
                self.make_ready(context.index);
            }
            Some(Place::Made(_)) => self.remove(context.index),
            None => {}
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
        Association::new(remote, machine, ring, block, self.config.level)
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

    fn insert(&mut self, place: Place) -> Result<Context> {
        if self.generations.taken() >= self.config.max_contexts && !self.forget_lingering() {
            return Err(Error::Misuse("too many contexts"));
        }
        let index = self.generations.take().unwrap_or_else(|| self.generations.add());
        let at = index as usize;
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        self.places[at] = Some(place);
        Ok(self.id(index))
    }

    /// The oldest of those that only linger makes room.
    fn forget_lingering(&mut self) -> bool {
        while let Some(context) = self.lingering.pop_front() {
            if self.get(context).is_some_and(|a| a.events.is_empty()) {
                self.remove(context.index);
                return true;
            }
        }
        false
    }

    fn id(&self, index: u32) -> Context {
        Context { index, generation: self.generations.of(index) }
    }

    fn place_mut(&mut self, context: Context) -> Option<&mut Place> {
        if !self.generations.is_current(context.index, context.generation) {
            return None;
        }
        self.places.get_mut(context.index as usize)?.as_mut()
    }

    fn get(&self, context: Context) -> Option<&Association> {
        if !self.generations.is_current(context.index, context.generation) {
            return None;
        }
        self.at(context.index)
    }

    fn get_mut(&mut self, context: Context) -> Option<&mut Association> {
        match self.place_mut(context) {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    fn at(&self, index: u32) -> Option<&Association> {
        match self.places.get(index as usize)? {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    fn at_mut(&mut self, index: u32) -> Option<&mut Association> {
        match self.places.get_mut(index as usize)? {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    /// Lets packets find the context by all names that are known now.
    fn name(&mut self, index: u32) {
        let Some(association) = self.at_mut(index) else { return };
        association.also = association.machine.also();
        let remote = association.remote;
        for Name { key, returned } in association.names() {
            if returned {
                self.by_key.insert(key.bits(), index);
            } else {
                self.by_peer.insert((remote, key), index);
            }
        }
    }

    fn remove(&mut self, index: u32) {
        let Some(place) = self.places[index as usize].take() else { return };
        if let Place::Open(association) = place {
            for Name { key, returned } in association.names() {
                if returned {
                    self.by_key.remove(&key.bits());
                } else {
                    self.by_peer.remove(&(association.remote, key));
                }
            }
            if association.ready.is_some() {
                self.ready.remove(|ready| *ready == index);
            }
        }
        self.timers.cancel(index);
        self.generations.give_back(index);
    }

    // ---- messages

    /// Sends a message of these pieces, in one pass that gathers and checks them. False when there is no room:
    /// [`Event::Writable`] tells when to try again. It leaves with the next [`Contexts::poll`], or [`Contexts::flush`].
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::TooLong`] for more than [`ControlBlock::send_bytes`]; [`Error::Misuse`] for a message
    /// without a byte, or after [`Contexts::finish`].
    pub fn send(&mut self, context: Context, pieces: &[IoSlice<'_>], about: About) -> Result<bool> {
        let clock = self.clock.clone();
        let association = self.get_mut(context).ok_or(Error::Closed)?;
        let is_taken = association.send(|| clock.now(), pieces, about.tag, about.sort)?;
        self.make_ready(context.index);
        Ok(is_taken)
    }

    /// As [`Contexts::send`], of memory that is lent: it is read once, when the message leaves. The message comes back when
    /// there is no room for it.
    ///
    /// # Errors
    /// As [`Contexts::send`].
    pub fn send_lent(
        &mut self,
        context: Context,
        message: Vec<u8>,
        about: About,
    ) -> Result<std::result::Result<(), Vec<u8>>> {
        let association = self.get_mut(context).ok_or(Error::Closed)?;
        let is_taken = association.send_lent(message, about.tag, about.sort)?;
        self.make_ready(context.index);
        Ok(is_taken)
    }

    /// Another priority of a context, or none.
    pub fn set_sort(&mut self, context: Context, sort: Option<u16>) {
        if let Some(association) = self.get_mut(context) {
            association.set_sort(sort);
            if association.ready.is_some() {
                self.make_ready(context.index);
            }
        }
    }

    /// Where a message lies in the context's receive buffer: in one piece, or two. Nothing, if it was placed elsewhere.
    pub fn message(&self, context: Context, message: &Message) -> [&[u8]; 2] {
        self.get(context).map_or([&[], &[]], |association| association.pieces(&message.range))
    }

    /// The memory of a message may be used for others: until then the peer's window stays closed by as much.
    pub fn release(&mut self, context: Context, message: &Message) {
        if let Some(association) = self.get_mut(context) {
            association.release(message.range.clone());
            if association.machine.wants_ack() {
                self.make_ready(context.index);
            }
        }
    }

    /// The receive buffer that was lent, of a context that is over: ask with [`Event::Closed`], before the next event.
    pub fn take_back(&mut self, context: Context) -> Option<Vec<u8>> {
        let association = self.get_mut(context).filter(|association| association.closed)?;
        Some(association.take_memory())
    }

    /// Bytes of messages that were not acknowledged yet.
    pub fn unsent(&self, context: Context) -> usize {
        self.get(context).map_or(0, Association::unsent)
    }

    /// Data bytes of a packet now: a message of so many leaves in one.
    pub fn packet_data(&self, context: Context) -> usize {
        self.get(context).map_or(0, |association| association.machine.max_payload() as usize)
    }

    /// The peer's address.
    pub fn remote_addr(&self, context: Context) -> Option<SocketAddr> {
        Some(self.get(context)?.remote)
    }

    /// Estimates and counters.
    pub fn info(&self, context: Context) -> Option<Info> {
        Some(self.get(context)?.machine.info())
    }

    // ---- events

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<(Context, Event)> {
        while let Some(&index) = self.eventful.front() {
            let id = self.id(index);
            if let Some(event) = self.at_mut(index).and_then(|a| a.events.pop_front()) {
                if let Event::Accepted { service } = event
                    && let Some(listening) = self.listening.get_mut(&service)
                {
                    listening.listener.taken();
                }
                return Some((id, event));
            }
            self.eventful.pop_front();
            if let Some(association) = self.at_mut(index) {
                association.is_eventful = false;
            }
            self.reap(index);
        }
        None
    }

    /// Forgets a context that is over, and whose events were taken.
    fn reap(&mut self, index: u32) {
        let is_over = self.at(index).is_some_and(|a| {
            a.closed
                && a.events.is_empty()
                && a.machine.state() == State::Quiescent
                && a.ready.is_none()
        });
        if is_over {
            self.remove(index);
        }
    }

    /// After anything that may have changed a context.
    fn settle(&mut self, index: u32) {
        let id = self.id(index);
        let Some(association) = self.at_mut(index) else { return };
        association.poll_machine();
        let lingers = association.machine.state() == State::Inactive;
        let began = lingers && !std::mem::replace(&mut association.is_lingering, true);
        let has_news = !association.events.is_empty()
            && !std::mem::replace(&mut association.is_eventful, true);
        let is_named = association.also == association.machine.also();
        if has_news {
            self.eventful.push_back(index);
        }
        if began {
            self.lingering.push_back(id);
        }
        if !is_named {
            self.name(index);
        }
    }

    /// The context may have something to send.
    fn make_ready(&mut self, index: u32) {
        let Some(Some(Place::Open(association))) = self.places.get_mut(index as usize) else {
            return;
        };
        let sort = association.sort();
        if association.ready == Some(sort) {
            return;
        }
        if association.ready.replace(sort).is_some() {
            // What waits now has another priority.
            self.ready.remove(|ready| *ready == index);
        }
        self.ready.push(sort, index);
    }

    fn reschedule(&mut self, index: u32) {
        let at = self.at(index).and_then(|association| association.machine.poll_timeout());
        self.timers.set(index, at);
    }
}
