//! Sockets for messages.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_stack::ip;
use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendFlags};

use super::{Sockets, made, set_timeouts, waited};
use crate::client::{self, Datagram};
use crate::protocol::Kind;

/// A socket for messages. Dropping it closes it.
#[derive(Debug)]
pub enum UdpSocket {
    /// Of a stack of this process.
    Inline(ip::UdpSocket),
    /// Of an outboard's.
    Outboard(client::Socket),
}

/// A message that came, of a socket that is not shut down.
pub(super) fn came(datagram: Option<Datagram>) -> Result<(usize, SocketAddr), Errno> {
    datagram.map(|datagram| (datagram.len, datagram.from)).ok_or(Errno::NOTCONN)
}

impl UdpSocket {
    /// A socket at `local`.
    ///
    /// # Errors
    /// As [`ip::Host::udp_bind`].
    pub fn bind(sockets: &Sockets, local: SocketAddr) -> io::Result<UdpSocket> {
        Ok(match sockets {
            Sockets::Inline(inline) => UdpSocket::Inline(inline.host().udp_bind(local)?),
            Sockets::Outboard(outboard) => {
                let socket = made(outboard, Kind::Datagram, local)?;
                socket.bind(local)?;
                UdpSocket::Outboard(socket)
            }
        })
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            UdpSocket::Inline(socket) => socket.local_addr(),
            UdpSocket::Outboard(socket) => Ok(socket.local()?),
        }
    }

    /// Takes messages from `remote` alone from now on, and sends to it what names nobody.
    ///
    /// # Errors
    /// The socket is gone; over an outboard as [`Client::connect`](crate::client::Client::connect), of which `EAGAIN` says that too much
    /// waits that was sent to earlier peers.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        match self {
            UdpSocket::Inline(socket) => socket.connect(remote),
            UdpSocket::Outboard(socket) => Ok(socket.connect(Some(remote))?),
        }
    }

    /// How long receiving waits; `None`: for as long as it takes.
    ///
    /// # Errors
    /// A time of zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            UdpSocket::Inline(socket) => {
                socket.set_timeout(timeout);
                Ok(())
            }
            UdpSocket::Outboard(socket) => set_timeouts(socket, timeout, None),
        }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`ip::UdpSocket::send_to`].
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        match self {
            UdpSocket::Inline(socket) => socket.send_to(bytes, to),
            UdpSocket::Outboard(socket) => {
                waited(socket.send_to(&[IoSlice::new(bytes)], Some(to), SendFlags::empty()))
            }
        }
    }

    /// Sends one message to whom it is connected.
    ///
    /// # Errors
    /// As [`ip::UdpSocket::send`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            UdpSocket::Inline(socket) => socket.send(bytes),
            UdpSocket::Outboard(socket) => {
                waited(socket.send_to(&[IoSlice::new(bytes)], None, SendFlags::empty()))
            }
        }
    }

    /// The next message: how long it is, and whose. Of one that is longer than `out` the rest is lost.
    ///
    /// # Errors
    /// As [`ip::UdpSocket::recv_from`].
    pub fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        match self {
            UdpSocket::Inline(socket) => {
                socket.recv_from(out).map(|received| (received.len, received.from))
            }
            UdpSocket::Outboard(socket) => {
                waited(socket.recv_from(out, RecvFlags::empty()).and_then(came))
            }
        }
    }
}
