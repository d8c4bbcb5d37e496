//! The same sockets for tasks of tokio: placeholders tell its reactor what is the case.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fusewire_stack::ip;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::datagrams::came;
use super::{Sockets, TcpListener, TcpStream, UdpSocket, made};
use crate::client::{self, Placeholder};
use crate::protocol::Kind;

/// A socket of an outboard's that does not wait, and the reactor's view of its placeholder.
#[derive(Debug)]
pub struct Watched {
    /// It goes before the placeholder may close.
    ready: AsyncFd<Placeholder>,
    socket: client::Socket,
}

impl Watched {
    #[expect(
        deprecated,
        reason = "its successor asks for a promise that a placeholder keeps: it is open as long as it lives"
    )]
    fn new(socket: client::Socket) -> io::Result<Watched> {
        socket.set_nonblocking(true)?;
        Ok(Watched { ready: AsyncFd::new(socket.placeholder())?, socket })
    }

    /// Tries until it does not have to wait.
    async fn wait<T>(
        &self,
        interest: Interest,
        mut attempt: impl FnMut(&client::Socket) -> Result<T, Errno>,
    ) -> io::Result<T> {
        loop {
            let mut guard = self.ready.ready(interest).await?;
            if let Some(done) = tried(&mut guard, &self.socket, &mut attempt) {
                return done;
            }
        }
    }

    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        writes: bool,
        mut attempt: impl FnMut(&client::Socket) -> Result<T, Errno>,
    ) -> Poll<io::Result<T>> {
        loop {
            let mut guard = ready!(match writes {
                true => self.ready.poll_write_ready(context),
                false => self.ready.poll_read_ready(context),
            })?;
            if let Some(done) = tried(&mut guard, &self.socket, &mut attempt) {
                return Poll::Ready(done);
            }
        }
    }
}

/// One attempt; `None`: it would have had to wait.
fn tried<T>(
    guard: &mut AsyncFdReadyGuard<'_, Placeholder>,
    socket: &client::Socket,
    attempt: &mut impl FnMut(&client::Socket) -> Result<T, Errno>,
) -> Option<io::Result<T>> {
    match attempt(socket) {
        Err(Errno::AGAIN | Errno::INPROGRESS | Errno::ALREADY) => {
            guard.clear_ready();
            None
        }
        done => Some(done.map_err(io::Error::from)),
    }
}

/// A port that takes connections, for tasks.
#[derive(Debug)]
pub enum AsyncTcpListener {
    /// Of a stack of this process.
    Inline(ip::TcpListener),
    /// Of an outboard's.
    Outboard(Watched),
}

/// A connection, for tasks. Dropping it closes it.
#[derive(Debug)]
pub enum AsyncTcpStream {
    /// Of a stack of this process.
    Inline(ip::AsyncTcpStream),
    /// Of an outboard's.
    Outboard(Watched),
}

/// A socket for messages, for tasks.
#[derive(Debug)]
pub enum AsyncUdpSocket {
    /// Of a stack of this process.
    Inline(ip::UdpSocket),
    /// Of an outboard's.
    Outboard(Watched),
}

impl TcpListener {
    /// The same listener for tasks.
    ///
    /// # Errors
    /// There is no reactor.
    pub fn into_async(self) -> io::Result<AsyncTcpListener> {
        Ok(match self {
            TcpListener::Inline(listener) => AsyncTcpListener::Inline(listener),
            TcpListener::Outboard(socket) => AsyncTcpListener::Outboard(Watched::new(socket)?),
        })
    }
}

impl TcpStream {
    /// The same connection for tasks.
    ///
    /// # Errors
    /// There is no reactor.
    pub fn into_async(self) -> io::Result<AsyncTcpStream> {
        Ok(match self {
            TcpStream::Inline(stream) => AsyncTcpStream::Inline(stream.into_async()),
            TcpStream::Outboard(socket) => AsyncTcpStream::Outboard(Watched::new(socket)?),
        })
    }
}

impl UdpSocket {
    /// The same socket for tasks.
    ///
    /// # Errors
    /// There is no reactor.
    pub fn into_async(self) -> io::Result<AsyncUdpSocket> {
        Ok(match self {
            UdpSocket::Inline(socket) => AsyncUdpSocket::Inline(socket),
            UdpSocket::Outboard(socket) => AsyncUdpSocket::Outboard(Watched::new(socket)?),
        })
    }
}

impl AsyncTcpListener {
    /// The address that it is bound to.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            AsyncTcpListener::Inline(listener) => listener.local_addr(),
            AsyncTcpListener::Outboard(watched) => Ok(watched.socket.local()?),
        }
    }

    /// The next connection. Any number of tasks may wait; dropped before its end, it has taken none.
    ///
    /// # Errors
    /// `NetworkDown`: interface or outboard is gone.
    pub async fn accept(&self) -> io::Result<(AsyncTcpStream, SocketAddr)> {
        match self {
            AsyncTcpListener::Inline(listener) => {
                let (stream, remote) = listener.accept_async().await?;
                Ok((AsyncTcpStream::Inline(stream), remote))
            }
            AsyncTcpListener::Outboard(watched) => {
                let accepted = watched.wait(Interest::READABLE, client::Socket::accept).await?;
                Ok((AsyncTcpStream::Outboard(Watched::new(accepted.0)?), accepted.1))
            }
        }
    }
}

impl AsyncTcpStream {
    /// Connects. Dropped before its end, the connection is given up.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub async fn connect(sockets: &Sockets, remote: SocketAddr) -> io::Result<AsyncTcpStream> {
        let outboard = match sockets {
            Sockets::Inline(inline) => {
                let stream = ip::AsyncTcpStream::connect(inline.host(), remote).await?;
                return Ok(AsyncTcpStream::Inline(stream));
            }
            Sockets::Outboard(outboard) => outboard,
        };
        let socket = made(outboard, Kind::Stream, remote)?;
        socket.set_nonblocking(true)?;
        match socket.connect(Some(remote)) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        // It is watched from now on: before, its placeholder had room.
        let watched = Watched::new(socket)?;
        watched.wait(Interest::WRITABLE, |socket| socket.connect(Some(remote))).await?;
        Ok(AsyncTcpStream::Outboard(watched))
    }

    /// Our address.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            AsyncTcpStream::Inline(stream) => stream.as_ref().local_addr(),
            AsyncTcpStream::Outboard(watched) => Ok(watched.socket.local()?),
        }
    }

    /// The peer's.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            AsyncTcpStream::Inline(stream) => stream.as_ref().peer_addr(),
            AsyncTcpStream::Outboard(watched) => Ok(watched.socket.peer()?),
        }
    }

    /// Reads what is there, once there is something. 0 is the end of the stream. Dropped before its end, it has taken nothing.
    ///
    /// # Errors
    /// As [`TcpStream::recv`]; nothing times out but the connection.
    pub async fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            AsyncTcpStream::Inline(stream) => stream.recv(out).await,
            AsyncTcpStream::Outboard(watched) => {
                let attempt = |socket: &client::Socket| receive(socket, out);
                watched.wait(Interest::READABLE, attempt).await
            }
        }
    }

    /// Writes what there is room for, once there is some; returns how much. Dropped before its end, it has written nothing.
    ///
    /// # Errors
    /// As [`TcpStream::send`]; nothing times out but the connection.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            AsyncTcpStream::Inline(stream) => stream.send(bytes).await,
            AsyncTcpStream::Outboard(_) if bytes.is_empty() => Ok(0),
            AsyncTcpStream::Outboard(watched) => {
                let attempt = |socket: &client::Socket| send(socket, bytes);
                watched.wait(Interest::WRITABLE, attempt).await
            }
        }
    }

    /// Ends our stream; what was written arrives, then its end. Reading goes on.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn finish(&self) -> io::Result<()> {
        match self {
            AsyncTcpStream::Inline(stream) => stream.shutdown(Shutdown::Write),
            AsyncTcpStream::Outboard(watched) => {
                Ok(watched.socket.shutdown(rustix::net::Shutdown::Write)?)
            }
        }
    }
}

fn receive(socket: &client::Socket, out: &mut [u8]) -> Result<usize, Errno> {
    socket.recv(&mut [IoSliceMut::new(out)], RecvFlags::DONTWAIT)
}

fn send(socket: &client::Socket, bytes: &[u8]) -> Result<usize, Errno> {
    socket.send(&[IoSlice::new(bytes)], SendFlags::DONTWAIT)
}

impl AsyncRead for AsyncTcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            AsyncTcpStream::Inline(stream) => Pin::new(stream).poll_read(context, buffer),
            AsyncTcpStream::Outboard(watched) => {
                let out = buffer.initialize_unfilled();
                let len = ready!(watched.poll(context, false, |socket| receive(socket, out)))?;
                buffer.advance(len);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for AsyncTcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            AsyncTcpStream::Inline(stream) => stream.poll_write(context, bytes),
            AsyncTcpStream::Outboard(_) if bytes.is_empty() => Poll::Ready(Ok(0)),
            AsyncTcpStream::Outboard(watched) => {
                watched.poll(context, true, |socket| send(socket, bytes))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish())
    }
}

impl AsyncUdpSocket {
    /// Sends one message.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`].
    pub async fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        match self {
            AsyncUdpSocket::Inline(socket) => socket.send_to_async(bytes, to).await,
            AsyncUdpSocket::Outboard(watched) => {
                let attempt = |socket: &client::Socket| {
                    socket.send_to(&[IoSlice::new(bytes)], Some(to), SendFlags::DONTWAIT)
                };
                watched.wait(Interest::WRITABLE, attempt).await
            }
        }
    }

    /// The next message: how long it is, and whose. Dropped before its end, it has taken nothing.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub async fn recv_from(&self, out: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        match self {
            AsyncUdpSocket::Inline(socket) => {
                let received = socket.recv_from_async(out).await?;
                Ok((received.len, received.from))
            }
            AsyncUdpSocket::Outboard(watched) => {
                let attempt = |socket: &client::Socket| {
                    socket.recv_from(out, RecvFlags::DONTWAIT).and_then(came)
                };
                watched.wait(Interest::READABLE, attempt).await
            }
        }
    }
}
