//! The performance model: pure functions from a machine and a list of functions to cycles per byte,
//! for each way to run them.
//!
//! [`paper`] is Ahlgren's model as published ("A Performance Model for Integrated Layer Processing"),
//! with its machines and functions, and Abbott and Peterson's beside it.
//!
//! This crate measures nothing, reads no clock and no file: what a machine is like is an argument.
#![forbid(unsafe_code)]

pub mod paper;
mod units;

pub use units::{ClocksPerByte, NsPerByte};
