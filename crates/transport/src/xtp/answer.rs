//! What a control does: rseq, alloc, spans and echo (`docs/xtp.md`, sections 8 to 11).

use super::config::Retransmission;
use super::connection::Connection;
use super::recovery::Progress;
use super::timers::Timer;
use super::{Header, Spans};
use crate::machine::DropCause;
use crate::queue::{Segment, flag};
use crate::rack::Delivered;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, Control, Spans as _};

/// Answers of one round trip, about: each weighs less by as much.
const SAMPLES: u32 = 8;

impl Connection {
    /// Whether the numbers of a control are the peer's (section 9, rule 5).
    pub(super) fn control_is_acceptable(
        &self,
        h: &Header,
        control: &Control,
    ) -> Result<(), DropCause> {
        let edge = if self.recv.noflow { self.recv.nxt + (1 << 31) } else { self.recv.adv };
        if h.seq > edge {
            return Err(DropCause::OutOfWindow);
        }
        let sent = |offset: u64| offset <= self.send.nxt;
        let spans_are_sent = match &h.body {
            Body::Ecntl(_, spans) => spans.iter().all(|span| sent(span.right)),
            _ => true,
        };
        if !self.sync.may_be_echoed(control.echo) || !sent(control.rseq) || !spans_are_sent {
            return Err(DropCause::BadAck);
        }
        if control.alloc - control.rseq > u64::from(u32::MAX) {
            return Err(DropCause::Protocol);
        }
        Ok(())
    }

    /// The control was accepted.
    pub(super) fn take_answer(&mut self, now: Instant, control: &Control, spans: Option<&Spans>) {
        let taken_back = self.take_back_spans(now, control);
        let una_before = self.send.una;
        let in_flight_before = self.send.queue.in_flight();
        if control.alloc > self.send.alloc {
            self.send.alloc = control.alloc;
            self.send.exhausted = false;
            self.timers.clear(Timer::Persist);
        }
        let was_answered = self.sync.answered;
        let was_shaking = self.sync.is_shaking_hands();
        let asked = self.sync.take_echo(control.echo);
        let rtt = asked.map(|asked| now - asked.at);
        if let Some(rtt) = rtt {
            self.rtt.sample_of(rtt, now, SAMPLES);
        }
        let delivered = self.take_delivered(now, control, spans, asked.map(|asked| asked.at));
        if control.rseq > una_before {
            self.send.una = control.rseq;
            self.events.acked = true;
            self.counters.bytes_acked = control.rseq;
            let kept = self.send.tags.partition_point(|tag| tag.0 < control.rseq);
            self.send.tags.drain(..kept);
            if rtt.is_none() {
                self.rtt.ease_back_off();
            }
        }
        if let Some(asked) = asked {
            self.rack.on_echo(asked.at, asked.nxt, now - asked.at);
        }
        if self.sync.answered != was_answered {
            self.restart_wtimer(now);
        }
        let shook_hands = was_shaking && !self.sync.is_shaking_hands();
        let progress =
            Progress { una_before, in_flight_before, taken_back, delivered, rtt, shook_hands };
        self.after_answer(now, &progress);
    }

    /// rseq and spans into the scoreboard.
    fn take_delivered(
        &mut self,
        now: Instant,
        control: &Control,
        spans: Option<&Spans>,
        asked_at: Option<Instant>,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        let at = (now, self.rtt.min().unwrap_or_default());
        // Of what was sent again, an answer to a question from before says nothing.
        let older = |sent_at: Instant| asked_at.is_none_or(|asked| asked < sent_at);
        let from = self.send.recovers_from;
        let late = |s: &Segment| {
            let again = s.has(flag::RETRANSMITTED) && s.sent_at >= from && older(s.sent_at);
            u32::from(again && now - s.sent_at < at.1 / 2)
        };
        self.rack.begin_ack();
        let (rack, queue) = (&mut self.rack, &mut self.send.queue);
        if control.rseq > self.send.una {
            delivered.bytes += queue.ack_to(control.rseq, |s, count| {
                rack.deliver(&mut delivered, s, at, older);
                delivered.segments += count - 1;
                delivered.late += late(s);
            });
        }
        let selective = self.settings.retransmission == Retransmission::SelectiveRepeat;
        let known = control.rseq.max(self.send.una);
        let Some(spans) = spans else {
            self.rack.end_ack(self.send.max_payload);
            return delivered;
        };
        self.counters.spans_received += spans.iter().count() as u64;
        let below = delivered.bytes;
        for span in spans.iter().filter(|span| span.right > known) {
            if selective {
                delivered.bytes += queue.sack(span.left.max(known), span.right, |s| {
                    rack.deliver(&mut delivered, s, at, older);
                    delivered.late += late(s);
                });
            } else if let Some(s) = queue.last_within(span.right) {
                // That it arrived shows what was lost before it; nothing else is noted of it.
                if !s.has(flag::RETRANSMITTED) {
                    rack.on_echo(s.sent_at, s.end(), now - s.sent_at);
                }
            }
        }
        self.rack.end_ack(self.send.max_payload);
        if delivered.bytes > below {
            self.note_spans(control);
        }
        delivered
    }
}
