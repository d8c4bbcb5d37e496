//! What goes beside a datagram, as ancillary data of `sendmsg` and `recvmsg` has it (RFC 3542, sections 6 and 11; ip(7),
//! ipv6(7)): items of a `struct cmsghdr` of 64-bit Linux and a value, one behind the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ip::config::{Ancillary, Result};

/// Bytes before a value: length, level, type.
const HEAD_LEN: usize = 16;
/// What items begin at a multiple of.
const ALIGN: usize = 8;

fn int(value: &[u8]) -> Result<i32, i32> {
    let bytes = <[u8; 4]>::try_from(value).map_err(|_| libc::EINVAL)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// A field of the IP header; -1 is none, as the socket has it.
fn field(value: &[u8]) -> Result<Option<u8>, i32> {
    match int(value)? {
        -1 => Ok(None),
        value => u8::try_from(value).map(Some).map_err(|_| libc::EINVAL),
    }
}

/// Kind and value of an item of a level.
type Item<'a> = ((i32, i32), &'a [u8]);

/// Takes the first item off; `None`: there is none.
///
/// # Errors
/// `EINVAL`: it goes beyond the bytes.
fn take<'a>(bytes: &mut &'a [u8]) -> Result<Option<Item<'a>>, i32> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
    let [len @ .., l0, l1, l2, l3, t0, t1, t2, t3] = *head;
    let len = usize::try_from(u64::from_ne_bytes(len)).unwrap_or(usize::MAX);
    let value = bytes.get(HEAD_LEN..len).ok_or(libc::EINVAL)?;
    let level = i32::from_ne_bytes([l0, l1, l2, l3]);
    *bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or(&[]);
    Ok(Some(((level, i32::from_ne_bytes([t0, t1, t2, t3])), value)))
}

/// An item of `SOL_SOCKET`, of which none changes anything.
///
/// # Errors
/// `EPERM` for a mark, `EINVAL` for one that the kernel does not know of such a socket either.
fn check_general(kind: i32, value: &[u8]) -> Result<(), i32> {
    match kind {
        libc::SCM_RIGHTS | libc::SCM_CREDENTIALS => Ok(()),
        libc::SO_TIMESTAMPING if value.len() == 4 => Ok(()),
        libc::SO_MARK => Err(libc::EPERM),
        _ => Err(libc::EINVAL),
    }
}

/// Looks at what a program gives with bytes of a stream, where nothing of it changes anything.
///
/// # Errors
/// `EINVAL`, `EPERM`, as [`parse`].
pub fn check(mut bytes: &[u8]) -> Result<(), i32> {
    while let Some(((level, kind), value)) = take(&mut bytes)? {
        if level == libc::SOL_SOCKET {
            check_general(kind, value)?;
        }
    }
    Ok(())
}

/// Reads what is to go beside a datagram, of a socket of IPv6 or IPv4, at which IPv6's is passed over. So is what is of levels
/// other than IP's, UDP's and sockets', and, of a socket of IPv6, what is not known of IPv4's.
///
/// # Errors
/// `EINVAL`: an item goes beyond the bytes, or has a value of another length; one is not known. `EPERM`: it sets a mark. `EIO`:
/// what is sent were to be cut into several (`UDP_SEGMENT`), as where an interface cannot, and programs then cut it.
pub fn parse(mut bytes: &[u8], is_v6: bool) -> Result<Ancillary, i32> {
    let mut beside = Ancillary::default();
    while let Some(((level, kind), value)) = take(&mut bytes)? {
        match (level, kind) {
            (libc::SOL_SOCKET, _) => check_general(kind, value)?,
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT) if value.len() == 2 => return Err(libc::EIO),
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let [i0, i1, i2, i3, own @ .., _, _, _, _] =
                    <[u8; 12]>::try_from(value).map_err(|_| libc::EINVAL)?;
                beside.interface = u32::from_ne_bytes([i0, i1, i2, i3]);
                let own = Ipv4Addr::from(own);
                beside.local = Some(own.into()).filter(|_| !own.is_unspecified());
            }
            (libc::IPPROTO_IPV6, _) if !is_v6 => {}
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let [own @ .., i0, i1, i2, i3] =
                    <[u8; 20]>::try_from(value).map_err(|_| libc::EINVAL)?;
                beside.interface = u32::from_ne_bytes([i0, i1, i2, i3]);
                let own = Ipv6Addr::from(own).to_canonical();
                beside.local = Some(own).filter(|own| !own.is_unspecified());
            }
            (libc::IPPROTO_IP, libc::IP_TOS) if value.len() == 1 => {
                beside.traffic_class = Some(value[0]);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) if int(value)? < 1 => return Err(libc::EINVAL),
            (libc::IPPROTO_IP, libc::IP_TOS) if int(value)? < 0 => return Err(libc::EINVAL),
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                beside.hop_limit = field(value)?;
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                beside.traffic_class = field(value)?;
            }
            // To hosts of IPv6 an item of IPv4 is nothing.
            (libc::IPPROTO_IP, _) if is_v6 => {}
            (libc::IPPROTO_IP | libc::IPPROTO_IPV6 | libc::IPPROTO_UDP, _) => {
                return Err(libc::EINVAL);
            }
            _ => {}
        }
    }
    Ok(beside)
}

/// Lays down what came beside a datagram of IPv6 or IPv4: bytes of `out` that are used, and whether there was
/// more than room (`MSG_CTRUNC`).
pub fn emit(beside: &Ancillary, is_v6: bool, out: &mut [u8]) -> (usize, bool) {
    let mut items = Items { out, used: 0, is_cut: false };
    let interface = beside.interface.to_ne_bytes();
    if let Some(local) = beside.local.filter(|_| beside.as_v6) {
        let local = match local {
            IpAddr::V6(v6) => v6,
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        };
        let mut value = [0; 20];
        value[..16].copy_from_slice(&local.octets());
        value[16..].copy_from_slice(&interface);
        items.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &value);
    }
    if let Some(IpAddr::V4(local)) = beside.local.filter(|_| beside.as_v4) {
        // What nobody can answer from, the answer's way decides.
        let own = if beside.is_shared { Ipv4Addr::UNSPECIFIED } else { local };
        let mut value = [0; 12];
        value[..4].copy_from_slice(&interface);
        value[4..8].copy_from_slice(&own.octets());
        value[8..].copy_from_slice(&local.octets());
        items.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &value);
    }
    let int = |value: u8| i32::from(value).to_ne_bytes();
    if is_v6 {
        if let Some(hops) = beside.hop_limit {
            items.put(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &int(hops));
        }
        if let Some(class) = beside.traffic_class {
            items.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &int(class));
        }
    } else {
        if let Some(hops) = beside.hop_limit {
            items.put(libc::IPPROTO_IP, libc::IP_TTL, &int(hops));
        }
        if let Some(class) = beside.traffic_class {
            items.put(libc::IPPROTO_IP, libc::IP_TOS, &[class]);
        }
    }
    (items.used, items.is_cut)
}

/// Items that are laid down.
struct Items<'a> {
    out: &'a mut [u8],
    used: usize,
    is_cut: bool,
}

impl Items<'_> {
    /// As the kernel does: of one that does not fit as much as there is room for, if that is more than its head.
    fn put(&mut self, level: i32, kind: i32, value: &[u8]) {
        let room = &mut self.out[self.used..];
        if room.len() < HEAD_LEN {
            self.is_cut = true;
            return;
        }
        let whole = HEAD_LEN + value.len();
        let len = whole.min(room.len());
        self.is_cut |= len < whole;
        room[..8].copy_from_slice(&(len as u64).to_ne_bytes());
        room[8..12].copy_from_slice(&level.to_ne_bytes());
        room[12..16].copy_from_slice(&kind.to_ne_bytes());
        room[HEAD_LEN..len].copy_from_slice(&value[..len - HEAD_LEN]);
        let end = whole.next_multiple_of(ALIGN).min(room.len());
        room[len..end].fill(0);
        self.used += end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_beside_a_datagram_comes_back() {
        for (as_v4, as_v6, local) in [
            (true, false, "10.0.0.1"),
            (false, true, "fe80::1"),
            (false, true, "10.0.0.1"),
            (true, true, "10.0.0.1"),
        ] {
            let local: IpAddr = local.parse().unwrap();
            let is_v6 = local.is_ipv6();
            let all = Ancillary {
                local: Some(local),
                interface: 7,
                traffic_class: Some(0xb9),
                hop_limit: Some(3),
                is_shared: false,
                as_v4,
                as_v6,
            };
            let mut out = [9; 128];
            let (len, is_cut) = emit(&all, is_v6, &mut out);
            assert!(!is_cut && len % ALIGN == 0);
            let told = Ancillary { as_v4: false, as_v6: false, ..all };
            assert_eq!(parse(&out[..len], true), Ok(told));
            let of_v4 = parse(&out[..len], false).unwrap();
            assert_eq!(
                of_v4,
                if as_v4 { told } else { Ancillary { local: None, interface: 0, ..of_v4 } }
            );
            assert_eq!(of_v4.hop_limit, told.hop_limit.filter(|_| !is_v6));
            // Whatever it is cut to, nothing is written behind it, and nothing is told that is not there.
            for room in 0..len {
                let mut out = [9; 128];
                let (used, is_cut) = emit(&all, is_v6, &mut out[..room]);
                assert!(used <= room && out[room..].iter().all(|byte| *byte == 9));
                assert!(is_cut || room >= len - (ALIGN - 1), "{room} of {len}");
            }
            for len in 1..len {
                let _ = parse(&out[..len], true);
            }
        }
        // Who answers what was sent to all answers from where the way leads.
        let shared = Ancillary {
            local: Some("10.0.0.255".parse().unwrap()),
            is_shared: true,
            as_v4: true,
            ..Ancillary::default()
        };
        let mut out = [9; 128];
        let (len, _) = emit(&shared, false, &mut out);
        assert_eq!(out[len - 8..len], [10, 0, 0, 255, 0, 0, 0, 0]);
        assert_eq!(parse(&out[..len], false), Ok(Ancillary::default()));
        assert_eq!(emit(&Ancillary::default(), true, &mut [0; 8]), (0, false));
    }

    #[test]
    fn what_is_no_item_is_refused() {
        let item = |len: u64, level: i32, kind: i32, value: &[u8]| {
            [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
        };
        let int = |value: i32| value.to_ne_bytes();
        for (len, level, kind, value) in [
            // Lengths below a head, beyond the bytes, of another value.
            (15, libc::IPPROTO_IP, libc::IP_TTL, &int(3)[..]),
            (21, libc::IPPROTO_IP, libc::IP_TTL, &int(3)),
            (u64::MAX, libc::IPPROTO_IP, libc::IP_TTL, &int(3)),
            (19, libc::IPPROTO_IP, libc::IP_TTL, &int(3)),
            (27, libc::IPPROTO_IP, libc::IP_PKTINFO, &[0; 11]),
            (35, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[0; 19]),
            // Values that are none.
            (20, libc::IPPROTO_IP, libc::IP_TTL, &int(0)),
            (20, libc::IPPROTO_IP, libc::IP_TTL, &int(256)),
            (20, libc::IPPROTO_IP, libc::IP_TOS, &int(-1)),
            (20, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &int(-2)),
            (20, libc::IPPROTO_IPV6, 9999, &int(0)),
            // What would be forgotten to somebody's surprise.
            (20, libc::IPPROTO_UDP, libc::UDP_SEGMENT, &[1, 0, 0, 0]),
            (20, libc::IPPROTO_UDP, libc::UDP_GRO, &int(1)),
            (20, libc::SOL_SOCKET, 12345, &int(1)),
            (18, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &[1, 0]),
        ] {
            let item = item(len, level, kind, value);
            assert_eq!(parse(&item, true), Err(libc::EINVAL), "{len} {kind}");
            // IPv6's is nothing to a socket of IPv4, so that it is no item.
            let is_passed = level == libc::IPPROTO_IPV6 && len as usize <= item.len();
            assert_eq!(parse(&item, false).is_ok(), is_passed, "{len} {kind}");
        }
        let cut = item(18, libc::IPPROTO_UDP, libc::UDP_SEGMENT, &[1, 0]);
        assert_eq!(parse(&cut, true), Err(libc::EIO));
        let marked = item(20, libc::SOL_SOCKET, libc::SO_MARK, &int(1));
        assert_eq!((parse(&marked, true), check(&marked)), (Err(libc::EPERM), Err(libc::EPERM)));
        for passed in [
            item(20, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &int(3)),
            item(20, libc::SOL_SOCKET, libc::SCM_RIGHTS, &int(3)),
            item(20, 12345, 1, &int(3)),
            item(20, libc::IPPROTO_IP, 9999, &int(3)),
        ] {
            assert_eq!((parse(&passed, true), check(&passed)), (Ok(Ancillary::default()), Ok(())));
        }
        assert_eq!(parse(&item(20, libc::IPPROTO_IP, 9999, &int(3)), false), Err(libc::EINVAL));
        // With a stream others' are passed over, what is no item is not.
        assert_eq!(check(&cut), Ok(()));
        assert_eq!(check(&cut[..17]), Err(libc::EINVAL));
        let behind = [&[cut, vec![0; 6]].concat()[..], &marked].concat();
        assert_eq!((parse(&behind, true), check(&behind)), (Err(libc::EIO), Err(libc::EPERM)));
        let usual = item(20, libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &int(-1));
        assert_eq!(parse(&usual, true), Ok(Ancillary::default()));
        let none = item(20, libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &int(0));
        assert_eq!(parse(&none, true).map(|beside| beside.hop_limit), Ok(Some(0)));
    }
}
