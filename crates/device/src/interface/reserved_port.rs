//! A port of the kernel's that is ours: nobody else can have it, and the kernel does not answer for it.
//!
//! A socket that is only bound would answer a segment with RST, and a closed port a datagram with an ICMP
//! message, each beside our own answer. So TCP's port is reserved by a socket that listens, and UDP's by one that
//! is bound, each with a filter that drops all that comes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::flows::{Instruction, Port, Protocol};
use crate::sys::packet::attach_filter;

/// "Keep 0 bytes."
const DROP_ALL: [Instruction; 1] = [Instruction { code: 0x06, jt: 0, jf: 0, k: 0 }];

fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let what = format!("a filter on the port: {error}; it takes CAP_NET_ADMIN");
            io::Error::new(error.kind(), what)
        }
        _ => error,
    }
}

/// A port that is reserved as long as this lives.
#[derive(Debug)]
pub struct ReservedPort {
    _socket: OwnedFd,
    port: Port,
}

impl ReservedPort {
    /// Reserves a port of an address that the kernel has; of port 0 one that the kernel chooses.
    ///
    /// # Errors
    /// `AddrInUse`; `AddrNotAvailable`, when the kernel has no such address; `PermissionDenied`, for TCP without
    /// CAP_NET_ADMIN, which recent kernels want for a filter; what the kernel says.
    pub fn new(protocol: Protocol, addr: SocketAddr) -> io::Result<ReservedPort> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = match protocol {
            Protocol::Tcp => SocketType::STREAM,
            Protocol::Udp => SocketType::DGRAM,
        };
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        // Before the first packet can come.
        attach_filter(socket.as_fd(), &DROP_ALL).map_err(explain)?;
        if addr.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &addr)?;
        if protocol == Protocol::Tcp {
            rustix::net::listen(&socket, 1)?;
        }
        let bound = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        let port = Port { addr: bound.ip(), protocol, port: bound.port() };
        Ok(ReservedPort { _socket: socket, port })
    }

    /// What is reserved, as [`super::flows::Flows`] name it.
    pub fn port(&self) -> Port {
        self.port
    }
}
