//! What the responder takes of the packets that come: the initial step, which changes nothing, and the final one.

use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Code, First, Options, Reason, Service};

use super::super::super::connection::INITIAL_ALLOC;
use super::super::super::cookies::Opening;
use super::super::super::listener::refused;
use super::super::super::{Ends, Header};
use super::super::context::{Phase, is_datagram};
use super::super::{is_whole_message, take_all};
use super::{Arrived, Event, Id, Incoming, Responder, is_ours};
use crate::machine::{DropCause, Initial, Verdict};

impl Responder {
    /// The initial step. Changes nothing but counters. `is_proven`: the caller knows that what is sent to this address
    /// reaches who asks.
    pub fn handle_initial(
        &mut self,
        now: Instant,
        ends: &Ends,
        is_proven: bool,
        h: &Header,
        payload_len: u32,
    ) -> Incoming {
        let is_proven = is_proven || self.places.is_proven(now, ends.remote);
        if let Some(index) = self.find(ends.remote, h) {
            let nocheck = self.cfg.nocheck;
            let Some(context) = self.context(index) else {
                return Incoming::Drop(DropCause::Closed);
            };
            let judged = if context.remote != ends.remote {
                Err(DropCause::Closed)
            } else {
                match (&mut context.phase, &h.body) {
                    (Phase::Talking(c), _) => match c.handle_initial(now, h, payload_len) {
                        Initial::Drop(cause) => Err(cause),
                        initial => Ok(initial),
                    },
                    (_, Body::First(_)) if !h.checks_all() && !nocheck => Err(DropCause::Protocol),
                    (Phase::Gathering(_), Body::First(_)) if !h.checks_all() => {
                        Err(DropCause::Protocol)
                    }
                    (_, Body::First(_)) => context.plan(h, payload_len),
                    (_, Body::Diag(diag))
                        if diag.code == Code::InvalidContext && !h.returned && h.checks_all() =>
                    {
                        Ok(Initial::Control)
                    }
                    _ => Err(DropCause::Closed),
                }
            };
            return match judged {
                Ok(initial) => Incoming::Take(initial),
                Err(cause) => self.dropped(cause),
            };
        }
        let Body::First(first) = &h.body else { return self.dropped(DropCause::Closed) };
        self.judge_first(now, ends, is_proven, (h, first), payload_len)
    }

    /// A FIRST that would make a context.
    fn judge_first(
        &mut self,
        now: Instant,
        ends: &Ends,
        is_proven: bool,
        (h, first): (&Header, &First),
        payload_len: u32,
    ) -> Incoming {
        let service = first.traffic.service;
        let is_whole = is_whole_message(h);
        let unproven = !h.checks_all() && !self.cfg.nocheck;
        let misplaced = first.address.fits(ends.local.ip(), ends.remote).err();
        if service == Service::UnacknowledgedDatagram {
            let is_right = is_datagram(h) && !h.returned && !unproven && misplaced.is_none();
            let whole = || Incoming::Datagram(take_all(0, payload_len));
            return if is_right { whole() } else { self.dropped(DropCause::Protocol) };
        }
        let refusable = h.options.has(Options::MULTI) || unproven;
        if !is_ours(h) || refusable || misplaced.is_some() {
            let otherwise = if is_ours(h) { Reason::Options } else { Reason::Service };
            let reason = misplaced.unwrap_or(otherwise);
            return match refused(h, reason) {
                Some(diag) => Incoming::Reply(diag),
                None => self.dropped(DropCause::Protocol),
            };
        }
        if !h.checks_all() && !is_whole {
            return self.dropped(DropCause::Protocol);
        }
        if h.seq + u64::from(payload_len) > INITIAL_ALLOC {
            return self.dropped(DropCause::OutOfWindow);
        }
        if h.returned {
            let Some(peer) = first.xkey else { return self.dropped(DropCause::Malformed) };
            let is_good = self.cookies.is_cookie(now, &Opening::of(ends, h, first, peer), h.key);
            if !is_good || self.spent.has(h.key) {
                return self.dropped(DropCause::BlindOpen);
            }
        } else if !is_proven && !self.places.has_room(self.bounds.half_open, ends.remote) {
            self.cookies_given += 1;
            return Incoming::Reply(self.cookies.tell_cookie(now, ends, (h, first), service));
        }
        if self.contexts() >= self.bounds.contexts && self.inactive.is_empty() {
            return self.dropped(DropCause::Backlog);
        }
        Incoming::Take(take_all(h.seq, payload_len))
    }

    /// The final step: takes the packet with what the integrated step found, or forgets it. The payload that was taken
    /// belongs to this request.
    pub fn handle_final(
        &mut self,
        now: Instant,
        ends: &Ends,
        is_proven: bool,
        h: &Header,
        (initial, payload_len): (&Initial, u32),
        verdict: Verdict,
    ) -> Option<Id> {
        if let Verdict::Reject(cause) | Verdict::Part { rest: cause, .. } = verdict {
            self.drops.count(cause);
            return None;
        }
        let known = self.find(ends.remote, h);
        let is_proven = is_proven || self.places.is_proven(now, ends.remote);
        let index = match (known, &h.body) {
            (Some(index), _) => index,
            (None, Body::First(first)) => self.insert(now, ends, is_proven, h, first)?,
            _ => return None,
        };
        let context = self.context(index)?;
        if known.is_some() && context.remote == ends.remote {
            context.credit(h);
        }
        match (&mut context.phase, &h.body) {
            (Phase::Talking(c), _) => {
                c.handle_final(now, h, initial, verdict, false);
                self.settle(now, index);
            }
            (_, Body::Diag(_)) => self.let_go(index),
            (Phase::New | Phase::Gathering(_), _) => {
                self.gather(now, index, h, initial, payload_len)
            }
            _ => self.say_again(now, index),
        }
        Some(self.id(index))
    }

    /// FIRST again, of a request that has come.
    fn say_again(&mut self, now: Instant, index: u32) {
        let Responder { cfg, contexts, .. } = self;
        let Some(context) = contexts[index as usize].context.as_deref_mut() else { return };
        match context.phase {
            Phase::Handed if context.service == Service::Transaction => {
                context.talk(cfg, now);
            }
            Phase::Answered { .. } | Phase::Delivered | Phase::Refused => context.is_ready = true,
            _ => return,
        }
        self.settle(now, index);
    }

    fn gather(
        &mut self,
        now: Instant,
        index: u32,
        h: &Header,
        initial: &Initial,
        payload_len: u32,
    ) {
        let Some(context) = self.context(index) else { return };
        match context.take(h, initial, payload_len) {
            Ok(false) => {}
            Ok(true) => {
                let arrived = Arrived {
                    service: context.service,
                    len: context.len,
                    btag: context.btag,
                    from: context.remote,
                };
                self.timers.cancel(index);
                self.events.push_back((self.id(index), Event::Arrived(arrived)));
            }
            Err(()) => {
                context.phase = Phase::Spent;
                context.is_ready = true;
                self.drops.count(DropCause::Protocol);
                self.retire(now, index);
                self.events.push_back((self.id(index), Event::Gone));
                self.ready.push_back(index);
            }
        }
    }
}
