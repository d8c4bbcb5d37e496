//! Descriptors of a script, and what of POSIX is the same for all that they stand for.
//!
//! packetdrill closes with the kernel's `close(2)` whatever is open at the end, so each descriptor is a real
//! one of `/dev/null`.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::errno::{Errno, Result};

/// `TCP_INQ` and `TCP_CM_INQ`, which the C library's headers lack.
pub const TCP_INQ: i32 = 36;

/// What a descriptor stands for.
pub enum Entry<S, E> {
    Socket(Box<S>),
    Epoll(E),
}

/// All of a script's, of sockets and of sets of epoll.
pub struct Descriptors<S, E>(BTreeMap<i32, (File, Entry<S, E>)>);

impl<S, E> Descriptors<S, E> {
    /// None open.
    pub fn new() -> Descriptors<S, E> {
        Descriptors(BTreeMap::new())
    }

    /// The next descriptor.
    pub fn open(&mut self, entry: Entry<S, E>) -> Result<i32> {
        let file = File::open("/dev/null").or(fail(libc::EMFILE))?;
        let fd = file.as_raw_fd();
        self.0.insert(fd, (file, entry));
        Ok(fd)
    }

    /// True for a descriptor of ours.
    pub fn owns(&self, fd: i32) -> bool {
        self.0.contains_key(&fd)
    }

    /// Leaves every descriptor to the kernel.
    pub fn forget(&mut self) {
        for (_, (file, _)) in std::mem::take(&mut self.0) {
            let _ = file.into_raw_fd();
        }
    }

    pub fn get(&self, fd: i32) -> Result<&S> {
        match self.0.get(&fd) {
            Some((_, Entry::Socket(socket))) => Ok(socket),
            Some(_) => fail(libc::ENOTSOCK),
            None => fail(libc::EBADF),
        }
    }

    pub fn get_mut(&mut self, fd: i32) -> Result<&mut S> {
        match self.0.get_mut(&fd) {
            Some((_, Entry::Socket(socket))) => Ok(socket),
            Some(_) => fail(libc::ENOTSOCK),
            None => fail(libc::EBADF),
        }
    }

    pub fn epoll(&mut self, fd: i32) -> Result<&mut E> {
        match self.0.get_mut(&fd) {
            Some((_, Entry::Epoll(set))) => Ok(set),
            _ => fail(libc::EBADF),
        }
    }

    /// All sets of epoll.
    pub fn epolls(&mut self) -> impl Iterator<Item = &mut E> {
        self.0.values_mut().filter_map(|(_, entry)| match entry {
            Entry::Epoll(set) => Some(set),
            Entry::Socket(_) => None,
        })
    }

    /// It is closed.
    pub fn remove(&mut self, fd: i32) -> Result<Entry<S, E>> {
        self.0.remove(&fd).map(|(_, entry)| entry).ok_or(Errno(libc::EBADF))
    }
}

pub fn fail<T>(errno: i32) -> Result<T> {
    Err(Errno(errno))
}

/// What a call that has to wait gives: an error where it does not block.
pub fn would_block<T>(nonblocking: bool, errno: i32) -> Result<Option<T>> {
    if nonblocking { fail(errno) } else { Ok(None) }
}

/// Of `socket(2)`'s arguments, whether the family is IPv6: TCP alone is there.
pub fn is_v6(domain: i32, kind: i32, protocol: i32) -> Result<bool> {
    let v6 = match domain {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return fail(libc::EAFNOSUPPORT),
    };
    match (kind & 0xf, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Ok(v6),
        _ => fail(libc::EPROTONOSUPPORT),
    }
}

/// `fcntl(2)`: whether a socket waits.
pub fn status(nonblocking: &mut bool, command: i32, argument: i32) -> Result<i32> {
    match command {
        libc::F_GETFL => Ok(libc::O_RDWR | if *nonblocking { libc::O_NONBLOCK } else { 0 }),
        libc::F_SETFL => {
            *nonblocking = argument & libc::O_NONBLOCK != 0;
            Ok(0)
        }
        _ => fail(libc::EINVAL),
    }
}

/// A mapped address as the IPv4 address that it is.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// An address as a socket of this family shows it.
pub fn outward(v6: bool, address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}
