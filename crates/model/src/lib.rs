//! The performance model: pure functions from a machine and a list of functions to cycles per byte,
//! for each way to run them.
//!
//! [`paper`] is Ahlgren's model as published ("A Performance Model for Integrated Layer Processing"),
//! with its machines and functions, and Abbott and Peterson's beside it.
//!
//! [`predict()`] is ours, for processors that do several things at once: `docs/model.md` has its equations.
//!
//! This crate measures nothing, reads no clock and no file: what a machine is like is an argument.
#![forbid(unsafe_code)]

pub mod advise;
pub mod machine;
pub mod paper;
mod parse;
pub mod pipeline;
pub mod predict;
mod units;

pub use advise::{Advice, Comparison, Description, advise, choose, choose_transform};
pub use machine::Machine;
pub use parse::{ParseError, parse};
pub use pipeline::{Cache, Function, Implementation, Pipeline};
pub use predict::{Bound, Prediction, predict};
pub use units::{ClocksPerByte, NsPerByte};
