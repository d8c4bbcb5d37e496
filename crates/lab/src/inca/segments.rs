//! Protocol processing of TCP alone: from the segment in memory to the application's buffer, Ethernet, IPv4, TCP
//! with its checksum, and the acknowledgement; with the sum and the copy in one loop to where the application
//! reads, and with a pass for the sum, one into the socket's memory, one out of it.

use fusewire_base::{Seq, Sum};
use fusewire_device::interface::{Checksum, RxPacket, Segmentation, TxPacket};
use fusewire_kernels::Level;
use fusewire_stack::Clock;
use fusewire_stack::ip::{Config, SocketId, Stack};
use fusewire_wire::ipv4;
use fusewire_wire::tcp::{self, Flags};

use super::alone::{self, AT, BATCH, OURS, PORT, THEIRS, by_turns, differ, failed};
use super::{Processing, Protocol};
use crate::{Error, Result};

/// Bytes of all segments of one batch at most.
const BATCH_BYTES: usize = 64 << 10;
/// IPv4 and TCP headers without options.
const HEADERS: usize = ipv4::MIN_HEADER_LEN + tcp::MIN_HEADER_LEN;
const TCP_AT: usize = ipv4::MIN_HEADER_LEN;

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

/// A peer at the other end that connects, and then sends segment after segment. What it says of acknowledgements is
/// taken and forgotten.
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
}

fn segment(flags: Flags, seq: Seq, ack: Seq, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS];
    let (window, (src_port, dst_port)) = (u16::MAX, (PORT, PORT));
    let header =
        tcp::Header { src_port, dst_port, seq, ack, flags, window, ..tcp::Header::default() };
    alone::ip_header(tcp::NUMBER, tcp::MIN_HEADER_LEN + payload.len()).emit(&mut bytes);
    header.emit(&mut bytes[TCP_AT..]);
    bytes.extend_from_slice(payload);
    bytes
}

fn pseudo_header(frame: &[u8]) -> Sum {
    ipv4::pseudo_header_sum(THEIRS, OURS, tcp::NUMBER, (frame.len() - TCP_AT) as u16)
}

fn seal(frame: &mut [u8], sum: Sum) {
    frame[TCP_AT + 16..TCP_AT + 18].copy_from_slice(&sum.checksum().to_be_bytes());
}

impl Peer {
    /// The next batch of data: the same bytes again, further on in the stream.
    fn data(&mut self) -> usize {
        for frame in &mut self.frames {
            let seq = self.next.to_be_bytes();
            frame[TCP_AT + 4..TCP_AT + 8].copy_from_slice(&seq);
            seal(frame, self.base + Sum::of(&seq));
            self.next = self.next.wrapping_add(self.size as u32);
            if self.execution == Execution::Sequential {
                let sum =
                    pseudo_header(frame) + fusewire_kernels::sum(self.level, &frame[TCP_AT..]);
                debug_assert!(sum.verifies());
                std::hint::black_box(sum.verifies());
            }
        }
        self.frames.len()
    }

    fn control(&mut self, flags: Flags, seq: u32, ack: Seq) -> usize {
        let mut frame = segment(flags, Seq(seq), ack, &[]);
        let sum = pseudo_header(&frame) + Sum::of(&frame[TCP_AT..]);
        seal(&mut frame, sum);
        self.frames = vec![frame];
        1
    }
}

impl alone::Giver for Peer {
    fn take(&mut self, packets: &[TxPacket<'_>]) {
        if let (Phase::AwaitsAnswer, Some(packet)) = (&self.phase, packets.first())
            && let Some(Ok(header)) = packet.header.get(TCP_AT..).map(tcp::Header::parse)
            && header.flags.has(Flags::SYN)
        {
            self.phase = Phase::Ack(header.seq + 1);
        }
    }
    fn give(&mut self) -> usize {
        match self.phase {
            Phase::Syn => {
                self.phase = Phase::AwaitsAnswer;
                self.control(Flags::SYN, 0, Seq(0))
            }
            Phase::AwaitsAnswer => 0,
            Phase::Ack(ack) => {
                self.phase = Phase::Open;
                (self.next, self.ack) = (1, ack);
                self.control(Flags::ACK, 1, ack)
            }
            Phase::Open => {
                if self.frames[0].len() == HEADERS {
                    let payload = alone::message(self.size);
                    let frame = segment(Flags::ACK, Seq(0), self.ack, &payload);
                    self.base = pseudo_header(&frame) + Sum::of(&frame[TCP_AT..]);
                    let count = (BATCH_BYTES / self.size.max(1)).clamp(1, BATCH);
                    self.frames = vec![frame; count];
                }
                self.gives = !self.gives;
                if self.gives { self.data() } else { 0 }
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
        let peer = Peer {
            phase: Phase::Syn,
            frames: Vec::new(),
            base: Sum::ZERO,
            next: 0,
            size,
            ack: Seq(0),
            gives: false,
            execution,
            level: Config::default().level,
        };
        let clock = Clock::new();
        let mut stack = alone::stack(None, peer, &clock)?;
        let listener = stack.tcp_listen(AT, 1).map_err(failed)?;
        for _ in 0..64 {
            stack.poll(clock.now()).map_err(Error::os("driving the stack"))?;
            if let Some((id, _)) = stack.tcp_accept(listener).map_err(failed)? {
                let memory = vec![0; BATCH * size.max(BATCH_BYTES / BATCH)];
                return Ok(Alone { stack, id, clock, execution, size, memory });
            }
        }
        Err(failed("the peer in memory did not connect"))
    }

    /// One batch, or none. Returns how many segments.
    fn once(&mut self) -> Result<usize> {
        let now = self.clock.now();
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

    /// What the application gets of a batch.
    fn hash(&mut self) -> Result<blake3::Hash> {
        for _ in 0..4 {
            let segments = self.once()?;
            if segments > 0 {
                return Ok(blake3::hash(&self.memory[..segments * self.size]));
            }
        }
        Err(failed("no segment arrived"))
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
        return Err(differ("processing of TCP", "one loop and a pass for each"));
    }
    let found = by_turns(rounds, |which| both[which].once())?;
    Ok(Processing::new(Protocol::Tcp, size, &found))
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
