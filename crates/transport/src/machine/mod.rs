//! What is common to transport machines: what goes into a connection without I/O and what comes out of it.

mod drops;
mod info;
mod segments;
mod settings;

pub use drops::{DropCause, Drops};
pub use info::{CongestionPhase, Counters, Info};
pub use segments::{
    Again, Cut, Event, Initial, PayloadPlan, Reservation, ResetCause, Transmit, TransmitKind,
    Verdict,
};
pub use settings::{KeepAlive, Secrets};
