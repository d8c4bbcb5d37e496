//! Requests to join and leave groups, as `setsockopt` has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fusewire_net::MembershipChange;

/// An option that changes a group's membership.
pub fn is_membership(level: i32, name: i32) -> bool {
    let of_any = (libc::MCAST_JOIN_GROUP..=libc::MCAST_LEAVE_SOURCE_GROUP).contains(&name);
    match level {
        libc::IPPROTO_IP => {
            of_any || (libc::IP_ADD_MEMBERSHIP..=libc::IP_DROP_SOURCE_MEMBERSHIP).contains(&name)
        }
        libc::IPPROTO_IPV6 => {
            of_any || [libc::IPV6_ADD_MEMBERSHIP, libc::IPV6_DROP_MEMBERSHIP].contains(&name)
        }
        _ => false,
    }
}

/// The group that an option names, and how its membership is to change: of `struct ip_mreq`, `ipv6_mreq` and
/// `ip_mreq_source`, and of `group_req` and `group_source_req` (RFC 3678), which hold any version's addresses.
///
/// # Errors
/// `EINVAL` for a request that is cut short or names no address, `ENOPROTOOPT`.
pub fn membership(level: i32, name: i32, value: &[u8]) -> Result<(IpAddr, MembershipChange), i32> {
    use MembershipChange::{Block, Join, JoinSource, Leave, LeaveSource, Unblock};
    let of_any_version = (libc::MCAST_JOIN_GROUP..=libc::MCAST_LEAVE_SOURCE_GROUP).contains(&name);
    let ((group_at, group_len), (source_at, source_len)) = match (of_any_version, level) {
        (true, _) => ((8, 128), (136, 128)),
        (_, libc::IPPROTO_IP) => ((0, 8), (8, 4)),
        _ => ((0, 20), (0, 0)),
    };
    let address = |at: usize, len: usize| -> Result<IpAddr, i32> {
        let invalid = libc::EINVAL;
        let bytes = value.get(at..at + len).ok_or(invalid)?;
        if of_any_version {
            let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
            let (v4, v6) = (bytes[4..].first_chunk::<4>(), bytes[8..].first_chunk::<16>());
            return match (family, v4, v6) {
                (libc::AF_INET, Some(v4), _) => Ok(Ipv4Addr::from(*v4).into()),
                (libc::AF_INET6, _, Some(v6)) => Ok(Ipv6Addr::from(*v6).into()),
                _ => Err(invalid),
            };
        }
        Ok(if level == libc::IPPROTO_IP {
            Ipv4Addr::from(*bytes.first_chunk::<4>().ok_or(invalid)?).into()
        } else {
            Ipv6Addr::from(*bytes.first_chunk::<16>().ok_or(invalid)?).into()
        })
    };
    let source = || address(source_at, source_len);
    let change = match (level, name) {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP)
        | (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP)
        | (_, libc::MCAST_JOIN_GROUP) => Join,
        (libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP)
        | (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP)
        | (_, libc::MCAST_LEAVE_GROUP) => Leave,
        (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP) | (_, libc::MCAST_JOIN_SOURCE_GROUP) => {
            JoinSource(source()?)
        }
        (libc::IPPROTO_IP, libc::IP_DROP_SOURCE_MEMBERSHIP)
        | (_, libc::MCAST_LEAVE_SOURCE_GROUP) => LeaveSource(source()?),
        (libc::IPPROTO_IP, libc::IP_BLOCK_SOURCE) | (_, libc::MCAST_BLOCK_SOURCE) => {
            Block(source()?)
        }
        (libc::IPPROTO_IP, libc::IP_UNBLOCK_SOURCE) | (_, libc::MCAST_UNBLOCK_SOURCE) => {
            Unblock(source()?)
        }
        _ => return Err(libc::ENOPROTOOPT),
    };
    Ok((address(group_at, group_len)?, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_whole_requests_only() {
        const EINVAL: Result<(IpAddr, MembershipChange), i32> = Err(libc::EINVAL);
        let (group, source): (IpAddr, IpAddr) = ([232, 0, 0, 251].into(), [10, 0, 0, 9].into());
        let mut sockaddrs = vec![0; 264];
        for (at, addr) in [(8, group), (136, source)] {
            let IpAddr::V4(addr) = addr else { unreachable!("both are") };
            sockaddrs[at..at + 2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            sockaddrs[at + 4..at + 8].copy_from_slice(&addr.octets());
        }
        let mreq = [232, 0, 0, 251, 0, 0, 0, 0, 10, 0, 0, 9];
        let named = MembershipChange::JoinSource(source);
        for (level, name, request, change) in [
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &mreq[..8], MembershipChange::Join),
            (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, &mreq[..], named),
            (libc::IPPROTO_IP, libc::MCAST_LEAVE_GROUP, &sockaddrs[..136], MembershipChange::Leave),
            (libc::IPPROTO_IPV6, libc::MCAST_JOIN_SOURCE_GROUP, &sockaddrs[..], named),
        ] {
            assert_eq!(membership(level, name, request), Ok((group, change)));
            for len in 0..request.len() {
                assert_eq!(membership(level, name, &request[..len]), EINVAL, "{len}");
            }
        }
        let short = membership(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &mreq);
        assert_eq!(short, EINVAL);
        let unknown = membership(libc::IPPROTO_IPV6, libc::IP_ADD_SOURCE_MEMBERSHIP, &mreq);
        assert_eq!(unknown, Err(libc::ENOPROTOOPT));
    }
}
