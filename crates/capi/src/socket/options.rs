//! Options of a socket, as `setsockopt` and `getsockopt` know them.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_stack::ip::net::MembershipChange;
use fusewire_stack::ip::posix::{self, Effect};
use fusewire_stack::ip::{Stack, unconnected_tcp_info};

use super::{Flags, Kind, Socket, State};
use crate::address::{Family, Named};
use crate::errno::{Errno, Result};

/// What is set, and whether calls wait.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub nonblocking: bool,
    pub set: posix::Options,
}

impl Options {
    /// How long a call may wait to receive.
    pub fn recv_wait(&self, flags: Flags) -> Option<Duration> {
        let waits = !(self.nonblocking || flags.dont_wait);
        if waits { self.set.recv_timeout } else { Some(Duration::ZERO) }
    }

    /// How long a call may wait to send.
    pub fn send_wait(&self, flags: Flags) -> Option<Duration> {
        let waits = !(self.nonblocking || flags.dont_wait);
        if waits { self.set.send_timeout } else { Some(Duration::ZERO) }
    }
}

/// An option that changes a group's membership.
fn is_membership(level: i32, name: i32) -> bool {
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
fn membership(level: i32, name: i32, value: &[u8]) -> Result<(IpAddr, MembershipChange)> {
    use MembershipChange::{Block, Join, JoinSource, Leave, LeaveSource, Unblock};
    let of_any_version = (libc::MCAST_JOIN_GROUP..=libc::MCAST_LEAVE_SOURCE_GROUP).contains(&name);
    let ((group_at, group_len), (source_at, source_len)) = match (of_any_version, level) {
        (true, _) => ((8, 128), (136, 128)),
        (_, libc::IPPROTO_IP) => ((0, 8), (8, 4)),
        _ => ((0, 20), (0, 0)),
    };
    let address = |at: usize, len: usize| -> Result<IpAddr> {
        let invalid = Errno(libc::EINVAL);
        let bytes = value.get(at..at + len).ok_or(invalid)?;
        if of_any_version {
            let family = Family::of(u16::from_ne_bytes([bytes[0], bytes[1]]).into())?;
            return match family.parse(bytes)? {
                Named::Somebody(addr) => Ok(addr.ip()),
                Named::Nobody => Err(invalid),
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
        _ => return Err(Errno(libc::ENOPROTOOPT)),
    };
    Ok((address(group_at, group_len)?, change))
}

impl Socket {
    /// Changes whether calls wait.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.lock().options.nonblocking = nonblocking;
    }

    /// Whether calls do not wait.
    pub fn is_nonblocking(&self) -> bool {
        self.lock().options.nonblocking
    }

    /// Sets an option.
    pub fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        if is_membership(level, name) {
            return self.change_membership(level, name, value);
        }
        let mut inner = self.lock();
        let effect = inner.options.set.set((level, name), value, self.kind == Kind::Stream);
        let set = match effect.map_err(Errno)? {
            Effect::None => return Ok(()),
            Effect::Tune | Effect::Marking => inner.options.set.clone(),
        };
        match (effect, inner.state) {
            (Ok(Effect::Marking), state) => {
                let Some(id) = state.id() else { return Ok(()) };
                self.with_stack(|stack, _| stack.set_marking(id, set.marking))
            }
            (_, State::Stream { id, .. }) => self.with_stack(|stack, now| set.tune(stack, now, id)),
            _ => Ok(()),
        }
    }

    fn change_membership(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let (group, change) = membership(level, name, value)?;
        if !group.is_multicast() {
            return Err(Errno(libc::EINVAL));
        }
        let id = self.datagram()?;
        self.with_stack(|stack, now| stack.udp_change_membership(now, id, group, change))
    }

    /// The value of an option.
    pub fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        let is_tcp = self.kind == Kind::Stream;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
            return Ok(self.take_error()?.to_ne_bytes().to_vec());
        }
        let inner = self.lock();
        let int = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_TYPE) if is_tcp => libc::SOCK_STREAM,
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_DGRAM,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) if is_tcp => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_UDP,
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => self.family.domain(),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                i32::from(matches!(inner.state, State::Listening(_)))
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) if is_tcp => {
                let State::Stream { id, .. } = inner.state else {
                    return Ok(unconnected_tcp_info(matches!(inner.state, State::Listening(_))));
                };
                return self.with_stack(|stack, now| stack.linux_tcp_info(now, id));
            }
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if is_tcp => match inner.state {
                State::Stream { id, .. } => {
                    self.with_stack(|stack, _| stack.tcp_info(id))?.max_payload as i32
                }
                _ => 0,
            },
            _ => {
                let of = |stack: &Stack| {
                    let (tcp, hops) = (&stack.config().tcp, stack.layer().config().hop_limit);
                    inner.options.set.value((level, name), tcp, hops, is_tcp)
                };
                return self.opened.host.with(|stack, _| of(stack))?.map_err(Errno);
            }
        };
        Ok(int.to_ne_bytes().to_vec())
    }

    /// The error that waits to be told, which then was; 0 for none.
    fn take_error(&self) -> Result<i32> {
        let mut inner = self.lock();
        if let Some(error) = inner.error.take() {
            return Ok(error.0);
        }
        let Some(id) = inner.state.id() else { return Ok(0) };
        if self.error_told.load(Ordering::Acquire) {
            return Ok(0);
        }
        let error = self.with_stack(|stack, _| stack.take_error(id))?;
        let is_lasting = error.is_some() && self.kind == Kind::Stream;
        self.error_told.store(is_lasting, Ordering::Release);
        Ok(error.map_or(0, |error| Errno::from(error).0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_whole_requests_only() {
        const EINVAL: Result<(IpAddr, MembershipChange)> = Err(Errno(libc::EINVAL));
        let (group, source): (IpAddr, IpAddr) = ([232, 0, 0, 251].into(), [10, 0, 0, 9].into());
        let mut sockaddrs = vec![0; 264];
        for (at, addr) in [(8, group), (136, source)] {
            let addr = Family::V4.emit((addr, 0).into());
            sockaddrs[at..at + addr.len()].copy_from_slice(&addr);
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
        assert_eq!(unknown, Err(Errno(libc::ENOPROTOOPT)));
    }
}
