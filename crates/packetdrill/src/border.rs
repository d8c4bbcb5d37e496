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

use libc::{epoll_event, iovec, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

use crate::driver::Driver;
use crate::errno::{Errno, Result};
use crate::file::Received;

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// `struct packetdrill_interface`.
#[repr(C)]
pub struct Interface {
    userdata: *mut c_void,
    free: extern "C" fn(*mut c_void),
    socket: extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    bind: extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    listen: extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    accept: extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    connect: extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    read: extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t,
    readv: extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    recv: extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    recvfrom: extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    recvmsg: extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> ssize_t,
    write: extern "C" fn(*mut c_void, c_int, *const c_void, size_t) -> ssize_t,
    writev: extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    send: extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int) -> ssize_t,
    sendto: extern "C" fn(
        *mut c_void,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    sendmsg: extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> ssize_t,
    fcntl: extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int,
    ioctl: extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_int) -> c_int,
    close: extern "C" fn(*mut c_void, c_int) -> c_int,
    shutdown: extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    getsockopt:
        extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    setsockopt: extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    poll: extern "C" fn(*mut c_void, *mut pollfd, c_ulong, c_int) -> c_int,
    netdev_send: extern "C" fn(*mut c_void, *const c_void, size_t) -> c_int,
    netdev_receive: extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    usleep: extern "C" fn(*mut c_void, c_uint) -> c_int,
    gettimeofday: extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int,
    epoll_create: extern "C" fn(*mut c_void, c_int) -> c_int,
    epoll_ctl: extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    epoll_wait: extern "C" fn(*mut c_void, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pipe: extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    splice: extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        c_int,
        *mut c_void,
        size_t,
        c_uint,
    ) -> ssize_t,
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
    let table = Interface {
        userdata: std::ptr::null_mut(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt: getsockopt_callback,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: the caller's promise.
    unsafe { interface.write(table) };
}

/// `getsockopt(2)` of the process, when this library is also preloaded: packetdrill reads TCP_INFO through
/// it and not through its table. Descriptors that are not ours go to the kernel.
///
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
        return getsockopt_callback(std::ptr::null_mut(), fd, level, name, value, len);
    }
    // SAFETY: the arguments go to the kernel as they came, which checks them.
    unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) as c_int }
}

fn driver() -> &'static Driver {
    DRIVER.get().expect("packetdrill calls packetdrill_interface_init first")
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

fn answer_int<T: TryInto<i64>>(result: Result<T>) -> c_int {
    answer(result) as c_int
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

extern "C" fn free(_: *mut c_void) {
    driver().free();
}

extern "C" fn socket(_: *mut c_void, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    answer_int(driver().socket(domain, kind, protocol))
}

extern "C" fn bind(_: *mut c_void, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    answer_int(address(at, len).and_then(|address| driver().bind(fd, address)))
}

extern "C" fn listen(_: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    answer_int(driver().listen(fd, backlog))
}

extern "C" fn accept(_: *mut c_void, fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    answer_int(driver().accept(fd).and_then(|(fd, from)| {
        put_address(Some(from), at, len)?;
        Ok(fd)
    }))
}

extern "C" fn connect(_: *mut c_void, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    answer_int(address(at, len).and_then(|address| driver().connect(fd, address)))
}

extern "C" fn read(_: *mut c_void, fd: c_int, at: *mut c_void, len: size_t) -> ssize_t {
    recv(std::ptr::null_mut(), fd, at, len, 0)
}

extern "C" fn readv(_: *mut c_void, fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    let result = pieces_mut(at, count.max(0) as usize)
        .and_then(|mut into| driver().receive(fd, &mut into, 0).map(|received| received.len));
    answer(result) as ssize_t
}

extern "C" fn recv(
    _: *mut c_void,
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    let result = bytes_mut(at, len)
        .and_then(|into| driver().receive(fd, &mut [into], flags).map(|received| received.len));
    answer(result) as ssize_t
}

extern "C" fn recvfrom(
    userdata: *mut c_void,
    fd: c_int,
    at: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    let n = recv(userdata, fd, at, len, flags);
    match put_address(driver().peer(fd).filter(|_| n >= 0), from, from_len) {
        Ok(()) => n,
        error => answer_int(error.map(|()| 0)) as ssize_t,
    }
}

extern "C" fn recvmsg(_: *mut c_void, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if message.is_null() {
        return answer(Err::<i32, _>(Errno(libc::EFAULT))) as ssize_t;
    }
    // SAFETY: not null, so packetdrill's promise holds, also for what it points to.
    let message = unsafe { &mut *message };
    let result = pieces_mut(message.msg_iov, message.msg_iovlen).and_then(|mut into| {
        let received = driver().receive(fd, &mut into, flags)?;
        message.msg_flags = received.flags;
        put_control(message, &received);
        Ok(received.len)
    });
    answer(result) as ssize_t
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
        (*header).cmsg_type = crate::file::TCP_INQ;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(queued as c_int);
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
    }
}

extern "C" fn write(_: *mut c_void, fd: c_int, at: *const c_void, len: size_t) -> ssize_t {
    send(std::ptr::null_mut(), fd, at, len, 0)
}

extern "C" fn writev(_: *mut c_void, fd: c_int, at: *const iovec, count: c_int) -> ssize_t {
    let result =
        pieces(at, count.max(0) as usize).and_then(|from| driver().send(fd, &from.concat(), 0));
    answer(result) as ssize_t
}

extern "C" fn send(
    _: *mut c_void,
    fd: c_int,
    at: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    answer(bytes(at, len).and_then(|from| driver().send(fd, from, flags))) as ssize_t
}

extern "C" fn sendto(
    userdata: *mut c_void,
    fd: c_int,
    at: *const c_void,
    len: size_t,
    flags: c_int,
    _to: *const sockaddr,
    _to_len: socklen_t,
) -> ssize_t {
    send(userdata, fd, at, len, flags)
}

extern "C" fn sendmsg(_: *mut c_void, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if message.is_null() {
        return answer(Err::<i32, _>(Errno(libc::EFAULT))) as ssize_t;
    }
    // SAFETY: not null, so packetdrill's promise holds.
    let message = unsafe { &*message };
    let result = pieces(message.msg_iov, message.msg_iovlen)
        .and_then(|from| driver().send(fd, &from.concat(), flags));
    answer(result) as ssize_t
}

/// Variadic in packetdrill's header. On the ABIs of Linux that Rust builds shared libraries for, a named
/// integer is found where the caller of a variadic function puts it; a caller that gives none leaves
/// anything there, and the commands that come without do not look.
extern "C" fn fcntl(_: *mut c_void, fd: c_int, command: c_int, argument: c_long) -> c_int {
    answer_int(driver().fcntl(fd, command, argument as c_int))
}

extern "C" fn ioctl(_: *mut c_void, fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    // packetdrill hands the request on as an int: the upper half is its sign.
    let result = driver().ioctl(fd, request & 0xffff_ffff).map(|value| {
        // SAFETY: every request that the driver knows comes with an int to write to.
        unsafe { argument.write(value) };
        0
    });
    answer_int(result)
}

extern "C" fn close(_: *mut c_void, fd: c_int) -> c_int {
    answer_int(driver().close(fd))
}

extern "C" fn shutdown(_: *mut c_void, fd: c_int, how: c_int) -> c_int {
    answer_int(driver().shutdown(fd, how))
}

extern "C" fn getsockopt_callback(
    _: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if len.is_null() {
        return answer_int(Err::<i32, _>(Errno(libc::EFAULT)));
    }
    // SAFETY: not null, so packetdrill's promise holds.
    let room = unsafe { *len } as usize;
    let result = driver().option(fd, level, name).and_then(|option| {
        let used = option.len().min(room);
        bytes_mut(value, used)?.copy_from_slice(&option[..used]);
        // SAFETY: as above.
        unsafe { *len = used as socklen_t };
        Ok(0)
    });
    answer_int(result)
}

extern "C" fn setsockopt(
    _: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    answer_int(
        bytes(value, len as usize).and_then(|value| driver().set_option(fd, level, name, value)),
    )
}

extern "C" fn poll(_: *mut c_void, at: *mut pollfd, count: c_ulong, timeout_ms: c_int) -> c_int {
    let list = match count {
        0 => &mut [],
        // SAFETY: packetdrill's promise: `count` elements lie there.
        _ => unsafe { std::slice::from_raw_parts_mut(at, count as usize) },
    };
    answer_int(driver().poll(list, timeout_ms))
}

extern "C" fn netdev_send(_: *mut c_void, at: *const c_void, len: size_t) -> c_int {
    answer_int(bytes(at, len).map(|packet| {
        driver().inject(packet);
        0
    }))
}

extern "C" fn netdev_receive(
    _: *mut c_void,
    at: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: packetdrill's promise; both are always given.
    let (len, time_us) = unsafe { (&mut *len, &mut *time_us) };
    let result = bytes_mut(at, *len).map(|into| {
        // Length 0: nothing will ever come, and the script fails at once.
        let (packet, at_us) = driver().departure();
        *len = packet.len().min(into.len());
        into[..*len].copy_from_slice(&packet[..*len]);
        *time_us = at_us as c_longlong;
        0
    });
    answer_int(result)
}

extern "C" fn usleep(_: *mut c_void, us: c_uint) -> c_int {
    driver().sleep(us.into());
    0
}

extern "C" fn gettimeofday(_: *mut c_void, now: *mut timeval, _zone: *mut c_void) -> c_int {
    let us = driver().now_us();
    // SAFETY: packetdrill's promise.
    unsafe {
        (*now).tv_sec = (us / 1_000_000) as _;
        (*now).tv_usec = (us % 1_000_000) as _;
    }
    0
}

extern "C" fn epoll_create(_: *mut c_void, _size: c_int) -> c_int {
    answer_int(driver().epoll_create())
}

extern "C" fn epoll_ctl(
    _: *mut c_void,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: null (for EPOLL_CTL_DEL) or packetdrill's promise.
    let event = unsafe { event.as_ref() }.map_or((0, 0), |e| (e.events, e.u64));
    answer_int(driver().epoll_control(epoll, operation, fd, event))
}

extern "C" fn epoll_wait(
    _: *mut c_void,
    epoll: c_int,
    at: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    let result = driver().epoll_wait(epoll, most.max(0) as usize, timeout_ms).map(|events| {
        for (index, (events, data)) in events.iter().enumerate() {
            let event = epoll_event { events: *events, u64: *data };
            // SAFETY: packetdrill's promise: room for `most`, and there are not more.
            unsafe { at.add(index).write_unaligned(event) };
        }
        events.len() as i64
    });
    answer_int(result)
}

extern "C" fn pipe(_: *mut c_void, _ends: *mut c_int) -> c_int {
    answer_int(Err::<i32, _>(Errno(libc::ENOSYS)))
}

extern "C" fn splice(
    _: *mut c_void,
    _from: c_int,
    _from_offset: *mut c_void,
    _to: c_int,
    _to_offset: *mut c_void,
    _len: size_t,
    _flags: c_uint,
) -> ssize_t {
    answer(Err::<i32, _>(Errno(libc::ENOSYS))) as ssize_t
}
