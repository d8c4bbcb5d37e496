//! Protocol processing alone: from the frame in memory to the application's buffer, Ethernet, IPv4, UDP with
//! its checksum and XDR's byte order on the way; in one loop, and with a pass for each.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fusewire_base::Sum;
use fusewire_codec::{SliceSource, Source};
use fusewire_device::Waker;
use fusewire_device::interface::{
    Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, TxPacket,
};
use fusewire_kernels::Level;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stages::Swap;
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Array, Config, SocketId, Stack};
use fusewire_wire::{ethernet, ipv4, udp};

use super::{Processing, Protocol, Unmarshalling};
use crate::{Error, Result};

/// Frames that one `receive` gives.
const BATCH: usize = 16;
/// Least time of one measurement.
pub const WINDOW: Duration = Duration::from_millis(8);
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = ethernet::HEADER_LEN + ipv4::MIN_HEADER_LEN + udp::HEADER_LEN;
const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 5000;

/// An interface that gives one frame again and again, from where it lies.
struct Same {
    frame: Vec<u8>,
    capabilities: Capabilities,
    waker: Waker,
    gives: bool,
}

impl Interface for Same {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        Ok(packets.len())
    }
    fn receive(&mut self) -> io::Result<usize> {
        // Every other time, so that a loop over what waits ends.
        self.gives = !self.gives;
        Ok(if self.gives { BATCH } else { 0 })
    }
    fn packet(&self, _: usize) -> RxPacket<'_> {
        RxPacket {
            bytes: &self.frame,
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        }
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

/// Bytes of a message.
fn words(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 31 % 251) as u8).collect()
}

/// An XDR array `double<>` of as many numbers as fit into `size` bytes.
fn doubles(size: usize) -> Vec<u8> {
    let count = size.saturating_sub(4) / 8;
    let numbers = (0..count).flat_map(|i| (i as f64 * 0.7).to_be_bytes());
    (count as u32).to_be_bytes().into_iter().chain(numbers).collect()
}

/// A frame with a datagram for us.
fn frame(message: &[u8], mac: [u8; 6]) -> Vec<u8> {
    let size = message.len();
    let mut bytes = vec![0; HEADERS + size];
    let ethernet = ethernet::Header {
        destination: ethernet::Address(mac),
        source: ethernet::Address([2, 0, 0, 0, 0, 9]),
        ethertype: ethernet::EtherType::IPV4,
        header_len: 0,
    };
    let at = ethernet.emit(&mut bytes);
    let len = udp::HEADER_LEN + size;
    let ip = ipv4::Header {
        tos: 0,
        total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: udp::NUMBER,
        source: THEIRS,
        destination: OURS,
        header_len: 0,
    };
    let at = at + ip.emit(&mut bytes[at..]);
    bytes[HEADERS..].copy_from_slice(message);
    let mut header = udp::Header { src_port: PORT, dst_port: PORT, len: len as u16, checksum: 0 };
    header.emit(&mut bytes[at..]);
    let pseudo = ipv4::pseudo_header_sum(THEIRS, OURS, udp::NUMBER, len as u16);
    header.checksum = (pseudo + Sum::of(&bytes[at..])).checksum();
    header.emit(&mut bytes[at..]);
    bytes
}

struct Alone {
    stack: Stack,
    id: SocketId,
    clock: Clock,
    level: Level,
    memory: Vec<u8>,
    work: Vec<u8>,
    size: usize,
}

impl Alone {
    fn new(message: &[u8]) -> Result<Self> {
        let size = message.len();
        let mac = [2, 0, 0, 0, 0, 1];
        let capabilities = Capabilities {
            name: "memory",
            link: Link::Ethernet,
            mac: Some(mac),
            mtu: 65_535,
            checksum: false,
            tcp_segmentation: false,
            udp_segmentation: false,
            receive_offload: false,
            max_packet_bytes: 65_549,
            notes: Vec::new(),
        };
        let waker = Waker::new().map_err(Error::os("making a waker"))?;
        let same = Same { frame: frame(message, mac), capabilities, waker, gives: false };
        let clock = Clock::new();
        let cidr = Cidr::new(IpAddr::V4(OURS), 24);
        let net = NetConfig {
            addresses: cidr.into_iter().collect(),
            duplicate_detection: false,
            ..Stack::net_config(&same)
        };
        let config = Config::default();
        let level = config.level;
        let mut stack = Stack::new(Box::new(same), net, config, [3; 32], clock.now());
        let id = stack
            .udp_bind(SocketAddr::new(IpAddr::V4(OURS), PORT))
            .map_err(|e| Error::Unsupported(e.to_string()))?;
        let memory = vec![0; BATCH * size];
        Ok(Alone { stack, id, clock, level, memory, work: vec![0; size], size })
    }

    /// Header, sum, byte order and store in one loop. Returns how many messages.
    fn integrated(&mut self) -> Result<usize> {
        let now = self.clock.now();
        let stage = Swap::<4>;
        let taken = self.stack.udp_recv_with(now, self.id, &stage, &mut self.memory, |_, _| {});
        Self::taken(taken).map(|bytes| bytes / self.size)
    }

    /// A pass for the sum, one for the copy, one for the byte order.
    fn sequential(&mut self) -> Result<usize> {
        let Alone { stack, id, clock, level, memory, work, size } = self;
        let (mut at, now) = (0, clock.now());
        let taken = stack.udp_recv_batch(now, *id, |messages| {
            for message in messages.iter() {
                work.copy_from_slice(message);
                let dst = &mut memory[at..at + *size];
                level.run(Integrated { stage: &Swap::<4>, src: &work[..], dst });
                at += *size;
            }
        });
        Self::taken(taken)
    }

    fn taken<E: std::fmt::Display>(
        taken: io::Result<std::result::Result<usize, E>>,
    ) -> Result<usize> {
        taken
            .map_err(Error::os("receiving"))?
            .map_err(|error| Error::Unsupported(error.to_string()))
    }

    /// What the application has got.
    fn hash(&self) -> blake3::Hash {
        blake3::hash(&self.memory)
    }

    /// Nanoseconds a message.
    fn time(&mut self, mut once: impl FnMut(&mut Self) -> Result<usize>) -> Result<f64> {
        let started = Instant::now();
        let mut messages = 0;
        while started.elapsed() < WINDOW {
            for _ in 0..64 {
                messages += once(self)?;
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e9 / messages.max(1) as f64)
    }
}

/// Measures messages of one size, both ways alternately; both give the same bytes.
///
/// # Errors
/// What the stack says, or that the two ways do not agree.
pub fn measure(size: usize, rounds: usize) -> Result<Processing> {
    let mut alone = Alone::new(&words(size))?;
    // The first `receive` gives, the second does not.
    let mut hash = |once: fn(&mut Alone) -> Result<usize>| -> Result<blake3::Hash> {
        alone.memory.fill(0);
        let count = once(&mut alone)? + once(&mut alone)?;
        match count {
            BATCH => Ok(alone.hash()),
            _ => Err(Error::Unsupported(format!("{count} of {BATCH} messages arrived"))),
        }
    };
    if hash(Alone::integrated)? != hash(Alone::sequential)? {
        return Err(Error::Wrong {
            method: "processing".into(),
            what: "one loop and a pass for each do not agree".into(),
        });
    }
    let (mut integrated, mut sequential) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(3) {
        integrated.push(alone.time(Alone::integrated)?);
        sequential.push(alone.time(Alone::sequential)?);
    }
    let median = |values: &[f64]| super::run::median(values).unwrap_or_default();
    let ratios: Vec<f64> = sequential.iter().zip(&integrated).map(|(s, i)| s / i).collect();
    let (integrated_ns, sequential_ns) = (median(&integrated), median(&sequential));
    let ghz = ghz();
    Ok(Processing {
        protocol: Protocol::Udp,
        size_bytes: size,
        integrated_ns,
        sequential_ns,
        integrated_cycles: ghz.map(|ghz| ghz * integrated_ns),
        sequential_cycles: ghz.map(|ghz| ghz * sequential_ns),
        ratio: median(&ratios),
    })
}

/// Measures a message that is an XDR array of doubles, of at most `size` bytes, both ways alternately; both give
/// the same numbers. `None` when not even one fits.
///
/// # Errors
/// What the stack says, or that the two ways do not agree.
pub fn unmarshalling(size: usize, rounds: usize) -> Result<Option<Unmarshalling>> {
    let message = doubles(size);
    let each = message.len() / 8;
    if each == 0 {
        return Ok(None);
    }
    let mut alone = Alone::new(&message)?;
    let mut numbers = [vec![0.0f64; BATCH * each], vec![0.0f64; BATCH * each]];
    let [one, two] = &mut numbers;
    let mut integrated = |alone: &mut Alone| {
        let (now, array) = (alone.clock.now(), Array::Variable { max: u32::MAX });
        let taken = alone.stack.udp_recv_numbers(now, alone.id, array, one, |_, _| {});
        Alone::taken(taken).map(|count| count / each)
    };
    let mut two_passes = |alone: &mut Alone| {
        let (now, mut rest, mut count) = (alone.clock.now(), &mut two[..], 0);
        let taken = alone.stack.udp_recv_batch(now, alone.id, |messages| {
            for message in messages.iter() {
                let (here, after) = std::mem::take(&mut rest).split_at_mut(each);
                let elements = bytemuck::cast_slice_mut(here);
                let is_whole = SliceSource::new(&message[4..]).take_elements(elements, 8).is_ok();
                (rest, count) = (after, count + usize::from(is_whole));
            }
        });
        Alone::taken(taken).map(|_| count)
    };
    // The first `receive` gives, the second does not.
    let counts = [
        integrated(&mut alone)? + integrated(&mut alone)?,
        two_passes(&mut alone)? + two_passes(&mut alone)?,
    ];
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(3) {
        first.push(alone.time(&mut integrated)?);
        second.push(alone.time(&mut two_passes)?);
    }
    if counts != [BATCH; 2] || numbers[0] != numbers[1] {
        return Err(Error::Wrong {
            method: "unmarshalling".into(),
            what: "one loop and two passes do not agree".into(),
        });
    }
    let ratios: Vec<f64> = second.iter().zip(&first).map(|(two, one)| two / one).collect();
    let median = |values: &[f64]| super::run::median(values).unwrap_or_default();
    let (integrated_ns, two_passes_ns, ghz) = (median(&first), median(&second), ghz());
    Ok(Some(Unmarshalling {
        protocol: Protocol::Udp,
        xdr: "double<>",
        size_bytes: message.len(),
        integrated_ns,
        two_passes_ns,
        integrated_cycles: ghz.map(|ghz| ghz * integrated_ns),
        two_passes_cycles: ghz.map(|ghz| ghz * two_passes_ns),
        ratio: median(&ratios),
    }))
}

/// The processor's clock, as the kernel tells it.
pub fn ghz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    Some(mhz / 1000.0)
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

    #[test]
    fn one_loop_and_two_passes_unmarshal_the_same() {
        for (size, len) in [(12, 12), (50, 44), (1400, 1396), (65_000, 64_996)] {
            assert_eq!(unmarshalling(size, 1).unwrap().unwrap().size_bytes, len);
        }
        assert!(unmarshalling(10, 1).unwrap().is_none());
    }
}
