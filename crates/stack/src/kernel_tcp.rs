//! The same records over a kernel TCP socket, for where UDP is blocked: at the kernel's speed.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use crate::byte_stream::{self, ByteListener, ByteStream};

/// An encrypted connection over kernel TCP.
pub type Connection = byte_stream::Connection<TcpStream>;

impl ByteStream for TcpStream {
    const NAME: &'static str = "kernel-tcp";

    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpStream::local_addr(self)
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        TcpStream::peer_addr(self)
    }

    fn try_clone(&self) -> io::Result<TcpStream> {
        TcpStream::try_clone(self)
    }

    fn set_nodelay(&self) -> io::Result<()> {
        TcpStream::set_nodelay(self, true)
    }

    fn set_timeouts(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)?;
        self.set_write_timeout(timeout)
    }

    fn give_up_silent(&self, after: Duration) -> io::Result<()> {
        let seconds = |n: u32| (after / n).max(Duration::from_secs(1));
        sockopt::set_tcp_keepidle(self, seconds(3))?;
        sockopt::set_tcp_keepintvl(self, seconds(9))?;
        sockopt::set_tcp_keepcnt(self, 6)?;
        let ms = u32::try_from(after.as_millis()).unwrap_or(u32::MAX).max(1);
        sockopt::set_tcp_user_timeout(self, ms)?;
        Ok(sockopt::set_socket_keepalive(self, true)?)
    }

    fn send(&self, bytes: &[u8], waits: bool) -> io::Result<usize> {
        let flags = if waits { SendFlags::empty() } else { SendFlags::DONTWAIT };
        Ok(send(self, bytes, flags | SendFlags::NOSIGNAL)?)
    }

    fn recv(&self, out: &mut [u8], waits: bool) -> io::Result<usize> {
        let flags = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        Ok(recv(self, out, flags)?.0)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        TcpStream::shutdown(self, how)
    }

    fn reset_when_dropped(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, Some(Duration::ZERO))?)
    }

    fn descriptor(&self) -> impl AsFd + '_ {
        self.as_fd()
    }
}

impl ByteListener for TcpListener {
    type Stream = TcpStream;

    fn accept_within(&self, time: Duration) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        self.set_nonblocking(true)?;
        match self.accept() {
            // Not inherited from the listener everywhere.
            Ok((stream, peer)) => match stream.set_nonblocking(false) {
                Ok(()) => Ok(Some((stream, peer))),
                Err(_) => Ok(None),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                fusewire_device::sleep(&mut [PollFd::new(self, PollFlags::IN)], Some(time))?;
                Ok(None)
            }
            // A connection that broke while it waited, or no descriptors for now.
            Err(error) => {
                tracing::debug!(%error, "cannot accept");
                std::thread::sleep(time);
                Ok(None)
            }
        }
    }
}
