//! Protocol processing of TCP alone: from the segment in memory to the application's buffer, Ethernet, IPv4, TCP
//! with its checksum, and the acknowledgement; with the sum and the copy in one loop to where the application
//! reads, and with a pass for the sum, one into the socket's memory, one out of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fusewire_base::{Seq, Sum};
use fusewire_device::Waker;
use fusewire_device::interface::{
    Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, TxPacket,
};
use fusewire_kernels::Level;
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Config, SocketId, Stack};
use fusewire_wire::ipv4;
use fusewire_wire::tcp::{self, Flags};

use super::processing::{WINDOW, ghz};
use super::{Processing, Protocol};
use crate::{Error, Result};

/// Segments of one batch at most, and bytes of all of them.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 64 << 10;
/// Ethernet, IPv4 and TCP headers without options.
const HEADERS: usize = ipv4::MIN_HEADER_LEN + tcp::MIN_HEADER_LEN;
const TCP_AT: usize = ipv4::MIN_HEADER_LEN;
const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 5000;

/// How a segment is processed.
#[derive(Clone, Copy, PartialEq)]
enum Execution {
    Integrated,
    Sequential,
}

/// How far the peer has come.
enum Phase {
    Syn,
    AwaitsAnswer,
    Ack(Seq),
    Open,
}

/// An interface with a peer at its other end that connects, and then sends segment after segment. What it says
/// of acknowledgements is taken and forgotten.
struct Peer {
    phase: Phase,
    frames: Vec<Vec<u8>>,
    /// Sum of pseudo-header and segment with sequence number and checksum 0.
    base: Sum,
    next: u32,
    size: usize,
    /// What it acknowledges.
    ack: Seq,
    gives: bool,
    execution: Execution,
    level: Level,
    capabilities: Capabilities,
    waker: Waker,
}

impl Peer {
    fn segment(flags: Flags, seq: Seq, ack: Seq, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADERS];
        let len = tcp::MIN_HEADER_LEN + payload.len();
        let ip = ipv4::Header {
            tos: 0,
            total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: tcp::NUMBER,
            source: THEIRS,
            destination: OURS,
            header_len: 0,
        };
        ip.emit(&mut bytes);
        let header = tcp::Header {
            src_port: PORT,
            dst_port: PORT,
            seq,
            ack,
            flags,
            header_len: 0,
            window: u16::MAX,
            checksum: 0,
            urgent: 0,
            options: tcp::Options::default(),
        };
        header.emit(&mut bytes[TCP_AT..]);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn sum(frame: &[u8]) -> Sum {
        let len = (frame.len() - TCP_AT) as u16;
        ipv4::pseudo_header_sum(THEIRS, OURS, tcp::NUMBER, len) + Sum::of(&frame[TCP_AT..])
    }

    fn seal(frame: &mut [u8], sum: Sum) {
        frame[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&sum.checksum().to_be_bytes());
    }

    /// The next batch of data: the same bytes again, further on in the stream.
    fn data(&mut self) -> usize {
        for frame in &mut self.frames {
            let seq = self.next.to_be_bytes();
            frame[TCP_AT + 4..TCP_AT + 8].copy_from_slice(&seq);
            Self::seal(frame, self.base + Sum::of(&seq));
            self.next = self.next.wrapping_add(self.size as u32);
            if self.execution == Execution::Sequential {
                let len = (frame.len() - TCP_AT) as u16;
                let pseudo = ipv4::pseudo_header_sum(THEIRS, OURS, tcp::NUMBER, len);
                let sum = pseudo + fusewire_kernels::sum(self.level, &frame[TCP_AT..]);
                debug_assert!(sum.verifies());
                std::hint::black_box(sum.verifies());
            }
        }
        self.frames.len()
    }
}

impl Interface for Peer {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        if let (Phase::AwaitsAnswer, Some(packet)) = (&self.phase, packets.first())
            && let Some(Ok(header)) = packet.header.get(TCP_AT..).map(tcp::Header::parse)
            && header.flags.has(Flags::SYN)
        {
            self.phase = Phase::Ack(header.seq + 1);
        }
        Ok(packets.len())
    }
    fn receive(&mut self) -> io::Result<usize> {
        let mut control = |flags, seq, ack| {
            let mut frame = Self::segment(flags, Seq(seq), ack, &[]);
            let sum = Self::sum(&frame);
            Self::seal(&mut frame, sum);
            self.frames = vec![frame];
            Ok(1)
        };
        match self.phase {
            Phase::Syn => {
                self.phase = Phase::AwaitsAnswer;
                control(Flags::SYN, 0, Seq(0))
            }
            Phase::AwaitsAnswer => Ok(0),
            Phase::Ack(ack) => {
                control(Flags::ACK, 1, ack)?;
                self.phase = Phase::Open;
                (self.next, self.ack) = (1, ack);
                Ok(1)
            }
            Phase::Open => {
                if self.frames[0].len() == HEADERS {
                    let payload: Vec<u8> = (0..self.size).map(|i| (i * 31 % 251) as u8).collect();
                    let frame = Self::segment(Flags::ACK, Seq(0), self.ack, &payload);
                    self.base = Self::sum(&frame);
                    let count = (BATCH_BYTES / self.size.max(1)).clamp(1, BATCH);
                    self.frames = vec![frame; count];
                }
                // Every other time, so that a loop over what waits ends.
                self.gives = !self.gives;
                Ok(if self.gives { self.data() } else { 0 })
            }
        }
    }
    fn packet(&self, index: usize) -> RxPacket<'_> {
        let checksum = match (self.execution, &self.phase) {
            (Execution::Sequential, Phase::Open) => Checksum::Verified,
            _ => Checksum::InPlace,
        };
        RxPacket { bytes: &self.frames[index], checksum, segmentation: Segmentation::None }
    }
    fn wait(&mut self, _: Option<Duration>, _: bool) -> io::Result<bool> {
        Ok(true)
    }
    fn waker(&self) -> Waker {
        self.waker.clone()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A stack with a connection over which the same segment comes again and again.
struct Alone {
    stack: Stack,
    id: SocketId,
    clock: Clock,
    execution: Execution,
    size: usize,
    memory: Vec<u8>,
}

impl Alone {
    fn new(size: usize, execution: Execution) -> Result<Self> {
        let capabilities = Capabilities {
            name: "memory",
            link: Link::Ip,
            mac: None,
            mtu: 65_535,
            checksum: false,
            tcp_segmentation: false,
            udp_segmentation: false,
            receive_offload: false,
            max_packet_bytes: 65_535,
            notes: Vec::new(),
        };
        let config = Config::default();
        let peer = Peer {
            phase: Phase::Syn,
            frames: Vec::new(),
            base: Sum::ZERO,
            next: 0,
            size,
            ack: Seq(0),
            gives: false,
            execution,
            level: config.level,
            capabilities,
            waker: Waker::new().map_err(Error::os("making a waker"))?,
        };
        let clock = Clock::new();
        let net = NetConfig {
            addresses: Cidr::new(IpAddr::V4(OURS), 24).into_iter().collect(),
            duplicate_detection: false,
            ..Stack::net_config(&peer)
        };
        let mut stack = Stack::new(Box::new(peer), net, config, [3; 32], clock.now());
        let failed = |e: fusewire_stack::ip::Error| Error::Unsupported(e.to_string());
        let listener =
            stack.tcp_listen(SocketAddr::new(IpAddr::V4(OURS), PORT), 1).map_err(failed)?;
        for _ in 0..64 {
            stack.poll(clock.now()).map_err(Error::os("driving the stack"))?;
            if let Some((id, _)) = stack.tcp_accept(listener).map_err(failed)? {
                let memory = vec![0; BATCH * size.max(BATCH_BYTES / BATCH)];
                return Ok(Alone { stack, id, clock, execution, size, memory });
            }
        }
        Err(Error::Unsupported("the peer in memory did not connect".into()))
    }

    /// One batch, or none. Returns how many segments.
    fn once(&mut self) -> Result<usize> {
        let now = self.clock.now();
        let failed = |e: fusewire_stack::ip::Error| Error::Unsupported(e.to_string());
        let read = match self.execution {
            Execution::Integrated => {
                let read = self.stack.tcp_read_into(now, self.id, &mut self.memory);
                read.map_err(Error::os("reading"))?.map_err(failed)?
            }
            Execution::Sequential => {
                self.stack.poll(now).map_err(Error::os("driving the stack"))?;
                self.stack.tcp_read(self.id, &mut self.memory).map_err(failed)?
            }
        };
        self.stack.transmit(now).map_err(Error::os("acknowledging"))?;
        Ok(read.unwrap_or(0) / self.size)
    }

    /// Nanoseconds a segment.
    fn time(&mut self) -> Result<f64> {
        let started = Instant::now();
        let mut segments = 0;
        while started.elapsed() < WINDOW {
            for _ in 0..16 {
                segments += self.once()?;
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e9 / segments.max(1) as f64)
    }

    /// What the application gets of a batch.
    fn hash(&mut self) -> Result<blake3::Hash> {
        for _ in 0..4 {
            let segments = self.once()?;
            if segments > 0 {
                return Ok(blake3::hash(&self.memory[..segments * self.size]));
            }
        }
        Err(Error::Unsupported("no segment arrived".into()))
    }
}

/// Measures segments of one size, both ways alternately; both give the same bytes.
///
/// # Errors
/// What the stack says, or that the two ways do not agree.
pub fn measure(size: usize, rounds: usize) -> Result<Processing> {
    let mut both =
        [Alone::new(size, Execution::Integrated)?, Alone::new(size, Execution::Sequential)?];
    if both[0].hash()? != both[1].hash()? {
        return Err(Error::Wrong {
            method: "processing of TCP".into(),
            what: "one loop and a pass for each do not agree".into(),
        });
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(3) {
        for (one, times) in both.iter_mut().zip(&mut times) {
            times.push(one.time()?);
        }
    }
    let ratios: Vec<f64> = times[1].iter().zip(&times[0]).map(|(s, i)| s / i).collect();
    let [integrated_ns, sequential_ns] =
        times.map(|values| super::run::median(&values).unwrap_or_default());
    let ghz = ghz();
    Ok(Processing {
        protocol: Protocol::Tcp,
        size_bytes: size,
        integrated_ns,
        sequential_ns,
        integrated_cycles: ghz.map(|ghz| ghz * integrated_ns),
        sequential_cycles: ghz.map(|ghz| ghz * sequential_ns),
        ratio: super::run::median(&ratios).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_application_the_same() {
        for size in [1, 10, 1400, 65_000] {
            let line = measure(size, 1).unwrap();
            assert!(line.integrated_ns > 0.0 && line.sequential_ns > 0.0);
        }
    }
}
