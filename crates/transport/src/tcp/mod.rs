//! TCP as a machine without I/O (RFC 9293).

mod config;
mod types;

pub use config::{Config, KeepAlive, Tuple};
pub use types::{
    Counters, Cut, DROP_CAUSES, DropCause, Event, Info, Initial, PayloadPlan, Reservation, ResetCause, State, Transmit,
    TransmitKind, Verdict,
};
