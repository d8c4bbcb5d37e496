//! Sets of numbers kept as runs: memory grows with the gaps, not with the numbers.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of `u64`, as disjoint runs that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Start to end of each run.
    runs: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `range`; false, and nothing added, when some of it was in already. An empty range is always new.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let before = self.runs.range(..range.end).next_back().map(|(&s, &e)| (s, e));
        let mut start = range.start;
        if let Some((s, e)) = before {
            if e > range.start {
                return false;
            }
            if e == range.start {
                start = s;
            }
        }
        let end = self.runs.remove(&range.end).unwrap_or(range.end);
        self.runs.insert(start, end);
        true
    }

    /// The run that starts at `start`, taken out; its end.
    pub(crate) fn remove_run(&mut self, start: u64) -> Option<u64> {
        self.runs.remove(&start)
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// How many numbers there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.runs.iter().map(|(s, e)| e - s).sum()
    }

    /// What of `whole` is not in the set, in order.
    pub(crate) fn missing(&self, whole: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = whole.start;
        if let Some((_, &end)) = self.runs.range(..whole.start).next_back() {
            at = at.max(end);
        }
        for (&start, &end) in self.runs.range(whole.start..) {
            if start >= whole.end {
                break;
            }
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < whole.end {
            gaps.push(at..whole.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(inserts in proptest::collection::vec((0u64..60, 0u64..9), 0..40)) {
            let (mut ranges, mut set) = (Ranges::default(), std::collections::BTreeSet::new());
            for (start, len) in inserts {
                let range = start..start + len;
                let new = range.clone().all(|n| !set.contains(&n));
                prop_assert_eq!(ranges.insert(range.clone()), new);
                if new {
                    set.extend(range);
                }
                prop_assert_eq!(ranges.count(), set.len() as u64);
                let gaps: Vec<u64> = ranges.missing(3..50).into_iter().flatten().collect();
                let expected: Vec<u64> = (3..50).filter(|n| !set.contains(n)).collect();
                prop_assert_eq!(gaps, expected);
                for run in ranges.runs.iter().zip(ranges.runs.iter().skip(1)) {
                    prop_assert!(run.0.1 < run.1.0, "runs touch");
                }
            }
        }
    }
}
