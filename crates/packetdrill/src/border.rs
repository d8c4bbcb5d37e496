//! The C border: `packetdrill_interface_init` and the functions that it hands out (packetdrill.h). Each one
//! turns pointers into slices, asks the [`Driver`], and turns its answer into a return value and `errno`.
//! The only file of this crate with `unsafe`.
//!
//! What packetdrill promises, and every block below rests on: a pointer is null or valid for the length that
//! comes with it, for the time of the call; nothing else writes to that memory meanwhile.
#![allow(unsafe_code, reason = "the C border of this crate; ARCHITECTURE.md lists it as a room")]

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use fusewire_base::Instant;
use libc::{epoll_event, iovec, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

use crate::calls::{Calls, Received};
use crate::driver::Driver;
use crate::errno::{Errno, Result};

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// Makes `struct packetdrill_interface` of its functions, in their order. Each is written without packetdrill's own
/// pointer, which comes first and means nothing here, and gives its answer, or why there is none.
macro_rules! interface {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $Type:ty),*) -> $Answer:ty $body:block)+) => {
        /// `struct packetdrill_interface`.
        #[repr(C)]
        pub struct Interface {
            userdata: *mut c_void,
            free: extern "C" fn(*mut c_void),
            $($name: extern "C" fn(*mut c_void $(, $Type)*) -> $Answer,)+
        }

        const TABLE: Interface = Interface { userdata: std::ptr::null_mut(), free, $($name,)+ };

        $(
            $(#[$about])*
            extern "C" fn $name(_: *mut c_void $(, $argument: $Type)*) -> $Answer {
                let attempt = || $body;
                answer(attempt()) as $Answer
            }
        )+
    };
}

/// Fills packetdrill's table. `flags` is what `--so_flags` says, or null.
///
/// # Safety
/// `interface` is valid for writing; `flags` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let flags = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: the caller's promise: not null, so a C string.
        unsafe { CStr::from_ptr(flags) }.to_string_lossy().into_owned()
    };
    // SAFETY: nothing else runs in this process yet but packetdrill's own thread, which waits for a mutex:
    // nobody reads the environment meanwhile. The script's shell commands must not inherit it.
    unsafe { libc::unsetenv(c"LD_PRELOAD".as_ptr()) };
    // SAFETY: takes back that packetdrill has locked its memory, which an ordinary user's limit does not allow
    // a stack's rings; time is virtual, so nothing is lost.
    unsafe { libc::munlockall() };
    DRIVER.get_or_init(|| Driver::new(&flags));
    // SAFETY: the caller's promise.
    unsafe { interface.write(TABLE) };
}

/// `getsockopt(2)` of the process, when this library is also preloaded: packetdrill reads TCP_INFO through
/// it and not through its table. Descriptors that are not ours go to the kernel.
mod preloaded {
    use super::{DRIVER, c_int, c_void, socklen_t};

    /// # Safety
    /// As for `getsockopt(2)`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> c_int {
        if DRIVER.get().is_some_and(|driver| driver.owns(fd)) {
            return super::getsockopt(std::ptr::null_mut(), fd, level, name, value, len);
        }
        // SAFETY: the arguments go to the kernel as they came, which checks them.
        unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int }
    }
}

fn driver() -> &'static Driver {
    DRIVER.get().expect("packetdrill calls packetdrill_interface_init first")
}

/// A call that does not block.
fn call<T>(f: impl FnOnce(&mut dyn Calls, Instant) -> Result<T>) -> Result<T> {
    driver().call(f)
}

fn answer<T: TryInto<i64>>(result: Result<T>) -> i64 {
    match result {
        Ok(value) => value.try_into().unwrap_or(i64::MAX),
        Err(Errno(errno)) => {
            // SAFETY: the C library gives each thread a valid place.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

/// Memory to read from.
fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno(libc::EFAULT)),
        // SAFETY: packetdrill's promise (head of the file); not null.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) }),
    }
}

/// Memory to write to.
fn bytes_mut<'a>(at: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Errno(libc::EFAULT)),
        // SAFETY: packetdrill's promise (head of the file); not null.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len) }),
    }
}

fn pieces<'a>(at: *const iovec, count: usize) -> Result<Vec<&'a [u8]>> {
    // SAFETY: packetdrill's promise: `count` elements lie there, none when it is 0.
    let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } };
    list.iter().map(|piece| bytes(piece.iov_base, piece.iov_len)).collect()
}

fn pieces_mut<'a>(at: *const iovec, count: usize) -> Result<Vec<&'a mut [u8]>> {
    // SAFETY: as in `pieces`.
    let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } };
    list.iter().map(|piece| bytes_mut(piece.iov_base, piece.iov_len)).collect()
}

fn address(at: *const sockaddr, len: socklen_t) -> Result<SocketAddr> {
    let raw = bytes(at.cast(), len as usize)?;
    let family = raw.first_chunk().map(|b| c_int::from(u16::from_ne_bytes(*b)));
    let port = |raw: &[u8]| u16::from_be_bytes([raw[2], raw[3]]);
    match family {
        Some(libc::AF_INET) if raw.len() >= size_of::<libc::sockaddr_in>() => {
            let ip = Ipv4Addr::new(raw[4], raw[5], raw[6], raw[7]);
            Ok(SocketAddr::new(ip.into(), port(raw)))
        }
        Some(libc::AF_INET6) if raw.len() >= size_of::<libc::sockaddr_in6>() => {
            let ip: [u8; 16] = raw[8..24].try_into().map_err(|_| Errno(libc::EINVAL))?;
            Ok(SocketAddr::new(Ipv6Addr::from(ip).into(), port(raw)))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

fn put_address(address: Option<SocketAddr>, at: *mut sockaddr, len: *mut socklen_t) -> Result<()> {
    let Some(address) = address.filter(|_| !at.is_null() && !len.is_null()) else { return Ok(()) };
    let mut raw = [0; size_of::<libc::sockaddr_in6>()];
    raw[2..4].copy_from_slice(&address.port().to_be_bytes());
    let (family, used) = match address.ip() {
        IpAddr::V4(ip) => {
            raw[4..8].copy_from_slice(&ip.octets());
            (libc::AF_INET, size_of::<libc::sockaddr_in>())
        }
        IpAddr::V6(ip) => {
            raw[8..24].copy_from_slice(&ip.octets());
            (libc::AF_INET6, raw.len())
        }
    };
    raw[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    // SAFETY: not null, so packetdrill's promise holds for both.
    let room = unsafe { *len } as usize;
    bytes_mut(at.cast(), room.min(used))?.copy_from_slice(&raw[..room.min(used)]);
    // SAFETY: as above.
    unsafe { *len = used as socklen_t };
    Ok(())
}

/// `TCP_CM_INQ`, the only control message that there is.
fn put_control(message: &mut msghdr, received: &Received) {
    let needed = size_of::<libc::cmsghdr>() + size_of::<c_int>();
    let Some(queued) = received
        .queued
        .filter(|_| message.msg_control as usize != 0 && message.msg_controllen >= needed)
    else {
        message.msg_controllen = 0;
        return;
    };
    // SAFETY: `msg_controllen` bytes lie at `msg_control`, at least a header and an int, aligned for it.
    unsafe {
        let header = message.msg_control.cast::<libc::cmsghdr>();
        (*header).cmsg_level = libc::SOL_TCP;
        (*header).cmsg_type = crate::descriptors::TCP_INQ;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(queued as c_int);
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
    }
}

extern "C" fn free(_: *mut c_void) {
    let _ = call(|files, _| {
        files.forget();
        Ok(())
    });
}

fn receive(fd: c_int, into: &mut [&mut [u8]], flags: c_int) -> Result<Received> {
    let received = driver().blocking(None, |files, _| files.receive(fd, into, flags))?;
    received.ok_or(Errno(libc::EAGAIN))
}

fn transmit(fd: c_int, from: &[u8], flags: c_int) -> Result<usize> {
    let mut done = 0;
    let sent = driver().blocking(None, |files, now| files.send(now, fd, from, &mut done, flags))?;
    sent.ok_or(Errno(libc::EAGAIN))
}

interface! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        call(|files, _| files.socket(domain, kind, protocol))
    }

    fn bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
        let local = address(at, len)?;
        call(|files, _| files.bind(fd, local))
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        call(|files, _| files.listen(fd, backlog))
    }

    fn accept(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let accepted = driver().blocking(None, |files, now| files.accept(now, fd))?;
        let (fd, from) = accepted.ok_or(Errno(libc::EAGAIN))?;
        put_address(Some(from), at, len)?;
        Ok(fd)
    }

    fn connect(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
        let to = address(at, len)?;
        call(|files, now| files.connect(now, fd, to))?;
        let connected = driver().blocking(None, |files, _| files.connected(fd))?;
        connected.ok_or(Errno(libc::EINPROGRESS))
    }

    fn read(fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
        Ok(receive(fd, &mut [bytes_mut(at, len)?], 0)?.len)
    }

    fn readv(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
        Ok(receive(fd, &mut pieces_mut(at, count.max(0) as usize)?, 0)?.len)
    }

    fn recv(fd: c_int, at: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        Ok(receive(fd, &mut [bytes_mut(at, len)?], flags)?.len)
    }

    fn recvfrom(
        fd: c_int,
        at: *mut c_void,
        len: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t
    ) -> ssize_t {
        let received = receive(fd, &mut [bytes_mut(at, len)?], flags)?;
        put_address(call(|files, _| Ok(files.peer(fd)))?, from, from_len)?;
        Ok(received.len)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: null, or packetdrill's promise holds, also for what it points to.
        let message = unsafe { message.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        let received = receive(fd, &mut pieces_mut(message.msg_iov, message.msg_iovlen)?, flags)?;
        message.msg_flags = received.flags;
        put_control(message, &received);
        Ok(received.len)
    }

    fn write(fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
        transmit(fd, bytes(at, len)?, 0)
    }

    fn writev(fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
        transmit(fd, &pieces(at, count.max(0) as usize)?.concat(), 0)
    }

    fn send(fd: c_int, at: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        transmit(fd, bytes(at, len)?, flags)
    }

    fn sendto(
        fd: c_int,
        at: *const c_void,
        len: size_t,
        flags: c_int,
        _to: *const sockaddr,
        _to_len: socklen_t
    ) -> ssize_t {
        transmit(fd, bytes(at, len)?, flags)
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: null, or packetdrill's promise holds.
        let message = unsafe { message.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        transmit(fd, &pieces(message.msg_iov, message.msg_iovlen)?.concat(), flags)
    }

    /// Variadic in packetdrill's header. On the ABIs of Linux that Rust builds shared libraries for, a named
    /// integer is found where the caller of a variadic function puts it; a caller that gives none leaves
    /// anything there, and the commands that come without do not look.
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
        call(|files, _| files.fcntl(fd, command, argument as c_int))
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
        // packetdrill hands the request on as an int: the upper half is its sign.
        let value = call(|files, _| files.ioctl(fd, request & 0xffff_ffff))?;
        // SAFETY: every request that the driver knows comes with an int to write to.
        unsafe { argument.write(value) };
        Ok(0)
    }

    fn close(fd: c_int) -> c_int {
        call(|files, now| files.close(now, fd))
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        call(|files, _| files.shutdown(fd, how))
    }

    fn getsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *mut c_void,
        len: *mut socklen_t
    ) -> c_int {
        // SAFETY: null, or packetdrill's promise holds.
        let len = unsafe { len.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        let option = call(|files, now| files.option(now, fd, level, name))?;
        let used = option.len().min(*len as usize);
        bytes_mut(value, used)?.copy_from_slice(&option[..used]);
        *len = used as socklen_t;
        Ok(0)
    }

    fn setsockopt(
        fd: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        len: socklen_t
    ) -> c_int {
        let value = bytes(value, len as usize)?;
        call(|files, now| files.set_option(now, fd, level, name, value))
    }

    fn poll(at: *mut pollfd, count: c_ulong, timeout_ms: c_int) -> c_int {
        let list = match count {
            0 => &mut [],
            // SAFETY: packetdrill's promise: `count` elements lie there.
            _ => unsafe { std::slice::from_raw_parts_mut(at, count as usize) },
        };
        let ready = driver().blocking(Some(timeout_ms), |files, _| {
            let mut ready = 0;
            for entry in &mut *list {
                entry.revents = files.ready(entry.fd, entry.events);
                ready += i32::from(entry.revents != 0);
            }
            Ok((ready > 0).then_some(ready))
        })?;
        Ok(ready.unwrap_or(0))
    }

    fn netdev_send(at: *const c_void, len: size_t) -> c_int {
        driver().inject(bytes(at, len)?);
        Ok(0)
    }

    fn netdev_receive(at: *mut c_void, len: *mut size_t, time_us: *mut c_longlong) -> c_int {
        // SAFETY: packetdrill's promise; both are always given.
        let (len, time_us) = unsafe { (&mut *len, &mut *time_us) };
        let into = bytes_mut(at, *len)?;
        // Length 0: nothing will ever come, and the script fails at once.
        let (packet, at_us) = driver().departure();
        *len = packet.len().min(into.len());
        into[..*len].copy_from_slice(&packet[..*len]);
        *time_us = at_us as c_longlong;
        Ok(0)
    }

    fn usleep(us: c_uint) -> c_int {
        driver().sleep(us.into());
        Ok(0)
    }

    fn gettimeofday(now: *mut timeval, _zone: *mut c_void) -> c_int {
        let us = driver().now_us();
        // SAFETY: packetdrill's promise.
        unsafe {
            (*now).tv_sec = (us / 1_000_000) as _;
            (*now).tv_usec = (us % 1_000_000) as _;
        }
        Ok(0)
    }

    fn epoll_create(_size: c_int) -> c_int {
        call(|files, _| files.epoll_create())
    }

    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        // SAFETY: null (for EPOLL_CTL_DEL) or packetdrill's promise.
        let event = unsafe { event.as_ref() }.map_or((0, 0), |e| (e.events, e.u64));
        call(|files, _| files.epoll_control(epoll, operation, fd, event))
    }

    fn epoll_wait(epoll: c_int, at: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int {
        let events = driver().blocking(Some(timeout_ms), |files, _| {
            let events = files.epoll_events(epoll, most.max(0) as usize)?;
            Ok((!events.is_empty()).then_some(events))
        })?;
        let events = events.unwrap_or_default();
        for (index, (events, data)) in events.iter().enumerate() {
            let event = epoll_event { events: *events, u64: *data };
            // SAFETY: packetdrill's promise: room for `most`, and there are not more.
            unsafe { at.add(index).write_unaligned(event) };
        }
        Ok(events.len())
    }

    fn pipe(_ends: *mut c_int) -> c_int {
        Err::<i32, _>(Errno(libc::ENOSYS))
    }

    fn splice(
        _from: c_int,
        _from_offset: *mut c_void,
        _to: c_int,
        _to_offset: *mut c_void,
        _len: size_t,
        _flags: c_uint
    ) -> ssize_t {
        Err::<i32, _>(Errno(libc::ENOSYS))
    }
}
