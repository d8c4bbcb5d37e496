//! What a descriptor stands for: a socket in the meaning of POSIX, over the stack's.
//!
//! Locks are taken in one order: [`Inner`], then the stack. An attempt, which runs under the stack's lock, reads
//! what it needs of the socket from atomics: whether it was closed or shut down meanwhile.
#![forbid(unsafe_code)]

mod datagram;
mod options;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::{
    Interest, Readiness, SocketId, Stack, State as TcpState, TcpConfig, posix,
};

use crate::address::{Family, Named};
use crate::errno::{Errno, Result};
use crate::open::Opened;
use datagram::Begun;
pub use datagram::{Got, Incoming, Outgoing, Place};
use options::Options;

/// `SOCK_STREAM` or `SOCK_DGRAM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stream,
    Datagram,
}

impl Kind {
    /// From a socket's type, without its flags, and protocol.
    pub fn of(kind: i32, protocol: i32) -> Result<Kind> {
        match (kind, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Ok(Kind::Stream),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Ok(Kind::Datagram),
            (libc::SOCK_STREAM | libc::SOCK_DGRAM | libc::SOCK_SEQPACKET, _) => {
                Err(Errno(libc::EPROTONOSUPPORT))
            }
            _ => Err(Errno(libc::EPROTOTYPE)),
        }
    }
}

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The stack does not know it yet; a TCP socket may be bound.
    Fresh,
    Listening(SocketId),
    /// `is_told`: a call has said how the handshake ended.
    Stream {
        id: SocketId,
        is_told: bool,
    },
    Datagram(SocketId),
}

impl State {
    fn id(self) -> Option<SocketId> {
        match self {
            State::Fresh => None,
            State::Listening(id) | State::Stream { id, .. } | State::Datagram(id) => Some(id),
        }
    }
}

struct Inner {
    state: State,
    /// What a TCP socket is bound to.
    bound: Option<SocketAddr>,
    /// Whom a UDP socket is connected to.
    peer: Option<SocketAddr>,
    options: Options,
    /// An error that waits to be told.
    error: Option<Errno>,
    /// The beginning of a datagram that is not whole yet.
    begun: Option<Begun>,
}

/// A socket.
pub struct Socket {
    opened: Arc<Opened>,
    pub kind: Kind,
    pub family: Family,
    inner: Mutex<Inner>,
    closed: AtomicBool,
    /// Descriptors that are this one (`dup`).
    descriptors: AtomicUsize,
    /// Sets that it is in, told when it begins to be something in the stack.
    watchers: Mutex<Vec<Waker>>,
    /// The error that ended the connection was told.
    error_told: AtomicBool,
    shut_read: AtomicBool,
    shut_write: AtomicBool,
}

/// What `poll` looks at: what a socket was when the call began.
#[derive(Clone, Copy)]
pub struct View {
    pub id: Option<SocketId>,
    listens: bool,
    error: bool,
}

/// Whether a call may wait, and what else it is told (`MSG_…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub dont_wait: bool,
    pub peek: bool,
    pub all: bool,
    pub truncated: bool,
    pub for_one: bool,
    /// More follows at once (`MSG_MORE`).
    pub more: bool,
    /// A record ends here (`MSG_EOR`).
    pub end_of_record: bool,
}

impl Flags {
    /// From `MSG_…`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for what would be ignored to somebody's surprise.
    pub fn of(flags: i32) -> Result<Flags> {
        let harmless = libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;
        let known = libc::MSG_DONTWAIT
            | libc::MSG_MORE
            | libc::MSG_EOR
            | libc::MSG_PEEK
            | libc::MSG_WAITALL
            | libc::MSG_TRUNC
            | libc::MSG_WAITFORONE;
        if flags & !(harmless | known) != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let has = |flag: i32| flags & flag != 0;
        Ok(Flags {
            dont_wait: has(libc::MSG_DONTWAIT),
            peek: has(libc::MSG_PEEK),
            all: has(libc::MSG_WAITALL),
            truncated: has(libc::MSG_TRUNC),
            for_one: has(libc::MSG_WAITFORONE),
            more: has(libc::MSG_MORE),
            end_of_record: has(libc::MSG_EOR),
        })
    }
}

/// What a wait is for and how long it may last; zero: not at all.
struct Wait {
    id: SocketId,
    interest: Interest,
    timeout: Option<Duration>,
}

impl Socket {
    /// A socket that nobody knows yet.
    pub fn new(opened: Arc<Opened>, family: Family, kind: Kind, nonblocking: bool) -> Socket {
        let options = Options { nonblocking, ..Options::default() };
        Socket::with(opened, family, kind, State::Fresh, options)
    }

    fn with(
        opened: Arc<Opened>,
        family: Family,
        kind: Kind,
        state: State,
        options: Options,
    ) -> Socket {
        let inner = Inner { state, bound: None, peer: None, options, error: None, begun: None };
        Socket {
            opened,
            kind,
            family,
            inner: Mutex::new(inner),
            closed: AtomicBool::new(false),
            descriptors: AtomicUsize::new(1),
            watchers: Mutex::default(),
            error_told: AtomicBool::new(false),
            shut_read: AtomicBool::new(false),
            shut_write: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Errno(libc::EBADF)) } else { Ok(()) }
    }

    /// Where its stack lives: sockets of one can be waited for together.
    pub fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// Waits until `attempt` gives something; `EAGAIN` when the time is over.
    fn wait<T>(
        &self,
        wait: &Wait,
        mut attempt: impl FnMut(&mut Stack, Instant) -> io::Result<Option<T>>,
    ) -> Result<T> {
        let host = self.opened.host();
        let done = host.wait_any(&[(wait.id, wait.interest)], wait.timeout, |stack, now| {
            self.alive()?;
            attempt(stack, now)
        })?;
        done.ok_or(Errno(libc::EAGAIN))
    }

    /// Runs `f` on the stack, without waiting.
    fn with_stack<T>(
        &self,
        f: impl FnOnce(&mut Stack, Instant) -> fusewire_stack::ip::Result<T>,
    ) -> Result<T> {
        Ok(self.opened.host().with(f)??)
    }

    /// Waits until `attempt`, which given `true` receives by itself, gives something; `EAGAIN` when the time is over.
    fn wait_receiving<T>(
        &self,
        id: SocketId,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Stack, Instant, bool) -> io::Result<Option<T>>,
    ) -> Result<T> {
        let done = self.opened.host().wait_receiving(id, timeout, |stack, now, receives| {
            self.alive()?;
            attempt(stack, now, receives)
        })?;
        done.ok_or(Errno(libc::EAGAIN))
    }

    // ---- names

    /// Binds it.
    pub fn bind(&self, addr: &[u8]) -> Result<()> {
        let Named::Somebody(local) = self.family.parse(addr)? else {
            return Err(Errno(libc::EAFNOSUPPORT));
        };
        let local = self.plain(local)?.ok_or(Errno(libc::ENODEV))?;
        let mut inner = self.lock();
        if inner.bound.is_some() || inner.state != State::Fresh {
            return Err(Errno(libc::EINVAL));
        }
        match self.kind {
            Kind::Datagram => {
                let id = self.bind_datagram(local, &inner.options.set)?;
                inner.state = State::Datagram(id);
                self.stir();
            }
            Kind::Stream => {
                let sharing = inner.options.set.sharing(true, 0);
                inner.bound = Some(self.opened.reserve(local, sharing)?);
            }
        }
        Ok(())
    }

    /// The address as the stack reads it; `None`: it names another zone than the stack's interface.
    fn plain(&self, address: SocketAddr) -> Result<Option<SocketAddr>> {
        let own = self.opened.host().with(|stack, _| stack.interface().index())?;
        Ok(posix::without_zone(address, own))
    }

    /// The address as C reads it.
    fn zoned(&self, address: SocketAddr) -> Result<SocketAddr> {
        let own = self.opened.host().with(|stack, _| stack.interface().index())?;
        Ok(posix::with_zone(address, own.unwrap_or(0)))
    }

    /// Its own address.
    pub fn local(&self) -> Result<SocketAddr> {
        self.zoned(self.local_in_stack()?)
    }

    fn local_in_stack(&self) -> Result<SocketAddr> {
        let inner = self.lock();
        let Some(id) = inner.state.id() else {
            return Ok(inner.bound.unwrap_or(self.family.unspecified()));
        };
        let peer = inner.peer;
        self.with_stack(|stack, now| {
            let local = stack.local_addr(id)?;
            Ok(match peer {
                Some(peer) if local.ip().is_unspecified() => {
                    let source = stack.source_for(now, peer.ip());
                    SocketAddr::new(source.unwrap_or(local.ip()), local.port())
                }
                _ => local,
            })
        })
    }

    /// The other end's.
    pub fn peer(&self) -> Result<SocketAddr> {
        self.zoned(self.peer_in_stack()?)
    }

    fn peer_in_stack(&self) -> Result<SocketAddr> {
        let inner = self.lock();
        match inner.state {
            State::Datagram(_) => inner.peer.ok_or(Errno(libc::ENOTCONN)),
            State::Stream { id, .. } => {
                let (state, tuple) =
                    self.with_stack(|stack, _| Ok((stack.tcp_state(id)?, stack.tcp_tuple(id)?)))?;
                match state {
                    TcpState::SynSent | TcpState::SynReceived | TcpState::Closed => {
                        Err(Errno(libc::ENOTCONN))
                    }
                    _ => Ok(tuple.remote),
                }
            }
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    // ---- connections

    /// Listens; again only changes nothing.
    pub fn listen(&self, backlog: i32) -> Result<()> {
        if self.kind != Kind::Stream {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut inner = self.lock();
        match inner.state {
            State::Listening(_) => return Ok(()),
            State::Fresh => {}
            _ => return Err(Errno(libc::EINVAL)),
        }
        let sharing = inner.options.set.sharing(true, 0);
        let local = match inner.bound {
            Some(local) => local,
            None => self.opened.reserve(self.family.unspecified(), sharing)?,
        };
        inner.bound = Some(local);
        let backlog = backlog.clamp(1, 4096) as usize;
        let config = self.config(&inner.options)?;
        let set = inner.options.set.clone();
        let id = self.with_stack(|stack, now| {
            let id = stack.tcp_listen_sharing(local, backlog, &config, sharing)?;
            set.tune(stack, now, id)?;
            stack.set_marking(id, set.marking).map(|()| id)
        })?;
        inner.state = State::Listening(id);
        self.stir();
        Ok(())
    }

    /// TCP's settings as the options want them.
    fn config(&self, options: &Options) -> Result<TcpConfig> {
        let config = self.opened.host().with(|stack, _| stack.config().tcp.clone())?;
        Ok(options.set.apply(config))
    }

    /// Takes a connection.
    pub fn accept(&self, nonblocking: bool) -> Result<(Socket, SocketAddr)> {
        if self.kind != Kind::Stream {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let (id, options) = {
            let inner = self.lock();
            let State::Listening(id) = inner.state else { return Err(Errno(libc::EINVAL)) };
            (id, inner.options.clone())
        };
        let wait =
            Wait { id, interest: Interest::Read, timeout: options.recv_wait(Flags::default()) };
        let (id, remote) = self.wait(&wait, |stack, _| Ok(stack.tcp_accept(id)?))?;
        let remote = self.zoned(remote)?;
        let options = Options { nonblocking, ..options };
        let state = State::Stream { id, is_told: true };
        Ok((Socket::with(self.opened.clone(), self.family, Kind::Stream, state, options), remote))
    }

    /// Connects. UDP: from now on to and from this peer alone.
    pub fn connect(&self, addr: &[u8]) -> Result<()> {
        let named = match self.family.parse(addr)? {
            Named::Nobody => Named::Nobody,
            Named::Somebody(peer) => {
                Named::Somebody(self.plain(peer)?.ok_or(Errno(libc::ENETUNREACH))?)
            }
        };
        match (self.kind, named) {
            (Kind::Datagram, named) => self.connect_datagram(named),
            (Kind::Stream, Named::Nobody) => Err(Errno(libc::EAFNOSUPPORT)),
            (Kind::Stream, Named::Somebody(remote)) => self.connect_stream(remote),
        }
    }

    /// Ends one direction or both: `SHUT_…`.
    pub fn shutdown(&self, how: i32) -> Result<()> {
        let (read, write) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Errno(libc::EINVAL)),
        };
        let inner = self.lock();
        match inner.state {
            State::Stream { id, .. }
                if self.with_stack(|stack, _| stack.tcp_state(id))? == TcpState::SynSent =>
            {
                // As on Linux: the handshake ends, and the socket is as if it had never begun one.
                self.with_stack(|stack, _| stack.tcp_cancel(id))?;
                drop(inner);
                self.opened.host().wake(id);
                return Ok(());
            }
            State::Stream { id, .. } => {
                self.connected_now(id)?;
                if write {
                    self.with_stack(|stack, _| stack.tcp_finish(id))?;
                }
            }
            State::Datagram(_) if inner.peer.is_some() => {}
            _ => return Err(Errno(libc::ENOTCONN)),
        }
        self.shut_read.fetch_or(read, Ordering::AcqRel);
        self.shut_write.fetch_or(write, Ordering::AcqRel);
        if let Some(id) = inner.state.id() {
            drop(inner);
            self.opened.host().wake(id);
        }
        Ok(())
    }

    /// One more descriptor is this one.
    pub fn duplicate(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// A descriptor is closed, and the socket with the last: who waits on it is told `EBADF`.
    pub fn close(&self) {
        if self.descriptors.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.stir();
        self.linger();
        let inner = self.lock();
        if let Some(id) = inner.state.id() {
            // A stack whose interface is gone has nobody to tell.
            let _ = self.opened.host().with(|stack, now| {
                if inner.options.set.aborts() && matches!(inner.state, State::Stream { .. }) {
                    let _ = stack.abort(now, id);
                }
                stack.close(now, id)
            });
            self.opened.host().wake(id);
        }
        if let Some(local) = inner.bound {
            self.opened.release(local);
        }
    }

    /// Waits until the peer has all that was written, where `SO_LINGER` says so and for as long.
    fn linger(&self) {
        let (id, time) = match &*self.lock() {
            Inner { state: State::Stream { id, .. }, options, .. } => (*id, options.set.linger),
            _ => return,
        };
        let Some(time) = time.filter(|time| !time.is_zero()) else { return };
        let waits = [(id, Interest::Write)];
        let _ = self.opened.host().wait_any(&waits, Some(time), |stack, _| {
            // What was not read resets the connection: there is nothing to wait for.
            if stack.tcp_room(id)?.0 > 0 {
                return Ok(Some(()));
            }
            stack.tcp_finish(id)?;
            let waits = matches!(
                stack.tcp_state(id)?,
                TcpState::FinWait1 | TcpState::LastAck | TcpState::Closing
            );
            Ok((!waits).then_some(()))
        });
    }

    // ---- readiness

    /// It was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells this one when the socket begins to be something in the stack, or is closed.
    pub fn add_watcher(&self, waker: Waker) {
        self.watchers().push(waker);
    }

    /// The socket has become something in the stack, or is closed.
    fn stir(&self) {
        self.watchers().iter().for_each(Waker::wake_by_ref);
    }

    /// What is the case now, in the bits of `poll`; `waker` is woken once when that may have changed.
    pub fn watch(&self, watcher: u64, waker: &Waker) -> i16 {
        let view = self.view();
        let host = self.opened.host();
        let is = match view.id {
            Some(id) => host.watch(id, watcher, waker, |stack| self.poll(stack, view)),
            None => host.with(|stack, _| self.poll(stack, view)),
        };
        is.unwrap_or(libc::POLLERR | libc::POLLHUP)
    }

    /// A watcher looks no more.
    pub fn unwatch(&self, watcher: u64, waker: &Waker) {
        self.watchers().retain(|known| !known.will_wake(waker));
        if let Some(id) = self.view().id {
            self.opened.host().unwatch(id, watcher);
        }
    }

    /// Bytes that a call to receive would give now (`FIONREAD`).
    pub fn unread(&self) -> Result<usize> {
        let (kind, Some(id)) = (self.kind, self.view().id) else { return Ok(0) };
        self.with_stack(|stack, _| match kind {
            Kind::Stream => Ok(stack.tcp_room(id).map_or(0, |(unread, _)| unread)),
            Kind::Datagram => {
                let next = stack.udp_peek(id)?;
                Ok(next.and_then(|next| next.iter().next()).map_or(0, <[u8]>::len))
            }
        })
    }

    /// Bytes that were written and that the peer does not have yet (`SIOCOUTQ`).
    pub fn unsent(&self) -> Result<usize> {
        let id = self.stream()?;
        self.with_stack(|stack, _| {
            Ok(stack.tcp_info(id)?.unacked as usize + stack.tcp_unsent(id)? as usize)
        })
    }

    /// What `poll` looks at.
    pub fn view(&self) -> View {
        let inner = self.lock();
        let listens = matches!(inner.state, State::Listening(_));
        View { id: inner.state.id(), listens, error: inner.error.is_some() }
    }

    /// What is the case now, in the bits of `poll`.
    pub fn poll(&self, stack: &mut Stack, view: View) -> i16 {
        if self.alive().is_err() {
            return libc::POLLNVAL;
        }
        let Some(id) = view.id else {
            let fresh = if self.kind == Kind::Stream { libc::POLLHUP } else { 0 };
            return fresh | libc::POLLOUT | libc::POLLWRNORM;
        };
        let Ok(ready) = stack.readiness(id) else { return libc::POLLERR | libc::POLLHUP };
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let (shut_read, shut_write) = (is_set(&self.shut_read), is_set(&self.shut_write));
        let error = view.error || (ready.error && !is_set(&self.error_told));
        let Readiness { readable, writable, peer_finished, over, .. } = ready;
        let bits = [
            (readable || shut_read || error, libc::POLLIN | libc::POLLRDNORM),
            (writable || shut_write || error, libc::POLLOUT | libc::POLLWRNORM),
            (peer_finished || shut_read, libc::POLLRDHUP),
            (over || (peer_finished && shut_write), libc::POLLHUP),
            (error, libc::POLLERR),
        ];
        bits.into_iter()
            .filter(|(set, bit)| *set && (!view.listens || bit & libc::POLLIN != 0))
            .fold(0, |all, (_, bit)| all | bit)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}
