//! AF_PACKET: an interface of the host's, shared with the kernel. Received packets lie in a ring of memory
//! that the kernel fills, with a virtio header before each; those that are sent are gathered by `sendmmsg`.
//!
//! Super-frames wait beside the ring, where the kernel has them (`PACKET_COPY_THRESH`), and are read by a call each to where they
//! belong: one copy in place of two, and a ring whose slots are as long as a packet of the wire has room for thirty times as many.
//!
//! A filter in the kernel lets only our flows come, and these are copies. Of the originals the kernel's stack sees what
//! others may want, too, and where the rights or the kernel do not suffice all of them (`super::withhold`): it
//! answers for a port that nobody holds (see [`super::reserved_port`]). Each process on the interface has a socket of its own
//! with a filter of its own; several queues of one process split its flows by hash (`PACKET_FANOUT`).

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::flows::{self, Flows};
use super::host::Watch;
use super::intake::{self, Receiver};
use super::relay::Sender;
use super::vnet;
use super::withhold::Withheld;
use super::{Capabilities, Change, Interface, Link, RxPacket, Split, TxPacket};
use crate::Waker;
use crate::kernel::Version;
use crate::sys::gather::{Gather, MAX_PACKETS, MAX_PIECES};
use crate::sys::packet::{self as sys, Ring, Shape};
use crate::sys::{ifreq, sockopt};
use inward::{Inward, Receiving};

mod inward;

/// Memory in which the kernel may keep super-frames beside the ring.
const BESIDE_BYTES: usize = 16 << 20;
/// The part of the ring that is left then: it has room for many times as many packets, and stays in the cache.
const BESIDE_PART: usize = 4;
/// Slots of a ring beside which they wait are at most this long.
const SLOT_MAX: usize = 16 << 10;
/// How the interface is used.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: String,
    /// What of it is ours.
    pub flows: Flows,
    /// An Ethernet address of our own, unless we use the interface's.
    pub mac: Option<[u8; 6]>,
    /// Bytes of the receive ring. Where super-frames wait beside it, which a note says, a quarter of that, and up to 16 MiB
    /// and a super-frame of the kernel's memory beside it.
    pub ring_bytes: usize,
    /// Packets are seen in blocks, up to a millisecond late and close together (`TPACKET_V3`), and not one
    /// by one as they come (`TPACKET_V2`).
    pub blocks: bool,
    /// What is sent does not wait in the interface's queue; when the hardware is full it is dropped.
    pub bypass_queue: bool,
    /// The kernel merges packets before they come and cuts them after they went, with their checksums. Without, each is at
    /// most as long as the MTU, sent and received with less ado, and many more fit into the ring: for flows of which the
    /// kernel makes no super-frames.
    pub super_frames: bool,
    /// Number of a group of queues, of this process or several, among which flows are split by hash.
    pub fanout: Option<u16>,
}

impl Config {
    /// Everything on the interface of this name.
    pub fn new(name: &str) -> Config {
        Config {
            name: name.into(),
            flows: Flows::everything(),
            mac: None,
            ring_bytes: 16 << 20,
            blocks: false,
            bypass_queue: false,
            super_frames: true,
            fanout: None,
        }
    }
}

/// One queue of an interface that the kernel uses too.
pub struct Packet {
    /// What it receives by, unless another thread has that; unmapped before the socket is closed.
    inward: Option<Inward>,
    fd: OwnedFd,
    /// The longest frame that a slot takes whole, and how many slots there are.
    slot_room: usize,
    slots: usize,
    gather: Gather,
    capabilities: Capabilities,
    /// Keeps what is ours from the kernel's stack, where it may.
    withheld: Option<Withheld>,
    dropped: Cell<u64>,
    watch: Watch,
    waker: Waker,
}

impl Packet {
    /// Takes its flows from the interface.
    ///
    /// # Errors
    /// `PermissionDenied`, with what is missing; what the kernel says.
    pub fn open(config: &Config) -> io::Result<Packet> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Of protocol 0: nothing comes before the filter is there.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
            .map_err(|e| explain(e.into(), &config.name))?;
        let fail = |e: io::Error| explain(e, &config.name);
        let index =
            rustix::net::netdevice::name_to_index(&fd, &config.name).map_err(|e| fail(e.into()))?;
        let Some(own) = ifreq::mac(fd.as_fd(), &config.name)? else {
            let what = format!("{} is no Ethernet interface", config.name);
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        };
        let mtu = ifreq::mtu(fd.as_fd(), &config.name)?;
        steer(fd.as_fd(), &config.flows)?;
        let vnet = config.super_frames;
        sockopt::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, i32::from(vnet))?;
        let mut notes = vec![match vnet {
            true => format!("AF_PACKET on {}, virtio header both ways", config.name),
            false => format!("AF_PACKET on {}, a packet a frame, no super-frames", config.name),
        }];
        if sockopt::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1).is_err() {
            notes.push("what this host sends comes too: Linux 4.20 could leave it out".into());
        }
        if config.bypass_queue {
            sockopt::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
            notes.push("sent packets bypass the interface's queue".into());
        }
        let version = if config.blocks { sys::Version::Blocks } else { sys::Version::Slots };
        let max_packet_bytes = ETHERNET_BYTES + if vnet { 65_535 } else { mtu };
        let wants_beside = vnet && !config.blocks;
        let beside = wants_beside && sockopt::reserve_to_receive(fd.as_fd(), BESIDE_BYTES);
        let longest = match beside {
            true => max_packet_bytes.min((ETHERNET_BYTES + mtu).min(SLOT_MAX)),
            false => max_packet_bytes,
        };
        let (bytes, packet_bytes) = (config.ring_bytes, longest.max(LEAST_ROOM));
        let bytes = if beside { bytes / BESIDE_PART } else { bytes };
        let ring = Ring::new(fd.as_fd(), Shape { version, bytes, packet_bytes, beside, vnet })?;
        if beside {
            notes.push(
                "super-frames wait beside the ring, and are read to where they belong".into(),
            );
        } else if wants_beside {
            notes
                .push("super-frames are copied to the ring: CAP_NET_ADMIN would spare that".into());
        }
        notes.push(match version {
            sys::Version::Slots => "ring of slots (TPACKET_V2): each packet is seen at once".into(),
            sys::Version::Blocks => {
                "ring of blocks (TPACKET_V3): packets are seen up to a millisecond late".into()
            }
        });
        sys::bind(fd.as_fd(), index).map_err(fail)?;
        if let Some(mac) = config.mac.filter(|mac| *mac != own) {
            sys::listen_to(fd.as_fd(), index, Some(mac))?;
        }
        if config.flows.groups || config.flows.everything {
            sys::listen_to(fd.as_fd(), index, None)?;
        }
        if let Some(group) = config.fanout {
            // By hash, the group's number in the low half.
            sockopt::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, i32::from(group))?;
            notes.push(format!("shares its flows by hash with fanout group {group}"));
        }
        let withheld = withhold(index, &config.flows, &mut notes);
        let runs_recent = Version::running().is_none_or(|v| v >= UDP_SEGMENTATION);
        if !runs_recent && vnet {
            notes.push(format!("UDP super-frames need Linux {UDP_SEGMENTATION}"));
        }
        let capabilities = Capabilities {
            name: "packet",
            link: Link::Ethernet,
            mac: Some(config.mac.unwrap_or(own)),
            mtu,
            checksum: vnet,
            tcp_segmentation: vnet,
            udp_segmentation: vnet && runs_recent,
            receive_offload: vnet,
            max_packet_bytes,
            notes,
        };
        Ok(Packet {
            slot_room: ring.room(),
            slots: ring.count(),
            inward: Some(Inward::new(ring, beside)),
            fd,
            gather: Gather::default(),
            capabilities,
            withheld,
            dropped: Cell::new(0),
            watch: Watch::new(index)?,
            waker: Waker::new()?,
        })
    }
}

/// Sends packets in order; how many were taken.
fn transmit(
    fd: BorrowedFd<'_>,
    gather: &mut Gather,
    capabilities: &Capabilities,
    packets: &[TxPacket<'_>],
) -> io::Result<usize> {
    let mut sent = 0;
    while sent < packets.len() {
        match send(fd, gather, capabilities, &packets[sent..]) {
            Ok(count) => sent += count,
            Err(e) if is_full(&e) => break,
            Err(e) if sent == 0 => return Err(e),
            // It comes again when the rest is sent.
            Err(_) => break,
        }
    }
    Ok(sent)
}

/// As many packets as one call carries.
fn send(
    fd: BorrowedFd<'_>,
    gather: &mut Gather,
    capabilities: &Capabilities,
    packets: &[TxPacket<'_>],
) -> io::Result<usize> {
    let mut taken = packets.len().min(MAX_PACKETS);
    let has_vnet = capabilities.checksum;
    for (i, packet) in packets[..taken].iter().enumerate() {
        let sound = packet.admit(capabilities).and_then(|_| {
            let fits =
                packet.payload.len() <= MAX_PIECES && vnet::emit(packet, Link::Ethernet).is_some();
            if fits { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
        });
        match sound {
            Ok(()) => {}
            Err(e) if i == 0 => return Err(e),
            // Those before it go first.
            Err(_) => {
                taken = i;
                break;
            }
        }
    }
    let pieces = packets[..taken].iter().map(|packet| {
        let header = || vnet::emit(packet, Link::Ethernet).unwrap_or_default();
        (has_vnet.then(header), packet.header, packet.payload)
    });
    gather.send(fd, pieces)
}

/// What another thread sends by.
struct Sending {
    fd: OwnedFd,
    gather: Gather,
    capabilities: Capabilities,
}

impl Sender for Sending {
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        transmit(self.fd.as_fd(), &mut self.gather, &self.capabilities, packets)
    }
}

/// A frame beyond its packet.
const ETHERNET_BYTES: usize = 14;
/// The least room of a slot, so that the MTU may grow somewhat.
const LEAST_ROOM: usize = 1900;
/// The virtio header of packet sockets knows UDP super-frames from this version on.
const UDP_SEGMENTATION: Version = Version { major: 6, minor: 2 };

/// Keeps flows from the kernel's stack, if that may be, and notes whether it does.
fn withhold(index: u32, flows: &Flows, notes: &mut Vec<String>) -> Option<Withheld> {
    if flows.everything {
        return None;
    }
    match Withheld::attach(index) {
        Ok(mut withheld) => {
            withheld.keep(flows);
            notes.push("what is ours ends here: the kernel's stack does not handle it, too".into());
            Some(withheld)
        }
        Err(e) => {
            let wants = "it takes Linux 6.6, CAP_BPF and CAP_NET_ADMIN to end that";
            notes.push(format!("the kernel's stack handles what is ours, too ({e}): {wants}"));
            None
        }
    }
}

fn steer(fd: BorrowedFd<'_>, wanted: &Flows) -> io::Result<()> {
    match flows::assemble(wanted) {
        Some(program) if program.len() <= flows::MAX_INSTRUCTIONS => {
            sys::attach_filter(fd, &program)
        }
        Some(program) => {
            let what = format!(
                "{} ports make a filter of {} instructions, and the kernel takes {}",
                wanted.ports.len(),
                program.len(),
                flows::MAX_INSTRUCTIONS
            );
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
        None => match sys::detach_filter(fd) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        },
    }
}

fn explain(error: io::Error, name: &str) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it takes CAP_NET_RAW (setcap cap_net_raw+ep PROGRAM, or run as root)"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("AF_PACKET on {name}: {error}{advice}"))
}

impl Interface for Packet {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        transmit(self.fd.as_fd(), &mut self.gather, &self.capabilities, packets)
    }

    fn sender(&self) -> io::Result<Box<dyn Sender>> {
        Ok(Box::new(Sending {
            fd: self.fd.try_clone()?,
            gather: Gather::default(),
            capabilities: self.capabilities.clone(),
        }))
    }

    fn receiver(&mut self) -> io::Result<Box<dyn Receiver>> {
        let fd = self.fd.try_clone()?;
        let inward = self.inward.take().ok_or_else(intake::taken)?;
        // Who receives from now on counts what it finds.
        self.dropped.set(self.dropped.get() + inward.lost());
        Ok(Box::new(Receiving::new(inward, fd)))
    }

    fn receive(&mut self) -> io::Result<usize> {
        self.inward.as_mut().map_or(Ok(0), |inward| inward.receive(self.fd.as_fd()))
    }

    fn packet(&self, index: usize) -> RxPacket<'_> {
        self.inward.as_ref().expect("one that was received").packet(index)
    }

    fn peek(&mut self) -> Option<(RxPacket<'_>, usize)> {
        self.inward.as_mut()?.peek()
    }

    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        match &mut self.inward {
            Some(inward) => inward.receive_split(self.fd.as_fd(), head_len, memory),
            None => Ok(Split::Unsupported),
        }
    }

    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        if let Some(inward) = &mut self.inward {
            inward.rejoin(memory);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let ready = self.watch.wait(self.fd.as_fd(), &self.waker, timeout, want_write)?;
        if let Some(error) = self.inward.as_mut().and_then(|inward| inward.failed.take()) {
            return Err(error);
        }
        // What ended the sleep may be that the interface is gone.
        match rustix::net::sockopt::socket_error(&self.fd)? {
            Ok(()) => Ok(ready),
            Err(e) => Err(e.into()),
        }
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

    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        let Packet { fd, withheld, .. } = self;
        // At no time has nobody a packet.
        if let Some(withheld) = withheld {
            withheld.release(flows);
        }
        steer(fd.as_fd(), flows)?;
        if let Some(withheld) = withheld {
            withheld.keep(flows);
        }
        Ok(())
    }

    fn poll_change(&mut self) -> Option<Change> {
        let change = self.watch.poll()?;
        if let Change::Mtu(mtu) = change {
            // What is longer than its slot is cut.
            let room = if self.capabilities.checksum { usize::MAX } else { self.slot_room };
            self.capabilities.mtu = mtu.min(room - ETHERNET_BYTES);
            if !self.capabilities.checksum {
                self.capabilities.max_packet_bytes = self.capabilities.mtu + ETHERNET_BYTES;
            }
        }
        Some(change)
    }

    fn queue_packets(&self) -> usize {
        self.slots
    }

    fn dropped(&self) -> u64 {
        self.dropped.set(self.dropped.get() + sys::dropped(self.fd.as_fd()));
        self.dropped.get() + self.inward.as_ref().map_or(0, Inward::lost)
    }
}

/// Full, and not broken: to be tried again.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use fusewire_testkit::namespace::{Need, in_namespace};
    use rustix::io::Errno;

    use super::*;

    const SETUP: &str = "ip link add fwa type veth peer name fwb address 02:00:00:00:00:02
ip addr add 10.78.0.1/24 dev fwa && ip link set fwa up && ip link set fwb up
ip neigh add 10.78.0.2 lladdr 02:00:00:00:00:02 dev fwa
for i in $(seq 500); do ip link show fwa | grep -q 'state UP' && break; sleep 0.01; done";

    fn inward(packet: &mut Packet) -> &mut Inward {
        packet.inward.as_mut().unwrap()
    }

    /// The payloads for port 7000 that come next.
    fn next(packet: &mut Packet) -> Vec<Vec<u8>> {
        let payload = |bytes: &[u8]| (bytes.get(36..38)? == [27, 88]).then(|| bytes[42..].to_vec());
        for _ in 0..500 {
            let count = packet.receive().unwrap();
            let came: Vec<_> = (0..count).filter_map(|i| payload(packet.packet(i).bytes)).collect();
            if !came.is_empty() {
                return came;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing came in time");
    }

    #[test]
    fn what_could_not_be_read_is_not_taken_for_what_comes_later() {
        let name =
            "interface::packet::tests::what_could_not_be_read_is_not_taken_for_what_comes_later";
        in_namespace(name, Need::Namespace, SETUP, || {
            let mut packet = Packet::open(&Config::new("fwb")).unwrap();
            if !inward(&mut packet).has_beside() || !packet.capabilities.udp_segmentation {
                return eprintln!("skipped: {:?}", packet.capabilities.notes);
            }
            let socket = UdpSocket::bind("10.78.0.1:7001").unwrap();
            crate::kernel_udp::segment_sends(&socket, 1000).unwrap();
            let send = |byte| socket.send_to(&[byte; 20_000], "10.78.0.2:7000").unwrap();
            send(1);
            assert_eq!(next(&mut packet), [[1; 20_000]]);
            // As if the socket had failed twice: its slot goes by.
            send(2);
            while !inward(&mut packet).pass_beside() {
                std::thread::sleep(Duration::from_millis(10));
            }
            inward(&mut packet).is_behind = true;
            // The next slot would have it.
            assert_eq!(packet.receive().unwrap(), 0);
            assert!(!inward(&mut packet).is_behind);
            send(3);
            assert_eq!(next(&mut packet), [[3; 20_000]]);
            // Who does not sleep by it hears of the error, too, once.
            inward(&mut packet).failed = Some(Errno::NETDOWN.into());
            assert_eq!(packet.receive().unwrap_err().kind(), io::ErrorKind::NetworkDown);
            assert_eq!(packet.receive().unwrap(), 0);
        });
    }

    #[test]
    fn what_was_looked_at_and_not_taken_goes_by_itself() {
        let name = "interface::packet::tests::what_was_looked_at_and_not_taken_goes_by_itself";
        in_namespace(name, Need::Namespace, SETUP, || {
            let mut packet = Packet::open(&Config::new("fwb")).unwrap();
            if !inward(&mut packet).has_beside() || !packet.capabilities.udp_segmentation {
                return eprintln!("skipped: {:?}", packet.capabilities.notes);
            }
            let socket = UdpSocket::bind("10.78.0.1:7001").unwrap();
            crate::kernel_udp::segment_sends(&socket, 1000).unwrap();
            for byte in 1..=4 {
                socket.send_to(&[byte; 20_000], "10.78.0.2:7000").unwrap();
            }
            let mut came = Vec::new();
            for _ in 0..500 {
                let next = packet.peek().map(|(front, _)| front.bytes[42]);
                let count = packet.receive().unwrap();
                let payload = |i| packet.packet(i).bytes.get(42..).unwrap_or_default().to_vec();
                let long: Vec<_> = (0..count).map(payload).filter(|p| p.len() > 9000).collect();
                let is_alone = |next: u8| long.len() == 1 && long[0][0] == next;
                assert!(next.is_none_or(is_alone), "{} with it", long.len());
                came.extend(long.iter().map(|payload| payload[0]));
                if came.len() == 4 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(came, [1, 2, 3, 4]);
        });
    }
}
