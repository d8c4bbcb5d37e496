//! The protocol of commands: slots in memory that one application and the outboard share, for requests that carry no descriptor,
//! and their answers. No system call is made while both are awake. Requests and answers are those of [`crate::protocol`].
//!
//! ```text
//!  caller    claims a slot ▸ request ▸ ASKED ▸ [tells](crate::news) ▸ looks for the answer for a while
//!              ▸ ASLEEP ▸ fence ▸ answer? ─no─▶ sleeps in the kernel, on the word of the answer
//!  outboard  hears ▸ TAKEN ▸ copies the request ▸ answer ▸ its word ▸ fence ▸ ASLEEP? ─yes─▶ wakes the caller
//!
//!  commands, which the application writes      answers, which it reads
//!    0    news, a bit a slot                     0   the outboard sleeps; 8: on which processor it is
//!    64   slot 0: word (64), request (512)       64  slot 0: word (64), answer (512)
//!    …    slot 1                                 …   slot 1
//! ```
//! The words' lower halves are flags and a length, a length alone; their upper halves the number of the request, by which a caller
//! knows his answer. A slot is its caller's from [`claim`] to [`free`]. One that nobody has taken he may [withdraw], and ask
//! otherwise. A caller who dies with a slot leaves it claimed: it goes with the memory.
//!
//! The outboard loads each word and copies each request once, and checks what it has then. It takes what it was told of, whatever the
//! words say that an honest caller does not.

use fusewire_device::Shared;

use crate::news::News;
use crate::protocol::MESSAGE_MAX;
use crate::words::{Placed, Words};

/// Slots of a table: a bit of news each.
pub const SLOTS: usize = 64;
/// Bytes of each file.
pub const TABLE_LEN: usize = (SLOT_AT + SLOTS * SLOT_LEN).next_multiple_of(4096);
const SLOT_AT: usize = 64;
/// Of a slot in each file: its word, in a line of its own, and a message.
const SLOT_LEN: usize = BYTES_AT + MESSAGE_MAX;
const BYTES_AT: usize = 64;

/// The slot is somebody's.
pub const CLAIMED: u64 = 1;
/// His request lies there.
pub const ASKED: u64 = 2;
/// The outboard has it, and is about to answer.
pub const TAKEN: u64 = 4;
/// He sleeps, or is about to.
pub const ASLEEP: u64 = 8;
const LEN_AT: u32 = 16;
const LEN: u64 = 0xffff;
const NUMBER_AT: u32 = 32;

/// Words of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The application's: flags, length and number of a request.
    State(usize),
    /// The outboard's: number and length of the answer that lies there.
    Answered(usize),
}

/// A request's number, of all that went by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(u32);

/// A request that the outboard has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    number: Number,
    /// Its bytes, at most [`MESSAGE_MAX`].
    pub len: usize,
}

/// The application wrote a length that no request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request of {found} bytes, where {MESSAGE_MAX} are most")]
pub struct TooLong {
    /// What it was.
    pub found: usize,
}

// ---- the application's side

/// Claims a slot; `None`: somebody has it.
pub fn claim(words: &impl Words<Word>, slot: usize) -> Option<Number> {
    let state = words.load(Word::State(slot));
    if state & CLAIMED != 0 {
        return None;
    }
    let number = Number((state >> NUMBER_AT) as u32).next();
    let claimed = number.above() | CLAIMED;
    words.compare_exchange(Word::State(slot), state, claimed).ok().map(|_| number)
}

/// Asks what was written into the slot, of so many bytes. The outboard is to be told.
pub fn ask(words: &impl Words<Word>, slot: usize, number: Number, len: usize) {
    let len = (len as u64) << LEN_AT;
    words.store(Word::State(slot), number.above() | len | CLAIMED | ASKED);
    words.fence();
}

/// How long the answer is, if it is there.
///
/// # Errors
/// The word of the answer, as it is meanwhile.
pub fn answer(words: &impl Words<Word>, slot: usize, number: Number) -> Result<usize, u64> {
    let found = words.load(Word::Answered(slot));
    match (found >> NUMBER_AT) as u32 == number.0 {
        true => Ok(((found & LEN) as usize).min(MESSAGE_MAX)),
        false => Err(found),
    }
}

/// The caller is about to sleep as long as the answer's word stays what this gives. `Ok`: he had better not, it is there.
///
/// # Errors
/// That word.
pub fn sleeps(words: &impl Words<Word>, slot: usize, number: Number) -> Result<usize, u64> {
    words.fetch_or(Word::State(slot), ASLEEP);
    words.fence();
    answer(words, slot, number)
}

/// The caller has his answer, and the slot is anybody's.
pub fn free(words: &impl Words<Word>, slot: usize, number: Number) {
    words.store(Word::State(slot), number.above());
}

/// Nobody will take the request any more, and the slot is anybody's. False: it was taken.
pub fn withdraw(words: &impl Words<Word>, slot: usize, number: Number) -> bool {
    let mut state = words.load(Word::State(slot));
    while state & TAKEN == 0 {
        match words.compare_exchange(Word::State(slot), state, number.above()) {
            Ok(_) => return true,
            Err(now) => state = now,
        }
    }
    false
}

// ---- the outboard's side

/// Takes the request of a slot, if there is one.
///
/// # Errors
/// It is longer than any.
pub fn take(words: &impl Words<Word>, slot: usize) -> Result<Option<Asked>, TooLong> {
    let state = words.fetch_or(Word::State(slot), TAKEN);
    if state & (CLAIMED | ASKED | TAKEN) != CLAIMED | ASKED {
        return Ok(None);
    }
    match (state >> LEN_AT & LEN) as usize {
        len @ ..=MESSAGE_MAX => {
            Ok(Some(Asked { number: Number((state >> NUMBER_AT) as u32), len }))
        }
        found => Err(TooLong { found }),
    }
}

/// The answer lies in the slot, of so many bytes; true when the caller sleeps, and is to be woken.
pub fn complete(words: &impl Words<Word>, slot: usize, asked: Asked, len: usize) -> bool {
    debug_assert!(len <= MESSAGE_MAX);
    words.store(Word::Answered(slot), asked.number.above() | len as u64);
    words.fence();
    words.load(Word::State(slot)) & ASLEEP != 0
}

impl Number {
    fn next(self) -> Number {
        Number(self.0.wrapping_add(1))
    }

    fn above(self) -> u64 {
        u64::from(self.0) << NUMBER_AT
    }
}

/// The files of a table, either side's.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// What the application writes.
    pub commands: &'a Shared,
    /// What it reads.
    pub answers: &'a Shared,
}

impl<'a> Table<'a> {
    /// Where the application tells that it has asked.
    pub fn news(&self) -> News<'a> {
        News { told: self.commands, asleep: self.answers }
    }

    /// Where the message of a slot lies in either file.
    pub fn bytes_at(slot: usize) -> usize {
        debug_assert!(slot < SLOTS);
        SLOT_AT + slot * SLOT_LEN + BYTES_AT
    }

    /// Where the word of a slot lies in either file.
    pub fn word_at(slot: usize) -> usize {
        Table::bytes_at(slot) - BYTES_AT
    }
}

impl Placed for Table<'_> {
    type Word = Word;

    #[inline]
    fn place(&self, word: Word) -> (&Shared, usize) {
        match word {
            Word::State(slot) => (self.commands, Table::word_at(slot)),
            Word::Answered(slot) => (self.answers, Table::word_at(slot)),
        }
    }
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
