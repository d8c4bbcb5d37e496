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
//! each record, so header and payload leave as one piece, and so do neighbours. A record never
//! wraps; what is left at the end is skipped. Bytes that were committed are not written again: a
//! retransmission is the same bytes.
//!
//! Memory is taken as it is needed, doubling up to a bound, and given back at rest: most connections of a
//! server wait.

use std::collections::VecDeque;
use std::ops::Range;

use fusewire_base::Sum;
use fusewire_wire::tcp::TIMESTAMP_HEADER_LEN;

/// Room before each record: the header of an established connection with timestamps.
pub const HEADROOM: usize = TIMESTAMP_HEADER_LEN;

/// Memory that is taken at first.
const FIRST_BYTES: usize = 8 << 10;

/// One committed record.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Stream offset of the first byte.
    offset: u64,
    len: u32,
    /// Where the record's first byte lies; `HEADROOM` bytes before it are the header's.
    pos: u32,
    /// Sum over the whole record.
    sum: Sum,
}

/// Where a payload lies, and its sum if the pass that sealed it made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Payload bytes in [`SendRing::memory`].
    pub payload: Range<usize>,
    /// The sum when the payload is a whole record; otherwise it has to be made.
    pub sum: Option<Sum>,
    /// The `HEADROOM` bytes before the payload may be written: it begins a record.
    pub headroom: bool,
}

/// See the module's text. Invariant: entries are contiguous in stream offset and in ring order, and
/// `front.pos - HEADROOM` is where used memory begins.
#[derive(Debug)]
pub struct SendRing {
    memory: Vec<u8>,
    /// Most bytes that `memory` may grow to.
    bytes_max: usize,
    entries: VecDeque<Entry>,
    /// Most entries.
    records_max: usize,
    /// Bytes of the records in the ring with their headrooms.
    used: usize,
    head: usize,
    /// Entry that the last look-up found: transmissions go forward.
    hint: usize,
}

impl SendRing {
    /// A ring of at most `bytes` for at most `records` records. No memory is taken yet.
    pub fn new(bytes: usize, records: usize) -> Self {
        SendRing {
            memory: Vec::new(),
            bytes_max: bytes,
            entries: VecDeque::new(),
            records_max: records,
            used: 0,
            head: 0,
            hint: 0,
        }
    }

    /// Where a record of `len` bytes would go.
    fn slot(&self, len: usize) -> Option<usize> {
        let need = len.checked_add(HEADROOM)?;
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

    /// True if a record of `len` bytes has room now.
    pub fn has_room(&self, len: usize) -> bool {
        let grown = || self.growth().is_some_and(|free| len <= free);
        self.entries.len() < self.records_max && (self.slot(len).is_some() || grown())
    }

    /// The longest record that would have room if the memory grew, where it still may.
    fn growth(&self) -> Option<usize> {
        let may_grow = self.memory.len() < self.bytes_max;
        may_grow.then(|| (self.bytes_max - self.used).saturating_sub(HEADROOM))
    }

    /// More memory, enough for a record of `len` bytes; the records are moved together.
    fn grow(&mut self, len: usize) {
        let need = self.used + HEADROOM + len;
        let mut bytes = (self.memory.len() * 2).max(FIRST_BYTES);
        while bytes < need {
            bytes *= 2;
        }
        let old = std::mem::replace(&mut self.memory, vec![0; bytes.min(self.bytes_max)]);
        self.head = 0;
        for entry in &mut self.entries {
            let (from, len) = (entry.pos as usize, entry.len as usize);
            let pos = self.head + HEADROOM;
            self.memory[pos..pos + len].copy_from_slice(&old[from..from + len]);
            entry.pos = pos as u32;
            self.head = pos + len;
        }
    }

    /// Gives the memory back if nothing is in it.
    pub fn rest(&mut self) {
        if self.entries.is_empty() {
            self.memory = Vec::new();
            self.entries = VecDeque::new();
        }
    }

    /// The longest record that has room now.
    pub fn room(&self) -> usize {
        if self.entries.len() >= self.records_max {
            return 0;
        }
        self.growth().unwrap_or(0).max(self.free())
    }

    /// The longest record that has room in the memory that there is.
    fn free(&self) -> usize {
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
        free.saturating_sub(HEADROOM)
    }

    /// The memory of the next record, `len` bytes at stream offset `offset`: `write` fills it and
    /// returns its sum. Nothing is committed when `write` fails.
    ///
    /// # Errors
    /// What `write` returns.
    ///
    /// # Panics
    /// Without room: ask [`Self::has_room`] first.
    pub fn push<E>(
        &mut self,
        offset: u64,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> Result<Sum, E>,
    ) -> Result<(), E> {
        if self.slot(len).is_none() {
            self.grow(len);
        }
        let start = self.slot(len).expect("the caller asked for room");
        debug_assert!(self.entries.back().is_none_or(|e| e.offset + u64::from(e.len) == offset));
        let pos = start + HEADROOM;
        let sum = write(&mut self.memory[pos..pos + len])?;
        self.entries.push_back(Entry { offset, len: len as u32, pos: pos as u32, sum });
        self.used += HEADROOM + len;
        self.head = pos + len;
        Ok(())
    }

    /// Where the payload `range` of the stream lies.
    ///
    /// # Panics
    /// When the range is not in one committed record: transport gives out only such.
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
            sum: whole.then_some(entry.sum),
            headroom: skip == 0,
        }
    }

    /// Frees what lies wholly below `upto`.
    pub fn acknowledge(&mut self, upto: u64) {
        while let Some(front) = self.entries.front() {
            if front.offset + u64::from(front.len) > upto {
                break;
            }
            self.used -= HEADROOM + front.len as usize;
            self.entries.pop_front();
            self.hint = self.hint.saturating_sub(1);
        }
        if self.entries.is_empty() {
            self.head = 0;
        }
    }

    /// All of it; [`Located`] says where.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// All of it, for the header before a payload.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(ring: &mut SendRing, offset: u64, len: usize) {
        let result: Result<(), ()> = ring.push(offset, len, |m| {
            for (i, b) in m.iter_mut().enumerate() {
                *b = (offset + i as u64) as u8;
            }
            Ok(Sum::of(m))
        });
        result.unwrap();
    }

    #[test]
    fn records_survive_until_acknowledged_across_many_turns() {
        let mut ring = SendRing::new(1000, 16);
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
            let mut offset = acked;
            for len in &lens {
                let located = ring.locate(&(offset..offset + len));
                let bytes = &ring.memory()[located.payload];
                assert!(bytes.iter().enumerate().all(|(i, b)| *b == (offset + i as u64) as u8));
                assert_eq!(located.sum, Some(Sum::of(bytes)));
                offset += len;
            }
        }
        assert!(next > 100_000);
    }

    #[test]
    fn memory_is_taken_as_needed_and_given_back_at_rest() {
        let mut ring = SendRing::new(1 << 20, 4096);
        assert_eq!(ring.memory.len(), 0);
        assert!(ring.has_room((1 << 20) - HEADROOM) && !ring.has_room((1 << 20) - HEADROOM + 1));
        fill(&mut ring, 0, 1000);
        assert_eq!(ring.memory.len(), FIRST_BYTES);
        let mut next = 1000;
        while ring.has_room(3000) {
            fill(&mut ring, next, 3000);
            next += 3000;
        }
        assert_eq!(ring.memory.len(), 1 << 20);
        assert!(next as usize > (1 << 20) * 9 / 10);
        let located = ring.locate(&(1000..4000));
        assert_eq!(located.sum, Some(Sum::of(&ring.memory()[located.payload.clone()])));
        assert!(ring.memory()[located.payload].iter().zip(1000u64..).all(|(b, i)| *b == i as u8));
        ring.rest();
        assert_eq!(ring.memory.len(), 1 << 20, "not at rest");
        ring.acknowledge(next);
        ring.rest();
        assert_eq!((ring.memory.len(), ring.used), (0, 0));
        fill(&mut ring, next, 10);
    }

    #[test]
    fn headers_do_not_touch_neighbours() {
        let mut ring = SendRing::new(400, 16);
        fill(&mut ring, 0, 100);
        fill(&mut ring, 100, 50);
        for range in [0..100, 100..150] {
            let at = ring.locate(&range).payload.start;
            ring.memory_mut()[at - HEADROOM..at].fill(0xee);
        }
        for range in [0..100u64, 100..150] {
            let located = ring.locate(&range);
            assert_eq!(located.sum, Some(Sum::of(&ring.memory()[located.payload])));
        }
    }

    #[test]
    fn a_piece_of_a_record_has_no_ready_sum() {
        let mut ring = SendRing::new(4000, 16);
        fill(&mut ring, 0, 1000);
        let piece = ring.locate(&(400..800));
        assert_eq!((piece.sum, piece.headroom), (None, false));
        assert_eq!(ring.memory()[piece.payload.start], 400u64 as u8);
        assert!(ring.locate(&(0..400)).headroom);
    }

    #[test]
    fn a_failed_write_commits_nothing() {
        let mut ring = SendRing::new(400, 16);
        assert_eq!(ring.push(0, 10, |_| Err("no")), Err("no"));
        assert!(ring.entries.is_empty());
        fill(&mut ring, 0, 10);
        assert_eq!(ring.locate(&(0..10)).payload.start, HEADROOM);
    }

    #[test]
    fn full_means_no_room() {
        let mut ring = SendRing::new(400, 2);
        assert!(!ring.has_room(400 - HEADROOM + 1));
        assert!(ring.has_room(400 - HEADROOM));
        fill(&mut ring, 0, 1);
        fill(&mut ring, 1, 1);
        assert!(!ring.has_room(1), "both entries are taken");
        ring.acknowledge(1);
        assert!(ring.has_room(1));
    }
}
