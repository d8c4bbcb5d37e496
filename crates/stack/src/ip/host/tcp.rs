//! TCP handles.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fusewire_kernels::message::{Marshal, Unmarshal};
use fusewire_kernels::stage::AnyStage;
use fusewire_transport::machine::{Info, KeepAlive};
use fusewire_transport::tcp::{Config as TcpConfig, State};

use super::async_tcp::AsyncTcpStream;
use super::halves::{ReadHalf, WriteHalf, split};
use super::inner::{Attempt, Inner};
use super::socket::{Socket, Timeouts};
use super::{Host, Interest};
use crate::ip::config::{Error, SocketId};
use crate::ip::messages::Framing;
use crate::ip::options::SendFlags;
use crate::ip::stack::Stack;
use crate::trace::Entry;

/// A port that takes connections.
#[derive(Debug)]
pub struct TcpListener(pub(super) Socket);

/// A connection, for threads that wait: it reads and writes by [`Read`] and [`Write`], and through a reference too, so
/// that one thread may read while another writes. [`TcpStream::into_split`] makes two halves of it that are owned apart,
/// [`TcpStream::into_async`] one for tasks. Dropping it closes it.
#[derive(Debug)]
pub struct TcpStream(pub(super) Socket);

/// What [`TcpListener::accept`] gives.
pub type Accept = (TcpStream, SocketAddr);
/// What [`TcpListener::accept_async`] gives.
pub type AcceptAsync = (AsyncTcpStream, SocketAddr);

/// How [`TcpStream::connect_with`] connects.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// Address and port to come from.
    pub local: Option<SocketAddr>,
    /// Settings of its own.
    pub config: Option<TcpConfig>,
    /// How long to wait.
    pub timeout: Option<Duration>,
}

impl TcpListener {
    /// Takes connections to `local`.
    ///
    /// # Errors
    /// As [`Stack::tcp_listen`].
    pub fn bind(host: &Host, local: SocketAddr, backlog: usize) -> io::Result<TcpListener> {
        let id = host.with(|stack: &mut Stack, _| stack.tcp_listen(local, backlog))??;
        Ok(TcpListener(Socket::new(host, id)))
    }

    fn attempt(&self, inner: &mut Inner) -> Attempt<(SocketId, SocketAddr)> {
        Ok(inner.stack.tcp_accept(self.id())?)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn accept(&self) -> io::Result<Accept> {
        self.accept_timeout(None)
    }

    /// The same, not longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut`; the interface is gone.
    pub fn accept_timeout(&self, timeout: Option<Duration>) -> io::Result<Accept> {
        let (id, remote) = self.block(Interest::Read, timeout, |inner| self.attempt(inner))?;
        Ok((TcpStream::of(self.host(), id), remote))
    }

    /// The next connection, when there is one. One task at a time may poll so: the last one is woken.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<AcceptAsync>> {
        let polled = self.poll(context, Interest::Read, |inner| self.attempt(inner));
        polled.map_ok(|(id, remote)| (TcpStream::of(self.host(), id).into_async(), remote))
    }

    /// The next connection. Any number of tasks may wait; dropped before its end, it has taken none.
    ///
    /// # Errors
    /// The interface is gone.
    pub async fn accept_async(&self) -> io::Result<AcceptAsync> {
        let (id, remote) = self.wait(Interest::Read, |inner| self.attempt(inner)).await?;
        Ok((TcpStream::of(self.host(), id).into_async(), remote))
    }
}

impl TcpStream {
    fn of(host: &Host, id: SocketId) -> TcpStream {
        TcpStream(Socket::new(host, id))
    }

    /// Connects, and waits until that is done.
    ///
    /// # Errors
    /// As [`Stack::tcp_connect`], and what the peer says.
    pub fn connect(host: &Host, remote: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_with(host, remote, &Connect::default())
    }

    pub(super) fn begin(host: &Host, remote: SocketAddr, how: &Connect) -> io::Result<TcpStream> {
        let id = host.with(|stack, now| {
            let config = how.config.clone().unwrap_or_else(|| stack.config().tcp.clone());
            stack.tcp_connect_with(now, remote, how.local, &config)
        })??;
        Ok(TcpStream::of(host, id))
    }

    /// The same with a choice of address, settings and patience.
    ///
    /// # Errors
    /// As [`TcpStream::connect`], and `TimedOut`.
    pub fn connect_with(host: &Host, remote: SocketAddr, how: &Connect) -> io::Result<TcpStream> {
        let stream = TcpStream::begin(host, remote, how)?;
        stream.block(Interest::Write, how.timeout, |inner| stream.connected(inner))?;
        Ok(stream)
    }

    /// The same connection for tasks.
    pub fn into_async(self) -> AsyncTcpStream {
        AsyncTcpStream::new(self)
    }

    /// Two halves, for two threads. When the writing half is dropped, our stream ends; when both are, the connection is
    /// closed.
    pub fn into_split(self) -> (ReadHalf<TcpStream>, WriteHalf<TcpStream>) {
        split(self)
    }

    pub(super) fn connected(&self, inner: &mut Inner) -> Attempt<()> {
        match inner.stack.tcp_state(self.id())? {
            State::SynSent | State::SynReceived => Ok(None),
            State::Closed => {
                let error = inner.stack.take_error(self.id())?;
                Err(error.unwrap_or(Error::NotConnected).into())
            }
            _ => Ok(Some(())),
        }
    }

    /// How long `read` and `write` wait; `None`: for as long as it takes.
    pub fn set_timeouts(&self, read: Option<Duration>, write: Option<Duration>) {
        self.0.set_timeouts(Timeouts { read, write });
    }

    /// The peer's address.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.look(|stack, id| stack.tcp_tuple(id))?.remote)
    }

    /// Estimates and counters, in the manner of `TCP_INFO`.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn info(&self) -> io::Result<Info> {
        self.look(|stack, id| stack.tcp_info(id))
    }

    /// What the connection did last, oldest first.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn trace(&self) -> io::Result<Vec<Entry>> {
        self.look(|stack, id| stack.tcp_trace(id))
    }

    /// Turns Nagle's algorithm off, or on again.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.with(|stack, _, id| stack.tcp_machine(id).map(|tcp| tcp.set_nagle(!nodelay)))
    }

    /// Probes on an idle connection (RFC 9293, section 3.8.4), or none.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_keep_alive(&self, keep_alive: Option<KeepAlive>) -> io::Result<()> {
        self.with(|stack, now, id| {
            stack.tcp_machine(id).map(|tcp| tcp.set_keep_alive(now, keep_alive))
        })
    }

    /// How long what was sent may stay unacknowledged (RFC 5482).
    ///
    /// # Errors
    /// The socket is gone.
    pub fn set_user_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.with(|stack, _, id| stack.tcp_machine(id).map(|tcp| tcp.set_user_timeout(timeout)))
    }

    pub(super) fn attempt_read(
        &self,
        inner: &mut Inner,
        out: &mut [u8],
        receives: bool,
    ) -> Attempt<usize> {
        if receives {
            return Ok(inner.stack.tcp_read_into(inner.now(), self.id(), out)??);
        }
        Ok(inner.stack.tcp_read(self.id(), out)?)
    }

    /// Reads what is there, waiting for something to be there. 0 is the end of the stream.
    ///
    /// # Errors
    /// What ended the connection: `ConnectionReset`, `ConnectionAborted`, `TimedOut`, `HostUnreachable`, or `NetworkDown`
    /// when the interface is gone; `TimedOut` also when nothing came within the stream's timeout, and the connection is
    /// still there.
    pub fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        // When we wait, bytes go straight from the interface to `out`.
        self.receive(|inner, receives| self.attempt_read(inner, out, receives))
    }

    /// Writes what there is room for, waiting for room.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`].
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.block(Interest::Write, self.timeouts().write, |inner| self.attempt_write(inner, bytes))
    }

    /// Writes all of `bytes` without a copy: frames are gathered from where they are, and the connection refers to
    /// them until the peer has acknowledged them or the connection is over. Waits for room in the send buffer, not for
    /// acknowledgements; what belongs to nobody else any more ([`Bytes::is_unique`]) may be written anew. See
    /// [`Stack::tcp_write_shared`] for what is copied all the same, and for what an owner must not do.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`]. A part may have been taken then.
    pub fn send_shared(&self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let (timeout, mut bytes) = (self.timeouts().write, bytes.into());
        while !bytes.is_empty() {
            let attempt = |inner: &mut _| self.attempt_write_shared(inner, &mut bytes);
            self.block(Interest::Write, timeout, attempt)?;
        }
        Ok(())
    }

    pub(super) fn attempt_write_shared(
        &self,
        inner: &mut Inner,
        bytes: &mut Bytes,
    ) -> Attempt<usize> {
        let written = inner.stack.tcp_write_shared(self.id(), bytes)?;
        bytes.advance(written);
        Ok((written > 0).then_some(written))
    }

    pub(super) fn attempt_write(&self, inner: &mut Inner, bytes: &[u8]) -> Attempt<usize> {
        let written = inner.stack.tcp_write(self.id(), bytes)?;
        Ok((written > 0).then_some(written))
    }

    pub(super) fn attempt_write_with<S: AnyStage>(
        &self,
        inner: &mut Inner,
        pipeline: &S,
        message: &[u8],
    ) -> Attempt<usize> {
        let written = inner.stack.tcp_write_with(self.id(), pipeline, message)?;
        Ok((written > 0).then_some(written))
    }

    /// Writes a whole message through `pipeline`, which runs once over it on its way into the retransmission memory, in the
    /// loop that sums it where the interface does not: a byte swap, a cipher.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`].
    pub fn send_with<S: AnyStage>(&self, pipeline: &S, message: &[u8]) -> io::Result<()> {
        let timeout = self.timeouts().write;
        let mut left = message;
        while !left.is_empty() {
            let attempt = |inner: &mut Inner| self.attempt_write_with(inner, pipeline, left);
            left = &left[self.block(Interest::Write, timeout, attempt)?..];
        }
        Ok(())
    }

    /// Reads what `pipeline` makes of the stream, waiting for something to be there: it runs in the loop that verifies and
    /// stores the bytes; see [`Stack::tcp_recv_with`]. Returns how many, whole blocks of the pipeline; 0 is the end of the
    /// stream.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`], and those of [`Stack::tcp_recv_with`].
    pub fn recv_with<S: AnyStage>(&self, pipeline: &S, memory: &mut [u8]) -> io::Result<usize> {
        self.receive(|inner, receives| match receives {
            true => Ok(inner.stack.tcp_recv_with(inner.now(), self.id(), pipeline, memory)??),
            false => Ok(inner.stack.tcp_read_with(self.id(), pipeline, memory)?),
        })
    }

    pub(super) fn attempt_send_message<M: Marshal + ?Sized>(
        &self,
        inner: &mut Inner,
        framing: Framing,
        message: &M,
    ) -> Attempt<()> {
        let flags = SendFlags::default();
        Ok(inner.stack.tcp_send_message(self.id(), framing, message, flags)?.then_some(()))
    }

    /// Writes a whole message, which is marshalled in the loop that stores it in the retransmission memory; see
    /// [`Stack::tcp_send_message`]. Waits until there is room for all of it.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`], and those of [`Stack::tcp_send_message`].
    pub fn send_message<M: Marshal + ?Sized>(
        &self,
        framing: Framing,
        message: &M,
    ) -> io::Result<()> {
        let attempt = |inner: &mut Inner| self.attempt_send_message(inner, framing, message);
        self.block(Interest::Write, self.timeouts().write, attempt)
    }

    pub(super) fn attempt_recv_message(
        &self,
        inner: &mut Inner,
        framing: Framing,
        into: &mut dyn Unmarshal,
        receives: bool,
    ) -> Attempt<Option<usize>> {
        let (now, stack) = (inner.now(), &mut inner.stack);
        let polled = match receives {
            true => stack.tcp_recv_message(now, self.id(), framing, into)??,
            false => stack.tcp_read_message(self.id(), framing, into)?,
        };
        Ok(match polled {
            Poll::Ready(got) => Some(got),
            Poll::Pending => None,
        })
    }

    /// The next message and its length in bytes; `None` at the end of the stream. It is unmarshalled in the loop that verifies
    /// it where one segment brings all of it; see [`Stack::tcp_recv_message`]. `codec::pipeline::Placed` says whether it was a
    /// value of the type.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`], and those of [`Stack::tcp_read_message`].
    pub fn recv_message(
        &self,
        framing: Framing,
        into: &mut dyn Unmarshal,
    ) -> io::Result<Option<usize>> {
        self.receive(|inner, receives| self.attempt_recv_message(inner, framing, into, receives))
    }

    /// Ends our stream; what was written arrives, then its end. Reading goes on unless `how` says otherwise.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Read {
            self.with(|stack, _, id| stack.tcp_finish(id))?;
        }
        Ok(())
    }

    /// Ends the connection at once: the peer is reset.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn abort(&self) -> io::Result<()> {
        self.with(|stack, now, id| stack.abort(now, id))
    }
}

impl AsRef<TcpStream> for TcpStream {
    fn as_ref(&self) -> &TcpStream {
        self
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
