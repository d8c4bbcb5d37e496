//! Transports of ours straight on a network interface: a [`Device`] whose datagrams are those of one UDP socket
//! of our own IP stack ([`ip::Stack`]; `docs/encapsulation.md`), so that the peer may be one too, or an ordinary UDP
//! socket; or whose frames are the payload of IP itself, as XTP's are that has a protocol number there (`docs/xtp.md`,
//! section 14).
//!
//! The UDP checksum costs no pass over the bytes, in neither direction: a TPDU carries the checksum of its own bytes, so
//! their sum is known from its length alone ([`tpdu_sum`]). A TPDU that is damaged has another, and is dropped with its
//! datagram. (Of XTP's packets those say nothing of their bytes that prove themselves otherwise, by NOCHECK: they are
//! summed where the interface does not.) Without UDP there is nothing to sum. What is left besides the pass of the stack
//! is one copy each way: out of the send ring into the interface's memory, and from there into the batch.

mod open;
mod shared;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::{Capabilities, Device, Ecn, Event, RxBatch, SuperPacket, TxFrame, Waker};
use fusewire_kernels::Level;
use fusewire_wire::{ipv4, ipv6, udp, xtp};

use crate::clock::Clock;
use crate::ip::{self, Incoming, Messages, SocketId, Taken, Taker};

pub use open::{Carrier, Kind, Name, Own, Settings, connect, listen, stack};
pub use shared::Shared;

/// Batches of the interface's that one call takes, where they come packet by packet.
const ROUNDS: usize = 4;
/// The most payload that may wait in an interface, whatever it says.
const RECEIVE_BYTES_MAX: usize = 4 << 20;

/// The sum of a TPDU of TCP whose checksum is right: what is missing to zero from its pseudo-header's.
const fn tpdu_sum(len: usize) -> Sum {
    Sum::from_folded(!pseudo_header_sum(fusewire_wire::tcp::NUMBER, len).folded())
}

/// The same of a packet of XTP whose check covers all of it.
const PACKET_SUM: Sum = Sum::from_folded(0xffff);
/// Where TCP's data offset lies, which is 5 words or more, and in XTP's header the first byte of dlen, which is 0 in any
/// datagram (`docs/xtp.md`, section 14).
const TELLS: usize = 12;
/// The least of TCP.
const TCP_LEAST: u8 = 5 << 4;

/// The sum of a TPDU's bytes, if its own checksum is right, from what its header says; only where that says nothing of
/// them they are summed.
fn sum_of(level: Level, head: &[u8], rest: &[u8]) -> Sum {
    let len = head.len() + rest.len();
    if head.get(TELLS).is_none_or(|byte| *byte >= TCP_LEAST) {
        return tpdu_sum(len);
    }
    let options = head[8..12].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    if options & xtp::Options::NOCHECK.bits() == 0 {
        return PACKET_SUM;
    }
    let (front, back) = (fusewire_kernels::sum(level, head), fusewire_kernels::sum(level, rest));
    front.then(head.len(), back)
}

/// Datagrams of one UDP port, or all of XTP of one address, on an interface.
pub struct OnInterface {
    carrier: Carrier,
    stack: ip::Stack,
    socket: SocketId,
    local: SocketAddr,
    clock: Clock,
    caps: Capabilities,
    /// The interface's MTU that `caps` were made for.
    mtu: usize,
}

impl OnInterface {
    /// Datagrams to and from `local`, an address of a stack that has no other sockets; port 0 takes a free one. The
    /// stack's time is `clock`'s.
    ///
    /// [`listen`] and [`connect`] do all that comes before.
    ///
    /// # Errors
    /// As [`ip::Stack::udp_bind`].
    pub fn new(mut stack: ip::Stack, local: SocketAddr, clock: Clock) -> ip::Result<OnInterface> {
        let socket = stack.udp_bind(local)?;
        stack.udp_carry(socket)?;
        let local = stack.local_addr(socket)?;
        Ok(OnInterface::around(stack, socket, Carrier::Udp, local, clock))
    }

    /// All of XTP to and from an address of a stack that has no other sockets. The names of peers have port 0; that of
    /// `local` means nothing here: it is what its owner calls itself.
    ///
    /// # Errors
    /// As [`ip::Stack::xtp_bind`].
    pub fn over_ip(
        mut stack: ip::Stack,
        local: SocketAddr,
        clock: Clock,
    ) -> ip::Result<OnInterface> {
        let socket = stack.xtp_bind(local.ip())?;
        Ok(OnInterface::around(stack, socket, Carrier::Ip, local, clock))
    }

    fn around(
        stack: ip::Stack,
        socket: SocketId,
        carrier: Carrier,
        local: SocketAddr,
        clock: Clock,
    ) -> OnInterface {
        let (caps, mtu) = (describe(&stack, carrier, local), stack.capabilities().mtu);
        OnInterface { carrier, stack, socket, local, clock, caps, mtu }
    }

    /// Takes what is sent to a group, too: XTP on IP itself, for receivers of [`crate::group`].
    ///
    /// # Errors
    /// [`ip::Error::Misuse`] in UDP, and by XDP on an address of our own, where groups stay the kernel's; otherwise as
    /// [`ip::Stack::xtp_join`].
    pub fn join(&mut self, group: IpAddr) -> ip::Result<()> {
        if self.carrier == Carrier::Udp {
            return Err(ip::Error::Misuse(
                "groups in UDP are those of sockets: group::Receiver::open",
            ));
        }
        if self.stack.capabilities().name == "xdp" && !self.stack.is_coexisting() {
            return Err(ip::Error::Misuse(
                "by XDP a group is joined beside the kernel, on its address",
            ));
        }
        self.stack.xtp_join(self.clock.now(), self.socket, group)
    }

    /// The stack below, with what it counts.
    pub fn stack(&self) -> &ip::Stack {
        &self.stack
    }

    /// What is to be done between packets: changes of the interface, timers, the IP layer's own frames, and what waited
    /// for a neighbour.
    fn upkeep(&mut self, now: Instant) -> io::Result<()> {
        self.stack.poll_rest(now)?;
        let mtu = self.stack.capabilities().mtu;
        if mtu != self.mtu {
            (self.caps, self.mtu) = (describe(&self.stack, self.carrier, self.local), mtu);
        }
        Ok(())
    }

    /// What the IP layer has to say goes at once: questions for neighbours, answers.
    fn speak(&mut self, now: Instant) -> io::Result<()> {
        if self.stack.wants_transmit() {
            self.stack.transmit(now)?;
        }
        Ok(())
    }
}

/// What failed on the socket itself: its address is no longer ours.
fn failed(error: ip::Error) -> io::Error {
    match error {
        ip::Error::NotOurs(local) => {
            let what = format!("the kernel no longer has the address {}", local.ip());
            io::Error::new(io::ErrorKind::AddrNotAvailable, what)
        }
        error => error.into(),
    }
}

/// What a device says of what failed with one peer.
fn failure(ip::Failure { peer, error }: ip::Failure) -> Event {
    match error {
        ip::Error::TooLong { len, .. } => Event::TooBig { peer, len },
        ip::Error::Refused => Event::Unreachable { peer, is_closed: true },
        _ => Event::Unreachable { peer, is_closed: false },
    }
}

/// The capabilities of a device on a stack's interface as it is now.
fn describe(stack: &ip::Stack, carrier: Carrier, local: SocketAddr) -> Capabilities {
    let interface = stack.capabilities();
    let ip_header = if local.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
    let in_udp = carrier == Carrier::Udp;
    let header_len = ip_header + if in_udp { udp::HEADER_LEN } else { 0 };
    let max_datagram = interface.mtu.saturating_sub(header_len);
    let queued = stack.interface().queue_packets().saturating_mul(max_datagram);
    let mut notes = interface.notes.clone();
    if !in_udp {
        notes.push(format!("XTP as protocol {} of IP, without UDP", xtp::NUMBER));
    }
    let super_frame = if in_udp { stack.udp_super_frame_max(local.is_ipv6()) } else { 0 };
    Capabilities {
        name: interface.name,
        max_datagram,
        segmentation_offload: in_udp && interface.udp_segmentation && interface.checksum,
        receive_offload: in_udp && interface.receive_offload,
        max_batch_bytes: super_frame.max(max_datagram),
        is_whole_path: false,
        receive_buffer_bytes: queued.min(RECEIVE_BYTES_MAX),
        notes,
    }
}

/// Datagrams on their way into a batch.
struct Fill<'a> {
    batch: &'a mut RxBatch,
    /// One found no room, and waits in the socket.
    waits: bool,
}

impl Taker for Fill<'_> {
    /// Takes a datagram that is what was sent, as far as it can be known without a pass over it: the stack verifies each
    /// TPDU by its own checksum, and here the datagram's must be the one that an intact TPDU gives.
    fn take(&mut self, level: Level, incoming: &Incoming<'_>) -> Taken {
        let Messages { from: peer, traffic_class, bytes, message_len, .. } = incoming.messages;
        let is_one = message_len >= bytes.len();
        // Of several together nobody can say it.
        let is_right = |head: Sum| is_one && (head + sum_of(level, bytes, &[])).verifies();
        if bytes.is_empty() {
            return Taken::Verified;
        }
        if !incoming.head.is_none_or(is_right) {
            return Taken::Wrong;
        }
        let ecn = Ecn::from_tos(traffic_class);
        let has_room = if is_one {
            self.batch.push_frame(peer, ecn, bytes, true)
        } else {
            self.batch.push(SuperPacket { peer, segment_len: message_len, ecn, bytes })
        };
        self.waits |= !has_room;
        if has_room { Taken::Verified } else { Taken::NoRoom }
    }

    fn is_full_for(&self, len: usize) -> bool {
        self.waits || self.batch.is_full_for(len)
    }
}

impl Device for OnInterface {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn named(&self, mut peer: SocketAddr) -> SocketAddr {
        if self.carrier == Carrier::Ip {
            peer.set_port(0);
        }
        peer
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let now = self.clock.now();
        self.upkeep(now)?;
        let level = self.stack.config().level;
        let sum = |frame: &TxFrame<'_>| sum_of(level, frame.header, frame.payload);
        let sent = self.stack.udp_send_frames(now, self.socket, frames, sum)?;
        self.speak(now)?;
        sent.map_err(failed)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let now = self.clock.now();
        self.upkeep(now)?;
        batch.clear();
        let mut fill = Fill { batch, waits: false };
        for _ in 0..ROUNDS {
            let before = self.stack.counters().received;
            self.stack.udp_take(now, self.socket, &mut fill)?.map_err(failed)?;
            if self.stack.has_unread() || self.stack.counters().received == before {
                break;
            }
        }
        self.speak(now)?;
        Ok(batch.len())
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.stack.wait(self.clock.now(), timeout, want_write)
    }

    /// Neighbours are asked again, fragments forgotten: and what was read and not taken is there already.
    fn next_timeout(&self) -> Option<Duration> {
        if self.stack.has_unread() {
            return Some(Duration::ZERO);
        }
        self.stack.poll_timeout().map(|at| at.saturating_since(self.clock.now()))
    }

    fn waker(&self) -> Waker {
        self.stack.waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stack.as_fd()
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.stack.dropped().collect()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.stack.udp_poll_failure(self.socket).map(failure)
    }
}
