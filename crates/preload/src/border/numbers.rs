//! Numbers of descriptors that come, go and are copied. What a copy is, is asked when it is used.

use std::ffi::{c_int, c_uint};

use rustix::io::Errno;

use super::{ByLibc, aliases, answer, interposed, kernel};
use crate::library::{self, ours};
use crate::table::Watch;
use crate::waits;

/// A number is about to be closed, or to be another's.
fn closes(number: c_int) {
    if let Some(library) = library::library() {
        library.close(number);
    }
}

interposed! {
    /// Closes. It is no cancellation point, because the library closes its own descriptors by this name too.
    fn close = SYS_close(fd: c_int) -> c_int {
        closes(fd);
        Some(kernel(libc::SYS_close, [fd as usize]))
    }

    /// Closes many.
    fn close_range = SYS_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if let Some(library) = library::library()
            && flags as c_uint & libc::CLOSE_RANGE_CLOEXEC == 0
        {
            library.close_range(first, last);
        }
        None
    }

    /// Watches.
    fn epoll_ctl = SYS_epoll_ctl(epoll: c_int, what: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int {
        let Some((library, socket)) = ours(fd) else {
            // One that watches others is watched itself.
            waits::elsewhere(fd);
            return None;
        };
        let watch = (what != libc::EPOLL_CTL_DEL && !event.is_null()).then(|| {
            let event = event.read_unaligned();
            Watch { epoll, events: event.events, data: event.u64 }
        });
        let all = [epoll as usize, what as usize, fd as usize, event as usize];
        Some(kernel(libc::SYS_epoll_ctl, all).inspect(|_| library.watched(&socket, watch)))
    }

    /// A new epoll, whatever had its number before.
    fn epoll_create1 = SYS_epoll_create1(flags: c_int) -> c_int {
        Some(kernel(libc::SYS_epoll_create1, [flags as usize]).inspect(|new| comes(*new as c_int)))
    }
}

/// A number is new.
fn comes(number: c_int) {
    if let Some(library) = library::library() {
        library.forget(number);
    }
}

/// A new epoll.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    match size {
        // SAFETY: numbers alone.
        1.. => unsafe { epoll_create1(0) },
        _ => answer(Err(Errno::INVAL)) as c_int,
    }
}

aliases! {
    __close = close(fd: c_int) -> c_int;
    __dup2 = dup2(fd: c_int, new: c_int) -> c_int;
}

/// Closes from a number on.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: the caller's obligation.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// A copy.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: numbers alone.
    let new = answer(unsafe { kernel(libc::SYS_dup, [fd as usize]) }) as c_int;
    waits::elsewhere(fd);
    comes(new);
    new
}

/// A copy of a number that is given.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int {
    if fd != new {
        closes(new);
    }
    waits::elsewhere(fd);
    // SAFETY: numbers alone.
    answer(unsafe { kernel(libc::SYS_dup3, [fd as usize, new as usize, flags as usize]) }) as c_int
}

/// The same, which the number itself may be.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(fd: c_int, new: c_int) -> c_int {
    if fd == new {
        // SAFETY: numbers alone.
        let open = unsafe { kernel(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize]) };
        return answer(open.map(|_| fd as usize).map_err(|_| Errno::BADF)) as c_int;
    }
    // SAFETY: the caller's obligation.
    unsafe { dup3(fd, new, 0) }
}

static FDOPEN: ByLibc = ByLibc::new("fdopen\0");
static FCLOSE: ByLibc = ByLibc::new("fclose\0");

/// Makes a stream of libc's, which reads and writes the descriptor without asking us.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const libc::c_char) -> *mut libc::FILE {
    type Fdopen = unsafe extern "C" fn(c_int, *const libc::c_char) -> *mut libc::FILE;
    let found = FDOPEN.get();
    if found.is_null() {
        answer(Err(Errno::NOSYS));
        return std::ptr::null_mut();
    }
    if let Some((library, socket)) = ours(fd) {
        library.give_up(&socket);
    }
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    unsafe { std::mem::transmute::<*mut libc::c_void, Fdopen>(found)(fd, mode) }
}

/// Closes a stream of libc's, whose descriptor it closes without asking us.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fclose(file: *mut libc::FILE) -> c_int {
    type Fclose = unsafe extern "C-unwind" fn(*mut libc::FILE) -> c_int;
    let found = FCLOSE.get();
    if file.is_null() || found.is_null() {
        return answer(Err(Errno::BADF)) as c_int;
    }
    // SAFETY: a stream, as the caller vouches; one without a descriptor says so.
    closes(unsafe { libc::fileno(file) });
    // SAFETY: what libc has under this name is of this type; the stream is the caller's.
    unsafe { std::mem::transmute::<*mut libc::c_void, Fclose>(found)(file) }
}
