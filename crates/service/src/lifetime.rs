//! ADUs that are of no use after a while (RFC 9622, msgLifetime), in lanes by importance (msgPriority).
//!
//! ```text
//!  push ──▶ lane of its type ──▶ take, the most important first ──▶ sent ──▶ resent … ──▶ done
//!             │ too old, or displaced            is_over before each resend │ give_up
//!             ▼                                                             ▼
//!  to the sender: Lost, with the ADU             to the receiver: Skip, with the numbers
//! ```
//! Who drives it says what time it is; nothing here waits.

use core::time::Duration;
use std::collections::VecDeque;

use fusewire_base::Instant;

/// Notices to the receiver that may wait in a lane; of more, the oldest is let go: the receiver's own patience makes up for it.
const SKIPS_MAX: usize = 32;

/// Until when an ADU is of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    end: Option<Instant>,
}

impl Lifetime {
    /// For ever.
    pub const ENDLESS: Lifetime = Lifetime { end: None };

    /// For `long` from `now` on.
    pub fn of(now: Instant, long: Duration) -> Lifetime {
        Lifetime { end: Some(now + long) }
    }

    /// It has ended.
    pub fn is_over(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| end <= now)
    }

    /// When it ends.
    pub fn end(&self) -> Option<Instant> {
        self.end
    }
}

/// What a queue holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// ADUs, of all lanes together.
    pub adus: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// So many ADUs may be taken from other lanes while one waits at the front of its own; then it is next. Where several have
    /// waited so long, they go one after the other: none waits for more than `patience` and one for each other lane.
    pub patience: u32,
}

/// An ADU as it waits, and as it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<T> {
    /// Its lane, and its number in it, from 0.
    pub lane: usize,
    /// See `lane`.
    pub number: u64,
    /// Of so many bytes.
    pub bytes: usize,
    /// Until when it is of use.
    pub lifetime: Lifetime,
    /// What was given.
    pub adu: T,
}

/// Why an ADU will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its lifetime ended.
    Expired,
    /// It made room for one that is more important.
    Displaced,
    /// It was sent, and nobody has said in time whether it came.
    Unknown,
}

/// What the receiver is to be told: these numbers of this lane will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The lane.
    pub lane: usize,
    /// The first number.
    pub first: u64,
    /// How many.
    pub count: u64,
}

#[derive(Clone, Debug)]
struct Lane<T> {
    priority: u32,
    items: VecDeque<Item<T>>,
    next: u64,
    /// Taken from others while something waited here.
    passed: u32,
    skips: VecDeque<Skip>,
}

/// The ADUs that wait at a sender.
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_service::lifetime::{Lifetime, Limits, Queue, Skip, Why};
///
/// let limits = Limits { adus: 100, bytes: 1 << 20, patience: 10 };
/// // Lane 0 for alarms, lane 1 for samples.
/// let mut queue = Queue::new(limits, &[0, 100]);
/// let now = Instant::ZERO;
/// for sample in ["old", "older"] {
///     queue.push(1, 5, Lifetime::of(now, Duration::from_millis(10)), sample).unwrap();
/// }
/// queue.push(0, 5, Lifetime::ENDLESS, "alarm").unwrap();
///
/// let later = Instant::from_ms(20);
/// assert_eq!(queue.take(later).unwrap().adu, "alarm");
/// assert!(queue.take(later).is_none());
/// let (item, why) = queue.poll_lost().unwrap();
/// assert_eq!((item.adu, why), ("old", Why::Expired));
/// assert_eq!(queue.poll_skip(), Some(Skip { lane: 1, first: 0, count: 2 }));
/// ```
#[derive(Clone, Debug)]
pub struct Queue<T> {
    limits: Limits,
    lanes: Vec<Lane<T>>,
    adus: usize,
    bytes: usize,
    /// No lifetime ends before.
    earliest: Option<Instant>,
    lost: VecDeque<(Item<T>, Why)>,
}

impl<T> Queue<T> {
    /// Without ADUs; a lane for each of `priorities`, of which the lowest number goes first (RFC 9622: msgPriority).
    pub fn new(limits: Limits, priorities: &[u32]) -> Queue<T> {
        let lane = |&priority: &u32| Lane {
            priority,
            items: VecDeque::with_capacity(limits.adus),
            next: 0,
            passed: 0,
            skips: VecDeque::with_capacity(SKIPS_MAX),
        };
        Queue {
            limits,
            lanes: priorities.iter().map(lane).collect(),
            adus: 0,
            bytes: 0,
            earliest: None,
            lost: VecDeque::with_capacity(2 * limits.adus),
        }
    }

    /// ADUs and bytes that wait.
    pub fn len(&self) -> (usize, usize) {
        (self.adus, self.bytes)
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.adus == 0
    }

    /// The number that the next ADU of a lane has: so many were pushed before (for [`order`](crate::order)'s barriers).
    pub fn next_number(&self, lane: usize) -> u64 {
        self.lanes[lane].next
    }

    /// Queues an ADU of `bytes`; its number.
    ///
    /// # Errors
    /// Gives it back when there is no room even without those that are less important, of which the newest go first.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn push(
        &mut self,
        lane: usize,
        bytes: usize,
        lifetime: Lifetime,
        adu: T,
    ) -> Result<u64, T> {
        let priority = self.lanes[lane].priority;
        if !self.has_room(priority, bytes) {
            return Err(adu);
        }
        while self.adus == self.limits.adus || self.bytes + bytes > self.limits.bytes {
            let least = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.items.is_empty());
            let Some((least, _)) = least.max_by_key(|(_, lane)| lane.priority) else { break };
            if let Some(item) = self.lanes[least].items.pop_back() {
                self.lose(item, Why::Displaced);
            }
        }
        let number = self.lanes[lane].next;
        self.lanes[lane].next += 1;
        self.lanes[lane].items.push_back(Item { lane, number, bytes, lifetime, adu });
        (self.adus, self.bytes) = (self.adus + 1, self.bytes + bytes);
        self.earliest = [self.earliest, lifetime.end].into_iter().flatten().min();
        Ok(number)
    }

    /// There is room, if all that is less important goes.
    fn has_room(&self, priority: u32, bytes: usize) -> bool {
        let kept = self.lanes.iter().filter(|lane| lane.priority <= priority);
        let items = kept.flat_map(|lane| &lane.items);
        let (adus, kept) = items.fold((0, 0), |(n, sum), item| (n + 1, sum + item.bytes));
        adus < self.limits.adus && bytes <= self.limits.bytes.saturating_sub(kept)
    }

    /// Something of this lane waits.
    pub fn waits(&self, lane: usize) -> bool {
        !self.lanes[lane].items.is_empty()
    }

    /// The lane of the ADU that goes next. What is too old does not.
    pub fn next_lane(&mut self, now: Instant) -> Option<usize> {
        self.handle_timeout(now);
        let waiting = || self.lanes.iter().enumerate().filter(|(_, lane)| !lane.items.is_empty());
        let first = || waiting().min_by_key(|(_, lane)| lane.priority).map(|(at, _)| at);
        self.starved(|_| true).or_else(first)
    }

    /// The lane that is next as so many were taken from others while something waited in it, of those that `may`.
    pub fn starved(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate().filter(|(at, _)| may(*at));
        let patience = self.limits.patience;
        let starved = lanes.filter(|(_, lane)| lane.passed >= patience && !lane.items.is_empty());
        starved.max_by_key(|(_, lane)| lane.passed).map(|(at, _)| at)
    }

    /// The ADU that goes next.
    pub fn take(&mut self, now: Instant) -> Option<Item<T>> {
        let at = self.next_lane(now)?;
        self.take_of(at)
    }

    /// The ADU of this lane that goes next, which may be too old: [`next_lane`](Self::next_lane) lets those go.
    pub fn take_of(&mut self, at: usize) -> Option<Item<T>> {
        let item = self.lanes[at].items.pop_front()?;
        (self.adus, self.bytes) = (self.adus - 1, self.bytes - item.bytes);
        for (other, lane) in self.lanes.iter_mut().enumerate() {
            let waits = other != at && !lane.items.is_empty();
            lane.passed = if waits { lane.passed + 1 } else { 0 };
        }
        Some(item)
    }

    /// One that was taken, and is not sent again because its lifetime has ended: both sides are told.
    pub fn give_up(&mut self, item: Item<T>) {
        self.tell(item, Why::Expired);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// Time has passed: what has become too old is lost.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        self.earliest = None;
        for lane in 0..self.lanes.len() {
            // Once around: what is kept comes to its place again.
            for _ in 0..self.lanes[lane].items.len() {
                let Some(item) = self.lanes[lane].items.pop_front() else { break };
                if item.lifetime.is_over(now) {
                    self.lose(item, Why::Expired);
                    continue;
                }
                self.earliest = [self.earliest, item.lifetime.end].into_iter().flatten().min();
                self.lanes[lane].items.push_back(item);
            }
        }
    }

    fn lose(&mut self, item: Item<T>, why: Why) {
        (self.adus, self.bytes) = (self.adus - 1, self.bytes - item.bytes);
        self.tell(item, why);
    }

    fn tell(&mut self, item: Item<T>, why: Why) {
        let Lane { skips, .. } = &mut self.lanes[item.lane];
        let number = item.number;
        // What is lost in a row is one notice, from whichever end it grows.
        let joined = skips.iter_mut().find_map(|skip| {
            if skip.first + skip.count == number {
                skip.count += 1;
            } else if number + 1 == skip.first {
                (skip.first, skip.count) = (number, skip.count + 1);
            } else {
                return None;
            }
            Some(())
        });
        if joined.is_none() {
            if skips.len() == SKIPS_MAX {
                skips.pop_front();
            }
            skips.push_back(Skip { lane: item.lane, first: number, count: 1 });
        }
        if self.lost.len() == 2 * self.limits.adus {
            self.lost.pop_front();
        }
        self.lost.push_back((item, why));
    }

    /// Something of this lane went that was not taken from here: those that wait in others wait for it, too.
    pub fn pass(&mut self, at: usize) {
        let others = self.lanes.iter_mut().enumerate().filter(|(other, _)| *other != at);
        for (_, lane) in others.filter(|(_, lane)| !lane.items.is_empty()) {
            lane.passed += 1;
        }
    }

    /// For the sender: an ADU that will not arrive, and why. Those that nobody asks for are forgotten, the oldest first, when
    /// they are twice as many as the queue holds.
    pub fn poll_lost(&mut self) -> Option<(Item<T>, Why)> {
        self.lost.pop_front()
    }

    /// For the receiver: numbers that it need not wait for. A notice may get lost: it saves time, nothing rests on it.
    pub fn poll_skip(&mut self) -> Option<Skip> {
        self.lanes.iter_mut().find_map(|lane| lane.skips.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_testkit::for_each_seed;

    const LIMITS: Limits = Limits { adus: 8, bytes: 100, patience: 3 };

    fn ms(ms: u64) -> Instant {
        Instant::from_ms(ms)
    }

    #[test]
    fn the_least_important_and_newest_make_room() {
        let mut queue = Queue::new(LIMITS, &[5, 1]);
        for n in 0..4 {
            assert_eq!(queue.push(0, 25, Lifetime::ENDLESS, n), Ok(n));
        }
        assert_eq!(queue.push(0, 1, Lifetime::ENDLESS, 9), Err(9), "none is less important");
        assert_eq!(queue.push(1, 101, Lifetime::ENDLESS, 9), Err(9), "it never fits");
        assert_eq!(queue.len(), (4, 100), "and nothing went for it");
        assert_eq!(queue.push(1, 40, Lifetime::ENDLESS, 9), Ok(0));
        assert_eq!(queue.len(), (3, 90));
        let lost: Vec<_> = core::iter::from_fn(|| queue.poll_lost()).collect();
        assert!(
            lost.iter().map(|(item, why)| (item.adu, *why)).eq([3, 2].map(|n| (n, Why::Displaced)))
        );
        assert_eq!(queue.poll_skip(), Some(Skip { lane: 0, first: 2, count: 2 }));
        assert_eq!(queue.poll_skip(), None);
        assert_eq!(queue.push(0, 1, Lifetime::ENDLESS, 4), Ok(4), "a number is used once");
    }

    #[test]
    fn one_that_was_taken_ends_before_it_is_sent_again() {
        let mut queue = Queue::new(LIMITS, &[0]);
        queue.push(0, 1, Lifetime::of(ms(0), Duration::from_millis(50)), "frame").unwrap();
        let item = queue.take(ms(10)).unwrap();
        assert!(!item.lifetime.is_over(ms(49)) && item.lifetime.is_over(ms(50)));
        queue.give_up(item);
        assert_eq!(
            queue.poll_lost().map(|(item, why)| (item.adu, why)),
            Some(("frame", Why::Expired))
        );
        assert_eq!(queue.poll_skip(), Some(Skip { lane: 0, first: 0, count: 1 }));
    }

    #[test]
    fn nobody_starves() {
        let mut queue = Queue::new(Limits { adus: 1000, bytes: 1000, patience: 3 }, &[0, 1, 2]);
        for lane in 0..3 {
            for _ in 0..60 {
                queue.push(lane, 1, Lifetime::ENDLESS, ()).unwrap();
            }
        }
        let mut since = [0; 3];
        for _ in 0..60 {
            let lane = queue.take(ms(0)).unwrap().lane;
            for (other, since) in since.iter_mut().enumerate() {
                *since = if other == lane { 0 } else { *since + 1 };
                assert!(*since <= 3 + 2, "lane {other} waits for {since}");
            }
        }
        let left = |lane: usize| queue.lanes[lane].items.len();
        assert!(left(0) < left(1) && left(0) < left(2), "importance still counts");
    }

    #[test]
    fn who_waits_longest_hides_nobody_where_he_may_not_go() {
        let mut queue = Queue::new(LIMITS, &[0, 1, 2]);
        for (lane, count) in [(2, 1), (0, 5)] {
            (0..count).for_each(|_| assert!(queue.push(lane, 1, Lifetime::ENDLESS, ()).is_ok()));
        }
        queue.take_of(0).unwrap();
        queue.push(1, 1, Lifetime::ENDLESS, ()).unwrap();
        (0..2).for_each(|_| assert!(queue.take_of(0).is_some()));
        assert_eq!(queue.starved(|_| true), Some(2), "three went before it");
        assert_eq!(queue.starved(|lane| lane != 2), None, "only two before this");
        queue.take_of(0).unwrap();
        assert_eq!(queue.next_lane(ms(0)), Some(2));
        assert_eq!(queue.starved(|lane| lane != 2), Some(1), "of the others");
    }

    /// Whatever happens, each ADU is taken or told lost once, none is taken when it is over, and the bounds hold.
    #[test]
    fn each_is_taken_or_told_once() {
        for_each_seed("each_is_taken_or_told_once", |_, random| {
            let mut queue = Queue::new(LIMITS, &[3, 0, 3]);
            let (mut now, mut next) = (ms(0), 0usize);
            let mut fate: Vec<Option<bool>> = Vec::new();
            for _ in 0..400 {
                now += random.duration_below(Duration::from_millis(5));
                if random.chance(0.6) {
                    let long = random.duration_below(Duration::from_millis(40));
                    let lifetime = match random.chance(0.8) {
                        true => Lifetime::of(now, long),
                        false => Lifetime::ENDLESS,
                    };
                    let (lane, bytes) = (random.below(3) as usize, random.range(1..40) as usize);
                    if queue.push(lane, bytes, lifetime, next).is_ok() {
                        fate.push(None);
                        next += 1;
                    }
                } else if let Some(item) = queue.take(now) {
                    assert!(!item.lifetime.is_over(now));
                    assert_eq!(fate[item.adu].replace(true), None);
                }
                while let Some((item, _)) = queue.poll_lost() {
                    assert_eq!(fate[item.adu].replace(false), None);
                }
                let (adus, bytes) = queue.len();
                assert!(adus <= LIMITS.adus && bytes <= LIMITS.bytes);
                let waiting = fate.iter().filter(|fate| fate.is_none()).count();
                assert_eq!(adus, waiting);
            }
        });
    }
}
