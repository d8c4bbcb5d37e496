//! `fcntl` and `ioctl`, whose last argument is a number or a pointer: both are passed alike.

use std::ffi::{c_int, c_ulong};

use super::{Ours, aliases, answer, cancel, interfaces, interposed, kernel, pass_on};
use crate::library::{self, ours};
use crate::{bytes, waits};

const SIOCATMARK: c_ulong = 0x8905;

/// Flags and copies of a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    if matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW) {
        // Waiting for a lock is a cancellation point.
        let all = [fd as usize, command as usize, argument];
        // SAFETY: what libc has under this name takes these arguments; the caller's obligation otherwise.
        return unsafe {
            pass_on!(
                cancel::by_libc::fcntl,
                (fd => c_int, command => c_int, argument => usize) -> c_int,
                kernel(libc::SYS_fcntl, all)
            )
        };
    }
    // SAFETY: the caller's obligation.
    let done = unsafe { kernel(libc::SYS_fcntl, [fd as usize, command as usize, argument]) };
    if let (Ok(new), libc::F_DUPFD | libc::F_DUPFD_CLOEXEC, Some(library)) =
        (done, command, library::library())
    {
        waits::elsewhere(fd);
        library.forget(new as c_int);
    }
    answer(done) as c_int
}

aliases! {
    __fcntl = fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64 = fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
}

interposed! {
    /// What is there to be read, and interfaces.
    fn ioctl = SYS_ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        if let Some(done) = interfaces::ask(fd, request, argument) {
            return Some(done);
        }
        let (library, socket) = ours(fd)?;
        match request & 0xffff_ffff {
            libc::FIONREAD if !socket.is_stream() => put(argument, bytes::next_len(library, &socket)),
            libc::FIONREAD => put(argument, bytes::unread(library, &socket)?),
            libc::TIOCOUTQ if socket.is_stream() => put(argument, bytes::unsent(library, &socket)),
            SIOCATMARK => put(argument, Ok(0)),
            _ => None,
        }
    }
}

/// # Safety
/// The argument is null or points to a number.
unsafe fn put(argument: usize, value: fusewire_outboard::client::Result<usize>) -> Ours {
    let at = argument as *mut c_int;
    Some(value.and_then(|value| {
        if at.is_null() {
            return Err(rustix::io::Errno::FAULT);
        }
        // SAFETY: not null; the caller's obligation.
        unsafe { at.write(value as c_int) };
        Ok(0)
    }))
}
