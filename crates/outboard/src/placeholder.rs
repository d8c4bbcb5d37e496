//! The pair of Unix sockets that stands for a socket: `P`, which the application has, and `Q`, which the outboard keeps.
//! What the outboard does with `Q` is what `poll` and `epoll` show at `P`:
//!
//! | wanted at P | done at Q |
//! |---|---|
//! | readable | bytes are sent |
//! | not writable yet | `P` has the least `SO_SNDBUF` and was filled with [`STUFFING`] bytes ([`stuff`]); they are read when there is room |
//! | the peer has finished | `shutdown(WR)` |
//! | refused, reset | it is closed; with the stuffing unread `SO_ERROR` is `ECONNRESET`, as TCP's |
//!
//! And what the application does with `P` is what `Q` shows: `shutdown(WR)` an end behind the last byte, the last close,
//! wherever and however, a hangup; and an error where something was left unread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_send_buffer_size, socket_cookie};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, connect,
    getpeername, listen, send, socket_with, socketpair,
};

use crate::protocol::{Kind, WAITING_PREFIX, name, parse_name};

/// Bytes that keep `P` from being writable.
pub const STUFFING: usize = 1024;
/// `SO_SNDBUF` of `P` once it is connected; the kernel doubles it.
const SEND_BUFFER: usize = 104 << 10;
/// `SO_SNDBUF` of both ends where whole messages wait; the kernel doubles it, too.
const MESSAGES_BUFFER: usize = 208 << 10;
/// `SO_SNDBUF` of one that is stuffed is the least that the kernel gives, below this.
const STUFFED_BELOW: usize = 16 << 10;

/// A pair, and what the kernel calls `P` as long as it lives.
#[derive(Debug)]
pub struct Pair {
    /// The application's.
    pub p: OwnedFd,
    /// Ours; it does not wait.
    pub q: OwnedFd,
    /// `SO_COOKIE` of `P`.
    pub cookie: u64,
}

/// Makes a pair for a socket; [`name_it`] says of which outboard.
///
/// # Errors
/// No descriptor is left.
pub fn pair(kind: Kind) -> Result<Pair, Errno> {
    let unix = match kind {
        Kind::Stream => SocketType::STREAM,
        // A pair of datagram sockets shows no hangup.
        Kind::Datagram | Kind::Messages => SocketType::SEQPACKET,
    };
    let (p, q) = socketpair(AddressFamily::UNIX, unix, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&q, true)?;
    // Who sent a descriptor there would say when we close it, and how long that takes.
    let _ = fusewire_device::pass_rights(q.as_fd(), false);
    if kind == Kind::Messages {
        // One message on its way is followed by the next.
        set_socket_send_buffer_size(&p, MESSAGES_BUFFER)?;
        set_socket_send_buffer_size(&q, MESSAGES_BUFFER)?;
    }
    let cookie = socket_cookie(&p)?;
    Ok(Pair { p, q, cookie })
}

/// Lets `P` say by `getpeername` that it is a placeholder of this outboard's. Names are everybody's to take, so that each has
/// a part that nobody can know before; a `P` without one is a socket of the kernel's to who has it from elsewhere.
pub fn name_it(q: &OwnedFd, instance: u64) {
    /// Names that are tried.
    const TRIES: usize = 4;
    for _ in 0..TRIES {
        let Ok(random) = fusewire_device::random() else { return };
        let name = name(instance, u64::from_le_bytes(random));
        let bound = SocketAddrUnix::new_abstract_name(&name).and_then(|name| bind(q, &name));
        if bound != Err(Errno::ADDRINUSE) {
            return;
        }
    }
}

/// The outboard that a descriptor says it is a placeholder of, and the part that tells it from others. Anybody can take such
/// a name: it is shown to be true by an attach.
pub fn identity(p: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let peer = getpeername(p).ok()??;
    let peer = SocketAddrUnix::try_from(peer).ok()?;
    parse_name(peer.abstract_name()?)
}

/// Makes a socket that takes the place of a placeholder whose outboard is gone: it shows nothing, neither something to read nor
/// room, until the next outboard wakes it ([`wake_waiting`]). It can be read then, until [`settle_waiting`].
///
/// # Errors
/// No descriptor is left.
pub fn waiting() -> Result<OwnedFd, Errno> {
    let (unix, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = socket_with(unix, SocketType::STREAM, flags, None)?;
    let random: [u8; 8] = fusewire_device::random().map_err(|_| Errno::NOMEM)?;
    let mut name = [0; WAITING_PREFIX.len() + 16];
    let (prefix, digits) = name.split_at_mut(WAITING_PREFIX.len());
    prefix.copy_from_slice(WAITING_PREFIX);
    for (digit, nibble) in digits.iter_mut().zip(random.iter().flat_map(|b| [b >> 4, b & 15])) {
        *digit = b"0123456789abcdef"[usize::from(nibble)];
    }
    bind(&socket, &SocketAddrUnix::new_abstract_name(&name)?)?;
    listen(&socket, 1)?;
    Ok(socket)
}

/// Takes back what woke a [`waiting`] socket: it shows nothing again.
pub fn settle_waiting(socket: BorrowedFd<'_>) {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    while poll(&mut fds, Some(&now)) == Ok(1) && accept(socket).is_ok() {}
}

/// Wakes all sockets of this network namespace that wait for an outboard.
///
/// # Errors
/// `/proc/net/unix` cannot be read.
pub fn wake_waiting() -> std::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    for line in std::fs::read_to_string("/proc/net/unix")?.lines() {
        let Some(name) = line.rsplit(' ').next().and_then(|name| name.strip_prefix('@')) else {
            continue;
        };
        // One whose queue is full was woken before.
        if name.as_bytes().starts_with(WAITING_PREFIX)
            && let Ok(place) = SocketAddrUnix::new_abstract_name(name.as_bytes())
            && let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        {
            let _ = connect(&socket, &place);
        }
    }
    Ok(())
}

/// Fills `P` so that it is not writable; gives how many bytes are to be read at `Q` before it is.
///
/// # Errors
/// It is no socket, or cannot be sent by.
pub fn stuff(p: BorrowedFd<'_>) -> Result<usize, Errno> {
    narrow(p)?;
    send(p, &[0; STUFFING], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

/// Whether `P` was stuffed, and not widened since: a connection was begun, and nobody has seen that it is there.
pub fn is_stuffed(p: impl AsFd) -> bool {
    rustix::net::sockopt::socket_send_buffer_size(p).is_ok_and(|size| size < STUFFED_BELOW)
}

/// Longest message that goes through `P` while it is [narrow].
pub const NARROW_MAX: usize = 4096;

/// Little of what is sent at `P` waits in the kernel from now on: of a socket that has rings, whose room it is to show.
///
/// # Errors
/// It is no socket.
pub fn narrow(p: impl AsFd) -> Result<(), Errno> {
    set_socket_send_buffer_size(p, 0)
}

/// What is sent at `P` may wait in the kernel again, as before it was stuffed.
///
/// # Errors
/// It is no socket.
pub fn widen(p: impl AsFd) -> Result<(), Errno> {
    set_socket_send_buffer_size(p, SEND_BUFFER)
}

/// Memory that holds what was sent at this end and not taken at the other; 0 when all was.
///
/// # Errors
/// `EINVAL`: it is no socket.
pub fn untaken(end: BorrowedFd<'_>) -> Result<usize, Errno> {
    fusewire_device::unread_by_peer(end).map_err(|_| Errno::INVAL)
}

/// At `Q`: nobody has the other end any more, whether or not that was shown yet.
pub(crate) fn is_left(q: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(q, PollFlags::empty())];
    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    fds[0].revents().contains(PollFlags::HUP)
}

#[cfg(test)]
mod tests {
    use rustix::net::recv;

    use super::*;

    fn shown(p: &OwnedFd) -> PollFlags {
        let wanted = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
        let mut fds = [PollFd::new(p, wanted)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        fds[0].revents()
    }

    fn stream() -> Pair {
        pair(Kind::Stream).unwrap()
    }

    #[test]
    fn a_placeholder_says_of_whom_it_is() {
        let (instance, first, second) =
            (0xfeed_0000 + u64::from(std::process::id()), stream(), stream());
        name_it(&first.q, instance);
        name_it(&second.q, instance);
        let said = [&first, &second].map(|pair| identity(pair.p.as_fd()).unwrap());
        assert!(said.iter().all(|(of, _)| *of == instance));
        assert_ne!(said[0].1, said[1].1);
        assert_eq!(shown(&second.p), PollFlags::OUT);
        let (other, _end) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(identity(other.as_fd()), None);
    }

    #[test]
    fn a_waiting_socket_shows_nothing_until_it_is_woken() {
        let socket = waiting().unwrap();
        assert_eq!(shown(&socket), PollFlags::empty());
        wake_waiting().unwrap();
        assert_eq!(shown(&socket), PollFlags::IN);
        settle_waiting(socket.as_fd());
        assert_eq!(shown(&socket), PollFlags::empty());
    }

    #[test]
    fn it_is_writable_when_its_stuffing_was_read() {
        let Pair { p, q, .. } = stream();
        assert_eq!(shown(&p), PollFlags::OUT);
        let stuffed = stuff(p.as_fd()).unwrap();
        assert_eq!(shown(&p), PollFlags::empty());
        assert!(is_stuffed(&p));
        let (_, read) = recv(&q, &mut [0; 2 * STUFFING], rustix::net::RecvFlags::empty()).unwrap();
        assert_eq!((read, shown(&p)), (stuffed, PollFlags::OUT));
        widen(&p).unwrap();
        assert!(!is_stuffed(&p));
        assert!(send(&p, &vec![0; 100_000], SendFlags::DONTWAIT).unwrap() == 100_000);
    }

    #[test]
    fn a_refusal_looks_as_tcps_does() {
        let Pair { p, q, .. } = stream();
        stuff(p.as_fd()).unwrap();
        drop(q);
        let all =
            PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP | PollFlags::ERR | PollFlags::HUP;
        assert_eq!(shown(&p), all);
        let error = rustix::net::sockopt::socket_error(&p).unwrap();
        assert_eq!(error, Err(Errno::CONNRESET));
    }

    #[test]
    fn datagrams_keep_their_ends_and_show_the_last_close() {
        let Pair { p, q, .. } = pair(Kind::Datagram).unwrap();
        send(&p, b"one", SendFlags::empty()).unwrap();
        send(&p, b"two", SendFlags::empty()).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(recv(&q, &mut bytes, rustix::net::RecvFlags::empty()).unwrap().1, 3);
        drop(p);
        assert!(shown(&q).contains(PollFlags::HUP));
    }
}
