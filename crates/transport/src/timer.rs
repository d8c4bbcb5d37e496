//! A hierarchical timer wheel: one deadline for each of up to `capacity` keys, insert, move and
//! cancel in constant time, no allocation after it was made.
//!
//! Six wheels of 64 slots; a slot of wheel n spans 64^n ticks. A timer lies in the lowest wheel whose
//! turn it fits in and moves down as its time comes nearer. A timer never fires early, and late by
//! less than a tick and whatever the caller adds by calling late.

use core::time::Duration;

use fusewire_base::Instant;

const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const NONE: u32 = u32::MAX;
/// The list of timers whose time has come.
const EXPIRED: u16 = (LEVELS * SLOTS) as u16;
/// Not scheduled.
const IDLE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// In ticks since the wheel's origin.
    deadline: u64,
    next: u32,
    previous: u32,
    /// Which list it is in: level * SLOTS + slot, `EXPIRED` or `IDLE`.
    list: u16,
}

/// The wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    origin: Instant,
    tick_ns: u64,
    /// Ticks that have passed and were handled.
    current: u64,
    entries: Box<[Entry]>,
    heads: Box<[u32]>,
    /// A bit for each slot that holds something.
    occupied: [u64; LEVELS],
}

impl Wheel {
    /// An empty wheel for the keys `0..capacity`.
    pub fn new(now: Instant, tick: Duration, capacity: usize) -> Self {
        let idle = Entry { deadline: 0, next: NONE, previous: NONE, list: IDLE };
        Wheel {
            origin: now,
            tick_ns: u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX).max(1),
            current: 0,
            entries: vec![idle; capacity.min(NONE as usize)].into_boxed_slice(),
            heads: vec![NONE; LEVELS * SLOTS + 1].into_boxed_slice(),
            occupied: [0; LEVELS],
        }
    }

    /// Sets the deadline of `key`, in place of the one it had. Returns false when there is no such key.
    pub fn schedule(&mut self, key: u32, at: Instant) -> bool {
        let Some(entry) = self.entries.get(key as usize) else { return false };
        // Rounded up: never early.
        let deadline = (at - self.origin).as_nanos().div_ceil(u128::from(self.tick_ns));
        let deadline = u64::try_from(deadline).unwrap_or(u64::MAX);
        if entry.list != IDLE && entry.deadline == deadline {
            return true;
        }
        self.unlink(key);
        self.entries[key as usize].deadline = deadline;
        let list = self.list_for(deadline);
        self.link(key, list);
        true
    }

    /// [`Wheel::schedule`], or [`Wheel::cancel`] where there is no deadline.
    pub fn set(&mut self, key: u32, at: Option<Instant>) {
        match at {
            Some(at) => {
                self.schedule(key, at);
            }
            None => self.cancel(key),
        }
    }

    /// Takes the deadline of `key` away, also when it has expired and was not taken yet.
    #[inline]
    pub fn cancel(&mut self, key: u32) {
        if (key as usize) < self.entries.len() {
            self.unlink(key);
        }
    }

    /// The next time at which [`Wheel::advance`] has something to do; nothing fires before. It is
    /// exact for a deadline within 64 ticks, and may come early for one further off.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.heads[EXPIRED as usize] != NONE {
            return Some(self.instant(self.current));
        }
        self.next_event().map(|tick| self.instant(tick))
    }

    /// Time is now `now`: moves what is due to the expired list, from where
    /// [`Wheel::pop_expired`] takes it.
    pub fn advance(&mut self, now: Instant) {
        let target = (now - self.origin).as_nanos() / u128::from(self.tick_ns);
        let target = u64::try_from(target).unwrap_or(u64::MAX);
        while let Some(event) = self.next_event().filter(|event| *event <= target) {
            self.current = event;
            self.turn();
        }
        self.current = self.current.max(target);
    }

    /// Takes a key that is due. Order among keys that are due is not defined.
    #[inline]
    pub fn pop_expired(&mut self) -> Option<u32> {
        let key = self.heads[EXPIRED as usize];
        if key == NONE {
            return None;
        }
        self.unlink(key);
        Some(key)
    }

    fn instant(&self, tick: u64) -> Instant {
        self.origin + Duration::from_nanos(tick.saturating_mul(self.tick_ns))
    }

    /// The first tick, not before `current`, at which a slot must be emptied.
    fn next_event(&self) -> Option<u64> {
        let mut first: Option<u64> = None;
        for level in 0..LEVELS {
            let occupied = self.occupied[level];
            if occupied == 0 {
                continue;
            }
            let shift = SLOT_BITS * level as u32;
            let position = self.current >> shift;
            // Bit n of `ahead` is the slot n steps after the one that holds `current`.
            let ahead = occupied.rotate_right((position % SLOTS as u64) as u32);
            let steps = u64::from(ahead.trailing_zeros());
            let event = ((position + steps) << shift).max(self.current);
            first = Some(first.map_or(event, |f| f.min(event)));
        }
        first
    }

    /// Empties every slot that begins at or holds `current`: due timers expire, others move down.
    fn turn(&mut self) {
        for level in (0..LEVELS).rev() {
            let slot = (self.current >> (SLOT_BITS * level as u32)) as usize % SLOTS;
            let list = (level * SLOTS + slot) as u16;
            // A timer that goes back into the same slot (one of the farthest future) is met once.
            let mut key = self.heads[list as usize];
            while key != NONE {
                let next = self.entries[key as usize].next;
                let target = self.list_for(self.entries[key as usize].deadline);
                if target != list {
                    self.unlink(key);
                    self.link(key, target);
                }
                key = next;
            }
        }
    }

    /// The list in which a timer of `deadline` belongs now.
    fn list_for(&self, deadline: u64) -> u16 {
        if deadline <= self.current {
            return EXPIRED;
        }
        // The lowest level at which deadline and current lie in the same turn.
        let differ = deadline ^ self.current;
        let level = ((63 - differ.leading_zeros()) / SLOT_BITS) as usize;
        if level >= LEVELS {
            // In a later turn of the last wheel. Less than a turn away it has its slot there; beyond,
            // it is looked at again when the farthest slot comes.
            let shift = SLOT_BITS * (LEVELS as u32 - 1);
            let farthest = (self.current >> shift) + SLOTS as u64 - 1;
            let slot = (deadline >> shift).min(farthest) as usize % SLOTS;
            return ((LEVELS - 1) * SLOTS + slot) as u16;
        }
        let slot = (deadline >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        (level * SLOTS + slot) as u16
    }

    fn link(&mut self, key: u32, list: u16) {
        let head = self.heads[list as usize];
        let entry = &mut self.entries[key as usize];
        entry.list = list;
        entry.previous = NONE;
        entry.next = head;
        if head != NONE {
            self.entries[head as usize].previous = key;
        }
        self.heads[list as usize] = key;
        if list < EXPIRED {
            self.occupied[list as usize / SLOTS] |= 1 << (list as usize % SLOTS);
        }
    }

    fn unlink(&mut self, key: u32) {
        let entry = self.entries[key as usize];
        if entry.list == IDLE {
            return;
        }
        if entry.previous == NONE {
            self.heads[entry.list as usize] = entry.next;
        } else {
            self.entries[entry.previous as usize].next = entry.next;
        }
        if entry.next != NONE {
            self.entries[entry.next as usize].previous = entry.previous;
        }
        if entry.list < EXPIRED && self.heads[entry.list as usize] == NONE {
            self.occupied[entry.list as usize / SLOTS] &= !(1 << (entry.list as usize % SLOTS));
        }
        self.entries[key as usize].list = IDLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    /// Checks lists and bitmaps against one another; how many timers there are.
    fn check(wheel: &Wheel) -> usize {
        let mut seen = 0;
        for list in 0..wheel.heads.len() {
            let mut key = wheel.heads[list];
            let mut previous = NONE;
            if list < EXPIRED as usize {
                let bit = wheel.occupied[list / SLOTS] >> (list % SLOTS) & 1;
                assert_eq!(bit == 1, key != NONE);
            }
            while key != NONE {
                let entry = &wheel.entries[key as usize];
                assert_eq!((entry.list as usize, entry.previous), (list, previous));
                assert_eq!(entry.deadline <= wheel.current, list == EXPIRED as usize);
                previous = key;
                key = entry.next;
                seen += 1;
            }
        }
        seen
    }

    /// A wheel against a sorted map, from a time and with deadlines up to 2^`bits` ticks away.
    fn against_a_map(seed: u64, origin: Instant, skip: u64, bits: u64) {
        let mut random = Random(seed);
        let tick = Duration::from_nanos(1 << random.below(20));
        let keys = 1 + random.below(200);
        let mut wheel = Wheel::new(origin, tick, keys as usize);
        let mut now = origin + Duration::from_nanos(skip);
        wheel.advance(now);
        let mut map: BTreeMap<u32, Instant> = BTreeMap::new();
        for step in 0..2000 {
            let key = random.below(keys) as u32;
            let bits = random.below(bits + 1);
            let away = random.below(1 << bits);
            match random.below(4) {
                0 => {
                    wheel.cancel(key);
                    map.remove(&key);
                }
                1 | 2 => {
                    let at =
                        now + Duration::from_nanos(away.saturating_mul(tick.as_nanos() as u64));
                    assert!(wheel.schedule(key, at));
                    map.insert(key, at);
                }
                _ => {
                    let least = map.values().min().copied();
                    let next = wheel.next_deadline();
                    assert_eq!(next.is_some(), least.is_some());
                    if let (Some(next), Some(least)) = (next, least) {
                        assert!(next <= least.max(now) + tick, "woken late");
                        if random.below(2) == 0 {
                            now = next.max(now)
                        } else {
                            now = least.max(now)
                        }
                    } else {
                        now += Duration::from_nanos(away);
                    }
                    wheel.advance(now);
                    while let Some(key) = wheel.pop_expired() {
                        let at = map.remove(&key).expect("it was scheduled");
                        assert!(at <= now, "seed {seed}, step {step}: {key} fired early");
                    }
                    for at in map.values() {
                        assert!(*at + tick > now, "seed {seed}, step {step}: late");
                    }
                }
            }
            if step % 16 == 0 {
                assert_eq!(check(&wheel), map.len());
            }
        }
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 1..=100 {
            against_a_map(seed, Instant::from_ms(seed * 1000), 0, 10);
            against_a_map(seed, Instant::ZERO, seed * 977, 24);
        }
    }

    #[test]
    fn agrees_across_a_whole_turn_and_beyond() {
        for seed in 1..=30 {
            against_a_map(seed, Instant::ZERO, (1 << 36) - 500, 12);
            against_a_map(seed, Instant::ZERO, (1 << 36) - 500, 40);
        }
    }

    #[test]
    fn moves_and_cancels() {
        let mut wheel = Wheel::new(Instant::ZERO, Duration::from_millis(1), 4);
        assert!(wheel.next_deadline().is_none());
        assert!(wheel.schedule(0, Instant::from_ms(10)));
        assert!(wheel.schedule(1, Instant::from_ms(10)));
        assert!(wheel.schedule(0, Instant::from_ms(30)));
        wheel.cancel(2);
        wheel.advance(Instant::from_ms(10));
        assert_eq!((wheel.pop_expired(), wheel.pop_expired()), (Some(1), None));
        assert_eq!(wheel.next_deadline(), Some(Instant::from_ms(30)));
        wheel.advance(Instant::from_ms(30));
        wheel.cancel(0);
        assert_eq!(wheel.pop_expired(), None, "cancelled after it was due");
        assert!(!wheel.schedule(4, Instant::ZERO), "no such key");
        wheel.schedule(3, Instant::from_ms(1));
        assert_eq!(wheel.pop_expired(), Some(3), "a deadline in the past is due at once");
    }

    #[test]
    fn ten_thousand_timers_cost_a_bounded_number_of_wakes() {
        let mut wheel = Wheel::new(Instant::ZERO, Duration::from_micros(100), 10_000);
        for key in 0..10_000 {
            wheel.schedule(key, Instant::from_ms(200 + u64::from(key) % 977));
        }
        let (mut wakes, mut fired) = (0, 0);
        while let Some(next) = wheel.next_deadline() {
            wheel.advance(next);
            while wheel.pop_expired().is_some() {
                fired += 1;
            }
            wakes += 1;
        }
        assert_eq!(fired, 10_000);
        assert!(wakes < 977 + 300, "{wakes} wake-ups for 977 times");
    }
}
