//! Calls on UDP sockets.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::interface::{Checksum, Segmentation, TxPacket};
use fusewire_net::{NoPath, Via};

use super::config::{Error, Event, Result, SocketId};
use super::input::Direct;
use super::output::{HEADER_ROOM, UdpPacket};
use super::stack::{Core, Stack};
use super::streams::overlaps;
use super::table::{Protocol, Socket};
use super::udp::{Messages, Queue, Received, Staged, Taker, UdpState, Viewer};

/// Messages of a super-frame: what Linux takes from a sender.
const MESSAGES_MAX: usize = 128;
/// Packets of a batch without super-frames.
const BATCH: usize = 32;
/// Bytes and calls that wait for a neighbour's answer.
const PENDING_BYTES: usize = 256 << 10;
const PENDING_CALLS: usize = 64;
/// How long they wait.
const PENDING_TIME: Duration = Duration::from_secs(3);

/// Messages whose next station is being asked for.
#[derive(Default)]
pub struct Pending {
    calls: VecDeque<PendingCall>,
    bytes: usize,
    /// The IP layer's generation when they were last tried.
    generation: u64,
}

struct PendingCall {
    id: SocketId,
    to: SocketAddr,
    message_len: usize,
    bytes: Vec<u8>,
    until: Instant,
}

impl Pending {
    /// When the oldest is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.calls.front().map(|call| call.until)
    }
}

impl Core {
    /// Keeps messages until the way is known; returns how many. Those for which there is no room are lost.
    fn pend(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        message_len: usize,
        to: SocketAddr,
    ) -> usize {
        let count = bytes.len().div_ceil(message_len.max(1)).max(1);
        let pending = &mut self.pending;
        let full = pending.calls.len() >= PENDING_CALLS;
        if full || pending.bytes + bytes.len() > PENDING_BYTES {
            self.counters.udp_unresolved += count as u64;
            return count;
        }
        pending.bytes += bytes.len();
        pending.generation = self.layer.generation();
        let until = now + PENDING_TIME;
        pending.calls.push_back(PendingCall { id, to, message_len, bytes: bytes.to_vec(), until });
        count
    }
}

impl Stack {
    /// A socket at `local`; port 0 asks for any, an unspecified IPv6 address takes IPv4 too.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotOurs`], [`Error::TooManySockets`], [`Error::NoPort`].
    pub fn udp_bind(&mut self, mut local: SocketAddr) -> Result<SocketId> {
        self.check_local(local.ip())?;
        let core = &mut self.core;
        if local.port() == 0 {
            let ports = core.config.ephemeral_ports.clone();
            let port = core.table.ephemeral(&ports, local.ip(), local, |table, port| {
                table.bound(Protocol::Udp, port).is_empty()
            })?;
            local.set_port(port);
        }
        let shared = local.ip().is_multicast();
        let taken = core.table.bound(Protocol::Udp, local.port()).iter().any(|index| {
            match &core.table.slots[*index as usize].socket {
                Some(Socket::Udp(other)) => !shared && overlaps(other.local, local),
                _ => false,
            }
        });
        if taken {
            return Err(Error::InUse(local));
        }
        let state = UdpState {
            local,
            remote: None,
            groups: Vec::new(),
            queue: Queue::new(core.config.udp_queue_bytes, core.config.udp_queue_entries),
            error: None,
            overflow: 0,
            staged: Staged::default(),
        };
        let index = core.table.insert(Socket::Udp(Box::new(state)))?;
        core.table.bind(Protocol::Udp, local.port(), index);
        Ok(core.table.id(index))
    }

    /// Takes messages from `remote` alone from now on, and sends to it what names nobody; `None` undoes it.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn udp_connect(&mut self, id: SocketId, remote: Option<SocketAddr>) -> Result<()> {
        self.core.table.udp(id)?.remote = remote;
        Ok(())
    }

    /// Sends one message at once. False: the interface is full, or the way is not known yet.
    ///
    /// # Errors
    /// Inner: [`Error::TooLong`], [`Error::Unreachable`], [`Error::NotConnected`]. Outer: the interface's.
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<Result<bool>> {
        let sent = self.udp_send_batch(now, id, bytes, bytes.len(), to)?;
        Ok(sent.map(|sent| sent > 0))
    }

    /// Sends messages of `message_len` bytes each (the last may be shorter) that lie one after the other.
    /// They leave as super-frames where the interface takes them, else as many packets in one call.
    /// Returns how many were sent: fewer when the interface is full or the way is not known yet.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub fn udp_send_batch(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        message_len: usize,
        to: Option<SocketAddr>,
    ) -> io::Result<Result<usize>> {
        let udp = match self.core.table.udp(id) {
            Ok(udp) => udp,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(error) = udp.error.take() {
            return Ok(Err(error));
        }
        let Some(dst) = to.or(udp.remote) else { return Ok(Err(Error::NotConnected)) };
        let src_port = udp.local.port();
        let source = Some(udp.local.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
        let packet = UdpPacket { src_port, dst };
        let via = match self.core.layer.route(now, dst.ip(), source) {
            Ok(via) => via,
            Err(NoPath::Resolving) => {
                return Ok(Ok(self.core.pend(now, id, bytes, message_len, dst)));
            }
            Err(_) => return Ok(Err(Error::Unreachable)),
        };
        let max = via.mtu.saturating_sub(if dst.is_ipv4() { 28 } else { 48 });
        if message_len > max {
            return Ok(Err(Error::TooLong { len: message_len, max }));
        }
        if bytes.is_empty() {
            return self.udp_packets(&via, packet, bytes, 1).map(Ok);
        }
        if message_len == 0 {
            return Ok(Err(Error::Misuse("messages of no bytes have no number")));
        }
        let offload = self.core.offload();
        if !offload.udp || bytes.len() <= message_len {
            return self.udp_packets(&via, packet, bytes, message_len).map(Ok);
        }
        let most = (offload.packet_max - HEADER_ROOM) / message_len;
        let run = most.clamp(1, MESSAGES_MAX) * message_len;
        let mut sent = 0;
        for run in bytes.chunks(run) {
            if !self.udp_super_frame(&via, packet, run, message_len)? {
                break;
            }
            sent += run.len().div_ceil(message_len);
        }
        Ok(Ok(sent))
    }

    fn udp_super_frame(
        &mut self,
        via: &Via,
        packet: UdpPacket,
        bytes: &[u8],
        message_len: usize,
    ) -> io::Result<bool> {
        let core = &mut self.core;
        let mut header = [0; HEADER_ROOM];
        let (len, checksum) = core.output.udp_header(via, packet, bytes, &mut header);
        let payload = [IoSlice::new(bytes)];
        let segmentation = if bytes.len() > message_len {
            Segmentation::Udp { segment_len: message_len as u16 }
        } else {
            Segmentation::None
        };
        let frame = TxPacket { header: &header[..len], payload: &payload, checksum, segmentation };
        let taken = self.interface.transmit(&[frame])?;
        core.counters.sent += taken as u64;
        if taken > 0 {
            core.counters.udp_messages_sent += bytes.len().div_ceil(message_len).max(1) as u64;
        }
        Ok(taken > 0)
    }

    /// A packet a message, a call of the interface for [`BATCH`] of them.
    fn udp_packets(
        &mut self,
        via: &Via,
        packet: UdpPacket,
        bytes: &[u8],
        message_len: usize,
    ) -> io::Result<usize> {
        let core = &mut self.core;
        let mut headers = [[0; HEADER_ROOM]; BATCH];
        let mut lens = [(0, Checksum::InPlace); BATCH];
        let mut payloads = [[IoSlice::new(&[])]; BATCH];
        let nothing = TxPacket {
            header: &[],
            payload: &[],
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        };
        let mut sent = 0;
        let empty = bytes.is_empty().then_some(bytes);
        let mut messages = empty.into_iter().chain(bytes.chunks(message_len));
        loop {
            let mut count = 0;
            for message in messages.by_ref().take(BATCH) {
                lens[count] = core.output.udp_header(via, packet, message, &mut headers[count]);
                payloads[count] = [IoSlice::new(message)];
                count += 1;
            }
            if count == 0 {
                return Ok(sent);
            }
            let mut frames = [nothing; BATCH];
            for (i, frame) in frames[..count].iter_mut().enumerate() {
                frame.header = &headers[i][..lens[i].0];
                frame.checksum = lens[i].1;
                frame.payload = &payloads[i];
            }
            let taken = self.interface.transmit(&frames[..count])?;
            sent += taken;
            core.counters.sent += taken as u64;
            core.counters.udp_messages_sent += taken as u64;
            if taken < count {
                return Ok(sent);
            }
        }
    }

    /// Queues one message: messages of one length to one peer leave together, at the latest with the next
    /// [`Stack::transmit`] or [`Stack::poll`]. False: there is no room; transmit first.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    #[inline]
    pub fn udp_stage(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<Result<bool>> {
        let udp = match self.core.table.udp(id) {
            Ok(udp) => udp,
            Err(error) => return Ok(Err(error)),
        };
        let Some(dst) = to.or(udp.remote) else { return Ok(Err(Error::NotConnected)) };
        let staged = &mut udp.staged;
        let goes_on = staged.to == Some(dst)
            && staged.message_len == bytes.len()
            && staged.bytes.len() + bytes.len() <= Staged::MAX
            && !bytes.is_empty();
        if !goes_on {
            if staged.to.is_some() && !self.flush_udp(now, id)? {
                return Ok(Ok(false));
            }
            if bytes.is_empty() || bytes.len() > Staged::MAX {
                return self.udp_send(now, id, bytes, to);
            }
            let Ok(udp) = self.core.table.udp(id) else { return Ok(Err(Error::NoSocket)) };
            udp.staged.to = Some(dst);
            udp.staged.message_len = bytes.len();
            udp.staged.bytes.reserve(Staged::MAX);
            udp.staged.bytes.extend_from_slice(bytes);
            self.core.staged.push(id);
            return Ok(Ok(true));
        }
        staged.bytes.extend_from_slice(bytes);
        Ok(Ok(true))
    }

    /// Sends what is staged in a socket; false when it has to wait.
    fn flush_udp(&mut self, now: Instant, id: SocketId) -> io::Result<bool> {
        let Ok(udp) = self.core.table.udp(id) else { return Ok(true) };
        let Some(to) = udp.staged.to else { return Ok(true) };
        let bytes = std::mem::take(&mut udp.staged.bytes);
        let message_len = udp.staged.message_len;
        let sent = self.udp_send_batch(now, id, &bytes, message_len, Some(to));
        let Ok(udp) = self.core.table.udp(id) else { return Ok(true) };
        udp.staged.bytes = bytes;
        let done = match sent? {
            Ok(sent) => (sent * message_len).min(udp.staged.bytes.len()),
            Err(error) => {
                udp.error = Some(error);
                udp.staged.bytes.len()
            }
        };
        udp.staged.bytes.drain(..done);
        if udp.staged.bytes.is_empty() {
            udp.staged.to = None;
        }
        Ok(udp.staged.to.is_none())
    }

    /// Tries again to send what waits for a neighbour.
    pub(super) fn flush_pending(&mut self, now: Instant) -> io::Result<()> {
        let generation = self.core.layer.generation();
        let late = self.core.pending.deadline().is_some_and(|until| until <= now);
        if self.core.pending.calls.is_empty()
            || (generation == self.core.pending.generation && !late)
        {
            return Ok(());
        }
        let mut calls = std::mem::take(&mut self.core.pending.calls);
        (self.core.pending.bytes, self.core.pending.generation) = (0, generation);
        while let Some(call) = calls.pop_front() {
            let count = call.bytes.len().div_ceil(call.message_len.max(1)).max(1) as u64;
            let resolving =
                matches!(self.core.layer.route(now, call.to.ip(), None), Err(NoPath::Resolving));
            if resolving && call.until > now {
                self.core.pending.bytes += call.bytes.len();
                self.core.pending.calls.push_back(call);
                continue;
            }
            if resolving {
                self.core.counters.udp_unresolved += count;
                continue;
            }
            let sent =
                self.udp_send_batch(now, call.id, &call.bytes, call.message_len, Some(call.to))?;
            if let Err(error) = sent {
                self.core.counters.udp_unresolved += count;
                if let Ok(udp) = self.core.table.udp(call.id) {
                    udp.error = Some(error);
                    self.core.tell(call.id.index, Event::Error);
                }
            }
        }
        Ok(())
    }

    /// Sends what is staged in all sockets.
    pub(super) fn flush_staged(&mut self, now: Instant) -> io::Result<()> {
        while let Some(id) = self.core.staged.last().copied() {
            if !self.flush_udp(now, id)? {
                return Ok(());
            }
            self.core.staged.pop();
        }
        Ok(())
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
        mut view: impl FnMut(Messages<'_>),
    ) -> io::Result<Result<usize>> {
        let queued = match self.udp_take_queue(id, &mut view) {
            Ok(queued) => queued,
            Err(error) => return Ok(Err(error)),
        };
        let taken = self.udp_recv_direct(now, id, &mut Viewer(view))?;
        Ok(Ok(queued + taken))
    }

    /// Gives the queue's messages to `view`.
    pub(super) fn udp_take_queue(
        &mut self,
        id: SocketId,
        view: &mut impl FnMut(Messages<'_>),
    ) -> Result<usize> {
        let udp = self.core.table.udp(id)?;
        let mut count = 0;
        while let Some(messages) = udp.queue.front() {
            count += messages.count();
            view(messages);
            udp.queue.drop_front();
        }
        match udp.error.take() {
            Some(error) if count == 0 => Err(error),
            _ => Ok(count),
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

    /// Takes what is sent to `group` too.
    ///
    /// # Errors
    /// [`Error::Misuse`] when it is no group.
    pub fn udp_join(&mut self, id: SocketId, group: IpAddr) -> Result<()> {
        if !group.is_multicast() {
            return Err(Error::Misuse("not a multicast address"));
        }
        let udp = self.core.table.udp(id)?;
        if !udp.groups.contains(&group) {
            udp.groups.push(group);
        }
        Ok(())
    }

    /// Undoes [`Stack::udp_join`].
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn udp_leave(&mut self, id: SocketId, group: IpAddr) -> Result<()> {
        self.core.table.udp(id)?.groups.retain(|other| *other != group);
        Ok(())
    }
}
