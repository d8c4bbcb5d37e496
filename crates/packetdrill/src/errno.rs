//! Errors as the C side takes them.

/// A value of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What a call gives.
pub type Result<T> = std::result::Result<T, Errno>;
