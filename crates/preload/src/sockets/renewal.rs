//! Puts another descriptor over the number of a socket, with the options, the address, the flags and the watch that it had.

use std::os::fd::{BorrowedFd, OwnedFd};

use fusewire_outboard::client::Result;
use rustix::io::{Errno, FdFlags};

use super::{OF_PLACEHOLDER, REPLAYED, is_nonblocking, replayed};
use crate::library::Library;
use crate::sys;
use crate::table::{Socket, stage};

/// A new socket of the outboard's, in the place of one whose connection failed: with its options and its address.
pub(super) fn renew(library: &Library, socket: &Socket) -> Result<Socket> {
    let (new, handle) = library.socket(socket.of)?;
    let cookie = rustix::net::sockopt::socket_cookie(&new)?;
    replayed(library, socket, |option, value| {
        // The outboard accepted these values before.
        let _ = library.client.set_option(handle, option, value);
    });
    if socket.is(stage::BOUND) {
        let mut local = library.client.local(socket.handle)?;
        if socket.is(stage::ANY_PORT) {
            local.set_port(0);
        }
        library.client.bind(handle, local)?;
    }
    let stage = socket.stage & (stage::BOUND | stage::ANY_PORT);
    let renewed = Socket { stage, ..Socket::new(socket.number, handle, socket.of, cookie) };
    adopt(library, socket, new, renewed)
}

/// Puts `new` over the number of a socket, which is what `renewed` says from now on: watched as it was, with the options that
/// were set.
pub fn adopt(library: &Library, socket: &Socket, new: OwnedFd, renewed: Socket) -> Result<Socket> {
    let (set, watch) = (library.table.options(socket.number), library.table.watch(socket.number));
    put(library, socket, new)?;
    library.learn(&renewed);
    library.table.set_watch(socket.number, watch);
    (0..REPLAYED.len() as u32)
        .filter(|bit| set & 1 << bit != 0)
        .for_each(|bit| library.table.add_option(socket.number, bit));
    match library.table.known(socket.number) {
        crate::table::Known::Ours(socket) => Ok(socket),
        _ => Err(Errno::BADF),
    }
}

/// Gives another placeholder how long calls on `p` wait.
pub(super) fn inherit(p: BorrowedFd<'_>, new: &OwnedFd) -> Result<()> {
    for name in OF_PLACEHOLDER {
        let mut value = [0; 16];
        if let Ok(len) = sys::option(p, libc::SOL_SOCKET, name, &mut value) {
            sys::set_option(new, libc::SOL_SOCKET, name, &value[..len])?;
        }
    }
    Ok(())
}

/// Puts `new` over the number of a socket, with the flags that it has, and watched as it is.
pub(super) fn put(library: &Library, socket: &Socket, new: OwnedFd) -> Result<()> {
    let p = socket.p();
    inherit(p, &new)?;
    rustix::io::ioctl_fionbio(&new, is_nonblocking(p)?)?;
    let with_cloexec = rustix::io::fcntl_getfd(p)?.contains(FdFlags::CLOEXEC);
    let watch = library.table.watch(socket.number);
    if let Some(watch) = watch {
        sys::unwatch(watch.epoll, socket.number);
    }
    sys::replace(socket.number, new, with_cloexec)?;
    if let Some(watch) = watch {
        sys::watch_again(watch.epoll, socket.number, watch.events, watch.data);
    }
    Ok(())
}
