//! What C calls to wait for many: `select` and `epoll`.

use std::ffi::c_int;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use libc::{epoll_event, fd_set, sigset_t, timeval};

use super::memory;
use crate::epoll::{Epoll, Event};
use crate::errno::{Errno, Result};
use crate::poll::{self, Asked};
use crate::table::{self, Entry};

/// With an operation of `fw_epoll_ctl`: the descriptor is the kernel's.
const KERNEL: c_int = 0x1000;

/// Waits in the kernel's epoll, with other signals held back where `mask` is not null.
///
/// # Safety
/// `mask` is null or a set of signals.
unsafe fn sleep(
    epoll: RawFd,
    events: &mut [epoll_event],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> io::Result<usize> {
    // A time that is not over is never none at all.
    let ms = |time: Duration| time.as_micros().div_ceil(1000).min(i32::MAX as u128) as c_int;
    let room = events.len() as c_int;
    // SAFETY: as many events as there is room for, and the mask is the caller's obligation.
    let count = unsafe {
        libc::epoll_pwait(epoll, events.as_mut_ptr(), room, timeout.map_or(-1, ms), mask)
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Adds, changes or takes out a descriptor of the kernel's.
fn kernel_ctl(
    epoll: &Epoll,
    operation: c_int,
    fd: c_int,
    event: Option<epoll_event>,
) -> Result<()> {
    let mut own = event.map(|event| epoll_event { events: event.events, u64: fd as u32 as u64 });
    let at = own.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: null, or an event of ours.
    if unsafe { libc::epoll_ctl(epoll.kernel(), operation, fd, at) } < 0 {
        return Err(io::Error::last_os_error().into());
    }
    epoll.set_kernel_word(fd, event.map(|event| event.u64));
    Ok(())
}

/// The bits of a set that stand for descriptors below `count`.
///
/// # Safety
/// `set` is null or a set.
unsafe fn members<'a>(
    set: *mut fd_set,
    count: c_int,
) -> Result<Option<(&'a mut fd_set, Vec<c_int>)>> {
    if set.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the rest is the caller's obligation.
    let set = unsafe { memory::array_mut(set, 1, 1) }?;
    let set = &mut set[0];
    // SAFETY: of a set, and below its size.
    let all = (0..count).filter(|fd| unsafe { libc::FD_ISSET(*fd, set) }).collect();
    Ok(Some((set, all)))
}

exported! {
    fn fw_select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int {
        if !(0..=libc::FD_SETSIZE as c_int).contains(&count) {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: null, or a time: the header file's contract.
        let timeout = match unsafe { memory::value(timeout) } {
            Some(time) if time.tv_sec < 0 || !(0..1_000_000).contains(&time.tv_usec) => {
                return Err(Errno(libc::EINVAL));
            }
            Some(time) => Some(Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)),
            None => None,
        };
        let ended = libc::POLLIN | libc::POLLHUP | libc::POLLERR;
        let kinds = [
            (read, libc::POLLIN, ended),
            (write, libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
            (except, libc::POLLPRI, libc::POLLPRI),
        ];
        let (mut asked, mut sets) = (Vec::new(), Vec::new());
        for (set, events, means) in kinds {
            // SAFETY: null, or a set: the header file's contract.
            let Some((set, all)) = (unsafe { members(set, count) })? else { continue };
            let begin = asked.len();
            asked.extend(all.into_iter().map(|fd| Asked { fd, events, revents: 0 }));
            sets.push((set, begin..asked.len(), means));
        }
        poll::poll(&mut asked, timeout)?;
        if asked.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
            return Err(Errno(libc::EBADF));
        }
        let mut ready = 0;
        for (set, range, means) in sets {
            // SAFETY: a set.
            unsafe { libc::FD_ZERO(set) };
            for one in asked[range].iter().filter(|one| one.revents & means != 0) {
                // SAFETY: of a set, and below its size.
                unsafe { libc::FD_SET(one.fd, set) };
                ready += 1;
            }
        }
        Ok(ready)
    }

    fn fw_epoll_create(size: c_int) -> c_int {
        if size <= 0 {
            return Err(Errno(libc::EINVAL));
        }
        table::insert(Entry::Epoll(Arc::new(Epoll::new()?)))
    }

    fn fw_epoll_create1(flags: c_int) -> c_int {
        if flags & !libc::EPOLL_CLOEXEC != 0 {
            return Err(Errno(libc::EINVAL));
        }
        table::insert(Entry::Epoll(Arc::new(Epoll::new()?)))
    }

    fn fw_epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        let epoll = table::epoll(epoll)?;
        // SAFETY: null, or an event: the header file's contract.
        let event = unsafe { memory::value(event) };
        let (is_kernel, operation) = (operation & KERNEL != 0, operation & !KERNEL);
        if operation != libc::EPOLL_CTL_DEL && event.is_none() {
            return Err(Errno(libc::EFAULT));
        }
        if is_kernel {
            let event = event.filter(|_| operation != libc::EPOLL_CTL_DEL);
            return kernel_ctl(&epoll, operation, fd, event);
        }
        let socket = match table::entry(fd)? {
            Entry::Socket(socket) => socket,
            // Its placeholder is the kernel's.
            Entry::Outboard(socket) => {
                let event = event.filter(|_| operation != libc::EPOLL_CTL_DEL);
                return kernel_ctl(&epoll, operation, socket.number(), event);
            }
            Entry::Epoll(_) => return Err(Errno(libc::EINVAL)),
            _ => return Err(Errno(libc::EPERM)),
        };
        let asked = event.map_or(Event::default(), |e| Event { events: e.events, data: e.u64 });
        match operation {
            libc::EPOLL_CTL_ADD => epoll.add(fd, &socket, asked),
            libc::EPOLL_CTL_MOD => epoll.modify(fd, &socket, asked),
            libc::EPOLL_CTL_DEL => epoll.remove(fd, &socket),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn fw_epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
        // SAFETY: the header file's contract is the same.
        Ok(unsafe { fw_epoll_pwait(epoll, events, most, timeout, std::ptr::null()) })
    }

    fn fw_epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int {
        let epoll = table::epoll(epoll)?;
        let most = usize::try_from(most).ok().filter(|most| *most > 0);
        let most = most.ok_or(Errno(libc::EINVAL))?;
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        // SAFETY: the mask is null or a set of signals: the header file's contract.
        let mut asleep = |fd: RawFd, events: &mut [epoll_event], left: Option<Duration>| unsafe {
            sleep(fd, events, left, mask)
        };
        let told = epoll.wait(most, timeout, &mut asleep)?;
        // SAFETY: null, or `most` events: the header file's contract.
        let events = unsafe { memory::array_mut(events, told.len(), most) }?;
        for (event, told) in events.iter_mut().zip(&told) {
            *event = epoll_event { events: told.events, u64: told.data };
        }
        Ok(told.len())
    }
}
