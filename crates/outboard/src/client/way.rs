//! How a process reaches a socket: by the placeholder, or by the rings of a lease.

use std::sync::atomic::{AtomicU64, Ordering};

/// Messages through the placeholder before a lease is asked for: it has to pay.
const MESSAGES: u64 = 8;
/// Bits of the count of those.
const COUNT: u64 = (1 << 16) - 1;
/// One call that is in the placeholder now.
const INSIDE: u64 = 1 << 16;
const INSIDE_ALL: u64 = 0x3ff << 16;
/// How often it was refused for now: each time it is asked for half as often.
const REFUSED: u64 = 1 << 26;
const REFUSED_ALL: u64 = 0xf << 26;
const REFUSED_MAX: u64 = 9 * REFUSED;
/// Somebody asks for a lease.
const ASKING: u64 = 1 << 30;
/// There will never be one.
const NEVER: u64 = 1 << 31;

/// What a process keeps of a socket besides its handle, for [`Rings`](super::Rings). Zeros are one that has no lease yet; any
/// word is one, of which what cannot be is no lease.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Way(AtomicU64);

/// Which lease, and that it is not a later one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token(u32);

impl Token {
    pub fn new(slot: usize, generation: u64) -> Token {
        Token((generation as u32) << 16 | (slot as u32 + 1))
    }

    /// Which of all a process's leases.
    pub fn slot(self) -> usize {
        (self.0 & 0xffff) as usize - 1
    }

    pub fn is_of(self, generation: u64) -> bool {
        self.0 >> 16 == generation as u32 & 0xffff
    }
}

/// A call is in the placeholder as long as this lives: no lease begins.
pub(super) struct Inside<'a>(&'a Way);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(INSIDE, Ordering::AcqRel);
    }
}

impl Way {
    /// One that gets no lease.
    pub fn never() -> Way {
        Way(AtomicU64::new(NEVER))
    }

    /// It gets no lease from now on. One that it has is [given up](super::Rings::give_up) before.
    pub fn refuse(&self) {
        self.0.fetch_or(NEVER, Ordering::AcqRel);
    }

    /// It gets no lease any more.
    pub(super) fn is_refused(&self) -> bool {
        self.0.load(Ordering::Acquire) & NEVER != 0
    }

    /// It has a lease, as far as is known.
    pub fn is_leased(&self) -> bool {
        self.token().is_some()
    }

    /// The same socket by another descriptor of this process.
    pub(super) fn copy(&self) -> Way {
        Way(AtomicU64::new(
            self.0.load(Ordering::Acquire) & !(INSIDE_ALL | REFUSED_ALL | ASKING | COUNT),
        ))
    }

    pub(super) fn token(&self) -> Option<Token> {
        match (self.0.load(Ordering::Acquire) >> 32) as u32 {
            0 => None,
            token => Some(Token(token)),
        }
    }

    /// The lease is over; another may follow, later, or none.
    pub(super) fn forget(&self, token: Token, never: bool) {
        let change = |word: u64| {
            let is_it = word >> 32 == u64::from(token.0);
            let flag = if never { NEVER } else { 0 };
            is_it.then_some(word & 0xffff_ffff & !(COUNT | REFUSED_ALL) | flag)
        };
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    /// A call goes by the placeholder, and no lease begins meanwhile; `None`: there is one, or somebody asks for it.
    pub(super) fn enter(&self) -> Option<Inside<'_>> {
        let word = self.0.fetch_add(INSIDE, Ordering::AcqRel);
        let inside = Inside(self);
        (word & ASKING == 0 && word >> 32 == 0).then_some(inside)
    }

    /// A message has gone by the placeholder; true when a lease would pay.
    pub(super) fn moved(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & (NEVER | ASKING) != 0 || word >> 32 != 0 {
            return false;
        }
        if word & COUNT >= (MESSAGES << ((word & REFUSED_ALL) / REFUSED)) - 1 {
            return true;
        }
        // One that is not counted comes later.
        let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.0.compare_exchange(word, word + 1, acquire, relaxed);
        false
    }

    /// Begins to ask for a lease, when nobody else is about to do anything.
    pub(super) fn ask(&self) -> bool {
        let can = |word: u64| {
            let is_free = word & (NEVER | ASKING | INSIDE_ALL) == 0 && word >> 32 == 0;
            is_free.then_some(word | ASKING)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, can).is_ok()
    }

    /// Ends that: with a lease, without one for now, or for good.
    pub(super) fn asked(&self, token: Option<Token>, never: bool) {
        let change = |word: u64| {
            let refused = (word & REFUSED_ALL) + REFUSED;
            let rest = match token {
                Some(token) => u64::from(token.0) << 32,
                None if never => NEVER,
                None => refused.min(REFUSED_MAX),
            };
            Some(word & INSIDE_ALL | rest)
        };
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
    }

    /// Some call is in the placeholder.
    pub(super) fn is_entered(&self) -> bool {
        self.0.load(Ordering::Acquire) & INSIDE_ALL != 0
    }
}
