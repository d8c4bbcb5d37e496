//! Receiving a segment, in the initial and the final step (RFC 9293, section 3.10.7). The integrated step
//! between them is the caller's.

use super::connection::Connection;
use super::state::State;
use crate::machine::{DropCause, Initial, PayloadPlan, Verdict};
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_wire::tcp::{Flags, Header};

/// Duplicate acknowledgements for one batch to a peer without SACK.
const DUPLICATE_ACKS_MAX: u8 = 16;
/// TS.Recent does not count after so long without a segment (RFC 7323, section 5.5).
const TS_RECENT_LIFETIME: Duration = Duration::from_secs(24 * 24 * 3600);

/// How much a peer's timestamp may be ahead of what its clock should show, in milliseconds.
const TS_SLACK_MS: u64 = 1000;

impl Connection {
    /// The initial step: where the payload goes. Changes nothing but counters; a caller that finds the
    /// checksum wrong can forget the segment, or count it with [`Verdict::Reject`].
    #[inline]
    pub fn handle_initial(&mut self, now: Instant, h: &Header, payload_len: u32) -> Initial {
        if self.state == State::Closed {
            return self.dropped(DropCause::Closed);
        }
        if payload_len == 0 {
            return Initial::Control;
        }
        if self.state == State::SynSent || h.flags.any(Flags::SYN | Flags::RST) {
            // Payload that comes with these is not taken; the peer sends it again.
            return Initial::Control;
        }
        if !h.flags.has(Flags::ACK) {
            return self.dropped(DropCause::NoAck);
        }
        let Some(start) = self.recv.position_of(h.seq) else {
            return Initial::Payload(nothing(0, payload_len));
        };
        let end = start + u64::from(payload_len);
        let acceptable = self.timestamp_is_fresh(now, h) && self.ack_is_acceptable(h);
        let recv = &self.recv;
        if start == recv.nxt
            && end <= recv.adv
            && end <= recv.fin
            && recv.ranges.is_empty()
            && acceptable
        {
            return Initial::Payload(PayloadPlan {
                offset: start - 1,
                len: payload_len,
                trim_front: 0,
                trim_back: 0,
                in_order: true,
                duplicate: false,
            });
        }
        if !acceptable {
            return Initial::Payload(nothing(start, payload_len));
        }
        self.plan(start, end)
    }

    /// What of `start..end` is new, inside the window and has room.
    fn plan(&mut self, start: u64, end: u64) -> Initial {
        let payload_len = (end - start) as u32;
        let recv = &self.recv;
        let from = start.max(recv.nxt);
        let to = end.min(recv.adv).min(recv.fin);
        if from >= to {
            if end > recv.fin {
                self.counters.drop(DropCause::AfterEnd);
            }
            return Initial::Payload(nothing(start, payload_len));
        }
        let (from, to) = recv.ranges.first_gap(from, to);
        if from >= to {
            return Initial::Payload(nothing(start, payload_len));
        }
        if from > recv.nxt && !recv.ranges.has_room(from, to) {
            self.counters.drop(DropCause::TooManyRanges);
            return Initial::Payload(nothing(start, payload_len));
        }
        Initial::Payload(PayloadPlan {
            offset: from - 1,
            len: (to - from) as u32,
            trim_front: (from - start) as u32,
            trim_back: (end - to) as u32,
            in_order: from == recv.nxt,
            duplicate: false,
        })
    }

    fn dropped(&mut self, cause: DropCause) -> Initial {
        self.counters.drop(cause);
        Initial::Drop(cause)
    }

    /// PAWS (RFC 7323, section 5.3). A segment without the timestamp that was agreed is not fresh either.
    pub(super) fn timestamp_is_fresh(&self, now: Instant, h: &Header) -> bool {
        if !self.ts.enabled {
            return true;
        }
        match h.options.timestamps {
            Some((value, _)) => {
                !Seq(value).lt(Seq(self.ts.recent)) || now - self.ts.recent_at > TS_RECENT_LIFETIME
            }
            None => false,
        }
    }

    /// The position that the acknowledgement field stands for, when it lies in
    /// `SND.UNA - MAX.SND.WND ..= SND.NXT` (RFC 5961, section 5.2).
    pub(super) fn acceptable_ack(&self, h: &Header) -> Option<u64> {
        let ack = h.ack.to_offset(self.send.iss, self.send.una)?;
        let oldest = self.send.una.saturating_sub(u64::from(self.send.wnd_max));
        (oldest <= ack && ack <= self.send.nxt).then_some(ack)
    }

    /// Whether a segment that came another way could be the peer's: its sequence number, acknowledgement and
    /// timestamp are near what the peer would send now. Somebody who only knows the ports, or has a
    /// connection with the same ports from elsewhere, does not guess that. Changes nothing.
    pub fn could_be_the_peers(&self, now: Instant, h: &Header, payload_len: u32) -> bool {
        let synchronised = !matches!(self.state, State::Closed | State::SynSent)
            && h.flags.has(Flags::ACK)
            && !h.flags.any(Flags::SYN | Flags::RST);
        let Some(start) = self.recv.position_of(h.seq).filter(|_| synchronised) else {
            return false;
        };
        let window = u64::from(self.recv.window);
        let in_window = start + window >= self.recv.nxt
            && start + u64::from(payload_len) <= self.recv.adv.max(self.recv.nxt);
        let on_time = match h.options.timestamps {
            Some((value, _)) if self.ts.enabled => {
                // Both clocks tick once a millisecond, more or less.
                let elapsed = (now - self.ts.recent_at).as_millis() as u64;
                let ahead = u64::from(value.wrapping_sub(self.ts.recent));
                ahead <= elapsed + elapsed / 8 + TS_SLACK_MS
            }
            _ => !self.ts.enabled,
        };
        in_window && on_time && self.ack_is_acceptable(h)
    }

    fn ack_is_acceptable(&self, h: &Header) -> bool {
        self.acceptable_ack(h).is_some()
    }

    /// Payload was accepted that carried a congestion mark.
    fn count_congestion_mark(&mut self) {
        self.counters.ecn_marks += 1;
        if self.ecn.on_mark() {
            self.events.send_ack = true;
        }
    }

    /// The segment brings data that nobody will read: the application has closed. The peer learns it from a
    /// reset that it must accept, whatever of ours it has received (RFC 9293, section 3.6.1).
    pub fn refuse_data(&mut self, h: &Header) {
        self.events.send_reset = Some((h.ack, None));
        self.events.reset = Some(crate::machine::ResetCause::Local);
        self.enter_closed();
    }

    /// The final step: takes the segment with what the integrated step found, or forgets it. It was `marked` when its
    /// IP header said CE, which counts only if payload of it is accepted (RFC 3168, section 6.1.3): anyone can mark
    /// what nobody sent.
    #[inline]
    pub fn handle_final(
        &mut self,
        now: Instant,
        h: &Header,
        plan: &Initial,
        verdict: Verdict,
        marked: bool,
    ) {
        match verdict {
            Verdict::Reject(cause) => return self.counters.drop(cause),
            Verdict::Part { rest, .. } => self.counters.drop(rest),
            Verdict::Accept { .. } | Verdict::Control => {}
        }
        let bytes_before = self.counters.bytes_received;
        if let (Initial::Payload(plan), Verdict::Accept { len }) = (plan, verdict)
            && plan.in_order
            && plan.is_whole()
            && plan.len == len
            && self.state == State::Established
            && h.flags.without(Flags::PSH) == Flags::ACK
            && plan.offset + 1 == self.recv.nxt
            && self.recv.ranges.is_empty()
            && h.options.sack_count == 0
        {
            self.final_in_order(now, h, len);
        } else {
            self.final_general(now, h, plan, verdict);
        }
        if marked && self.counters.bytes_received != bytes_before {
            self.count_congestion_mark();
        }
    }

    /// Header prediction: the next payload in order, and nothing else (RFC 9293 leads here by the same
    /// steps). The initial step found the timestamp fresh and the acknowledgement acceptable.
    #[inline]
    fn final_in_order(&mut self, now: Instant, h: &Header, len: u32) {
        self.counters.segments_received += 1;
        self.counters.data_segments_received += 1;
        (self.recv.heard_at, self.recv.data_at) = (now, now);
        self.update_ts_recent(now, h);
        let window = u32::from(h.window) << self.send.shift;
        let ack = h.ack.to_offset(self.send.iss, self.send.una);
        if let Some(ack) = ack
            && ack >= self.send.una
            && (ack != self.send.una || window != self.send.wnd)
        {
            self.process_ack(now, h, ack, len);
        }
        self.recv.nxt += u64::from(len);
        self.recv.segment_len_max = self.recv.segment_len_max.max(len);
        self.counters.bytes_received += u64::from(len);
        self.owe_ack(now);
    }

    fn final_general(&mut self, now: Instant, h: &Header, plan: &Initial, verdict: Verdict) {
        self.counters.segments_received += 1;
        let (plan, payload_len) = match plan {
            Initial::Payload(plan) => (Some(plan), plan.trim_front + plan.len + plan.trim_back),
            Initial::Control => (None, 0),
            Initial::Drop(_) => return,
        };
        if payload_len > 0 {
            self.counters.data_segments_received += 1;
        }
        match self.state {
            State::Closed => return self.counters.drop(DropCause::Closed),
            State::SynSent => return self.final_syn_sent(now, h),
            _ => {}
        }
        let Some(ack) = self.check_segment(now, h, payload_len) else { return };
        // Only now: what anyone can send says nothing of the peer.
        self.recv.heard_at = now;
        self.update_ts_recent(now, h);
        if self.state == State::SynReceived {
            self.establish(now);
            self.update_window_after_handshake(h, ack);
        }
        if ack >= self.send.una {
            self.process_ack(now, h, ack, payload_len);
        } else if self.recv.sack && h.options.sack_count > 0 {
            // Overtaken on its way: what it reports is still true (RFC 6675, section 5.1).
            self.process_ack(now, h, self.send.una, payload_len);
        }
        if self.after_ack(now) {
            return;
        }
        if h.flags.has(Flags::URG) && self.receives() {
            self.note_urgent(h);
        }
        if self.ecn.is_enabled() && payload_len > 0 && h.flags.has(Flags::CWR) {
            self.ecn.on_cwr();
        }
        if let Some(plan) = plan {
            match verdict {
                Verdict::Accept { len } | Verdict::Part { len, .. } if len > 0 => {
                    self.take_payload(now, plan, len);
                }
                _ => self.refuse(h, plan, payload_len),
            }
        }
        // A FIN behind what is wrong comes again with it.
        if h.flags.has(Flags::FIN) && !matches!(verdict, Verdict::Part { .. }) {
            self.note_fin(h, payload_len);
        }
        self.reach_fin(now);
    }

    /// TS.Recent follows the segment that the next acknowledgement begins with (RFC 7323, section 4.3).
    pub(super) fn update_ts_recent(&mut self, now: Instant, h: &Header) {
        if self.ts.enabled
            && let Some((value, _)) = h.options.timestamps
            && !Seq(value).lt(Seq(self.ts.recent))
            && h.seq.le(self.recv.seq_of(self.recv.last_ack))
        {
            (self.ts.recent, self.ts.recent_at) = (value, now);
        }
    }

    /// Payload was verified and stored: the range counts as received.
    fn take_payload(&mut self, now: Instant, plan: &PayloadPlan, len: u32) {
        let start = plan.offset + 1;
        let end = start + u64::from(len.min(plan.len));
        let recv = &mut self.recv;
        // Between the two steps nothing else may have been taken; a caller that broke this loses nothing
        // but the segment.
        if start < recv.nxt || end > recv.adv || !self.receives() {
            return;
        }
        let recv = &mut self.recv;
        recv.segment_len_max = recv.segment_len_max.max(len);
        recv.data_at = now;
        self.counters.bytes_received += end - start;
        if start == recv.nxt {
            let had_holes = !recv.ranges.is_empty();
            recv.nxt = recv.ranges.advance(end);
            if had_holes {
                // A hole was filled: the sender should know at once (RFC 5681, section 4.2).
                recv.unacked += 1;
                self.events.send_ack = true;
            } else {
                self.owe_ack(now);
            }
            if plan.trim_front > 0 {
                self.events.send_ack = true;
                if self.recv.sack {
                    // RFC 2883, section 4.1.2: of a segment that was here in part, that part.
                    let front = start - u64::from(plan.trim_front);
                    self.recv.ranges.note_duplicate(front, start);
                }
            }
        } else {
            recv.ranges.insert(start, end);
            recv.duplicate_acks = (recv.duplicate_acks + 1).min(DUPLICATE_ACKS_MAX);
            self.counters.out_of_order += 1;
            self.events.send_ack = true;
        }
    }

    /// Payload was not taken: the peer learns what we have.
    fn refuse(&mut self, h: &Header, plan: &PayloadPlan, payload_len: u32) {
        self.events.send_ack = true;
        if plan.duplicate
            && self.recv.sack
            && let Some(start) = self.recv.position_of(h.seq)
        {
            let end = start + u64::from(payload_len);
            if end <= self.recv.nxt || self.recv.ranges.first_gap(start, end).0 >= end {
                self.recv.ranges.note_duplicate(start, end);
            }
        }
    }

    /// Urgent data lies ahead (RFC 9293, section 3.10.7.4, sixth check; RFC 6093: it stays inline).
    fn note_urgent(&mut self, h: &Header) {
        let Some(start) = self.recv.position_of(h.seq) else { return };
        let upto = start + u64::from(h.urgent);
        if upto > self.recv.urgent && upto > self.recv.consumed {
            self.recv.urgent = upto;
            self.events.urgent = true;
        }
    }

    fn note_fin(&mut self, h: &Header, payload_len: u32) {
        if !self.receives() {
            return;
        }
        let Some(start) = self.recv.position_of(h.seq) else { return };
        let fin = start + u64::from(payload_len);
        if fin < self.recv.ranges.end() && self.recv.fin == u64::MAX {
            // The stream cannot end before what was received of it.
            return self.counters.drop(DropCause::Protocol);
        }
        if fin >= self.recv.nxt && fin <= self.recv.adv && self.recv.fin == u64::MAX {
            self.recv.fin = fin;
            self.events.send_ack = true;
            if fin > self.recv.nxt && fin < self.recv.adv && self.recv.ranges.has_room(fin, fin + 1)
            {
                // FIN is reported like a byte, so that it is not sent again for the hole before it.
                self.recv.ranges.insert(fin, fin + 1);
            }
        }
    }
}

/// A plan to take nothing of a payload.
fn nothing(start: u64, payload_len: u32) -> PayloadPlan {
    PayloadPlan {
        offset: start.saturating_sub(1),
        len: 0,
        trim_front: payload_len,
        trim_back: 0,
        in_order: false,
        duplicate: true,
    }
}
