//! Calls that move data.

use std::ffi::{c_int, c_uint, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ptr::{null, null_mut};

use fusewire_outboard::client::{Leaving, Result};
use fusewire_outboard::protocol::{Ancillary, Family, HEADING_LEN, Heading, ancillary};
use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use super::cancel::{self, Wait};
use super::memory::{Gather, Scatter};
use super::{Ours, aliases, interposed, kernel, memory, pass_on, waits};
use crate::bytes::{self, Received};
use crate::library::{Library, ours};
use crate::sockaddr as address;
use crate::sys;
use crate::table::Socket;

/// A data call on a socket of ours. One that turns out to be something else is forgotten: libc's call follows.
fn on(fd: c_int, call: impl FnOnce(&Library, &mut Socket) -> Ours) -> Ours {
    let (library, mut socket) = ours(fd)?;
    cancel::point();
    match call(library, &mut socket) {
        Some(Err(Errno::NOTSOCK)) => {
            library.forget(fd);
            None
        }
        done => done,
    }
}

/// A call that receives, with the flags to make it by. `is_greedy`: it may wait for more than what comes first, so the
/// thread waits for that here, and the call is made with the flags as they are.
fn receiving(
    fd: c_int,
    (flags, is_greedy): (c_int, bool),
    mut call: impl FnMut(&Library, &mut Socket, c_int) -> Ours,
) -> Ours {
    // An empty queue of errors is no reason to wait.
    let is_told_not_to = flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) != 0;
    on(fd, |library, socket| {
        let (known, wait) = (*socket, (Wait::ToRead, is_told_not_to));
        if !is_greedy {
            return cancel::waiting(library, &known, wait, |returns| {
                let more = if returns { libc::MSG_DONTWAIT } else { 0 };
                call(library, socket, flags | more)
            });
        }
        if !is_told_not_to && cancel::is_possible() {
            let found = cancel::waiting(library, &known, wait, |_| {
                let peek = libc::MSG_PEEK | libc::MSG_DONTWAIT;
                let mut heading = [0; HEADING_LEN];
                let mut pieces = [IoSliceMut::new(&mut heading), IoSliceMut::new(&mut [])];
                Some(bytes::receive(library, socket, &mut pieces, peek).map(|found| found.len))
            });
            if let Some(Err(error)) = found {
                return Some(Err(error));
            }
        }
        call(library, socket, flags)
    })
}

interposed! {
    /// Reads.
    fn read = SYS_read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
        // What asks for nothing by a name of files has it, whatever waits.
        receiving(fd, (0, false), |library, socket, flags| match len {
            0 => Some(Ok(0)),
            _ => receive(library, socket, (at, len), flags, null_mut(), null_mut()),
        })
    }

    /// Reads into pieces.
    fn readv = SYS_readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
        receiving(fd, (0, false), |library, socket, flags| {
            Some(scatter(library, socket, (at, count), flags).map(|received| received.len))
        })
    }

    /// Receives.
    fn recvfrom = SYS_recvfrom(
        fd: c_int, at: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t
    ) -> ssize_t {
        receiving(fd, (flags, flags & libc::MSG_WAITALL != 0), |library, socket, flags| {
            receive(library, socket, (at, len), flags, from, from_len)
        })
    }

    /// Receives a message.
    fn recvmsg = SYS_recvmsg(fd: c_int, header: *mut msghdr, flags: c_int) -> ssize_t {
        receiving(fd, (flags, flags & libc::MSG_WAITALL != 0), |library, socket, flags| {
            Some(receive_message(library, socket, header, flags))
        })
    }

    /// Receives several.
    fn recvmmsg = SYS_recvmmsg(
        fd: c_int, headers: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int {
        receiving(fd, (flags, flags & libc::MSG_WAITFORONE == 0), |library, socket, flags| {
            Some(receive_messages(library, socket, headers, count, flags))
        })
    }

    /// Writes.
    fn write = SYS_write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
        on(fd, |library, socket| send_one(library, socket, (at, len), 0, null(), 0))
    }

    /// Writes pieces.
    fn writev = SYS_writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
        on(fd, |library, socket| gather(library, socket, at, count))
    }

    /// Sends.
    fn sendto = SYS_sendto(
        fd: c_int, at: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t
    ) -> ssize_t {
        on(fd, |library, socket| send_one(library, socket, (at, len), flags, to, to_len))
    }

    /// Sends a message.
    fn sendmsg = SYS_sendmsg(fd: c_int, header: *const msghdr, flags: c_int) -> ssize_t {
        waits::handed(header);
        on(fd, |library, socket| send_message(library, socket, header, flags))
    }

    /// Sends several.
    fn sendmmsg = SYS_sendmmsg(fd: c_int, headers: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        for at in 0..if headers.is_null() { 0 } else { count.min(1024) as usize } {
            waits::handed(&raw const (*headers.add(at)).msg_hdr);
        }
        on(fd, |library, socket| send_messages(library, socket, headers, count, flags))
    }

    /// Sends of a file.
    fn sendfile = SYS_sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        on(out, |library, socket| send_file(library, socket, from, offset, count))
    }

    /// Moves between a pipe and something else.
    fn splice = SYS_splice(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint
    ) -> ssize_t {
        let is_dontwait = flags & libc::SPLICE_F_NONBLOCK != 0;
        if let Some((library, socket)) = ours(from) {
            library.give_up(&socket);
        }
        on(to, |library, socket| through(library, socket, is_dontwait, || {
            let (from_at, to_at) = (from_at as usize, to_at as usize);
            kernel(libc::SYS_splice, [from as usize, from_at, to as usize, to_at, count, flags as usize])
        }))
    }
}

/// Receives: `recv`. There is no system call of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's obligation.
    unsafe { recvfrom(fd, at, len, flags, null_mut(), null_mut()) }
}

/// Sends: `send`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    fd: c_int,
    at: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's obligation.
    unsafe { sendto(fd, at, len, flags, null(), 0) }
}

/// Reads at an offset, or with -1 as `readv` does.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    if offset == -1 && ours(fd).is_some() {
        // SAFETY: the caller's obligation.
        return unsafe { readv(fd, at, count) };
    }
    let arguments = [fd as usize, at as usize, count as usize, offset as usize, 0, flags as usize];
    // SAFETY: the caller's obligation; a socket has no offsets, and the kernel says so.
    unsafe {
        pass_on!(
            cancel::by_libc::preadv2,
            (fd => c_int, at => *const iovec, count => c_int, offset => off_t, flags => c_int) -> ssize_t,
            kernel(libc::SYS_preadv2, arguments)
        )
    }
}

/// Writes at an offset, or with -1 as `writev` does.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    at: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    if offset == -1 && ours(fd).is_some() {
        // SAFETY: the caller's obligation.
        return unsafe { writev(fd, at, count) };
    }
    let arguments = [fd as usize, at as usize, count as usize, offset as usize, 0, flags as usize];
    // SAFETY: as above.
    unsafe {
        pass_on!(
            cancel::by_libc::pwritev2,
            (fd => c_int, at => *const iovec, count => c_int, offset => off_t, flags => c_int) -> ssize_t,
            kernel(libc::SYS_pwritev2, arguments)
        )
    }
}

aliases! {
    __read = read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t;
    __write = write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t;
    __recv = recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    __send = send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    __sendmmsg = sendmmsg(fd: c_int, headers: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile64 = sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    preadv64v2 = preadv2(fd: c_int, at: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    pwritev64v2 = pwritev2(fd: c_int, at: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
}

// What `_FORTIFY_SOURCE` calls: the same with the room that the compiler knows of.

/// Ends the program when it asks for more than it has room for, as libc does.
fn check(len: size_t, room: size_t) {
    if len > room {
        std::process::abort();
    }
}

/// `read`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: the caller's obligation.
    unsafe { read(fd, at, len) }
}

/// `recv`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(len, room);
    // SAFETY: the caller's obligation.
    unsafe { recv(fd, at, len, flags) }
}

/// `recvfrom`
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: the caller's obligation.
    unsafe { recvfrom(fd, at, len, flags, from, from_len) }
}

/// Bytes of a stream are received to be discarded (`MSG_TRUNC`, tcp(7)): the memory that is named need not be there.
fn discards(socket: &Socket, flags: c_int) -> bool {
    let others = libc::MSG_OOB | libc::MSG_ERRQUEUE;
    socket.is_stream() && flags & libc::MSG_TRUNC != 0 && flags & others == 0
}

/// # Safety
/// The memory is writable, and what is not null of the address.
unsafe fn receive(
    library: &Library,
    socket: &mut Socket,
    (at, len): (*mut c_void, usize),
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> Ours {
    let mut heading = [0; HEADING_LEN];
    Some((|| {
        if discards(socket, flags) {
            let discarded = bytes::discard(library, socket, len, flags)?;
            if !from.is_null() {
                // SAFETY: the caller's obligation.
                unsafe { put_from(socket, None, from.cast(), from_len) }?;
            }
            return Ok(discarded);
        }
        // SAFETY: the caller's obligation.
        let room = unsafe { memory::bytes_mut(at, len) }?;
        let mut pieces = [IoSliceMut::new(&mut heading), IoSliceMut::new(room)];
        let received = bytes::receive(library, socket, &mut pieces, flags)?;
        if !from.is_null() {
            // SAFETY: the caller's obligation.
            unsafe { put_from(socket, received.from, from.cast(), from_len) }?;
        }
        Ok(received.len)
    })())
}

/// # Safety
/// As of [`memory::put`].
unsafe fn put_from(
    socket: &Socket,
    from: Option<std::net::SocketAddr>,
    at: *mut c_void,
    len: *mut socklen_t,
) -> Result<()> {
    let laid = from.map(|from| address::emit(socket.of.family, from));
    // SAFETY: the caller's obligation.
    unsafe { memory::put(at, len, laid.as_deref().unwrap_or(&[])) }
}

/// # Safety
/// The vector names memory that is writable.
unsafe fn scatter(
    library: &Library,
    socket: &mut Socket,
    (at, count): (*const iovec, c_int),
    flags: c_int,
) -> Result<Received> {
    let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    let mut heading = [0; HEADING_LEN];
    // SAFETY: the caller's obligation.
    let mut all = unsafe { Scatter::new(&mut heading, (at, count), socket.is_stream()) }?;
    match all.pieces() {
        // As of `read`.
        [_] => Ok(Received::of(0)),
        pieces => bytes::receive(library, socket, pieces, flags),
    }
}

/// # Safety
/// The header is there, and names memory that is writable.
unsafe fn receive_message(
    library: &Library,
    socket: &mut Socket,
    header: *mut msghdr,
    flags: c_int,
) -> Result<usize> {
    if header.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null; the caller's obligation.
    let header = unsafe { &mut *header };
    let mut heading = [0; HEADING_LEN];
    let vector = (header.msg_iov.cast_const(), header.msg_iovlen);
    let received = if discards(socket, flags) {
        // SAFETY: as above.
        let len = unsafe { memory::len_of((header.msg_iov, header.msg_iovlen)) }?;
        Received::of(bytes::discard(library, socket, len, flags)?)
    } else {
        // SAFETY: as above.
        let mut all = unsafe { Scatter::new(&mut heading, vector, socket.is_stream()) }?;
        bytes::receive(library, socket, all.pieces(), flags)?
    };
    if header.msg_name.is_null() {
        header.msg_namelen = 0;
    } else {
        // SAFETY: as above.
        unsafe { put_from(socket, received.from, header.msg_name, &mut header.msg_namelen) }?;
    }
    // SAFETY: as above.
    let room = unsafe { memory::bytes_mut(header.msg_control, header.msg_controllen) };
    let is_v6 = received.from.is_some_and(|from| from.is_ipv6());
    let (len, is_cut) = ancillary::emit(&received.beside, is_v6, room.unwrap_or(&mut []));
    header.msg_controllen = len;
    header.msg_flags = received.flags | if is_cut { libc::MSG_CTRUNC } else { 0 };
    Ok(received.len)
}

/// # Safety
/// So many headers are there, and name memory that is writable.
unsafe fn receive_messages(
    library: &Library,
    socket: &mut Socket,
    headers: *mut mmsghdr,
    count: c_uint,
    mut flags: c_int,
) -> Result<usize> {
    for at in 0..count as usize {
        // The next call is told: this one has received something.
        if at > 0 && bytes::has_failed(library, socket) {
            return Ok(at);
        }
        // SAFETY: within what the caller vouches for.
        let header = unsafe { headers.add(at) };
        // SAFETY: as above.
        match unsafe { receive_message(library, socket, &raw mut (*header).msg_hdr, flags) } {
            // SAFETY: as above.
            Ok(len) => unsafe { (*header).msg_len = len as c_uint },
            Err(error) if at == 0 => return Err(error),
            Err(_) => return Ok(at),
        }
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
    }
    Ok(count as usize)
}

/// # Safety
/// The memory is readable, and what is not null of the address.
unsafe fn send_one(
    library: &Library,
    socket: &mut Socket,
    (at, len): (*const c_void, usize),
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> Ours {
    // SAFETY: the caller's obligation.
    let given =
        unsafe { memory::bytes(at, len).and_then(|b| Ok((b, memory::address(to, to_len)?))) };
    let (given, to) = match given {
        Ok(given) => given,
        Err(error) => return Some(Err(error)),
    };
    if flags & libc::MSG_DONTWAIT != 0 || !cancel::is_possible() {
        return bytes::send(library, socket, &[IoSlice::new(given)], to, flags);
    }
    let vector = iovec { iov_base: at.cast_mut(), iov_len: len };
    // SAFETY: the caller's obligation; the vector is one piece.
    unsafe { send_all(library, socket, (&raw const vector, 1), (to, Ancillary::default()), flags) }
}

/// # Safety
/// The vector names memory that is readable.
unsafe fn gather(library: &Library, socket: &mut Socket, at: *const iovec, count: c_int) -> Ours {
    let Ok(count) = usize::try_from(count) else { return Some(Err(Errno::INVAL)) };
    // SAFETY: the caller's obligation.
    unsafe { send_all(library, socket, (at, count), (None, Ancillary::default()), 0) }
}

/// Sends what a vector names: a datagram, or of a stream as much as there is room for, some pieces after the other. A thread
/// that may be cancelled waits for room here.
///
/// # Safety
/// The vector names memory that is readable.
unsafe fn send_all(
    library: &Library,
    socket: &mut Socket,
    vector: (*const iovec, usize),
    to: (Option<&[u8]>, Ancillary),
    flags: c_int,
) -> Ours {
    let (mut sent, is_stream) = (0, socket.is_stream());
    let returns = flags & libc::MSG_DONTWAIT == 0 && cancel::is_possible();
    let dontwait = if returns { libc::MSG_DONTWAIT } else { 0 };
    loop {
        // SAFETY: the caller's obligation.
        let all = match unsafe { Gather::behind(vector, is_stream, sent) } {
            Ok(all) => all,
            Err(_) if sent > 0 => return Some(Ok(sent)),
            Err(error) => return Some(Err(error)),
        };
        let pieces = all.pieces();
        if sent > 0 && pieces.is_empty() {
            return Some(Ok(sent));
        }
        // Who has sent something hears with the next call why there was no more.
        let quiet = if sent > 0 { libc::MSG_NOSIGNAL } else { 0 };
        match bytes::send_beside(library, socket, pieces, to, flags | quiet | dontwait) {
            Some(Ok(len)) => {
                sent += len;
                let is_whole = len == pieces.iter().map(|piece| piece.len()).sum::<usize>();
                if !is_stream || is_whole && pieces.len() < memory::PIECES {
                    return Some(Ok(sent));
                }
                if is_whole {
                    continue;
                }
                if !returns {
                    return Some(Ok(sent));
                }
            }
            Some(Err(Errno::AGAIN)) if returns => {}
            _ if sent > 0 => return Some(Ok(sent)),
            failed => return failed,
        }
        match cancel::sleep(socket, Wait::ToWrite) {
            Err(_) if sent > 0 => return Some(Ok(sent)),
            Err(error) => return Some(Err(error)),
            Ok(()) => {}
        }
    }
}

/// # Safety
/// The header is there, and names memory that is readable.
unsafe fn send_message(
    library: &Library,
    socket: &mut Socket,
    header: *const msghdr,
    flags: c_int,
) -> Ours {
    if header.is_null() {
        return Some(Err(Errno::FAULT));
    }
    // SAFETY: not null; the caller's obligation.
    let given = unsafe {
        let header = &*header;
        let vector = (header.msg_iov.cast_const(), header.msg_iovlen);
        memory::address(header.msg_name.cast(), header.msg_namelen)
            .and_then(|to| Ok((vector, (to, beside_of(socket, header)?))))
    };
    match given {
        // SAFETY: the caller's obligation.
        Ok((vector, to)) => unsafe { send_all(library, socket, vector, to, flags) },
        Err(error) => Some(Err(error)),
    }
}

/// What is to go beside a datagram; of a stream nothing is, and only looked at.
///
/// # Safety
/// The header names memory that is readable.
unsafe fn beside_of(socket: &Socket, header: &msghdr) -> Result<Ancillary> {
    // SAFETY: the caller's obligation.
    let control = unsafe { memory::bytes(header.msg_control, header.msg_controllen) }?;
    let beside = match socket.is_stream() {
        true => ancillary::check(control).map(|()| Ancillary::default()),
        false => ancillary::parse(control, socket.of.family == Family::V6),
    };
    beside.map_err(Errno::from_raw_os_error)
}

/// # Safety
/// So many headers are there, and name memory that is readable.
unsafe fn send_messages(
    library: &Library,
    socket: &mut Socket,
    headers: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> Ours {
    let mut at = 0;
    let returns = flags & libc::MSG_DONTWAIT == 0 && cancel::is_possible();
    while at < count as usize {
        // SAFETY: within what the caller vouches for.
        let header = unsafe { headers.add(at) };
        // SAFETY: as above.
        match unsafe { send_message(library, socket, &raw const (*header).msg_hdr, flags) }? {
            Ok(len) => {
                // SAFETY: as above; the headers' vectors were found to be there when it was sent.
                let whole = unsafe {
                    (*header).msg_len = len as c_uint;
                    memory::len_of(((*header).msg_hdr.msg_iov, (*header).msg_hdr.msg_iovlen))
                };
                if socket.is_stream() && whole.is_ok_and(|whole| len < whole) {
                    // What follows would come where the rest of this one belongs.
                    return Some(Ok(at + 1));
                }
            }
            Err(error) if at == 0 => return Some(Err(error)),
            Err(_) => return Some(Ok(at)),
        }
        at += 1;
        // Of datagrams the first says whose they are, and is told what became of those before; the others go together.
        let rest = Headers { first: header.wrapping_add(1), count: count as usize - at, socket };
        let dontwait = if returns { libc::MSG_DONTWAIT } else { 0 };
        match bytes::send_datagrams(library, socket, &rest, flags | dontwait) {
            Some(Ok(sent)) => {
                for sent in 0..sent {
                    // SAFETY: as above.
                    unsafe { rest.told(sent) };
                }
                at += sent;
                if !returns {
                    return Some(Ok(at));
                }
            }
            Some(Err(Errno::AGAIN)) if returns => {}
            Some(Err(_)) => return Some(Ok(at)),
            None => {}
        }
    }
    Some(Ok(count as usize))
}

/// Datagrams of one call, whose headers are there and name memory that is readable.
struct Headers<'a> {
    first: *mut mmsghdr,
    count: usize,
    socket: &'a Socket,
}

impl Headers<'_> {
    /// Says of one that it was sent.
    ///
    /// # Safety
    /// It is one of those that are there.
    unsafe fn told(&self, at: usize) {
        // SAFETY: the caller's obligation, and that of who made this.
        unsafe {
            let header = &mut *self.first.add(at);
            let vector = (header.msg_hdr.msg_iov.cast_const(), header.msg_hdr.msg_iovlen);
            let all = Gather::new(vector, false);
            let pieces = all.as_ref().map_or(&[][..], Gather::pieces);
            header.msg_len = pieces.iter().map(|piece| piece.len()).sum::<usize>() as c_uint;
        }
    }
}

impl Leaving for Headers<'_> {
    fn count(&self) -> usize {
        self.count
    }

    /// The first has asked for all.
    fn has_peer(&self) -> bool {
        false
    }

    fn with<T>(
        &self,
        at: usize,
        f: impl FnOnce(&[IoSlice<'_>], Heading) -> Result<T>,
    ) -> Result<T> {
        debug_assert!(at < self.count);
        // SAFETY: within what who made this vouches for.
        let (all, to, beside) = unsafe {
            let header = &(*self.first.add(at)).msg_hdr;
            let all = Gather::new((header.msg_iov.cast_const(), header.msg_iovlen), false)?;
            let to = memory::address(header.msg_name.cast(), header.msg_namelen)?;
            (all, to, beside_of(self.socket, header)?)
        };
        let address = bytes::destination(self.socket, all.pieces(), to)?;
        f(all.pieces(), Heading { address, beside })
    }
}

/// A call by which the kernel moves bytes of a stream through the placeholder.
fn through(
    library: &Library,
    socket: &mut Socket,
    is_dontwait: bool,
    call: impl FnOnce() -> Result<usize>,
) -> Ours {
    if !socket.is_stream() {
        return Some(Err(Errno::OPNOTSUPP));
    }
    Some(bytes::through(library, socket, is_dontwait, call))
}

/// Sends of a file: read into the ring's writer where there is one, and by the kernel into the placeholder otherwise.
///
/// # Safety
/// `offset` is null or points to an offset.
unsafe fn send_file(
    library: &Library,
    socket: &mut Socket,
    from: c_int,
    offset: *mut off_t,
    count: usize,
) -> Ours {
    let number = socket.number as usize;
    let by_kernel = || {
        // SAFETY: the caller's obligation.
        unsafe { kernel(libc::SYS_sendfile, [number, from as usize, offset as usize, count]) }
    };
    let Some(file) = sys::borrow(from) else { return Some(Err(Errno::BADF)) };
    let is_read_here = library.rings(socket).is_some() || !socket.is_stream();
    let position = is_read_here.then(|| match offset.is_null() {
        true => rustix::fs::tell(file).ok(),
        // SAFETY: not null; the caller's obligation.
        false => u64::try_from(unsafe { offset.read() }).ok(),
    });
    let Some(begin) = position.flatten() else {
        return match socket.is_stream() {
            // Files without offsets are read by the kernel.
            true => through(library, socket, false, by_kernel),
            false => Some(Err(Errno::INVAL)),
        };
    };
    let sent = match socket.is_stream() {
        true => bytes::send_file(library, socket, file, begin, count),
        false => bytes::send_file_as_datagram(library, socket, file, begin, count)?,
    };
    if socket.is_stream() && sent == Err(Errno::PIPE) {
        sys::raise_broken_pipe();
    }
    if let Ok(len) = sent {
        let end = begin + len as u64;
        match offset.is_null() {
            true => drop(rustix::fs::seek(file, rustix::fs::SeekFrom::Start(end))),
            // SAFETY: as above.
            false => unsafe { offset.write(end as off_t) },
        }
    }
    Some(sent)
}
