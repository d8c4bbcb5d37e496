//! Who waits for descriptors: `epoll_wait` and its kin, which look at rings; `poll` and `select`, which do not, so that what they
//! wait for is shown by its placeholder.

use std::ffi::{c_int, c_long, c_ulong, c_void};

use fusewire_outboard::client::Result;
use libc::{epoll_event, nfds_t, pollfd, size_t, timespec};

use super::{aliases, answer, kernel, memory};
use crate::library;
use crate::waits::{self, Patience, elsewhere};

/// Bytes of a set of signals, to the kernel.
const SIGNALS: usize = 8;

/// A wait in an epoll, by the system call of this number and with these arguments behind the room for events.
///
/// # Safety
/// `events` points to room for as many as `most` says, and the arguments are what the call asks.
unsafe fn wait(
    epoll: c_int,
    (events, most): (*mut epoll_event, c_int),
    (number, timeout, none): (c_long, usize, usize),
    mask: usize,
) -> Result<usize> {
    let ask = |at: *mut epoll_event, most: usize, timeout: usize| {
        let all = [epoll as usize, at as usize, most, timeout, mask, SIGNALS];
        // SAFETY: the caller's obligation.
        unsafe { kernel(number, all) }
    };
    let set = if most > 0 && !events.is_null() { waits::set(epoll) } else { None };
    let Some(set) = set else { return ask(events, most as usize, timeout) };
    // SAFETY: not null; the caller's obligation.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    set.wait(events, timeout != none, |room, patience| {
        let timeout = if patience == Patience::Given { timeout } else { none };
        ask(room.as_mut_ptr(), room.len(), timeout)
    })
}

/// Waits for events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe { epoll_pwait(epoll, events, most, timeout, std::ptr::null()) }
}

/// The same with other signals blocked meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    let how = (libc::SYS_epoll_pwait, timeout as usize, 0);
    // SAFETY: the caller's obligation.
    answer(unsafe { wait(epoll, (events, most), how, mask as usize) }) as c_int
}

/// The same for a time in nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    let none = timespec { tv_sec: 0, tv_nsec: 0 };
    let none = &raw const none;
    // SAFETY: null, or the caller's obligation.
    let is_none =
        !timeout.is_null() && unsafe { (*timeout).tv_sec == 0 && (*timeout).tv_nsec == 0 };
    let timeout = if is_none { none } else { timeout };
    let how = (libc::SYS_epoll_pwait2, timeout as usize, none as usize);
    // SAFETY: the caller's obligation; no time is there as long as the call.
    answer(unsafe { wait(epoll, (events, most), how, mask as usize) }) as c_int
}

/// What is polled is shown by its placeholder.
///
/// # Safety
/// `fds` is null or points to `count` of them.
unsafe fn polled(fds: *const pollfd, count: nfds_t) {
    let has_waiters = library::library().is_some_and(|library| library.has_waiters());
    if !has_waiters || fds.is_null() || count > 1 << 20 {
        return;
    }
    for at in 0..count as usize {
        // SAFETY: the caller's obligation.
        elsewhere(unsafe { (*fds.add(at)).fd });
    }
}

/// The same of a set of descriptors.
///
/// # Safety
/// `set` is null or points to `count` bits.
unsafe fn selected(count: c_int, set: *const c_ulong) {
    const BITS: usize = c_ulong::BITS as usize;
    if set.is_null() {
        return;
    }
    for number in 0..count.clamp(0, 1 << 20) {
        let (word, bit) = (number as usize / BITS, number as usize % BITS);
        // SAFETY: the caller's obligation: a set is words.
        if unsafe { set.add(word).read_unaligned() } & 1 << bit != 0 {
            elsewhere(number);
        }
    }
}

/// # Safety
/// As [`selected`], of each.
unsafe fn all_selected(count: c_int, sets: [*mut c_void; 3]) {
    if library::library().is_some_and(|library| library.has_waiters()) {
        // SAFETY: the caller's obligation.
        sets.into_iter().for_each(|set| unsafe { selected(count, set.cast()) });
    }
}

/// Descriptors that are handed to who may wait for them elsewhere.
///
/// # Safety
/// `header` is null or points to one, whose ancillary data are readable.
pub unsafe fn handed(header: *const libc::msghdr) {
    let has_waiters = library::library().is_some_and(|library| library.has_waiters());
    if !has_waiters || header.is_null() {
        return;
    }
    // SAFETY: not null; the caller's obligation.
    let Ok(control) = (unsafe { memory::bytes((*header).msg_control, (*header).msg_controllen) })
    else {
        return;
    };
    waits::rights(control, elsewhere);
}

/// A system call that may wait for descriptors, by its number, with the first of its arguments.
///
/// # Safety
/// What the call asks of its arguments.
pub unsafe fn seen(number: c_long, [a, b, c, d]: [usize; 4]) {
    // SAFETY: the caller's obligation.
    unsafe {
        match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => polled(a as _, b as _),
            libc::SYS_ppoll => polled(a as _, b as _),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => all_selected(a as c_int, [b as _, c as _, d as _]),
            libc::SYS_pselect6 => all_selected(a as c_int, [b as _, c as _, d as _]),
            _ => {}
        }
    }
}

/// A time of so many milliseconds; `None`: for ever.
fn milliseconds(timeout: c_int) -> Option<timespec> {
    let timeout = u32::try_from(timeout).ok()?;
    let (tv_sec, rest) = (timeout / 1000, timeout % 1000);
    Some(timespec { tv_sec: tv_sec.into(), tv_nsec: (rest * 1_000_000).into() })
}

/// Waits for what descriptors show.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let time = milliseconds(timeout);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the caller's obligation.
    unsafe { ppoll(fds, count, time, std::ptr::null()) }
}

/// The same for a time in nanoseconds, with other signals blocked meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's obligation; the kernel writes what is left of the time, which is the caller's to keep.
    unsafe {
        polled(fds, count);
        let mut left = timeout.as_ref().copied();
        let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let all = [fds as usize, count as usize, left as usize, mask as usize, SIGNALS];
        answer(kernel(libc::SYS_ppoll, all)) as c_int
    }
}

/// `poll` with the room that the compiler knows of.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: size_t,
) -> c_int {
    check(count, room);
    // SAFETY: the caller's obligation.
    unsafe { poll(fds, count, timeout) }
}

/// `ppoll` with that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const libc::sigset_t,
    room: size_t,
) -> c_int {
    check(count, room);
    // SAFETY: the caller's obligation.
    unsafe { ppoll(fds, count, timeout, mask) }
}

fn check(count: nfds_t, room: size_t) {
    if room / size_of::<pollfd>() < count as usize {
        std::process::abort();
    }
}

/// Waits for descriptors of three sets. What is left of the time is told, as Linux does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    readable: *mut c_void,
    writable: *mut c_void,
    special: *mut c_void,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: the caller's obligation.
    unsafe {
        all_selected(count, [readable, writable, special]);
        let sets = [readable as usize, writable as usize, special as usize];
        let mut left = timeout.as_ref().map(|given| timespec {
            tv_sec: given.tv_sec.saturating_add(given.tv_usec / 1_000_000),
            tv_nsec: given.tv_usec % 1_000_000 * 1000,
        });
        let at = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let all = [count as usize, sets[0], sets[1], sets[2], at as usize, 0];
        let done = kernel(libc::SYS_pselect6, all);
        if let Some(left) = left {
            *timeout = libc::timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1000 };
        }
        answer(done) as c_int
    }
}

/// The same with other signals blocked meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    readable: *mut c_void,
    writable: *mut c_void,
    special: *mut c_void,
    timeout: *const timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's obligation; the kernel writes what is left of the time, which is the caller's to keep.
    unsafe {
        all_selected(count, [readable, writable, special]);
        let sets = [readable as usize, writable as usize, special as usize];
        let mut left = timeout.as_ref().copied();
        let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let signals = [mask as usize, SIGNALS];
        let all =
            [count as usize, sets[0], sets[1], sets[2], left as usize, &raw const signals as usize];
        answer(kernel(libc::SYS_pselect6, all)) as c_int
    }
}

aliases! {
    __poll = poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    __select = select(
        count: c_int, readable: *mut c_void, writable: *mut c_void, special: *mut c_void, timeout: *mut libc::timeval
    ) -> c_int;
}

extern "C" fn before_fork() {
    if let Some(library) = library::library() {
        library.prepare_child();
    }
}

/// What is done before the program begins.
pub fn begin() {
    // SAFETY: a function that may be called whenever the process makes a child.
    let _ = unsafe { libc::pthread_atfork(Some(before_fork), None, None) };
}
