//! A port of the kernel's that is ours: nobody else can have it, and the kernel does not answer for it.
//!
//! A socket that is only bound would answer a segment with RST, and a closed port a datagram with an ICMP
//! message, each beside our own answer. So TCP's port is reserved by a socket that listens, and UDP's by one that
//! is bound, each with a filter that drops all that comes. XTP, which has no ports here, is reserved on an address by a
//! raw socket of its protocol, likewise: as long as there is one the kernel does not say that the protocol is not
//! spoken. Of those the kernel lets many be, so another that is there is looked for in its list.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};

use super::flows::{Instruction, Port, Protocol};
use crate::sys::packet::attach_filter;

/// XTP's number in IP.
const XTP: u32 = Protocol::Xtp as u32;
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

/// Looks whether another socket of the kernel's takes XTP on this address. Of two that begin in the same moment both may
/// find the other.
fn alone(socket: &OwnedFd, address: IpAddr) -> io::Result<()> {
    let inode = rustix::fs::fstat(socket)?.st_ino;
    let list =
        if address.is_ipv4() { "/proc/thread-self/net/raw" } else { "/proc/thread-self/net/raw6" };
    let text = std::fs::read_to_string(list)?;
    let other = text.lines().filter_map(listed).find(|other| {
        let overlaps = other.address == address || other.address.is_unspecified();
        other.protocol == XTP && overlaps && other.inode != inode
    });
    match other {
        Some(_) => {
            let what = format!("another process speaks XTP (IP protocol {XTP}) on {address}");
            Err(io::Error::new(io::ErrorKind::AddrInUse, what))
        }
        None => Ok(()),
    }
}

/// A raw socket in the kernel's list.
struct Listed {
    address: IpAddr,
    protocol: u32,
    inode: u64,
}

/// `  36: 0A000001:0024 00000000:0000 07 … uid timeout inode …`; the address in words of this machine.
fn listed(line: &str) -> Option<Listed> {
    let mut columns = line.split_ascii_whitespace();
    let (address, protocol) = columns.nth(1)?.split_once(':')?;
    let word =
        |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let address = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (n, octets) in octets.chunks_exact_mut(4).enumerate() {
                octets.copy_from_slice(&word(8 * n)?);
            }
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    // Behind the addresses: state, queues, timer, retransmissions, user, timeout.
    let inode = columns.nth(7)?.parse().ok()?;
    Some(Listed { address, protocol: u32::from_str_radix(protocol, 16).ok()?, inode })
}

/// A port that is reserved as long as this lives.
#[derive(Debug)]
pub struct ReservedPort {
    _socket: OwnedFd,
    port: Port,
}

impl ReservedPort {
    /// Reserves a port of an address that the kernel has; of port 0 one that the kernel chooses. Of XTP all that is sent to
    /// the address, whatever the port.
    ///
    /// # Errors
    /// `AddrInUse`; `AddrNotAvailable`, when the kernel has no such address; `PermissionDenied`, for TCP without
    /// CAP_NET_ADMIN, which recent kernels want for a filter, for XTP without CAP_NET_RAW; what the kernel says.
    pub fn new(protocol: Protocol, addr: SocketAddr) -> io::Result<ReservedPort> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let kind = match protocol {
            Protocol::Tcp => SocketType::STREAM,
            Protocol::Udp => SocketType::DGRAM,
            Protocol::Xtp => SocketType::RAW,
        };
        let raw = rustix::net::Protocol::from_raw(const { NonZeroU32::new(XTP).unwrap() });
        let number = (protocol == Protocol::Xtp).then_some(raw);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, number)?;
        // Before the first packet can come.
        attach_filter(socket.as_fd(), &DROP_ALL).map_err(explain)?;
        if addr.is_ipv6() && protocol != Protocol::Xtp {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        rustix::net::bind(&socket, &addr)?;
        if protocol == Protocol::Xtp {
            alone(&socket, addr.ip())?;
            let port = Port { addr: addr.ip(), protocol, port: 0 };
            return Ok(ReservedPort { _socket: socket, port });
        }
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
