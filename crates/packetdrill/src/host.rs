//! The stack that users run, on an interface in memory: packets go in and come out with the time at which they
//! left.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig, Link as NetLink, Route};
use fusewire_stack::ip::{Config, Error, Info, SendFlags, SocketId, Stack, State, TcpConfig};
use fusewire_transport::tcp::Connection;

use crate::errno::{Errno, Result};
use crate::settings::Settings;
use crate::tape::{Queues, Tape};

/// Names a socket of the stack.
pub type Id = SocketId;

/// A stack and the other end of its interface.
pub struct Host {
    settings: Arc<Settings>,
    pub stack: Stack,
    queues: Queues,
    out: VecDeque<(Instant, Vec<u8>)>,
}

/// Errors of the stack as the C side knows them.
fn errno(error: Error) -> Errno {
    Errno(match error {
        Error::Reset => libc::ECONNRESET,
        Error::Refused => libc::ECONNREFUSED,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::NoRoute => libc::ENETUNREACH,
        Error::Unreachable => libc::EHOSTUNREACH,
        Error::Finished | Error::Broken | Error::NotConnected | Error::Aborted => libc::EPIPE,
        Error::InUse(_) => libc::EADDRINUSE,
        Error::NotOurs(_) => libc::EADDRNOTAVAIL,
        _ => libc::EINVAL,
    })
}

/// A stack on such queues, with the addresses that packetdrill gives it.
pub fn stack(settings: &Settings, queues: Queues) -> Stack {
    let tape = Tape::new(settings.mtu.into(), queues).expect("a descriptor is left");
    let everywhere =
        |any| Cidr::new(any, 0).map(|destination| Route { destination, gateway: None });
    let anyone: [std::net::IpAddr; 2] = [[0, 0, 0, 0].into(), [0u16; 8].into()];
    let net = NetConfig {
        mtu: settings.mtu.into(),
        addresses: settings.addresses().into_iter().filter_map(|(a, n)| Cidr::new(a, n)).collect(),
        routes: anyone.into_iter().filter_map(everywhere).collect(),
        ..NetConfig::new(NetLink::Ip)
    };
    Stack::new(Box::new(tape), net, Config::default(), [7; 32], Instant::ZERO)
}

impl Host {
    /// A stack with the addresses that packetdrill gives it.
    pub fn new(settings: Arc<Settings>) -> Host {
        let queues = Queues::default();
        let stack = stack(&settings, queues.clone());
        Host { settings, stack, queues, out: VecDeque::new() }
    }

    /// A packet comes in.
    pub fn handle(&mut self, now: Instant, packet: &[u8]) {
        self.queues.put(packet);
        self.poll(now);
    }

    /// Timers, and what leaves.
    pub fn poll(&mut self, now: Instant) {
        while self.stack.poll(now).unwrap_or(false) {}
        while self.stack.poll_event().is_some() {}
        let refuses = self.settings.device_refuses();
        while let Some(packet) = self.queues.take() {
            if !refuses {
                self.out.push_back((now, packet));
            }
        }
    }

    /// The next packet that left, and when.
    pub fn departure(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.out.pop_front()
    }

    /// When something happens by itself.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.stack.poll_timeout()
    }

    /// Takes connections to a port.
    pub fn listen(&mut self, local: SocketAddr, backlog: usize, cfg: &TcpConfig) -> Result<Id> {
        self.stack.tcp_listen_with(local, backlog, cfg).map_err(errno)
    }

    /// Begins a connection.
    pub fn connect(
        &mut self,
        now: Instant,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        cfg: &TcpConfig,
    ) -> Result<Id> {
        let local = local.unwrap_or_else(|| SocketAddr::new(self.settings.local(remote.ip()), 0));
        self.stack.tcp_connect_with(now, remote, Some(local), cfg).map_err(errno)
    }

    /// The application is done with a socket.
    pub fn close(&mut self, now: Instant, id: Id) {
        let _ = self.stack.close(now, id);
    }

    /// The machine itself.
    pub fn machine(&mut self, id: Id) -> Option<&mut Connection> {
        self.stack.tcp_machine(id).ok()
    }

    /// Where a connection stands.
    pub fn state(&mut self, id: Id) -> State {
        self.stack.tcp_state(id).unwrap_or(State::Closed)
    }

    /// The peer's stream has ended.
    pub fn peer_has_finished(&mut self, id: Id) -> bool {
        use State::{CloseWait, Closing, LastAck, TimeWait};
        matches!(self.state(id), CloseWait | Closing | LastAck | TimeWait)
    }

    /// The handshake is behind it.
    pub fn is_open(&mut self, id: Id) -> bool {
        !matches!(self.state(id), State::SynSent | State::SynReceived | State::Closed)
    }

    /// What ended a connection.
    pub fn error(&mut self, id: Id) -> Option<Errno> {
        self.stack.take_error(id).ok().flatten().filter(|e| *e != Error::Aborted).map(errno)
    }

    /// Bytes that can be read.
    pub fn readable(&mut self, id: Id) -> usize {
        self.stack.tcp_room(id).map_or(0, |(readable, _)| readable)
    }

    /// Reads, or only looks.
    pub fn read(&mut self, id: Id, into: &mut [u8], peek: bool) -> usize {
        if peek {
            let Ok((a, b)) = self.stack.tcp_peek(id) else { return 0 };
            let bytes = a.iter().chain(b);
            return into.iter_mut().zip(bytes).map(|(to, from)| *to = *from).count();
        }
        self.stack.tcp_read(id, into).ok().flatten().unwrap_or(0)
    }

    /// Takes what there is room for.
    pub fn send(&mut self, id: Id, from: &[u8], flags: SendFlags) -> Result<usize> {
        self.stack.tcp_send(id, from, flags).map_err(errno)
    }

    /// A writer should be woken.
    pub fn is_writable(&mut self, id: Id) -> bool {
        self.stack.tcp_is_writable(id).unwrap_or(false)
    }

    /// Bytes written and not sent.
    pub fn unsent(&mut self, id: Id) -> u64 {
        self.stack.tcp_unsent(id).unwrap_or(0)
    }

    /// Estimates and counters.
    pub fn info(&mut self, id: Id) -> Info {
        self.stack.tcp_info(id).unwrap_or_default()
    }
}
