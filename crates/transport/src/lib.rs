//! Protocol machines without I/O: TCP, congestion control, timers.
//!
//! Time and randomness are arguments. Nothing here touches a payload byte.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod pacing;
pub mod prr;
pub mod rtt;
pub mod timer;

pub use congestion::Controller;
pub use pacing::Pacer;
pub use prr::Prr;
pub use rtt::Rtt;
pub use timer::Wheel;
