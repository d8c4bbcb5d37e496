//! What a receiver takes.

use super::super::Header;
use super::super::messages::brings_bound;
use super::super::receive::nothing;
use super::answers::says_multi;
use super::receiver::{Receiver, ReceiverEvent, Stage, Timer};
use crate::machine::{DropCause, Initial, PayloadPlan, Verdict};
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Code, Diag, JoinControl, Options, TrafficControl};
use std::net::SocketAddr;

/// No delay is longer.
const DELAY_MAX: Duration = Duration::from_secs(1);

impl Receiver {
    /// The initial step: where the payload goes. Changes nothing but counters.
    pub fn handle_initial(&mut self, from: SocketAddr, h: &Header, payload_len: u32) -> Initial {
        match self.judge(from, h, payload_len) {
            Ok(initial) => initial,
            Err(cause) => {
                self.counters.drop(cause);
                Initial::Drop(cause)
            }
        }
    }

    /// A packet is not looked at, for what it has cannot be read.
    pub fn reject(&mut self, cause: DropCause) {
        self.counters.drop(cause);
    }

    fn judge(&self, from: SocketAddr, h: &Header, payload_len: u32) -> Result<Initial, DropCause> {
        let is_control = h.returned || matches!(h.body, Body::First(_));
        if is_control && !h.checks_all() {
            return Err(DropCause::Protocol);
        }
        if h.returned {
            let ours =
                Some(h.key) == self.own && self.peer() == Some(from) && !self.is_over_stage();
            return match ours {
                false => Err(DropCause::Closed),
                true if !says_multi(h) => Err(DropCause::Protocol),
                true => Ok(Initial::Control),
            };
        }
        if let Body::First(_) = h.body {
            return Ok(Initial::Control);
        }
        let is_senders = self.sender.is_some_and(|s| s.key == h.key && s.from == from);
        if !is_senders || self.stage != Stage::Member || !matches!(h.body, Body::Data { .. }) {
            return Err(DropCause::Closed);
        }
        // Data that prove themselves; what has none does not.
        let checks = h.checks_all() || self.cfg.nocheck && payload_len > 0;
        if !h.options.has(Options::MULTI) || !checks || !self.sync.is_acceptable(h.sync) {
            return Err(DropCause::Protocol);
        }
        if payload_len == 0 {
            return Ok(Initial::Control);
        }
        let (start, end) = (h.seq, h.seq + u64::from(payload_len));
        let recv = &self.recv;
        if end > recv.fin {
            return Err(DropCause::Protocol);
        }
        if end <= recv.nxt {
            // A repair for another, or from before we began.
            return Ok(Initial::Payload(nothing(start, payload_len)));
        }
        if brings_bound(h) && !self.messages.has_room(start <= recv.nxt) {
            return Err(DropCause::NoMemory);
        }
        if end > recv.adv {
            if !self.may_go_on() || payload_len > recv.window {
                return Err(DropCause::OutOfWindow);
            }
            let offset = start.max(recv.nxt);
            return Ok(Initial::Payload(PayloadPlan {
                offset,
                len: (end - offset) as u32,
                trim_front: (offset - start) as u32,
                trim_back: 0,
                in_order: false,
                duplicate: false,
            }));
        }
        Ok(Initial::Payload(recv.plan(start, end)?))
    }

    /// Nothing waits for us (service 5): the stream goes on where it is, unless a whole message lies in the memory that the
    /// application has not released. What is there of an unfinished one is given up.
    fn may_go_on(&self) -> bool {
        self.peer.is_none() && !self.messages.wait()
    }

    /// The final step: takes the packet with what the integrated step found, or forgets it.
    pub fn handle_final(
        &mut self,
        now: Instant,
        from: SocketAddr,
        h: &Header,
        initial: &Initial,
        verdict: Verdict,
    ) {
        let Some(taken) = self.counters.take(verdict) else {
            // It may have been written over what is there of an unfinished message.
            if matches!(initial, Initial::Payload(plan) if self.lies_beyond(plan)) {
                self.give_up(self.recv.nxt);
            }
            return;
        };
        self.counters.segments_received += 1;
        if h.returned {
            return self.final_ours(now, h);
        }
        if let Body::First(first) = &h.body {
            self.hear(from, h, first);
            let is_senders = self.sender.is_some_and(|s| s.key == h.key && s.from == from);
            if is_senders && self.stage == Stage::Member && self.sync.is_acceptable(h.sync) {
                self.note(now, h);
                self.note_closing(now, h, h.seq);
            }
            return;
        }
        if let Initial::Payload(plan) = initial {
            self.final_data(now, h, plan, taken);
        }
    }

    /// Something of the sender's was accepted.
    fn note(&mut self, now: Instant, h: &Header) {
        self.since = now;
        if !self.finished {
            self.timers.set(Timer::Over, now + self.cfg.ctimeout);
        }
        let before = self.sync.peer;
        self.sync.note_peer(h.sync);
        // Who sees a newer sync was asked, whether the packet that asked came or not.
        if self.answers() && (self.sync.peer != before || h.options.has(Options::SREQ)) {
            self.asked = true;
        }
        self.schedule(now);
    }

    fn final_data(&mut self, now: Instant, h: &Header, plan: &PayloadPlan, taken: u32) {
        let len = plan.trim_front + plan.len + plan.trim_back;
        let end = h.seq + u64::from(len);
        if end > self.recv.fin {
            return self.counters.drop(DropCause::Protocol);
        }
        self.counters.data_segments_received += 1;
        if taken > 0 && plan.len > 0 {
            self.take_payload(h, plan, taken);
        }
        if self.recv.has(h.seq) && self.recv.has(end - 1) {
            self.messages.note(h, end, self.recv.consumed);
        }
        self.note(now, h);
        self.note_closing(now, h, end);
    }

    fn take_payload(&mut self, h: &Header, plan: &PayloadPlan, taken: u32) {
        let (start, end) = (plan.offset, plan.offset + u64::from(taken.min(plan.len)));
        let noerr = self.peer.is_none();
        if start < self.recv.nxt || self.recv.done {
            return;
        }
        if self.lies_beyond(plan) {
            if !self.may_go_on() {
                return;
            }
            self.give_up(start);
        }
        let recv = &mut self.recv;
        debug_assert!(end <= recv.adv, "{end} is beyond {}", recv.adv);
        recv.segment_len_max = recv.segment_len_max.max(taken);
        self.counters.bytes_received += end - start;
        self.counters.out_of_order += u64::from(start != recv.nxt);
        let opens_gap = recv.take(start, end, noerr);
        self.gap |= opens_gap && h.options.has(Options::FASTNAK);
    }

    /// It has no place before what is there is given up.
    fn lies_beyond(&self, plan: &PayloadPlan) -> bool {
        plan.len > 0 && plan.offset + u64::from(plan.len) > self.recv.adv
    }

    /// The stream goes on at `start`: what is there below, of a message that has not come whole, counts as missing.
    fn give_up(&mut self, start: u64) {
        self.recv.give_up(start);
        self.consumed(start);
    }

    /// Nothing can have been sent beyond.
    fn edge(&self) -> u64 {
        if self.peer.is_some() { self.recv.adv } else { self.recv.nxt + (1 << 31) }
    }

    /// The stream ends at `end`, if the packet says so; and whether all of it has come.
    fn note_closing(&mut self, now: Instant, h: &Header, end: u64) {
        let highest = self.recv.nxt.max(self.recv.ranges.end());
        if h.options.has(Options::WCLOSE)
            && self.recv.fin == u64::MAX
            && (highest..=self.edge()).contains(&end)
        {
            self.recv.fin = end;
            if self.peer.is_none() {
                // Nothing is written there any more.
                self.recv.adv = self.recv.adv.max(end);
                self.recv.pass_over(end, end);
            }
        }
        if self.recv.nxt == self.recv.fin && !self.finished {
            self.finished = true;
            self.events.push_back(ReceiverEvent::Finished { offset: self.recv.fin });
            if self.peer.is_none() {
                return self.end(ReceiverEvent::Ended);
            }
            self.asked = true;
            self.retries = 0;
            self.timers.set(Timer::Over, now + self.cfg.patience);
            self.schedule(now);
        }
    }

    /// A packet with our key.
    fn final_ours(&mut self, now: Instant, h: &Header) {
        if self.is_over_stage() {
            return self.counters.drop(DropCause::Closed);
        }
        match &h.body {
            Body::Diag(diag) => self.take_diag(*diag),
            Body::Jcntl(join) => self.take_join(now, h, join),
            Body::Tcntl(traffic) => self.take_traffic(now, h, traffic),
            Body::Cntl(_) if h.seq > self.edge() => self.counters.drop(DropCause::OutOfWindow),
            Body::Cntl(_) if self.answers() && self.sync.is_acceptable(h.sync) => {
                if h.options.has(Options::END) {
                    let all = h.options.has(Options::RCLOSE) && self.finished;
                    let diag = fusewire_wire::xtp::Reason::Unspecified;
                    let dropped = ReceiverEvent::Dropped(diag);
                    return self.end(if all { ReceiverEvent::Ended } else { dropped });
                }
                self.note(now, h);
                self.note_closing(now, h, h.seq);
            }
            _ => self.counters.drop(DropCause::Protocol),
        }
    }

    fn take_diag(&mut self, diag: Diag) {
        match (diag.code, self.stage) {
            (Code::JoinRefused, Stage::Joining) => self.end(ReceiverEvent::Refused(diag.reason)),
            (Code::ContextAbandoned | Code::ProtocolError, Stage::Member) => {
                self.end(ReceiverEvent::Dropped(diag.reason));
            }
            _ => self.counters.drop(DropCause::BlindReset),
        }
    }

    /// We are a member.
    fn take_join(&mut self, now: Instant, h: &Header, join: &JoinControl) {
        let TrafficControl { control, delay_us, xkey, .. } = join.traffic;
        if !self.sync.may_be_echoed(control.echo) {
            return self.counters.drop(DropCause::BadAck);
        }
        match self.peer {
            None if self.stage == Stage::Joining && control.echo == self.sync.latest => {}
            // It comes again: what we said was lost.
            Some(peer) if peer == xkey => {
                self.asked = true;
                return self.schedule(now);
            }
            _ => return self.counters.drop(DropCause::Protocol),
        }
        if control.rseq != h.seq || control.alloc != h.seq {
            return self.counters.drop(DropCause::Protocol);
        }
        self.peer = Some(xkey);
        self.delay = Duration::from_micros(delay_us.into()).min(DELAY_MAX);
        self.sync.note_peer(h.sync);
        self.become_member(now, h.seq);
        self.asked = true;
        self.schedule(now);
    }

    /// Another delay.
    fn take_traffic(&mut self, now: Instant, h: &Header, traffic: &TrafficControl) {
        if self.peer != Some(traffic.xkey) || !self.sync.is_acceptable(h.sync) {
            return self.counters.drop(DropCause::Protocol);
        }
        self.delay = Duration::from_micros(traffic.delay_us.into()).min(DELAY_MAX);
        self.note(now, h);
    }
}
