//! Socket options.

use std::collections::BTreeMap;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::{SendLimit, unconnected_tcp_info};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::KeepAlive;
use fusewire_transport::tcp::Config;

use crate::descriptors::TCP_INQ;
use crate::errno::{Errno, Result};
use crate::file::{Files, Kind};
use crate::host::{Host, Id};
use crate::settings::{Role, Settings};

const TCP_USER_TIMEOUT: i32 = 18;
const TCP_NOTSENT_LOWAT: i32 = 25;

/// `SO_MEMINFO`, which the C library's headers lack.
pub const SO_MEMINFO: i32 = 55;

/// What was set on a socket.
#[derive(Clone, Debug, Default)]
pub struct Options {
    nodelay: bool,
    cork: bool,
    maxseg: Option<u16>,
    user_timeout_ms: u32,
    congestion: Option<Algorithm>,
    notsent_lowat: u32,
    send_buffer: Option<u32>,
    receive_buffer: Option<u32>,
    keep_alive: bool,
    keep_idle: Option<u32>,
    keep_interval: Option<u32>,
    keep_count: Option<u32>,
    /// SO_LINGER's time in seconds.
    pub linger: Option<u32>,
    /// TCP_INQ.
    pub inq: bool,
    /// Options that change nothing that we do: remembered.
    others: BTreeMap<(i32, i32), i32>,
}

impl Options {
    /// Settings for a connection.
    pub fn config(&self, settings: &Settings, role: Role) -> Config {
        let mut cfg = settings.config(role);
        cfg.mss_limit = self.maxseg;
        if let Some(window) = self.receive_buffer {
            cfg.recv_window = window;
            cfg.initial_recv_window = cfg.initial_recv_window.min(window);
        }
        cfg.nagle = !self.nodelay;
        cfg.congestion = self.congestion.unwrap_or(cfg.congestion);
        cfg.keep_alive = self.keep_alive(settings);
        cfg
    }

    fn keep_alive(&self, settings: &Settings) -> Option<KeepAlive> {
        let seconds = |set: Option<u32>, name, default| {
            Duration::from_secs(set.map_or_else(|| settings.number(name, 0, default), u64::from))
        };
        self.keep_alive.then(|| KeepAlive {
            idle: seconds(self.keep_idle, "tcp_keepalive_time", 7200),
            interval: seconds(self.keep_interval, "tcp_keepalive_intvl", 75),
            probes: self.keep_count.unwrap_or(settings.number("tcp_keepalive_probes", 0, 9) as u32)
                as u8,
        })
    }

    /// Brings them to a connection.
    pub fn apply(&self, now: Instant, settings: &Settings, host: &mut Host, id: Id) {
        let keep_alive = self.keep_alive(settings);
        let user_timeout = Duration::from_millis(self.user_timeout_ms.into());
        if let Some(tcp) = host.machine(id) {
            tcp.set_nagle(!self.nodelay);
            tcp.set_cork(self.cork);
            if let Some(congestion) = self.congestion {
                tcp.set_congestion(congestion);
            }
            tcp.set_keep_alive(now, keep_alive);
            tcp.set_user_timeout(Some(user_timeout).filter(|timeout| !timeout.is_zero()));
        }
        let fixed = self.send_buffer.map(u64::from);
        let bytes = fixed.unwrap_or_else(|| settings.number("tcp_wmem", 1, 16_384));
        let most = fixed.unwrap_or_else(|| settings.number("tcp_wmem", 2, 4 << 20));
        let unsent = match self.notsent_lowat {
            0 => settings.number("tcp_notsent_lowat", 0, u32::MAX.into()),
            n => n.into(),
        };
        let unsent = Some(unsent).filter(|unsent| *unsent < u32::MAX.into());
        let _ = host.stack.tcp_set_send_limit(id, SendLimit { bytes, most, unsent });
    }
}

fn int(value: &[u8]) -> Result<i32> {
    match value {
        [byte] => Ok(i32::from(*byte)),
        _ => value.first_chunk().map(|b| i32::from_ne_bytes(*b)).ok_or(Errno(libc::EINVAL)),
    }
}

impl Files {
    /// `setsockopt(2)`.
    pub fn set(
        &mut self,
        now: Instant,
        fd: i32,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Result<i32> {
        let socket = self.entries.get_mut(fd)?;
        let kind = socket.kind;
        let options = &mut socket.options;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let on = int(value)? != 0;
            options.linger =
                if on { Some(int(value.get(4..).unwrap_or_default())? as u32) } else { None };
            return Ok(0);
        }
        let is_name = (level, name) == (libc::SOL_TCP, libc::TCP_CONGESTION);
        let n = if is_name { 0 } else { int(value)? };
        let unsigned = n.max(0) as u32;
        match (level, name) {
            (libc::SOL_TCP, libc::TCP_NODELAY) => options.nodelay = n != 0,
            (libc::SOL_TCP, libc::TCP_CORK) => options.cork = n != 0,
            (libc::SOL_TCP, libc::TCP_MAXSEG) => {
                if !(88..=32_767).contains(&n) {
                    return Err(Errno(libc::EINVAL));
                }
                options.maxseg = Some(n as u16);
            }
            (libc::SOL_TCP, TCP_USER_TIMEOUT) => options.user_timeout_ms = unsigned,
            (libc::SOL_TCP, libc::TCP_CONGESTION) => {
                let named = Algorithm::from_option(value);
                options.congestion = Some(named.ok_or(Errno(libc::ENOENT))?);
            }
            (libc::SOL_TCP, TCP_NOTSENT_LOWAT) => options.notsent_lowat = n as u32,
            (libc::SOL_TCP, TCP_INQ) => options.inq = n != 0,
            (libc::SOL_TCP, libc::TCP_KEEPIDLE) => options.keep_idle = Some(unsigned),
            (libc::SOL_TCP, libc::TCP_KEEPINTVL) => options.keep_interval = Some(unsigned),
            (libc::SOL_TCP, libc::TCP_KEEPCNT) => options.keep_count = Some(unsigned),
            (libc::SOL_TCP, libc::TCP_QUICKACK) => {
                if let Kind::Stream(id) = kind
                    && let Some(tcp) = self.host.machine(id)
                {
                    tcp.set_quick_ack(n != 0);
                }
                return Ok(0);
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive = n != 0,
            // The kernel doubles both, for its own book-keeping.
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                options.send_buffer = Some(unsigned.saturating_mul(2).max(4608));
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                options.receive_buffer = Some(unsigned.saturating_mul(2).max(2304));
            }
            _ => {
                options.others.insert((level, name), n);
            }
        }
        let options = options.clone();
        match kind {
            Kind::Stream(id) => {
                options.apply(now, &self.settings, &mut self.host, id);
                if (level, name) == (libc::SOL_TCP, libc::TCP_NODELAY)
                    && n != 0
                    && let Some(tcp) = self.host.machine(id)
                {
                    tcp.push();
                }
            }
            Kind::Listener(id) => {
                let cfg = options.config(&self.settings, Role::Server);
                let _ = self.host.stack.tcp_configure_listener(id, &cfg);
            }
            Kind::New => {}
        }
        Ok(0)
    }

    /// `getsockopt(2)`.
    pub fn value(&mut self, now: Instant, fd: i32, (level, name): (i32, i32)) -> Result<Vec<u8>> {
        let kind = self.entries.get(fd)?.kind;
        if let Kind::Stream(id) = kind {
            match (level, name) {
                (libc::SOL_TCP, libc::TCP_INFO) => {
                    let info = self.host.stack.linux_tcp_info(now, id);
                    return Ok(info.unwrap_or_else(|_| unconnected_tcp_info(false)));
                }
                (libc::SOL_SOCKET, libc::SO_ERROR) => {
                    let error = self.take_error(fd, id).map_or(0, |error| error.0);
                    return Ok(error.to_ne_bytes().to_vec());
                }
                (libc::SOL_TCP, libc::TCP_MAXSEG) => {
                    let info = self.host.info(id);
                    return Ok((info.max_payload as i32).to_ne_bytes().to_vec());
                }
                _ => {}
            }
        }
        match (level, name) {
            (libc::SOL_TCP, libc::TCP_CC_INFO) => return Ok(Vec::new()),
            (libc::SOL_SOCKET, SO_MEMINFO) => return Ok(vec![0; 36]),
            _ => {}
        }
        let options = &self.entries.get(fd)?.options;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let mut value = i32::from(options.linger.is_some()).to_ne_bytes().to_vec();
            value.extend(options.linger.unwrap_or(0).to_ne_bytes());
            return Ok(value);
        }
        if (level, name) == (libc::SOL_TCP, libc::TCP_CONGESTION) {
            let default = self.settings.config(Role::Client).congestion;
            return Ok(options.congestion.unwrap_or(default).to_option().to_vec());
        }
        let n = match (level, name) {
            (libc::SOL_TCP, libc::TCP_NODELAY) => options.nodelay.into(),
            (libc::SOL_TCP, libc::TCP_CORK) => options.cork.into(),
            (libc::SOL_TCP, libc::TCP_MAXSEG) => options.maxseg.map_or(536, i32::from),
            (libc::SOL_TCP, TCP_USER_TIMEOUT) => options.user_timeout_ms as i32,
            (libc::SOL_TCP, TCP_NOTSENT_LOWAT) => options.notsent_lowat as i32,
            (libc::SOL_TCP, TCP_INQ) => options.inq.into(),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive.into(),
            (libc::SOL_SOCKET, libc::SO_ERROR) => 0,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => {
                let default = self.settings.number("tcp_wmem", 1, 16_384) as u32;
                options.send_buffer.unwrap_or(default) as i32
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                let default = self.settings.number("tcp_rmem", 1, 131_072) as u32;
                options.receive_buffer.unwrap_or(default) as i32
            }
            other => *options.others.get(&other).ok_or(Errno(libc::ENOPROTOOPT))?,
        };
        Ok(n.to_ne_bytes().to_vec())
    }
}
