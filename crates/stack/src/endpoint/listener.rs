//! Taking connections.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::connection::Held;
use super::state::{Connected, Interest};
use super::{Connection, Handle};
use crate::driver::{SHARED_KEY, after};
use crate::{ConnectionId, Result};

/// Takes the connections of an endpoint. Dropped, the endpoint listens no more: what nobody has accepted is
/// reset, what was accepted goes on.
///
/// `Send` and `Sync`: several threads or tasks may accept at once, and each connection goes to one of them.
pub struct Listener {
    handle: Arc<Handle>,
}

impl Listener {
    pub(super) fn new(handle: Arc<Handle>) -> Listener {
        Listener { handle }
    }

    /// The next connection whose handshake is complete and whose key is allowed.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when the device is broken.
    pub fn accept(&self) -> Result<Connection> {
        self.accept_until(None)
    }

    /// [`Listener::accept`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Listener::accept`]; [`Error::Elapsed`](crate::Error::Elapsed) when nothing came in time.
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Connection> {
        self.accept_until(after(timeout))
    }

    fn accept_until(&self, deadline: Option<std::time::Instant>) -> Result<Connection> {
        let arrival =
            self.handle.until(Interest::Arrival, deadline, |state| state.next_arrival())?;
        Ok(self.connection(arrival))
    }

    fn connection(&self, (id, session): (ConnectionId, Connected)) -> Connection {
        Connection::new(Held { handle: self.handle.clone(), id }, session)
    }

    /// [`Listener::accept`] for tasks. Cancelled, no connection is lost.
    ///
    /// # Errors
    /// The errors of [`Listener::accept`].
    pub async fn accept_async(&self) -> Result<Connection> {
        let arrival = self.handle.wait(Interest::Arrival, |state| state.next_arrival()).await?;
        Ok(self.connection(arrival))
    }

    /// [`Listener::accept`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Listener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Connection>> {
        let key = Some(SHARED_KEY);
        let polled = self
            .handle
            .shared
            .poll(Interest::Arrival, key, cx.waker(), |state| state.next_arrival());
        polled.0.map(|arrival| Ok(self.connection(arrival??)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.shared.call_waking(|state, wakes| state.stop_listening(wakes));
    }
}
