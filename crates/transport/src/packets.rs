//! What the congestion controller keeps of each segment on the wire, beside the ring of segments: only for a
//! controller that asks for it.

use super::queue::Segment;
use crate::congestion::Packet;
use fusewire_base::Instant;
use std::collections::VecDeque;

/// One entry for each sent segment, in the order of the ring.
#[derive(Clone, Debug, Default)]
pub(super) struct Packets {
    /// `None`: it went before this controller came.
    ring: VecDeque<Option<Packet>>,
    /// Of what was delivered since this was last taken the one that was sent last: when, its end, its state.
    newest: Option<(Instant, u64, Packet)>,
}

impl Packets {
    /// The segment at `index` left, for the first time or again.
    pub fn note(&mut self, index: usize, packet: Packet) {
        self.ring.resize(self.ring.len().max(index + 1), None);
        self.ring[index] = Some(packet);
    }

    pub fn at(&self, index: usize) -> Option<Packet> {
        self.ring.get(index).copied().flatten()
    }

    /// The segment at `index` was delivered.
    pub fn deliver(&mut self, index: usize, segment: &Segment) {
        let at = (segment.sent_at, segment.end());
        if let Some(packet) = self.at(index)
            && self.newest.is_none_or(|(sent_at, end, _)| (sent_at, end) < at)
        {
            self.newest = Some((at.0, at.1, packet));
        }
    }

    /// The first `count` segments leave the ring.
    pub fn remove(&mut self, count: usize) {
        self.ring.drain(..count.min(self.ring.len()));
    }

    /// Every segment was cut into as many pieces.
    pub fn recut(&mut self, pieces: impl Iterator<Item = usize>) {
        let old = core::mem::take(&mut self.ring);
        for (packet, count) in old.into_iter().zip(pieces) {
            self.ring.extend(std::iter::repeat_n(packet, count));
        }
    }

    /// See [`Packets::newest`].
    pub fn take_newest(&mut self) -> Option<(Instant, Packet)> {
        self.newest.take().map(|(sent_at, _, packet)| (sent_at, packet))
    }
}
