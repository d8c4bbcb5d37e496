//! What the sender sends, and when it asks.

use super::super::{Header, Transmit, headers::when};
use super::sender::{Sender, Stage};
use super::timers::Timer;
use super::{To, alone};
use crate::congestion::Controller;
use crate::machine::TransmitKind;
use crate::queue::{Segment, flag};
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{Body, First, Options};

/// So many packets for the answer of a member, at least, unless the window is exhausted.
const PACKETS_FOR_ANSWER: usize = 2;
/// How long answers take while nobody has given one.
const PAUSE_INITIAL: Duration = Duration::from_millis(100);

impl Sender {
    /// The next packet to put on the wire, and where it goes; `None` until something happens or `poll_timeout` comes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(To, Transmit)> {
        if self.stage == Stage::Over {
            return None;
        }
        if let Some(packet) = self.outgoing.pop_front() {
            self.counters.segments_sent += 1;
            return Some(packet);
        }
        if self.finishing && self.is_reliable() && self.members.is_empty() {
            // Nobody wants it any more.
            self.queue.clear();
            (self.una, self.end) = (self.nxt, self.nxt);
        }
        let closes = self.finishing && !self.wclosed && self.nxt == self.end;
        if self.first_due || self.ask_first || closes {
            return Some((To::Group, self.first(now)));
        }
        if self.stage != Stage::Open {
            return None;
        }
        let transmit = self.next_data(now)?;
        Some((To::Group, transmit))
    }

    /// FIRST: here is a group; and with SREQ the question to all.
    fn first(&mut self, now: Instant) -> Transmit {
        self.first_due = false;
        let ends = self.finishing && self.nxt == self.end;
        let asks = core::mem::take(&mut self.ask_first) || ends && !self.wclosed;
        let asks = asks && self.is_reliable() && !self.members.is_empty();
        if asks {
            let stamp = self.next_stamp(now);
            self.ask_all(now, stamp);
        }
        let first =
            First { address: self.cfg.address, traffic: self.traffic(), xkey: None, btag: None };
        let options = Options::MULTI | when(asks, Options::SREQ) | when(ends, Options::WCLOSE);
        let seq = self.queue.next_end().unwrap_or(self.nxt);
        let header = self.header(options, seq, 0, Body::First(first));
        self.leave(now, &header);
        self.wclosed |= ends;
        self.see_end(now);
        alone(header, TransmitKind::Syn)
    }

    fn header(
        &self,
        options: Options,
        seq: u64,
        data_len: u32,
        body: Body<super::super::Spans>,
    ) -> Header {
        Header {
            key: self.key,
            returned: false,
            options,
            check: 0,
            sort: 0,
            sync: self.sync.latest,
            seq,
            data_len,
            body,
        }
    }

    /// A packet leaves for the group.
    fn leave(&mut self, now: Instant, header: &Header) {
        self.counters.segments_sent += 1;
        self.rate.on_sent(now, header.packet_len() as u64 + u64::from(self.cfg.carried_by));
    }

    /// Everybody is asked.
    fn ask_all(&mut self, now: Instant, stamp: Instant) {
        self.sync.raise(stamp, self.nxt);
        self.asked_at = now;
        self.probed = false;
        let latest = self.sync.latest;
        self.members.values_mut().for_each(|m| m.ask(now, latest));
        self.start_wtimer(now);
    }

    fn next_data(&mut self, now: Instant) -> Option<Transmit> {
        if self.is_reliable() && self.members.is_empty() {
            return None;
        }
        let lost = self.queue.next_lost();
        let candidate = match lost {
            Some(index) => *self.queue.at(index),
            None => match self.queue.next_unsent() {
                Some(segment) => *segment,
                None => {
                    let full = self.queue.in_flight() + u64::from(self.max_payload);
                    self.window_limited = full > self.congestion_window();
                    self.ran_dry = !self.window_limited;
                    self.arm_tail(now);
                    return None;
                }
            },
        };
        // What who does not answer lacks fills the window, and the others wait for what they miss.
        let idle = now - self.sent_at >= self.pause;
        let again = lost.is_some() && (self.is_quiet() || idle);
        if !again && !self.fits(candidate.len) {
            if lost.is_some() {
                self.timers.set(Timer::Pace, self.sent_at + self.pause);
            }
            self.window_limited = true;
            self.arm_tail(now);
            return None;
        }
        if lost.is_none() && !self.alloc_lets_out(&candidate) {
            self.window_limited = false;
            self.arm_tail(now);
            return None;
        }
        let paced = (self.pacer.room(now) == 0).then(|| self.pacer.next_send()).flatten();
        if let Some(at) = paced.max(self.rate.next_send(now)) {
            self.timers.set(Timer::Pace, at);
            self.arm_tail(now);
            return None;
        }
        Some(match lost {
            Some(index) => self.retransmit(now, index),
            None => self.transmit_new(now),
        })
    }

    pub(super) fn fits(&self, len: u32) -> bool {
        let in_flight = self.queue.in_flight();
        in_flight == 0 || in_flight + u64::from(len) <= self.congestion_window()
    }

    /// All have answered, and nothing was sent since they were asked: what counts as in flight may be what nobody could
    /// report.
    fn is_quiet(&self) -> bool {
        self.sync.packets == 0 && !self.members.values().any(|m| m.waits())
    }

    fn alloc_lets_out(&self, s: &Segment) -> bool {
        s.end() <= self.edge
    }

    fn transmit_new(&mut self, now: Instant) -> Transmit {
        let in_flight = self.queue.in_flight();
        let dry = core::mem::take(&mut self.ran_dry);
        if dry && self.cc.keeps_packets() && self.fits(self.max_payload) && self.pacer.is_full(now)
        {
            self.cc.on_app_limited(in_flight);
        }
        let stamp = self.next_stamp(now);
        let s = self.queue.mark_sent(stamp, false);
        self.nxt = s.end();
        let index = self.queue.sent() - 1;
        self.queue.show_sent(&mut self.cc, now, index, s.len.into());
        let transmit = self.data(now, &s, false);
        if !self.is_reliable() {
            self.ack_to(self.nxt);
        }
        transmit
    }

    fn retransmit(&mut self, now: Instant, index: usize) -> Transmit {
        let stamp = self.next_stamp(now);
        let s = self.queue.mark_resent(index, stamp);
        self.queue.show_sent(&mut self.cc, now, index, s.len.into());
        self.counters.retransmissions += 1;
        self.data(now, &s, true)
    }

    fn data(&mut self, now: Instant, s: &Segment, retransmission: bool) -> Transmit {
        self.pacer.on_sent(now, s.len.into());
        let asks = self.asks(now);
        if asks {
            self.ask_all(now, s.sent_at);
        } else {
            self.sync.packets += 1;
        }
        self.sent_at = now;
        let ends = self.finishing && s.end() == self.end;
        self.wclosed |= ends;
        let reliable = self.is_reliable();
        let mechanisms = if reliable { Options::FASTNAK } else { Options::NOERR | Options::NOFLOW };
        let options = Options::MULTI
            | mechanisms
            | when(self.cfg.nocheck, Options::NOCHECK)
            | when(asks, Options::SREQ)
            | when(s.has(flag::PUSH), Options::EOM)
            | when(ends, Options::WCLOSE);
        let header = self.header(options, s.start, s.len, Body::Data { btag: None });
        self.leave(now, &header);
        self.counters.data_segments_sent += 1;
        Transmit {
            header,
            payload: Some(s.start..s.end()),
            retransmission,
            kind: TransmitKind::Data,
            ecn_capable: false,
        }
    }

    /// Whether this packet, which is marked as sent, asks all.
    fn asks(&mut self, now: Instant) -> bool {
        if !self.is_reliable() {
            return false;
        }
        let passed = now - self.asked_at >= self.pause;
        let enough = self.sync.packets as usize + 1 >= PACKETS_FOR_ANSWER * self.members.len();
        if passed && enough {
            return true;
        }
        let (lost, next) = (self.queue.lost(), self.queue.next_unsent());
        let exhausted = match next {
            _ if lost > 0 => !self.fits(self.max_payload),
            Some(next) => !self.fits(next.len) || !self.alloc_lets_out(next),
            None => false,
        };
        let last = lost == 0 && next.is_none();
        (exhausted || last && enough) && (passed || !self.members.values().any(|m| m.waits()))
    }

    /// What follows from members only: where the lowest alloc is, and how long the answers to a question take.
    pub(super) fn refresh(&mut self) {
        self.edge = self.alloc();
        self.pause = self.spread() + self.srtt().unwrap_or(PAUSE_INITIAL);
    }
}
