//! What a kernel UDP socket needs to carry many datagrams with one call.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use crate::sys::sockopt;

/// Cuts what `send` is given into datagrams of `bytes` each, the last shorter or as long
/// (`UDP_SEGMENT`). 0 ends it.
///
/// # Errors
/// What the kernel says: it is older than 4.18.
pub fn segment_sends(socket: &UdpSocket, bytes: u16) -> io::Result<()> {
    sockopt::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, bytes.into())
}

/// Lets `recv` give several datagrams of one sender and one length, one behind the other (`UDP_GRO`).
///
/// # Errors
/// What the kernel says: it is older than 5.0.
pub fn coalesce_receives(socket: &UdpSocket) -> io::Result<()> {
    sockopt::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// The most datagrams that one `send` can be cut into: 128 since Linux 6.9, 64 before.
pub fn segments_max() -> usize {
    let newer = crate::kernel::Version { major: 6, minor: 9 };
    match crate::kernel::Version::running() {
        Some(running) if running >= newer => 128,
        _ => 64,
    }
}
