//! Zones of link-local addresses (RFC 4007), which `sin6_scope_id` names (RFC 3493, section 3.3). A stack has one interface, which is
//! the zone of all that it reaches; its own addresses have none.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

/// An address that means something only on its link: of a host or a group.
fn is_zoned(ip: Ipv6Addr) -> bool {
    ip.is_unicast_link_local() || matches!(ip.octets(), [0xff, flags, ..] if flags & 15 == 2)
}

/// The address as applications read it, with the interface as its zone if it has one.
pub fn with_zone(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if is_zoned(*v6.ip()) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface).into()
        }
        other => other,
    }
}

/// The address as a stack reads it, of which `own` is the interface; `None`: it names another zone. As on Linux, zones of other
/// addresses are passed over.
pub fn without_zone(address: SocketAddr, own: Option<u32>) -> Option<SocketAddr> {
    match address {
        SocketAddr::V6(v6) => {
            let is_here = match (v6.scope_id(), own) {
                (0, _) | (_, None) => true,
                (zone, Some(own)) => zone == own || !is_zoned(*v6.ip()),
            };
            is_here.then(|| SocketAddr::new((*v6.ip()).into(), v6.port()))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_have_the_zone_of_the_interface() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (plain, zoned) in [
            ("[fe80::1]:7", "[fe80::1%3]:7"),
            ("[ff02::1]:7", "[ff02::1%3]:7"),
            ("[ff05::1]:7", "[ff05::1]:7"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("192.0.2.1:7", "192.0.2.1:7"),
        ] {
            assert_eq!(with_zone(at(plain), 3), at(zoned));
            assert_eq!(without_zone(at(zoned), Some(3)), Some(at(plain)));
            assert_eq!(without_zone(at(plain), Some(3)), Some(at(plain)));
            assert_eq!(without_zone(at(zoned), None), Some(at(plain)));
            let is_zoned = plain != zoned;
            assert_eq!(without_zone(at(zoned), Some(4)).is_none(), is_zoned, "{zoned}");
        }
        assert_eq!(without_zone(at("[2001:db8::1%9]:7"), Some(3)), Some(at("[2001:db8::1]:7")));
    }
}
