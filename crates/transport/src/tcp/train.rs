//! Segments that leave as one super-frame: what is decided for each of them, without what is the same for all.

use super::connection::{Connection, Probe};
use super::queue::flag;
use super::recovery::Phase;
use super::types::{Transmit, TransmitKind};
use crate::congestion::Controller;
use fusewire_base::Instant;
use fusewire_wire::tcp::Flags;

impl Connection {
    /// Lengthens `transmit`, which [`Connection::poll_transmit`] has just given at this very `now`, by whole segments
    /// of its own length, as long as they would come next anyway and differ in nothing that segmentation by the
    /// device does not make; the payload stays within `most` bytes. What is left, a shorter one perhaps,
    /// `poll_transmit` gives afterwards.
    pub fn extend(&mut self, now: Instant, transmit: &mut Transmit, most: u64) {
        let plain = !self.settings.pacing
            && self.settings.push_bursts.is_none()
            && matches!(self.phase, Phase::Open)
            && matches!(self.send.probe, Probe::None)
            && self.send.queue.lost() == 0
            && !transmit.retransmission
            && transmit.kind == TransmitKind::Data
            && !transmit.header.flags.any(Flags::CWR | Flags::URG | Flags::FIN);
        let Some(payload) = transmit.payload.as_mut().filter(|_| plain) else { return };
        let len = payload.end - payload.start;
        let edge = self.send.una + u64::from(self.send.wnd);
        let window = self.cc.window();
        let mut count = 0;
        while payload.end - payload.start + len <= most
            && let Some(s) = self.send.queue.next_unsent().copied()
            && u64::from(s.len) == len
            && len == u64::from(self.send.max_payload)
            && s.start == payload.end + 1
            && !s.has(flag::SYN | flag::FIN)
            && s.end() <= edge
            && self.send.queue.in_flight() + len <= window
        {
            self.send.queue.mark_sent(now, false);
            payload.end += len;
            count += 1;
            if s.has(flag::PUSH) {
                transmit.header.flags |= Flags::PSH;
            }
        }
        if count == 0 {
            return;
        }
        (self.send.nxt, self.send.burst_end) = (payload.end + 1, payload.end + 1);
        let in_flight = self.send.queue.in_flight();
        if self.send.una >= self.send.in_flight_round || in_flight > self.send.in_flight_max {
            (self.send.in_flight_max, self.send.in_flight_round) = (in_flight, self.send.nxt);
        }
        self.counters.segments_sent += count;
        self.counters.data_segments_sent += count;
        self.arm_tail_loss_probe(now);
    }
}
