//! What a connection did last: a ring of fixed size that is always written.

use fusewire_base::Instant;
use fusewire_transport::machine::{
    Again, DropCause, Header, Initial, Note, Transmit, TransmitKind, Verdict,
};

/// Entries kept.
pub const ENTRIES: usize = 64;

/// Which way a segment went, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing yet.
    #[default]
    Empty,
    /// Came from the network, and was taken.
    Received,
    /// Came before its turn, and is held.
    Held,
    /// Came again.
    Duplicate,
    /// Came and was dropped.
    Dropped(DropCause),
    /// Went to the network.
    Sent,
    /// Went to the network to hear whether the peer is there and has room.
    Probe,
    /// Went to the network again: acknowledgements show that it was lost.
    ResentRack,
    /// Went again after the retransmission timeout.
    ResentTimeout,
    /// Went again as a tail loss probe.
    ResentTailLoss,
    /// Went again in pieces that fit the path.
    ResentPath,
    /// Went again, for what it answers came again.
    SaidAgain,
}

/// Of a segment that goes again.
impl From<Again> for Kind {
    fn from(why: Again) -> Kind {
        match why {
            Again::Rack => Kind::ResentRack,
            Again::Timeout => Kind::ResentTimeout,
            Again::TailLoss => Kind::ResentTailLoss,
            Again::Path => Kind::ResentPath,
        }
    }
}

impl Kind {
    /// Of a segment that came.
    pub(crate) fn of(initial: &Initial, verdict: &Verdict) -> Kind {
        match (verdict, initial) {
            (Verdict::Reject(cause), _) => Kind::Dropped(*cause),
            (_, Initial::Payload(plan)) if plan.duplicate => Kind::Duplicate,
            (_, Initial::Payload(plan)) if !plan.in_order => Kind::Held,
            _ => Kind::Received,
        }
    }

    /// Of a segment that leaves; `again` says why, if it was sent before.
    pub(crate) fn leaving<H>(transmit: &Transmit<H>, again: impl Into<Kind>) -> Kind {
        match transmit.kind {
            _ if transmit.retransmission => again.into(),
            TransmitKind::Probe => Kind::Probe,
            _ => Kind::Sent,
        }
    }

    /// In words, in two pieces; nothing when there is nothing to say but the direction.
    pub fn words(self) -> [&'static str; 2] {
        match self {
            Kind::Empty | Kind::Received | Kind::Sent => ["", ""],
            Kind::Held => ["out of order, held", ""],
            Kind::Duplicate => ["received before", ""],
            Kind::Dropped(cause) => ["dropped", cause.name()],
            Kind::Probe => ["probe: window, tail or keep-alive", ""],
            Kind::ResentRack => ["retransmission (RACK)", ""],
            Kind::ResentTimeout => ["retransmission (timeout)", ""],
            Kind::ResentTailLoss => ["retransmission (tail loss probe)", ""],
            Kind::ResentPath => ["retransmission (too long for the path)", ""],
            Kind::SaidAgain => ["answered again", ""],
        }
    }
}

/// One segment or super-frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// When.
    pub at: Instant,
    /// Sequence number, its lower half if it is longer.
    pub seq: u32,
    /// What it acknowledges, likewise.
    pub ack: u32,
    /// Payload bytes.
    pub len: u32,
    /// The window field.
    pub window: u16,
    /// Flags; [`Protocol::letters`](fusewire_transport::machine::Protocol::letters) has their letters.
    pub flags: u8,
    /// Which way.
    pub kind: Kind,
}

/// See the module's text. Where many share one, each entry is somebody's: `Of` tells whose.
#[derive(Debug)]
pub struct Trace<Of = ()> {
    entries: Box<[(Of, Entry); ENTRIES]>,
    next: usize,
    /// For whoever measures what it costs.
    pub(crate) off: bool,
}

impl<Of: Copy + Default> Default for Trace<Of> {
    fn default() -> Self {
        let nothing = (Of::default(), Entry::default());
        Trace { entries: Box::new([nothing; ENTRIES]), next: 0, off: false }
    }
}

impl Trace {
    /// Notes a segment.
    #[inline]
    pub(crate) fn segment(&mut self, kind: Kind, at: Instant, h: &impl Header, len: u32) {
        self.segment_of((), kind, at, h, len);
    }
}

impl<Of: Copy + PartialEq> Trace<Of> {
    /// Notes a segment of one of those who share it.
    #[inline]
    pub(crate) fn segment_of(
        &mut self,
        of: Of,
        kind: Kind,
        at: Instant,
        h: &impl Header,
        len: u32,
    ) {
        if self.off {
            return;
        }
        let Note { seq, ack, window, flags } = h.note();
        self.entries[self.next % ENTRIES] = (of, Entry { at, seq, ack, len, window, flags, kind });
        self.next = self.next.wrapping_add(1);
    }

    fn all(&self) -> impl Iterator<Item = &(Of, Entry)> {
        let at = self.next % ENTRIES;
        let all = self.entries[at..].iter().chain(&self.entries[..at]);
        all.filter(|(_, entry)| entry.kind != Kind::Empty)
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.all().map(|(_, entry)| entry)
    }

    /// Those of one who shares it, oldest first.
    pub(crate) fn of(&self, who: Of) -> impl Iterator<Item = &Entry> {
        self.all().filter(move |(of, _)| *of == who).map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_small() {
        assert_eq!(size_of::<Kind>(), 1);
        assert_eq!((size_of::<Entry>(), size_of::<((), Entry)>()), (24, 24));
    }
}
