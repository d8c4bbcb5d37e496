//! What can be wrong with bytes that claim to be a header.

use core::fmt;

/// Malformed input: what was expected, what was found and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer bytes than the header says or needs.
    Truncated {
        /// The protocol whose header it is.
        protocol: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        found: usize,
    },
    /// A length field holds what the format does not allow.
    Length {
        /// The protocol whose header it is.
        protocol: &'static str,
        /// The field's name in its specification.
        field: &'static str,
        /// What it held.
        found: usize,
    },
    /// A field holds a value that the format does not allow.
    Value {
        /// The protocol whose header it is.
        protocol: &'static str,
        /// The field's name in its specification.
        field: &'static str,
        /// What it held.
        found: u32,
    },
    /// An option's length field is illegal for its kind or leaves the header.
    OptionLength {
        /// The protocol whose header it is.
        protocol: &'static str,
        /// The option's kind.
        kind: u8,
        /// Where the option starts, in bytes from the start of the header.
        at: usize,
        /// What the length field held.
        found: u8,
    },
    /// The checksum over what it covers is wrong.
    Checksum {
        /// The protocol whose header it is.
        protocol: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Truncated { protocol, needed, found } => {
                write!(f, "{protocol}: {needed} bytes needed, {found} found")
            }
            Error::Length { protocol, field, found } => {
                write!(f, "{protocol}: illegal length {found} in {field}")
            }
            Error::Value { protocol, field, found } => {
                write!(f, "{protocol}: illegal value {found:#x} in {field}")
            }
            Error::OptionLength { protocol, kind, at, found } => {
                write!(f, "{protocol}: illegal length {found} of option {kind} at byte {at}")
            }
            Error::Checksum { protocol } => write!(f, "{protocol}: wrong checksum"),
        }
    }
}

impl core::error::Error for Error {}
