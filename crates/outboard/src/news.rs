//! How an application tells the outboard that there is news in memory that the two share, and wakes it only where it sleeps. No
//! memory and no descriptor here, as in [`crate::ring`].
//!
//! ```text
//!  application  shows what is new ▸ fence ▸ sets its bit in Told ▸ fence ▸ first, and Asleep? ─yes─▶ wakes the outboard
//!  outboard     Asleep := 1 ▸ fence ▸ Told? ─no bit─▶ sleeps in the kernel
//! ```
//! Whoever sets the first bit wakes it, and it hears of all then. The bits are the application's to write: any may be set.

use fusewire_device::Shared;

use crate::words::{Placed, Words};

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

impl Placed for News<'_> {
    type Word = Word;

    #[inline]
    fn place(&self, word: Word) -> (&Shared, usize) {
        match word {
            Word::Told => (self.told, 0),
            Word::Asleep => (self.asleep, 0),
        }
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
