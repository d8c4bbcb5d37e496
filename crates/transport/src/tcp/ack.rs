//! What an acceptable acknowledgement does (RFC 9293, section 3.10.7.4, fifth check; RFC 6675; RFC 5681).

use super::connection::Connection;
use super::timers::Timer;
use crate::congestion::{Acked, Controller};
use crate::rack::{Delivered, Phase};
use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_wire::tcp::{Flags, Header};

/// Duplicate acknowledgements that show a loss to a sender without SACK (RFC 5681, section 3.2).
const DUPLICATE_ACKS: u32 = 3;

impl Connection {
    /// Processes the acknowledgement of a segment that passed the checks; `ack` is its position,
    /// `una <= ack <= nxt`, or SND.UNA when it is older and only its reports count.
    pub(super) fn process_ack(&mut self, now: Instant, h: &Header, ack: u64, payload_len: u32) {
        let una = self.send.una;
        let in_flight_before = self.send.queue.in_flight();
        let window_changed = self.update_send_window(h, ack);
        let delivered = self.take_delivered(now, h, ack);
        let advanced = ack > una;
        if advanced {
            self.send.una = ack;
            self.events.acked = ack > 1;
            self.counters.bytes_acked = self.snd_una_offset();
            self.send.timeouts = 0;
            self.send.progress_at = now;
            self.send.duplicate_acks = 0;
            self.send.cork.more = false;
        }
        let rtt = self.sample_rtt(now, h, &delivered, advanced);
        if advanced && una == 0 {
            self.rtt.begin_data();
        } else if advanced && rtt.is_none() {
            self.rtt.ease_back_off();
        }
        if h.options.sack_count > 0 {
            let named = h.ack.to_offset(self.send.iss, self.send.una).unwrap_or(0);
            self.take_dsack(now, h, named);
        }
        if advanced {
            self.detect_spurious(
                now,
                self.ts.enabled.then(|| h.options.timestamps.map(|t| t.1)).flatten(),
            );
            self.resolve_tail_loss_probe(now, ack);
        }
        let mut delivered = delivered;
        if advanced {
            // What duplicate acknowledgements stood for has been counted.
            let counted = core::mem::take(&mut self.send.duplicate_bytes);
            let mss = u64::from(self.send.max_payload);
            delivered.bytes -= counted.min(delivered.bytes.saturating_sub(mss));
        }
        let lost = if self.settings.sack {
            self.detect_losses(now)
        } else {
            let duplicate =
                !advanced && payload_len == 0 && !window_changed && !h.flags.has(Flags::FIN);
            self.detect_losses_without_sack(now, duplicate, advanced, &mut delivered)
        };
        if lost > 0 {
            self.enter_recovery(now, self.send.nxt - una);
        }
        let recovering = matches!(self.phase, Phase::Recovery { .. });
        if let Some(prr) = self.phase.prr_mut() {
            prr.on_ack(delivered.bytes, lost, self.send.queue.in_flight(), advanced);
        }
        // On a SYN the bit says something else (RFC 3168, section 6.1.1).
        let echoes = h.flags.has(Flags::ECE) && !h.flags.has(Flags::SYN);
        if self.ecn.on_ack(echoes, ack, self.send.nxt) {
            self.counters.ecn_echoes += 1;
            if matches!(self.phase, Phase::Open) || self.cc.steers_recovery() {
                self.cc.on_congestion(now, crate::congestion::Signal::Ecn, in_flight_before);
            }
        }
        if advanced {
            self.leave_recovery(now);
        }
        if delivered.bytes > 0 {
            // Reports alone open no window (RFC 5681, section 3.2, step 1), unless segments are known to
            // overtake each other here, and a report is no sign of a loss.
            let opens = !recovering && (advanced || self.rack.reordering() > DUPLICATE_ACKS);
            if opens || self.cc.steers_recovery() {
                self.grow_window(now, delivered.bytes, in_flight_before, rtt);
            }
            self.update_pace();
            self.arm_rto(now);
            self.arm_tail_loss_probe(now);
        } else if advanced {
            self.arm_rto(now);
        }
    }

    fn grow_window(
        &mut self,
        now: Instant,
        bytes: u64,
        in_flight_before: u64,
        rtt: Option<Duration>,
    ) {
        // What had arrived over an earlier path says nothing of this one.
        let is_old = self.send.una <= self.send.path_from;
        let bytes = if is_old { bytes.min(in_flight_before) } else { bytes };
        self.cc.on_acked(&Acked {
            now,
            bytes,
            in_flight_before: in_flight_before.max(self.send.in_flight_max),
            in_flight: self.send.queue.in_flight(),
            snd_una: self.send.una,
            snd_nxt: self.send.nxt,
            rtt,
            srtt: self.rtt.srtt().unwrap_or_default(),
            window_limited: self.send.window_limited,
            newest: self.send.queue.take_newest(),
        });
    }

    /// The controller's rate, else the window's over its round trip if this connection paces.
    fn update_pace(&mut self) {
        let (srtt, spreads) = (self.rtt.srtt(), self.settings.pacing);
        self.pacer.follow(&self.cc, srtt, self.send.max_payload, spreads);
    }

    /// SND.WND, when the segment is not older than the one that last changed it. One that advances
    /// SND.UNA counts in any case: the window is relative to its acknowledgement, and the old one beside
    /// the new SND.UNA would reach too far.
    fn update_send_window(&mut self, h: &Header, ack: u64) -> bool {
        let seq = self.recv.position_of(h.seq).unwrap_or(0);
        let s = &mut self.send;
        if h.ack.to_offset(s.iss, s.una).is_none_or(|ack| ack < s.una) {
            return false;
        }
        if ack > s.una || s.wl1 < seq || (s.wl1 == seq && s.wl2 <= ack) {
            (s.wl1, s.wl2) = (seq, ack);
            let wnd = u32::from(h.window) << s.shift;
            let changed = wnd != s.wnd;
            s.wnd = wnd;
            s.wnd_max = s.wnd_max.max(wnd);
            if wnd > 0 {
                s.probes = 0;
            }
            if changed {
                self.timers.clear(Timer::Persist);
            }
            return changed;
        }
        false
    }

    /// Cumulative acknowledgement and SACK blocks into the scoreboard.
    fn take_delivered(&mut self, now: Instant, h: &Header, ack: u64) -> Delivered {
        let mut delivered = Delivered::default();
        let at = (now, self.rtt.min().unwrap_or_default());
        let offset = self.ts.offset;
        let echo = h.options.timestamps.map(|t| t.1).filter(|_| self.ts.enabled);
        // Our clock's value when the segment was last sent is later than what the peer echoes.
        let older = |sent_at: Instant| {
            echo.is_some_and(|echo| {
                Seq(echo).lt(Seq((sent_at.as_ms() as u32).wrapping_add(offset)))
            })
        };
        self.rack.begin_ack();
        let rack = &mut self.rack;
        let queue = &mut self.send.queue;
        if ack > self.send.una {
            delivered.bytes += queue.ack_to(ack, |s, count| {
                rack.deliver(&mut delivered, s, at, older);
                delivered.segments += count - 1;
            });
        }
        if self.settings.sack {
            for &(left, right) in h.options.sack_blocks() {
                let (Some(left), Some(right)) =
                    (self.send_position(left), self.send_position(right))
                else {
                    continue;
                };
                if left < right && left >= ack && right <= self.send.nxt {
                    let (rack, queue) = (&mut self.rack, &mut self.send.queue);
                    let bytes = queue.sack(left, right, |s| {
                        // A report is sent with the timestamp of what came in order.
                        rack.deliver(&mut delivered, s, at, |_| false);
                    });
                    delivered.bytes += bytes;
                }
            }
        }
        self.rack.end_ack(self.send.max_payload);
        delivered
    }

    fn send_position(&self, seq: Seq) -> Option<u64> {
        seq.to_offset(self.send.iss, self.send.una)
    }

    /// A DSACK is the first block when it lies below the acknowledgement or inside the second block
    /// (RFC 2883, section 4).
    fn take_dsack(&mut self, now: Instant, h: &Header, ack: u64) {
        if !self.settings.sack {
            return;
        }
        let blocks = h.options.sack_blocks();
        let position = |b: &(Seq, Seq)| Some((self.send_position(b.0)?, self.send_position(b.1)?));
        let Some((left, right)) = blocks.first().and_then(position) else { return };
        let inside_second =
            blocks.get(1).and_then(position).is_some_and(|(l, r)| l <= left && right <= r);
        if left < right && right <= self.send.nxt && (right <= ack || inside_second) {
            self.on_dsack(now, left, right);
        }
    }

    /// A round-trip time: from the latest segment that was sent once (Karn), else from the echoed
    /// timestamp.
    fn sample_rtt(
        &mut self,
        now: Instant,
        h: &Header,
        delivered: &Delivered,
        advanced: bool,
    ) -> Option<Duration> {
        if delivered.segments == 0 {
            return None;
        }
        // What lies behind a hole that was filled has waited at the receiver: no sample.
        let rtt = match delivered.latest_once.filter(|_| delivered.latest_again.is_none()) {
            Some(sent_at) => now - sent_at,
            None => {
                // Not from the handshake: a cookie's timestamp is not the time.
                let usable = self.ts.enabled && advanced && self.send.una > 1;
                let echo = h.options.timestamps.map(|t| t.1).filter(|e| usable && *e != 0)?;
                let ms = self.ts_value(now).wrapping_sub(echo);
                if ms == 0 || ms > 1 << 24 || self.echo_is_stale(now, echo, delivered.latest_again)
                {
                    return None;
                }
                Duration::from_millis(u64::from(ms))
            }
        };
        let round = self.send.queue.in_flight() / u64::from(self.send.max_payload)
            + u64::from(delivered.segments);
        let samples = 2 * round as u32 / delivered.segments;
        self.rtt.sample_of(rtt, now, samples);
        Some(rtt)
    }

    /// The echo is of a transmission before the last one, yet the answer is late enough to be to the
    /// last: the original had arrived and its acknowledgement was lost. (A receiver that has a segment
    /// already does not take its timestamp.) The time from then holds a whole timeout.
    fn echo_is_stale(&self, now: Instant, echo: u32, sent_again: Option<Instant>) -> bool {
        let Some(sent) = sent_again else { return false };
        let possible = self.rtt.min().is_none_or(|min| now - sent >= min / 2);
        possible && Seq(echo).lt(Seq(self.ts_value(sent)))
    }

    /// RFC 5681 and 6582 for a peer without SACK: three duplicates, then one hole for each partial
    /// acknowledgement.
    fn detect_losses_without_sack(
        &mut self,
        now: Instant,
        duplicate: bool,
        advanced: bool,
        delivered: &mut Delivered,
    ) -> u64 {
        if self.send.queue.sent() == 0 {
            return 0;
        }
        if duplicate {
            self.send.duplicate_acks += 1;
            // Something left the network, though nobody says what.
            delivered.bytes = delivered
                .bytes
                .max(u64::from(self.send.max_payload.min(self.send.queue.at(0).seq_len())));
            self.send.duplicate_bytes += delivered.bytes;
        }
        match self.phase {
            Phase::Open if duplicate && self.send.duplicate_acks == DUPLICATE_ACKS => {
                self.mark_lost(now, 0)
            }
            Phase::Recovery { until, .. } if advanced && self.send.una < until => {
                self.mark_lost(now, 0)
            }
            _ => 0,
        }
    }
}
