//! `sendmmsg` of packets in pieces, each with a virtio header before it or none.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::interface::VNET_HEADER_BYTES;

/// The most packets that one call carries.
pub(crate) const MAX_PACKETS: usize = 64;
/// The most pieces that one packet has (`UIO_MAXIOV`, and the two headers).
pub(crate) const MAX_PIECES: usize = 1022;

/// What a call reads, made once. Pointers in it are written before each call and are dead after it.
#[derive(Default)]
pub(crate) struct Gather {
    vnets: Vec<Option<[u8; VNET_HEADER_BYTES]>>,
    iovecs: Vec<libc::iovec>,
    /// Where the pieces of each packet end.
    ends: Vec<usize>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the raw pointers inside are only used during `send`, which has `&mut self` and made them all anew.
unsafe impl Send for Gather {}

/// One packet: its virtio header where the socket takes one, its headers, its payload of at most [`MAX_PIECES`].
pub(crate) type Pieces<'a> = (Option<[u8; VNET_HEADER_BYTES]>, &'a [u8], &'a [IoSlice<'a>]);

impl Gather {
    /// Sends packets on a bound socket; returns how many the kernel took. An error is the first's.
    pub fn send<'a>(
        &mut self,
        fd: BorrowedFd<'_>,
        packets: impl Iterator<Item = Pieces<'a>>,
    ) -> io::Result<usize> {
        self.vnets.clear();
        self.iovecs.clear();
        self.ends.clear();
        self.messages.clear();
        let entry = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        for (vnet, header, payload) in packets.take(MAX_PACKETS) {
            assert!(payload.len() <= MAX_PIECES);
            if vnet.is_some() {
                // The header's place is known when all of them are there.
                self.iovecs.push(entry(&[]));
            }
            self.vnets.push(vnet);
            self.iovecs.push(entry(header));
            for piece in payload {
                // What lies next to each other is one piece for the kernel.
                match self.iovecs.last_mut() {
                    Some(last) if last.iov_base.addr() + last.iov_len == piece.as_ptr().addr() => {
                        last.iov_len += piece.len();
                    }
                    _ => self.iovecs.push(entry(piece)),
                }
            }
            self.ends.push(self.iovecs.len());
        }
        let mut first = 0;
        for (vnet, end) in self.vnets.iter().zip(&self.ends) {
            if let Some(vnet) = vnet {
                self.iovecs[first] = entry(vnet);
            }
            // SAFETY: a C structure of numbers and pointers, for which zero is valid.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = self.iovecs.as_mut_ptr().wrapping_add(first);
            message.msg_hdr.msg_iovlen = (end - first) as _;
            message.msg_hdr.msg_name = ptr::null_mut();
            self.messages.push(message);
            first = *end;
        }
        // SAFETY: each message's iovecs lie in a vector that no longer grows, and describe bytes of `vnets`,
        // which no longer grows either, or bytes borrowed for `'a`, which outlives the call. The kernel
        // only reads them.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                self.messages.len() as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}
