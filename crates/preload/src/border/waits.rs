//! Who waits for descriptors: `epoll_wait` and its kin, which look at rings; `poll` and `select`, which do not, so that what they
//! wait for is shown by its placeholder.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::mem::ManuallyDrop;

use fusewire_outboard::client::Result;
use libc::{epoll_event, nfds_t, pollfd, sigset_t, size_t, timespec};

use super::{aliases, answer, by_libc, cancel, kernel, memory, pass_on, result_of};
use crate::library;
use crate::waits::{self, Patience, elsewhere};

by_libc! { epoll_pwait, epoll_pwait2, poll, ppoll, pselect, select }

/// Bytes of a set of signals, to the kernel.
const SIGNALS: usize = 8;

/// A wait in an epoll: by `sleep` as long as the program says, or, unless the program `waits`, by the system call of this number
/// with an argument for no time.
///
/// # Safety
/// `events` points to room for as many as `most` says, and the arguments are what the call asks.
unsafe fn wait(
    epoll: c_int,
    (events, most, waits): (*mut epoll_event, c_int, bool),
    (number, none): (c_long, usize),
    mask: usize,
    sleep: impl Fn(*mut epoll_event, c_int) -> Result<usize>,
) -> Result<usize> {
    let set = if most > 0 && !events.is_null() { waits::set(epoll) } else { None };
    let Some(set) = set else { return sleep(events, most) };
    // A thread that is cancelled in its sleep leaves the set as if it slept there for ever: others get a bell for each socket.
    let set = ManuallyDrop::new(set);
    // SAFETY: not null; the caller's obligation.
    let events = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let done = set.wait(events, waits, |room, patience| match patience {
        Patience::Given => sleep(room.as_mut_ptr(), room.len() as c_int),
        Patience::None => {
            let at = room.as_mut_ptr() as usize;
            let all = [epoll as usize, at, room.len(), none, mask, SIGNALS];
            // SAFETY: the caller's obligation.
            unsafe { kernel(number, all) }
        }
    });
    drop(ManuallyDrop::into_inner(set));
    done
}

/// Waits for events.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
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
pub unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    cancel::point();
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    let sleep = |at: *mut epoll_event, most: c_int| unsafe {
        let all = [epoll as usize, at as usize, most as usize, timeout as usize, mask as usize];
        let [a, b, c, d, e] = all;
        result_of(pass_on!(
            by_libc::epoll_pwait,
            (epoll => c_int, at => *mut epoll_event, most => c_int, timeout => c_int, mask => *const sigset_t) -> c_int,
            kernel(libc::SYS_epoll_pwait, [a, b, c, d, e, SIGNALS])
        ) as isize)
    };
    let how = (libc::SYS_epoll_pwait, 0);
    // SAFETY: the caller's obligation.
    answer(unsafe { wait(epoll, (events, most, timeout != 0), how, mask as usize, sleep) }) as c_int
}

/// The same for a time in nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    cancel::point();
    let none = timespec { tv_sec: 0, tv_nsec: 0 };
    let none = &raw const none;
    // SAFETY: null, or the caller's obligation.
    let waits = timeout.is_null() || unsafe { (*timeout).tv_sec != 0 || (*timeout).tv_nsec != 0 };
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    let sleep = |at: *mut epoll_event, most: c_int| unsafe {
        let all = [epoll as usize, at as usize, most as usize, timeout as usize, mask as usize];
        let [a, b, c, d, e] = all;
        result_of(pass_on!(
            by_libc::epoll_pwait2,
            (epoll => c_int, at => *mut epoll_event, most => c_int, timeout => *const timespec, mask => *const sigset_t) -> c_int,
            kernel(libc::SYS_epoll_pwait2, [a, b, c, d, e, SIGNALS])
        ) as isize)
    };
    let how = (libc::SYS_epoll_pwait2, none as usize);
    // SAFETY: the caller's obligation; no time is there as long as the call.
    answer(unsafe { wait(epoll, (events, most, waits), how, mask as usize, sleep) }) as c_int
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
/// Requirements of the call on its arguments.
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
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    unsafe {
        polled(fds, count);
        if let Some(shown) = poll_fresh((fds, count), std::ptr::null()) {
            return shown;
        }
        pass_on!(
            by_libc::poll,
            (fds => *mut pollfd, count => nfds_t, timeout => c_int) -> c_int,
            kernel_ppoll((fds, count), milliseconds(timeout), std::ptr::null())
        )
    }
}

/// The same for a time in nanoseconds, with other signals blocked meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        polled(fds, count);
        if let Some(shown) = poll_fresh((fds, count), mask) {
            return shown;
        }
        pass_on!(
            by_libc::ppoll,
            (fds => *mut pollfd, count => nfds_t, timeout => *const timespec, mask => *const sigset_t) -> c_int,
            kernel_ppoll((fds, count), timeout.as_ref().copied(), mask)
        )
    }
}

/// The system call, before libc's function is known.
///
/// # Safety
/// As of `ppoll`.
unsafe fn kernel_ppoll(
    (fds, count): (*mut pollfd, nfds_t),
    mut left: Option<timespec>,
    mask: *const sigset_t,
) -> Result<usize> {
    let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let all = [fds as usize, count as usize, left as usize, mask as usize, SIGNALS];
    // SAFETY: the caller's obligation; the kernel writes what is left of the time, which is ours.
    unsafe { kernel(libc::SYS_ppoll, all) }
}

/// Polls without waiting if there is a fresh stream, because that one shows `POLLHUP` already.
///
/// # Safety
/// As of `ppoll`.
unsafe fn poll_fresh((fds, count): (*mut pollfd, nfds_t), mask: *const sigset_t) -> Option<c_int> {
    // SAFETY: the caller's obligation.
    unsafe {
        fresh(fds, count).next()?;
        let now = Some(timespec { tv_sec: 0, tv_nsec: 0 });
        let done = kernel_ppoll((fds, count), now, mask);
        Some(answer(done.map(|shown| shown + show_fresh(fds, count))) as c_int)
    }
}

/// The streams among what is polled that neither were connected nor listen, of which the kernel would say `POLLHUP`.
///
/// # Safety
/// `fds` is null or points to `count` of them, as long as this is used.
unsafe fn fresh(fds: *mut pollfd, count: nfds_t) -> impl Iterator<Item = *mut pollfd> {
    let all = if fds.is_null() || count > 1 << 20 { 0 } else { count as usize };
    // SAFETY: the caller's obligation.
    let all = (0..all).map(move |at| unsafe { fds.add(at) });
    // SAFETY: as above.
    all.filter(|one| waits::is_fresh(unsafe { (**one).fd }))
}

/// Shows of fresh streams what the kernel would; how many showed nothing before.
///
/// # Safety
/// As of [`fresh`].
unsafe fn show_fresh(fds: *mut pollfd, count: nfds_t) -> usize {
    // SAFETY: the caller's obligation.
    let all = unsafe { fresh(fds, count) };
    all.filter(|one| {
        // SAFETY: as above.
        let one = unsafe { &mut **one };
        let had_none = one.revents == 0;
        one.revents |= libc::POLLHUP;
        had_none
    })
    .count()
}

/// `poll` with the room that the compiler knows of.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
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
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
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

/// Waits for descriptors of three sets, and stores the time that is left, as Linux does.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    readable: *mut c_void,
    writable: *mut c_void,
    special: *mut c_void,
    timeout: *mut libc::timeval,
) -> c_int {
    let sets = [readable, writable, special];
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    unsafe {
        all_selected(count, sets);
        pass_on!(
            by_libc::select,
            (count => c_int, readable => *mut c_void, writable => *mut c_void, special => *mut c_void, timeout => *mut libc::timeval) -> c_int,
            kernel_select(count, sets, timeout)
        )
    }
}

/// The system call, before libc's function is known.
///
/// # Safety
/// As of `select`.
unsafe fn kernel_select(
    count: c_int,
    sets: [*mut c_void; 3],
    timeout: *mut libc::timeval,
) -> Result<usize> {
    // SAFETY: the caller's obligation.
    unsafe {
        let mut left = timeout.as_ref().map(|given| timespec {
            tv_sec: given.tv_sec.saturating_add(given.tv_usec / 1_000_000),
            tv_nsec: given.tv_usec % 1_000_000 * 1000,
        });
        let at = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let [readable, writable, special] = sets.map(|set| set as usize);
        let all = [count as usize, readable, writable, special, at as usize, 0];
        let done = kernel(libc::SYS_pselect6, all);
        if let Some(left) = left {
            *timeout = libc::timeval { tv_sec: left.tv_sec, tv_usec: left.tv_nsec / 1000 };
        }
        done
    }
}

/// The same with other signals blocked meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    readable: *mut c_void,
    writable: *mut c_void,
    special: *mut c_void,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [readable, writable, special];
    // SAFETY: as above.
    unsafe {
        all_selected(count, sets);
        pass_on!(
            by_libc::pselect,
            (count => c_int, readable => *mut c_void, writable => *mut c_void, special => *mut c_void, timeout => *const timespec, mask => *const sigset_t) -> c_int,
            kernel_pselect(count, sets, timeout.as_ref().copied(), mask)
        )
    }
}

/// The system call, before libc's function is known.
///
/// # Safety
/// As of `pselect`.
unsafe fn kernel_pselect(
    count: c_int,
    sets: [*mut c_void; 3],
    mut left: Option<timespec>,
    mask: *const sigset_t,
) -> Result<usize> {
    let left = left.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let signals = [mask as usize, SIGNALS];
    let [readable, writable, special] = sets.map(|set| set as usize);
    let signals_at = &raw const signals as usize;
    let all = [count as usize, readable, writable, special, left as usize, signals_at];
    // SAFETY: the caller's obligation; the kernel writes what is left of the time, which is ours.
    unsafe { kernel(libc::SYS_pselect6, all) }
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

extern "C" fn in_child() {
    if let Some(library) = library::library() {
        library.client.close_inherited();
    }
}

/// What is done before the program begins.
pub fn begin() {
    // SAFETY: functions that may be called whenever the process makes a child, and in that child: they allocate nothing.
    let _ = unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
}
