//! OCTET STRING, and values that are kept as they are encoded.

use core::fmt;

#[cfg(feature = "alloc")]
use alloc::{borrow::Cow, vec::Vec};

/// OCTET STRING: borrowed, or owned where the input had it in pieces or its source does not lend.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Octets<'a>(
    #[cfg(feature = "alloc")] Cow<'a, [u8]>,
    #[cfg(not(feature = "alloc"))] &'a [u8],
);

impl<'a> Octets<'a> {
    /// These bytes, borrowed.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Octets(Cow::Borrowed(bytes))
    }

    /// These bytes, borrowed.
    #[cfg(not(feature = "alloc"))]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Octets(bytes)
    }

    /// The bytes.
    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.iter().as_slice()
    }

    /// The bytes from `start` on.
    #[cfg(not(feature = "alloc"))]
    pub(crate) fn after(self, start: usize) -> Self {
        Octets(&self.0[start..])
    }

    /// The bytes from `start` on.
    #[cfg(feature = "alloc")]
    pub(crate) fn after(self, start: usize) -> Self {
        Octets(match self.0 {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[start..]),
            Cow::Owned(mut bytes) => Cow::Owned(bytes.split_off(start)),
        })
    }

    /// The same, borrowing from nothing.
    #[cfg(feature = "alloc")]
    pub fn into_owned(self) -> Octets<'static> {
        Octets(Cow::Owned(self.0.into_owned()))
    }

    /// The bytes as a vector; those that are owned are not copied.
    #[cfg(feature = "alloc")]
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_owned()
    }
}

impl core::ops::Deref for Octets<'_> {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Octets<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl<'a> From<&'a [u8]> for Octets<'a> {
    #[inline(always)]
    fn from(bytes: &'a [u8]) -> Self {
        Octets::new(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Octets<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Octets::new(bytes)
    }
}

#[cfg(feature = "alloc")]
impl From<Vec<u8>> for Octets<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Octets(Cow::Owned(bytes))
    }
}

impl fmt::Debug for Octets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Octets(")?;
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// ANY or an open type whose type is not known here: its complete encoding, as it is. In BER that is tag,
/// length and contents; elsewhere the octets that the count in front of it covers.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Any<'a>(pub Octets<'a>);

impl<'a> Any<'a> {
    /// The complete encoding of a value.
    pub const fn new(encoding: &'a [u8]) -> Self {
        Any(Octets::new(encoding))
    }

    /// The complete encoding of the value.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
