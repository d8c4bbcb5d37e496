//! What C calls on sockets as on files: `read` and `write`, `dup`, `ioctl`, `sendfile`.

use std::ffi::{c_int, c_ulong, c_void};
use std::os::fd::BorrowedFd;

use libc::{iovec, msghdr, off_t, size_t, ssize_t};

use super::messages::{fw_recvmsg, fw_sendmsg};
use super::{fw_recv, fw_send, memory};
use crate::errno::{Errno, Result};
use crate::posix::send_file_as_message;
use crate::table;

/// A message that is nothing but pieces.
fn message(pieces: *const iovec, count: c_int) -> Result<msghdr> {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: a header of zeros names nobody and nothing.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (pieces.cast_mut(), count as _);
    Ok(header)
}

exported! {
    fn fw_read(fd: c_int, out: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the header file's contract is the same.
        Ok(unsafe { fw_recv(fd, out, len, 0) })
    }

    fn fw_write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: the header file's contract is the same.
        Ok(unsafe { fw_send(fd, bytes, len, 0) })
    }

    fn fw_readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        let mut header = message(pieces, count)?;
        // SAFETY: the header file's contract is the same.
        Ok(unsafe { fw_recvmsg(fd, &raw mut header, 0) })
    }

    fn fw_writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        let header = message(pieces, count)?;
        // SAFETY: the header file's contract is the same.
        Ok(unsafe { fw_sendmsg(fd, &raw const header, 0) })
    }

    fn fw_dup(fd: c_int) -> c_int {
        let socket = table::socket(fd)?;
        socket.duplicate();
        table::insert(socket.clone().entry()).inspect_err(|_| socket.close())
    }

    fn fw_ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
        let socket = table::socket(fd)?;
        // SAFETY: null, or one number: the header file's contract.
        let number = unsafe { memory::array_mut(argument, 1, 1) }?;
        match request {
            libc::FIONREAD => number[0] = c_int::try_from(socket.unread()?).unwrap_or(c_int::MAX),
            libc::TIOCOUTQ => number[0] = c_int::try_from(socket.unsent()?).unwrap_or(c_int::MAX),
            libc::FIONBIO => socket.set_nonblocking(number[0] != 0)?,
            _ => return Err(Errno(libc::ENOTTY)),
        }
        Ok(0)
    }

    fn fw_sendfile(fd: c_int, file: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        let socket = table::socket(fd)?;
        // SAFETY: null, or one number: the header file's contract.
        let from = unsafe { memory::value(offset) };
        let from = from.map(|at| u64::try_from(at).map_err(|_| Errno(libc::EINVAL))).transpose()?;
        if file < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: no descriptor is -1; the kernel says EBADF of one that is not open, and the caller keeps one that is.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        let sent = match socket.is_stream() {
            true => socket.send_file(file, from, count)?,
            false => send_file_as_message(&*socket, file, from, count)?,
        };
        if let Some(from) = from {
            // SAFETY: it was read from there: the header file's contract.
            unsafe { memory::put_number(offset.cast(), from + sent as u64) };
        }
        Ok(sent)
    }
}
