//! The log of clients that were not let in.
//!
//! Tools that block addresses read it, so a refusal by policy is a warning with the client's address. Anybody can cause
//! these lines, so their number per second is bounded.

use fusewire_session::{Error as SessionError, Fingerprint, HandshakeError};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings in [`WINDOW`].
const WARNINGS_MAX: u32 = 100;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts warnings.
#[derive(Debug)]
pub(super) struct Refusals {
    /// The begin of the window, and warnings since.
    window: Mutex<(Instant, u32)>,
}

impl Default for Refusals {
    fn default() -> Self {
        Refusals { window: Mutex::new((Instant::now(), 0)) }
    }
}

impl Refusals {
    /// Logs a handshake of `peer` that failed with `error`.
    pub(super) fn log(&self, peer: Option<SocketAddr>, error: &fusewire_stack::Error) {
        let peer = peer.map(tracing::field::display);
        if is_policy(error) && self.may_warn(Instant::now()) {
            tracing::warn!(peer, %error, "refused");
        } else {
            tracing::info!(peer, %error, "refused");
        }
    }

    /// Logs a client whose key was allowed when its handshake began and is not any more.
    pub(super) fn log_key(&self, peer: Option<SocketAddr>, key: Fingerprint) {
        self.log(peer, &SessionError::Handshake(HandshakeError::ClientNotAllowed(key)).into());
    }

    fn may_warn(&self, now: Instant) -> bool {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(window.0) >= WINDOW {
            *window = (now, 0);
        }
        window.1 = window.1.saturating_add(1);
        if window.1 == WARNINGS_MAX {
            tracing::warn!("more clients were refused; they are logged at level info");
        }
        window.1 < WARNINGS_MAX
    }
}

/// Returns `true` if this side refused the client, and not if its handshake broke off or was none.
fn is_policy(error: &fusewire_stack::Error) -> bool {
    use HandshakeError as H;
    matches!(
        error,
        fusewire_stack::Error::Session(SessionError::Handshake(
            H::ClientNotAllowed(_) | H::RefusedByUs(_) | H::NoCommonProtocol
        ))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_bounded_per_window() {
        let refusals = Refusals::default();
        let now = Instant::now();
        let warned = |now| (0..500).filter(|_| refusals.may_warn(now)).count();
        assert_eq!(warned(now), WARNINGS_MAX as usize - 1);
        assert_eq!(warned(now + WINDOW / 2), 0);
        assert_eq!(warned(now + WINDOW * 2), WARNINGS_MAX as usize - 1);
    }
}
