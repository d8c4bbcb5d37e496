//! ADUs that were verified and wait for the application.

use std::collections::VecDeque;

/// What is known of one ADU, by index.
#[derive(Debug)]
enum Slot {
    /// It has not come.
    Missing,
    /// The application has it already.
    Taken,
    /// It waits here.
    Waiting(Vec<u8>),
}

/// ADUs by index, from the first that the application has not had.
///
/// Bounded by the receive window: each ADU in it occupies stream bytes that were not given back.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Index of the first slot.
    base: u64,
    slots: VecDeque<Slot>,
    waiting: usize,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    /// Their memory, in bytes.
    spare_bytes: usize,
}

/// Buffers kept for reuse.
const SPARE: usize = 64;
/// Bytes kept for reuse: most connections of a server wait.
const SPARE_BYTES: usize = 512 << 10;

impl Inbox {
    /// A buffer of `len` bytes to open an ADU into.
    pub fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= buffer.capacity();
        buffer.resize(len, 0);
        buffer
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        let bytes = self.spare_bytes + buffer.capacity();
        if self.spare.len() < SPARE && bytes <= SPARE_BYTES {
            self.spare_bytes = bytes;
            self.spare.push(buffer);
        }
    }

    /// Gives buffers back to the system.
    pub fn rest(&mut self) {
        self.spare = Vec::new();
        self.spare_bytes = 0;
    }

    /// The ADU `index` waits in `buffer`.
    pub fn put(&mut self, index: u64, buffer: Vec<u8>) {
        self.set(index, Slot::Waiting(buffer));
        self.waiting += 1;
    }

    /// The application has the ADU `index`.
    pub fn skip(&mut self, index: u64) {
        if self.slots.is_empty() && index == self.base {
            self.base += 1;
        } else {
            self.set(index, Slot::Taken);
            self.trim();
        }
    }

    fn set(&mut self, index: u64, slot: Slot) {
        let Some(at) = index.checked_sub(self.base) else { return };
        let at = at as usize;
        while self.slots.len() <= at {
            self.slots.push_back(Slot::Missing);
        }
        self.slots[at] = slot;
    }

    /// The next ADU in order, if it is there.
    pub fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        self.trim();
        if !matches!(self.slots.front(), Some(Slot::Waiting(_))) {
            return None;
        }
        let Some(Slot::Waiting(buffer)) = self.slots.pop_front() else { return None };
        self.waiting -= 1;
        self.base += 1;
        Some((self.base - 1, buffer))
    }

    /// Any ADU that is there, the earliest first.
    pub fn any(&mut self) -> Option<(u64, Vec<u8>)> {
        if self.waiting == 0 {
            return None;
        }
        let at = self.slots.iter().position(|s| matches!(s, Slot::Waiting(_)))?;
        let Slot::Waiting(buffer) = std::mem::replace(&mut self.slots[at], Slot::Taken) else {
            return None;
        };
        self.waiting -= 1;
        let index = self.base + at as u64;
        self.trim();
        Some((index, buffer))
    }

    /// True if the ADU `index` is the first that the application has not had.
    pub fn is_next(&self, index: u64) -> bool {
        index == self.base
    }

    /// How far `index` lies beyond the first ADU that the application has not had.
    pub fn distance(&self, index: u64) -> u64 {
        index.saturating_sub(self.base)
    }

    fn trim(&mut self) {
        while let Some(Slot::Taken) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_completion() {
        let mut inbox = Inbox::default();
        inbox.put(2, vec![2]);
        inbox.put(1, vec![1]);
        assert_eq!(inbox.next(), None);
        assert_eq!(inbox.any(), Some((1, vec![1])));
        inbox.put(0, vec![0]);
        assert_eq!(inbox.next(), Some((0, vec![0])));
        assert_eq!(inbox.next(), Some((2, vec![2])));
        assert_eq!((inbox.next(), inbox.any(), inbox.waiting), (None, None, 0));
    }

    #[test]
    fn what_the_application_took_is_skipped() {
        let mut inbox = Inbox::default();
        inbox.skip(0);
        inbox.skip(2);
        inbox.put(3, vec![3]);
        assert_eq!(inbox.next(), None);
        inbox.skip(1);
        assert_eq!(inbox.next(), Some((3, vec![3])));
        inbox.skip(4);
        assert!(inbox.slots.is_empty());
        assert_eq!(inbox.distance(9), 4);
    }

    #[test]
    fn buffers_are_used_again() {
        let mut inbox = Inbox::default();
        let buffer = inbox.buffer(1000);
        inbox.recycle(buffer);
        assert!(inbox.buffer(500).capacity() >= 1000);
        for _ in 0..100 {
            inbox.recycle(vec![0; 60_000]);
        }
        assert!(inbox.spare_bytes <= SPARE_BYTES && inbox.spare.len() >= 8);
        inbox.rest();
        assert_eq!(inbox.spare_bytes, 0);
    }
}
