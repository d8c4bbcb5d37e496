//! Sending: segments become packets or super-frames, and packets leave in batches.
//!
//! A packet is planned first: its header is written, its payload stays in the connection's memory. A
//! batch of plans is then given to the device, gathered from where the bytes lie.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;

use fusewire_base::{Instant, Sum};
use fusewire_device::interface::{Capabilities, Checksum, Segmentation, TxPacket};
use fusewire_net::{Layer, Packet, Via};
use fusewire_transport::machine::TransmitKind;
use fusewire_transport::tcp::Transmit;
use fusewire_wire::tcp::{self, Flags, Header};
use fusewire_wire::{ipv4, ipv6, udp};

use super::below::Below;
use super::config::{Counters, Marking, SocketId};
use super::table::{Protocol, Table};
use super::tcp::Stream;
use crate::trace::Kind;
use crate::watch::Watch;

/// Packets planned at once.
pub const SLOTS: usize = 64;
/// Link header with tags, IPv6 header, TCP header with options.
pub const HEADER_ROOM: usize = 128;
/// Longest IP packet.
const PACKET_MAX: usize = 65_535;
/// Datagrams of a super-frame to ourselves: as many as the kernel takes.
const UDP_SEGMENTS: usize = 64;

/// What the interface can do, by value.
#[derive(Clone, Copy, Debug)]
pub struct Offload {
    pub checksum: bool,
    pub tcp: bool,
    pub udp: bool,
    /// Most datagrams of a UDP super-frame.
    pub udp_segments: usize,
    /// Most bytes of a super-frame's IP packet.
    pub packet_max: usize,
    pub mtu: usize,
}

impl Offload {
    /// Where `via` leads: to ourselves nobody makes checksums, cuts super-frames or bounds a packet.
    pub fn on(self, via: &Via) -> Offload {
        if !via.loops {
            return self;
        }
        Offload {
            checksum: true,
            tcp: true,
            udp: true,
            udp_segments: UDP_SEGMENTS,
            packet_max: PACKET_MAX,
            mtu: via.mtu,
        }
    }

    pub fn of(caps: &Capabilities) -> Offload {
        Offload {
            checksum: caps.checksum,
            tcp: caps.tcp_segmentation && caps.checksum,
            udp: caps.udp_segmentation && caps.checksum,
            udp_segments: caps.udp_segments_max().max(1),
            packet_max: caps.max_packet_bytes.saturating_sub(18).min(PACKET_MAX),
            mtu: caps.mtu,
        }
    }

    /// Most payload bytes of a UDP super-frame.
    pub fn udp_payload_max(&self, is_v6: bool) -> usize {
        let header = if is_v6 { ipv6::HEADER_LEN } else { ipv4::MIN_HEADER_LEN };
        self.packet_max.saturating_sub(header + udp::HEADER_LEN)
    }

    /// Joins segments that follow one another to a super-frame. Returns one that does not belong to it.
    fn merge(
        self,
        now: Instant,
        stream: &mut Stream,
        first: &mut Transmit,
        payload: &mut Range<u64>,
        segment_len: usize,
    ) -> Option<Transmit> {
        if first.header.flags.any(Flags::CWR | Flags::URG) {
            return None;
        }
        let most = self.packet_max - HEADER_ROOM;
        stream.tcp.extend(now, first, most as u64);
        payload.end = first.payload.as_ref().map_or(payload.end, |p| p.end);
        loop {
            let len = (payload.end - payload.start) as usize;
            if !len.is_multiple_of(segment_len) || len + segment_len > most {
                return None;
            }
            let next = stream.tcp.poll_transmit(now)?;
            if !follows(first, payload, segment_len, &next) {
                return Some(next);
            }
            first.header.flags |= next.header.flags;
            payload.end = next.payload.as_ref().map_or(payload.end, |p| p.end);
        }
    }
}

/// A packet that is to leave.
#[derive(Clone, Debug)]
struct Planned {
    header_len: usize,
    /// Whose memory the payload lies in.
    socket: Option<SocketId>,
    payload: Range<u64>,
    checksum: Checksum,
    segmentation: Segmentation,
    kind: Kind,
}

/// The packets that are to leave.
pub struct Output {
    pub headers: Box<[[u8; HEADER_ROOM]]>,
    planned: Vec<Planned>,
    /// Pieces of the payloads of a batch; empty between calls.
    pieces: Vec<IoSlice<'static>>,
    /// Those before it have left.
    done: usize,
    pub offload: Offload,
}

impl Output {
    pub fn new(caps: &Capabilities) -> Output {
        Output {
            headers: vec![[0; HEADER_ROOM]; SLOTS].into_boxed_slice(),
            planned: Vec::with_capacity(SLOTS),
            pieces: Vec::with_capacity(2 * SLOTS),
            done: 0,
            offload: Offload::of(caps),
        }
    }

    /// Packets that are planned.
    pub fn planned(&self) -> usize {
        self.planned.len()
    }

    /// Packets that may still be planned.
    pub fn room(&self) -> usize {
        SLOTS - self.planned.len()
    }

    /// Packets that wait for the device.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Plans a TCP segment without payload that belongs to no connection; false without room.
    pub fn control(&mut self, via: &Via, header: &Header, marking: Marking) -> bool {
        self.room() > 0 && {
            self.plan(via, header, 0, Sum::ZERO, marking, 0);
            true
        }
    }

    /// Writes the header of a packet whose payload has a length and, when the device does not make
    /// it, a sum.
    fn plan(
        &mut self,
        via: &Via,
        header: &Header,
        payload_len: usize,
        payload_sum: Sum,
        marking: Marking,
        ecn: u8,
    ) -> &mut Planned {
        let slot = &mut self.headers[self.planned.len()];
        let tcp_len = header.emit_len();
        let packet = Packet {
            traffic_class: marking.traffic_class & !3 | ecn,
            hop_limit: marking.hop_limit,
            ..Packet::new(tcp::NUMBER, tcp_len + payload_len)
        };
        let start = via.emit(&packet, slot);
        let pseudo = via.pseudo_header_sum(tcp::NUMBER, tcp_len + payload_len);
        let out = &mut slot[start..];
        header.emit(out);
        let partial = self.offload.on(via).checksum && payload_len > 0;
        let field = if partial {
            pseudo.folded()
        } else {
            out[16..18].fill(0);
            (pseudo + Sum::of_few(&out[..tcp_len]) + payload_sum).checksum()
        };
        out[16..18].copy_from_slice(&field.to_be_bytes());
        let checksum = if partial {
            Checksum::Partial { start: start as u16, offset: 16 }
        } else {
            Checksum::InPlace
        };
        self.planned.push(Planned {
            header_len: start + tcp_len,
            socket: None,
            payload: 0..0,
            checksum,
            segmentation: Segmentation::None,
            kind: Kind::Sent,
        });
        let last = self.planned.len() - 1;
        &mut self.planned[last]
    }

    /// Plans what a connection has to send; false when there was more than room.
    pub fn collect(&mut self, now: Instant, via: &Via, id: SocketId, stream: &mut Stream) -> bool {
        let mut held: Option<Transmit> = None;
        let offload = self.offload.on(via);
        loop {
            if self.room() == 0 || (held.is_none() && self.room() < 2) {
                debug_assert!(held.is_none());
                return false;
            }
            let Some(mut transmit) = held.take().or_else(|| stream.tcp.poll_transmit(now)) else {
                return true;
            };
            let ecn = if transmit.ecn_capable { 2 } else { 0 };
            let Some(mut payload) = transmit.payload.clone() else {
                let kind = Kind::leaving(&transmit, stream.tcp.again());
                stream.trace.segment(kind, now, &transmit.header, 0);
                let marking = stream.marking;
                self.plan(via, &transmit.header, 0, Sum::ZERO, marking, ecn).kind = kind;
                continue;
            };
            let segment_len = (payload.end - payload.start) as usize;
            if offload.tcp && self.room() >= 2 {
                held = offload.merge(now, stream, &mut transmit, &mut payload, segment_len);
            }
            let len = (payload.end - payload.start) as usize;
            let kind = Kind::leaving(&transmit, stream.tcp.again());
            stream.trace.segment(kind, now, &transmit.header, len as u32);
            let payload_sum =
                if offload.checksum { Sum::ZERO } else { stream.payload_sum(&payload) };
            let planned = self.plan(via, &transmit.header, len, payload_sum, stream.marking, ecn);
            (planned.socket, planned.kind) = (Some(id), kind);
            planned.payload = payload;
            if len > segment_len {
                planned.segmentation =
                    Segmentation::Tcp { segment_len: segment_len as u16, ecn: false };
            }
        }
    }

    /// Gives what is planned to the device; false when the device is full.
    ///
    /// # Errors
    /// The interface's.
    pub fn flush(
        &mut self,
        interface: &mut Below,
        layer: &Layer,
        table: &Table,
        counters: &mut Counters,
        watch: &mut Watch,
    ) -> io::Result<bool> {
        while self.done < self.planned.len() {
            let mut pieces: Vec<IoSlice<'_>> = std::mem::take(&mut self.pieces);
            let mut ends = [0; SLOTS];
            let plans = &self.planned[self.done..];
            // A connection that is gone has nothing to send any more.
            let mut count = 0;
            for (plan, end) in plans.iter().zip(&mut ends) {
                if let Some(id) = plan.socket {
                    let stream = table.stream_seen(id.index).filter(|_| table.id(id.index) == id);
                    let Some(stream) = stream.filter(|s| s.needs(&plan.payload)) else { break };
                    let payload = plan.payload.clone();
                    stream.send.gather(payload, |piece| pieces.push(IoSlice::new(piece)));
                }
                *end = pieces.len();
                count += 1;
            }
            if count == 0 {
                self.done += 1;
                continue;
            }
            let mut packets = [TxPacket::default(); SLOTS];
            let headers = &self.headers[self.done..];
            let mut begin = 0;
            for (((packet, plan), header), end) in
                packets.iter_mut().zip(plans).zip(headers).zip(ends).take(count)
            {
                packet.header = &header[..plan.header_len];
                packet.payload = &pieces[begin..end];
                (packet.checksum, packet.segmentation) = (plan.checksum, plan.segmentation);
                begin = end;
            }
            let taken = interface.transmit(&packets[..count], layer)?;
            counters.sent += taken as u64;
            watch.sent(&packets[..taken], |at| plans[at].kind.words());
            pieces.clear();
            // The same allocation, with no borrow left in it.
            self.pieces = pieces.into_iter().map(|_| IoSlice::new(&[])).collect();
            self.done += taken;
            if taken < count {
                return Ok(false);
            }
        }
        self.planned.clear();
        self.done = 0;
        Ok(true)
    }
}

/// `next` goes on where the super-frame ends, and differs in nothing that segmentation does not make.
fn follows(first: &Transmit, payload: &Range<u64>, segment_len: usize, next: &Transmit) -> bool {
    let (a, b) = (&first.header, &next.header);
    next.kind == TransmitKind::Data
        && next
            .payload
            .as_ref()
            .is_some_and(|p| p.start == payload.end && (p.end - p.start) as usize <= segment_len)
        && a.flags.without(Flags::PSH) == b.flags.without(Flags::PSH)
        && (a.ack, a.window, a.options) == (b.ack, b.window, b.options)
        && first.ecn_capable == next.ecn_capable
}

/// Bytes between IP's header and a datagram's own: XTP has nothing there.
pub fn datagram_header_len(protocol: Protocol) -> usize {
    if protocol == Protocol::Udp { udp::HEADER_LEN } else { 0 }
}

/// The peer and what a packet of a datagram is to look like.
#[derive(Clone, Copy, Debug)]
pub struct UdpPacket {
    pub protocol: Protocol,
    pub src_port: u16,
    pub dst: SocketAddr,
    pub marking: Marking,
}

impl UdpPacket {
    /// What goes before `len` bytes of UDP.
    pub fn ip(&self, len: usize) -> Packet {
        // How far a datagram to a group goes has nothing to do with how far others do.
        let hop_limit = match self.dst.ip().is_multicast() {
            true => self.marking.group_hops,
            false => self.marking.hop_limit,
        };
        let traffic_class = self.marking.traffic_class;
        Packet { traffic_class, hop_limit, ..Packet::new(self.protocol as u8, len) }
    }

    /// It is for a group, and leaves this host by no hop (RFC 1112, section 6.1).
    pub fn stays_here(&self) -> bool {
        self.dst.ip().is_multicast() && self.marking.group_hops == Some(0)
    }

    /// Bytes between IP's header and the datagram's own.
    pub fn header_len(&self) -> usize {
        datagram_header_len(self.protocol)
    }
}

impl Output {
    /// Writes the headers of a datagram or super-frame; returns their length and what is left for the device. Asks for
    /// the sum of the payload where nothing is. XTP's sum is in what the datagram has of its own.
    pub fn udp_header(
        &self,
        via: &Via,
        packet: UdpPacket,
        payload_len: usize,
        payload_sum: impl FnOnce() -> Sum,
        out: &mut [u8; HEADER_ROOM],
    ) -> (usize, Checksum) {
        let len = payload_len + packet.header_len();
        let start = via.emit(&packet.ip(len), out);
        if packet.protocol == Protocol::Xtp {
            return (start, Checksum::InPlace);
        }
        let pseudo = via.pseudo_header_sum(udp::NUMBER, len);
        let mut header = udp::Header {
            src_port: packet.src_port,
            dst_port: packet.dst.port(),
            len: len as u16,
            checksum: 0,
        };
        let at = &mut out[start..];
        let checksum = if self.offload.on(via).checksum {
            header.checksum = pseudo.folded();
            Checksum::Partial { start: start as u16, offset: 6 }
        } else {
            header.emit(at);
            let head = pseudo + Sum::of_few(&at[..8]);
            header.checksum = udp_checksum(head + payload_sum());
            Checksum::InPlace
        };
        header.emit(at);
        (start + 8, checksum)
    }
}

/// The checksum field for a sum; zero would mean that there is none (RFC 768).
pub fn udp_checksum(sum: Sum) -> u16 {
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}
