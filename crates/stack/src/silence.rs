//! What is made of a peer that says nothing: an idle connection asks after it, and gives it up when nothing
//! was heard for as long as both sides agreed on (`docs/records.md`, section 3).

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{Connection, KeepAlive};

/// The peer says the time too, and a short one must not cost more than a connection at work.
const ASKS_EVERY_MIN: Duration = Duration::from_millis(10);

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
    pub fn agreed(transport: &mut impl Connection, now: Instant, after: Duration) -> Silence {
        let (idle, interval) = ((after / 3).max(ASKS_EVERY_MIN), (after / 6).max(ASKS_EVERY_MIN));
        let asks = match transport.keep_alive() {
            Some(own) => KeepAlive {
                idle: own.idle.min(idle),
                interval: own.interval.min(interval),
                probes: own.probes,
            },
            // It is not the count of questions that ends the connection.
            None => KeepAlive { idle, interval, probes: u8::MAX },
        };
        transport.set_keep_alive(now, Some(asks));
        transport.outlast(after);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::machine::{Ends, settings};
    use fusewire_transport::machine::Protocol;

    #[test]
    fn a_peer_of_little_patience_is_not_asked_without_a_pause() {
        for (after, idle) in [(1, 10), (90, 30), (30_000, 10_000)] {
            let config = Config::default();
            let (settings, at) = (settings(&config), "127.0.0.1:7".parse().unwrap());
            let ends = Ends {
                local: at,
                remote: at,
                flow: settings.flow_to(7, 1, &[7; 16], Instant::ZERO),
            };
            let mut transport = settings.connect(&ends, 7, &[7; 16], Instant::ZERO);
            Silence::agreed(&mut transport, Instant::ZERO, Duration::from_millis(after));
            let asks = transport.keep_alive().expect("it asks");
            assert_eq!(asks.idle, Duration::from_millis(idle));
            assert!(asks.interval >= Duration::from_millis(10), "{asks:?}");
        }
    }
}
