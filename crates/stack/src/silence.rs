//! What is made of a peer that says nothing: an idle connection asks after it, and gives it up when nothing
//! was heard for as long as both sides agreed on (`docs/records.md`, section 3).

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::tcp::{self, KeepAlive};

/// How long one connection may be silent. Invariant: `due ≤` the time when the peer was last heard `+ after`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub after: Duration,
    /// When to look again. Segments that come do not move it: who looks finds out how far it has moved.
    due: Instant,
}

impl Silence {
    /// From `now` on: the transport asks after an idle peer at a third of `after` and then at each sixth, or
    /// sooner where it did so already.
    pub fn agreed(tcp: &mut tcp::Connection, now: Instant, after: Duration) -> Silence {
        let (idle, interval) = (after / 3, after / 6);
        let asks = match tcp.keep_alive() {
            Some(own) => KeepAlive {
                idle: own.idle.min(idle),
                interval: own.interval.min(interval),
                probes: own.probes,
            },
            // It is not the count of questions that ends the connection.
            None => KeepAlive { idle, interval, probes: u8::MAX },
        };
        tcp.set_keep_alive(now, Some(asks));
        Silence { after, due: now + after }
    }

    /// When to call [`Silence::is_over`].
    pub fn due(&self) -> Instant {
        self.due
    }

    /// True when nothing was heard since `heard_at` for too long.
    pub fn is_over(&mut self, now: Instant, heard_at: Instant) -> bool {
        self.due = self.due.max(heard_at + self.after);
        self.due <= now
    }
}
