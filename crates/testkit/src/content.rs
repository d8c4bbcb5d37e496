//! A stream whose bytes are a function of their offset, and the receiver's account of which came.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::random::mix;

/// A stream of bytes without memory.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    seed: u64,
}

impl Content {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Content { seed: mix(seed ^ 0x5bd1_e995_9d1b_54a5) }
    }

    /// Writes the bytes that lie at `offset`.
    pub fn fill(&self, offset: u64, bytes: &mut [u8]) {
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let word = mix(self.seed ^ (offset / 8)).to_le_bytes();
            let from = (offset % 8) as usize;
            let count = (8 - from).min(rest.len());
            let (head, tail) = rest.split_at_mut(count);
            head.copy_from_slice(&word[from..from + count]);
            offset += count as u64;
            rest = tail;
        }
    }

    /// The bytes that lie at `offset`, for as long as they are the stream's.
    pub fn matches(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut expected = [0u8; 256];
        let mut offset = offset;
        bytes.chunks(expected.len()).all(|chunk| {
            let expected = &mut expected[..chunk.len()];
            self.fill(offset, expected);
            offset += chunk.len() as u64;
            expected == chunk
        })
    }
}

/// Which ranges of a stream have come: sorted, disjoint, not touching.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
}

impl Received {
    /// Notes a range. Returns false, and notes nothing, when any byte of it came before.
    pub fn insert(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&from, &upto)) = self.ranges.range(..end).next_back() {
            if upto > start {
                return false;
            }
            if upto == start {
                start = from;
            }
        }
        if let Some(upto) = self.ranges.remove(&end) {
            end = upto;
        }
        self.ranges.insert(start, end);
        true
    }

    /// Everything below this offset has come.
    pub fn contiguous(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Nothing has come.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_same_as_the_whole() {
        let content = Content::new(3);
        let mut whole = vec![0; 1000];
        content.fill(77, &mut whole);
        for (from, to) in [(0, 1), (3, 500), (999, 1000), (8, 16), (5, 5)] {
            let mut piece = vec![0; to - from];
            content.fill(77 + from as u64, &mut piece);
            assert_eq!(piece, whole[from..to]);
            assert!(content.matches(77 + from as u64, &piece));
        }
        whole[600] ^= 1;
        assert!(!content.matches(77, &whole) && !Content::new(4).matches(77, &whole));
    }

    #[test]
    fn ranges_join_and_never_overlap() {
        let mut received = Received::default();
        assert!(received.insert(10..20) && received.insert(30..40) && received.len() == 2);
        for overlapping in [5..11, 10..20, 12..13, 19..31, 0..100, 39..41] {
            assert!(!received.insert(overlapping.clone()), "{overlapping:?}");
        }
        assert_eq!(received.contiguous(), 0);
        assert!(received.insert(20..30) && received.len() == 1);
        assert!(received.insert(0..10) && received.insert(7..7));
        assert_eq!(received.contiguous(), 40);
        assert!(received.iter().eq(core::iter::once(0..40)));
    }
}
