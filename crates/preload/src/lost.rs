//! Listeners and sockets for datagrams whose outboard is gone. The first call that finds it out fails with `ENETDOWN`. From then on
//! the number shows nothing, so that a program that waits for it sleeps, until the next outboard has taken the socket over.
//!
//! ```text
//!  call on P ─▶ outboard gone ─▶ the next one is there already? ─yes─▶ its placeholder over the number, and the call again
//!                                 │no
//!                                 ▼
//!              ENETDOWN, once; a waiting socket over the number ─▶ woken, or another call ─▶ the same question
//! ```
#![forbid(unsafe_code)]

use fusewire_outboard::client::Result;
use fusewire_outboard::client::lost::keep;
use fusewire_outboard::placeholder;
use fusewire_outboard::protocol::{Family, Handle, Kind, SocketType};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use std::os::fd::{AsFd, OwnedFd};

use crate::library::Library;
use crate::sockets::{adopt, is_nonblocking};
use crate::table::{Known, Socket, stage};

/// Bits of a note beside those of [`stage`].
const IS_V6: u64 = 1 << 32;
const IS_DATAGRAM: u64 = 1 << 33;
/// State that a socket keeps when the next outboard takes it over.
const KEPT: u32 = stage::BOUND | stage::ANY_PORT | stage::USED | stage::TIMED;

fn note_of(socket: &Socket) -> u64 {
    let family = if socket.of.family == Family::V6 { IS_V6 } else { 0 };
    u64::from(socket.stage) | family | if socket.is_stream() { 0 } else { IS_DATAGRAM }
}

/// Returns the waiting socket that a forked child has inherited at this number.
pub fn inherited(library: &Library, number: i32, cookie: u64) -> Option<Socket> {
    let (_, note) = library.lost.find(cookie)?;
    let family = if note & IS_V6 != 0 { Family::V6 } else { Family::V4 };
    let kind = if note & IS_DATAGRAM != 0 { Kind::Datagram } else { Kind::Stream };
    let socket = Socket::new(number, Handle::default(), SocketType { family, kind }, cookie);
    Some(Socket { stage: note as u32 | stage::LOST, ..socket })
}

/// Puts the placeholder of the next outboard over the number of a socket.
fn take_over(
    library: &Library,
    socket: &Socket,
    (p, handle, of): (OwnedFd, Handle, SocketType),
) -> Result<Socket> {
    let cookie = sockopt::socket_cookie(&p)?;
    let mut new = Socket::new(socket.number, handle, of, cookie);
    new.stage = library.stage(&new_at(&new, &p)) | socket.stage & KEPT;
    adopt(library, socket, p, new)
}

/// A socket as it is known before its placeholder has its number: of what [`Library::stage`] asks, only the handle counts.
fn new_at(socket: &Socket, p: &OwnedFd) -> Socket {
    use std::os::fd::AsRawFd;
    Socket { number: p.as_raw_fd(), ..*socket }
}

/// A call has found that the outboard of a socket is gone: the next one takes it over, or it waits for that from now on.
///
/// # Errors
/// `ENETDOWN`: it waits, or another thread has found it out as well.
pub fn lose(library: &Library, socket: &Socket) -> Result<Socket> {
    let Some(_changing) = library.lost.change() else { return Err(Errno::NETDOWN) };
    if sockopt::socket_cookie(socket.p()) != Ok(socket.cookie) {
        return Err(Errno::NETDOWN);
    }
    if let Ok(next) = library.client.restore(socket.p()) {
        return take_over(library, socket, next);
    }
    let (old, waiting) = (keep(socket.p())?, placeholder::waiting()?);
    let cookie = sockopt::socket_cookie(&waiting)?;
    if library.lost.add(waiting.as_fd(), old, note_of(socket)) {
        let stage = socket.stage | stage::LOST;
        let new = Socket::new(socket.number, socket.handle, socket.of, cookie);
        adopt(library, socket, waiting, Socket { stage, ..new })?;
    }
    Err(Errno::NETDOWN)
}

/// Asks the next outboard to take over a socket that waits; `None` if it waits on.
///
/// # Errors
/// Why the outboard that is there does not take it over.
pub fn regain(library: &Library, socket: &Socket) -> Result<Option<Socket>> {
    let Some(_changing) = library.lost.change() else { return Ok(None) };
    if sockopt::socket_cookie(socket.p()) != Ok(socket.cookie) {
        // Another thread was faster.
        return match library.table.known(socket.number) {
            Known::Ours(now) if !now.is(stage::LOST) => Ok(Some(now)),
            _ => Ok(None),
        };
    }
    let (old, _) = library.lost.find(socket.cookie).ok_or(Errno::NETDOWN)?;
    match library.client.restore(old.as_fd()) {
        // The wake-up stays in its queue for other processes that wait there.
        Ok(next) => {
            let cookie = socket.cookie;
            let taken = take_over(library, socket, next)?;
            library.lost.remove(cookie);
            Ok(Some(taken))
        }
        Err(error) => {
            placeholder::settle_waiting(socket.p());
            if error == Errno::NETDOWN { Ok(None) } else { Err(error) }
        }
    }
}

/// Waits as a call on a socket that is lost does, until the next outboard has taken it over.
///
/// # Errors
/// `EAGAIN`: the call does not wait, or not that long; `EINTR`; `ENETDOWN`: the next outboard does not take it over.
pub fn await_next(library: &Library, socket: &Socket, is_dontwait: bool) -> Result<Socket> {
    loop {
        match regain(library, socket) {
            Ok(Some(next)) => return Ok(next),
            Ok(None) => {}
            Err(_) => return Err(Errno::NETDOWN),
        }
        if is_dontwait || is_nonblocking(socket.p())? {
            return Err(Errno::AGAIN);
        }
        let limit = sockopt::socket_timeout(socket.p(), Timeout::Recv)?;
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds = [PollFd::from_borrowed_fd(socket.p(), PollFlags::IN)];
        if poll(&mut fds, limit.as_ref())? == 0 {
            return Err(Errno::AGAIN);
        }
    }
}
