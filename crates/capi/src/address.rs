//! `struct sockaddr` and back: bytes of `sockaddr_in` (16) and `sockaddr_in6` (28) as Linux lays them out.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::errno::{Errno, Result};

/// Bytes of the longest address.
pub const MAX: usize = 28;

/// `AF_INET` or `AF_INET6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// What an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// `AF_UNSPEC`: nobody.
    Nobody,
    Somebody(SocketAddr),
}

impl Family {
    /// From a domain.
    pub fn of(domain: i32) -> Result<Family> {
        match domain {
            libc::AF_INET => Ok(Family::V4),
            libc::AF_INET6 => Ok(Family::V6),
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }

    /// The domain.
    pub fn domain(self) -> i32 {
        match self {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        }
    }

    /// No address and no port.
    pub fn unspecified(self) -> SocketAddr {
        match self {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// Reads an address for a socket of this family. An IPv4-mapped one is IPv4 (RFC 4291, section 2.5.5.2).
    ///
    /// # Errors
    /// `EINVAL` when it is too short, `EAFNOSUPPORT` when it is of another family.
    pub fn parse(self, bytes: &[u8]) -> Result<Named> {
        let Some((family, rest)) = bytes.split_first_chunk::<2>() else {
            return Err(Errno(libc::EINVAL));
        };
        let family = i32::from(u16::from_ne_bytes(*family));
        if family == libc::AF_UNSPEC {
            return Ok(Named::Nobody);
        }
        if family != self.domain() {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let addr = match self {
            Family::V4 => v4(rest),
            Family::V6 => v6(rest),
        };
        addr.map(Named::Somebody).ok_or(Errno(libc::EINVAL))
    }

    /// An address as C reads it, for a socket of this family: IPv4 on an IPv6 socket is mapped.
    pub fn emit(self, addr: SocketAddr) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX);
        bytes.extend_from_slice(&(self.domain() as u16).to_ne_bytes());
        bytes.extend_from_slice(&addr.port().to_be_bytes());
        match (self, addr.ip()) {
            (Family::V4, IpAddr::V4(ip)) => {
                bytes.extend_from_slice(&ip.octets());
                bytes.extend_from_slice(&[0; 8]);
            }
            (_, ip) => {
                let ip = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                bytes.extend_from_slice(&[0; 4]);
                bytes.extend_from_slice(&ip.octets());
                let zone = match addr {
                    SocketAddr::V6(v6) => v6.scope_id(),
                    SocketAddr::V4(_) => 0,
                };
                bytes.extend_from_slice(&zone.to_ne_bytes());
            }
        }
        bytes
    }
}

/// What follows the family in `sockaddr_in`: port, address, 8 bytes that mean nothing.
fn v4(rest: &[u8]) -> Option<SocketAddr> {
    let rest: &[u8; 14] = rest.first_chunk()?;
    let port = u16::from_be_bytes([rest[0], rest[1]]);
    Some((Ipv4Addr::new(rest[2], rest[3], rest[4], rest[5]), port).into())
}

/// What follows the family in `sockaddr_in6`: port, flow label, address, and perhaps the scope (RFC 2133
/// had none).
fn v6(rest: &[u8]) -> Option<SocketAddr> {
    let (rest, behind) = rest.split_first_chunk::<22>()?;
    let port = u16::from_be_bytes([rest[0], rest[1]]);
    let octets: &[u8; 16] = rest[6..].first_chunk()?;
    let zone = behind.first_chunk().map_or(0, |zone| u32::from_ne_bytes(*zone));
    Some(match Ipv6Addr::from(*octets).to_canonical() {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, zone).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for (family, text) in [(Family::V4, "192.0.2.1:80"), (Family::V6, "[2001:db8::1]:65535")] {
            let addr: SocketAddr = text.parse().unwrap();
            let bytes = family.emit(addr);
            assert_eq!(family.parse(&bytes), Ok(Named::Somebody(addr)));
            let least = if family == Family::V4 { 16 } else { 24 };
            for len in 0..bytes.len() {
                let expected = match len {
                    _ if len >= least => Ok(Named::Somebody(addr)),
                    _ => Err(Errno(libc::EINVAL)),
                };
                assert_eq!(family.parse(&bytes[..len]), expected, "{len} bytes of {text}");
            }
        }
    }

    #[test]
    fn a_zone_comes_back_when_the_address_is_long_enough() {
        let [zoned, plain] = ["[fe80::1%7]:9", "[fe80::1]:9"].map(|text| text.parse().unwrap());
        let bytes = Family::V6.emit(zoned);
        assert_eq!(Family::V6.parse(&bytes), Ok(Named::Somebody(zoned)));
        assert_eq!(Family::V6.parse(&bytes[..24]), Ok(Named::Somebody(plain)));
    }

    #[test]
    fn ipv4_on_an_ipv6_socket_is_mapped() {
        let addr: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let bytes = Family::V6.emit(addr);
        assert_eq!(bytes.len(), MAX);
        assert_eq!(bytes[8..24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(Family::V6.parse(&bytes), Ok(Named::Somebody(addr)));
        assert_eq!(Family::V4.parse(&bytes), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(Family::V4.parse(&[0; 16]), Ok(Named::Nobody));
        assert_eq!(Family::of(libc::AF_UNIX), Err(Errno(libc::EAFNOSUPPORT)));
    }
}
