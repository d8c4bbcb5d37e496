//! What C calls. Each function turns pointers into slices, calls what is safe, and turns its result into -1 and
//! `errno`; a panic becomes `EIO` and goes no further.
//!
//! # Safety
//! All of them ask the same of the caller, and `fusewire.h` says so: a pointer is null or points to as much
//! memory as the call says, which no other thread writes during the call.
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and stands above")]

mod memory;

use std::ffi::{c_char, c_int, c_short, c_uint, c_void};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use libc::{nfds_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::address::{Family, Named};
use crate::adu::Adus;
use crate::contexts::Contextual;
use crate::errno::{Errno, Result};
use crate::open::{self, Settings, Side};
use crate::outboard;
use crate::poll::{self, Asked};
use crate::posix::Posix;
use fusewire_stack::ip::Ancillary;

use crate::socket::{Flags, Got, Incoming, Kind, Outgoing, Place, Socket};
use crate::table::{self, Entry};

/// Makes the functions that C sees: the body's result, or -1 and `errno`.
macro_rules! exported {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $Type:ty),* $(,)?) -> $Answer:ty $body:block)+) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $Type),*) -> $Answer {
                $crate::border::guard(|| $body) as $Answer
            }
        )+
    };
}

mod adus;
mod contexts;
mod events;
mod files;
mod messages;

/// `struct fw_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    size: size_t,
    device: *const c_char,
    addresses: *const c_char,
    gateway: *const c_char,
    mtu: c_uint,
}

/// What a function gives C where nothing failed.
trait Answer {
    fn answer(self) -> isize;
}

impl Answer for () {
    fn answer(self) -> isize {
        0
    }
}

macro_rules! answers {
    ($($Number:ty)*) => {
        $(impl Answer for $Number {
            fn answer(self) -> isize {
                self as isize
            }
        })*
    };
}

answers!(i32 isize usize);

/// Runs `call`; its result, or -1 and `errno`, and a reason in any case.
fn guard<T: Answer>(call: impl FnOnce() -> Result<T>) -> isize {
    let result = catch_unwind(AssertUnwindSafe(|| open::reasoned(call)));
    result.unwrap_or(Err(Errno(libc::EIO))).map(T::answer).unwrap_or_else(|errno| {
        memory::set_errno(errno);
        -1
    })
}

exported! {
    fn fw_open(config: *const Config) -> c_int {
        // SAFETY: null, or a configuration as long as it says, with texts: the header's contract.
        let settings = unsafe {
            let config = memory::sized(config)?;
            Settings {
                device: memory::text(config.device)?,
                addresses: memory::text(config.addresses)?,
                gateway: memory::text(config.gateway)?,
                mtu: config.mtu,
            }
        };
        table::insert(Entry::Stack(open::open(&settings)?))
    }

    fn fw_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        socket_on(open::default, domain, kind, protocol)
    }

    fn fw_socket_on(stack: c_int, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        let side = || match table::entry(stack)? {
            Entry::Stack(side) => Ok(side),
            _ => Err(Errno(libc::EINVAL)),
        };
        socket_on(side, domain, kind, protocol)
    }

    fn fw_close(fd: c_int) -> c_int {
        match table::remove(fd)? {
            Entry::Socket(socket) => socket.close(),
            Entry::Outboard(socket) => socket.close(),
            Entry::Stack(side) => open::close(&side),
            Entry::Adus(adus) => adus.close(),
            Entry::Contexts(contexts) => contexts.close(),
            // Who waits there goes on.
            Entry::Epoll(_) => {}
        }
        Ok(0)
    }

    fn fw_bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        let socket = table::socket(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        let addr = unsafe { memory::address(addr, len) }?.ok_or(Errno(libc::EFAULT))?;
        socket.bind(addr)
    }

    fn fw_connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
        let socket = table::socket(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        let addr = unsafe { memory::address(addr, len) }?.ok_or(Errno(libc::EFAULT))?;
        socket.connect(addr)
    }

    fn fw_listen(fd: c_int, backlog: c_int) -> c_int {
        table::socket(fd)?.listen(backlog)
    }

    fn fw_accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the header's contract is the same.
        Ok(unsafe { fw_accept4(fd, addr, len, 0) })
    }

    fn fw_accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let listener = table::socket(fd)?;
        if !addr.is_null() && len.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let (accepted, remote) = listener.accept(flags & libc::SOCK_NONBLOCK != 0)?;
        // SAFETY: null, or `*len` bytes: the header's contract.
        unsafe { memory::put_address(addr, len, || listener.family().emit(remote)) }?;
        table::insert(accepted)
    }

    fn fw_shutdown(fd: c_int, how: c_int) -> c_int {
        match table::entry(fd)? {
            Entry::Adus(adus) => adus.shutdown(how),
            Entry::Contexts(contexts) => contexts.shutdown(how),
            _ => table::socket(fd)?.shutdown(how),
        }
    }

    fn fw_getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the header's contract is the same.
        unsafe { name(fd, addr, len, |socket| socket.local(), |adus| Ok(adus.local()), |c| Ok(c.local())) }
    }

    fn fw_getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the header's contract is the same.
        unsafe { name(fd, addr, len, |socket| socket.peer(), Adus::peer, Contextual::peer) }
    }

    fn fw_setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        let socket = table::socket(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        let value = unsafe { memory::bytes(value, len as usize) }?;
        socket.set_option(level, name, value)
    }

    fn fw_getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        let socket = table::socket(fd)?;
        if value.is_null() || len.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let option = socket.option(level, name)?;
        // SAFETY: `*len` bytes: the header's contract.
        unsafe { memory::put_option(value, len, &option) }
    }

    fn fw_fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int {
        let socket = table::socket(fd)?;
        match command {
            libc::F_GETFL if socket.is_nonblocking()? => Ok(libc::O_RDWR | libc::O_NONBLOCK),
            libc::F_GETFL => Ok(libc::O_RDWR),
            libc::F_SETFL => {
                socket.set_nonblocking(argument & libc::O_NONBLOCK != 0).map(|()| 0)
            }
            // No descriptor of ours survives exec.
            libc::F_GETFD => Ok(libc::FD_CLOEXEC),
            libc::F_SETFD => Ok(0),
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                socket.duplicate();
                table::insert_from(socket.clone().entry(), argument)
                    .inspect_err(|_| socket.close())
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn fw_send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the header's contract is the same; there is no address.
        Ok(unsafe { fw_sendto(fd, bytes, len, flags, std::ptr::null(), 0) })
    }

    fn fw_sendto(
        fd: c_int,
        bytes: *const c_void,
        len: size_t,
        flags: c_int,
        addr: *const sockaddr,
        addr_len: socklen_t,
    ) -> ssize_t {
        let socket = table::socket(fd)?;
        // SAFETY: null, or as many bytes as their lengths say: the header's contract.
        let (bytes, addr) =
            unsafe { (memory::bytes(bytes, len)?, memory::address(addr, addr_len)?) };
        let flags = Flags::of(flags)?;
        if socket.is_stream() {
            // A connection knows its peer: as on Linux the address is not looked at.
            return socket.send_stream(bytes, flags);
        }
        let to = destination(&*socket, addr)?;
        let beside = Ancillary::default();
        socket.send_messages(&[Outgoing { to, beside, bytes: bytes.into() }], flags)?;
        Ok(len)
    }

    fn fw_recv(fd: c_int, out: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the header's contract is the same; no address is asked for.
        Ok(unsafe { fw_recvfrom(fd, out, len, flags, std::ptr::null_mut(), std::ptr::null_mut()) })
    }

    fn fw_recvfrom(
        fd: c_int,
        out: *mut c_void,
        len: size_t,
        flags: c_int,
        addr: *mut sockaddr,
        addr_len: *mut socklen_t,
    ) -> ssize_t {
        let socket = table::socket(fd)?;
        let flags = Flags::of(flags)?;
        let discards = socket.is_stream() && flags.truncated;
        // SAFETY: null, or `len` bytes: the header's contract. Bytes that are discarded need none.
        let out = unsafe { memory::bytes_mut(out, if discards { 0 } else { len }) }?;
        if !addr.is_null() && addr_len.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        if socket.is_stream() {
            let received = match discards {
                true => socket.discard(len, flags)?,
                false => socket.recv_stream(out, flags)?,
            };
            // SAFETY: null, or `*addr_len` bytes: the header's contract. A connection's peer is not told.
            unsafe { memory::put_address(addr, addr_len, Vec::new) }?;
            return Ok(received);
        }
        let mut incoming = [Incoming { place: Place::One(out), got: None }];
        socket.recv_messages(&mut incoming, flags, None)?;
        let Some(Got { from, len: whole, .. }) = incoming[0].got else { return Ok(0) };
        // SAFETY: as above.
        unsafe { memory::put_address(addr, addr_len, || from.map_or(Vec::new(), |from| socket.family().emit(from))) }?;
        Ok(if flags.truncated { whole } else { whole.min(len) })
    }

    fn fw_poll(fds: *mut libc::pollfd, count: nfds_t, timeout: c_int) -> c_int {
        if count > MAX_POLLED {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: null, or `count` of them: the header's contract.
        let fds = unsafe { memory::array_mut(fds, count as usize, MAX_POLLED as usize) }?;
        let asked = |fd: &libc::pollfd| Asked { fd: fd.fd, events: fd.events, revents: 0 };
        let mut all: Vec<Asked> = fds.iter().map(asked).collect();
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        let ready = poll::poll(&mut all, timeout)?;
        for (fd, one) in fds.iter_mut().zip(&all) {
            fd.revents = one.revents as c_short;
        }
        Ok(ready)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_reason(out: *mut c_char, len: size_t) -> size_t {
    let written = guard(|| {
        let reason = open::reason();
        if len > 0 {
            // SAFETY: null, or `len` bytes: the header's contract.
            let out = unsafe { memory::bytes_mut(out.cast(), len) }?;
            cut(&reason, out);
        }
        Ok(reason.len())
    });
    usize::try_from(written).unwrap_or(0)
}

fn socket_on(
    side: impl FnOnce() -> Result<Side>,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> Result<i32> {
    let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let of_outboard = outboard::kind_of(kind, protocol)?;
    let family = Family::of(domain)?;
    table::insert(match side()? {
        Side::Inline(opened) => {
            let kind = Kind::of(kind, protocol)?;
            Entry::Socket(Arc::new(Socket::new(opened, family, kind, nonblocking)))
        }
        Side::Outboard(outboard) => {
            let socket = outboard::Socket::new(&outboard, family, of_outboard, nonblocking)?;
            Entry::Outboard(Arc::new(socket))
        }
    })
}

/// A text, cut to the memory that is there and ended by a zero.
fn cut(text: &str, out: &mut [u8]) {
    let Some(room) = out.len().checked_sub(1) else { return };
    let taken = text.len().min(room);
    out[..taken].copy_from_slice(&text.as_bytes()[..taken]);
    out[taken] = 0;
}

/// Tells an address of a socket, of what carries ADUs, or of contexts.
///
/// # Safety
/// The header's contract: null, or `*len` bytes.
unsafe fn name(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    of: impl FnOnce(&dyn Posix) -> Result<SocketAddr>,
    of_adus: impl FnOnce(&Adus) -> Result<SocketAddr>,
    of_contexts: impl FnOnce(&Contextual) -> Result<SocketAddr>,
) -> Result<()> {
    let own = |name: SocketAddr| (if name.is_ipv4() { Family::V4 } else { Family::V6 }, name);
    let (family, name) = match table::entry(fd)? {
        Entry::Adus(adus) => own(of_adus(&adus)?),
        Entry::Contexts(contexts) => own(of_contexts(&contexts)?),
        _ => {
            let socket = table::socket(fd)?;
            (socket.family(), of(&*socket)?)
        }
    };
    if addr.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: as this function's.
    unsafe { memory::put_address(addr, len, || family.emit(name)) }
}

/// Whom a message goes to, by the address that came with it.
fn destination(socket: &dyn Posix, addr: Option<&[u8]>) -> Result<Option<SocketAddr>> {
    match addr.map(|addr| socket.family().parse(addr)).transpose()? {
        None => Ok(None),
        Some(Named::Somebody(to)) => Ok(Some(to)),
        Some(Named::Nobody) => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Descriptors of one `fw_poll`.
const MAX_POLLED: nfds_t = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_goes_no_further_than_the_border() {
        let told = guard::<()>(|| panic!("on purpose"));
        assert_eq!((told, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EIO)));
    }
}
