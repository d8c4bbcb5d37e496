//! Integer socket options, and what waits behind a socket.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `setsockopt` of one integer.
pub(crate) fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer is to a live `c_int` and the length is its size; the kernel only reads it.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `getsockopt` of one integer.
pub(crate) fn get(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` and `len` live across the call, and the kernel writes at most `len` bytes,
    // which is the size of `value`; every bit pattern is a `c_int`.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast::<c_void>(),
            &raw mut len,
        )
    };
    if status == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// `SO_PASSRIGHTS`, which Linux has since 6.16.
const SO_PASSRIGHTS: c_int = 83;

/// Whether a Unix socket takes descriptors (`SCM_RIGHTS`): otherwise sending one to it is `EPERM`. Who connects to one that
/// listens inherits it.
///
/// # Errors
/// The kernel is older than 6.16, where every one does.
pub fn pass_rights(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, SO_PASSRIGHTS, c_int::from(on))
}

/// Lets a socket keep so many bytes that nobody has read; false when it may not keep half of them.
#[cfg(feature = "interfaces")]
pub(crate) fn reserve_to_receive(fd: BorrowedFd<'_>, bytes: usize) -> bool {
    // The kernel doubles what it is told.
    let half = (bytes / 2) as c_int;
    let forced = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, half);
    let _ = forced.or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, half));
    get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).is_ok_and(|now| now >= half)
}

/// Memory that holds what was sent by a Unix socket and its peer has not read (`SIOCOUTQ`): 0 when it has read all.
///
/// # Errors
/// It is no socket.
pub fn unread_by_peer(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // Not by libc's `ioctl`, which may be one that asks us.
    // SAFETY: of this number the kernel writes one `c_int`.
    let asked = unsafe {
        let ask =
            rustix::ioctl::Getter::<{ libc::TIOCOUTQ as rustix::ioctl::Opcode }, c_int>::new();
        rustix::ioctl::ioctl(fd, ask)
    };
    Ok(asked? as usize)
}
