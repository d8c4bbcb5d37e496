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
        "no answer from {}: does a server listen there, with the same transport, and does {} get through?",
        named(.0), carrier(.0)
    )]
    TimedOut(SocketAddr),
    /// Nothing was heard of the peer for as long as both sides let a connection be silent: its process or its
    /// machine is gone, or the network between.
    #[error("nothing was heard of {} for {} s", named(peer), after.as_secs_f64())]
    Silent {
        /// Who.
        peer: SocketAddr,
        /// For how long: [`Options::idle_timeout`](fusewire_session::Options::idle_timeout).
        after: Duration,
    },
    /// The network says that nobody is there.
    #[error("nobody listens at {}, or it cannot be reached", named(.0))]
    Unreachable(SocketAddr),
    /// The peer refused the connection.
    #[error("{} refused the connection", named(.0))]
    Refused(SocketAddr),
    /// The peer listens by the other transport.
    #[error(
        "{} uses the transport {served}, and this side {used}: use {served} here, or {used} there",
        named(peer)
    )]
    OtherTransport {
        /// The peer.
        peer: SocketAddr,
        /// The peer's transport, as settings spell it.
        served: &'static str,
        /// The transport of this side.
        used: &'static str,
    },
    /// The peer reset the connection.
    #[error("{} reset the connection", named(.0))]
    Reset(SocketAddr),
    /// The peer sent what the protocol forbids.
    #[error("{}: {what}", named(peer))]
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
    /// An ADU longer than the peer takes, or than the memory of this side holds. On connections
    /// [`Config::max_adu`](crate::Config::max_adu) of both sides raises the limit.
    #[error(
        "an ADU of {len} bytes is too long: at most {max} here; max_adu in the settings of both ends of a connection \
         allows up to {}",
        crate::Config::MAX_ADU_CEILING
    )]
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
    #[error("{} closed the connection with code {code}", named(peer))]
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

/// A peer as a user knows it: straight over IP it has no port, and is called by port 0.
fn named(peer: &SocketAddr) -> String {
    if peer.port() == 0 { peer.ip().to_string() } else { peer.to_string() }
}

/// What has to get through to it.
fn carrier(peer: &SocketAddr) -> &'static str {
    if peer.port() == 0 { "IP's protocol 36" } else { "UDP" }
}

/// Short for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_a_port_is_named_without_one() {
        let said = |peer: &str| Error::TimedOut(peer.parse().unwrap()).to_string();
        assert!(said("10.0.0.1:9293").starts_with("no answer from 10.0.0.1:9293: "));
        assert!(said("10.0.0.1:9293").ends_with("does UDP get through?"));
        assert!(said("[fd00::1]:0").starts_with("no answer from fd00::1: "));
        assert!(said("[fd00::1]:0").ends_with("does IP's protocol 36 get through?"));
    }
}
