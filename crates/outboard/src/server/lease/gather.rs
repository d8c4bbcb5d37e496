//! Short messages that are written one behind the other leave together: each frame costs the outboard, the interface and the
//! peer as much as many messages do. What follows soon behind what was taken waits as long as more of it comes between one look
//! and the next, until it is worth a frame: who writes on loses nothing, and who has stopped is seen at the next look. Who answers
//! what came meanwhile does not write on: it leaves at once.

use std::time::Duration;

use fusewire_base::Instant;

/// Bytes that are worth a frame.
const ENOUGH: u64 = 16 << 10;
/// What a look finds to have waited for longer waits no more: who writes a little at each would fill that in many of them.
const LONGEST: Duration = Duration::from_micros(50);
/// Rounds without a look between two with one: to look takes the word from who writes it. What he tells the news by is such a word.
pub const SKIPS: u32 = 2;
/// The next look comes that much later at the latest: a round of others' work may be long.
pub const PAUSE: Duration = Duration::from_micros(4);
/// What is written later than that behind what was taken is not one behind the other.
const SOON: Duration = Duration::from_micros(100);

/// What is known of who writes.
#[derive(Debug, Default)]
pub struct Gather {
    /// How far he had written at the last look.
    seen: u64,
    /// How much had come for him when something was taken last, and when that was.
    came: u64,
    taken_at: Option<Instant>,
    /// When what waits began to.
    since: Option<Instant>,
    /// When it was looked at last.
    looked_at: Option<Instant>,
    /// Turns until it is looked at again, if that is not too late then.
    skips: u32,
}

impl Gather {
    /// Whether he writes on: `len` bytes, up to `position`, are not taken now, and there is to be another look at once. So much
    /// has `came` for him.
    pub fn waits(&mut self, (position, len): (u64, u64), came: u64, now: Instant) -> bool {
        let has_grown = std::mem::replace(&mut self.seen, position) != position;
        let is_soon = self.taken_at.is_some_and(|at| now.saturating_since(at) < SOON);
        let since = *self.since.get_or_insert(now);
        let is_little = len < ENOUGH && now.saturating_since(since) < LONGEST;
        if has_grown && is_soon && is_little && self.came == came {
            (self.skips, self.looked_at) = (SKIPS, Some(now));
            return true;
        }
        *self = Gather { seen: position, came, taken_at: Some(now), ..Gather::default() };
        false
    }

    /// Nothing waits.
    pub fn rest(&mut self) {
        (self.since, self.skips) = (None, 0);
    }

    /// What is there is to leave at once.
    pub fn push(&mut self) {
        *self = Gather { seen: self.seen, came: self.came, ..Gather::default() };
    }

    /// Something waits for more.
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// The next turn is one without a look.
    pub fn is_resting(&self) -> bool {
        self.skips > 0
    }

    /// This turn is one.
    pub fn skips(&mut self, now: Instant) -> bool {
        let is_soon = self.looked_at.is_some_and(|at| now.saturating_since(at) < PAUSE);
        let skips = self.skips > 0 && is_soon;
        self.skips = if skips { self.skips - 1 } else { 0 };
        skips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_waits_until_it_is_worth_a_frame_or_for_too_long() {
        // Each look so much later finds so much more: what is taken, and how long it has waited.
        let looks = |step: u64, every: Duration| {
            let (mut gather, mut now, mut position) = (Gather::default(), Instant::ZERO, step);
            assert!(!gather.waits((position, step), 0, now), "nothing was taken before");
            let (begin, from) = (now, position);
            position += step;
            while gather.waits((position, position - from), 0, now) {
                assert!(gather.is_waiting());
                (position, now) = (position + step, now + every);
            }
            assert!(!gather.is_waiting());
            (position - from, now.saturating_since(begin))
        };
        assert_eq!(looks(ENOUGH / 4, Duration::ZERO), (ENOUGH, Duration::ZERO));
        assert_eq!(looks(1, LONGEST / 10), (11, LONGEST));
    }

    #[test]
    fn who_stops_or_answers_or_begins_anew_does_not_wait() {
        let mut now = Instant::ZERO;
        let mut gather = Gather::default();
        assert!(!gather.waits((64, 64), 0, now));
        assert!(gather.waits((128, 64), 0, now), "it follows what was taken");
        assert!(!gather.waits((128, 64), 0, now), "he has stopped");
        assert!(!gather.waits((192, 64), 5, now), "it is an answer to what came");
        assert!(gather.waits((256, 64), 5, now), "and this behind it");
        assert!(!gather.waits((256, 64), 5, now));
        now += SOON;
        assert!(!gather.waits((320, 64), 5, now), "nothing was taken for long");
        now += SOON - Duration::from_nanos(1);
        assert!(gather.waits((384, 64), 5, now), "it is behind that yet");
        gather.push();
        assert!(!gather.waits((448, 128), 5, now), "it is to leave at once");
    }

    #[test]
    fn some_turns_are_without_a_look_but_for_no_longer_than_a_moment() {
        for (every, skipped) in
            [(Duration::ZERO, SKIPS), (PAUSE / 2, 1), (PAUSE, 0), (Duration::from_millis(1), 0)]
        {
            let (mut gather, mut now) = (Gather::default(), Instant::ZERO);
            gather.waits((64, 64), 0, now);
            assert!(gather.waits((128, 64), 0, now));
            let turns = (0..9).take_while(|_| {
                now += every;
                gather.skips(now)
            });
            assert_eq!((turns.count() as u32, gather.is_resting()), (skipped, false), "{every:?}");
        }
    }
}
