//! INTEGER of any width.

use super::Octets;
use crate::{Error, Problem};
use core::fmt;

/// An INTEGER without bounds: two's complement, most significant byte first, as few bytes as it takes and
/// at least one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Integer<'a>(Octets<'a>);

impl<'a> Integer<'a> {
    /// From two's complement, most significant byte first; needless leading bytes are left out. No bytes at
    /// all are zero.
    pub fn from_be_bytes(bytes: &'a [u8]) -> Self {
        match bytes {
            [] => Integer(Octets::new(&[0])),
            bytes => Integer(Octets::new(&bytes[needless(bytes)..])),
        }
    }

    /// Two's complement in as few bytes as it takes, most significant first.
    pub fn as_be_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As a number, if it fits.
    pub fn to_i64(&self) -> Option<i64> {
        if self.0.len() > 8 {
            return None;
        }
        let first = if self.0[0] & 0x80 == 0 { 0 } else { -1i64 };
        Some(self.0.iter().fold(first, |value, &byte| value << 8 | i64::from(byte)))
    }

    /// It is below zero.
    pub fn is_negative(&self) -> bool {
        self.0[0] & 0x80 != 0
    }

    /// The same, borrowing from nothing.
    #[cfg(feature = "alloc")]
    pub fn into_owned(self) -> Integer<'static> {
        Integer(self.0.into_owned())
    }

    /// From two's complement of at least one byte.
    pub(crate) fn of(octets: Octets<'a>) -> Self {
        match needless(&octets) {
            0 => Integer(octets),
            needless => Integer(octets.after(needless)),
        }
    }

    /// From two's complement that was read at an offset; no bytes at all are no INTEGER.
    pub(crate) fn decoded(octets: Octets<'a>, offset: usize) -> Result<Self, Error> {
        match octets.is_empty() {
            true => Err(Problem::Contents("an INTEGER").at(offset)),
            false => Ok(Integer::of(octets)),
        }
    }

    /// From bytes that [`needless`] has been asked about.
    pub(crate) fn minimal(octets: Octets<'a>) -> Self {
        debug_assert!(!octets.is_empty() && needless(&octets) == 0);
        Integer(octets)
    }
}

/// How many bytes in front say only what the sign of the next one says, too.
pub(crate) fn needless(bytes: &[u8]) -> usize {
    let pairs = bytes.windows(2);
    pairs.take_while(|pair| matches!((pair[0], pair[1] >> 7), (0, 0) | (0xff, 1))).count()
}

/// Bytes of the shortest two's complement of `value`, 1 to 8.
#[inline(always)]
pub(crate) const fn signed_len(value: i64) -> usize {
    let magnitude = (value ^ (value >> 63)) as u64;
    // Bits of the magnitude and one for the sign, in whole bytes. `| 1` changes nothing: it is one byte anyway.
    (72 - (magnitude | 1).leading_zeros() as usize) / 8
}

#[cfg(feature = "alloc")]
impl From<i64> for Integer<'static> {
    fn from(value: i64) -> Self {
        let bytes = value.to_be_bytes();
        Integer(Octets::from(bytes[8 - signed_len(value)..].to_vec()))
    }
}

#[cfg(feature = "alloc")]
impl Integer<'static> {
    /// From a number without sign. (It is no `From`: a literal would not know which of two it is for.)
    pub fn from_u64(value: u64) -> Self {
        let mut bytes = [0; 9];
        bytes[1..].copy_from_slice(&value.to_be_bytes());
        Integer::from_be_bytes(&bytes).into_owned()
    }
}

impl fmt::Debug for Integer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_i64() {
            Some(value) => write!(f, "Integer({value})"),
            None => {
                f.write_str("Integer(0x")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_at_their_edges() {
        for (value, len) in [
            (0, 1),
            (-1, 1),
            (127, 1),
            (128, 2),
            (-128, 1),
            (-129, 2),
            (32767, 2),
            (32768, 3),
            (-32768, 2),
            (-32769, 3),
            (i64::MAX, 8),
            (i64::MIN, 8),
            (i64::MAX >> 8, 7),
            ((i64::MAX >> 8) + 1, 8),
        ] {
            assert_eq!(signed_len(value), len, "{value}");
            assert_eq!(Integer::from(value).as_be_bytes().len(), len);
            assert_eq!(Integer::from(value).to_i64(), Some(value));
        }
    }
}
