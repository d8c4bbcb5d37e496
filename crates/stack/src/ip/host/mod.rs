//! Sockets for programs: blocking and async handles over one [`Stack`], driven by whoever waits and, while nobody
//! does, by a thread of its own.
//!
//! One at a time leads (`lead`): a caller that has to wait drives the stack itself, for a short while without
//! sleeping and then asleep on the interface's descriptor, so that a packet wakes the very thread that wants it.
//! Everybody else who waits sleeps on a wake of its own (`waiters`) until what it waits for has happened. Async
//! handles wait for the driver thread, or for whoever leads.

mod async_tcp;
mod halves;
mod lead;
mod tcp;
#[cfg(feature = "tokio")]
mod tokio;
mod udp;
mod wait;
mod waiters;

use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
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

pub use async_tcp::AsyncTcpStream;
pub use halves::{NotOne, ReadHalf, WriteHalf};
pub use tcp::{Accept, AcceptAsync, Connect, TcpListener, TcpStream};
pub use udp::UdpSocket;

use lead::{FIRST_KEY, Leading};
use waiters::Waiters;

use super::config::{Config, Counters, Error};
use super::observe::observe;
use super::snapshot::Snapshot;
use super::stack::Stack;
use crate::clock::Clock;

/// How soon an interface that was full is tried again.
const RETRY: Duration = Duration::from_micros(500);

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

/// The stack, who waits and who drives.
pub(super) struct Inner {
    pub stack: Stack,
    waiters: Waiters,
    leading: Leading,
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
    /// Somebody leads, and is awake.
    active: AtomicBool,
    /// When a caller last left the lead, in nanoseconds.
    drove_at: AtomicU64,
    /// Somebody has waited by a waker of a task's: the driver thread looks without sleeping after it had work.
    is_async: AtomicBool,
    /// Names of those who wait: none is used twice.
    keys: AtomicU64,
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
        let (waiters, leading) = (Waiters::default(), Leading::default());
        let inner = Inner { stack, waiters, leading, broken: None };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            contenders: AtomicU32::new(0),
            clock,
            config,
            wake: DeviceWaker::new()?,
            fd,
            active: AtomicBool::new(false),
            drove_at: AtomicU64::new(0),
            is_async: AtomicBool::new(false),
            keys: AtomicU64::new(FIRST_KEY),
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
        inner.after(now)?;
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
    pub fn lock(&self) -> Locked<'_> {
        Locked { inner: self.lock_inner(), after: After { shared: self, any: false } }
    }

    #[inline]
    fn lock_inner(&self) -> MutexGuard<'_, Inner> {
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
}

/// The lock. Whoever is to be woken is woken when it is given back: a waker may do anything, such as drop the last
/// handle of a socket.
pub(super) struct Locked<'a> {
    inner: MutexGuard<'a, Inner>,
    // Dropped after the guard, for fields are dropped in their order.
    after: After<'a>,
}

impl Deref for Locked<'_> {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.after.any = self.inner.waiters.has_woken() || self.inner.leading.wakes_driver;
    }
}

/// What is done once the lock is given back.
struct After<'a> {
    shared: &'a Shared,
    /// There is somebody to wake.
    any: bool,
}

impl Drop for After<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.any {
            self.shared.wake_all();
        }
    }
}

impl Shared {
    /// Wakes those that are to be woken, without the lock.
    #[cold]
    fn wake_all(&self) {
        loop {
            let mut some = [const { None }; 8];
            let mut inner = self.lock_inner();
            let driver = std::mem::take(&mut inner.leading.wakes_driver);
            let more = inner.waiters.take_woken(&mut some);
            drop(inner);
            if driver {
                self.wake.wake();
            }
            some.into_iter().flatten().for_each(Waker::wake);
            if !more {
                return;
            }
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
    pub fn after(&mut self, now: Instant) -> io::Result<()> {
        self.check()?;
        if self.stack.wants_transmit()
            && let Err(error) = self.stack.transmit(now)
        {
            self.fail(&error);
            return Err(error);
        }
        self.dispatch();
        self.schedule(now);
        Ok(())
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
        self.waiters.wake_everybody();
    }

    /// Wakes who waits for what has happened, as soon as the lock is given back.
    #[inline]
    pub fn dispatch(&mut self) {
        while let Some((id, event)) = self.stack.poll_event() {
            self.waiters.happened(id, event);
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
