//! Cancellation of threads (pthreads(7)): calls on our sockets are cancellation points, as libc's are.
//!
//! A thread that is cancelled leaves its stack by unwinding, and destructors that run then are not Rust's to rely on. So a
//! call that may wait is made without waiting, and the thread sleeps here, in libc's own function, while nothing of the
//! library is held. A process with one thread waits inside of the client: no other thread can cancel it.
//!
//! Not cancelled while it waits: a receive call with `MSG_WAITALL` that has received a part, `recvmmsg` behind its first
//! message, `sendfile` and `splice`.

use std::ffi::{c_char, c_int, c_void};

use fusewire_outboard::client::Result;
use libc::{nfds_t, pollfd, size_t, ssize_t};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};

use super::{Ours, by_libc, kernel, pass_on, result_of};
use crate::library::Library;
use crate::sockets;
use crate::sys;
use crate::table::Socket;

by_libc! { fcntl, poll, preadv2, pwritev2, recv }

unsafe extern "C" {
    /// Not 0 as long as the process has one thread, and that thread has not cancelled itself.
    static __libc_single_threaded: c_char;
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Event that a call on a socket waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Something to receive.
    ToRead,
    /// Room to send, or the end of connecting.
    ToWrite,
}

/// Returns `true` if the calling thread may be cancelled by another.
pub fn is_possible() -> bool {
    // SAFETY: libc's variable, which is there as long as the process; a thread that sees an old value has no other thread
    // beside it whose cancellation it could miss.
    unsafe { (&raw const __libc_single_threaded).read_volatile() == 0 }
}

/// Ends the thread if it has been cancelled.
pub fn point() {
    if is_possible() {
        // SAFETY: the callers of this module have no destructors on the stack, as `border` says.
        unsafe { pthread_testcancel() };
    }
}

/// Makes a call that may wait, unless the program has told it not to. `call` is told whether to return `EAGAIN` in place of
/// waiting, and is made again after each sleep.
pub fn waiting(
    library: &Library,
    socket: &Socket,
    (wait, is_told_not_to): (Wait, bool),
    mut call: impl FnMut(bool) -> Ours,
) -> Ours {
    if is_told_not_to || !is_possible() {
        return call(false);
    }
    let mut is_armed = false;
    loop {
        match call(true) {
            Some(Err(Errno::AGAIN)) => {}
            done => return done,
        }
        // The first time, the thread looks for a while, and the call is made once more: from then on a bell rings.
        let next = match is_armed {
            true => sleep(socket, wait),
            false => prepare(library, socket, wait),
        };
        if let Err(error) = next {
            return Some(Err(error));
        }
        is_armed = true;
    }
}

/// Looks for a while whether something has come, and leaves a socket so that its placeholder shows what comes later.
///
/// # Errors
/// `EAGAIN`: calls on the socket do not wait.
fn prepare(library: &Library, socket: &Socket, wait: Wait) -> Result<()> {
    if sockets::is_nonblocking(socket.p())? {
        return Err(Errno::AGAIN);
    }
    if wait == Wait::ToRead {
        library.wait_elsewhere(socket.number);
        library.look(socket);
    }
    Ok(())
}

/// Sleeps until a placeholder shows something, in libc's own function.
///
/// # Errors
/// `EAGAIN`: calls on the socket do not wait, or not for so long; `EINTR`.
pub fn sleep(socket: &Socket, wait: Wait) -> Result<()> {
    match wait {
        Wait::ToRead => {
            let (mut byte, number) = (0u8, socket.number);
            let at = (&raw mut byte).cast::<c_void>();
            let all = [number as usize, at as usize, 1, libc::MSG_PEEK as usize, 0, 0];
            // SAFETY: what libc has under this name is of this type, and writes one byte at most. Interrupted calls begin
            // again or not, and take as long as `SO_RCVTIMEO` says: both are the kernel's.
            let done = result_of(unsafe {
                pass_on!(
                    by_libc::recv,
                    (number => c_int, at => *mut c_void, 1 => size_t, libc::MSG_PEEK => c_int) -> ssize_t,
                    kernel(libc::SYS_recvfrom, all)
                )
            });
            match done {
                Err(error @ (Errno::AGAIN | Errno::INTR)) => Err(error),
                // The call that follows is told.
                _ => Ok(()),
            }
        }
        Wait::ToWrite => sleep_to_write(socket),
    }
}

fn sleep_to_write(socket: &Socket) -> Result<()> {
    if sockets::is_nonblocking(socket.p())? {
        return Err(Errno::AGAIN);
    }
    let limit = socket_timeout(socket.p(), Timeout::Send)?;
    let limit = limit.map_or(-1, |limit| c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX));
    let mut fd = pollfd { fd: socket.number, events: libc::POLLOUT, revents: 0 };
    let at = &raw mut fd;
    loop {
        // SAFETY: what libc has under this name is of this type; one descriptor is there.
        let done = result_of(unsafe {
            let call: isize = pass_on!(
                by_libc::poll,
                (at => *mut pollfd, 1 => nfds_t, limit => c_int) -> c_int,
                kernel(libc::SYS_ppoll, [at as usize, 1, 0, 0, 0])
            ) as isize;
            call
        });
        match done {
            Ok(0) => return Err(Errno::AGAIN),
            Ok(_) => return Ok(()),
            // `poll` is never made again, but a call that sends is.
            Err(Errno::INTR) if sys::restarts_calls() => {}
            Err(error) => return Err(error),
        }
    }
}
