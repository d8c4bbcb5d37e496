//! Neighbour discovery for IPv6 (RFC 4861, section 4) over Ethernet (RFC 2464, section 6).
//!
//! Reads and writes whole ICMPv6 messages whose checksum the caller has verified, or will write
//! ([`crate::icmp::emit_checksum`]). That the hop limit was 255 is the caller's to check too.

use core::net::Ipv6Addr;

use crate::Error;
use crate::ethernet::Address;

const PROTOCOL: &str = "ndp";

/// ICMPv6 type of a router solicitation.
pub const ROUTER_SOLICITATION: u8 = 133;
/// ICMPv6 type of a router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// ICMPv6 type of a neighbour solicitation.
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// ICMPv6 type of a redirect.
pub const REDIRECT: u8 = 137;
/// Hop limit of every such message, sent and received: it has passed no router.
pub const HOP_LIMIT: u8 = 255;
/// Longest message written here: a solicitation or advertisement of a neighbour with one option.
pub const MAX_EMIT_LEN: usize = 32;

const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
const OPTION_PREFIX: u8 = 3;
const OPTION_MTU: u8 = 5;
const OPTION_NONCE: u8 = 14;
const OPTION_LEN: usize = 8;

/// A message without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Is a router here? (section 4.1)
    RouterSolicitation,
    /// A router is here. (section 4.2)
    RouterAdvertisement(Router),
    /// Who has this address, or are you still there? (section 4.3)
    NeighborSolicitation {
        /// Never multicast.
        target: Ipv6Addr,
    },
    /// The answer, or news. (section 4.4)
    NeighborAdvertisement {
        /// The sender is a router (R).
        router: bool,
        /// In answer to a solicitation (S).
        solicited: bool,
        /// To override what is cached (O).
        override_cache: bool,
        /// Never multicast.
        target: Ipv6Addr,
    },
    /// A better first hop. (section 4.5)
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// For what destination.
        destination: Ipv6Addr,
    },
}

/// What a router says (RFC 4861, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Router {
    /// Hop limit for packets sent; 0: unspecified.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6 (M).
    pub managed: bool,
    /// Other configuration is (O).
    pub other: bool,
    /// How long it is a default router, in seconds; 0: it is none.
    pub lifetime_s: u16,
    /// How long a neighbour is reachable after a confirmation, in milliseconds; 0: unspecified.
    pub reachable_time_ms: u32,
    /// Time between solicitations, in milliseconds; 0: unspecified.
    pub retrans_timer_ms: u32,
}

/// An option that is read here (RFC 4861, section 4.6); others are passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption {
    /// Source link-layer address.
    SourceAddress(Address),
    /// Target link-layer address.
    TargetAddress(Address),
    /// Prefix information.
    Prefix(Prefix),
    /// MTU of the link.
    Mtu(u32),
    /// Tells an own solicitation that was looped back (RFC 3971, section 5.3.2; RFC 7527).
    Nonce([u8; 6]),
}

/// Prefix information (RFC 4861, section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix; bits behind `len` mean nothing.
    pub prefix: Ipv6Addr,
    /// Bits that count; any value can come in.
    pub len: u8,
    /// Addresses of the prefix are neighbours (L).
    pub on_link: bool,
    /// Addresses may be made of it (A).
    pub autonomous: bool,
    /// In seconds; `u32::MAX` is for ever.
    pub valid_lifetime_s: u32,
    /// In seconds; `u32::MAX` is for ever.
    pub preferred_lifetime_s: u32,
}

impl Message {
    /// Reads the message that `bytes` are; its options are [`options`] of the bytes from the second
    /// of the pair on. `None` for a type that is not of neighbour discovery.
    ///
    /// # Errors
    /// `Truncated`; `Value` for a code that is not zero or a multicast target.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Message, usize)>, Error> {
        let kind = bytes.first().copied().unwrap_or(0);
        let len = match kind {
            ROUTER_SOLICITATION => 8,
            ROUTER_ADVERTISEMENT => 16,
            NEIGHBOR_SOLICITATION | NEIGHBOR_ADVERTISEMENT => 24,
            REDIRECT => 40,
            _ => return Ok(None),
        };
        let Some(fixed) = bytes.get(..len) else {
            return Err(Error::Truncated { protocol: PROTOCOL, needed: len, found: bytes.len() });
        };
        let value =
            |field, found: u8| Error::Value { protocol: PROTOCOL, field, found: found.into() };
        if fixed[1] != 0 {
            return Err(value("code", fixed[1]));
        }
        let flags = fixed[4];
        if len >= 24 && fixed[8] == 0xff {
            return Err(value("target", fixed[8]));
        }
        let message = match kind {
            ROUTER_SOLICITATION => Message::RouterSolicitation,
            ROUTER_ADVERTISEMENT => Message::RouterAdvertisement(Router {
                hop_limit: fixed[4],
                managed: fixed[5] & 0x80 != 0,
                other: fixed[5] & 0x40 != 0,
                lifetime_s: u16::from_be_bytes([fixed[6], fixed[7]]),
                reachable_time_ms: word(fixed, 8),
                retrans_timer_ms: word(fixed, 12),
            }),
            NEIGHBOR_SOLICITATION => Message::NeighborSolicitation { target: address(fixed, 8) },
            NEIGHBOR_ADVERTISEMENT => Message::NeighborAdvertisement {
                router: flags & 0x80 != 0,
                solicited: flags & 0x40 != 0,
                override_cache: flags & 0x20 != 0,
                target: address(fixed, 8),
            },
            _ => Message::Redirect { target: address(fixed, 8), destination: address(fixed, 24) },
        };
        Ok(Some((message, len)))
    }

    /// Writes the message with a checksum of zero and returns its length.
    ///
    /// # Panics
    /// When `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let (kind, len) = match self {
            Message::RouterSolicitation => (ROUTER_SOLICITATION, 8),
            Message::RouterAdvertisement(_) => (ROUTER_ADVERTISEMENT, 16),
            Message::NeighborSolicitation { .. } => (NEIGHBOR_SOLICITATION, 24),
            Message::NeighborAdvertisement { .. } => (NEIGHBOR_ADVERTISEMENT, 24),
            Message::Redirect { .. } => (REDIRECT, 40),
        };
        let out = &mut out[..len];
        out.fill(0);
        out[0] = kind;
        match *self {
            Message::RouterSolicitation => {}
            Message::RouterAdvertisement(router) => {
                out[4] = router.hop_limit;
                out[5] = u8::from(router.managed) << 7 | u8::from(router.other) << 6;
                out[6..8].copy_from_slice(&router.lifetime_s.to_be_bytes());
                out[8..12].copy_from_slice(&router.reachable_time_ms.to_be_bytes());
                out[12..16].copy_from_slice(&router.retrans_timer_ms.to_be_bytes());
            }
            Message::NeighborSolicitation { target } => {
                out[8..24].copy_from_slice(&target.octets());
            }
            Message::NeighborAdvertisement { router, solicited, override_cache, target } => {
                out[4] = u8::from(router) << 7
                    | u8::from(solicited) << 6
                    | u8::from(override_cache) << 5;
                out[8..24].copy_from_slice(&target.octets());
            }
            Message::Redirect { target, destination } => {
                out[8..24].copy_from_slice(&target.octets());
                out[24..40].copy_from_slice(&destination.octets());
            }
        }
        len
    }
}

/// The options in `bytes`, those of other kinds left out. After an error comes nothing more: a message with
/// an option of length 0 must be dropped whole (RFC 4861, section 4.6).
pub fn options(bytes: &[u8]) -> Options<'_> {
    Options { rest: bytes }
}

/// See [`options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl Iterator for Options<'_> {
    type Item = Result<NdpOption, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&kind) = self.rest.first() {
            let units = self.rest.get(1).copied().unwrap_or(0);
            let len = usize::from(units) * 8;
            if len == 0 || len > self.rest.len() {
                self.rest = &[];
                let error = Error::OptionLength { protocol: PROTOCOL, kind, at: 0, found: units };
                return Some(Err(error));
            }
            let (option, rest) = self.rest.split_at(len);
            self.rest = rest;
            if let Some(option) = NdpOption::read(option) {
                return Some(Ok(option));
            }
        }
        None
    }
}

impl NdpOption {
    fn read(bytes: &[u8]) -> Option<NdpOption> {
        let six =
            || bytes.get(2..8).map(|b| [b[0], b[1], b[2], b[3], b[4], b[5]]).unwrap_or_default();
        match (bytes[0], bytes.len()) {
            (OPTION_SOURCE, 8) => Some(NdpOption::SourceAddress(Address(six()))),
            (OPTION_TARGET, 8) => Some(NdpOption::TargetAddress(Address(six()))),
            (OPTION_MTU, 8) => Some(NdpOption::Mtu(word(bytes, 4))),
            (OPTION_NONCE, 8) => Some(NdpOption::Nonce(six())),
            (OPTION_PREFIX, 32) => Some(NdpOption::Prefix(Prefix {
                prefix: address(bytes, 16),
                len: bytes[2],
                on_link: bytes[3] & 0x80 != 0,
                autonomous: bytes[3] & 0x40 != 0,
                valid_lifetime_s: word(bytes, 4),
                preferred_lifetime_s: word(bytes, 8),
            })),
            _ => None,
        }
    }

    /// Writes the option and returns its length.
    ///
    /// # Panics
    /// When `out` is too short.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let six = |out: &mut [u8], kind, bytes: [u8; 6]| {
            out[..2].copy_from_slice(&[kind, 1]);
            out[2..8].copy_from_slice(&bytes);
            OPTION_LEN
        };
        match *self {
            NdpOption::SourceAddress(address) => six(out, OPTION_SOURCE, address.0),
            NdpOption::TargetAddress(address) => six(out, OPTION_TARGET, address.0),
            NdpOption::Nonce(nonce) => six(out, OPTION_NONCE, nonce),
            NdpOption::Mtu(mtu) => {
                let [a, b, c, d] = mtu.to_be_bytes();
                six(out, OPTION_MTU, [0, 0, a, b, c, d])
            }
            NdpOption::Prefix(prefix) => {
                out[..32].fill(0);
                let flags = u8::from(prefix.on_link) << 7 | u8::from(prefix.autonomous) << 6;
                out[..4].copy_from_slice(&[OPTION_PREFIX, 4, prefix.len, flags]);
                out[4..8].copy_from_slice(&prefix.valid_lifetime_s.to_be_bytes());
                out[8..12].copy_from_slice(&prefix.preferred_lifetime_s.to_be_bytes());
                out[16..32].copy_from_slice(&prefix.prefix.octets());
                32
            }
        }
    }
}

/// Callers give at least `at + 4` bytes.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Callers give at least `at + 16` bytes.
fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    octets.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Ipv6Addr {
        "fe80::1:2:3".parse().unwrap()
    }

    fn all() -> [Message; 5] {
        [
            Message::RouterSolicitation,
            Message::RouterAdvertisement(Router {
                hop_limit: 64,
                managed: true,
                other: false,
                lifetime_s: 1800,
                reachable_time_ms: 30_000,
                retrans_timer_ms: 1_000,
            }),
            Message::NeighborSolicitation { target: target() },
            Message::NeighborAdvertisement {
                router: false,
                solicited: true,
                override_cache: true,
                target: target(),
            },
            Message::Redirect { target: target(), destination: "2001:db8::7".parse().unwrap() },
        ]
    }

    fn all_options() -> [NdpOption; 5] {
        let prefix = Prefix {
            prefix: "2001:db8::".parse().unwrap(),
            len: 64,
            on_link: true,
            autonomous: true,
            valid_lifetime_s: u32::MAX,
            preferred_lifetime_s: 3600,
        };
        [
            NdpOption::SourceAddress(Address([2, 0, 0, 0, 0, 1])),
            NdpOption::TargetAddress(Address([2, 0, 0, 0, 0, 2])),
            NdpOption::Prefix(prefix),
            NdpOption::Mtu(1500),
            NdpOption::Nonce([1, 2, 3, 4, 5, 6]),
        ]
    }

    #[test]
    fn round_trip_and_every_truncation() {
        for message in all() {
            let mut bytes = [0xee; 48];
            let len = message.emit(&mut bytes);
            assert_eq!(Message::parse(&bytes), Ok(Some((message, len))));
            for short in 1..len {
                let error = Error::Truncated { protocol: PROTOCOL, needed: len, found: short };
                assert_eq!(Message::parse(&bytes[..short]), Err(error));
            }
            bytes[1] = 1;
            let error = Error::Value { protocol: PROTOCOL, field: "code", found: 1 };
            assert_eq!(Message::parse(&bytes), Err(error));
        }
        assert_eq!(Message::parse(&[]), Ok(None));
        assert_eq!(Message::parse(&[128; 8]), Ok(None));
    }

    #[test]
    fn a_multicast_target_is_refused() {
        let mut bytes = [0; 24];
        Message::NeighborSolicitation { target: "ff02::1".parse().unwrap() }.emit(&mut bytes);
        assert!(matches!(Message::parse(&bytes), Err(Error::Value { field: "target", .. })));
    }

    #[test]
    fn options_round_trip_among_unknown_ones_and_every_cut_is_told() {
        let mut bytes = vec![99, 1, 0, 0, 0, 0, 0, 0];
        let mut starts = vec![];
        for option in all_options() {
            let mut out = [0; 32];
            let len = option.emit(&mut out);
            starts.push(bytes.len());
            bytes.extend(&out[..len]);
        }
        let read: Result<Vec<_>, _> = options(&bytes).collect();
        assert_eq!(read, Ok(all_options().to_vec()));
        for len in 0..bytes.len() {
            let whole = len == 0 || starts.contains(&len);
            let read: Result<Vec<_>, _> = options(&bytes[..len]).collect();
            assert_eq!(read.is_ok(), whole, "{len} bytes");
        }
        bytes[9] = 0;
        assert!(options(&bytes).any(|o| o.is_err()), "an option of length 0");
    }
}
