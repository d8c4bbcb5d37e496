//! The stack for applications that block or await.
//!
//! An [`Endpoint`] shares one [`Stack`] between threads. Whoever waits drives it: the first thread
//! that has nothing to do but wait polls the device for all of them, the others sleep until their
//! connection has news. Nothing runs in the background as long as nobody awaits; the first future
//! starts one thread that drives from then on.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use fusewire_device::{Device, Waker, udp};
use fusewire_session::{ClientConfig, Fingerprint, Marshal, Options, Rendezvous, ServerConfig};
use fusewire_transport::tcp::{Info, Secrets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::application::{Adu, Application, Keep};
use crate::config::Config;
use crate::connection::Event;
use crate::stack::Stack;
use crate::{ConnectionId, Error, Result};

/// The TCP port inside of the encapsulation that a server of ours listens on; the UDP port is the user's.
pub const PORT: u16 = 9293;

/// What a waiting application needs to know of a connection.
#[derive(Default)]
struct Status {
    connected: Option<(Fingerprint, bool)>,
    finished: bool,
    closed: Option<Option<Error>>,
    /// Tasks that wait for anything on it.
    tasks: Vec<task::Waker>,
}

struct State {
    stack: Stack,
    statuses: HashMap<ConnectionId, Status>,
    /// Connections of the listener that nobody has accepted.
    arrived: Vec<ConnectionId>,
    arrival_tasks: Vec<task::Waker>,
    /// A thread polls the device, or sleeps on it.
    driven: bool,
    /// Threads that wait for the driver.
    waiting: usize,
    asleep: bool,
    /// A thread of ours drives for futures.
    has_driver_thread: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// What to sleep on without holding the lock.
    frames: Option<OwnedFd>,
    waker: Waker,
}

/// A stack to open and take connections on; cheap to clone.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
/// use fusewire_stack::Endpoint;
///
/// # let dir = std::env::temp_dir().join(format!("fusewire-doc-{}", std::process::id()));
/// let identity = Arc::new(Identity::load_or_create(&dir.join("key"))?);
/// # std::fs::remove_dir_all(&dir)?;
/// let server = Endpoint::udp("127.0.0.1:0".parse()?)?;
/// let listener = server.listen(ServerConfig::new(identity.clone()))?;
/// let address = server.local_addr();
/// let served = std::thread::spawn(move || -> fusewire_stack::Result<()> {
///     let mut connection = listener.accept()?;
///     let mut adu = [0; 64];
///     while let Some(len) = connection.recv(&mut adu)? {
///         connection.send(&adu[..len])?;
///     }
///     connection.finish()
/// });
///
/// let client = Endpoint::udp("127.0.0.1:0".parse()?)?;
/// let trust = Trust::Pinned(identity.fingerprint());
/// let mut connection = client.connect(address, &ClientConfig::new(identity, trust))?;
/// connection.send(b"one message")?;
/// let mut adu = [0; 64];
/// let len = connection.recv(&mut adu)?.expect("an echo");
/// assert_eq!(&adu[..len], b"one message");
/// connection.finish()?;
/// served.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

impl Endpoint {
    /// An endpoint on UDP encapsulation, with default settings.
    ///
    /// # Errors
    /// [`Error::Os`] when the address cannot be bound.
    pub fn udp(addr: SocketAddr) -> Result<Endpoint> {
        let device = udp::Udp::bind(addr, &udp::Config::default())
            .map_err(Error::os("binding the UDP socket"))?;
        Endpoint::new(Box::new(device), Config::default())
    }

    /// An endpoint on any device.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no randomness or no descriptor left.
    pub fn new(device: Box<dyn Device>, config: Config) -> Result<Endpoint> {
        let frames = match device.as_fd() {
            Some(fd) => Some(
                fd.try_clone_to_owned()
                    .map_err(Error::os("duplicating the device's descriptor"))?,
            ),
            None => None,
        };
        let waker = device.waker();
        let stack = Stack::new(device, config, &random()?);
        let state = State {
            stack,
            statuses: HashMap::new(),
            arrived: Vec::new(),
            arrival_tasks: Vec::new(),
            driven: false,
            waiting: 0,
            asleep: false,
            has_driver_thread: false,
        };
        Ok(Endpoint {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
                frames,
                waker,
            }),
        })
    }

    /// Our address.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.lock().stack.local_addr()
    }

    /// Runs `f` on the stack itself: figures, settings.
    pub fn with_stack<T>(&self, f: impl FnOnce(&mut Stack) -> T) -> T {
        f(&mut self.shared.lock().stack)
    }

    /// Takes connections from now on.
    ///
    /// # Errors
    /// [`Error::Os`] when there is no randomness.
    pub fn listen(&self, server: ServerConfig) -> Result<Listener> {
        let random = random()?;
        let (isn, cookie) = random.split_at(16);
        let mut secrets = Secrets { isn: [0; 16], cookie: [0; 16] };
        secrets.isn.copy_from_slice(isn);
        secrets.cookie.copy_from_slice(cookie);
        self.shared.lock().stack.listen(PORT, server, &secrets);
        Ok(Listener { shared: self.shared.clone() })
    }

    /// Opens a connection to a server whose key the configuration pins.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Refused`], [`Error::Session`]; [`Error::Untrusted`] when the
    /// configuration pins no key: then see [`Endpoint::connect_with`].
    pub fn connect(&self, remote: SocketAddr, client: &ClientConfig) -> Result<Connection> {
        self.connect_with(remote, client, |peer| Err(Error::Untrusted(peer)))
    }

    /// Opens a connection to a server whose key `judge` accepts. It is asked only when the
    /// configuration has not decided.
    ///
    /// # Errors
    /// As [`Endpoint::connect`], and what `judge` returns.
    pub fn connect_with(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
        judge: impl FnOnce(Fingerprint) -> Result<()>,
    ) -> Result<Connection> {
        let connection = self.begin(remote, client)?;
        let id = connection.id;
        let (peer, trusted) = self.shared.block(None, &mut Keep, |state, _| state.connected(id))?;
        if !trusted {
            judge(peer)?;
            self.shared.lock().stack.trust(id);
        }
        Ok(connection)
    }

    /// [`Endpoint::connect`] for futures.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_async(
        &self,
        remote: SocketAddr,
        client: &ClientConfig,
    ) -> Result<Connection> {
        let connection = self.begin(remote, client)?;
        let id = connection.id;
        let (peer, trusted) = self.shared.wait(id, |state| state.connected(id)).await?;
        if trusted { Ok(connection) } else { Err(Error::Untrusted(peer)) }
    }

    fn begin(&self, remote: SocketAddr, client: &ClientConfig) -> Result<Connection> {
        let mut state = self.shared.lock();
        let id = state.stack.connect(remote, PORT, client)?;
        state.statuses.insert(id, Status::default());
        drop(state);
        self.shared.nudge();
        Ok(Connection { shared: self.shared.clone(), id, ended: false })
    }
}

/// Takes the connections of an endpoint.
pub struct Listener {
    shared: Arc<Shared>,
}

impl Listener {
    /// The next connection whose handshake is complete and whose key is allowed.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn accept(&self) -> Result<Connection> {
        let id = self.shared.block(None, &mut Keep, |state, _| state.next_arrival())?;
        Ok(Connection { shared: self.shared.clone(), id, ended: false })
    }

    /// [`Listener::accept`] for futures.
    ///
    /// # Errors
    /// As there.
    pub async fn accept_async(&self) -> Result<Connection> {
        let shared = &self.shared;
        Shared::start_driver(shared);
        let id = poll_fn(|cx| {
            let mut state = shared.lock();
            let ready = state.next_arrival();
            if ready.is_pending() {
                state.arrival_tasks.push(cx.waker().clone());
            }
            ready
        })
        .await?;
        Ok(Connection { shared: shared.clone(), id, ended: false })
    }
}

/// An encrypted connection that carries ADUs. Dropped without [`Connection::finish`] it is reset.
pub struct Connection {
    shared: Arc<Shared>,
    id: ConnectionId,
    ended: bool,
}

impl Connection {
    /// What the session can go on with over shared memory ([`shm`](crate::shm)), if both sides want it; once.
    pub fn take_rendezvous(&mut self) -> Option<Rendezvous> {
        self.shared.lock().stack.take_rendezvous(self.id)
    }

    /// This side's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.lock().stack.local_addr()
    }

    /// The peer's key.
    pub fn peer(&self) -> Option<Fingerprint> {
        self.shared.lock().stack.session(self.id).map(|(peer, _)| peer)
    }

    /// What was agreed on.
    pub fn options(&self) -> Option<Options> {
        self.shared.lock().stack.session(self.id).map(|(_, options)| options)
    }

    /// The peer's address.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.shared.lock().stack.remote_addr(self.id)
    }

    /// Estimates and counters of the transport.
    pub fn info(&self) -> Option<Info> {
        self.shared.lock().stack.info(self.id)
    }

    /// The longest ADU, in bytes, that travels as one segment on this path now.
    pub fn adu_len(&self) -> usize {
        self.shared.lock().stack.adu_len(self.id).map_or(0, |(fitting, _)| fitting)
    }

    /// The longest ADU, in bytes, that the peer takes.
    pub fn adu_len_max(&self) -> usize {
        self.shared.lock().stack.adu_len(self.id).map_or(0, |(_, longest)| longest)
    }

    /// Sends one ADU; returns when it is in the retransmission memory and on its way.
    ///
    /// # Errors
    /// [`Error::TooLong`], or why the connection is over.
    pub fn send(&mut self, adu: &[u8]) -> Result<()> {
        self.send_batch(std::iter::once(adu))
    }

    /// Sends ADUs together: many leave with one system call.
    ///
    /// # Errors
    /// As [`Connection::send`]; ADUs before the one that failed are sent.
    pub fn send_batch<'a>(&mut self, adus: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        let id = self.id;
        let mut adus = adus.into_iter();
        let mut current = adus.next();
        self.shared.block(None, &mut Keep, |state, _| {
            while let Some(adu) = current {
                match state.stack.send(id, adu) {
                    Ok(true) => current = adus.next(),
                    Ok(false) => {
                        state.stack.flush();
                        return state.pending(id);
                    }
                    Err(error) => return Poll::Ready(Err(state.reason(id, error))),
                }
            }
            state.stack.flush();
            Poll::Ready(Ok(()))
        })
    }

    /// Sends one ADU that is marshalled in the one pass that seals it: `codec::pipeline::Message` makes one of a
    /// value.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_message<M: Marshal + ?Sized>(&mut self, adu: &M) -> Result<()> {
        let id = self.id;
        self.shared.block(None, &mut Keep, |state, _| {
            let sent = state.stack.send_message(id, adu);
            state.stack.flush();
            match sent {
                Ok(true) => Poll::Ready(Ok(())),
                Ok(false) => state.pending(id),
                Err(error) => Poll::Ready(Err(state.reason(id, error))),
            }
        })
    }

    /// [`Connection::send`] for futures.
    ///
    /// # Errors
    /// As there.
    pub async fn send_async(&mut self, adu: &[u8]) -> Result<()> {
        let id = self.id;
        self.shared
            .wait(id, |state| match state.stack.send(id, adu) {
                Ok(true) => {
                    state.stack.flush();
                    Poll::Ready(Ok(()))
                }
                Ok(false) => state.pending(id),
                Err(error) => Poll::Ready(Err(state.reason(id, error))),
            })
            .await
    }

    /// Receives the next ADU in order into `adu` and returns its length; `None` after the peer's last.
    /// An ADU that comes while we wait is deciphered straight into `adu`.
    ///
    /// # Errors
    /// [`Error::NoRoom`] when `adu` is too short (the ADU is lost), or why the connection is over.
    pub fn recv(&mut self, adu: &mut [u8]) -> Result<Option<usize>> {
        let id = self.id;
        let mut direct = Direct { id, memory: adu, got: None };
        self.shared.block(None, &mut direct, |state, direct| {
            if let Some(len) = direct.got.take() {
                return Poll::Ready(Ok(Some(len)));
            }
            let Some((_, buffer)) = state.stack.recv(id) else { return state.end_or_pending(id) };
            let (len, room) = (buffer.len(), direct.memory.len());
            if let Some(memory) = direct.memory.get_mut(..len) {
                memory.copy_from_slice(&buffer);
            }
            state.stack.recycle(id, buffer);
            Poll::Ready(if len <= room { Ok(Some(len)) } else { Err(Error::NoRoom { len, room }) })
        })
    }

    /// Receives the next ADU in order into a buffer of the stack's, without a copy; `None` after the
    /// peer's last.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn recv_adu(&mut self) -> Result<Option<Vec<u8>>> {
        let id = self.id;
        self.shared.block(None, &mut Keep, |state, _| match state.stack.recv(id) {
            Some((_, buffer)) => Poll::Ready(Ok(Some(buffer))),
            None => state.end_or_pending(id),
        })
    }

    /// Receives any ADU that is complete, with its index: those behind a lost one too.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn recv_any(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let id = self.id;
        self.shared.block(None, &mut Keep, |state, _| match state.stack.recv_any(id) {
            Some(adu) => Poll::Ready(Ok(Some(adu))),
            None => state.end_or_pending(id),
        })
    }

    /// Gives a buffer of [`Connection::recv_adu`] back, so that the next needs no allocation.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.shared.lock().stack.recycle(self.id, buffer);
    }

    /// [`Connection::recv_adu`] for futures.
    ///
    /// # Errors
    /// As there.
    pub async fn recv_async(&mut self) -> Result<Option<Vec<u8>>> {
        let id = self.id;
        self.shared
            .wait(id, |state| match state.stack.recv(id) {
                Some((_, buffer)) => Poll::Ready(Ok(Some(buffer))),
                None => state.end_or_pending(id),
            })
            .await
    }

    /// Lets `app` say where ADUs go, until `done` is true: the pass writes straight into its memory.
    /// False when the peer's last ADU came first.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn recv_with<A: Application>(
        &mut self,
        app: &mut A,
        mut done: impl FnMut(&mut A) -> bool,
    ) -> Result<bool> {
        let id = self.id;
        self.shared.block(None, app, |state, app| {
            // What came before `app` was there.
            while let Some((index, buffer)) = state.stack.recv(id) {
                let adu = Adu { index, len: buffer.len(), is_next: true };
                if let Some(memory) = app.place(id, adu).and_then(|m| m.get_mut(..adu.len)) {
                    memory.copy_from_slice(&buffer);
                    app.delivered(id, adu);
                }
                state.stack.recycle(id, buffer);
            }
            if done(app) {
                return Poll::Ready(Ok(true));
            }
            match state.end_or_pending::<()>(id) {
                Poll::Ready(result) => Poll::Ready(result.map(|_| false)),
                Poll::Pending => Poll::Pending,
            }
        })
    }

    /// Ends our side in order and waits until the peer has everything and has ended its own.
    ///
    /// # Errors
    /// Why the connection is over, if not in order.
    pub fn finish(mut self) -> Result<()> {
        let id = self.id;
        self.ended = true;
        self.shared.lock().stack.finish(id);
        self.shared.block(None, &mut Keep, |state, _| {
            state.stack.flush();
            // Nobody will ask for them.
            while let Some((_, buffer)) = state.stack.recv_any(id) {
                state.stack.recycle(id, buffer);
            }
            state.closed(id)
        })
    }

    /// Ends our side in order; the peer may go on. [`Connection::recv`] still works.
    pub fn finish_sending(&mut self) {
        let mut state = self.shared.lock();
        state.stack.finish(self.id);
        state.stack.flush();
    }

    /// [`Connection::finish`] for futures.
    ///
    /// # Errors
    /// As there.
    pub async fn finish_async(mut self) -> Result<()> {
        let id = self.id;
        self.ended = true;
        self.shared.lock().stack.finish(id);
        let shared = self.shared.clone();
        shared
            .wait(id, |state| {
                state.stack.flush();
                while let Some((_, buffer)) = state.stack.recv_any(id) {
                    state.stack.recycle(id, buffer);
                }
                state.closed(id)
            })
            .await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if !self.ended {
            state.stack.abort(self.id);
        }
        state.statuses.remove(&self.id);
        drop(state);
        self.shared.nudge();
    }
}

/// The caller's memory for the next ADU in order.
struct Direct<'a> {
    id: ConnectionId,
    memory: &'a mut [u8],
    got: Option<usize>,
}

impl Application for Direct<'_> {
    fn place(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        let fits =
            from == self.id && self.got.is_none() && adu.is_next && adu.len <= self.memory.len();
        if fits { Some(&mut self.memory[..adu.len]) } else { None }
    }

    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.got = Some(adu.len);
    }
}

impl State {
    /// Hands the stack's events to those who wait. True if anybody may care.
    fn dispatch(&mut self) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.stack.poll_event() {
            any = true;
            let known = self.statuses.contains_key(&id);
            if let (false, Event::Connected { .. }) = (known, &event) {
                self.arrived.push(id);
                self.arrival_tasks.drain(..).for_each(task::Waker::wake);
            } else if !known {
                // A connection that never came to be, or that was dropped.
                continue;
            }
            let status = self.statuses.entry(id).or_default();
            match event {
                Event::Connected { peer, trusted } => status.connected = Some((peer, trusted)),
                Event::Finished => status.finished = true,
                Event::Closed(error) => status.closed = Some(error),
                Event::Readable | Event::Writable => {}
            }
            status.tasks.drain(..).for_each(task::Waker::wake);
        }
        any
    }

    fn next_arrival(&mut self) -> Poll<Result<ConnectionId>> {
        if self.arrived.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(Ok(self.arrived.remove(0)))
        }
    }

    fn connected(&mut self, id: ConnectionId) -> Poll<Result<(Fingerprint, bool)>> {
        match self.statuses.get(&id).and_then(|s| s.connected) {
            Some(connected) => Poll::Ready(Ok(connected)),
            None => self.pending(id),
        }
    }

    /// Why the connection is over; pending while it is not.
    fn pending<T>(&mut self, id: ConnectionId) -> Poll<Result<T>> {
        match self.statuses.get_mut(&id).and_then(|s| s.closed.as_mut()) {
            Some(error) => Poll::Ready(Err(error.take().unwrap_or(Error::Closed))),
            None => Poll::Pending,
        }
    }

    /// `None` once the peer has ended in order.
    fn end_or_pending<T>(&mut self, id: ConnectionId) -> Poll<Result<Option<T>>> {
        match self.statuses.get(&id) {
            Some(status) if status.finished => Poll::Ready(Ok(None)),
            _ => self.pending(id),
        }
    }

    /// Both sides ended, in order or not.
    fn closed(&mut self, id: ConnectionId) -> Poll<Result<()>> {
        match self.statuses.get_mut(&id).and_then(|s| s.closed.as_mut()) {
            Some(None) => Poll::Ready(Ok(())),
            Some(error) => Poll::Ready(Err(error.take().unwrap_or(Error::Closed))),
            None => Poll::Pending,
        }
    }

    /// The first cause, where `error` only says that the connection is gone.
    fn reason(&mut self, id: ConnectionId, error: Error) -> Error {
        let first = self.statuses.get_mut(&id).and_then(|s| s.closed.as_mut()?.take());
        first.filter(|_| matches!(error, Error::Closed)).unwrap_or(error)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves a stack that is still right: each call completes or changes nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the driver's sleep: there may be an earlier timer, or something to answer.
    fn nudge(&self) {
        if self.lock().asleep {
            self.waker.wake();
        }
    }

    /// Drives the stack, or lets another thread, until `attempt` is ready.
    fn block<A: Application, T>(
        &self,
        deadline: Option<Instant>,
        app: &mut A,
        mut attempt: impl FnMut(&mut State, &mut A) -> Poll<Result<T>>,
    ) -> Result<T> {
        let mut state = self.lock();
        loop {
            if let Poll::Ready(result) = attempt(&mut state, app) {
                if state.asleep {
                    self.waker.wake();
                }
                return result;
            }
            if deadline.is_some_and(|at| Instant::now() >= at) {
                return Err(Error::Closed);
            }
            if state.driven {
                state.waiting += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiting -= 1;
                continue;
            }
            state.driven = true;
            let (guard, result) = self.drive(state, app);
            state = guard;
            state.driven = false;
            // Another may have news, or has to drive from now on.
            if state.waiting > 0 {
                self.changed.notify_all();
            }
            result?;
        }
    }

    /// One turn: frames, timers, events; sleeps without the lock when there was nothing.
    fn drive<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        app: &mut dyn Application,
    ) -> (MutexGuard<'a, State>, Result<()>) {
        let worked = match state.stack.poll(app) {
            Ok(worked) => worked,
            Err(error) => return (state, Err(error)),
        };
        let news = state.dispatch();
        if worked || news || state.stack.wants_spin() {
            return (state, Ok(()));
        }
        let timeout = state.stack.next_timeout();
        state.asleep = true;
        drop(state);
        let result = self.sleep(timeout);
        let mut state = self.lock();
        state.asleep = false;
        (state, result)
    }

    fn sleep(&self, timeout: Option<Duration>) -> Result<()> {
        let mut fds =
            [PollFd::new(&self.waker, PollFlags::IN), PollFd::new(&self.waker, PollFlags::IN)];
        let count = match &self.frames {
            Some(frames) => {
                fds[1] = PollFd::new(frames, PollFlags::IN);
                2
            }
            None => 1,
        };
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        match poll(&mut fds[..count], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::os("waiting for the device")(error.into())),
        }
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(self.waker.as_fd(), &mut [0u8; 8]);
        }
        Ok(())
    }

    /// Waits in a task.
    async fn wait<T>(
        self: &Arc<Self>,
        id: ConnectionId,
        mut attempt: impl FnMut(&mut State) -> Poll<Result<T>>,
    ) -> Result<T> {
        Shared::start_driver(self);
        poll_fn(|cx| {
            let mut state = self.lock();
            let ready = attempt(&mut state);
            if ready.is_pending() {
                state.statuses.entry(id).or_default().tasks.push(cx.waker().clone());
            }
            if state.asleep {
                self.waker.wake();
            }
            ready
        })
        .await
    }

    /// Starts the thread that drives for futures; it ends with the last endpoint and connection.
    fn start_driver(this: &Arc<Self>) {
        let mut state = this.lock();
        if std::mem::replace(&mut state.has_driver_thread, true) {
            return;
        }
        drop(state);
        let shared = Arc::downgrade(this);
        let spawned = std::thread::Builder::new()
            .name("fusewire-driver".into())
            .spawn(move || run_driver(&shared));
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot start the driver thread");
        }
    }
}

/// How long the driver may sleep before it looks whether anybody is left.
const DRIVER_NAP: Duration = Duration::from_millis(200);

fn run_driver(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let nap = Some(Instant::now() + DRIVER_NAP);
        let _: Result<()> = shared.block(nap, &mut Keep, |_, _| Poll::Pending);
    }
}

/// Secret bytes for sequence numbers and cookies.
fn random() -> Result<[u8; 32]> {
    let mut seed = [0; 32];
    let mut done = 0;
    while done < seed.len() {
        let got = rustix::rand::getrandom(&mut seed[done..], rustix::rand::GetRandomFlags::empty());
        done += got.map_err(|e| Error::os("reading random bytes")(e.into()))?;
    }
    Ok(seed)
}
