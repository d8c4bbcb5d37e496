//! Options of a socket, as `setsockopt` and `getsockopt` know them.
#![forbid(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_stack::Congestion;
use fusewire_stack::ip::net::MembershipChange;
use fusewire_stack::ip::{KeepAlive, Marking, State as TcpState, TcpConfig, unconnected_tcp_info};

use super::{Flags, Kind, Socket, State};
use crate::address::{Family, Named};
use crate::errno::{Errno, Result};

/// What is set.
#[derive(Clone, Debug)]
pub struct Options {
    pub nonblocking: bool,
    /// `SO_LINGER` of zero seconds: closing resets.
    pub abort: bool,
    pub nodelay: bool,
    pub keep_alive: bool,
    pub keep: KeepAlive,
    pub user_timeout: Option<Duration>,
    pub congestion: Option<Congestion>,
    pub recv_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub recv_buffer: Option<u32>,
    pub send_buffer: Option<u32>,
    pub reuse: bool,
    pub broadcast: bool,
    pub marking: Marking,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nonblocking: false,
            abort: false,
            nodelay: false,
            keep_alive: false,
            keep: KeepAlive {
                idle: Duration::from_secs(7200),
                interval: Duration::from_secs(75),
                probes: 9,
            },
            user_timeout: None,
            congestion: None,
            recv_timeout: None,
            send_timeout: None,
            recv_buffer: None,
            send_buffer: None,
            reuse: false,
            broadcast: false,
            marking: Marking::default(),
        }
    }
}

/// Bounds of `SO_RCVBUF` and `SO_SNDBUF`.
const BUFFER: std::ops::RangeInclusive<i32> = 4096..=(64 << 20);

impl Options {
    /// How long a call may wait to receive.
    pub fn recv_wait(&self, flags: Flags) -> Option<Duration> {
        if self.nonblocking || flags.dont_wait { Some(Duration::ZERO) } else { self.recv_timeout }
    }

    /// How long a call may wait to send.
    pub fn send_wait(&self, flags: Flags) -> Option<Duration> {
        if self.nonblocking || flags.dont_wait { Some(Duration::ZERO) } else { self.send_timeout }
    }

    fn keep_alive(&self) -> Option<KeepAlive> {
        self.keep_alive.then_some(self.keep)
    }

    /// TCP's settings with what is set here.
    pub fn apply(&self, mut config: TcpConfig) -> TcpConfig {
        config.nagle = !self.nodelay;
        config.keep_alive = self.keep_alive();
        config.user_timeout = self.user_timeout.or(config.user_timeout);
        config.congestion = self.congestion.unwrap_or(config.congestion);
        if let Some(bytes) = self.recv_buffer {
            config.recv_window = bytes;
            config.initial_recv_window = config.initial_recv_window.min(bytes);
        }
        config.send_buffer = self.send_buffer.unwrap_or(config.send_buffer);
        config
    }
}

fn int(value: &[u8]) -> Result<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno(libc::EINVAL))
}

fn seconds(value: &[u8]) -> Result<Duration> {
    let seconds = int(value)?;
    let seconds = u64::try_from(seconds).ok().filter(|s| (1..=32767).contains(s));
    seconds.map(Duration::from_secs).ok_or(Errno(libc::EINVAL))
}

fn buffer(value: &[u8]) -> Result<Option<u32>> {
    Ok(Some(int(value)?.clamp(*BUFFER.start(), *BUFFER.end()) as u32))
}

/// `struct timeval` on 64-bit Linux; zero is for ever.
fn timeval(value: &[u8]) -> Result<Option<Duration>> {
    let Some((seconds, micros)) = value.split_first_chunk::<8>() else {
        return Err(Errno(libc::EINVAL));
    };
    let micros = micros.first_chunk::<8>().ok_or(Errno(libc::EINVAL))?;
    let (seconds, micros) = (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*micros));
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno(libc::EDOM));
    }
    let time = Duration::from_secs(seconds.max(0) as u64) + Duration::from_micros(micros as u64);
    Ok(Some(time).filter(|time| !time.is_zero()))
}

fn of_timeval(time: Option<Duration>) -> Vec<u8> {
    let time = time.unwrap_or_default();
    let mut bytes = (time.as_secs() as i64).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&i64::from(time.subsec_micros()).to_ne_bytes());
    bytes
}

/// A field of the IP header that a socket may set.
#[derive(Clone, Copy)]
enum Field {
    TrafficClass,
    HopLimit,
}

impl Field {
    fn of(level: i32, name: i32) -> Option<Field> {
        match (level, name) {
            (libc::IPPROTO_IP, libc::IP_TOS) => Some(Field::TrafficClass),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => Some(Field::TrafficClass),
            (libc::IPPROTO_IP, libc::IP_TTL) => Some(Field::HopLimit),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Some(Field::HopLimit),
            _ => None,
        }
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
        match level {
            libc::SOL_SOCKET => self.set_socket_option(name, value),
            libc::IPPROTO_TCP if self.kind == Kind::Stream => self.set_tcp_option(name, value),
            libc::IPPROTO_IP | libc::IPPROTO_IPV6 => self.set_ip_option(level, name, value),
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    fn set_socket_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let mut inner = self.lock();
        let options = &mut inner.options;
        match name {
            libc::SO_REUSEADDR => options.reuse = int(value)? != 0,
            libc::SO_BROADCAST => options.broadcast = int(value)? != 0,
            libc::SO_RCVTIMEO => options.recv_timeout = timeval(value)?,
            libc::SO_SNDTIMEO => options.send_timeout = timeval(value)?,
            libc::SO_RCVBUF => options.recv_buffer = buffer(value)?,
            libc::SO_SNDBUF => options.send_buffer = buffer(value)?,
            libc::SO_LINGER => {
                let on = int(value)? != 0;
                let seconds = int(value.get(4..).unwrap_or(&[]))?;
                if on && seconds != 0 {
                    // Closing would have to wait.
                    return Err(Errno(libc::EOPNOTSUPP));
                }
                options.abort = on;
            }
            libc::SO_KEEPALIVE => {
                options.keep_alive = int(value)? != 0;
                drop(inner);
                return self.tune();
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    fn set_tcp_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let mut inner = self.lock();
        let options = &mut inner.options;
        match name {
            libc::TCP_NODELAY => options.nodelay = int(value)? != 0,
            libc::TCP_KEEPIDLE => options.keep.idle = seconds(value)?,
            libc::TCP_KEEPINTVL => options.keep.interval = seconds(value)?,
            libc::TCP_KEEPCNT => {
                let probes = u8::try_from(int(value)?).ok().filter(|n| (1..=127).contains(n));
                options.keep.probes = probes.ok_or(Errno(libc::EINVAL))?;
            }
            libc::TCP_USER_TIMEOUT => {
                let ms = u64::try_from(int(value)?).map_err(|_| Errno(libc::EINVAL))?;
                options.user_timeout = Some(Duration::from_millis(ms)).filter(|t| !t.is_zero());
            }
            libc::TCP_CONGESTION => {
                let named = Congestion::from_option(value);
                options.congestion = Some(named.ok_or(Errno(libc::ENOENT))?);
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        drop(inner);
        self.tune()
    }

    /// Tells a connection under way of its options.
    fn tune(&self) -> Result<()> {
        let inner = self.lock();
        let State::Stream { id, .. } = inner.state else { return Ok(()) };
        let options = &inner.options;
        self.with_stack(|stack, now| {
            let tcp = stack.tcp_machine(id)?;
            if tcp.state() != TcpState::Closed {
                tcp.set_nagle(!options.nodelay);
                tcp.set_user_timeout(options.user_timeout);
                if let Some(congestion) = options.congestion {
                    tcp.set_congestion(congestion);
                }
                tcp.set_keep_alive(now, options.keep_alive());
            }
            Ok(())
        })
    }

    /// What the IP headers say: of both versions alike.
    fn set_marking(&self, name: Field, value: &[u8]) -> Result<()> {
        let value = match int(value)? {
            -1 => None,
            value => Some(u8::try_from(value).map_err(|_| Errno(libc::EINVAL))?),
        };
        let mut inner = self.lock();
        let marking = &mut inner.options.marking;
        match name {
            Field::TrafficClass => marking.traffic_class = value.unwrap_or(0),
            Field::HopLimit if value == Some(0) => return Err(Errno(libc::EINVAL)),
            Field::HopLimit => marking.hop_limit = value,
        }
        let marking = *marking;
        let Some(id) = inner.state.id() else { return Ok(()) };
        self.with_stack(|stack, _| stack.set_marking(id, marking))
    }

    fn set_ip_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        if let Some(field) = Field::of(level, name) {
            return self.set_marking(field, value);
        }
        // An IPv6 socket that is bound to no address takes IPv4 too, always.
        if (level, name) == (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) && int(value)? == 0 {
            return Ok(());
        }
        let (group, change) = membership(level, name, value)?;
        if !group.is_multicast() {
            return Err(Errno(libc::EINVAL));
        }
        let id = self.datagram()?;
        self.with_stack(|stack, now| stack.udp_change_membership(now, id, group, change))
    }

    /// The value of an option.
    pub fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        match level {
            libc::SOL_SOCKET => self.socket_option(name),
            libc::IPPROTO_TCP if self.kind == Kind::Stream => self.tcp_option(name),
            libc::IPPROTO_IPV6 if name == libc::IPV6_V6ONLY => Ok(0i32.to_ne_bytes().to_vec()),
            _ => self.marking(Field::of(level, name).ok_or(Errno(libc::ENOPROTOOPT))?),
        }
    }

    fn marking(&self, field: Field) -> Result<Vec<u8>> {
        let marking = self.lock().options.marking;
        let value = match field {
            Field::TrafficClass => marking.traffic_class,
            Field::HopLimit => match marking.hop_limit {
                Some(hops) => hops,
                None => self.opened.host.with(|stack, _| stack.layer().config().hop_limit)?,
            },
        };
        Ok(i32::from(value).to_ne_bytes().to_vec())
    }

    fn socket_option(&self, name: i32) -> Result<Vec<u8>> {
        if name == libc::SO_ERROR {
            return Ok(self.take_error()?.to_ne_bytes().to_vec());
        }
        let inner = self.lock();
        let options = &inner.options;
        let int = match name {
            libc::SO_TYPE if self.kind == Kind::Stream => libc::SOCK_STREAM,
            libc::SO_TYPE => libc::SOCK_DGRAM,
            libc::SO_PROTOCOL if self.kind == Kind::Stream => libc::IPPROTO_TCP,
            libc::SO_PROTOCOL => libc::IPPROTO_UDP,
            libc::SO_DOMAIN => self.family.domain(),
            libc::SO_ACCEPTCONN => i32::from(matches!(inner.state, State::Listening(_))),
            libc::SO_REUSEADDR => i32::from(options.reuse),
            libc::SO_BROADCAST => i32::from(options.broadcast),
            libc::SO_KEEPALIVE => i32::from(options.keep_alive),
            libc::SO_RCVTIMEO => return Ok(of_timeval(options.recv_timeout)),
            libc::SO_SNDTIMEO => return Ok(of_timeval(options.send_timeout)),
            libc::SO_LINGER => {
                let mut bytes = i32::from(options.abort).to_ne_bytes().to_vec();
                bytes.extend_from_slice(&[0; 4]);
                return Ok(bytes);
            }
            libc::SO_RCVBUF | libc::SO_SNDBUF => {
                let options = options.clone();
                drop(inner);
                let config = self.config(&options)?;
                let bytes = match name {
                    libc::SO_RCVBUF => config.recv_window,
                    _ => config.send_buffer,
                };
                i32::try_from(bytes).unwrap_or(i32::MAX)
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
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

    fn tcp_option(&self, name: i32) -> Result<Vec<u8>> {
        let inner = self.lock();
        let options = &inner.options;
        let seconds = |time: Duration| time.as_secs() as i32;
        let int = match name {
            libc::TCP_NODELAY => i32::from(options.nodelay),
            libc::TCP_KEEPIDLE => seconds(options.keep.idle),
            libc::TCP_KEEPINTVL => seconds(options.keep.interval),
            libc::TCP_KEEPCNT => i32::from(options.keep.probes),
            libc::TCP_USER_TIMEOUT => {
                options.user_timeout.map_or(0, |time| time.as_millis() as i32)
            }
            libc::TCP_CONGESTION => {
                let options = options.clone();
                drop(inner);
                return Ok(self.config(&options)?.congestion.to_option().to_vec());
            }
            libc::TCP_INFO => {
                let State::Stream { id, .. } = inner.state else {
                    return Ok(unconnected_tcp_info(matches!(inner.state, State::Listening(_))));
                };
                return self.with_stack(|stack, now| stack.linux_tcp_info(now, id));
            }
            libc::TCP_MAXSEG => match inner.state {
                State::Stream { id, .. } => {
                    self.with_stack(|stack, _| stack.tcp_info(id))?.max_payload as i32
                }
                _ => 0,
            },
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        Ok(int.to_ne_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_went() {
        for time in [None, Some(Duration::from_micros(2_500_000))] {
            assert_eq!(timeval(&of_timeval(time)), Ok(time));
        }
        let mut bytes = of_timeval(None);
        bytes[8..].copy_from_slice(&1_000_000i64.to_ne_bytes());
        assert_eq!(timeval(&bytes), Err(Errno(libc::EDOM)));
        for len in 0..16 {
            assert_eq!(timeval(&bytes[..len]), Err(Errno(libc::EINVAL)), "{len}");
        }
    }

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
