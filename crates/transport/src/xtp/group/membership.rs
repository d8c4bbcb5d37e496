//! Joining, leaving, and who is dropped.

use super::super::connection::INITIAL_ALLOC;
use super::super::listener::diag_for;
use super::super::sync::behind;
use super::super::{Header, Spans, headers::when};
use super::member::{Leaving, Look, Member};
use super::sender::{Sender, SenderEvent, Stage};
use super::timers::Timer;
use super::{To, alone};
use crate::machine::{DropCause, TransmitKind};
use crate::rtt;
use fusewire_base::Instant;
use fusewire_wire::xtp::{
    Body, Code, Control, Diag, JoinControl, Key, Options, Reason, SpanList, TrafficControl,
};
use std::net::SocketAddr;

/// Those who were members, and are told so again.
const GONE_MAX: usize = 64;
/// Packets to one receiver each that wait at most, for each member.
const OUTGOING_EACH: usize = 4;

/// Somebody wants to join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub key: Key,
    pub from: SocketAddr,
    pub sync: u32,
}

/// Who is a member no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone {
    pub id: Key,
    pub key: Key,
    pub addr: SocketAddr,
    pub last: Last,
}

/// What it is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last {
    Dropped(Reason),
    End,
}

impl Sender {
    /// JCNTL came to our key.
    pub(super) fn take_join(
        &mut self,
        now: Instant,
        from: SocketAddr,
        h: &Header,
        join: &JoinControl,
    ) -> Result<(), DropCause> {
        let key = join.traffic.xkey;
        let known = self.members.iter_mut().find(|(_, m)| m.key == key && m.addr == from);
        if let Some((&id, m)) = known {
            m.joined_at = None;
            self.answer_join(id, h.sync);
            return Ok(());
        }
        let refused = if !self.is_reliable() || self.wclosed || self.stage != Stage::Open {
            Some(Reason::State)
        } else if join.address.dstport() != self.cfg.address.dstport() {
            Some(Reason::NoListener)
        } else if join.traffic.traffic.service != self.cfg.service {
            Some(Reason::Service)
        } else if self.members.values().any(|m| m.key == key) {
            // Another's key.
            Some(Reason::JoinDenied)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.deny_join(now, from, key, reason);
            return Ok(());
        }
        if let Some(ask) = self.asks.iter_mut().find(|ask| ask.key == key && ask.from == from) {
            ask.sync = h.sync;
            return Ok(());
        }
        if self.members.len() >= self.cfg.members_max {
            self.deny_join(now, from, key, Reason::NoResource);
            return Ok(());
        }
        if self.asks.len() == self.cfg.members_max {
            // Who is not told of asks again; what others make up is bounded by that.
            return Err(DropCause::Backlog);
        }
        self.asks.push_back(Ask { key, from, sync: h.sync });
        self.events.push_back(SenderEvent::Asked { key, from });
        Ok(())
    }

    /// Who asked with `key` becomes a member, known to both by `id`, which is drawn for it; it begins with the next
    /// message. `None` when nobody asked; who asks with a member's key is denied.
    pub fn accept(&mut self, now: Instant, key: Key, id: Key) -> Option<u64> {
        let at = self.asks.iter().position(|ask| ask.key == key)?;
        if self.members.contains_key(&id) || id == self.key || self.wclosed {
            return None;
        }
        if self.members.values().any(|m| m.key == key) {
            self.deny(now, key);
            return None;
        }
        let ask = self.asks.remove(at)?;
        let begins_at = self.queue.next_end().unwrap_or(self.nxt);
        let taken: Vec<u32> = self.members.values().map(|m| m.slot).collect();
        let slot = (0..).find(|slot| !taken.contains(slot)).unwrap_or(0);
        let rtt = rtt::Config {
            rto_min: self.cfg.wtimer_min.min(self.wtimer_max()),
            rto_max: self.wtimer_max(),
            ..rtt::Config::default()
        };
        let member = Member {
            key,
            addr: ask.from,
            begins_at,
            slot,
            rseq: begins_at,
            alloc: begins_at + INITIAL_ALLOC,
            spans: SpanList::new(begins_at),
            asked: self.sync.latest,
            echoed: self.sync.latest.wrapping_sub(1),
            waits_since: Some(now),
            asked_again: Some(now),
            heard_at: now,
            joined_at: Some(now),
            rtt: rtt::Estimator::new(&rtt),
            newest: Instant::ZERO,
            known_to: begins_at,
            confirmed: false,
            done: false,
            all_since: None,
            lost_in_round: 0,
            loss: 0,
            lost: 0,
            look: Look { rseq: begins_at, had: begins_at, nxt: begins_at, ..Look::default() },
        };
        self.members.insert(id, member);
        self.refresh();
        self.start_wtimer(now);
        self.answer_join(id, ask.sync);
        Some(begins_at)
    }

    /// Who asked with `key` may not join.
    pub fn deny(&mut self, now: Instant, key: Key) {
        if let Some(at) = self.asks.iter().position(|ask| ask.key == key)
            && let Some(ask) = self.asks.remove(at)
        {
            self.deny_join(now, ask.from, key, Reason::JoinDenied);
        }
    }

    /// A member is one no more.
    pub fn remove(&mut self, now: Instant, id: Key) {
        self.drop_member(now, id, Leaving::Removed);
    }

    fn answer_join(&mut self, id: Key, echo: u32) {
        let Some(m) = self.members.get(&id) else { return };
        let begin = m.begins_at;
        let delay = self.cfg.slot * m.slot;
        let control = Control { rseq: begin, alloc: begin, echo };
        let traffic = TrafficControl {
            control,
            delay_us: delay.as_micros() as u32,
            xkey: id,
            traffic: self.traffic(),
        };
        let body = Body::Jcntl(JoinControl { traffic, address: self.cfg.address });
        let (addr, key) = (m.addr, m.key);
        self.say(addr, key, Options::MULTI, begin, body, TransmitKind::Ack);
    }

    /// DIAG 5.
    fn deny_join(&mut self, now: Instant, to: SocketAddr, key: Key, reason: Reason) {
        self.refuse(now, to, key, Diag { code: Code::JoinRefused, reason });
    }

    /// DIAG to who is no member, as far as the limit of that lets it.
    pub(super) fn refuse(&mut self, now: Instant, to: SocketAddr, key: Key, diag: Diag) {
        self.counters.drop(DropCause::Refused);
        if self.limit.allows(now) {
            self.push((To::One(to), alone(diag_for(key, true, diag), TransmitKind::Reset)));
        }
    }

    /// A packet for one receiver.
    pub(super) fn say(
        &mut self,
        to: SocketAddr,
        key: Key,
        options: Options,
        seq: u64,
        body: Body<Spans>,
        kind: TransmitKind,
    ) {
        let header = Header {
            key,
            returned: true,
            options,
            check: 0,
            sort: 0,
            sync: self.sync.latest,
            seq,
            data_len: 0,
            body,
        };
        self.push((To::One(to), alone(header, kind)));
    }

    fn push(&mut self, packet: (To, super::Transmit)) {
        // What does not fit is asked for again.
        if self.outgoing.len() < OUTGOING_EACH * self.cfg.members_max {
            self.outgoing.push_back(packet);
        }
    }

    /// A member is asked alone; its sync is not raised for that.
    pub(super) fn ask_alone(&mut self, now: Instant, id: Key) {
        let latest = self.sync.latest;
        let Some(m) = self.members.get_mut(&id) else { return };
        m.ask(now, latest);
        m.asked_again = Some(now);
        let control = Control { rseq: m.begins_at, alloc: m.begins_at, echo: 0 };
        let (addr, key) = (m.addr, m.key);
        let ends = self.finishing && self.nxt == self.end;
        let options = Options::MULTI | Options::SREQ | when(ends, Options::WCLOSE);
        self.say(addr, key, options, self.nxt, Body::Cntl(control), TransmitKind::Probe);
    }

    /// RCLOSE and END for one that has everything.
    pub(super) fn say_end(&mut self, addr: SocketAddr, key: Key) {
        let control = Control { rseq: 0, alloc: 0, echo: self.sync.latest };
        let options = Options::MULTI | Options::WCLOSE | Options::RCLOSE | Options::END;
        self.say(addr, key, options, self.end, Body::Cntl(control), TransmitKind::Fin);
    }

    fn say_dropped(&mut self, addr: SocketAddr, key: Key, reason: Reason) {
        let header = diag_for(key, true, Diag { code: Code::ContextAbandoned, reason });
        self.push((To::One(addr), alone(header, TransmitKind::Reset)));
    }

    /// Somebody is a member no more, and told so. The group goes on.
    pub(super) fn drop_member(&mut self, now: Instant, id: Key, why: Leaving) {
        let Some(m) = self.members.remove(&id) else { return };
        let last = match why {
            Leaving::Left => Last::End,
            Leaving::Slow | Leaving::Silent => Last::Dropped(Reason::Traffic),
            Leaving::Removed => Last::Dropped(Reason::Unspecified),
        };
        match last {
            Last::End => self.say_end(m.addr, m.key),
            Last::Dropped(reason) => self.say_dropped(m.addr, m.key, reason),
        }
        self.forget(Gone { id, key: m.key, addr: m.addr, last });
        self.events.push_back(SenderEvent::Left { id, why });
        if self.worst == Some(id) {
            self.worst = None;
        }
        let held = m.rseq == self.una && self.una < self.nxt;
        self.after_leaving(now, held);
    }

    fn forget(&mut self, gone: Gone) {
        if self.gone.len() == GONE_MAX {
            self.gone.pop_front();
        }
        self.gone.push_back(gone);
    }

    fn after_leaving(&mut self, now: Instant, held: bool) {
        self.refresh();
        let nobody = self.members.is_empty();
        let una = self.members.values().map(|m| m.rseq).min().unwrap_or(self.nxt);
        self.ack_to(una.min(self.nxt));
        if nobody {
            self.timers.clear(Timer::W);
            self.timers.clear(Timer::Tail);
            self.timers.clear(Timer::Reorder);
        }
        if held || nobody {
            // What the controller has learnt is the one's who is gone.
            self.start_controller();
        }
        if !nobody && self.una < self.nxt {
            self.first_due = true;
            self.ask_first = true;
        }
        self.restart_wtimer(now);
        self.see_end(now);
    }

    /// A packet with a key that was a member's.
    pub(super) fn answer_gone(&mut self, now: Instant, from: SocketAddr, h: &Header) -> bool {
        let Some(gone) = self.gone.iter().find(|g| g.id == h.key && g.addr == from).copied() else {
            return false;
        };
        if !h.options.has(Options::END)
            && !matches!(h.body, Body::Diag(_))
            && self.limit.allows(now)
        {
            match gone.last {
                Last::End => self.say_end(gone.addr, gone.key),
                Last::Dropped(reason) => self.say_dropped(gone.addr, gone.key, reason),
            }
        }
        true
    }

    /// Whether everybody has everything.
    pub(super) fn see_end(&mut self, now: Instant) {
        let all = self.members.values().all(|m| m.done);
        let sent = self.una == self.end || self.members.is_empty();
        if self.stage == Stage::Open && self.finishing && all && sent && self.wclosed {
            self.stage = Stage::Lingering;
            self.timers = super::timers::Timers::default();
            self.timers.set(Timer::Over, now + self.cfg.linger);
            if !self.is_reliable() {
                // Nobody asks what they have missed.
                self.timers.set(Timer::Announce, now + self.cfg.announce);
            }
            self.events.push_back(SenderEvent::Ended);
            (self.first_due, self.ask_first) = (false, false);
        }
    }

    /// Once a second: who holds the others, and who says nothing (section 16, floor).
    pub(super) fn look(&mut self, now: Instant) {
        let before = core::mem::replace(&mut self.looked_at, now);
        let since = now - before;
        // One look came late: it is the sender that was not there.
        let is_late = since >= 2 * super::timers::LOOK;
        let silence = self.cfg.silence;
        let ends = self.wclosed && self.una == self.end;
        for m in self.members.values_mut().filter(|m| ends && !m.done) {
            m.all_since.get_or_insert(now);
        }
        let silent = |m: &Member| {
            let unanswered = m.waits_since.map(|since| since.max(m.heard_at));
            // Who has all says that, and is done.
            let since = [unanswered, m.all_since.filter(|_| !m.done)].into_iter().flatten().min();
            since.is_some_and(|since| now - since >= silence)
        };
        let grown = (u128::from(self.cfg.floor) * since.as_micros() / 1_000_000) as u64;
        if !is_late {
            let silent: Vec<Key> =
                self.members.iter().filter(|(_, m)| silent(m)).map(|(id, _)| *id).collect();
            for id in silent {
                self.drop_member(now, id, Leaving::Silent);
            }
            for id in self.slow(grown) {
                // Who is not there takes nothing, either.
                let is_heard = self.members.get(&id).is_some_and(|m| m.heard_at >= before);
                let why = if is_heard { Leaving::Slow } else { Leaving::Silent };
                self.drop_member(now, id, why);
            }
        }
        let (nxt, next) = (self.nxt, self.queue.next_unsent().map(|s| s.end()));
        for m in self.members.values_mut() {
            let blocked = next.is_some_and(|end| end > m.alloc);
            let lacks = !is_late && !m.goes_on(grown);
            m.look = Look { rseq: m.rseq, had: m.had(), alloc: m.alloc, nxt, blocked, lacks };
        }
    }

    /// Those that hold others who keep up, where whoever keeps up has grown by so many bytes.
    fn slow(&self, grown: u64) -> Vec<Key> {
        let keeps_up = |m: &Member| {
            let takes = m.goes_on(grown) || m.fills(grown);
            let lets = !m.look.blocked || m.alloc >= m.look.alloc.saturating_add(grown);
            takes && lets
        };
        if !self.members.values().any(keeps_up) {
            return Vec::new();
        }
        self.members.iter().filter(|(_, m)| !keeps_up(m)).map(|(id, _)| *id).collect()
    }

    /// It has said that it goes, or that it has all.
    pub(super) fn take_closing(&mut self, now: Instant, id: Key, h: &Header, rseq: u64) {
        if h.options.has(Options::END) {
            return self.drop_member(now, id, Leaving::Left);
        }
        let Some(m) = self.members.get_mut(&id) else { return };
        if h.options.has(Options::RCLOSE) && self.finishing && rseq == self.end {
            let (addr, key, first) = (m.addr, m.key, !core::mem::replace(&mut m.done, true));
            m.waits_since = None;
            self.say_end(addr, key);
            if first {
                self.events.push_back(SenderEvent::Done { id });
            }
            self.restart_wtimer(now);
            self.see_end(now);
        }
    }

    /// An echo that a member may send: it began with the sync that it was told.
    pub(super) fn may_echo(&self, echo: u32) -> bool {
        behind(echo, self.sync.latest).is_some_and(|by| by < 1 << 16)
    }
}
