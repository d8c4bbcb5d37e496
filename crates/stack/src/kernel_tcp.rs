//! The same records over a kernel TCP socket, for where UDP is blocked: at the kernel's speed.
//!
//! One thread a connection. Handshake and records are those
//! of `docs/records.md`, the stream is the kernel's. Records are sealed into one buffer that leaves with one system call, and opened
//! where they lie in the buffer that they were read into.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{
    ClientConfig, Error as SessionError, Established, Handshake, RecordSender, ServerConfig, Side,
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use crate::application::{Application, Destination};
use crate::in_order::{InOrder, Records, Sealed};
use crate::inbox::Opened;
use crate::link::Link;
use crate::{Error, Result};

/// Sealed records that leave together, in bytes.
const SEND_BYTES: usize = 256 << 10;
/// What is read at once, in bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// What is read at once within the handshake, in bytes: the peer is nobody yet.
const HANDSHAKE_BYTES: usize = 16 << 10;

/// An encrypted connection over kernel TCP: a [`Link`]. What is sent leaves when a buffer is full or with
/// [`Link::try_flush`].
pub struct Connection {
    stream: TcpStream,
    records: Records,
    trusted: bool,
    out: Vec<u8>,
    filled: usize,
    /// Of these, bytes that the kernel has taken.
    sent: usize,
    input: Vec<u8>,
    /// Ends a sleep.
    waker: Option<Waker>,
    /// Unread input is `input[from..to]`.
    from: usize,
    to: usize,
}

impl Connection {
    /// The client's side of a session over a connected stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn connect(stream: TcpStream, config: &ClientConfig) -> Result<Connection> {
        Connection::open(stream, Handshake::client(config)?, None)
    }

    /// As [`Connection::connect`], and sends these ADUs first: within the handshake, as far as there is room
    /// ([`EARLY_LEN_MAX`](fusewire_session::EARLY_LEN_MAX)), the server's key is pinned and it takes them so.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`]; [`Error::TooLong`].
    pub fn connect_sending(
        stream: TcpStream,
        config: &ClientConfig,
        adus: &[&[u8]],
    ) -> Result<Connection> {
        let mut handshake = Handshake::client(config)?;
        let sent = adus.iter().take_while(|adu| handshake.send_early(adu)).count();
        let mut connection = Connection::open(stream, handshake, None)?;
        if !connection.trusted {
            return Err(Error::Untrusted(connection.session().peer));
        }
        adus[sent..].iter().try_for_each(|adu| connection.send(adu))?;
        connection.flush()?;
        Ok(connection)
    }

    /// The server's side of a session over an accepted stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn accept(stream: TcpStream, config: &ServerConfig) -> Result<Connection> {
        Connection::open(stream, Handshake::server(config)?, None)
    }

    /// As [`Connection::connect`], with `time` for the whole handshake, however it is spread over it. The stream
    /// is blocking; its own timeouts are none afterwards.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`]; [`Error::Os`] of the kind [`ErrorKind::TimedOut`].
    pub fn connect_within(
        stream: TcpStream,
        config: &ClientConfig,
        time: Duration,
    ) -> Result<Connection> {
        Connection::open_within(stream, Handshake::client(config)?, time)
    }

    /// As [`Connection::accept`], with `time`, as [`Connection::connect_within`] has it.
    ///
    /// # Errors
    /// The errors of [`Connection::accept`]; [`Error::Os`] of the kind [`ErrorKind::TimedOut`].
    pub fn accept_within(
        stream: TcpStream,
        config: &ServerConfig,
        time: Duration,
    ) -> Result<Connection> {
        Connection::open_within(stream, Handshake::server(config)?, time)
    }

    fn open_within(stream: TcpStream, handshake: Handshake, time: Duration) -> Result<Connection> {
        let connection = Connection::open(stream, handshake, Some(Instant::now() + time))?;
        set_timeouts(&connection.stream, None).map_err(Error::os("setting a timeout"))?;
        Ok(connection)
    }

    fn open(
        stream: TcpStream,
        mut handshake: Handshake,
        until: Option<Instant>,
    ) -> Result<Connection> {
        let side = handshake.side();
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
        let Established { peer, trusted, options, sender, receiver, early, .. } = established;
        let longest = receiver.record_len_max();
        if input.len() < longest + RECEIVE_BYTES {
            input.resize(longest + RECEIVE_BYTES, 0);
        }
        out.resize(SEND_BYTES.max(sender.record_len(sender.body_len_max())), 0);
        let mut records = Records::new(remote, peer, options, sender, receiver);
        let stream = stream.stream;
        let left = if side == Side::Client {
            early
        } else {
            records.early = (0..).zip(early).collect();
            Vec::new()
        };
        let mut connection = Connection {
            stream,
            records,
            trusted,
            out,
            filled: 0,
            sent: 0,
            waker: None,
            input,
            from,
            to,
        };
        left.iter().try_for_each(|adu| connection.send(adu))?;
        Ok(connection)
    }

    /// Whether the configuration has judged the peer's key. If not, judge it before anything is sent.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// From now on the kernel ends the connection when the peer's host is silent, or takes nothing of what was
    /// sent, for the time that both sides agreed on
    /// ([`Options::idle_timeout`](fusewire_session::Options::idle_timeout)); an idle one is asked at a third of it (RFC 9293 section 3.8.4, RFC 5482).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn give_up_silent(&self) -> Result<()> {
        let Some(time) = self.records.options.idle_timeout else { return Ok(()) };
        let seconds = |n: u32| (time / n).max(Duration::from_secs(1));
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let set = || {
            sockopt::set_tcp_keepidle(&self.stream, seconds(3))?;
            sockopt::set_tcp_keepintvl(&self.stream, seconds(9))?;
            sockopt::set_tcp_keepcnt(&self.stream, 6)?;
            sockopt::set_tcp_user_timeout(&self.stream, ms)?;
            sockopt::set_socket_keepalive(&self.stream, true)
        };
        set().map_err(|error: Errno| Error::os("asking for keep-alive")(error.into()))
    }

    /// What the kernel's word means where the peer is to blame.
    fn broken(&self, action: &'static str, error: std::io::Error) -> Error {
        let peer = self.records.remote;
        match (error.kind(), self.records.options.idle_timeout) {
            (ErrorKind::TimedOut, Some(after)) => Error::Silent { peer, after },
            (ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _) => Error::Reset(peer),
            _ => Error::os(action)(error),
        }
    }

    /// The stream, for its options and for shutting it down; waits end by `Link::recv_timeout`, not by its timeouts.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Ends [`Link::wait`], the one under way or the next, from another thread.
    ///
    /// # Errors
    /// [`Error::Os`] when no descriptor is left.
    pub fn waker(&mut self) -> Result<Waker> {
        if self.waker.is_none() {
            self.waker = Some(Waker::new().map_err(Error::os("making a waker"))?);
        }
        self.waker.clone().ok_or(Error::Closed)
    }

    /// Reads what the kernel has, or waits for it, as `flags` say. False: there is nothing now.
    fn read(&mut self, flags: RecvFlags) -> Result<bool> {
        self.input.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        match recv(&self.stream, &mut self.input[self.to..], flags) {
            Ok((0, _)) => {
                let at = self.records.offset + self.to as u64;
                Err(SessionError::Truncated { at }.into())
            }
            Ok((len, _)) => {
                self.to += len;
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(self.broken("receiving", error.into())),
        }
    }

    /// There is a whole record at the front of the input, whose header may be none, or what comes before all records.
    fn has_record(&self) -> bool {
        let input = &self.input[self.from..self.to];
        !self.records.early.is_empty()
            || input.len() >= HEADER_LEN
                && self
                    .records
                    .receiver
                    .header(self.records.offset, input)
                    .map_or(true, |header| self.records.receiver.record_len(&header) <= input.len())
    }
}

impl InOrder for Connection {
    const NAME: &'static str = "kernel-tcp";

    fn records(&self) -> &Records {
        &self.records
    }

    fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    fn longest(&self) -> usize {
        self.records.sender.body_len_max()
    }

    fn room(&self) -> usize {
        self.out.len() - self.filled
    }

    fn seal(
        &mut self,
        body_len: usize,
        waits: bool,
        seal: impl FnOnce(&mut RecordSender, u64, &mut [u8]) -> Sealed,
    ) -> Result<bool> {
        let len = self.records.sender.record_len(body_len);
        if self.filled + len > self.out.len() && !self.give(waits)? {
            return Ok(false);
        }
        let (sender, room) = (&mut self.records.sender, self.filled..self.filled + len);
        seal(sender, sender.next_offset(), &mut self.out[room])?;
        self.filled += len;
        Ok(true)
    }

    fn give(&mut self, waits: bool) -> Result<bool> {
        let flags = if waits { SendFlags::empty() } else { SendFlags::DONTWAIT };
        while self.sent < self.filled {
            let left = &self.out[self.sent..self.filled];
            match send(&self.stream, left, flags | SendFlags::NOSIGNAL) {
                Ok(taken) => self.sent += taken,
                Err(Errno::AGAIN) if !waits => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.broken("sending", error.into())),
            }
        }
        (self.sent, self.filled) = (0, 0);
        Ok(true)
    }

    fn open_next(&mut self, app: &mut dyn Application) -> Result<Option<Opened>> {
        if let Some(opened) = self.records.take_early(app) {
            return Ok(Some(opened));
        }
        let input = &self.input[self.from..self.to];
        if self.records.peer_has_ended() || input.len() < HEADER_LEN {
            return Ok(None);
        }
        let header = self.records.receiver.header(self.records.offset, input)?;
        let len = self.records.receiver.record_len(&header);
        let Some(record) = input.get(..len) else { return Ok(None) };
        let opened = self.records.open(&header, len, app, |receiver, offset, to| {
            let opened = match to {
                Destination::Bytes(dst) => receiver.open(offset, record, dst),
                Destination::Message(into) => receiver.open_message(offset, record, into, |_| true),
            };
            opened.map(|_| ()).map_err(SessionError::from)
        })?;
        self.from += len;
        Ok(Some(opened))
    }

    fn fetch(&mut self) -> Result<bool> {
        self.read(RecvFlags::DONTWAIT)
    }

    fn end(&mut self) {
        // The kernel says so when the peer is gone already; it has everything then.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<()> {
        let (gives, takes) = (self.sent < self.filled, !self.records.peer_has_ended());
        if self.has_record() {
            return Ok(());
        }
        if timeout.is_none() && takes && !gives && self.waker.is_none() {
            return self.read(RecvFlags::empty()).map(|_| ());
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, takes);
        flags.set(PollFlags::OUT, gives);
        let waker = self.waker.as_ref();
        let of_waker = waker.map_or(self.stream.as_fd(), |waker| waker.as_fd());
        let mut fds =
            [PollFd::new(&self.stream, flags), PollFd::from_borrowed_fd(of_waker, PollFlags::IN)];
        let count = if waker.is_some() { 2 } else { 1 };
        fusewire_device::sleep(&mut fds[..count], timeout)
            .map_err(Error::os("waiting for the socket"))?;
        if let Some(waker) = waker.filter(|_| !fds[1].revents().is_empty()) {
            waker.drain();
        }
        Ok(())
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
