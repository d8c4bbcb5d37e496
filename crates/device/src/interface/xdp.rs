//! AF_XDP: packets of chosen flows, from one queue of an interface, before the kernel's own stack sees them.
//! They are received into memory that is ours, and handed on where they lie.
//!
//! The best that driver and kernel give is taken: program in the driver or where the stack begins, frames
//! filled by the card itself or copied. [`Capabilities::notes`] says which, and why not more. The program
//! hangs on the interface as long as we live and not longer (`bpf_link`).
//!
//! A queue belongs to one process. One process may have all of them ([`open`]), or several a queue each
//! ([`Xdp::open`]) with its own flows, where the interface brings a process's flows to its queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, XdpOptionsFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with, sockopt as options,
};

use super::flows::Flows;
use super::host::Watch;
use super::queues::Queues;
use super::steer::{MAX_QUEUES, Steering};
use super::{
    Capabilities, Change, Checksum, Interface, Link, RxPacket, Segmentation, TxPacket, unfinished,
};
use crate::Waker;
use crate::sys::xsk::Memory;
use crate::sys::{ethtool, ifreq, sockopt};

/// Frames to receive into, and as many to send from.
const FRAMES: u32 = 2048;
/// As many for all queues of an interface together, as far as each keeps [`LEAST_FRAMES`].
const FRAMES_OF_ALL: u32 = 8192;
const LEAST_FRAMES: u32 = 256;
/// Packets that one `receive` takes from a queue.
pub(crate) const BATCH_PACKETS: usize = 64;
/// What the kernel keeps free in a frame before the packet and behind it, and Ethernet's header with a tag.
const FRAME_OVERHEAD: usize = 256 + 64 + 18;
/// The largest MTU of small frames.
const SMALL_MTU: usize = 2048 - FRAME_OVERHEAD;
/// The largest MTU of packets in one frame each.
const SINGLE_MTU: usize = 4096 - FRAME_OVERHEAD;
/// The largest MTU: a packet lies in at most 16 frames, and the kernel takes 17.
pub const MOST_MTU: usize = 16 * SINGLE_MTU;
/// The largest MTU before Linux 6.6, which was the first to put a packet into several frames (`XDP_USE_SG`).
pub const OLD_MOST_MTU: usize = SINGLE_MTU;

/// How long a queue may take to come free.
const QUEUE_WAIT: Duration = Duration::from_millis(500);

/// How the interface is used.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// Which of its queues, from 0.
    pub queue: u32,
    /// What of it is ours. Packets to Ethernet groups stay the kernel's.
    pub flows: Flows,
    /// Not in the driver, even if it could.
    pub generic: bool,
    /// Copied, even if the card could fill frames of ours.
    pub copy: bool,
    /// The kernel is called when it sleeps, and not always.
    pub need_wakeup: bool,
    /// Microseconds that a call may spin on the card's queue instead of waiting for its interrupt.
    pub busy_poll_us: Option<u32>,
}

impl Config {
    /// Everything on the first queue of the interface of this name.
    pub fn new(name: &str) -> Config {
        Config {
            name: name.into(),
            queue: 0,
            flows: Flows::everything(),
            generic: false,
            copy: false,
            need_wakeup: true,
            busy_poll_us: None,
        }
    }
}

/// One queue of an interface, as far as our flows come by it.
pub struct Xdp {
    /// Unmapped before the socket is closed.
    memory: Memory,
    /// How many it has to receive into.
    frames: u32,
    /// A packet may lie in several.
    in_pieces: bool,
    queue: u32,
    fd: OwnedFd,
    steering: Arc<Steering>,
    capabilities: Capabilities,
    /// The driver hands over packets of this host before their checksum is made.
    is_unfinished: bool,
    /// `None` where another queue of the interface listens for all.
    watch: Option<Watch>,
    waker: Waker,
}

/// `INTERFACE` or `INTERFACE/QUEUE`: the interface's name, and this of its queues alone.
///
/// # Errors
/// What is no number of a queue.
pub fn name_and_queue(text: &str) -> Result<(&str, Option<u32>), String> {
    let Some((name, queue)) = text.split_once('/') else { return Ok((text, None)) };
    let number = queue.parse().map_err(|_| format!("{queue:?} is not the number of a queue"))?;
    Ok((name, Some(number)))
}

/// Opens the queue that is asked for, or all that the interface has, as one.
///
/// # Errors
/// As [`Xdp::open`].
pub fn open(config: &Config, queue: Option<u32>) -> io::Result<Box<dyn Interface>> {
    if let Some(queue) = queue {
        return Ok(Box::new(Xdp::open(&Config { queue, ..config.clone() })?));
    }
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(match ethtool::queues(any.as_fd(), &config.name).unwrap_or(1) {
        0 | 1 => Box::new(Xdp::open(config)?),
        count => Box::new(Queues::new(open_queues(config, count)?)?),
    })
}

/// All the queues of one interface from 0 to below `count`, under one program.
///
/// # Errors
/// As [`Xdp::open`].
pub fn open_queues(config: &Config, count: u32) -> io::Result<Vec<Xdp>> {
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let index = rustix::net::netdevice::name_to_index(&any, &config.name)
        .map_err(|e| explain(e.into(), config))?;
    if count > MAX_QUEUES {
        let what = format!("{count} queues, and at most {MAX_QUEUES} can be taken");
        return Err(explain(io::Error::new(io::ErrorKind::Unsupported, what), config));
    }
    let steering =
        Steering::attach(index, &config.flows, config.generic).map_err(|e| explain(e, config))?;
    let steering = Arc::new(steering);
    let frames = (1 << (FRAMES_OF_ALL / count.max(1)).ilog2()).clamp(LEAST_FRAMES, FRAMES);
    (0..count)
        .map(|queue| {
            let config = Config { queue, ..config.clone() };
            Xdp::with(&config, index, steering.clone(), frames).map_err(|e| explain(e, &config))
        })
        .collect()
}

impl Drop for Xdp {
    fn drop(&mut self) {
        self.steering.release(self.queue);
    }
}

impl Xdp {
    /// Takes its flows from one queue of the interface. Where another process has other queues, its program is
    /// used, which takes CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// `PermissionDenied`, with what is missing; `ResourceBusy`, when another program is on the interface or
    /// another process has the queue; `Unsupported`, when its packets do not fit into frames; what the
    /// kernel says.
    pub fn open(config: &Config) -> io::Result<Xdp> {
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let index = rustix::net::netdevice::name_to_index(&any, &config.name)
            .map_err(|e| explain(e.into(), config))?;
        let steering = Steering::attach(index, &config.flows, config.generic);
        let steering = Arc::new(steering.map_err(|e| explain(e, config))?);
        Xdp::with(config, index, steering, FRAMES).map_err(|e| explain(e, config))
    }

    fn with(config: &Config, index: u32, steering: Arc<Steering>, frames: u32) -> io::Result<Xdp> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let Some(mac) = ifreq::mac(any.as_fd(), &config.name)? else {
            let what = format!("{} is no Ethernet interface", config.name);
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        };
        let mtu = ifreq::mtu(any.as_fd(), &config.name)?;
        let driver = ethtool::driver(any.as_fd(), &config.name).unwrap_or_default();
        if mtu > MOST_MTU {
            return Err(too_large(&config.name, mtu, MOST_MTU));
        }
        let frame_bytes = if mtu <= SMALL_MTU { 2048 } else { 4096 };
        let memory = Memory::new(fd.as_fd(), frames, frame_bytes)?;
        let mut notes = vec![format!("AF_XDP on {} queue {}", config.name, config.queue)];
        let Bound { is_zero_copy, in_pieces } =
            bind(&fd, index, config, steering.is_native, mtu > SINGLE_MTU).map_err(
                |e| match e {
                    Errno::INVAL | Errno::OPNOTSUPP if mtu > SINGLE_MTU => {
                        too_large(&config.name, mtu, OLD_MOST_MTU)
                    }
                    e => e.into(),
                },
            )?;
        notes.push(match (steering.is_native, config.generic) {
            (true, _) => format!("program in the driver {driver}"),
            (false, true) => "program where the stack begins (generic), as asked for".into(),
            (false, false) => format!(
                "program where the stack begins (generic): the driver {driver} runs none itself"
            ),
        });
        notes.push(match (is_zero_copy, config.copy, steering.is_native) {
            (true, ..) => "the card fills our frames (zero-copy)".into(),
            (_, true, _) => "frames are copied, as asked for".into(),
            (_, _, true) => format!("frames are copied: the driver {driver} has no zero-copy here"),
            (_, _, false) => "frames are copied: zero-copy needs the program in the driver".into(),
        });
        if steering.is_joined {
            notes.push("under the program that another process hung there".into());
        }
        if let Some(us) = config.busy_poll_us {
            notes.push(busy_poll(fd.as_fd(), us));
        }
        notes.push(match in_pieces {
            true => "no segmentation; a packet that is longer than a frame comes in several".into(),
            false => format!("no segmentation: every packet is one frame of {frame_bytes} bytes"),
        });
        let is_unfinished = matches!(driver.as_str(), "veth" | "virtio_net" | "tun" | "bridge");
        if is_unfinished {
            notes.push(format!("{driver} hands over packets of this host with partial checksums"));
        }
        if !steering.is_native && is_unfinished {
            notes.push(format!(
                "{driver} with a generic program also hands over super-frames of this host, without saying \
                 so: switch them off at its other end (ethtool -K NAME tso off gso off)"
            ));
        }
        let capabilities = Capabilities {
            name: "xdp",
            link: Link::Ethernet,
            mac: Some(mac),
            mtu,
            checksum: false,
            tcp_segmentation: false,
            udp_segmentation: false,
            receive_offload: false,
            max_packet_bytes: 14 + mtu,
            notes,
        };
        let (watch, waker) = (Some(Watch::new(index)?), Waker::new()?);
        let xdp = Xdp {
            memory,
            frames,
            in_pieces,
            queue: config.queue,
            fd,
            steering,
            capabilities,
            is_unfinished,
            watch,
            waker,
        };
        // Last: what is entered here, its end releases.
        xdp.steering.socket(config.queue, xdp.fd.as_raw_fd())?;
        Ok(xdp)
    }

    /// Another queue of the interface, which waits for both, hears of its changes.
    pub(super) fn stop_watching(&mut self) {
        self.watch = None;
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What went wrong with the socket by itself, as when the link is deleted.
    pub(super) fn check(&self) -> io::Result<()> {
        Ok(options::socket_error(&self.fd)??)
    }

    /// As [`Interface::wait`], for another descriptor, which is ready when the socket is.
    pub(super) fn wait_on(
        &mut self,
        fd: BorrowedFd<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<bool> {
        let watch = self.watch.as_mut().ok_or_else(unwatched)?;
        let ready = watch.wait(fd, &self.waker, timeout, false)?;
        self.check()?;
        Ok(ready)
    }

    /// Calls the kernel until it has taken what is to be sent, or cannot for now.
    fn push_out(&mut self) -> io::Result<()> {
        // It takes 32 packets a call where it copies.
        for _ in 0..=self.frames / 32 {
            match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {}
                Err(e) => return Err(e.into()),
            }
            if self.memory.is_drained() {
                break;
            }
        }
        Ok(())
    }
}

fn unwatched() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the queue is waited for with the others")
}

fn too_large(name: &str, mtu: usize, most: usize) -> io::Error {
    let what = format!(
        "its MTU is {mtu}, and at most {most} fits into frames{}: ip link set {name} mtu {most}, or take AF_PACKET, \
         which carries any (packet:{name})",
        if most == OLD_MOST_MTU { ", before Linux 6.6 or with this driver" } else { "" }
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// How a socket was joined to its queue.
struct Bound {
    /// The card fills frames itself.
    is_zero_copy: bool,
    /// A packet may lie in several frames.
    in_pieces: bool,
}

/// Joins the socket to its queue. `only_in_pieces`, where no frame holds a whole packet.
fn bind(
    fd: &OwnedFd,
    index: u32,
    config: &Config,
    is_native: bool,
    only_in_pieces: bool,
) -> Result<Bound, Errno> {
    /// `XDP_USE_SG`.
    const IN_PIECES: SocketAddrXdpFlags = SocketAddrXdpFlags::from_bits_retain(1 << 4);
    let wakeup = if config.need_wakeup {
        SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
    } else {
        SocketAddrXdpFlags::empty()
    };
    let mut refused = Errno::INVAL;
    for zero_copy in [true, false] {
        if zero_copy && (config.copy || !is_native) {
            continue;
        }
        let mode = match zero_copy {
            true => SocketAddrXdpFlags::XDP_ZEROCOPY,
            false => SocketAddrXdpFlags::XDP_COPY,
        };
        for in_pieces in [true, false] {
            if only_in_pieces && !in_pieces {
                continue;
            }
            let pieces = if in_pieces { IN_PIECES } else { SocketAddrXdpFlags::empty() };
            match join(fd, index, config.queue, mode | wakeup | pieces) {
                Ok(()) if zero_copy => {
                    let got = options::xdp_options(fd)?;
                    let is_zero_copy = got.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
                    return Ok(Bound { is_zero_copy, in_pieces });
                }
                Ok(()) => return Ok(Bound { is_zero_copy: false, in_pieces }),
                Err(Errno::BUSY) => return Err(Errno::BUSY),
                Err(e) => refused = e,
            }
        }
    }
    Err(refused)
}

/// The kernel takes a queue from a socket that was closed some time later: who comes next waits for it.
fn join(fd: &OwnedFd, index: u32, queue: u32, flags: SocketAddrXdpFlags) -> Result<(), Errno> {
    let end = Instant::now() + QUEUE_WAIT;
    loop {
        match rustix::net::bind(fd, &SocketAddrXdp::new(flags, index, queue)) {
            Err(Errno::BUSY) if Instant::now() < end => std::thread::sleep(QUEUE_WAIT / 50),
            other => return other,
        }
    }
}

/// Asks for busy polling, and says what came of it.
fn busy_poll(fd: BorrowedFd<'_>, us: u32) -> String {
    /// `SO_BUSY_POLL`, `SO_PREFER_BUSY_POLL`.
    const BUSY_POLL: [i32; 2] = [46, 69];
    let us = i32::try_from(us).unwrap_or(i32::MAX);
    let all = [(BUSY_POLL[1], 1), (BUSY_POLL[0], us)];
    match all.iter().try_for_each(|(name, v)| sockopt::set(fd, libc::SOL_SOCKET, *name, *v)) {
        Ok(()) => format!("busy polling for {us} µs a call"),
        Err(e) => format!("no busy polling: {e}"),
    }
}

fn explain(error: io::Error, config: &Config) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it takes CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF \
             (setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM, or run as root)"
        }
        io::ErrorKind::ResourceBusy => {
            "; another XDP program is on the interface, or another process has the queue: use another queue \
             (xdp:INTERFACE/QUEUE), or AF_PACKET"
        }
        io::ErrorKind::InvalidInput => "; the interface may have no such queue",
        _ if error.raw_os_error() == Some(libc::ENOBUFS) => {
            "; raise the limit of locked memory (ulimit -l)"
        }
        _ => "",
    };
    let what = format!("AF_XDP on {} queue {}: {error}{advice}", config.name, config.queue);
    io::Error::new(error.kind(), what)
}

impl Interface for Xdp {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.memory.reclaim();
        let mut sent = 0;
        for packet in packets {
            let len = match packet.admit(&self.capabilities) {
                Ok(len) => len,
                Err(e) if sent == 0 => return Err(e),
                // It comes again when the rest is sent.
                Err(_) => break,
            };
            let payload = packet.payload.iter().map(|piece| &**piece);
            let took = self.memory.send(len, std::iter::once(packet.header).chain(payload));
            if !took {
                break;
            }
            sent += 1;
        }
        if self.memory.publish() && (sent > 0 || !self.memory.is_drained()) {
            self.push_out()?;
        }
        Ok(sent)
    }

    fn receive(&mut self) -> io::Result<usize> {
        let count = self.memory.receive(BATCH_PACKETS);
        if self.memory.receive_wants_call() {
            match rustix::net::recv(&self.fd, &mut [0u8; 0], RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) => {}
                Err(e) if count == 0 => return Err(e.into()),
                Err(_) => {}
            }
        }
        Ok(count)
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        let bytes = self.memory.packet(index);
        let checksum = match self.is_unfinished {
            true => unfinished::checksum(bytes),
            false => Checksum::InPlace,
        };
        RxPacket { bytes, checksum, segmentation: Segmentation::None }
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let watch = self.watch.as_mut().ok_or_else(unwatched)?;
        let ready = watch.wait(self.fd.as_fd(), &self.waker, timeout, want_write)?;
        self.check()?;
        Ok(ready)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn index(&self) -> Option<u32> {
        self.watch.as_ref().map(Watch::index)
    }

    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        self.steering.set(flows)
    }

    fn poll_change(&mut self) -> Option<Change> {
        let change = self.watch.as_mut()?.poll()?;
        if let Change::Mtu(mtu) = change {
            self.capabilities.mtu = mtu;
            self.capabilities.max_packet_bytes = (14 + mtu).min(self.memory.room(self.in_pieces));
        }
        Some(change)
    }

    fn queue_packets(&self) -> usize {
        self.frames as usize
    }

    fn dropped(&self) -> u64 {
        let Ok(stats) = options::xdp_statistics(&self.fd) else { return 0 };
        let full = stats.rx_ring_full.unwrap_or(0);
        stats.rx_dropped + full + stats.rx_fill_ring_empty_descs.unwrap_or(0)
    }
}
