//! A connection as two halves that are owned apart.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use super::tcp::TcpStream;

/// The half of a connection that reads: by [`Read`] of a [`TcpStream`], by `AsyncRead` of an
/// [`AsyncTcpStream`](super::AsyncTcpStream). The connection itself, its settings and figures, is behind [`AsRef`].
pub struct ReadHalf<S: AsRef<TcpStream>> {
    stream: Arc<S>,
}

/// The half of a connection that writes, as [`ReadHalf`] reads. When it is dropped our stream ends, after what was
/// written.
pub struct WriteHalf<S: AsRef<TcpStream>> {
    stream: Arc<S>,
    /// What its end is.
    finishes: bool,
}

pub(super) fn split<S: AsRef<TcpStream>>(stream: S) -> (ReadHalf<S>, WriteHalf<S>) {
    let stream = Arc::new(stream);
    (ReadHalf { stream: stream.clone() }, WriteHalf { stream, finishes: true })
}

/// Two halves that are not of one connection.
pub struct NotOne<S: AsRef<TcpStream>>(
    /// The half that reads.
    pub ReadHalf<S>,
    /// The half that writes.
    pub WriteHalf<S>,
);

impl<S: AsRef<TcpStream>> fmt::Debug for NotOne<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are not of one connection")
    }
}

impl<S: AsRef<TcpStream>> ReadHalf<S> {
    /// The connection that both are halves of.
    ///
    /// # Errors
    /// They are of two: here they are again.
    pub fn reunite(self, mut other: WriteHalf<S>) -> Result<S, NotOne<S>> {
        if !Arc::ptr_eq(&self.stream, &other.stream) {
            return Err(NotOne(self, other));
        }
        other.finishes = false;
        let stream = self.stream.clone();
        drop((self, other));
        Ok(Arc::into_inner(stream).unwrap_or_else(|| unreachable!("there are two halves")))
    }
}

impl<S: AsRef<TcpStream>> AsRef<S> for ReadHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsRef<TcpStream>> AsRef<S> for WriteHalf<S> {
    fn as_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsRef<TcpStream>> Drop for WriteHalf<S> {
    fn drop(&mut self) {
        if self.finishes {
            let stream: &TcpStream = (*self.stream).as_ref();
            // A connection that is over already has no end to tell.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

impl Read for ReadHalf<TcpStream> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.recv(out)
    }
}

impl Write for WriteHalf<TcpStream> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
