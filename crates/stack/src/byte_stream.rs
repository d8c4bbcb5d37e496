//! The same records over a stream of bytes whose protocol is somebody else's: the kernel's TCP
//! ([`kernel_tcp`](crate::kernel_tcp)), an outboard's.
//!
//! One thread a connection. Handshake and records are those of `docs/records.md`. Records are sealed into one buffer that leaves
//! with one call, or, of streams that lend it, long ones into the memory that they leave from ([`ByteStream::send_in_place`]); and
//! opened where they lie in the buffer that they were read into.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{
    ClientConfig, Error as SessionError, Established, Handshake, RecordSender, ServerConfig, Side,
};
use rustix::event::{PollFd, PollFlags};

use crate::application::{Application, Destination};
use crate::in_order::{InOrder, Records, Sealed};
use crate::inbox::Opened;
use crate::link::Link;
use crate::{Error, Result};

/// Sealed records that leave together, in bytes.
const SEND_BYTES: usize = 256 << 10;
/// A record from this length on is sealed where it leaves from, if the stream lends that memory: shorter ones leave together.
const IN_PLACE_BYTES: usize = 16 << 10;
/// What is read at once, in bytes.
const RECEIVE_BYTES: usize = 256 << 10;
/// What is read at once within the handshake, in bytes: the peer is nobody yet.
const HANDSHAKE_BYTES: usize = 16 << 10;

/// A stream of bytes that somebody else's protocol carries, in order and whole.
pub trait ByteStream: Send + Sized {
    /// [`Link::carrier`].
    const NAME: &'static str;

    /// Our address.
    ///
    /// # Errors
    /// The stream is gone, as with all of these.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The peer's.
    ///
    /// # Errors
    /// As [`ByteStream::local_addr`].
    fn peer_addr(&self) -> io::Result<SocketAddr>;

    /// The same stream once more: to end it from outside.
    ///
    /// # Errors
    /// No descriptor is left.
    fn try_clone(&self) -> io::Result<Self>;

    /// What is sent leaves at once, however short it is.
    ///
    /// # Errors
    /// As [`ByteStream::local_addr`].
    fn set_nodelay(&self) -> io::Result<()>;

    /// How long calls wait that wait; `None`: for as long as it takes.
    ///
    /// # Errors
    /// As [`ByteStream::local_addr`].
    fn set_timeouts(&self, timeout: Option<Duration>) -> io::Result<()>;

    /// From now on the connection ends when the peer's host is silent, or takes nothing of what was sent, for so long.
    ///
    /// # Errors
    /// As [`ByteStream::local_addr`].
    fn give_up_silent(&self, after: Duration) -> io::Result<()>;

    /// Sends a front of `bytes`, and says how long it is.
    ///
    /// # Errors
    /// `WouldBlock`: there is no room now, or was not for as long as the call may wait. `ConnectionReset`, `BrokenPipe`: the peer
    /// ended it; `TimedOut`: it was silent.
    fn send(&self, bytes: &[u8], waits: bool) -> io::Result<usize>;

    /// Sends `back.len()` bytes that `fill` writes where they leave from, if the stream lends that memory for them now; those that
    /// it then does not take after all are in `back`. Others may write there meanwhile: `fill` reads nothing of it, and what they
    /// write is sent. It sends nothing, and gives false, where it cannot fill it.
    fn send_in_place(&self, back: &mut [u8], fill: &mut dyn FnMut(&mut [u8]) -> bool) -> InPlace {
        let _ = (back, fill);
        InPlace::Never
    }

    /// What was sent in place leaves at once: until then it may wait for more.
    fn push(&self) {}

    /// Receives what is there; 0 is the end.
    ///
    /// # Errors
    /// As [`ByteStream::send`].
    fn recv(&self, out: &mut [u8], waits: bool) -> io::Result<usize>;

    /// Ends a direction, or both.
    ///
    /// # Errors
    /// It has ended.
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;

    /// From now on the stream, once it is dropped, ends at once: what was sent and has not left is lost, and the peer hears of a reset.
    ///
    /// # Errors
    /// As [`ByteStream::local_addr`].
    fn reset_when_dropped(&self) -> io::Result<()>;

    /// What shows `poll` that there is something to receive, or room, after a call has not found it.
    fn descriptor(&self) -> impl AsFd + '_;
}

/// What has become of bytes that were to be written where they leave from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Nothing: the stream lends no memory.
    Never,
    /// Nothing: it lends some, but has none for so many bytes now.
    NoRoom,
    /// They are sent.
    Sent,
    /// They are sent by way of the buffer, as they do not lie there in one piece.
    Copied,
    /// They were written, and are not sent: here they are.
    Back,
    /// They could not be written; nothing is sent.
    NotWritten,
}

/// Where such streams come in.
pub trait ByteListener {
    /// What comes.
    type Stream: ByteStream + 'static;

    /// Waits for the next stream, at most so long, and says who it is. `None`: there was none, or one that was gone already.
    ///
    /// # Errors
    /// There will be none any more.
    fn accept_within(&self, time: Duration) -> io::Result<Option<(Self::Stream, SocketAddr)>>;
}

/// An encrypted connection over such a stream: a [`Link`]. What is sent leaves when a buffer is full or with
/// [`Link::try_flush`].
pub struct Connection<S> {
    stream: S,
    records: Records,
    trusted: bool,
    out: Vec<u8>,
    filled: usize,
    /// Of these, bytes that the carrier has taken.
    sent: usize,
    /// The stream lends the memory that long records leave from.
    lends: bool,
    /// Some that it has may wait there.
    unpushed: bool,
    input: Vec<u8>,
    /// Ends a sleep.
    waker: Option<Waker>,
    /// Unread input is `input[from..to]`.
    from: usize,
    to: usize,
}

impl<S: ByteStream> Connection<S> {
    /// The client's side of a session over a connected stream.
    ///
    /// # Errors
    /// [`Error::Session`], [`Error::Os`].
    pub fn connect(stream: S, config: &ClientConfig) -> Result<Connection<S>> {
        Connection::open(stream, Handshake::client(config)?, None)
    }

    /// As [`Connection::connect`], and sends these ADUs first: within the handshake, as far as there is room
    /// ([`EARLY_LEN_MAX`](fusewire_session::EARLY_LEN_MAX)), the server's key is pinned and it takes them so.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`]; [`Error::TooLong`].
    pub fn connect_sending(
        stream: S,
        config: &ClientConfig,
        adus: &[&[u8]],
    ) -> Result<Connection<S>> {
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
    pub fn accept(stream: S, config: &ServerConfig) -> Result<Connection<S>> {
        Connection::open(stream, Handshake::server(config)?, None)
    }

    /// As [`Connection::connect`], with `time` for the whole handshake, however it is spread over it. The stream
    /// is blocking; its own timeouts are none afterwards.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`]; [`Error::Os`] of the kind [`ErrorKind::TimedOut`].
    pub fn connect_within(
        stream: S,
        config: &ClientConfig,
        time: Duration,
    ) -> Result<Connection<S>> {
        Connection::open_within(stream, Handshake::client(config)?, time)
    }

    /// As [`Connection::accept`], with `time`, as [`Connection::connect_within`] has it.
    ///
    /// # Errors
    /// The errors of [`Connection::accept`]; [`Error::Os`] of the kind [`ErrorKind::TimedOut`].
    pub fn accept_within(
        stream: S,
        config: &ServerConfig,
        time: Duration,
    ) -> Result<Connection<S>> {
        Connection::open_within(stream, Handshake::server(config)?, time)
    }

    fn open_within(stream: S, handshake: Handshake, time: Duration) -> Result<Connection<S>> {
        let connection = Connection::open(stream, handshake, Some(Instant::now() + time))?;
        connection.stream.set_timeouts(None).map_err(Error::os("setting a timeout"))?;
        Ok(connection)
    }

    fn open(stream: S, mut handshake: Handshake, until: Option<Instant>) -> Result<Connection<S>> {
        let side = handshake.side();
        stream.set_nodelay().map_err(Error::os("setting TCP_NODELAY"))?;
        let mut out = Vec::new();
        let mut input = vec![0; HANDSHAKE_BYTES];
        let (mut from, mut to) = (0, 0);
        let stream = Timed { stream, until };
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
            lends: true,
            unpushed: false,
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

    /// From now on the connection ends when the peer's host is silent, or takes nothing of what was
    /// sent, for the time that both sides agreed on
    /// ([`Options::idle_timeout`](fusewire_session::Options::idle_timeout)); an idle one is asked at a third of it (RFC 9293 section 3.8.4, RFC 5482).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn give_up_silent(&self) -> Result<()> {
        let Some(time) = self.records.options.idle_timeout else { return Ok(()) };
        self.stream.give_up_silent(time).map_err(Error::os("asking for keep-alive"))
    }

    /// What the carrier's word means where the peer is to blame.
    fn broken(&self, action: &'static str, error: io::Error) -> Error {
        let peer = self.records.remote;
        match (error.kind(), self.records.options.idle_timeout) {
            (ErrorKind::TimedOut, Some(after)) => Error::Silent { peer, after },
            (ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _) => Error::Reset(peer),
            _ => Error::os(action)(error),
        }
    }

    /// Gives the connection up at once: the peer hears of a reset.
    pub fn abort(self) {
        // One that is gone already needs no reset.
        let _ = self.stream.reset_when_dropped();
    }

    /// The stream, for its options and for shutting it down; waits end by `Link::recv_timeout`, not by its timeouts.
    pub fn stream(&self) -> &S {
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

    /// Seals a record of `len` bytes where it leaves from, when nothing is to leave before it. `None`: not there.
    fn seal_in_place(
        &mut self,
        len: usize,
        seal: &mut Option<impl FnOnce(&mut RecordSender, u64, &mut [u8]) -> Sealed>,
    ) -> Option<Result<()>> {
        debug_assert_eq!(self.filled, 0, "it would leave before what was sealed earlier");
        let sender = &mut self.records.sender;
        let mut sealed = None;
        let done = self.stream.send_in_place(&mut self.out[..len], &mut |room| {
            sealed = seal.take().map(|seal| seal(sender, sender.next_offset(), room));
            matches!(sealed, Some(Ok(_)))
        });
        match (done, sealed) {
            (_, Some(Err(error))) => return Some(Err(error.into())),
            (InPlace::Back, Some(Ok(_))) => self.filled = len,
            (_, Some(Ok(_))) => self.unpushed = true,
            (done, None) => {
                self.lends = done != InPlace::Never;
                return None;
            }
        }
        Some(Ok(()))
    }

    /// Reads what there is, and waits for it if it may. False: there is nothing now.
    fn read(&mut self, waits: bool) -> Result<bool> {
        self.input.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        match self.stream.recv(&mut self.input[self.to..], waits) {
            Ok(0) => {
                let at = self.records.offset + self.to as u64;
                Err(SessionError::Truncated { at }.into())
            }
            Ok(len) => {
                self.to += len;
                Ok(true)
            }
            Err(error) if is_for_now(&error) => Ok(false),
            Err(error) => Err(self.broken("receiving", error)),
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

/// Another call may do better.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl<S: ByteStream> InOrder for Connection<S> {
    const NAME: &'static str = S::NAME;

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
        // What is sealed elsewhere than in one pass is read again on its way: that is no memory that others can write to.
        let is_next = self.filled == 0 && len >= IN_PLACE_BYTES;
        let in_place = is_next && self.lends && self.records.sender.stores_once();
        if self.filled + len > self.out.len() && !self.give(waits)? {
            return Ok(false);
        }
        let mut seal = Some(seal);
        if in_place && let Some(done) = self.seal_in_place(len, &mut seal) {
            return done.map(|()| true);
        }
        let (sender, room) = (&mut self.records.sender, self.filled..self.filled + len);
        let Some(seal) = seal else { return Ok(true) };
        seal(sender, sender.next_offset(), &mut self.out[room])?;
        self.filled += len;
        Ok(true)
    }

    fn give(&mut self, waits: bool) -> Result<bool> {
        if std::mem::take(&mut self.unpushed) {
            self.stream.push();
        }
        while self.sent < self.filled {
            match self.stream.send(&self.out[self.sent..self.filled], waits) {
                Ok(taken) => self.sent += taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock && !waits => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken("sending", error)),
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
        self.read(false)
    }

    fn end(&mut self) {
        // The carrier says so when the peer is gone already; it has everything then.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<()> {
        let (gives, takes) = (self.sent < self.filled, !self.records.peer_has_ended());
        if self.has_record() {
            return Ok(());
        }
        if timeout.is_none() && takes && !gives && self.waker.is_none() {
            return self.read(true).map(|_| ());
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, takes);
        flags.set(PollFlags::OUT, gives);
        let (stream, waker) = (self.stream.descriptor(), self.waker.as_ref());
        let of_waker = waker.map_or(stream.as_fd(), |waker| waker.as_fd());
        let mut fds =
            [PollFd::new(&stream, flags), PollFd::from_borrowed_fd(of_waker, PollFlags::IN)];
        let count = if waker.is_some() { 2 } else { 1 };
        fusewire_device::sleep(&mut fds[..count], timeout)
            .map_err(Error::os("waiting for the socket"))?;
        if let Some(waker) = waker.filter(|_| !fds[1].revents().is_empty()) {
            waker.drain();
        }
        Ok(())
    }
}

/// A stream that has until a time for all that is read and written.
struct Timed<S> {
    stream: S,
    until: Option<Instant>,
}

impl<S: ByteStream> Timed<S> {
    fn set_out(&self) -> io::Result<()> {
        let Some(until) = self.until else { return Ok(()) };
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(too_late()),
            left => self.stream.set_timeouts(Some(left)),
        }
    }

    /// Calls until no signal comes between.
    fn again(&self, mut call: impl FnMut(&S) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            self.set_out()?;
            match call(&self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Its own timeout has run out.
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.until.is_some() => {
                    return Err(too_late());
                }
                done => return done,
            }
        }
    }

    fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        self.again(|stream| stream.recv(out, true))
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.again(|stream| stream.send(bytes, true))?..];
        }
        Ok(())
    }
}

fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it was not through in time")
}
