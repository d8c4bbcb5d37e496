//! Protocol machines without I/O: TCP, congestion control, timers.
//!
//! Time and randomness are arguments. Nothing here touches a payload byte: headers, offsets and lengths
//! come in, headers and ranges of offsets go out.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod pacing;
pub mod prr;
pub mod rtt;
pub mod timer;
