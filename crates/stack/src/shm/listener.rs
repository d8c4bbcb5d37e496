//! The server's side: a Unix socket where those who were invited over their sessions come with their
//! memory. Everybody on the host can come; who shows no token of an open invitation is sent away, and
//! who is silent is forgotten.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_device::shm::{self, Caller, Ends, Token, same};
use fusewire_session::Rendezvous;
use rustix::event::{PollFd, PollFlags};

use super::{Connection, PATIENCE, RING_BYTES};
use crate::{Error, Result};

/// Callers that are not let in yet. One more, and the one who waits longest has to go.
const WAITING_MAX: usize = 64;

/// Lets in those who were invited.
pub struct Listener {
    socket: shm::Listener,
    invitations: Invitations,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    caller: Caller,
    until: Instant,
    /// Its token, which need not be known yet: the session may be a step behind.
    token: Option<Token>,
}

/// Who may come. Cheap to clone.
#[derive(Clone)]
pub struct Invitations(Arc<Shared>);

struct Shared {
    open: Mutex<Open>,
    waker: Waker,
}

#[derive(Default)]
struct Open {
    sessions: HashMap<u64, (Rendezvous, Ends)>,
    count: u64,
}

/// An open invitation; dropping it takes it back.
pub struct Invitation {
    shared: Arc<Shared>,
    number: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing is half done in there when a thread panics.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Invitations {
    /// Invites the other end of a session.
    pub fn invite(&self, rendezvous: Rendezvous, ends: Ends) -> Invitation {
        let mut open = self.0.lock();
        let number = open.count;
        open.count += 1;
        open.sessions.insert(number, (rendezvous, ends));
        drop(open);
        self.0.waker.wake();
        Invitation { shared: Arc::clone(&self.0), number }
    }

    /// The session whose other end shows `token`; it is invited no longer.
    fn take(&self, token: &Token) -> Option<(Rendezvous, Ends)> {
        let mut open = self.0.lock();
        // All are looked at, however early one fits: time tells nothing of the others.
        let fits = open.sessions.iter().filter(|(_, (r, _))| same(&r.peer_token, token));
        let number = fits.map(|(number, _)| *number).last()?;
        open.sessions.remove(&number)
    }
}

impl Drop for Invitation {
    fn drop(&mut self) {
        self.shared.lock().sessions.remove(&self.number);
    }
}

impl Listener {
    /// Listens under a name of the kernel's choice, in the abstract namespace: no file, no rights needed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn bind() -> Result<Listener> {
        let os = Error::os("listening for shared memory");
        let (socket, waker) = match (shm::Listener::bind(), Waker::new()) {
            (Ok(socket), Ok(waker)) => (socket, waker),
            (Err(error), _) | (_, Err(error)) => return Err(os(error)),
        };
        let shared = Shared { open: Mutex::default(), waker };
        let invitations = Invitations(Arc::new(shared));
        Ok(Listener { socket, invitations, waiting: VecDeque::with_capacity(WAITING_MAX) })
    }

    /// What the session's configuration tells clients.
    pub fn name(&self) -> &[u8] {
        self.socket.name()
    }

    /// Where sessions are invited.
    pub fn invitations(&self) -> Invitations {
        self.invitations.clone()
    }

    /// The next who was invited and comes; `None` when nobody came for `timeout`.
    ///
    /// # Errors
    /// [`Error::Os`] when no descriptor is left. What is wrong with a caller only ends that caller.
    pub fn accept(&mut self, timeout: Duration) -> Result<Option<Connection>> {
        let end = Instant::now() + timeout;
        loop {
            let arrived = self.take_callers();
            if let Some(connection) = self.look_through() {
                return Ok(Some(connection));
            }
            arrived?;
            let now = Instant::now();
            if now >= end {
                return Ok(None);
            }
            let first = self.waiting.front().map_or(end, |w| w.until.min(end));
            self.sleep(first.saturating_duration_since(now))?;
        }
    }

    /// The server's side for an [`Endpoint`](crate::Endpoint)'s connection whose client asked for shared memory:
    /// invites it, waits until it comes, and finishes the connection that made it possible.
    ///
    /// # Errors
    /// [`Error::NoSharedMemory`]: one of the two sides does not want it, or nobody came.
    pub fn go_on(&mut self, connection: crate::Connection) -> Result<Connection> {
        let (rendezvous, ends) = super::take(&connection)?;
        let _invitation = self.invitations.invite(rendezvous, ends);
        let Some(shared) = self.accept(PATIENCE)? else {
            return Err(Error::NoSharedMemory { peer: ends.peer, why: "it did not call".into() });
        };
        connection.finish()?;
        Ok(shared)
    }

    fn take_callers(&mut self) -> Result<()> {
        while let Some(caller) = self.socket.accept().map_err(Error::os("accepting a caller"))? {
            if self.waiting.len() == WAITING_MAX {
                tracing::debug!("too many callers wait: one was sent away");
                self.waiting.pop_front();
            }
            let until = Instant::now() + PATIENCE;
            self.waiting.push_back(Waiting { caller, until, token: None });
        }
        Ok(())
    }

    /// Lets the first in who may come; forgets those who are hopeless.
    fn look_through(&mut self) -> Option<Connection> {
        let now = Instant::now();
        let mut at = 0;
        while at < self.waiting.len() {
            let waiting = &mut self.waiting[at];
            let keep = match waiting.poll() {
                Ok(Some(token)) => match self.invitations.take(&token) {
                    Some(session) => {
                        let caller = self.waiting.remove(at)?.caller;
                        match let_in(caller, session) {
                            Ok(connection) => return Some(connection),
                            Err(error) => tracing::info!(%error, "a caller is sent away"),
                        }
                        continue;
                    }
                    None => now < waiting.until,
                },
                Ok(None) => now < waiting.until,
                Err(error) => {
                    tracing::debug!(%error, "a caller is sent away");
                    false
                }
            };
            if keep {
                at += 1;
            } else {
                self.waiting.remove(at);
            }
        }
        None
    }

    fn sleep(&self, timeout: Duration) -> Result<()> {
        let waker = &self.invitations.0.waker;
        let mut fds =
            vec![PollFd::new(waker, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        // Who has shown a token has nothing more to say.
        let silent = self.waiting.iter().filter(|w| w.token.is_none());
        fds.extend(silent.map(|w| PollFd::new(&w.caller, PollFlags::IN)));
        fusewire_device::sleep(&mut fds, Some(timeout))
            .map_err(Error::os("waiting for callers"))?;
        if !fds[0].revents().is_empty() {
            waker.drain();
        }
        Ok(())
    }
}

impl Waiting {
    fn poll(&mut self) -> std::io::Result<Option<Token>> {
        if self.token.is_none() {
            self.token = self.caller.poll()?.copied();
        }
        Ok(self.token)
    }
}

fn let_in(caller: Caller, (rendezvous, ends): (Rendezvous, Ends)) -> std::io::Result<Connection> {
    let shm = caller.answer(&rendezvous.own_token, RING_BYTES, ends)?;
    let peer: SocketAddr = ends.peer;
    Ok(Connection::new(shm, peer, rendezvous))
}
