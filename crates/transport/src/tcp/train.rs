//! Segments that leave as one super-frame: what is decided for each of them, without what is the same for all.

use super::Transmit;
use super::connection::{Connection, Probe};
use crate::congestion::Controller;
use crate::machine::TransmitKind;
use crate::rack::Phase;
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
        let follows = self.send.queue.next_unsent().is_some_and(|s| s.start == payload.end + 1);
        if !follows || len != u64::from(self.send.max_payload) {
            return;
        }
        // As many as the frame, the peer's window and the congestion window take.
        let edge = self.send.una + u64::from(self.send.wnd);
        let window = self.cc.window().saturating_sub(self.send.queue.in_flight());
        let room = (payload.start + most)
            .saturating_sub(payload.end)
            .min(edge.saturating_sub(payload.end + 1))
            .min(window)
            .min(self.pacer.room(now));
        let (count, pushed) =
            self.send.queue.mark_train_sent(now, (room / len) as usize, len as u32);
        if count == 0 {
            return;
        }
        let bytes = count as u64 * len;
        payload.end += bytes;
        self.pacer.on_sent(now, bytes);
        for index in self.send.queue.sent() - count..self.send.queue.sent() {
            self.send.queue.show_sent(&mut self.cc, now, index, len);
        }
        if pushed {
            transmit.header.flags |= Flags::PSH;
        }
        (self.send.nxt, self.send.burst_end) = (payload.end + 1, payload.end + 1);
        let in_flight = self.send.queue.in_flight();
        if self.send.una >= self.send.in_flight_round || in_flight > self.send.in_flight_max {
            (self.send.in_flight_max, self.send.in_flight_round) = (in_flight, self.send.nxt);
        }
        self.counters.segments_sent += count as u64;
        self.counters.data_segments_sent += count as u64;
        self.arm_tail_loss_probe(now);
    }
}
