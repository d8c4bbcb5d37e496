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

/// Lets a socket keep so many bytes that nobody has read; false when it may not keep half of them.
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
    let mut len: c_int = 0;
    // SAFETY: the kernel writes one `c_int`, which lives across the call.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut len) };
    if status == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}
