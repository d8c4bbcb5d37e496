//! TCP as a machine without I/O (RFC 9293).
//!
//! | file | what |
//! |---|---|
//! | `connection` | the state, how it begins, what can be asked of it |
//! | `input` | receiving: initial and final step, header prediction |
//! | `control` | receiving: checks, RST and SYN, the state diagram |
//! | `ack` | what an acknowledgement does |
//! | `recovery` | RACK-TLP, retransmission timer, undo |
//! | `output` | queueing and sending |
//! | `train` | segments that leave as one super-frame |
//! | `timers` | deadlines, zero-window and keep-alive probes |
//! | `window` | the receive window and delayed acknowledgements |
//! | `reports` | selective acknowledgements |
//! | `info` | what it tells of itself |
//! | `state` | the states of the diagram |
//! | `options` | what may be changed while it is open |
//! | `listener` | passive open: half-open connections, SYN cookies |
//! | `machine` | the traits that every transport machine implements |

mod ack;
mod config;
mod connection;
mod control;
mod info;
mod input;
mod listener;
mod machine;
mod options;
mod output;
mod recovery;
mod reports;
mod state;
mod timers;
mod train;
mod window;

pub use config::Config;
pub use connection::{Connection, MIN_PAYLOAD};
pub use listener::{Listener, reset_for};
pub use machine::Ports;
pub use state::State;

/// What names a connection: the addresses of the layer below (UDP's where TCP is encapsulated, else with
/// the TCP ports or zero) and the TCP ports.
pub type Tuple = crate::machine::Ends<Ports>;

/// What a listener does with a segment.
pub type ListenerAction = crate::machine::ListenerAction<Config>;

/// A segment to put on the wire.
pub type Transmit = crate::machine::Transmit<fusewire_wire::tcp::Header>;
