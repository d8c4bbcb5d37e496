//! Streams of an outboard's that carry records ([`byte_stream`](fusewire_stack::byte_stream)): encrypted connections, the file
//! transfer.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use fusewire_device::Waker;
use fusewire_stack::byte_stream::{ByteListener, ByteStream, InPlace};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags};

use super::socket::{Outboard, Socket};
use crate::protocol::{Family, Kind, OptionName, SocketType};

/// A stream. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Socket>);

/// A socket for streams with hosts of this one's IP version.
fn socket(outboard: &Arc<Outboard>, address: SocketAddr) -> io::Result<Socket> {
    let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
    Ok(outboard.socket(SocketType { family, kind: Kind::Stream })?)
}

impl Stream {
    /// Connects within so long.
    ///
    /// # Errors
    /// Why there is no connection; `TimedOut`.
    pub fn connect(
        outboard: &Arc<Outboard>,
        remote: SocketAddr,
        time: Duration,
    ) -> io::Result<Stream> {
        let socket = socket(outboard, remote)?;
        socket.set_timeout(Timeout::Send, Some(time))?;
        match socket.connect(Some(remote)) {
            Ok(()) => socket.set_timeout(Timeout::Send, None)?,
            Err(Errno::INPROGRESS) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
        Ok(Stream(Arc::new(socket)))
    }

    /// Bytes of records that were sealed where they leave from.
    pub fn sent_in_place(&self) -> u64 {
        self.0.sent_in_place()
    }

    fn set(&self, level: i32, name: i32, value: u32) -> io::Result<()> {
        Ok(self.0.set_option(OptionName { level, name }, &value.to_ne_bytes())?)
    }
}

impl ByteStream for Stream {
    const NAME: &'static str = "outboard";

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local()?)
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.peer()?)
    }

    fn try_clone(&self) -> io::Result<Stream> {
        Ok(self.clone())
    }

    fn set_nodelay(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
    }

    fn set_timeouts(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(Timeout::Recv, timeout)?;
        Ok(self.0.set_timeout(Timeout::Send, timeout)?)
    }

    fn give_up_silent(&self, after: Duration) -> io::Result<()> {
        let seconds = |n| u32::try_from(after.as_secs() / n).unwrap_or(u32::MAX).max(1);
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(3))?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds(9))?;
        self.set(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 6)?;
        let ms = u32::try_from(after.as_millis()).unwrap_or(u32::MAX).max(1);
        self.set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms)?;
        self.set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
    }

    fn send(&self, bytes: &[u8], waits: bool) -> io::Result<usize> {
        let flags = if waits { SendFlags::empty() } else { SendFlags::DONTWAIT };
        Ok(self.0.send(&[IoSlice::new(bytes)], flags)?)
    }

    fn send_in_place(&self, back: &mut [u8], fill: &mut dyn FnMut(&mut [u8]) -> bool) -> InPlace {
        self.0.send_in_place(back, fill)
    }

    fn push(&self) {
        self.0.push();
    }

    fn recv(&self, out: &mut [u8], waits: bool) -> io::Result<usize> {
        let flags = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        Ok(self.0.recv(&mut [IoSliceMut::new(out)], flags)?)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        Ok(self.0.shutdown(match how {
            Shutdown::Read => rustix::net::Shutdown::Read,
            Shutdown::Write => rustix::net::Shutdown::Write,
            Shutdown::Both => rustix::net::Shutdown::Both,
        })?)
    }

    fn reset_when_dropped(&self) -> io::Result<()> {
        // `struct linger`: on, for no time.
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        let name = OptionName { level: libc::SOL_SOCKET, name: libc::SO_LINGER };
        Ok(self.0.set_option(name, &linger)?)
    }

    fn descriptor(&self) -> impl AsFd + '_ {
        self.0.placeholder()
    }
}

/// A port that takes streams.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    waker: Waker,
}

impl Listener {
    /// Listens at `local`.
    ///
    /// # Errors
    /// Somebody has the port, or it is not for this user; no descriptor is left.
    pub fn bind(outboard: &Arc<Outboard>, local: SocketAddr) -> io::Result<Listener> {
        let socket = socket(outboard, local)?;
        socket.set_option(
            OptionName { level: libc::SOL_SOCKET, name: libc::SO_REUSEADDR },
            &1i32.to_ne_bytes(),
        )?;
        socket.bind(local)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(Listener { socket, waker: Waker::new()? })
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// The outboard is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.socket.local()?)
    }

    /// What ends a wait for a connection, from anywhere.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 128;

impl ByteListener for Listener {
    type Stream = Stream;

    fn accept_within(&self, time: Duration) -> io::Result<Option<(Stream, SocketAddr)>> {
        match self.socket.accept() {
            Ok((socket, peer)) => {
                socket.set_nonblocking(false)?;
                Ok(Some((Stream(Arc::new(socket)), peer)))
            }
            Err(Errno::AGAIN) => {
                let (placeholder, patience) = (self.socket.placeholder(), time.try_into().ok());
                let mut fds = [placeholder.as_fd(), self.waker.as_fd()]
                    .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                match poll(&mut fds, patience.as_ref()) {
                    Ok(_) | Err(Errno::INTR) => self.waker.drain(),
                    Err(error) => return Err(error.into()),
                }
                Ok(None)
            }
            Err(error @ (Errno::NETDOWN | Errno::INVAL | Errno::CONNRESET)) => Err(error.into()),
            // No descriptors for now.
            Err(error) => {
                tracing::debug!(%error, "cannot accept");
                std::thread::sleep(time);
                Ok(None)
            }
        }
    }
}
