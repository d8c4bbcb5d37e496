//! TAP and TUN: an interface of the kernel's whose cable ends in our hands. What the kernel sends comes out
//! of [`Interface::receive`], what we transmit the kernel receives; addresses of our own live at our end.
//!
//! A virtio header goes before each packet (`IFF_VNET_HDR`): super-frames of up to 64 KiB and unfinished
//! checksums both ways, so that one system call carries what would be dozens of packets on a wire.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::arena::Arena;
use super::host::Watch;
use super::intake::{self, Receiver, Summing};
use super::relay::Sender;
use super::vnet;
use super::{Capabilities, Change, Interface, Link, RxPacket, Split, TxPacket};
use crate::sys::{ifreq, tun};
use crate::{Waker, wake};

/// Packets that one `receive` takes.
const BATCH_PACKETS: usize = 64;

/// What the interface is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name; the kernel fills in a `%d`.
    pub name: String,
    /// [`Link::Ethernet`] is TAP, [`Link::Ip`] is TUN.
    pub link: Link,
    /// Super-frames and unfinished checksums both ways.
    pub offload: bool,
    /// It is opened more than once: by [`open_queues`], or by several processes.
    pub multi_queue: bool,
    /// It stays when the last process that holds it ends.
    pub persistent: bool,
    /// Its MTU, unless it is to stay as it is.
    pub mtu: Option<usize>,
    /// It is taken up.
    pub up: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: "fusewire%d".into(),
            link: Link::Ethernet,
            offload: true,
            multi_queue: false,
            persistent: false,
            mtu: None,
            up: true,
        }
    }
}

/// Our end of a TAP or TUN: one queue of it.
pub struct Tap {
    fd: OwnedFd,
    name: String,
    offload: bool,
    capabilities: Capabilities,
    arena: Arena,
    pieces: Pieces,
    watch: Watch,
    waker: Waker,
    /// Another thread receives.
    is_received: bool,
}

/// `count` queues of one interface, for as many threads. The kernel keeps a flow on the queue that last
/// sent for it.
///
/// # Errors
/// As [`Tap::open`].
pub fn open_queues(config: &Config, count: usize) -> io::Result<Vec<Tap>> {
    let mut config = Config { multi_queue: true, ..config.clone() };
    let mut queues = Vec::with_capacity(count);
    for _ in 0..count {
        let tap = Tap::open(&config)?;
        config.name.clone_from(&tap.name);
        queues.push(tap);
    }
    Ok(queues)
}

impl Tap {
    /// Makes the interface, or takes hold of one that is there.
    ///
    /// # Errors
    /// `PermissionDenied`, with what is missing; what the kernel says.
    pub fn open(config: &Config) -> io::Result<Tap> {
        let path = "/dev/net/tun";
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|e| explain(e.into(), path))?;
        let (kind, word) = match config.link {
            Link::Ethernet => (libc::IFF_TAP, "TAP"),
            Link::Ip => (libc::IFF_TUN, "TUN"),
        };
        let flag = |on, flag| if on { flag } else { 0 };
        let flags = kind
            | libc::IFF_NO_PI
            | flag(config.offload, libc::IFF_VNET_HDR)
            | flag(config.multi_queue, libc::IFF_MULTI_QUEUE);
        let name =
            tun::attach(fd.as_fd(), &config.name, flags).map_err(|e| explain(e, &config.name))?;
        let mut notes = vec![format!("{word} {name}")];
        let granted = if config.offload { offer(fd.as_fd(), &mut notes) } else { 0 };
        if config.persistent {
            tun::set_persistent(fd.as_fd(), true)?;
            notes.push("it stays when this process ends".into());
        }
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        if let Some(mtu) = config.mtu {
            ifreq::set_mtu(any.as_fd(), &name, mtu)?;
        }
        if config.up {
            ifreq::set_up(any.as_fd(), &name, true)?;
        }
        let mtu = ifreq::mtu(any.as_fd(), &name)?;
        let mac = match config.link {
            Link::Ethernet => ifreq::mac(any.as_fd(), &name)?.map(other_end),
            Link::Ip => None,
        };
        let index = rustix::net::netdevice::name_to_index(&any, &name)?;
        let watch = Watch::new(index)?;
        let link_bytes = if config.link == Link::Ethernet { 14 } else { 0 };
        let capabilities = Capabilities {
            name: "tap",
            link: config.link,
            mac,
            mtu,
            checksum: config.offload,
            tcp_segmentation: config.offload,
            udp_segmentation: granted & tun::offload::USO4 != 0,
            receive_offload: granted & tun::offload::TSO4 != 0,
            max_packet_bytes: link_bytes + if config.offload { 65_535 } else { mtu },
            notes,
        };
        Ok(Tap {
            fd,
            name,
            offload: config.offload,
            capabilities,
            arena: Arena::new(BATCH_PACKETS, config.offload),
            pieces: Pieces::default(),
            watch,
            waker: Waker::new()?,
            is_received: false,
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What sends by a descriptor: pieces of the packet that is being sent, empty between calls.
#[derive(Default)]
struct Pieces(Vec<IoSlice<'static>>);

impl Pieces {
    /// Packets in order; how many were taken.
    fn transmit(
        &mut self,
        fd: BorrowedFd<'_>,
        capabilities: &Capabilities,
        packets: &[TxPacket<'_>],
    ) -> io::Result<usize> {
        for (i, packet) in packets.iter().enumerate() {
            match self.send(fd, capabilities, packet) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(i),
                Err(e) if i == 0 => return Err(e),
                // It comes again when the rest is sent.
                Err(_) => return Ok(i),
            }
        }
        Ok(packets.len())
    }

    /// One packet, with one system call.
    fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        capabilities: &Capabilities,
        packet: &TxPacket<'_>,
    ) -> io::Result<()> {
        packet.admit(capabilities)?;
        let mut pieces = std::mem::take(&mut self.0);
        let header = vnet::emit(packet, capabilities.link).ok_or(io::ErrorKind::InvalidInput)?;
        if capabilities.checksum {
            pieces.push(IoSlice::new(&header));
        }
        pieces.push(IoSlice::new(packet.header));
        pieces.extend_from_slice(packet.payload);
        let sent = if pieces.len() <= libc::UIO_MAXIOV as usize {
            rustix::io::writev(fd, &pieces)
        } else {
            let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
            rustix::io::write(fd, &whole)
        };
        pieces.clear();
        // The same allocation, with no borrow left in it.
        self.0 = pieces.into_iter().map(|_| IoSlice::new(&[])).collect();
        match sent {
            Ok(_) => Ok(()),
            // The interface is down.
            Err(Errno::IO) => Err(Errno::NETDOWN.into()),
            Err(e) => Err(e.into()),
        }
    }
}

/// What another thread sends by.
struct Sending {
    fd: OwnedFd,
    pieces: Pieces,
    capabilities: Capabilities,
}

impl Sender for Sending {
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.pieces.transmit(self.fd.as_fd(), &self.capabilities, packets)
    }
}

/// What another thread receives by.
struct Receiving {
    fd: OwnedFd,
    has_vnet: bool,
}

impl Receiver for Receiving {
    fn batch(&self) -> Arena {
        Arena::new(BATCH_PACKETS, self.has_vnet)
    }

    fn receive(&mut self, into: &mut Arena, _: &dyn Summing) -> io::Result<()> {
        read_all(self.fd.as_fd(), into)
    }

    fn wait(&mut self, waker: &Waker) -> io::Result<()> {
        wake::wait(self.fd.as_fd(), waker, None, false).map(|_| ())
    }
}

/// Reads what waits, as far as there is room.
fn read_all(fd: BorrowedFd<'_>, arena: &mut Arena) -> io::Result<()> {
    while arena.has_room() {
        match arena.read(fd) {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) if arena.len() == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(())
}

/// The address of our end: the kernel's own with one bit changed, so that it is the same for all who share
/// the interface.
fn other_end(mut mac: [u8; 6]) -> [u8; 6] {
    mac[0] |= 2;
    mac[3] ^= 0x80;
    mac
}

/// Takes all that the kernel may leave unfinished, as far as it knows it; says so, and returns it.
fn offer(fd: BorrowedFd<'_>, notes: &mut Vec<String>) -> u32 {
    use tun::offload::{CHECKSUM, TSO_ECN, TSO4, TSO6, USO4, USO6};
    let tcp = CHECKSUM | TSO4 | TSO6 | TSO_ECN;
    for (bits, note) in [
        (tcp | USO4 | USO6, "virtio header: checksums, TCP and UDP super-frames both ways"),
        (tcp, "virtio header: checksums and TCP super-frames; UDP super-frames need Linux 6.2"),
    ] {
        if tun::set_offload(fd, bits).is_ok() {
            notes.push(note.into());
            return bits;
        }
    }
    notes.push("virtio header for sending only: the kernel refused to leave work to us".into());
    0
}

fn explain(error: io::Error, what: &str) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it takes CAP_NET_ADMIN (setcap cap_net_admin+ep PROGRAM), or one made for you: \
             ip tuntap add dev NAME mode tap vnet_hdr user USER"
        }
        io::ErrorKind::NotFound => "; the module tun is not loaded (modprobe tun)",
        io::ErrorKind::InvalidInput => {
            "; an interface of this name is there already, and is of another kind or made with other \
             flags (vnet_hdr, multi_queue)"
        }
        io::ErrorKind::ResourceBusy => "; somebody holds it, and it was not made with multi_queue",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{what}: {error}{advice}"))
}

impl Interface for Tap {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.pieces.transmit(self.fd.as_fd(), &self.capabilities, packets)
    }

    fn sender(&self) -> io::Result<Box<dyn Sender>> {
        Ok(Box::new(Sending {
            fd: self.fd.try_clone()?,
            pieces: Pieces::default(),
            capabilities: self.capabilities.clone(),
        }))
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.arena.clear();
        if !self.is_received {
            read_all(self.fd.as_fd(), &mut self.arena)?;
        }
        Ok(self.arena.len())
    }

    fn receiver(&mut self) -> io::Result<Box<dyn Receiver>> {
        if self.is_received {
            return Err(intake::taken());
        }
        let receiving = Receiving { fd: self.fd.try_clone()?, has_vnet: self.offload };
        self.is_received = true;
        Ok(Box::new(receiving))
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        self.arena.packet(index)
    }

    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        match self.is_received {
            true => Ok(Split::Unsupported),
            false => self.arena.read_split(self.fd.as_fd(), head_len, memory),
        }
    }

    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        self.arena.rejoin(memory);
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.watch.wait(self.fd.as_fd(), &self.waker, timeout, want_write)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn index(&self) -> Option<u32> {
        Some(self.watch.index())
    }

    fn poll_change(&mut self) -> Option<Change> {
        let change = self.watch.poll()?;
        if let Change::Mtu(mtu) = change {
            self.capabilities.mtu = mtu;
            if !self.offload {
                let link_bytes = if self.capabilities.link == Link::Ethernet { 14 } else { 0 };
                self.capabilities.max_packet_bytes = link_bytes + mtu;
            }
        }
        Some(change)
    }

    /// `TUN_READQ_SIZE`, unless somebody has set `txqueuelen`.
    fn queue_packets(&self) -> usize {
        500
    }

    fn dropped(&self) -> u64 {
        self.arena.malformed
    }
}
