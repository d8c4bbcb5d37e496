//! Protocol machines without I/O: TCP, XTP, congestion control, timers.
//!
//! Time and randomness are arguments. Nothing here touches a payload byte: headers, offsets and lengths
//! come in, headers and ranges of offsets go out.
#![forbid(unsafe_code)]

mod autotune;
pub mod challenge;
pub mod congestion;
mod deadlines;
pub mod ecn;
pub mod either;
pub mod isn;
pub mod machine;
pub mod media;
pub mod pacing;
mod packets;
pub mod plpmtud;
pub mod prr;
mod queue;
mod rack;
mod ranges;
pub mod rtt;
pub mod syn_cookie;
pub mod tcp;
pub mod timer;
pub mod xtp;
