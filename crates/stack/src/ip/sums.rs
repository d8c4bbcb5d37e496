//! Sums of what lies in a send ring, made while it was copied there: one for each segment, as the machine
//! will cut them. What is cut otherwise later is summed again.

use std::collections::VecDeque;
use std::ops::Range;

use fusewire_base::Sum;
use fusewire_kernels::message::Segments;

/// See the module's text. Entries follow one another in stream offset.
#[derive(Debug, Default)]
pub struct Sums {
    entries: VecDeque<Entry>,
    /// The entry that was last asked for: transmissions go forward.
    hint: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    len: u32,
    sum: Sum,
}

impl Entry {
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }
}

/// How the machine will cut a write: the last segment is filled first.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// Bytes that the last segment still takes.
    pub join: usize,
    /// Bytes of each one behind it.
    pub each: usize,
}

impl Cuts {
    /// From `at` in the write on: bytes up to where the segment ends, and whether it begins there.
    pub fn at(self, at: usize) -> (usize, bool) {
        match at.checked_sub(self.join) {
            None => (self.join - at, false),
            Some(past) => (self.each - past % self.each, past.is_multiple_of(self.each)),
        }
    }
}

/// A message that is being written.
pub struct Written<'a> {
    sums: &'a mut Sums,
    start: u64,
    front: usize,
    cuts: Cuts,
}

impl Segments for Written<'_> {
    fn end(&self, at: usize) -> usize {
        at + self.cuts.at(self.front + at).0
    }

    fn add(&mut self, at: usize, len: usize, sum: Sum) {
        let at = self.front + at;
        self.sums.push(self.start + at as u64, len, sum, self.cuts.at(at).1);
    }
}

/// Entries at most: more than a connection has segments.
const ENTRIES_MAX: usize = 1 << 14;

impl Sums {
    /// `len` bytes are written at `start` in the stream: `sum` of each range of them as they will be cut.
    pub fn add(
        &mut self,
        start: u64,
        cuts: Cuts,
        len: usize,
        mut sum: impl FnMut(Range<usize>) -> Sum,
    ) {
        let mut at = 0;
        while at < len {
            let (left, begins) = cuts.at(at);
            let end = len.min(at + left);
            self.push(start + at as u64, end - at, sum(at..end), begins);
            at = end;
        }
    }

    /// `len` bytes at `start` have this sum; they begin a segment, or lengthen the last.
    pub fn push(&mut self, start: u64, len: usize, sum: Sum, begins: bool) {
        match self.entries.back_mut() {
            Some(last) if !begins && last.end() == start => {
                last.sum = last.sum.then(last.len as usize, sum);
                last.len += len as u32;
            }
            _ => {
                if self.entries.len() >= ENTRIES_MAX {
                    self.entries.pop_front();
                    self.hint = self.hint.saturating_sub(1);
                }
                self.entries.push_back(Entry { start, len: len as u32, sum });
            }
        }
    }

    /// For a message of `front` bytes and more behind them, which are written at `start` in the stream: the sums of what
    /// lies behind.
    pub fn segments(&mut self, start: u64, front: usize, cuts: Cuts) -> Written<'_> {
        Written { sums: self, start, front, cuts }
    }

    /// What lies from `start` on was not written.
    pub fn forget(&mut self, start: u64) {
        while self.entries.back().is_some_and(|last| last.end() > start) {
            self.entries.pop_back();
        }
    }

    /// What lies below `una` is not asked for any more.
    pub fn free(&mut self, una: u64) {
        while self.entries.front().is_some_and(|entry| entry.end() <= una) {
            self.entries.pop_front();
            self.hint = self.hint.saturating_sub(1);
        }
    }

    /// The sum of a range that is one entry.
    pub fn of(&mut self, range: &Range<u64>) -> Option<Sum> {
        let is = |entry: &Entry| (entry.start, entry.end()) == (range.start, range.end);
        let near =
            [self.hint, self.hint + 1].into_iter().find(|i| self.entries.get(*i).is_some_and(is));
        let index =
            near.or_else(|| self.entries.binary_search_by_key(&range.start, |e| e.start).ok())?;
        self.hint = index;
        self.entries.get(index).filter(|entry| is(entry)).map(|entry| entry.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_find_their_sums_and_others_none() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut sums = Sums::default();
        sums.push(0, 7, Sum::of(&bytes[..7]), true);
        sums.push(7, 3, Sum::of(&bytes[7..10]), false);
        sums.push(10, 20, Sum::of(&bytes[10..30]), true);
        sums.push(30, 20, Sum::of(&bytes[30..50]), true);
        for (a, b) in [(0, 10), (10, 30), (30, 50), (10, 30)] {
            assert_eq!(sums.of(&(a as u64..b as u64)), Some(Sum::of(&bytes[a..b])));
        }
        assert_eq!((sums.of(&(0..7)), sums.of(&(5..10)), sums.of(&(10..50))), (None, None, None));
        sums.free(12);
        assert_eq!(sums.of(&(0..10)), None);
        assert_eq!(sums.of(&(30..50)), Some(Sum::of(&bytes[30..50])));
        sums.free(50);
        assert!(sums.entries.is_empty());
    }

    /// A message that was given up leaves no sum behind that another would be sent with.
    #[test]
    fn what_was_not_written_has_no_sum() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut sums = Sums::default();
        sums.push(0, 10, Sum::of(&bytes[..10]), true);
        sums.push(10, 20, Sum::of(&bytes[10..30]), true);
        sums.push(30, 20, Sum::of(&bytes[30..50]), true);
        assert_eq!(sums.of(&(30..50)), Some(Sum::of(&bytes[30..50])));
        sums.forget(10);
        assert_eq!(sums.of(&(0..10)), Some(Sum::of(&bytes[..10])));
        assert_eq!((sums.of(&(10..30)), sums.of(&(30..50))), (None, None));
        // What is written there instead.
        sums.push(10, 20, Sum::of(&bytes[60..80]), true);
        sums.push(30, 20, Sum::of(&bytes[80..]), true);
        assert_eq!(sums.of(&(30..50)), Some(Sum::of(&bytes[80..])));
        assert_eq!(sums.of(&(10..30)), Some(Sum::of(&bytes[60..80])));
        // From within an entry on: the entry is not whole any more.
        sums.forget(45);
        assert_eq!((sums.of(&(30..45)), sums.of(&(30..50))), (None, None));
        assert_eq!(sums.of(&(10..30)), Some(Sum::of(&bytes[60..80])));
    }
}
