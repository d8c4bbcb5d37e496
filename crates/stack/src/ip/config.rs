//! Settings of an IP stack and of its sockets, and what it counts.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use fusewire_kernels::{Execution, Level};
use fusewire_net::NoPath;
use fusewire_transport::tcp;

use super::table::Protocol;
use crate::drops::Drops;
use crate::generations;

/// Settings of an IP stack.
#[derive(Clone, Debug)]
pub struct Config {
    /// CPU level of sums and copies.
    pub level: Level,
    /// How messages are marshalled and unmarshalled: in the loop that sums them, or in passes.
    pub execution: Execution,
    /// TCP settings of connections that bring none of their own. `mss` and `send_mss` are what the
    /// interface and the path allow, whatever stands here.
    pub tcp: tcp::Config,
    /// Sockets at once, those included that the application has closed and the network has not.
    pub max_sockets: usize,
    /// Sockets in TIME-WAIT; when there are more, the oldest is forgotten.
    pub max_time_wait: usize,
    /// How long a connection that the application has closed may wait for its peer.
    pub orphan_timeout: Duration,
    /// Packets to 127.0.0.0/8, ::1 and our own addresses come back into the stack, and never reach the interface: turns
    /// [`loopback`](fusewire_net::Config::loopback) of the IP layer on. Beside the kernel they stay the kernel's.
    pub loopback: bool,
    /// Ports that are given to sockets which ask for none (RFC 6056).
    pub ephemeral_ports: RangeInclusive<u16>,
    /// Bytes that wait in a UDP socket for its reader.
    pub udp_queue_bytes: usize,
    /// Datagrams or super-frames that wait in a UDP socket for its reader.
    pub udp_queue_entries: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            level: Level::detect(),
            execution: Execution::Integrated,
            tcp: tcp::Config { pacing: false, nagle: true, ..tcp::Config::default() },
            max_sockets: 4096,
            max_time_wait: 1024,
            orphan_timeout: Duration::from_secs(60),
            loopback: false,
            ephemeral_ports: 49152..=65535,
            udp_queue_bytes: 1 << 20,
            udp_queue_entries: 512,
        }
    }
}

/// Names a socket of a stack. A name is never used again while it is in use, and a stale one finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SocketId {
    /// Which of the stack's places it has, or had: below [`Config::max_sockets`], and another's when it is gone.
    pub fn place(self) -> usize {
        self.index as usize
    }
}

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

impl FromStr for SocketId {
    type Err = Error;

    fn from_str(text: &str) -> Result<SocketId> {
        let (index, generation) = generations::parse(text).ok_or(Error::NoSocket)?;
        Ok(SocketId { index, generation })
    }
}

/// What the IP header of each packet of a socket says for it, and who hears it here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// Differentiated services (RFC 2474) in the upper six bits. The lower two are ECN's: TCP sets them itself,
    /// whatever stands here, and UDP sends them as they are.
    pub traffic_class: u8,
    /// Hops that packets may go; `None`: as many as the stack's usually do.
    pub hop_limit: Option<u8>,
    /// The same for datagrams to groups; `None`: they do not leave the link; 0: nor this host.
    pub group_hops: Option<u8>,
    /// Datagrams to groups of IPv4 do not come to sockets of this stack too.
    pub keeps_v4: bool,
    /// The same of IPv6.
    pub keeps_v6: bool,
    /// Datagrams that are longer than the path takes are refused, not cut into fragments.
    pub is_whole: bool,
    /// Segments of IPv4 with fewer hops left are dropped (RFC 5082).
    pub min_hops_v4: u8,
    /// The same of IPv6.
    pub min_hops_v6: u8,
}

impl Marking {
    /// Returns `true` if a segment that came with so many hops left is to be dropped.
    pub(super) fn refuses(&self, hops: u8, is_v4: bool) -> bool {
        hops < if is_v4 { self.min_hops_v4 } else { self.min_hops_v6 }
    }
}

/// What goes beside one datagram: of one that is to leave, in place of what its socket says; of one that came, what its packet
/// said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// The address of ours that it leaves from; the one that it was sent to, ours or a group's.
    pub local: Option<IpAddr>,
    /// The interface of that, by the kernel's number ([`Interface::index`](fusewire_device::interface::Interface::index)); 0:
    /// none is said.
    pub interface: u32,
    /// Differentiated services and ECN's bits.
    pub traffic_class: Option<u8>,
    /// Hops that it may go yet.
    pub hop_limit: Option<u8>,
    /// Of one that came: `local` is a group's or all's on a network, so that nobody answers from there.
    pub is_shared: bool,
    /// Of one that came: `local` is wanted as `IP_PKTINFO` has it.
    pub as_v4: bool,
    /// The same as `IPV6_PKTINFO` has it.
    pub as_v6: bool,
}

/// How far an outgoing stream is, in bytes from its beginning: `acked` ≤ `sent` ≤ `written`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The peer has acknowledged all before it.
    pub acked: u64,
    /// All before it has left.
    pub sent: u64,
    /// All before it was written.
    pub written: u64,
}

/// What happened to a socket. Told once, however often it happened since it was last told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Event {
    /// The handshake of `tcp_connect` is complete.
    Connected,
    /// A listener has a connection to accept.
    Acceptable,
    /// There is something to read.
    Readable,
    /// After a write that took less than all: there is room again.
    Writable,
    /// Some of what was written without a copy is acknowledged: see `tcp_sent`.
    Acked,
    /// The peer's stream has ended; what came before may still be read.
    PeerFinished,
    /// The peer has sent urgent data; it lies in the stream.
    Urgent,
    /// Window, losses or marks have changed, or all that was written is acknowledged: see `tcp_info`.
    Congestion,
    /// The network told of an error: see `take_error`.
    Error,
    /// The connection is over; `take_error` says why if not in order.
    Closed,
}

/// A set of [`Event`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Events(u16);

impl Events {
    pub fn add(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn pop(&mut self) -> Option<Event> {
        use Event::*;
        let all = [
            Connected,
            Acceptable,
            Readable,
            Writable,
            Acked,
            PeerFinished,
            Urgent,
            Congestion,
            Error,
            Closed,
        ];
        let next = all.into_iter().find(|event| self.0 >> *event as u8 & 1 == 1)?;
        self.0 &= !(1 << next as u8);
        Some(next)
    }
}

/// Why a socket failed, or a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such socket, or it is of another kind.
    #[error("there is no such socket")]
    NoSocket,
    /// The socket is not connected, or not yet.
    #[error("the socket is not connected")]
    NotConnected,
    /// Nothing can be sent any more on this side.
    #[error("this side of the stream was finished")]
    Finished,
    /// The address or port is taken.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// Not one of our addresses.
    #[error("{0} is not an address of this stack")]
    NotOurs(SocketAddr),
    /// The kernel that we live beside does not let this user have it.
    #[error(
        "{0} may not be had by this user: it takes CAP_NET_ADMIN, and CAP_NET_BIND_SERVICE below port 1024"
    )]
    Denied(SocketAddr),
    /// No ephemeral port is free.
    #[error("no port is free")]
    NoPort,
    /// The table of sockets is full.
    #[error("there are too many sockets")]
    TooManySockets,
    /// Longer than a datagram can be.
    #[error("a message of {len} bytes is too long: at most {max} here")]
    TooLong {
        /// Its length.
        len: usize,
        /// The longest.
        max: usize,
    },
    /// No route leads there from an address of ours.
    #[error("no route leads to the destination")]
    NoRoute,
    /// Who is next on the way does not answer, or a router said that it cannot be reached.
    #[error("the destination cannot be reached")]
    Unreachable,
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// The peer reset the connection.
    #[error("the peer reset the connection")]
    Reset,
    /// The peer has finished, and then reset the connection: who reads is at the end, and nobody takes what is sent.
    #[error("the peer has finished, and reset the connection")]
    Broken,
    /// We ended the connection at once.
    #[error("the connection was aborted")]
    Aborted,
    /// Nobody answered in time.
    #[error("timed out")]
    TimedOut,
    /// The stream ended within a message, or within a block of a pipeline.
    #[error("the stream ended within a message")]
    CutShort,
    /// The interface is broken or gone.
    #[error("the interface is gone")]
    Interface,
    /// The caller's arguments make no sense.
    #[error("misuse: {0}")]
    Misuse(&'static str),
}

impl From<NoPath> for Error {
    fn from(why: NoPath) -> Error {
        match why {
            NoPath::NoRoute | NoPath::NotOurs | NoPath::Own => Error::NoRoute,
            NoPath::Resolving | NoPath::Unreachable => Error::Unreachable,
        }
    }
}

/// Results of calls on sockets of a [`Stack`](super::Stack). What may fail with its interface too gives an
/// [`io::Result`](std::io::Result) around a `Result<T, Error>`, which its signature spells out.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the stack counts, apart from what each connection and the IP layer count. Every packet that
/// came and was not delivered is in `drops`, or in theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets or super-frames that the interface gave.
    pub received: u64,
    /// Those of them whose payload it put where the stream's reader has it, without a copy of ours.
    pub placed: u64,
    /// Packets or super-frames that the interface took.
    pub sent: u64,
    /// UDP messages delivered.
    pub udp_messages_received: u64,
    /// UDP messages sent.
    pub udp_messages_sent: u64,
    /// Copies of those that came to sockets of this host's own: of one to a group as many as sockets here hear it.
    pub udp_messages_returned: u64,
    /// Messages for a neighbour that had to be asked for, which waited, or were too many to.
    pub udp_messages_unresolved: u64,
    /// XTP's packets delivered.
    pub xtp_packets_received: u64,
    /// XTP's packets sent.
    pub xtp_packets_sent: u64,
    /// SYN cookies given out.
    pub cookies: u64,
    /// What was dropped, by cause.
    pub drops: Drops,
}

impl Counters {
    /// Datagrams of a protocol that were sent.
    pub(super) fn messages_sent(&mut self, protocol: Protocol) -> &mut u64 {
        match protocol {
            Protocol::Xtp => &mut self.xtp_packets_sent,
            _ => &mut self.udp_messages_sent,
        }
    }

    /// Datagrams of a protocol that were delivered.
    pub(super) fn messages_received(&mut self, protocol: Protocol) -> &mut u64 {
        match protocol {
            Protocol::Xtp => &mut self.xtp_packets_received,
            _ => &mut self.udp_messages_received,
        }
    }
}
