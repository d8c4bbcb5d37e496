//! The messages of the transfer, in XDR. Their types are generated from `messages.asn1`, which says what each field
//! means; names and paths in them are as they came, and whoever uses one checks it first.
//!
//! Both ways they pass the loop of the connection: [`Leaving`] is encoded while it is sealed, [`Arriving`] decoded while
//! it is opened, contents from where they are and to where they belong.

mod arriving;
mod code;
mod leaving;
mod swapped;

/// What the build script makes of `messages.asn1`.
#[allow(dead_code, reason = "a name for every part of a message, and not all are used")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
    pub use messages::*;
}

pub use arriving::{Arriving, Came, Run, open};
pub use leaving::{Leaving, emit};
pub use wire::{
    Body, Cancel, Code, Commit, Data, Done, Hashing, Hole, Join, Kind, Last, Listed, Message, Meta,
    Missing, More, Over, Piece, Report, Stored, Time, Version,
};

/// What is there?
pub type Look = wire::Look<'static>;
/// What is in the folder?
pub type List = wire::List<'static>;
/// Contents of a file.
pub type Get = wire::Get<'static>;
/// Make a file, folder or link.
pub type Put = wire::Put<'static>;
/// Set permissions and time of a folder.
pub type Touch = wire::Touch<'static>;
/// An entry of a listing.
pub type Entry = wire::Entry<'static>;
/// Entries of a folder.
pub type Entries = wire::Entries<'static>;
/// What opens a group's messages of an epoch.
pub type Epoch = wire::Epoch<'static>;
/// Files that are cast.
pub type Cast = wire::Cast<'static>;
/// One of them.
pub type CastFile = wire::CastFile<'static>;
/// Hashes of blocks of files that are cast.
pub type Hashes = wire::Hashes<'static>;
/// One of them.
pub type Hashed = wire::Hashed<'static>;
/// The request has failed.
pub type Failed = wire::Failed<'static>;

use crate::Element;
use crate::blocks::BlockHash;
use fusewire_codec::types::Octets;
use fusewire_codec::xdr::{Decode as _, Decoder};
use fusewire_codec::{Error as CodecError, Limits, Problem, Source};
use std::ops::Range;

/// Most entries in one message.
pub const ENTRIES_MAX: usize = wire::ENTRIES_MAX as usize;
/// Most pieces that one message can tell of.
pub const PIECES_MAX: usize = wire::PIECES_MAX as usize;
/// Most bytes of the words that go with a failure.
pub const DETAIL_LEN_MAX: usize = wire::DETAIL_MAX as usize;

/// Bytes before the contents of a data message, whatever they are.
pub const HEAD_LEN: usize = 24;
/// Most bytes behind them: fill, a hash, and what makes the whole a multiple of the element.
pub const TAIL_LEN_MAX: usize = 40;

impl Hashing {
    /// Blocks are followed by their hashes. What is not known is no reason to do without.
    pub(crate) const fn is_sent(self) -> bool {
        !matches!(self, Hashing::Receiver | Hashing::Nobody)
    }

    /// Who takes contents hashes them.
    pub(crate) const fn is_received(self) -> bool {
        !matches!(self, Hashing::Nobody)
    }

    /// It asks for less than `other` does.
    pub(crate) const fn is_weaker_than(self, other: Hashing) -> bool {
        (other.is_sent() && !self.is_sent()) || (other.is_received() && !self.is_received())
    }

    /// As a message has it, and nothing where both sides hash.
    pub(crate) fn named(self) -> Option<Hashing> {
        (!self.is_sent()).then_some(self)
    }
}

/// What a message may ask of a decoder.
const LIMITS: Limits = Limits { depth: 4, size: 1 << 17, count: 1 << 12 };

/// The number of the request and the kind, which every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Number of the request.
    pub xid: u32,
    /// Kind of the message.
    pub kind: u32,
}

impl Prefix {
    /// From the first bytes of a message as they came through the pipeline.
    pub fn of(mut first: [u8; 8], element: Element) -> Prefix {
        element.swap(&mut first);
        let [xid, kind] = [0, 4].map(|at| u32::from_be_bytes([0, 1, 2, 3].map(|n| first[at + n])));
        Prefix { xid, kind }
    }

    /// It is a data message's: behind its head lie contents, which the pipeline alone swaps.
    pub fn is_data(self) -> bool {
        [wire::KIND_DATA, wire::KIND_LAST].contains(&self.kind.into())
    }
}

/// A whole message, filled up to the element's unit.
fn read<'a>(source: impl Source<'a>, element: Element) -> Result<Message<'a>, CodecError> {
    let mut from = Decoder::new(source, LIMITS);
    let message = Message::decode(&mut from)?;
    if from.remaining() == 4 && element.unit() == 8 {
        let offset = from.position();
        match from.uint()? {
            0 => {}
            found => return Err(Problem::Fill { found: (found >> 24) as u8 }.at(offset)),
        }
    }
    let end = from.position();
    from.finish()?;
    match message.body.pieces().iter().find(|piece| piece.end() > i64::MAX as u64) {
        None => Ok(message),
        Some(Piece { length, .. }) => {
            Err(Problem::Value { value: *length, field: "the length of a piece" }.at(end))
        }
    }
}

/// Nothing but zeros, as much as one likes: in XDR, values of which every field is zero, false, empty or missing.
struct Zeros;

impl Source<'static> for Zeros {
    fn take(&mut self, into: &mut [u8]) -> Result<(), CodecError> {
        into.fill(0);
        Ok(())
    }

    fn position(&self) -> usize {
        0
    }

    fn remaining(&self) -> usize {
        LIMITS.size as usize
    }
}

/// What to begin from where only some fields matter: who says so needs no change when there is one more.
macro_rules! blank {
    ($($message:ident)*) => {$(
        impl Default for $message {
            /// Every field is zero, false, empty or missing.
            fn default() -> Self {
                let value = Self::decode(&mut Decoder::new(Zeros, LIMITS));
                value.unwrap_or_else(|error| unreachable!("zeros are a value of every type: {error}"))
            }
        }
    )*};
}

blank! { Entry Get Meta Put }

impl<'a> Body<'a> {
    /// What a data message has: contents, and the hash of the block that they end, if they do.
    pub fn contents(&self) -> Option<(&Data<'a>, Option<BlockHash>)> {
        match self {
            Body::Data(data) => Some((data, None)),
            Body::Last(Last { data, hash }) => Some((data, hash.first_chunk().copied())),
            _ => None,
        }
    }

    /// The pieces of files that it names.
    fn pieces(&self) -> &[Piece] {
        match self {
            Body::Get(get) => std::slice::from_ref(&get.piece),
            Body::Put(put) => std::slice::from_ref(&put.piece),
            Body::Hole(hole) => std::slice::from_ref(&hole.piece),
            Body::Missing(missing) => &missing.pieces,
            _ => &[],
        }
    }
}

impl Piece {
    /// The first byte behind it. What is received ends below 2^63.
    pub const fn end(&self) -> u64 {
        self.position.saturating_add(self.length)
    }

    /// Its bytes.
    pub const fn range(&self) -> Range<u64> {
        self.position..self.end()
    }
}

impl From<Range<u64>> for Piece {
    fn from(range: Range<u64>) -> Piece {
        Piece { position: range.start, length: range.end - range.start }
    }
}

/// Bytes of this side as a field.
pub(crate) fn octets(bytes: &[u8]) -> Octets<'static> {
    Octets::from(bytes.to_vec())
}
