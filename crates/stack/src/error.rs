//! What can go wrong, by blame.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fusewire_session::Fingerprint;

/// An error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{action}: {source}")]
    Os {
        /// What was tried.
        action: &'static str,
        /// Its answer.
        source: Arc<io::Error>,
    },
    /// Handshake, keys or records failed.
    #[error(transparent)]
    Session(#[from] fusewire_session::Error),
    /// The server's key has not been judged, and the caller judged against it.
    #[error("the server's key {0} is not trusted")]
    Untrusted(Fingerprint),
    /// Nobody answers.
    #[error(
        "no answer from {0}: does a server listen there, with the same transport, and does UDP get through?"
    )]
    TimedOut(SocketAddr),
    /// Nothing was heard of the peer for as long as both sides let a connection be silent: its process or its
    /// machine is gone, or the network between.
    #[error("nothing was heard of {peer} for {} s", after.as_secs_f64())]
    Silent {
        /// Who.
        peer: SocketAddr,
        /// For how long: [`Options::idle_timeout`](fusewire_session::Options::idle_timeout).
        after: Duration,
    },
    /// The network says that nobody is there.
    #[error("nobody listens at {0}, or it cannot be reached")]
    Unreachable(SocketAddr),
    /// The peer refused the connection.
    #[error("{0} refused the connection")]
    Refused(SocketAddr),
    /// The peer reset the connection.
    #[error("{0} reset the connection")]
    Reset(SocketAddr),
    /// The peer sent what the protocol forbids.
    #[error("{peer}: {what}")]
    Protocol {
        /// Who.
        peer: SocketAddr,
        /// What it did.
        what: &'static str,
    },
    /// The peer cannot be reached through shared memory.
    #[error("no shared memory with {peer}: {why}")]
    NoSharedMemory {
        /// Who.
        peer: SocketAddr,
        /// In words for a user.
        why: String,
    },
    /// The connection is closed, by this side or in order by both.
    #[error("the connection is closed")]
    Closed,
    /// An ADU longer than the peer takes.
    #[error("an ADU of {len} bytes is too long: at most {max} here")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest that is taken.
        max: usize,
    },
    /// `Config::max_adu` cannot be had.
    #[error("ADUs of up to {wanted} bytes cannot be held: at most {max} here, because {why}")]
    MaxAdu {
        /// What was asked for, in bytes.
        wanted: u32,
        /// The most that could be.
        max: u32,
        /// What bounds it.
        why: &'static str,
    },
    /// Nothing came, or could be sent, in the time that the caller waits.
    #[error("nothing came in time")]
    Elapsed,
    /// The peer's application gave the connection up.
    #[error("{peer} closed the connection with code {code}")]
    PeerClosed {
        /// Who.
        peer: SocketAddr,
        /// What its application says by it.
        code: u64,
    },
    /// The caller's memory is shorter than the ADU.
    #[error("an ADU of {len} bytes does not fit into {room}")]
    NoRoom {
        /// Its length in bytes.
        len: usize,
        /// The memory's.
        room: usize,
    },
    /// The caller broke a rule of this crate.
    #[error("misuse: {0}")]
    Misuse(&'static str),
}

impl Error {
    /// What the operating system said to an action.
    pub fn os(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Os { action, source: Arc::new(source) }
    }
}

/// Short for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;
