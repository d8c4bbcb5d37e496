//! Header protection: part A of a record, its header, passes last when it is sealed and first when it is opened
//! (Braun and Diot, section 3.2.2), xored with a mask of the record's stream offset (RFC 9001, section 5.4). And record
//! padding (RFC 8446, section 5.4), without which a segment of one record says how long that is.

use super::RecordParams;
use super::header::HEADER_LEN;
use crate::keys::TrafficSecret;
use core::cell::Cell;
use fusewire_kernels::Mask;

/// What somebody who watches is not to learn of records: type, length and index are enciphered, and bodies filled up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderProtection {
    /// log2 of the bytes of which a body is filled up to a multiple.
    exponent: u8,
}

impl HeaderProtection {
    /// The most bytes of which bodies can be filled up to a multiple.
    pub const PADDING_MAX: usize = 1 << Self::EXPONENT_MAX;

    const EXPONENT_MAX: u8 = 10;

    /// Of headers, with bodies filled up to a multiple of `padding` bytes: a power of two, 1 for as they are.
    /// `None` for another number, and above [`HeaderProtection::PADDING_MAX`].
    pub const fn with_padding(padding: usize) -> Option<HeaderProtection> {
        if !padding.is_power_of_two() {
            return None;
        }
        HeaderProtection::from_exponent(padding.trailing_zeros() as u8)
    }

    /// Of log2 of the padding.
    pub(crate) const fn from_exponent(exponent: u8) -> Option<HeaderProtection> {
        if exponent <= Self::EXPONENT_MAX { Some(HeaderProtection { exponent }) } else { None }
    }

    pub(crate) const fn exponent(self) -> u8 {
        self.exponent
    }

    /// Bytes of which a body is filled up to a multiple.
    #[inline]
    pub const fn padding(self) -> usize {
        1 << self.exponent
    }

    /// Bytes of a body of `len` when it has been filled up. None becomes longer than the longest that there may be, and
    /// an empty one is filled up too.
    #[inline]
    pub(crate) fn padded(self, len: usize, longest: usize) -> usize {
        if self.exponent == 0 {
            return len;
        }
        len.max(1).next_multiple_of(self.padding()).min(longest.max(len))
    }
}

/// Enciphers and deciphers the headers of one direction, if that was agreed on.
pub(super) struct Protector {
    mask: Option<Mask>,
    /// The last offset and its mask: a header is looked at before its record is opened.
    last: Cell<(u64, [u8; HEADER_LEN])>,
}

impl Protector {
    /// Of the direction's first secret: there is one key for all epochs.
    pub(super) fn new(params: &RecordParams, secret: &TrafficSecret) -> Protector {
        let make = params.protection.and(params.cipher.mask);
        let mask = make.map(|make| {
            let key = secret.header_key(params.cipher);
            make(params.data_pass.level, &key[..params.cipher.key_len])
        });
        // No record begins there.
        Protector { mask, last: Cell::new((u64::MAX, [0; HEADER_LEN])) }
    }

    /// The header of the record at `offset` as it travels, and the inverse.
    #[inline]
    pub(super) fn apply(&self, offset: u64, head: &[u8; HEADER_LEN]) -> [u8; HEADER_LEN] {
        let Some(mask) = &self.mask else { return *head };
        let (last_offset, mut bytes) = self.last.get();
        if last_offset != offset {
            bytes = mask.of(offset);
            self.last.set((offset, bytes));
        }
        (u128::from_ne_bytes(bytes) ^ u128::from_ne_bytes(*head)).to_ne_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_a_power_of_two_and_no_body_outgrows_the_longest() {
        let good: Vec<_> =
            (0..3000).filter(|n| HeaderProtection::with_padding(*n).is_some()).collect();
        assert_eq!(good, (0..=10).map(|e| 1 << e).collect::<Vec<_>>());
        assert_eq!(HeaderProtection::from_exponent(11), None);
        let of = |padding| HeaderProtection::with_padding(padding).unwrap();
        assert_eq!([0, 1, 77].map(|len| of(1).padded(len, 77)), [0, 1, 77]);
        let lens = [0, 1, 256, 257, 960, 1000];
        assert_eq!(lens.map(|len| of(256).padded(len, 1000)), [256, 256, 256, 512, 1000, 1000]);
        // A code for giving up may be longer than a body may.
        assert_eq!(of(256).padded(8, 5), 8);
    }
}
