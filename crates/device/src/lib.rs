//! Devices: where frames go in and out.
//!
//! A frame is one TPDU (a header of TCP or XTP and its payload), as it lies in one UDP datagram; see
//! [`encapsulation`]. Every device takes and gives many frames at a time ([`Device`]) and says what
//! it got from the kernel and why ([`Capabilities`]). Nothing here knows a connection, a sequence
//! number or a key.
//!
//! `unsafe` lives in `sys` and nowhere else.
#![deny(unsafe_code)]

mod batch;
mod caches;
pub mod capture;
pub mod encapsulation;
mod forward;
mod frame;
pub mod impair;
#[cfg(feature = "interfaces")]
pub mod interface;
pub mod kernel;
#[cfg(feature = "kernel-tcp")]
pub mod kernel_tcp;
pub mod kernel_udp;
pub mod memory;
pub mod pcapng;
mod random;
#[cfg(feature = "shm")]
pub mod shm;
pub mod sockets;
#[allow(unsafe_code)]
mod sys;
pub mod thread;
pub mod udp;
mod wake;

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use batch::{RxBatch, SLOT_BYTES, SuperPacket};
pub use caches::shares_last_cache;
pub use frame::{Ecn, Event, TxFrame};
pub use random::random;
#[cfg(feature = "interfaces")]
pub use sys::descriptors::{Descriptors, ParentOnly, Place, known};
pub use sys::region::Region;
#[cfg(feature = "interfaces")]
pub use sys::sender::{Received, Sender, effective_ids, receive_from};
#[cfg(feature = "shm")]
pub use sys::shared::{Shared, Unforked, View, Writers, fence_behind_change};
pub use sys::sockopt::{pass_rights, unread_by_peer};
pub use wake::{Waker, sleep};

/// What a device got, and why.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Name as the user chooses it: `udp`, `memory`, `shm`.
    pub name: &'static str,
    /// The largest TPDU in bytes that the device could carry at all; a path may carry less.
    pub max_datagram: usize,
    /// One send carries several frames of equal size (`UDP_SEGMENT` or better).
    pub segmentation_offload: bool,
    /// One receive gives several frames of equal size (`UDP_GRO` or better).
    pub receive_offload: bool,
    /// The most bytes that one run of equal frames can have.
    pub max_batch_bytes: usize,
    /// Nothing lies between the ends: whatever the device takes fits the path. Otherwise a path that carries
    /// less than `max_datagram` has to be found.
    pub is_whole_path: bool,
    /// Payload bytes that wait in the device for `receive` before it drops: the sum of all receive
    /// windows stays within it.
    pub receive_buffer_bytes: usize,
    /// What was asked for, what was got, and why, in sentences for the user.
    pub notes: Vec<String>,
}

/// Frames in and out, in batches. Nothing blocks but [`Device::wait`].
///
/// ```
/// use std::io::{self, ErrorKind};
/// use std::net::SocketAddr;
/// use std::os::fd::{AsFd, BorrowedFd};
/// use std::os::unix::net::UnixDatagram;
/// use std::time::Duration;
///
/// use fusewire_device::{Capabilities, Device, Ecn, RxBatch, TxFrame, Waker, sleep};
/// use rustix::event::{PollFd, PollFlags};
///
/// /// A Unix socket to one peer: what it calls addresses are names for the stack alone.
/// struct Unix {
///     socket: UnixDatagram,
///     local: SocketAddr,
///     peer: SocketAddr,
///     caps: Capabilities,
///     waker: Waker,
/// }
///
/// impl Unix {
///     fn new(socket: UnixDatagram, local: SocketAddr, peer: SocketAddr) -> io::Result<Unix> {
///         socket.set_nonblocking(true)?;
///         let caps = Capabilities {
///             name: "unix",
///             max_datagram: 8192,
///             max_batch_bytes: 8192,
///             is_whole_path: true,
///             receive_buffer_bytes: 64 << 10,
///             notes: vec!["each frame is copied: gather, send, receive".into()],
///             ..Capabilities::default()
///         };
///         Ok(Unix { socket, local, peer, caps, waker: Waker::new()? })
///     }
/// }
///
/// impl Device for Unix {
///     fn caps(&self) -> &Capabilities {
///         &self.caps
///     }
///     fn local_addr(&self) -> SocketAddr {
///         self.local
///     }
///     fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
///         for (taken, frame) in frames.iter().enumerate() {
///             match self.socket.send(&[frame.header, frame.payload].concat()) {
///                 Err(full) if full.kind() == ErrorKind::WouldBlock => return Ok(taken),
///                 sent => sent?,
///             };
///         }
///         Ok(frames.len())
///     }
///     fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
///         batch.clear();
///         let mut frame = [0; 8192];
///         while batch.len() < batch.capacity() {
///             match self.socket.recv(&mut frame) {
///                 Ok(len) => batch.push_frame(self.peer, Ecn::NotEct, &frame[..len], false),
///                 Err(empty) if empty.kind() == ErrorKind::WouldBlock => break,
///                 Err(error) => return Err(error),
///             };
///         }
///         Ok(batch.len())
///     }
///     fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
///         let ready = if want_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
///         let mut fds =
///             [PollFd::new(&self.socket, ready), PollFd::new(&self.waker, PollFlags::IN)];
///         let is_woken = sleep(&mut fds, timeout)? > 0;
///         self.waker.drain();
///         Ok(is_woken)
///     }
///     fn waker(&self) -> Waker {
///         self.waker.clone()
///     }
///     fn as_fd(&self) -> Option<BorrowedFd<'_>> {
///         Some(self.socket.as_fd())
///     }
/// }
///
/// let (near, far) = UnixDatagram::pair()?;
/// let addrs: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()];
/// let mut near = Unix::new(near, addrs[0], addrs[1])?;
/// let mut far = Unix::new(far, addrs[1], addrs[0])?;
/// let frame = |payload| TxFrame { peer: addrs[1], header: b"header ", payload, ecn: Ecn::NotEct };
/// assert_eq!(near.transmit(&[frame(b"one"), frame(b"another")])?, 2);
///
/// assert!(far.wait(None, false)?);
/// let mut batch = RxBatch::new(4);
/// assert_eq!(far.receive(&mut batch)?, 2);
/// let frames: Vec<&[u8]> = batch.iter().flat_map(|packet| packet.frames()).collect();
/// assert_eq!(frames, [&b"header one"[..], b"header another"]);
///
/// far.waker().wake();
/// assert!(far.wait(None, false)?, "a wake before the wait is kept");
/// # Ok::<(), io::Error>(())
/// ```
pub trait Device: Send {
    /// What the device got. May change when the kernel refuses at run time what it granted at start.
    fn caps(&self) -> &Capabilities;

    /// The address that peers see, as far as this side knows it.
    fn local_addr(&self) -> SocketAddr;

    /// The name that a peer at this address has here, in frames both ways: the same, but where there are no ports, which
    /// are 0 then.
    fn named(&self, peer: SocketAddr) -> SocketAddr {
        peer
    }

    /// Sends frames in order and returns how many were taken: fewer than all when the device is
    /// full, so 0 means "wait until it can be written to". A frame that is too big for the path's
    /// first link, or whose peer cannot be reached, counts as taken and is told by
    /// [`Device::poll_event`].
    ///
    /// Adjacent frames of equal size for one peer (the last may be shorter) leave together; header
    /// and payload that lie next to each other in memory, and frames that do, are gathered as one
    /// piece.
    ///
    /// # Errors
    /// What the operating system says when the device itself is broken.
    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize>;

    /// [`Device::transmit`] for frames that lie in `region`, which [`Device::region`] made: the device
    /// may take the memory itself and not a copy. So the bytes of these frames must not change until
    /// their peer has said that it has them. Should they change all the same, what arrives is not
    /// what was sent, which the frame's checksum tells.
    ///
    /// # Errors
    /// As [`Device::transmit`].
    fn transmit_from(&mut self, region: &Region, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let _ = region;
        self.transmit(frames)
    }

    /// Memory of at least `len` bytes for [`Device::transmit_from`].
    fn region(&self, len: usize) -> Region {
        Region::private(len)
    }

    /// True when frames for `peer` leave without a copy: then the processor that writes them does
    /// not need them again.
    fn takes_memory(&self, peer: SocketAddr) -> bool {
        let _ = peer;
        false
    }

    /// Replaces the batch's contents by what is waiting, and returns the number of super-packets;
    /// 0 when there is none.
    ///
    /// # Errors
    /// What the operating system says when the device itself is broken.
    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize>;

    /// Sleeps until frames wait, the device can be written to (when `want_write`), a [`Waker`] of it
    /// wakes, or `timeout` passes (`None`: for ever). False when the time passed. May wake for nothing.
    ///
    /// # Errors
    /// What the operating system says when the device itself is broken.
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool>;

    /// How long until the device has something to give or to send on by itself, of which its descriptor does not tell:
    /// who sleeps on that sleeps no longer, and then calls [`Device::receive`]. [`Device::wait`] knows it.
    fn next_timeout(&self) -> Option<Duration> {
        None
    }

    /// Wakes [`Device::wait`] from another thread.
    fn waker(&self) -> Waker;

    /// The descriptor that becomes readable when frames wait, where there is one.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// What the device dropped before [`Device::receive`] could give it, or after [`Device::transmit`] took it, as far
    /// as it knows: names of causes, and how often each was.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The next thing that happened to frames taken earlier. The queue is short: when it is full the
    /// oldest entry is lost.
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    crate::forward!(self => (**self); caps local_addr named transmit transmit_from region takes_memory);
    crate::forward!(self => (**self); receive wait next_timeout waker as_fd drops poll_event);
}
