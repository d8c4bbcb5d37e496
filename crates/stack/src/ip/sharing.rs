//! Which sockets may be bound to one port, and which of them a packet is for.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;

use super::table::{Keyed, bits};

/// Who else may be bound where a socket is, and whether it takes IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Others of the same `owner` that say the same may be bound there too: connections and peers are spread over them
    /// (`SO_REUSEPORT`).
    pub port: bool,
    /// Of datagrams: others of the same `owner` that say the same may be bound there too, and who came last gets what is for
    /// one alone (`SO_REUSEADDR`).
    pub address: bool,
    /// An IPv6 socket that is bound to no address takes no IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Whose socket it is: strangers never share.
    pub owner: u32,
}

/// A socket of one port: where it is bound, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub local: SocketAddr,
    pub sharing: Sharing,
}

impl Claim {
    /// How well it fits packets to `to`: its own address before that of all of one version, and that before all of both; 0 for
    /// not at all.
    pub fn fit(&self, to: IpAddr) -> u8 {
        let own = self.local.ip();
        match own {
            _ if bits(own) == bits(to) => 3,
            _ if !own.is_unspecified() => 0,
            _ if own.is_ipv4() == to.is_ipv4() => 2,
            IpAddr::V6(_) if !self.sharing.v6_only => 1,
            _ => 0,
        }
    }

    /// The two cannot both be had.
    pub fn excludes(&self, other: &Claim) -> bool {
        let (a, b) = (&self.sharing, &other.sharing);
        let agreed = a.owner == b.owner && ((a.port && b.port) || (a.address && b.address));
        let meet = self.fit(other.local.ip()) > 0 || other.fit(self.local.ip()) > 0;
        meet && self.local.port() == other.local.port() && !agreed
    }
}

/// The one of several that fit equally well which a packet is for: the same for all packets of a flow, as long as the group
/// stays what it is.
pub fn pick(key: Keyed, from: SocketAddr, to: SocketAddr, of: usize) -> usize {
    let mut hasher = SipHasher13::new_with_key(&key.0);
    hasher.write_u128(bits(from.ip()));
    hasher.write_u128(bits(to.ip()));
    hasher.write_u32(u32::from(from.port()) << 16 | u32::from(to.port()));
    (hasher.finish() % of.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(local: &str, sharing: Sharing) -> Claim {
        Claim { local: local.parse().unwrap(), sharing }
    }

    #[test]
    fn bound_addresses_exclude_one_another_as_sockets_do() {
        let plain = Sharing::default();
        let excludes = |a: &str, b: &str| claim(a, plain).excludes(&claim(b, plain));
        assert!(excludes("0.0.0.0:1", "10.0.0.1:1"));
        assert!(excludes("10.0.0.1:1", "[::]:1") && excludes("[::]:1", "10.0.0.1:1"));
        assert!(excludes("0.0.0.0:1", "[::]:1") && excludes("[fd00::1]:1", "[::]:1"));
        assert!(!excludes("0.0.0.0:1", "[fd00::1]:1"));
        assert!(!excludes("10.0.0.1:1", "10.0.0.2:1"));
        assert!(!excludes("0.0.0.0:1", "0.0.0.0:2"));
        let six = Sharing { v6_only: true, ..plain };
        assert!(!claim("[::]:1", six).excludes(&claim("0.0.0.0:1", plain)));
        assert!(!claim("0.0.0.0:1", plain).excludes(&claim("[::]:1", six)));
        assert!(claim("[::]:1", six).excludes(&claim("[::]:1", plain)));
        let shared = Sharing { port: true, ..plain };
        assert!(!claim("[::]:1", shared).excludes(&claim("[::]:1", shared)));
        assert!(claim("[::]:1", shared).excludes(&claim("[::]:1", plain)));
        let other = Sharing { owner: 7, ..shared };
        assert!(claim("[::]:1", shared).excludes(&claim("[::]:1", other)));
    }

    #[test]
    fn the_nearest_address_fits_best() {
        let plain = Sharing::default();
        let fit = |at: &str, to: &str| claim(at, plain).fit(to.parse().unwrap());
        assert_eq!(fit("10.0.0.1:1", "10.0.0.1"), 3);
        assert_eq!(fit("0.0.0.0:1", "10.0.0.1"), 2);
        assert_eq!(fit("[::]:1", "10.0.0.1"), 1);
        assert_eq!(fit("[::]:1", "fd00::1"), 2);
        assert_eq!(fit("0.0.0.0:1", "fd00::1"), 0);
        assert_eq!(fit("10.0.0.2:1", "10.0.0.1"), 0);
        let six = Sharing { v6_only: true, ..plain };
        assert_eq!(claim("[::]:1", six).fit("10.0.0.1".parse().unwrap()), 0);
    }
}
