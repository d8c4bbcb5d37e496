//! An address with the length of its prefix.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address and how many of its leading bits name the network (RFC 4632, RFC 4291 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix_len: u8,
}

impl Cidr {
    /// `None` when the prefix is longer than the address.
    pub const fn new(address: IpAddr, prefix_len: u8) -> Option<Cidr> {
        let max = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        if prefix_len <= max { Some(Cidr { address, prefix_len }) } else { None }
    }

    /// The address alone.
    pub const fn host(address: IpAddr) -> Cidr {
        let prefix_len = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Cidr { address, prefix_len }
    }

    /// The address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Leading bits that name the network.
    pub const fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    /// Whether `address` is of the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        common_prefix(self.address, address).is_some_and(|len| len >= self.prefix_len)
    }

    /// The directed broadcast address of an IPv4 network; none for networks of one or two addresses
    /// (RFC 3021).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(address) if self.prefix_len < 31 => {
                let host = u32::MAX >> self.prefix_len;
                Some(Ipv4Addr::from_bits(address.to_bits() | host))
            }
            _ => None,
        }
    }

    /// The network's own address: an old form of its broadcast address (RFC 1122, section 3.3.6).
    pub fn network(&self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix_len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask))
            }
        };
        Cidr { address, prefix_len: self.prefix_len }
    }
}

/// Leading bits that two addresses of one version have in common.
pub fn common_prefix(a: IpAddr, b: IpAddr) -> Option<u8> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros() as u8),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros() as u8),
        _ => None,
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

/// The text is not ADDRESS or ADDRESS/LENGTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACidr;

impl fmt::Display for NotACidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ADDRESS or ADDRESS/LENGTH, as 192.0.2.1/24 or 2001:db8::1/64")
    }
}

impl core::error::Error for NotACidr {}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Cidr, NotACidr> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address = address.parse().map_err(|_| NotACidr)?;
        match len {
            None => Ok(Cidr::host(address)),
            Some(len) => Cidr::new(address, len.parse().map_err(|_| NotACidr)?).ok_or(NotACidr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_at_every_length() {
        for len in 0..=32 {
            let net = Cidr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 77)), len).unwrap();
            assert!(net.contains(net.address()) && net.contains(net.network().address()));
            let beyond = IpAddr::V4(Ipv4Addr::from_bits(
                Ipv4Addr::new(203, 0, 113, 77).to_bits()
                    ^ (1u32 << 31).checked_shr(u32::from(len) - u32::from(len > 0)).unwrap_or(0),
            ));
            assert_eq!(net.contains(beyond), len == 0, "{net} and {beyond}");
        }
        assert!(Cidr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 33).is_none());
        assert!(Cidr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 129).is_none());
        assert!(!cidr("0.0.0.0/0").contains("::1".parse().unwrap()));
    }

    #[test]
    fn broadcasts() {
        assert_eq!(cidr("10.1.2.3/24").broadcast(), Some(Ipv4Addr::new(10, 1, 2, 255)));
        assert_eq!(cidr("10.1.2.3/0").broadcast(), Some(Ipv4Addr::BROADCAST));
        assert_eq!(cidr("10.1.2.3/31").broadcast(), None);
        assert_eq!(cidr("2001:db8::1/64").broadcast(), None);
        assert_eq!(cidr("2001:db8::1/64").network(), cidr("2001:db8::/64"));
        assert_eq!(cidr("10.1.2.3/24").network(), cidr("10.1.2.0/24"));
    }

    #[test]
    fn text() {
        assert_eq!(cidr("10.0.0.1").to_string(), "10.0.0.1/32");
        for wrong in ["", "10.0.0.1/33", "10.0.0.1/", "x/8", "::/129", "10.0.0.1/-1"] {
            assert_eq!(wrong.parse::<Cidr>(), Err(NotACidr), "{wrong}");
        }
    }
}
