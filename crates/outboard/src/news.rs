//! How an application tells the outboard that there is news in memory that the two share, and wakes it only where it sleeps. No
//! memory and no descriptor here, as in [`crate::ring`].
//!
//! ```text
//!  application  shows what is new ▸ fence ▸ sets its bit in Told ▸ fence ▸ first, and Asleep? ─yes─▶ wakes the outboard
//!  outboard     Asleep := 1 ▸ fence ▸ Told? ─no bit─▶ sleeps in the kernel
//! ```
//! Whoever sets the first bit wakes it, and it hears of all then. The bits are the application's to write: any may be set.

use std::sync::atomic::{Ordering, fence};

use fusewire_device::Shared;

use crate::words::Words;

/// The two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// What there is news of, a bit each: the application's.
    Told,
    /// Not 0: the outboard sleeps, or is about to. The application reads it.
    Asleep,
}

impl From<Word> for usize {
    fn from(word: Word) -> usize {
        word as usize
    }
}

/// Where they lie: at the front of two files, of which the application reads the second.
#[derive(Clone, Copy, Debug)]
pub struct News<'a> {
    /// What the application writes.
    pub told: &'a Shared,
    /// What it reads.
    pub asleep: &'a Shared,
}

impl News<'_> {
    fn file(&self, word: Word) -> &Shared {
        match word {
            Word::Told => self.told,
            Word::Asleep => self.asleep,
        }
    }
}

impl Words<Word> for News<'_> {
    fn load(&self, word: Word) -> u64 {
        self.file(word).load(0)
    }
    fn store(&self, word: Word, value: u64) {
        self.file(word).store(0, value);
    }
    fn compare_exchange(&self, word: Word, old: u64, new: u64) -> Result<u64, u64> {
        self.file(word).compare_exchange(0, old, new)
    }
    fn fetch_or(&self, word: Word, bits: u64) -> u64 {
        self.file(word).fetch_or(0, bits)
    }
    fn swap(&self, word: Word, value: u64) -> u64 {
        self.file(word).swap(0, value)
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
    #[inline]
    fn fence_behind_change(&self) {
        fusewire_device::fence_behind_change();
    }
}

/// Says that there is news, after what is new was shown and a [fence](Words::fence); true when the outboard sleeps and has to be
/// woken.
pub fn tell(words: &impl Words<Word>, bit: u64) -> bool {
    // It has not heard of earlier news yet, and will see all that is shown by then.
    if words.load(Word::Told) & bit != 0 {
        return false;
    }
    let earlier = words.fetch_or(Word::Told, bit);
    words.fence_behind_change();
    // Whoever told the first news that it has not heard of wakes it, and it hears of all then.
    earlier == 0 && words.load(Word::Asleep) != 0
}

/// The outboard sleeps, or is about to: who has told, and waits for more than it takes whoever told first to wake it, does so himself.
pub fn is_asleep(words: &impl Words<Word>) -> bool {
    words.load(Word::Asleep) != 0
}

/// What there is news of, each told once.
pub fn hear(words: &impl Words<Word>) -> u64 {
    match words.load(Word::Told) {
        0 => 0,
        _ => {
            let news = words.swap(Word::Told, 0);
            words.fence_behind_change();
            news
        }
    }
}

/// Says whether the outboard is about to sleep; false when it had better not: there is news of what is in `used`.
pub fn sleeps(words: &impl Words<Word>, is_asleep: bool, used: u64) -> bool {
    words.store(Word::Asleep, u64::from(is_asleep));
    if is_asleep {
        words.fence();
        return words.load(Word::Told) & used == 0;
    }
    true
}
