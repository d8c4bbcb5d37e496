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
//! An outboard's ring its application can see all the time. Into that goes only what is known before it is taken to be the next
//! of its own connection, with a checksum that the kernel vouches for; no index tells of it before the transport has
//! accepted it. What the transport refuses all the same, such as what is beyond the window, is wiped: who looks behind the index
//! meanwhile sees what this peer has sent him, and nobody else's.

use std::io;
use std::net::SocketAddr;

use fusewire_base::{Instant, Sum};
use fusewire_device::interface::{Checksum, RxPacket, Segmentation, Split};
use fusewire_wire::tcp::{Flags, Header};

use super::input::Direct;
use super::reader::Place;
use super::stack::{Core, Stack};
use super::tcp::Segment;

/// Packets that one call takes at most.
const PACKETS: usize = 64;

impl Stack {
    /// Takes packets as long as they are the next of this connection and `place` has room for the longest;
    /// returns how many packets came, of whatever kind. `None`: this is not the way, for now.
    ///
    /// `is_alone`: nobody else sees `place`, into which packets may go that are found to belong elsewhere, and are wiped then.
    /// Otherwise only what is known to belong there is taken.
    ///
    /// # Errors
    /// The interface's, when nothing came before.
    pub(super) fn receive_placed(
        &mut self,
        now: Instant,
        index: u32,
        place: &mut Place<'_>,
        is_alone: bool,
    ) -> io::Result<Option<usize>> {
        if self.core.watch.is_watching() {
            // A capture shows whole packets.
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
            if is_alone && room.len() + head_len < longest {
                break;
            }
            if !is_alone {
                let Some((packet, len)) = self.interface.peek(head_len)? else { break };
                let payload_len = len.saturating_sub(head_len);
                if payload_len > room.len() || !self.core.is_next(&packet, payload_len, index) {
                    break;
                }
            }
            let len = match self.interface.receive_split(head_len, room) {
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
            self.interface.rejoin(astray);
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

/// The head of a packet whose payload, all of it, is the next of a connection's stream, or looks like it.
struct Head {
    /// Our address, and the peer's.
    ends: (SocketAddr, SocketAddr),
    header: Header,
    /// Sum of pseudo-header and header, when the checksum is still to be verified.
    unverified: Option<Sum>,
    /// Segments on the wire.
    count: usize,
    marked: bool,
}

impl Core {
    /// What the head of a packet says, of which `payload_len` bytes lie elsewhere; `None`: it is not one of a plain segment.
    fn head(&self, packet: &RxPacket<'_>, payload_len: usize) -> Option<Head> {
        let datagram = self.layer.handle_head(packet.bytes, payload_len)?;
        let start = datagram.payload.in_frame().map_or(0, |place| place.start);
        let head = packet.bytes.get(start..).unwrap_or_default();
        let header = Header::parse(head).ok()?;
        let plain = Flags::ACK.with(Flags::PSH);
        if usize::from(header.header_len) != head.len()
            || header.flags.without(plain) != Flags::default()
        {
            return None;
        }
        let unverified = match packet.checksum {
            Checksum::Verified => false,
            Checksum::InPlace => true,
            Checksum::Partial { start: at, offset: 16 } if usize::from(at) == start => false,
            Checksum::Partial { .. } => return None,
        };
        let count = match packet.segmentation {
            Segmentation::None => 1,
            Segmentation::Tcp { segment_len: 1.., .. } if unverified => return None,
            Segmentation::Tcp { segment_len: each @ 1.., .. } => payload_len.div_ceil(each.into()),
            _ => return None,
        };
        Some(Head {
            ends: (
                SocketAddr::new(datagram.destination, header.dst_port),
                SocketAddr::new(datagram.source, header.src_port),
            ),
            unverified: unverified.then(|| datagram.pseudo_header + Sum::of_few(head)),
            count,
            marked: datagram.traffic_class & 3 == 3,
            header,
        })
    }

    /// The packet, of which so much is seen, is the next of this connection's and is known to be what was sent.
    fn is_next(&mut self, packet: &RxPacket<'_>, payload_len: usize, index: u32) -> bool {
        let Some(head) = self.head(packet, payload_len).filter(|_| payload_len > 0) else {
            return false;
        };
        let Some(stream) = self.table.stream_at(index) else { return false };
        head.unverified.is_none()
            && (stream.tuple.local, stream.tuple.remote) == head.ends
            && stream.tcp.is_next(head.header.seq)
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
        if payload_len == 0 {
            return false;
        }
        let Some(head) = self.head(packet, payload_len) else { return false };
        let landed = Segment {
            header: &head.header,
            head: head.unverified,
            payload: &[],
            len: payload_len,
            count: head.count as u32,
            marked: head.marked,
        };
        let Some(stream) = self.table.stream_at(index) else { return false };
        if (stream.tuple.local, stream.tuple.remote) != head.ends
            || !stream.handle_landed(now, &landed, place)
        {
            return false;
        }
        self.counters.received += 1;
        self.layer.note_delivered();
        self.mark(index);
        true
    }
}
