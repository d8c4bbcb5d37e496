//! Options of a socket, as `setsockopt` and `getsockopt` know them: what is set, from bytes and back. What an option
//! does to a socket is told by an [`Effect`], and that is its owner's to do.

use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::KeepAlive;
use fusewire_transport::tcp::{Config as TcpConfig, State};

use crate::ip::config::{Ancillary, Config, Marking, Result, SocketId};
use crate::ip::datagrams::{memory_for, room_for};
use crate::ip::posix::kept::Kept;
use crate::ip::sharing::Sharing;
use crate::ip::stack::Stack;

/// What is set.
#[derive(Clone, Debug)]
pub struct Options {
    /// `SO_LINGER`: closing waits so long for what was written to arrive; zero resets.
    pub linger: Option<Duration>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_KEEPALIVE`.
    pub keep_alive: bool,
    /// `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`.
    pub keep: KeepAlive,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout: Option<Duration>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<Algorithm>,
    /// `SO_RCVTIMEO`.
    pub recv_timeout: Option<Duration>,
    /// `SO_SNDTIMEO`.
    pub send_timeout: Option<Duration>,
    /// `SO_RCVBUF`, in bytes, as it was asked for.
    pub recv_buffer: Option<u32>,
    /// `SO_SNDBUF`, in bytes, as it was asked for.
    pub send_buffer: Option<u32>,
    /// `SO_REUSEADDR`.
    pub reuse: bool,
    /// `SO_REUSEPORT`.
    pub reuse_port: bool,
    /// `IPV6_V6ONLY`.
    pub v6_only: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `TCP_QUICKACK`, once it was set.
    pub quick_ack: Option<bool>,
    /// `TCP_DEFER_ACCEPT`.
    pub defer_accept: Option<Duration>,
    /// `TCP_MAXSEG`.
    pub max_segment: Option<u16>,
    /// `TCP_SYNCNT`: so often is SYN sent again.
    pub syn_retries: Option<u8>,
    /// `SO_BROADCAST`.
    pub broadcast: bool,
    /// `SO_BINDTOIFINDEX`: the stack's own interface, which is all that there is.
    pub interface: u32,
    /// What is told beside datagrams.
    pub tells: Telling,
    /// `IP_TOS`, `IPV6_TCLASS`, `IP_TTL`, `IPV6_UNICAST_HOPS`.
    pub marking: Marking,
    /// Those that change nothing.
    pub kept: Kept,
    /// Whoever sets options may set those that Linux leaves to `CAP_NET_ADMIN`.
    pub is_privileged: bool,
    /// `SO_MARK`, which changes nothing.
    pub mark: i32,
    /// `IP_TRANSPARENT`, `IPV6_TRANSPARENT`, which change nothing.
    pub transparent: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            linger: None,
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
            reuse_port: false,
            v6_only: false,
            cork: false,
            quick_ack: None,
            defer_accept: None,
            max_segment: None,
            syn_retries: None,
            broadcast: false,
            interface: 0,
            tells: Telling::default(),
            marking: Marking::default(),
            kept: Kept::default(),
            is_privileged: false,
            mark: 0,
            transparent: false,
        }
    }
}

/// Of which kind a socket is, as far as options know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindOf {
    /// `AF_INET`.
    pub is_v4: bool,
    /// It carries a stream.
    pub is_tcp: bool,
}

impl KindOf {
    fn has(self, level: i32) -> bool {
        match level {
            libc::SOL_SOCKET | libc::IPPROTO_IP => true,
            libc::IPPROTO_TCP => self.is_tcp,
            libc::IPPROTO_UDP => !self.is_tcp,
            libc::IPPROTO_IPV6 => !self.is_v4,
            _ => false,
        }
    }

    /// That such a socket has options of this level to be set.
    ///
    /// # Errors
    /// `ENOPROTOOPT`.
    pub fn sets(self, level: i32) -> Result<(), i32> {
        if self.has(level) { Ok(()) } else { Err(libc::ENOPROTOOPT) }
    }

    /// The same to be asked for.
    ///
    /// # Errors
    /// `EOPNOTSUPP` of IPv4, as Linux has it, otherwise `ENOPROTOOPT`.
    pub fn asks(self, level: i32) -> Result<(), i32> {
        match self.has(level) {
            true => Ok(()),
            false if self.is_v4 => Err(libc::EOPNOTSUPP),
            false => Err(libc::ENOPROTOOPT),
        }
    }
}

/// What a socket that exists has to be told of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// A connection or a listener: [`Options::tune`].
    Tune,
    /// The same, and what a connection has waiting goes.
    Push,
    /// Its IP headers: [`Stack::set_marking`].
    Marking,
    /// A socket for datagrams: [`Options::make_room`].
    Room,
}

/// `IPV6_MINHOPCOUNT` of Linux.
pub(super) const IPV6_MINHOPCOUNT: i32 = 73;
/// Bounds of `TCP_MAXSEG`.
const SEGMENT: std::ops::RangeInclusive<i32> = 88..=32767;
/// Bounds of `SO_RCVBUF` and `SO_SNDBUF`.
const BUFFER: std::ops::RangeInclusive<u32> = 4096..=(64 << 20);

/// The first four bytes of an option's value.
pub(super) fn int(value: &[u8]) -> Result<i32, i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(libc::EINVAL)
}

/// The same of an option of this level: those of IPv4 may be a byte long.
pub(super) fn number(level: i32, value: &[u8]) -> Result<i32, i32> {
    match value {
        [byte] | [byte, _] | [byte, _, _] if level == libc::IPPROTO_IP => Ok((*byte).into()),
        _ => int(value),
    }
}

fn seconds(value: &[u8]) -> Result<Duration, i32> {
    let seconds = u64::try_from(int(value)?).ok().filter(|s| (1..=32767).contains(s));
    seconds.map(Duration::from_secs).ok_or(libc::EINVAL)
}

fn buffer(value: &[u8]) -> Result<Option<u32>, i32> {
    // One below 0 is more than any, as to the kernel.
    Ok(Some((int(value)? as u32).clamp(*BUFFER.start(), *BUFFER.end())))
}

/// What is told of a buffer that was asked for: twice that, as the kernel does, whose own records of what waits take the half.
fn told_buffer(asked: u32) -> i32 {
    i32::try_from(asked).map_or(i32::MAX, |asked| asked.saturating_mul(2))
}

/// `struct timeval` on 64-bit Linux; zero is for ever.
fn timeval(value: &[u8]) -> Result<Option<Duration>, i32> {
    let (seconds, micros) = value.split_first_chunk::<8>().ok_or(libc::EINVAL)?;
    let micros = micros.first_chunk::<8>().ok_or(libc::EINVAL)?;
    let (seconds, micros) = (i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*micros));
    if !(0..1_000_000).contains(&micros) {
        return Err(libc::EDOM);
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

/// An option that sets a field of the IP header.
fn is_marking(level: i32, name: i32) -> Option<Field> {
    match (level, name) {
        (libc::IPPROTO_IP, libc::IP_TOS) => Some(Field::TrafficClass),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => Some(Field::TrafficClass),
        (libc::IPPROTO_IP, libc::IP_TTL) => Some(Field::HopLimit),
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => Some(Field::HopLimit),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) => Some(Field::GroupHops),
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => Some(Field::GroupHops),
        _ => None,
    }
}

/// What is told beside datagrams of a version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tells {
    /// The address that they were sent to.
    pub local: bool,
    /// Hops.
    pub hops: bool,
    /// Traffic class.
    pub class: bool,
}

/// What options let be told beside datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// `IP_PKTINFO`, `IP_RECVTTL`, `IP_RECVTOS`: of packets of IPv4, also at sockets of IPv6.
    pub v4: Tells,
    /// `IPV6_RECVPKTINFO`, of all packets; `IPV6_RECVHOPLIMIT`, `IPV6_RECVTCLASS`, of those of IPv6.
    pub v6: Tells,
}

impl Telling {
    /// What an option of that kind sets.
    fn of(&mut self, option: (i32, i32)) -> Option<&mut bool> {
        Some(match option {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => &mut self.v4.local,
            (libc::IPPROTO_IP, libc::IP_RECVTTL) => &mut self.v4.hops,
            (libc::IPPROTO_IP, libc::IP_RECVTOS) => &mut self.v4.class,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => &mut self.v6.local,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => &mut self.v6.hops,
            (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => &mut self.v6.class,
            _ => return None,
        })
    }

    /// What of `beside` the application wants to be told.
    pub fn told(self, beside: Ancillary) -> Ancillary {
        let is_v4 = beside.local.is_some_and(|local| local.is_ipv4());
        let tells = if is_v4 { self.v4 } else { self.v6 };
        let (as_v4, as_v6) = (is_v4 && self.v4.local, self.v6.local);
        let local = beside.local.filter(|_| as_v4 || as_v6);
        Ancillary {
            local,
            interface: local.map_or(0, |_| beside.interface),
            traffic_class: beside.traffic_class.filter(|_| tells.class),
            hop_limit: beside.hop_limit.filter(|_| tells.hops),
            is_shared: local.is_some() && beside.is_shared,
            as_v4: local.is_some() && as_v4,
            as_v6: local.is_some() && as_v6,
        }
    }
}

/// A field of the IP header that a socket may set.
#[derive(Clone, Copy)]
enum Field {
    TrafficClass,
    HopLimit,
    GroupHops,
}

impl Options {
    /// Sets an option of `SOL_SOCKET`, IP or, with `is_tcp`, TCP.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for one that is not known, `EINVAL`, `EDOM`, `ENOENT`, `EOPNOTSUPP`, `EPERM`.
    pub fn set(
        &mut self,
        (level, name): (i32, i32),
        value: &[u8],
        is_tcp: bool,
    ) -> Result<Effect, i32> {
        if self.is_privileged
            && let Some(effect) = self.set_as_administrator((level, name), value)
        {
            return effect;
        }
        if (level != libc::IPPROTO_TCP || is_tcp)
            && let Some(kept) = self.kept.set((level, name), value)
        {
            kept?;
            let value = self.kept.value((level, name)).unwrap_or(0);
            let (is_off, byte) = (value == 0, u8::try_from(value).unwrap_or(u8::MAX));
            let marking = &mut self.marking;
            match (level, name) {
                (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP) => marking.keeps_v4 = is_off,
                (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP) => marking.keeps_v6 = is_off,
                (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG) => marking.is_whole = !is_off,
                (libc::IPPROTO_IP, libc::IP_MINTTL) => marking.min_hops_v4 = byte,
                (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT) => marking.min_hops_v6 = byte,
                _ => return Ok(Effect::None),
            }
            return Ok(Effect::Marking);
        }
        match level {
            libc::SOL_SOCKET => self.set_general(name, value),
            libc::IPPROTO_TCP if is_tcp => {
                self.set_tcp(name, value)?;
                let pushes = name == libc::TCP_NODELAY && self.nodelay;
                Ok(if pushes { Effect::Push } else { Effect::Tune })
            }
            libc::IPPROTO_IPV6 if name == libc::IPV6_V6ONLY => {
                self.v6_only = int(value)? != 0;
                Ok(Effect::None)
            }
            _ => {
                if let Some(told) = self.tells.of((level, name)) {
                    *told = number(level, value)? != 0;
                    return Ok(Effect::None);
                }
                let field = is_marking(level, name).ok_or(libc::ENOPROTOOPT)?;
                self.set_marking(field, number(level, value)?).map(|()| Effect::Marking)
            }
        }
    }

    /// Sets an option that only an administrator may set; `None`: it is another.
    fn set_as_administrator(
        &mut self,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Option<Result<Effect, i32>> {
        let number = || number(level, value);
        Some(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => self.set_general(libc::SO_RCVBUF, value),
            (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => self.set_general(libc::SO_SNDBUF, value),
            (libc::SOL_SOCKET, libc::SO_MARK) => number().map(|mark| {
                self.mark = mark;
                Effect::None
            }),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT)
            | (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT) => number().map(|on| {
                self.transparent = on != 0;
                Effect::None
            }),
            _ => return None,
        })
    }

    /// The value of `IP_MTU` and `IPV6_MTU`: what the path to its peer takes; `None`: it is another option.
    ///
    /// # Errors
    /// `ENOTCONN`: it has no peer.
    pub fn path_mtu(
        stack: &mut Stack,
        now: Instant,
        (level, name): (i32, i32),
        peer: Option<IpAddr>,
    ) -> Option<Result<i32, i32>> {
        let is_one = (level, name) == (libc::IPPROTO_IP, libc::IP_MTU)
            || (level, name) == (libc::IPPROTO_IPV6, libc::IPV6_MTU);
        is_one.then(|| {
            let mtu = stack.path_mtu(now, peer.ok_or(libc::ENOTCONN)?);
            mtu.map(|mtu| mtu as i32).map_err(|_| libc::ENOTCONN)
        })
    }

    /// The socket was bound to an interface that is not the stack's, of which it was not known yet whose it would be.
    ///
    /// # Errors
    /// `ENODEV`.
    pub fn is_here(&self, own: Option<u32>) -> Result<(), i32> {
        let is_here = self.interface == 0 || own == Some(self.interface);
        if is_here { Ok(()) } else { Err(libc::ENODEV) }
    }

    /// Checks that a socket with these options may send to `to`: to all of a network only with `SO_BROADCAST`.
    ///
    /// # Errors
    /// `EACCES`.
    pub fn may_send_to(&self, stack: &Stack, to: IpAddr) -> Result<(), i32> {
        let is_for_all = !to.is_multicast() && stack.layer().is_group(to);
        if is_for_all && !self.broadcast { Err(libc::EACCES) } else { Ok(()) }
    }

    fn set_general(&mut self, name: i32, value: &[u8]) -> Result<Effect, i32> {
        match name {
            libc::SO_REUSEADDR => self.reuse = int(value)? != 0,
            libc::SO_REUSEPORT => self.reuse_port = int(value)? != 0,
            libc::SO_BROADCAST => self.broadcast = int(value)? != 0,
            libc::SO_RCVTIMEO => self.recv_timeout = timeval(value)?,
            libc::SO_SNDTIMEO => self.send_timeout = timeval(value)?,
            libc::SO_RCVBUF => {
                self.recv_buffer = buffer(value)?;
                return Ok(Effect::Room);
            }
            libc::SO_SNDBUF => self.send_buffer = buffer(value)?,
            libc::SO_LINGER => {
                let on = int(value)? != 0;
                let seconds = int(value.get(4..).unwrap_or(&[]))?.max(0) as u64;
                self.linger = on.then_some(Duration::from_secs(seconds));
            }
            libc::SO_KEEPALIVE => {
                self.keep_alive = int(value)? != 0;
                return Ok(Effect::Tune);
            }
            _ => return Err(libc::ENOPROTOOPT),
        }
        Ok(Effect::None)
    }

    fn set_tcp(&mut self, name: i32, value: &[u8]) -> Result<(), i32> {
        match name {
            libc::TCP_NODELAY => self.nodelay = int(value)? != 0,
            libc::TCP_KEEPIDLE => self.keep.idle = seconds(value)?,
            libc::TCP_KEEPINTVL => self.keep.interval = seconds(value)?,
            libc::TCP_KEEPCNT => {
                let probes = u8::try_from(int(value)?).ok().filter(|n| (1..=127).contains(n));
                self.keep.probes = probes.ok_or(libc::EINVAL)?;
            }
            libc::TCP_USER_TIMEOUT => {
                let ms = u64::try_from(int(value)?).map_err(|_| libc::EINVAL)?;
                self.user_timeout = Some(Duration::from_millis(ms)).filter(|t| !t.is_zero());
            }
            libc::TCP_CORK => self.cork = int(value)? != 0,
            libc::TCP_QUICKACK => self.quick_ack = Some(int(value)? != 0),
            libc::TCP_DEFER_ACCEPT => {
                let seconds = u64::try_from(int(value)?).unwrap_or(0);
                self.defer_accept = Some(Duration::from_secs(seconds)).filter(|t| !t.is_zero());
            }
            libc::TCP_MAXSEG => {
                let most = Some(int(value)?).filter(|most| *most == 0 || SEGMENT.contains(most));
                let most = most.ok_or(libc::EINVAL)?;
                self.max_segment = Some(most as u16).filter(|most| *most > 0);
            }
            libc::TCP_SYNCNT => {
                let count = u8::try_from(int(value)?).ok().filter(|n| (1..=127).contains(n));
                self.syn_retries = Some(count.ok_or(libc::EINVAL)?);
            }
            libc::TCP_CONGESTION => {
                self.congestion = Some(Algorithm::from_option(value).ok_or(libc::ENOENT)?);
            }
            _ => return Err(libc::ENOPROTOOPT),
        }
        Ok(())
    }

    fn set_marking(&mut self, field: Field, value: i32) -> Result<(), i32> {
        let value = match value {
            -1 => None,
            value => Some(u8::try_from(value).map_err(|_| libc::EINVAL)?),
        };
        match field {
            Field::TrafficClass => self.marking.traffic_class = value.unwrap_or(0),
            Field::HopLimit if value == Some(0) => return Err(libc::EINVAL),
            Field::HopLimit => self.marking.hop_limit = value,
            Field::GroupHops => self.marking.group_hops = value,
        }
        Ok(())
    }

    /// The value of an option, where that is what was set, or what a stack of `config` makes of it; `hops` is what packets may go
    /// unless a socket says otherwise.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for one that is not known here.
    pub fn value(
        &self,
        (level, name): (i32, i32),
        config: &Config,
        hops: u8,
        is_tcp: bool,
    ) -> Result<Vec<u8>, i32> {
        let seconds = |time: Duration| time.as_secs() as i32;
        let (tcp, datagrams) = (&config.tcp, config.udp_queue_bytes);
        let mut tells = self.tells;
        let int = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => i32::from(self.reuse),
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => i32::from(self.reuse_port),
            (libc::SOL_SOCKET, libc::SO_BROADCAST) => i32::from(self.broadcast),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => i32::from(self.keep_alive),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => return Ok(of_timeval(self.recv_timeout)),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => return Ok(of_timeval(self.send_timeout)),
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let mut bytes = i32::from(self.linger.is_some()).to_ne_bytes().to_vec();
                let time = seconds(self.linger.unwrap_or_default());
                bytes.extend_from_slice(&time.to_ne_bytes());
                return Ok(bytes);
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => match self.recv_buffer {
                Some(asked) if is_tcp => told_buffer(asked),
                Some(asked) => told_buffer(asked.min(room_for(usize::MAX) as u32)),
                None if is_tcp => i32::try_from(tcp.recv_window).unwrap_or(i32::MAX),
                None => i32::try_from(datagrams).unwrap_or(i32::MAX),
            },
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => match self.send_buffer {
                Some(asked) => told_buffer(asked),
                None => i32::try_from(tcp.send_buffer).unwrap_or(i32::MAX),
            },
            (libc::IPPROTO_TCP, _) if !is_tcp => return Err(libc::ENOPROTOOPT),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => i32::from(self.nodelay),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => seconds(self.keep.idle),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => seconds(self.keep.interval),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => i32::from(self.keep.probes),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                self.user_timeout.map_or(0, |time| time.as_millis() as i32)
            }
            (libc::IPPROTO_TCP, libc::TCP_CORK) => i32::from(self.cork),
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => i32::from(self.quick_ack.unwrap_or(true)),
            (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => self.defer_accept.map_or(0, seconds),
            (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => {
                self.syn_retries.unwrap_or(tcp.syn_transmissions.saturating_sub(1)).into()
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                return Ok(self.congestion.unwrap_or(tcp.congestion).to_option().to_vec());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => i32::from(self.v6_only),
            (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX) => self.interface as i32,
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                // `struct so_timestamping`: flags, and no clock.
                let flags = self.kept.value((level, name)).unwrap_or(0);
                return Ok([flags.to_ne_bytes(), [0; 4]].concat());
            }
            (libc::SOL_SOCKET, libc::SO_MARK) => self.mark,
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT)
            | (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT) => self.transparent.into(),
            _ => match (tells.of((level, name)), is_marking(level, name)) {
                (Some(told), _) => (*told).into(),
                (_, Some(Field::TrafficClass)) => self.marking.traffic_class.into(),
                (_, Some(Field::HopLimit)) => self.marking.hop_limit.unwrap_or(hops).into(),
                (_, Some(Field::GroupHops)) => self.marking.group_hops.unwrap_or(1).into(),
                (None, None) => self.kept.value((level, name)).ok_or(libc::ENOPROTOOPT)?,
            },
        };
        Ok(int.to_ne_bytes().to_vec())
    }

    /// Binds it to an interface of this number ([`int`](i32) of the value; 0: to none), where `own` is the stack's.
    ///
    /// # Errors
    /// `ENODEV`: it is another; `EINVAL`.
    pub fn bind_to(&mut self, value: &[u8], own: Option<u32>) -> Result<(), i32> {
        let wanted = u32::try_from(int(value)?).map_err(|_| libc::EINVAL)?;
        if wanted != 0 && own != Some(wanted) {
            return Err(libc::ENODEV);
        }
        self.interface = wanted;
        Ok(())
    }

    fn keep_alive(&self) -> Option<KeepAlive> {
        self.keep_alive.then_some(self.keep)
    }

    /// `TCP_MAXSEG` of what is not connected; 536 where nobody has said (RFC 9293, MUST-15).
    pub fn segment(&self) -> i32 {
        self.max_segment.map_or(536, i32::from)
    }

    /// TCP's settings with what is set here.
    pub fn apply(&self, mut config: TcpConfig) -> TcpConfig {
        config.nagle = !self.nodelay;
        config.mss_limit = self.max_segment.or(config.mss_limit);
        if let Some(retries) = self.syn_retries {
            config.syn_transmissions = retries + 1;
        }
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

    /// Gives a socket for datagrams the room that was asked for.
    ///
    /// # Errors
    /// As [`Stack::udp_set_receive_buffer`].
    pub fn make_room(&self, stack: &mut Stack, id: SocketId) -> Result<()> {
        match self.recv_buffer {
            Some(bytes) => stack.udp_set_receive_buffer(id, bytes as usize),
            None => Ok(()),
        }
    }

    /// Memory that this takes, or has taken of the socket that is bound, beyond what every socket for datagrams has, in bytes.
    pub fn extra_room(&self, stack: &mut Stack, bound: Option<SocketId>) -> u64 {
        let asked = self.recv_buffer.map_or(0, |bytes| memory_for(bytes as usize));
        let has = bound.and_then(|id| stack.udp_receive_memory(id).ok()).unwrap_or(0);
        asked.max(has).saturating_sub(stack.core.config.udp_queue_bytes) as u64
    }

    /// Closing resets the connection.
    pub fn aborts(&self) -> bool {
        self.linger == Some(Duration::ZERO)
    }

    /// Who else may be bound where the socket is; `owner` is whose it is.
    pub fn sharing(&self, is_tcp: bool, owner: u32) -> Sharing {
        Sharing {
            port: self.reuse_port,
            // What a connection leaves behind is in nobody's way here.
            address: self.reuse && !is_tcp,
            v6_only: self.v6_only,
            owner,
        }
    }

    /// Tells a connection under way, or a listener, of its options.
    ///
    /// # Errors
    /// [`Error::NoSocket`](crate::ip::Error::NoSocket).
    pub fn tune(&self, stack: &mut Stack, now: Instant, id: SocketId) -> Result<()> {
        if stack.tcp_waiting(id).is_ok() {
            let config = self.apply(stack.config().tcp.clone());
            stack.tcp_set_defer(id, self.defer_accept)?;
            return stack.tcp_configure_listener(id, &config);
        }
        stack.tcp_set_cork(id, self.cork)?;
        let tcp = stack.tcp_machine(id)?;
        if tcp.state() != State::Closed {
            tcp.set_nagle(!self.nodelay);
            if let Some(on) = self.quick_ack {
                tcp.set_quick_ack(on);
            }
            tcp.set_user_timeout(self.user_timeout);
            if let Some(congestion) = self.congestion {
                tcp.set_congestion(congestion);
            }
            tcp.set_keep_alive(now, self.keep_alive());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_enough_for_ipv4_and_no_delay_lets_go() {
        let mut options = Options::default();
        let tos = (libc::IPPROTO_IP, libc::IP_TOS);
        assert_eq!(options.set(tos, &[4], true), Ok(Effect::Marking));
        assert_eq!(options.marking.traffic_class, 4);
        assert_eq!(options.set(tos, &[], true), Err(libc::EINVAL));
        let class = (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
        assert_eq!(options.set(class, &[4], true), Err(libc::EINVAL));
        let nodelay = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        assert_eq!(options.set(nodelay, &1i32.to_ne_bytes(), true), Ok(Effect::Push));
        assert_eq!(options.set(nodelay, &0i32.to_ne_bytes(), true), Ok(Effect::Tune));
        assert_eq!(options.segment(), 536);
        let segment = (libc::IPPROTO_TCP, libc::TCP_MAXSEG);
        assert_eq!(options.set(segment, &1100i32.to_ne_bytes(), true), Ok(Effect::Tune));
        assert_eq!(options.segment(), 1100);
    }

    #[test]
    fn a_buffer_below_0_is_as_long_as_can_be() {
        for (asked, found) in [(-1, 64 << 20), (i32::MIN, 64 << 20), (0, 4096), (5000, 5000)] {
            assert_eq!(buffer(&i32::to_ne_bytes(asked)), Ok(Some(found)));
        }
    }

    #[test]
    fn times_come_back_as_they_went() {
        for time in [None, Some(Duration::from_micros(2_500_000))] {
            assert_eq!(timeval(&of_timeval(time)), Ok(time));
        }
        let mut bytes = of_timeval(None);
        bytes[8..].copy_from_slice(&1_000_000i64.to_ne_bytes());
        assert_eq!(timeval(&bytes), Err(libc::EDOM));
        for len in 0..16 {
            assert_eq!(timeval(&bytes[..len]), Err(libc::EINVAL), "{len}");
        }
    }
}
