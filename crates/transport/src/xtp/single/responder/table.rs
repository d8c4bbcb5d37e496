//! The responder's table: where contexts begin, are kept to say their answer again, and are forgotten.

use fusewire_base::Instant;
use fusewire_wire::xtp::First;

use super::super::super::listener::PROVEN;
use super::super::super::{Ends, Header, State};
use super::super::context::{Context, Phase};
use super::{Event, Id, Place, Responder};
use crate::machine::{Connection as _, DropCause, Stage};

/// So many that were forgotten may stand in a list beside as many as twice what is there.
const STALE: usize = 64;

impl Responder {
    /// A context for a request whose first packet was verified.
    pub(super) fn insert(
        &mut self,
        now: Instant,
        ends: &Ends,
        is_proven: bool,
        h: &Header,
        first: &First,
    ) -> Option<u32> {
        if self.contexts() >= self.bounds.contexts && !self.forget_oldest() {
            self.drops.count(DropCause::Backlog);
            return None;
        }
        let (keys, place) = if h.returned {
            self.spent.forget(now);
            if !self.spent.spend(now, h.key) {
                self.drops.count(DropCause::Backlog);
                return None;
            }
            let peer = first.xkey?;
            self.places.note_shown(now, ends.remote, peer);
            ((h.key, peer), None)
        } else {
            let place = self.places.take(self.bounds.half_open, ends.remote, h.key);
            if place.is_none() && !is_proven {
                return None;
            }
            let own = self.keys.key(now, &(ends.remote, h.key));
            ((own, h.key), place.filter(|_| !is_proven))
        };
        let credit = if h.returned || is_proven { PROVEN } else { h.packet_len() as u64 };
        let told = (credit, place);
        let context = Context::new(h, first, ends.remote, keys, told, self.cfg.sort);
        let index = self.free.pop().unwrap_or_else(|| {
            self.contexts.push(Place { generation: 0, context: None });
            self.contexts.len() as u32 - 1
        });
        self.contexts[index as usize].context = Some(Box::new(context));
        self.by_name.insert((ends.remote, keys.1), index);
        self.looked_for.set(None);
        self.by_key.insert(keys.0, index);
        self.timers.set(index, Some(now + self.cfg.half_open_timeout));
        Some(index)
    }

    /// An answer in one packet is kept; older ones make room.
    pub(super) fn keep(&mut self, now: Instant, id: Id, len: u32) {
        self.retire(now, id.index);
        self.ready.push_back(id.index);
        self.kept.push_back(id);
        self.answer_bytes += len as usize;
        while self.answer_bytes > self.bounds.answer_bytes && self.kept.len() > 1 {
            let Some(oldest) = self.kept.pop_front() else { return };
            if self.get(oldest).is_some() {
                self.let_go(oldest.index);
            }
        }
    }

    /// An answer need not be said again; that there was one stays known.
    pub(super) fn let_go(&mut self, index: u32) {
        let id = self.id(index);
        let Some(context) = self.context(index) else { return };
        let Phase::Answered { len, .. } = context.phase else { return };
        context.phase = Phase::Spent;
        context.is_ready = false;
        self.answer_bytes -= len as usize;
        self.events.push_back((id, Event::Gone));
        while let Some(front) = self.kept.front().copied() {
            let answered = |c: &mut Context| matches!(c.phase, Phase::Answered { .. });
            if self.get(front).is_some_and(answered) {
                return;
            }
            self.kept.pop_front();
        }
    }

    /// Nothing new will be said in it: it is remembered for a while.
    pub(super) fn retire(&mut self, now: Instant, index: u32) {
        let until = now + self.cfg.linger;
        let id = self.id(index);
        let Some(context) = self.context(index) else { return };
        context.leave_place();
        context.is_retired = true;
        if !matches!(context.phase, Phase::Talking(_)) {
            self.timers.cancel(index);
        }
        self.inactive.push_back((until, id));
    }

    /// Makes room by forgetting the inactive context that is oldest.
    pub(super) fn forget_oldest(&mut self) -> bool {
        while let Some((_, id)) = self.inactive.pop_front() {
            if self.get(id).is_some() {
                self.remove(id.index);
                return true;
            }
        }
        false
    }

    /// Nobody asks for this one again, nor waits for its answer: unless that is on its way, nothing of it is remembered, and an
    /// answer that comes yet is nobody's. That it is not handed over again is the caller's to see to.
    pub fn forget(&mut self, id: Id) {
        let is_over = |context: &mut Context| context.is_retired || context.waits_for_answer();
        if !self.get(id).is_some_and(is_over) {
            return;
        }
        self.remove(id.index);
        let most = 2 * self.contexts() + STALE;
        if self.inactive.len() > most {
            let mut inactive = std::mem::take(&mut self.inactive);
            inactive.retain(|(_, id)| self.is_there(*id));
            self.inactive = inactive;
        }
        if self.kept.len() > most {
            let mut kept = std::mem::take(&mut self.kept);
            kept.retain(|id| self.is_there(*id));
            self.kept = kept;
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        self.let_go(index);
        let id = self.id(index);
        let place = &mut self.contexts[index as usize];
        let Some(context) = place.context.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        self.by_name.remove(&(context.remote, context.peer));
        self.looked_for.set(None);
        self.by_key.remove(&context.own);
        self.timers.cancel(index);
        self.free.push(index);
        if !context.is_retired {
            self.events.push_back((id, Event::Gone));
        }
    }

    /// After anything that may have changed a context with something to say.
    pub(super) fn settle(&mut self, now: Instant, index: u32) {
        let id = self.id(index);
        let Some(context) = self.context(index) else { return };
        let mut gone = false;
        if let Phase::Talking(c) = &mut context.phase {
            while c.poll_event().is_some() {}
            gone = matches!(c.stage(), Stage::Lingering | Stage::Closed) && !context.is_retired;
            let due = c.poll_timeout();
            if c.state() == State::Open {
                context.proven(now);
            }
            self.timers.set(index, due);
        }
        if gone {
            self.retire(now, index);
            self.events.push_back((id, Event::Gone));
        }
        if let Some(context) = self.context(index) {
            context.is_ready = true;
        }
        self.ready.push_back(index);
    }
}
