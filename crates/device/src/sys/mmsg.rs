//! `sendmmsg` and `recvmmsg`, with the control messages for segmentation, coalescing and ECN.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::batch::{Filled, RxBatch};
use crate::{Ecn, TxFrame};

/// The most messages that one call carries.
pub(crate) const MAX_MESSAGES: usize = 16;
/// The most frames that one message carries (Linux: `UDP_MAX_SEGMENTS`, 64, and 128 since 6.9).
pub(crate) const MAX_SEGMENTS: usize = 128;

/// Frames that leave in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Which of the batch's frames; at most [`MAX_SEGMENTS`].
    pub frames: Range<usize>,
    /// Length of each but the last.
    pub segment_len: usize,
}

/// A datagram that came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// Where it should have gone.
    pub peer: SocketAddr,
    /// What it met.
    pub errno: c_int,
    /// ICMP told so, after the datagram had left; else the kernel, and the call failed too.
    pub from_network: bool,
}

/// Room for the control messages of one message, aligned as `cmsghdr` must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; 128]);

/// Arrays that `sendmmsg` and `recvmmsg` read, made once. Pointers in them are written before each
/// call and are dead after it.
pub(crate) struct Messages {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Vec<libc::iovec>,
    names: Box<[libc::sockaddr_storage]>,
    controls: Box<[Control]>,
    /// The code point of differentiated services of what is sent, in its place beside ECN.
    tos: u8,
}

// SAFETY: the raw pointers inside are only used during a call that has `&mut self`, after it wrote
// them all anew; between calls they are mere numbers.
unsafe impl Send for Messages {}

impl Messages {
    /// What is sent has this code point of differentiated services.
    pub fn new(dscp: u8) -> Self {
        // SAFETY: all of these are C structures of integers and pointers, for which zero is valid.
        let (header, name) = unsafe {
            (
                MaybeUninit::<libc::mmsghdr>::zeroed().assume_init(),
                MaybeUninit::zeroed().assume_init(),
            )
        };
        Messages {
            headers: vec![header; MAX_MESSAGES].into_boxed_slice(),
            iovecs: Vec::with_capacity(MAX_MESSAGES * MAX_SEGMENTS * 2),
            names: vec![name; MAX_MESSAGES].into_boxed_slice(),
            controls: vec![Control([0; 128]); MAX_MESSAGES].into_boxed_slice(),
            tos: dscp << 2,
        }
    }

    /// Sends each run as one message; returns how many messages the kernel took. An error is the
    /// first message's.
    ///
    /// # Panics
    /// As [`Messages::describe_runs`].
    pub fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        v6_socket: bool,
        frames: &[TxFrame<'_>],
        runs: &[Run],
    ) -> io::Result<usize> {
        self.describe_runs(v6_socket, frames, runs);
        // SAFETY: the first `runs.len()` headers describe bytes borrowed by `frames`, which outlives the call. The
        // kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                runs.len() as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// The header of message `i`, as [`Messages::describe_runs`] wrote it.
    pub fn header(&self, i: usize) -> *const libc::msghdr {
        &raw const self.headers[i].msg_hdr
    }

    /// Writes a header for each run: its name and control lie in boxes that do not move and are at least as long as
    /// said, its iovecs in a vector that was not reallocated and describe bytes borrowed by `frames`.
    ///
    /// # Panics
    /// When there are more than [`MAX_MESSAGES`] runs, or a run is empty or longer than [`MAX_SEGMENTS`].
    pub fn describe_runs(&mut self, v6_socket: bool, frames: &[TxFrame<'_>], runs: &[Run]) {
        assert!(runs.len() <= MAX_MESSAGES);
        self.iovecs.clear();
        for (i, run) in runs.iter().enumerate() {
            let first = self.iovecs.len();
            let run_frames = &frames[run.frames.clone()];
            assert!(!run_frames.is_empty() && run_frames.len() <= MAX_SEGMENTS);
            for frame in run_frames {
                gather(&mut self.iovecs, first, frame.header);
                gather(&mut self.iovecs, first, frame.payload);
            }
            let peer = run_frames[0].peer;
            let name_len = write_name(&mut self.names[i], peer, v6_socket);
            let segment = (run_frames.len() > 1).then_some(run.segment_len as u16);
            let control_len = write_control(
                &mut self.controls[i],
                segment,
                self.tos | run_frames[0].ecn as u8,
                peer,
            );
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.names[i]).cast();
            header.msg_namelen = name_len;
            // The vector never grows past its capacity (asserted by the bounds above), so the
            // address holds until the call.
            header.msg_iov = self.iovecs.as_mut_ptr().wrapping_add(first);
            header.msg_iovlen = self.iovecs.len() - first;
            header.msg_control =
                if control_len == 0 { ptr::null_mut() } else { (&raw mut self.controls[i]).cast() };
            header.msg_controllen = control_len;
            header.msg_flags = 0;
        }
    }

    /// Replaces the batch's contents by what waits on the socket. `WouldBlock` when there is
    /// nothing. Returns how many datagrams were cut off because they were larger than a slot.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, batch: &mut RxBatch) -> io::Result<usize> {
        batch.clear();
        let count = batch.capacity().min(MAX_MESSAGES);
        self.iovecs.clear();
        for slot in batch.slots_mut().take(count) {
            self.iovecs
                .push(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
        }
        for i in 0..count {
            let header = &mut self.headers[i].msg_hdr;
            header.msg_name = (&raw mut self.names[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.iovecs[i];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.controls[i]).cast();
            header.msg_controllen = size_of::<Control>();
            header.msg_flags = 0;
        }
        // SAFETY: the first `count` headers were filled above with pointers to names, iovecs and
        // controls that live in `self` and do not move during the call, with their true lengths; each
        // iovec is a slot of `batch`, borrowed exclusively, and no two overlap.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut cut = 0;
        for i in 0..got as usize {
            let header = &self.headers[i];
            let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            cut += usize::from(truncated);
            let len = if truncated { 0 } else { header.msg_len as usize };
            batch.fill(self.describe(i, len));
        }
        Ok(cut)
    }

    /// Takes one message from the socket's error queue. `WouldBlock` when the queue is empty.
    pub fn receive_error(&mut self, fd: BorrowedFd<'_>) -> io::Result<Returned> {
        // Of the datagram itself, which comes back too, nothing is wanted.
        let mut iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let header = &mut self.headers[0].msg_hdr;
        header.msg_name = (&raw mut self.names[0]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 0;
        header.msg_control = (&raw mut self.controls[0]).cast();
        header.msg_controllen = size_of::<Control>();
        header.msg_flags = 0;
        let header = ptr::from_mut(header);
        // SAFETY: name and control live in `self`, do not move during the call and are as long as
        // said; there is no iovec to follow.
        let got = unsafe {
            libc::recvmsg(fd.as_raw_fd(), header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
        };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut returned =
            Returned { peer: read_name(&self.names[0]), errno: 0, from_network: false };
        // SAFETY: the kernel filled this header, with a control buffer that is alive and aligned. It writes a
        // `sock_extended_err`; CMSG_DATA may be unaligned.
        unsafe {
            for_each_control(header, |level, kind, data| {
                if let (libc::IPPROTO_IP, libc::IP_RECVERR)
                | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) = (level, kind)
                {
                    let error = ptr::read_unaligned(data.cast::<libc::sock_extended_err>());
                    returned.errno = error.ee_errno as c_int;
                    returned.from_network = error.ee_origin != libc::SO_EE_ORIGIN_LOCAL;
                }
            });
        }
        Ok(returned)
    }

    /// What the kernel said about message `i`.
    fn describe(&self, i: usize, len: usize) -> Filled {
        let peer = read_name(&self.names[i]);
        let mut filled = Filled { peer, start: 0, len, segment_len: len, ecn: Ecn::NotEct };
        // SAFETY: the kernel filled this header, with a control buffer that is alive and aligned.
        unsafe { describe_control(self.header(i), &mut filled) };
        filled
    }
}

/// What the control messages of a datagram say.
///
/// # Safety
/// As [`for_each_control`].
pub(super) unsafe fn describe_control(header: *const libc::msghdr, filled: &mut Filled) {
    // SAFETY: the caller's promise.
    unsafe {
        for_each_control(header, |level, kind, data| match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                // The kernel writes an `int` for UDP_GRO; CMSG_DATA may be unaligned.
                let size = ptr::read_unaligned(data.cast::<c_int>());
                filled.segment_len = usize::try_from(size).unwrap_or(filled.len);
            }
            // The kernel writes one octet for IP_TOS.
            (libc::IPPROTO_IP, libc::IP_TOS) => filled.ecn = Ecn::from_tos(*data),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // The kernel writes an `int` for IPV6_TCLASS; CMSG_DATA may be unaligned.
                filled.ecn = Ecn::from_tos(ptr::read_unaligned(data.cast::<c_int>()) as u8);
            }
            _ => {}
        });
    }
}

/// Calls `f` with level, type and data of each control message.
///
/// # Safety
/// `header` has a control buffer that is alive, aligned as `cmsghdr` must be, of `msg_controllen` bytes, that the kernel
/// has filled.
unsafe fn for_each_control(
    header: *const libc::msghdr,
    mut f: impl FnMut(c_int, c_int, *const u8),
) {
    // SAFETY: the kernel set `msg_controllen` to what it wrote, within which the CMSG macros stay.
    let mut cmsg = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !cmsg.is_null() {
        // SAFETY: not null, so it points at a whole `cmsghdr` inside the control buffer.
        let (level, kind, data) =
            unsafe { ((*cmsg).cmsg_level, (*cmsg).cmsg_type, libc::CMSG_DATA(cmsg)) };
        f(level, kind, data);
        // SAFETY: as for CMSG_FIRSTHDR; `cmsg` came from these macros.
        cmsg = unsafe { libc::CMSG_NXTHDR(header, cmsg) };
    }
}

/// Adds a piece to the message whose iovecs start at `first`, joining it to the one before when
/// they are neighbours in memory.
fn gather(iovecs: &mut Vec<libc::iovec>, first: usize, piece: &[u8]) {
    if piece.is_empty() {
        return;
    }
    if let Some(last) = iovecs[first..].last_mut()
        && last.iov_base as usize + last.iov_len == piece.as_ptr() as usize
    {
        last.iov_len += piece.len();
        return;
    }
    iovecs.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
}

/// Writes a socket address; returns its length. An IPv4 peer of an IPv6 socket is written as mapped.
fn write_name(name: &mut libc::sockaddr_storage, peer: SocketAddr, v6_socket: bool) -> u32 {
    let name = ptr::from_mut(name);
    match peer {
        SocketAddr::V4(peer) if !v6_socket => {
            let value = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: peer.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(peer.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a `sockaddr_storage` is larger than every socket address and aligned for it.
            unsafe { name.cast::<libc::sockaddr_in>().write(value) };
            size_of::<libc::sockaddr_in>() as u32
        }
        peer => {
            let (ip, flow, scope) = match peer {
                SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0, 0),
                SocketAddr::V6(v6) => (*v6.ip(), v6.flowinfo(), v6.scope_id()),
            };
            let value = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: peer.port().to_be(),
                sin6_flowinfo: flow,
                sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                sin6_scope_id: scope,
            };
            // SAFETY: as above.
            unsafe { name.cast::<libc::sockaddr_in6>().write(value) };
            size_of::<libc::sockaddr_in6>() as u32
        }
    }
}

/// Reads a socket address that the kernel wrote; a mapped IPv4 address comes out as IPv4.
pub(super) fn read_name(name: &libc::sockaddr_storage) -> SocketAddr {
    let family = c_int::from(name.ss_family);
    let name = ptr::from_ref(name);
    if family == libc::AF_INET6 {
        // SAFETY: the storage is larger than a `sockaddr_in6`, aligned for it, and all its bytes are
        // initialised; every bit pattern is valid.
        let v6 = unsafe { &*name.cast::<libc::sockaddr_in6>() };
        let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
        match ip.to_ipv4_mapped() {
            Some(v4) => SocketAddr::V4(SocketAddrV4::new(v4, port)),
            None => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id)),
        }
    } else {
        // SAFETY: as above, for `sockaddr_in`.
        let v4 = unsafe { &*name.cast::<libc::sockaddr_in>() };
        let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
        SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)))
    }
}

/// Writes the control messages of one message; returns their length.
fn write_control(control: &mut Control, segment: Option<u16>, tos: u8, peer: SocketAddr) -> usize {
    let mut len = 0;
    if let Some(segment) = segment {
        len += put(&mut control.0[len..], libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
    }
    if tos != 0 {
        let tos = c_int::from(tos).to_ne_bytes();
        let mapped = matches!(peer, SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some());
        let (level, kind) = if peer.is_ipv4() || mapped {
            (libc::IPPROTO_IP, libc::IP_TOS)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
        };
        len += put(&mut control.0[len..], level, kind, &tos);
    }
    len
}

/// Writes one control message at the start of `room`; returns the bytes it takes with padding.
fn put(room: &mut [u8], level: c_int, kind: c_int, data: &[u8]) -> usize {
    // SAFETY: the CMSG macros only compute with their argument.
    let (space, len, head) = unsafe {
        let head = libc::CMSG_LEN(0) as usize;
        (libc::CMSG_SPACE(data.len() as u32) as usize, libc::CMSG_LEN(data.len() as u32), head)
    };
    let header = libc::cmsghdr { cmsg_len: len as _, cmsg_level: level, cmsg_type: kind };
    let room = &mut room[..space];
    // SAFETY: `room` holds at least a `cmsghdr` (checked by the slice just above: `space ≥ head`),
    // and the write does not need alignment.
    unsafe { ptr::write_unaligned(room.as_mut_ptr().cast::<libc::cmsghdr>(), header) };
    room[head..head + data.len()].copy_from_slice(data);
    space
}

const _: () = assert!(size_of::<*mut c_void>() == size_of::<usize>());
