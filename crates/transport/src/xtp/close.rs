//! The end of a context: WCLOSE, RCLOSE, END (`docs/xtp.md`, section 13), and DIAG (section 12).

use super::Header;
use super::connection::Connection;
use super::state::State;
use super::timers::{Timer, Timers};
use crate::machine::{DropCause, ResetCause};
use crate::rack::Phase;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Code, Diag, MAXDATA_MIN, Options};

impl Connection {
    /// An accepted packet that ends at `end`; `rseq` is a control's.
    pub(super) fn note_closing(&mut self, now: Instant, h: &Header, end: u64, rseq: Option<u64>) {
        if h.options.has(Options::WCLOSE) && self.recv.fin != end {
            let had = self.recv.nxt.max(self.recv.ranges.end());
            if self.recv.fin != u64::MAX || end < had {
                return self.ends_elsewhere();
            }
            self.recv.fin = end;
        }
        if self.recv.nxt == self.recv.fin && !self.recv.done {
            self.recv.done = true;
            self.events.finished = true;
            self.events.answer = true;
        }
        if h.options.has(Options::RCLOSE) && !self.send.done {
            self.take_rclose(now, rseq);
        }
        if h.options.has(Options::END) {
            return self.take_end(h, rseq);
        }
        if self.send.done && self.recv.done && self.state == State::Open {
            if self.confirmed {
                self.enter_inactive(now);
            } else {
                // END may be lost, and who has not seen its key could not ask for it again: who has, says it.
                self.send.ask = true;
            }
        }
    }

    /// The peer has all of our stream, or wants no more of it.
    fn take_rclose(&mut self, now: Instant, rseq: Option<u64>) {
        let send = &mut self.send;
        let in_order = send.wclosed && rseq.is_none_or(|rseq| rseq == send.end);
        if !in_order {
            // What is queued is for nobody.
            send.end = send.nxt;
            send.finishing = true;
            send.wclosed = false;
            send.ask = true;
        }
        send.done = true;
        send.reserved = 0;
        if send.una < send.nxt {
            send.una = send.nxt;
            self.events.acked = true;
            self.counters.bytes_acked = send.nxt;
        }
        send.queue.clear();
        send.tags.clear();
        for timer in [Timer::Tail, Timer::Reorder, Timer::Persist, Timer::Pace] {
            self.timers.clear(timer);
        }
        self.phase = Phase::Open;
        self.restart_wtimer(now);
    }

    fn take_end(&mut self, h: &Header, rseq: Option<u64>) {
        let wclosed = self.send.wclosed || self.send.done;
        let has_all = rseq.is_none_or(|rseq| rseq == self.send.end);
        let in_order = h.options.has(Options::RCLOSE) && wclosed && has_all && self.recv.done;
        if !in_order {
            self.events.reset = Some(ResetCause::Peer);
        }
        self.enter_quiescent();
    }

    /// Both directions are closed: END leaves, and what may still be in the network is answered for a while.
    fn enter_inactive(&mut self, now: Instant) {
        self.state = State::Inactive;
        self.timers = Timers::default();
        self.timers.set(Timer::Over, now + self.settings.linger);
        self.send.queue.clear();
        self.events.end = true;
        self.send.ask = false;
        (self.events.answer, self.events.gap, self.events.traffic) = (false, false, false);
    }

    /// The stream cannot end at two places, nor go on behind its end.
    pub(super) fn ends_elsewhere(&mut self) {
        self.counters.drop(DropCause::AfterEnd);
        self.violated();
    }

    /// END that is not the peer's latest word (section 9, rule 6).
    pub(super) fn is_blind_end(&self, h: &Header) -> bool {
        h.options.has(Options::END) && h.seq < self.recv.nxt
    }

    /// An accepted control for an inactive context; what it asks is answered.
    pub(super) fn end_while_inactive(&mut self, h: &Header) {
        if h.options.has(Options::END) {
            self.enter_quiescent();
        }
    }

    /// The peer takes less than it said.
    fn lower(&mut self, maxdata: u32) {
        if !(MAXDATA_MIN..self.send.maxdata).contains(&maxdata) {
            return self.counters.drop(DropCause::BlindReset);
        }
        self.send.maxdata = maxdata;
        self.set_tpdu_len(self.settings.send_tpdu_len);
    }

    /// A DIAG; its key is right, which is its only proof.
    pub(super) fn final_diag(&mut self, h: &Header, diag: Diag) {
        let open = matches!(self.state, State::Open | State::HalfOpen);
        match diag.code {
            Code::ContextRefused if h.returned && self.is_opening() => {
                self.ended_by = Some(diag);
                self.events.reset = Some(ResetCause::Refused);
                self.enter_quiescent();
            }
            Code::InvalidContext if !h.returned && self.state == State::Inactive => {
                self.enter_quiescent();
            }
            Code::InvalidContext if !h.returned && self.state == State::Open => {
                let all_said = self.send.finishing && self.send.una == self.send.end;
                if !(all_said && self.recv.done) {
                    self.events.reset = Some(ResetCause::Peer);
                }
                self.enter_quiescent();
            }
            Code::ContextAbandoned | Code::ProtocolError if h.returned && open => {
                self.ended_by = Some(diag);
                self.events.reset = Some(ResetCause::Peer);
                self.enter_quiescent();
            }
            Code::MaximumPacketSize if h.returned && open => self.lower(diag.reason.number()),
            Code::RequestRefused if h.returned && open => {}
            _ => self.counters.drop(DropCause::BlindReset),
        }
    }
}
