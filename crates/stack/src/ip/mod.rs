//! User-level IP: UDP and TCP straight on a network interface, with every peer that speaks them.
//!
//! ```text
//!   Stack      sockets by name, time as an argument, nothing blocks
//!     input    interface ──▶ IP layer ──▶ the socket: ring, queue, or the reader's own memory
//!     output   sockets ──▶ super-frames ──▶ interface, in batches
//!   Host       blocking and async handles, driven by a thread or by whoever waits
//!   coexist    on the kernel's own addresses: ports reserved, neighbours and routes by netlink
//!   loopback   packets to ourselves, on their way back
//!   table      sockets, connections by their addresses, ports
//!   tcp, udp   what a socket holds; streams, datagrams: the calls on them
//! ```

mod backlog;
mod below;
mod changes;
mod coexist;
mod config;
mod datagrams;
mod gather;
mod groups;
mod host;
mod input;
mod load;
mod loopback;
mod messages;
mod mover;
mod observe;
mod options;
mod output;
mod pending;
mod pieces;
mod placed;
pub mod posix;
mod reader;
mod readiness;
mod replies;
mod ring;
mod send;
mod send_memory;
mod sharing;
mod snapshot;
mod stack;
mod streams;
mod sums;
mod table;
mod tcp;
mod tcp_info;
mod udp;
mod watch;
mod xtp;

pub use backlog::SendLimit;
pub use bytes::Bytes;
pub use config::{Ancillary, Config, Counters, Error, Event, Marking, Result, Sent, SocketId};
pub use fusewire_net as net;
pub use fusewire_transport::machine::{Info, KeepAlive};
pub use fusewire_transport::tcp::{Config as TcpConfig, State, Tuple};
pub use host::{
    Accept, AcceptAsync, AsyncTcpStream, Connect, Host, HostConfig, Interest, NotOne, ReadHalf,
    Socket, TcpListener, TcpStream, UdpSocket, WriteHalf,
};
pub use load::Load;
pub use messages::Framing;
pub use observe::{observe, observe_with};
pub use options::SendFlags;
pub use placed::{Places, Taken as TakenInto};
pub use readiness::Readiness;
pub use sharing::Sharing;
pub use snapshot::{Snapshot, SocketKind, SocketView};
pub use stack::Stack;
pub use tcp_info::unconnected_tcp_info;
pub use udp::{Failure, Messages, Received};
pub(crate) use udp::{Incoming, Taken, Taker};
