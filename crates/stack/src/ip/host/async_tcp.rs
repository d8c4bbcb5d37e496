//! The TCP handle for tasks.

use std::future::poll_fn;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};

use bytes::Bytes;
use fusewire_kernels::message::{Marshal, Unmarshal};
use fusewire_kernels::stage::AnyStage;

use super::halves::{ReadHalf, WriteHalf, split};
use super::tcp::{Connect, TcpStream};
use super::{Host, Inner, Interest};
use crate::ip::messages::Framing;

/// A connection, for tasks: with the feature `tokio` it is `AsyncRead` and `AsyncWrite`, and nothing of it blocks. Settings
/// and figures are those of the handle inside ([`AsRef`]); its calls that wait do block. Dropping it closes it.
///
/// `Send` and `Sync`: one task may read while another writes; [`AsyncTcpStream::into_split`] makes two halves that are owned
/// apart.
#[derive(Debug)]
pub struct AsyncTcpStream {
    stream: TcpStream,
}

impl AsyncTcpStream {
    pub(super) fn new(stream: TcpStream) -> AsyncTcpStream {
        AsyncTcpStream { stream }
    }

    /// Connects. Dropped before its end, the connection is given up.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub async fn connect(host: &Host, remote: SocketAddr) -> io::Result<AsyncTcpStream> {
        AsyncTcpStream::connect_with(host, remote, &Connect::default()).await
    }

    /// The same with a choice of address and settings. How long to wait is the runtime's to say: the timeout of `how`
    /// counts for nothing.
    ///
    /// # Errors
    /// As [`TcpStream::connect`].
    pub async fn connect_with(
        host: &Host,
        remote: SocketAddr,
        how: &Connect,
    ) -> io::Result<AsyncTcpStream> {
        let stream = TcpStream::begin(host, remote, how)?;
        stream.wait(Interest::Write, |inner| stream.connected(inner)).await?;
        Ok(stream.into_async())
    }

    /// The same connection for threads that wait.
    pub fn into_blocking(self) -> TcpStream {
        self.stream
    }

    /// Two halves, for two tasks. When the writing half is dropped, our stream ends; when both are, the connection is
    /// closed.
    pub fn into_split(self) -> (ReadHalf<AsyncTcpStream>, WriteHalf<AsyncTcpStream>) {
        split(self)
    }

    /// Reads when there is something; 0 is the end of the stream. One task at a time may poll so: the last one is woken.
    pub fn poll_read(&self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_read(inner, out, false);
        stream.poll(context, Interest::Read, attempt)
    }

    /// Writes when there is room. One task at a time may poll so: the last one is woken.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_write(inner, bytes);
        stream.poll(context, Interest::Write, attempt)
    }

    /// As [`AsyncTcpStream::send_shared`] when there is room: takes as many bytes as there is room for from the front of
    /// `bytes`, and returns how many.
    pub fn poll_write_shared(
        &self,
        context: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_write_shared(inner, bytes);
        stream.poll(context, Interest::Write, attempt)
    }

    /// Reads what is there, once there is something. 0 is the end of the stream. Dropped before its end, it has taken
    /// nothing.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`]; nothing times out but the connection.
    pub async fn recv(&self, out: &mut [u8]) -> io::Result<usize> {
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_read(inner, out, false);
        stream.wait(Interest::Read, attempt).await
    }

    /// Writes what there is room for, once there is some; returns how much. Dropped before its end, it has written
    /// nothing.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`]; nothing times out but the connection.
    pub async fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_write(inner, bytes);
        stream.wait(Interest::Write, attempt).await
    }

    /// As [`TcpStream::send_shared`]. When it is dropped before its end, a part may have been taken.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`]; nothing times out but the connection.
    pub async fn send_shared(&self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            poll_fn(|context| self.poll_write_shared(context, &mut bytes)).await?;
        }
        Ok(())
    }

    /// As [`TcpStream::send_with`]. When it is dropped before its end, a part may have been taken.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv`]; nothing times out but the connection.
    pub async fn send_with<S: AnyStage>(&self, pipeline: &S, message: &[u8]) -> io::Result<()> {
        let (stream, mut left) = (&self.stream, message);
        while !left.is_empty() {
            let attempt = |inner: &mut _| stream.attempt_write_with(inner, pipeline, left);
            left = &left[stream.wait(Interest::Write, attempt).await?..];
        }
        Ok(())
    }

    /// As [`TcpStream::recv_with`], of what the host has received: that is a pass of its own. Dropped before its end, it has
    /// taken nothing.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv_with`]; nothing times out but the connection.
    pub async fn recv_with<S: AnyStage>(
        &self,
        pipeline: &S,
        memory: &mut [u8],
    ) -> io::Result<usize> {
        let stream = &self.stream;
        let attempt =
            |inner: &mut Inner| Ok(inner.stack.tcp_read_with(stream.id(), pipeline, memory)?);
        stream.wait(Interest::Read, attempt).await
    }

    /// As [`TcpStream::send_message`]. Dropped before its end, it has written nothing.
    ///
    /// # Errors
    /// The errors of [`TcpStream::send_message`]; nothing times out but the connection.
    pub async fn send_message<M: Marshal + ?Sized>(
        &self,
        framing: Framing,
        message: &M,
    ) -> io::Result<()> {
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_send_message(inner, framing, message);
        stream.wait(Interest::Write, attempt).await
    }

    /// As [`TcpStream::recv_message`], of what the host has received: that is a pass of its own. Dropped before its end, it
    /// has taken nothing.
    ///
    /// # Errors
    /// The errors of [`TcpStream::recv_message`]; nothing times out but the connection.
    pub async fn recv_message(
        &self,
        framing: Framing,
        into: &mut (dyn Unmarshal + Send),
    ) -> io::Result<Option<usize>> {
        let stream = &self.stream;
        let attempt = |inner: &mut _| stream.attempt_recv_message(inner, framing, into, false);
        stream.wait(Interest::Read, attempt).await
    }

    /// Ends our stream; what was written arrives, then its end. Reading goes on unless `how` says otherwise.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }
}

impl AsRef<TcpStream> for AsyncTcpStream {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}
