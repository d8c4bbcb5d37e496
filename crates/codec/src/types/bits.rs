//! BIT STRING.

use super::Octets;
use crate::{Error, Problem};

/// BIT STRING: the first bit is the most significant of the first byte; bits behind the last are zero.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct BitString<'a> {
    bytes: Octets<'a>,
    unused: u8,
}

impl<'a> BitString<'a> {
    /// The bits of `bytes` but for the last `unused`, 0 to 7 and zero. `None` when they are not.
    #[inline]
    pub fn new(bytes: impl Into<Octets<'a>>, unused: u8) -> Option<Self> {
        let bytes = bytes.into();
        let fits = match bytes.last() {
            Some(last) => unused < 8 && last & ((1 << unused) - 1) == 0,
            None => unused == 0,
        };
        fits.then_some(BitString { bytes, unused })
    }

    /// What was read at an offset.
    pub(crate) fn decoded(bytes: Octets<'a>, unused: u8, offset: usize) -> Result<Self, Error> {
        BitString::new(bytes, unused).ok_or_else(|| Problem::Contents("a BIT STRING").at(offset))
    }

    /// The bits, eight a byte.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bits at the end of the last byte that do not belong to it, 0 to 7.
    pub fn unused(&self) -> u8 {
        self.unused
    }

    /// How many bits there are.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8 - usize::from(self.unused)
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bit number `n`, from 0; those behind the last are not set, as named bits are meant.
    pub fn bit(&self, n: usize) -> bool {
        self.bytes.get(n / 8).is_some_and(|byte| byte & (0x80 >> (n % 8)) != 0)
    }

    /// Without zero bits at the end: what DER wants of a type with named bits (X.690, 11.2.2).
    #[must_use]
    pub fn trimmed(&self) -> BitString<'_> {
        let len = self.bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let bytes = &self.bytes[..len];
        let unused = bytes.last().map_or(0, |last| last.trailing_zeros() as u8);
        BitString { bytes: Octets::new(bytes), unused }
    }

    /// The same, borrowing from nothing.
    #[cfg(feature = "alloc")]
    pub fn into_owned(self) -> BitString<'static> {
        BitString { bytes: self.bytes.into_owned(), unused: self.unused }
    }
}
