//! What a layer is told at its beginning.

use core::net::IpAddr;
use core::time::Duration;

use fusewire_wire::ethernet::Address;

use crate::Cidr;

/// What frames begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// An Ethernet header; the interface's own MAC address.
    Ethernet(Address),
    /// An IPv4 or IPv6 header: a link of two, without neighbours to resolve.
    Ip,
}

/// A route that is not from a router's advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub destination: Cidr,
    /// Through whom; `None`: the destinations are neighbours.
    pub gateway: Option<IpAddr>,
}

/// How interface identifiers of IPv6 addresses are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// From the MAC address (RFC 4291, appendix A): tells the hardware to everybody.
    Eui64,
    /// A keyed hash of prefix and MAC address (after RFC 7217): the same as long as the key is, and different
    /// in every network.
    Opaque([u8; 16]),
}

/// Bounds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Neighbours, rounded up to a multiple of 16.
    pub neighbors: usize,
    /// Datagrams being put together, of 64 KiB each, rounded up to a multiple of 16.
    pub reassemblies: usize,
    /// Destinations whose path MTU is remembered, rounded up to a multiple of 8.
    pub path_mtus: usize,
    /// Groups of applications, of each IP version.
    pub groups: usize,
    /// ICMP errors, resets and the like a second.
    pub answers_per_s: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            neighbors: 1024,
            reassemblies: 128,
            path_mtus: 1024,
            groups: 64,
            answers_per_s: 1000,
        }
    }
}

/// What a layer is told at its beginning.
#[derive(Clone, Debug)]
pub struct Config {
    /// What frames begin with.
    pub link: Link,
    /// Largest IP packet of the link in bytes.
    pub mtu: usize,
    /// Addresses that are ours from the beginning.
    pub addresses: Vec<Cidr>,
    /// Routes. Networks of own addresses need none.
    pub routes: Vec<Route>,
    /// Ask for an IPv4 address by DHCP. Ethernet only.
    pub dhcp: bool,
    /// Have a link-local IPv6 address, and others from routers' advertisements (RFC 4862). Ethernet only.
    pub slaac: bool,
    /// How the addresses of `slaac` end.
    pub identifier: Identifier,
    /// Use no IPv6 address before it is clear that nobody else has it (RFC 4862, section 5.4), and no
    /// IPv4 address from DHCP. Ethernet only.
    pub duplicate_detection: bool,
    /// Answer for the addresses and ask for neighbours: ARP, neighbour discovery, echo, errors, groups.
    /// False beside a kernel that has the same addresses and does all that: then
    /// [`Layer::poll_question`](crate::Layer::poll_question) says whom it is to ask for.
    pub responds: bool,
    /// Packets to 127.0.0.0/8, ::1 and our own addresses come back to us, and never reach the link. Without effect where
    /// `responds` is false: there such packets are somebody else's.
    pub loopback: bool,
    /// Hops that packets may go.
    pub hop_limit: u8,
    /// A datagram is given up when it is not whole after this time (RFC 1122, section 3.3.2; RFC 8200,
    /// section 4.5).
    pub reassembly_timeout: Duration,
    /// Bounds of tables.
    pub limits: Limits,
}

impl Config {
    /// A host without an address on `link`: Ethernet's MTU, duplicate detection, nothing automatic.
    pub fn new(link: Link) -> Config {
        Config {
            link,
            mtu: 1500,
            addresses: Vec::new(),
            routes: Vec::new(),
            dhcp: false,
            slaac: false,
            identifier: Identifier::Eui64,
            duplicate_detection: true,
            responds: true,
            loopback: false,
            hop_limit: 64,
            reassembly_timeout: Duration::from_secs(60),
            limits: Limits::default(),
        }
    }
}
