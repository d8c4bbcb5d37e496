//! A session that goes on over shared memory, between two processes of one host. `docs/shm.md`.
//!
//! ```text
//! client                                      server
//! Hello: shared memory?            ──▶                         over UDP, as always
//!                                  ◀──        Choice: the name of a Unix socket
//! call: token, memory              ──▶        Listener         over the Unix socket
//!                                  ◀──        token, memory
//! ├ records                        ◀─▶        ├ records        in the rings
//! ```
//! What both know when the handshake is through is a [`Rendezvous`]: tokens and keys that came from TLS's
//! exporter and were never sent. A server invites ([`Invitations::invite`]) whom its listener then
//! lets in; a client calls ([`call`]). Each gives a [`Connection`], where a frame of a ring is a record:
//! sealed into the ring and opened out of it, one pass each. The connection over UDP has done its duty and
//! is finished by who made it.

mod connection;
mod listener;

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fusewire_device::shm::Call;
pub use fusewire_device::shm::Ends;
pub use fusewire_session::Rendezvous;
use rustix::event::{PollFd, PollFlags};

pub use connection::Connection;
pub use listener::{Invitation, Invitations, Listener};

use crate::single::Single;
use crate::{Error, Result};

/// Length of each side's ring, in bytes: with both, what stays in the caches that two cores share.
const RING_BYTES: usize = 1 << 20;
/// How long a client waits for the server's answer, and the server for a caller's token to become known.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after an attempt for which the server had no place in its queue.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// The client's side: calls the server that the session's peer said it is, and waits for its answer.
///
/// # Errors
/// [`Error::NoSharedMemory`]: nobody is there (the server is on another host), it does not answer, or the
/// answer is not the session's.
pub fn call(rendezvous: Rendezvous, ends: Ends) -> Result<Connection> {
    let deadline = Instant::now() + PATIENCE;
    let failed = |error: std::io::Error| Error::NoSharedMemory {
        peer: ends.peer,
        why: match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
                "it is on another host, or in another network namespace".into()
            }
            ErrorKind::ConnectionAborted => "it hung up".into(),
            _ => error.to_string(),
        },
    };
    let (name, own, peer) = (&rendezvous.name, &rendezvous.own_token, &rendezvous.peer_token);
    let mut call = loop {
        match Call::new(name, own, peer, RING_BYTES) {
            Ok(call) => break call,
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                std::thread::sleep(TRY_AGAIN);
            }
            Err(error) => return Err(failed(error)),
        }
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failed(std::io::Error::new(ErrorKind::TimedOut, "it does not answer")));
        }
        let answer = call.as_fd();
        fusewire_device::sleep(&mut [PollFd::new(&answer, PollFlags::IN)], Some(left))
            .map_err(failed)?;
        match call.poll(ends).map_err(failed)? {
            Ok(shm) => return Ok(Connection::new(shm, ends.peer, rendezvous)),
            Err(waiting) => call = waiting,
        }
    }
}

/// The client's side for an [`Endpoint`](crate::Endpoint)'s connection whose configuration asked for shared
/// memory: calls, and finishes the connection that made it possible.
///
/// # Errors
/// As [`call`]; the server does not offer shared memory.
pub fn go_on(connection: crate::Connection) -> Result<Connection> {
    let (rendezvous, ends) = take(&connection)?;
    let shared = call(rendezvous, ends)?;
    connection.finish()?;
    Ok(shared)
}

impl Single {
    /// The session over shared memory, if both sides want it; then this connection has done its duty. After an error it
    /// is what it was.
    ///
    /// # Errors
    /// [`Error::NoSharedMemory`].
    pub fn call_shared_memory(&mut self) -> Result<Connection> {
        let peer = self.session.remote.ok_or(Error::Closed)?;
        let Some(rendezvous) = self.stack.take_rendezvous(self.id) else {
            let why = "the server does not offer any".into();
            return Err(Error::NoSharedMemory { peer, why });
        };
        call(rendezvous, Ends { local: self.stack.local_addr(), peer })
    }
}

fn take(connection: &crate::Connection) -> Result<(Rendezvous, Ends)> {
    let peer = connection.remote_addr().ok_or(Error::Closed)?;
    match connection.take_rendezvous() {
        Some(rendezvous) => Ok((rendezvous, Ends { local: connection.local_addr(), peer })),
        None => {
            Err(Error::NoSharedMemory { peer, why: "one of the two sides does not want it".into() })
        }
    }
}
