//! XTP as a machine without I/O (`docs/xtp.md`).
//!
//! | file | what |
//! |---|---|
//! | `connection` | the state, how it begins, what can be asked of it |
//! | `input` | receiving: initial and final step, what is accepted |
//! | `answer` | what a control does |
//! | `sync` | the synchronising handshake: questions and their echoes |
//! | `recovery` | selective repeat and go-back-N: what is taken for lost |
//! | `receive` | the receive window, and what the peer has asked for |
//! | `messages` | EOM and BTAG: whole messages, also behind a gap |
//! | `output` | queueing and sending |
//! | `headers` | the headers of what is sent |
//! | `rate` | rate and burst |
//! | `close` | WCLOSE, RCLOSE, END, DIAG |
//! | `timers` | WTIMER, CTIMER, CTIMEOUT and the others |
//! | `info` | what it tells of itself |
//! | `state` | the states |
//! | `listener`, `cookies`, `half_open` | who takes FIRST, with a bound on those that have proven nothing |
//! | `single` | services 1 to 3: one message, and its answer |
//! | `group` | one stream to many |
//! | `machine` | the traits that every transport machine implements |

mod answer;
mod close;
mod config;
mod connection;
mod cookies;
mod disputes;
pub mod group;
mod half_open;
mod headers;
mod info;
mod input;
mod listener;
mod machine;
mod messages;
mod output;
mod rate;
mod receive;
mod recovery;
pub mod single;
mod state;
mod sync;
mod timers;

pub use config::{Config, Rate, Retransmission};
pub use connection::{Connection, Name};
pub use listener::Listener;
pub use messages::Message;
pub use state::State;

/// Spans that are kept of an ECNTL, and sent in one.
pub const SPANS: usize = 16;

/// Those spans.
type Spans = fusewire_wire::xtp::SpanList<SPANS>;

/// What lies before the data.
pub type Header = fusewire_wire::xtp::Header<Spans>;

/// A packet to put on the wire.
pub type Transmit = crate::machine::Transmit<Header>;

/// Both ends of a context.
pub type Ends = crate::machine::Ends<Name>;

/// What a listener does with a packet.
pub type ListenerAction = crate::machine::ListenerAction<Config>;
