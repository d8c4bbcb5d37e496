//! The slow side of receiving: the checks of RFC 9293, section 3.10.7.4, with RFC 5961's defences, and the
//! state diagram (section 3.3.2).

use super::connection::{Connection, Offer};
use super::state::State;
use super::timers::Timer;
use crate::machine::{DropCause, ResetCause};
use crate::rack::Phase;
use fusewire_base::Instant;
use fusewire_wire::tcp::{Flags, Header};

impl Connection {
    /// First to fourth check. Returns the position of the acknowledgement when the segment is to be
    /// processed further.
    pub(super) fn check_segment(
        &mut self,
        now: Instant,
        h: &Header,
        payload_len: u32,
    ) -> Option<u64> {
        let rst = h.flags.has(Flags::RST);
        if !rst && !self.timestamp_is_fresh(now, h) {
            self.counters.drop(DropCause::Paws);
            // Without the timestamp that was agreed: dropped in silence (RFC 7323, section 3.2).
            if h.options.timestamps.is_some() {
                self.answer(now, payload_len);
            }
            return None;
        }
        if !self.is_in_window(h, payload_len) {
            self.counters.drop(DropCause::OutOfWindow);
            if !rst {
                if self.state == State::TimeWait && h.flags.has(Flags::FIN) {
                    self.start_time_wait(now);
                }
                if self.state == State::SynReceived
                    && h.flags.has(Flags::SYN)
                    && h.seq == self.recv.irs
                {
                    return self.repeated_syn(h);
                }
                self.note_old_duplicate(h, payload_len);
                self.answer(now, payload_len);
            }
            return None;
        }
        if rst {
            self.handle_reset(now, h);
            return None;
        }
        if h.flags.has(Flags::SYN) {
            // RFC 5961, section 4.2.
            self.counters.drop(DropCause::BlindOpen);
            self.challenge(now);
            return None;
        }
        if !h.flags.has(Flags::ACK) {
            self.counters.drop(DropCause::NoAck);
            return None;
        }
        match self.acceptable_ack(h) {
            Some(ack) if self.state != State::SynReceived || ack == self.send.nxt.min(1) => {
                Some(ack)
            }
            _ if self.state == State::SynReceived => {
                self.counters.drop(DropCause::BadAck);
                self.events.send_reset = Some((h.ack, None));
                None
            }
            _ => {
                self.counters.drop(DropCause::BadAck);
                self.challenge(now);
                None
            }
        }
    }

    /// First check: the sequence number. A segment without length is also acceptable down to the last
    /// acknowledgement that we sent, and on the right edge, where a peer that filled the window stands.
    fn is_in_window(&self, h: &Header, payload_len: u32) -> bool {
        let Some(start) = self.recv.position_of(h.seq) else { return false };
        let recv = &self.recv;
        // A FIN needs no memory: alone it may stand on the edge.
        let len = payload_len + u32::from(h.flags.has(Flags::SYN));
        if len == 0 {
            return recv.last_ack.min(recv.nxt) <= start && start <= recv.adv;
        }
        if recv.adv == recv.nxt {
            // A closed window still takes valid ACK and URG from the next segment.
            return start == recv.nxt;
        }
        start < recv.adv && start + u64::from(len) > recv.nxt
    }

    /// A retransmission of what we have: our acknowledgement was lost or slow. It is reported (RFC 2883), if
    /// its acknowledgement could be the peer's. No further below the window than a window. It sets no
    /// TS.Recent: what lies outside of the window is rejected before (RFC 7323, section 5.3, R2 and R3), or
    /// whoever guesses a timestamp would shut the peer out for as long as it is ahead.
    fn note_old_duplicate(&mut self, h: &Header, payload_len: u32) {
        let Some(start) = self.recv.position_of(h.seq) else { return };
        let end = start + u64::from(payload_len);
        let near = start + u64::from(self.recv.window_max) >= self.recv.nxt;
        let is_old = payload_len > 0 && end <= self.recv.nxt && near;
        let could_be_the_peers = h.flags.has(Flags::ACK) && self.acceptable_ack(h).is_some();
        if self.recv.sack && is_old && could_be_the_peers {
            self.recv.ranges.note_duplicate(start, end);
        }
    }

    /// Acknowledges a segment that was not acceptable; one without payload only within the limit, so that
    /// two confused peers do not answer each other for ever.
    fn answer(&mut self, now: Instant, payload_len: u32) {
        if payload_len > 0 || self.challenge.allows(now) {
            self.events.send_ack = true;
        }
    }

    fn challenge(&mut self, now: Instant) {
        if self.challenge.allows(now) {
            self.counters.challenge_acks += 1;
            self.events.send_ack = true;
        }
    }

    /// The peer's SYN again in SYN-RECEIVED. With our SYN acknowledged it completes a simultaneous open
    /// (RFC 9293, figure 7); otherwise our SYN-ACK was lost and goes out again.
    fn repeated_syn(&mut self, h: &Header) -> Option<u64> {
        if h.flags.has(Flags::ACK) && self.send.nxt == 1 && h.ack == self.snd_seq(1) {
            self.events.send_ack = true;
            return Some(1);
        }
        if self.send.queue.sent() > 0 {
            self.send.queue.mark_lost(0);
        }
        None
    }

    /// Second check (RFC 5961, section 3.2): only the exact next sequence number resets.
    fn handle_reset(&mut self, now: Instant, h: &Header) {
        if self.state == State::TimeWait {
            // RFC 1337: TIME-WAIT is not assassinated.
            self.counters.drop(DropCause::BlindReset);
            return;
        }
        if h.seq != self.recv.seq_of(self.recv.nxt) {
            self.counters.drop(DropCause::BlindReset);
            self.challenge(now);
            return;
        }
        let over = matches!(self.state, State::Closing | State::LastAck);
        if !over {
            let refused = self.state == State::SynReceived;
            self.events.reset = Some(if refused { ResetCause::Refused } else { ResetCause::Peer });
        }
        self.enter_closed();
    }

    /// SYN-SENT (section 3.10.7.3).
    pub(super) fn final_syn_sent(&mut self, now: Instant, h: &Header) {
        let acked = h.flags.has(Flags::ACK);
        if acked && (self.send.nxt == 0 || h.ack != self.snd_seq(1)) {
            self.counters.drop(DropCause::BadAck);
            if !h.flags.has(Flags::RST) {
                self.events.send_reset = Some((h.ack, None));
            }
            return;
        }
        if h.flags.has(Flags::RST) {
            if acked {
                self.events.reset = Some(ResetCause::Refused);
                self.enter_closed();
            } else {
                self.counters.drop(DropCause::BlindReset);
            }
            return;
        }
        if !h.flags.has(Flags::SYN) {
            return self.counters.drop(DropCause::Protocol);
        }
        let ecn = if acked {
            h.flags.has(Flags::ECE) && !h.flags.has(Flags::CWR)
        } else {
            h.flags.has(Flags::ECE | Flags::CWR)
        };
        self.apply_offer(&Offer::from_syn(h, ecn, self.settings.default_mss), now);
        if acked {
            self.establish(now);
            self.process_ack(now, &Header { window: 0, ..*h }, 1, 0);
            self.send.wnd = u32::from(h.window);
            self.events.send_ack = true;
            self.after_ack(now);
        } else {
            // Simultaneous open: our SYN goes out again, now with ACK.
            self.state = State::SynReceived;
            if self.send.queue.sent() > 0 {
                self.send.queue.mark_lost(0);
            }
        }
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, now: Instant) {
        self.state = if self.send.fin_queued { State::FinWait1 } else { State::Established };
        self.events.established = true;
        (self.recv.heard_at, self.recv.data_at) = (now, now);
        self.send.timeouts = 0;
        self.arm_keep_alive(now);
    }

    /// The first scaled window.
    pub(super) fn update_window_after_handshake(&mut self, h: &Header, ack: u64) {
        let wnd = u32::from(h.window) << self.send.shift;
        self.send.wnd = wnd;
        self.send.wnd_max = self.send.wnd_max.max(wnd);
        self.send.wl1 = self.recv.position_of(h.seq).unwrap_or(1);
        self.send.wl2 = ack;
    }

    /// Fifth check, last part: our FIN may have been acknowledged. True when the connection is over.
    pub(super) fn after_ack(&mut self, now: Instant) -> bool {
        let fin_acked = self.send.fin_queued && self.send.una == self.send.end;
        match self.state {
            State::FinWait1 if fin_acked => {
                self.state = State::FinWait2;
                if let Some(silence) = self.settings.fin_wait_2 {
                    self.timers.set(Timer::TimeWait, now + silence);
                }
            }
            State::Closing if fin_acked => {
                self.enter_time_wait(now);
                return true;
            }
            State::LastAck if fin_acked => {
                self.enter_closed();
                return true;
            }
            _ => {}
        }
        false
    }

    /// Eighth check: everything up to the peer's FIN is here.
    pub(super) fn reach_fin(&mut self, now: Instant) {
        if self.recv.nxt < self.recv.fin || !self.receives() {
            return;
        }
        self.recv.nxt = self.recv.fin + 1;
        self.recv.adv = self.recv.adv.max(self.recv.nxt);
        self.events.finished = true;
        self.events.send_ack = true;
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            _ => self.enter_time_wait(now),
        }
    }

    fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers = Default::default();
        self.phase = Phase::Open;
        self.send.queue.clear();
        self.start_time_wait(now);
    }

    fn start_time_wait(&mut self, now: Instant) {
        self.timers.set(Timer::TimeWait, now + self.settings.time_wait);
    }

    pub(super) fn arm_keep_alive(&mut self, now: Instant) {
        if let Some(keep_alive) = self.settings.keep_alive {
            self.timers.set(Timer::KeepAlive, now + keep_alive.idle);
        }
    }
}
