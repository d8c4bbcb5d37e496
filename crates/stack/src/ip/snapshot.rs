//! What a live view shows: every socket with its counters, at one moment.

use std::net::SocketAddr;

use fusewire_transport::machine::Counters as TcpCounters;
use fusewire_transport::machine::{Info, Listener as _};
use fusewire_transport::tcp::State;

use super::config::{Counters, SocketId};
use super::stack::Stack;
use super::table::{Protocol, Socket};

/// Places of the table that are looked at in one part.
const SLOTS_MAX: usize = 1 << 14;

/// A stack at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The stack's counters.
    pub counters: Counters,
    /// The IP layer's.
    pub layer: fusewire_net::Counters,
    /// Packets that the interface dropped before the stack saw them.
    pub interface_dropped: u64,
    /// What connections counted that are gone.
    pub past: TcpCounters,
    /// All sockets.
    pub sockets: Vec<SocketView>,
}

/// A socket at one moment.
#[derive(Clone, Debug)]
pub struct SocketView {
    /// Its name.
    pub id: SocketId,
    /// Our end.
    pub local: SocketAddr,
    /// The other.
    pub remote: Option<SocketAddr>,
    /// What kind it is.
    pub kind: SocketKind,
}

/// What kind of socket, and what it counts.
#[derive(Clone, Debug)]
pub enum SocketKind {
    /// UDP, or XTP straight over IP.
    Udp {
        /// Which of the two.
        protocol: Protocol,
        /// Messages or super-frames that wait.
        waiting: usize,
        /// Messages that found the queue full.
        overflow: u64,
    },
    /// A port that takes connections.
    Listener {
        /// Connections that wait to be accepted.
        waiting: usize,
        /// Connections whose handshake is not complete.
        half_open: usize,
        /// Segments dropped without an answer.
        drops: u64,
    },
    /// A connection.
    Stream {
        /// Its state.
        state: State,
        /// Bytes that nobody has read.
        unread: usize,
        /// The application has closed it.
        closed: bool,
        /// Estimates and counters.
        info: Box<Info>,
    },
}

impl Snapshot {
    /// What was dropped, by the interface, the stack and the IP layer: names of causes, and how often each was.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        dropped(self.interface_dropped, &self.counters, &self.layer)
    }
}

fn dropped<'a>(
    interface: u64,
    counters: &'a Counters,
    layer: &'a fusewire_net::Counters,
) -> impl Iterator<Item = (&'static str, u64)> + 'a {
    let interface = [("interface", interface)].into_iter();
    interface.chain(counters.drops.named()).chain(layer.drops.named())
}

impl Stack {
    /// As [`Snapshot::dropped`].
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        dropped(self.interface.dropped(), self.counters(), self.core.layer.counters())
    }

    /// Everything at one moment.
    pub fn snapshot(&self) -> Snapshot {
        let (sockets, _) = self.socket_views(0, usize::MAX);
        self.snapshot_with(sockets)
    }

    /// At most `most` sockets from place `from` in the table on, and where the next begin.
    pub fn socket_views(&self, from: usize, most: usize) -> (Vec<SocketView>, Option<usize>) {
        let table = &self.core.table;
        let mut views = Vec::with_capacity(most.min(table.len()));
        let end = table.slots.len().min(from.saturating_add(SLOTS_MAX.max(most)));
        for index in from..end {
            let Some(socket) = table.slots[index].socket.as_ref() else { continue };
            if views.len() == most {
                return (views, Some(index));
            }
            let (local, remote, kind) = view(socket);
            views.push(SocketView { id: table.id(index as u32), local, remote, kind });
        }
        (views, (end < table.slots.len()).then_some(end))
    }

    /// A snapshot with these sockets.
    pub(super) fn snapshot_with(&self, sockets: Vec<SocketView>) -> Snapshot {
        Snapshot {
            past: self.core.table.past,
            counters: *self.counters(),
            layer: *self.core.layer.counters(),
            interface_dropped: self.interface.dropped(),
            sockets,
        }
    }
}

fn view(socket: &Socket) -> (SocketAddr, Option<SocketAddr>, SocketKind) {
    match socket {
        Socket::Udp(udp) => {
            let kind = SocketKind::Udp {
                protocol: udp.protocol,
                waiting: udp.queue.len(),
                overflow: udp.overflow,
            };
            (udp.local, udp.remote, kind)
        }
        Socket::Listener(listener) => {
            let machines = || listener.machines.iter().flatten();
            let kind = SocketKind::Listener {
                waiting: listener.waiting.len(),
                half_open: machines().map(|m| m.half_open()).sum(),
                drops: machines().map(|m| m.drops()).sum(),
            };
            (listener.local, None, kind)
        }
        Socket::Stream(stream) => {
            let kind = SocketKind::Stream {
                state: stream.tcp.state(),
                unread: stream.readable(),
                closed: stream.orphaned.is_some(),
                info: Box::new(stream.tcp.info()),
            };
            (stream.tuple.local, Some(stream.tuple.remote), kind)
        }
    }
}
