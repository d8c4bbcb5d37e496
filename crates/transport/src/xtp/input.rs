//! Receiving a packet, in the initial and the final step: what is accepted (`docs/xtp.md`, section 9). The integrated
//! step between them is the caller's.

use super::Header;
use super::connection::{Connection, INITIAL_ALLOC};
use super::receive::nothing;
use super::state::State;
use super::sync::behind;
use super::timers::Timer;
use crate::machine::{DropCause, Initial, PayloadPlan, Verdict};
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Control, HEADER_LEN, Options, TrafficControl};

/// A FIRST for an open context is answered for so long.
const FIRST_ANSWERED: Duration = Duration::from_secs(10);

impl Connection {
    /// The initial step: where the payload goes. Changes nothing but counters.
    #[inline]
    pub fn handle_initial(&mut self, _now: Instant, h: &Header, payload_len: u32) -> Initial {
        if self.state == State::Quiescent || !self.is_ours(h) {
            return self.dropped(DropCause::Closed);
        }
        if !self.is_proven(h) {
            return self.dropped(DropCause::Protocol);
        }
        if !matches!(h.body, Body::Data { .. } | Body::First(_)) {
            return Initial::Control;
        }
        if !self.sync.is_acceptable(h.sync) {
            return self.dropped(DropCause::Protocol);
        }
        if payload_len == 0 {
            return Initial::Control;
        }
        let (start, end) = (h.seq, h.seq + u64::from(payload_len));
        let recv = &self.recv;
        let open_first = matches!(h.body, Body::First(_)) && self.state != State::HalfOpen;
        let unfit = open_first || self.is_too_large(h) || self.state == State::Inactive;
        if unfit || !recv.is_acceptable(start, end) {
            return Initial::Payload(nothing(start, payload_len));
        }
        if super::messages::brings_bound(h) && !self.messages.has_room(start <= recv.nxt) {
            self.counters.drop(DropCause::NoMemory);
            return Initial::Payload(nothing(start, payload_len));
        }
        if start == recv.nxt && end <= recv.adv && end <= recv.fin && recv.ranges.is_empty() {
            return Initial::Payload(PayloadPlan {
                offset: start,
                len: payload_len,
                trim_front: 0,
                trim_back: 0,
                in_order: true,
                duplicate: false,
            });
        }
        self.plan(start, end)
    }

    /// The packet has a key that names this context, and is one that may.
    fn is_ours(&self, h: &Header) -> bool {
        if h.returned {
            return h.key == self.keys.own;
        }
        match h.body {
            // FIRST, for who has not sent one itself; DIAG for a key that nobody has.
            Body::First(_) => Some(h.key) == self.keys.peer && !self.keys.first.returned,
            Body::Diag(_) => Some(h.key) == self.keys.peer,
            _ => false,
        }
    }

    /// What the check does not cover is proven by what was agreed on: a trailer, or tags. A control proves nothing of
    /// itself.
    fn is_proven(&self, h: &Header) -> bool {
        let trailer = h.options.has(Options::RES);
        match h.body {
            Body::Data { .. } if trailer => self.settings.cxor,
            Body::Data { btag } => {
                let proves = self.recv.proves_from.is_some_and(|from| from <= h.seq);
                let proves_itself = self.settings.nocheck || proves && btag.is_none();
                h.checks_all() || h.data_len > 0 && proves_itself
            }
            Body::First(_) => h.checks_all() || self.settings.nocheck,
            _ => h.checks_all(),
        }
    }

    fn plan(&mut self, start: u64, end: u64) -> Initial {
        Initial::Payload(self.recv.plan(start, end).unwrap_or_else(|cause| {
            self.counters.drop(cause);
            nothing(start, (end - start) as u32)
        }))
    }

    /// Beyond the maxdata that we told. Who sends FIRST has not heard it.
    fn is_too_large(&self, h: &Header) -> bool {
        let dlen = h.packet_len() - HEADER_LEN;
        dlen > self.limits().dlen_max() as usize && matches!(h.body, Body::Data { .. })
    }

    fn dropped(&mut self, cause: DropCause) -> Initial {
        self.counters.drop(cause);
        Initial::Drop(cause)
    }

    /// The final step: takes the packet with what the integrated step found, or forgets it. XTP has nowhere to carry
    /// a mark back.
    pub fn handle_final(
        &mut self,
        now: Instant,
        h: &Header,
        plan: &Initial,
        verdict: Verdict,
        _marked: bool,
    ) {
        let Some(taken) = self.counters.take(verdict) else { return };
        if self.state == State::Quiescent || matches!(plan, Initial::Drop(_)) {
            return self.counters.drop(DropCause::Closed);
        }
        self.counters.segments_received += 1;
        match (&h.body, plan) {
            (Body::Data { .. } | Body::First(_), plan) => self.final_data(now, h, plan, taken),
            (Body::Diag(diag), _) => self.final_diag(h, *diag),
            (Body::Cntl(control), _) => self.final_control(now, h, control, None),
            (Body::Ecntl(control, spans), _) => self.final_control(now, h, control, Some(spans)),
            (Body::Tcntl(tcntl), _) => self.final_traffic(now, h, tcntl),
            (Body::Jcntl(_) | Body::Path | Body::Unfit(_), _) => {
                self.counters.drop(DropCause::Protocol);
            }
        }
    }

    /// The packet was accepted.
    fn accepted(&mut self, now: Instant, h: &Header) {
        if self.state == State::HalfOpen {
            self.credit += h.packet_len() as u64;
        }
        self.recv.heard_at = now;
        self.sync.note_peer(h.sync);
        self.recv.noflow = h.options.has(Options::NOFLOW);
        // A cookie shows the key, too, but its sender does not know yet that it was taken.
        let is_first = matches!(h.body, Body::First(_));
        if h.returned && !is_first && self.state == State::HalfOpen {
            // Our key was shown: the address is proven.
            self.state = State::Open;
            self.confirmed = true;
            if let Some(place) = self.half_open.take() {
                place.shown(now);
            }
            self.timers.clear(Timer::Over);
        }
        self.arm_ctimer(now);
        if self.state == State::Inactive {
            let asks = Options::SREQ | Options::WCLOSE | Options::RCLOSE;
            self.events.end |= h.options.any(asks) && !h.options.has(Options::END);
            return;
        }
        if h.options.has(Options::SREQ) {
            self.counters.asks_received += 1;
            self.events.answer = true;
        }
    }

    /// All data that came with it are here or were before: what it asks for when they are delivered.
    fn ask_for_delivery(&mut self, h: &Header) {
        if h.options.has(Options::DREQ) && self.state != State::Inactive {
            let upto = self.recv.nxt.max(self.recv.ranges.end());
            if self.recv.consumed >= upto {
                self.events.answer = true;
            } else {
                self.recv.delivery_asked = self.recv.delivery_asked.max(Some(upto));
            }
        }
    }

    fn final_data(&mut self, now: Instant, h: &Header, plan: &Initial, taken: u32) {
        let (plan, len) = match plan {
            Initial::Payload(plan) => (Some(plan), plan.trim_front + plan.len + plan.trim_back),
            _ => (None, 0),
        };
        if self.is_too_large(h) {
            self.events.too_large |= self.limit.allows(now);
            return self.counters.drop(DropCause::Protocol);
        }
        let end = h.seq + u64::from(len);
        if len > 0 {
            self.counters.data_segments_received += 1;
        }
        let is_first = matches!(h.body, Body::First(_));
        if is_first && matches!(self.state, State::Open | State::Inactive) {
            if now - self.began > FIRST_ANSWERED {
                return self.counters.drop(DropCause::BlindOpen);
            }
            self.events.traffic |= self.state == State::Open;
            self.events.end |= self.state == State::Inactive;
            return;
        }
        // What was said before may come again, and then is owed an answer.
        let known = end <= self.recv.nxt && len > 0;
        if !known && !self.recv.is_acceptable(h.seq, end) {
            self.counters.drop(DropCause::OutOfWindow);
            self.events.answer |= h.options.has(Options::SREQ) && self.limit.allows(now);
            return;
        }
        if is_first && end > INITIAL_ALLOC {
            return self.counters.drop(DropCause::OutOfWindow);
        }
        if end > self.recv.fin {
            return self.ends_elsewhere();
        }
        self.accepted(now, h);
        if self.state == State::Inactive {
            return;
        }
        if let Some(plan) = plan {
            if taken > 0 && plan.len > 0 {
                self.take_payload(now, h, plan, taken);
            } else {
                self.events.answer = true;
            }
            if self.sync.note_edge(h.seq, h.options.has(Options::EDGE)) {
                self.events.answer = true;
            }
        }
        // A packet may have been taken in part, or not at all.
        let whole = || end > h.seq && self.recv.has(h.seq) && self.recv.has(end - 1);
        if self.settings.messages && whole() {
            self.messages.note(h, end, self.recv.consumed);
        }
        self.ask_for_delivery(h);
        if !self.is_opening() {
            // Otherwise it is said again to who can answer.
            self.note_closing(now, h, end, None);
        }
    }

    /// Payload was verified and stored: the range counts as received.
    fn take_payload(&mut self, now: Instant, h: &Header, plan: &PayloadPlan, taken: u32) {
        let (start, end) = (plan.offset, plan.offset + u64::from(taken.min(plan.len)));
        let passes_over = self.passes_over(h);
        let recv = &mut self.recv;
        // Between the two steps nothing else may have been taken; a caller that broke this loses nothing
        // but the packet.
        if start < recv.nxt || end > recv.adv || recv.done {
            return;
        }
        recv.segment_len_max = recv.segment_len_max.max(taken);
        recv.data_at = now;
        self.counters.bytes_received += end - start;
        self.counters.out_of_order += u64::from(start != recv.nxt);
        let opens_gap = recv.take(start, end, passes_over);
        self.events.gap |= opens_gap && h.options.has(Options::FASTNAK);
    }

    /// Its sender sends nothing again, and somebody wants to be told of gaps.
    fn passes_over(&self, h: &Header) -> bool {
        self.settings.passes_gaps && h.options.has(Options::NOERR)
    }

    fn final_control(
        &mut self,
        now: Instant,
        h: &Header,
        control: &Control,
        spans: Option<&super::Spans>,
    ) {
        if self.is_opening() {
            // Only TCNTL tells a key.
            return self.counters.drop(DropCause::Protocol);
        }
        if let Err(cause) = self.may_count(h, control) {
            return self.counters.drop(cause);
        }
        if self.is_blind_end(h) {
            self.counters.drop(DropCause::BlindReset);
            if self.limit.allows(now) {
                self.counters.challenge_acks += 1;
                self.send.ask = self.state != State::Inactive;
            }
            return;
        }
        self.accepted(now, h);
        if self.state == State::Inactive {
            return self.end_while_inactive(h);
        }
        if self.passes_over(h) && h.seq > self.recv.nxt && h.seq <= self.recv.adv {
            self.recv.pass_over(h.seq, h.seq);
        }
        // Who has not seen its key answers by TCNTL, and echoes a FIRST.
        self.confirmed |= !matches!(h.body, Body::Tcntl(_))
            || behind(self.sync.opened, control.echo).is_some_and(|by| by > 0);
        if self.is_disputed(control) {
            return self.violated();
        }
        self.take_answer(now, control, spans);
        self.ask_for_delivery(h);
        self.note_closing(now, h, h.seq, Some(control.rseq));
    }

    fn may_count(&self, h: &Header, control: &Control) -> Result<(), DropCause> {
        if !self.sync.is_acceptable(h.sync) {
            return Err(DropCause::Protocol);
        }
        self.control_is_acceptable(h, control)
    }

    pub(super) fn final_traffic(&mut self, now: Instant, h: &Header, tcntl: &TrafficControl) {
        let control = &tcntl.control;
        if let Err(cause) = self.may_count(h, control) {
            return self.counters.drop(cause);
        }
        match self.keys.peer {
            Some(known) if known != tcntl.xkey => {
                return self.counters.drop(DropCause::Protocol);
            }
            Some(_) if self.state != State::Cookie => {
                // One that was overtaken says what held before.
                let is_latest = self.sync.peer.is_none_or(|peer| behind(peer, h.sync).is_some());
                if let Some(limits) = &tcntl.traffic.limits
                    && is_latest
                    && !self.is_blind_end(h)
                {
                    self.take_limits(limits);
                }
                return self.final_control(now, h, control, None);
            }
            _ => {}
        }
        if control.alloc == 0 {
            if self.state == State::Opening {
                self.take_cookie(now, h, tcntl);
            }
            return;
        }
        self.keys.peer = Some(tcntl.xkey);
        self.sync.opened = self.sync.latest;
        self.state = State::Open;
        self.send.trailers = self.settings.cxor && h.options.has(Options::RES);
        self.settings.cxor = self.send.trailers;
        match &tcntl.traffic.limits {
            Some(limits) => self.take_limits(limits),
            None => self.set_tpdu_len(self.settings.send_tpdu_len),
        }
        self.events.established = true;
        self.send.alloc = control.alloc;
        self.send.first_due = false;
        self.final_control(now, h, control, None);
        // The peer may wait for our key.
        self.send.ask |= self.state == State::Open && self.send.nxt == self.send.end;
    }

    /// The listener has kept nothing: everything goes again, under its cookie.
    fn take_cookie(&mut self, now: Instant, h: &Header, tcntl: &TrafficControl) {
        self.recv.heard_at = now;
        self.sync.note_peer(h.sync);
        self.keys.peer = Some(tcntl.xkey);
        self.state = State::Cookie;
        if let Some(asked) = self.sync.take_echo(tcntl.control.echo) {
            self.rtt.sample(now - asked.at, now);
        }
        self.restart_wtimer(now);
        self.send.queue.mark_all_lost();
        self.send.first_due = true;
    }
}
