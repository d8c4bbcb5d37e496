//! Messages of Unix sockets together with the credentials of the process that sent them (`SCM_CREDENTIALS`, `SO_PEERCRED`).
//!
//! rustix's `UCred` cannot hold process 0, which the kernel reports for a process of another PID namespace.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Descriptors that one message carries at most (`SCM_MAX_FD` of Linux).
const SCM_MAX: usize = 253;
/// User that the kernel reports if a message carries no credentials (`/proc/sys/kernel/overflowuid`).
const OVERFLOW: u32 = 65_534;
/// Words of the buffer for the ancillary data of a message: its descriptors, its credentials, and their headers.
const CONTROL_WORDS: usize = (4 * SCM_MAX).div_ceil(8) + 8;

/// Process that sent a message or opened a connection, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Process ID; 0 if the process belongs to a PID namespace that is not visible here.
    pub pid: i32,
    /// User ID that the process had at that time.
    pub uid: u32,
}

impl Sender {
    /// Returns the sender that credentials name, or `None` if they were attached by no sender.
    fn of(credentials: libc::ucred) -> Option<Sender> {
        let libc::ucred { pid, uid, gid } = credentials;
        let is_missing = pid == 0 && uid == OVERFLOW && gid == OVERFLOW;
        (!is_missing).then_some(Sender { pid, uid })
    }

    /// Returns the process that opened the connection at the other end of `socket`, with its effective user ID of that time
    /// (`SO_PEERCRED`).
    ///
    /// # Errors
    /// `socket` is no connected Unix socket.
    pub fn of_peer(socket: BorrowedFd<'_>) -> io::Result<Sender> {
        let mut credentials = libc::ucred { pid: 0, uid: OVERFLOW, gid: OVERFLOW };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `credentials` and `len` live across the call, and the kernel writes at most `len` bytes, which is the size
        // of `credentials`; every bit pattern is a `ucred`.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast::<c_void>(),
                &raw mut len,
            )
        };
        match status {
            0 => Ok(Sender { pid: credentials.pid, uid: credentials.uid }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns the effective user and group ID of the calling thread, or `u32::MAX` where a filter of system calls does not let it
/// ask.
pub fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls take no argument and touch no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Message that [`receive_from`] took out of a socket.
#[derive(Debug)]
pub struct Received {
    /// Length of the message in bytes, as far as it found room.
    pub len: usize,
    /// Descriptors that the message carried, which close at `exec`.
    pub files: Vec<OwnedFd>,
    /// Sender of the message. `None` if the kernel attached no credentials, because `SO_PASSCRED` was not set when it was sent.
    pub sender: Option<Sender>,
}

/// Receives a message without waiting, with all of its descriptors and the credentials of its sender.
///
/// # Errors
/// As `recvmsg(2)`.
pub fn receive_from(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Received> {
    let mut control = [MaybeUninit::<u64>::uninit(); CONTROL_WORDS];
    let mut place =
        libc::iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: `msghdr` is plain old data for which all-zero bytes are valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut place;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast::<c_void>();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header, the buffers that it points to and their lengths are those of live locals and of `bytes`.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received { len, files: Vec::new(), sender: None };
    // SAFETY: the kernel has set `msg_controllen` to the bytes of `control` that it wrote, whose address is aligned for
    // headers, because it is that of words of 64 bits.
    let mut item = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !item.is_null() {
        // SAFETY: `CMSG_FIRSTHDR` and `CMSG_NXTHDR` return headers that lie within the bytes that the kernel wrote.
        let (head, data) = unsafe { (item.read(), libc::CMSG_DATA(item)) };
        // SAFETY: it computes a length and reads nothing.
        let before = unsafe { libc::CMSG_LEN(0) } as usize;
        let data_len = head.cmsg_len.saturating_sub(before);
        match (head.cmsg_level, head.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                for n in 0..data_len / size_of::<c_int>() {
                    // SAFETY: the kernel wrote as many descriptors as the item is long. It has just opened them for this
                    // process, and no other code knows their numbers.
                    let file = unsafe {
                        OwnedFd::from_raw_fd(data.cast::<c_int>().add(n).read_unaligned())
                    };
                    received.files.push(file);
                }
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if data_len >= size_of::<libc::ucred>() => {
                // SAFETY: the item is long enough, and every bit pattern is a `ucred`.
                received.sender =
                    Sender::of(unsafe { data.cast::<libc::ucred>().read_unaligned() });
            }
            _ => {}
        }
        // SAFETY: `item` is a header of this message.
        item = unsafe { libc::CMSG_NXTHDR(&raw const header, item) };
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use rustix::net::sockopt::set_socket_passcred;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    #[test]
    fn a_message_carries_its_descriptors_and_its_sender() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        set_socket_passcred(&ours, true).unwrap();
        let own =
            Sender { pid: std::process::id() as i32, uid: rustix::process::getuid().as_raw() };
        theirs.send(b"plain").unwrap();
        let mut bytes = [0; 16];
        let found = receive_from(ours.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..found.len], found.sender), (&b"plain"[..], Some(own)));
        let files = [ours.as_fd(), theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let piece = rustix::io::IoSlice::new(b"two");
        sendmsg(&theirs, &[piece], &mut control, SendFlags::empty()).unwrap();
        let found = receive_from(ours.as_fd(), &mut bytes).unwrap();
        assert_eq!((found.len, found.files.len(), found.sender), (3, 2, Some(own)));
        let none = receive_from(ours.as_fd(), &mut bytes).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_message_sent_before_credentials_were_wanted_names_no_sender() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.send(b"early").unwrap();
        set_socket_passcred(&ours, true).unwrap();
        assert_eq!(receive_from(ours.as_fd(), &mut [0; 16]).unwrap().sender, None);
    }
}
