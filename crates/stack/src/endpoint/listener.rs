//! Taking connections.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::connection::Held;
use super::state::{Arrival, Interest, State};
use super::{Attempt, Call, Connection, Handle};
use crate::Result;
use crate::driver::after;

/// Takes the connections of an endpoint. When it is dropped or closed, the endpoint stops listening: connections that were not
/// accepted are reset, and accepted ones go on.
///
/// `Send` and `Sync`: several threads or tasks may accept at once, and each connection goes to one of them.
pub struct Listener {
    handle: Arc<Handle>,
    number: u64,
}

impl Listener {
    pub(super) fn new(handle: Arc<Handle>, number: u64) -> Listener {
        Listener { handle, number }
    }

    /// The next connection whose handshake is complete and whose key is allowed.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) after [`Listener::close`] or
    /// [`Endpoint::close`](crate::Endpoint::close); [`Error::Os`](crate::Error::Os) when the device is broken.
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

    /// Stops listening: connections that were not accepted are reset, and every caller in [`Listener::accept`], in any
    /// thread or task, gets [`Error::Closed`](crate::Error::Closed). Accepted connections go on. Does not wait.
    pub fn close(&self) {
        self.handle.call_waking(|state, wakes| state.stop_listening(self.number, wakes));
    }

    fn arriving(&self) -> Call<'_, impl Attempt<Arrival>> {
        let attempt = |state: &mut State| state.next_arrival(self.number);
        Call { handle: &self.handle, interest: Interest::Arrival, attempt }
    }

    fn connection(&self, (id, session): Arrival) -> Connection {
        Held { handle: self.handle.clone(), id }.connection(session)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}
