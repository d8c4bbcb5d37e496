//! An end that writes what it likes into its memory, for tests of the other.

use rustix::net::{SendFlags, send};

use super::ring::Word;
use super::{Shm, place};

/// One end of a pair, in hostile hands.
pub struct Hostile(Shm);

impl Hostile {
    /// Takes over an end.
    pub fn new(end: Shm) -> Self {
        Hostile(end)
    }

    /// Says that it has published so much.
    pub fn set_head(&self, position: u64) {
        self.0.own.store(place(Word::Head), position);
    }

    /// Says that it has released so much of what the other published.
    pub fn set_tail(&self, position: u64) {
        self.0.own.store(place(Word::Tail), position);
    }

    /// Says that it sleeps, or does not.
    pub fn set_sleep(&self, word: u64) {
        self.0.own.store(place(Word::Sleep), word);
    }

    /// Writes into its ring. A position stands for the same place as one a ring's length away.
    ///
    /// # Panics
    /// When `bytes` are longer than the ring.
    pub fn write(&mut self, position: u64, bytes: &[u8]) {
        self.0.own.slice_mut(position, bytes.len()).copy_from_slice(bytes);
    }

    /// Sends the other a message where a ring of the doorbell is expected.
    pub fn say(&self, message: &[u8]) {
        // A full queue, and an end that is gone, are what may be.
        let _ = send(&self.0.socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}
