//! Who a packet is for: sockets by name, connections by their addresses, ports by number.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

pub use fusewire_device::interface::flows::Protocol;
use fusewire_transport::machine;
use siphasher::sip::SipHasher13;

use super::config::{Error, Events, Result, SocketId};
use super::sharing::{self, Claim, Sharing};
use super::tcp::{ListenerSocket, Stream};
use super::udp::UdpState;
use crate::generations::Generations;

/// Keys a table so that nobody outside can fill one bucket.
#[derive(Clone, Copy)]
pub struct Keyed(pub [u8; 16]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

/// An address as 128 bits, IPv4 mapped (RFC 4291, section 2.5.5.2).
pub fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    local: u128,
    remote: u128,
    ports: u32,
}

impl Flow {
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Flow {
        Flow {
            local: bits(local.ip()),
            remote: bits(remote.ip()),
            ports: u32::from(local.port()) << 16 | u32::from(remote.port()),
        }
    }
}

/// A socket.
pub enum Socket {
    Udp(Box<UdpState>),
    Listener(Box<ListenerSocket>),
    Stream(Box<Stream>),
}

impl Socket {
    /// Where it is bound, and beside whom.
    pub fn claim(&self) -> Claim {
        let sharing = match self {
            Socket::Udp(udp) => udp.sharing,
            Socket::Listener(listener) => listener.sharing,
            Socket::Stream(_) => Sharing::default(),
        };
        Claim { local: self.local(), sharing }
    }

    /// What it is bound to.
    pub fn local(&self) -> SocketAddr {
        match self {
            Socket::Udp(udp) => udp.local,
            Socket::Listener(listener) => listener.local,
            Socket::Stream(stream) => stream.tuple.local,
        }
    }
}

/// A place for a socket.
#[derive(Default)]
pub struct Slot {
    pub socket: Option<Socket>,
    pub events: Events,
    /// In the list of sockets with events.
    pub eventful: bool,
    /// In the list of sockets with something to send.
    pub dirty: bool,
    /// In the list of those whose next hop is being asked for.
    pub resolving: bool,
}

/// All sockets of a stack.
pub struct Table {
    pub slots: Vec<Slot>,
    generations: Generations,
    pub flows: HashMap<Flow, u32, Keyed>,
    /// Listeners and UDP sockets, a few a port.
    bound: HashMap<(Protocol, u16), Vec<u32>, Keyed>,
    /// How many connections use a port, so that an ephemeral one is not given twice without need.
    key: [u8; 16],
    /// RFC 6056, section 3.3.4: a counter for each of some sets of destinations.
    counters: [u16; 64],
    /// What connections counted that are gone.
    pub past: machine::Counters,
}

impl Table {
    pub fn new(max: usize, key: [u8; 16]) -> Table {
        let max = max.clamp(1, 1 << 24);
        Table {
            slots: (0..max).map(|_| Slot::default()).collect(),
            generations: Generations::new(max as u32),
            flows: HashMap::with_hasher(Keyed(key)),
            bound: HashMap::with_hasher(Keyed(key)),
            key,
            counters: [0; 64],
            past: machine::Counters::default(),
        }
    }

    pub fn id(&self, index: u32) -> SocketId {
        SocketId { index, generation: self.generations.of(index) }
    }

    pub fn insert(&mut self, socket: Socket) -> Result<u32> {
        let index = self.generations.take().ok_or(Error::TooManySockets)?;
        let slot = &mut self.slots[index as usize];
        slot.socket = Some(socket);
        slot.events = Events::default();
        Ok(index)
    }

    pub fn has_room(&self) -> bool {
        !self.generations.is_full()
    }

    /// Sockets at present.
    pub fn len(&self) -> usize {
        self.generations.taken()
    }

    /// Connections that a listener keeps back.
    pub fn deferred_of(&self, listener: SocketId) -> impl Iterator<Item = SocketId> {
        let of = move |index: &u32| {
            self.stream_seen(*index)
                .is_some_and(|stream| stream.parent == Some(listener) && stream.deferred.is_some())
        };
        (0..self.slots.len() as u32).filter(of).map(|index| self.id(index))
    }

    pub fn remove(&mut self, index: u32) -> Option<Socket> {
        let slot = &mut self.slots[index as usize];
        let socket = slot.socket.take()?;
        if let Socket::Stream(stream) = &socket {
            self.past.add(stream.tcp.counters());
        }
        slot.events = Events::default();
        self.generations.give_back(index);
        Some(socket)
    }

    pub fn socket(&mut self, id: SocketId) -> Result<&mut Socket> {
        if !self.generations.is_current(id.index, id.generation) {
            return Err(Error::NoSocket);
        }
        self.slots[id.index as usize].socket.as_mut().ok_or(Error::NoSocket)
    }

    // ---- ports

    /// The sockets that are bound to a port.
    pub fn bound(&self, protocol: Protocol, port: u16) -> &[u32] {
        self.bound.get(&(protocol, port)).map_or(&[], Vec::as_slice)
    }

    /// Of the sockets that are bound to a port the one that `fit` says fits best; of several the one that `from` is for, or
    /// the last where they do not share that way. `None` where none fits.
    pub fn best(
        &self,
        (protocol, to): (Protocol, SocketAddr),
        from: SocketAddr,
        fit: impl Fn(&Socket) -> u8,
    ) -> Option<u32> {
        let (mut best, mut count) = ((0, 0), 0);
        let list = self.bound(protocol, to.port());
        let fit = |index: u32| self.slots[index as usize].socket.as_ref().map_or(0, &fit);
        for index in list {
            let fit = fit(*index);
            if fit > 0 && fit >= best.0 {
                count = if fit == best.0 { count + 1 } else { 1 };
                best = (fit, *index);
            }
        }
        if count > 1 {
            let last = self.slots[best.1 as usize].socket.as_ref();
            if last.is_some_and(|last| last.claim().sharing.port) {
                let at = sharing::pick(Keyed(self.key), from, to, count);
                let alike = list.iter().filter(|index| fit(**index) == best.0);
                return alike.copied().nth(at);
            }
        }
        (count > 0).then_some(best.1)
    }

    /// A socket is bound to the port, or a connection comes from it.
    pub fn uses(&self, protocol: Protocol, port: u16) -> bool {
        let connects = |index: u32| {
            self.stream_seen(index).is_some_and(|stream| {
                let flow = Flow::new(stream.tuple.local, stream.tuple.remote);
                stream.tuple.local.port() == port && self.flows.contains_key(&flow)
            })
        };
        !self.bound(protocol, port).is_empty()
            || (protocol == Protocol::Tcp && (0..self.slots.len() as u32).any(connects))
    }

    pub fn bind(&mut self, protocol: Protocol, port: u16, index: u32) {
        self.bound.entry((protocol, port)).or_default().push(index);
    }

    pub fn unbind(&mut self, protocol: Protocol, port: u16, index: u32) {
        if let Some(list) = self.bound.get_mut(&(protocol, port)) {
            list.retain(|other| *other != index);
            if list.is_empty() {
                self.bound.remove(&(protocol, port));
            }
        }
    }

    /// A port for a connection from `local` to `remote` (RFC 6056, algorithm 4: a keyed hash of the
    /// three says where to begin, and another which counter goes on from there).
    ///
    /// # Errors
    /// [`Error::NoPort`] when `is_free` says no to all.
    pub fn ephemeral(
        &mut self,
        range: &RangeInclusive<u16>,
        local: IpAddr,
        remote: SocketAddr,
        is_free: impl Fn(&Table, u16) -> bool,
    ) -> Result<u16> {
        let hash = |purpose: u8| {
            let mut hasher = SipHasher13::new_with_key(&self.key);
            hasher.write_u8(purpose);
            hasher.write_u128(bits(local));
            hasher.write_u128(bits(remote.ip()));
            hasher.write_u16(remote.port());
            hasher.finish()
        };
        let count = u64::from(range.end().saturating_sub(*range.start())) + 1;
        let (offset, slot) = (hash(1), hash(2) as usize % self.counters.len());
        for _ in 0..count {
            let at = offset.wrapping_add(u64::from(self.counters[slot])) % count;
            self.counters[slot] = self.counters[slot].wrapping_add(1);
            let port = range.start() + at as u16;
            if port != 0 && is_free(self, port) {
                return Ok(port);
            }
        }
        Err(Error::NoPort)
    }
}

/// A socket of one kind: by its name, by its place, and only to be looked at.
macro_rules! kinds {
    ($($kind:ident($state:ty): $by_name:ident, $at:ident, $seen:ident;)*) => {$(
        impl Table {
            pub fn $by_name(&mut self, id: SocketId) -> Result<&mut $state> {
                match self.socket(id)? {
                    Socket::$kind(socket) => Ok(socket),
                    _ => Err(Error::NoSocket),
                }
            }

            pub fn $at(&mut self, index: u32) -> Option<&mut $state> {
                match self.slots[index as usize].socket.as_mut()? {
                    Socket::$kind(socket) => Some(socket),
                    _ => None,
                }
            }

            pub fn $seen(&self, index: u32) -> Option<&$state> {
                match self.slots[index as usize].socket.as_ref()? {
                    Socket::$kind(socket) => Some(socket),
                    _ => None,
                }
            }
        }
    )*};
}

kinds! {
    Udp(UdpState): udp, udp_at, udp_seen;
    Listener(ListenerSocket): listener, listener_at, listener_seen;
    Stream(Stream): stream, stream_at, stream_seen;
}
