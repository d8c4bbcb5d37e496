//! Messages: EOM ends one, and the byte behind it begins the next; BTAG says that one begins (`docs/xtp.md`, section 10). A
//! message is told when all of it has come, in order or also behind a gap.

use super::Header;
use super::connection::Connection;
use crate::ranges::Ranges;
use core::ops::Range;
use fusewire_wire::xtp::{Body, First, Options};
use std::collections::VecDeque;

/// Bounds of messages that are remembered; a packet that brings one more is not taken.
const BOUNDS_MAX: usize = 4096;

/// A message that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it lies in the stream.
    pub range: Range<u64>,
    /// The sender's 8 bytes.
    pub tag: Option<u64>,
}

/// A place where a message ends, or begins, or both.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    at: u64,
    /// A message ends here.
    ends: bool,
    told: bool,
    /// That of the message which begins here.
    tag: Option<u64>,
}

/// The bounds above what was consumed, in order.
#[derive(Debug, Default)]
pub(super) struct Messages {
    on: bool,
    bounds: VecDeque<Bound>,
    /// Of so many first ones nothing is to be told, unless something changes about them.
    settled: usize,
    /// The last bound below those; in the beginning the stream's.
    base: Bound,
    /// Something came since nothing was found complete.
    news: bool,
}

impl Messages {
    pub fn new(on: bool) -> Messages {
        Messages { on, ..Messages::default() }
    }

    /// The first message begins at `offset`.
    pub fn begin_at(&mut self, offset: u64) {
        self.base.at = offset;
    }

    /// A packet that ends a message may be taken.
    pub fn has_room(&self) -> bool {
        !self.on || self.bounds.len() < BOUNDS_MAX
    }

    /// All data of an accepted packet, which ends at `end`, are here.
    pub fn note(&mut self, h: &Header, end: u64, consumed: u64) {
        if !self.on {
            return;
        }
        self.news = true;
        let tag = match h.body {
            Body::Data { btag } | Body::First(First { btag, .. }) => btag,
            _ => None,
        };
        if tag.is_some() && h.seq == self.base.at {
            self.base.tag = tag;
        } else if tag.is_some() && h.seq > consumed {
            self.bound(h.seq).tag = tag;
        }
        if h.options.has(Options::EOM) && end > consumed && end > h.seq {
            self.bound(end).ends = true;
        }
    }

    fn bound(&mut self, at: u64) -> &mut Bound {
        // Most bounds come in order.
        let index = match self.bounds.back() {
            Some(last) if last.at >= at => self.bounds.partition_point(|b| b.at < at),
            _ => self.bounds.len(),
        };
        if self.bounds.get(index).is_none_or(|b| b.at != at) {
            self.bounds.insert(index, Bound { at, ..Bound::default() });
        }
        self.settled = self.settled.min(index);
        &mut self.bounds[index]
    }

    /// Everything below `upto` was consumed.
    pub fn consumed(&mut self, upto: u64) {
        while let Some(first) = self.bounds.front().filter(|b| b.at <= upto) {
            self.base = *first;
            self.bounds.pop_front();
            self.settled = self.settled.saturating_sub(1);
        }
    }

    /// A message all of which has come: the next, or if they may overtake each other any.
    pub fn poll(&mut self, nxt: u64, ranges: &Ranges, overtaking: bool) -> Option<Message> {
        if !self.news {
            return None;
        }
        let before = self.settled.checked_sub(1).and_then(|last| self.bounds.get(last));
        let mut begin = *before.unwrap_or(&self.base);
        let settled = self.settled;
        for (index, bound) in (settled..).zip(self.bounds.range_mut(settled..)) {
            let range = begin.at..bound.at;
            let waits = bound.ends && !bound.told;
            // Where one begins behind a gap, others may end in it that nobody has heard of.
            let is_there =
                if overtaking { has_come(&range, nxt, ranges) } else { range.end <= nxt };
            if (!waits || is_there) && self.settled == index {
                self.settled += 1;
            }
            if waits && is_there {
                bound.told = true;
                return Some(Message { range, tag: begin.tag });
            }
            if waits && !overtaking {
                break;
            }
            begin = *bound;
        }
        self.news = false;
        None
    }
}

/// All of `range` is here.
fn has_come(range: &Range<u64>, nxt: u64, ranges: &Ranges) -> bool {
    range.end <= nxt
        || ranges
            .range_at(range.start)
            .is_some_and(|&(left, right)| left <= range.start && range.end <= right)
}

impl Connection {
    /// A whole message (with [`Config::messages`](super::Config::messages)): the next one, or with `overtaking` also one
    /// behind a gap. Each is told once.
    pub fn poll_message(&mut self, overtaking: bool) -> Option<Message> {
        self.messages.poll(self.recv.nxt, &self.recv.ranges, overtaking)
    }

    /// Bytes that the peer has sent, and that never came and will not (NOERR).
    pub fn poll_gap(&mut self) -> Option<Range<u64>> {
        self.recv.gaps.pop_front().map(|(from, to)| from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_wire::xtp::{Key, SpanList};

    fn data(seq: u64, options: Options, btag: Option<u64>) -> Header {
        let body: Body<SpanList<16>> = Body::Data { btag };
        let key = Key::new(1).unwrap();
        Header {
            key,
            returned: true,
            options,
            check: 0,
            sort: 0,
            sync: 0,
            seq,
            data_len: 100,
            body,
        }
    }

    #[test]
    fn none_overtakes_one_of_which_nothing_has_come() {
        let mut messages = Messages::new(true);
        let mut ranges = Ranges::new(8);
        // 0..100 is missing; that something begins at 100 is known from its tag.
        messages.note(&data(100, Options::EOM, Some(7)), 200, 0);
        ranges.insert(100, 200);
        assert_eq!(messages.poll(0, &ranges, false), None);
        messages.note(&data(0, Options::EOM, Some(6)), 100, 0);
        for (range, tag) in [(0..100, 6), (100..200, 7)] {
            let next = Message { range, tag: Some(tag) };
            assert_eq!(messages.poll(200, &Ranges::new(8), false), Some(next));
        }
    }

    /// What is settled is passed over, and looked at again when something changes about it.
    #[test]
    fn a_message_whose_end_is_told_late_is_found_before_those_that_were_told() {
        let mut messages = Messages::new(true);
        let ranges = Ranges::new(8);
        // 0..100 ends at a tag, 100..200 with EOM; that the first ended, too, comes last.
        messages.note(&data(100, Options::EOM, Some(8)), 200, 0);
        let second = Message { range: 100..200, tag: Some(8) };
        assert_eq!(messages.poll(200, &ranges, true), Some(second));
        assert_eq!((messages.poll(200, &ranges, true), messages.settled), (None, 2));
        messages.note(&data(0, Options::EOM, Some(7)), 100, 0);
        assert_eq!(messages.settled, 0);
        let first = Message { range: 0..100, tag: Some(7) };
        assert_eq!(messages.poll(200, &ranges, true), Some(first));
        assert_eq!((messages.poll(200, &ranges, true), messages.settled), (None, 2));
        // What is consumed is no longer counted.
        messages.consumed(100);
        assert_eq!((messages.settled, messages.base.at), (1, 100));
        messages.note(&data(200, Options::EOM, None), 300, 100);
        assert_eq!(messages.poll(300, &ranges, false).map(|m| m.range), Some(200..300));
        messages.consumed(300);
        assert_eq!((messages.settled, messages.bounds.len()), (0, 0));
    }

    #[test]
    fn a_message_overtakes_one_that_lacks_its_middle() {
        let mut messages = Messages::new(true);
        let mut ranges = Ranges::new(8);
        // 0..300 without 100..200; 300..400.
        messages.note(&data(0, Options::NONE, Some(7)), 100, 0);
        messages.note(&data(200, Options::EOM, None), 300, 0);
        messages.note(&data(300, Options::EOM, Some(8)), 400, 0);
        ranges.insert(200, 400);
        assert_eq!(messages.poll(100, &ranges, false), None);
        messages.news = true;
        let second = Message { range: 300..400, tag: Some(8) };
        assert_eq!(messages.poll(100, &ranges, true), Some(second));
        assert_eq!(messages.poll(100, &ranges, true), None, "once");
        messages.note(&data(100, Options::NONE, None), 200, 0);
        let first = Message { range: 0..300, tag: Some(7) };
        assert_eq!(messages.poll(400, &Ranges::new(8), true), Some(first));
        messages.consumed(400);
        assert!(messages.bounds.is_empty() && messages.base.at == 400);
    }
}
