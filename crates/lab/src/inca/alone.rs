//! A stack of ours alone: on an interface in memory, at whose other end is what gives it packets; and two ways to take
//! them, timed by turns.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_device::interface::{Capabilities, Interface, Link, RxPacket, TxPacket};
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Config, Stack};
use fusewire_wire::ipv4;

use crate::stats::median;
use crate::{Error, Result};

/// Packets that one `receive` gives at most.
pub const BATCH: usize = 16;
pub const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub const PORT: u16 = 5000;
/// Where the stack is asked for.
pub const AT: SocketAddr = SocketAddr::new(IpAddr::V4(OURS), PORT);
/// Least time of one measurement: short, so that what else the machine does meets both ways alike.
const WINDOW: Duration = Duration::from_millis(1);
/// Measurements of each way in a round.
const TURNS: usize = 8;

/// What is at the other end.
pub trait Giver: Send {
    /// How many packets it gives now. That it gives some only every other time ends a loop over what waits.
    fn give(&mut self) -> usize;
    /// One of them, from where it lies.
    fn packet(&self, index: usize) -> RxPacket<'_>;
    /// Hears of what the stack sends.
    fn take(&mut self, _packets: &[TxPacket<'_>]) {}
}

/// The interface.
struct Memory<G> {
    giver: G,
    capabilities: Capabilities,
    waker: Waker,
}

impl<G: Giver> Interface for Memory<G> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.giver.take(packets);
        Ok(packets.len())
    }
    fn receive(&mut self) -> io::Result<usize> {
        Ok(self.giver.give())
    }
    fn packet(&self, index: usize) -> RxPacket<'_> {
        self.giver.packet(index)
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

/// A stack that has the address [`OURS`], on an interface with Ethernet where it has an address of that.
pub fn stack(mac: Option<[u8; 6]>, giver: impl Giver + 'static, clock: &Clock) -> Result<Stack> {
    let capabilities = Capabilities {
        name: "memory",
        link: if mac.is_some() { Link::Ethernet } else { Link::Ip },
        mac,
        mtu: 65_535,
        checksum: false,
        tcp_segmentation: false,
        udp_segmentation: false,
        receive_offload: false,
        max_packet_bytes: 65_549,
        notes: Vec::new(),
    };
    let waker = Waker::new().map_err(Error::os("making a waker"))?;
    let interface = Memory { giver, capabilities, waker };
    let net = NetConfig {
        addresses: Cidr::new(IpAddr::V4(OURS), 24).into_iter().collect(),
        duplicate_detection: false,
        ..Stack::net_config(&interface)
    };
    Ok(Stack::new(Box::new(interface), net, Config::default(), [3; 32], clock.now()))
}

/// The header of a packet from there to us, with `len` bytes behind it.
pub fn ip_header(protocol: u8, len: usize) -> ipv4::Header {
    ipv4::Header {
        tos: 0,
        total_len: (ipv4::MIN_HEADER_LEN + len) as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol,
        source: THEIRS,
        destination: OURS,
        header_len: 0,
    }
}

/// Bytes of a message.
pub fn message(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i * 31 % 251) as u8).collect()
}

/// What the stack says is wrong.
pub fn failed(error: impl std::fmt::Display) -> Error {
    Error::Unsupported(error.to_string())
}

/// That the two ways do not make the same.
pub fn differ(method: &str, what: &str) -> Error {
    Error::Wrong { method: method.into(), what: format!("{what} do not agree") }
}

/// What was found of one loop and of passes, in this order, a message.
pub struct Found {
    /// Nanoseconds: the medians.
    pub ns: [f64; 2],
    /// The same in cycles, where the kernel tells the processor's clock.
    pub cycles: [Option<f64>; 2],
    /// Passes by one loop: the median of the turns' own ratios.
    pub ratio: f64,
}

/// Two ways by turns; `once` takes what there is in that way and gives how many messages it was.
///
/// # Errors
/// The first of `once`.
pub fn by_turns(rounds: usize, mut once: impl FnMut(usize) -> Result<usize>) -> Result<Found> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(3) * TURNS {
        for (way, times) in times.iter_mut().enumerate() {
            let (started, mut messages) = (Instant::now(), 0);
            while started.elapsed() < WINDOW {
                for _ in 0..16 {
                    messages += once(way)?;
                }
            }
            times.push(started.elapsed().as_secs_f64() * 1e9 / messages.max(1) as f64);
        }
    }
    let ratios = times[1].iter().zip(&times[0]).map(|(passes, one)| passes / one);
    let ratio = median(ratios).unwrap_or_default();
    let (ns, ghz) = (times.map(|times| median(times).unwrap_or_default()), ghz());
    Ok(Found { ns, cycles: ns.map(|ns| ghz.map(|ghz| ghz * ns)), ratio })
}

/// The processor's clock, as the kernel tells it.
fn ghz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    Some(mhz / 1000.0)
}
