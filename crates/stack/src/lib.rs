//! Endpoints: device, transport, session and pipelines joined.
#![forbid(unsafe_code)]

mod application;
#[cfg_attr(not(feature = "view"), path = "unasked.rs")]
mod asked;
mod assembly;
#[cfg(feature = "kernel-tcp")]
pub mod byte_stream;
mod calls;
mod clock;
mod config;
mod connection;
pub mod context;
mod driver;
mod drops;
mod endpoint;
mod error;
mod generations;
pub mod group;
#[cfg(any(feature = "kernel-tcp", feature = "shm"))]
mod in_order;
mod inbox;
#[cfg(feature = "interfaces")]
pub mod ip;
#[cfg(feature = "kernel-tcp")]
pub mod kernel_tcp;
mod link;
mod machine;
#[cfg(feature = "view")]
mod observe;
#[cfg(feature = "interfaces")]
pub mod on_interface;
mod path;
mod pieces;
mod refusals;
mod send_ring;
#[cfg(feature = "shm")]
pub mod shm;
mod silence;
pub mod single;
mod stack;
mod trace;
mod watch;

pub use application::{Adu, Application, Keep};
pub use calls::{Asked, CallId};
pub use clock::Clock;
pub use config::Config;
pub use connection::Event;
pub use driver::Driver;
pub use drops::{Cause, Drops};
pub use endpoint::{Connection, Endpoint, Listener, Next, PORT, PeerCall, Readiness, Turn};
pub use error::{Error, Result};
pub use fusewire_session::Fingerprint;
pub use fusewire_transport::congestion;
pub use fusewire_transport::congestion::Algorithm as Congestion;
/// Which transport carries connections, and its settings.
pub use fusewire_transport::either as transport;
pub use link::{Link, Session};
pub use refusals::Refusals;
pub use stack::{Profile, Stack};
pub use trace::{Entry as TraceEntry, Kind as TraceKind};

/// Names a connection of a stack. A name is never used again while it is in use, and a stale one finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
