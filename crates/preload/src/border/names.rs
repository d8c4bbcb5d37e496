//! Names and options: `socket` to `setsockopt`.

use std::ffi::{c_int, c_void};

use fusewire_outboard::client::Result;
use libc::{sockaddr, socklen_t};
use rustix::io::Errno;

use super::cancel::{self, Wait};
use super::{Ours, aliases, interposed, memory};
use crate::library::ours;
use crate::sockets;

/// The longest value of an option that is asked for at once.
const VALUE_MAX: usize = fusewire_outboard::protocol::VALUE_MAX;

interposed! {
    /// A new socket.
    fn socket = SYS_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        Some(sockets::open(domain, kind, protocol)?.map(|number| number as usize))
    }

    /// Gives a socket its own address.
    fn bind = SYS_bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
        named(at, len, |address| sockets::bind(fd, address))
    }

    /// Listens.
    fn listen = SYS_listen(fd: c_int, backlog: c_int) -> c_int {
        done(sockets::listen(fd, backlog))
    }

    /// Accepts a connection.
    fn accept = SYS_accept(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        accepted(fd, at, len, 0)
    }

    /// The same with flags.
    fn accept4 = SYS_accept4(fd: c_int, at: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        accepted(fd, at, len, flags)
    }

    /// Connects.
    fn connect = SYS_connect(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
        named(at, len, |address| connected(fd, address))
    }

    /// Ends directions.
    fn shutdown = SYS_shutdown(fd: c_int, how: c_int) -> c_int {
        done(sockets::shutdown(fd, how))
    }

    /// Its own address.
    fn getsockname = SYS_getsockname(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let laid = sockets::local(fd)?;
        Some(laid.and_then(|laid| memory::put(at.cast(), len, &laid)).map(|()| 0))
    }

    /// The peer's.
    fn getpeername = SYS_getpeername(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let laid = sockets::peer(fd)?;
        Some(laid.and_then(|laid| memory::put(at.cast(), len, &laid)).map(|()| 0))
    }

    /// The value of an option.
    fn getsockopt = SYS_getsockopt(fd: c_int, level: c_int, name: c_int, at: *mut c_void, len: *mut socklen_t) -> c_int {
        let mut value = [0; VALUE_MAX];
        let room = if len.is_null() { 0 } else { len.read() as usize };
        let found = sockets::option(fd, level, name, &mut value[..room.min(VALUE_MAX)])?;
        Some(match found {
            Ok(_) if len.is_null() => Err(Errno::FAULT),
            Ok(count) => memory::put(at, len, &value[..count.min(room)]).map(|()| 0),
            Err(error) => Err(error),
        })
    }

    /// Sets an option.
    fn setsockopt = SYS_setsockopt(fd: c_int, level: c_int, name: c_int, at: *const c_void, len: socklen_t) -> c_int {
        match memory::bytes(at, len as usize) {
            Ok(value) => done(sockets::set_option(fd, level, name, value)),
            Err(error) => Some(Err(error)),
        }
    }
}

aliases! {
    __socket = socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    __connect = connect(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int;
}

fn done(done: Option<Result<()>>) -> Ours {
    Some(done?.map(|()| 0))
}

/// A call with an address that the program gives.
///
/// # Safety
/// `at` is null or points to `len` bytes.
unsafe fn named(
    at: *const sockaddr,
    len: socklen_t,
    call: impl FnOnce(&[u8]) -> Option<Result<()>>,
) -> Ours {
    // SAFETY: the caller's obligation.
    match unsafe { memory::address(at, len) } {
        Ok(address) => done(call(address.unwrap_or(&[]))),
        Err(error) => Some(Err(error)),
    }
}

/// Connects, and waits for the end of that here, where the thread may be cancelled.
fn connected(fd: c_int, address: &[u8]) -> Option<Result<()>> {
    let (_, socket) = ours(fd)?;
    cancel::point();
    let returns = cancel::is_possible();
    match sockets::connect(fd, address, returns) {
        Some(Err(Errno::INPROGRESS)) if returns => match cancel::sleep(&socket, Wait::ToWrite) {
            Ok(()) => sockets::connected(fd),
            // It was told not to wait, or not for so long.
            Err(Errno::AGAIN) => Some(Err(Errno::INPROGRESS)),
            Err(error) => Some(Err(error)),
        },
        done => done,
    }
}

/// # Safety
/// As of [`memory::put`].
unsafe fn accepted(fd: c_int, at: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> Ours {
    let (library, socket) = ours(fd)?;
    cancel::point();
    cancel::waiting(library, &socket, (Wait::ToRead, false), |returns| {
        Some(sockets::accept(fd, flags, returns)?.and_then(|(number, peer)| {
            if !at.is_null() {
                // SAFETY: the caller's obligation.
                unsafe { memory::put(at.cast(), len, &peer) }?;
            }
            Ok(number as usize)
        }))
    })
}
