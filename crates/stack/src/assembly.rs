//! Ciphertext that came in pieces: the slower, correct path.
//!
//! The handshake, records that are larger than a segment, and streams that something in between cut
//! elsewhere go through here; a record that came as one segment never does. Bytes lie in a ring by
//! stream offset, within the receive window, and are taken out in order of offset.

use std::ops::Range;

/// Bytes of the stream from `base` up, with holes. By default it has room for nothing.
///
/// Invariants: `base ≤ r.start < r.end ≤ base + capacity` for each range; ranges are sorted and do
/// not touch. The byte at offset `o` lies at `o % memory.len()`, and no range reaches `base + memory.len()`.
#[derive(Debug, Default)]
pub struct Assembly {
    memory: Vec<u8>,
    /// Most bytes that `memory` may grow to: the receive window.
    capacity: usize,
    base: u64,
    ranges: Vec<Range<u64>>,
    max_ranges: usize,
}

/// Memory that is taken at first.
const FIRST_BYTES: usize = 8 << 10;

impl Assembly {
    /// Nothing, from stream offset 0 up. Memory is taken with the first byte.
    pub fn new(capacity: usize, max_ranges: usize) -> Self {
        Assembly { memory: Vec::new(), capacity, base: 0, ranges: Vec::new(), max_ranges }
    }

    /// From now on up to `capacity` bytes are held.
    pub fn widen(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    /// The memory of bytes that may be [added](Self::add), in one piece or two. `None` when they lie outside of
    /// `base..base + capacity` or would make one range too many.
    pub fn room(&mut self, range: &Range<u64>) -> Option<(&mut [u8], &mut [u8])> {
        let is_inside = self.base <= range.start && range.end <= self.base + self.capacity as u64;
        if range.is_empty() || !is_inside {
            return None;
        }
        if self.touching(range).is_empty() && self.ranges.len() >= self.max_ranges {
            return None;
        }
        self.grow((range.end - self.base) as usize);
        Some(pieces_mut(&mut self.memory, range))
    }

    /// The bytes of this range were written to their [room](Self::room).
    pub fn add(&mut self, range: Range<u64>) {
        let touching = self.touching(&range);
        let joined = self.ranges[touching.clone()]
            .iter()
            .fold(range, |j, r| j.start.min(r.start)..j.end.max(r.end));
        self.ranges.splice(touching, [joined]);
    }

    /// The ranges that overlap or touch this one.
    fn touching(&self, range: &Range<u64>) -> Range<usize> {
        let first = self.ranges.partition_point(|r| r.end < range.start);
        first..self.ranges.partition_point(|r| r.start <= range.end)
    }

    /// Makes room for `need` bytes from `base` up, at most `capacity`.
    fn grow(&mut self, need: usize) {
        if need <= self.memory.len() {
            return;
        }
        let bytes = need.next_power_of_two().clamp(FIRST_BYTES, self.capacity.max(FIRST_BYTES));
        let old = std::mem::replace(&mut self.memory, vec![0; bytes.min(self.capacity)]);
        for range in &self.ranges {
            let (first, second) = pieces(&old, range);
            put(&mut self.memory, range.start, first);
            put(&mut self.memory, range.start + first.len() as u64, second);
        }
    }

    /// How many bytes from `offset` up are there without a hole.
    pub fn available(&self, offset: u64) -> usize {
        let holds = self.ranges.iter().find(|r| r.contains(&offset));
        holds.map_or(0, |r| (r.end - offset) as usize)
    }

    /// Bytes that are available, if they lie in one piece.
    pub fn piece(&self, range: &Range<u64>) -> Option<&[u8]> {
        match pieces(&self.memory, range) {
            (all, []) => Some(all),
            _ => None,
        }
    }

    /// Copies bytes that are available.
    ///
    /// # Panics
    /// When they are not.
    pub fn copy(&self, offset: u64, into: &mut [u8]) {
        assert!(into.len() <= self.available(offset), "bytes that have not come");
        let (first, second) = pieces(&self.memory, &(offset..offset + into.len() as u64));
        let (front, back) = into.split_at_mut(first.len());
        front.copy_from_slice(first);
        back.copy_from_slice(second);
    }

    /// Forgets everything below `offset`.
    pub fn advance(&mut self, offset: u64) {
        self.base = self.base.max(offset);
        self.ranges.retain_mut(|r| {
            r.start = r.start.max(offset);
            r.start < r.end
        });
    }

    /// True when nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Gives the memory back; what was stored is lost.
    pub fn release(&mut self) {
        debug_assert!(self.is_empty());
        self.memory = Vec::new();
    }
}

/// Where the bytes `range` of the stream lie in a ring: in one piece, or in two.
fn pieces<'a>(ring: &'a [u8], range: &Range<u64>) -> (&'a [u8], &'a [u8]) {
    let len = (range.end - range.start) as usize;
    let at = (range.start.checked_rem(ring.len() as u64).unwrap_or(0)) as usize;
    let until_wrap = len.min(ring.len() - at);
    (&ring[at..at + until_wrap], &ring[..len - until_wrap])
}

/// As [`pieces`], to be written.
fn pieces_mut<'a>(ring: &'a mut [u8], range: &Range<u64>) -> (&'a mut [u8], &'a mut [u8]) {
    let len = (range.end - range.start) as usize;
    let at = (range.start.checked_rem(ring.len() as u64).unwrap_or(0)) as usize;
    let (front, back) = ring.split_at_mut(at);
    let until_wrap = len.min(back.len());
    (&mut back[..until_wrap], &mut front[..len - until_wrap])
}

/// Writes `bytes` of the stream from `offset` up into a ring.
fn put(ring: &mut [u8], offset: u64, bytes: &[u8]) {
    let (first, second) = pieces_mut(ring, &(offset..offset + bytes.len() as u64));
    let (front, back) = bytes.split_at(first.len());
    first.copy_from_slice(front);
    second.copy_from_slice(back);
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Assembly {
        /// False, and nothing stored, when there is no room.
        fn insert(&mut self, offset: u64, bytes: &[u8]) -> bool {
            let range = offset..offset + bytes.len() as u64;
            let Some((first, second)) = self.room(&range) else { return false };
            let (front, back) = bytes.split_at(first.len());
            first.copy_from_slice(front);
            second.copy_from_slice(back);
            self.add(range);
            true
        }
    }

    #[test]
    fn pieces_in_any_order_come_out_in_order() {
        for capacity in [700, 20_000] {
            in_any_order(capacity);
        }
    }

    fn in_any_order(capacity: usize) {
        let stream: Vec<u8> = (0..50_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut assembly = Assembly::new(capacity, 1000);
        let mut taken = 0usize;
        let mut state = 1u64;
        while taken < stream.len() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = taken + (state >> 33) as usize % (capacity - 100);
            let len = 1 + (state >> 20) as usize % 100;
            if start + len <= stream.len() {
                assembly.insert(start as u64, &stream[start..start + len]);
            }
            let ready = assembly.available(taken as u64);
            if ready > 0 {
                let mut out = vec![0; ready];
                assembly.copy(taken as u64, &mut out);
                assert_eq!(out, stream[taken..taken + ready]);
                taken += ready;
                assembly.advance(taken as u64);
            } else if state.is_multiple_of(3) {
                let len = 50.min(stream.len() - taken);
                assert!(assembly.insert(taken as u64, &stream[taken..taken + len]));
            }
        }
    }

    #[test]
    fn refuses_what_lies_outside() {
        let mut assembly = Assembly::new(100, 2);
        assert!(!assembly.insert(95, &[0; 10]));
        assert!(assembly.insert(90, &[0; 10]));
        assembly.advance(50);
        assert!(!assembly.insert(40, &[0; 20]));
        assert!(assembly.insert(60, &[0; 5]));
        assert!(!assembly.insert(70, &[0; 5]), "a third range");
        assert!(assembly.insert(65, &[0; 5]), "joins the second");
    }

    #[test]
    fn empty_holds_no_memory() {
        let mut assembly = Assembly::new(1 << 20, 2);
        assert_eq!(assembly.memory.len(), 0);
        assert!(!assembly.insert(0, &[]));
        assembly.insert(0, &[1]);
        assembly.advance(1);
        assembly.release();
        assert_eq!(assembly.memory.len(), 0);
        assert_eq!(assembly.available(0), 0);
    }
}
