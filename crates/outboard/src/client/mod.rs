//! The application's side of the outboard, for libraries that give its sockets to programs.
//!
//! Nothing here allocates, locks, or calls libc for I/O, so that each call may be made in a signal handler and in a child
//! between `vfork` and `exec`: control connections are taken from a few by compare-and-swap, and when all are taken, made
//! for the one call; a forked child finds none, makes its own (`device::Descriptors`), and closes those that it has inherited
//! (`device::ParentOnly`): a connection is its process's, and each request carries the credentials of the thread that sends it. After some requests those that carry no
//! descriptor go by shared memory (`commands`). Their numbers are high, so that
//! those of the program are what they would be without us.
//!
//! A call on a socket needs its [`Handle`], which [`Client::socket`] and [`accept`] give, and [`Client::attach`] to a
//! process that has the placeholder from elsewhere: from before an `exec`, or by `SCM_RIGHTS`. Bytes of a stream are the
//! placeholder's own; a datagram goes by [`send_to`] and [`Client::recv_from`].
//!
//! When a placeholder shows a hangup, ask [`Client::error`] why: nobody there is `ENETDOWN`, the outboard is gone.

mod arriving;
mod bytes;
mod commands;
mod datagrams;
mod leased;
pub mod lost;
mod partial;
mod rings;
mod shown;
mod socket;
mod source;
mod stream;
mod waiters;
mod way;

use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use fusewire_device::{Descriptors, ParentOnly, effective_ids};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred, connect,
    recvmsg, sendmsg, socket_with,
};
use rustix::process::{Gid, Uid};

pub use bytes::{
    Accepted, Came, Datagram, accept, accept_with, has_word, next_len, recv_message, send_message,
    send_to,
};
pub use datagrams::Leaving;
pub use partial::{discard, peek_all};
pub use rings::Rings;
pub use socket::{Outboard, Placeholder, Socket};
pub use stream::{Listener, Stream};
pub use waiters::{Waiter, Waiting};
pub use way::Way;

use commands::Commands;

use crate::placeholder;
use crate::protocol::{
    ADDRESSES_MAX, FAILURE, Handle, KEY_LEN, MESSAGE_MAX, OptionName, Reply, Request,
    SocketType as Of, UNSENT, VERSION,
};

/// `SO_ERROR`, which [`Client::error`] asks for.
const ERROR: OptionName = OptionName { level: libc::SOL_SOCKET, name: libc::SO_ERROR };
/// The same for who has taken out word of it.
const TOLD: OptionName = OptionName { level: libc::SOL_SOCKET, name: FAILURE };
/// The lowest number of a control connection, where so many are allowed.
const NUMBERS_FROM: u64 = 960;
/// Numbers left above it, where fewer are.
const NUMBERS: u64 = 32;

/// Results of calls, with the number of what failed.
pub type Result<T> = std::result::Result<T, Errno>;

/// What an outboard says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Which one it is: placeholders say it too ([`placeholder::identity`]).
    pub instance: u64,
    /// The number of its interface in its network namespace; 0: it has none.
    pub interface: u32,
    addresses: [(IpAddr, u8); ADDRESSES_MAX],
    count: usize,
}

impl Welcome {
    /// Its addresses, and the bits of their networks.
    pub fn addresses(&self) -> &[(IpAddr, u8)] {
        &self.addresses[..self.count]
    }
}

/// A way to an outboard. It is made once; every thread may use it.
#[derive(Debug)]
pub struct Client {
    place: SocketAddrUnix,
    connections: Descriptors,
    commands: Commands,
    /// All control connections, those of regions and slots too.
    parents: ParentOnly,
}

/// What came with an answer, and where the answer lies.
struct Answer {
    bytes: [u8; MESSAGE_MAX],
    len: usize,
    files: [Option<OwnedFd>; 2],
}

impl Answer {
    fn reply(&self) -> Result<Reply<'_>> {
        match Reply::parse(&self.bytes[..self.len]) {
            Ok(Reply::Failed(errno)) => Err(Errno::from_raw_os_error(errno as i32)),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Errno::PROTO),
        }
    }
}

impl Client {
    /// A way to the outboard whose socket lies at `path`. It is not gone yet.
    ///
    /// # Errors
    /// The path is too long for a socket's; no memory is left.
    pub fn new(path: &Path) -> std::io::Result<Client> {
        let (place, connections) = (SocketAddrUnix::new(path)?, Descriptors::new()?);
        let parents = ParentOnly::new()?;
        Ok(Client { place, connections, commands: Commands::new()?, parents })
    }

    /// Closes the control connections that this process has inherited from its parent by `fork`, if it has not done so yet.
    /// Each call of a client does it first. A library that learns of a fork calls this at once, so that a child that never uses
    /// the outboard has none either.
    pub fn close_inherited(&self) {
        self.parents.close_inherited();
    }

    /// Who is there.
    ///
    /// # Errors
    /// `ENETDOWN`: nobody; `EACCES`: not for this user; `EPROTO`: it speaks another version.
    pub fn welcome(&self) -> Result<Welcome> {
        let answer = self.call(&Request::Hello { version: VERSION }, None)?;
        let Reply::Welcome { instance, interface, addresses } = answer.reply()? else {
            return Err(Errno::PROTO);
        };
        let mut all = [(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0); ADDRESSES_MAX];
        let places = all.iter_mut().zip(addresses.iter());
        let count = places.map(|(place, address)| *place = address).count();
        Ok(Welcome { instance, interface, addresses: all, count })
    }

    /// The outboard of a placeholder is gone, whether or not another has its place: nothing of the socket is left.
    pub fn is_gone(&self, p: BorrowedFd<'_>) -> bool {
        let of = placeholder::identity(p).map(|(instance, _)| instance);
        match self.welcome() {
            Ok(welcome) => of.is_some_and(|instance| instance != welcome.instance),
            // This user is not named, and shows the placeholder.
            Err(Errno::ACCESS) => {
                matches!(self.attach(p), Err(Errno::NOTSOCK | Errno::NETDOWN))
            }
            Err(error) => error == Errno::NETDOWN,
        }
    }

    /// Has the outboard take over the socket of an outboard that is gone, whose placeholder `p` is: a listener or a socket for
    /// datagrams, bound and set as it was. Each process that has the placeholder gets the same new one within a few seconds.
    ///
    /// # Errors
    /// `ENOTSOCK`: this outboard does not know it; `ENETDOWN`: there is none; otherwise as to make, bind and set a socket.
    pub fn restore(&self, p: BorrowedFd<'_>) -> Result<(OwnedFd, Handle, Of)> {
        let mut answer = self.call(&Request::Restore, Some(p))?;
        let Reply::Opened(handle, of) = answer.reply()? else { return Err(Errno::PROTO) };
        answer.files[0].take().ok_or(Errno::MFILE).map(|p| (p, handle, of))
    }

    /// A new socket: its placeholder, which closes at `exec`, and the right to command it.
    ///
    /// # Errors
    /// `ENETDOWN`, `ENFILE` and `EMFILE`: there are too many.
    pub fn socket(&self, of: Of) -> Result<(OwnedFd, Handle)> {
        let mut answer = self.call(&Request::Socket(of), None)?;
        let Reply::Opened(handle, _) = answer.reply()? else { return Err(Errno::PROTO) };
        // The number was taken when it came; there was none left.
        answer.files[0].take().ok_or(Errno::MFILE).map(|p| (p, handle))
    }

    /// What `p` stands for, which may be a socket that another process has made.
    ///
    /// # Errors
    /// `ENOTSOCK`: nothing of this outboard's. `EAGAIN`: the process that has its lease is stopped in the one moment in
    /// which it cannot be taken back.
    pub fn attach(&self, p: BorrowedFd<'_>) -> Result<(Handle, Of)> {
        /// How often that is waited for.
        const TRIES: usize = 1000;
        for again in (0..TRIES).rev() {
            match self.call(&Request::Attach, Some(p))?.reply() {
                Ok(Reply::Opened(handle, of)) => return Ok((handle, of)),
                Ok(_) => return Err(Errno::PROTO),
                Err(Errno::AGAIN) if again > 0 => {
                    let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                    let _ = rustix::thread::nanosleep(&pause);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Binds a socket.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES` for a port that this user may not have, `EINVAL`.
    pub fn bind(&self, handle: Handle, local: SocketAddr) -> Result<()> {
        self.done(&Request::Bind(handle, local), None)
    }

    /// Listens.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EINVAL`, `EOPNOTSUPP`.
    pub fn listen(&self, handle: Handle, backlog: u32) -> Result<()> {
        self.done(&Request::Listen(handle, backlog), None)
    }

    /// Begins to connect; of a stream, `p` can be written to when that is done: [`Client::connected`]. Of datagrams it is
    /// done at once. `None` undoes it: of datagrams, and of a stream whose handshake goes on, which fails with `ECONNRESET`.
    ///
    /// # Errors
    /// `EISCONN`, `EALREADY`, `ENETUNREACH`, `EADDRNOTAVAIL`, `EINVAL`; `EAGAIN`: of a stream, its user owes the packets of a second;
    /// of datagrams, what was sent to 16 peers before the present one waits yet. Try again later.
    pub fn connect(
        &self,
        p: BorrowedFd<'_>,
        handle: Handle,
        remote: Option<SocketAddr>,
    ) -> Result<()> {
        self.done(&Request::Connect(handle, remote), Some(p))
    }

    /// Waits until a connection that was begun is there, or has failed.
    ///
    /// # Errors
    /// Why: `ECONNREFUSED`, `ETIMEDOUT`, `EHOSTUNREACH`, …; `EINPROGRESS`: it took longer than `SO_SNDTIMEO` of the
    /// placeholder lets it, and goes on; `EINTR`: a signal came, and it may be called again.
    pub fn connected(&self, p: BorrowedFd<'_>, handle: Handle) -> Result<()> {
        let limit = socket_timeout(p, Timeout::Send)?;
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = [PollFd::from_borrowed_fd(p, PollFlags::OUT)];
        if rustix::event::poll(&mut fds, limit.as_ref())? == 0 {
            return Err(Errno::INPROGRESS);
        }
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(self.error(handle)?.unwrap_or(Errno::CONNRESET));
        }
        placeholder::widen(p)
    }

    /// The socket's own address.
    ///
    /// # Errors
    /// `EBADF`: it is gone.
    pub fn local(&self, handle: Handle) -> Result<SocketAddr> {
        self.address(&Request::Local(handle))
    }

    /// The other end's.
    ///
    /// # Errors
    /// `ENOTCONN`, `EBADF`.
    pub fn peer(&self, handle: Handle) -> Result<SocketAddr> {
        self.address(&Request::Peer(handle))
    }

    fn address(&self, request: &Request<'_>) -> Result<SocketAddr> {
        match self.call(request, None)?.reply()? {
            Reply::Address(Some(address)) => Ok(address),
            Reply::Address(None) => Err(Errno::NOTCONN),
            _ => Err(Errno::PROTO),
        }
    }

    /// The value of an option: fills the front of `value`, as far as it reaches, and gives how long it was.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EBADF`.
    pub fn option(&self, handle: Handle, name: OptionName, value: &mut [u8]) -> Result<usize> {
        match self.call(&Request::Option(handle, name), None)?.reply()? {
            Reply::Value(found) => {
                let len = found.len().min(value.len());
                value[..len].copy_from_slice(&found[..len]);
                Ok(found.len())
            }
            _ => Err(Errno::PROTO),
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL` also for a value that is longer than any, `EBADF`.
    pub fn set_option(&self, handle: Handle, name: OptionName, value: &[u8]) -> Result<()> {
        if value.len() > crate::protocol::VALUE_MAX {
            return Err(Errno::INVAL);
        }
        self.done(&Request::SetOption(handle, name, value), None)
    }

    /// The error of a socket that was not told yet, and no longer waits then (`SO_ERROR`).
    ///
    /// # Errors
    /// `EBADF`: the outboard knows neither the socket nor how it ended; `ENETDOWN`: the outboard is gone.
    pub fn error(&self, handle: Handle) -> Result<Option<Errno>> {
        self.error_by(handle, ERROR)
    }

    /// The same by who reads a stream and is at its end: that the peer had finished before it reset is told to who writes or asks.
    ///
    /// # Errors
    /// As [`Client::error`].
    pub fn error_of_reader(&self, handle: Handle) -> Result<Option<Errno>> {
        self.error_by(handle, TOLD)
    }

    /// The same by who has taken out word of it, where datagrams come. None, when somebody else was told of it, or nobody knows any
    /// more.
    fn failure(&self, handle: Handle) -> Result<Option<Errno>> {
        match self.error_by(handle, TOLD) {
            Err(Errno::BADF) => Ok(None),
            found => found,
        }
    }

    fn error_by(&self, handle: Handle, name: OptionName) -> Result<Option<Errno>> {
        let mut number = [0; 4];
        self.option(handle, name, &mut number)?;
        Ok(match i32::from_ne_bytes(number) {
            0 => None,
            number => Some(Errno::from_raw_os_error(number)),
        })
    }

    /// Bytes of a stream that the outboard has and its peer has not acknowledged (`TIOCOUTQ`).
    ///
    /// # Errors
    /// `EBADF`: it is gone; `ENOPROTOOPT`: it is no stream.
    pub fn unsent(&self, handle: Handle) -> Result<usize> {
        let (mut value, name) = ([0; 4], OptionName { level: libc::SOL_SOCKET, name: UNSENT });
        self.option(handle, name, &mut value)?;
        Ok(u32::from_ne_bytes(value) as usize)
    }

    /// Memory for leases: the connection that it lives as long as, its key, its files.
    fn region(&self) -> Result<(OwnedFd, [u8; KEY_LEN], [OwnedFd; 2])> {
        let connection = self.connection()?;
        let mut answer = exchange(connection.as_fd(), &Request::Region, None)?;
        let Reply::Region(key) = answer.reply()? else { return Err(Errno::PROTO) };
        match std::mem::take(&mut answer.files) {
            [Some(rings), Some(blocks)] => Ok((connection, key, [rings, blocks])),
            _ => Err(Errno::MFILE),
        }
    }

    /// A lease in the region with that key.
    fn lease(&self, handle: Handle, key: [u8; KEY_LEN]) -> Result<usize> {
        match self.call(&Request::Lease(handle, key), None)?.reply()? {
            Reply::Leased(slot) if (slot as usize) < crate::region::SLOTS => Ok(slot as usize),
            _ => Err(Errno::PROTO),
        }
    }

    fn done(&self, request: &Request<'_>, fd: Option<BorrowedFd<'_>>) -> Result<()> {
        match self.call(request, fd)?.reply()? {
            Reply::Done => Ok(()),
            _ => Err(Errno::PROTO),
        }
    }

    /// One request, and its answer.
    fn call(&self, request: &Request<'_>, fd: Option<BorrowedFd<'_>>) -> Result<Answer> {
        self.close_inherited();
        if fd.is_none()
            && let Some(answer) = self.commands.call(self, request)
        {
            return answer;
        }
        let Some(mut place) = self.connections.take() else {
            // All are in use: one for this call.
            return exchange(self.connection()?.as_fd(), request, fd);
        };
        if let Some(connection) = place.fd() {
            match exchange(connection, request, fd) {
                // The outboard that was at its other end is gone; there may be another.
                Err(Errno::NETDOWN) => drop(place.remove()),
                done => return done,
            }
        }
        place.put(self.connection()?).map_err(|_| Errno::NETDOWN)?;
        let Some(connection) = place.fd() else { return Err(Errno::NETDOWN) };
        let done = exchange(connection, request, fd);
        if matches!(done, Err(Errno::NETDOWN)) {
            drop(place.remove());
        }
        done
    }

    /// A new control connection, of a high number.
    fn connection(&self) -> Result<OwnedFd> {
        self.close_inherited();
        let (unix, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
        let socket = socket_with(unix, SocketType::SEQPACKET, flags, None)?;
        let socket = rustix::io::fcntl_dupfd_cloexec(&socket, numbers_from()).unwrap_or(socket);
        self.parents.note(socket.as_fd());
        loop {
            match connect(&socket, &self.place) {
                Ok(()) => return Ok(socket),
                Err(Errno::INTR) => {}
                Err(Errno::ACCESS | Errno::PERM) => return Err(Errno::ACCESS),
                Err(_) => return Err(Errno::NETDOWN),
            }
        }
    }
}

/// Returns the lowest number for descriptors that the program did not open.
fn numbers_from() -> i32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = limit.unwrap_or(u64::MAX).saturating_sub(NUMBERS);
    most.min(NUMBERS_FROM) as i32
}

/// Sends a request and waits for its answer. `ENETDOWN`: nobody is there any more.
fn exchange(
    connection: BorrowedFd<'_>,
    request: &Request<'_>,
    fd: Option<BorrowedFd<'_>>,
) -> Result<Answer> {
    let message = request.emit();
    let mut answer = Answer { bytes: [0; MESSAGE_MAX], len: 0, files: [None, None] };
    let fds = fd.map(|fd| [fd]);
    let (mut names_itself, mut was_refused) = (true, false);
    loop {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1), ScmCredentials(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fds) = &fds {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        if names_itself {
            // The kernel would attach the real user. Rights to bind are those of the effective one, as on kernel sockets.
            let (uid, gid) = effective_ids();
            control.push(SendAncillaryMessage::ScmCredentials(UCred {
                pid: rustix::process::getpid(),
                uid: Uid::from_raw_unchecked(uid),
                gid: Gid::from_raw_unchecked(gid),
            }));
        }
        match sendmsg(connection, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            // A user that its namespace does not map, or that may not ask, has no number to name itself by: the kernel attaches what it knows.
            Err(Errno::INVAL) if names_itself => names_itself = false,
            // A descriptor is taken from who was let in: he was once he is answered.
            Err(Errno::PERM) if fd.is_some() && !was_refused => {
                was_refused = true;
                exchange(connection, &Request::Hello { version: VERSION }, None)?;
            }
            // Who is not let in is told why, and not asked.
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => break,
            Err(error) => return Err(error),
        }
    }
    let mut is_reset = false;
    loop {
        // A call is not left half done: who comes back after a signal would find another's answer.
        match receive(connection, &mut answer.bytes, RecvFlags::CMSG_CLOEXEC) {
            // That the request was not read is told before what was said to who came.
            Err(Errno::CONNRESET) if !is_reset => is_reset = true,
            Ok((0, _)) | Err(Errno::CONNRESET) => return Err(Errno::NETDOWN),
            Ok((len, files)) => {
                (answer.len, answer.files) = (len, files);
                return Ok(answer);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives a message, and the descriptors that are with it.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, [Option<OwnedFd>; 2])> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    // Dropping the rest of the iterator closes what else came.
    let files = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => Some([files.next(), files.next()]),
        _ => None,
    });
    Ok((message.bytes, files.unwrap_or_default()))
}
