//! What carries messages.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_codec::pipeline::Unmarshal;

use crate::message::Outgoing;

/// Carries whole messages, in both directions.
pub trait Transport {
    /// Sends one message.
    ///
    /// # Errors
    /// It cannot be sent, and on a stream nothing after it.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Whether messages are marshalled in the pass that seals them, and unmarshalled in the one that opens them: then
    /// [`Transport::send_message`] and [`Transport::receive_message`] are called in place of the others.
    fn is_sealed(&self) -> bool {
        false
    }

    /// Sends one message, which is marshalled on its way.
    ///
    /// # Errors
    /// Those of [`Transport::send`]; `Unsupported` where nothing is sealed; `TimedOut`: it found no room by
    /// [`Outgoing::until`], was not sent, and others can be.
    fn send_message(&mut self, _message: &Outgoing<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Receives the next message, which `into` unmarshals on its way; waits as [`Transport::receive`] does.
    ///
    /// # Errors
    /// Those of [`Transport::receive`]; `Unsupported` where nothing is sealed.
    fn receive_message(
        &mut self,
        _into: &mut dyn Unmarshal,
        _patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Receives the next message in place of what `message` holds; waits for it at most `patience`, or for as
    /// long as it takes.
    ///
    /// # Errors
    /// The transport failed, or the peer sent what is no message (`InvalidData`).
    fn receive(&mut self, message: &mut Vec<u8>, patience: Option<Duration>)
    -> io::Result<Arrival>;

    /// Nobody waits any more for the reply to the call that was sent with this transaction: what is kept of it is forgotten.
    /// Whether its reply had come, and is dropped. A transport that keeps nothing has nothing to do.
    fn cancel(&mut self, _xid: u32) -> bool {
        false
    }

    /// Whether what is sent arrives once, in order. Otherwise calls are sent again, and replies kept.
    fn is_reliable(&self) -> bool;

    /// Bytes of the longest message.
    fn message_len_max(&self) -> usize;

    /// Who sent the last message, where that is known.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A message.
    Message,
    /// Nothing in that time.
    Nothing,
    /// The peer sends no more.
    End,
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        (**self).send(message)
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        (**self).receive(message, patience)
    }

    fn is_sealed(&self) -> bool {
        (**self).is_sealed()
    }

    fn send_message(&mut self, message: &Outgoing<'_>) -> io::Result<()> {
        (**self).send_message(message)
    }

    fn receive_message(
        &mut self,
        into: &mut dyn Unmarshal,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        (**self).receive_message(into, patience)
    }

    fn cancel(&mut self, xid: u32) -> bool {
        (**self).cancel(xid)
    }

    fn is_reliable(&self) -> bool {
        (**self).is_reliable()
    }

    fn message_len_max(&self) -> usize {
        (**self).message_len_max()
    }

    fn peer(&self) -> Option<SocketAddr> {
        (**self).peer()
    }
}

/// A byte stream that can be waited for in bounded time.
pub trait Stream: Read + Write {
    /// How long reading and writing wait from now on; `None`: for as long as it takes. A read or write that
    /// waited so long fails with `WouldBlock` or `TimedOut`.
    ///
    /// # Errors
    /// The stream is gone.
    fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()>;

    /// Messages leave at once, and do not wait for what may follow them.
    fn set_immediate(&mut self) {}

    /// The other end.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }
}

impl Stream for std::net::TcpStream {
    fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(read)?;
        self.set_write_timeout(write)
    }

    fn set_immediate(&mut self) {
        // One that does not know the option works without.
        let _ = self.set_nodelay(true);
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }
}

#[cfg(unix)]
impl Stream for std::os::unix::net::UnixStream {
    fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(read)?;
        self.set_write_timeout(write)
    }
}

impl Stream for fusewire_stack::ip::TcpStream {
    fn set_timeouts(&mut self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        fusewire_stack::ip::TcpStream::set_timeouts(self, read, write);
        Ok(())
    }

    fn set_immediate(&mut self) {
        // One that does not know the option works without.
        let _ = self.set_nodelay(true);
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer_addr().ok()
    }
}

/// Any stream, as one that knows no timeouts: calls on it wait for as long as it takes.
#[derive(Debug)]
pub struct Patient<S>(pub S);

impl<S: Read> Read for Patient<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl<S: Write> Write for Patient<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<S: Read + Write> Stream for Patient<S> {
    fn set_timeouts(&mut self, _: Option<Duration>, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}

/// Whether an error says that the time is over.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
