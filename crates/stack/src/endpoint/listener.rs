//! Taking connections.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::connection::Held;
use super::state::{Arrival, Interest, State};
use super::{Attempt, Call, Connection, Handle};
use crate::Result;
use crate::driver::after;

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
        self.arriving().block().map(|arrival| self.connection(arrival))
    }

    /// [`Listener::accept`], for at most so long.
    ///
    /// # Errors
    /// The errors of [`Listener::accept`]; [`Error::Elapsed`](crate::Error::Elapsed) when nothing came in time.
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Connection> {
        self.arriving().block_until(after(timeout)).map(|arrival| self.connection(arrival))
    }

    /// [`Listener::accept`] for tasks. Cancelled, no connection is lost.
    ///
    /// # Errors
    /// The errors of [`Listener::accept`].
    pub async fn accept_async(&self) -> Result<Connection> {
        self.arriving().wait().await.map(|arrival| self.connection(arrival))
    }

    /// [`Listener::accept`] for a task that polls; the last one that did is woken.
    ///
    /// # Errors
    /// The errors of [`Listener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Connection>> {
        self.arriving().poll(cx).map_ok(|arrival| self.connection(arrival))
    }

    fn arriving(&self) -> Call<'_, impl Attempt<Arrival>> {
        Call { handle: &self.handle, interest: Interest::Arrival, attempt: State::next_arrival }
    }

    fn connection(&self, (id, session): Arrival) -> Connection {
        Held { handle: self.handle.clone(), id }.connection(session)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.call_waking(|state, wakes| state.stop_listening(wakes));
    }
}
