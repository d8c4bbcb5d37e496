//! Network interfaces: Ethernet frames or bare IP packets in and out, many at a time.
//!
//! An interface hands out what the kernel or the card hands out, super-frames and unfinished checksums
//! included, and says so with each packet ([`Checksum`], [`Segmentation`]): the meaning is that of
//! `virtio_net_hdr` (Virtual I/O Device specification 1.2, section 5.1.6). Nothing here parses a header.

mod arena;
mod around;
mod classify;
pub mod devices;
mod features;
pub mod flows;
pub mod host;
pub mod intake;
pub mod memory;
pub mod packet;
pub mod queues;
pub mod relay;
pub mod reserved_port;
mod steer;
pub mod tap;
pub mod unfinished;
pub mod vnet;
mod withhold;
pub mod xdp;

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::Duration;

use fusewire_base::Sum;

use crate::Waker;
use crate::kernel::Version;
pub use around::Around;
use flows::Flows;

pub(crate) use vnet::HEADER_BYTES as VNET_HEADER_BYTES;

/// What lies at the beginning of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
}

/// Who has to do with the transport checksum of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Received: nobody has looked. To send: it is complete as it lies.
    #[default]
    InPlace,
    /// Received: the device has verified it. Not used when sending.
    Verified,
    /// Received: nobody has looked, and this is the sum of all bytes of the packet, from the first on. Not used when sending.
    Summed(Sum),
    /// The field at `start + offset` holds the sum of the pseudo-header alone. Received: the packet
    /// never left this host, and there is nothing to verify. To send: the device adds the sum of the
    /// bytes from `start` to the end.
    Partial {
        /// Where the summed bytes begin: the transport header, from the beginning of the packet.
        start: u16,
        /// Where in the transport header the checksum lies.
        offset: u16,
    },
}

/// How a packet is, or is to be, cut into smaller ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segmentation {
    /// One packet.
    #[default]
    None,
    /// TCP segments of `segment_len` payload bytes each, the last shorter or as long.
    Tcp {
        /// Payload bytes a segment.
        segment_len: u16,
        /// One of them may carry CWR (the first only, when sending).
        ecn: bool,
    },
    /// UDP datagrams of `segment_len` payload bytes each, the last shorter or as long (USO).
    Udp {
        /// Payload bytes a datagram.
        segment_len: u16,
    },
}

/// A packet to send, gathered from pieces that need not lie together.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxPacket<'a> {
    /// Link, IP and transport header.
    pub header: &'a [u8],
    /// What follows them.
    pub payload: &'a [IoSlice<'a>],
    /// The transport checksum: [`Checksum::Partial`] only where [`Capabilities::checksum`].
    pub checksum: Checksum,
    /// Only where [`Capabilities::tcp_segmentation`] or [`Capabilities::udp_segmentation`] says so, and
    /// with [`Checksum::Partial`]. `header` then holds all of the headers, and nothing else.
    pub segmentation: Segmentation,
}

impl TxPacket<'_> {
    /// Bytes of header and payload.
    pub fn len(&self) -> usize {
        self.header.len() + self.payload.iter().map(|piece| piece.len()).sum::<usize>()
    }

    /// True for a packet without a byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses what the interface did not offer: the caller's mistake, not the network's.
    fn admit(&self, capabilities: &Capabilities) -> io::Result<usize> {
        let len = self.len();
        let offered = match self.segmentation {
            Segmentation::None => true,
            Segmentation::Tcp { .. } => capabilities.tcp_segmentation,
            Segmentation::Udp { segment_len } => {
                let payload: usize = self.payload.iter().map(|piece| piece.len()).sum();
                let segments = payload.div_ceil(usize::from(segment_len).max(1));
                capabilities.udp_segmentation && segments <= capabilities.udp_segments_max()
            }
        };
        let complete = match self.checksum {
            Checksum::Partial { start, offset } => {
                capabilities.checksum && usize::from(start) + usize::from(offset) + 2 <= len
            }
            Checksum::InPlace | Checksum::Verified | Checksum::Summed(_) => {
                self.segmentation == Segmentation::None
            }
        };
        if len == 0 || len > capabilities.max_packet_bytes || !offered || !complete {
            let what = format!(
                "a packet of {len} bytes, {:?}, {:?}, for {}, which takes {} bytes, checksum {}, TCP \
                 segmentation {}, UDP segmentation {} up to {} datagrams",
                self.checksum,
                self.segmentation,
                capabilities.name,
                capabilities.max_packet_bytes,
                capabilities.checksum,
                capabilities.tcp_segmentation,
                capabilities.udp_segmentation,
                capabilities.udp_segments_max()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(len)
    }
}

/// A received packet. Its bytes lie in the device's memory until the next [`Interface::receive`].
#[derive(Clone, Copy, Debug)]
pub struct RxPacket<'a> {
    /// The packet from its first header on. Hostile.
    pub bytes: &'a [u8],
    /// What the device knows of the transport checksum.
    pub checksum: Checksum,
    /// How many packets these were on the wire. As hostile as the bytes: lengths are not checked.
    pub segmentation: Segmentation,
}

/// What [`Interface::receive_split`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The interface cannot cut packets: [`Interface::receive`] takes them whole.
    Unsupported,
    /// Nothing waits.
    Nothing,
    /// A packet of `len` bytes, head included.
    Packet {
        /// Bytes of all of it.
        len: usize,
    },
}

/// What an interface got, and why (Law 9).
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// Name as the user chooses it: `tap`, `packet`, `xdp`, `memory`.
    pub name: &'static str,
    /// What packets begin with.
    pub link: Link,
    /// The interface's own address, where it has one.
    pub mac: Option<[u8; 6]>,
    /// Largest IP packet in bytes that leaves without segmentation.
    pub mtu: usize,
    /// [`Checksum::Partial`] may be sent.
    pub checksum: bool,
    /// [`Segmentation::Tcp`] may be sent over IPv4 and IPv6.
    pub tcp_segmentation: bool,
    /// [`Segmentation::Udp`] may be sent over IPv4 and IPv6.
    pub udp_segmentation: bool,
    /// Super-frames may be received.
    pub receive_offload: bool,
    /// Most bytes of a packet with its headers, either way: `mtu` and the link header, or 64 KiB.
    pub max_packet_bytes: usize,
    /// What was asked for, what was got, and why, in sentences for the user.
    pub notes: Vec<String>,
}

/// Linux that takes 128 datagrams in a UDP super-frame, and not 64 (`UDP_MAX_SEGMENTS`).
const MORE_SEGMENTS: Version = Version { major: 6, minor: 9 };

impl Capabilities {
    /// The most datagrams that a UDP super-frame may have: the kernel refuses one with more.
    pub fn udp_segments_max(&self) -> usize {
        static KERNEL: OnceLock<usize> = OnceLock::new();
        match self.name {
            "memory" => usize::MAX,
            _ => *KERNEL.get_or_init(|| {
                let runs_more = Version::running().is_some_and(|v| v >= MORE_SEGMENTS);
                if runs_more { 128 } else { 64 }
            }),
        }
    }
}

/// What happened to an interface, its addresses, neighbours and routes while it was in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The link was deleted: every later call fails.
    Gone,
    /// The link can carry packets, or cannot for now.
    Running(bool),
    /// The MTU is another; [`Interface::capabilities`] says so too.
    Mtu(usize),
    /// The kernel has this address on the interface now.
    AddressAdded(IpAddr, u8),
    /// The kernel has it there no longer.
    AddressRemoved(IpAddr),
    /// The kernel learned or forgot where a neighbour is.
    Neighbour(IpAddr, Option<[u8; 6]>),
    /// The kernel's routes are others.
    Routes,
    /// Changes were lost: read everything again.
    Overrun,
}

/// One queue of a network interface. Nothing blocks but [`Interface::wait`].
pub trait Interface: Send {
    /// What the interface got. The MTU may change under way.
    fn capabilities(&self) -> &Capabilities;

    /// Sends packets in order and returns how many were taken: fewer than all when the device is full,
    /// so 0 means "wait until it can be written to".
    ///
    /// # Errors
    /// What the operating system says when the interface is broken or gone.
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize>;

    /// Gives the packets of the last call back to the device, takes what is waiting, and returns how
    /// many packets [`Interface::packet`] can give; 0 when nothing waits.
    ///
    /// # Errors
    /// What the operating system says when the interface is broken or gone.
    fn receive(&mut self) -> io::Result<usize>;

    /// A packet of the last [`Interface::receive`], in the order of arrival.
    ///
    /// # Panics
    /// When `index` is not below what `receive` returned.
    fn packet(&self, index: usize) -> RxPacket<'_>;

    /// Gives the packets of the last call back to the device and takes one packet, cut in two on its way: the
    /// first `head_len` bytes are what [`Interface::packet`] gives as packet 0 (with what the device knows of
    /// the whole), those behind them go to both parts of `memory`, one behind the other, so that nobody has to copy them
    /// again. They are as hostile there as anywhere. Whoever finds that they do not belong there calls
    /// [`Interface::rejoin`].
    ///
    /// # Errors
    /// As [`Interface::receive`].
    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        let _ = (head_len, memory);
        Ok(Split::Unsupported)
    }

    /// The front of the packet that the next [`Interface::receive_split`] will take, as much as there is to see of it, and how
    /// long it is; what the last call took is given back. `None`: the next one is none of which the interface shows something
    /// before it is taken. The next [`Interface::receive`] takes what was shown by itself, or else what is before the next one
    /// that would be, so that each may be looked at.
    fn peek(&mut self) -> Option<(RxPacket<'_>, usize)> {
        None
    }

    /// Makes the packet of the last [`Interface::receive_split`] whole again, for [`Interface::packet`].
    /// `memory` is what was given then, or as much of it as the packet has filled.
    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        let _ = memory;
    }

    /// Sleeps until packets wait, the device can be written to (when `want_write`), a [`Waker`] of it
    /// wakes, or `timeout` passes (`None`: for ever). False when the time passed. May wake for nothing.
    ///
    /// # Errors
    /// What the operating system says when the interface is broken or gone.
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool>;

    /// Wakes [`Interface::wait`] from another thread.
    fn waker(&self) -> Waker;

    /// The descriptor that becomes readable when packets wait, where there is one.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;

    /// The kernel's number of the interface, where it has one there.
    fn index(&self) -> Option<u32> {
        None
    }

    /// From now on these flows are ours, in place of those before. Where all of the interface is ours
    /// anyway, nothing happens.
    ///
    /// # Errors
    /// More than the interface can tell apart; what the operating system says.
    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        let _ = flows;
        Ok(())
    }

    /// The next thing that happened to the interface itself. [`Interface::wait`] wakes for it; who never
    /// waits asks now and then.
    fn poll_change(&mut self) -> Option<Change> {
        None
    }

    /// Packets that the interface or the kernel dropped since it was opened, as far as it tells.
    fn dropped(&self) -> u64 {
        0
    }

    /// Its sending half once more, for another thread ([`relay`]).
    ///
    /// # Errors
    /// `Unsupported`: it has none; no descriptor is left.
    fn sender(&self) -> io::Result<Box<dyn relay::Sender>> {
        let what = format!("{} sends in the thread that receives alone", self.capabilities().name);
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// Its receiving half, for another thread ([`intake`]): from now on [`Interface::receive`] gives nothing.
    ///
    /// # Errors
    /// `Unsupported`: it has none, or another thread has it; no descriptor is left.
    fn receiver(&mut self) -> io::Result<Box<dyn intake::Receiver>> {
        let what = format!("{} receives in the thread that sends alone", self.capabilities().name);
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// Packets, or super-frames where they come whole, that wait for [`Interface::receive`] before more are dropped.
    fn queue_packets(&self) -> usize {
        256
    }
}
