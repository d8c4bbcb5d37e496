//! The protocol of who waits for many leases at once, as `epoll_wait` does: one bell wakes him for all of them, and none rings
//! while he is awake. No memory and no descriptor here, as in [`crate::ring`].
//!
//! ```text
//!  outboard   shows what came ▸ sets the lease's bit in Ready ▸ fence ▸ Asleep? ─yes─▶ Asleep := 0, rings that lease's bell
//!  waiter     Asleep := 1 ▸ fence ▸ Ready? ─no bit─▶ sleeps in the kernel, which shows the bell
//! ```
//! A bit of [`Ready`](Word::Ready) says: look at this lease. It may be set where nothing is; it is never clear where something
//! came since the waiter has looked: he [clears](clear) it before he looks, or looks once more after that.
//! The words are the application's to write: whatever is in them, the outboard rings a bell of its own, or does not.

use crate::words::Words;

/// Words of a waiter, in each region that he has leases in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Leases to be looked at, a bit each.
    Ready,
    /// Not 0: he sleeps, or is about to.
    Asleep,
}

impl From<Word> for usize {
    fn from(word: Word) -> usize {
        word as usize
    }
}

/// The outboard has shown something of this lease: true when the waiter sleeps, and one of the leases that were marked is to be
/// rung for.
pub fn mark(words: &impl Words<Word>, bit: u64) -> bool {
    words.fence();
    if words.load(Word::Ready) & bit == 0 {
        words.fetch_or(Word::Ready, bit);
        words.fence();
    }
    is_asleep(words)
}

/// The waiter sleeps, as far as he says.
pub fn is_asleep(words: &impl Words<Word>) -> bool {
    words.load(Word::Asleep) != 0
}

/// The waiter is about to sleep; false when he had better not: there is a lease to be looked at.
pub fn sleeps(words: &impl Words<Word>) -> bool {
    words.store(Word::Asleep, 1);
    words.fence();
    words.load(Word::Ready) == 0
}

/// He does not sleep any more: he wakes, or somebody rings for him.
pub fn wakes(words: &impl Words<Word>) {
    if is_asleep(words) {
        words.store(Word::Asleep, 0);
    }
}

/// The waiter looks at this lease after that, or what comes then is marked anew.
pub fn clear(words: &impl Words<Word>, bit: u64) {
    let mut ready = words.load(Word::Ready);
    while ready & bit != 0 {
        match words.compare_exchange(Word::Ready, ready, ready & !bit) {
            Ok(_) => break,
            Err(now) => ready = now,
        }
    }
    words.fence();
}

#[cfg(test)]
#[path = "waiter_tests.rs"]
mod tests;
