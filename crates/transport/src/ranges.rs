//! What was received beyond a hole: a bounded list of ranges, which of them are news to the peer (RFC 2018, section 4),
//! and what came twice (RFC 2883).

use std::collections::VecDeque;

/// Ranges whose reports may wait at once; what is beyond is reported when it comes up again.
const RECENT: usize = 12;

/// Ranges above `rcv_nxt`, in order, disjoint and not touching.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    list: VecDeque<(u64, u64)>,
    capacity: usize,
    /// A position inside each range that changed lately, latest first.
    pub recent: [u64; RECENT],
    pub recent_len: u8,
    /// How many of `recent`, from the front, no acknowledgement has reported yet.
    pub unreported: u8,
    /// A duplicate to report first in the next acknowledgement.
    pub dsack: Option<(u64, u64)>,
}

impl Ranges {
    pub fn new(capacity: usize) -> Self {
        Ranges { capacity: capacity.max(1), ..Ranges::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Each of them, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.list.iter().copied()
    }

    /// The one that changed last.
    pub fn latest(&self) -> Option<(u64, u64)> {
        let position = self.recent[..usize::from(self.recent_len)].first()?;
        self.range_at(*position).copied()
    }

    /// There is something that only an acknowledgement with SACK blocks can say.
    pub fn has_news(&self) -> bool {
        self.unreported > 0 || self.dsack.is_some()
    }

    /// The first part of `start..end` that was not received.
    pub fn first_gap(&self, start: u64, end: u64) -> (u64, u64) {
        let index = self.list.partition_point(|r| r.1 <= start);
        let mut start = start;
        let mut index = index;
        if let Some(&(left, right)) = self.list.get(index)
            && left <= start
        {
            start = right.min(end);
            index += 1;
        }
        match self.list.get(index) {
            Some(&(left, _)) => (start, end.min(left.max(start))),
            None => (start, end),
        }
    }

    /// One past the highest position received; 0 when there are no ranges.
    pub fn end(&self) -> u64 {
        self.list.back().map_or(0, |r| r.1)
    }

    /// `start..end`, which nothing here overlaps, can be inserted, whole or only a front part of it. In a
    /// full list what joins the range before it takes no entry. What joins the range behind it takes none
    /// either when it is inserted whole; as the caller may take less, these have a bound of their own.
    pub fn has_room(&self, start: u64, end: u64) -> bool {
        if self.list.len() < self.capacity {
            return true;
        }
        let index = self.list.partition_point(|r| r.1 < start);
        let Some(&(left, right)) = self.list.get(index) else { return false };
        right == start || (left == end && self.list.len() < 2 * self.capacity)
    }

    /// Inserts a range above `rcv_nxt` that was accepted.
    pub fn insert(&mut self, start: u64, end: u64) {
        let index = self.list.partition_point(|r| r.1 < start);
        let mut merged = (start, end);
        match self.list.get_mut(index) {
            Some(range) if range.0 <= end => {
                *range = (range.0.min(start), range.1.max(end));
                merged = *range;
                if let Some(&next) = self.list.get(index + 1)
                    && next.0 <= merged.1
                {
                    merged.1 = merged.1.max(next.1);
                    self.list.remove(index + 1);
                    self.list[index] = merged;
                }
            }
            _ => self.list.insert(index, merged),
        }
        self.touch(merged.0, merged.1, start);
    }

    /// Moves a range to the front of those to report.
    fn touch(&mut self, left: u64, right: u64, at: u64) {
        let mut kept = 0;
        let mut unreported = 0;
        for i in 0..usize::from(self.recent_len) {
            let position = self.recent[i];
            if position < left || position >= right {
                self.recent[kept] = position;
                kept += 1;
                unreported += u8::from(i < usize::from(self.unreported));
            }
        }
        let kept = kept.min(RECENT - 1);
        self.recent.copy_within(0..kept, 1);
        self.recent[0] = at;
        self.recent_len = kept as u8 + 1;
        self.unreported = (unreported + 1).min(self.recent_len);
    }

    /// `rcv_nxt` moved to `nxt`; returns where it really stands when the first range is joined to it.
    pub fn advance(&mut self, mut nxt: u64) -> u64 {
        let mut changed = false;
        while let Some(&(left, right)) = self.list.front() {
            if left > nxt {
                break;
            }
            nxt = nxt.max(right);
            self.list.pop_front();
            changed = true;
        }
        if changed {
            let mut kept = 0;
            let mut unreported = 0;
            for i in 0..usize::from(self.recent_len) {
                if self.recent[i] >= nxt {
                    self.recent[kept] = self.recent[i];
                    kept += 1;
                    unreported += u8::from(i < usize::from(self.unreported));
                }
            }
            self.recent_len = kept as u8;
            self.unreported = unreported;
        }
        nxt
    }

    /// A segment came whose bytes were received before (RFC 2883, section 4).
    pub fn note_duplicate(&mut self, start: u64, end: u64) {
        if start < end {
            self.dsack = Some((start, end));
        }
    }

    /// In order, disjoint, not touching, bounded, and between `nxt` and `adv`.
    pub fn is_consistent(&self, nxt: u64, adv: u64) -> bool {
        let mut end = nxt;
        self.list.len() <= 2 * self.capacity
            && self.unreported <= self.recent_len
            && self.list.iter().all(|&(left, right)| {
                let ok = left > end && left < right && right <= adv;
                end = right;
                ok
            })
    }

    /// The range that `position` lies in.
    pub fn range_at(&self, position: u64) -> Option<&(u64, u64)> {
        let index = self.list.partition_point(|r| r.1 <= position);
        self.list.get(index).filter(|r| r.0 <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_around_ranges() {
        let mut r = Ranges::new(8);
        r.insert(100, 200);
        r.insert(300, 400);
        assert_eq!(r.first_gap(50, 90), (50, 90));
        assert_eq!(r.first_gap(50, 150), (50, 100));
        assert_eq!(r.first_gap(50, 350), (50, 100));
        assert_eq!(r.first_gap(150, 350), (200, 300));
        assert_eq!(r.first_gap(200, 300), (200, 300));
        assert_eq!(r.first_gap(350, 500), (400, 500));
        let (start, end) = r.first_gap(120, 180);
        assert!(start >= end);
    }

    #[test]
    fn ranges_join_and_advance() {
        let mut r = Ranges::new(3);
        r.insert(100, 200);
        r.insert(300, 400);
        r.insert(200, 300);
        assert_eq!(r.len(), 1);
        assert_eq!(r.advance(50), 50);
        assert_eq!(r.advance(100), 400);
        assert!(r.is_empty() && !r.has_news());
    }

    #[test]
    fn a_full_list_takes_only_what_joins() {
        let mut r = Ranges::new(2);
        r.insert(100, 200);
        r.insert(300, 400);
        assert!(!r.has_room(500, 600));
        assert!(r.has_room(400, 500) && r.has_room(50, 100) && r.has_room(250, 300));
    }

    #[test]
    fn taking_less_than_was_planned_does_not_outgrow_the_bound() {
        let mut r = Ranges::new(4);
        for i in 0..1000 {
            // Each would join the range behind it, and then does not.
            let (start, end) = (1_000_000 - 100 * (i + 1), 1_000_000 - 100 * i);
            if r.has_room(start, end) {
                r.insert(start, start + 50);
            }
            assert!(r.is_consistent(0, u64::MAX));
        }
        assert_eq!(r.len(), 8);
    }
}
