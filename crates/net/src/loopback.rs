//! Packets to this host itself ([`Config::loopback`](crate::Config::loopback)): they have a path as others do, and whoever
//! sends them sees that it leads back ([`Via::loops`]) and gives them to [`Layer::handle_looped`].
//!
//! From the link such packets are martians as ever (RFC 1122, section 3.2.1.3 (g); RFC 4291, section 2.5.3).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fusewire_base::Instant;
use fusewire_wire::{ethernet, ipv4, ipv6};

use crate::config::Link;
use crate::input::Input;
use crate::layer::Layer;
use crate::output::Via;

/// Largest IP packet to ourselves: no link bounds it.
pub const LOOPBACK_MTU: usize = 65_535;

impl Layer {
    /// Packets to `destination` come back to us.
    pub fn loops_back(&self, destination: IpAddr) -> bool {
        self.config.loopback && (destination.is_loopback() || self.addresses.is_own(destination))
    }

    /// Whom a program means that names no address as the destination: itself, where there is a loopback.
    pub fn meant(&self, destination: IpAddr) -> IpAddr {
        match destination {
            _ if !self.config.loopback => destination,
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            _ => destination,
        }
    }

    /// Whether a frame of ours, of which `head` holds the IP header, is to come back: it was written by a [`Via`] that
    /// loops.
    pub fn is_looped_frame(&self, head: &[u8]) -> bool {
        if !self.config.loopback {
            return false;
        }
        if let Link::Ethernet(own) = self.config.link {
            return head.starts_with(&own.0) && head.len() >= ethernet::HEADER_LEN;
        }
        // The last field of either header.
        let (v4, v6) = (head.get(16..ipv4::MIN_HEADER_LEN), head.get(24..ipv6::HEADER_LEN));
        let destination: Option<IpAddr> = match head.first().map(|byte| byte >> 4) {
            Some(4) => v4.and_then(|at| at.first_chunk()).map(|at: &[u8; 4]| (*at).into()),
            Some(6) => v6.and_then(|at| at.first_chunk()).map(|at: &[u8; 16]| (*at).into()),
            _ => None,
        };
        destination.is_some_and(|destination| self.loops_back(destination))
    }

    /// As [`Layer::handle`], of a frame that we sent to ourselves. `is_verified`: its transport checksum is right, or was
    /// never made.
    pub fn handle_looped(&mut self, now: Instant, frame: &[u8], is_verified: bool) -> Input {
        self.is_looped = true;
        let input = match is_verified {
            true => self.handle_verified(now, frame),
            false => self.handle(now, frame),
        };
        self.is_looped = false;
        input
    }

    /// The frame at hand is ours, and both of its addresses may be.
    pub(crate) fn is_looped_address(&self, address: IpAddr) -> bool {
        self.is_looped && self.loops_back(address)
    }

    /// A path to ourselves.
    pub(crate) fn path_back(&self, destination: IpAddr, source: Option<IpAddr>) -> Via {
        let source = source.unwrap_or(match destination {
            IpAddr::V4(own) if own.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            own => own,
        });
        let mac = match self.config.link {
            Link::Ethernet(own) => Some(own),
            Link::Ip => None,
        };
        self.via(source, destination, destination, mac)
    }
}
