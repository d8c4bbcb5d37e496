//! The interface alone: prepared frames out, frames in and away, and of the protocols no more than keeps
//! the kernel at the other end going. What a stack over the same interface cannot exceed.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fusewire_base::Seq;
use fusewire_device::interface::tap::{Config, Tap};
use fusewire_device::interface::{Checksum, Interface, Segmentation, TxPacket};
use fusewire_wire::tcp::{self, Flags};
use fusewire_wire::{ethernet, ipv4, udp};

use super::task::{
    MARK, Meter, NAP, PATIENCE, Protocol, Report, Role, Task, Vain, WINDOW, ask, settle,
    stream_byte,
};
use crate::process::listens;
use crate::{Error, Result};

/// Ethernet and IPv4.
const NETWORK_LEN: usize = ethernet::HEADER_LEN + ipv4::MIN_HEADER_LEN;
/// Payload of an IP fragment: a multiple of 8 that fits an MTU of 1500.
const FRAGMENT_BYTES: usize = 1480;
/// Frames that one `transmit` takes.
const BATCH: usize = 8;
/// Largest TCP segment, and how many make a super-frame.
const MSS: usize = 1460;
const SUPER_SEGMENTS: usize = 44;
/// Of the window that we offer.
const WINDOW_SCALE: u8 = 10;

pub fn work(task: &Task) -> Result<Report> {
    let config = Config { name: task.tap.clone(), ..Config::default() };
    let tap = Tap::open(&config).map_err(Error::os("opening a TAP"))?;
    settle(&task.tap)?;
    let (IpAddr::V4(local), IpAddr::V4(peer)) = (task.local.ip(), task.peer.ip()) else {
        return Err(Error::Unsupported("the raw device speaks IPv4 alone".into()));
    };
    let wire = Wire { mac: super::wires::RAW_MAC, local, peer, tap, task, spent: Duration::ZERO };
    match (task.protocol, task.role) {
        (Protocol::Udp, Role::Send) => wire.udp_send(),
        (Protocol::Udp, Role::Receive) => wire.udp_receive(),
        (Protocol::Udp, Role::Ask) => wire.udp_ask(),
        (Protocol::Tcp, Role::Send) => wire.tcp_send(),
        (Protocol::Tcp, Role::Receive) => wire.tcp_receive(),
        _ => Err(Error::Unsupported("the raw device does not answer".into())),
    }
}

struct Wire<'a> {
    task: &'a Task,
    tap: Tap,
    /// Time inside the interface with a stream's segments.
    spent: Duration,
    mac: [u8; 6],
    local: Ipv4Addr,
    peer: Ipv4Addr,
}

/// A frame to send again and again.
struct Prepared {
    header: Vec<u8>,
    payload: Vec<u8>,
    checksum: Checksum,
    segmentation: Segmentation,
}

impl Prepared {
    fn packet<'p>(&'p self, payload: &'p [IoSlice<'p>]) -> TxPacket<'p> {
        let Prepared { header, checksum, segmentation, .. } = self;
        TxPacket { header, payload, checksum: *checksum, segmentation: *segmentation }
    }
}

impl Wire<'_> {
    /// Ethernet and IPv4 headers before `len` bytes.
    fn network(&self, protocol: u8, len: usize, fragment: Option<(u16, bool)>) -> Vec<u8> {
        let mut bytes = vec![0; NETWORK_LEN];
        let ethernet = ethernet::Header {
            destination: ethernet::Address(self.task.peer_mac),
            source: ethernet::Address(self.mac),
            ethertype: ethernet::EtherType::IPV4,
            header_len: 0,
        };
        let at = ethernet.emit(&mut bytes);
        let (fragment_offset, more_fragments) = fragment.unwrap_or((0, false));
        let ip = ipv4::Header {
            tos: 0,
            total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
            identification: 0,
            dont_fragment: fragment.is_none(),
            more_fragments,
            fragment_offset,
            ttl: 64,
            protocol,
            source: self.local,
            destination: self.peer,
            header_len: 0,
        };
        ip.emit(&mut bytes[at..]);
        bytes
    }

    fn pseudo_header(&self, protocol: u8, len: usize) -> u16 {
        ipv4::pseudo_header_sum(self.local, self.peer, protocol, len as u16).folded()
    }

    /// One datagram, or a super-frame of several.
    fn datagrams(&self, count: usize) -> Prepared {
        let size = self.task.size;
        let len = udp::HEADER_LEN + size * count;
        let mut header = self.network(udp::NUMBER, len, None);
        header.resize(NETWORK_LEN + udp::HEADER_LEN, 0);
        let checksum = self.pseudo_header(udp::NUMBER, len);
        self.udp_header(len, checksum).emit(&mut header[NETWORK_LEN..]);
        Prepared {
            header,
            payload: vec![MARK; size * count],
            checksum: Checksum::Partial { start: NETWORK_LEN as u16, offset: 6 },
            segmentation: if count > 1 {
                Segmentation::Udp { segment_len: size as u16 }
            } else {
                Segmentation::None
            },
        }
    }

    fn udp_header(&self, len: usize, checksum: u16) -> udp::Header {
        udp::Header {
            src_port: self.task.local.port(),
            dst_port: self.task.peer.port(),
            len: len as u16,
            checksum,
        }
    }

    /// One datagram that is longer than a packet, without a checksum (RFC 768 lets it).
    fn fragments(&self) -> Vec<Prepared> {
        let mut datagram = vec![MARK; udp::HEADER_LEN + self.task.size];
        self.udp_header(datagram.len(), 0).emit(&mut datagram);
        let fragment = |(i, payload): (usize, &[u8])| {
            let at = i * FRAGMENT_BYTES;
            let more = at + payload.len() < datagram.len();
            Prepared {
                header: self.network(udp::NUMBER, payload.len(), Some((at as u16, more))),
                payload: payload.to_vec(),
                checksum: Checksum::InPlace,
                segmentation: Segmentation::None,
            }
        };
        datagram.chunks(FRAGMENT_BYTES).enumerate().map(fragment).collect()
    }

    fn udp_send(mut self) -> Result<Report> {
        let fits = self.task.size <= FRAGMENT_BYTES - udp::HEADER_LEN;
        let (frames, messages) = if fits {
            let count = self.task.messages_per_super_frame();
            ((0..BATCH).map(|_| self.datagrams(count)).collect(), count * BATCH)
        } else {
            (self.fragments(), 1)
        };
        let pieces: Vec<[IoSlice<'_>; 1]> =
            frames.iter().map(|f| [IoSlice::new(&f.payload)]).collect();
        let packets: Vec<TxPacket<'_>> =
            frames.iter().zip(&pieces).map(|(frame, payload)| frame.packet(payload)).collect();
        let mut meter = Meter::new(self.task);
        loop {
            let started = Instant::now();
            send_all(&mut self.tap, &packets)?;
            meter.device += started.elapsed();
            if !meter.count_sent(messages as u64) {
                return meter.report();
            }
        }
    }

    fn udp_receive(mut self) -> Result<Report> {
        listens(self.task.local)?;
        let mut meter = Meter::new(self.task);
        let mut bytes_over = 0;
        let mut vain = Vain::default();
        loop {
            let started = Instant::now();
            let count = self.tap.receive().map_err(Error::os("receiving"))?;
            if count == 0 {
                if vain.is_over(false) {
                    return meter.report();
                }
                continue;
            }
            meter.device += started.elapsed();
            vain.is_over(true);
            let payload = |i| {
                let packet = self.tap.packet(i);
                let is_udp = packet.bytes.get(ethernet::HEADER_LEN + 9) == Some(&udp::NUMBER);
                if is_udp { udp_payload_len(packet.bytes) } else { 0 }
            };
            bytes_over += (0..count).map(payload).sum::<usize>();
            let messages = bytes_over / self.task.size;
            bytes_over %= self.task.size;
            if messages > 0 && !meter.count(messages as u64) {
                return meter.report();
            }
        }
    }

    fn udp_ask(mut self) -> Result<Report> {
        let frame = self.datagrams(1);
        let task = self.task;
        let reply = task.local.port().to_be_bytes();
        ask(task.seconds, || {
            let payload = [IoSlice::new(&frame.payload)];
            send_all(&mut self.tap, &[frame.packet(&payload)])?;
            let started = Instant::now();
            loop {
                let count = self.tap.receive().map_err(Error::os("receiving"))?;
                let is_reply = |i| {
                    self.tap.packet(i).bytes.get(NETWORK_LEN + 2..NETWORK_LEN + 4) == Some(&reply)
                };
                if (0..count).any(is_reply) {
                    return Ok(());
                }
                if count == 0 && started.elapsed() > PATIENCE {
                    return Err(Error::Unsupported("no answer came".into()));
                }
            }
        })
    }

    fn segment(&self, header: &tcp::Header, payload: &[u8]) -> Prepared {
        let len = header.emit_len() + payload.len();
        let mut bytes = self.network(6, len, None);
        bytes.resize(NETWORK_LEN + header.emit_len(), 0);
        let checksum = self.pseudo_header(6, len);
        tcp::Header { checksum, ..*header }.emit(&mut bytes[NETWORK_LEN..]);
        Prepared {
            header: bytes,
            payload: Vec::new(),
            checksum: Checksum::Partial { start: NETWORK_LEN as u16, offset: 16 },
            segmentation: if payload.len() > MSS {
                Segmentation::Tcp { segment_len: MSS as u16, ecn: false }
            } else {
                Segmentation::None
            },
        }
    }

    fn send_segment(&mut self, header: &tcp::Header, payload: &[u8]) -> Result<()> {
        let frame = self.segment(header, payload);
        let pieces = [IoSlice::new(payload)];
        let started = Instant::now();
        let sent = send_all(&mut self.tap, &[frame.packet(&pieces)]);
        self.spent += started.elapsed();
        sent
    }

    fn tcp_header(&self, port: u16, flags: Flags, seq: Seq, ack: Seq) -> tcp::Header {
        let mut header = tcp::Header {
            src_port: self.task.local.port(),
            dst_port: port,
            seq,
            ack,
            flags,
            window: (WINDOW >> WINDOW_SCALE) as u16,
            ..tcp::Header::default()
        };
        if flags.has(Flags::SYN) {
            header.options.mss = Some(MSS as u16);
            header.options.window_scale = Some(WINDOW_SCALE);
            // Not scaled there.
            header.window = u16::MAX;
        }
        header
    }

    /// The next TCP segments for our port: their headers and payload lengths, without their payload.
    fn segments(&mut self, into: &mut Vec<(tcp::Header, usize)>) -> Result<()> {
        into.clear();
        let mut vain = Vain::default();
        loop {
            let begun = Instant::now();
            let count = self.tap.receive().map_err(Error::os("receiving"))?;
            if count > 0 {
                self.spent += begun.elapsed();
            }
            for i in 0..count {
                let bytes = self.tap.packet(i).bytes;
                if bytes.get(ethernet::HEADER_LEN + 9) != Some(&6) {
                    continue;
                }
                if let Some(Ok(header)) = bytes.get(NETWORK_LEN..).map(tcp::Header::parse)
                    && header.dst_port == self.task.local.port()
                {
                    let payload = bytes.len() - NETWORK_LEN - usize::from(header.header_len);
                    into.push((header, payload));
                }
            }
            if count == 0 && self.task.role == Role::Receive {
                std::thread::sleep(NAP);
            }
            if !into.is_empty() || vain.is_over(false) {
                return Ok(());
            }
        }
    }

    /// Accepts, and acknowledges whatever comes; nothing is lost on a TAP.
    fn tcp_receive(mut self) -> Result<Report> {
        listens(self.task.local)?;
        let mut meter = Meter::new(self.task);
        let mut next = Seq(0);
        let mut taken = Vec::new();
        let mut over = 0;
        let unit = if self.task.bulk { 1 } else { self.task.size };
        loop {
            self.segments(&mut taken)?;
            let Some((last, _)) = taken.last() else { return meter.report() };
            let port = last.src_port;
            if taken[0].0.flags.has(Flags::SYN) {
                next = taken[0].0.seq + 1;
                let flags = Flags::SYN.with(Flags::ACK);
                let header = self.tcp_header(port, flags, Seq(0), next);
                self.send_segment(&header, &[])?;
                continue;
            }
            let mut fresh = 0;
            for (header, payload) in &taken {
                if header.seq == next {
                    next += *payload as u32;
                    fresh += payload;
                }
            }
            let header = self.tcp_header(port, Flags::ACK, Seq(1), next);
            self.send_segment(&header, &[])?;
            over += fresh;
            meter.device = self.spent;
            let goes_on = meter.count_sent((over / unit) as u64);
            over %= unit;
            if !goes_on {
                let header = self.tcp_header(port, Flags::RST.with(Flags::ACK), Seq(1), next);
                self.send_segment(&header, &[])?;
                return meter.report();
            }
        }
    }

    /// Connects, and sends what the window lets.
    fn tcp_send(mut self) -> Result<Report> {
        let port = self.task.peer.port();
        let header = self.tcp_header(port, Flags::SYN, Seq(0), Seq(0));
        self.send_segment(&header, &[])?;
        let mut taken = Vec::new();
        self.segments(&mut taken)?;
        let Some((answer, _)) = taken.first().filter(|(h, _)| h.flags.has(Flags::SYN)) else {
            return Err(Error::Unsupported("the kernel did not accept".into()));
        };
        let theirs = answer.seq + 1;
        let scale = answer.options.window_scale.unwrap_or(0);
        let header = self.tcp_header(port, Flags::ACK, Seq(1), theirs);
        self.send_segment(&header, &[])?;
        let unit = if self.task.bulk { 1 } else { self.task.size as u64 };
        let bytes: Vec<u8> = (0..(SUPER_SEGMENTS * MSS + 251) as u64).map(stream_byte).collect();
        let mut meter = Meter::new(self.task);
        let (mut at, mut acked, mut window) = (0u64, 0u64, 65_535u64);
        loop {
            while acked + window >= at + (SUPER_SEGMENTS * MSS) as u64 {
                let header = self.tcp_header(port, Flags::ACK, Seq(1) + at as u32, theirs);
                let start = (at % 251) as usize;
                self.send_segment(&header, &bytes[start..start + SUPER_SEGMENTS * MSS])?;
                meter.device = self.spent;
                let before = at;
                at += (SUPER_SEGMENTS * MSS) as u64;
                if !meter.count_sent(at / unit - before / unit) {
                    let flags = Flags::RST.with(Flags::ACK);
                    let header = self.tcp_header(port, flags, Seq(1) + at as u32, theirs);
                    self.send_segment(&header, &[])?;
                    return meter.report();
                }
                if acked + window / 2 < at {
                    break;
                }
            }
            self.segments(&mut taken)?;
            let Some((last, _)) = taken.last() else { return meter.report() };
            acked += u64::from(last.ack.0.wrapping_sub(1).wrapping_sub(acked as u32));
            window = u64::from(last.window) << scale;
        }
    }
}

fn udp_payload_len(frame: &[u8]) -> usize {
    // A fragment but the first has no UDP header.
    let is_first =
        frame.get(20..22).is_some_and(|f| u16::from_be_bytes([f[0], f[1]]) & 0x1fff == 0);
    let headers = NETWORK_LEN + if is_first { udp::HEADER_LEN } else { 0 };
    frame.len().saturating_sub(headers)
}

fn send_all(tap: &mut Tap, packets: &[TxPacket<'_>]) -> Result<()> {
    let mut sent = 0;
    while sent < packets.len() {
        sent += tap.transmit(&packets[sent..]).map_err(Error::os("transmitting"))?;
    }
    Ok(())
}
