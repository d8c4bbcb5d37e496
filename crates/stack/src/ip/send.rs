//! Sending UDP: super-frames, batches, fragments; what waits for a neighbour's answer, and what is staged.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::interface::{Checksum, Segmentation, TxPacket};
use fusewire_kernels::Level;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stage::{AnyStage, then};
use fusewire_kernels::stages::InternetSum;
use fusewire_net::{NoPath, Packet, Via};
use fusewire_wire::{ipv4, ipv6, udp};

use super::config::{Ancillary, Error, Event, Result, SocketId};
use super::output::{HEADER_ROOM, UdpPacket, datagram_header_len, udp_checksum};
use super::pending::{PENDING_TIME, PendingCall};
use super::stack::{Core, Stack};
use super::table::Protocol;
use super::udp::{Staged, UdpState};
use crate::drops::Cause;

/// The longest UDP message to there: what a length of 16 bits counts is all of an IPv4 packet, and of an IPv6 packet what is behind its
/// header.
fn message_max(to: SocketAddr) -> usize {
    let header = if to.is_ipv4() { ipv4::MIN_HEADER_LEN } else { 0 };
    usize::from(u16::MAX) - header - udp::HEADER_LEN
}
/// Packets of a batch without super-frames.
const BATCH: usize = 32;

impl Core {
    /// Forgets a socket for datagrams that was closed, once all is sent that its application has sent.
    pub(super) fn forget_sent(&mut self, id: SocketId) {
        let waits = self.pending.waits(id);
        let is_over = |udp: &mut UdpState| udp.closed && udp.staged.to.is_none();
        if !waits && self.table.udp(id).is_ok_and(is_over) {
            self.table.remove(id.index);
        }
    }

    /// Tells once what failed of what was sent before.
    pub(super) fn udp_told(&mut self, id: SocketId) -> Result<()> {
        self.table.udp(id)?.error.take().map_or(Ok(()), Err)
    }

    /// Where messages of a socket go: to `to`, or to whom it is connected, from `from`, or where it is bound. What failed before
    /// is for whoever sends, and does not keep back what was taken from him.
    pub(super) fn udp_way(
        &mut self,
        now: Instant,
        id: SocketId,
        (to, from): (Option<SocketAddr>, Option<IpAddr>),
    ) -> Result<(UdpPacket, std::result::Result<Via, NoPath>)> {
        self.watch.now = now;
        let udp = self.table.udp(id)?;
        let dst = to.or(udp.remote).ok_or(Error::NotConnected)?;
        let (protocol, src_port) = (udp.protocol, udp.local.port());
        let packet = UdpPacket { protocol, src_port, dst, marking: udp.marking };
        udp.recent.note(now, dst);
        if let Some((known, via)) = &udp.via
            && from.is_none()
            && *known == dst
            && via.generation == self.layer.generation()
        {
            return Ok((packet, Ok(*via)));
        }
        self.layer_speaks = true;
        let own = Some(udp.local.ip());
        let is_of_many = |ip| udp.is_of_many || self.layer.is_group(ip);
        let source = own.filter(|ip| !ip.is_unspecified() && !is_of_many(*ip));
        let mut via = self.layer.route(now, self.layer.meant(dst.ip()), from.or(source));
        if protocol == Protocol::Udp {
            via = via.map(|via| self.layer.udp_via(via));
        }
        if from.is_none() {
            udp.via = via.ok().map(|via| (dst, via));
        }
        Ok((packet, via))
    }

    /// Sending to `peer` failed.
    pub(super) fn udp_fail(&mut self, id: SocketId, peer: SocketAddr, error: Error) {
        if let Ok(udp) = self.table.udp(id)
            && udp.hears_of(peer, error)
        {
            udp.fail(peer, error);
            self.notify(id.index, Event::Error);
        }
    }

    /// The longest message that goes to `to` in one packet, as far as is known before its way is.
    pub(super) fn message_fitting(&self, protocol: Protocol, to: SocketAddr) -> usize {
        let header = if to.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
        let mtu = match protocol {
            Protocol::Udp => self.layer.udp_mtu_to(to.ip()),
            _ => self.layer.mtu_to(to.ip()),
        };
        mtu.saturating_sub(header + datagram_header_len(protocol))
    }

    /// Keeps messages until the way is known, gathered from pieces; returns how many. Those for which there is no room
    /// are lost.
    pub(super) fn pend<'a>(
        &mut self,
        now: Instant,
        id: SocketId,
        (to, beside): (SocketAddr, Ancillary),
        message_len: usize,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> usize {
        let len: usize = pieces.clone().map(<[u8]>::len).sum();
        let count = len.div_ceil(message_len.max(1)).max(1);
        self.counters.udp_messages_unresolved += count as u64;
        let meant = self.layer.meant(to.ip());
        let next_hop = self.layer.next_hop(meant).unwrap_or(meant);
        if self.pending.is_empty() {
            // What changes from now on, those that wait already are to hear of, too.
            self.pending.generation = self.layer.generation();
        }
        if !self.pending.admits(next_hop, len) {
            self.counters.drops.add(Cause::UdpUnresolved, count as u64);
            return count;
        }
        let (bytes, until) = (pieces.collect::<Vec<_>>().concat(), now + PENDING_TIME);
        self.pending.add(PendingCall { id, to, next_hop, beside, message_len, bytes, until });
        while let Some(lost) = self.pending.pop_excess() {
            self.counters.drops.add(Cause::UdpUnresolved, lost.count());
            self.forget_sent(lost.id);
        }
        count
    }
}

impl Stack {
    /// Sends one message at once. False: the interface is full, or the way is not known yet.
    ///
    /// # Errors
    /// Inner: [`Error::TooLong`], [`Error::Unreachable`], [`Error::NoRoute`], [`Error::NotConnected`]. Outer: the interface's.
    pub fn udp_send(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<Result<bool, Error>> {
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
    ) -> io::Result<Result<usize, Error>> {
        match self.core.udp_told(id) {
            Ok(()) => {
                let beside = (to, Ancillary::default());
                self.udp_send_with_beside(now, id, bytes, message_len, beside)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Sends one message at once, with what goes beside it. False: the interface is full.
    ///
    /// # Errors
    /// As [`Stack::udp_send`]; inner [`Error::Misuse`]: there are no hops; [`Error::NoRoute`]: the address or the interface is
    /// not ours.
    pub fn udp_send_beside(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        to: Option<SocketAddr>,
        beside: &Ancillary,
    ) -> io::Result<Result<bool, Error>> {
        let layer = &self.core.layer;
        // Who answers what was sent to many says of it where it came to.
        let local = beside.local.filter(|local| !layer.is_group(*local));
        let is_foreign = local.is_some_and(|local| !layer.is_own(local));
        let is_elsewhere =
            beside.interface != 0 && self.interface().index() != Some(beside.interface);
        if is_foreign || is_elsewhere {
            return Ok(Err(Error::NoRoute));
        }
        // What was staged before it leaves before it.
        if !self.flush_udp(now, id)? {
            return Ok(Ok(false));
        }
        let beside = Ancillary { local, ..*beside };
        let sent = self.udp_send_with_beside(now, id, bytes, bytes.len(), (to, beside))?;
        Ok(sent.map(|sent| sent > 0))
    }

    /// As [`Stack::udp_send_batch`], with what is other than the socket's, and whatever failed before.
    fn udp_send_with_beside(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        message_len: usize,
        (to, beside): (Option<SocketAddr>, Ancillary),
    ) -> io::Result<Result<usize, Error>> {
        let (mut packet, via) = match self.core.udp_way(now, id, (to, beside.local)) {
            Ok((to, Ok(_) | Err(NoPath::Resolving))) if message_len > message_max(to.dst) => {
                return Ok(Err(Error::TooLong { len: message_len, max: message_max(to.dst) }));
            }
            Ok((_, Ok(_) | Err(NoPath::Resolving))) if message_len == 0 && !bytes.is_empty() => {
                return Ok(Err(Error::Misuse("messages of no bytes have no number")));
            }
            Ok((packet, Ok(via))) => (packet, via),
            Ok((packet, Err(NoPath::Resolving))) => {
                let to = (packet.dst, beside);
                let pieces = std::iter::once(bytes);
                return Ok(Ok(self.core.pend(now, id, to, message_len, pieces)));
            }
            Ok((_, Err(why))) => return Ok(Err(why.into())),
            Err(error) => return Ok(Err(error)),
        };
        // Of IPv6 such a packet goes to a neighbour.
        if beside.hop_limit == Some(0) && packet.dst.is_ipv4() {
            return Ok(Err(Error::Misuse("a packet has a hop at least")));
        }
        packet.marking.traffic_class = beside.traffic_class.unwrap_or(packet.marking.traffic_class);
        if beside.hop_limit.is_some() {
            (packet.marking.hop_limit, packet.marking.group_hops) =
                (beside.hop_limit, beside.hop_limit);
        }
        if packet.stays_here() {
            let count = bytes.len().div_ceil(message_len.max(1)).max(1);
            *self.core.counters.messages_sent(packet.protocol) += count as u64;
            self.core.come_back(&via, &packet, bytes, message_len);
            return Ok(Ok(count));
        }
        let whole = via.mtu.saturating_sub(via.ip_header_len() + packet.header_len());
        let is_uncut = packet.protocol == Protocol::Xtp || packet.marking.is_whole;
        if message_len > whole && is_uncut {
            return Ok(Err(Error::TooLong { len: message_len, max: whole }));
        }
        if message_len > whole {
            let mut sent = 0;
            for message in bytes.chunks(message_len) {
                if !self.udp_fragments(&via, packet, message, None)? {
                    break;
                }
                sent += 1;
            }
            return Ok(Ok(sent));
        }
        // Of one empty message, too.
        let message_len = message_len.max(1);
        if bytes.len() <= message_len {
            // The way of a message by itself is short: somebody may wait for the answer.
            return Ok(Ok(usize::from(self.udp_super_frame(
                &via,
                packet,
                bytes,
                message_len,
                None,
            )?)));
        }
        let offload = self.core.offload().on(&via);
        if !offload.udp || packet.protocol == Protocol::Xtp {
            return self.udp_packets(&via, packet, bytes, message_len).map(Ok);
        }
        let most = (offload.packet_max - HEADER_ROOM) / message_len;
        let run = most.clamp(1, offload.udp_segments) * message_len;
        let mut sent = 0;
        for run in bytes.chunks(run) {
            if !self.udp_super_frame(&via, packet, run, message_len, None)? {
                break;
            }
            sent += run.len().div_ceil(message_len);
        }
        Ok(Ok(sent))
    }

    /// The sum of the bytes is made here unless it is there already.
    fn udp_super_frame(
        &mut self,
        via: &Via,
        packet: UdpPacket,
        bytes: &[u8],
        message_len: usize,
        sum: Option<Sum>,
    ) -> io::Result<bool> {
        let core = &mut self.core;
        let mut header = [0; HEADER_ROOM];
        let sum = || sum.unwrap_or_else(|| fusewire_kernels::sum(core.config.level, bytes));
        let (len, checksum) = core.output.udp_header(via, packet, bytes.len(), sum, &mut header);
        let payload = [IoSlice::new(bytes)];
        let segmentation = if bytes.len() > message_len {
            Segmentation::Udp { segment_len: message_len as u16 }
        } else {
            Segmentation::None
        };
        let frame = TxPacket { header: &header[..len], payload: &payload, checksum, segmentation };
        let taken = self.give(&[frame])?;
        if taken > 0 {
            *self.core.counters.messages_sent(packet.protocol) +=
                bytes.len().div_ceil(message_len).max(1) as u64;
            self.core.come_back(via, &packet, bytes, message_len);
        }
        Ok(taken > 0)
    }

    /// A message that is longer than the path takes, in fragments. False: the interface is full, and the
    /// message is lost as a whole when that happens under way.
    fn udp_fragments(
        &mut self,
        via: &Via,
        packet: UdpPacket,
        message: &[u8],
        sum: Option<Sum>,
    ) -> io::Result<bool> {
        let core = &mut self.core;
        let len = udp::HEADER_LEN + message.len();
        let mut head = [0; udp::HEADER_LEN];
        let mut header = udp::Header {
            src_port: packet.src_port,
            dst_port: packet.dst.port(),
            len: len as u16,
            checksum: 0,
        };
        header.emit(&mut head);
        let sum = via.pseudo_header_sum(udp::NUMBER, len)
            + Sum::of_few(&head)
            + sum.unwrap_or_else(|| fusewire_kernels::sum(core.config.level, message));
        header.checksum = udp_checksum(sum);
        header.emit(&mut head);
        let identification = core.layer.identification(via);
        let ip = Packet { dont_fragment: false, ..packet.ip(len) };
        let mut offset = 0;
        loop {
            let piece = via.fragment(len, offset, identification);
            let mut out = [0; HEADER_ROOM];
            let mut header_len = via.emit_fragment(&ip, &piece, &mut out);
            let mut range = offset..offset + piece.len;
            if offset == 0 {
                out[header_len..header_len + head.len()].copy_from_slice(&head);
                header_len += head.len();
                range.start = head.len();
            }
            let bytes = &message[range.start - head.len()..range.end - head.len()];
            let payload = [IoSlice::new(bytes)];
            let header = &out[..header_len];
            let frame = TxPacket { header, payload: &payload, ..TxPacket::default() };
            if self.give(&[frame])? == 0 {
                return Ok(false);
            }
            offset += piece.len;
            if !piece.more {
                self.core.counters.udp_messages_sent += 1;
                self.core.come_back(via, &packet, message, message.len());
                return Ok(true);
            }
        }
    }

    /// Sends one message of which `pipeline` makes the bytes on the wire, in the loop that sums and stores
    /// them. False: the interface is full. What is longer than a packet goes in fragments.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub fn udp_send_with<S: AnyStage>(
        &mut self,
        now: Instant,
        id: SocketId,
        pipeline: &S,
        message: &[u8],
        to: Option<SocketAddr>,
    ) -> io::Result<Result<bool, Error>> {
        self.udp_send_made(now, id, message.len(), to, |level, sums, dst| {
            if !sums {
                level.run(Integrated { stage: pipeline, src: message, dst });
                return Some(Sum::ZERO);
            }
            let stage = then(pipeline, InternetSum);
            Some(level.run(Integrated { stage: &stage, src: message, dst }).1)
        })
    }

    /// Sends one message of `len` bytes that `make` writes, and sums if it is asked to; `None` when it cannot.
    pub(super) fn udp_send_made(
        &mut self,
        now: Instant,
        id: SocketId,
        len: usize,
        to: Option<SocketAddr>,
        make: impl FnOnce(Level, bool, &mut [u8]) -> Option<Sum>,
    ) -> io::Result<Result<bool, Error>> {
        const LIES: Error = Error::Misuse("the message gave more or fewer bytes than it had said");
        if let Err(error) = self.core.udp_told(id) {
            return Ok(Err(error));
        }
        let (packet, via) = match self.core.udp_way(now, id, (to, None)) {
            Ok((to, Ok(_) | Err(NoPath::Resolving))) if len > message_max(to.dst) => {
                return Ok(Err(Error::TooLong { len, max: message_max(to.dst) }));
            }
            Ok((packet, Ok(via))) => (packet, via),
            Ok((_, Err(NoPath::Resolving))) => {
                // The plain way keeps what is made of it.
                let mut bytes = vec![0; len];
                return match make(self.core.config.level, false, &mut bytes) {
                    Some(_) => self.udp_send(now, id, &bytes, to),
                    None => Ok(Err(LIES)),
                };
            }
            Ok((_, Err(why))) => return Ok(Err(why.into())),
            Err(error) => return Ok(Err(error)),
        };
        let core = &mut self.core;
        let mut bytes = std::mem::take(&mut core.message);
        bytes.resize(bytes.len().max(len), 0);
        let whole = via.mtu.saturating_sub(via.ip_header_len() + udp::HEADER_LEN);
        let is_whole = len <= whole;
        if !is_whole && packet.marking.is_whole && !packet.stays_here() {
            core.message = bytes;
            return Ok(Err(Error::TooLong { len, max: whole }));
        }
        let sums = !core.output.offload.on(&via).checksum || !is_whole;
        let made = make(core.config.level, sums, &mut bytes[..len]);
        let sent = match made {
            Some(_) if packet.stays_here() => {
                self.core.counters.udp_messages_sent += 1;
                self.core.come_back(&via, &packet, &bytes[..len], len);
                Ok(true)
            }
            Some(sum) if is_whole => {
                self.udp_super_frame(&via, packet, &bytes[..len], len.max(1), Some(sum))
            }
            Some(sum) => self.udp_fragments(&via, packet, &bytes[..len], Some(sum)),
            None => Ok(false),
        };
        self.core.message = bytes;
        if made.is_none() {
            return Ok(Err(LIES));
        }
        sent.map(Ok)
    }

    /// A packet a message, a call of the interface for [`BATCH`] of them.
    fn udp_packets(
        &mut self,
        via: &Via,
        packet: UdpPacket,
        bytes: &[u8],
        message_len: usize,
    ) -> io::Result<usize> {
        let mut headers = [[0; HEADER_ROOM]; BATCH];
        let mut lens = [(0, Checksum::InPlace); BATCH];
        let mut payloads = [[IoSlice::new(&[])]; BATCH];
        let (mut sent, level) = (0, self.core.config.level);
        let mut messages = bytes.chunks(message_len);
        loop {
            let mut count = 0;
            for message in messages.by_ref().take(BATCH) {
                let (sum, out) = (|| fusewire_kernels::sum(level, message), &mut headers[count]);
                lens[count] = self.core.output.udp_header(via, packet, message.len(), sum, out);
                payloads[count] = [IoSlice::new(message)];
                count += 1;
            }
            if count == 0 {
                return Ok(sent);
            }
            let mut frames = [TxPacket::default(); BATCH];
            for (i, frame) in frames[..count].iter_mut().enumerate() {
                frame.header = &headers[i][..lens[i].0];
                frame.checksum = lens[i].1;
                frame.payload = &payloads[i];
            }
            let taken = self.give(&frames[..count])?;
            if taken > 0 {
                let left = sent * message_len..bytes.len().min((sent + taken) * message_len);
                self.core.come_back(via, &packet, &bytes[left], message_len);
            }
            sent += taken;
            *self.core.counters.messages_sent(packet.protocol) += taken as u64;
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
    ) -> io::Result<Result<bool, Error>> {
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
                let beside = (to, Ancillary::default());
                let sent = self.udp_send_with_beside(now, id, bytes, bytes.len(), beside)?;
                return Ok(sent.map(|sent| sent > 0));
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

    /// As [`Stack::udp_stage`] when messages come fast, with the promise that none waits longer than `most`.
    /// False: send it alone.
    ///
    /// # Errors
    /// As [`Stack::udp_send`].
    pub fn udp_gather(
        &mut self,
        now: Instant,
        id: SocketId,
        bytes: &[u8],
        to: Option<SocketAddr>,
        most: Duration,
    ) -> io::Result<Result<bool, Error>> {
        let idle = now.saturating_since(self.core.gathered_at) > most;
        self.core.gathered_at = now;
        if idle && self.core.staged.is_empty() {
            return Ok(Ok(false));
        }
        let first = self.core.staged.is_empty();
        let staged = self.udp_stage(now, id, bytes, to)?;
        if first && !self.core.staged.is_empty() {
            self.core.flush_at = Some(now + most);
        }
        Ok(staged)
    }

    /// Sends what is [staged](Stack::udp_stage) in a socket; false when it has to wait.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    pub fn flush_udp(&mut self, now: Instant, id: SocketId) -> io::Result<bool> {
        let Ok(udp) = self.core.table.udp(id) else { return Ok(true) };
        let Some(to) = udp.staged.to else { return Ok(true) };
        let bytes = std::mem::take(&mut udp.staged.bytes);
        let message_len = udp.staged.message_len;
        let beside = (Some(to), Ancillary::default());
        let sent = self.udp_send_with_beside(now, id, &bytes, message_len, beside);
        let Ok(udp) = self.core.table.udp(id) else { return Ok(true) };
        udp.staged.bytes = bytes;
        let done = match sent? {
            Ok(sent) => (sent * message_len).min(udp.staged.bytes.len()),
            Err(error) => {
                if udp.hears_of(to, error) {
                    udp.error = Some(error);
                }
                let lost = udp.staged.bytes.len();
                let count = lost.div_ceil(message_len.max(1)) as u64;
                self.core.counters.drops.add(Cause::UdpUnresolved, count);
                lost
            }
        };
        udp.staged.bytes.drain(..done);
        if udp.staged.bytes.is_empty() {
            udp.staged.to = None;
        }
        Ok(udp.staged.to.is_none())
    }

    /// Tries again to send what waits for a neighbour: all of it where something has changed, or else what waits no longer.
    pub(super) fn flush_pending(&mut self, now: Instant) -> io::Result<()> {
        let generation = self.core.layer.generation();
        let pending = &mut self.core.pending;
        let has_changed = generation != pending.generation || pending.is_blocked;
        let places = pending.places(Some(now).filter(|_| !has_changed));
        pending.is_blocked = false;
        if places.is_empty() {
            return Ok(());
        }
        pending.generation = generation;
        self.core.layer_speaks = true;
        let mut sent_for = Vec::new();
        for place in places {
            let Some(call) = self.core.pending.at(place) else { continue };
            let resolving = matches!(
                self.core.layer.route(now, call.to.ip(), call.beside.local),
                Err(NoPath::Resolving)
            );
            if resolving && call.until > now {
                continue;
            }
            let Some(mut call) = self.core.pending.remove(place) else { continue };
            let sent = if resolving {
                Err(Error::Unreachable)
            } else {
                let to = (Some(call.to), call.beside);
                self.udp_send_with_beside(now, call.id, &call.bytes, call.message_len, to)?
            };
            match sent {
                Ok(sent) if (sent as u64) < call.count() => {
                    call.bytes.drain(..sent * call.message_len);
                    if call.until > now {
                        // The interface is full: it says when it is not.
                        self.core.pending.put(place, call);
                        self.core.pending.is_blocked = true;
                        break;
                    }
                    self.core.counters.drops.add(Cause::UdpUnresolved, call.count());
                }
                Ok(_) => {}
                Err(error) => {
                    self.core.counters.drops.add(Cause::UdpUnresolved, call.count());
                    self.core.udp_fail(call.id, call.to, error);
                }
            }
            sent_for.push(call.id);
        }
        sent_for.into_iter().for_each(|id| self.core.forget_sent(id));
        Ok(())
    }

    /// Sends what is staged in all sockets.
    pub(super) fn flush_staged(&mut self, now: Instant) -> io::Result<()> {
        self.core.flush_at = None;
        while let Some(id) = self.core.staged.last().copied() {
            if !self.flush_udp(now, id)? {
                return Ok(());
            }
            self.core.staged.pop();
            self.core.forget_sent(id);
        }
        Ok(())
    }
}
