//! Sockets connected to one peer each, beside the one that talks to all.
//!
//! `sendfile` takes no address: pages can leave without a copy only by a connected socket. It is bound
//! to the same address and port as the main one, so peers see no difference; the kernel gives it the
//! datagrams of its peer and the main socket those of all others.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::{Config, configure};
use crate::Ecn;
use crate::kernel::Version;
use crate::sys::sockopt as option;

/// UDP takes pages of a file since this version (`MSG_SPLICE_PAGES`).
pub const OLDEST_KERNEL: Version = Version { major: 6, minor: 5 };
/// The most peers with a socket of their own.
const MAX_FLOWS: usize = 256;
/// A flow that was not used in so many runs of others may be closed.
const IDLE_RUNS: u64 = 4096;
/// The main socket's name in the set.
const MAIN: u64 = u64::MAX;

struct Flow {
    socket: OwnedFd,
    peer: SocketAddr,
    segment_len: usize,
    /// The octet of IP's header that says code point and ECN.
    tos: u8,
    last_used: u64,
}

/// Bytes of a file that leave as one run of equal segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRun<'a> {
    pub peer: SocketAddr,
    pub file: BorrowedFd<'a>,
    pub offset: u64,
    pub len: usize,
    pub segment_len: usize,
    pub ecn: Ecn,
}

/// The connected sockets, and one descriptor to wait for all of them and the main one.
pub(super) struct Flows {
    set: OwnedFd,
    flows: Vec<Option<Flow>>,
    /// Which have something, from the last look.
    ready: Vec<Ready>,
    /// Where the last run went.
    last: usize,
    open: usize,
    runs: u64,
    config: Config,
}

/// A socket that has something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    /// `None`: the main socket.
    pub flow: Option<usize>,
    pub has_error: bool,
}

impl Flows {
    pub fn new(main: BorrowedFd<'_>, config: &Config) -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, main, epoll::EventData::new_u64(MAIN), epoll::EventFlags::IN)?;
        Ok(Flows {
            set,
            flows: Vec::new(),
            ready: Vec::new(),
            last: 0,
            open: 0,
            runs: 0,
            config: *config,
        })
    }

    /// Readable when any of the sockets is.
    pub fn set(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    pub fn socket(&self, flow: usize) -> Option<BorrowedFd<'_>> {
        Some(self.flows.get(flow)?.as_ref()?.socket.as_fd())
    }

    pub fn find(&self, peer: SocketAddr) -> Option<usize> {
        let is = |flow: &Option<Flow>| flow.as_ref().is_some_and(|f| f.peer == peer);
        if self.flows.get(self.last).is_some_and(is) {
            return Some(self.last);
        }
        self.flows.iter().position(is)
    }

    /// The flow to `peer`, made if there is none.
    ///
    /// # Errors
    /// When there are too many, or the kernel refuses: then frames are copied.
    pub fn find_or_open(
        &mut self,
        main: BorrowedFd<'_>,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<usize> {
        if let Some(at) = self.find(peer) {
            self.last = at;
            return Ok(at);
        }
        let at = self.free_place().ok_or(io::ErrorKind::QuotaExceeded)?;
        // For the moment in which both are bound and neither is connected.
        sockopt::set_socket_reuseaddr(main, true)?;
        let socket = open(local, peer, &self.config);
        sockopt::set_socket_reuseaddr(main, false)?;
        let socket = socket?;
        let name = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.set, &socket, name, epoll::EventFlags::IN)?;
        let flow = Flow { socket, peer, segment_len: 0, tos: 0, last_used: self.runs };
        self.flows[at] = Some(flow);
        self.open += 1;
        self.last = at;
        Ok(at)
    }

    /// An unused place, or that of a flow that is idle.
    fn free_place(&mut self) -> Option<usize> {
        if let Some(at) = self.flows.iter().position(Option::is_none) {
            return Some(at);
        }
        if self.flows.len() < MAX_FLOWS {
            self.flows.push(None);
            return Some(self.flows.len() - 1);
        }
        let used = |f: &Option<Flow>| f.as_ref().map_or(0, |f| f.last_used);
        let at = (0..self.flows.len()).min_by_key(|i| used(&self.flows[*i]))?;
        (self.runs - used(&self.flows[at]) > IDLE_RUNS).then(|| {
            self.close(at);
            at
        })
    }

    pub fn close(&mut self, at: usize) {
        // The descriptor leaves the set with its last copy.
        if self.flows[at].take().is_some() {
            self.open -= 1;
        }
        self.ready.retain(|r| r.flow != Some(at));
    }

    /// Sends a run; the bytes that the kernel took.
    pub fn send(&mut self, at: usize, run: &FileRun<'_>) -> io::Result<usize> {
        self.runs += 1;
        let Some(flow) = &mut self.flows[at] else { return Ok(0) };
        flow.last_used = self.runs;
        let fd = flow.socket.as_fd();
        // Also for a run of one: with it the kernel leaves the checksum for later. One frame may be shorter than is said.
        let is_said = match run.len == run.segment_len {
            true => flow.segment_len >= run.len,
            false => flow.segment_len == run.segment_len,
        };
        if !is_said {
            option::set(fd, libc::SOL_UDP, libc::UDP_SEGMENT, run.segment_len as i32)?;
            flow.segment_len = run.segment_len;
        }
        let tos = self.config.dscp << 2 | run.ecn as u8;
        if flow.tos != tos {
            set_tos(fd, run.peer, tos)?;
            flow.tos = tos;
        }
        let mut offset = run.offset;
        Ok(rustix::fs::sendfile(fd, run.file, Some(&mut offset), run.len)?)
    }

    /// The next socket that has something; looks at all again when `again` and none is left.
    pub fn next_ready(&mut self, again: bool) -> io::Result<Option<Ready>> {
        if self.ready.is_empty() && again {
            let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut events = [epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0),
            }; 64];
            let count = match epoll::wait(&self.set, &mut events[..], Some(&zero)) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
            self.ready.extend(events[..count].iter().rev().map(|event| {
                let (name, flags) = (event.data.u64(), event.flags);
                let flow = if name == MAIN { None } else { usize::try_from(name).ok() };
                Ready { flow, has_error: flags.contains(epoll::EventFlags::ERR) }
            }));
        }
        Ok(self.ready.pop())
    }
}

/// A socket on our address, connected to `peer`.
fn open(local: SocketAddr, peer: SocketAddr, config: &Config) -> io::Result<OwnedFd> {
    let family = if local.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &local)?;
    let peer = match peer {
        SocketAddr::V4(v4) if local.is_ipv6() => {
            SocketAddr::V6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0))
        }
        other => other,
    };
    connect(&socket, &peer)?;
    sockopt::set_socket_reuseaddr(&socket, false)?;
    configure(socket.as_fd(), local.is_ipv6(), config)?;
    option::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)?;
    Ok(socket)
}

fn set_tos(fd: BorrowedFd<'_>, peer: SocketAddr, tos: u8) -> io::Result<()> {
    let is_v4 = match peer.ip() {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
    };
    let (level, name) = if is_v4 {
        (libc::IPPROTO_IP, libc::IP_TOS)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    };
    option::set(fd, level, name, i32::from(tos))
}
