//! The messages of the transfer, in XDR. Their types are generated from `messages.asn1`, which says what each field
//! means; names and paths in them are as they came, and whoever uses one checks it first.
//!
//! The contents of a data message lie behind its first [`HEAD_LEN`] bytes, whatever they are: [`Around`] makes what
//! lies before and behind them where they are, and [`open`] lends them from where they lie.

mod code;

/// What the build script makes of `messages.asn1`.
#[allow(dead_code, reason = "a name for every part of a message, and not all are used")]
mod wire {
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
    pub use messages::*;
}

pub use wire::{
    Body, Cancel, Code, Commit, Data, Done, Hashing, Hole, Kind, Last, Listed, Message, Meta,
    Missing, More, Piece, Stored, Time, Version,
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
/// The request has failed.
pub type Failed = wire::Failed<'static>;

use crate::blocks::BlockHash;
use crate::{Element, Error};
use fusewire_codec::types::Octets;
use fusewire_codec::xdr::{Decode as _, Decoder, Encode as _, Encoder};
use fusewire_codec::{Error as CodecError, Limits, Problem, Sink, SliceSource, Source};
use std::ops::Range;

/// Most entries in one message.
pub const ENTRIES_MAX: usize = wire::ENTRIES_MAX as usize;
/// Most pieces that one message can tell of.
pub const PIECES_MAX: usize = wire::PIECES_MAX as usize;
/// Most bytes of the words that go with a failure.
pub const DETAIL_LEN_MAX: usize = wire::DETAIL_MAX as usize;

/// Bytes before the contents of a data message.
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
    /// From the first bytes of a message as it came through the pipeline.
    ///
    /// # Errors
    /// Truncated.
    pub fn of(message: &[u8], element: Element) -> Result<Prefix, CodecError> {
        let Some(first) = message.first_chunk::<8>() else {
            return Err(Problem::Truncated { needed: 8, left: message.len() }.at(0));
        };
        let mut first = *first;
        element.swap(&mut first);
        let [xid, kind] = [0, 4].map(|at| u32::from_be_bytes([0, 1, 2, 3].map(|n| first[at + n])));
        Ok(Prefix { xid, kind })
    }

    /// It is a data message's: behind its head lie contents, which the pipeline alone swaps.
    pub fn is_data(self) -> bool {
        [wire::KIND_DATA, wire::KIND_LAST].contains(&self.kind.into())
    }
}

/// The whole message, ready for the channel.
///
/// # Errors
/// A field exceeds its bound.
pub fn emit(message: &Message<'_>, element: Element) -> Result<Vec<u8>, Error> {
    let mut to = Encoder::new(Vec::with_capacity(128));
    message.encode(&mut to)?;
    let mut bytes = to.into_inner();
    bytes.resize(bytes.len() + element.fill_len(bytes.len()), 0);
    swap(&mut bytes, element);
    Ok(bytes)
}

/// All that is no contents is written in XDR and swapped once more, which the pipeline undoes.
fn swap(message: &mut [u8], element: Element) {
    let len = swapped_len(message, Element::Octets);
    element.swap(&mut message[..len]);
}

/// How much of a message that was swapped for `element` was.
fn swapped_len(message: &[u8], element: Element) -> usize {
    let is_data = Prefix::of(message, element).is_ok_and(Prefix::is_data);
    if is_data { HEAD_LEN.min(message.len()) } else { message.len() }
}

/// What lies around the contents of a data message, or all of a message that has none and is as short.
#[derive(Debug)]
pub struct Around {
    /// What lies before the contents, and what lies behind them.
    kept: [u8; HEAD_LEN + TAIL_LEN_MAX],
    kept_len: usize,
    /// Bytes of contents to come.
    contents: usize,
    len: usize,
}

impl Around {
    /// What lies around the contents of `message`, ready for the pipeline.
    ///
    /// # Errors
    /// A field exceeds its bound, or it is a message of another kind that is too long.
    pub fn of(message: &Message<'_>, element: Element) -> Result<Around, CodecError> {
        let contents = message.body.contents().map_or(0, |(data, _)| data.contents.len());
        let kept = [0; HEAD_LEN + TAIL_LEN_MAX];
        let mut around = Around { kept, kept_len: 0, contents, len: 0 };
        message.encode(&mut Encoder::new(&mut around))?;
        around.put(&[0; 8][..element.fill_len(around.len)])?;
        swap(&mut around.kept[..around.kept_len], element);
        Ok(around)
    }

    /// The whole of a message without contents.
    pub fn whole(&self) -> &[u8] {
        &self.kept[..self.kept_len]
    }

    /// Writes it around `contents` in `buffer`; where the message lies then.
    pub fn write(&self, buffer: &mut [u8], contents: Range<usize>) -> Range<usize> {
        let (head, tail) = self.whole().split_at(HEAD_LEN);
        let (start, end) = (contents.start - HEAD_LEN, contents.end + tail.len());
        buffer[start..contents.start].copy_from_slice(head);
        buffer[contents.end..end].copy_from_slice(tail);
        start..end
    }
}

impl Sink for Around {
    fn put(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        if self.len == HEAD_LEN && self.contents > 0 {
            debug_assert_eq!(bytes.len(), self.contents);
            self.contents = 0;
        } else {
            let room = &mut self.kept[self.kept_len..];
            let left = room.len();
            let Some(room) = room.get_mut(..bytes.len()) else {
                return Err(Problem::Full { needed: bytes.len(), left }.at(self.len));
            };
            room.copy_from_slice(bytes);
            self.kept_len += bytes.len();
        }
        self.len += bytes.len();
        Ok(())
    }

    fn position(&self) -> usize {
        self.len
    }
}

/// Reads a whole message as it came through the pipeline, which is changed by that; what has no fixed length is lent.
///
/// # Errors
/// Malformed, or a piece of a file that ends behind all files.
pub fn open(message: &mut [u8], element: Element) -> Result<Message<'_>, CodecError> {
    swap_back(message, element)?;
    read(SliceSource::new(message), element)
}

/// The same, for as long as one likes.
///
/// # Errors
/// As [`open`].
pub fn open_owned(message: &mut [u8], element: Element) -> Result<Message<'static>, CodecError> {
    swap_back(message, element)?;
    read(Copying(SliceSource::new(message)), element)
}

fn swap_back(message: &mut [u8], element: Element) -> Result<(), CodecError> {
    if !message.len().is_multiple_of(element.unit()) {
        let (needed, left) = (element.unit(), message.len() % element.unit());
        return Err(Problem::Truncated { needed, left }.at(0));
    }
    let len = swapped_len(message, element);
    element.swap(&mut message[..len]);
    Ok(())
}

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

/// Memory that does not outlive what is read from it.
struct Copying<'a>(SliceSource<'a>);

impl Source<'static> for Copying<'_> {
    fn take(&mut self, into: &mut [u8]) -> Result<(), CodecError> {
        self.0.take(into)
    }

    fn position(&self) -> usize {
        self.0.position()
    }

    fn remaining(&self) -> usize {
        self.0.remaining()
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
    /// The first byte behind it. What [`open`] gives ends below 2^63.
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
