//! Congestion control of media: a rate for who makes the data, not a window over data that were made. No I/O, no clock, no
//! randomness; no allocation after the start.

mod adapt;
mod arrivals;
mod breaker;
mod losses;
mod nada;
mod path;
mod yielding;

pub use adapt::{Adapt, Made, Yields};
pub use arrivals::{Arrivals, EARLY};
pub use breaker::{Breaker, Cause, Limits};
pub use nada::{Config, DELTA, Nada, Seen, Target};
