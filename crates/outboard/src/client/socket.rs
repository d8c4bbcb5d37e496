//! A socket of an outboard's as a library holds it that may allocate and lock: its placeholder, the right to command it, its
//! lease, and how far it is. Calls mean what POSIX says and go on after signals; whether one waits is the placeholder's to
//! say, or the call's own flags.
//!
//! After `fork` the child has the sockets of its parent: whoever of the two uses one first shows the outboard its placeholder
//! again, which ends a lease of the other's.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fusewire_device::Unforked;
use fusewire_stack::byte_stream::InPlace;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_timeout};
use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};

use super::shown::{again, shown};
use super::{
    Came, Client, Datagram, Leaving, Result, Rings, Way, accept, next_len, peek_all, recv_message,
    send_message,
};
use crate::placeholder;
use crate::protocol::{About, HEADING_LEN, Handle, Heading, Kind, OptionName, SocketType};

/// A way to an outboard, with the leases of this process.
#[derive(Debug)]
pub struct Outboard {
    client: Client,
    rings: Rings,
    /// In which process this is, counted from the one that made it; 0 in one that was just forked.
    process: Unforked,
    processes: AtomicU64,
}

/// How far a socket is, as far as this process has seen.
mod stage {
    /// A stream with a peer; datagrams with an address to send to.
    pub const CONNECTED: u32 = 1;
    /// A stream that was told to connect.
    pub const CONNECTING: u32 = 1 << 1;
    /// It listens.
    pub const LISTENING: u32 = 1 << 2;
    /// Its connection failed; it may be told to connect again.
    pub const DEAD: u32 = 1 << 3;
    /// No call to connect has said yet that it is connected.
    pub const UNTOLD: u32 = 1 << 4;
    /// Receiving datagrams was shut down.
    pub const SHUT_READ: u32 = 1 << 5;
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    outboard: Arc<Outboard>,
    of: SocketType,
    end: Mutex<Arc<End>>,
    stage: AtomicU32,
    /// What one that takes its place is told.
    told: Mutex<Told>,
    /// [`Socket::sent_in_place`]
    in_place: AtomicU64,
}

/// What its owner has said of a socket.
#[derive(Debug, Default)]
struct Told {
    bound: Option<SocketAddr>,
    options: Vec<(OptionName, Vec<u8>)>,
}

/// Our end of a socket.
#[derive(Debug)]
struct End {
    outboard: Arc<Outboard>,
    p: OwnedFd,
    handle: Handle,
    way: Way,
    /// The process that the outboard was shown it by last.
    process: AtomicU64,
}

impl Drop for End {
    fn drop(&mut self) {
        self.outboard.rings.close(self.p.as_fd(), &self.way);
    }
}

/// The placeholder of a [`Socket`], open as long as this lives.
#[derive(Debug)]
pub struct Placeholder(Arc<End>);

impl AsFd for Placeholder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.p.as_fd()
    }
}

impl AsRawFd for Placeholder {
    fn as_raw_fd(&self) -> RawFd {
        self.0.p.as_raw_fd()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outboard {
    /// The outboard whose socket lies at `path`.
    ///
    /// # Errors
    /// `ENETDOWN`: nobody is there; `EACCES`: not for this user; `EPROTO`: it speaks another version.
    pub fn at(path: &Path) -> io::Result<Arc<Outboard>> {
        let (client, rings) = (Client::new(path)?, Rings::new()?);
        client.welcome()?;
        let (process, processes) = (Unforked::new(0, 1)?, AtomicU64::new(0));
        Ok(Arc::new(Outboard { client, rings, process, processes }))
    }

    /// What has no call here.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A new socket.
    ///
    /// # Errors
    /// As [`Client::socket`].
    pub fn socket(self: &Arc<Self>, of: SocketType) -> Result<Socket> {
        let (p, handle) = self.client.socket(of)?;
        Ok(self.made(p, handle, of, 0))
    }

    /// The socket that a placeholder stands for which this process has from elsewhere: by `SCM_RIGHTS`, or from before
    /// `exec`.
    ///
    /// # Errors
    /// As [`Client::attach`].
    pub fn adopt(self: &Arc<Self>, p: OwnedFd) -> Result<Socket> {
        let (handle, of) = self.client.attach(p.as_fd())?;
        let is_listening = || {
            let name = OptionName { level: libc::SOL_SOCKET, name: libc::SO_ACCEPTCONN };
            let mut value = [0; 4];
            self.client.option(handle, name, &mut value).is_ok() && value != [0; 4]
        };
        let stage = match self.client.peer(handle) {
            _ if of.kind == Kind::Stream && placeholder::is_stuffed(&p) => stage::CONNECTING,
            // One that has ended was connected.
            Ok(_) | Err(Errno::BADF) => stage::CONNECTED,
            Err(_) if of.kind != Kind::Datagram && is_listening() => stage::LISTENING,
            Err(_) => 0,
        };
        Ok(self.made(p, handle, of, stage))
    }

    fn made(self: &Arc<Self>, p: OwnedFd, handle: Handle, of: SocketType, stage: u32) -> Socket {
        let (end, stage) = (Mutex::new(self.end(p, handle)), AtomicU32::new(stage));
        let (told, in_place) = (Mutex::default(), AtomicU64::new(0));
        Socket { outboard: self.clone(), of, end, stage, told, in_place }
    }

    fn end(self: &Arc<Self>, p: OwnedFd, handle: Handle) -> Arc<End> {
        let process = AtomicU64::new(self.process());
        Arc::new(End { outboard: self.clone(), p, handle, way: Way::default(), process })
    }

    fn process(&self) -> u64 {
        let word = &self.process.words()[0];
        match word.load(Ordering::Acquire) {
            0 => {
                let next = self.processes.fetch_add(1, Ordering::AcqRel) + 1;
                let first = word.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
                first.map_or_else(|known| known, |_| next)
            }
            known => known,
        }
    }
}

impl Socket {
    /// Family and kind.
    pub fn of(&self) -> SocketType {
        self.of
    }

    /// Its placeholder, for what waits: `poll`, `epoll`.
    pub fn placeholder(&self) -> Placeholder {
        Placeholder(lock(&self.end).clone())
    }

    /// It has neither been told to connect nor to listen.
    pub fn is_fresh(&self) -> bool {
        !self.is(stage::CONNECTED | stage::CONNECTING | stage::LISTENING | stage::DEAD)
    }

    /// It listens.
    pub fn is_listening(&self) -> bool {
        self.is(stage::LISTENING)
    }

    fn is(&self, bits: u32) -> bool {
        self.stage.load(Ordering::Acquire) & bits != 0
    }

    fn change(&self, set: u32, clear: u32) {
        let next = |stage: u32| Some((stage | set) & !clear);
        let _ = self.stage.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Our end, which the outboard knows to be this process's too.
    fn end(&self) -> Result<Arc<End>> {
        let end = lock(&self.end).clone();
        let process = self.outboard.process();
        if end.process.load(Ordering::Acquire) != process {
            match self.outboard.client.attach(end.p.as_fd()) {
                // One that ended is the placeholder's to tell.
                Ok(_) | Err(Errno::NOTSOCK) => end.process.store(process, Ordering::Release),
                Err(error) => return Err(error),
            }
        }
        Ok(end)
    }

    fn client(&self) -> &Client {
        &self.outboard.client
    }

    // ---- names

    /// Binds it.
    ///
    /// # Errors
    /// As [`Client::bind`].
    pub fn bind(&self, local: SocketAddr) -> Result<()> {
        self.client().bind(self.end()?.handle, local)?;
        lock(&self.told).bound = Some(local);
        Ok(())
    }

    /// Its own address.
    ///
    /// # Errors
    /// As [`Client::local`].
    pub fn local(&self) -> Result<SocketAddr> {
        self.client().local(self.end()?.handle)
    }

    /// The other end's.
    ///
    /// # Errors
    /// `ENOTCONN`, also before the connection is there.
    pub fn peer(&self) -> Result<SocketAddr> {
        let end = self.end()?;
        if self.is(stage::CONNECTING) && !matches!(self.settle(&end), Ok(true)) {
            return Err(Errno::NOTCONN);
        }
        match self.client().peer(end.handle) {
            Err(Errno::BADF) => Err(Errno::NOTCONN),
            done => done,
        }
    }

    // ---- connections

    /// Listens.
    ///
    /// # Errors
    /// As [`Client::listen`].
    pub fn listen(&self, backlog: u32) -> Result<()> {
        self.client().listen(self.end()?.handle, backlog)?;
        self.change(stage::LISTENING, 0);
        Ok(())
    }

    /// Takes a connection, and says whose.
    ///
    /// # Errors
    /// As [`accept`]; `EINVAL`: it does not listen.
    pub fn accept(&self) -> Result<(Socket, SocketAddr)> {
        if self.of.kind == Kind::Datagram {
            return Err(Errno::OPNOTSUPP);
        }
        if !self.is(stage::LISTENING) {
            return Err(Errno::INVAL);
        }
        let end = self.end()?;
        let limit = self.timeout(Timeout::Recv)?;
        let accepted = again(|| accept(end.p.as_fd(), true))?;
        if limit.is_some() {
            // What a listener waits its connections wait too, as those of the kernel do.
            set_socket_timeout(&accepted.p, Timeout::Recv, limit)?;
        }
        let made = self.outboard.made(accepted.p, accepted.handle, self.of, stage::CONNECTED);
        Ok((made, accepted.peer))
    }

    /// Connects, and waits until that is done if the placeholder waits. Of datagrams: from now on to and from this peer, or
    /// to nobody. A context can be sent to at once.
    ///
    /// # Errors
    /// As [`Client::connect`], and why there is no connection; `EINPROGRESS`: not yet. `EAGAIN` is told whether the placeholder
    /// waits or not.
    pub fn connect(&self, remote: Option<SocketAddr>) -> Result<()> {
        if self.of.kind != Kind::Stream {
            let end = self.end()?;
            self.client().connect(end.p.as_fd(), end.handle, remote)?;
            match remote {
                Some(_) => self.change(stage::CONNECTED, 0),
                None => self.change(0, stage::CONNECTED),
            }
            return Ok(());
        }
        if self.is(stage::UNTOLD) {
            self.change(0, stage::UNTOLD);
            return Ok(());
        }
        if self.is(stage::DEAD) {
            self.renew()?;
        }
        let end = self.end()?;
        let waits = !self.is_nonblocking()?;
        match self.client().connect(end.p.as_fd(), end.handle, remote) {
            Ok(()) => self.change(stage::CONNECTING, 0),
            Err(Errno::ALREADY) if waits => {}
            // It was begun, and nobody has asked what became of it.
            Err(Errno::ISCONN | Errno::BADF) if self.is(stage::CONNECTING) => {
                return self.settle_and_tell(&end);
            }
            Err(error) => return Err(error),
        }
        let limit = if waits { self.timeout(Timeout::Send)? } else { Some(Duration::ZERO) };
        match waits && !shown(end.p.as_fd(), PollFlags::OUT, limit)?.is_empty() {
            true => self.settle_and_tell(&end),
            false => Err(Errno::INPROGRESS),
        }
    }

    fn settle_and_tell(&self, end: &End) -> Result<()> {
        self.settle(end)?;
        self.change(0, stage::UNTOLD);
        Ok(())
    }

    /// What became of a connection that was begun; false while nothing did.
    fn settle(&self, end: &End) -> Result<bool> {
        if shown(end.p.as_fd(), PollFlags::OUT, Some(Duration::ZERO))?.is_empty() {
            return Ok(false);
        }
        match again(|| self.client().connected(end.p.as_fd(), end.handle)) {
            Ok(()) => {
                self.change(stage::CONNECTED | stage::UNTOLD, stage::CONNECTING);
                Ok(true)
            }
            Err(error) => {
                self.change(stage::DEAD, stage::CONNECTING);
                Err(error)
            }
        }
    }

    /// A new socket in the place of one whose connection failed, told what that was told.
    fn renew(&self) -> Result<()> {
        let (p, handle) = self.client().socket(self.of)?;
        let old = lock(&self.end).clone();
        rustix::io::ioctl_fionbio(&p, self.is_nonblocking()?)?;
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&p, which, self.timeout(which)?)?;
        }
        let told = lock(&self.told);
        for (name, value) in &told.options {
            self.client().set_option(handle, *name, value)?;
        }
        *lock(&self.end) = self.outboard.end(p, handle);
        drop(old);
        if let Some(local) = told.bound {
            self.client().bind(handle, local)?;
        }
        self.change(0, stage::DEAD);
        Ok(())
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn shutdown(&self, how: Shutdown) -> Result<()> {
        let end = self.end()?;
        if self.is(stage::CONNECTING) && self.settle(&end) == Ok(false) {
            match self.client().connect(end.p.as_fd(), end.handle, None) {
                // The handshake has ended meanwhile.
                Err(Errno::ISCONN | Errno::BADF) => drop(self.settle(&end)),
                done => return done,
            }
        }
        match (self.is(stage::CONNECTED), self.is(stage::LISTENING)) {
            (true, _) if self.of.kind == Kind::Stream => {
                self.outboard.rings.shutdown(end.p.as_fd(), &end.way, how)
            }
            (true, _) if self.of.kind == Kind::Messages => rustix::net::shutdown(&end.p, how),
            // To shut down the other direction is to leave the socket, to the outboard.
            (true, _) if how == Shutdown::Write => Ok(()),
            (true, _) => {
                self.change(stage::SHUT_READ, 0);
                self.end_datagrams(&end)
            }
            (false, true) => rustix::net::shutdown(&end.p, how),
            (false, false) => Err(Errno::NOTCONN),
        }
    }

    /// Shuts the placeholder of a socket for datagrams down for reading, unless some wait: those come first.
    fn end_datagrams(&self, end: &End) -> Result<()> {
        let (p, rings) = (end.p.as_fd(), &self.outboard.rings);
        let waits = rings.next_len(&end.way).is_some()
            || !shown(p, PollFlags::IN, Some(Duration::ZERO))?.is_empty();
        if waits {
            return Ok(());
        }
        rings.give_up(p, &end.way);
        rustix::net::shutdown(p, Shutdown::Read)
    }

    // ---- bytes

    /// Sends all of it, or as much as there is room for where it does not wait.
    ///
    /// # Errors
    /// As `sendmsg(2)`, and why the connection is over; `ENOTCONN`.
    pub fn send(&self, pieces: &[IoSlice<'_>], flags: SendFlags) -> Result<usize> {
        let end = self.end()?;
        if !self.is(stage::CONNECTED) {
            self.await_connection(&end, flags.contains(SendFlags::DONTWAIT))?;
        }
        let flags = flags | SendFlags::NOSIGNAL;
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        let (rings, with) = (&self.outboard.rings, (end.p.as_fd(), end.handle, &end.way));
        let once =
            |pieces: &[IoSlice<'_>]| again(|| rings.send(self.client(), with, pieces, flags));
        let mut sent = match once(pieces) {
            Err(Errno::PIPE | Errno::CONNRESET) => {
                return Err(self.why(&end).unwrap_or(Errno::PIPE));
            }
            done => done?,
        };
        if sent < all {
            let mut rest = pieces.to_vec();
            let mut rest = &mut rest[..];
            IoSlice::advance_slices(&mut rest, sent);
            // What went wrong behind what was sent, the next call says.
            while let Ok(more @ 1..) = once(rest) {
                sent += more;
                IoSlice::advance_slices(&mut rest, more);
                if sent == all {
                    break;
                }
            }
        }
        Ok(sent)
    }

    /// Sends `back.len()` bytes that `fill` writes where they leave from
    /// ([`ByteStream::send_in_place`](fusewire_stack::byte_stream::ByteStream::send_in_place)).
    pub fn send_in_place(
        &self,
        back: &mut [u8],
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> InPlace {
        // Who cannot say whose it is sends as ever, and is told why he cannot.
        let Ok(end) = self.end() else { return InPlace::NoRoom };
        let len = back.len() as u64;
        let with = (end.p.as_fd(), &end.way);
        let done = self.outboard.rings.send_in_place(self.client(), with, back, fill);
        if done == InPlace::Sent {
            self.in_place.fetch_add(len, Ordering::Relaxed);
        }
        done
    }

    /// What was sent so leaves at once.
    pub fn push(&self) {
        if let Ok(end) = self.end() {
            self.outboard.rings.push(&end.way);
        }
    }

    /// Bytes that were sent from where they were written.
    pub fn sent_in_place(&self) -> u64 {
        self.in_place.load(Ordering::Relaxed)
    }

    /// Until a stream is connected.
    fn await_connection(&self, end: &End, is_told_not_to_wait: bool) -> Result<()> {
        if self.is(stage::CONNECTING) {
            let waits = !is_told_not_to_wait && !self.is_nonblocking()?;
            let limit = if waits { self.timeout(Timeout::Send)? } else { Some(Duration::ZERO) };
            if shown(end.p.as_fd(), PollFlags::OUT, limit)?.is_empty() {
                return Err(Errno::AGAIN);
            }
            self.settle(end)?;
        }
        match (self.is(stage::CONNECTED), self.is(stage::DEAD)) {
            (true, _) => Ok(()),
            (_, true) => Err(Errno::PIPE),
            _ => Err(Errno::NOTCONN),
        }
    }

    /// Receives what is there, waiting for something to be; 0 at the end of the stream. A peek with `WAITALL` waits for all.
    ///
    /// # Errors
    /// As `recvmsg(2)`, and why the connection is over, once; `ENOTCONN`.
    pub fn recv(&self, pieces: &mut [IoSliceMut<'_>], flags: RecvFlags) -> Result<usize> {
        if flags.contains(RecvFlags::PEEK | RecvFlags::WAITALL) {
            let wanted = pieces.iter().map(|piece| piece.len()).sum();
            let end = self.end()?;
            return peek_all(end.p.as_fd(), wanted, flags, |flags| self.recv_once(pieces, flags));
        }
        self.recv_once(pieces, flags)
    }

    fn recv_once(&self, pieces: &mut [IoSliceMut<'_>], flags: RecvFlags) -> Result<usize> {
        let end = self.end()?;
        if !self.is(stage::CONNECTED) {
            match self.await_connection(&end, flags.contains(RecvFlags::DONTWAIT)) {
                Err(Errno::PIPE) => return Ok(0),
                done => done?,
            }
        }
        let asks = pieces.iter().any(|piece| !piece.is_empty());
        let with = (end.p.as_fd(), end.handle, &end.way);
        match again(|| self.outboard.rings.recv(self.client(), with, pieces, flags)) {
            Ok(0) if asks => {
                let shows = shown(end.p.as_fd(), PollFlags::IN, Some(Duration::ZERO))?;
                let error = shows.contains(PollFlags::HUP).then(|| self.why_read(&end)).flatten();
                error.map_or(Ok(0), Err)
            }
            Err(Errno::CONNRESET) => self.why_read(&end).map_or(Ok(0), Err),
            done => done,
        }
    }

    /// Why a connection has ended, where the outboard knows and has not told.
    fn why(&self, end: &End) -> Option<Errno> {
        self.known(end, self.client().error(end.handle))
    }

    /// The same, to who reads.
    fn why_read(&self, end: &End) -> Option<Errno> {
        self.known(end, self.client().error_of_reader(end.handle))
    }

    fn known(&self, end: &End, found: Result<Option<Errno>>) -> Option<Errno> {
        match found {
            Ok(error) => error,
            Err(Errno::BADF) if self.client().is_gone(end.p.as_fd()) => Some(Errno::NETDOWN),
            // It has told.
            Err(Errno::BADF) => None,
            Err(error) => Some(error),
        }
    }

    /// Sends a datagram to `to`, or to whom the socket is connected.
    ///
    /// # Errors
    /// As [`send_to`](super::send_to); `EDESTADDRREQ`, `ENETDOWN`.
    pub fn send_to(
        &self,
        pieces: &[IoSlice<'_>],
        to: impl Into<Heading>,
        flags: SendFlags,
    ) -> Result<usize> {
        let (end, to) = (self.end()?, to.into());
        if to.address.is_none() && !self.is(stage::CONNECTED) {
            return Err(Errno::DESTADDRREQ);
        }
        let flags = flags | SendFlags::NOSIGNAL;
        let (rings, with) = (&self.outboard.rings, (end.p.as_fd(), end.handle, &end.way));
        let to = (to, self.has_peer());
        match again(|| rings.send_to(self.client(), with, pieces, to, flags)) {
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Errno::NETDOWN),
            done => done,
        }
    }

    /// Sends several; how many were sent, which is at least the first.
    ///
    /// # Errors
    /// As [`Socket::send_to`], of the first.
    pub fn send_datagrams(&self, all: &impl Leaving, flags: SendFlags) -> Result<usize> {
        let (end, flags) = (self.end()?, flags | SendFlags::NOSIGNAL);
        let (rings, with) = (&self.outboard.rings, (end.p.as_fd(), end.handle, &end.way));
        match again(|| rings.send_datagrams(self.client(), with, all, flags)) {
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Errno::NETDOWN),
            done => done,
        }
    }

    /// Datagrams may be sent without naming their receiver.
    pub fn has_peer(&self) -> bool {
        self.is(stage::CONNECTED)
    }

    /// Receives a datagram; `None`: the socket was shut down.
    ///
    /// # Errors
    /// As `recvmsg(2)`; `ENETDOWN`: the outboard is gone.
    pub fn recv_from(&self, bytes: &mut [u8], flags: RecvFlags) -> Result<Option<Datagram>> {
        let end = self.end()?;
        let mut heading = [0; HEADING_LEN];
        let mut pieces = [IoSliceMut::new(&mut heading), IoSliceMut::new(bytes)];
        let (rings, with) = (&self.outboard.rings, (end.p.as_fd(), end.handle, &end.way));
        let is_shut = self.is(stage::SHUT_READ);
        let flags = if is_shut { flags | RecvFlags::DONTWAIT } else { flags };
        let received = again(|| rings.recv_from(self.client(), with, &mut pieces, flags));
        if is_shut {
            self.end_datagrams(&end)?;
        }
        match received {
            Err(Errno::AGAIN) if is_shut => Ok(None),
            Err(Errno::CONNRESET) => Err(Errno::NETDOWN),
            Err(error) => Err(error),
            Ok(Some(datagram)) => Ok(Some(datagram)),
            Ok(None) if self.client().is_gone(end.p.as_fd()) => Err(Errno::NETDOWN),
            Ok(None) => Ok(None),
        }
    }

    /// Sends an ADU to a context's other end.
    ///
    /// # Errors
    /// As [`send_message`], and why the context is over; `ENOTCONN`.
    pub fn send_adu(
        &self,
        pieces: &[IoSlice<'_>],
        about: &About,
        flags: SendFlags,
    ) -> Result<usize> {
        let end = self.end()?;
        if !self.is(stage::CONNECTED) {
            return Err(Errno::NOTCONN);
        }
        let flags = flags | SendFlags::NOSIGNAL;
        match again(|| send_message(&end.p, pieces, about, flags)) {
            Err(Errno::PIPE | Errno::CONNRESET) => Err(self.why(&end).unwrap_or(Errno::PIPE)),
            done => done,
        }
    }

    /// Receives the next ADU of a context's other end; `None` when it sends no more.
    ///
    /// # Errors
    /// As [`recv_message`], and why the context is over, once; `ENOTCONN`.
    pub fn recv_adu(&self, bytes: &mut [u8], flags: RecvFlags) -> Result<Option<Came>> {
        let end = self.end()?;
        if !self.is(stage::CONNECTED) {
            return Err(Errno::NOTCONN);
        }
        match again(|| recv_message(&end.p, bytes, flags | RecvFlags::TRUNC)) {
            Ok(None) | Err(Errno::CONNRESET) => self.why(&end).map_or(Ok(None), Err),
            done => done,
        }
    }

    /// Bytes that may be received at once; of datagrams and ADUs those of the next.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn unread(&self) -> Result<usize> {
        let end = self.end()?;
        if self.of.kind == Kind::Stream {
            return self.outboard.rings.unread(end.p.as_fd(), &end.way);
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if self.of.kind == Kind::Datagram {
            let leased = self.outboard.rings.next_len(&end.way);
            return leased.map_or_else(|| next_len(&end.p), Ok);
        }
        match self.recv_adu(&mut [], flags) {
            Err(Errno::AGAIN) => Ok(0),
            found => Ok(found?.map_or(0, |adu| adu.len)),
        }
    }

    /// Bytes of a stream that were sent and that the peer does not have yet (`TIOCOUTQ`), some of them twice while they are
    /// taken.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is no stream.
    pub fn unsent(&self) -> Result<usize> {
        if self.of.kind != Kind::Stream {
            return Err(Errno::OPNOTSUPP);
        }
        let end = self.end()?;
        let untaken = self.outboard.rings.untaken(end.p.as_fd(), &end.way)?;
        match self.client().unsent(end.handle) {
            Ok(unsent) => Ok(untaken + unsent),
            // It has ended.
            Err(Errno::BADF) => Ok(0),
            Err(error) => Err(error),
        }
    }

    // ---- options

    /// Whether calls do not wait.
    ///
    /// # Errors
    /// As `fcntl(2)`.
    pub fn is_nonblocking(&self) -> Result<bool> {
        Ok(rustix::fs::fcntl_getfl(&lock(&self.end).p)?.contains(OFlags::NONBLOCK))
    }

    /// Changes that, for every process that has the socket.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> Result<()> {
        rustix::io::ioctl_fionbio(&lock(&self.end).p, is_nonblocking)
    }

    /// How long calls wait (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
    ///
    /// # Errors
    /// As `getsockopt(2)`.
    pub fn timeout(&self, which: Timeout) -> Result<Option<Duration>> {
        socket_timeout(&lock(&self.end).p, which)
    }

    /// Changes that.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn set_timeout(&self, which: Timeout, timeout: Option<Duration>) -> Result<()> {
        set_socket_timeout(&lock(&self.end).p, which, timeout)
    }

    /// Sets an option.
    ///
    /// # Errors
    /// As [`Client::set_option`].
    pub fn set_option(&self, name: OptionName, value: &[u8]) -> Result<()> {
        self.client().set_option(self.end()?.handle, name, value)?;
        let mut told = lock(&self.told);
        told.options.retain(|(known, _)| *known != name);
        told.options.push((name, value.to_vec()));
        Ok(())
    }

    /// The value of an option: fills the front of `value`, and gives how long it was.
    ///
    /// # Errors
    /// As [`Client::option`].
    pub fn option(&self, name: OptionName, value: &mut [u8]) -> Result<usize> {
        let end = self.end()?;
        let is_info = (name.level, name.name) == (libc::IPPROTO_TCP, libc::TCP_INFO);
        let leased = is_info.then(|| self.outboard.rings.tcp_info(&end.way, value)).flatten();
        leased.map_or_else(|| self.client().option(end.handle, name, value), Ok)
    }

    /// The error that waits to be told, which then was (`SO_ERROR`).
    ///
    /// # Errors
    /// As [`Client::error`].
    pub fn take_error(&self) -> Result<Option<Errno>> {
        let end = self.end()?;
        if self.is(stage::CONNECTING) {
            return Ok(self.settle(&end).err());
        }
        // That of the placeholder says less, and is told with it.
        let _ = sockopt::socket_error(&end.p);
        let with = (end.p.as_fd(), end.handle, &end.way);
        let error = match self.of.kind {
            Kind::Datagram => self.outboard.rings.take_error(self.client(), with),
            Kind::Stream | Kind::Messages => self.client().error(end.handle),
        };
        match error {
            Err(Errno::BADF) => Ok(None),
            done => done,
        }
    }

    /// Of a connected socket for datagrams: an error waits to be told, where they come.
    pub fn has_failed(&self) -> bool {
        let end = lock(&self.end).clone();
        let is_connected = self.of.kind == Kind::Datagram && self.is(stage::CONNECTED);
        is_connected && self.outboard.rings.has_failed(end.p.as_fd(), &end.way)
    }
}
