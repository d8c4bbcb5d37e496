//! What stands before a datagram in a placeholder: an address, and what goes beside it.
//!
//! ```text
//!    0 24  address of who sent it, or of whom it is for (zeros: whom the socket is connected to)
//!   24  1  which of the following count: 1 the address, 2 the traffic class, 4 the hops; of the address, 8: it is many's, 16: it is
//!          wanted as `IP_PKTINFO` has it, 32: as `IPV6_PKTINFO` has it
//!   25  1  traffic class
//!   26  1  hops
//!   27  1  zero
//!   28  4  interface, by the kernel's number; 0: none is said
//!   32 16  address of ours, IPv4's as IPv6 has it (RFC 4291, section 2.5.5.2)
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use fusewire_stack::ip::Ancillary;

use super::{ADDRESS_LEN, Result, emit_address, malformed, parse_address};

/// Bytes of what goes beside a datagram.
pub const ANCILLARY_LEN: usize = 24;
/// Bytes of a [`Heading`].
pub const HEADING_LEN: usize = ADDRESS_LEN + ANCILLARY_LEN;

const HAS_LOCAL: u8 = 1;
const HAS_CLASS: u8 = 2;
const HAS_HOPS: u8 = 4;
const IS_SHARED: u8 = 8;
const AS_V4: u8 = 16;
const AS_V6: u8 = 32;
const OF_LOCAL: u8 = IS_SHARED | AS_V4 | AS_V6;

/// What is said of a datagram besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// Who sent it, or whom it is for; `None`: to whom the socket is connected, or nobody: word of an error.
    pub address: Option<SocketAddr>,
    /// What goes beside it.
    pub beside: Ancillary,
}

impl From<Option<SocketAddr>> for Heading {
    fn from(address: Option<SocketAddr>) -> Heading {
        Heading { address, beside: Ancillary::default() }
    }
}

impl Heading {
    /// Reads one.
    ///
    /// # Errors
    /// An address that is none, bytes that belong to nothing.
    pub fn parse(bytes: &[u8; HEADING_LEN]) -> Result<Heading> {
        let (address, beside) = (bytes.first_chunk(), bytes.last_chunk());
        let (Some(address), Some(beside)) = (address, beside) else {
            return malformed("heading", "48 bytes", bytes.len());
        };
        Ok(Heading { address: parse_address(address)?, beside: parse_ancillary(beside)? })
    }

    /// Lays it down.
    pub fn emit(&self) -> [u8; HEADING_LEN] {
        let mut bytes = [0; HEADING_LEN];
        bytes[..ADDRESS_LEN].copy_from_slice(&emit_address(self.address));
        bytes[ADDRESS_LEN..].copy_from_slice(&emit_ancillary(&self.beside));
        bytes
    }
}

/// Reads what goes beside a datagram.
///
/// # Errors
/// Bytes that belong to nothing.
pub fn parse_ancillary(bytes: &[u8; ANCILLARY_LEN]) -> Result<Ancillary> {
    let [which, class, hops, zero, i0, i1, i2, i3, ip @ ..] = *bytes;
    let has = |flag| which & flag != 0;
    if which & !(HAS_LOCAL | HAS_CLASS | HAS_HOPS | OF_LOCAL) != 0 {
        return malformed("what goes beside a datagram", "at most 63", which);
    }
    let is_clean = (has(HAS_CLASS) || class == 0)
        && (has(HAS_HOPS) || hops == 0)
        && (has(HAS_LOCAL) || (ip == [0; 16] && !has(OF_LOCAL)));
    if zero != 0 || !is_clean {
        return malformed("what goes beside a datagram", "zero where nothing is said", zero);
    }
    Ok(Ancillary {
        local: has(HAS_LOCAL).then(|| Ipv6Addr::from(ip).to_canonical()),
        interface: u32::from_le_bytes([i0, i1, i2, i3]),
        traffic_class: has(HAS_CLASS).then_some(class),
        hop_limit: has(HAS_HOPS).then_some(hops),
        is_shared: has(IS_SHARED),
        as_v4: has(AS_V4),
        as_v6: has(AS_V6),
    })
}

/// Lays it down.
pub fn emit_ancillary(beside: &Ancillary) -> [u8; ANCILLARY_LEN] {
    let mut bytes = [0; ANCILLARY_LEN];
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    bytes[0] = flag(beside.local.is_some(), HAS_LOCAL)
        | flag(beside.traffic_class.is_some(), HAS_CLASS)
        | flag(beside.hop_limit.is_some(), HAS_HOPS);
    if beside.local.is_some() {
        bytes[0] |= flag(beside.is_shared, IS_SHARED)
            | flag(beside.as_v4, AS_V4)
            | flag(beside.as_v6, AS_V6);
    }
    bytes[1] = beside.traffic_class.unwrap_or(0);
    bytes[2] = beside.hop_limit.unwrap_or(0);
    bytes[4..8].copy_from_slice(&beside.interface.to_le_bytes());
    match beside.local {
        Some(IpAddr::V4(v4)) => bytes[8..].copy_from_slice(&v4.to_ipv6_mapped().octets()),
        Some(IpAddr::V6(v6)) => bytes[8..].copy_from_slice(&v6.octets()),
        None => {}
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_comes_back_and_nothing_else_is_taken() {
        let peer: SocketAddr = "10.0.0.1:53".parse().unwrap();
        let all = |local: &str| Ancillary {
            local: Some(local.parse().unwrap()),
            interface: 3,
            traffic_class: Some(0),
            hop_limit: Some(255),
            is_shared: local == "10.0.0.255",
            as_v4: local != "fe80::1",
            as_v6: local != "10.0.0.2",
        };
        for beside in [Ancillary::default(), all("10.0.0.2"), all("10.0.0.255"), all("fe80::1")] {
            for address in [None, Some(peer)] {
                let heading = Heading { address, beside };
                assert_eq!(Heading::parse(&heading.emit()), Ok(heading));
            }
        }
        let plain = Heading::from(Some(peer)).emit();
        // An address's prefix, a flag that is none, values that nobody has said, zero.
        for (at, value) in [
            (1, 1),
            (24, 64),
            (24, 8),
            (24, 16),
            (24, 32),
            (25, 1),
            (26, 1),
            (27, 1),
            (32, 1),
            (47, 1),
        ] {
            let mut wrong = plain;
            wrong[at] = value;
            assert!(Heading::parse(&wrong).is_err(), "byte {at}");
        }
    }
}
