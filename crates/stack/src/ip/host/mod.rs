//! Sockets for programs: blocking and async handles over one [`Stack`], driven by whoever waits and, while nobody
//! does, by a thread of its own ([`driver`](crate::driver)).

mod async_tcp;
mod halves;
mod inner;
mod socket;
mod tcp;
#[cfg(feature = "tokio")]
mod tokio;
mod udp;
mod wait;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::interface::Interface;
use fusewire_view::Observed;

pub use async_tcp::AsyncTcpStream;
pub use halves::{NotOne, ReadHalf, WriteHalf};
pub use socket::Socket;
pub use tcp::{Accept, AcceptAsync, Connect, TcpListener, TcpStream};
pub use udp::UdpSocket;

pub(super) use inner::Inner;

use super::config::{Config, Counters, Error};
use super::observe::observe_host;
use super::snapshot::Snapshot;
use super::stack::Stack;
use crate::clock::Clock;
use crate::driver::{Driven, Wait, after};

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

/// Which way somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// For something to read, to accept, or an end.
    Read,
    /// For room, or the end of the handshake.
    Write,
}

/// An IP host on an interface: the place where sockets come from. Clones are the same host; when the last
/// one and the last socket are gone, it ends.
#[derive(Clone)]
pub struct Host {
    handle: Arc<Handle>,
}

/// What a host and its sockets hold together.
struct Handle {
    driven: Driven<Inner>,
    observed: Mutex<Option<Observed>>,
}

impl Drop for Handle {
    /// What was closed may go on sending for a while.
    fn drop(&mut self) {
        let linger = self.driven.look(|inner| inner.config.linger);
        let wait = Wait { on: &[], deadline: after(linger), sleep_max: None };
        let turn = |inner: &mut Inner, (): &mut ()| inner.poll_by(Stack::poll);
        // An interface that is gone takes nothing more.
        let _ =
            self.driven.block(&wait, &mut (), turn, |inner, ()| match inner.stack.unfinished() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            });
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
    /// [`Stack::coexisting`].
    ///
    /// # Errors
    /// As [`Host::new`] and [`Stack::coexisting`].
    pub fn coexisting(
        interface: Box<dyn Interface>,
        name: &str,
        config: HostConfig,
    ) -> io::Result<Host> {
        Host::start(interface, config, |interface, config, seed, now| {
            Stack::coexisting(interface, name, config, seed, now)
        })
    }

    fn start(
        interface: Box<dyn Interface>,
        config: HostConfig,
        stack: impl FnOnce(Box<dyn Interface>, Config, [u8; 32], Instant) -> io::Result<Stack>,
    ) -> io::Result<Host> {
        let seed = fusewire_device::random()?;
        let clock = Clock::new();
        let fd = interface.as_fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
        let stack = stack(interface, config.stack.clone(), seed, clock.now())?;
        let waker = stack.waker();
        let inner = Inner::new(stack, config, clock, fd.is_some());
        let mut driven = Driven::new(inner, fd, waker)?;
        driven.start("fusewire-ip")?;
        Ok(Host { handle: Arc::new(Handle { driven, observed: Mutex::default() }) })
    }

    fn driven(&self) -> &Driven<Inner> {
        &self.handle.driven
    }

    /// Runs `f` on the stack, for what sends nothing.
    fn look<T>(&self, f: impl FnOnce(&mut Stack) -> T) -> T {
        self.driven().call(|inner| f(&mut inner.stack))
    }

    /// Runs `f` on the stack itself, for what no handle gives; sends what that left to send.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn with<T>(&self, f: impl FnOnce(&mut Stack, Instant) -> T) -> io::Result<T> {
        self.driven().call(|inner| {
            let now = inner.now();
            let result = f(&mut inner.stack, now);
            inner.flush().map(|()| result)
        })
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.look(|stack| *stack.counters())
    }

    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire capture`.
    /// They ask over a Unix socket (see `fusewire_view::place`), a thread answers, and the stack stands still
    /// for no more than a few sockets at a time.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn observe(&self) -> io::Result<()> {
        let mut observed = self.handle.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.is_none() {
            *observed = Some(observe_host(&self.driven().shared)?);
        }
        Ok(())
    }

    /// All sockets, with what they count.
    pub fn snapshot(&self) -> Snapshot {
        self.look(|stack| stack.snapshot())
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

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error {
            Error::NoSocket | Error::NotConnected => io::ErrorKind::NotConnected,
            Error::Finished | Error::Broken => io::ErrorKind::BrokenPipe,
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
            Error::CutShort => io::ErrorKind::UnexpectedEof,
            Error::Interface => io::ErrorKind::NetworkDown,
        };
        io::Error::new(kind, error)
    }
}
