//! What every other crate speaks in: sequence numbers, instants and partial one's-complement sums.
//!
//! This crate does no I/O, reads no clock and imports nothing of ours.
#![forbid(unsafe_code)]

mod instant;
mod seq;
mod sum;

pub use instant::Instant;
pub use seq::Seq;
pub use sum::Sum;
