//! Header formats: parse and emit, no I/O, no clock.
//!
//! One protocol, one module. A parser never panics on input and never allocates; an emitter writes into
//! a buffer that the caller made long enough.
#![forbid(unsafe_code)]

pub mod arp;
pub mod dhcp;
mod error;
pub mod ethernet;
pub mod feedback;
pub mod groups;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
pub mod ndp;
pub mod tcp;
pub mod udp;
pub mod xtp;

pub use error::Error;
