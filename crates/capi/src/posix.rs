//! What a socket does, wherever its protocol runs: inline ([`crate::socket`]) or in an outboard ([`crate::outboard`]). C sees no
//! other difference than the one word that chose.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use fusewire_stack::ip::Ancillary;

use crate::address::Family;
use crate::errno::Result;
use crate::socket::{Flags, Incoming, Kind, Outgoing, Socket};
use crate::table::Entry;

/// Calls of POSIX on a socket.
pub trait Posix {
    /// It carries bytes, not messages.
    fn is_stream(&self) -> bool;
    fn family(&self) -> Family;
    /// What a descriptor of it is.
    fn entry(self: Arc<Self>) -> Entry;
    /// One more descriptor is this one.
    fn duplicate(&self);
    /// A descriptor is closed, and the socket with the last.
    fn close(&self);

    fn bind(&self, addr: &[u8]) -> Result<()>;
    fn local(&self) -> Result<SocketAddr>;
    fn peer(&self) -> Result<SocketAddr>;
    fn listen(&self, backlog: i32) -> Result<()>;
    fn accept(&self, nonblocking: bool) -> Result<(Entry, SocketAddr)>;
    fn connect(&self, addr: &[u8]) -> Result<()>;
    fn shutdown(&self, how: i32) -> Result<()>;

    fn set_nonblocking(&self, nonblocking: bool) -> Result<()>;
    fn is_nonblocking(&self) -> Result<bool>;
    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()>;
    fn option(&self, level: i32, name: i32) -> Result<Vec<u8>>;

    /// Sends all of it, or what there is room for if the socket does not block.
    fn send_stream(&self, bytes: &[u8], flags: Flags) -> Result<usize>;
    /// Receives what is there, waiting for the first byte; 0 at the end of the stream.
    fn recv_stream(&self, out: &mut [u8], flags: Flags) -> Result<usize>;
    /// Discards up to `len` bytes of a stream, as [`Posix::recv_stream`] receives them; with [`Flags::peek`] it only says how
    /// many there are.
    fn discard(&self, len: usize, flags: Flags) -> Result<usize>;
    /// Sends up to `count` bytes of a file, from `offset` or from where it is read; returns how many.
    fn send_file(&self, file: BorrowedFd<'_>, offset: Option<u64>, count: usize) -> Result<usize>;
    /// Sends messages in order; returns how many.
    fn send_messages(&self, messages: &[Outgoing<'_>], flags: Flags) -> Result<usize>;
    /// Receives messages, not longer than `most`; returns how many.
    fn recv_messages(
        &self,
        messages: &mut [Incoming<'_>],
        flags: Flags,
        most: Option<Duration>,
    ) -> Result<usize>;
    /// Bytes that a call to receive would give now (`FIONREAD`).
    fn unread(&self) -> Result<usize>;
    /// Bytes that were written and that the peer does not have yet (`SIOCOUTQ`).
    fn unsent(&self) -> Result<usize>;
}

impl Posix for Socket {
    fn is_stream(&self) -> bool {
        self.kind == Kind::Stream
    }
    fn family(&self) -> Family {
        self.family
    }
    fn entry(self: Arc<Self>) -> Entry {
        Entry::Socket(self)
    }
    fn duplicate(&self) {
        self.duplicate();
    }
    fn close(&self) {
        self.close();
    }

    fn bind(&self, addr: &[u8]) -> Result<()> {
        self.bind(addr)
    }
    fn local(&self) -> Result<SocketAddr> {
        self.local()
    }
    fn peer(&self) -> Result<SocketAddr> {
        self.peer()
    }
    fn listen(&self, backlog: i32) -> Result<()> {
        self.listen(backlog)
    }
    fn accept(&self, nonblocking: bool) -> Result<(Entry, SocketAddr)> {
        let (socket, remote) = self.accept(nonblocking)?;
        Ok((Entry::Socket(Arc::new(socket)), remote))
    }
    fn connect(&self, addr: &[u8]) -> Result<()> {
        self.connect(addr)
    }
    fn shutdown(&self, how: i32) -> Result<()> {
        self.shutdown(how)
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        self.set_nonblocking(nonblocking);
        Ok(())
    }
    fn is_nonblocking(&self) -> Result<bool> {
        Ok(self.is_nonblocking())
    }
    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        self.set_option(level, name, value)
    }
    fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        self.option(level, name)
    }

    fn send_stream(&self, bytes: &[u8], flags: Flags) -> Result<usize> {
        self.send_stream(bytes, flags)
    }
    fn recv_stream(&self, out: &mut [u8], flags: Flags) -> Result<usize> {
        self.recv_stream(out, flags)
    }
    fn discard(&self, len: usize, flags: Flags) -> Result<usize> {
        self.discard(len, flags)
    }
    fn send_file(&self, file: BorrowedFd<'_>, offset: Option<u64>, count: usize) -> Result<usize> {
        self.send_file(file, offset, count)
    }
    fn send_messages(&self, messages: &[Outgoing<'_>], flags: Flags) -> Result<usize> {
        self.send_messages(messages, flags)
    }
    fn recv_messages(
        &self,
        messages: &mut [Incoming<'_>],
        flags: Flags,
        most: Option<Duration>,
    ) -> Result<usize> {
        self.recv_messages(messages, flags, most)
    }
    fn unread(&self) -> Result<usize> {
        self.unread()
    }
    fn unsent(&self) -> Result<usize> {
        self.unsent()
    }
}

/// Sends up to `count` bytes of a file as one message, from `offset` or from where the file is read; returns how many.
pub fn send_file_as_message(
    socket: &dyn Posix,
    file: BorrowedFd<'_>,
    offset: Option<u64>,
    count: usize,
) -> Result<usize> {
    let begin = offset.map_or_else(|| rustix::fs::tell(file), Ok)?;
    let mut bytes = vec![0; count.min(1 << 16)];
    let mut len = 0;
    while len < bytes.len() {
        match rustix::io::pread(file, &mut bytes[len..], begin + len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    if len == 0 {
        return Ok(0);
    }
    bytes.truncate(len);
    let message = Outgoing { to: None, beside: Ancillary::default(), bytes: bytes.into() };
    socket.send_messages(&[message], Flags::default())?;
    if offset.is_none() {
        rustix::fs::seek(file, rustix::fs::SeekFrom::Start(begin + len as u64))?;
    }
    Ok(len)
}
