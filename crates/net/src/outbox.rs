//! What the layer itself has to send and cannot make anew from its state: answers.
//!
//! A fixed number of buffers; when all are full, answers are dropped, and those that wait for a neighbour go
//! first. What can be made anew (questions, probes, reports) never lies here, so a flood of packets that want
//! answers cannot keep it back.

use core::net::IpAddr;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::ethernet::{Address, EtherType};

/// Answers of up to [`SMALL_LEN`] bytes that wait at a time.
const SMALL: usize = 48;
/// Longest of them: a packet of Ethernet's MTU.
pub const SMALL_LEN: usize = 1500;
/// Longer answers that wait at a time: echoes of what came in fragments.
const LARGE: usize = 2;
const LARGE_LEN: usize = 65_535;
/// How long an answer waits for its neighbour.
const WAIT: Duration = Duration::from_secs(3);

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Behind an Ethernet header.
    Link {
        /// To whom.
        destination: Address,
        /// What it is.
        ethertype: EtherType,
    },
    /// Behind an IP header; to that MAC address, where it is known without a question.
    Ip(IpAnswer, Option<Address>),
}

/// An answer's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpAnswer {
    /// From an address of ours.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// What follows the header.
    pub protocol: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hop limit or time to live; `None`: the layer's.
    pub hop_limit: Option<u8>,
}

/// An answer.
#[derive(Debug)]
pub struct Slot {
    /// Where it goes.
    pub kind: Kind,
    /// Bytes behind the header that went in fragments already.
    pub sent: usize,
    /// Of all of its fragments.
    pub identification: u32,
    /// The table of neighbours had changed so often when it began to wait for one.
    pub waits: Option<u64>,
    order: u64,
    until: Instant,
    len: usize,
    buffer: Box<[u8]>,
}

impl Slot {
    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// The answers that wait.
#[derive(Debug)]
pub struct Outbox {
    slots: Vec<(bool, Slot)>,
    queued: usize,
    order: u64,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Outbox {
        let kind = Kind::Link { destination: Address::default(), ethertype: EtherType::ARP };
        let slot = |len: usize| {
            let (until, buffer) = (Instant::ZERO, vec![0; len].into_boxed_slice());
            (
                false,
                Slot {
                    kind,
                    sent: 0,
                    identification: 0,
                    waits: None,
                    order: 0,
                    until,
                    len: 0,
                    buffer,
                },
            )
        };
        let small = (0..SMALL).map(|_| slot(SMALL_LEN));
        let slots = small.chain((0..LARGE).map(|_| slot(LARGE_LEN))).collect();
        Outbox { slots, queued: 0, order: 0 }
    }

    /// A buffer of `len` bytes for an answer, which is queued by this; `None`: no room. What the buffer holds
    /// is old.
    pub fn push(&mut self, now: Instant, kind: Kind, len: usize) -> Option<&mut [u8]> {
        let fits = |slot: &Slot| slot.buffer.len() >= len;
        let free = self.slots.iter().position(|(full, slot)| !full && fits(slot));
        // The large ones are for what is large.
        let free = free.filter(|&at| at < SMALL || len > SMALL_LEN);
        let at = free.or_else(|| {
            let mut waiting = self.slots.iter().enumerate().filter(|(at, (full, slot))| {
                *full && fits(slot) && slot.waits.is_some() && (*at < SMALL || len > SMALL_LEN)
            });
            let first = waiting.next()?;
            let oldest = waiting.fold(first, |a, b| if b.1.1.order < a.1.1.order { b } else { a });
            Some(oldest.0)
        })?;
        self.order += 1;
        let (full, slot) = &mut self.slots[at];
        self.queued += usize::from(!*full);
        *full = true;
        (slot.kind, slot.sent, slot.waits) = (kind, 0, None);
        (slot.order, slot.until, slot.len) = (self.order, now + WAIT, len);
        Some(&mut slot.buffer[..len])
    }

    /// The oldest answer that may go, given how often the table of neighbours has changed.
    pub fn next(&self, changes: u64) -> Option<usize> {
        if self.queued == 0 {
            return None;
        }
        let ready = |slot: &Slot| slot.waits.is_none_or(|at| at != changes);
        let queued = self.slots.iter().enumerate().filter(|(_, (full, slot))| *full && ready(slot));
        queued.min_by_key(|(_, (_, slot))| slot.order).map(|(at, _)| at)
    }

    /// The answer in that place.
    pub fn slot(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at].1
    }

    /// The answer went, or never will.
    pub fn remove(&mut self, at: usize) {
        self.queued -= usize::from(core::mem::take(&mut self.slots[at].0));
    }

    /// Drops what has waited for too long; returns how many.
    pub fn handle_timeout(&mut self, now: Instant) -> usize {
        let before = self.queued;
        for at in 0..self.slots.len() {
            let (full, slot) = &self.slots[at];
            if *full && slot.waits.is_some() && slot.until <= now {
                self.remove(at);
            }
        }
        before - self.queued
    }

    /// Now, when an answer may go; else when one has waited for too long.
    pub fn poll_timeout(&self, changes: u64) -> Option<Instant> {
        if self.next(changes).is_some() {
            return Some(Instant::ZERO);
        }
        self.slots.iter().filter(|s| s.0).map(|s| s.1.until).min()
    }
}
