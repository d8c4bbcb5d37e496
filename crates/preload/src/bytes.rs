//! Every call that moves data of our sockets. Bytes of a stream go by the rings of a lease where there is one, and through
//! the placeholder as they are otherwise; a datagram has its peer's address before it, and what goes beside it.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use fusewire_outboard::client::{self, Client, Datagram, Leaving, Result};
use fusewire_outboard::placeholder;
use fusewire_outboard::protocol::{Ancillary, Family, Handle, Heading};
use fusewire_outboard::rules::{Owner, Purpose};
use rustix::event::PollFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};

use crate::library::Library;
use crate::lost;
use crate::sockaddr;
use crate::sockets::{self, is_nonblocking};
use crate::sys;
use crate::table::{Socket, stage};

/// Flags of receiving that mean the same at a placeholder.
const RECV: i32 = libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_TRUNC;

/// What was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// How much; with `MSG_TRUNC` how much there was.
    pub len: usize,
    /// By whom it was sent, of datagrams.
    pub from: Option<SocketAddr>,
    /// What came beside it.
    pub beside: Ancillary,
    /// `MSG_TRUNC`, where something did not fit.
    pub flags: i32,
}

impl Received {
    /// So much of a stream.
    pub fn of(len: usize) -> Received {
        Received { len, from: None, beside: Ancillary::default(), flags: 0 }
    }
}

/// Receives into `pieces`, whose first is room for the heading of a datagram.
pub fn receive(
    library: &Library,
    socket: &mut Socket,
    pieces: &mut [IoSliceMut<'_>],
    flags: i32,
) -> Result<Received> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno::AGAIN);
    }
    let kept = RecvFlags::from_bits_retain((flags & RECV) as u32);
    match socket.is_stream() {
        _ if flags & libc::MSG_OOB != 0 => Err(Errno::INVAL),
        true => receive_stream(library, socket, &mut pieces[1..], kept),
        false => receive_datagram(library, socket, pieces, kept),
    }
}

/// Discards up to `len` bytes of a stream (`MSG_TRUNC`), or with `MSG_PEEK` only says how many there are.
pub fn discard(library: &Library, socket: &mut Socket, len: usize, flags: i32) -> Result<usize> {
    let kept = RECV & !libc::MSG_TRUNC;
    let flags = RecvFlags::from_bits_retain((flags & kept) as u32);
    let mut recv = |room: &mut [u8], flags| {
        let pieces = &mut [IoSliceMut::new(room)];
        receive_stream(library, socket, pieces, flags).map(|received| received.len)
    };
    if !flags.contains(RecvFlags::PEEK) {
        return client::discard(len, flags, recv);
    }
    let first = recv(&mut [0][..len.min(1)], flags - RecvFlags::WAITALL)?;
    let waiting = || match unread(library, socket) {
        Some(found) => found,
        None => Ok(rustix::io::ioctl_fionread(socket.p())? as usize),
    };
    Ok(if first == 0 { 0 } else { waiting()?.clamp(1, len) })
}

fn receive_stream(
    library: &Library,
    socket: &mut Socket,
    pieces: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> Result<Received> {
    if flags.contains(RecvFlags::PEEK | RecvFlags::WAITALL) {
        let wanted = pieces.iter().map(|piece| piece.len()).sum();
        let copy = *socket;
        let peek = |flags| receive_stream(library, socket, pieces, flags).map(|found| found.len);
        return client::peek_all(copy.p(), wanted, flags, peek).map(Received::of);
    }
    if !is_begun(library, socket) {
        return Err(Errno::NOTCONN);
    }
    if pieces.iter().all(|piece| piece.is_empty()) {
        // Who asks for nothing waits for something, and leaves it.
        let (mut byte, only) = ([0; 1], flags & RecvFlags::DONTWAIT | RecvFlags::PEEK);
        let mut one = [IoSliceMut::new(&mut byte)];
        return receive_stream(library, socket, &mut one, only).map(|_| Received::of(0));
    }
    let received = match library.rings(socket) {
        Some((rings, way)) => {
            let (p, handle) = (socket.p(), socket.handle);
            rings.recv(&library.client, (p, handle, way), pieces, flags)
        }
        None => recvmsg(socket.p(), pieces, &mut RecvAncillaryBuffer::default(), flags)
            .map(|message| message.bytes),
    };
    match received {
        Ok(len) if len > 0 => {
            library.watch(socket);
            Ok(Received::of(len))
        }
        // The end of the stream, or of the connection.
        Ok(_) => match shown_end(library, socket) {
            Some(error) => Err(error),
            None => Ok(Received::of(0)),
        },
        Err(Errno::CONNRESET) => match end(library, socket, Client::error_of_reader) {
            Ok(Some(error)) => Err(error),
            // It was told before.
            Ok(None) => Ok(Received::of(0)),
            Err(Forgotten) => Err(Errno::CONNRESET),
        },
        Err(Errno::NETDOWN) => library.ended(socket).map_or(Ok(Received::of(0)), Err),
        Err(error) => {
            // It may have taken a bell out.
            library.disturb(socket.number);
            Err(error)
        }
    }
}

/// Whether a stream is connected or about to be: what another process has done with it counts.
fn is_begun(library: &Library, socket: &mut Socket) -> bool {
    let begun = stage::CONNECTED | stage::CONNECTING | stage::DEAD;
    if !socket.is(begun) {
        let now = library.stage(socket);
        library.table.change(socket, now, 0);
    }
    socket.is(begun)
}

/// Why nothing more comes, unless the peer has finished in order.
fn shown_end(library: &Library, socket: &mut Socket) -> Option<Errno> {
    let shown = sockets::shown(socket.p(), PollFlags::IN).unwrap_or(PollFlags::empty());
    if shown.contains(PollFlags::HUP) {
        end(library, socket, Client::error_of_reader).ok().flatten()
    } else {
        None
    }
}

/// Why a connection has ended, where the outboard knows and has not told.
fn why(library: &Library, socket: &mut Socket) -> Option<Errno> {
    end(library, socket, Client::error).ok().flatten()
}

/// The outboard knows nothing of a connection any more.
struct Forgotten;

/// The same, where what it has told and what it has forgotten are not one.
fn end(
    library: &Library,
    socket: &mut Socket,
    ask: impl FnOnce(&Client, Handle) -> Result<Option<Errno>>,
) -> std::result::Result<Option<Errno>, Forgotten> {
    if socket.is(stage::CONNECTING) {
        library.table.change(socket, stage::DEAD, stage::CONNECTING);
    }
    match library.said(socket, ask(&library.client, socket.handle)) {
        Ok(error) => Ok(error),
        Err(Errno::NETDOWN) => Ok(library.ended(socket)),
        // It is long over.
        Err(Errno::BADF) => Err(Forgotten),
        Err(error) => Ok(Some(error)),
    }
}

/// An error comes next, where datagrams come.
pub fn has_failed(library: &Library, socket: &Socket) -> bool {
    if socket.is_stream() {
        return false;
    }
    match library.rings(socket) {
        Some((rings, way)) => rings.has_failed(socket.p(), way),
        None => client::has_word(socket.p()),
    }
}

/// A datagram, or the error of one, waits to be received.
pub fn has_datagram(library: &Library, socket: &Socket) -> bool {
    let in_ring = library.rings(socket).is_some_and(|(rings, way)| rings.next_len(way).is_some());
    in_ring || sockets::shown(socket.p(), PollFlags::IN).is_ok_and(|shown| !shown.is_empty())
}

/// Receives a datagram. Where receiving was shut down, those that came before come first; with the last of them the placeholder is
/// shut down, too, and shows so.
fn receive_datagram(
    library: &Library,
    socket: &mut Socket,
    pieces: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> Result<Received> {
    if !socket.is(stage::SHUT_READ) {
        return next_datagram(library, socket, pieces, flags);
    }
    let received = match next_datagram(library, socket, pieces, flags | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN) => Ok(Received::of(0)),
        done => done,
    };
    if !has_datagram(library, socket) {
        library.give_up(socket);
        rustix::net::shutdown(socket.p(), rustix::net::Shutdown::Read)?;
    }
    received
}

fn next_datagram(
    library: &Library,
    socket: &mut Socket,
    pieces: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> Result<Received> {
    if socket.is(stage::LOST) {
        *socket = lost::await_next(library, socket, flags.contains(RecvFlags::DONTWAIT))?;
    }
    let came = match library.rings(socket) {
        Some((rings, way)) => {
            let (p, handle) = (socket.p(), socket.handle);
            rings.recv_from(&library.client, (p, handle, way), pieces, flags)
        }
        None => library.client.recv_from((socket.p(), socket.handle), pieces, flags),
    };
    let came = came.map_err(gone);
    let Some(Datagram { len, from, beside, is_cut }) = came.or_else(|error| match error {
        Errno::NETDOWN => Ok(None),
        error => Err(error),
    })?
    else {
        // It was shut down, or the outboard is gone.
        if !library.client.is_gone(socket.p()) {
            return Ok(Received::of(0));
        }
        *socket = lost::lose(library, socket)?;
        return next_datagram(library, socket, pieces, flags);
    };
    if !socket.is(stage::USED) {
        // Who is reached here stays here, whomever it sends to.
        library.table.change(socket, stage::USED, 0);
    }
    let room: usize = pieces[1..].iter().map(|piece| piece.len()).sum();
    let len = if flags.contains(RecvFlags::TRUNC) { len } else { len.min(room) };
    let flags = if is_cut { libc::MSG_TRUNC } else { 0 };
    Ok(Received { len, from: Some(from), beside, flags })
}

/// Sends `pieces`, of datagrams to `to`, a `struct sockaddr`. `None`: it is for the kernel.
pub fn send(
    library: &Library,
    socket: &mut Socket,
    pieces: &[IoSlice<'_>],
    to: Option<&[u8]>,
    flags: i32,
) -> Option<Result<usize>> {
    send_beside(library, socket, pieces, (to, Ancillary::default()), flags)
}

/// The same with what goes beside a datagram.
pub fn send_beside(
    library: &Library,
    socket: &mut Socket,
    pieces: &[IoSlice<'_>],
    (to, beside): (Option<&[u8]>, Ancillary),
    flags: i32,
) -> Option<Result<usize>> {
    if flags & (libc::MSG_OOB | libc::MSG_FASTOPEN) != 0 {
        return Some(Err(Errno::OPNOTSUPP));
    }
    let mut kept = SendFlags::from_bits_retain((flags & libc::MSG_DONTWAIT) as u32);
    kept |= SendFlags::NOSIGNAL;
    if !socket.is_stream() {
        if socket.is(stage::SHUT_WRITE) {
            // There is no signal of datagrams.
            return Some(Err(Errno::PIPE));
        }
        return send_datagram(library, socket, pieces, (to, beside), kept);
    }
    kept |= SendFlags::from_bits_retain((flags & libc::MSG_MORE) as u32);
    let done = send_stream(library, socket, pieces, kept);
    if done == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        sys::raise_broken_pipe();
    }
    Some(done)
}

fn send_stream(
    library: &Library,
    socket: &mut Socket,
    pieces: &[IoSlice<'_>],
    flags: SendFlags,
) -> Result<usize> {
    can_write(library, socket, flags.contains(SendFlags::DONTWAIT))?;
    let sent = match library.rings(socket) {
        Some((rings, way)) => {
            let (p, handle) = (socket.p(), socket.handle);
            rings.send(&library.client, (p, handle, way), pieces, flags)
        }
        None => sendmsg(socket.p(), pieces, &mut SendAncillaryBuffer::default(), flags),
    };
    told(library, socket, sent)
}

/// Why nothing more can be sent, where the outboard knows.
fn told(library: &Library, socket: &mut Socket, sent: Result<usize>) -> Result<usize> {
    match sent {
        Err(Errno::PIPE | Errno::CONNRESET) => Err(why(library, socket).unwrap_or(Errno::PIPE)),
        Err(Errno::NETDOWN) => Err(library.ended(socket).unwrap_or(Errno::PIPE)),
        done => done,
    }
}

/// That a stream may be written to: it is connected, or is when this returns.
pub fn can_write(library: &Library, socket: &mut Socket, is_dontwait: bool) -> Result<()> {
    if !is_begun(library, socket) {
        return Err(Errno::PIPE);
    }
    if socket.is(stage::CONNECTING) && !sockets::settle(library, socket)? {
        if is_dontwait || is_nonblocking(socket.p())? {
            return Err(Errno::AGAIN);
        }
        // `SO_SNDTIMEO` is over, which is no news of the connection to who writes.
        return sockets::wait(library, socket).map_err(|error| match error {
            Errno::INPROGRESS => Errno::AGAIN,
            error => error,
        });
    }
    Ok(())
}

fn send_datagram(
    library: &Library,
    socket: &mut Socket,
    pieces: &[IoSlice<'_>],
    (to, beside): (Option<&[u8]>, Ancillary),
    flags: SendFlags,
) -> Option<Result<usize>> {
    let to = match to.map(|to| sockaddr::parse(socket.of.family, to)).transpose() {
        Ok(to) => to.flatten(),
        Err(error) => return Some(Err(error)),
    };
    match to {
        Some(to) if to.port() == 0 => return Some(Err(Errno::INVAL)),
        Some(to) if !socket.is(stage::USED | stage::CONNECTED) => {
            if library.owner(Purpose::Connect, socket.of.kind, to) == Owner::Kernel {
                return sockets::give_up(library, socket);
            }
            library.table.change(socket, stage::USED, 0);
        }
        None if !socket.is(stage::CONNECTED) => {
            let now = library.stage(socket);
            library.table.change(socket, now, 0);
            if !socket.is(stage::CONNECTED) {
                return Some(Err(Errno::DESTADDRREQ));
            }
        }
        _ => {}
    }
    if let Err(error) = fits(socket, pieces, to) {
        return Some(Err(error));
    }
    if let Some(to) = to
        && library.is_for_all(to.ip())
        && !sockets::may_send_to_all(library, socket)
    {
        return Some(Err(Errno::ACCESS));
    }
    let heading = Heading { address: to, beside };
    loop {
        if socket.is(stage::LOST) {
            match lost::regain(library, socket) {
                Ok(Some(next)) => *socket = next,
                _ => return Some(Err(Errno::NETDOWN)),
            }
        }
        let (p, handle, has_peer) = (socket.p(), socket.handle, socket.is(stage::CONNECTED));
        let sent = match (library.rings(socket), has_peer) {
            (Some((rings, way)), has_peer) => {
                let to = (heading, has_peer);
                rings.send_to(&library.client, (p, handle, way), pieces, to, flags)
            }
            (None, true) => (library.client.told((p, handle)))
                .and_then(|()| client::send_to(p, pieces, heading, flags)),
            (None, false) => client::send_to(p, pieces, heading, flags),
        };
        match sent.map_err(gone) {
            Err(Errno::NETDOWN) if library.client.is_gone(socket.p()) => {
                match lost::lose(library, socket) {
                    Ok(next) => *socket = next,
                    Err(error) => return Some(Err(error)),
                }
            }
            sent => return Some(sent),
        }
    }
}

/// The outboard is gone.
fn gone(error: Errno) -> Errno {
    match error {
        Errno::PIPE | Errno::CONNRESET => Errno::NETDOWN,
        error => error,
    }
}

/// A datagram of these pieces fits into a packet to there.
fn fits(socket: &Socket, pieces: &[IoSlice<'_>], to: Option<SocketAddr>) -> Result<()> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let is_v4 = match to {
        Some(to) => to.ip().to_canonical().is_ipv4(),
        None => socket.is(stage::TO_V4),
    };
    let family = if is_v4 { Family::V4 } else { socket.of.family };
    if len > longest(family) { Err(Errno::MSGSIZE) } else { Ok(()) }
}

/// Sends several datagrams of a socket that has sent one; `None`: not by one call.
pub fn send_datagrams(
    library: &Library,
    socket: &Socket,
    all: &impl Leaving,
    flags: i32,
) -> Option<Result<usize>> {
    let is_plain = !socket.is_stream() && !socket.is(stage::LOST);
    let (rings, way) = library.rings(socket).filter(|_| is_plain)?;
    let kept = SendFlags::from_bits_retain((flags & libc::MSG_DONTWAIT) as u32);
    let (p, handle) = (socket.p(), socket.handle);
    let sent =
        rings.send_datagrams(&library.client, (p, handle, way), all, kept | SendFlags::NOSIGNAL);
    Some(sent.map_err(gone))
}

/// Where one of several goes, which has to be said unless the socket is connected.
pub fn destination(
    socket: &Socket,
    pieces: &[IoSlice<'_>],
    to: Option<&[u8]>,
) -> Result<Option<SocketAddr>> {
    let to = to.map(|to| sockaddr::parse(socket.of.family, to)).transpose()?.flatten();
    fits(socket, pieces, to)?;
    match to {
        None if !socket.is(stage::CONNECTED) => Err(Errno::DESTADDRREQ),
        to => Ok(to),
    }
}

/// The longest message that fits into a packet behind the headers of UDP and IP.
fn longest(family: Family) -> usize {
    match family {
        Family::V4 => 65_535 - 8 - 20,
        Family::V6 => 65_535 - 8,
    }
}

/// `FIONREAD` of datagrams: how long the next is.
pub fn next_len(library: &Library, socket: &Socket) -> Result<usize> {
    if socket.is(stage::LOST) {
        return Ok(0);
    }
    if let Some(len) = library.rings(socket).and_then(|(rings, way)| rings.next_len(way)) {
        return Ok(len);
    }
    client::next_len(socket.p())
}

/// `FIONREAD` of a stream; `None`: it is what the placeholder says.
pub fn unread(library: &Library, socket: &Socket) -> Option<Result<usize>> {
    let (rings, way) = library.rings(socket)?;
    way.is_leased().then(|| rings.unread(socket.p(), way))
}

/// `SIOCOUTQ` of a stream: what its peer does not have yet. What lies in the placeholder counts as the kernel's memory that it
/// takes, hundreds of bytes for one, and what is taken just now may count twice; 0 means that the peer has all.
pub fn unsent(library: &Library, socket: &Socket) -> Result<usize> {
    if socket.is(stage::CONNECTING) && sockets::shown(socket.p(), PollFlags::OUT)?.is_empty() {
        // What lies there is its stuffing.
        return Ok(0);
    }
    let untaken = match library.rings(socket) {
        Some((rings, way)) => rings.untaken(socket.p(), way)?,
        None => placeholder::untaken(socket.p())?,
    };
    match library.client.unsent(socket.handle) {
        Ok(unsent) => Ok(untaken + unsent),
        // It has ended.
        Err(Errno::BADF) => Ok(0),
        Err(error) => Err(error),
    }
}

/// A call by which the kernel moves bytes into the placeholder of a stream, or out of it: no other way from then on.
pub fn through(
    library: &Library,
    socket: &mut Socket,
    is_dontwait: bool,
    call: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    can_write(library, socket, is_dontwait)?;
    library.give_up(socket);
    let sent = call();
    told(library, socket, sent)
}

/// Sends of a file that has offsets from one of them on, as `sendfile` does.
pub fn send_file(
    library: &Library,
    socket: &mut Socket,
    file: BorrowedFd<'_>,
    begin: u64,
    count: usize,
) -> Result<usize> {
    can_write(library, socket, false)?;
    let Some((rings, way)) = library.rings(socket) else { return Err(Errno::INVAL) };
    let (p, handle, of) = (socket.p(), socket.handle, (file, begin, count));
    let sent = rings.send_file(&library.client, (p, handle, way), of, SendFlags::NOSIGNAL);
    told(library, socket, sent)
}

/// Sends what a file has from an offset on as one datagram, as `sendfile` does. `None`: it is for the kernel.
pub fn send_file_as_datagram(
    library: &Library,
    socket: &mut Socket,
    file: BorrowedFd<'_>,
    begin: u64,
    count: usize,
) -> Option<Result<usize>> {
    let mut bytes = [0; 1 << 16];
    let (mut len, most) = (0, count.min(bytes.len()));
    while len < most {
        match rustix::io::pread(file, &mut bytes[len..most], begin + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(Errno::INTR) => {}
            Err(error) => return Some(Err(error)),
        }
    }
    if len == 0 {
        return Some(Ok(0));
    }
    send(library, socket, &[IoSlice::new(&bytes[..len])], None, 0)
}
