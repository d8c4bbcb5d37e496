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

/// Ranges of news that are kept apart.
const NEWS_MAX: usize = 64;

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

/// The messages of a stream that has some.
#[derive(Debug)]
pub(super) struct Messages(Option<Box<Bounds>>);

/// The bounds above what was consumed, in order.
#[derive(Debug, Default)]
struct Bounds {
    bounds: VecDeque<Bound>,
    /// The last bound below those; in the beginning the stream's.
    base: Bound,
    /// Of so many of them at the front nothing is to be told in order, unless something changes about them.
    told: usize,
    /// What has come, where nothing has been looked for since.
    news: VecDeque<Range<u64>>,
    /// All below was looked at.
    nxt: u64,
    /// Bounds that were looked at, for a test.
    #[cfg(test)]
    looked: u64,
}

impl Messages {
    pub fn new(on: bool) -> Messages {
        Messages(on.then(Box::default))
    }

    /// The first message begins at `offset`.
    pub fn begin_at(&mut self, offset: u64) {
        if let Some(bounds) = &mut self.0 {
            bounds.base.at = offset;
        }
    }

    /// A packet may be taken in which a message ends or begins. Behind a gap there is half the room: what fills the gap, and
    /// so lets others be consumed, always finds some.
    pub fn has_room(&self, is_next: bool) -> bool {
        let most = if is_next { BOUNDS_MAX } else { BOUNDS_MAX / 2 };
        self.0.as_ref().is_none_or(|bounds| bounds.bounds.len() < most)
    }

    /// The end of a message has come that was not consumed.
    pub fn wait(&self) -> bool {
        self.0.as_ref().is_some_and(|bounds| bounds.bounds.iter().any(|bound| bound.ends))
    }

    /// All data of an accepted packet, which ends at `end`, are here.
    pub fn note(&mut self, h: &Header, end: u64, consumed: u64) {
        if let Some(bounds) = &mut self.0 {
            bounds.note(h, end, consumed);
        }
    }

    /// Everything below `upto` was consumed.
    pub fn consumed(&mut self, upto: u64) {
        if let Some(bounds) = &mut self.0 {
            bounds.consumed(upto);
        }
    }

    /// A message all of which has come: the next, or if they may overtake each other any.
    pub fn poll(&mut self, nxt: u64, ranges: &Ranges, overtaking: bool) -> Option<Message> {
        let bounds = self.0.as_mut()?;
        if overtaking { bounds.poll_any(nxt, ranges) } else { bounds.poll_next(nxt) }
    }
}

/// A packet after which more is remembered: a message ends or begins in it.
pub fn brings_bound(h: &Header) -> bool {
    h.options.has(Options::EOM) || btag(h).is_some()
}

fn btag(h: &Header) -> Option<u64> {
    match h.body {
        Body::Data { btag } | Body::First(First { btag, .. }) => btag,
        _ => None,
    }
}

impl Bounds {
    /// All data of an accepted packet, which ends at `end`, are here.
    fn note(&mut self, h: &Header, end: u64, consumed: u64) {
        let is_full = self.news.len() >= NEWS_MAX;
        match self.news.back_mut() {
            // A range that is too long costs time, and nothing else.
            Some(last) if last.end == h.seq || is_full => {
                *last = last.start.min(h.seq)..last.end.max(end);
            }
            _ => self.news.push_back(h.seq..end),
        }
        match btag(h) {
            tag @ Some(_) if h.seq == self.base.at || h.seq == consumed => {
                // What began below, and has no end there, was given up.
                self.base = Bound { at: h.seq, tag, ..Bound::default() };
            }
            tag @ Some(_) if h.seq > consumed => self.bound(h.seq).tag = tag,
            _ => {}
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
        self.told = self.told.min(index);
        &mut self.bounds[index]
    }

    /// Everything below `upto` was consumed.
    fn consumed(&mut self, upto: u64) {
        while let Some(first) = self.bounds.front().filter(|b| b.at <= upto) {
            self.base = *first;
            self.bounds.pop_front();
            self.told = self.told.saturating_sub(1);
        }
    }

    /// The message that ends at a bound, if it does and was not told.
    fn at(&mut self, at: usize) -> Option<Message> {
        #[cfg(test)]
        (self.looked += 1);
        let bound = self.bounds[at];
        let begin = at.checked_sub(1).map_or(self.base, |before| self.bounds[before]);
        let waits = bound.ends && !bound.told;
        waits.then_some(Message { range: begin.at..bound.at, tag: begin.tag })
    }

    /// The next message, if everything below its end has come: behind those that were told.
    fn poll_next(&mut self, nxt: u64) -> Option<Message> {
        self.news.clear();
        for at in self.told..self.bounds.len() {
            if self.bounds[at].at > nxt {
                break;
            }
            self.told = at + 1;
            if let Some(message) = self.at(at) {
                self.bounds[at].told = true;
                return Some(message);
            }
        }
        None
    }

    /// Any message that is there. What comes makes those whole that it is a part of, and the one behind it, whose beginning
    /// it may tell.
    fn poll_any(&mut self, nxt: u64, ranges: &Ranges) -> Option<Message> {
        if nxt > self.nxt {
            self.news.push_back(self.nxt..nxt);
            self.nxt = nxt;
        }
        while let Some(news) = self.news.front().cloned() {
            let mut at = self.bounds.partition_point(|b| b.at <= news.start);
            while at < self.bounds.len() {
                // Where one begins behind a gap, others may end in it that nobody has heard of.
                let message = self.at(at).filter(|m| has_come(&m.range, nxt, ranges));
                if let Some(message) = message {
                    self.bounds[at].told = true;
                    if let Some(news) = self.news.front_mut() {
                        news.start = message.range.end;
                    }
                    return Some(message);
                }
                if self.bounds[at].at > news.end {
                    break;
                }
                at += 1;
            }
            self.news.pop_front();
        }
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

    /// A bound that was passed is looked at again when something changes about it.
    #[test]
    fn a_message_whose_end_is_told_late_is_found_before_those_that_were_told() {
        for overtaking in [true, false] {
            let mut messages = Messages::new(true);
            let ranges = Ranges::new(8);
            // 0..100 ends at a tag, 100..200 with EOM; that the first ended, too, comes last.
            messages.note(&data(100, Options::EOM, Some(8)), 200, 0);
            let second = Message { range: 100..200, tag: Some(8) };
            assert_eq!(messages.poll(200, &ranges, overtaking), Some(second));
            assert_eq!(messages.poll(200, &ranges, overtaking), None);
            messages.note(&data(0, Options::EOM, Some(7)), 100, 0);
            let first = Message { range: 0..100, tag: Some(7) };
            assert_eq!(messages.poll(200, &ranges, overtaking), Some(first));
            assert_eq!(messages.poll(200, &ranges, overtaking), None);
            messages.consumed(100);
            messages.note(&data(200, Options::EOM, None), 300, 100);
            let third = messages.poll(300, &ranges, overtaking).map(|m| m.range);
            assert_eq!(third, Some(200..300));
            messages.consumed(300);
            let left = messages.0.unwrap();
            assert_eq!((left.told, left.bounds.len(), left.base.at), (0, 0, 300));
        }
    }

    /// Where the beginning of one is given up, a tag tells that the next begins: behind what was there of that, right where the
    /// application's word ends.
    #[test]
    fn a_message_behind_what_was_given_up_has_its_own_tag() {
        for overtaking in [true, false] {
            let mut messages = Messages::new(true);
            messages.note(&data(0, Options::NONE, Some(6)), 100, 0);
            messages.consumed(200);
            messages.note(&data(200, Options::EOM, Some(7)), 300, 200);
            let next = Message { range: 200..300, tag: Some(7) };
            assert_eq!(messages.poll(300, &Ranges::new(8), overtaking), Some(next));
            assert_eq!(messages.poll(300, &Ranges::new(8), overtaking), None);
        }
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
        let second = Message { range: 300..400, tag: Some(8) };
        assert_eq!(messages.poll(100, &ranges, true), Some(second));
        assert_eq!(messages.poll(100, &ranges, true), None, "once");
        messages.note(&data(100, Options::NONE, None), 200, 0);
        let first = Message { range: 0..300, tag: Some(7) };
        assert_eq!(messages.poll(400, &Ranges::new(8), true), Some(first));
        messages.consumed(400);
        let left = messages.0.unwrap();
        assert!(left.bounds.is_empty() && left.base.at == 400);
    }

    /// However many wait to be released, and in whatever order they come, a message costs a look or two.
    #[test]
    fn what_was_told_is_not_looked_at_again() {
        let count = 2000;
        for overtaking in [false, true] {
            let mut messages = Messages::new(true);
            let mut ranges = Ranges::new(8);
            let mut told = Vec::new();
            // The first message is missing at first; with overtaking it is all that waits.
            for n in (1..count).chain([0]) {
                let seq = n * 100;
                messages.note(&data(seq, Options::EOM, Some(n)), seq + 100, 0);
                let nxt = if n > 0 {
                    ranges.insert(seq, seq + 100);
                    0
                } else {
                    count * 100
                };
                while let Some(message) = messages.poll(nxt, &ranges, overtaking) {
                    assert_eq!(
                        message.range,
                        message.tag.unwrap() * 100..message.tag.unwrap() * 100 + 100
                    );
                    told.push(message.tag.unwrap());
                }
                assert_eq!(
                    told.len() as u64,
                    if n == 0 {
                        count
                    } else if overtaking {
                        n
                    } else {
                        0
                    }
                );
            }
            let first_last = if overtaking { count - 1 } else { 0 };
            assert_eq!(told.iter().position(|n| *n == 0), Some(first_last as usize));
            let looked = messages.0.unwrap().looked;
            assert!(looked <= 6 * count, "{looked} looks");
        }
    }

    /// A bound that comes late tells where a message begins that was there before: it is whole then.
    #[test]
    fn a_beginning_that_comes_late_is_noticed() {
        let mut messages = Messages::new(true);
        let mut ranges = Ranges::new(8);
        messages.note(&data(300, Options::EOM, None), 400, 0);
        ranges.insert(300, 400);
        assert_eq!(messages.poll(0, &ranges, true), None, "it may begin in the gap");
        messages.note(&data(200, Options::EOM, None), 300, 0);
        ranges.insert(200, 300);
        assert_eq!(messages.poll(0, &ranges, true).map(|m| m.range), Some(300..400));
        assert_eq!(messages.poll(0, &ranges, true), None);
    }
}
