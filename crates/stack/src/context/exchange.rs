//! One message of services 1 to 3 and what is said to it (`docs/xtp.md`, section 15): the memory of both, beside the machine
//! that is there ([`single`]).

use std::collections::HashMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;

use fusewire_base::{Instant, Sum};
use fusewire_kernels::{Check, Level};
use fusewire_transport::xtp::Name;
use fusewire_transport::xtp::single::{Id, Outcome, Request, Responder};
use fusewire_wire::xtp::{Code, Diag};

use super::Context;
use super::block::{ControlBlock, Kind};
use super::event::{Ended, Event, Message};
use super::place::{Buffer, Scatter, gather};
use super::standing::Standing;
use crate::pieces::Pieces;
use crate::trace::Trace;

/// Bytes that leave, in pieces of one length, with the sum of each that one pass made when it brought them here.
#[derive(Default)]
pub(super) struct Said {
    bytes: Vec<u8>,
    each: usize,
    sums: Vec<Sum>,
}

impl Said {
    /// What `slices` have, copied and summed in one pass.
    pub fn gather(level: Level, slices: &[IoSlice<'_>], each: usize) -> Said {
        let len = slices.iter().map(|slice| slice.len()).sum();
        let (mut bytes, each) = (vec![0; len], each.max(1));
        let sums = bytes.chunks_mut(each).zip((0..).step_by(each)).map(|(piece, at)| {
            let pieces = gather(level, Pieces::new(Check::Internet), slices, at, piece);
            pieces.found().sum().unwrap_or_default()
        });
        let sums = sums.collect();
        Said { bytes, each, sums }
    }

    /// Memory that was lent: it is summed when it leaves.
    pub fn lent(bytes: Vec<u8>) -> Said {
        Said { bytes, each: 1, sums: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The sum of a range: one that was made where packets are cut as they were then.
    pub fn sum(&self, level: Level, range: Range<usize>) -> Sum {
        let is_piece = range.start.is_multiple_of(self.each)
            && range.end == (range.start + self.each).min(self.bytes.len());
        let made = self.sums.get(range.start / self.each).filter(|_| is_piece);
        made.copied().unwrap_or_else(|| fusewire_kernels::sum(level, &self.bytes[range]))
    }
}

/// Which end of it we are.
pub(super) enum Role {
    /// It is our message.
    Asks { request: Box<Request>, said: Said, also: Option<Name> },
    /// It came to a service of ours; without a name nothing is said to it.
    Asked { service: u16, id: Option<Id> },
}

/// See the module's text.
pub(super) struct Exchange {
    pub standing: Standing,
    pub block: ControlBlock,
    pub role: Role,
    /// What came: the answer, or the message. The byte at offset `o` lies at `o`.
    memory: Vec<u8>,
    /// Bytes that it may have.
    most: usize,
    /// Bytes that came, each once.
    came: usize,
    tag: Option<u64>,
    /// Its application was told of a message.
    is_told: bool,
}

impl Exchange {
    pub fn new(remote: SocketAddr, role: Role, block: ControlBlock, memory: Vec<u8>) -> Exchange {
        let most = (block.receive_bytes as usize).max(memory.len());
        let standing = Standing::new(remote);
        Exchange { standing, block, role, memory, most, came: 0, tag: None, is_told: false }
    }

    /// All names that packets may have for it.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        let names = match &self.role {
            Role::Asks { request, also, .. } => [Some(request.name()), *also],
            Role::Asked { .. } => [None, None],
        };
        names.into_iter().flatten()
    }

    /// The second name, once it is known.
    pub fn learn_name(&mut self) {
        if let Role::Asks { request, also, .. } = &mut self.role {
            *also = request.also();
        }
    }

    /// All names are known to who looks for them.
    pub fn is_named(&self) -> bool {
        match &self.role {
            Role::Asks { request, also, .. } => *also == request.also(),
            Role::Asked { .. } => true,
        }
    }

    pub fn sort(&self) -> u16 {
        self.block.sort.unwrap_or(0)
    }

    /// Bytes of memory that it has.
    pub fn held(&self) -> usize {
        self.memory.len()
    }

    pub fn take_memory(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.memory)
    }

    pub fn message(&self, range: &Range<u64>) -> [&[u8]; 2] {
        let range = range.start as usize..range.end as usize;
        [self.memory.get(range).unwrap_or(&[]), &[]]
    }

    /// Our message.
    pub fn said(&self) -> &[u8] {
        match &self.role {
            Role::Asks { said, .. } => said.bytes(),
            Role::Asked { .. } => &[],
        }
    }

    /// Bytes of our message whose fate is not known.
    pub fn unsent(&self) -> usize {
        match &self.role {
            Role::Asks { said, .. } if !self.standing.closed => said.len(),
            _ => 0,
        }
    }

    /// So many bytes were taken. What came of the answer has a tag, if any.
    pub fn took(&mut self, len: usize, tag: Option<u64>) {
        self.came += len;
        self.tag = self.tag.or(tag);
    }

    /// A message for the application.
    fn tell(&mut self, len: u64, tag: Option<u64>) {
        self.standing.outstanding += 1;
        self.is_told = true;
        let message = Message { range: 0..len, tag, is_whole: true };
        self.standing.events.push_back(Event::Message(message));
    }

    /// All of a message came to a service of ours.
    pub fn arrived(&mut self, id: Option<Id>, len: u32, btag: Option<u64>) {
        if let Role::Asked { service, id: own } = &mut self.role {
            *own = id;
            let service = *service;
            self.standing.events.push_back(Event::Accepted { service });
            self.tell(len.into(), btag);
        }
    }

    /// Takes over what our message's machine has to tell. True when it has done what it was sent for.
    pub fn poll_machine(&mut self) -> bool {
        let Role::Asks { request, .. } = &mut self.role else { return false };
        let Some(outcome) = request.poll_event() else {
            if self.came >= self.most && !self.standing.closed {
                request.abort();
                self.standing.close(Ended::TooLong);
            }
            return false;
        };
        let ended = match outcome {
            Outcome::Sent | Outcome::Delivered => Ended::InOrder,
            Outcome::Answered { len } => {
                self.tell(len, self.tag);
                Ended::InOrder
            }
            Outcome::Refused(reason) => Ended::Refused(Diag { code: Code::ContextRefused, reason }),
            Outcome::Reset => Ended::Aborted,
            Outcome::TimedOut => Ended::TimedOut,
        };
        self.standing.close(ended);
        ended == Ended::InOrder
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if let Role::Asks { request, .. } = &mut self.role {
            request.handle_timeout(now);
        }
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.role {
            Role::Asks { request, .. } => request.poll_timeout(),
            Role::Asked { .. } => None,
        }
    }

    /// A request came, and its application has not answered.
    pub fn may_answer(&self) -> bool {
        let has_asker = matches!(self.role, Role::Asked { id: Some(_), .. });
        has_asker && self.block.kind == Kind::Transaction && !self.standing.closed
    }

    /// Its application knows of a message.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Nothing more is to be said, whatever comes.
    pub fn is_over(&self) -> bool {
        match &self.role {
            Role::Asks { request, .. } => request.is_over(),
            Role::Asked { .. } => true,
        }
    }
}

/// How it looks from outside.
#[cfg(feature = "view")]
impl Exchange {
    pub fn state_name(&self) -> &'static str {
        match &self.role {
            _ if self.standing.closed => "INACTIVE",
            Role::Asks { request, .. } if request.is_asking() => "OPENING",
            Role::Asks { .. } | Role::Asked { .. } => "OPEN",
        }
    }

    /// Bytes that came and were not released.
    pub fn unread(&self) -> u64 {
        self.memory.len() as u64
    }

    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let key = self.names().next().map(|name| ("key", format!("{:016x}", name.key.bits())));
        let service = ("service", self.block.kind.name().to_string());
        key.into_iter().chain([service]).collect()
    }

    pub fn drops(&self) -> fusewire_transport::machine::Drops {
        match &self.role {
            Role::Asks { request, .. } => *request.drops(),
            Role::Asked { .. } => Default::default(),
        }
    }
}

impl Buffer for Exchange {
    fn buffer<'a>(&'a mut self, range: &Range<u64>, into: &mut Scatter<'a>) {
        let (from, to) = (range.start as usize, (range.end as usize).min(self.most));
        if self.memory.len() < to {
            self.memory.resize(to, 0);
        }
        if from < to {
            into.push(&mut self.memory[from..to]);
        }
    }
}

/// A service of ours that takes messages one by one.
pub(super) struct Singles {
    pub responder: Responder,
    pub block: ControlBlock,
    /// Messages whose contexts the application has, or whose pieces come.
    pub asked: HashMap<Id, u32>,
    /// What was answered, as long as it may have to be said again.
    pub answers: HashMap<Id, Said>,
    /// Bytes of memory of messages that came and were not released; at most the block's `receive_bytes`.
    pub held: usize,
    /// It waits for a turn.
    pub is_ready: bool,
    /// What came and left last. What comes for a message is its context's; its answer is nobody's, for the application has
    /// let go of the context.
    pub trace: Trace<Option<Context>>,
}

impl Singles {
    pub fn new(responder: Responder, block: ControlBlock) -> Singles {
        let (asked, answers) = (HashMap::new(), HashMap::new());
        let trace = Trace::default();
        Singles { responder, block, asked, answers, held: 0, is_ready: false, trace }
    }

    /// There is memory for a piece that ends at `end`, of a message that has some already.
    pub fn has_room(&self, had: usize, end: u64) -> bool {
        self.held + (end as usize).saturating_sub(had) <= self.block.receive_bytes as usize
    }
}
