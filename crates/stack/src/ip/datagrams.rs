//! Calls on UDP sockets, but for sending.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use fusewire_base::Instant;
use fusewire_kernels::stage::AnyStage;
use fusewire_net::MembershipChange;

use super::config::{Error, Marking, Result, SocketId};
use super::input::Direct;
use super::sharing::{Claim, Sharing};
use super::stack::Stack;
use super::table::{Protocol, Socket};
use super::udp::{
    Failure, Incoming, Messages, Queue, Received, Recent, Staged, Taken, Taker, Through, UdpState,
    Viewer,
};

/// Most bytes that may wait for a socket's owner.
const RECEIVE_BUFFER_MAX: usize = 4 << 20;

/// Bytes that may wait where so many are asked for.
pub(super) fn room_for(bytes: usize) -> usize {
    bytes.clamp(Queue::LEAST, RECEIVE_BUFFER_MAX)
}

/// Memory for so many bytes that may wait: who asks for a little more again and again has it copied a few times at most.
pub(super) fn memory_for(bytes: usize) -> usize {
    bytes.min(RECEIVE_BUFFER_MAX).next_power_of_two()
}

impl Stack {
    /// A socket at `local`; port 0 asks for any, an unspecified IPv6 address takes IPv4 too.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotOurs`], [`Error::TooManySockets`], [`Error::NoPort`].
    pub fn udp_bind(&mut self, local: SocketAddr) -> Result<SocketId> {
        self.udp_bind_sharing(local, Sharing::default())
    }

    /// The same beside others.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`].
    pub fn udp_bind_sharing(&mut self, local: SocketAddr, sharing: Sharing) -> Result<SocketId> {
        let local = self.reserve_bound_port(Protocol::Udp, Claim { local, sharing })?;
        let id = self.bind_datagrams(Protocol::Udp, local)?;
        self.core.table.udp(id)?.sharing = sharing;
        Ok(id)
    }

    /// A socket for datagrams, whose port we have.
    pub(super) fn bind_datagrams(
        &mut self,
        protocol: Protocol,
        local: SocketAddr,
    ) -> Result<SocketId> {
        let core = &mut self.core;
        let state = UdpState {
            protocol,
            local,
            is_of_many: core.layer.is_group(local.ip()),
            sharing: Sharing::default(),
            remote: None,
            queue: Queue::new(core.config.udp_queue_bytes, core.config.udp_queue_entries),
            error: None,
            overflow: 0,
            staged: Staged::default(),
            marking: Marking::default(),
            recent: Recent::default(),
            via: None,
            carried: None,
            keys: None,
            closed: false,
        };
        core.insert_bound(protocol, Socket::Udp(Box::new(state)))
    }

    /// Takes messages from `remote` alone from now on, and sends to it what names nobody; `None` undoes it.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn udp_connect(&mut self, id: SocketId, remote: Option<SocketAddr>) -> Result<()> {
        let meant =
            |remote: SocketAddr| SocketAddr::new(self.core.layer.meant(remote.ip()), remote.port());
        self.core.table.udp(id)?.remote = remote.map(meant);
        Ok(())
    }

    /// What comes and is not received yet may be so many bytes from now on, at least 64 KiB and at most 4 MiB (`SO_RCVBUF`).
    /// What waits already is not lost by it. Memory that the socket has once it keeps.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn udp_set_receive_buffer(&mut self, id: SocketId, bytes: usize) -> Result<()> {
        let (usual, entries) =
            (self.core.config.udp_queue_bytes, self.core.config.udp_queue_entries);
        let bytes = room_for(bytes);
        // Bytes bound those of them that are small, too.
        let entries = entries.max(entries.saturating_mul(bytes).div_ceil(usual.max(1)));
        self.core.table.udp(id)?.queue.set_bounds(bytes, entries, memory_for(bytes));
        Ok(())
    }

    /// Memory that a socket has for what its owner has not received yet, in bytes.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn udp_receive_memory(&mut self, id: SocketId) -> Result<usize> {
        Ok(self.core.table.udp(id)?.queue.memory_len())
    }

    /// The next message, copied into `out`; `None` when there is none.
    ///
    /// # Errors
    /// What ICMP said, once.
    #[inline]
    pub fn udp_recv(&mut self, id: SocketId, out: &mut [u8]) -> Result<Option<Received>> {
        let udp = self.core.table.udp(id)?;
        match udp.queue.pop(out) {
            Some(received) => Ok(Some(received)),
            None => udp.error.take().map_or(Ok(None), Err),
        }
    }

    /// Shows every message that waits to `view`, and then those that one batch of packets of the interface
    /// brings, where they lie: a super-frame at a time, nothing is copied. Returns how many messages.
    ///
    /// # Errors
    /// Inner: what ICMP said, once. Outer: the interface's.
    pub fn udp_recv_batch(
        &mut self,
        now: Instant,
        id: SocketId,
        view: impl FnMut(Messages<'_>),
    ) -> io::Result<Result<usize, Error>> {
        self.udp_take(now, id, &mut Viewer(view))
    }

    /// Gives `taker` what waits in the queue, and then what one batch of packets of the interface brings; returns
    /// how many messages.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_batch`].
    pub(crate) fn udp_take(
        &mut self,
        now: Instant,
        id: SocketId,
        taker: &mut dyn Taker,
    ) -> io::Result<Result<usize, Error>> {
        let taken = match self.udp_take_queue(id, taker) {
            Ok(taken) => taken,
            Err(error) => return Ok(Err(error)),
        };
        let is_empty = self.core.table.udp(id).is_ok_and(|udp| udp.queue.is_empty());
        let came = if is_empty { self.udp_recv_direct(now, id, taker)? } else { 0 };
        Ok(Ok(taken + came))
    }

    /// As [`Stack::udp_take`], of the queue alone.
    pub(crate) fn udp_take_queue(&mut self, id: SocketId, taker: &mut dyn Taker) -> Result<usize> {
        let level = self.core.config.level;
        let udp = self.core.table.udp(id)?;
        let mut taken = 0;
        while let Some(messages) = udp.queue.front() {
            let (count, each) = (messages.count(), messages.message_len);
            match taker.take(level, &Incoming { messages, head: None }) {
                Taken::NoRoom => return Ok(taken),
                Taken::Part(len) => {
                    udp.queue.skip(len);
                    return Ok(taken + len.div_ceil(each));
                }
                _ => udp.queue.drop_front(),
            }
            taken += count;
        }
        match taken {
            0 => udp.error.take().map_or(Ok(0), Err),
            _ => Ok(taken),
        }
    }

    /// Receives a batch of packets; `taker` gets what is for this socket.
    pub(super) fn udp_recv_direct(
        &mut self,
        now: Instant,
        id: SocketId,
        taker: &mut dyn Taker,
    ) -> io::Result<usize> {
        let mut direct = Direct::Udp { index: id.index, taker, taken: 0 };
        self.receive(now, &mut direct)?;
        Ok(match direct {
            Direct::Udp { taken, .. } => taken,
            _ => 0,
        })
    }

    /// As [`Stack::udp_recv_batch`], but `pipeline` runs over each message in the same loop that verifies
    /// and stores it: `memory` holds what came out, message after message, and `told` is told of each who
    /// sent it and where it lies. What `memory` has no room for waits in the queue. Returns how many bytes
    /// of it are used.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_batch`].
    pub fn udp_recv_with<S: AnyStage>(
        &mut self,
        now: Instant,
        id: SocketId,
        pipeline: &S,
        memory: &mut [u8],
        told: impl FnMut(SocketAddr, Range<usize>),
    ) -> io::Result<Result<usize, Error>> {
        let mut through = Through { pipeline, memory, filled: 0, told };
        let taken = self.udp_take(now, id, &mut through)?;
        Ok(taken.map(|_| through.filled))
    }

    /// From now on the socket carries a transport of its own, which finds the MTU of its paths itself (RFC 8899) and
    /// speaks with one peer at a time: nothing is fragmented, an ICMP "too big" is not believed, broadcasts are not
    /// taken, and what fails is told by peer ([`Stack::udp_poll_failure`]).
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn udp_carry(&mut self, id: SocketId) -> Result<()> {
        self.core.table.udp(id)?.carried.get_or_insert_default();
        Ok(())
    }

    /// What failed next, on a socket that carries a transport. Few are kept: the oldest makes room.
    pub fn udp_poll_failure(&mut self, id: SocketId) -> Option<Failure> {
        self.core.table.udp(id).ok()?.carried.as_mut()?.pop_front()
    }

    /// Changes from whom the socket takes what is sent to `group`.
    ///
    /// # Errors
    /// [`Error::InUse`] when it is in the group already; [`Error::Misuse`] when it is no group, when sources are to be named of one that was joined for any, or the other
    /// way round, or when there is no room for another group, or for more sources.
    pub fn udp_change_membership(
        &mut self,
        now: Instant,
        id: SocketId,
        group: IpAddr,
        change: MembershipChange,
    ) -> Result<()> {
        if self.is_coexisting() {
            return Err(Error::Misuse("groups stay the kernel's on its own addresses"));
        }
        self.core.table.udp(id)?;
        let nobody = match group {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        if change == MembershipChange::Join && self.core.layer.is_listening(id.index, group, nobody)
        {
            return Err(Error::InUse(SocketAddr::new(group, 0)));
        }
        self.core.layer_speaks = true;
        let changed = self.core.layer.change_membership(now, id.index, group, change);
        changed.map_err(Error::Misuse)
    }
}
