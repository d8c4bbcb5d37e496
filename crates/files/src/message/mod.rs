//! The messages of the transfer, in XDR: generated from `messages.asn1`. `docs/transfer.md` has them in the XDR
//! language.
//!
//! Each begins with the number of the request that it belongs to (`xid`, chosen by the client, each higher
//! than the last) and its kind. Data messages have a header of fixed shape ([`DataHeader`]), directly
//! followed by contents.

mod convert;
mod data;
mod reply;
mod request;

/// What the compiler makes of `messages.asn1`; a test of the compiler sees that it is up to date.
#[allow(dead_code, reason = "a name for every part of a message, and not all are used")]
mod wire {
    include!("messages.rs.in");
    pub use messages::*;
}

pub use data::{DATA_HEADER_LEN, DataHeader, HOLE, Hole};
pub use reply::{MAX_DETAIL_LEN, MAX_ENTRIES, Reply};
pub use request::{Create, List, Read, Request};
pub use wire::Code;

use crate::{Element, Error};
use fusewire_codec::xdr::{Decoder, Encoder, Limits};
use fusewire_codec::{Error as CodecError, Problem, Sink, SliceSource, Source};

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

/// A message that is not data: what follows the number of the request.
pub trait Body: Sized {
    /// The kind's number.
    fn kind(&self) -> u32;

    /// Whether a kind is one of these.
    fn is_kind(kind: u32) -> bool;

    /// Writes the kind and what follows it.
    ///
    /// # Errors
    /// A field exceeds its bound.
    fn encode_body<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), CodecError>;

    /// Reads the kind, which is one of these, and what follows it.
    ///
    /// # Errors
    /// Malformed.
    fn decode_body<'a, S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, CodecError>;
}

/// The whole message, ready for the channel.
///
/// # Errors
/// A field exceeds its bound.
pub fn emit<B: Body>(xid: u32, body: &B, element: Element) -> Result<Vec<u8>, Error> {
    let mut to = Encoder::new(Vec::with_capacity(128));
    to.uint(xid)?;
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
    if message.len() >= 8 && !B::is_kind(Prefix::of(message, Element::Octets)?.kind) {
        return Ok(None);
    }
    let limits = Limits { depth: 4, size: 1 << 17, count: 1 << 12 };
    let mut from = Decoder::new(SliceSource::new(message), limits);
    let xid = from.uint()?;
    let body = B::decode_body(&mut from)?;
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

#[cfg(test)]
mod tests;
