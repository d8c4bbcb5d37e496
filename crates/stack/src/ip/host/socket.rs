//! What the handles of all kinds of sockets have alike.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use fusewire_base::Instant;

use super::inner::{Attempt, Inner};
use super::{Host, Interest};
use crate::ip::config::{Marking, SocketId};
use crate::ip::stack::Stack;

/// A socket of a host. Dropping it closes it.
pub struct Socket {
    host: Host,
    id: SocketId,
    timeouts: Mutex<Timeouts>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Timeouts {
    pub read: Option<Duration>,
    pub write: Option<Duration>,
}

impl Socket {
    pub(super) fn new(host: &Host, id: SocketId) -> Socket {
        Socket { host: host.clone(), id, timeouts: Mutex::default() }
    }

    /// The host that it is of.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The name of the socket, for the stack's own calls.
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.look(|stack, id| stack.local_addr(id))
    }

    /// What the IP headers of its packets say from now on: differentiated services, hops, and of messages ECN. Those
    /// of a listener are its answers, and connections to come have it too.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_marking(&self, marking: Marking) -> io::Result<()> {
        self.with(|stack, _, id| stack.set_marking(id, marking))
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        *self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_timeouts(&self, timeouts: Timeouts) {
        *self.timeouts.lock().unwrap_or_else(PoisonError::into_inner) = timeouts;
    }

    /// Runs `f`, which sends nothing.
    pub(super) fn look<T>(
        &self,
        f: impl FnOnce(&mut Stack, SocketId) -> crate::ip::Result<T>,
    ) -> io::Result<T> {
        Ok(self.host.look(|stack| f(stack, self.id))?)
    }

    /// Runs `f`, and sends what that left to send.
    pub(super) fn with<T>(
        &self,
        f: impl FnOnce(&mut Stack, Instant, SocketId) -> crate::ip::Result<T>,
    ) -> io::Result<T> {
        Ok(self.host.with(|stack, now| f(stack, now, self.id))??)
    }

    /// Tries in a thread until it is done, or `timeout` has passed.
    pub(super) fn block<T>(
        &self,
        interest: Interest,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Inner) -> Attempt<T>,
    ) -> io::Result<T> {
        self.host.block_on((self.id, interest), timeout, attempt)
    }

    /// [`Host::receive_on`], for as long as reading may wait.
    pub(super) fn receive<T>(
        &self,
        attempt: impl FnMut(&mut Inner, bool) -> Attempt<T>,
    ) -> io::Result<T> {
        self.host.receive_on(self.id, self.timeouts().read, attempt)
    }

    /// Tries once for a task. One at a time may poll so: the last one is woken.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        interest: Interest,
        attempt: impl FnOnce(&mut Inner) -> Attempt<T>,
    ) -> Poll<io::Result<T>> {
        self.host.poll_on(context, (self.id, interest), attempt)
    }

    /// Waits in a task, which any number may do at a time.
    pub(super) async fn wait<T>(
        &self,
        interest: Interest,
        attempt: impl FnMut(&mut Inner) -> Attempt<T>,
    ) -> io::Result<T> {
        self.host.wait((self.id, interest), attempt).await
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A stack whose interface is gone has nobody to tell.
        let _ = self.host.with(|stack, now| stack.close(now, self.id));
    }
}

/// A handle is a socket.
macro_rules! sockets {
    ($($handle:ident)*) => {$(
        impl std::ops::Deref for super::$handle {
            type Target = Socket;

            fn deref(&self) -> &Socket {
                &self.0
            }
        }
    )*};
}

sockets! { TcpListener TcpStream UdpSocket }
