//! What is sent: the calls that queue it and the choice of the next segment (RFC 9293, sections 3.7.4 and
//! 3.8.6; RFC 6675, NextSeg).

use super::Transmit;
use super::connection::{Connection, MIN_PAYLOAD, Probe, TIMESTAMPS_LEN, user_timeout_field};
use super::info::Condition;
use super::state::State;
use super::timers::Timer;
use crate::congestion::Controller;
use crate::machine::{Cut, Reservation, ResetCause, TransmitKind};
use crate::queue::{Segment, flag};
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_wire::tcp::{Flags, Header, Options};

/// `Options::default()`, as a constant.
const NO_OPTIONS: Options = Options {
    timestamps: None,
    mss: None,
    window_scale: None,
    sack_permitted: false,
    user_timeout: None,
    sack: [(Seq(0), Seq(0)); 4],
    sack_count: 0,
};

impl Connection {
    // ---- queueing

    /// Bytes that may be reserved now. None before the handshake is complete and after `finish`.
    pub fn send_room(&self) -> u32 {
        let mut room = self.buffer_room();
        // What is longer than the window may still go when nothing else does.
        if self.settings.reserve_within_window && self.send.end > self.send.una {
            room = room.min(self.room_to_leave());
        }
        room.min(u64::from(u32::MAX)) as u32
    }

    /// Whether `len` bytes may be reserved now. Those of [`send_room`](Self::send_room); and where room is given for what
    /// can leave at once, also what is longer than a segment, if its first segment leaves. Would it wait until all of it
    /// can, the window would stand half empty, and not grow, as one that is not used.
    #[inline]
    pub fn has_room(&self, len: u32) -> bool {
        len <= self.send_room() || len > self.send.max_payload && self.may_begin(len)
    }

    fn may_begin(&self, len: u32) -> bool {
        self.settings.reserve_within_window
            && self.room_to_leave() >= u64::from(self.send.max_payload)
            && u64::from(len) <= self.buffer_room()
    }

    /// Bytes for which there is memory.
    fn buffer_room(&self) -> u64 {
        let open =
            matches!(self.state, State::Established | State::CloseWait) && !self.send.fin_queued;
        if !open || self.send.reserved > 0 {
            return 0;
        }
        let queued = self.send.end - self.send.una;
        let bytes = u64::from(self.settings.send_buffer).saturating_sub(queued);
        if queued == 0 {
            return bytes;
        }
        // One entry is kept for FIN. An ADU of more segments than the ring was made for goes alone, for
        // else it would never go; the ring grows for it once.
        let segments = self.send.queue.room().saturating_sub(1) as u64;
        bytes.min(segments * u64::from(self.send.max_payload))
    }

    /// Bytes that windows let out behind what waits: what is lost, and what was reserved before.
    fn room_to_leave(&self) -> u64 {
        let queue = &self.send.queue;
        if queue.lost() > 0 {
            return 0;
        }
        let window = match self.phase.prr() {
            Some(prr) if prr.room() == 0 => 0,
            Some(prr) => prr.room().max(u64::from(self.send.max_payload)),
            None => self.cc.window().saturating_sub(queue.in_flight()),
        };
        let edge = self.send.una + u64::from(self.send.wnd);
        let unsent = self.send.end - self.send.nxt;
        window.min(edge.saturating_sub(self.send.nxt)).saturating_sub(unsent)
    }

    /// Most payload bytes in one segment now: an ADU up to this length leaves as one TPDU.
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
        Some(Reservation::new(self.send.end - 1, len))
    }

    /// A record of `len` bytes that is committed next may begin in the segment in which the one before ends
    /// ([`Cut::Joined`]), which waits still to be sent. What fits a segment goes there whole, beside whole records; of what
    /// is longer its first bytes go there, beside the last of one that is longer too.
    #[inline]
    pub fn joins(&self, len: u32) -> bool {
        self.send.queue.joins(len, self.send.max_payload)
    }

    /// Bytes of records that [`joins`](Self::joins) lets into the segment in which the one before ends, all of them
    /// whole.
    #[inline]
    pub fn joins_whole(&self) -> u32 {
        self.send.queue.joins_whole(self.send.max_payload)
    }

    /// The reserved bytes are written: queues them.
    pub fn commit(&mut self, reservation: Reservation, cut: Cut) {
        debug_assert_eq!(
            (reservation.offset() + 1, reservation.len()),
            (self.send.end, self.send.reserved)
        );
        self.send.reserved = 0;
        if self.state == State::Closed {
            return;
        }
        let is_record = matches!(cut, Cut::Record | Cut::Joined);
        let stream = if is_record { 0 } else { flag::STREAM };
        let (mut left, unit) = (reservation.len(), reservation.unit());
        let pushes = !self.send.cork.more;
        if cut == Cut::Joined {
            debug_assert!(self.joins(left), "who commits has asked");
            let joined = self.send.queue.join_records(left, unit, self.send.max_payload);
            self.send.end += u64::from(joined);
            left -= joined;
        } else if is_record {
            self.send.queue.begin_record(self.send.end, left, self.send.max_payload);
        }
        if stream != 0 {
            let joined = self.send.queue.join(left, self.send.max_payload, pushes);
            self.send.end += u64::from(joined);
            left -= joined;
        }
        let is_whole = cut == Cut::Record && left <= self.send.max_payload;
        while left > 0 {
            let len = left.min(self.send.max_payload);
            left -= len;
            let unit = if is_whole { u16::try_from(unit).unwrap_or(0) } else { 0 };
            let flags = stream | if left == 0 && pushes { flag::PUSH } else { 0 };
            self.send.queue.push(Segment {
                start: self.send.end,
                sent_at: Instant::ZERO,
                len,
                unit,
                whole: false,
                flags,
            });
            self.send.end += u64::from(len);
        }
        // What a cork holds for ever counts as the most there is: the last segment alone is asked about.
        let followed = self.send.followed.saturating_add(reservation.len());
        self.send.followed = if pushes { 0 } else { followed };
        if cut == Cut::StreamEnd {
            self.send.queue.end_stream();
        }
    }

    /// What is committed so far ends with urgent data (RFC 6093): segments carry URG until it is
    /// acknowledged.
    pub fn mark_urgent(&mut self) {
        self.send.urgent = self.send.end;
    }

    /// No more will be sent: FIN follows what is queued. Receiving goes on (half close).
    pub fn finish(&mut self) {
        if self.send.fin_queued || matches!(self.state, State::Closed | State::TimeWait) {
            return;
        }
        if self.state == State::SynSent && self.send.nxt == 0 {
            return self.enter_closed();
        }
        self.send.fin_queued = true;
        if !self.send.queue.join_fin() {
            self.send.queue.push(Segment {
                start: self.send.end,
                sent_at: Instant::ZERO,
                len: 0,
                unit: 0,
                whole: false,
                flags: flag::FIN,
            });
        }
        self.send.end += 1;
        self.send.followed = 0;
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    /// Ends the connection at once: RST where the peer may hold state. An open reservation is void.
    pub fn abort(&mut self) {
        match self.state {
            State::Closed => return,
            State::SynSent | State::TimeWait => {}
            _ => {
                self.events.send_reset =
                    Some((self.snd_seq(self.send.nxt), Some(self.recv.seq_of(self.recv.nxt))));
            }
        }
        self.send.reserved = 0;
        self.events.reset = Some(ResetCause::Local);
        self.enter_closed();
    }

    /// The path carries `max_payload` bytes of payload in a segment. When that is less than before,
    /// queued segments are cut again; the bytes themselves stay as they are. Never more than the peer said
    /// that it can receive.
    pub fn set_max_payload(&mut self, max_payload: u32) {
        let max_payload = max_payload.min(self.send.max_payload_peer).max(MIN_PAYLOAD);
        if max_payload == self.send.max_payload {
            return;
        }
        self.send.max_payload = max_payload;
        self.cc.set_mss(max_payload);
        self.send.queue.recut(max_payload);
    }

    /// The path carries `mss` bytes of payload and options in a segment: as
    /// [`set_max_payload`](Self::set_max_payload), whatever options were agreed upon.
    pub fn set_send_mss(&mut self, mss: u16) {
        let mss = mss.min(self.settings.mss_limit.unwrap_or(u16::MAX));
        self.settings.send_mss = mss;
        if !matches!(self.state, State::Closed | State::SynSent) {
            let options = if self.ts.enabled { TIMESTAMPS_LEN } else { 0 };
            self.set_max_payload(u32::from(mss.saturating_sub(options)));
        }
    }

    /// As [`crate::machine::Connection::outlast`].
    pub fn outlast(&mut self, outage: Duration) {
        let longest = (outage / 10).max(Duration::from_secs(1));
        self.settings.rto_max = self.settings.rto_max.min(longest);
        self.rtt.limit_back_off(longest);
    }

    /// As [`crate::machine::Connection::take_delivered_len`].
    pub fn take_delivered_len(&mut self) -> u32 {
        self.send.queue.take_delivered_len()
    }

    /// What is in flight was too long for the path and did not arrive; that is no sign of congestion. It is
    /// sent again, in pieces that fit since [`set_send_mss`](Self::set_send_mss), and patience begins anew.
    pub fn resend_all(&mut self, now: Instant) {
        if self.send.queue.sent() == 0 {
            return;
        }
        self.send.queue.mark_all_lost();
        self.send.timeouts = 0;
        self.rtt.reset_back_off();
        self.arm_rto(now);
    }

    /// Bytes that the last segment which was not sent yet still takes: what is committed next begins there.
    pub fn join_room(&self) -> u32 {
        self.send.queue.join_room(self.send.max_payload)
    }

    /// Nagle's algorithm, on or off (RFC 9293, section 3.7.4).
    pub fn set_nagle(&mut self, on: bool) {
        self.settings.nagle = on;
    }

    /// The user timeout (RFC 5482), from now on.
    pub fn set_user_timeout(&mut self, timeout: Option<core::time::Duration>) {
        self.settings.user_timeout = timeout;
    }

    /// Bytes that may be reserved, queued and in flight together.
    pub fn send_buffer(&self) -> u32 {
        self.settings.send_buffer
    }

    /// How an idle connection is probed.
    pub fn keep_alive(&self) -> Option<crate::machine::KeepAlive> {
        self.settings.keep_alive
    }

    /// Probes on an idle connection, or none, from `now` on.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<crate::machine::KeepAlive>) {
        self.settings.keep_alive = keep_alive;
        match self.state {
            State::Closed | State::SynSent | State::SynReceived | State::TimeWait => {}
            _ if keep_alive.is_some() => self.arm_keep_alive(now),
            _ => self.timers.clear(Timer::KeepAlive),
        }
    }

    // ---- output

    /// The next segment to put on the wire; `None` until something happens or `poll_timeout` comes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some((seq, ack)) = self.events.send_reset.take() {
            return Some(self.reset(now, seq, ack));
        }
        if self.state == State::Closed {
            return None;
        }
        // Reports go alone, so that data segments keep one length.
        if self.has_reports() && self.can_ack() {
            return Some(self.pure_ack(now));
        }
        if let Some(transmit) = self.next_data(now) {
            return Some(transmit);
        }
        if self.ack_is_due() && self.can_ack() {
            return Some(self.pure_ack(now));
        }
        if self.send.probe == Probe::Empty {
            self.send.probe = Probe::None;
            return Some(self.empty_probe(now));
        }
        self.stopwatch.set(now, self.condition());
        (self.send.burst, self.send.burst_end) = (0, u64::MAX);
        None
    }

    /// What holds the sender, now that it sends no more.
    fn condition(&self) -> Condition {
        if self.send.una == self.send.end || self.send.una == 0 {
            return Condition::Idle;
        }
        let edge = self.send.una + u64::from(self.send.wnd);
        match self.send.queue.next_unsent() {
            Some(next) if next.end() > edge && !self.send.window_limited => {
                Condition::ReceiverLimited
            }
            _ => Condition::Busy,
        }
    }

    /// SACK blocks, or for a peer without them one duplicate acknowledgement for each segment that came
    /// out of order (RFC 5681, section 4.2).
    fn has_reports(&self) -> bool {
        if self.recv.sack { self.recv.ranges.has_news() } else { self.recv.duplicate_acks > 0 }
    }

    fn can_ack(&self) -> bool {
        !matches!(self.state, State::Closed | State::SynSent | State::SynReceived)
    }

    fn next_data(&mut self, now: Instant) -> Option<Transmit> {
        if self.send.queue.is_empty() {
            (self.send.window_limited, self.send.ran_dry) = (false, true);
            return None;
        }
        match self.send.probe {
            Probe::TailLoss => {
                self.send.probe = Probe::None;
                if let Some(transmit) = self.tail_loss_probe(now) {
                    return Some(transmit);
                }
            }
            Probe::SmallWindow => {
                self.send.probe = Probe::None;
                if let Some(transmit) = self.fill_small_window(now) {
                    return Some(transmit);
                }
            }
            Probe::None | Probe::Empty => {}
        }
        let lost = self.send.queue.next_lost();
        let candidate = match lost {
            Some(index) => *self.send.queue.at(index),
            None => match self.send.queue.next_unsent() {
                Some(segment) => *segment,
                None => {
                    // Nothing is left: because the window is full, or because there is no more to send.
                    let full = self.send.queue.in_flight() + u64::from(self.send.max_payload);
                    self.send.window_limited = full > self.cc.window();
                    self.send.ran_dry = !self.send.window_limited;
                    return None;
                }
            },
        };
        if !self.window_lets_out(now, &candidate) {
            return None;
        }
        if let Some(index) = lost {
            return Some(self.retransmit(now, index));
        }
        if !self.may_send_new(now, &candidate) {
            return None;
        }
        Some(self.transmit_new(now))
    }

    /// Congestion window, or PRR in its place, and pacing.
    fn window_lets_out(&mut self, now: Instant, s: &Segment) -> bool {
        let in_flight = self.send.queue.in_flight();
        let room = match self.phase.prr() {
            Some(prr) => prr.room() > 0,
            // A FIN alone weighs nothing.
            None => {
                in_flight == 0
                    || s.len == 0
                    || in_flight + u64::from(s.seq_len())
                        <= self.cc.window() + self.limited_transmit()
            }
        };
        if !room {
            self.send.window_limited = true;
            return false;
        }
        if self.pacer.room(now) == 0 {
            if let Some(at) = self.pacer.next_send() {
                self.timers.set(Timer::Pace, at);
            }
            return false;
        }
        true
    }

    /// RFC 3042: each of the first two duplicate acknowledgements lets a new segment out. With SACK the
    /// reported segment itself makes the room.
    fn limited_transmit(&self) -> u64 {
        let duplicates = if self.settings.sack { 0 } else { self.send.duplicate_acks.min(2) };
        u64::from(duplicates * self.send.max_payload)
    }

    /// State, the peer's window, silly windows and Nagle, for a segment that was never sent.
    fn may_send_new(&mut self, now: Instant, s: &Segment) -> bool {
        if s.has(flag::SYN) {
            return true;
        }
        if matches!(self.state, State::SynSent | State::SynReceived) {
            return false;
        }
        let edge = self.send.una + u64::from(self.send.wnd);
        if s.end() > edge {
            if s.has(flag::FIN) && s.len > 0 && s.end() == edge + 1 {
                // FIN alone does not fit: the data goes without it.
                self.send.queue.split_unsent(s.len);
                return true;
            }
            self.send.window_limited = false;
            let open = edge.saturating_sub(self.send.nxt) as u32;
            if self.send.queue.sent() > 0 {
                return false;
            }
            if open > 0 && open < s.len && open >= self.send.wnd_max / 2 {
                self.send.queue.split_unsent(open);
                return true;
            }
            self.arm_persist(now);
            return false;
        }
        self.is_worth_sending(now, s)
    }

    /// Nagle's algorithm, and what the application holds back: about a segment that is not full.
    fn is_worth_sending(&mut self, now: Instant, s: &Segment) -> bool {
        let last = self.send.queue.unsent() == 1;
        if !last
            || s.len >= self.send.max_payload
            || s.has(flag::FIN)
            || s.end() <= self.send.pushed
        {
            return true;
        }
        let waits = self.send.queue.sent() > 0;
        let nagle = self.settings.nagle && waits;
        let cork = self.send.cork;
        let ended = self.send.end - u64::from(self.send.followed);
        let ended = ended.saturating_sub(s.start).min(s.len.into()) as u32;
        if ended > 0 && cork.more && !cork.on && !nagle {
            if ended < s.len {
                // What came behind it with more to follow waits alone.
                self.send.queue.split_unsent(ended).flags |= flag::PUSH;
            }
            return true;
        }
        if cork.waits() {
            if !waits {
                self.arm_persist(now);
            }
            return false;
        }
        !nagle
    }

    fn transmit_new(&mut self, now: Instant) -> Transmit {
        if self.send.una == self.send.nxt {
            // From idle.
            let idle = now - self.send.sent_at;
            let pause = self.settings.slow_start_after_idle && idle > self.rtt.rto();
            if pause && self.state != State::SynSent {
                self.cc.on_idle(now, idle);
            }
            self.send.progress_at = now;
        }
        if core::mem::take(&mut self.send.ran_dry) {
            self.pacer.show_gap(&mut self.cc, self.send.queue.in_flight(), now);
        }
        let ends_burst = self.burst_ends();
        let s = self.send.queue.mark_sent(now, ends_burst);
        self.send.nxt = s.end();
        let index = self.send.queue.sent() - 1;
        self.send.queue.show_sent(&mut self.cc, now, index, u64::from(s.seq_len()));
        let in_flight = self.send.queue.in_flight();
        if self.send.una >= self.send.in_flight_round || in_flight > self.send.in_flight_max {
            (self.send.in_flight_max, self.send.in_flight_round) = (in_flight, self.send.nxt);
        }
        if !self.timers.is_set(Timer::Rto) {
            self.arm_rto(now);
        }
        self.arm_tail_loss_probe(now);
        self.transmit(now, &s, false)
    }

    /// The next unsent segment is the last of several that leave together.
    fn burst_ends(&mut self) -> bool {
        let Some(least) = self.settings.push_bursts else { return false };
        let mss = u64::from(self.send.max_payload);
        let rtt_us = self.rtt.srtt().map_or(u64::MAX, |srtt| srtt.as_micros() as u64).max(1);
        let gain = if self.cc.in_slow_start() { 20 } else { 12 };
        let a_millisecond = (self.cc.window() * gain * 100 / rtt_us).min(64 << 10) / mss;
        let most = (self.cc.window() / mss / 2).max(1);
        let burst = a_millisecond.max(u64::from(least)).min(most);
        self.send.burst += 1;
        let queue = &self.send.queue;
        let next = (queue.unsent() > 1).then(|| *queue.at(queue.sent() + 1));
        let ends = u64::from(self.send.burst) >= burst
            || next.is_none_or(|next| {
                let in_flight = queue.in_flight() + mss + u64::from(next.seq_len());
                let room = match self.phase.prr() {
                    Some(prr) => prr.room() > mss,
                    None => in_flight <= self.cc.window(),
                };
                let edge = self.send.una + u64::from(self.send.wnd);
                let waits = queue.unsent() == 2
                    && next.len < self.send.max_payload
                    && !next.has(flag::FIN)
                    && (self.settings.nagle || self.send.cork.waits());
                !room || next.end() > edge || waits
            });
        let pushes = ends && self.send.burst > 1;
        if ends {
            self.send.burst = 0;
        }
        pushes
    }

    fn retransmit(&mut self, now: Instant, index: usize) -> Transmit {
        let s = self.send.queue.mark_resent(index, now);
        self.send.queue.show_sent(&mut self.cc, now, index, u64::from(s.seq_len()));
        self.note_retransmission(now);
        if !self.timers.is_set(Timer::Rto) {
            self.arm_rto(now);
        }
        self.transmit(now, &s, true)
    }

    /// RFC 8985, section 7.3: something new if the peer's window takes it, else the last segment again.
    fn tail_loss_probe(&mut self, now: Instant) -> Option<Transmit> {
        let edge = self.send.una + u64::from(self.send.wnd);
        let new = self.send.queue.next_unsent().is_some_and(|s| s.end() <= edge);
        if new {
            let transmit = self.transmit_new(now);
            self.tlp.retransmitted = false;
            self.tlp.end = self.send.nxt;
            return Some(transmit);
        }
        let index = self.send.queue.last_unsacked()?;
        self.tlp.retransmitted = true;
        self.tlp.end = self.send.nxt;
        Some(self.retransmit(now, index))
    }

    /// The override timer of silly-window avoidance: sends what fits.
    fn fill_small_window(&mut self, now: Instant) -> Option<Transmit> {
        let edge = self.send.una + u64::from(self.send.wnd);
        let open = edge.saturating_sub(self.send.nxt) as u32;
        let s = self.send.queue.next_unsent()?;
        if open == 0 || self.send.queue.sent() > 0 {
            return None;
        }
        if open < s.len {
            self.send.queue.split_unsent(open);
        }
        self.send.queue.push_next();
        Some(self.transmit_new(now))
    }

    // ---- segments

    fn transmit(&mut self, now: Instant, s: &Segment, retransmission: bool) -> Transmit {
        let bytes = u64::from(s.seq_len());
        if let Some(prr) = self.phase.prr_mut() {
            prr.on_sent(bytes);
        }
        self.pacer.on_sent(now, bytes);
        self.counters.segments_sent += 1;
        if s.len > 0 {
            self.send.sent_at = now;
            self.counters.data_segments_sent += 1;
        }
        if s.has(flag::SYN) {
            return Transmit { retransmission, ..alone(self.syn_header(now), TransmitKind::Syn) };
        }
        let mut flags = Flags::ACK;
        // The end of a burst is pushed when what leaves before it is a part of it.
        let follows = core::mem::replace(&mut self.send.burst_end, s.end()) == s.start;
        if s.has(flag::PUSH) || s.has(flag::BURST_END) && follows {
            flags |= Flags::PSH;
        }
        if s.has(flag::FIN) {
            flags |= Flags::FIN;
        }
        let new_data = !retransmission && s.len > 0;
        if new_data && self.ecn.is_enabled() && self.ecn.take_cwr() {
            flags |= Flags::CWR;
        }
        let mut header = self.header(now, s.start, flags);
        if self.send.urgent > s.start {
            header.flags |= Flags::URG;
            header.urgent = (self.send.urgent - s.start).min(u64::from(u16::MAX)) as u16;
        }
        Transmit {
            header,
            payload: (s.len > 0).then(|| s.start - 1..s.start - 1 + u64::from(s.len)),
            retransmission,
            kind: if s.len > 0 { TransmitKind::Data } else { TransmitKind::Fin },
            ecn_capable: new_data && self.ecn.is_enabled(),
        }
    }

    /// A header with ACK; what it acknowledges is no longer owed.
    fn header(&mut self, now: Instant, position: u64, flags: Flags) -> Header {
        let window = self.recv.advertise();
        self.ack_was_sent();
        let mut options = NO_OPTIONS;
        if self.ts.enabled {
            options.timestamps = Some((self.ts_value(now), self.ts.recent));
        }
        let ece = if self.ecn.ece() { Flags::ECE } else { Flags::default() };
        Header {
            src_port: self.local_port,
            dst_port: self.remote_port,
            seq: self.snd_seq(position),
            ack: self.recv.seq_of(self.recv.nxt),
            flags: flags | ece,
            header_len: 0,
            window,
            checksum: 0,
            urgent: 0,
            options,
        }
    }

    fn pure_ack(&mut self, now: Instant) -> Transmit {
        self.counters.segments_sent += 1;
        let mut header = self.header(now, self.send.nxt, Flags::ACK);
        self.recv.duplicate_acks = self.recv.duplicate_acks.saturating_sub(1);
        if self.recv.sack {
            let irs = self.recv.irs;
            self.recv.ranges.report(&mut header.options, |position| irs + position as u32);
        }
        alone(header, TransmitKind::Ack)
    }

    /// An old sequence number without payload: the peer must answer (RFC 9293, section 3.8.4).
    fn empty_probe(&mut self, now: Instant) -> Transmit {
        self.counters.segments_sent += 1;
        self.counters.probes += 1;
        let mut header = self.header(now, self.send.una, Flags::ACK);
        header.seq = Seq(header.seq.0.wrapping_sub(1));
        alone(header, TransmitKind::Probe)
    }

    fn reset(&mut self, now: Instant, seq: Seq, ack: Option<Seq>) -> Transmit {
        self.counters.segments_sent += 1;
        let mut header = Header {
            src_port: self.local_port,
            dst_port: self.remote_port,
            seq,
            ack: ack.unwrap_or_default(),
            flags: if ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST },
            ..Header::default()
        };
        if self.ts.enabled {
            header.options.timestamps = Some((self.ts_value(now), self.ts.recent));
        }
        alone(header, TransmitKind::Reset)
    }

    /// SYN, or SYN-ACK after the peer's SYN.
    fn syn_header(&mut self, now: Instant) -> Header {
        let answers = self.state != State::SynSent;
        let s = &self.settings;
        let mut flags = Flags::SYN;
        if answers {
            flags |= Flags::ACK;
        }
        if s.ecn {
            flags |= if answers { Flags::ECE } else { Flags::ECE | Flags::CWR };
        }
        // An answer offers what was offered and is wanted.
        let scaling = if answers { self.recv.scaling } else { s.window_scaling };
        let timestamps = if answers { self.ts.enabled } else { s.timestamps };
        let options = Options {
            mss: Some(s.mss),
            window_scale: scaling.then_some(self.recv.shift),
            sack_permitted: s.sack,
            timestamps: timestamps
                .then(|| (self.ts_value(now), if answers { self.ts.recent } else { 0 })),
            user_timeout: s.user_timeout.map(user_timeout_field),
            ..NO_OPTIONS
        };
        Header {
            src_port: self.local_port,
            dst_port: self.remote_port,
            seq: self.send.iss,
            ack: if answers { self.recv.seq_of(self.recv.nxt) } else { Seq(0) },
            flags,
            window: self.recv.syn_window(),
            options,
            ..Header::default()
        }
    }
}

/// A segment without payload.
fn alone(header: Header, kind: TransmitKind) -> Transmit {
    Transmit { header, payload: None, retransmission: false, kind, ecn_capable: false }
}
