//! The messages of the transfer, in XDR. `docs/transfer.md` has them in the XDR language.
//!
//! Each begins with the number of the request that it belongs to (`xid`, chosen by the client, each higher
//! than the last) and its kind. Data messages have a header of fixed shape ([`DataHeader`]), directly
//! followed by contents.

mod data;
mod reply;
mod request;

pub use data::{DATA_HEADER_LEN, DataHeader, HOLE, Hole};
pub use reply::{Code, MAX_DETAIL_LEN, MAX_ENTRIES, Reply};
pub use request::{Create, List, Read, Request};

use crate::meta::{Entry, Kind, Meta, Time, Version};
use crate::name::{MAX_NAME_LEN, MAX_PATH_LEN};
use crate::{Element, Error};
use fusewire_codec::xdr::{Decode, Decoder, Encode, Encoder, Limits};
use fusewire_codec::{Error as CodecError, Problem, Sink, SliceSource, Source};

/// Paths are bounded here with room to spare, so that a path that is too long is refused by name and not as
/// a malformed message.
const PATH_BOUND: u32 = 2 * MAX_PATH_LEN as u32;
const NAME_BOUND: u32 = MAX_NAME_LEN as u32;

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
        let word = |at: usize| {
            u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]])
        };
        Ok(Prefix { xid: word(0), kind: word(4) })
    }
}

/// A message that is not data: what follows the prefix, by kind.
pub trait Body: Sized {
    /// The kind's number.
    fn kind(&self) -> u32;

    /// Writes what follows the prefix.
    ///
    /// # Errors
    /// A field exceeds its bound.
    fn encode_body<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError>;

    /// Reads what follows the prefix, or nothing when `kind` is none of these.
    ///
    /// # Errors
    /// Malformed.
    fn decode_body<'a, S: Source<'a>>(
        kind: u32,
        from: &mut Decoder<S>,
    ) -> Result<Option<Self>, CodecError>;
}

/// The whole message, ready for the channel.
///
/// # Errors
/// A field exceeds its bound.
pub fn emit<B: Body>(xid: u32, body: &B, element: Element) -> Result<Vec<u8>, Error> {
    let mut to = Encoder::new(Vec::with_capacity(128));
    to.uint(xid)?;
    to.uint(body.kind())?;
    body.encode_body(&mut to)?;
    let mut message = to.into_inner();
    message.resize(message.len() + element.fill_len(message.len()), 0);
    element.swap(&mut message);
    Ok(message)
}

/// Reads a whole message as it came through the pipeline; `message` is changed. Nothing when its kind is
/// none of `B`'s.
///
/// # Errors
/// Malformed.
pub fn parse<B: Body>(
    message: &mut [u8],
    element: Element,
) -> Result<Option<(u32, B)>, CodecError> {
    if !message.len().is_multiple_of(element.unit()) {
        return Err(Problem::Truncated {
            needed: element.unit(),
            left: message.len() % element.unit(),
        }
        .at(0));
    }
    element.swap(message);
    let limits = Limits { depth: 4, size: 4 * u64::from(PATH_BOUND) + (1 << 16), count: 1 << 12 };
    let mut from = Decoder::new(SliceSource::new(message), limits);
    let (xid, kind) = (from.uint()?, from.uint()?);
    let Some(body) = B::decode_body(kind, &mut from)? else { return Ok(None) };
    if from.remaining() == 4 && element.unit() == 8 {
        let offset = from.position();
        match from.uint()? {
            0 => {}
            found => return Err(Problem::Fill { found: (found >> 24) as u8 }.at(offset)),
        }
    }
    from.finish()?;
    Ok(Some((xid, body)))
}

impl Encode for Kind {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        to.uint(match self {
            Kind::File => 0,
            Kind::Folder => 1,
            Kind::Link => 2,
            Kind::Other => 3,
        })
    }
}

impl<'a> Decode<'a> for Kind {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError> {
        from.enumeration("kind of file", |n| match n {
            0 => Some(Kind::File),
            1 => Some(Kind::Folder),
            2 => Some(Kind::Link),
            3 => Some(Kind::Other),
            _ => None,
        })
    }
}

impl Encode for Meta {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        self.kind.encode(to)?;
        to.uint(self.mode)?;
        to.hyper(self.mtime.s)?;
        to.uint(self.mtime.ns)?;
        to.uhyper(self.size)?;
        to.bool(self.sparse)?;
        to.opaque_fixed(&self.version.0)
    }
}

impl<'a> Decode<'a> for Meta {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError> {
        let kind = Kind::decode(from)?;
        let mode = bounded(from, 0o777, "permission bits")?;
        let s = from.hyper()?;
        let ns = bounded(from, 999_999_999, "nanoseconds")?;
        let mtime = Time { s, ns };
        let offset = from.position();
        let size = from.uhyper()?;
        // The file systems' own bound, and what keeps every sum of a position and a length below 2^64.
        if size > i64::MAX as u64 {
            return Err(Problem::Value { value: size, field: "size of a file" }.at(offset));
        }
        let sparse = from.bool()?;
        Ok(Meta { kind, mode, mtime, size, sparse, version: Version(from.opaque_fixed()?) })
    }
}

impl Encode for Entry {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError> {
        to.uint(self.depth)?;
        to.opaque(&self.name, NAME_BOUND)?;
        to.opaque(&self.target, PATH_BOUND)?;
        to.bool(self.unread)?;
        self.meta.encode(to)
    }
}

impl<'a> Decode<'a> for Entry {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError> {
        Ok(Entry {
            depth: from.uint()?,
            name: from.opaque(NAME_BOUND)?,
            target: from.opaque(PATH_BOUND)?,
            unread: from.bool()?,
            meta: Meta::decode(from)?,
        })
    }
}

fn bounded<'a, S: Source<'a>>(
    from: &mut Decoder<S>,
    bound: u32,
    field: &'static str,
) -> Result<u32, CodecError> {
    let offset = from.position();
    match from.uint()? {
        value if value <= bound => Ok(value),
        value => Err(Problem::Value { value: value.into(), field }.at(offset)),
    }
}

#[cfg(test)]
mod tests;
