//! What machines are told by those who open and take connections.

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

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secrets { .. }")
    }
}
