//! Sockets for programs: blocking and async handles over one [`Stack`], driven by a thread of its own and,
//! where that is quicker, by whoever waits.
//!
//! A caller that has to wait takes the wheel: it polls the stack itself, for a short while without
//! sleeping and then asleep on the interface's descriptor, so that a packet wakes the very thread that
//! wants it. While somebody does that, and shortly after, the driver thread only looks in from time to
//! time. Async handles wait for the driver.

mod tcp;
#[cfg(feature = "tokio")]
mod tokio;
mod udp;
mod wait;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker as DeviceWaker;
use fusewire_device::interface::Interface;
use fusewire_view::Observed;

pub use tcp::{Connect, TcpListener, TcpStream};
pub use udp::UdpSocket;

use super::config::{Config, Counters, Error, Event, SocketId};
use super::observe::observe;
use super::snapshot::Snapshot;
use super::stack::Stack;
use crate::clock::Clock;

/// How often the driver looks in while others drive.
const LOOK_IN: Duration = Duration::from_millis(2);
/// How soon an interface that was full is tried again.
const RETRY: Duration = Duration::from_micros(500);
const NEVER: u64 = u64::MAX;

/// Settings of a [`Host`].
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The stack's.
    pub stack: Config,
    /// How long a caller that waits looks without sleeping.
    pub spin: Duration,
    /// How long a message that was given to `UdpSocket::send_to` may wait for others to leave with it;
    /// `None`: each leaves at once.
    pub udp_gather: Option<Duration>,
    /// How long connections that were closed may go on sending once the host is gone.
    pub linger: Duration,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            stack: Config::default(),
            spin: Duration::from_micros(50),
            udp_gather: None,
            linger: Duration::from_secs(1),
        }
    }
}

/// Who waits for a socket.
#[derive(Default)]
struct Waiters {
    generation: u32,
    read: Vec<Waker>,
    write: Vec<Waker>,
}

/// The stack and who waits.
pub(super) struct Inner {
    pub stack: Stack,
    waiters: Vec<Waiters>,
    /// The interface is gone: why.
    pub broken: Option<io::ErrorKind>,
}

/// Which way somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// For something to read, to accept, or an end.
    Read,
    /// For room, or the end of the handshake.
    Write,
}

pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// Callers that wait for it.
    contenders: AtomicU32,
    pub clock: Clock,
    pub config: HostConfig,
    /// Wakes the driver.
    wake: DeviceWaker,
    /// The interface's descriptor, to sleep on without the lock.
    fd: Option<OwnedFd>,
    /// Callers that drive.
    driving: AtomicU32,
    /// When one last did, in nanoseconds.
    drove_at: AtomicU64,
    /// Somebody has waited by [`Waker`]: the driver is needed.
    is_async: AtomicBool,
    /// Until when the driver sleeps; 0 when it does not.
    asleep_until: AtomicU64,
    stop: AtomicBool,
}

/// An IP host on an interface: the place where sockets come from. Clones are the same host; when the last
/// one and the last socket are gone, it ends.
#[derive(Clone)]
pub struct Host {
    pub(super) shared: Arc<Shared>,
    driver: Arc<Driver>,
}

/// Ends the driver thread when the last handle goes.
struct Driver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    observed: Mutex<Option<Observed>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake.wake();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends by itself; a panic in it was told already.
            let _ = thread.join();
        }
    }
}

impl Host {
    /// A host on `interface`, with a driver thread.
    ///
    /// # Errors
    /// No descriptor, thread or randomness is to be had.
    pub fn new(
        interface: Box<dyn Interface>,
        net: fusewire_net::Config,
        config: HostConfig,
    ) -> io::Result<Host> {
        Host::start(interface, config, |interface, config, seed, now| {
            Ok(Stack::new(interface, net, config, seed, now))
        })
    }

    /// A host beside the kernel on the addresses that the kernel has on the link `name`; see
    /// [`Stack::beside`].
    ///
    /// # Errors
    /// As [`Host::new`] and [`Stack::beside`].
    pub fn beside(
        interface: Box<dyn Interface>,
        name: &str,
        config: HostConfig,
    ) -> io::Result<Host> {
        Host::start(interface, config, |interface, config, seed, now| {
            Stack::beside(interface, name, config, seed, now)
        })
    }

    fn start(
        interface: Box<dyn Interface>,
        config: HostConfig,
        stack: impl FnOnce(Box<dyn Interface>, Config, [u8; 32], Instant) -> io::Result<Stack>,
    ) -> io::Result<Host> {
        let mut seed = [0; 32];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let clock = Clock::new();
        let fd = interface.as_fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
        let stack = stack(interface, config.stack.clone(), seed, clock.now())?;
        let inner = Inner { stack, waiters: Vec::new(), broken: None };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            contenders: AtomicU32::new(0),
            clock,
            config,
            wake: DeviceWaker::new()?,
            fd,
            driving: AtomicU32::new(0),
            drove_at: AtomicU64::new(0),
            is_async: AtomicBool::new(false),
            asleep_until: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let driven = shared.clone();
        let thread =
            std::thread::Builder::new().name("fusewire-ip".into()).spawn(move || driven.run())?;
        let (driven, observed) = (shared.clone(), Mutex::default());
        let driver = Driver { shared: driven, thread: Some(thread), observed };
        Ok(Host { shared, driver: Arc::new(driver) })
    }

    /// Runs `f` on the stack itself, for what no handle gives; sends what that left to send.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn with<T>(&self, f: impl FnOnce(&mut Stack, Instant) -> T) -> io::Result<T> {
        let mut inner = self.shared.lock();
        let now = self.shared.clock.now();
        let result = f(&mut inner.stack, now);
        inner.after(&self.shared, now)?;
        Ok(result)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        *self.shared.lock().stack.counters()
    }

    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire capture`.
    /// They ask over a Unix socket (see `fusewire_view::place`), a thread answers, and the stack stands still
    /// for no more than a few sockets at a time.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn observe(&self) -> io::Result<()> {
        let mut observed = self.driver.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.is_none() {
            *observed = Some(observe(&self.shared)?);
        }
        Ok(())
    }

    /// All sockets, with what they count.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.lock().stack.snapshot()
    }

    /// A socket that takes connections.
    ///
    /// # Errors
    /// As [`Stack::tcp_listen`].
    pub fn tcp_listen(&self, local: SocketAddr, backlog: usize) -> io::Result<TcpListener> {
        TcpListener::bind(self, local, backlog)
    }

    /// Connects, and waits until that is done.
    ///
    /// # Errors
    /// As [`Stack::tcp_connect`], and what the peer says.
    pub fn tcp_connect(&self, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(self, remote)
    }

    /// A socket for messages.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`].
    pub fn udp_bind(&self, local: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind(self, local)
    }
}

impl Shared {
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        match self.inner.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.contenders.fetch_add(1, Ordering::Relaxed);
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Who looks again and again lets those in who have something to do.
    pub fn give_way(&self) {
        for _ in 0..100 {
            if self.contenders.load(Ordering::Relaxed) == 0 {
                return std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    /// Somebody drives, or did a moment ago.
    fn others_drive(&self, now: Instant) -> bool {
        if self.is_async.load(Ordering::Relaxed) {
            return false;
        }
        let drove_at = Instant::from_ns(self.drove_at.load(Ordering::Relaxed));
        self.driving.load(Ordering::Relaxed) > 0
            || (drove_at > Instant::ZERO && now.saturating_since(drove_at) < LOOK_IN)
    }

    /// The driver thread.
    fn run(&self) {
        let mut busy_until = Instant::ZERO;
        let mut end = None;
        loop {
            let now = self.clock.now();
            if self.stop.load(Ordering::Acquire) {
                let end = *end.get_or_insert(now + self.config.linger);
                if now >= end || self.lock().stack.unfinished() == 0 {
                    return;
                }
            }
            let others = end.is_none() && self.others_drive(now);
            let due = {
                let mut inner = self.lock();
                if others {
                    inner.due(now)
                } else {
                    let worked = inner.drive(now);
                    if worked && self.is_async.load(Ordering::Relaxed) {
                        busy_until = now + self.config.spin;
                    }
                    if inner.broken.is_some() {
                        return;
                    }
                    let due = inner.due(now);
                    let due = if end.is_some() { Some(now + LOOK_IN) } else { due };
                    // Whoever arms an earlier timer, or stages a message, wakes us.
                    let until = due.map_or(NEVER, Instant::as_ns);
                    self.asleep_until.store(until, Ordering::Release);
                    due
                }
            };
            if !others && now < busy_until {
                std::thread::yield_now();
                continue;
            }
            let timeout = due.map(|at| at.saturating_since(now));
            let timeout = if others {
                Some(timeout.map_or(LOOK_IN, |t| t.clamp(Duration::from_micros(200), LOOK_IN)))
            } else {
                timeout
            };
            let fd = self.fd.as_ref().filter(|_| !others);
            let timeout = if fd.is_none() && !others {
                Some(timeout.map_or(LOOK_IN, |t| t.min(LOOK_IN)))
            } else {
                timeout
            };
            wait::sleep(fd, &self.wake, timeout);
            self.asleep_until.store(0, Ordering::Release);
        }
    }
}

impl Inner {
    /// When the stack has to be polled next.
    fn due(&self, now: Instant) -> Option<Instant> {
        if self.stack.has_unread() {
            return Some(now);
        }
        let due = self.stack.poll_timeout();
        if !self.stack.is_blocked() {
            return due;
        }
        let retry = now + RETRY;
        Some(due.map_or(retry, |due| due.min(retry)))
    }

    /// Polls the stack and wakes who waits; true if there was work.
    pub fn drive(&mut self, now: Instant) -> bool {
        self.drive_by(now, Stack::poll)
    }

    /// The same when packets were just received.
    pub fn drive_rest(&mut self, now: Instant) -> bool {
        self.drive_by(now, Stack::poll_rest)
    }

    fn drive_by(
        &mut self,
        now: Instant,
        poll: impl FnOnce(&mut Stack, Instant) -> io::Result<bool>,
    ) -> bool {
        if self.broken.is_some() {
            return false;
        }
        match poll(&mut self.stack, now) {
            Ok(worked) => {
                self.dispatch();
                worked
            }
            Err(error) => {
                self.fail(&error);
                true
            }
        }
    }

    /// After calls on sockets: sends what is to be sent, sees to it that the driver wakes in time.
    pub fn after(&mut self, shared: &Shared, now: Instant) -> io::Result<()> {
        self.check()?;
        if self.stack.wants_transmit()
            && let Err(error) = self.stack.transmit(now)
        {
            self.fail(&error);
            return Err(error);
        }
        self.dispatch();
        self.schedule(shared);
        Ok(())
    }

    /// The driver sleeps no longer than it may.
    pub fn schedule(&self, shared: &Shared) {
        let asleep = shared.asleep_until.load(Ordering::Acquire);
        if asleep == 0 {
            return;
        }
        let blocked = self.stack.is_blocked() || self.stack.has_unread();
        let due = self.stack.poll_timeout();
        if blocked || due.is_some_and(|due| due.as_ns() < asleep) {
            shared.asleep_until.store(0, Ordering::Release);
            shared.wake.wake();
        }
    }

    pub fn check(&self) -> io::Result<()> {
        match self.broken {
            Some(kind) => Err(io::Error::new(kind, Error::Interface)),
            None => Ok(()),
        }
    }

    /// The interface is gone: everybody is told.
    pub fn fail(&mut self, error: &io::Error) {
        tracing::error!(%error, "the interface is gone");
        self.broken = Some(error.kind());
        for waiters in &mut self.waiters {
            waiters.read.drain(..).chain(waiters.write.drain(..)).for_each(Waker::wake);
        }
    }

    /// Wakes who waits for what has happened.
    pub fn dispatch(&mut self) {
        while let Some((id, event)) = self.stack.poll_event() {
            let Some(waiters) = self.waiters.get_mut(id.index as usize) else { continue };
            if waiters.generation != id.generation {
                continue;
            }
            let (read, write) = match event {
                Event::Readable | Event::PeerFinished | Event::Acceptable | Event::Urgent => {
                    (true, false)
                }
                Event::Writable => (false, true),
                Event::Connected | Event::Error | Event::Closed => (true, true),
                Event::Congestion => (false, false),
            };
            if read {
                waiters.read.drain(..).for_each(Waker::wake);
            }
            if write {
                waiters.write.drain(..).for_each(Waker::wake);
            }
        }
    }

    /// `waker` is woken when the socket may be ready.
    pub fn register(&mut self, id: SocketId, way: Way, waker: &Waker) {
        let index = id.index as usize;
        if self.waiters.len() <= index {
            self.waiters.resize_with(index + 1, Waiters::default);
        }
        let waiters = &mut self.waiters[index];
        if waiters.generation != id.generation {
            *waiters = Waiters { generation: id.generation, ..Waiters::default() };
        }
        let list = match way {
            Way::Read => &mut waiters.read,
            Way::Write => &mut waiters.write,
        };
        if !list.iter().any(|known| known.will_wake(waker)) {
            list.push(waker.clone());
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error {
            Error::NoSocket | Error::NotConnected => io::ErrorKind::NotConnected,
            Error::Finished => io::ErrorKind::BrokenPipe,
            Error::InUse(_) => io::ErrorKind::AddrInUse,
            Error::Denied(_) => io::ErrorKind::PermissionDenied,
            Error::NotOurs(_) | Error::NoPort => io::ErrorKind::AddrNotAvailable,
            Error::TooManySockets => io::ErrorKind::OutOfMemory,
            Error::TooLong { .. } | Error::Misuse(_) => io::ErrorKind::InvalidInput,
            Error::NoRoute => io::ErrorKind::NetworkUnreachable,
            Error::Unreachable => io::ErrorKind::HostUnreachable,
            Error::Refused => io::ErrorKind::ConnectionRefused,
            Error::Reset => io::ErrorKind::ConnectionReset,
            Error::Aborted => io::ErrorKind::ConnectionAborted,
            Error::TimedOut => io::ErrorKind::TimedOut,
            Error::Interface => io::ErrorKind::NetworkDown,
        };
        io::Error::new(kind, error)
    }
}
