//! What lies between device and transport, without I/O: addresses, neighbours, routes, ICMP, fragments.
//!
//! [`Layer`] is the door: frames go in, the transport's datagrams come out, and the headers of packets that
//! the transport sends are written for it. Time and randomness are arguments.
#![forbid(unsafe_code)]

pub mod addresses;
mod arp;
mod cidr;
mod config;
mod counters;
mod dhcp;
mod groups;
mod icmp;
mod icmp_error;
mod identification;
mod input;
mod ipv4;
mod ipv6;
mod layer;
mod lease;
mod limit;
mod loopback;
mod membership;
mod multicast;
mod ndp;
pub mod neighbors;
mod outbox;
mod output;
mod path_mtu;
mod random;
mod reassembly;
pub mod routes;
mod slaac;
mod transmit;

pub use cidr::{Cidr, NotACidr};
pub use config::{Config, Identifier, Limits, Link, Route};
pub use counters::{Cause, Counters, Drops};
pub use dhcp::Lease;
pub use input::{Cast, Datagram, Input, PathError, PathErrorKind, Payload};
pub use layer::{Layer, MIN_MTU};
pub use loopback::LOOPBACK_MTU;
pub use membership::{MAX_SOURCES, MembershipChange};
pub use output::{Fragment, MAX_HEADER_LEN, MacPair, NoPath, Packet, Via, pseudo_header_sum};
