//! Retransmission memory of one connection: records as they were sealed, until acknowledged.
//!
//! ```text
//!        tail                                   head
//!         │                                      │
//!   ──────┬────────┬──────────┬────────┬─────────┬───────
//!    free │ header │ record 0 │ header │ record 1│ free
//!   ──────┴────────┴──────────┴────────┴─────────┴───────
//! ```
//! The one pass writes a record here, and the frame is sent from here: room for a header lies before
//! each record that begins a segment, so header and payload leave as one piece, and so do neighbours; one
//! that joins a segment follows the record before ([`SendRing::joins`]). Where trailers may have to follow, room for one
//! lies behind what was pushed together. A record never
//! wraps; what is left at the end is skipped. Bytes that were committed are not written again: a
//! retransmission is the same bytes.
//!
//! Where the device takes this memory itself ([`Device::takes_memory`](fusewire_device::Device::takes_memory))
//! the next reader of the bytes is another processor. Unless it shares the last cache
//! ([`Region::is_far`]), records and headers are written to a staging
//! buffer, which stays in the cache, and a whole super-packet goes from there past the caches.
//! In bulk a super-packet begins a page: the kernel takes sixteen pages at once, and it touches no more.

use std::collections::VecDeque;
use std::ops::Range;

use fusewire_device::Region;
use fusewire_kernels::{Found, stream_copy, stream_fence};

use crate::machine::HEADROOM;

/// Bytes that are staged at most, but for one longer record: a super-packet.
const STAGING_BYTES: usize = 64 << 10;
/// What the kernel takes at a time.
const PAGE_BYTES: usize = 4 << 10;
/// From so many bytes on a super-packet is worth the rest of a page.
const BULK_BYTES: usize = 32 << 10;

/// One committed record, with those that joined it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Stream offset of the first byte.
    offset: u64,
    len: u32,
    /// Where the record's first byte lies; `HEADROOM` bytes before it are the header's.
    pos: u32,
    /// What is known of all of it: nothing, if it has to be found.
    found: Found,
}

/// Where a record goes; by default to the ring itself, as a segment of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes are staged, until [`SendRing::leave`].
    pub staged: bool,
    /// Behind the record before, without room for a header; [`SendRing::joins`] has said that it may.
    pub joins: bool,
}

/// Where a payload lies, and what the pass that sealed it has found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Payload bytes in [`SendRing::memory`].
    pub payload: Range<usize>,
    /// It is a record and all that joined it: what is known of another payload has to be found anew, and behind this one
    /// there is room for a trailer.
    pub whole: bool,
    /// What was found of it, if anything.
    pub found: Found,
    /// The `HEADROOM` bytes before the payload may be written: it begins with a record that joined none.
    pub headroom: bool,
}

/// See the module's text. Invariant: entries are contiguous in stream offset and in ring order, and
/// `front.pos - HEADROOM` is where used memory begins.
#[derive(Debug)]
pub struct SendRing {
    memory: Region,
    entries: VecDeque<Entry>,
    /// Most entries.
    records_max: usize,
    /// Bytes behind each entry, none of the stream's: room for a trailer.
    behind: usize,
    head: usize,
    /// Entry that the last look-up found: transmissions go forward.
    hint: usize,
    /// The last bytes before `head`, as long as they are not in `memory`.
    staged: Range<usize>,
    staging: Vec<u8>,
    /// Where what leaves next begins, as long as none of it is staged.
    first: Option<usize>,
    /// Bytes that last left together.
    left: usize,
    /// The device takes this memory itself, and its pages were made huge.
    is_taken: bool,
    is_huge: bool,
}

impl SendRing {
    /// A ring in `memory` for at most `records` records, with room for so many bytes `behind` each.
    pub fn new(memory: Region, records: usize, behind: usize) -> Self {
        SendRing {
            memory,
            // It grows to what the connection needs: most connections of a server wait.
            entries: VecDeque::new(),
            records_max: records,
            behind,
            head: 0,
            hint: 0,
            staged: 0..0,
            staging: Vec::new(),
            first: None,
            left: 0,
            is_taken: false,
            is_huge: false,
        }
    }

    /// Where a record of `len` bytes would go.
    fn slot(&self, len: usize) -> Option<usize> {
        let need = len.checked_add(HEADROOM + self.behind)?;
        if self.entries.len() >= self.records_max {
            return None;
        }
        let Some(front) = self.entries.front() else {
            return (need <= self.memory.len()).then_some(0);
        };
        let tail = front.pos as usize - HEADROOM;
        if self.head > tail {
            if self.head + need <= self.memory.len() {
                return Some(self.head);
            }
            return (need < tail).then_some(0);
        }
        (self.head + need < tail).then_some(self.head)
    }

    /// The first page from `start` on, which is free, if `need` bytes there are too.
    fn page(&self, start: usize, need: usize) -> Option<usize> {
        let page = start.next_multiple_of(PAGE_BYTES);
        let tail = self.entries.front().map_or(0, |front| front.pos as usize - HEADROOM);
        let fits = if start < tail { page + need < tail } else { page + need <= self.memory.len() };
        fits.then_some(page)
    }

    /// True if a record of `len` bytes has room now.
    pub fn has_room(&self, len: usize) -> bool {
        self.slot(len).is_some()
    }

    /// The longest record that has room when nothing else is here.
    pub fn longest(&self) -> usize {
        self.memory.len().saturating_sub(HEADROOM + self.behind)
    }

    /// The longest record that has room now.
    pub fn room(&self) -> usize {
        if self.entries.len() >= self.records_max {
            return 0;
        }
        let len = self.memory.len();
        let free = match self.entries.front() {
            None => len,
            Some(front) => {
                let tail = front.pos as usize - HEADROOM;
                if self.head > tail {
                    (len - self.head).max(tail.saturating_sub(1))
                } else {
                    (tail - self.head).saturating_sub(1)
                }
            }
        };
        free.saturating_sub(HEADROOM + self.behind)
    }

    /// Whether the next record is to be staged: the device takes this memory itself now (`is_taken`) and its next
    /// reader shares no cache with this processor, or the device can take it and the pass that seals writes more there than the ciphertext, once (`stores_once`). The kernel may still
    /// send pages that were acknowledged long ago, and no plaintext may be in them at any time.
    pub fn stages(&mut self, is_taken: bool, stores_once: bool) -> bool {
        self.is_taken |= is_taken;
        is_taken && self.memory.is_far() || self.memory.is_lent() && !stores_once
    }

    /// A record of `len` bytes has room right behind the last, on the same side of [`Place::staged`].
    pub fn joins(&self, len: usize, staged: bool) -> bool {
        let (Some(front), Some(last)) = (self.entries.front(), self.entries.back()) else {
            return false;
        };
        let (tail, end) = (front.pos as usize - HEADROOM, self.head + len);
        let is_staged = self.staged.contains(&(last.pos as usize));
        let has_room = if self.head > tail { end <= self.memory.len() } else { end < tail };
        let from = if staged { self.staged.start } else { last.pos as usize };
        let fits = end - from <= STAGING_BYTES;
        has_room && is_staged == staged && fits
    }

    /// Whether `len` bytes have room that are pushed as records of at most `each`.
    pub fn has_room_for(&self, len: usize, each: usize) -> bool {
        let need = each.saturating_add(HEADROOM + self.behind);
        let records = len.div_ceil(each.max(1));
        if self.entries.len() + records > self.records_max {
            return false;
        }
        let (mut left, mut head) = (records, self.head);
        let tail = self.entries.front().map_or(0, |front| front.pos as usize - HEADROOM);
        if self.entries.is_empty() || head > tail {
            let first = if self.entries.is_empty() { 0 } else { head };
            left -= left.min((self.memory.len() - first) / need.max(1));
            // Its last bytes are what is left at the end.
            head = 0;
        }
        left == 0 || head + left * need < tail
    }

    /// The memory of the next record, `len` bytes at stream offset `offset`: `write` fills it and returns what a check
    /// function has found of it, if one has. Nothing is committed when `write` fails.
    ///
    /// # Errors
    /// What `write` returns.
    ///
    /// # Panics
    /// Without room: ask [`Self::has_room`] first.
    pub fn push<F: Into<Found>, E>(
        &mut self,
        offset: u64,
        len: usize,
        place: Place,
        write: impl FnOnce(&mut [u8]) -> Result<F, E>,
    ) -> Result<(), E> {
        debug_assert!(self.entries.back().is_none_or(|e| e.offset + u64::from(e.len) == offset));
        let pos = match place.joins {
            true => self.head - self.behind,
            false => self.begin(len, place.staged) + HEADROOM,
        };
        let end = pos + len + self.behind;
        let found: Found = if place.staged {
            let from = self.staged.start;
            if self.staging.len() < end - from {
                self.staging.resize((end - from).max(STAGING_BYTES), 0);
            }
            write(&mut self.staging[pos - from..][..len])?.into()
        } else {
            write(&mut self.memory[pos..][..len])?.into()
        };
        if place.staged {
            self.staged.end = end;
        }
        match self.entries.back_mut().filter(|_| place.joins) {
            Some(entry) => {
                let before = entry.len as usize;
                entry.found = entry.found.then(before, found);
                entry.len += len as u32;
            }
            None => {
                self.entries.push_back(Entry { offset, len: len as u32, pos: pos as u32, found });
            }
        }
        self.head = end;
        Ok(())
    }

    /// Where the header and record go that begin a segment, `len` bytes without the header.
    fn begin(&mut self, len: usize, stage: bool) -> usize {
        let mut start = self.slot(len).expect("the caller asked for room");
        let need = HEADROOM + len + self.behind;
        let goes_on = stage
            && start == self.staged.end
            && start + need - self.staged.start <= STAGING_BYTES.max(need);
        if !goes_on {
            self.unstage();
            let begins = stage || self.is_taken && self.first.is_none();
            if begins && need.max(self.left) >= BULK_BYTES {
                start = self.page(start, need).unwrap_or(start);
            }
            if stage {
                self.staged = start..start;
            } else {
                self.first.get_or_insert(start);
            }
        }
        if self.is_taken && !std::mem::replace(&mut self.is_huge, true) {
            // The first bulk on this connection.
            self.memory.make_huge();
        }
        start
    }

    /// What is here leaves: brings what is staged into the memory that frames are sent from.
    pub fn leave(&mut self) {
        self.unstage();
        if let Some(first) = self.first.take() {
            self.left = self.head.saturating_sub(first);
        }
    }

    fn unstage(&mut self) {
        if !self.staged.is_empty() {
            let len = self.staged.len();
            stream_copy(&self.staging[..len], &mut self.memory[self.staged.clone()]);
            stream_fence();
            self.left = len;
        }
        self.staged = 0..0;
    }

    /// Where the payload `range` of the stream lies.
    ///
    /// # Panics
    /// When the range is not in one committed record and what joined it: transport gives out only such.
    pub fn locate(&mut self, range: &Range<u64>) -> Located {
        let holds = |e: &Entry| e.offset <= range.start && range.end <= e.offset + u64::from(e.len);
        let near = [self.hint, self.hint + 1]
            .into_iter()
            .find(|i| self.entries.get(*i).is_some_and(holds));
        let index =
            near.unwrap_or_else(|| self.entries.partition_point(|e| e.offset <= range.start) - 1);
        self.hint = index;
        let entry = &self.entries[index];
        assert!(holds(entry), "transport asked for {range:?}, which is not one record's");
        let skip = (range.start - entry.offset) as usize;
        let len = (range.end - range.start) as usize;
        let start = entry.pos as usize + skip;
        let whole = len == entry.len as usize;
        Located {
            payload: start..start + len,
            whole,
            found: if whole { entry.found } else { Found::Nothing },
            headroom: skip == 0,
        }
    }

    /// Frees what lies wholly below `upto`.
    pub fn acknowledge(&mut self, upto: u64) {
        while let Some(front) = self.entries.front() {
            if front.offset + u64::from(front.len) > upto {
                break;
            }
            self.entries.pop_front();
            self.hint = self.hint.saturating_sub(1);
        }
        if self.entries.is_empty() {
            self.head = 0;
            self.staged = 0..0;
        }
    }

    /// Gives memory back to the system if nothing is in it.
    pub fn rest(&mut self) {
        if self.entries.is_empty() {
            self.memory.release();
            self.is_huge = false;
            self.entries = VecDeque::new();
            self.staging = Vec::new();
        }
    }

    /// Bytes of one payload; [`Located`] says which.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        if self.staged.contains(&range.start) {
            let from = self.staged.start;
            &self.staging[range.start - from..range.end - from]
        } else {
            &self.memory[range]
        }
    }

    /// The room for a trailer behind a payload that is [`whole`](Located::whole).
    pub fn behind_mut(&mut self, payload_end: usize) -> &mut [u8] {
        let behind = payload_end..payload_end + self.behind;
        if self.staged.contains(&payload_end) {
            let from = self.staged.start;
            &mut self.staging[behind.start - from..behind.end - from]
        } else {
            &mut self.memory[behind]
        }
    }

    /// The `HEADROOM` bytes before a payload.
    pub fn headroom_mut(&mut self, payload_start: usize) -> &mut [u8] {
        let start = payload_start - HEADROOM;
        if self.staged.contains(&start) {
            let at = start - self.staged.start;
            &mut self.staging[at..at + HEADROOM]
        } else {
            &mut self.memory[start..payload_start]
        }
    }

    /// The memory that frames are sent from. What is staged is not there yet.
    pub fn memory(&self) -> &Region {
        debug_assert!(self.staged.is_empty());
        &self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_base::Sum;

    const STAGED: Place = Place { staged: true, joins: false };

    fn fill_with(memory: &mut [u8], offset: u64) -> Sum {
        for (i, b) in memory.iter_mut().enumerate() {
            *b = (offset + i as u64) as u8;
        }
        Sum::of(memory)
    }

    fn fill(ring: &mut SendRing, offset: u64, len: usize) {
        let staged = offset % 5 < 3;
        let place = Place { staged, joins: false };
        ring.push(offset, len, place, |m| Ok::<_, ()>(fill_with(m, offset))).unwrap();
    }

    #[test]
    fn records_survive_until_acknowledged_across_many_turns() {
        let mut ring = SendRing::new(Region::private(1000), 16, 0);
        let (mut next, mut acked) = (0u64, 0u64);
        let mut lens = VecDeque::new();
        for turn in 0..10_000u64 {
            let len = 1 + (turn * 37 % 200) as usize;
            assert_eq!(ring.has_room(len), len <= ring.room(), "{len} of {}", ring.room());
            if ring.has_room(len) {
                fill(&mut ring, next, len);
                lens.push_back(len as u64);
                next += len as u64;
            } else {
                acked += lens.pop_front().unwrap();
                ring.acknowledge(acked);
            }
            if turn % 7 == 0 {
                ring.unstage();
            }
            let mut offset = acked;
            for len in &lens {
                let located = ring.locate(&(offset..offset + len));
                let bytes = ring.bytes(located.payload);
                assert!(bytes.iter().enumerate().all(|(i, b)| *b == (offset + i as u64) as u8));
                assert_eq!(located.found, Sum::of(bytes));
                offset += len;
            }
        }
        assert!(next > 100_000);
    }

    /// Records of odd lengths, with and without neighbours in their segment, staged and not, over many turns of the ring.
    #[test]
    fn records_that_join_a_segment_are_one_piece_with_it() {
        let mut ring = SendRing::new(Region::private(2000), 16, 0);
        let (mut next, mut acked, mut joined) = (0u64, 0u64, 0);
        let mut segments: VecDeque<Range<u64>> = VecDeque::new();
        for turn in 0..10_000u64 {
            let len = 1 + (turn * 37 % 90) as usize;
            if ring.has_room(len) {
                let staged = turn % 50 < 30;
                let wants = turn % 4 != 0 && segments.back().is_some_and(|s| s.end - s.start < 300);
                let joins = wants && ring.joins(len, staged);
                let place = Place { staged, joins };
                ring.push(next, len, place, |m| Ok::<_, ()>(fill_with(m, next))).unwrap();
                joined += usize::from(joins);
                let end = next + len as u64;
                match segments.back_mut().filter(|_| joins) {
                    Some(segment) => segment.end = end,
                    None => segments.push_back(next..end),
                }
                next = end;
            } else {
                acked = segments.pop_front().unwrap().end;
                ring.acknowledge(acked);
            }
            if turn % 7 == 0 {
                ring.unstage();
            }
            for segment in &segments {
                let located = ring.locate(segment);
                assert!(located.headroom);
                let bytes = ring.bytes(located.payload);
                assert!(bytes.iter().zip(segment.clone()).all(|(b, at)| *b == at as u8));
                assert_eq!(located.found, Sum::of(bytes), "{segment:?}");
                let inner = segment.start + 1..segment.end;
                assert!(inner.is_empty() || ring.locate(&inner).found == Found::Nothing);
            }
        }
        assert!(acked > 100_000 && joined > 3000, "{acked} {joined}");
    }

    /// An entry is freed as a whole: one that grew as long as records join would take all of the ring.
    #[test]
    fn no_more_joins_than_a_super_packet_holds() {
        for staged in [false, true] {
            let mut ring = SendRing::new(Region::private(1 << 20), 16, 0);
            let (mut next, mut entry, mut most) = (0u64, 0u64, 0);
            for len in [9000, 3000, 50_000, 20_000].into_iter().cycle().take(40) {
                let joins = ring.joins(len, staged);
                entry = if joins { entry + len as u64 } else { len as u64 };
                assert!(entry <= STAGING_BYTES as u64, "{entry} bytes in one entry");
                most = most.max(entry);
                let place = Place { staged, joins };
                ring.push(next, len, place, |m| Ok::<_, ()>(fill_with(m, next))).unwrap();
                next += len as u64;
                if ring.entries.len() > 8 {
                    ring.acknowledge(next - 200_000);
                }
            }
            assert!(most > 60_000, "records did join: {most}");
        }
    }

    #[test]
    fn headers_do_not_touch_neighbours() {
        let mut ring = SendRing::new(Region::private(400), 16, 0);
        fill(&mut ring, 0, 100);
        fill(&mut ring, 100, 50);
        for range in [0..100, 100..150] {
            let at = ring.locate(&range).payload.start;
            ring.headroom_mut(at).fill(0xee);
        }
        for range in [0..100u64, 100..150] {
            let located = ring.locate(&range);
            assert_eq!(located.found, Sum::of(ring.bytes(located.payload)));
        }
    }

    #[test]
    fn a_piece_of_a_record_has_no_ready_sum() {
        let mut ring = SendRing::new(Region::private(4000), 16, 0);
        fill(&mut ring, 0, 1000);
        let piece = ring.locate(&(400..800));
        assert_eq!((piece.found, piece.headroom), (Found::Nothing, false));
        assert_eq!(ring.bytes(piece.payload)[0], 400u64 as u8);
        assert!(ring.locate(&(0..400)).headroom);
    }

    /// A pass that writes plaintext on its way to the ciphertext does not do it where the kernel may read.
    #[test]
    fn memory_that_the_kernel_may_send_holds_no_plaintext() {
        use fusewire_device::Device;
        use fusewire_device::udp::{Config, Udp};
        let config = Config { zero_copy: true, ..Config::default() };
        let device = Udp::bind(([127, 0, 0, 1], 0).into(), &config).unwrap();
        let copies = device.caps().notes.iter().any(|note| note.contains("copied on sending"));
        assert_eq!(device.region(1 << 16).is_lent(), !copies);
        for (is_lent, stores_once) in [(false, false), (false, true), (true, false), (true, true)] {
            let memory = if is_lent { device.region(1 << 16) } else { Region::private(1 << 16) };
            let is_lent = memory.is_lent();
            let mut ring = SendRing::new(memory, 16, 0);
            let staged = ring.stages(false, stores_once);
            let place = Place { staged, joins: false };
            let mut at = 0;
            let write = |dst: &mut [u8]| {
                at = dst.as_ptr() as usize;
                dst.fill(7);
                Ok::<_, ()>(Sum::of(dst))
            };
            ring.push(0, 1000, place, write).unwrap();
            let begin = ring.memory.as_ptr() as usize;
            let is_in_place = (begin..begin + ring.memory.len()).contains(&at);
            assert_eq!(is_in_place, stores_once || !is_lent);
            let located = ring.locate(&(0..1000));
            ring.unstage();
            assert!(ring.memory()[located.payload].iter().all(|b| *b == 7));
        }
    }

    #[test]
    fn a_failed_write_commits_nothing() {
        let mut ring = SendRing::new(Region::private(400), 16, 0);
        assert_eq!(ring.push(0, 10, STAGED, |_| Err::<Sum, _>("no")), Err("no"));
        assert!(ring.entries.is_empty());
        fill(&mut ring, 0, 10);
        assert_eq!(ring.locate(&(0..10)).payload.start, HEADROOM);
    }

    #[test]
    fn in_bulk_a_super_packet_begins_a_page_and_nothing_is_lost() {
        for staged in [true, false] {
            begins_pages(staged);
        }
    }

    fn begins_pages(staged: bool) {
        let mut ring = SendRing::new(Region::private(300 << 10), 64, 0);
        assert!(!ring.stages(true, true));
        let place = Place { staged, joins: false };
        let (mut next, mut acked, mut turns) = (0u64, 0u64, 0);
        let mut lens = VecDeque::new();
        while turns < 200 {
            let len = [60_000, 1000, 40_000][turns % 3];
            if ring.has_room(len) {
                let bulk = len + HEADROOM >= BULK_BYTES;
                let roomy = ring.room() >= len + HEADROOM + PAGE_BYTES;
                ring.push(next, len, place, |m| Ok::<_, ()>(fill_with(m, next))).unwrap();
                let at = ring.locate(&(next..next + len as u64)).payload.start - HEADROOM;
                assert!(!bulk || !roomy || at.is_multiple_of(PAGE_BYTES), "{len} at {at}");
                ring.leave();
                lens.push_back(len as u64);
                next += len as u64;
                turns += 1;
            } else {
                acked += lens.pop_front().unwrap();
                ring.acknowledge(acked);
            }
            let mut offset = acked;
            for len in &lens {
                let located = ring.locate(&(offset..offset + len));
                assert_eq!(located.found, Sum::of(ring.bytes(located.payload)));
                offset += len;
            }
        }
    }

    #[test]
    fn full_means_no_room() {
        let mut ring = SendRing::new(Region::private(400), 2, 0);
        assert!(!ring.has_room(400 - HEADROOM + 1));
        assert!(ring.has_room(400 - HEADROOM));
        fill(&mut ring, 0, 1);
        fill(&mut ring, 1, 1);
        assert!(!ring.has_room(1), "both entries are taken");
        ring.acknowledge(1);
        assert!(ring.has_room(1));
    }
}
