//! What a connection did last: a ring of fixed size that is always written.

use fusewire_base::Instant;
use fusewire_wire::tcp::Header;

/// Entries kept.
pub const ENTRIES: usize = 64;

/// Which way a segment went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing yet.
    #[default]
    Empty,
    /// Came from the network.
    Received,
    /// Went to the network.
    Sent,
    /// Went to the network again.
    Retransmitted,
}

/// One segment or super-frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// When.
    pub at: Instant,
    /// Its sequence number.
    pub seq: u32,
    /// What it acknowledged.
    pub ack: u32,
    /// Payload bytes.
    pub len: u32,
    /// The window field.
    pub window: u16,
    /// Flags.
    pub flags: u8,
    /// Which way.
    pub kind: Kind,
}

/// See the module's text.
#[derive(Debug)]
pub struct Trace {
    entries: Box<[Entry; ENTRIES]>,
    next: usize,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { entries: Box::new([Entry::default(); ENTRIES]), next: 0 }
    }
}

impl Trace {
    /// Notes a segment.
    #[inline]
    pub(super) fn segment(&mut self, kind: Kind, at: Instant, h: &Header, len: u32) {
        self.entries[self.next % ENTRIES] =
            Entry { at, seq: h.seq.0, ack: h.ack.0, len, window: h.window, flags: h.flags.0, kind };
        self.next = self.next.wrapping_add(1);
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        let at = self.next % ENTRIES;
        self.entries[at..]
            .iter()
            .chain(&self.entries[..at])
            .filter(|entry| entry.kind != Kind::Empty)
    }
}
