//! Header formats: parse and emit, no I/O, no clock.
//!
//! One protocol, one module. A parser never panics on input and never allocates; an emitter writes into
//! a buffer that the caller made long enough.
#![forbid(unsafe_code)]

mod error;
pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;
pub mod udp;

pub use error::Error;
