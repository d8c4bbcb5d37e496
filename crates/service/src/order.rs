//! In which order ADUs are delivered: those of a lane in sequence, as they come, or only the newest; some after others.
//!
//! ADUs that are to be in order among each other share a lane and its numbers: all of a session (`order = "all"`), those of one
//! type (`"type"`). What is not there in time is given up, and that is told, once: [`Event::Gap`].
//!
//! Numbers are the peer's, after its records have proven themselves. Whatever they are, a lane holds no more than its window,
//! and gives up no more than its window at once.

use core::time::Duration;

use fusewire_base::Instant;

use crate::lifetime::Skip;
pub use crate::profile::Order;

/// Lanes that one lane can come after.
pub const AFTER_MAX: usize = 4;

/// A lane.
#[derive(Clone, Copy, Debug)]
pub struct Lane<'a> {
    /// How: [`Order::All`] and [`Order::Type`] are alike here, by the numbers of the lane, whichever types share it.
    pub order: Order,
    /// ADUs from the first that is missing to the last that is taken.
    pub window: usize,
    /// How long is waited for one that is missing, from when a later one is there. `None`: for ever, as it will be sent again.
    pub patience: Option<Duration>,
    /// An ADU comes after all of these lanes that were sent before it.
    pub after: &'a [usize],
}

/// What is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// An ADU.
    Adu {
        /// Its lane, and its number there.
        lane: usize,
        /// See `lane`.
        number: u64,
        /// What came.
        adu: T,
    },
    /// These will not be delivered: lost, expired, or overtaken by a newer one. Each number is told once.
    Gap(Skip),
}

/// Why an ADU was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It was delivered, is held, or was given up.
    Old,
    /// What is given back was held, and is older than what was taken in its place.
    Overtaken,
    /// Its number lies beyond the window: it would be taken once what is missing has come.
    Beyond,
}

#[derive(Clone, Debug)]
enum Slot<T> {
    Empty,
    /// It will not come.
    Gone,
    /// It was delivered. When it came.
    Done(Instant),
    /// It waits. When it came, and behind which numbers of the lanes that it comes after.
    Held(Instant, [u64; AFTER_MAX], T),
}

#[derive(Clone, Debug)]
struct Queue<T> {
    order: Order,
    patience: Option<Duration>,
    after: Vec<usize>,
    /// All below was delivered or told gone.
    base: u64,
    slots: Box<[Slot<T>]>,
    held: usize,
    /// Nothing below will come any more.
    gone: u64,
    /// Numbers below this were sent, which is known since.
    expected: Option<(u64, Instant)>,
}

/// What has come and waits for its turn.
///
/// ```
/// use core::time::Duration;
/// use fusewire_base::Instant;
/// use fusewire_service::lifetime::Skip;
/// use fusewire_service::order::{Event, Lane, Order, Orders};
///
/// let blocks = Lane { order: Order::None, window: 64, patience: None, after: &[] };
/// // "Done" comes after all blocks that were sent before it.
/// let done = Lane { order: Order::Type, window: 4, patience: None, after: &[0] };
/// let frames = Lane { order: Order::Newest, window: 1, patience: None, after: &[] };
/// let mut orders = Orders::new(&[blocks, done, frames]);
///
/// let now = Instant::ZERO;
/// orders.push(now, 0, 1, &[], "block 1").unwrap();
/// orders.push(now, 1, 0, &[2], "done").unwrap();
/// assert_eq!(orders.poll(now), Some(Event::Adu { lane: 0, number: 1, adu: "block 1" }));
/// assert_eq!(orders.poll(now), None, "block 0 is missing");
/// orders.push(now, 0, 0, &[], "block 0").unwrap();
/// assert_eq!(orders.poll(now), Some(Event::Adu { lane: 0, number: 0, adu: "block 0" }));
/// assert_eq!(orders.poll(now), Some(Event::Adu { lane: 1, number: 0, adu: "done" }));
///
/// orders.push(now, 2, 5, &[], "frame 5").unwrap();
/// assert!(orders.push(now, 2, 4, &[], "frame 4").is_err());
/// assert_eq!(orders.poll(now), Some(Event::Gap(Skip { lane: 2, first: 0, count: 5 })));
/// assert_eq!(orders.poll(now), Some(Event::Adu { lane: 2, number: 5, adu: "frame 5" }));
/// ```
#[derive(Clone, Debug)]
pub struct Orders<T> {
    lanes: Vec<Queue<T>>,
}

impl<T> Orders<T> {
    /// Without ADUs. A lane of the newest needs no window: it holds one.
    ///
    /// # Panics
    /// If a window is zero, or a lane comes after more than [`AFTER_MAX`], or after one that there is not.
    pub fn new(lanes: &[Lane<'_>]) -> Orders<T> {
        let queue = |lane: &Lane<'_>| {
            assert!(lane.window > 0 && lane.after.len() <= AFTER_MAX);
            assert!(lane.after.iter().all(|&after| after < lanes.len()));
            let window = if lane.order == Order::Newest { 1 } else { lane.window };
            Queue {
                order: lane.order,
                patience: lane.patience,
                after: lane.after.to_vec(),
                base: 0,
                slots: core::iter::repeat_with(|| Slot::Empty).take(window).collect(),
                held: 0,
                gone: 0,
                expected: None,
            }
        };
        Orders { lanes: lanes.iter().map(queue).collect() }
    }

    /// An ADU came. `below` has, for each lane that this one comes after, how many were sent there before it
    /// ([`next_number`](crate::lifetime::Queue::next_number) at the sender).
    ///
    /// # Errors
    /// Gives it back where it is not taken; with [`Refused::Overtaken`] it is, and an older one, that was held, is given back.
    ///
    /// # Panics
    /// If there is no such lane, or `below` is not as long as its `after`.
    pub fn push(
        &mut self,
        now: Instant,
        lane: usize,
        number: u64,
        below: &[u64],
        adu: T,
    ) -> Result<(), (Refused, T)> {
        let queue = &mut self.lanes[lane];
        assert_eq!(below.len(), queue.after.len());
        let mut all = [0; AFTER_MAX];
        all[..below.len()].copy_from_slice(below);
        let pushed = queue.push(now, number, Slot::Held(now, all, adu)).map_err(
            |(refused, slot)| match slot {
                Slot::Held(_, _, adu) => (refused, adu),
                _ => unreachable!("it is what was given, or was held"),
            },
        );
        if !matches!(pushed, Ok(()) | Err((Refused::Overtaken, _))) {
            return pushed;
        }
        for (n, &below) in below.iter().enumerate() {
            let after = self.lanes[lane].after[n];
            let expected = &mut self.lanes[after].expected;
            if expected.is_none_or(|(end, _)| end < below) {
                *expected = Some((below, now));
            }
        }
        pushed
    }

    /// The sender says that these will not come. What lies beyond the window is passed over: it is given up in time.
    pub fn skip(&mut self, skip: Skip) {
        let Some(queue) = self.lanes.get_mut(skip.lane) else { return };
        let window = queue.slots.len() as u64;
        let first = skip.first.max(queue.base);
        let end = skip.first.saturating_add(skip.count).min(queue.base.saturating_add(window));
        if queue.order == Order::Newest {
            return;
        }
        for number in first..end {
            let slot = queue.slot(number);
            if matches!(slot, Slot::Empty) {
                *slot = Slot::Gone;
            }
        }
    }

    /// What lies so far below this number that its window does not hold both is given up, so that it can be taken once all that is
    /// held below has been polled: of a lane whose sender sends nothing again, and tells no [`Skip`].
    pub fn make_room(&mut self, lane: usize, number: u64) {
        let Some(queue) = self.lanes.get_mut(lane) else { return };
        let window = queue.slots.len() as u64;
        queue.gone = queue.gone.max((number.saturating_add(1)).saturating_sub(window));
    }

    /// What is delivered next.
    pub fn poll(&mut self, now: Instant) -> Option<Event<T>> {
        for lane in 0..self.lanes.len() {
            self.lanes[lane].give_up(now);
            if let Some(skip) = self.lanes[lane].take_gap(lane) {
                return Some(Event::Gap(skip));
            }
            if let Some((number, adu)) = self.take(lane) {
                return Some(Event::Adu { lane, number, adu });
            }
        }
        None
    }

    /// When [`poll`](Self::poll) has something without anything having come.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(|queue| queue.gap_due().map(|(_, due)| due)).min()
    }

    /// All of a lane below this was delivered or told gone.
    pub fn base(&self, lane: usize) -> u64 {
        self.lanes[lane].base
    }

    /// ADUs that are held.
    pub fn held(&self) -> usize {
        self.lanes.iter().map(|queue| queue.held).sum()
    }

    fn take(&mut self, lane: usize) -> Option<(u64, T)> {
        let queue = &self.lanes[lane];
        let window = queue.slots.len() as u64;
        let number = match queue.order {
            _ if queue.held == 0 => None,
            Order::All | Order::Type => {
                Some(queue.base).filter(|number| self.may_go(lane, *number))
            }
            Order::None => {
                (queue.base..queue.base.saturating_add(window)).find(|n| self.may_go(lane, *n))
            }
            Order::Newest => Some(queue.base).filter(|number| self.may_go(lane, *number)),
        }?;
        let queue = &mut self.lanes[lane];
        let slot = queue.slot(number);
        let Slot::Held(at, _, adu) = core::mem::replace(slot, Slot::Empty) else { return None };
        *slot = Slot::Done(at);
        queue.held -= 1;
        queue.advance();
        Some((number, adu))
    }

    /// It is held, and what it comes after has been.
    fn may_go(&self, lane: usize, number: u64) -> bool {
        let queue = &self.lanes[lane];
        let Slot::Held(_, below, _) = &queue.slots[queue.at(number)] else { return false };
        queue.after.iter().zip(below).all(|(&after, &below)| self.lanes[after].base >= below)
    }
}

impl<T> Queue<T> {
    fn at(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }

    fn slot(&mut self, number: u64) -> &mut Slot<T> {
        let at = self.at(number);
        &mut self.slots[at]
    }

    fn push(&mut self, now: Instant, number: u64, slot: Slot<T>) -> Result<(), (Refused, Slot<T>)> {
        if number < self.base {
            return Err((Refused::Old, slot));
        }
        if self.order == Order::Newest {
            // `expected` is one past the one that is held.
            if self.held > 0 && self.expected.is_some_and(|(end, _)| number < end) {
                return Err((Refused::Old, slot));
            }
            let old = core::mem::replace(&mut self.slots[0], slot);
            let was_held = core::mem::replace(&mut self.held, 1) > 0;
            self.expected = Some((number.saturating_add(1), now));
            return if was_held { Err((Refused::Overtaken, old)) } else { Ok(()) };
        }
        if number - self.base >= self.slots.len() as u64 {
            return Err((Refused::Beyond, slot));
        }
        let place = self.slot(number);
        match place {
            // It was given up, but nobody was told so.
            Slot::Empty | Slot::Gone => *place = slot,
            _ => return Err((Refused::Old, slot)),
        }
        self.held += 1;
        Ok(())
    }

    /// The base moves over what was delivered.
    fn advance(&mut self) {
        if self.order == Order::Newest {
            self.slots[0] = Slot::Empty;
            self.base += 1;
            return;
        }
        while matches!(self.slot(self.base), Slot::Done(_)) {
            *self.slot(self.base) = Slot::Empty;
            self.base += 1;
        }
    }

    /// What lies at the base and will not come, once.
    fn take_gap(&mut self, lane: usize) -> Option<Skip> {
        let first = self.base;
        if self.order == Order::Newest {
            let (end, _) = self.expected.filter(|_| self.held > 0)?;
            self.base = self.base.max(end - 1);
        } else {
            let window = self.slots.len() as u64;
            loop {
                let is_gone = match *self.slot(self.base) {
                    Slot::Gone => true,
                    Slot::Empty => self.base < self.gone,
                    _ => false,
                };
                // A whole window of them: there is nothing in front of the rest, either.
                if !is_gone || self.base - first == window {
                    break;
                }
                *self.slot(self.base) = Slot::Empty;
                self.base += 1;
            }
            if self.base - first == window {
                self.base = self.base.max(self.gone);
            }
            let end = self.base;
            self.advance();
            return (end > first).then_some(Skip { lane, first, count: end - first });
        }
        (self.base > first).then(|| Skip { lane, first, count: self.base - first })
    }

    /// How far the gap at the base goes, and when it is given up; `None`: there is none, or it is waited for.
    fn gap_due(&self) -> Option<(u64, Instant)> {
        let patience = self.patience.filter(|_| self.order != Order::Newest)?;
        if !matches!(self.slots[self.at(self.base)], Slot::Empty) {
            return None;
        }
        let window = self.slots.len() as u64;
        let behind = (self.base..self.base.saturating_add(window)).filter_map(|number| match self
            .slots[self.at(number)]
        {
            Slot::Done(at) | Slot::Held(at, ..) => Some((number, at)),
            Slot::Empty | Slot::Gone => None,
        });
        // Up to the first; by the one that has waited longest.
        let behind = behind.reduce(|first, other| (first.0, first.1.min(other.1)));
        let expected = self.expected.filter(|(end, _)| *end > self.base);
        let expected = expected.map(|(end, at)| (end.min(self.base.saturating_add(window)), at));
        let (end, at) = match (behind, expected) {
            (Some(behind), _) => behind,
            (None, expected) => expected?,
        };
        Some((end, at + patience))
    }

    /// Gives up what has been waited for long enough.
    fn give_up(&mut self, now: Instant) {
        while let Some((end, due)) = self.gap_due()
            && due <= now
        {
            for number in self.base..end {
                let slot = self.slot(number);
                if matches!(slot, Slot::Empty) {
                    *slot = Slot::Gone;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
