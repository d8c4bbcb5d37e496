//! The responder of services 1 to 3: a table of contexts, with a bound.

mod input;
mod table;

use core::cell::Cell;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Key, KeyHash, Service};

use super::super::connection::Name;
use super::super::cookies::{Keys, Spent};
use super::super::half_open::Places;
use super::super::{Config, Header, Transmit};
use super::context::{Context, Phase};
use crate::machine::{Again, DropCause, Drops, Initial, Secrets};
use crate::timer::Wheel;

/// Resolution of timers.
const TICK: Duration = Duration::from_millis(1);

/// How much a responder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Contexts, those that are inactive included, of which the oldest makes room.
    pub contexts: usize,
    /// Requests of addresses that have proven nothing, while they are not answered; beyond it they get cookies. One address
    /// has half of them.
    pub half_open: usize,
    /// Bytes of answers that are kept to be said again; the oldest is let go.
    pub answer_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { contexts: 16 << 10, half_open: 512, answer_bytes: 16 << 20 }
    }
}

/// Names a request that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    index: u32,
    generation: u32,
}

impl Id {
    /// Its place in the table, from 0: no two that are there have the same, and it is below [`Bounds::contexts`].
    pub fn place(self) -> usize {
        self.index as usize
    }
}

/// A whole request, or a message of service 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// 2 or 3.
    pub service: Service,
    /// Bytes of it.
    pub len: u32,
    /// The initiator's 8 bytes.
    pub btag: Option<u64>,
    /// Who asks.
    pub from: SocketAddr,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All of it has come: hand it over, then [`Responder::answer`], or [`Responder::delivered`] for service 2, or
    /// [`Responder::refuse`].
    Arrived(Arrived),
    /// Its bytes, and those of its answer, are needed no more.
    Gone,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Nothing; it was counted.
    Drop(DropCause),
    /// Send this, if the packet's check is right.
    Reply(Header),
    /// Service 1: its data are a message, if its check is right. Nothing is kept of it.
    Datagram(Initial),
    /// Run the integrated step, then [`Responder::handle_final`].
    Take(Initial),
}

/// Who asks: the address, and the initiator's key.
type Asking = (SocketAddr, Key);

struct Place {
    generation: u32,
    context: Option<Box<Context>>,
}

/// Contexts of services 1 to 3 at the responder, without I/O (`docs/xtp.md`, section 15).
///
/// A request is handed over at most once, as long as its context is remembered: [`Config::linger`] after the answer, but
/// for [`Bounds::contexts`].
pub struct Responder {
    cfg: Config,
    bounds: Bounds,
    keys: Keys,
    cookies: Keys,
    spent: Spent,
    places: Places,
    contexts: Vec<Place>,
    free: Vec<u32>,
    by_name: HashMap<Asking, u32>,
    /// Who was looked for there last, and what was found, until something is put there or taken away: each step that a packet
    /// passes asks.
    looked_for: Cell<Option<(Asking, Option<u32>)>>,
    /// By our own.
    by_key: HashMap<Key, u32, BuildHasherDefault<KeyHash>>,
    timers: Wheel,
    /// Inactive ones, and when they are forgotten, the first in front.
    inactive: VecDeque<(Instant, Id)>,
    /// Those that have answers kept, the oldest in front.
    kept: VecDeque<Id>,
    answer_bytes: usize,
    ready: VecDeque<u32>,
    events: VecDeque<(Id, Event)>,
    drops: Drops,
    cookies_given: u64,
}

impl core::fmt::Debug for Responder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Responder")
            .field("contexts", &self.contexts())
            .field("inactive", &self.inactive.len())
            .field("answer_bytes", &self.answer_bytes)
            .finish_non_exhaustive()
    }
}

impl Responder {
    /// A responder without contexts, whose contexts are made with `cfg`.
    pub fn new(cfg: &Config, bounds: Bounds, secrets: &Secrets, now: Instant) -> Responder {
        let bounds = Bounds { contexts: bounds.contexts.max(1), ..bounds };
        Responder {
            // Its initiator gives up after so long, if it hears nothing.
            cfg: Config { half_open_timeout: cfg.opening_timeout, ..cfg.clone() },
            bounds,
            keys: Keys::new(&secrets.isn),
            cookies: Keys::new(&secrets.cookie),
            spent: Spent::default(),
            places: Places::default(),
            contexts: Vec::new(),
            free: Vec::new(),
            by_name: HashMap::new(),
            looked_for: Cell::new(None),
            by_key: HashMap::default(),
            timers: Wheel::new(now, TICK, bounds.contexts),
            inactive: VecDeque::new(),
            kept: VecDeque::new(),
            answer_bytes: 0,
            ready: VecDeque::new(),
            events: VecDeque::new(),
            drops: Drops::default(),
            cookies_given: 0,
        }
    }

    /// Contexts, those that are inactive included.
    pub fn contexts(&self) -> usize {
        self.contexts.len() - self.free.len()
    }

    /// Bytes of answers that are kept.
    pub fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Requests of addresses that have proven nothing.
    pub fn half_open(&self) -> usize {
        self.places.taken()
    }

    /// Cookies given out.
    pub fn cookies_given(&self) -> u64 {
        self.cookies_given
    }

    /// Why what is said again now is said again; `None`: it was asked again.
    pub fn again(&self, id: Id) -> Option<Again> {
        let place = self.contexts.get(id.index as usize);
        let context = place.filter(|place| place.generation == id.generation)?.context.as_ref();
        match &context?.phase {
            Phase::Talking(c) => Some(c.again()),
            _ => None,
        }
    }

    /// What was dropped, by cause.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Whether a packet from this address is for a context that is here, or is one that may make one: FIRST of services 1
    /// to 3.
    pub fn knows(&self, remote: SocketAddr, h: &Header) -> bool {
        self.find(remote, h).is_some() || is_ours(h)
    }

    /// Whether a packet from this address is for a context that is here.
    pub fn has(&self, remote: SocketAddr, h: &Header) -> bool {
        self.find(remote, h).is_some()
    }

    /// Somebody waits for the answer to this request.
    pub fn waits_for_answer(&self, id: Id) -> bool {
        let place = self.contexts.get(id.index as usize);
        let context = place.filter(|place| place.generation == id.generation);
        context
            .and_then(|place| place.context.as_ref())
            .is_some_and(|context| context.waits_for_answer())
    }

    /// Something is remembered of this request.
    pub(super) fn is_there(&self, id: Id) -> bool {
        let place = self.contexts.get(id.index as usize);
        place.is_some_and(|place| place.generation == id.generation && place.context.is_some())
    }

    /// The request that a packet from this address is for, if it is here.
    pub fn id_of(&self, remote: SocketAddr, h: &Header) -> Option<Id> {
        self.find(remote, h).map(|index| self.id(index))
    }

    fn find(&self, remote: SocketAddr, h: &Header) -> Option<u32> {
        let name = Name { key: h.key, returned: h.returned };
        match (name.returned, &h.body) {
            (true, _) => self.by_key.get(&name.key).copied(),
            (false, Body::First(_) | Body::Diag(_)) => self.find_named((remote, name.key)),
            (false, _) => None,
        }
    }

    fn find_named(&self, name: Asking) -> Option<u32> {
        if let Some((last, found)) = self.looked_for.get()
            && last == name
        {
            return found;
        }
        let found = self.by_name.get(&name).copied();
        self.looked_for.set(Some((name, found)));
        found
    }

    fn get(&mut self, id: Id) -> Option<&mut Context> {
        there(&mut self.contexts, id)
    }

    fn context(&mut self, index: u32) -> Option<&mut Context> {
        self.contexts[index as usize].context.as_deref_mut()
    }

    fn id(&self, index: u32) -> Id {
        Id { index, generation: self.contexts[index as usize].generation }
    }

    fn dropped(&mut self, cause: DropCause) -> Incoming {
        self.drops.count(cause);
        Incoming::Drop(cause)
    }

    /// The answer to a request; its bytes are kept by the caller until [`Event::Gone`]. Nothing happens if the request is
    /// gone, or was answered.
    pub fn answer(&mut self, now: Instant, id: Id, len: u32, proves_itself: bool) {
        let Responder { cfg, contexts, .. } = self;
        let Some(context) = there(contexts, id) else { return };
        if !context.waits_for_answer() {
            return;
        }
        if matches!(context.phase, Phase::Handed) && context.fits(cfg, len) {
            context.phase = Phase::Answered { len, proves_itself };
            context.is_ready = true;
            self.keep(now, id, len);
        } else if context.talk(cfg, now).send_all(len) {
            self.settle(now, id.index);
        } else {
            self.refuse(now, id);
        }
    }

    /// The path to who asked carries so many bytes of header and body together.
    pub fn set_tpdu_len(&mut self, id: Id, bytes: usize) {
        if let Some(context) = self.get(id) {
            context.tpdu_len = Some(bytes);
        }
    }

    /// A message of service 2 was handed over.
    pub fn delivered(&mut self, now: Instant, id: Id) {
        let Some(context) = self.get(id) else { return };
        if matches!(context.phase, Phase::Handed) && context.service != Service::Transaction {
            context.phase = Phase::Delivered;
            context.is_ready = true;
            self.retire(now, id.index);
            self.events.push_back((id, Event::Gone));
            self.ready.push_back(id.index);
        }
    }

    /// The application does not answer.
    pub fn refuse(&mut self, now: Instant, id: Id) {
        let Some(context) = self.get(id) else { return };
        match &mut context.phase {
            Phase::Handed => {
                context.phase = Phase::Refused;
                context.is_ready = true;
                self.retire(now, id.index);
                self.events.push_back((id, Event::Gone));
                self.ready.push_back(id.index);
            }
            Phase::Talking(c) => {
                c.abort();
                self.settle(now, id.index);
            }
            _ => {}
        }
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<(Id, Event)> {
        self.events.pop_front()
    }

    /// The next packet to put on the wire, and where to; its payload is a range of that request's answer.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(Id, SocketAddr, Transmit)> {
        while let Some(&index) = self.ready.front() {
            let id = self.id(index);
            if let Some(context) = self.context(index) {
                if let Some(transmit) = context.transmit(now) {
                    return Some((id, context.remote, transmit));
                }
                context.is_ready = false;
                if let Phase::Talking(c) = &context.phase {
                    let due = c.poll_timeout();
                    self.timers.set(index, due);
                }
            }
            self.ready.pop_front();
        }
        None
    }

    /// When to call [`Responder::handle_timeout`] at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let forget = self.inactive.front().map(|(at, _)| *at);
        [self.timers.next_deadline(), forget].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.inactive.front()
            && at <= now
        {
            self.inactive.pop_front();
            if self.get(id).is_some() {
                self.remove(id.index);
            }
        }
        self.timers.advance(now);
        while let Some(index) = self.timers.pop_expired() {
            let Some(context) = self.context(index) else { continue };
            match &mut context.phase {
                Phase::Talking(c) => {
                    c.handle_timeout(now);
                    self.settle(now, index);
                }
                Phase::Gathering(_) => self.remove(index),
                _ => {}
            }
        }
    }

    /// Checks what must hold between calls, for tests: it takes time in proportion to the table.
    ///
    /// # Panics
    /// When something does not hold.
    pub fn assert_invariants(&self) {
        let all = || self.contexts.iter().filter_map(|place| place.context.as_deref());
        let bytes = all().map(|context| match context.phase {
            Phase::Answered { len, .. } => len as usize,
            _ => 0,
        });
        assert_eq!(bytes.sum::<usize>(), self.answer_bytes);
        assert!(all().count() == self.contexts() && self.contexts() <= self.bounds.contexts);
        assert_eq!((self.by_name.len(), self.by_key.len()), (all().count(), all().count()));
        if let Some((name, found)) = self.looked_for.get() {
            assert_eq!(self.by_name.get(&name).copied(), found);
        }
        assert!(self.places.taken() <= self.bounds.half_open.max(1));
        assert!(all().filter(|c| c.is_retired).count() <= self.inactive.len());
        for context in all() {
            if let Phase::Talking(c) = &context.phase {
                c.assert_invariants();
            }
        }
    }
}

fn there(contexts: &mut [Place], id: Id) -> Option<&mut Context> {
    let place = contexts.get_mut(id.index as usize)?;
    place.context.as_deref_mut().filter(|_| place.generation == id.generation)
}

/// FIRST of services 1 to 3.
fn is_ours(h: &Header) -> bool {
    let Body::First(first) = &h.body else { return false };
    (1..=3).contains(&(first.traffic.service as u8))
}
