//! Where received data go, and the one pass that brings them there: copy and check, in one loop.

use fusewire_base::Sum;
use fusewire_kernels::{Check, Cxor, Found, Level};

use super::Context;
use crate::pieces::Pieces;

/// Pieces of memory that one packet's data may go to.
const PIECES: usize = 8;

/// What a packet's header says of the data behind it. Nothing of it is verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Stream offset of the first byte that is new.
    pub offset: u64,
    /// Bytes that are new.
    pub len: usize,
    /// The message's 8 bytes, if it begins in this packet and has some.
    pub tag: Option<u64>,
    /// The message ends with the packet's last byte.
    pub ends: bool,
    /// Everything before has come.
    pub in_order: bool,
}

/// Memory for the data of one packet, in pieces, one after the other.
#[derive(Debug, Default)]
pub struct Scatter<'a> {
    pieces: [&'a mut [u8]; PIECES],
    count: usize,
}

impl<'a> Scatter<'a> {
    /// The next bytes go here; false when there are too many pieces (8).
    pub fn push(&mut self, memory: &'a mut [u8]) -> bool {
        let room = self.pieces.get_mut(self.count);
        let is_taken = room.map(|room| *room = memory).is_some();
        self.count += usize::from(is_taken);
        is_taken
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.pieces[..self.count].iter().map(|piece| piece.len()).sum()
    }

    /// No piece has a byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves the first `len` bytes.
    fn cut(&mut self, mut len: usize) {
        for piece in &mut self.pieces[..self.count] {
            let keep = len.min(piece.len());
            *piece = &mut std::mem::take(piece)[..keep];
            len -= keep;
        }
    }

    fn wipe(&mut self) {
        self.pieces[..self.count].iter_mut().for_each(|piece| piece.fill(0));
    }
}

/// Says where data go while packets are being received.
///
/// The header was looked at and nothing else when it is asked; then one pass copies and checks. Data of a packet that fails
/// are wiped again. Nothing in this memory may be believed before an event tells of the message.
pub trait Placement {
    /// Pushes the memory for the `facts.len` bytes from `facts.offset` on; no byte of the stream is asked for again once
    /// it was taken. What is pushed too little is not taken, and comes again. Nothing: they go to the context's own
    /// buffer.
    fn place<'a>(&'a mut self, context: Context, facts: &Facts, into: &mut Scatter<'a>);
}

/// All data go to the contexts' own buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept;

impl Placement for Kept {
    fn place<'a>(&'a mut self, _: Context, _: &Facts, _: &mut Scatter<'a>) {}
}

/// Memory of a context's own, for what the application does not place.
pub(super) trait Buffer {
    /// Memory for this range of the stream.
    fn buffer<'a>(&'a mut self, range: &std::ops::Range<u64>, into: &mut Scatter<'a>);
}

/// What proves the data of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proof {
    /// The Internet sum over head and data.
    Sum {
        /// That of all before the data.
        head: Sum,
    },
    /// CXOR, behind the data.
    Cxor {
        /// That of the tag before the data.
        before: Cxor,
        /// Bytes of the tag.
        before_len: usize,
        trailer: u32,
    },
}

/// Copies the next bytes of `slices`, from byte `at` of all of them on, to `memory`, and checks them in the same loop. Where
/// the pieces' CXORs cannot be joined nothing is found: it is found when they leave.
pub(super) fn gather(
    level: Level,
    begin: Pieces,
    slices: &[std::io::IoSlice<'_>],
    mut at: usize,
    memory: &mut [u8],
) -> Pieces {
    let (mut pieces, mut done) = (begin, 0);
    for slice in slices {
        if at >= slice.len() {
            at -= slice.len();
            continue;
        }
        let len = (slice.len() - at).min(memory.len() - done);
        pieces = pieces.copy(level, &slice[at..at + len], &mut memory[done..done + len]);
        (at, done) = (0, done + len);
        if done == memory.len() {
            break;
        }
    }
    pieces
}

impl Proof {
    fn begin(&self) -> Pieces {
        match *self {
            Proof::Sum { head } => Pieces::behind(Check::Internet, head.into(), 0),
            Proof::Cxor { before, before_len, .. } => {
                Pieces::behind(Check::Cxor, before.into(), before_len)
            }
        }
    }

    fn holds(&self, pieces: Pieces) -> bool {
        match (self, pieces.found()) {
            (Proof::Sum { .. }, Found::Sum(sum)) => sum.verifies(),
            (Proof::Cxor { trailer, .. }, Found::Cxor(cxor)) => cxor.bits() == *trailer,
            _ => false,
        }
    }

    /// Whether all of `data` is as it was sent.
    pub fn of(&self, level: Level, data: &[u8]) -> bool {
        self.holds(self.begin().read(level, data))
    }

    /// Copies what lies at `new` of `data` to the memory that is lent for it, and checks all of `data` in the same loop.
    /// How many bytes are there, or `None` if the packet is not as it was sent: then what was written is wiped.
    pub fn copy(
        &self,
        level: Level,
        data: &[u8],
        new: std::ops::Range<usize>,
        memory: &mut Scatter<'_>,
    ) -> Option<usize> {
        memory.cut(new.len());
        let (front, rest) = data.split_at(new.start);
        let begin = self.begin();
        let mut at = front.len();
        let mut joins = begin.joins(at);
        for piece in &memory.pieces[..memory.count] {
            at += piece.len();
            joins &= at == data.len() || begin.joins(at);
        }
        let mut from = rest;
        let mut pieces = begin.read(level, if joins { front } else { data });
        for to in &mut memory.pieces[..memory.count] {
            let (src, behind) = from.split_at(to.len());
            if joins {
                pieces = pieces.copy(level, src, to);
            } else {
                to.copy_from_slice(src);
            }
            from = behind;
        }
        if joins {
            pieces = pieces.read(level, from);
        }
        if self.holds(pieces) {
            Some(memory.len())
        } else {
            memory.wipe();
            None
        }
    }
}
