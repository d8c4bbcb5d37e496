//! What a sender knows of one member.

use super::super::sync::behind;
use super::super::{SPANS, Spans};
use crate::rtt::Estimator;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Key, SpanList, Spans as _};
use std::net::SocketAddr;

/// Why somebody is a member no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It said so.
    Left,
    /// Others waited for it, and it was slower than the floor.
    Slow,
    /// It said nothing for as long as it may, or others waited for it and it had said nothing since the last look.
    Silent,
    /// The application wanted it so.
    Removed,
}

/// What is told of a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberInfo {
    /// Names it: the sender's key for it.
    pub id: Key,
    /// Its own key.
    pub key: Key,
    /// Where it is.
    pub addr: SocketAddr,
    /// Where it began.
    pub begins_at: u64,
    /// It has everything below.
    pub rseq: u64,
    /// What lies below may be sent to it.
    pub alloc: u64,
    /// Round trip, its delay included; zero before the first sample.
    pub srtt: Duration,
    /// Packets that it was the first to miss.
    pub lost: u64,
    /// It has shown its key.
    pub is_confirmed: bool,
    /// It has everything up to the end.
    pub is_done: bool,
}

/// One member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub key: Key,
    pub addr: SocketAddr,
    pub begins_at: u64,
    pub slot: u32,
    pub rseq: u64,
    pub alloc: u64,
    /// What it has beyond rseq, as it last said.
    pub spans: Spans,
    /// The sync that it was asked with last, and the latest that it echoed.
    pub asked: u32,
    pub echoed: u32,
    /// It was asked then and has not answered since.
    pub waits_since: Option<Instant>,
    /// It was asked alone then: an answer tells no round trip.
    pub asked_again: Option<Instant>,
    pub heard_at: Instant,
    /// When it was told that it may join, if that was once.
    pub joined_at: Option<Instant>,
    pub rtt: Estimator,
    /// What was sent before this has come to it, or is lost.
    pub newest: Instant,
    /// Below this its report tells what is missing.
    pub known_to: u64,
    pub confirmed: bool,
    pub done: bool,
    /// Since then it says that it has all, and not that it is done.
    pub all_since: Option<Instant>,
    /// Packets that it was the first to report missing: of this round, as a mean of rounds, and all.
    pub lost_in_round: u32,
    pub loss: u32,
    pub lost: u64,
    /// When it was last looked at whether it holds the others.
    pub look: Look,
}

/// How a member stood.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub rseq: u64,
    /// Everything that it had, behind a gap, too.
    pub had: u64,
    pub alloc: u64,
    /// What had been sent.
    pub nxt: u64,
    /// Its alloc let nothing more out.
    pub blocked: bool,
    /// It had not gone on since the look before.
    pub lacks: bool,
}

impl Member {
    /// It has not answered what it was asked.
    pub fn waits(&self) -> bool {
        self.waits_since.is_some()
    }

    /// It is asked.
    pub fn ask(&mut self, now: Instant, sync: u32) {
        if self.done {
            return;
        }
        self.asked = sync;
        self.waits_since.get_or_insert(now);
    }

    /// It has echoed `sync`; true if that is newer than what it had.
    pub fn take_echo(&mut self, sync: u32) -> bool {
        if self.confirmed && behind(self.echoed, sync).is_none_or(|by| by == 0) {
            return false;
        }
        self.echoed = sync;
        true
    }

    /// What it has, in bytes from the stream's beginning: in order, and behind gaps as far as it named that.
    pub fn had(&self) -> u64 {
        self.rseq + self.spans.iter().map(|span| span.right - span.left).sum::<u64>()
    }

    /// It lacks nothing that had been sent at the last look, or has so much more in order.
    pub fn goes_on(&self, grown: u64) -> bool {
        self.rseq >= self.look.nxt.min(self.look.rseq + grown)
    }

    /// It has so much more, if behind a gap: a repair that was lost, too, is late where much waits before it. Not again
    /// if it did not go on the last time, or who fills nothing would hold the others.
    pub fn fills(&self, grown: u64) -> bool {
        !self.look.lacks && self.had() >= self.look.had + grown
    }

    /// All that it has beyond rseq may not have been named.
    pub fn spans_are_full(&self) -> bool {
        self.spans.iter().len() == SPANS
    }

    /// Its report: everything below `rseq`, and these.
    pub fn take_report(&mut self, rseq: u64, spans: Option<&Spans>, is_newer: bool) {
        if rseq < self.rseq || rseq == self.rseq && !is_newer && spans.is_none() {
            return;
        }
        self.rseq = rseq;
        self.spans = spans.copied().unwrap_or(SpanList::new(rseq));
    }

    pub fn info(&self, id: Key) -> MemberInfo {
        MemberInfo {
            id,
            key: self.key,
            addr: self.addr,
            begins_at: self.begins_at,
            rseq: self.rseq,
            alloc: self.alloc,
            srtt: self.rtt.srtt().unwrap_or_default(),
            lost: self.lost,
            is_confirmed: self.confirmed,
            is_done: self.done,
        }
    }
}
