//! `struct sockaddr` and back: `sockaddr_in` (16 bytes) and `sockaddr_in6` (28) as Linux lays them out.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use fusewire_outboard::client::Result;
use fusewire_outboard::protocol::Family;
use rustix::io::Errno;

/// Bytes of the longest address.
pub const MAX: usize = 28;

/// The domain of a family.
pub fn domain(family: Family) -> i32 {
    match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    }
}

/// Reads an address for a socket of a family; `None` for `AF_UNSPEC`. An IPv4-mapped one is IPv4 (RFC 4291, section 2.5.5.2).
///
/// # Errors
/// `EINVAL` when it is too short, `EAFNOSUPPORT` when it is of another family.
pub fn parse(family: Family, bytes: &[u8]) -> Result<Option<SocketAddr>> {
    let (found, rest) = bytes.split_first_chunk::<2>().ok_or(Errno::INVAL)?;
    let found = i32::from(u16::from_ne_bytes(*found));
    if found == libc::AF_UNSPEC {
        return Ok(None);
    }
    if found != domain(family) {
        return Err(Errno::AFNOSUPPORT);
    }
    let address = match family {
        Family::V4 => v4(rest),
        Family::V6 => v6(rest),
    };
    address.map(Some).ok_or(Errno::INVAL)
}

/// What follows the family in `sockaddr_in`: port, address, 8 bytes that mean nothing.
fn v4(rest: &[u8]) -> Option<SocketAddr> {
    let [p0, p1, a, b, c, d, ..] = *rest.first_chunk::<14>()?;
    Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([p0, p1])).into())
}

/// What follows it in `sockaddr_in6`: port, flow label, address, and perhaps the scope (RFC 2133 had none).
fn v6(rest: &[u8]) -> Option<SocketAddr> {
    let [p0, p1, _, _, _, _, ip @ ..] = *rest.first_chunk::<22>()?;
    let port = u16::from_be_bytes([p0, p1]);
    let scope = rest[22..].first_chunk().map_or(0, |scope| u32::from_ne_bytes(*scope));
    Some(match Ipv6Addr::from(ip).to_canonical() {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    })
}

/// An address as a program reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laid {
    bytes: [u8; MAX],
    len: usize,
}

impl std::ops::Deref for Laid {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Lays an address down for a socket of a family: IPv4 on an IPv6 socket is mapped.
pub fn emit(family: Family, address: SocketAddr) -> Laid {
    let mut bytes = [0; MAX];
    bytes[..2].copy_from_slice(&(domain(family) as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    let ip = match (family, address.ip()) {
        (Family::V4, IpAddr::V4(ip)) => {
            bytes[4..8].copy_from_slice(&ip.octets());
            return Laid { bytes, len: 16 };
        }
        (_, IpAddr::V4(ip)) => ip.to_ipv6_mapped(),
        (_, IpAddr::V6(ip)) => ip,
    };
    bytes[8..24].copy_from_slice(&ip.octets());
    if let SocketAddr::V6(v6) = address {
        bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
    }
    Laid { bytes, len: MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for (family, text) in [
            (Family::V4, "192.0.2.1:80"),
            (Family::V6, "[2001:db8::1]:65535"),
            (Family::V6, "192.0.2.1:80"),
            (Family::V6, "[fe80::1%7]:9"),
        ] {
            let address: SocketAddr = text.parse().unwrap();
            let laid = emit(family, address);
            assert_eq!(parse(family, &laid), Ok(Some(address)));
            let least = if family == Family::V4 { 16 } else { 24 };
            for len in 0..least {
                assert_eq!(parse(family, &laid[..len]), Err(Errno::INVAL), "{len} of {text}");
            }
            let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
            assert_eq!(parse(other, &laid), Err(Errno::AFNOSUPPORT));
        }
        assert_eq!(parse(Family::V4, &[0; 16]), Ok(None));
    }
}
