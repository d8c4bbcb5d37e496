//! Options of a socket, as `setsockopt` and `getsockopt` know them.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_stack::ip::posix::{self, Effect};
use fusewire_stack::ip::{Stack, unconnected_tcp_info};

use super::{Flags, Kind, Socket, State};
use crate::address::Family;
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

impl Socket {
    /// Changes whether calls wait.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.lock().options.nonblocking = nonblocking;
    }

    /// Whether calls do not wait.
    pub fn is_nonblocking(&self) -> bool {
        self.lock().options.nonblocking
    }

    fn kind_of(&self) -> posix::KindOf {
        posix::KindOf { is_v4: self.family == Family::V4, is_tcp: self.kind == Kind::Stream }
    }

    /// Sets an option.
    pub fn set_option(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        self.kind_of().sets(level).map_err(Errno)?;
        if posix::is_membership(level, name) {
            return self.change_membership(level, name, value);
        }
        let mut inner = self.lock();
        if (level, name) == (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX) {
            let own = self.opened.host().with(|stack, _| stack.interface().index())?;
            return inner.options.set.bind_to(value, own).map_err(Errno);
        }
        inner.options.set.is_privileged = rustix::process::geteuid().is_root();
        let effect = inner.options.set.set((level, name), value, self.kind == Kind::Stream);
        let set = match effect.map_err(Errno)? {
            Effect::None => return Ok(()),
            Effect::Tune | Effect::Push | Effect::Marking | Effect::Room => {
                inner.options.set.clone()
            }
        };
        match (effect, inner.state) {
            (Ok(Effect::Marking), state) => {
                let Some(id) = state.id() else { return Ok(()) };
                self.with_stack(|stack, _| stack.set_marking(id, set.marking))
            }
            (Ok(Effect::Room), _) if self.kind == Kind::Stream => Ok(()),
            (Ok(Effect::Room), state) => {
                let Some(id) = state.id() else { return Ok(()) };
                self.with_stack(|stack, _| set.make_room(stack, id))
            }
            (Ok(Effect::Push), State::Stream { id, .. }) => self.with_stack(|stack, now| {
                set.tune(stack, now, id)?;
                stack.tcp_machine(id).map(|tcp| tcp.push())
            }),
            (_, State::Stream { id, .. } | State::Listening(id)) => {
                self.with_stack(|stack, now| set.tune(stack, now, id))
            }
            _ => Ok(()),
        }
    }

    fn change_membership(&self, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let (group, change) = posix::membership(level, name, value).map_err(Errno)?;
        if !group.is_multicast() {
            return Err(Errno(libc::EINVAL));
        }
        let id = self.datagram()?;
        self.with_stack(|stack, now| stack.udp_change_membership(now, id, group, change))
    }

    /// The value of an option.
    pub fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        self.kind_of().asks(level).map_err(Errno)?;
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
                _ => inner.options.set.segment(),
            },
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
                let peer = match inner.state {
                    State::Stream { id, .. } => {
                        self.connected_now(id)?;
                        Some(self.with_stack(|stack, _| stack.tcp_tuple(id))?.remote)
                    }
                    _ => inner.peer,
                };
                let (option, peer) = ((level, name), peer.map(|peer| peer.ip()));
                let mtu = self
                    .opened
                    .host()
                    .with(|stack, now| posix::Options::path_mtu(stack, now, option, peer))?;
                mtu.unwrap_or(Err(libc::ENOPROTOOPT)).map_err(Errno)?
            }
            _ => {
                let of = |stack: &Stack| {
                    let (config, hops) = (stack.config(), stack.layer().config().hop_limit);
                    inner.options.set.value((level, name), config, hops, is_tcp)
                };
                return self.opened.host().with(|stack, _| of(stack))?.map_err(Errno);
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
