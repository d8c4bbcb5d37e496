//! The protocol of a lease: two rings of a stream's bytes in memory that one application and the outboard share, and the
//! words that say how far each is. No memory and no descriptor here: words are read and written through [`Words`].
//!
//! ```text
//!  out   Taken (outboard's)       Sent (both's)          Sent: how far the application has written, and REVOKED
//!         │ outboard takes ──▶      │ application writes   Taken: how far the outboard needs nothing any more
//!  ───────┼─────────────────────────┼──────── free ──── Taken + n
//!  in    Read (both's)            Head (outboard's)      Read: how far the application has read, and flags
//!         │ application reads       │ outboard writes
//! ```
//! Positions count bytes since the lease began. The application moves `Sent` and `Read` by compare-and-swap. The outboard
//! takes the lease back by setting [`REVOKED`] in both: what is committed then is committed, nothing more will be, and no
//! help of the application's is needed, which may be stopped or gone. What it has not read goes through the placeholder.
//!
//! The doorbell is a byte in the placeholder, which shows `poll` and `epoll` what is true. Of [`Read`](Word::Read)'s flags
//! one at most is set of: [`ARMED`], send it when there is something; [`RUNG`], it was sent and lies there; [`BUSY`],
//! the application is taking it out. With none of them the application looks by itself, or somebody waits for several leases
//! at once and is woken for all of them ([`crate::waiter`]): a watched lease is not armed by who reads it.
//!
//! Invariants: `Taken ≤ Sent ≤ Taken + n`, `Read ≤ Head ≤ Read + n`, of a ring of n bytes; none goes back. The outboard loads a
//! word that the application may write once, and checks it before it is used.

use crate::words::Words;

/// Bytes of a ring, of each direction.
pub const RING_BYTES: u64 = 128 << 10;
/// Bytes of one that is wide: of a stream of which much moves at a time. With less, who fills it and who empties it wait for each
/// other; more leaves the cache.
pub const WIDE_BYTES: u64 = 512 << 10;
/// The part of [`Word::Sent`] and [`Word::Read`] that is a position.
pub const POSITION: u64 = (1 << 56) - 1;
/// The lease is over: nothing is committed any more.
pub const REVOKED: u64 = 1 << 56;
/// The reader is to be rung when there is something.
pub const ARMED: u64 = 1 << 57;
/// A byte lies in the placeholder, or is about to.
pub const RUNG: u64 = 1 << 58;
/// The application is taking that byte out.
pub const BUSY: u64 = 1 << 59;
/// Nobody in the application uses the rings any more.
pub const GONE: u64 = 1 << 60;

/// Words of a lease. The application can write the first two and reads the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// How far the application has written, and [`REVOKED`].
    Sent,
    /// How far it has read, and flags.
    Read,
    /// How far the application may write over what it has written: the outboard has taken it, and needs it no more.
    Taken,
    /// How far it has laid down what came.
    Head,
    /// Not 0: it has more than there is room for.
    Wants,
}

impl From<Word> for usize {
    fn from(word: Word) -> usize {
        word as usize
    }
}

/// A lease's words, and what else is to be known of it.
pub trait Ring: Words<Word> {
    /// Bytes of each ring: a power of two, at most [`WIDE_BYTES`].
    fn ring_bytes(&self) -> u64 {
        RING_BYTES
    }
    /// Somebody waits for this lease and others, and looks at them by himself.
    fn is_watched(&self) -> bool {
        false
    }
}

/// The lease was taken back: the placeholder is the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// The application wrote what no honest one writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the application's {name} is {found}, which is not within {low}..={high}")]
pub struct Violation {
    /// Which index.
    pub name: &'static str,
    /// What it was.
    pub found: u64,
    /// Least it could be.
    pub low: u64,
    /// Most it could be.
    pub high: u64,
}

fn check(name: &'static str, word: u64, low: u64, high: u64) -> Result<u64, Violation> {
    let found = word & POSITION;
    match (low..=high).contains(&found) {
        true => Ok(found),
        false => Err(Violation { name, found, low, high }),
    }
}

// ---- the application's side

/// Where the application writes next, and how much there is room for; `taken` is what it knows of [`Word::Taken`], which is
/// looked at when there is room for less than `wanted`.
///
/// # Errors
/// [`Lost`]
pub fn room(words: &impl Ring, taken: &mut u64, wanted: u64) -> Result<(u64, u64), Lost> {
    let sent = words.load(Word::Sent);
    if sent & REVOKED != 0 {
        return Err(Lost);
    }
    let all = words.ring_bytes();
    let free = |taken: u64| all.saturating_sub(sent.saturating_sub(taken));
    if free(*taken) < wanted.min(all) {
        *taken = words.load(Word::Taken);
    }
    Ok((sent, free(*taken)))
}

/// Commits `len` bytes that were written at `position`. One at a time does so.
///
/// # Errors
/// [`Lost`]: they are not sent.
pub fn commit(words: &impl Ring, position: u64, len: u64) -> Result<(), Lost> {
    let done = words.compare_exchange(Word::Sent, position, position + len);
    done.map(|_| words.fence_behind_change()).map_err(|_| Lost)
}

/// What there is to read: [`Word::Read`] with its flags, and how many bytes from its position on.
///
/// # Errors
/// [`Lost`]
pub fn unread(words: &impl Ring) -> Result<(u64, u64), Lost> {
    let read = words.load(Word::Read);
    if read & REVOKED != 0 {
        return Err(Lost);
    }
    let len = words.load(Word::Head).wrapping_sub(read & POSITION);
    Ok((read, len.min(words.ring_bytes())))
}

/// What is to be done after something was read, or nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing.
    Rest,
    /// The byte in the placeholder is to be taken out, between [`drain`] and [`drained`].
    Drain,
    /// The outboard is to be told: there is something that it may not have rung for, or room that it waits for.
    Tell,
}

/// Reads on by `len` bytes of `unread`, which were copied from the position of `read`. The reader is rung for what comes next,
/// and for what is left, which `poll` is to show. `None`: somebody else has read them, or the flags have changed; look again.
///
/// # Errors
/// [`Lost`]: they will come through the placeholder.
pub fn consume(words: &impl Ring, read: u64, unread: u64, len: u64) -> Result<Option<After>, Lost> {
    let is_all = len == unread;
    let arm = if read & (RUNG | BUSY) == 0 && !words.is_watched() { ARMED } else { 0 };
    match words.compare_exchange(Word::Read, read, (read + len) | arm) {
        Ok(_) => {}
        Err(now) if now & REVOKED != 0 => return Err(Lost),
        Err(_) => return Ok(None),
    }
    words.fence_behind_change();
    if is_all && read & RUNG != 0 {
        return Ok(Some(After::Drain));
    }
    let position = (read & POSITION) + len;
    let left = words.load(Word::Head).wrapping_sub(position);
    // Once, when half of it is free: who is told of each byte moves bytes.
    let half = words.ring_bytes() / 2;
    let is_crossed = left <= half && left + len > half;
    let has_room = (is_crossed || left == 0) && words.load(Word::Wants) != 0;
    // What is left, or came between the look and the arming, nobody has rung for.
    let is_unheard = arm != 0 && left > 0;
    Ok(Some(if has_room || is_unheard { After::Tell } else { After::Rest }))
}

/// The reader looks by itself from now on: no bell.
pub fn disarm(words: &impl Ring) {
    let mut read = words.load(Word::Read);
    while read & ARMED != 0 && read & REVOKED == 0 {
        match words.compare_exchange(Word::Read, read, read & !ARMED) {
            Ok(_) => return,
            Err(now) => read = now,
        }
    }
}

/// The reader has found nothing and is about to sleep, or to say so: the bell is to ring from now on. If there is something
/// after all, [`After::Rest`] says nothing of it: look again.
///
/// # Errors
/// [`Lost`]
pub fn arm(words: &impl Ring) -> Result<After, Lost> {
    let mut read = words.load(Word::Read);
    loop {
        if read & REVOKED != 0 {
            return Err(Lost);
        }
        if read & RUNG != 0 {
            return Ok(After::Drain);
        }
        if read & (ARMED | BUSY) != 0 {
            return Ok(After::Rest);
        }
        match words.compare_exchange(Word::Read, read, read | ARMED) {
            Ok(_) => {
                words.fence_behind_change();
                return Ok(After::Rest);
            }
            Err(now) => read = now,
        }
    }
}

/// The same for who does not sleep: nothing is armed.
///
/// # Errors
/// [`Lost`]
pub fn rest(words: &impl Ring) -> Result<After, Lost> {
    match words.load(Word::Read) {
        read if read & REVOKED != 0 => Err(Lost),
        read if read & RUNG != 0 => Ok(After::Drain),
        _ => Ok(After::Rest),
    }
}

/// Begins to take the byte out of the placeholder: false, somebody else does.
///
/// # Errors
/// [`Lost`]: it is not the application's to take any more.
pub fn drain(words: &impl Ring) -> Result<bool, Lost> {
    let mut read = words.load(Word::Read);
    loop {
        if read & REVOKED != 0 {
            return Err(Lost);
        }
        if read & RUNG == 0 {
            return Ok(false);
        }
        match words.compare_exchange(Word::Read, read, (read & !RUNG) | BUSY) {
            Ok(_) => return Ok(true),
            Err(now) => read = now,
        }
    }
}

/// Ends that. `was_there`: the byte was taken, and the bell is to ring anew; otherwise it is still to come. True when the
/// outboard is to be told: there is something that nobody has rung for, or room that it waits for.
pub fn drained(words: &impl Ring, was_there: bool) -> bool {
    let is_watched = was_there && words.is_watched();
    let flag = match was_there {
        true if is_watched => 0,
        true => ARMED,
        false => RUNG,
    };
    let mut read = words.load(Word::Read);
    loop {
        // After a revocation too: the outboard waits for it.
        match words.compare_exchange(Word::Read, read, (read & !BUSY) | flag) {
            Ok(_) => break,
            Err(now) => read = now,
        }
    }
    words.fence_behind_change();
    if is_watched && !words.is_watched() {
        // Who watched it no longer does, and could not arm what was busy.
        let _ = arm(words);
    }
    was_there && words.load(Word::Head) != read & POSITION || words.load(Word::Wants) != 0
}

/// After a revocation: a doorbell lies in the placeholder, or somebody is taking it out, so that nothing may be read there
/// yet.
pub fn is_noisy(words: &impl Ring) -> bool {
    words.load(Word::Read) & (RUNG | BUSY) != 0
}

/// Gives the lease up: both directions are over, and nobody here uses the rings any more. `false`: the bell has rung, and
/// has to be [drained](drain) before.
pub fn give_up(words: &impl Ring) -> bool {
    let mut read = words.load(Word::Read);
    while read & REVOKED == 0 {
        if read & (RUNG | BUSY) != 0 {
            return false;
        }
        match words.compare_exchange(Word::Read, read, (read & POSITION) | REVOKED) {
            Ok(_) => break,
            Err(now) => read = now,
        }
    }
    words.fetch_or(Word::Sent, REVOKED);
    true
}

// ---- the outboard's side

/// How far the outboard is in both rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How far what was written is taken.
    taken: u64,
    /// [`Word::Taken`]
    freed: u64,
    /// [`Word::Sent`], as last checked.
    sent: u64,
    /// [`Word::Head`]
    head: u64,
    /// [`Word::Read`], as last checked.
    read: u64,
}

/// What the application has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The byte of the doorbell lies in the placeholder.
    pub is_rung: bool,
    /// The application was about to take it out.
    pub is_busy: bool,
}

impl Left {
    /// What lies in the placeholder is not the peer's alone.
    pub fn is_noisy(self) -> bool {
        self.is_rung || self.is_busy
    }
}

impl Progress {
    /// What was written and not taken: from where, and how much.
    ///
    /// # Errors
    /// An index that cannot be.
    pub fn written(&mut self, words: &impl Ring) -> Result<(u64, u64), Violation> {
        let most = self.freed + words.ring_bytes();
        self.sent = check("write index", words.load(Word::Sent), self.sent, most)?;
        Ok((self.taken, self.sent - self.taken))
    }

    /// Has taken so much of it, and needs nothing of what lies before any more.
    pub fn take(&mut self, words: &impl Ring, len: u64) {
        self.borrow(len);
        self.free(words, self.taken);
    }

    /// Has taken so much of it, which stays where it is until it is [freed](Progress::free).
    pub fn borrow(&mut self, len: u64) {
        debug_assert!(self.taken + len <= self.sent);
        self.taken += len;
    }

    /// Needs nothing of what lies before `position` any more.
    pub fn free(&mut self, words: &impl Ring, position: u64) {
        debug_assert!((self.freed..=self.taken).contains(&position));
        self.freed = position;
        words.store(Word::Taken, position);
    }

    /// How far what was written is taken, and how much of that is not [free](Progress::free).
    pub fn taken(&self) -> (u64, u64) {
        (self.taken, self.taken - self.freed)
    }

    /// Where what comes is laid down, and how much there is room for.
    ///
    /// # Errors
    /// As [`Progress::written`].
    pub fn room(&mut self, words: &impl Ring) -> Result<(u64, u64), Violation> {
        self.look(words)?;
        Ok((self.head, words.ring_bytes() - (self.head - self.read)))
    }

    /// What was laid down and not read: from where, and how much.
    ///
    /// # Errors
    /// As [`Progress::written`].
    pub fn unread(&mut self, words: &impl Ring) -> Result<(u64, u64), Violation> {
        self.look(words)?;
        Ok((self.read, self.head - self.read))
    }

    fn look(&mut self, words: &impl Ring) -> Result<(), Violation> {
        self.read = check("read index", words.load(Word::Read), self.read, self.head)?;
        Ok(())
    }

    /// Shows `len` more bytes.
    pub fn show(&mut self, words: &impl Ring, len: u64) {
        debug_assert!(self.head + len - self.read <= words.ring_bytes());
        self.head += len;
        words.store(Word::Head, self.head);
    }

    /// How much was laid down since the lease began.
    pub fn shown(&self) -> u64 {
        self.head
    }

    /// Says whether there is more than room for it. After it was said, there may be room: look again.
    pub fn want_room(&self, words: &impl Ring, wants: bool) {
        words.store(Word::Wants, u64::from(wants));
        if wants {
            words.fence();
        }
    }

    /// Whether the doorbell is to be rung now, which is asked once for each ring.
    ///
    /// # Errors
    /// As [`Progress::written`].
    pub fn must_ring(&mut self, words: &impl Ring) -> Result<bool, Violation> {
        words.fence();
        self.rings(words, |read| read & ARMED != 0)
    }

    /// The same for who waits for several leases, and sleeps: whether this one's bell is to be rung, of which the placeholder
    /// shows nothing yet.
    ///
    /// # Errors
    /// As [`Progress::written`].
    pub fn may_ring(&mut self, words: &impl Ring) -> Result<bool, Violation> {
        self.rings(words, |read| read & (RUNG | BUSY) == 0)
    }

    /// Something was laid down that was not read when that was looked at last.
    pub fn has_unread(&self) -> bool {
        self.read != self.head
    }

    fn rings(&mut self, words: &impl Ring, is_to: impl Fn(u64) -> bool) -> Result<bool, Violation> {
        let mut read = words.load(Word::Read);
        loop {
            self.read = check("read index", read, self.read, self.head)?;
            if !is_to(read) || read & REVOKED != 0 || self.read == self.head {
                return Ok(false);
            }
            match words.compare_exchange(Word::Read, read, (read & !ARMED) | RUNG) {
                Ok(_) => return Ok(true),
                Err(now) => read = now,
            }
        }
    }

    /// Takes the lease back: what is committed is committed.
    pub fn revoke(words: &impl Ring) -> Left {
        words.fetch_or(Word::Sent, REVOKED);
        let read = words.fetch_or(Word::Read, REVOKED);
        Left { is_rung: read & RUNG != 0, is_busy: read & BUSY != 0 }
    }

    /// What of the doorbell there is after a [revocation](Progress::revoke).
    pub fn left(words: &impl Ring) -> Left {
        let read = words.load(Word::Read);
        Left { is_rung: read & RUNG != 0, is_busy: read & BUSY != 0 }
    }

    /// The doorbell was taken out of the placeholder, or will never be: after a revocation, when its holder does not.
    pub fn quiet(words: &impl Ring) {
        let mut read = words.load(Word::Read);
        while let Err(now) = words.compare_exchange(Word::Read, read, read & !(RUNG | BUSY)) {
            read = now;
        }
    }

    /// Nobody in the application uses the rings any more.
    pub fn is_gone(words: &impl Ring) -> bool {
        words.load(Word::Read) & GONE != 0
    }

    /// The application has given the lease up, or has been taken it.
    pub fn is_revoked(words: &impl Ring) -> bool {
        words.load(Word::Read) & REVOKED != 0
    }

    /// After a revocation, what was laid down and will never be read: from where, and how much.
    pub fn owed(&self) -> (u64, u64) {
        (self.read, self.head - self.read)
    }

    /// Has read so much of what is [owed](Progress::owed), in the application's place.
    pub fn skip(&mut self, len: u64) {
        debug_assert!(self.read + len <= self.head);
        self.read += len;
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
