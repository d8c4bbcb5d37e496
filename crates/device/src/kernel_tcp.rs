//! A kernel TCP connection as a byte stream, for paths where UDP is blocked.
//!
//! Not a [`Device`](crate::Device): there are no frames, and order and loss are the kernel's care.
//! Reads and writes are large, vectored and never block; `wait` sleeps.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use crate::{Waker, wake};

/// One connection.
#[derive(Debug)]
pub struct Stream {
    stream: TcpStream,
    peer: SocketAddr,
    waker: Waker,
}

impl Stream {
    /// Starts to connect and returns at once; the first write or [`Stream::connected`] tells how it went.
    ///
    /// # Errors
    /// What the kernel says at once.
    pub fn connect(peer: SocketAddr) -> io::Result<Self> {
        let family = if peer.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &peer) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        Self::new(TcpStream::from(socket), peer)
    }

    fn new(stream: TcpStream, peer: SocketAddr) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        // Whole records are written at a time; waiting to fill a segment would only delay their ends.
        stream.set_nodelay(true)?;
        Ok(Stream { stream, peer, waker: Waker::new()? })
    }

    /// True once the connection stands; false while it is being made.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn connected(&self) -> io::Result<bool> {
        if let Some(e) = self.stream.take_error()? {
            return Err(e);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The other side.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// This side.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Writes as much as there is room for and returns how much; 0 means "wait until it can be
    /// written to".
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let not_yet = |e: &io::Error| {
            matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
        };
        loop {
            match self.stream.write_vectored(parts) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if not_yet(&e) && self.connection_may_stand()? => return Ok(0),
                result => return result,
            }
        }
    }

    /// Reads what is waiting. `None` when there is nothing, `Some(0)` at the end of the stream.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn read(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read_vectored(parts) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e)
                    if e.kind() == io::ErrorKind::NotConnected
                        && self.connection_may_stand()? =>
                {
                    return Ok(None);
                }
                result => return result.map(Some),
            }
        }
    }

    /// No error is pending on the socket.
    fn connection_may_stand(&self) -> io::Result<bool> {
        self.stream.take_error()?.map_or(Ok(true), Err)
    }

    /// Nothing more will be written; the other side reads to the end.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Sleeps until there is something to read, room to write (when `want_write`), a [`Waker`] wakes or
    /// `timeout` passes; false when the time passed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        wake::wait(self.stream.as_fd(), &self.waker, timeout, want_write)
    }

    /// Wakes [`Stream::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Takes connections.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    waker: Waker,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Listener { listener, waker: Waker::new()? })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection that is waiting, if any.
    ///
    /// # Errors
    /// No descriptor is left. A connection that broke while it waited is passed over.
    pub fn accept(&mut self) -> io::Result<Option<Stream>> {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => return Stream::new(stream, peer).map(Some),
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => return Err(e),
                },
            }
        }
    }

    /// Sleeps until a connection waits, a [`Waker`] wakes or `timeout` passes; false when the time passed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        wake::wait(self.listener.as_fd(), &self.waker, timeout, false)
    }

    /// Wakes [`Listener::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
