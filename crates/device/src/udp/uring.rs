//! The same datagrams by `io_uring` (Linux 6.1): one receive for all that come, into buffers of ours, and sends without
//! a copy.
//!
//! Where many datagrams wait no system call is made to take them. A send without a copy pays where a network interface
//! reads the memory; on loopback the kernel copies all the same, says so, and is then asked to at once.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::{Config, Udp, is_remark};
use crate::sys::uring::Ring;
use crate::{Capabilities, Device, Event, Region, RxBatch, TxFrame, Waker, wake};

/// After so many sends that the kernel has copied all the same it is asked to copy.
const COPIED_MAX: u64 = 16;
/// Frames that are shorter together are copied: taking their pages costs as much.
const ZERO_COPY_MIN: usize = 8 << 10;

/// [`Udp`] by `io_uring`.
pub struct Uring {
    // Dropped first: it uses the socket.
    ring: Ring,
    udp: Udp,
    zero_copy: bool,
}

impl Uring {
    /// Binds a socket and asks for what `config` wants, and for a ring.
    ///
    /// # Errors
    /// As [`Udp::bind`]; and when the kernel gives no ring, with the reason: it is older than Linux 6.1, or does not
    /// let this user have one (`kernel.io_uring_disabled`, a container's filter).
    pub fn bind(addr: SocketAddr, config: &Config) -> io::Result<Uring> {
        let refused = |e: io::Error| {
            let why = format!("the kernel gives no io_uring with what is needed (Linux 6.1): {e}");
            io::Error::new(e.kind(), why)
        };
        let ring = Ring::new().map_err(refused)?;
        let mut udp = Udp::bind(addr, &Config { zero_copy: false, ..*config })?;
        udp.caps.name = "io-uring";
        udp.caps.notes.retain(|note| !note.starts_with("frames are copied"));
        udp.caps.notes.push("io_uring: multishot receive into provided buffers".into());
        let zero_copy = config.zero_copy && udp.caps.segmentation_offload;
        Ok(Uring { ring, udp, zero_copy })
    }

    /// What ICMP told has ended the receive, and says nothing of the socket.
    fn take_remarks(&mut self) -> bool {
        let told = self.ring.take_error(is_remark);
        if told {
            self.udp.take_errors(None);
        }
        told
    }

    /// Sends frames, the kernel reading them where they lie if `zero_copy`.
    fn send(&mut self, frames: &[TxFrame<'_>], zero_copy: bool) -> io::Result<usize> {
        let ring = &mut self.ring;
        self.udp.transmit_by(frames, |outgoing, socket, v6_socket, runs| {
            ring.send(outgoing, socket, v6_socket, frames, runs, zero_copy)
        })
    }
}

impl Device for Uring {
    fn caps(&self) -> &Capabilities {
        &self.udp.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.udp.local
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.send(frames, false)
    }

    fn transmit_from(&mut self, region: &Region, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        if self.zero_copy && self.ring.copied > COPIED_MAX {
            self.zero_copy = false;
            let why =
                "frames are copied on sending: the kernel copies here even when it is lent them";
            self.udp.caps.notes.push(why.into());
        }
        let bulk = frames.iter().map(TxFrame::len).sum::<usize>() >= ZERO_COPY_MIN;
        self.send(frames, self.zero_copy && bulk && region.is_lent())
    }

    fn region(&self, len: usize) -> Region {
        if self.zero_copy { Region::lent(len) } else { Region::private(len) }
    }

    fn takes_memory(&self, _: SocketAddr) -> bool {
        self.zero_copy
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let ring = &mut self.ring;
        self.udp.receive_by(None, batch, |_, socket, batch| ring.receive(socket, batch))
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let asked = self.ring.ask(self.udp.socket.as_fd())?;
        if self.ring.has_arrived() || asked && self.take_remarks() {
            return Ok(true);
        }
        let full = want_write.then(|| self.udp.socket.as_fd());
        let woken = wake::wait_for(self.ring.as_fd(), full, &self.udp.waker, timeout)?;
        if woken {
            self.take_remarks();
        }
        Ok(woken)
    }

    fn waker(&self) -> Waker {
        self.udp.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.udp.events.pop()
    }
}
