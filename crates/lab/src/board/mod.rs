//! The outboard as a board: its transport alone, one end's time apart from the other's, and behind its API, on a wire in
//! memory whose other end is a host that takes no processor of its own ([`wire`]).

pub mod alone;
pub mod operation;
mod wire;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fusewire_device::interface::Interface;
use fusewire_device::interface::memory::Config;
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{self, Cidr};
use fusewire_stack::ip::{self, Stack, TcpConfig};

use crate::{Error, Result};

/// Bytes of the headers of IPv4 and TCP, which has no options here.
const HEADERS: usize = 40;
/// Where the peer listens.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 79, 0, 2)), 7);

/// The board's address, or its peer's.
fn address(host: u8) -> Cidr {
    Cidr::new(Ipv4Addr::new(10, 79, 0, host).into(), 24).expect("an address and its prefix")
}

/// A wire whose packets carry so many bytes of a stream each, at least 64: as they are, with sums.
fn wire_of(payload: usize) -> Config {
    Config { mtu: payload + HEADERS, queue_packets: 1 << 14, ..Config::default() }
}

/// The paper's TCP: neither paces, nor delays, nor has options in its segments.
fn tcp() -> TcpConfig {
    TcpConfig {
        timestamps: false,
        pacing: false,
        ecn: false,
        send_buffer: 1 << 20,
        recv_window: 1 << 20,
        initial_recv_window: 1 << 20,
        initial_window_segments: 1 << 12,
        delayed_ack: Duration::from_millis(5),
        ..TcpConfig::default()
    }
}

/// A stack that is host number `host` on an interface.
fn stack(interface: Box<dyn Interface>, host: u8, clock: &Clock) -> Result<Stack> {
    let seed = fusewire_device::random().map_err(Error::os("asking for randomness"))?;
    let net = net::Config {
        addresses: vec![address(host)],
        duplicate_detection: false,
        ..Stack::net_config(&*interface)
    };
    let config = ip::Config { tcp: tcp(), ..ip::Config::default() };
    Ok(Stack::new(interface, net, config, seed, clock.now()))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Unsupported(error.to_string())
}
