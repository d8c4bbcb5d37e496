//! The memory of one direction of a byte stream: a ring in which the byte of stream offset `n` has one place.
//!
//! ```text
//!        base + start                     base + end
//!             │                                │
//!   ──────────┬────────────────────────────────┬──────────
//!    free     │ bytes that are (or may be) here│ free          place of n = (n - base) modulo capacity
//!   ──────────┴────────────────────────────────┴──────────
//! ```
//! Whoever uses it keeps `end - start ≤ capacity`. When nothing is in it, [`Ring::restart`] lays the next
//! byte at the beginning again, so that a stream whose reader keeps up stays within the cache.

use std::ops::Range;

use fusewire_device::Region;

/// See the module's text.
#[derive(Debug)]
pub struct Ring {
    memory: Region,
    mask: usize,
    base: u64,
}

impl Ring {
    /// A ring of at least `len` bytes; memory is taken as it is touched.
    pub fn new(len: usize) -> Ring {
        let len = len.max(4096).next_power_of_two();
        Ring { memory: Region::private(len), mask: len - 1, base: 0 }
    }

    /// Bytes that it holds at most.
    pub fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Nothing is in it, and the byte at `offset` is the next: the place of which is now the first.
    pub fn restart(&mut self, offset: u64) {
        self.base = offset;
    }

    /// Gives memory back to the system; nothing is in it.
    pub fn release(&mut self) {
        self.memory.release();
    }

    fn place(&self, range: &Range<u64>) -> (usize, usize, usize) {
        let len = (range.end - range.start) as usize;
        debug_assert!(len <= self.capacity());
        let at = (range.start.wrapping_sub(self.base)) as usize & self.mask;
        let first = len.min(self.capacity() - at);
        (at, first, len - first)
    }

    /// The bytes of a range of offsets, in one piece or two.
    pub fn slices(&self, range: Range<u64>) -> (&[u8], &[u8]) {
        let (at, first, second) = self.place(&range);
        (&self.memory[at..at + first], &self.memory[..second])
    }

    /// The bytes of a range of offsets, to be written.
    pub fn slices_mut(&mut self, range: Range<u64>) -> (&mut [u8], &mut [u8]) {
        let (at, first, second) = self.place(&range);
        let (front, back) = self.memory.split_at_mut(at);
        (&mut back[..first], &mut front[..second])
    }

    /// Copies out.
    pub fn copy_to(&self, offset: u64, out: &mut [u8]) {
        let (a, b) = self.slices(offset..offset + out.len() as u64);
        let (x, y) = out.split_at_mut(a.len());
        x.copy_from_slice(a);
        y.copy_from_slice(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_places_across_turns() {
        let mut ring = Ring::new(4096);
        let mut offset = 3u64;
        for turn in 0..500u64 {
            let len = 1 + turn * 37 % 4096;
            let range = offset..offset + len;
            let (a, b) = ring.slices_mut(range);
            for (i, byte) in a.iter_mut().chain(b).enumerate() {
                *byte = (offset + i as u64) as u8;
            }
            let mut out = vec![0; len as usize];
            ring.copy_to(offset, &mut out);
            assert!(out.iter().enumerate().all(|(i, b)| *b == (offset + i as u64) as u8));
            offset += len;
            if turn % 5 == 0 {
                ring.restart(offset);
                assert_eq!(ring.slices(offset..offset + 4096).1.len(), 0);
            }
        }
    }
}
