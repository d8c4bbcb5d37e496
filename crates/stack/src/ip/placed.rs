//! Receiving a stream without a copy of ours: the interface puts the payload of the next segment straight into
//! the reader's memory, its headers into its own.
//!
//! ```text
//!   interface ──┬── head: as long as that of the last segment ──▶ looked at: is it the next segment?
//!               └── what follows ──▶ the reader's memory ──sum, unless the device vouches──▶ it stays there
//!                                          └── not the next: wiped here, and taken as any other packet
//! ```
//! A reader that is alone cannot reach its memory before the call returns, and then sees only what was verified (Law 3).
//!
//! An outboard's rings their applications can see all the time ([`Places`]). Into those goes only what is known before it is taken
//! to be the next of its own connection, with a checksum that the kernel vouches for; no index tells of it before the transport
//! has accepted it. What the transport refuses all the same, such as what is beyond the window, is wiped: who looks behind the
//! index meanwhile sees what this peer has sent him, and nobody else's.
//!
//! ```text
//!   interface ── front of the next packet ──▶ of which stream, and is it the next? where does it belong?
//!             ──┬── head ──▶ the same as the front's? accepted?
//!               └── what follows ──▶ the ring of that stream's reader, in two parts where it ends between
//! ```
use std::io;
use std::net::SocketAddr;

use fusewire_base::{Instant, Sum};
use fusewire_device::interface::{Checksum, RxPacket, Segmentation, Split};
use fusewire_kernels::sum;
use fusewire_wire::tcp::{Flags, Header};

use super::config::SocketId;
use super::input::Direct;
use super::reader::Place;
use super::stack::{Core, Stack};
use super::table::Flow;
use super::tcp::Segment;

/// Packets that one call takes at most.
const PACKETS: usize = 64;
/// The longest head of a plain segment: of Ethernet, IPv6 and TCP with all its options.
const HEAD_MAX: usize = 14 + 40 + 60;

/// Memory of the readers of many streams, which see it while it is filled.
pub trait Places {
    /// Where the next `len` bytes of a stream belong, all of them: in two parts, one behind the other, of which the second may be
    /// empty. `None`: there is no such place, or no room.
    fn room(&mut self, id: SocketId, len: usize) -> Option<[&mut [u8]; 2]>;

    /// The next `len` bytes of it are there, verified.
    fn landed(&mut self, id: SocketId, len: usize);
}

/// What [`Stack::receive_into`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Packets, or super-frames.
    pub packets: usize,
    /// It took as much as it was to: there may be more at once.
    pub has_more: bool,
}

impl Stack {
    /// Takes what waits, up to about `most` bytes. Payload that is the next of a stream goes straight to its place: by the
    /// interface itself where it shows packets before they are taken, otherwise in the pass that verifies it.
    ///
    /// # Errors
    /// The interface's.
    pub fn receive_into(
        &mut self,
        now: Instant,
        places: &mut dyn Places,
        most: usize,
    ) -> io::Result<Taken> {
        self.follow(now)?;
        let (mut packets, mut bytes) = (0, 0);
        let mut has_more = true;
        while has_more && packets < PACKETS && bytes < most {
            let front = self.front();
            bytes += front.as_ref().map_or(0, |front| front.len);
            if let Some(front) = &front
                && self.lay_next(now, front, places)?
            {
                packets += 1;
                continue;
            }
            let count = self.receive(now, &mut Direct::Streams(places))?;
            packets += count;
            has_more = count > 0;
        }
        if packets > 0 {
            self.core.settle_dirty();
        }
        Ok(Taken { packets, has_more })
    }

    /// The front of the next packet, where the interface shows it.
    fn front(&mut self) -> Option<Front> {
        // A capture shows whole packets.
        if self.has_unread() || self.core.watch.is_watching() {
            return None;
        }
        let (packet, len) = self.interface.peek()?;
        let shown = packet.bytes.len().min(HEAD_MAX);
        let mut bytes = [0; HEAD_MAX];
        bytes[..shown].copy_from_slice(&packet.bytes[..shown]);
        let RxPacket { checksum, segmentation, .. } = packet;
        Some(Front { bytes, shown, len, checksum, segmentation })
    }

    /// Takes the next packet, if its front says that it is the next of a stream that has a place, known to be what was sent, and
    /// nothing else: its payload goes there. False: nothing was taken.
    fn lay_next(
        &mut self,
        now: Instant,
        front: &Front,
        places: &mut dyn Places,
    ) -> io::Result<bool> {
        let Some((head, index)) = self.core.next_of_stream(front) else { return Ok(false) };
        let (id, len) = (self.core.table.id(index), head.payload_len);
        let Some([first, second]) = places.room(id, len) else { return Ok(false) };
        match self.interface.receive_split(head.head_len, [&mut *first, &mut *second])? {
            Split::Packet { .. } => {}
            Split::Nothing => return Ok(true),
            Split::Unsupported => return Ok(false),
        }
        let packet = self.interface.packet(0);
        if front.is_of(&packet, head.head_len) && self.core.landed(now, &head, index) {
            places.landed(id, len);
            return Ok(true);
        }
        self.interface.rejoin([&*first, &*second]);
        first.fill(0);
        second.fill(0);
        self.core.input(now, &self.interface.packet(0), &mut Direct::None);
        Ok(true)
    }

    /// Takes packets as long as they are the next of this connection and `place`, which nobody else sees, has room for the
    /// longest; returns how many packets came, of whatever kind. `None`: this is not the way, for now.
    ///
    /// # Errors
    /// The interface's, when nothing came before.
    pub(super) fn receive_placed(
        &mut self,
        now: Instant,
        index: u32,
        place: &mut Place<'_>,
    ) -> io::Result<Option<usize>> {
        if self.core.watch.is_watching() {
            return Ok(None);
        }
        let longest = self.interface.capabilities().max_packet_bytes;
        let mut packets = 0;
        while packets < PACKETS {
            let head_len = match self.core.table.stream_at(index).map(|stream| stream.next_head()) {
                Some(Some(head_len)) if !self.has_unread() => head_len,
                _ => break,
            };
            let room = &mut place.memory[place.filled..];
            if room.len() + head_len < longest {
                break;
            }
            let len = match self.interface.receive_split(head_len, [&mut *room, &mut []]) {
                Ok(Split::Packet { len }) => len,
                Ok(Split::Nothing) => return Ok(Some(self.settle_placed(packets))),
                Ok(Split::Unsupported) => break,
                Err(_) if packets > 0 => break,
                Err(e) => return Err(e),
            };
            packets += 1;
            let payload_len = len.saturating_sub(head_len).min(room.len());
            let packet = self.interface.packet(0);
            if self.core.input_placed(now, &packet, payload_len, index, place) {
                continue;
            }
            let astray = &mut place.memory[place.filled..][..payload_len];
            self.interface.rejoin([astray, &[]]);
            astray.fill(0);
            let mut direct = Direct::Stream { index, reader: place };
            self.core.input(now, &self.interface.packet(0), &mut direct);
        }
        Ok((packets > 0).then(|| self.settle_placed(packets)))
    }

    fn settle_placed(&mut self, packets: usize) -> usize {
        if packets > 0 {
            self.core.settle_dirty();
        }
        packets
    }
}

/// What is seen of a packet before it is taken.
struct Front {
    bytes: [u8; HEAD_MAX],
    /// How many of them.
    shown: usize,
    /// Bytes of all of it.
    len: usize,
    checksum: Checksum,
    segmentation: Segmentation,
}

impl Front {
    /// Of a packet that was taken `packet` has the head, and it is this one's.
    fn is_of(&self, packet: &RxPacket<'_>, head_len: usize) -> bool {
        packet.bytes == &self.bytes[..head_len]
            && packet.checksum == self.checksum
            && packet.segmentation == self.segmentation
    }
}

/// The head of a packet whose payload, all of it, is the next of a connection's stream, or looks like it.
struct Head {
    /// Our address, and the peer's.
    ends: (SocketAddr, SocketAddr),
    header: Header,
    /// Bytes of all headers, and behind them.
    head_len: usize,
    payload_len: usize,
    /// Sum of pseudo-header and header, when the checksum is still to be verified.
    unverified: Option<Sum>,
    /// Segments on the wire.
    count: usize,
    marked: bool,
}

impl Head {
    fn segment(&self) -> Segment<'_> {
        Segment {
            header: &self.header,
            head: self.unverified,
            payload: &[],
            len: self.payload_len,
            count: self.count as u32,
            marked: self.marked,
        }
    }
}

impl Core {
    /// What the head of a packet says, of which `packet` has at least the headers, and `beyond` more bytes than that there are;
    /// `None`: it is not one of a plain segment.
    fn head(&self, packet: &RxPacket<'_>, beyond: usize) -> Option<Head> {
        let datagram = self.layer.handle_head(packet.bytes, beyond)?;
        let start = datagram.payload.in_frame().map_or(0, |place| place.start);
        let header = Header::parse(packet.bytes.get(start..)?).ok()?;
        let head_len = start + usize::from(header.header_len);
        let payload_len = (packet.bytes.len() + beyond).checked_sub(head_len)?;
        let plain = Flags::ACK.with(Flags::PSH);
        if payload_len == 0 || header.flags.without(plain) != Flags::default() {
            return None;
        }
        let unverified = match packet.checksum {
            Checksum::Verified => false,
            Checksum::InPlace | Checksum::Summed(_) => true,
            Checksum::Partial { start: at, offset: 16 } if usize::from(at) == start => false,
            Checksum::Partial { .. } => return None,
        };
        let count = match packet.segmentation {
            Segmentation::None => 1,
            Segmentation::Tcp { segment_len: 1.., .. } if unverified => return None,
            Segmentation::Tcp { segment_len: each @ 1.., .. } => payload_len.div_ceil(each.into()),
            _ => return None,
        };
        let head = packet.bytes.get(start..head_len)?;
        Some(Head {
            ends: (
                SocketAddr::new(datagram.destination, header.dst_port),
                SocketAddr::new(datagram.source, header.src_port),
            ),
            head_len,
            payload_len,
            unverified: unverified.then(|| datagram.pseudo_header + Sum::of_few(head)),
            count,
            marked: datagram.traffic_class & 3 == 3,
            header,
        })
    }

    /// The packet that begins so is the next of this connection's and is known to be what was sent.
    fn next_of_stream(&mut self, front: &Front) -> Option<(Head, u32)> {
        let Front { checksum, segmentation, .. } = *front;
        let packet = RxPacket { bytes: &front.bytes[..front.shown], checksum, segmentation };
        let head = self.head(&packet, front.len.checked_sub(front.shown)?)?;
        let flow = Flow::new(head.ends.0, head.ends.1);
        let index = match self.last {
            Some((known, index)) if known == flow => index,
            _ => *self.table.flows.get(&flow)?,
        };
        let stream = self.table.stream_at(index)?;
        let is_it = head.unverified.is_none()
            && stream.is_clear()
            && stream.tcp.is_next(head.header.seq)
            && (stream.tuple.local, stream.tuple.remote) == head.ends;
        is_it.then_some((head, index))
    }

    /// The payload of this packet lies where it belongs. False: it is not the next, and nothing was done.
    fn landed(&mut self, now: Instant, head: &Head, index: u32) -> bool {
        let Some(stream) = self.table.stream_at(index) else { return false };
        if stream.handle_landed(now, &head.segment(), |_| true) != Some(true) {
            return false;
        }
        stream.head_len = head.head_len;
        // There is room for as much more.
        stream.consume(0);
        self.last = Some((Flow::new(head.ends.0, head.ends.1), index));
        self.note_placed(index);
        true
    }

    fn note_placed(&mut self, index: u32) {
        self.counters.received += 1;
        self.counters.placed += 1;
        self.layer.note_delivered();
        self.mark(index);
    }

    /// A packet of which `packet` holds the head, and the reader's memory the other `payload_len` bytes. False:
    /// it is not the next segment of this connection and nothing else; nothing was done then.
    fn input_placed(
        &mut self,
        now: Instant,
        packet: &RxPacket<'_>,
        payload_len: usize,
        index: u32,
        place: &mut Place<'_>,
    ) -> bool {
        let Some(head) = self.head(packet, payload_len) else { return false };
        let Some(stream) = self.table.stream_at(index) else { return false };
        if head.head_len != packet.bytes.len()
            || (stream.tuple.local, stream.tuple.remote) != head.ends
        {
            return false;
        }
        let bytes = &mut place.memory[place.filled..][..payload_len];
        let verifies =
            |level| head.unverified.is_none_or(|head| (head + sum(level, bytes)).verifies());
        match stream.handle_landed(now, &head.segment(), verifies) {
            Some(true) => place.filled += payload_len,
            Some(false) => bytes.fill(0),
            None => return false,
        }
        self.note_placed(index);
        true
    }
}
