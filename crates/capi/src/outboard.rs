//! Sockets of an outboard's, in the meaning of POSIX: what is theirs alone is [`client::Socket`]'s, and here are the words that C
//! has for it.
#![forbid(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fusewire_outboard::client::{self, Leaving};
use fusewire_outboard::protocol::{self, About, Heading, Kind, OptionName, SocketType, VALUE_MAX};
use fusewire_stack::ip::{Ancillary, Config, posix};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::Timeout;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::address::{Family, Named};
use crate::errno::{Errno, Result};
use crate::posix::Posix;
use crate::socket::{self, Flags, Got, Incoming, Outgoing};
use crate::table::Entry;

/// What a socket carries, from its type, without flags, and protocol: as inline, and contexts of XTP, which are an outboard's
/// alone.
pub fn kind_of(kind: i32, protocol: i32) -> Result<Kind> {
    Ok(match (kind, protocol) {
        (libc::SOCK_SEQPACKET, 0 | protocol::SOL_XTP) => Kind::Messages,
        _ => match socket::Kind::of(kind, protocol)? {
            socket::Kind::Stream => Kind::Stream,
            socket::Kind::Datagram => Kind::Datagram,
        },
    })
}

/// A socket.
pub struct Socket {
    inner: client::Socket,
    kind: Kind,
    family: Family,
    /// Descriptors that are this one (`dup`).
    descriptors: AtomicUsize,
    /// The beginning of a datagram that is not whole yet.
    begun: Mutex<Option<(Heading, Vec<u8>)>>,
    /// What failed behind the messages that a call moved: the next call's to tell.
    late: Mutex<Option<Errno>>,
    /// Its peer is an IPv4 address, perhaps in an IPv6 one.
    peer_is_v4: AtomicBool,
}

fn is_v4(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_ipv4()
}

/// Bytes of a file that are sent at a time.
const PART: usize = 64 << 10;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is asked of a socket, as flags of receiving.
fn receiving(flags: Flags) -> RecvFlags {
    let all = [
        (flags.dont_wait, RecvFlags::DONTWAIT),
        (flags.peek, RecvFlags::PEEK),
        (flags.all, RecvFlags::WAITALL),
    ];
    all.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag).collect()
}

/// The same of sending.
fn sending(flags: Flags) -> SendFlags {
    if flags.dont_wait { SendFlags::DONTWAIT } else { SendFlags::empty() }
}

impl Socket {
    /// A socket that nobody knows yet.
    pub fn new(
        outboard: &Arc<client::Outboard>,
        family: Family,
        kind: Kind,
        nonblocking: bool,
    ) -> Result<Socket> {
        let of = SocketType {
            family: match family {
                Family::V4 => protocol::Family::V4,
                Family::V6 => protocol::Family::V6,
            },
            kind,
        };
        let inner = outboard.socket(of)?;
        inner.set_nonblocking(nonblocking)?;
        Ok(Socket::of(inner, family, kind))
    }

    fn of(inner: client::Socket, family: Family, kind: Kind) -> Socket {
        let (descriptors, begun, late) = (AtomicUsize::new(1), Mutex::default(), Mutex::default());
        let peer_is_v4 = AtomicBool::new(false);
        Socket { inner, kind, family, descriptors, begun, late, peer_is_v4 }
    }

    /// The kernel's number of its placeholder, as long as the socket is not closed.
    pub fn number(&self) -> RawFd {
        self.inner.placeholder().as_fd().as_raw_fd()
    }

    /// What is the case, in the bits of `poll`, of what its placeholder shows.
    fn shows(&self, shown: PollFlags) -> i16 {
        const FAILED: i16 =
            libc::POLLERR | libc::POLLIN | libc::POLLRDNORM | libc::POLLOUT | libc::POLLWRNORM;
        let has_failed = shown.contains(PollFlags::IN) && self.inner.has_failed();
        let failed = if has_failed || self.is_late() { FAILED } else { 0 };
        let shown = shown.bits() as i16 | failed;
        match self.kind {
            Kind::Stream if self.inner.is_fresh() => {
                libc::POLLHUP | libc::POLLOUT | libc::POLLWRNORM
            }
            Kind::Stream | Kind::Messages if self.inner.is_listening() => {
                shown & !(libc::POLLOUT | libc::POLLWRNORM)
            }
            _ => shown,
        }
    }

    /// Something failed that no call has told yet.
    fn is_late(&self) -> bool {
        lock(&self.late).is_some()
    }

    /// Tells what failed behind what the call before moved.
    fn tell_late(&self) -> Result<()> {
        lock(&self.late).take().map_or(Ok(()), Err)
    }

    /// What a call returns that fails with `error` behind so many messages: the next tells of it, unless it is to wait or meets
    /// the same again.
    fn cut_short(&self, done: usize, error: Errno) -> Result<usize> {
        match (done, error.0) {
            (0, _) => return Err(error),
            (_, libc::EAGAIN | libc::EINTR | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::EPIPE) => {}
            _ => *lock(&self.late) = Some(error),
        }
        Ok(done)
    }

    /// Takes pieces of one datagram, which leaves with the first that is not followed by more.
    fn gather(&self, messages: &[Outgoing<'_>], flags: Flags) -> Result<usize> {
        for message in messages {
            let mut begun = lock(&self.begun);
            let heading = Heading { address: message.to, beside: message.beside };
            let (to, mut bytes) = begun.take().unwrap_or((heading, Vec::new()));
            bytes.extend_from_slice(&message.bytes);
            self.fits(bytes.len(), to.address)?;
            if flags.more {
                *begun = Some((to, bytes));
                continue;
            }
            drop(begun);
            self.inner.send_to(&[IoSlice::new(&bytes)], to, sending(flags))?;
        }
        Ok(messages.len())
    }

    /// Sends ADUs, each whole; how many.
    fn send_adus(&self, messages: &[Outgoing<'_>], flags: Flags) -> Result<usize> {
        if flags.more {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        for (sent, message) in messages.iter().enumerate() {
            if message.beside != Ancillary::default() {
                return self.cut_short(sent, Errno(libc::EOPNOTSUPP));
            }
            // Its peer is known: as on Linux the address is not looked at.
            let pieces = [IoSlice::new(&message.bytes)];
            if let Err(error) = self.inner.send_adu(&pieces, &About::default(), sending(flags)) {
                return self.cut_short(sent, error.into());
            }
        }
        Ok(messages.len())
    }

    /// Receives one message: who sent it, if that is not known, and how long it was. `None`: there will be no other.
    fn recv_one(&self, out: &mut [u8], flags: RecvFlags) -> Result<Option<Got>> {
        Ok(match self.kind {
            Kind::Messages => match self.inner.recv_adu(out, flags)? {
                Some(adu) if adu.about.is_broken => return Err(Errno(libc::EBADMSG)),
                adu => adu.map(|adu| Got { len: adu.len, ..Got::default() }),
            },
            _ => self.inner.recv_from(out, flags)?.map(|one| Got {
                from: Some(one.from),
                len: one.len,
                beside: one.beside,
            }),
        })
    }

    /// A datagram of such a length fits into a packet to there, or to its peer, behind the headers of UDP and IP.
    fn fits(&self, len: usize, to: Option<SocketAddr>) -> Result<()> {
        let is_v4 = to.map_or_else(|| self.peer_is_v4.load(Ordering::Relaxed), is_v4);
        let headers = if is_v4 || self.family == Family::V4 { 20 + 8 } else { 8 };
        let fits = len <= usize::from(u16::MAX) - headers;
        if fits { Ok(()) } else { Err(Errno(libc::EMSGSIZE)) }
    }

    /// Waits until there is something to receive; false when there is no time left.
    fn await_datagram(&self, left: Duration) -> Result<bool> {
        let mut wait = [Awaited { socket: self, wanted: libc::POLLIN, is: 0 }];
        wait_for(&mut wait, Some(left)).map(|ready| ready > 0)
    }
}

/// Datagrams of one call.
struct Several<'a>(&'a Socket, &'a [Outgoing<'a>]);

impl Leaving for Several<'_> {
    fn count(&self) -> usize {
        self.1.len()
    }

    fn has_peer(&self) -> bool {
        self.0.inner.has_peer()
    }

    fn with<T>(
        &self,
        at: usize,
        f: impl FnOnce(&[IoSlice<'_>], Heading) -> client::Result<T>,
    ) -> client::Result<T> {
        let Several(socket, messages) = self;
        let Outgoing { to, beside, bytes } = &messages[at];
        socket
            .fits(bytes.len(), *to)
            .map_err(|Errno(number)| rustix::io::Errno::from_raw_os_error(number))?;
        match to {
            None if !socket.inner.has_peer() => Err(rustix::io::Errno::DESTADDRREQ),
            to => f(&[IoSlice::new(bytes)], Heading { address: *to, beside: *beside }),
        }
    }
}

/// A socket that is waited for, and what is the case with it.
pub struct Awaited<'a> {
    pub socket: &'a Socket,
    pub wanted: i16,
    pub is: i16,
}

/// Waits until something is the case with one of them, which may be told whether it was wanted or not; with how many.
pub fn wait_for(all: &mut [Awaited<'_>], timeout: Option<Duration>) -> Result<usize> {
    const ALWAYS: i16 = libc::POLLERR | libc::POLLHUP;
    let begin = Instant::now();
    loop {
        let ends: Vec<_> = all.iter().map(|one| one.socket.inner.placeholder()).collect();
        let wanted = |one: &Awaited<'_>| {
            let can_write = !one.socket.inner.is_listening();
            let wanted = PollFlags::from_bits_truncate(one.wanted as u16);
            if can_write { wanted } else { wanted - (PollFlags::OUT | PollFlags::WRNORM) }
        };
        let mut fds: Vec<_> =
            all.iter().zip(&ends).map(|(one, p)| PollFd::new(p, wanted(one))).collect();
        let is_known = |one: &Awaited<'_>| {
            let is_fresh = one.socket.kind == Kind::Stream && one.socket.inner.is_fresh();
            is_fresh || one.socket.is_late()
        };
        let left = match all.iter().any(is_known) {
            true => Some(Duration::ZERO),
            false => timeout.map(|timeout| timeout.saturating_sub(begin.elapsed())),
        };
        let time = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, time.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            done => done?,
        };
        let mut ready = 0;
        let shown: Vec<_> = fds.iter().map(PollFd::revents).collect();
        for (one, shown) in all.iter_mut().zip(shown) {
            one.is = one.socket.shows(shown) & (one.wanted | ALWAYS);
            ready += usize::from(one.is != 0);
        }
        if ready > 0 || timeout.is_some_and(|timeout| begin.elapsed() >= timeout) {
            return Ok(ready);
        }
    }
}

impl Posix for Socket {
    fn is_stream(&self) -> bool {
        self.kind == Kind::Stream
    }

    fn family(&self) -> Family {
        self.family
    }

    fn entry(self: Arc<Self>) -> Entry {
        Entry::Outboard(self)
    }

    fn duplicate(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// Who waits on it goes on, and the outboard has it as long as another process.
    fn close(&self) {
        self.descriptors.fetch_sub(1, Ordering::AcqRel);
    }

    fn bind(&self, addr: &[u8]) -> Result<()> {
        let Named::Somebody(local) = self.family.parse(addr)? else {
            return Err(Errno(libc::EAFNOSUPPORT));
        };
        Ok(self.inner.bind(local)?)
    }

    fn local(&self) -> Result<SocketAddr> {
        Ok(self.inner.local()?)
    }

    fn peer(&self) -> Result<SocketAddr> {
        Ok(self.inner.peer()?)
    }

    fn listen(&self, backlog: i32) -> Result<()> {
        Ok(self.inner.listen(backlog.max(1) as u32)?)
    }

    fn accept(&self, nonblocking: bool) -> Result<(Entry, SocketAddr)> {
        let (inner, remote) = self.inner.accept()?;
        inner.set_nonblocking(nonblocking)?;
        let socket = Socket::of(inner, self.family, self.kind);
        Ok((Entry::Outboard(Arc::new(socket)), remote))
    }

    fn connect(&self, addr: &[u8]) -> Result<()> {
        let remote = match (self.kind, self.family.parse(addr)?) {
            (_, Named::Somebody(remote)) => Some(remote),
            (Kind::Datagram, Named::Nobody) => None,
            (Kind::Stream | Kind::Messages, Named::Nobody) => {
                return Err(Errno(libc::EAFNOSUPPORT));
            }
        };
        self.inner.connect(remote)?;
        self.peer_is_v4.store(remote.is_some_and(is_v4), Ordering::Relaxed);
        Ok(())
    }

    fn shutdown(&self, how: i32) -> Result<()> {
        Ok(self.inner.shutdown(match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno(libc::EINVAL)),
        })?)
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        Ok(self.inner.set_nonblocking(nonblocking)?)
    }

    fn is_nonblocking(&self) -> Result<bool> {
        Ok(self.inner.is_nonblocking()?)
    }

    fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        if let Some(which) = timeout_of(level, name) {
            let mut set = posix::Options::default();
            set.set((level, name), value, self.kind == Kind::Stream).map_err(Errno)?;
            return Ok(self.inner.set_timeout(which, set.recv_timeout.or(set.send_timeout))?);
        }
        let value = &value[..value.len().min(VALUE_MAX)];
        Ok(self.inner.set_option(OptionName { level, name }, value)?)
    }

    fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        if let Some(which) = timeout_of(level, name) {
            let time = self.inner.timeout(which)?;
            let (recv_timeout, send_timeout) = (time, time);
            let set = posix::Options { recv_timeout, send_timeout, ..posix::Options::default() };
            return set.value((level, name), &Config::default(), 0, true).map_err(Errno);
        }
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
            if let Err(Errno(late)) = self.tell_late() {
                return Ok(late.to_ne_bytes().to_vec());
            }
            let error = self.inner.take_error()?;
            return Ok(error.map_or(0, rustix::io::Errno::raw_os_error).to_ne_bytes().to_vec());
        }
        let mut value = vec![0; VALUE_MAX];
        let len = self.inner.option(OptionName { level, name }, &mut value)?;
        value.truncate(len);
        Ok(value)
    }

    fn send_stream(&self, bytes: &[u8], flags: Flags) -> Result<usize> {
        if flags.end_of_record {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let more = if flags.more { SendFlags::MORE } else { SendFlags::empty() };
        Ok(self.inner.send(&[IoSlice::new(bytes)], sending(flags) | more)?)
    }

    fn discard(&self, len: usize, flags: Flags) -> Result<usize> {
        Ok(self.inner.discard(len, receiving(flags))?)
    }

    fn recv_stream(&self, out: &mut [u8], flags: Flags) -> Result<usize> {
        Ok(self.inner.recv(&mut [IoSliceMut::new(out)], receiving(flags))?)
    }

    fn send_file(&self, file: BorrowedFd<'_>, offset: Option<u64>, count: usize) -> Result<usize> {
        let mut part = vec![0; count.min(PART)];
        let mut done = 0;
        while done < count {
            // Where it is read is moved on by what was sent alone.
            let place = match offset {
                Some(offset) => offset + done as u64,
                None => rustix::fs::tell(file)?,
            };
            let room = part.len().min(count - done);
            let len = match rustix::io::pread(file, &mut part[..room], place) {
                Ok(0) => break,
                Ok(len) => len,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            };
            let sent = match self.inner.send(&[IoSlice::new(&part[..len])], SendFlags::empty()) {
                Ok(sent) => sent,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error.into()),
            };
            if offset.is_none() {
                rustix::fs::seek(file, rustix::fs::SeekFrom::Start(place + sent as u64))?;
            }
            done += sent;
            if sent < len {
                break;
            }
        }
        Ok(done)
    }

    fn send_messages(&self, messages: &[Outgoing<'_>], flags: Flags) -> Result<usize> {
        if self.kind == Kind::Stream {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        self.tell_late()?;
        if self.kind == Kind::Messages {
            return self.send_adus(messages, flags);
        }
        if flags.more || lock(&self.begun).is_some() {
            return self.gather(messages, flags);
        }
        Ok(self.inner.send_datagrams(&Several(self, messages), sending(flags))?)
    }

    fn recv_messages(
        &self,
        messages: &mut [Incoming<'_>],
        flags: Flags,
        most: Option<Duration>,
    ) -> Result<usize> {
        if self.kind == Kind::Stream {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        self.tell_late()?;
        let begin = Instant::now();
        for (done, incoming) in messages.iter_mut().enumerate() {
            let mut asked = receiving(flags);
            if flags.for_one && done > 0 {
                asked |= RecvFlags::DONTWAIT;
            }
            let left = most.map(|most| most.saturating_sub(begin.elapsed()));
            if let Some(left) = left.filter(|_| !asked.contains(RecvFlags::DONTWAIT)) {
                if let Err(error) = self.await_datagram(left) {
                    return self.cut_short(done, error);
                }
                asked |= RecvFlags::DONTWAIT;
            }
            if done > 0 && self.kind == Kind::Messages {
                // One of which some will never come is told when it is the first of a call, and is seen by who waits until then.
                match self.inner.recv_adu(&mut [], asked | RecvFlags::PEEK) {
                    Ok(Some(next)) if !next.about.is_broken => asked |= RecvFlags::DONTWAIT,
                    Ok(_) => return Ok(done),
                    Err(error) => return self.cut_short(done, error.into()),
                }
            }
            let got = incoming.place.fill(|out| {
                let room = out.len();
                let got = self.recv_one(out, asked);
                let len = got.as_ref().ok().and_then(|got| got.as_ref()).map_or(0, |got| got.len);
                (len.min(room), got)
            });
            match got {
                Ok(Some(came)) => incoming.got = Some(came),
                // It was shut down.
                Ok(None) => return Ok(done),
                Err(error) => return self.cut_short(done, error),
            }
            if flags.peek {
                return Ok(1);
            }
        }
        Ok(messages.len())
    }

    fn unread(&self) -> Result<usize> {
        Ok(self.inner.unread()?)
    }

    fn unsent(&self) -> Result<usize> {
        Ok(self.inner.unsent()?)
    }
}

/// Options that are the placeholder's: how long calls on it wait.
fn timeout_of(level: i32, name: i32) -> Option<Timeout> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Some(Timeout::Recv),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Some(Timeout::Send),
        _ => None,
    }
}
