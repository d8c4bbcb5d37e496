//! The protocol of the rings: positions, sleeping and waking. No memory, no descriptor: control words
//! are read and written through [`Control`], so that a model checker can stand behind it.
//!
//! A position counts bytes since the start and never wraps (2^64 bytes are never reached); `position`
//! modulo `capacity` is the place in the ring.
//!
//! ```text
//!   tail (consumer's word)        head (producer's word)
//!     │                             │
//! ────┼── released ◀── taken ───────┼── published ◀── committed ── free ── tail + capacity
//! ```
//! Invariants, of both sides: `tail ≤ head ≤ tail + capacity`; all are multiples of [`ALIGN`]; none goes
//! back. The peer's word is read once into a local and checked against them before it is used.

/// Records start and end at multiples of this: a cache line.
pub(crate) const ALIGN: u64 = 64;

/// A side wants to be woken when there is data.
pub(crate) const WANT_DATA: u64 = 1;
/// A side wants to be woken when there is room.
pub(crate) const WANT_ROOM: u64 = 2;
const WANTS: u32 = 2;

/// Control words. Each side has all of them, writes its own and reads the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// How far it has published.
    Head,
    /// How far it has released what the peer published.
    Tail,
    /// A count of its sleeps, above what it wants to be woken for.
    Sleep,
}

/// Access to the control words.
pub(crate) trait Control {
    /// Reads a word of the peer's, with acquire order.
    fn peer(&self, word: Word) -> u64;
    /// Writes a word of one's own, with release order.
    fn publish(&self, word: Word, value: u64);
    /// A sequentially consistent fence.
    fn fence(&self);
}

/// The peer wrote what no honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An index left its bounds, went back or is no record boundary.
    #[error(
        "the peer's {name} index is {found}, which is not within {low}..={high} in steps of 64"
    )]
    Index {
        /// `head` or `tail`.
        name: &'static str,
        /// What it was.
        found: u64,
        /// Least it could be.
        low: u64,
        /// Most it could be.
        high: u64,
    },
    /// A record's length is not within what was published.
    #[error("the peer's record at {position} has a length of {found}, of at most {most}")]
    Length {
        /// Where the record starts.
        position: u64,
        /// Its length field.
        found: u64,
        /// Most it could be.
        most: u64,
    },
}

/// Checks an index that the peer wrote.
fn check(name: &'static str, found: u64, low: u64, high: u64) -> Result<u64, Violation> {
    if (low..=high).contains(&found) && found.is_multiple_of(ALIGN) {
        Ok(found)
    } else {
        Err(Violation::Index { name, found, low, high })
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer {
    capacity: u64,
    /// End of what is committed; `published ≤ head`.
    head: u64,
    published: u64,
    /// The peer's tail as last read.
    tail: u64,
}

impl Producer {
    pub fn new(capacity: u64) -> Self {
        Producer { capacity, head: 0, published: 0, tail: 0 }
    }

    /// Where the next record goes, when there is room for `bytes`.
    pub fn room_for(
        &mut self,
        control: &impl Control,
        bytes: u64,
    ) -> Result<Option<u64>, Violation> {
        if self.capacity - (self.head - self.tail) < bytes {
            // What was not published cannot have been released.
            self.tail = check("tail", control.peer(Word::Tail), self.tail, self.published)?;
        }
        Ok((self.capacity - (self.head - self.tail) >= bytes).then_some(self.head))
    }

    /// Bytes that were free when the peer's tail was last read.
    pub fn known_room(&self) -> u64 {
        self.capacity - (self.head - self.tail)
    }

    /// Where the next record goes.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Takes `bytes`, for which there was room, as written.
    pub fn commit(&mut self, bytes: u64) {
        debug_assert!(
            bytes.is_multiple_of(ALIGN) && self.head + bytes - self.tail <= self.capacity
        );
        self.head += bytes;
    }

    /// Shows the peer what was committed; false when it has seen all.
    pub fn publish(&mut self, control: &impl Control) -> bool {
        let news = self.head != self.published;
        if news {
            self.published = self.head;
            control.publish(Word::Head, self.head);
        }
        news
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer {
    capacity: u64,
    /// End of what was taken; `released ≤ tail ≤ head`.
    tail: u64,
    released: u64,
    /// The peer's head as last read.
    head: u64,
}

impl Consumer {
    pub fn new(capacity: u64) -> Self {
        Consumer { capacity, tail: 0, released: 0, head: 0 }
    }

    /// Where the next record starts and how many bytes are published from there, which may be 0.
    pub fn available(&mut self, control: &impl Control) -> Result<(u64, u64), Violation> {
        if self.head == self.tail {
            let most = self.released + self.capacity;
            self.head = check("head", control.peer(Word::Head), self.head, most)?;
        }
        Ok((self.tail, self.head - self.tail))
    }

    /// Takes the next `bytes`, which were available.
    pub fn take(&mut self, bytes: u64) {
        debug_assert!(bytes.is_multiple_of(ALIGN) && self.tail + bytes <= self.head);
        self.tail += bytes;
    }

    /// Puts the last `bytes` that were taken back.
    pub fn untake(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.tail - self.released);
        self.tail -= bytes;
    }

    /// What was taken and not released.
    pub fn holds(&self, position: u64, bytes: u64) -> bool {
        position >= self.released && position <= self.tail && bytes <= self.tail - position
    }

    /// Gives the peer the room of what was taken; false when it has it.
    pub fn release(&mut self, control: &impl Control) -> bool {
        let news = self.tail != self.released;
        if news {
            self.released = self.tail;
            control.publish(Word::Tail, self.tail);
        }
        news
    }
}

/// One's own sleeps.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    count: u64,
}

impl Sleeper {
    /// Says that this side is about to sleep. After this it looks once more whether it needs to:
    /// either it sees what the peer published, or the peer sees the word and rings.
    pub fn lie_down(&mut self, control: &impl Control, wants: u64) {
        self.count += 1;
        control.publish(Word::Sleep, self.count << WANTS | wants);
        control.fence();
    }

    /// Says that it is awake.
    pub fn get_up(&self, control: &impl Control) {
        control.publish(Word::Sleep, self.count << WANTS);
    }
}

/// The peer's sleeps, each of which is ended at most once.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: u64,
}

impl Bell {
    /// After something was published: whether the peer sleeps and waits for it.
    pub fn must_ring(&mut self, control: &impl Control, want: u64) -> bool {
        control.fence();
        let sleep = control.peer(Word::Sleep);
        let ring = sleep & want != 0 && sleep != self.rung;
        if ring {
            self.rung = sleep;
        }
        ring
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
