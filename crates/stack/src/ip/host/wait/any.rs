//! Waiting for one of several sockets, with any attempt: what an interface of calls by name is made of.

use super::*;
use crate::ip::host::Host;

/// The longest sleep: an event between two sockets' states that nobody tells is not missed for longer.
const SLEEP_MAX: Duration = Duration::from_millis(100);

impl Host {
    /// Tries `attempt` until it gives something or fails, or `timeout` has passed: then `None`. Between
    /// attempts the stack is driven, and the caller sleeps until one of the sockets may be ready. A
    /// timeout of zero looks once at the interface and does not sleep.
    ///
    /// # Errors
    /// The attempt's; the interface is gone.
    pub fn wait_any<T>(
        &self,
        on: &[(SocketId, Way)],
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Stack, Instant) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let wait = Wait { on, timeout, receives: false, sleep_max: Some(SLEEP_MAX) };
        self.shared.wait_for(&wait, attempt)
    }

    /// The same for one socket, when each attempt takes packets from the interface itself, as
    /// [`Stack::tcp_read_into`] does: what comes is not received twice, and goes straight to its place.
    ///
    /// # Errors
    /// As [`Host::wait_any`].
    pub fn wait_receiving<T>(
        &self,
        id: SocketId,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Stack, Instant) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let on = [(id, Way::Read)];
        let wait = Wait { on: &on, timeout, receives: true, sleep_max: Some(SLEEP_MAX) };
        self.shared.wait_for(&wait, attempt)
    }

    /// Wakes all who wait for a socket: its state was changed from outside of the stack.
    pub fn wake(&self, id: SocketId) {
        self.shared.lock().waiters.wake(id, |_| true);
    }
}
