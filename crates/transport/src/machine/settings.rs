//! What machines are told by those who open and take connections.

use core::net::SocketAddr;
use core::time::Duration;

use crate::isn::Key;

/// Probes on an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes before `TimedOut`.
    pub probes: u8,
}

/// The secrets of a listener, drawn at random once for a process.
#[derive(Clone)]
pub struct Secrets {
    /// Keys initial sequence numbers (RFC 6528) and the table's hash.
    pub isn: Key,
    /// Keys SYN cookies.
    pub cookie: Key,
}

fusewire_base::hidden!(Secrets);

/// Both ends of a connection: addresses of the layer below, and what names it between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends<F> {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// What names the connection.
    pub flow: F,
}

/// How much memory a connection asks for, and how long its TPDUs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of header and payload that we can receive in one TPDU.
    pub tpdu_len: usize,
    /// Bytes of header and payload that we send in one TPDU until more is known of the path.
    pub send_tpdu_len: usize,
    /// Largest receive window in bytes.
    pub recv_window: u32,
    /// Receive window in bytes at the start.
    pub initial_recv_window: u32,
    /// Bytes that may be reserved, queued and in flight together.
    pub send_buffer: u32,
    /// Segments that are queued and in flight, at most.
    pub segments: usize,
    /// Ranges beyond a hole that the receiver remembers.
    pub ranges: usize,
}
