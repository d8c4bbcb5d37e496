//! The transport alone, in one thread: what a packet takes of who sends it and of who receives it, by its payload and where
//! that lies.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fusewire_device::interface::memory::pair;
use fusewire_stack::Clock;
use fusewire_stack::ip::{SocketId, Stack, State};
use fusewire_wire::ipv4;
use fusewire_wire::tcp::{self, Flags};

use super::{HEADERS, PEER, failed, stack, wire_of};
use crate::inca::task::stream_byte;
use crate::{Error, Result};

/// Packets between two looks at the clock.
const BURST: usize = 32;
/// Bytes that stay in the first caches.
const NEAR_BYTES: usize = 16 << 10;
/// Turns in which a connection opens.
const TURNS: usize = 1000;

/// Where payload comes from, and where it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The cache.
    Near,
    /// So many bytes, which are not in it.
    Far(usize),
}

/// Nanoseconds a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// From the application's bytes to the packet, and its acknowledgement.
    pub send_ns: f64,
    /// From the packet to the application's bytes, and the acknowledgement of it.
    pub receive_ns: f64,
}

/// A stream from one stack to another.
pub struct Alone {
    stacks: [Stack; 2],
    ids: [SocketId; 2],
    clock: Clock,
    payload: usize,
    source: Vec<u8>,
    sink: Vec<u8>,
    /// How far it is in either.
    at: usize,
    sent: u64,
}

impl Alone {
    /// A connection whose packets carry so many bytes each.
    ///
    /// # Errors
    /// The stacks do not find each other.
    pub fn new(payload: usize, memory: Memory) -> Result<Alone> {
        let (a, b) = pair(wire_of(payload)).map_err(Error::os("joining interfaces"))?;
        let clock = Clock::new();
        let mut stacks = [stack(Box::new(a), 1, &clock)?, stack(Box::new(b), 2, &clock)?];
        let listener = stacks[1].tcp_listen(PEER, 1).map_err(failed)?;
        let id = stacks[0].tcp_connect(clock.now(), PEER).map_err(failed)?;
        let burst = BURST * payload;
        let len = burst.max(match memory {
            Memory::Near => NEAR_BYTES,
            Memory::Far(bytes) => bytes,
        });
        let source: Vec<u8> = (0..len as u64).map(stream_byte).collect();
        for _ in 0..TURNS {
            for stack in &mut stacks {
                stack.poll(clock.now()).map_err(Error::os("driving a stack"))?;
            }
            let is_open = stacks[0].tcp_state(id).map_err(failed)? == State::Established;
            if is_open && let Some((peer, _)) = stacks[1].tcp_accept(listener).map_err(failed)? {
                let (ids, sink) = ([id, peer], vec![0; len]);
                return Ok(Alone { stacks, ids, clock, payload, source, sink, at: 0, sent: 0 });
            }
        }
        Err(failed("the stacks did not find each other"))
    }

    /// A burst, from one end to the other; the times of both ends, and how many packets.
    fn burst(&mut self) -> Result<([Duration; 2], usize)> {
        let burst = BURST * self.payload;
        if self.at + burst > self.source.len() {
            self.at = 0;
        }
        let (now, place) = (self.clock.now(), self.at..self.at + burst);
        let started = Instant::now();
        let taken = self.stacks[0].tcp_write(self.ids[0], &self.source[place.clone()]);
        let taken = taken.map_err(failed)?;
        let mut times = [started.elapsed(), Duration::ZERO];
        let mut read = 0;
        // As often as the window asks for, when it is still small.
        for _ in 0..TURNS {
            let begun = Instant::now();
            self.stacks[0].transmit(now).map_err(Error::os("sending"))?;
            let left = Instant::now();
            read += self.receive(now, self.at + read)?;
            let came = Instant::now();
            self.stacks[0].poll(now).map_err(Error::os("hearing of it"))?;
            times[0] += left - begun + came.elapsed();
            times[1] += came - left;
            if read == taken {
                break;
            }
        }
        if self.sink[place.start..place.start + read] != self.source[place.start..][..taken] {
            return Err(failed(format!("of {taken} bytes {read} arrived, or others")));
        }
        (self.at, self.sent) = (self.at + taken, self.sent + taken as u64);
        Ok((times, taken.div_ceil(self.payload)))
    }

    /// What has come, to its place.
    fn receive(&mut self, now: fusewire_base::Instant, at: usize) -> Result<usize> {
        let [_, receiver] = &mut self.stacks;
        receiver.poll(now).map_err(Error::os("receiving"))?;
        let mut read = 0;
        while let Some(len) =
            receiver.tcp_read(self.ids[1], &mut self.sink[at + read..]).map_err(failed)?
            && len > 0
        {
            read += len;
        }
        receiver.transmit(now).map_err(Error::os("acknowledging"))?;
        Ok(read)
    }

    /// Measures for so long.
    ///
    /// # Errors
    /// What arrives is not what was sent.
    pub fn measure(&mut self, window: Duration) -> Result<Packet> {
        let (mut spent, mut packets) = ([Duration::ZERO; 2], 0);
        while spent[0] + spent[1] < window {
            let (times, count) = self.burst()?;
            packets += count;
            spent.iter_mut().zip(times).for_each(|(spent, time)| *spent += time);
        }
        let each = |spent: Duration| spent.as_secs_f64() * 1e9 / packets.max(1) as f64;
        Ok(Packet { send_ns: each(spent[0]), receive_ns: each(spent[1]) })
    }
}

/// A packet's headers alone: fields to bytes, with IPv4's sum. Nanoseconds.
pub fn header_ns(window: Duration) -> f64 {
    let mut bytes = [0; HEADERS];
    let (ip, mut header) =
        (crate::inca::alone::ip_header(tcp::NUMBER, 236), tcp::Header::default());
    (header.flags, header.window) = (Flags::ACK, u16::MAX);
    let (started, mut count) = (Instant::now(), 0u32);
    while started.elapsed() < window {
        for _ in 0..256 {
            header.seq += 216;
            black_box(&ip).emit(&mut bytes);
            black_box(&header).emit(&mut bytes[ipv4::MIN_HEADER_LEN..]);
            black_box(&bytes);
        }
        count += 256;
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_every_size_arrive() {
        for payload in [64, 216, 1448, 8192] {
            for memory in [Memory::Near, Memory::Far(1 << 20)] {
                let mut alone = Alone::new(payload, memory).unwrap();
                let found = alone.measure(Duration::from_millis(2)).unwrap();
                assert!(found.send_ns > 0.0 && found.receive_ns > 0.0);
                let counters = alone.stacks[1].counters();
                let expected = alone.sent / payload as u64;
                // One by one, and not merged; those of the handshake come to it.
                assert!(counters.received >= expected, "{counters:?}");
            }
        }
    }
}
