//! Those of a process who wait for many sockets at once: an `epoll` and its descriptors. Leases that one watches are not armed
//! when they are read; who waits looks at their rings himself, and is woken by one bell for all ([`crate::waiter`]).
//!
//! What he waits for besides, and how long, is the kernel's to know: the placeholders stay in its set, and show what they show.
//! A lease that is watched no more is armed, as if nobody had ever watched it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::rings::{Entered, REGIONS, Rings};
use super::way::Way;
use crate::region::{self, SLOTS, WAITERS};
use crate::ring;
use crate::waiter::{self, Word};
use crate::words::Words;

/// Words of a waiter: his name and 1, and how he is; regions that he has leases in; he sleeps, or is about to; somebody waits;
/// where he looks first; whether the kernel was asked last.
const NAME: usize = 0;
const IN: usize = 1;
const ASLEEP: usize = 2;
const BUSY: usize = 3;
const FIRST: usize = 4;
const TURN: usize = 5;
/// He has waited once: he will again.
const WAITED: u64 = 1 << 32;
/// He is watched by means that nobody looks behind: nothing is watched for him.
const NEVER: u64 = 1 << 33;

/// Somebody who waits for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter(usize);

/// A thread waits in his name as long as this lives.
#[derive(Debug)]
pub struct Waiting<'a> {
    rings: &'a Rings,
    number: usize,
}

/// What there is of a lease.
enum Found {
    Nothing,
    /// Something to read, of the socket that is called so, which is told once or as long as it is there.
    Ready(i32, bool),
}

impl Rings {
    fn found(&self, name: u32) -> Option<(usize, u64)> {
        let word = |number: usize| self.waiter_words(number)[NAME].load(Ordering::Acquire);
        (0..WAITERS)
            .map(|number| (number, word(number)))
            .find(|(_, word)| *word as u32 == name.wrapping_add(1) && *word as u32 != 0)
    }

    /// The waiter of this name, for whom something may be watched.
    pub fn waiter(&self, name: u32) -> Option<Waiter> {
        let (number, word) = self.found(name)?;
        (word & NEVER == 0).then_some(Waiter(number))
    }

    /// There is one, or was.
    pub fn has_waiters(&self) -> bool {
        self.has_waiter_word().load(Ordering::Relaxed) != 0
    }

    /// There is one of this name, whether or not something may be watched for him.
    pub fn has_waiter(&self, name: u32) -> bool {
        self.found(name).is_some()
    }

    /// There is one of this name from now on, if there is room.
    pub fn add_waiter(&self, name: u32) {
        if self.found(name).is_some() {
            return;
        }
        let word = u64::from(name.wrapping_add(1));
        self.has_waiter_word().store(1, Ordering::Relaxed);
        let _ = (0..WAITERS).find(|number| {
            let place = &self.waiter_words(*number)[NAME];
            place.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
    }

    /// Whoever has this name may be waited for by means that are not seen here: nothing is watched for him from now on. What
    /// was, [`Rings::watched`] names, for each to be [unwatched](Rings::unwatch).
    pub fn refuse_waiter(&self, name: u32) -> Option<Waiter> {
        let (number, _) = self.found(name)?;
        self.waiter_words(number)[NAME].fetch_or(NEVER, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        Some(Waiter(number))
    }

    /// Nobody has this name any more, and nothing is watched for him.
    pub fn remove_waiter(&self, waiter: Waiter) {
        let words = self.waiter_words(waiter.0);
        words[IN..].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        words[NAME].store(0, Ordering::Release);
    }

    /// Sockets that are watched for somebody, or for anybody, as they are called.
    pub fn watched(&self, waiter: Option<Waiter>) -> impl Iterator<Item = i32> {
        let has = |waiter: &usize| self.waiter_words(*waiter)[IN].load(Ordering::Acquire);
        let regions = (0..WAITERS)
            .filter(move |number| waiter.is_none_or(|waiter| waiter.0 == *number))
            .fold(0, |all, number| all | has(&number));
        let slots = (0..REGIONS * SLOTS).filter(move |slot| regions & 1 << (slot / SLOTS) != 0);
        let words = slots.map(|slot| self.local(slot).watch().load(Ordering::Acquire));
        words
            .filter(move |word| match waiter {
                Some(waiter) => *word as u32 == waiter.0 as u32 + 1,
                None => *word != 0,
            })
            .map(|word| (word >> 32) as i32)
    }

    /// The lease of a stream, of which something was read, is watched from now on for who is called `name`, if he waits; he
    /// calls the socket `key`.
    pub fn watch(&self, p: BorrowedFd<'_>, way: &Way, name: u32, key: i32) {
        let is_watched = |slot: usize| self.local(slot).watch().load(Ordering::Relaxed) != 0;
        let slot = way.token().map(|token| token.slot());
        if slot.is_none_or(|slot| slot >= REGIONS * SLOTS || is_watched(slot)) {
            return;
        }
        let Some((number, _)) = self.found(name) else { return };
        let is_waited = |word: u64| word & (WAITED | NEVER) == WAITED;
        let words = self.waiter_words(number);
        let is_asleep = || words[ASLEEP].load(Ordering::Acquire) != 0;
        if !is_waited(words[NAME].load(Ordering::Acquire)) || is_asleep() {
            return;
        }
        let Some(lease) = self.enter(way) else { return };
        if lease.local.before().load(Ordering::Acquire) != 0 {
            // What the placeholder has, the kernel shows.
            return;
        }
        let watch = (key as u64) << 32 | (number as u64 + 1);
        let (order, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        if lease.local.watch().compare_exchange(0, watch, order, relaxed).is_err() {
            return;
        }
        words[IN].fetch_or(1 << (lease.number() / SLOTS), Ordering::AcqRel);
        let slot = lease.slot();
        slot.set_waiter(Some(number));
        slot.fence();
        // What came before that, nobody has marked.
        region::Waiter { rings: slot.rings, number }.fetch_or(Word::Ready, slot.bit());
        slot.fence();
        if is_asleep() || !is_waited(words[NAME].load(Ordering::Acquire)) {
            lease.unwatch(p);
        } else if lease.local.watch().load(Ordering::Acquire) != watch {
            slot.set_waiter(None);
            slot.fence();
            lease.arm(p);
        }
    }

    /// The lease of a socket is not watched any more: its bell rings for what comes, and for what is there.
    pub fn unwatch(&self, p: BorrowedFd<'_>, way: &Way) {
        let slot = way.token().map(|token| token.slot());
        if slot.is_some_and(|slot| slot < REGIONS * SLOTS)
            && let Some(lease) = self.enter(way)
        {
            lease.unwatch(p);
        }
    }

    /// Who watches this lease is told of what is there, as if it had come now.
    pub fn watch_again(&self, p: BorrowedFd<'_>, way: &Way) {
        let Some(lease) = self.enter(way) else { return };
        let watch = lease.local.watch().load(Ordering::Acquire);
        let Some(number) = (watch as u32 as usize).checked_sub(1).filter(|n| *n < WAITERS) else {
            return;
        };
        let slot = lease.slot();
        region::Waiter { rings: slot.rings, number }.fetch_or(Word::Ready, slot.bit());
        slot.fence();
        if self.waiter_words(number)[ASLEEP].load(Ordering::Acquire) != 0 {
            lease.unwatch(p);
        }
    }

    /// Who waits for this lease and others sleeps, while somebody else did something to it, or is about to, that may have taken
    /// away what was to wake him for all of them: his name. He is to be [refused](Rings::refuse_waiter), and all that he watches
    /// armed.
    pub fn disturbed(&self, way: &Way) -> Option<u32> {
        let slot = way.token()?.slot();
        let watch = (slot < REGIONS * SLOTS).then(|| self.local(slot).watch())?;
        let number = (watch.load(Ordering::Acquire) as u32 as usize).checked_sub(1)?;
        let words = (number < WAITERS).then(|| self.waiter_words(number))?;
        let is_asleep = words[ASLEEP].load(Ordering::Acquire) != 0;
        is_asleep.then(|| (words[NAME].load(Ordering::Acquire) as u32).wrapping_sub(1))
    }

    /// A thread begins to wait in somebody's name; `None`: another does already.
    pub fn wait(&self, waiter: Waiter) -> Option<Waiting<'_>> {
        let words = self.waiter_words(waiter.0);
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        words[BUSY].compare_exchange(0, 1, acquire, relaxed).ok()?;
        if words[NAME].load(relaxed) & WAITED == 0 {
            words[NAME].fetch_or(WAITED, Ordering::AcqRel);
        }
        Some(Waiting { rings: self, number: waiter.0 })
    }
}

impl Entered<'_> {
    fn unwatch(&self, p: BorrowedFd<'_>) {
        if self.local.watch().swap(0, Ordering::AcqRel) != 0 {
            self.slot().set_waiter(None);
            self.slot().fence();
            self.arm(p);
        }
    }
}

impl Waiting<'_> {
    fn words(&self) -> &[AtomicU64] {
        self.rings.waiter_words(self.number)
    }

    /// His words, where he has leases.
    fn each(&self, mut with: impl FnMut(usize, &region::Waiter<'_>)) {
        let mut regions = self.words()[IN].load(Ordering::Acquire);
        while regions != 0 {
            let region = regions.trailing_zeros() as usize;
            regions &= regions - 1;
            if let Some([rings, _]) = self.rings.all.get(region) {
                with(region, &region::Waiter { rings: &rings, number: self.number });
            }
        }
    }

    /// So many leases are to be looked at.
    pub fn marked(&self) -> usize {
        let mut count = 0;
        self.each(|_, waiter| count += waiter.load(Word::Ready).count_ones() as usize);
        count
    }

    /// Every other time: for who has room for one event alone.
    pub fn is_kernels_turn(&self) -> bool {
        self.words()[TURN].fetch_xor(1, Ordering::Relaxed) == 0
    }

    /// He is about to sleep in the kernel; false, and he is not: there is something to look at.
    pub fn sleeps(&self) -> bool {
        self.words()[ASLEEP].store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        let mut is_quiet = true;
        self.each(|_, waiter| is_quiet &= is_quiet && waiter::sleeps(waiter));
        if !is_quiet {
            self.wakes();
        }
        is_quiet
    }

    /// He has slept.
    pub fn wakes(&self) {
        self.words()[ASLEEP].store(0, Ordering::Release);
        self.each(|_, waiter| waiter::wakes(waiter));
    }

    /// Looks at the leases that are marked. `way` gives that of a socket by what it is called, and whether it is told once for
    /// what comes or as long as it is there; `None`: it is not waited for. `take` is given each that has something; false: no
    /// more.
    pub fn look<'w>(
        &self,
        way: impl Fn(i32) -> Option<(&'w Way, bool)>,
        mut take: impl FnMut(i32) -> bool,
    ) {
        let first = self.words()[FIRST].load(Ordering::Relaxed) as usize;
        let mut next = None;
        for is_behind in [true, false] {
            self.each(|region, waiter| {
                let mut bits = waiter.load(Word::Ready);
                while bits != 0 && next.is_none() {
                    let index = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let slot = region * SLOTS + index;
                    if (slot >= first) != is_behind {
                        continue;
                    }
                    if let Found::Ready(key, is_once) = self.look_at(waiter, slot, index, &way)
                        && !take(key)
                    {
                        if is_once {
                            waiter.fetch_or(Word::Ready, 1 << index);
                        }
                        next = Some(slot);
                    }
                }
            });
        }
        if let Some(next) = next {
            // Those that found no room come first.
            self.words()[FIRST].store(next as u64, Ordering::Relaxed);
        }
    }

    fn look_at<'w>(
        &self,
        waiter: &region::Waiter<'_>,
        slot: usize,
        index: usize,
        way: impl Fn(i32) -> Option<(&'w Way, bool)>,
    ) -> Found {
        let bit = 1 << index;
        if index >= SLOTS {
            waiter::clear(waiter, bit);
            return Found::Nothing;
        }
        let watch = self.rings.local(slot).watch().load(Ordering::Acquire);
        let key = (watch >> 32) as i32;
        let is_his = watch as u32 == self.number as u32 + 1;
        let way = if is_his { way(key) } else { None };
        let is_it = |way: &Way| way.token().is_some_and(|token| token.slot() == slot);
        let entered = way.filter(|(way, _)| is_it(way)).and_then(|(way, is_once)| {
            Some((self.rings.enter(way).filter(|lease| lease.number() == slot)?, is_once))
        });
        let Some((lease, is_once)) = entered else {
            waiter::clear(waiter, bit);
            return Found::Nothing;
        };
        // Of one that was taken back the placeholder tells.
        let has_some = || ring::unread(&lease.slot()).is_ok_and(|(_, len)| len > 0);
        if is_once {
            waiter::clear(waiter, bit);
            return if has_some() { Found::Ready(key, true) } else { Found::Nothing };
        }
        if has_some() {
            return Found::Ready(key, false);
        }
        waiter::clear(waiter, bit);
        if !has_some() {
            return Found::Nothing;
        }
        waiter.fetch_or(Word::Ready, bit);
        Found::Ready(key, false)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.words()[BUSY].store(0, Ordering::Release);
    }
}
