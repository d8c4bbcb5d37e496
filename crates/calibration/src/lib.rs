//! From a machine to the model's parameters, and from the model's answers back to the machine.
//!
//! [`calibrate`] measures what [`fusewire_model::Machine`] describes. [`check`](fn@check) runs pipelines, other than those
//! that calibration ran, and puts what they took beside what the model said.
//!
//! Machines are shared: another program, or another machine on the same processor, takes half of a core for
//! milliseconds or seconds at a time. So everything is measured in many short rounds, spread over the whole
//! of the time, and those count during which nobody did.
#![forbid(unsafe_code)]

mod kept;
#[cfg(feature = "measure")]
mod measure;

pub use kept::{kept, processor};
#[cfg(feature = "measure")]
pub use measure::*;
