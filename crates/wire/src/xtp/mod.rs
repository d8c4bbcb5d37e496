//! XTP's packets (`docs/xtp.md`, sections 1 to 6): a header of 32 bytes, and one of eight bodies.
//!
//! ```text
//! Packet::parse  bytes ──▶ Header<SpanSlice> (what lies before the data), data, trailer
//! Header::emit   Header<any spans> ──▶ bytes; data and trailer are written behind it by who has them
//! ```
//! Nothing here knows a context: which packet is right when is not asked. Form is: what `parse` gives is well-formed, in the
//! words of section 6, and every header has one way to be written, so that [`Header::emit`] gives the bytes that were
//! parsed, but for bits that are reserved.

mod diag;
mod header;
mod options;
mod segment;
mod span;
#[cfg(test)]
mod tests;

use core::fmt;
use core::hash::Hasher;
use core::num::NonZeroU64;

use crate::Error;

pub use diag::{Code, Diag, Reason};
pub use header::{
    Body, Control, First, Header, JoinControl, Packet, TrafficControl, Unfit, seal, verifies,
};
pub use options::{Format, Options};
pub use segment::{Address, Limits, MAXDATA_MIN, Service, Traffic};
pub use span::{Span, SpanList, SpanSlice, Spans};

/// Protocol number in an IP header.
pub const NUMBER: u8 = 36;
/// Length of the header, in bytes, before the body.
pub const HEADER_LEN: usize = 32;
/// Where the check lies in it, of two bytes.
pub const CHECK_AT: usize = 16;
/// Length of the trailer that CXOR has behind the data, in bytes.
pub const TRAILER_LEN: usize = 4;
/// The version in `cmd`.
pub const VERSION: u8 = 1;
/// No offset of a stream is larger, so that sums of two never overflow.
pub const OFFSET_MAX: u64 = (1 << 63) - 1;

const PROTOCOL: &str = "xtp";
/// RTN: the key is its receiver's.
const RTN: u64 = 1 << 63;

/// Names a context at its owner: 63 bits, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(NonZeroU64);

impl Key {
    /// The lower 63 bits of `bits`; `None` when they are zero.
    pub const fn new(bits: u64) -> Option<Key> {
        match NonZeroU64::new(bits & !RTN) {
            Some(bits) => Some(Key(bits)),
            None => None,
        }
    }

    /// The 63 bits.
    pub const fn bits(self) -> u64 {
        self.0.get()
    }

    /// A field that has a key without RTN.
    fn parse(field: &'static str, bits: u64) -> Result<Key, Error> {
        match Key::new(bits) {
            Some(key) if bits & RTN == 0 => Ok(key),
            _ => Err(value(field, upper(bits))),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.bits())
    }
}

/// For tables of keys that are drawn at random, by who has the table: they are their own hash.
#[derive(Default)]
pub struct KeyHash(u64);

impl Hasher for KeyHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 ^ u64::from(*byte) ^ self.0 >> 56);
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// What an error shows of a number of 64 bits.
const fn upper(number: u64) -> u32 {
    (number >> 32) as u32
}

const fn value(field: &'static str, found: u32) -> Error {
    Error::Value { protocol: PROTOCOL, field, found }
}

const fn length(field: &'static str, found: usize) -> Error {
    Error::Length { protocol: PROTOCOL, field, found }
}

const fn truncated(needed: usize, found: usize) -> Error {
    Error::Truncated { protocol: PROTOCOL, needed, found }
}

/// The next `N` bytes, taken off `bytes`. `before` are those that were taken already.
fn take<'a, const N: usize>(bytes: &mut &'a [u8], before: usize) -> Result<&'a [u8; N], Error> {
    let Some((first, rest)) = bytes.split_first_chunk::<N>() else {
        return Err(truncated(before + N, before + bytes.len()));
    };
    *bytes = rest;
    Ok(first)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) << 16 | u32::from(half(bytes, at + 2))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

/// Writes fields one behind the other.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..][..bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn half(&mut self, x: u16) {
        self.bytes(&x.to_be_bytes());
    }

    fn word(&mut self, x: u32) {
        self.bytes(&x.to_be_bytes());
    }

    fn long(&mut self, x: u64) {
        self.bytes(&x.to_be_bytes());
    }
}
