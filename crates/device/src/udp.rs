//! UDP encapsulation: the default device, without privileges. One TPDU is one datagram's payload.
//!
//! Many datagrams leave in one message with `UDP_SEGMENT` (Linux 4.18) and come in one buffer with
//! `UDP_GRO` (Linux 5.0); several messages go with one `sendmmsg` or `recvmmsg` (Linux 3.0, the
//! oldest this device runs on). Where the kernel refuses the offloads the device works without
//! them, more slowly, and says so in its [`Capabilities`].
//!
//! What pays, by `cargo run --release -p fusewire-device --example udp_rate`, with cores 88 ns apart:
//! frames that lie one after the other in memory, so that a run is one piece (4.45 GB/s at 1452 bytes;
//! a gap between frames costs 5 %, header and payload apart 7 %); runs filled up to 64 KiB; memory that
//! stays in the cache at both ends. How many slots a batch has, and how many runs go with one call, made
//! no difference there. How far apart the two cores are makes the largest: at 380 ns 1.7 GB/s are left.
//!
//! Frames of a [`Region`] leave without a copy (`sendfile`, Linux 6.5), each bulk peer by a connected
//! socket of its own. The kernel's copy would cost most where the cores are far apart: its pages were
//! last read by the receiver's core, and every line of them is fetched from there to be overwritten.
//!
//! ICMP errors are asked for (`IP_RECVERR`), so that a peer that refuses is noticed at once. As anyone
//! can forge them they are hints ([`Event::Unreachable`]) and end nothing.

mod flow;
mod group;
#[cfg(feature = "io-uring")]
mod uring;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::frame::Events;
use crate::kernel::Version;
use crate::sys::mmsg::{MAX_MESSAGES, MAX_SEGMENTS, Messages, Run};
use crate::sys::region::{Region, RegionFile};
use crate::sys::sockopt;
use crate::{Capabilities, Device, Event, RxBatch, TxFrame, Waker, wake};

use flow::{FileRun, Flows, Ready};

pub use flow::OLDEST_KERNEL as OLDEST_ZERO_COPY_KERNEL;
pub use group::{Group, Member, interface_index};
#[cfg(feature = "io-uring")]
pub use uring::Uring;

/// What to ask the kernel for.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of receive buffer to ask for; the kernel may give less.
    pub receive_buffer_bytes: usize,
    /// Bytes of send buffer to ask for; the kernel may give less.
    pub send_buffer_bytes: usize,
    /// Ask for `UDP_SEGMENT` and `UDP_GRO`.
    pub offload: bool,
    /// Let the kernel take frames of a [`Region`] without a copy, where it can (Linux 6.5).
    pub zero_copy: bool,
    /// The code point of differentiated services of what leaves (RFC 2474), below 64.
    pub dscp: u8,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 1 << 20,
            offload: true,
            zero_copy: true,
            dscp: 0,
        }
    }
}

/// Largest payload of a UDP datagram over IPv4 and IPv6.
const MAX_PAYLOAD_V4: usize = 65_535 - 20 - 8;
const MAX_PAYLOAD_V6: usize = 65_535 - 8;
/// `UDP_MAX_SEGMENTS` before Linux 6.9.
const OLD_MAX_SEGMENTS: usize = 64;
/// A shorter run is copied: taking its pages costs as much.
const MIN_FILE_RUN: usize = 8 << 10;
/// Errors taken from the socket's queue at a time.
const MAX_ERRORS: usize = 64;
/// The oldest kernel that has `sendmmsg` (`recvmmsg` came with 2.6.33).
pub const OLDEST_KERNEL: Version = Version { major: 3, minor: 0 };

/// Frames in UDP datagrams over one socket, to and from any peer.
pub struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
    v6_socket: bool,
    caps: Capabilities,
    max_segments: usize,
    outgoing: Messages,
    incoming: Messages,
    runs: Vec<Run>,
    events: Events,
    waker: Waker,
    flows: Flows,
    /// Where frames lie that the kernel can take without a copy.
    file: Option<RegionFile>,
    /// The flow that was full at the last try.
    blocked: Option<usize>,
}

impl Udp {
    /// Binds a socket and asks for what `config` wants.
    ///
    /// # Errors
    /// When the address cannot be bound or no descriptor is left, or there is no such code point. A refused offload is no
    /// error.
    pub fn bind(addr: SocketAddr, config: &Config) -> io::Result<Self> {
        OLDEST_KERNEL.require("the UDP device")?;
        Udp::of(UdpSocket::bind(addr)?, config)
    }

    /// The device of a socket that is bound.
    fn of(socket: UdpSocket, config: &Config) -> io::Result<Self> {
        if config.dscp > 63 {
            let why =
                format!("code points of differentiated services end with 63: {}", config.dscp);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let mut udp = Udp {
            v6_socket: local.is_ipv6(),
            local,
            caps: Capabilities {
                name: "udp",
                max_datagram: if local.is_ipv6() { MAX_PAYLOAD_V6 } else { MAX_PAYLOAD_V4 },
                // A datagram for an IPv4 peer can leave by an IPv6 socket too.
                max_batch_bytes: MAX_PAYLOAD_V4,
                ..Capabilities::default()
            },
            max_segments: MAX_SEGMENTS,
            outgoing: Messages::new(config.dscp),
            incoming: Messages::new(0),
            runs: Vec::with_capacity(MAX_MESSAGES),
            events: Events::default(),
            waker: Waker::new()?,
            flows: Flows::new(socket.as_fd(), config)?,
            file: None,
            blocked: None,
            socket,
        };
        udp.set_up(config)?;
        Ok(udp)
    }

    fn set_up(&mut self, config: &Config) -> io::Result<()> {
        let fd = self.socket.as_fd();
        let notes = &mut self.caps.notes;
        let receive = configure(fd, self.v6_socket, config)?;
        if receive < config.receive_buffer_bytes {
            notes.push(format!(
                "receive buffer {receive} of {} bytes: limited by net.core.rmem_max",
                config.receive_buffer_bytes
            ));
        }
        self.caps.receive_buffer_bytes = receive;
        if !config.offload {
            notes.push("segmentation and receive offload: not asked for".into());
            return Ok(());
        }
        match sockopt::set(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0) {
            Ok(()) => self.caps.segmentation_offload = true,
            Err(e) => notes.push(format!("no segmentation offload (UDP_SEGMENT, Linux 4.18): {e}")),
        }
        match sockopt::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1) {
            Ok(()) => self.caps.receive_offload = true,
            Err(e) => notes.push(format!("no receive offload (UDP_GRO, Linux 5.0): {e}")),
        }
        if !config.zero_copy || !self.caps.segmentation_offload {
            notes.push("frames are copied on sending: not asked for otherwise".into());
        } else if let Err(e) = flow::OLDEST_KERNEL.require("sending without a copy") {
            notes.push(format!("frames are copied on sending: {e}"));
        } else {
            match RegionFile::new() {
                Ok(file) => self.file = Some(file),
                Err(e) => notes.push(format!("frames are copied on sending: {e}")),
            }
        }
        Ok(())
    }

    /// The most frames and bytes in a run.
    fn limits(&self) -> Limits {
        let segments = if self.caps.segmentation_offload { self.max_segments } else { 1 };
        Limits { segments, bytes: self.caps.max_batch_bytes }
    }

    /// Empties a socket's error queue, a bounded number at a time; true when the network told
    /// something.
    ///
    /// What an earlier datagram met makes the next call fail, whatever its peer, and keeps `wait` from
    /// sleeping until it is taken.
    fn take_errors(&mut self, flow: Option<usize>) -> bool {
        let mut told = false;
        for _ in 0..MAX_ERRORS {
            let socket = flow.and_then(|at| self.flows.socket(at)).unwrap_or(self.socket.as_fd());
            let Ok(returned) = self.incoming.receive_error(socket) else { break };
            told |= returned.from_network;
            // Of the network's word for "too big" nothing is believed: the path is probed.
            if returned.from_network && returned.errno != libc::EMSGSIZE {
                let is_closed = returned.errno == libc::ECONNREFUSED;
                self.events.push(Event::Unreachable { peer: returned.peer, is_closed });
            }
        }
        told
    }

    /// What waits on one socket.
    fn receive_from(&mut self, flow: Option<usize>, batch: &mut RxBatch) -> io::Result<usize> {
        self.receive_by(flow, batch, |incoming, socket, batch| incoming.receive(socket, batch))
    }

    fn receive_by<T>(
        &mut self,
        flow: Option<usize>,
        batch: &mut RxBatch,
        mut receive: impl FnMut(&mut Messages, BorrowedFd<'_>, &mut RxBatch) -> io::Result<T>,
    ) -> io::Result<usize> {
        // Each error is an earlier datagram's and is taken by the call that fails with it.
        for _ in 0..MAX_ERRORS {
            let socket = flow.and_then(|at| self.flows.socket(at)).unwrap_or(self.socket.as_fd());
            match receive(&mut self.incoming, socket, batch) {
                Ok(_) => return Ok(batch.len()),
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(0),
                    Some(libc::EINTR) => {}
                    Some(errno) if is_remark(errno) => drop(self.take_errors(flow)),
                    _ => return Err(e),
                },
            }
        }
        Ok(0)
    }

    /// The run of `region` that starts with frame `start`, if it can leave without a copy.
    fn plan_file<'a>(
        &self,
        region: &'a Region,
        frames: &[TxFrame<'_>],
        start: usize,
    ) -> Option<(FileRun<'a>, usize)> {
        let first = &frames[start];
        if first.is_empty() || !self.caps.segmentation_offload {
            return None;
        }
        let run = plan(frames, start, self.limits());
        let frames = &frames[run.frames.clone()];
        let begin = first.header.as_ptr() as usize;
        let mut end = begin;
        for frame in frames {
            let payload = frame.payload.as_ptr() as usize;
            if frame.header.as_ptr() as usize != end || payload != end + frame.header.len() {
                return None;
            }
            end += frame.len();
        }
        let (len, last) = (end - begin, frames[frames.len() - 1]);
        let ((file, offset), (_, behind)) =
            (region.place(first.header)?, region.place(last.payload)?);
        let is_inside = behind + last.payload.len() as u64 == offset + len as u64;
        let (peer, segment_len, ecn) = (first.peer, run.segment_len, first.ecn);
        (len >= MIN_FILE_RUN && is_inside)
            .then_some((FileRun { peer, file, offset, len, segment_len, ecn }, run.frames.end))
    }

    /// Sends a run without a copy. `None`: it has to be copied; else whether the kernel took it.
    fn send_file(&mut self, run: &FileRun<'_>) -> Option<bool> {
        let opened = self.flows.find_or_open(self.socket.as_fd(), self.local, run.peer);
        let Ok(at) = opened else { return None };
        for _ in 0..MAX_ERRORS {
            match self.flows.send(at, run) {
                Ok(len) if len == run.len => return Some(true),
                // Half a datagram was given up.
                Ok(_) => return None,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENOBUFS) => {
                        self.blocked = Some(at);
                        return Some(false);
                    }
                    Some(libc::EINTR) => {}
                    Some(errno) if is_remark(errno) && self.take_errors(Some(at)) => {}
                    _ => return None,
                },
            }
        }
        None
    }

    /// [`Device::transmit`] where `send` sends some runs of `frames` and returns how many the kernel took.
    fn transmit_by(
        &mut self,
        frames: &[TxFrame<'_>],
        mut send: impl FnMut(&mut Messages, BorrowedFd<'_>, bool, &[Run]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut taken = 0;
        // Frames before this one go one by one.
        let mut singly_until = 0;
        while taken < frames.len() {
            if frames[taken].is_empty() {
                taken += 1;
                continue;
            }
            self.runs.clear();
            let mut next = taken;
            while next < frames.len() && self.runs.len() < MAX_MESSAGES && !frames[next].is_empty()
            {
                let mut limits = self.limits();
                if next < singly_until {
                    limits.segments = 1;
                }
                let run = plan(frames, next, limits);
                next = run.frames.end;
                self.runs.push(run);
            }
            match send(&mut self.outgoing, self.socket.as_fd(), self.v6_socket, &self.runs) {
                Ok(sent) => taken = self.runs[..sent].last().map_or(taken, |run| run.frames.end),
                Err(e) => {
                    let run = self.runs[0].clone();
                    match self.refused(frames, &run, e)? {
                        Refusal::Full => break,
                        Refusal::Again => {}
                        Refusal::Singly => singly_until = run.frames.end,
                        Refusal::Settled => taken = run.frames.end,
                    }
                }
            }
        }
        Ok(taken)
    }

    /// What to do after the kernel refused the first run: how many of its frames are settled.
    fn refused(&mut self, frames: &[TxFrame<'_>], run: &Run, e: io::Error) -> io::Result<Refusal> {
        let count = run.frames.len();
        let first = &frames[run.frames.start];
        match e.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => Ok(Refusal::Full),
            Some(libc::EINTR) => Ok(Refusal::Again),
            Some(libc::EIO) if count > 1 => {
                self.caps.segmentation_offload = false;
                self.caps.notes.push(
                    "segmentation offload given up: the network interface refuses it (EIO)".into(),
                );
                Ok(Refusal::Again)
            }
            Some(libc::EINVAL) if count > OLD_MAX_SEGMENTS => {
                self.max_segments = OLD_MAX_SEGMENTS;
                Ok(Refusal::Again)
            }
            // A segment larger than the link's MTU refuses the run; singly, only what is too big.
            Some(libc::EINVAL | libc::EMSGSIZE) if count > 1 => Ok(Refusal::Singly),
            // An earlier datagram's error, or this one's.
            Some(errno) if is_remark(errno) && self.take_errors(None) => Ok(Refusal::Again),
            Some(libc::EMSGSIZE) => {
                self.events.push(Event::TooBig { peer: first.peer, len: first.len() });
                Ok(Refusal::Settled)
            }
            Some(
                libc::ECONNREFUSED
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::EADDRNOTAVAIL
                | libc::EAFNOSUPPORT
                | libc::EPERM
                | libc::EACCES
                | libc::EINVAL,
            ) => {
                self.events.push(Event::Unreachable { peer: first.peer, is_closed: false });
                Ok(Refusal::Settled)
            }
            _ => Err(e),
        }
    }
}

/// What a refused send means for the frames of its run.
enum Refusal {
    Full,
    Again,
    Singly,
    Settled,
}

/// Bounds of one run.
#[derive(Clone, Copy)]
struct Limits {
    segments: usize,
    bytes: usize,
}

/// The run that starts with frame `start`, which exists and is not empty.
fn plan(frames: &[TxFrame<'_>], start: usize, limits: Limits) -> Run {
    let first = &frames[start];
    let segment_len = first.len();
    let (mut end, mut bytes) = (start + 1, segment_len);
    while let Some(frame) = frames.get(end) {
        let fits = end - start < limits.segments && bytes + frame.len() <= limits.bytes;
        let alike = frame.peer == first.peer && frame.ecn == first.ecn;
        if !fits || !alike || frame.is_empty() || frame.len() > segment_len {
            break;
        }
        end += 1;
        bytes += frame.len();
        if frame.len() < segment_len {
            break;
        }
    }
    Run { frames: start..end, segment_len }
}

/// An error of the operating system that ICMP brought: it says something about a peer and nothing about the socket.
pub const fn is_remark(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EACCES
            | libc::EOPNOTSUPP
            | libc::EMSGSIZE
    )
}

/// Buffers, path MTU discovery by probing, and what the network has to tell. Gives the bytes of the
/// receive buffer.
fn configure(fd: BorrowedFd<'_>, v6_socket: bool, config: &Config) -> io::Result<usize> {
    let receive = raise(fd, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, config.receive_buffer_bytes)?;
    raise(fd, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, config.send_buffer_bytes)?;
    if v6_socket {
        sockopt::set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        sockopt::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        sockopt::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
    }
    // On an IPv6 socket these are for peers with mapped IPv4 addresses; one that is bound to IPv6
    // only may refuse them, and then needs none.
    let v4 = sockopt::set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
        .and_then(|()| sockopt::set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1))
        .and_then(|()| sockopt::set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1));
    if !v6_socket {
        v4?;
    }
    Ok(receive)
}

/// Raises a socket buffer and returns what the kernel really gives, in bytes of payload: it says
/// twice as much, to have room for its own structures (socket(7)).
fn raise(fd: BorrowedFd<'_>, name: i32, force: i32, bytes: usize) -> io::Result<usize> {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    let before = sockopt::get(fd, libc::SOL_SOCKET, name)?;
    if before / 2 < wanted && sockopt::set(fd, libc::SOL_SOCKET, force, wanted).is_err() {
        sockopt::set(fd, libc::SOL_SOCKET, name, wanted)?;
    }
    Ok(usize::try_from(sockopt::get(fd, libc::SOL_SOCKET, name)? / 2).unwrap_or(0))
}

impl Device for Udp {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.transmit_by(frames, |outgoing, socket, v6_socket, runs| {
            outgoing.send(socket, v6_socket, frames, runs)
        })
    }

    fn transmit_from(&mut self, region: &Region, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        // Frames before this one are copied.
        let mut copied = 0;
        while taken < frames.len() {
            if taken >= copied
                && let Some((run, end)) = self.plan_file(region, frames, taken)
            {
                match self.send_file(&run) {
                    Some(true) => taken = end,
                    Some(false) => break,
                    None => copied = end,
                }
                continue;
            }
            let mut end = copied.max(taken + 1);
            while end < frames.len() && self.plan_file(region, frames, end).is_none() {
                end += 1;
            }
            let count = self.transmit(&frames[taken..end])?;
            taken += count;
            if taken < end {
                break;
            }
        }
        Ok(taken)
    }

    fn region(&self, len: usize) -> Region {
        let region = self.file.as_ref().and_then(|file| file.region(len).ok());
        region.unwrap_or_else(|| Region::private(len))
    }

    fn takes_memory(&self, peer: SocketAddr) -> bool {
        self.flows.find(peer).is_some()
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        if self.flows.is_empty() {
            return self.receive_from(None, batch);
        }
        let mut again = true;
        while let Some(Ready { flow, has_error }) = self.flows.next_ready(again)? {
            again = false;
            if has_error {
                self.take_errors(flow);
            }
            if self.receive_from(flow, batch)? > 0 {
                return Ok(batch.len());
            }
        }
        batch.clear();
        Ok(0)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let full = self.blocked.take().and_then(|at| self.flows.socket(at));
        let full = want_write.then(|| full.unwrap_or(self.socket.as_fd()));
        let woken = wake::wait_for(self.flows.set(), full, &self.waker, timeout)?;
        if woken && self.flows.is_empty() {
            self.take_errors(None);
        }
        Ok(woken)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.flows.set())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;

    const LIMITS: Limits = Limits { segments: 4, bytes: 1000 };

    fn frames<'a>(memory: &'a [u8], lens: &[(u8, usize)]) -> Vec<TxFrame<'a>> {
        let peer = |n: u8| SocketAddr::from(([127, 0, 0, n], 1));
        lens.iter()
            .map(|&(n, len)| {
                let (header, payload) = memory[..len].split_at(len.min(20));
                TxFrame { peer: peer(n), header, payload, ecn: Ecn::NotEct }
            })
            .collect()
    }

    /// The lengths of the runs that `lens` leave in.
    fn runs(lens: &[(u8, usize)], limits: Limits) -> Vec<usize> {
        let memory = [0; 2000];
        let frames = frames(&memory, lens);
        let (mut start, mut runs) = (0, Vec::new());
        while start < frames.len() {
            let run = plan(&frames, start, limits);
            assert_eq!((run.frames.start, run.segment_len), (start, frames[start].len()));
            runs.push(run.frames.len());
            start = run.frames.end;
        }
        runs
    }

    #[test]
    fn a_run_ends_where_the_kernel_would_cut_elsewhere() {
        assert_eq!(runs(&[(1, 100), (1, 100), (1, 100)], LIMITS), [3]);
        assert_eq!(
            runs(&[(1, 100), (1, 60), (1, 60)], LIMITS),
            [2, 1],
            "a shorter frame is the last"
        );
        assert_eq!(runs(&[(1, 100), (1, 101)], LIMITS), [1, 1], "a longer one starts anew");
        assert_eq!(runs(&[(1, 100), (2, 100), (1, 100)], LIMITS), [1, 1, 1], "one peer a run");
        assert_eq!(runs(&[(1, 100); 9], LIMITS), [4, 4, 1], "so many segments");
        assert_eq!(runs(&[(1, 300); 4], LIMITS), [3, 1], "so many bytes");
        assert_eq!(
            runs(&[(1, 1500), (1, 1500)], LIMITS),
            [1, 1],
            "a frame alone is never too long"
        );
        assert_eq!(runs(&[(1, 100); 3], Limits { segments: 1, ..LIMITS }), [1, 1, 1]);
    }

    #[test]
    fn congestion_bits_part_runs() {
        let memory = [0; 100];
        let mut frames = frames(&memory, &[(1, 100); 3]);
        frames[2].ecn = Ecn::Ect0;
        assert_eq!(plan(&frames, 0, LIMITS).frames, 0..2);
    }
}
