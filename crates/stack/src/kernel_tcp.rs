//! The same records over a kernel TCP socket, for where UDP is blocked: at the kernel's speed.
//!
//! Blocking, or after the handshake without; one thread a connection. Handshake and records are those
//! of `docs/records.md`, the stream is the kernel's. Records are sealed into one buffer that leaves with one system call, and opened
//! where they lie in the buffer that they were read into.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fusewire_session::{
    ClientConfig, Error as SessionError, Established, Fingerprint, Handshake, Marshal, Options,
    RecordReceiver, RecordSender, RecordType, ServerConfig,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use crate::application::{Adu, Application, Keep};
use crate::{ConnectionId, Error, Result};

/// Sealed records that leave together, in bytes.
const SEND_BYTES: usize = 256 << 10;
/// What is read at once, in bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// What is read at once within the handshake, in bytes: the peer is nobody yet.
const HANDSHAKE_BYTES: usize = 16 << 10;
/// There is only one connection here.
const ID: ConnectionId = ConnectionId { index: 0, generation: 0 };

/// An encrypted connection over kernel TCP.
pub struct Connection {
    stream: TcpStream,
    remote: SocketAddr,
    sender: RecordSender,
    receiver: RecordReceiver,
    peer: Fingerprint,
    trusted: bool,
    options: Options,
    out: Vec<u8>,
    filled: usize,
    /// Of these, bytes that the kernel has taken.
    sent: usize,
    input: Vec<u8>,
    /// Unread input is `input[from..to]`.
    from: usize,
    to: usize,
    /// Stream offset of `input[from]`.
    offset: u64,
    finished: bool,
}

impl Connection {
    /// The client's side of a session over a connected stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn connect(stream: TcpStream, config: &ClientConfig) -> Result<Connection> {
        Connection::open(stream, Handshake::client(config)?, None)
    }

    /// The server's side of a session over an accepted stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn accept(stream: TcpStream, config: &ServerConfig) -> Result<Connection> {
        Connection::open(stream, Handshake::server(config)?, None)
    }

    /// As [`Connection::accept`], with `time` for the whole handshake, however it is spread over it. The stream
    /// is blocking; its own timeouts are none afterwards.
    ///
    /// # Errors
    /// As there; [`Error::Os`] of the kind [`ErrorKind::TimedOut`].
    pub fn accept_within(
        stream: TcpStream,
        config: &ServerConfig,
        time: Duration,
    ) -> Result<Connection> {
        let until = Instant::now() + time;
        let connection = Connection::open(stream, Handshake::server(config)?, Some(until))?;
        set_timeouts(&connection.stream, None).map_err(Error::os("setting a timeout"))?;
        Ok(connection)
    }

    fn open(
        stream: TcpStream,
        mut handshake: Handshake,
        until: Option<Instant>,
    ) -> Result<Connection> {
        stream.set_nodelay(true).map_err(Error::os("setting TCP_NODELAY"))?;
        let mut out = Vec::new();
        let mut input = vec![0; HANDSHAKE_BYTES];
        let (mut from, mut to) = (0, 0);
        let mut stream = Timed { stream, until };
        let established: Established = loop {
            handshake.write(&mut out);
            stream.write_all(&out).map_err(Error::os("sending the handshake"))?;
            out.clear();
            if let Some(established) = handshake.poll() {
                break established;
            }
            if from == to {
                (from, to) =
                    (0, stream.read(&mut input).map_err(Error::os("receiving the handshake"))?);
                if to == 0 {
                    let peer = stream.stream.peer_addr();
                    return Err(Error::Reset(peer.map_err(Error::os("asking for the peer"))?));
                }
            }
            match handshake.read(&input[from..to]) {
                Ok(taken) => from += taken,
                Err(error) => {
                    // The peer shall learn why, if it still listens.
                    handshake.write(&mut out);
                    let _ = stream.write_all(&out);
                    return Err(error.into());
                }
            }
        };
        // The kernel forgets it with the connection, and it is wanted then.
        let remote = stream.stream.peer_addr().map_err(Error::os("asking for the peer"))?;
        let Established { peer, trusted, options, sender, receiver, .. } = established;
        let longest = receiver.overhead() + receiver.body_len_max() + 16;
        if input.len() < longest + RECEIVE_BYTES {
            input.resize(longest + RECEIVE_BYTES, 0);
        }
        out.resize(SEND_BYTES.max(sender.record_len(sender.body_len_max())), 0);
        let offset = receiver.start_offset();
        Ok(Connection {
            stream: stream.stream,
            remote,
            sender,
            receiver,
            peer,
            trusted,
            options,
            out,
            filled: 0,
            sent: 0,
            input,
            from,
            to,
            offset,
            finished: false,
        })
    }

    /// The peer's key, and whether the configuration has judged it. Judge it before anything is sent.
    pub fn peer(&self) -> (Fingerprint, bool) {
        (self.peer, self.trusted)
    }

    /// What was agreed on.
    pub fn options(&self) -> Options {
        self.options
    }

    /// From now on the kernel ends the connection when the peer's host is silent, or takes nothing of what was
    /// sent, for the time that both sides agreed on ([`Options::idle_timeout`]); an idle one is asked at a third
    /// of it (RFC 9293 section 3.8.4, RFC 5482).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn give_up_silent(&self) -> Result<()> {
        let Some(time) = self.options.idle_timeout else { return Ok(()) };
        let seconds = |n: u32| (time / n).max(Duration::from_secs(1));
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let set = || {
            sockopt::set_tcp_keepidle(&self.stream, seconds(3))?;
            sockopt::set_tcp_keepintvl(&self.stream, seconds(9))?;
            sockopt::set_tcp_keepcnt(&self.stream, 6)?;
            sockopt::set_tcp_user_timeout(&self.stream, ms)?;
            sockopt::set_socket_keepalive(&self.stream, true)
        };
        set().map_err(|error: rustix::io::Errno| Error::os("asking for keep-alive")(error.into()))
    }

    /// What the kernel's word means where the peer is to blame.
    fn broken(&self, action: &'static str, error: std::io::Error) -> Error {
        let peer = self.remote;
        match (error.kind(), self.options.idle_timeout) {
            (ErrorKind::TimedOut, Some(after)) => Error::Silent { peer, after },
            (ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _) => Error::Reset(peer),
            _ => Error::os(action)(error),
        }
    }

    /// The stream, for timeouts and shutting down.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Seals one ADU; it leaves when a buffer is full or with [`Connection::flush`].
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Os`], [`Error::Session`].
    pub fn send(&mut self, adu: &[u8]) -> Result<()> {
        let max = self.sender.body_len_max();
        if adu.len() > max {
            return Err(Error::TooLong { len: adu.len(), max });
        }
        self.seal(RecordType::Adu, adu)
    }

    /// As [`Connection::send`], of an ADU that is marshalled in the one pass that seals it:
    /// `codec::pipeline::Message` makes one of a value.
    ///
    /// # Errors
    /// As there.
    pub fn send_message<M: Marshal + ?Sized>(&mut self, adu: &M) -> Result<()> {
        let (len, max) = (adu.marshalled_len(), self.sender.body_len_max());
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        let (sender, room) = self.place(len)?;
        sender.seal_message(sender.next_offset(), adu, room)?;
        self.filled += self.sender.record_len(len);
        Ok(())
    }

    fn seal(&mut self, kind: RecordType, body: &[u8]) -> Result<()> {
        let (sender, room) = self.place(body.len())?;
        sender.seal(sender.next_offset(), kind, body, room)?;
        self.filled += self.sender.record_len(body.len());
        Ok(())
    }

    /// Room for the record of a body of `body_len` bytes, behind those that were not sent yet.
    fn place(&mut self, body_len: usize) -> Result<(&mut RecordSender, &mut [u8])> {
        let len = self.sender.record_len(body_len);
        if self.filled + len > self.out.len() {
            self.flush()?;
        }
        Ok((&mut self.sender, &mut self.out[self.filled..self.filled + len]))
    }

    /// Sends what was sealed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn flush(&mut self) -> Result<()> {
        let (sent, filled) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.filled));
        let written = self.stream.write_all(&self.out[sent..filled]);
        written.map_err(|error| self.broken("sending", error))
    }

    /// Receives at least one ADU, and all that came with it, into the application's memory. False
    /// after the peer's last. ADUs that the application does not place are lost.
    ///
    /// # Errors
    /// [`Error::Session`] for anything that is not the peer's record, truncation included; [`Error::Os`].
    pub fn recv_with(&mut self, app: &mut dyn Application) -> Result<bool> {
        let mut any = false;
        loop {
            while self.open_next(app)? {
                any = true;
            }
            if any || self.finished {
                return Ok(any);
            }
            self.fill()?;
        }
    }

    /// The next ADU; `None` after the peer's last.
    ///
    /// # Errors
    /// As [`Connection::recv_with`].
    pub fn recv_adu(&mut self) -> Result<Option<Vec<u8>>> {
        let mut one = One::default();
        loop {
            if self.open_next(&mut one)? {
                return Ok(Some(one.0));
            }
            if self.finished {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Opens the record at the front of the input if it is whole. True if it was an ADU.
    fn open_next(&mut self, app: &mut dyn Application) -> Result<bool> {
        loop {
            let input = &self.input[self.from..self.to];
            if self.finished || input.len() < fusewire_session::record::HEADER_LEN {
                return Ok(false);
            }
            let header = self.receiver.header(input)?;
            let len = self.receiver.record_len(&header);
            let Some(record) = input.get(..len) else { return Ok(false) };
            let is_adu = header.kind == RecordType::Adu;
            let adu = Adu { index: header.index, len: header.body_len as usize, is_next: true };
            let mut unwanted = Vec::new();
            let placed =
                if is_adu { app.place(ID, adu).filter(|m| m.len() >= adu.len) } else { None };
            let is_placed = placed.is_some();
            let dst = placed.unwrap_or_else(|| {
                unwanted.resize(adu.len, 0);
                &mut unwanted
            });
            if let Err(error) = self.receiver.open(self.offset, record, dst) {
                if is_placed {
                    app.dropped(ID, adu);
                }
                return Err(error.error.into());
            }
            self.from += len;
            self.offset += len as u64;
            if is_adu {
                if is_placed {
                    app.delivered(ID, adu);
                }
                return Ok(true);
            }
            self.finished |= header.kind == RecordType::EndOfStream;
        }
    }

    fn fill(&mut self) -> Result<()> {
        // What was sealed may be what the peer waits for.
        self.flush()?;
        self.input.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let read = self.stream.read(&mut self.input[self.to..]);
        let len = read.map_err(|error| self.broken("receiving", error))?;
        if len == 0 {
            return Err(SessionError::Truncated { at: self.offset + self.to as u64 }.into());
        }
        self.to += len;
        Ok(())
    }

    // ---- without blocking ----------------------------------------------------------------------

    /// From now on [`Connection::try_send`], [`Connection::try_flush`] and [`Connection::recv_into`] return
    /// instead of blocking, and nothing else may be used but [`Connection::wait`].
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn set_nonblocking(&mut self) -> Result<()> {
        self.stream.set_nonblocking(true).map_err(Error::os("making the socket non-blocking"))
    }

    /// Bytes of records that may be sealed now.
    pub fn room(&self) -> usize {
        self.out.len() - self.filled
    }

    /// The longest ADU that the peer takes.
    pub fn adu_len(&self) -> usize {
        self.sender.body_len_max()
    }

    /// Seals one ADU if there is room; false if there is none until the kernel takes more.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn try_send(&mut self, adu: &[u8]) -> Result<bool> {
        let max = self.sender.body_len_max();
        if adu.len() > max {
            return Err(Error::TooLong { len: adu.len(), max });
        }
        self.try_seal(RecordType::Adu, adu)
    }

    fn try_seal(&mut self, kind: RecordType, body: &[u8]) -> Result<bool> {
        let len = self.sender.record_len(body.len());
        if self.filled + len > self.out.len() && !self.try_flush()? {
            return Ok(false);
        }
        self.seal(kind, body)?;
        Ok(true)
    }

    /// Gives the kernel what it takes; true when that was all.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn try_flush(&mut self) -> Result<bool> {
        while self.sent < self.filled {
            match self.stream.write(&self.out[self.sent..self.filled]) {
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken("sending", error)),
            }
        }
        (self.sent, self.filled) = (0, 0);
        Ok(true)
    }

    /// The next ADU, straight into `memory`; `None` when nothing is there or the peer has finished.
    ///
    /// # Errors
    /// As [`Connection::recv_with`]; [`Error::NoRoom`] when `memory` is too short (the ADU is lost).
    pub fn recv_into(&mut self, memory: &mut [u8]) -> Result<Option<usize>> {
        let room = memory.len();
        let mut into = Into { memory, len: 0 };
        loop {
            if self.open_next(&mut into)? {
                let len = into.len;
                return if len <= room { Ok(Some(len)) } else { Err(Error::NoRoom { len, room }) };
            }
            if self.finished || !self.try_fill()? {
                return Ok(None);
            }
        }
    }

    /// True after the peer's authenticated end.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    fn try_fill(&mut self) -> Result<bool> {
        self.input.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        match self.stream.read(&mut self.input[self.to..]) {
            Ok(0) => Err(SessionError::Truncated { at: self.offset + self.to as u64 }.into()),
            Ok(len) => {
                self.to += len;
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(false)
            }
            Err(error) => Err(self.broken("receiving", error)),
        }
    }

    /// Ends our side in order as soon as there is room; true when all of it is with the kernel.
    ///
    /// # Errors
    /// [`Error::Os`], [`Error::Session`].
    pub fn try_finish(&mut self) -> Result<bool> {
        if !self.sender.ended() && !self.try_seal(RecordType::EndOfStream, &[])? {
            return Ok(false);
        }
        if !self.try_flush()? {
            return Ok(false);
        }
        // The kernel says so when the peer is gone already; it has everything then.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        Ok(true)
    }

    /// Sleeps until there is something to receive, or room for what was sealed, or until `timeout`.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.sent < self.filled);
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        match poll(&mut [PollFd::new(&self.stream, flags)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(Error::os("waiting for the socket")(error.into())),
        }
    }

    /// Ends our side in order and waits for the peer's end.
    ///
    /// # Errors
    /// As [`Connection::recv_with`].
    pub fn finish(mut self) -> Result<()> {
        self.finish_sending()?;
        while self.recv_with(&mut Keep)? {}
        Ok(())
    }

    /// Ends our side in order; the peer may go on.
    ///
    /// # Errors
    /// [`Error::Os`], [`Error::Session`].
    pub fn finish_sending(&mut self) -> Result<()> {
        if !self.sender.ended() {
            self.seal(RecordType::EndOfStream, &[])?;
            self.flush()?;
        }
        self.stream.shutdown(std::net::Shutdown::Write).map_err(Error::os("ending the stream"))
    }
}

/// A blocking stream that has until a time for all that is read and written.
struct Timed {
    stream: TcpStream,
    until: Option<Instant>,
}

impl Timed {
    fn set_out(&self) -> std::io::Result<()> {
        let Some(until) = self.until else { return Ok(()) };
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(too_late()),
            left => set_timeouts(&self.stream, Some(left)),
        }
    }

    /// What the kernel says when its own timeout has run out is that the call would block.
    fn told(&self, error: std::io::Error) -> std::io::Error {
        match error.kind() {
            ErrorKind::WouldBlock if self.until.is_some() => too_late(),
            _ => error,
        }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.set_out()?;
        self.stream.read(into).map_err(|error| self.told(error))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.set_out()?;
        self.stream.write(bytes).map_err(|error| self.told(error))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn too_late() -> std::io::Error {
    std::io::Error::new(ErrorKind::TimedOut, "it was not through in time")
}

fn set_timeouts(stream: &TcpStream, timeout: Option<Duration>) -> std::io::Result<()> {
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)
}

/// The caller's memory for one ADU.
struct Into<'a> {
    memory: &'a mut [u8],
    len: usize,
}

impl Application for Into<'_> {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        self.len = adu.len;
        self.memory.get_mut(..adu.len)
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
}

/// Memory for one ADU.
#[derive(Default)]
struct One(Vec<u8>);

impl Application for One {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        self.0.resize(adu.len, 0);
        Some(&mut self.0)
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
}
