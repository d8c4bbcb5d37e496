//! Calls beside the streams of sessions: a request and its answer, sealed each as a record under the call's number
//! (`docs/records.md`, section 11), each in a transaction of XTP's (`docs/xtp.md`, section 15).
//!
//! ```text
//!  begin    request ──seal──▶ bytes ──▶ Request ──▶ FIRST        two packets, where each fits one
//!  answered DATA ──open──▶ the caller's list of answers, then Request: a forged one was never there
//!  asked    FIRST ──open──▶ Responder ──▶ the list of those who ask ──▶ the application
//!  answer   answer ──seal──▶ bytes, kept for who asks again ──▶ Responder ──▶ DATA
//! ```
//! Here is what is kept of them; `stack::calls` moves it.

mod eager;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::net::SocketAddr;
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_session::Draws;
use fusewire_session::record::NUMBERS_WINDOW;
use fusewire_transport::machine::Secrets;
use fusewire_transport::xtp::single::{Answers, Bounds, Id, Request, Responder};
use fusewire_transport::xtp::{Config, Header};
use fusewire_wire::xtp::{Body, Key, KeyHash, Service};

use crate::{ConnectionId, Error, Result};
use eager::Eager;

/// Calls of one connection that are under way or whose answers wait to be taken, and requests that wait for its application.
const CALLS_MAX: usize = 256;
/// The longest record of a call, and so the memory that an answer may take.
pub(crate) const RECORD_MAX: u32 = 1 << 19;

/// Records that are over and whose memory is for the next, and the longest of these, in bytes.
const SPARE: usize = 8;
const SPARE_LEN_MAX: usize = 64 << 10;

/// Names a call of this end's, among those of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub(crate) u32);

/// Names a request of the peer's.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    pub(crate) number: u32,
    pub(crate) id: Id,
}

/// An answer, or why there is none.
pub(crate) type Answer = Result<Vec<u8>>;

/// Where the answer to a call, or the first of all, is.
pub(crate) fn place_of(
    answers: &VecDeque<(CallId, Answer)>,
    call: Option<CallId>,
) -> Option<usize> {
    answers.iter().position(|(id, _)| call.is_none_or(|call| call == *id))
}

/// The calls of one connection.
pub(crate) struct Beside {
    pub keys: fusewire_session::Calls,
    next: u64,
    /// Those under way, and their keys.
    under_way: VecDeque<(u32, Key)>,
    answers: VecDeque<(CallId, Answer)>,
    asked: VecDeque<(Asked, Vec<u8>)>,
    /// What the peer has asked, as it came, from where it may still wait for an answer.
    remembered: VecDeque<(u32, Id)>,
    /// How long answers take.
    pub took: Answers,
    /// The stack finds the connection by what names its session.
    pub is_named: bool,
    /// How transactions are made while datagrams and packets of the connection have so many bytes.
    pub settings: Option<((usize, usize), Arc<Config>)>,
}

impl Beside {
    pub fn new(keys: fusewire_session::Calls) -> Beside {
        Beside {
            keys,
            next: 0,
            under_way: VecDeque::new(),
            answers: VecDeque::new(),
            asked: VecDeque::new(),
            remembered: VecDeque::new(),
            took: Answers::default(),
            is_named: false,
            settings: None,
        }
    }

    /// The next number, if one more call may be under way: all that are lie within the window in which the peer knows
    /// which it has seen.
    pub fn number(&self) -> Result<Option<u32>> {
        let next = u32::try_from(self.next)
            .map_err(|_| Error::Misuse("this session has made all its calls"))?;
        let room = !self.is_full() && next - self.waits_since(next) < NUMBERS_WINDOW;
        Ok(room.then_some(next))
    }

    /// There are as many calls as may be: the peer chooses how long an answer is that waits to be taken.
    pub fn is_full(&self) -> bool {
        self.under_way.len() + self.answers.len() >= CALLS_MAX
    }

    /// The first number whose answer is waited for, where `next` is the next.
    pub fn waits_since(&self, next: u32) -> u32 {
        self.under_way.front().map_or(next, |call| call.0)
    }

    /// A call has the number that was next.
    pub fn began(&mut self, key: Key) {
        self.under_way.push_back((self.next as u32, key));
        self.next += 1;
    }

    /// The number was used in vain.
    pub fn skip(&mut self) {
        self.next += 1;
    }

    /// A call is over; its key if it was under way.
    pub fn over(&mut self, call: CallId) -> Option<Key> {
        let at = self.under_way.iter().position(|(number, _)| *number == call.0)?;
        self.under_way.remove(at).map(|(_, key)| key)
    }

    /// What became of a call that was under way.
    pub fn answered(&mut self, call: CallId, answer: Answer) {
        if self.over(call).is_some() {
            self.answers.push_back((call, answer));
        }
    }

    /// The next answer, or that to this call.
    pub fn take_answer(&mut self, call: Option<CallId>) -> Option<(CallId, Answer)> {
        self.answers.remove(place_of(&self.answers, call)?)
    }

    /// A request of this number has come.
    pub fn remember(&mut self, number: u32, id: Id) {
        self.remembered.push_back((number, id));
    }

    /// One that the peer waits for no more, as it waits for none below `since`.
    pub fn take_done(&mut self, since: u32) -> Option<Id> {
        let &(_, id) = self.remembered.front().filter(|(number, _)| *number < since)?;
        self.remembered.pop_front();
        Some(id)
    }

    /// The peer asks. False when too much waits for the application.
    pub fn ask(&mut self, asked: Asked, request: Vec<u8>) -> bool {
        let room = self.asked.len() < CALLS_MAX;
        if room {
            self.asked.push_back((asked, request));
        }
        room
    }

    /// A request of the peer's waits for the application.
    pub fn has_call(&self) -> bool {
        !self.asked.is_empty()
    }

    /// What the peer asked first.
    pub fn next_call(&mut self) -> Option<(Asked, Vec<u8>)> {
        self.asked.pop_front()
    }

    /// Keys of all that is under way, when the connection is gone.
    pub fn keys_under_way(&self) -> impl Iterator<Item = Key> + use<> {
        self.under_way.iter().map(|(_, key)| *key).collect::<Vec<_>>().into_iter()
    }

    /// Requests that nobody will answer.
    pub fn all_asked(&self) -> impl Iterator<Item = Id> + use<> {
        self.asked.iter().map(|(asked, _)| asked.id).collect::<Vec<_>>().into_iter()
    }
}

/// A call of ours that is under way.
pub(crate) struct Outgoing {
    pub request: Request,
    pub connection: ConnectionId,
    pub call: CallId,
    pub begun: Instant,
    pub remote: SocketAddr,
    /// The request's record.
    pub record: Vec<u8>,
    /// Pieces of the answer's.
    pub answer: Vec<u8>,
    /// When it is looked at next.
    pub due: Option<Instant>,
}

/// What is kept of a request of a peer's.
#[derive(Default)]
pub(crate) struct Incoming {
    /// Who had the place last.
    of: Option<Id>,
    /// Pieces of the request's record, then the record of the answer.
    bytes: Vec<u8>,
}

impl Incoming {
    /// Those bytes.
    pub fn of(all: &[Incoming], id: Id) -> &[u8] {
        let incoming = all.get(id.place()).filter(|incoming| incoming.of == Some(id));
        incoming.map_or(&[], |incoming| &incoming.bytes)
    }
}

/// All calls of a stack.
pub(crate) struct Calls {
    draws: Draws,
    secrets: Secrets,
    /// Made when a peer asks for the first time.
    pub responder: Option<Box<Responder>>,
    /// Connections by what names their sessions.
    pub sessions: HashMap<u32, ConnectionId>,
    pub outgoing: HashMap<Key, Box<Outgoing>, BuildHasherDefault<KeyHash>>,
    due: BTreeSet<(Instant, Key)>,
    /// By the request's place in the responder's table.
    pub incoming: Vec<Incoming>,
    spare: Vec<Vec<u8>>,
    pub eager: Eager,
}

impl Calls {
    /// Without any. `seed` is secret and random.
    pub fn new(seed: &[u8; 32]) -> Calls {
        let mut draws = Draws::new(seed, b"calls");
        let mut secret = || {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&draws.draw().to_be_bytes());
            bytes[8..].copy_from_slice(&draws.draw().to_be_bytes());
            bytes
        };
        let secrets = Secrets { isn: secret(), cookie: secret() };
        Calls {
            draws,
            secrets,
            responder: None,
            sessions: HashMap::new(),
            outgoing: HashMap::default(),
            due: BTreeSet::new(),
            incoming: Vec::new(),
            spare: Vec::new(),
            eager: Eager::default(),
        }
    }

    /// A key for a call.
    pub fn key(&mut self) -> Key {
        loop {
            if let Some(key) = Key::new(self.draws.draw())
                && !self.outgoing.contains_key(&key)
            {
                return key;
            }
        }
    }

    /// Who answers.
    pub fn responder(&mut self, cfg: &Config, now: Instant) -> &mut Responder {
        self.responder.get_or_insert_with(|| {
            Box::new(Responder::new(cfg, Bounds::default(), &self.secrets, now))
        })
    }

    /// What is kept of a request of a peer's.
    pub fn incoming(&mut self, id: Id) -> &mut Vec<u8> {
        if self.incoming.len() <= id.place() {
            self.incoming.resize_with(id.place() + 1, Incoming::default);
        }
        let incoming = &mut self.incoming[id.place()];
        if incoming.of.replace(id) != Some(id) {
            incoming.bytes.clear();
        }
        &mut incoming.bytes
    }

    /// Nothing more is needed of a request of a peer's.
    pub fn gone(&mut self, id: Id) {
        let incoming = self.incoming.get_mut(id.place()).filter(|i| i.of == Some(id));
        if let Some(bytes) = incoming.map(|incoming| std::mem::take(&mut incoming.bytes)) {
            self.recycle(bytes);
        }
    }

    /// Memory for a record of so many bytes.
    pub fn record(&mut self, len: usize) -> Vec<u8> {
        let mut record = self.spare.pop().unwrap_or_default();
        record.resize(len, 0);
        record
    }

    /// A record is over.
    pub fn recycle(&mut self, record: Vec<u8>) {
        if self.spare.len() < SPARE && (1..=SPARE_LEN_MAX).contains(&record.capacity()) {
            self.spare.push(record);
        }
    }

    /// A packet that is for a call, by its head alone: what comes under a key of ours, or asks for something.
    pub fn is_for_one(&self, h: &Header) -> bool {
        match &h.body {
            _ if h.returned => self.outgoing.contains_key(&h.key),
            Body::First(first) => first.traffic.service == Service::Transaction,
            _ => false,
        }
    }

    /// The call of ours that a packet is for.
    pub fn called(&self, h: &Header) -> Option<Key> {
        if h.returned {
            return self.outgoing.contains_key(&h.key).then_some(h.key);
        }
        if !matches!(h.body, Body::Diag(_)) {
            return None;
        }
        let name = fusewire_transport::xtp::Name { key: h.key, returned: false };
        self.outgoing.iter().find(|(_, o)| o.request.also() == Some(name)).map(|(key, _)| *key)
    }

    /// A call is under way, and is looked at when its time comes.
    pub fn put(&mut self, key: Key, mut outgoing: Box<Outgoing>) {
        outgoing.due = outgoing.request.poll_timeout();
        if let Some(at) = outgoing.due {
            self.due.insert((at, key));
        }
        self.outgoing.insert(key, outgoing);
    }

    pub fn take(&mut self, key: Key) -> Option<Box<Outgoing>> {
        let mut outgoing = self.outgoing.remove(&key)?;
        if let Some(at) = outgoing.due.take() {
            self.due.remove(&(at, key));
        }
        Some(outgoing)
    }

    /// A call whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Option<(Key, Box<Outgoing>)> {
        let &(at, key) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, key));
        let outgoing = self.take(key)?;
        Some((key, outgoing))
    }

    /// When something is to be done.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let ours = self.due.first().map(|(at, _)| *at);
        let theirs = self.responder.as_ref().and_then(|responder| responder.poll_timeout());
        [ours, theirs].into_iter().flatten().min()
    }
}
