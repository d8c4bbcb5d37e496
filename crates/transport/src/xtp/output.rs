//! What is sent: the calls that queue it, the choice of the next packet, and when it asks (`docs/xtp.md`, sections 8, 10
//! and 11).

use super::Transmit;
use super::config::Rate;
use super::connection::{Connection, FIRST_EXTRA, INITIAL_ALLOC, TELLS};
use super::state::State;
use super::timers::Timer;
use crate::congestion::Controller;
use crate::machine::{Cut, Reservation};
use crate::queue::{Segment, flag};
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::xtp::{HEADER_LEN, OFFSET_MAX};

/// So many questions a window, at most one for two packets.
const ASKS_A_WINDOW: u64 = 8;
/// The last packet of what is to be sent asks no sooner after another than this.
const ASKS_AGAIN: Duration = Duration::from_millis(1);
/// What a packet has before its data, at most, while the peer has not shown our key.
const HEAD_MAX: u64 = HEADER_LEN as u64 + 12;
/// A message leaves in at most so many packets more than it needs, and in less than twice as many, if they are alike then.
const MORE_PACKETS: u32 = 4;

impl Connection {
    // ---- queueing

    /// Bytes that may be reserved now: from the beginning, since FIRST carries data. None after `finish`.
    pub fn send_room(&self) -> u32 {
        let open = matches!(self.state, State::Open | State::HalfOpen) || self.is_opening();
        if !open || self.send.finishing || self.send.done || self.send.reserved > 0 {
            return 0;
        }
        let queued = self.send.end - self.send.una;
        let bytes = u64::from(self.settings.send_buffer).saturating_sub(queued);
        let bytes = bytes.min(OFFSET_MAX - self.send.end);
        let spare = if self.one_each() { MORE_PACKETS as usize } else { 1 };
        let packets = self.send.queue.room().saturating_sub(spare) as u64;
        let room =
            if queued == 0 { bytes } else { bytes.min(packets * u64::from(self.send.max_payload)) };
        room.min(u64::from(u32::MAX)) as u32
    }

    /// Whether `len` bytes may be reserved now.
    #[inline]
    pub fn has_room(&self, len: u32) -> bool {
        len <= self.send_room()
    }

    /// Bytes that may be reserved, queued and in flight together.
    pub fn send_buffer(&self) -> u32 {
        self.settings.send_buffer
    }

    /// Most payload bytes in one packet now.
    pub fn max_payload(&self) -> u32 {
        self.send.max_payload
    }

    /// Reserves the next `len` bytes of the stream; `None` when there is no room, or one is open already.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Option<Reservation> {
        if len == 0 || !self.has_room(len) {
            return None;
        }
        self.send.reserved = len;
        Some(Reservation::new(self.send.end, len))
    }

    /// As [`crate::machine::Connection::joins`]; where messages count none do, for EOM is at the end of a packet.
    #[inline]
    pub fn joins(&self, len: u32) -> bool {
        !self.one_each() && self.send.queue.joins(len, self.send.max_payload)
    }

    /// As [`crate::machine::Connection::joins_whole`].
    #[inline]
    pub fn joins_whole(&self) -> u32 {
        if self.one_each() { 0 } else { self.send.queue.joins_whole(self.send.max_payload) }
    }

    /// Bytes of each packet of a message of `len` bytes that is committed now, but for the last, which may be shorter. As
    /// messages do not share packets they are cut evenly, for up to [`MORE_PACKETS`] more if that makes all alike: packets
    /// of one length leave together, those of the next message too.
    pub fn piece_len(&self, len: u32) -> u32 {
        let max = self.send.max_payload;
        if !self.one_each() || len <= max {
            return max;
        }
        let least = len.div_ceil(max);
        let most = least + MORE_PACKETS.min(least - 1);
        let packets = (least..=most).find(|packets| len.is_multiple_of(*packets)).unwrap_or(least);
        len.div_ceil(packets)
    }

    fn one_each(&self) -> bool {
        self.settings.messages || self.settings.btag
    }

    /// What is committed next begins a message with these 8 bytes of the application's (BTAG). There is room for them
    /// only with [`Config::btag`](super::Config::btag).
    pub fn set_tag(&mut self, tag: u64) {
        if self.settings.btag {
            self.send.tag = Some(tag);
        }
    }

    /// Another priority, or none.
    pub fn set_sort(&mut self, sort: Option<u16>) {
        self.settings.sort = sort;
    }

    /// Another bound on what we want to be sent, from now on: the peer is told by TCNTL, which asks, and more than once, since
    /// no answer says that it came.
    pub fn set_in_rate(&mut self, rate: Rate) {
        self.settings.in_rate = rate;
        if !matches!(self.state, State::Quiescent | State::Inactive) {
            (self.events.traffic, self.send.ask) = (true, true);
            self.send.tells = TELLS - 1;
        }
    }

    /// What is committed now is what leaves next: nothing waits before it, and windows, pacing and rate let out its first
    /// packet. Of what waits at the peer's window alone it is true once: it asks for more.
    pub fn leaves_next(&mut self, now: Instant, len: u32) -> bool {
        let queue = &self.send.queue;
        if queue.lost() > 0 || queue.next_unsent().is_some() || len > self.send_room() {
            return false;
        }
        if self.sync.is_shaking_hands() && !self.is_opening() {
            return false;
        }
        let (start, sent_at) = (self.send.end, Instant::ZERO);
        let len = len.min(self.send.max_payload);
        self.window_lets_out(now, &Segment { start, sent_at, len, unit: 0, whole: false, flags: 0 })
    }

    /// The reserved bytes are written: queues them.
    pub fn commit(&mut self, reservation: Reservation, cut: Cut) {
        if matches!(self.state, State::Quiescent | State::Inactive) || self.send.done {
            // Nobody wants it any more.
            self.send.reserved = 0;
            return;
        }
        debug_assert_eq!(
            (reservation.offset(), reservation.len()),
            (self.send.end, self.send.reserved)
        );
        self.send.reserved = 0;
        let is_record = matches!(cut, Cut::Record | Cut::Joined);
        let each = if is_record { self.piece_len(reservation.len()) } else { u32::MAX };
        let send = &mut self.send;
        let each = each.min(send.max_payload);
        let (mut left, unit) = (reservation.len(), reservation.unit());
        if cut == Cut::Joined {
            let joined = send.queue.join_records(left, unit, send.max_payload);
            send.end += u64::from(joined);
            left -= joined;
        } else if is_record {
            send.queue.begin_record(send.end, left, send.max_payload);
        }
        if !is_record {
            let joined = send.queue.join(left, send.max_payload, true);
            send.end += u64::from(joined);
            left -= joined;
        }
        if let Some(tag) = send.tag.take().filter(|_| is_record) {
            send.tags.push_back((send.end, tag));
        }
        let stream = if is_record { 0 } else { flag::STREAM };
        let is_whole = cut == Cut::Record && left <= send.max_payload;
        while left > 0 {
            let len = left.min(each);
            left -= len;
            let unit = if is_whole { u16::try_from(unit).unwrap_or(0) } else { 0 };
            let flags = stream | if left == 0 { flag::PUSH } else { 0 };
            let (start, sent_at) = (send.end, Instant::ZERO);
            send.queue.push(Segment { start, sent_at, len, unit, whole: is_whole, flags });
            send.end += u64::from(len);
        }
        if cut == Cut::StreamEnd {
            send.queue.end_stream();
        }
    }

    /// As [`crate::machine::Connection::checks_payload`].
    #[inline]
    pub fn checks_payload(&self) -> bool {
        !self.settings.nocheck && self.send.proves_from.is_none_or(|from| self.send.una < from)
    }

    /// As [`crate::machine::Connection::proves_from`].
    pub fn proves_from(&mut self, sent: u64, received: u64) {
        self.send.proves_from = Some(sent);
        self.recv.proves_from = Some(received);
    }

    /// The records of this packet prove themselves, and its receiver knows how. What is sent again may have come in part,
    /// and then has to be taken in part.
    #[inline]
    pub(super) fn proves_itself(&self, s: &Segment, retransmission: bool) -> bool {
        let begun = self.send.proves_from.is_none_or(|from| from <= s.start);
        s.whole && begun && !retransmission && !self.checks_payload()
    }

    /// No more will be sent: WCLOSE follows what is queued. Receiving goes on.
    pub fn finish(&mut self) {
        if !matches!(self.state, State::Quiescent | State::Inactive) {
            self.send.finishing = true;
        }
    }

    /// As [`crate::machine::Connection::outlast`].
    pub fn outlast(&mut self, outage: Duration) {
        let longest = (outage / 10).max(Duration::from_secs(1));
        self.settings.wtimer_max = self.settings.wtimer_max.min(longest);
        self.rtt.limit_back_off(longest);
    }

    /// As [`crate::machine::Connection::take_delivered_len`].
    pub fn take_delivered_len(&mut self) -> u32 {
        self.send.queue.take_delivered_len()
    }

    /// What is in flight did not arrive, which is no sign of congestion: it is sent again.
    pub fn resend_all(&mut self, now: Instant) {
        if self.send.queue.sent() == 0 || self.settings.noerr {
            return;
        }
        self.send.queue.mark_all_lost();
        (self.send.fruitless, self.send.resend_at) = (0, now);
        self.rtt.reset_back_off();
        self.timers.clear(Timer::W);
        self.start_wtimer(now);
    }

    // ---- output

    /// The next packet to put on the wire; `None` until something happens or `poll_timeout` comes.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(last) = self.events.last.take() {
            return Some(self.last(now, last));
        }
        match self.state {
            State::Quiescent => return None,
            State::Inactive => {
                return core::mem::take(&mut self.events.end).then(|| self.end(now));
            }
            _ => {}
        }
        if self.keys.peer.is_some() && core::mem::take(&mut self.events.too_large) {
            return Some(self.too_large(now));
        }
        let owed = self.events.answer || self.events.traffic || self.events.gap;
        if owed
            && !self.is_opening()
            && let Some(transmit) = self.control(now)
        {
            return Some(transmit);
        }
        if let Some((segment, again)) = self.next_data(now) {
            self.send.first_due = false;
            let asks = self.leaves(now, &segment);
            let transmit = self.data(now, &segment, asks, again);
            self.arm_tail(now);
            return Some(transmit);
        }
        if self.is_opening() {
            if let Some(first) = self.first_again(now) {
                return Some(first);
            }
            let due = core::mem::take(&mut self.send.first_due) && self.send.queue.is_empty();
            return due.then(|| self.empty_first(now));
        }
        let closes = self.send.finishing
            && !self.send.wclosed
            && !self.send.done
            && self.send.nxt == self.send.end;
        self.send.ask |= closes;
        let exhausted = self.is_exhausted() && !self.send.exhausted;
        if self.send.ask || exhausted {
            return self.control(now);
        }
        None
    }

    /// A FIRST goes a second time, for the answer to be longer than what there is to say (section 7, rule 5).
    fn first_again(&mut self, now: Instant) -> Option<Transmit> {
        let (queue, twice) = (&self.send.queue, self.send.twice);
        let head = u64::from(FIRST_EXTRA) + HEADER_LEN as u64;
        let said = self.send.nxt + queue.sent() as u64 * head + self.send.twice_bytes;
        let enough = said >= self.settings.first_flight_bytes.into() || twice >= queue.sent();
        if enough || queue.unsent() > 0 || self.state != State::Opening {
            return None;
        }
        let s = *queue.at(twice);
        let first = self.data(now, &s, false, false);
        self.send.twice += 1;
        self.send.twice_bytes += first.header.packet_len() as u64;
        Some(first)
    }

    /// There is something to send that alloc does not let out.
    pub(super) fn is_exhausted(&self) -> bool {
        let next = self.send.queue.next_unsent();
        !self.settings.noflow && next.is_some_and(|s| s.end() > self.send.alloc)
    }

    /// The segment that leaves next, and whether it does so again.
    #[inline]
    fn next_data(&mut self, now: Instant) -> Option<(Segment, bool)> {
        if self.sync.is_shaking_hands() && !self.is_opening() {
            return None;
        }
        let lost = self.send.queue.next_lost();
        let candidate = match lost {
            Some(index) => *self.send.queue.at(index),
            None => match self.send.queue.next_unsent() {
                Some(segment) => *segment,
                None => {
                    let full = self.send.queue.in_flight() + u64::from(self.send.max_payload);
                    self.send.window_limited = full > self.window();
                    self.send.ran_dry = !self.send.window_limited;
                    return None;
                }
            },
        };
        if !self.window_lets_out(now, &candidate) {
            return None;
        }
        match lost {
            Some(_) if now < self.send.resend_at => {
                self.timers.set(Timer::Pace, self.send.resend_at);
                None
            }
            Some(index) => Some((self.resent(now, index), true)),
            None if self.may_send_new(now, &candidate) => Some((self.sent_new(now), false)),
            None => None,
        }
    }

    /// Congestion window, or PRR in its place; pacing, rate, and what a peer without proof may be sent.
    fn window_lets_out(&mut self, now: Instant, s: &Segment) -> bool {
        let in_flight = self.send.queue.in_flight();
        let room = match self.phase.prr() {
            // What was sent again may be lost, too, and answers still come: something has to leave.
            Some(prr) => prr.room() > 0 || in_flight == 0,
            None => self.fits_window(in_flight, s.len),
        };
        if !room {
            self.send.window_limited = true;
            return false;
        }
        if self.state == State::HalfOpen && HEAD_MAX + u64::from(s.len) > self.credit {
            return false;
        }
        let paced = (self.pacer.room(now) == 0).then(|| self.pacer.next_send()).flatten();
        if let Some(at) = paced.max(self.rate.next_send(now)) {
            self.timers.set(Timer::Pace, at);
            return false;
        }
        true
    }

    fn fits_window(&self, in_flight: u64, len: u32) -> bool {
        in_flight == 0 || in_flight + u64::from(len) <= self.window()
    }

    /// The peer's window, for a packet that was never sent.
    fn may_send_new(&mut self, now: Instant, s: &Segment) -> bool {
        if self.is_opening() {
            return s.end() <= INITIAL_ALLOC;
        }
        if self.settings.noflow || s.end() <= self.send.alloc {
            return true;
        }
        self.send.window_limited = false;
        if self.send.queue.sent() > 0 {
            return false;
        }
        let open = self.send.alloc.saturating_sub(self.send.nxt) as u32;
        // A part goes when the rest could wait for ever.
        if open > 0 && (open >= s.len / 2 || self.send.persists > 0) {
            self.send.queue.split_unsent(open);
            return true;
        }
        self.arm_persist(now);
        false
    }

    #[inline]
    fn sent_new(&mut self, now: Instant) -> Segment {
        if self.send.una == self.send.nxt {
            let idle = now - self.send.sent_at;
            if self.settings.slow_start_after_idle && idle > self.rtt.rto() && self.send.nxt > 0 {
                self.cc.on_idle(now, idle);
            }
            self.send.progress_at = now;
        }
        if core::mem::take(&mut self.send.ran_dry) {
            self.pacer.show_gap(&mut self.cc, self.send.queue.in_flight(), now);
        }
        let stamp = self.stamp(now);
        let s = self.send.queue.mark_sent(stamp, false);
        self.send.nxt = s.end();
        let index = self.send.queue.sent() - 1;
        self.send.queue.show_sent(&mut self.cc, now, index, u64::from(s.len));
        let in_flight = self.send.queue.in_flight();
        if self.send.una >= self.send.in_flight_round || in_flight > self.send.in_flight_max {
            (self.send.in_flight_max, self.send.in_flight_round) = (in_flight, self.send.nxt);
        }
        s
    }

    fn resent(&mut self, now: Instant, index: usize) -> Segment {
        let stamp = self.stamp(now);
        let s = self.send.queue.mark_resent(index, stamp);
        self.send.queue.show_sent(&mut self.cc, now, index, u64::from(s.len));
        self.counters.retransmissions += 1;
        self.send.unproven += 1;
        s
    }

    /// A segment leaves: whether its packet asks.
    #[inline]
    fn leaves(&mut self, now: Instant, s: &Segment) -> bool {
        let bytes = u64::from(s.len);
        if let Some(prr) = self.phase.prr_mut() {
            prr.on_sent(bytes);
        }
        self.pacer.on_sent(now, bytes);
        self.send.sent_at = now;
        self.asks(now, s)
    }

    /// Whether this packet asks: an eighth of the window after the one that did, or the last that may leave now.
    #[inline]
    fn asks(&mut self, now: Instant, s: &Segment) -> bool {
        let queue = &self.send.queue;
        let offered = self.send.alloc.saturating_sub(self.send.una);
        let window = self.window().min(offered).min(self.settings.send_buffer.into());
        let entries = self.settings.max_packets_in_flight as u64 / ASKS_A_WINDOW;
        let enough = self.sync.bytes + u64::from(s.len) >= window / ASKS_A_WINDOW
            || u64::from(self.sync.packets) >= entries;
        if enough && self.sync.packets >= 2 {
            return true;
        }
        if queue.lost() > 0 && !self.settings.noerr {
            // More is sent again: at once, or when the window lets it.
            return self.phase.prr().is_some_and(|prr| prr.room() == 0);
        }
        let Some(next) = queue.next_unsent() else { return self.last_asks(now, s) };
        let fits = match self.phase.prr() {
            Some(prr) => prr.room() > 0,
            None => self.fits_window(queue.in_flight(), next.len),
        };
        let edge = match self.state {
            _ if self.settings.noflow => u64::MAX,
            State::Opening | State::Cookie => INITIAL_ALLOC,
            _ => self.send.alloc,
        };
        !fits || next.end() > edge
    }

    /// Whether a control asks that is due for something else: while a handshake's question is unanswered each does that leaves, as
    /// that question may be lost, and the next would be far away.
    pub(super) fn asks_along(&self, now: Instant) -> bool {
        let lately = now.saturating_since(self.sync.asked_at()) < ASKS_AGAIN;
        self.sync.is_shaking_hands() && !self.is_opening() && !lately
    }

    /// Whether the last packet of what is to be sent asks. Who sends on and on comes to a last one at each turn, and has
    /// asked a moment ago: then the next turn asks, or the question about the tail.
    fn last_asks(&self, now: Instant, s: &Segment) -> bool {
        let ends = self.send.finishing && s.end() == self.send.end;
        let lately = now.saturating_since(self.sync.asked_at()) < ASKS_AGAIN;
        self.is_opening() || ends || !self.sync.waits() && !lately
    }
}
