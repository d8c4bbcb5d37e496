//! The bytes of an outgoing stream, from the write to the acknowledgement: copied into a ring, or left where the
//! application has them, from where they are copied when it needs its memory for something else.
//!
//! ```text
//!   offset   una                                           end
//!    ring     │ copied │...............│ copied │...........│      end - una ≤ capacity
//!    shared            │ application's │        │ another's │      in order of offset
//! ```
//! The places of a shared range stay empty in the ring, which takes memory only as it is touched: so one bound in bytes
//! holds for both kinds.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::ring::Ring;

/// What is shorter is copied: that is quicker than to keep account of it, and a super-frame of 64 KiB never has more
/// pieces than an interface gathers.
const SHARED_BYTES_MIN: usize = 512;
/// Pieces of the application's that one connection refers to at once; while there are as many, it copies.
const SHARED_MAX: usize = 1024;

/// See the module's text.
#[derive(Debug)]
pub struct SendMemory {
    ring: Ring,
    shared: VecDeque<Shared>,
}

/// Memory of the application's that is a part of the stream.
#[derive(Debug)]
struct Shared {
    start: u64,
    bytes: Bytes,
}

impl Shared {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl SendMemory {
    /// Memory for at least `len` bytes at once.
    pub fn new(len: usize) -> SendMemory {
        SendMemory { ring: Ring::new(len), shared: VecDeque::new() }
    }

    /// Bytes that it holds at most, of both kinds.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Nothing is in it, and the byte at `offset` is the next.
    pub fn restart(&mut self, offset: u64) {
        self.shared.clear();
        self.ring.restart(offset);
    }

    /// What lies below `una` is acknowledged: the application's pieces that end there are let go. True if some of them was.
    pub fn free(&mut self, una: u64) -> bool {
        let is_some = self.shared.front().is_some_and(|piece| piece.start < una);
        while self.shared.front().is_some_and(|piece| piece.end() <= una) {
            self.shared.pop_front();
        }
        is_some
    }

    /// What is the application's and not acknowledged, from `una` on, is copied to its places: the application has its
    /// pieces back.
    pub fn keep(&mut self, una: u64) {
        for Shared { start, bytes } in std::mem::take(&mut self.shared) {
            let skip = una.saturating_sub(start).min(bytes.len() as u64);
            let bytes = &bytes[skip as usize..];
            let start = start + skip;
            let (a, b) = self.ring.slices_mut(start..start + bytes.len() as u64);
            let (x, y) = bytes.split_at(a.len());
            a.copy_from_slice(x);
            b.copy_from_slice(y);
        }
    }

    /// Nothing in it is needed any more: the application has its pieces back.
    pub fn release(&mut self) {
        self.shared = VecDeque::new();
        self.ring.release();
    }

    /// The places of a range of offsets, to be copied to.
    pub fn slices_mut(&mut self, range: Range<u64>) -> (&mut [u8], &mut [u8]) {
        self.ring.slices_mut(range)
    }

    /// A piece of `len` bytes is worth a reference, and there is room for one.
    pub fn is_shareable(&self, len: usize) -> bool {
        len >= SHARED_BYTES_MIN && self.shared.len() < SHARED_MAX
    }

    /// `bytes` are the stream's from `start` on.
    pub fn share(&mut self, start: u64, bytes: Bytes) {
        debug_assert!(self.shared.back().is_none_or(|last| last.end() <= start));
        self.shared.push_back(Shared { start, bytes });
    }

    /// The bytes of a range of offsets, piece by piece. Where they were acknowledged meanwhile, and are needed by
    /// nobody, it gives as many of any.
    pub fn gather<'a>(&'a self, range: Range<u64>, mut each: impl FnMut(&'a [u8])) {
        let mut at = range.start;
        if !self.shared.is_empty() {
            let first = self.shared.partition_point(|piece| piece.end() <= at);
            for piece in self.shared.range(first..).take_while(|piece| piece.start < range.end) {
                self.copied(at..piece.start.max(at), &mut each);
                at = at.max(piece.start);
                let end = range.end.min(piece.end());
                each(&piece.bytes[(at - piece.start) as usize..(end - piece.start) as usize]);
                at = end;
            }
        }
        self.copied(at..range.end, &mut each);
    }

    fn copied<'a>(&'a self, range: Range<u64>, each: &mut impl FnMut(&'a [u8])) {
        let (a, b) = self.ring.slices(range);
        for bytes in [a, b] {
            if !bytes.is_empty() {
                each(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(memory: &SendMemory, range: Range<u64>) -> Vec<u8> {
        let mut out = Vec::new();
        memory.gather(range, |piece| out.extend_from_slice(piece));
        out
    }

    /// Copies and shares by turns, frees what is behind, and looks at ranges of all kinds.
    #[test]
    fn any_range_is_what_was_written() {
        let mut memory = SendMemory::new(1 << 14);
        let (mut una, mut end) = (0u64, 0u64);
        let byte = |at: u64| (at ^ at >> 8) as u8;
        for turn in 0..2000u64 {
            let len = 1 + turn * 37 % 1500;
            if end + len - una <= memory.capacity() as u64 {
                let bytes: Vec<u8> = (end..end + len).map(byte).collect();
                if una == end {
                    memory.restart(end);
                }
                if turn % 3 > 0 && memory.is_shareable(len as usize) {
                    memory.share(end, bytes.into());
                } else {
                    let (a, b) = memory.slices_mut(end..end + len);
                    let (x, y) = bytes.split_at(a.len());
                    a.copy_from_slice(x);
                    b.copy_from_slice(y);
                }
                end += len;
            }
            let from = una + (end - una) * (turn % 7) / 7;
            let to = from + (end - from) * (turn % 5) / 4;
            let to = to.min(end);
            assert!(gathered(&memory, from..to) == (from..to).map(byte).collect::<Vec<_>>());
            if turn % 13 == 0 {
                memory.keep(una);
                assert!(memory.shared.is_empty());
                assert!(gathered(&memory, una..end) == (una..end).map(byte).collect::<Vec<_>>());
            }
            if turn % 4 == 0 {
                una += (end - una) * (turn % 11) / 10;
                una = una.min(end);
                memory.free(una);
                assert!(memory.shared.front().is_none_or(|piece| piece.end() > una));
            }
        }
        memory.free(end);
        assert!(memory.shared.is_empty());
    }

    #[test]
    fn small_pieces_are_copied_and_references_bounded() {
        let mut memory = SendMemory::new(1 << 20);
        let bytes = Bytes::from(vec![7; SHARED_BYTES_MIN]);
        assert!(!memory.is_shareable(SHARED_BYTES_MIN - 1));
        let mut at = 0;
        while memory.is_shareable(bytes.len()) {
            memory.share(at, bytes.clone());
            at += bytes.len() as u64;
        }
        assert_eq!(memory.shared.len(), SHARED_MAX);
        memory.free(SHARED_BYTES_MIN as u64);
        assert!(memory.is_shareable(bytes.len()));
        memory.release();
        assert!(bytes.is_unique(), "nothing refers to it any more");
    }
}
