//! Names, options and connections. What is `None` is the kernel's, which the caller asks then by the same call.
#![forbid(unsafe_code)]

mod renewal;

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use fusewire_outboard::client::{self, Result};
use fusewire_outboard::protocol::{Family, Kind, OptionName, SocketType, VALUE_MAX};
use fusewire_outboard::rules::{Owner, Purpose};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags};
use rustix::net::{RecvFlags, netdevice};

pub use renewal::adopt;
use renewal::{inherit, put, renew};

use crate::bytes;
use crate::library::{Library, commanded, library, plain};
use crate::lost;
use crate::sockaddr::{self, Laid};
use crate::sys;
use crate::table::{Socket, stage};

/// Options that a socket of the kernel's gets, too, when it takes the place of ours; at most 64.
const REPLAYED: &[(i32, i32)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
    (libc::IPPROTO_IP, libc::IP_MINTTL),
    (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_PKTINFO),
    (libc::IPPROTO_IP, libc::IP_RECVTTL),
    (libc::IPPROTO_IP, libc::IP_RECVTOS),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IP, libc::IP_FREEBIND),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_IF),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG),
    (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT),
    (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
    (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
];
/// Options of which twice is told what was set.
const DOUBLED: [(i32, i32); 2] =
    [(libc::SOL_SOCKET, libc::SO_RCVBUF), (libc::SOL_SOCKET, libc::SO_SNDBUF)];
/// Options whose meaning the placeholder has: how long calls on it wait, and for how much.
const OF_PLACEHOLDER: [i32; 3] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO, libc::SO_RCVLOWAT];
/// The option by which a socket has an interface.
const SCOPE: (i32, i32) = (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX);
/// `IPV6_MINHOPCOUNT` of Linux.
const IPV6_MINHOPCOUNT: i32 = 73;
/// `SO_COOKIE` of Linux, of the placeholder no other socket's either.
const SO_COOKIE: i32 = 57;

/// `socket`
pub fn open(domain: i32, kind: i32, protocol: i32) -> Option<Result<i32>> {
    let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let family = match domain {
        libc::AF_INET => Family::V4,
        libc::AF_INET6 => Family::V6,
        _ => return None,
    };
    let kind = match (kind & !flags, protocol) {
        // Where its peer has it not, MPTCP is TCP.
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP | libc::IPPROTO_MPTCP) => Kind::Stream,
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Datagram,
        _ => return None,
    };
    let library = library().filter(|library| !library.is_kernel(kind) && !library.is_confined())?;
    let of = SocketType { family, kind };
    let made = library.socket(of).and_then(|(p, handle)| {
        let cookie = rustix::net::sockopt::socket_cookie(&p)?;
        set_flags(&p, flags & libc::SOCK_NONBLOCK != 0, flags & libc::SOCK_CLOEXEC != 0)?;
        Ok((p, Socket::new(-1, handle, of, cookie)))
    });
    match made {
        Ok((p, socket)) if library.table.has(p.as_raw_fd()) => {
            let number = p.into_raw_fd();
            library.learn(&Socket { number, ..socket });
            Some(Ok(number))
        }
        // Of too high a number.
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Flags of a placeholder, which closes at `exec` so far and waits.
fn set_flags(p: &OwnedFd, is_nonblocking: bool, with_cloexec: bool) -> Result<()> {
    if is_nonblocking {
        rustix::io::ioctl_fionbio(p, true)?;
    }
    if !with_cloexec {
        rustix::io::fcntl_setfd(p, FdFlags::empty())?;
    }
    Ok(())
}

/// Whether calls on a socket do not wait.
pub fn is_nonblocking(p: BorrowedFd<'_>) -> Result<bool> {
    Ok(rustix::fs::fcntl_getfl(p)?.contains(OFlags::NONBLOCK))
}

/// `bind`
pub fn bind(number: i32, address: &[u8]) -> Option<Result<()>> {
    let (library, mut socket) = commanded(number)?;
    let local = match sockaddr::parse(socket.of.family, address) {
        // Linux takes AF_UNSPEC for AF_INET where the address is nobody's.
        Ok(None) if socket.of.family == Family::V4 => {
            let mut same = [0; 16];
            let len = address.len().min(16);
            same[..len].copy_from_slice(&address[..len]);
            same[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            match sockaddr::parse(Family::V4, &same[..len]) {
                Ok(Some(local)) if local.ip().is_unspecified() => local,
                _ => return Some(Err(Errno::AFNOSUPPORT)),
            }
        }
        Ok(Some(local)) => local,
        Ok(None) => return Some(Err(Errno::AFNOSUPPORT)),
        Err(error) => return Some(Err(error)),
    };
    if is_without_zone(library, &socket, local) {
        return Some(Err(Errno::INVAL));
    }
    let is_fresh = !socket.is(stage::BOUND | stage::CONNECTED | stage::CONNECTING);
    let owner = || match is_of_another_version(library, &socket, local) {
        true => Owner::Kernel,
        false => library.owner(Purpose::Bind, socket.of.kind, local),
    };
    if is_fresh && owner() == Owner::Kernel {
        return give_up(library, &socket);
    }
    let bound = library.said(&socket, library.client.bind(socket.handle, local));
    if bound.is_ok() {
        let any = if local.port() == 0 { stage::ANY_PORT } else { 0 };
        library.table.change(&mut socket, stage::BOUND | any, 0);
    }
    Some(bound)
}

/// Whoever asks there, asks by a version of IP of which the outboard has no address.
fn is_of_another_version(library: &Library, socket: &Socket, local: SocketAddr) -> bool {
    let name = OptionName { level: libc::IPPROTO_IPV6, name: libc::IPV6_V6ONLY };
    let is_v6_alone = || {
        let mut value = [0; 4];
        library.client.option(socket.handle, name, &mut value).is_ok() && value != [0; 4]
    };
    local.ip().is_unspecified()
        && !library.has_version_of(local.ip())
        && (local.is_ipv4() || is_v6_alone())
}

/// `listen`
pub fn listen(number: i32, backlog: i32) -> Option<Result<()>> {
    let (library, mut socket) = commanded(number)?;
    // What is negative is much, as a number without a sign.
    let done = library.said(&socket, library.client.listen(socket.handle, backlog as u32));
    if done.is_ok() {
        library.table.change(&mut socket, stage::LISTENING, 0);
    }
    Some(done)
}

/// `accept4`: the number of the connection, and its peer. `returns`: with `EAGAIN` in place of waiting.
pub fn accept(number: i32, flags: i32, returns: bool) -> Option<Result<(i32, Laid)>> {
    let (library, mut listener) = commanded(number)?;
    let known = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    if flags & !known != 0 {
        return Some(Err(Errno::INVAL));
    }
    if !listener.is_stream() {
        return Some(Err(Errno::OPNOTSUPP));
    }
    if !listener.is(stage::LISTENING) {
        // Another process may have told it to.
        let now = library.stage(&listener);
        library.table.change(&mut listener, now, 0);
        if !listener.is(stage::LISTENING) {
            return Some(Err(Errno::INVAL));
        }
    }
    let with_cloexec = flags & libc::SOCK_CLOEXEC != 0;
    let mut how = RecvFlags::empty();
    how.set(RecvFlags::CMSG_CLOEXEC, with_cloexec);
    how.set(RecvFlags::DONTWAIT, returns);
    let accepted = loop {
        if listener.is(stage::LOST) {
            listener = match lost::await_next(library, &listener, returns) {
                Ok(next) => next,
                Err(error) => return Some(Err(error)),
            };
        }
        listener = match client::accept_with(listener.p(), how) {
            Ok(accepted) => break accepted,
            Err(Errno::NETDOWN) if !library.client.is_gone(listener.p()) => {
                // The listener was shut down.
                return Some(Err(Errno::INVAL));
            }
            Err(Errno::NETDOWN) => match lost::lose(library, &listener) {
                Ok(next) => next,
                Err(error) => return Some(Err(error)),
            },
            Err(error) => return Some(Err(error)),
        };
    };
    let done = (|| {
        let cookie = rustix::net::sockopt::socket_cookie(&accepted.p)?;
        set_flags(&accepted.p, flags & libc::SOCK_NONBLOCK != 0, true)?;
        if listener.is(stage::TIMED) {
            inherit(listener.p(), &accepted.p)?;
        }
        let number = accepted.p.into_raw_fd();
        let addresses = Some((accepted.local, accepted.peer));
        let socket = Socket::new(number, accepted.handle, listener.of, cookie);
        library.learn(&Socket { stage: stage::CONNECTED, addresses, ..socket });
        Ok((number, sockaddr::emit(listener.of.family, accepted.peer)))
    })();
    Some(done)
}

/// `connect`. `returns`: with `EINPROGRESS` in place of waiting; [`connected`] ends it then.
pub fn connect(number: i32, address: &[u8], returns: bool) -> Option<Result<()>> {
    let (library, mut socket) = commanded(number)?;
    let remote = match sockaddr::parse(socket.of.family, address) {
        Ok(remote) => remote,
        Err(error) => return Some(Err(error)),
    };
    let is_used = stage::CONNECTED | stage::CONNECTING | stage::LISTENING;
    if let Some(remote) = remote
        && !(socket.is_stream() && socket.is(is_used))
        && library.owner(Purpose::Connect, socket.of.kind, remote) == Owner::Kernel
    {
        return give_up(library, &socket);
    }
    if let Some(remote) = remote
        && !(socket.is_stream() && socket.is(is_used))
        && let Some(error) = nowhere(library, &socket, remote)
    {
        return Some(Err(error));
    }
    Some(match socket.is_stream() {
        true => connect_stream(library, &mut socket, remote, returns),
        false => {
            let done = library.client.connect(socket.p(), socket.handle, remote);
            let done = library.said(&socket, done);
            if done.is_ok() {
                let all = stage::CONNECTED | stage::TO_V4;
                let set = remote.map_or(0, |remote| stage::of_peer(remote.ip()));
                let clear = all & !set;
                library.table.change(&mut socket, set, clear);
            }
            done
        }
    })
}

/// Why nobody is asked there: of a stream all of a network, a group, or port 0; what needs an interface and has none.
fn nowhere(library: &Library, socket: &Socket, remote: SocketAddr) -> Option<Errno> {
    let (ip, is_for_all) = (remote.ip(), library.is_for_all(remote.ip()));
    match remote {
        _ if socket.is_stream() && (ip.is_multicast() || is_for_all) => Some(Errno::NETUNREACH),
        remote if is_without_zone(library, socket, remote) => Some(Errno::INVAL),
        _ if socket.is_stream() => (remote.port() == 0).then_some(Errno::CONNREFUSED),
        _ => (is_for_all && !may_send_to_all(library, socket)).then_some(Errno::ACCESS),
    }
}

/// A link-local address without its zone, of a socket that has none either (RFC 4007).
fn is_without_zone(library: &Library, socket: &Socket, address: SocketAddr) -> bool {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            !was_set(library, socket, SCOPE)
        }
        _ => false,
    }
}

/// The option was set of a socket in this process.
fn was_set(library: &Library, socket: &Socket, option: (i32, i32)) -> bool {
    let bit = REPLAYED.iter().position(|&known| known == option);
    bit.is_some_and(|bit| library.table.options(socket.number) & 1 << bit != 0)
}

/// `SO_BROADCAST` is on.
pub fn may_send_to_all(library: &Library, socket: &Socket) -> bool {
    let (mut value, option) = ([0; 4], (libc::SOL_SOCKET, libc::SO_BROADCAST));
    let name = OptionName { level: option.0, name: option.1 };
    library.client.option(socket.handle, name, &mut value).is_err() || value != [0; 4]
}

fn connect_stream(
    library: &Library,
    socket: &mut Socket,
    remote: Option<SocketAddr>,
    returns: bool,
) -> Result<()> {
    if remote.is_none() {
        let is_fresh =
            !socket.is(stage::CONNECTED | stage::CONNECTING | stage::LISTENING | stage::DEAD);
        // A new one in its place, with nobody at its other end.
        return match is_fresh {
            true => Ok(()),
            false => {
                library.give_up(socket);
                renew(library, socket).map(drop)
            }
        };
    }
    if socket.is(stage::DEAD) {
        *socket = renew(library, socket)?;
    }
    let begun = library.client.connect(socket.p(), socket.handle, remote);
    let is_waiting = !is_nonblocking(socket.p())?;
    match begun {
        Ok(()) => library.table.change(socket, stage::CONNECTING | stage::UNTOLD, 0),
        Err(Errno::ALREADY) if is_waiting => {}
        // It was begun, and nobody has asked what became of it.
        Err(Errno::ISCONN | Errno::BADF) if socket.is(stage::CONNECTING) => {
            return settle(library, socket).map(|_| library.table.change(socket, 0, stage::UNTOLD));
        }
        // Who begins to connect without waiting calls once more to be told.
        Err(Errno::ISCONN) if socket.is(stage::UNTOLD) => {
            library.table.change(socket, 0, stage::UNTOLD);
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    match is_waiting && !returns {
        true => end_connect(library, socket),
        false => Err(Errno::INPROGRESS),
    }
}

/// The end of a `connect` that has returned in place of waiting.
pub fn connected(number: i32) -> Option<Result<()>> {
    let (library, mut socket) = commanded(number)?;
    Some(end_connect(library, &mut socket))
}

fn end_connect(library: &Library, socket: &mut Socket) -> Result<()> {
    wait(library, socket).map(|()| library.table.change(socket, 0, stage::UNTOLD))
}

/// Waits for a connection that was begun.
pub fn wait(library: &Library, socket: &mut Socket) -> Result<()> {
    let done = library.client.connected(socket.p(), socket.handle);
    match done {
        Ok(()) => library.table.change(socket, stage::CONNECTED, stage::CONNECTING),
        Err(Errno::INTR | Errno::INPROGRESS) => {}
        Err(_) => library.table.change(socket, stage::DEAD, stage::CONNECTING),
    }
    done
}

/// What became of a connection that was begun; false while nothing did.
///
/// # Errors
/// Why there is none.
pub fn settle(library: &Library, socket: &mut Socket) -> Result<bool> {
    match shown(socket.p(), PollFlags::OUT)?.is_empty() {
        true => Ok(false),
        false => wait(library, socket).map(|()| true),
    }
}

/// What a placeholder shows at once.
pub fn shown(p: BorrowedFd<'_>, wanted: PollFlags) -> Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(p, wanted)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents())
}

/// `shutdown`
pub fn shutdown(number: i32, how: i32) -> Option<Result<()>> {
    use rustix::net::Shutdown;
    let (library, mut socket) = commanded(number)?;
    let how = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return Some(Err(Errno::INVAL)),
    };
    let is_used = stage::CONNECTED | stage::CONNECTING | stage::LISTENING;
    if !socket.is(is_used) {
        let now = library.stage(&socket);
        library.table.change(&mut socket, now, 0);
    }
    if socket.is_stream()
        && socket.is(stage::CONNECTING)
        && shown(socket.p(), PollFlags::OUT).is_ok_and(|shown| shown.is_empty())
    {
        match library.client.connect(socket.p(), socket.handle, None) {
            // The handshake has ended meanwhile.
            Err(Errno::ISCONN | Errno::BADF) => {}
            // The handshake ends: threads that wait for the connection get `ECONNRESET`.
            done => return Some(library.said(&socket, done)),
        }
    }
    if how != Shutdown::Read
        && socket.is(stage::CONNECTED)
        && socket.is_stream()
        && !socket.is(stage::NAMED | stage::NOTED)
        && let Ok(local) = library.client.local(socket.handle)
    {
        // When the peer has finished too, the outboard has forgotten it.
        library.table.note_local(&mut socket, local);
    }
    let is_over = socket.is_stream()
        && socket.is(stage::CONNECTED)
        // Otherwise it is by itself that its placeholder shows so.
        && !(socket.is(stage::SHUT_READ) && socket.is(stage::SHUT_WRITE))
        && shown(socket.p(), PollFlags::empty()).is_ok_and(|shown| shown.contains(PollFlags::HUP));
    let done = match (socket.is(is_used), socket.is_stream()) {
        (false, _) => Err(Errno::NOTCONN),
        _ if is_over => Err(Errno::NOTCONN),
        (true, true) => match library.rings(&socket) {
            Some((rings, way)) => rings.shutdown(socket.p(), way, how),
            None => rustix::net::shutdown(socket.p(), how),
        },
        // To shut down the other direction is to leave the socket, to the outboard.
        (true, false) if how == Shutdown::Write => Ok(()),
        // Datagrams that came before are read first: see `bytes::receive_datagram`.
        (true, false) if bytes::has_datagram(library, &socket) => Ok(()),
        (true, false) => {
            library.give_up(&socket);
            rustix::net::shutdown(socket.p(), Shutdown::Read)
        }
    };
    let ended = match how {
        Shutdown::Read => stage::SHUT_READ,
        Shutdown::Write => stage::SHUT_WRITE,
        Shutdown::Both => stage::SHUT_READ | stage::SHUT_WRITE,
    };
    if done.is_ok() {
        library.table.change(&mut socket, ended, 0);
    }
    Some(done)
}

/// Both addresses of a stream about which nobody may be asked.
fn plain_addresses(number: i32) -> Option<(Socket, (SocketAddr, SocketAddr))> {
    let socket = plain(number)?;
    Some((socket, socket.addresses?))
}

/// `getsockname`
pub fn local(number: i32) -> Option<Result<Laid>> {
    if let Some((socket, (local, _))) = plain_addresses(number) {
        return Some(Ok(sockaddr::emit(socket.of.family, local)));
    }
    let (library, socket) = commanded(number)?;
    let local = match socket.addresses {
        Some((local, _)) => Ok(local),
        None => match library.said(&socket, library.client.local(socket.handle)) {
            // It is over, and forgotten.
            Err(Errno::BADF) if socket.is_stream() => {
                let any = socket.of.family.unspecified();
                Ok(library.table.noted_local(&socket).unwrap_or(any))
            }
            local => local,
        },
    };
    Some(local.map(|local| sockaddr::emit(socket.of.family, local)))
}

/// `getpeername`
pub fn peer(number: i32) -> Option<Result<Laid>> {
    if let Some((socket, (_, peer))) = plain_addresses(number) {
        return Some(Ok(sockaddr::emit(socket.of.family, peer)));
    }
    let (library, socket) = commanded(number)?;
    let peer = match socket.addresses {
        Some((_, peer)) => Ok(peer),
        // One that is not there yet, or was.
        None if socket.is_stream()
            && !socket.is(stage::CONNECTED)
            && is_connecting(library, socket) =>
        {
            Err(Errno::NOTCONN)
        }
        None => library.client.peer(socket.handle).map_err(|error| match error {
            Errno::BADF => Errno::NOTCONN,
            // So is one whose outboard is gone.
            Errno::NETDOWN if socket.is_stream() && socket.is(stage::CONNECTED) => Errno::NOTCONN,
            error => error,
        }),
    };
    Some(peer.map(|peer| sockaddr::emit(socket.of.family, peer)))
}

fn is_connecting(library: &Library, mut socket: Socket) -> bool {
    socket.is(stage::CONNECTING) && !matches!(settle(library, &mut socket), Ok(true))
}

/// `setsockopt`
pub fn set_option(number: i32, level: i32, name: i32, value: &[u8]) -> Option<Result<()>> {
    let (library, mut socket) = commanded(number)?;
    if level == libc::SOL_SOCKET && OF_PLACEHOLDER.contains(&name) {
        let done = sys::set_option(socket.p(), level, name, value);
        if done.is_ok() {
            library.table.change(&mut socket, stage::TIMED, 0);
        }
        return Some(done);
    }
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CORK)
        && let Some(value) = value.first_chunk()
        && let Some((rings, way)) = library.rings(&socket).filter(|_| socket.is_stream())
        && rings.cork(way, i32::from_ne_bytes(*value) != 0)
    {
        return Some(Ok(()));
    }
    let (mut name, mut value, index) = (name, value, device(&socket, level, name, value));
    if let Some(index) = &index {
        name = libc::SO_BINDTOIFINDEX;
        value = match index {
            Ok(index) => index,
            Err(error) => return Some(Err(*error)),
        };
    }
    let value = &value[..value.len().min(VALUE_MAX)];
    let done = library.client.set_option(socket.handle, OptionName { level, name }, value);
    let done = library.said(&socket, done);
    let replayed = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => (level, libc::SO_RCVBUF),
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => (level, libc::SO_SNDBUF),
        option => option,
    };
    let bit = REPLAYED.iter().position(|&known| known == replayed);
    if let (Ok(()), Some(bit)) = (done, bit) {
        library.table.add_option(number, bit as u32);
    }
    Some(match done {
        // A connection that is over and forgotten takes any that there is.
        Err(Errno::BADF | Errno::NETDOWN)
            if socket.is_stream() && socket.is(stage::CONNECTED | stage::DEAD) && bit.is_some() =>
        {
            Ok(())
        }
        Err(Errno::BADF) => Err(Errno::NOPROTOOPT),
        done => done,
    })
}

/// `SO_BINDTODEVICE`: the number of the interface that is named, as an option's value; `None`: it is another option.
fn device(socket: &Socket, level: i32, name: i32, value: &[u8]) -> Option<Result<[u8; 4]>> {
    if (level, name) != (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) {
        return None;
    }
    let name = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
    if name.is_empty() {
        return Some(Ok([0; 4]));
    }
    let index = std::str::from_utf8(name).map_err(|_| Errno::NODEV);
    let index = index.and_then(|name| netdevice::name_to_index(socket.p(), name));
    Some(index.map(u32::to_ne_bytes))
}

/// The other way: the interface's name, ended by zero; nothing, where the socket is bound to none.
fn device_name(library: &Library, socket: &Socket, value: &mut [u8]) -> Result<usize> {
    let (mut index, level) = ([0; 4], libc::SOL_SOCKET);
    let option = OptionName { level, name: libc::SO_BINDTOIFINDEX };
    library.client.option(socket.handle, option, &mut index)?;
    if index == [0; 4] {
        return Ok(0);
    }
    let name = netdevice::index_to_name_inlined(socket.p(), u32::from_ne_bytes(index))?;
    let len = name.as_bytes().len();
    let place = value.get_mut(..=len).ok_or(Errno::INVAL)?;
    place[..len].copy_from_slice(name.as_bytes());
    place[len] = 0;
    Ok(len + 1)
}

/// `getsockopt`: fills the front of `value`, and says how much.
pub fn option(number: i32, level: i32, name: i32, value: &mut [u8]) -> Option<Result<usize>> {
    let (library, mut socket) = commanded(number)?;
    if level == libc::SOL_SOCKET && (OF_PLACEHOLDER.contains(&name) || name == SO_COOKIE) {
        return Some(sys::option(socket.p(), level, name, value));
    }
    if (level, name) == (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) {
        return Some(device_name(library, &socket, value));
    }
    let of = socket.of;
    let rings = library.rings(&socket).filter(|_| socket.is_stream());
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO)
        && let Some(len) = rings.and_then(|(rings, way)| rings.tcp_info(way, value))
    {
        return Some(Ok(len.min(value.len())));
    }
    let corked = rings.and_then(|(rings, way)| rings.is_corked(way));
    let known = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_TYPE) if socket.is_stream() => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => sockaddr::domain(of.family),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) if socket.is_stream() => libc::IPPROTO_TCP,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_UDP,
        (libc::IPPROTO_TCP, libc::TCP_CORK) if corked.is_some() => i32::from(corked == Some(true)),
        (libc::SOL_SOCKET, libc::SO_ERROR) => match error(library, &mut socket) {
            Ok(number) => number,
            Err(error) => return Some(Err(error)),
        },
        _ => {
            let option = OptionName { level, name };
            let found = library.client.option(socket.handle, option, value);
            let found = match library.said(&socket, found) {
                Err(Errno::BADF) if socket.is_stream() => {
                    forgotten(library, &socket, option, value)
                }
                found => found,
            };
            return Some(found.map(|len| len.min(value.len())));
        }
    };
    let bytes = known.to_ne_bytes();
    let len = bytes.len().min(value.len());
    value[..len].copy_from_slice(&bytes[..len]);
    Some(Ok(len))
}

/// An option of a connection that is over and forgotten: what a new socket has, and what was on is.
fn forgotten(
    library: &Library,
    socket: &Socket,
    option: OptionName,
    value: &mut [u8],
) -> Result<usize> {
    let (_p, fresh) = library.socket(socket.of)?;
    let len = library.client.option(fresh, option, value)?;
    let is_set = was_set(library, socket, (option.level, option.name));
    if let (true, Some(int)) = (is_set && len == 4, value.first_chunk_mut::<4>())
        && *int == [0; 4]
    {
        *int = 1i32.to_ne_bytes();
    }
    Ok(len)
}

/// `SO_ERROR`
fn error(library: &Library, socket: &mut Socket) -> Result<i32> {
    if socket.is(stage::CONNECTING) {
        return Ok(settle(library, socket).err().map_or(0, Errno::raw_os_error));
    }
    let found = match library.rings(socket).filter(|_| !socket.is_stream()) {
        Some((rings, way)) => rings.take_error(&library.client, (socket.p(), socket.handle, way)),
        None if socket.is_stream() => library.client.error(socket.handle),
        None => library.client.take_error((socket.p(), socket.handle)),
    };
    match library.said(socket, found) {
        Err(Errno::NETDOWN) if socket.is_stream() => {
            Ok(library.ended(socket).map_or(0, Errno::raw_os_error))
        }
        Ok(error) => Ok(error.map_or(0, Errno::raw_os_error)),
        // It is long over, and forgotten.
        Err(Errno::BADF) => Ok(0),
        Err(error) => Ok(error.raw_os_error()),
    }
}

/// Each option that was set of a socket, with its value.
fn replayed(library: &Library, socket: &Socket, mut set: impl FnMut(OptionName, &[u8])) {
    let known = library.table.options(socket.number);
    for (bit, &(level, name)) in REPLAYED.iter().enumerate() {
        let mut value = [0; VALUE_MAX];
        let option = OptionName { level, name };
        if known & 1 << bit != 0
            && let Ok(len) = library.client.option(socket.handle, option, &mut value)
        {
            // One that was refused for its length is as a new socket has it, which is told once.
            let mut new = [0; 4];
            if DOUBLED.contains(&(level, name))
                && let Some(told) = value.first_chunk_mut()
                && (forgotten(library, socket, option, &mut new).is_err() || new != *told)
            {
                *told = (i32::from_ne_bytes(*told) / 2).to_ne_bytes();
            }
            set(option, &value[..len.min(VALUE_MAX)]);
        }
    }
}

/// Leaves a socket to the kernel: `None`, and the call is its.
pub fn give_up<T>(library: &Library, socket: &Socket) -> Option<Result<T>> {
    replace(library, socket).err().map(Err)
}

/// Puts a socket of the kernel's in the place of ours: with its options, its address, and watched as it was.
fn replace(library: &Library, socket: &Socket) -> Result<()> {
    let of = socket.of;
    let kind = if socket.is_stream() { libc::SOCK_STREAM } else { libc::SOCK_DGRAM };
    let new = sys::socket(sockaddr::domain(of.family), kind | libc::SOCK_CLOEXEC, 0)?;
    replayed(library, socket, |OptionName { level, name }, value| {
        // What the kernel would have refused, it refuses without anybody to tell.
        let _ = sys::set_option(&new, level, name, value);
    });
    let mut unbound = None;
    if socket.is(stage::BOUND) {
        let local = library.client.local(socket.handle)?;
        let bind = |local| sys::bind(new.as_fd(), &sockaddr::emit(of.family, local));
        match bind(local) {
            // Beside the kernel an outboard has its ports there.
            Err(Errno::ADDRINUSE) if socket.is(stage::ANY_PORT) => {
                bind(SocketAddr::new(local.ip(), 0))?;
            }
            Err(Errno::ADDRINUSE) => unbound = Some(local),
            bound => bound?,
        }
    }
    put(library, socket, new)?;
    library.table.note_kernel(socket.number);
    unbound.map_or(Ok(()), |local| bind_when_left(socket, local))
}

/// Binds what is the kernel's now to the port that the outboard has until it hears that our socket there is closed.
fn bind_when_left(socket: &Socket, local: SocketAddr) -> Result<()> {
    const TRIES: usize = 20;
    let local = sockaddr::emit(socket.of.family, local);
    for _ in 1..TRIES {
        match sys::bind(socket.p(), &local) {
            Err(Errno::ADDRINUSE) => {
                let pause = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
                let _ = rustix::thread::nanosleep(&pause);
            }
            bound => return bound,
        }
    }
    sys::bind(socket.p(), &local)
}
