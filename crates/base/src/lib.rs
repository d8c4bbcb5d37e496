//! What every other crate speaks in: sequence numbers, instants, partial one's-complement sums, causes of drops, and
//! memory that begins at a cache line.
//!
//! This crate does no I/O, reads no clock and imports nothing of ours.
#![forbid(unsafe_code)]

mod drops;
mod hidden;
mod instant;
mod lines;
mod seq;
mod sum;

pub use drops::{Cause, Count, Drops, are_distinct};
pub use instant::Instant;
pub use lines::Lines;
pub use seq::Seq;
pub use sum::Sum;
