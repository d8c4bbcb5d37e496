//! Options that are kept as they are set and, but for those of what comes back from groups, change nothing here; or that are
//! refused with the error at which programs go on.

use super::options::{IPV6_MINHOPCOUNT, int, number};
use crate::ip::config::Result;

/// What an option takes.
enum Takes {
    /// Anything, which is then 1, or nothing.
    Flag,
    /// 0 or 1.
    Bit,
    /// From the first to the second; what is beyond becomes that.
    Clamped(i32, i32),
    /// From the first to the second; others are `EINVAL`.
    Within(i32, i32),
    /// 0, or the MTU that every link of IPv6 has, at least; others are `EINVAL`.
    Mtu,
    /// One of these; others are this error.
    OneOf(&'static [i32], i32),
    /// `struct in_addr`, `ip_mreq` or `ip_mreqn`, of which the interface's address is kept. There is one interface.
    Interface,
    /// Nothing, with this error.
    Refused(i32),
}

/// An option: level and name, what it takes, and what it is before it is set.
type Entry = ((i32, i32), Takes, i32);

/// Ways of path MTU discovery that change nothing to be told of: whoever wants packets that are too long refused
/// (`IP_PMTUDISC_DO`, `PROBE`) hears that this is not to be had.
const DISCOVERS: Takes = Takes::OneOf(
    &[libc::IP_PMTUDISC_DONT, libc::IP_PMTUDISC_WANT, libc::IP_PMTUDISC_OMIT],
    libc::ENOPROTOOPT,
);

/// The smallest MTU of a link of IPv6 (RFC 8200, section 5).
const MTU_MIN: i32 = 1280;

/// How many they are.
const COUNT: usize = 33;

#[rustfmt::skip]
const TABLE: [Entry; COUNT] = [
    ((libc::SOL_SOCKET, libc::SO_PRIORITY), Takes::OneOf(&[0, 1, 2, 3, 4, 5, 6], libc::EPERM), 0),
    ((libc::SOL_SOCKET, libc::SO_OOBINLINE), Takes::Flag, 0),
    ((libc::SOL_SOCKET, libc::SO_RCVBUFFORCE), Takes::Refused(libc::EPERM), 0),
    ((libc::SOL_SOCKET, libc::SO_SNDBUFFORCE), Takes::Refused(libc::EPERM), 0),
    ((libc::SOL_SOCKET, libc::SO_MARK), Takes::OneOf(&[0], libc::EPERM), 0),
    ((libc::SOL_SOCKET, libc::SO_TIMESTAMP), Takes::Flag, 0),
    ((libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), Takes::Flag, 0),
    ((libc::SOL_SOCKET, libc::SO_TIMESTAMPING), Takes::Within(0, 0x7ffff), 0),
    ((libc::SOL_SOCKET, libc::SO_BUSY_POLL), Takes::Within(0, i32::MAX), 0),
    ((libc::IPPROTO_IP, libc::IP_MINTTL), Takes::Within(0, 255), 0),
    ((libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT), Takes::Within(0, 255), 0),
    ((libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG), Takes::Flag, 0),
    ((libc::IPPROTO_IPV6, libc::IPV6_MTU), Takes::Mtu, 0),
    ((libc::IPPROTO_IP, libc::IP_MULTICAST_ALL), Takes::Bit, 1),
    ((libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), DISCOVERS, libc::IP_PMTUDISC_WANT),
    ((libc::IPPROTO_IP, libc::IP_RECVERR), Takes::Flag, 0),
    ((libc::IPPROTO_IP, libc::IP_FREEBIND), Takes::Flag, 0),
    ((libc::IPPROTO_IP, libc::IP_TRANSPARENT), Takes::Refused(libc::EPERM), 0),
    ((libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT), Takes::Flag, 0),
    ((libc::IPPROTO_IP, libc::IP_MULTICAST_IF), Takes::Interface, 0),
    ((libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP), Takes::Flag, 1),
    ((libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER), DISCOVERS, libc::IP_PMTUDISC_WANT),
    ((libc::IPPROTO_IPV6, libc::IPV6_RECVERR), Takes::Flag, 0),
    ((libc::IPPROTO_IPV6, libc::IPV6_FREEBIND), Takes::Flag, 0),
    ((libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT), Takes::Refused(libc::EPERM), 0),
    ((libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF), Takes::Clamped(0, i32::MAX), 0),
    ((libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP), Takes::Bit, 1),
    ((libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), Takes::Clamped(i32::MIN, i32::MAX), 0),
    ((libc::IPPROTO_TCP, libc::TCP_FASTOPEN), Takes::Clamped(0, 4096), 0),
    ((libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT), Takes::Bit, 0),
    ((libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP), Takes::Clamped(0, i32::MAX), 0),
    ((libc::IPPROTO_TCP, libc::TCP_LINGER2), Takes::Clamped(-1, 120), 60),
    ((libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS), Takes::Bit, 0),
];

/// Their values.
#[derive(Clone, Debug)]
pub struct Kept([i32; COUNT]);

impl Default for Kept {
    fn default() -> Self {
        Kept(std::array::from_fn(|at| TABLE[at].2))
    }
}

impl Kept {
    /// Keeps a value; `None`: it is an option of another kind.
    ///
    /// # Errors
    /// `EINVAL`, or what the table says.
    pub fn set(&mut self, option: (i32, i32), value: &[u8]) -> Option<Result<(), i32>> {
        let at = TABLE.iter().position(|(known, ..)| *known == option)?;
        let kept = TABLE[at].1.taken(option.0, value);
        Some(kept.map(|kept| self.0[at] = kept))
    }

    /// What is kept; `None`: nothing is.
    pub fn value(&self, option: (i32, i32)) -> Option<i32> {
        let at = TABLE.iter().position(|(known, ..)| *known == option)?;
        match TABLE[at].1 {
            Takes::Refused(_) => None,
            _ => Some(self.0[at]),
        }
    }
}

impl Takes {
    /// What is kept of a value.
    fn taken(&self, level: i32, value: &[u8]) -> Result<i32, i32> {
        Ok(match self {
            Takes::Refused(error) => return Err(*error),
            // Behind the group, where there is one.
            Takes::Interface if value.len() >= 8 => int(&value[4..])?,
            Takes::Interface => int(value)?,
            Takes::Flag => i32::from(number(level, value)? != 0),
            Takes::Bit => match number(level, value)? {
                bit @ 0..=1 => bit,
                _ => return Err(libc::EINVAL),
            },
            Takes::Clamped(least, most) => number(level, value)?.clamp(*least, *most),
            Takes::Within(least, most) => match number(level, value)? {
                value if (*least..=*most).contains(&value) => value,
                _ => return Err(libc::EINVAL),
            },
            Takes::Mtu => match number(level, value)? {
                value @ (0 | MTU_MIN..) => value,
                _ => return Err(libc::EINVAL),
            },
            Takes::OneOf(known, error) => {
                let value = number(level, value)?;
                if !known.contains(&value) {
                    return Err(*error);
                }
                value
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_or_refused_as_the_table_says() {
        let mut kept = Kept::default();
        let ip = |name| (libc::IPPROTO_IP, name);
        let discover = ip(libc::IP_MTU_DISCOVER);
        assert_eq!(kept.value(discover), Some(libc::IP_PMTUDISC_WANT));
        let omit = libc::IP_PMTUDISC_OMIT;
        assert_eq!(kept.set(discover, &omit.to_ne_bytes()), Some(Ok(())));
        let probe = libc::IP_PMTUDISC_PROBE.to_ne_bytes();
        assert_eq!(kept.set(discover, &probe), Some(Err(libc::ENOPROTOOPT)));
        assert_eq!(kept.value(discover), Some(omit));
        let force = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        assert_eq!(kept.set(force, &1i32.to_ne_bytes()), Some(Err(libc::EPERM)));
        assert_eq!(kept.value(force), None);
        let (mine, other) = ([10, 0, 0, 9], [239, 0, 0, 1]);
        let interface = ip(libc::IP_MULTICAST_IF);
        for value in [&mine[..], &[other, mine].concat(), &[other, mine, [2, 0, 0, 0]].concat()] {
            assert_eq!(kept.set(interface, value), Some(Ok(())));
            assert_eq!(kept.value(interface), Some(i32::from_ne_bytes(mine)));
            assert_eq!(kept.set(interface, &[0; 4]), Some(Ok(())));
        }
        assert_eq!(kept.set(interface, &[0; 3]), Some(Err(libc::EINVAL)));
        // A byte is enough for IPv4 alone.
        assert_eq!(kept.set(ip(libc::IP_MULTICAST_LOOP), &[0]), Some(Ok(())));
        let of_v6 = (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP);
        assert_eq!(kept.set(of_v6, &[0]), Some(Err(libc::EINVAL)));
        assert_eq!(kept.set(of_v6, &2i32.to_ne_bytes()), Some(Err(libc::EINVAL)));
        let linger = (libc::IPPROTO_TCP, libc::TCP_LINGER2);
        for (value, now) in [(-5i32, -1), (500, 120), (7, 7)] {
            assert_eq!(kept.set(linger, &value.to_ne_bytes()), Some(Ok(())));
            assert_eq!(kept.value(linger), Some(now));
        }
        assert_eq!(kept.set((libc::SOL_SOCKET, 12345), &[0; 4]), None);
    }
}
