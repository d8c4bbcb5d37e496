//! What members say has come, what of it is lost, and what the controller hears.

use super::super::{Header, SPANS, Spans};
use super::sender::{Sender, SenderEvent, Stage};
use super::timers::Timer;
use crate::congestion::{Acked, Controller, Lost, Signal};
use crate::machine::DropCause;
use crate::queue::flag;
use crate::rack::Phase;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Control, Key, Options, Spans as _};
use std::net::SocketAddr;

/// Answers of one round trip, about: each weighs less by as much.
const SAMPLES: u32 = 2;
const UNSURE_SAMPLES: u32 = 4;
/// Packets that may be under way in any case.
pub(super) const PACKETS_LEAST: u64 = 4;
/// A member's loss is a mean of so many rounds, about.
const LOSS_ROUNDS: u32 = 8;

impl Sender {
    /// A packet came to us whose check is right.
    pub fn handle(&mut self, now: Instant, from: SocketAddr, h: &Header) -> Option<DropCause> {
        self.counters.segments_received += 1;
        let dropped = self.take(now, from, h).err();
        dropped.into_iter().for_each(|cause| self.counters.drop(cause));
        dropped
    }

    /// A packet is not looked at, for its check is wrong or what it has is nobody's.
    pub fn reject(&mut self, cause: DropCause) {
        self.counters.drop(cause);
    }

    fn take(&mut self, now: Instant, from: SocketAddr, h: &Header) -> Result<(), DropCause> {
        if !h.returned || self.stage == Stage::Over {
            // Our own, or another sender's.
            return Err(DropCause::Closed);
        }
        // Nothing here proves itself.
        if !h.checks_all() || !says_multi(h) {
            return Err(DropCause::Protocol);
        }
        if h.key == self.key {
            return match &h.body {
                Body::Jcntl(join) => self.take_join(now, from, h, join),
                Body::Unfit(unfit) => {
                    self.refuse(now, from, unfit.key, unfit.diag);
                    Ok(())
                }
                _ => Err(DropCause::Protocol),
            };
        }
        if self.members.get(&h.key).is_none_or(|m| m.addr != from) {
            return match self.answer_gone(now, from, h) {
                true => Ok(()),
                false => Err(DropCause::Closed),
            };
        }
        match &h.body {
            Body::Cntl(control) => self.take_control(now, h, control, None),
            Body::Ecntl(control, spans) => self.take_control(now, h, control, Some(spans)),
            // It has no such context, or no more.
            Body::Diag(_) => Err(DropCause::BlindReset),
            _ => Err(DropCause::Protocol),
        }
    }

    /// Whether the numbers of a control are a member's.
    fn is_acceptable(
        &self,
        h: &Header,
        control: &Control,
        spans: Option<&Spans>,
    ) -> Result<(), DropCause> {
        let Some(m) = self.members.get(&h.key) else { return Err(DropCause::Closed) };
        // What it has of the stream before it began is nobody's.
        let sent = |offset: u64| offset <= self.nxt.max(m.begins_at);
        let spans_are_sent = spans.is_none_or(|spans| spans.iter().all(|s| sent(s.right)));
        if h.seq > m.begins_at {
            return Err(DropCause::OutOfWindow);
        }
        if !self.may_echo(control.echo)
            || control.rseq < m.begins_at
            || !sent(control.rseq)
            || !spans_are_sent
        {
            return Err(DropCause::BadAck);
        }
        if control.alloc - control.rseq > u64::from(u32::MAX) {
            return Err(DropCause::Protocol);
        }
        Ok(())
    }

    fn take_control(
        &mut self,
        now: Instant,
        h: &Header,
        control: &Control,
        spans: Option<&Spans>,
    ) -> Result<(), DropCause> {
        self.is_acceptable(h, control, spans)?;
        let id = h.key;
        let asked = self.sync.asked_as(control.echo);
        let last_right = spans.and_then(|spans| spans.iter().last()).map(|s| s.right);
        let seen = last_right.and_then(|right| self.queue.last_within(right));
        let Some(m) = self.members.get_mut(&id) else { return Err(DropCause::Closed) };
        m.heard_at = now;
        let is_newer = m.take_echo(control.echo);
        if !core::mem::replace(&mut m.confirmed, true) {
            if let Some(at) = m.joined_at.filter(|_| m.joined_at == m.asked_again) {
                m.rtt.sample_of(now - at, now, SAMPLES);
            }
            self.events.push_back(SenderEvent::Joined { id, begins_at: m.begins_at });
        }
        let mut sample = None;
        if is_newer && let Some(asked) = asked {
            let (took, known) = (now - asked.at, m.rtt.srtt());
            match m.asked_again {
                None => {
                    m.rtt.sample_of(took, now, SAMPLES);
                    sample = Some(took);
                }
                Some(alone) => {
                    m.newest = m.newest.max(alone);
                    // Which question it answers nobody knows.
                    match known {
                        None => m.rtt.sample(now - alone, now),
                        Some(known) if took > known => {
                            m.rtt.sample_of(took.min(2 * known), now, UNSURE_SAMPLES);
                        }
                        Some(_) => {}
                    }
                }
            }
            m.newest = m.newest.max(asked.at);
            m.known_to = m.known_to.max(asked.nxt);
        }
        if let Some(s) = seen.filter(|s| !s.has(flag::RETRANSMITTED)) {
            m.newest = m.newest.max(s.sent_at);
        }
        m.known_to = m.known_to.max(last_right.unwrap_or(0)).max(control.rseq);
        if control.echo == m.asked {
            (m.waits_since, m.asked_again) = (None, None);
        } else if m.waits() {
            m.waits_since = m.waits_since.max(Some(now));
        }
        m.alloc = m.alloc.max(control.alloc);
        m.take_report(control.rseq, spans, is_newer);
        self.refresh();
        self.restart_wtimer(now);
        self.after_report(now, id, sample);
        self.take_closing(now, id, h, control.rseq);
        Ok(())
    }

    /// A member's report is noted: what all have, what is lost, and what follows.
    fn after_report(&mut self, now: Instant, id: Key, sample: Option<Duration>) {
        let una_before = self.una;
        let in_flight_before = self.queue.in_flight();
        let una = self.members.values().map(|m| m.rseq).min().unwrap_or(self.una);
        let mut bytes = self.ack_to(una.min(self.nxt));
        bytes += self.take_common();
        let lost = self.find_missing(now, id);
        if lost > 0 {
            self.enter_recovery(now, self.nxt - una_before);
        }
        if lost == 0 && matches!(self.phase, Phase::Loss { .. }) {
            // Nothing was missing: only answers were.
            self.counters.spurious += 1;
            self.cc.on_spurious(now);
            self.phase = Phase::Open;
        }
        let advanced = self.una > una_before;
        let recovering = matches!(self.phase, Phase::Recovery { .. });
        if advanced {
            self.phase.leave(self.una, &mut self.cc, now);
            self.end_round();
        }
        if bytes > 0 && (!recovering && advanced || self.cc.steers_recovery()) {
            let slowest = self.srtt();
            let is_slowest = self.members.get(&id).is_some_and(|m| m.rtt.srtt() == slowest);
            self.cc.on_acked(&Acked {
                now,
                bytes,
                in_flight_before,
                in_flight: self.queue.in_flight(),
                snd_una: self.una,
                snd_nxt: self.nxt,
                rtt: sample.filter(|_| is_slowest),
                srtt: slowest.unwrap_or_default(),
                window_limited: self.window_limited,
                newest: self.queue.take_newest(),
            });
        }
        if bytes > 0 && self.cfg.congestion.is_some() {
            self.follow_pace();
        }
    }

    /// The controller's pace, but not below the floor, nor below some packets a round trip: what nobody could report in time
    /// tells nothing of a path.
    fn follow_pace(&mut self) {
        let srtt = self.srtt();
        self.pacer.follow(&self.cc, srtt, self.max_payload, true);
        let round = srtt.unwrap_or(Duration::from_secs(1)).max(Duration::from_micros(1));
        let packets = PACKETS_LEAST * u64::from(self.max_payload);
        let least = u128::from(packets) * 1_000_000_000 / round.as_nanos();
        let least = u64::try_from(least).unwrap_or(u64::MAX).max(self.cfg.floor.into());
        if self.pacer.rate().is_some_and(|rate| rate < least) {
            self.pacer.set_pace(least, packets);
        }
    }

    /// All have everything below `una`; the bytes that are known to have come with that.
    pub(super) fn ack_to(&mut self, una: u64) -> u64 {
        if una <= self.una {
            return 0;
        }
        self.una = una;
        self.acked = true;
        self.counters.bytes_acked = una;
        self.queue.ack_to(una, |_, _| {})
    }

    /// What all members have beyond a gap is in flight no more; its bytes.
    fn take_common(&mut self) -> u64 {
        let mut lowest = self.members.values().filter(|m| m.rseq == self.una);
        let Some(first) = lowest.next() else { return 0 };
        let mut common = first.spans;
        for m in self.members.values().filter(|m| m.rseq > self.una || m.spans.iter().len() > 0) {
            if common.iter().len() == 0 {
                return 0;
            }
            common = intersect(&common, m.rseq, &m.spans, self.una);
        }
        if lowest.any(|m| m.spans.iter().len() == 0) {
            return 0;
        }
        common.iter().map(|span| self.queue.sack(span.left, span.right, |_| {})).sum()
    }

    /// Marks what this member misses and was sent well before something that came to it. Returns the bytes newly taken
    /// for lost of which the controller hears.
    fn find_missing(&mut self, now: Instant, id: Key) -> u64 {
        let Some(m) = self.members.get(&id) else { return 0 };
        let (spans, newest, known_to) = (m.spans, m.newest, m.known_to);
        let reordering = m.rtt.min().unwrap_or_default() / 4;
        let patience = m.rtt.srtt().unwrap_or_default() + reordering;
        // Above the last span but one nothing is lost for not being named.
        let full =
            m.spans_are_full().then(|| spans.iter().nth(SPANS - 2).map(|s| s.right)).flatten();
        let limit = full.unwrap_or(known_to);
        let (mut at, mut heard, mut packets) = (m.rseq.max(self.una), 0, 0);
        let mut wait: Option<Instant> = None;
        let is_worst = self.worst.is_none_or(|worst| worst == id);
        let ends = spans.iter().map(|s| (s.left, s.right)).chain([(limit, limit)]);
        for (left, right) in ends {
            let mut index = self.queue.index_beyond(at);
            while index < self.queue.sent() && self.queue.at(index).start < left.min(limit) {
                let s = *self.queue.at(index);
                if s.sent_at < newest && !s.has(flag::LOST | flag::SACKED) {
                    let due = s.sent_at + patience;
                    if s.sent_at + reordering <= newest || due <= now {
                        let bytes = self.queue.mark_lost(index);
                        packets += 1;
                        if is_worst {
                            heard += bytes;
                            self.tell_lost(now, index, bytes);
                        }
                    } else {
                        wait = Some(wait.map_or(due, |at| at.min(due)));
                    }
                }
                index += 1;
            }
            at = at.max(right);
        }
        if let Some(m) = self.members.get_mut(&id).filter(|_| packets > 0) {
            m.lost_in_round += packets;
            m.lost += u64::from(packets);
            self.worst.get_or_insert(id);
        }
        if let Some(at) = wait {
            let at = self.timers.at(Timer::Reorder).map_or(at, |set| set.min(at));
            self.timers.set(Timer::Reorder, at);
        }
        heard
    }

    fn tell_lost(&mut self, now: Instant, index: usize, bytes: u64) {
        if bytes > 0 && self.cc.keeps_packets() {
            let (start, packet) = (self.queue.at(index).start, self.queue.packet(index));
            self.cc.on_lost(&Lost { now, start, bytes, packet });
        }
    }

    /// What was too early to judge when it was reported.
    pub(super) fn on_reorder_timeout(&mut self, now: Instant) {
        let ids: Vec<Key> = self.members.keys().copied().collect();
        let outstanding = self.nxt - self.una;
        for id in ids {
            if self.find_missing(now, id) > 0 {
                self.enter_recovery(now, outstanding);
            }
        }
    }

    fn enter_recovery(&mut self, now: Instant, outstanding: u64) {
        if matches!(self.phase, Phase::Open) {
            self.cc.on_congestion(now, Signal::Loss, outstanding);
            self.counters.recoveries += 1;
            self.phase = Phase::Recovery { until: self.nxt, prr: None };
        }
    }

    /// After a window's length the member that loses most is chosen anew.
    fn end_round(&mut self) {
        if self.una < self.round_end {
            return;
        }
        self.round_end = self.nxt;
        for m in self.members.values_mut() {
            let lost = core::mem::take(&mut m.lost_in_round).min(1 << 16) << 10;
            m.loss = m.loss - m.loss / LOSS_ROUNDS + lost / LOSS_ROUNDS;
        }
        let worst = self.members.iter().max_by_key(|(_, m)| m.loss);
        self.worst = worst.filter(|(_, m)| m.loss > 0).map(|(id, _)| *id);
    }
}

/// What is said in a group says so, but for DIAG; who is told what is wrong with its segments is told of that, too.
pub(super) fn says_multi(h: &Header) -> bool {
    h.options.has(Options::MULTI) || matches!(h.body, Body::Diag(_) | Body::Unfit(_))
}

/// What lies in both: one's spans, and another's `rseq` and spans.
fn intersect(a: &Spans, rseq: u64, b: &Spans, base: u64) -> Spans {
    let mut common = Spans::new(base);
    for x in a.iter() {
        let below = core::iter::once((0, rseq));
        for (left, right) in below.chain(b.iter().map(|s| (s.left, s.right))) {
            let (left, right) = (x.left.max(left), x.right.min(right));
            if left < right {
                common.push(fusewire_wire::xtp::Span { left, right });
            }
        }
    }
    common
}
