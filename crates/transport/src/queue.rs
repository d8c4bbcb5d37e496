//! The send queue: what was committed and is not yet acknowledged, with the scoreboard of RFC 6675.
//!
//! One flat ring of segments in order of offset; the first `sent` of them have been on the wire.
//! ```text
//!   snd_una                snd_nxt               end
//!      │ S  ·  L  R  S  S  ·  │  queued, not sent  │     S sacked, L lost, R sent again
//!      └──────── sent ────────┘
//! ```
//! `in_flight` (the RFC's pipe) is the sum of the sequence lengths of sent segments that are neither
//! sacked nor lost. Positions are 64-bit: 0 is SYN, 1 the first byte of the stream.

use super::packets::Packets;
use crate::congestion::{Controller, Packet, Sent};
use fusewire_base::Instant;
use std::collections::VecDeque;

/// Bits of [`Segment::flags`].
pub(super) mod flag {
    /// Holds SYN and nothing else.
    pub const SYN: u8 = 1;
    /// Ends with FIN.
    pub const FIN: u8 = 1 << 1;
    /// Last piece of what was committed at once.
    pub const PUSH: u8 = 1 << 2;
    /// May be joined with what follows.
    pub const STREAM: u8 = 1 << 3;
    /// The receiver reported it.
    pub const SACKED: u8 = 1 << 4;
    /// Taken for lost and not sent again yet.
    pub const LOST: u8 = 1 << 5;
    /// Sent more than once.
    pub const RETRANSMITTED: u8 = 1 << 6;
    /// Was the last of several that left together.
    pub const BURST_END: u8 = 1 << 7;
}

/// One segment of the send stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub start: u64,
    /// When it was last sent.
    pub sent_at: Instant,
    /// Payload bytes.
    pub len: u32,
    /// Bytes of each record in it, if they are alike and all of it; otherwise 0.
    pub unit: u16,
    /// It holds whole records and nothing else, as far as is known.
    pub whole: bool,
    pub flags: u8,
}

impl Segment {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Length in sequence space.
    pub fn seq_len(&self) -> u32 {
        self.len + u32::from(self.has(flag::SYN | flag::FIN))
    }

    pub fn end(&self) -> u64 {
        self.start + u64::from(self.seq_len())
    }

    /// It is cut at `len` bytes.
    fn forget_unit(&mut self, len: u32) {
        if !len.is_multiple_of(u32::from(self.unit).max(1)) {
            self.unit = 0;
        }
        self.whole &= self.unit > 0;
    }

    /// It is cut into pieces of at most `max` bytes.
    fn forget_unit_above(&mut self, max: u32) {
        if u32::from(self.unit) > max {
            self.unit = 0;
        }
        self.whole &= self.unit > 0 || self.len <= max;
    }

    fn counts_in_flight(&self) -> bool {
        !self.has(flag::SACKED | flag::LOST)
    }
}

/// Most joints that are remembered: where there are more, records do not join others of another length.
const JOINTS_MAX: usize = 16 << 10;

/// The ring and its sums.
#[derive(Clone, Debug, Default)]
pub(super) struct SendQueue {
    ring: VecDeque<Segment>,
    capacity: usize,
    /// Segments at the front that have been on the wire.
    sent: usize,
    in_flight: u64,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// No segment before this index is lost.
    first_lost: usize,
    /// What was acknowledged last ends within a commitment.
    is_inside: bool,
    /// Where the segment begins that takes further records, unless it has been sent or cut since.
    open_at: u64,
    /// Where the last record ends that is longer than a segment.
    long_end: u64,
    /// Where records begin that were joined to one of another length: where a segment is cut, if it has to be.
    joints: VecDeque<u64>,
    /// Ranges that earlier SACKs marked, so that repeating them costs nothing.
    seen: [(u64, u64); 4],
    /// Payload of the longest segment that was delivered since the last call of `take_delivered_len`; a lower bound.
    delivered_len: u32,
    /// What the congestion controller keeps of each sent segment, if it does.
    packets: Option<Box<Packets>>,
}

impl SendQueue {
    pub fn new(capacity: usize) -> Self {
        // The ring grows to what the connection needs: most connections of a server wait.
        SendQueue { capacity: capacity.max(4), ..SendQueue::default() }
    }

    /// From now on the congestion controller keeps something of each segment that is sent, or does not; what
    /// another one kept is forgotten.
    pub fn keep_packets(&mut self, keep: bool) {
        self.packets = keep.then(Box::default);
    }

    /// The controller sees `bytes` of the segment at `index` leave; what it gives for them is kept with it.
    pub fn show_sent(&mut self, cc: &mut impl Controller, now: Instant, index: usize, bytes: u64) {
        if cc.keeps_packets() {
            let in_flight = self.in_flight();
            let packet = cc.on_sent(&Sent { now, bytes, in_flight });
            if let Some(packets) = &mut self.packets {
                packets.note(index, packet);
            }
        }
    }

    /// What the controller keeps of the segment at `index`.
    pub fn packet(&self, index: usize) -> Option<Packet> {
        self.packets.as_ref()?.at(index)
    }

    /// Of what was delivered since the last call the segment that was sent last: when, and what was kept.
    pub fn take_newest(&mut self) -> Option<(Instant, Packet)> {
        self.packets.as_mut()?.take_newest()
    }

    /// Returns the payload length of the longest segment that was delivered since the last call, or less where only a
    /// run of segments is known; 0 if none was.
    pub fn take_delivered_len(&mut self) -> u32 {
        core::mem::take(&mut self.delivered_len)
    }

    /// Entries that may still be pushed.
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.ring.len())
    }

    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub fn sent(&self) -> usize {
        self.sent
    }

    pub fn unsent(&self) -> usize {
        self.ring.len() - self.sent
    }

    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Segments taken for lost and not sent again yet.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Segments that were sent again and may be in the network. Takes time in proportion to what is under
    /// way when there are any.
    pub fn resent(&self) -> u32 {
        if self.retransmitted == 0 {
            return 0;
        }
        let under_way = |s: &&Segment| s.has(flag::RETRANSMITTED) && s.counts_in_flight();
        self.ring.iter().take(self.sent).filter(under_way).count() as u32
    }

    /// Something that is not acknowledged was sent again.
    pub fn has_retransmitted(&self) -> bool {
        self.retransmitted > 0
    }

    /// Something sent is sacked or was sent again: order of sending is no longer order of offset.
    pub fn is_disordered(&self) -> bool {
        self.sacked | self.retransmitted != 0
    }

    pub fn at(&self, index: usize) -> &Segment {
        &self.ring[index]
    }

    /// The next segment that was never sent.
    pub fn next_unsent(&self) -> Option<&Segment> {
        self.ring.get(self.sent)
    }

    pub fn push(&mut self, segment: Segment) {
        debug_assert!(self.ring.back().is_none_or(|last| last.end() == segment.start));
        self.ring.push_back(segment);
    }

    /// Lengthens the last unsent segment by up to `len` bytes when it is joinable; returns how many.
    pub fn join(&mut self, len: u32, max_payload: u32, pushes: bool) -> u32 {
        if self.unsent() == 0 {
            return 0;
        }
        match self.ring.back_mut() {
            Some(last) if last.has(flag::STREAM) && last.len < max_payload => {
                let joined = len.min(max_payload - last.len);
                last.len += joined;
                // The push moves to where the bytes end.
                last.flags &= !flag::PUSH;
                if joined == len && pushes {
                    last.flags |= flag::PUSH;
                }
                joined
            }
            _ => 0,
        }
    }

    /// A record of `len` bytes begins at `start`, with the segment that is pushed next.
    pub fn begin_record(&mut self, start: u64, len: u32, max_payload: u32) {
        if len <= max_payload {
            self.open_at = start;
        } else {
            self.long_end = start + u64::from(len);
        }
    }

    /// A record of `len` bytes may begin behind the bytes of the last segment: whole, behind whole ones; or if it is
    /// longer than a segment, behind one that is too.
    #[inline]
    pub fn joins(&self, len: u32, max_payload: u32) -> bool {
        let last = self.ring.back().filter(|_| self.unsent() > 0);
        last.is_some_and(|s| {
            let fits = self.joints.len() < JOINTS_MAX
                && match len > max_payload {
                    false => s.start == self.open_at && len <= max_payload.saturating_sub(s.len),
                    true => s.end() == self.long_end && s.len < max_payload,
                };
            fits && !s.has(flag::STREAM | flag::SYN | flag::FIN)
        })
    }

    /// How long [`joins`](Self::joins) lets a whole record be, or several in a row.
    #[inline]
    pub fn joins_whole(&self, max_payload: u32) -> u32 {
        let room = self.ring.back().map_or(0, |last| max_payload.saturating_sub(last.len));
        if room > 0 && self.joins(room, max_payload) { room } else { 0 }
    }

    /// Lengthens the last segment by records of `unit` bytes, `len` together, of which [`joins`](Self::joins) said that
    /// they may, or by the first bytes of a single one; returns how many.
    #[inline]
    pub fn join_records(&mut self, len: u32, unit: u32, max_payload: u32) -> u32 {
        let Some(last) = self.ring.back_mut() else { return 0 };
        let (start, joined) = (last.end(), len.min(max_payload.saturating_sub(last.len)));
        if last.unit == 0 || u32::from(last.unit) != unit {
            let old = u32::from(core::mem::take(&mut last.unit));
            let (first, alike) = (last.start, last.len.checked_div(old).unwrap_or(0));
            self.joints.extend((1..alike).map(|n| first + u64::from(n * old)));
            self.joints.extend((0..len / unit).map(|n| start + u64::from(n * unit)));
        }
        last.len += joined;
        if joined < len {
            last.flags &= !flag::PUSH;
        }
        if len > max_payload {
            self.long_end = start + u64::from(len);
        }
        joined
    }

    /// How long the piece is that begins at `start`, of at most `max` bytes of `segment`: it ends where a record does,
    /// and if it begins within one, where that one does, as far as they end in reach.
    fn piece_len(&self, segment: &Segment, start: u64, max: u32) -> u32 {
        let unit = u32::from(segment.unit);
        if unit > 0 {
            let before = (start - segment.start) as u32;
            let records = if unit <= max { max / unit * unit } else { unit - before % unit };
            return records.min(max).min(segment.len - before);
        }
        let reach = start + u64::from(max);
        let end = segment.start + u64::from(segment.len);
        let first = self.joints.partition_point(|at| *at <= start);
        let begins_record = start == segment.start || first > 0 && self.joints[first - 1] == start;
        if end <= reach && (begins_record || self.joints.get(first).is_none_or(|at| *at >= end)) {
            return (end - start) as u32;
        }
        let behind = self.joints.partition_point(|at| *at <= reach.min(end));
        let cut = match behind > first {
            true if begins_record => self.joints[behind - 1],
            true => self.joints[first],
            false => reach,
        };
        (cut - start) as u32
    }

    /// Forgets where records begin below `una`.
    fn trim_joints(&mut self, una: u64) {
        if self.joints.front().is_some_and(|at| *at < una) {
            let past = self.joints.partition_point(|at| *at < una);
            self.joints.drain(..past);
        }
    }

    /// FIN rides on the last segment when that was not sent yet; false when it was, or there is none.
    pub fn join_fin(&mut self) -> bool {
        if self.unsent() == 0 {
            return false;
        }
        match self.ring.back_mut() {
            Some(last) if !last.has(flag::SYN) => {
                last.flags |= flag::FIN | flag::PUSH;
                true
            }
            _ => false,
        }
    }

    /// The next unsent segment is pushed.
    pub fn push_next(&mut self) {
        if let Some(segment) = self.ring.get_mut(self.sent) {
            segment.flags |= flag::PUSH;
        }
    }

    /// What is committed next begins a segment of its own.
    pub fn end_stream(&mut self) {
        if let Some(last) = self.ring.back_mut() {
            last.flags &= !flag::STREAM;
        }
    }

    /// How many bytes [`join`](Self::join) would take.
    pub fn join_room(&self, max_payload: u32) -> u32 {
        match self.ring.back() {
            Some(last) if self.unsent() > 0 && last.has(flag::STREAM) => {
                max_payload.saturating_sub(last.len)
            }
            _ => 0,
        }
    }

    /// The first unsent segment goes out. Returns it as it was.
    pub fn mark_sent(&mut self, now: Instant, ends_burst: bool) -> Segment {
        let segment = &mut self.ring[self.sent];
        segment.sent_at = now;
        if ends_burst {
            segment.flags |= flag::BURST_END;
        }
        let copy = *segment;
        self.sent += 1;
        self.in_flight += u64::from(copy.seq_len());
        copy
    }

    /// The next unsent segments go out as one train: at most `most`, each of `len` bytes and without SYN or FIN.
    /// Returns how many they are, and whether one of them is pushed.
    pub fn mark_train_sent(&mut self, now: Instant, most: usize, len: u32) -> (usize, bool) {
        let (mut count, mut pushed) = (0, false);
        for segment in self.ring.range_mut(self.sent..).take(most) {
            if segment.len != len || segment.has(flag::SYN | flag::FIN) {
                break;
            }
            segment.sent_at = now;
            pushed |= segment.has(flag::PUSH);
            count += 1;
        }
        self.sent += count;
        self.in_flight += count as u64 * u64::from(len);
        (count, pushed)
    }

    /// A sent segment goes out again. Returns it.
    pub fn mark_resent(&mut self, index: usize, now: Instant) -> Segment {
        let segment = &mut self.ring[index];
        segment.sent_at = now;
        if !segment.has(flag::RETRANSMITTED) {
            segment.flags |= flag::RETRANSMITTED;
            self.retransmitted += 1;
        }
        if segment.has(flag::LOST) {
            segment.flags &= !flag::LOST;
            self.lost -= 1;
            self.in_flight += u64::from(segment.seq_len());
            if index == self.first_lost {
                self.first_lost += 1;
            }
        }
        *segment
    }

    /// Cumulative acknowledgement. Calls `each` for every segment that is wholly acknowledged and was
    /// not sacked before; returns the bytes (in sequence space) delivered by this. Of segments that went out once and
    /// in order it hears of the first and the last alone, that one with the number of those between and itself.
    pub fn ack_to(&mut self, una: u64, mut each: impl FnMut(&Segment, u32)) -> u64 {
        self.trim_joints(una);
        let mut delivered = self.ack_in_order(una, &mut each);
        while self.sent > 0 {
            let front = self.ring[0];
            if front.end() > una {
                break;
            }
            self.ring.pop_front();
            self.is_inside = !front.has(flag::PUSH);
            self.sent -= 1;
            self.first_lost = self.first_lost.saturating_sub(1);
            let len = u64::from(front.seq_len());
            if let Some(packets) = &mut self.packets {
                if !front.has(flag::SACKED) {
                    packets.deliver(0, &front);
                }
                packets.remove(1);
            }
            if front.has(flag::SACKED | flag::LOST | flag::RETRANSMITTED) {
                self.retransmitted -= u32::from(front.has(flag::RETRANSMITTED));
                self.lost -= u32::from(front.has(flag::LOST));
                self.sacked -= u32::from(front.has(flag::SACKED));
            }
            if front.counts_in_flight() {
                self.in_flight -= len;
            }
            if !front.has(flag::SACKED) {
                delivered += len;
                self.delivered_len = self.delivered_len.max(front.len);
                each(&front, 1);
            }
        }
        if self.sent > 0 {
            delivered += self.trim_front(una);
        } else if self.ring.is_empty() {
            self.ring.clear();
        }
        delivered
    }

    /// The wholly acknowledged segments at once, when none of what was sent was sacked, lost or sent again.
    fn ack_in_order(&mut self, una: u64, each: &mut impl FnMut(&Segment, u32)) -> u64 {
        if self.is_disordered() || self.lost > 0 {
            return 0;
        }
        let count = self.ring.partition_point(|segment| segment.end() <= una).min(self.sent);
        if count == 0 {
            return 0;
        }
        let (first, last) = (self.ring[0], self.ring[count - 1]);
        each(&first, 1);
        if count > 1 {
            each(&last, count as u32 - 1);
        }
        if let Some(packets) = &mut self.packets {
            packets.deliver(count - 1, &last);
            packets.remove(count);
        }
        self.ring.drain(..count);
        self.is_inside = !last.has(flag::PUSH);
        self.sent -= count;
        self.first_lost = self.first_lost.saturating_sub(count);
        let delivered = last.end() - first.start;
        // At least one segment is as long as the mean.
        let mean = (delivered / count as u64) as u32;
        self.delivered_len = self.delivered_len.max(first.len).max(last.len).max(mean);
        self.in_flight -= delivered;
        delivered
    }

    /// A peer acknowledged a part of the first segment.
    fn trim_front(&mut self, una: u64) -> u64 {
        let front = &mut self.ring[0];
        if una <= front.start {
            return 0;
        }
        let cut = (una - front.start) as u32;
        debug_assert!(cut < front.seq_len() && cut <= front.len);
        front.forget_unit(cut);
        front.start = una;
        front.len -= cut;
        let cut = u64::from(cut);
        if front.counts_in_flight() {
            self.in_flight -= cut;
        }
        if front.has(flag::SACKED) { 0 } else { cut }
    }

    /// A SACK block. Calls `each` for every segment that it newly covers whole; returns their bytes.
    pub fn sack(&mut self, left: u64, right: u64, mut each: impl FnMut(&Segment)) -> u64 {
        let (mut from, mut to) = (left, right);
        for &(l, r) in &self.seen {
            if l <= from && from < r {
                from = r;
            }
            if l < to && to <= r {
                to = l;
            }
        }
        if from >= to {
            return 0;
        }
        let first = self.ring.partition_point(|s| s.start < from);
        let mut delivered = 0;
        let mut covered = (u64::MAX, 0);
        for index in first..self.sent {
            let segment = &mut self.ring[index];
            if segment.end() > to {
                break;
            }
            covered = (covered.0.min(segment.start), segment.end());
            if segment.has(flag::SACKED) {
                continue;
            }
            let len = u64::from(segment.seq_len());
            if segment.has(flag::LOST) {
                segment.flags &= !flag::LOST;
                self.lost -= 1;
            } else {
                self.in_flight -= len;
            }
            segment.flags |= flag::SACKED;
            self.sacked += 1;
            self.delivered_len = self.delivered_len.max(segment.len);
            delivered += len;
            if let Some(packets) = &mut self.packets {
                packets.deliver(index, segment);
            }
            each(segment);
        }
        if covered.0 < covered.1 {
            self.remember(covered);
        }
        delivered
    }

    fn remember(&mut self, (left, right): (u64, u64)) {
        for seen in &mut self.seen {
            if left <= seen.1 && seen.0 <= right {
                *seen = (seen.0.min(left), seen.1.max(right));
                return;
            }
        }
        self.seen.rotate_right(1);
        self.seen[0] = (left, right);
    }

    /// Takes a sent segment for lost; returns the bytes that thereby left the network.
    pub fn mark_lost(&mut self, index: usize) -> u64 {
        let segment = &mut self.ring[index];
        if !segment.counts_in_flight() {
            return 0;
        }
        segment.flags |= flag::LOST;
        self.lost += 1;
        self.first_lost = self.first_lost.min(index);
        let len = u64::from(segment.seq_len());
        self.in_flight -= len;
        len
    }

    /// Takes everything sent and not sacked for lost (retransmission timeout). When the receiver has dropped what it reported
    /// (the first segment is sacked and yet not acknowledged), forgets all reports (RFC 2018, section 8).
    pub fn mark_all_lost(&mut self) {
        let dropped = self.sent > 0 && self.ring[0].has(flag::SACKED);
        for index in 0..self.sent {
            let _ = dropped && self.forget_sack(index);
            self.mark_lost(index);
        }
    }

    /// A report is forgotten; false where there was none.
    pub fn forget_sack(&mut self, index: usize) -> bool {
        let segment = &mut self.ring[index];
        let was = segment.has(flag::SACKED);
        if was {
            segment.flags &= !flag::SACKED;
            self.in_flight += u64::from(segment.seq_len());
            (self.sacked, self.seen) = (self.sacked - 1, [(0, 0); 4]);
        }
        was
    }

    /// Losses were no losses: what was not sent again is in the network after all.
    pub fn unmark_lost(&mut self) {
        for segment in self.ring.iter_mut().take(self.sent) {
            if segment.has(flag::LOST) {
                segment.flags &= !flag::LOST;
                self.in_flight += u64::from(segment.seq_len());
            }
        }
        self.lost = 0;
        self.first_lost = self.sent;
    }

    /// Index of the first lost segment.
    pub fn next_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            self.first_lost = self.sent;
            return None;
        }
        while self.first_lost < self.sent {
            if self.ring[self.first_lost].has(flag::LOST) {
                return Some(self.first_lost);
            }
            self.first_lost += 1;
        }
        debug_assert!(false, "lost segments are counted");
        None
    }

    /// Index of the first segment that ends beyond `offset`.
    pub fn index_beyond(&self, offset: u64) -> usize {
        self.ring.partition_point(|s| s.end() <= offset)
    }

    /// Where the first commitment ends that has not been sent, or is being sent; `None` when all were sent to their end.
    pub fn next_end(&self) -> Option<u64> {
        let ends = |s: &&Segment| s.has(flag::PUSH);
        let last = self.sent.checked_sub(1).map(|last| &self.ring[last]);
        let is_inside = last.map_or(self.is_inside, |last| !ends(&last));
        self.ring.iter().skip(self.sent).find(ends).filter(|_| is_inside).map(Segment::end)
    }

    /// The last sent segment that ends at `end` or before.
    pub fn last_within(&self, end: u64) -> Option<Segment> {
        let count = self.ring.partition_point(|s| s.end() <= end).min(self.sent);
        Some(self.ring[count.checked_sub(1)?])
    }

    /// Index of the last sent segment that is not sacked.
    pub fn last_unsacked(&self) -> Option<usize> {
        (0..self.sent).rev().find(|i| !self.ring[*i].has(flag::SACKED))
    }

    /// Cuts the first unsent segment so that its front part is at most `len` bytes long, of whole records if it can be;
    /// gives that.
    pub fn split_unsent(&mut self, len: u32) -> &mut Segment {
        let index = self.sent;
        let len = match self.ring[index] {
            whole if len < whole.len => self.piece_len(&whole, whole.start, len),
            _ => len,
        };
        let segment = &mut self.ring[index];
        debug_assert!(0 < len && len < segment.seq_len());
        segment.forget_unit(len);
        let mut rest = *segment;
        segment.len = len;
        segment.flags &= !(flag::PUSH | flag::FIN);
        rest.start += u64::from(len);
        rest.len -= len;
        self.ring.insert(index + 1, rest);
        &mut self.ring[index]
    }

    /// Cuts every segment to at most `max_payload` bytes. What was sent in longer ones cannot have
    /// arrived and counts as lost, without a signal of congestion (RFC 4821, section 7.5).
    pub fn recut(&mut self, max_payload: u32) {
        if self.ring.iter().all(|s| s.len <= max_payload) {
            return;
        }
        let old = core::mem::take(&mut self.ring);
        let old_sent = self.sent;
        self.ring.reserve(self.capacity.max(old.len()));
        self.sent = 0;
        (self.in_flight, self.sacked, self.lost, self.retransmitted, self.first_lost) =
            (0, 0, 0, 0, 0);
        let mut pieces = Vec::with_capacity(old.len());
        for (index, segment) in old.iter().enumerate() {
            let too_long = segment.len > max_payload;
            let mut piece = *segment;
            piece.forget_unit_above(max_payload);
            let mut left = segment.len;
            let before = self.ring.len();
            loop {
                let fits = left <= max_payload && !too_long;
                piece.len =
                    if fits { left } else { self.piece_len(segment, piece.start, max_payload) };
                left -= piece.len;
                piece.flags = segment.flags & if left > 0 { !(flag::PUSH | flag::FIN) } else { !0 };
                if index < old_sent {
                    if too_long && !piece.has(flag::SACKED) {
                        piece.flags |= flag::LOST;
                    }
                    self.count(&piece);
                }
                self.ring.push_back(piece);
                piece.start += u64::from(piece.len);
                if left == 0 {
                    break;
                }
            }
            pieces.push(self.ring.len() - before);
        }
        if let Some(packets) = &mut self.packets {
            packets.recut(pieces.into_iter());
        }
    }

    fn count(&mut self, piece: &Segment) {
        self.sent += 1;
        self.sacked += u32::from(piece.has(flag::SACKED));
        self.lost += u32::from(piece.has(flag::LOST));
        self.retransmitted += u32::from(piece.has(flag::RETRANSMITTED));
        if piece.counts_in_flight() {
            self.in_flight += u64::from(piece.seq_len());
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = SendQueue { capacity: self.capacity, ..SendQueue::default() };
    }

    /// First position and end of what is queued.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        Some((self.ring.front()?.start, self.ring.back()?.end()))
    }

    /// The sums, counted anew, are what is kept.
    pub fn is_consistent(&self) -> bool {
        let sent = || self.ring.iter().take(self.sent);
        let count = |f: u8| sent().filter(|s| s.has(f)).count() as u32;
        let in_flight: u64 =
            sent().filter(|s| s.counts_in_flight()).map(|s| u64::from(s.seq_len())).sum();
        in_flight == self.in_flight
            && count(flag::SACKED) == self.sacked
            && count(flag::LOST) == self.lost
            && count(flag::RETRANSMITTED) == self.retransmitted
            && sent().take(self.first_lost).all(|s| !s.has(flag::LOST))
            && self.ring.iter().zip(self.ring.iter().skip(1)).all(|(a, b)| a.end() == b.start)
            && sent().all(|s| !(s.has(flag::SACKED) && s.has(flag::LOST)))
    }
}

#[cfg(test)]
mod tests;
