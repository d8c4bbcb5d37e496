//! Connections that come over kernel TCP or shared memory: threads take them, whether somebody accepts or not.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use fusewire_session::ServerConfig;
use fusewire_stack::{Connection, Endpoint, Error, Listener, kernel_tcp, shm};
use rustix::net::Shutdown;

use super::alone::Alone;
use super::{HANDSHAKE_TIME, Patience, failed};
use crate::errno::{Errno, Result};

/// Connections that nobody has accepted, and handshakes under way; who comes then is sent away.
const WAITING_MAX: usize = 128;
const HANDSHAKES_MAX: usize = 64;
/// How long a listener that the kernel refuses waits: for a descriptor, say.
const PAUSE: Duration = Duration::from_millis(10);

/// Those who have come.
pub struct Gate {
    shared: Arc<Shared>,
    /// What the thread waits for, to end it: the kernel's socket, or that it is woken.
    socket: Option<Arc<TcpListener>>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    arrived: VecDeque<(Alone, SocketAddr)>,
    handshakes: usize,
    is_closed: bool,
    /// Over shared memory: where sessions begin, and that one may have.
    sessions: Option<Listener>,
}

/// Wakes the thread that waits for sessions.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn arrive(&self, connection: Alone, local: SocketAddr) {
        let mut state = self.lock();
        if !state.is_closed && state.arrived.len() < WAITING_MAX {
            state.arrived.push_back((connection, local));
            self.news.notify_one();
        }
    }
}

/// A thread of a listener's.
fn thread(work: impl FnOnce() + Send + 'static) -> fusewire_stack::Result<Thread> {
    let started = fusewire_device::thread::spawn("fusewire-accept", work);
    started
        .map(|started| started.thread().clone())
        .map_err(Error::os("starting a listener's thread"))
}

impl Gate {
    /// Over kernel TCP, at `local`; and where that is.
    ///
    /// # Errors
    /// `EADDRINUSE`, what the kernel says.
    pub fn kernel_tcp(local: SocketAddr, config: ServerConfig) -> Result<(Gate, SocketAddr)> {
        let socket = TcpListener::bind(local)
            .and_then(|socket| Ok((socket.local_addr()?, Arc::new(socket))));
        let (local, socket) =
            socket.map_err(|error| failed(Error::os("listening on kernel TCP")(error)))?;
        let shared = Arc::<Shared>::default();
        let (of_thread, listening, config) = (shared.clone(), socket.clone(), Arc::new(config));
        let thread = thread(move || {
            while !of_thread.is_closed() {
                match listening.accept() {
                    Ok((stream, _)) => shake_hands(&of_thread, stream, &config),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        });
        Ok((Gate { shared, socket: Some(socket), thread: thread.map_err(failed)? }, local))
    }

    /// Over shared memory, with those whose session begins at `endpoint`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn shm(endpoint: &Endpoint, mut config: ServerConfig) -> Result<Gate> {
        let mut callers = shm::Listener::bind().map_err(failed)?;
        config.shared_memory = Some(callers.name().to_vec());
        let sessions = endpoint.listen(config).map_err(failed)?;
        let shared = Arc::<Shared>::default();
        shared.lock().sessions = Some(sessions);
        let of_thread = shared.clone();
        let thread = thread(move || {
            while let Some(session) = next_session(&of_thread) {
                let local = session.local_addr();
                // Who asks for no shared memory is reset.
                if let Ok(connection) = callers.go_on(session) {
                    of_thread.arrive(Alone::shm(connection), local);
                }
            }
        });
        Ok(Gate { shared, socket: None, thread: thread.map_err(failed)? })
    }

    pub fn has_arrival(&self) -> bool {
        !self.shared.lock().arrived.is_empty()
    }

    /// The next, and its own address.
    ///
    /// # Errors
    /// `EAGAIN`, `EBADF`.
    pub fn accept(&self, patience: &Patience<'_>) -> Result<(Alone, SocketAddr)> {
        let mut state = self.shared.lock();
        loop {
            let turn = patience.turn()?;
            if let Some(arrived) = state.arrived.pop_front() {
                return Ok(arrived);
            }
            if turn.is_zero() {
                return Err(Errno(libc::EAGAIN));
            }
            let waited = self.shared.news.wait_timeout(state, turn);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Nobody comes any more, and who was not accepted is reset.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let reset = (std::mem::take(&mut state.arrived), state.sessions.take());
        drop(state);
        drop(reset);
        self.shared.news.notify_all();
        self.thread.unpark();
        if let Some(socket) = &self.socket {
            // Ends the thread's wait; that nobody is connected is no error here.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.close();
    }
}

/// The handshake with one who has come, in a thread of its own: strangers may be slow.
fn shake_hands(shared: &Arc<Shared>, stream: TcpStream, config: &Arc<ServerConfig>) {
    if shared.lock().handshakes >= HANDSHAKES_MAX {
        return;
    }
    shared.lock().handshakes += 1;
    let (of_thread, config) = (shared.clone(), config.clone());
    let work = move || {
        let connected = || {
            let local = stream.local_addr().map_err(Error::os("asking for our address"))?;
            let connection =
                kernel_tcp::Connection::accept_within(stream, &config, HANDSHAKE_TIME)?;
            Ok::<_, Error>((Alone::kernel_tcp(connection)?, local))
        };
        // Who cannot be let in has been told.
        if let Ok((connection, local)) = connected() {
            of_thread.arrive(connection, local);
        }
        of_thread.lock().handshakes -= 1;
    };
    if thread(work).is_err() {
        shared.lock().handshakes -= 1;
    }
}

/// The next session that has begun; nothing when the gate is closed.
fn next_session(shared: &Shared) -> Option<Connection> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        let polled = {
            let state = shared.lock();
            state.sessions.as_ref()?.poll_accept(&mut Context::from_waker(&waker))
        };
        match polled {
            Poll::Ready(Ok(session)) => return Some(session),
            Poll::Ready(Err(_)) => std::thread::sleep(PAUSE),
            Poll::Pending => std::thread::park(),
        }
    }
}
