//! Protocol machines without I/O: TCP, congestion control, timers.
//!
//! Time and randomness are arguments. Nothing here touches a payload byte: headers, offsets and lengths
//! come in, headers and ranges of offsets go out.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod ecn;
pub mod isn;
pub mod machine;
pub mod pacing;
pub mod plpmtud;
pub mod prr;
pub mod rtt;
pub mod syn_cookie;
pub mod tcp;
pub mod timer;
