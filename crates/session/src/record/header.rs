//! The 16 bytes before a record's ciphertext.

use crate::error::Error;
use fusewire_base::Sum;
use fusewire_kernels::{Check, Cxor, Found};

/// Bytes of a record's header.
pub const HEADER_LEN: usize = 16;

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordType {
    /// One ADU.
    Adu,
    /// Nothing; the last record of its direction.
    EndOfStream,
    /// Bytes to be ignored.
    Padding,
    /// The application's code for giving the connection up, in 8 bytes; the last record of its direction.
    Close,
}

impl RecordType {
    const fn code(self) -> u8 {
        match self {
            RecordType::Adu => 1,
            RecordType::EndOfStream => 2,
            RecordType::Padding => 3,
            RecordType::Close => 4,
        }
    }

    /// True when nothing follows in its direction.
    #[inline]
    pub const fn is_last(self) -> bool {
        matches!(self, RecordType::EndOfStream | RecordType::Close)
    }

    /// Whether its body may have `len` bytes.
    #[inline]
    pub(super) const fn has_body_len(self, len: usize) -> bool {
        match self {
            RecordType::EndOfStream => len == 0,
            RecordType::Close => len == CLOSE_BODY_LEN,
            RecordType::Adu | RecordType::Padding => true,
        }
    }
}

/// Bytes of the body of [`RecordType::Close`]: a number, big-endian.
pub const CLOSE_BODY_LEN: usize = 8;

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// What the record carries.
    pub kind: RecordType,
    /// Bytes of plaintext.
    pub body_len: u32,
    /// 0-based count of records in this direction.
    pub index: u64,
}

impl RecordHeader {
    /// The bytes on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let first = u64::from(self.kind.code()) << 56 | u64::from(self.body_len);
        (u128::from(first) << 64 | u128::from(self.index)).to_be_bytes()
    }

    /// Reads a header from the first 16 bytes of `bytes`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for an unknown type, flags or reserved bits that are set, or too few bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<RecordHeader, Error> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(malformed("16 bytes", bytes.len() as u64, bytes.len()));
        };
        let both = u128::from_be_bytes(*bytes);
        let (first, index) = ((both >> 64) as u64, both as u64);
        let kind = match first >> 32 {
            0x0100_0000 => RecordType::Adu,
            0x0200_0000 => RecordType::EndOfStream,
            0x0300_0000 => RecordType::Padding,
            0x0400_0000 => RecordType::Close,
            other => return Err(bad_start(other)),
        };
        Ok(RecordHeader { kind, body_len: first as u32, index })
    }
}

#[cold]
fn bad_start(first: u64) -> Error {
    match first >> 24 {
        1..=4 if first >> 16 & 0xff != 0 => malformed("flags 0", first >> 16 & 0xff, 1),
        1..=4 => malformed("reserved bits 0", first & 0xffff, 2),
        kind => malformed("record type 1 to 4", kind, 0),
    }
}

fn malformed(expected: &'static str, found: u64, offset: usize) -> Error {
    Error::Malformed { what: "record header", expected, found, offset }
}

/// What a check finds of a whole record: of its header as it lies there, of its ciphertext, as `body` says, and of its tag.
#[inline]
pub(super) fn of_record(
    check: Check,
    head: &[u8; HEADER_LEN],
    (body, body_len): (Found, usize),
    tag: &[u8],
) -> Found {
    let head = match check {
        Check::Internet => Found::Sum(sum_16(head)),
        Check::Cxor => Found::Cxor(Cxor::of(head)),
        Check::None => Found::Nothing,
    };
    let found = head.then(HEADER_LEN, body);
    // Where there is a tag, there is no other check but this.
    if tag.is_empty() { found } else { found.then(body_len, Found::Sum(sum_tag(tag))) }
}

/// The sum of 16 bytes: 2^16 is 1 modulo 2^16 - 1, so a 64-bit number and its words have one sum.
#[inline]
fn sum_16(bytes: &[u8; 16]) -> Sum {
    let both = u128::from_be_bytes(*bytes);
    Sum::from_words((both >> 64) as u64) + Sum::from_words(both as u64)
}

/// The sum of a tag: of 16 bytes, or a multiple of them.
#[inline]
fn sum_tag(tag: &[u8]) -> Sum {
    tag.as_chunks().0.iter().fold(Sum::ZERO, |sum, bytes| sum + sum_16(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_other_first_word_is_refused() {
        let header = RecordHeader {
            kind: RecordType::Adu,
            body_len: 0x0102_0304,
            index: 0x1122_3344_5566_7788,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(RecordHeader::parse(&bytes).unwrap(), header);
        for len in 0..HEADER_LEN {
            assert!(RecordHeader::parse(&bytes[..len]).is_err());
        }
        for kind in 0..=255u8 {
            let mut other = bytes;
            other[0] = kind;
            assert_eq!(RecordHeader::parse(&other).is_ok(), (1..=4).contains(&kind));
        }
        for at in 1..4 {
            for bit in 0..8 {
                let mut other = bytes;
                other[at] ^= 1 << bit;
                let Err(Error::Malformed { offset, .. }) = RecordHeader::parse(&other) else {
                    panic!()
                };
                assert_eq!(offset, at.min(2));
            }
        }
    }

    #[test]
    fn sum_is_the_slow_sum() {
        let bytes: [u8; 16] = core::array::from_fn(|i| (i * 41 + 200) as u8);
        assert_eq!(sum_16(&bytes), Sum::of(&bytes));
        assert_eq!(sum_16(&[0xff; 16]), Sum::of(&[0xff; 16]));
    }
}
