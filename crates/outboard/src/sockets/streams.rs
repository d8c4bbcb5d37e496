//! Listeners and connections.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use fusewire_stack::ip;
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags};

use super::{Sockets, made, set_timeouts, waited};
use crate::client;
use crate::protocol::{Kind, OptionName};

const NODELAY: OptionName = OptionName { level: libc::IPPROTO_TCP, name: libc::TCP_NODELAY };

/// A port that takes connections.
#[derive(Debug)]
pub enum TcpListener {
    /// Of a stack of this process.
    Inline(ip::TcpListener),
    /// Of an outboard's.
    Outboard(client::Socket),
}

/// A connection, for threads that wait; it reads and writes through a reference too. Dropping it closes it.
#[derive(Debug)]
pub enum TcpStream {
    /// Of a stack of this process.
    Inline(ip::TcpStream),
    /// Of an outboard's.
    Outboard(client::Socket),
}

impl TcpListener {
    /// Takes connections to `local`.
    ///
    /// # Errors
    /// As [`ip::Host::tcp_listen`].
    pub fn bind(sockets: &Sockets, local: SocketAddr, backlog: usize) -> io::Result<TcpListener> {
        Ok(match sockets {
            Sockets::Inline(inline) => {
                TcpListener::Inline(inline.host().tcp_listen(local, backlog)?)
            }
            Sockets::Outboard(outboard) => {
                let socket = made(outboard, Kind::Stream, local)?;
                socket.bind(local)?;
                socket.listen(u32::try_from(backlog).unwrap_or(u32::MAX))?;
                TcpListener::Outboard(socket)
            }
        })
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            TcpListener::Inline(listener) => listener.local_addr(),
            TcpListener::Outboard(socket) => Ok(socket.local()?),
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// `NetworkDown`: interface or outboard is gone.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            TcpListener::Inline(listener) => {
                let (stream, remote) = listener.accept()?;
                Ok((TcpStream::Inline(stream), remote))
            }
            TcpListener::Outboard(socket) => {
                let (socket, remote) = waited(socket.accept())?;
                Ok((TcpStream::Outboard(socket), remote))
            }
        }
    }
}

impl TcpStream {
    /// Connects, and waits until that is done.
    ///
    /// # Errors
    /// As [`ip::Host::tcp_connect`].
    pub fn connect(sockets: &Sockets, remote: SocketAddr) -> io::Result<TcpStream> {
        Ok(match sockets {
            Sockets::Inline(inline) => TcpStream::Inline(inline.host().tcp_connect(remote)?),
            Sockets::Outboard(outboard) => {
                let socket = made(outboard, Kind::Stream, remote)?;
                socket.connect(Some(remote))?;
                TcpStream::Outboard(socket)
            }
        })
    }

    /// Our address.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            TcpStream::Inline(stream) => stream.local_addr(),
            TcpStream::Outboard(socket) => Ok(socket.local()?),
        }
    }

    /// The peer's.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            TcpStream::Inline(stream) => stream.peer_addr(),
            TcpStream::Outboard(socket) => Ok(socket.peer()?),
        }
    }

    /// How long reading and writing wait; `None`: for as long as it takes.
    ///
    /// # Errors
    /// A time of zero.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        match self {
            TcpStream::Inline(stream) => {
                stream.set_timeouts(read, write);
                Ok(())
            }
            TcpStream::Outboard(socket) => set_timeouts(socket, read, write),
        }
    }

    /// Turns Nagle's algorithm off, or on again.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        match self {
            TcpStream::Inline(stream) => stream.set_nodelay(nodelay),
            TcpStream::Outboard(socket) => {
                Ok(socket.set_option(NODELAY, &i32::from(nodelay).to_ne_bytes())?)
            }
        }
    }

    /// Writes what there is room for, waiting for room.
    ///
    /// # Errors
    /// As [`ip::TcpStream::send`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            TcpStream::Inline(stream) => stream.send(bytes),
            TcpStream::Outboard(_) if bytes.is_empty() => Ok(0),
            TcpStream::Outboard(socket) => {
                waited(socket.send(&[IoSlice::new(bytes)], SendFlags::empty()))
            }
        }
    }

    /// Reads what is there, waiting for something to be there. 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`ip::TcpStream::recv`].
    pub fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            TcpStream::Inline(stream) => stream.recv(out),
            TcpStream::Outboard(socket) => {
                waited(socket.recv(&mut [IoSliceMut::new(out)], RecvFlags::empty()))
            }
        }
    }

    /// Ends a direction; what was written arrives, then its end.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            TcpStream::Inline(stream) => stream.shutdown(how),
            TcpStream::Outboard(socket) => Ok(socket.shutdown(match how {
                Shutdown::Read => rustix::net::Shutdown::Read,
                Shutdown::Write => rustix::net::Shutdown::Write,
                Shutdown::Both => rustix::net::Shutdown::Both,
            })?),
        }
    }
}

impl Read for &TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.recv(out)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.recv(out)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
