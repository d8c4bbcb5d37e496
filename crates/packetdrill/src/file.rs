//! What a descriptor stands for over a stack of this process, and the calls on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use fusewire_base::Instant;
use fusewire_stack::ip::{SendFlags, State};

use crate::calls::{Calls, Events, Received};
use crate::descriptors::{
    Descriptors, Entry, canonical, fail, is_v6, outward, status, would_block,
};
use crate::errno::{Errno, Result};
use crate::host::{Host, Id};
use crate::option::Options;
use crate::settings::{Role, Settings};

/// A socket.
#[derive(Default)]
pub struct Socket {
    /// IPv6, perhaps with mapped addresses.
    v6: bool,
    pub kind: Kind,
    bound: Option<SocketAddr>,
    nonblocking: bool,
    shut_read: bool,
    shut_write: bool,
    error_was_told: bool,
    pub options: Options,
}

/// What a socket has become.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    New,
    /// Listens.
    Listener(Id),
    Stream(Id),
}

#[derive(Default)]
pub struct Epoll {
    interests: BTreeMap<i32, Interest>,
}

struct Interest {
    events: u32,
    data: u64,
    /// Edge-triggered: what was reported, and what had come by then.
    seen: Option<(u32, u64)>,
}

/// All descriptors, and the stack below.
pub struct Files {
    pub entries: Descriptors<Socket, Epoll>,
    pub host: Host,
    pub settings: Arc<Settings>,
}

impl Files {
    /// None open.
    pub fn new(settings: Settings) -> Files {
        let settings = Arc::new(settings);
        Files { entries: Descriptors::new(), host: Host::new(Arc::clone(&settings)), settings }
    }

    /// What ended the connection, once (`SO_ERROR`).
    pub fn take_error(&mut self, fd: i32, id: Id) -> Option<Errno> {
        let error = self.host.error(id)?;
        let socket = self.entries.get_mut(fd).ok()?;
        (!std::mem::replace(&mut socket.error_was_told, true)).then_some(error)
    }

    /// A write found no room: that there is room again will be news.
    fn await_room(&mut self, fd: i32) {
        for epoll in self.entries.epolls() {
            if let Some(Interest { seen: Some((events, _)), .. }) = epoll.interests.get_mut(&fd) {
                *events &= !(libc::EPOLLOUT as u32);
            }
        }
    }

    fn bits(&mut self, fd: i32) -> u32 {
        let Ok(socket) = self.entries.get(fd) else { return 0 };
        let (kind, told) = (socket.kind, socket.error_was_told);
        let (shut_read, shut_write) = (socket.shut_read, socket.shut_write);
        let mut events = 0;
        match kind {
            Kind::New => events = libc::EPOLLOUT | libc::EPOLLHUP,
            Kind::Listener(id) => {
                let waiting = self.host.stack.tcp_waiting(id).unwrap_or(0);
                events = if waiting > 0 { libc::EPOLLIN } else { 0 };
            }
            Kind::Stream(id) => {
                let state = self.host.state(id);
                let closed = state == State::Closed;
                let over = self.host.peer_has_finished(id) || closed || shut_read;
                if self.host.readable(id) > 0 || over {
                    events |= libc::EPOLLIN;
                }
                if over {
                    events |= libc::EPOLLRDHUP;
                }
                if closed || (over && shut_write) {
                    events |= libc::EPOLLHUP;
                }
                if !told && self.host.error(id).is_some() {
                    events |= libc::EPOLLERR;
                }
                if closed || shut_write || self.host.is_writable(id) {
                    events |= libc::EPOLLOUT;
                }
                if state == State::SynSent {
                    events = 0;
                }
            }
        }
        events as u32
    }

    /// Bytes and FIN that have come: what makes an edge.
    fn received(&mut self, fd: i32) -> u64 {
        match self.entries.get(fd).map(|socket| socket.kind) {
            Ok(Kind::Stream(id)) => {
                let finished = u64::from(self.host.peer_has_finished(id));
                self.host.machine(id).map_or(0, |tcp| tcp.rcv_nxt_offset()) + finished
            }
            _ => 0,
        }
    }
}

impl Calls for Files {
    fn poll(&mut self, now: Instant) {
        self.host.poll(now);
    }

    fn handle(&mut self, now: Instant, packet: &[u8]) {
        self.host.handle(now, packet);
    }

    fn departure(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.host.departure()
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.host.next_timeout()
    }

    fn set_option(
        &mut self,
        now: Instant,
        fd: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<i32> {
        self.set(now, fd, (level, name), value)
    }

    fn option(&mut self, now: Instant, fd: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        self.value(now, fd, (level, name))
    }

    fn owns(&self, fd: i32) -> bool {
        self.entries.owns(fd)
    }

    fn forget(&mut self) {
        self.entries.forget();
    }

    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32> {
        let v6 = is_v6(domain, kind, protocol)?;
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        self.entries.open(Entry::Socket(Box::new(Socket { v6, nonblocking, ..Socket::default() })))
    }

    fn bind(&mut self, fd: i32, address: SocketAddr) -> Result<i32> {
        let socket = self.entries.get_mut(fd)?;
        if socket.bound.is_some() || socket.kind != Kind::New {
            return fail(libc::EINVAL);
        }
        socket.bound = Some(canonical(address));
        Ok(0)
    }

    fn listen(&mut self, fd: i32, backlog: i32) -> Result<i32> {
        let socket = self.entries.get(fd)?;
        let Some(bound) = socket.bound.filter(|_| socket.kind == Kind::New) else {
            return fail(libc::EINVAL);
        };
        let cfg = socket.options.config(&self.settings, Role::Server);
        let id = self.host.listen(bound, backlog.max(1) as usize + 1, &cfg)?;
        self.entries.get_mut(fd)?.kind = Kind::Listener(id);
        Ok(0)
    }

    fn accept(&mut self, now: Instant, fd: i32) -> Result<Option<(i32, SocketAddr)>> {
        let listener = self.entries.get(fd)?;
        let Kind::Listener(id) = listener.kind else { return fail(libc::EINVAL) };
        let (v6, nonblocking) = (listener.v6, listener.nonblocking);
        let options = listener.options.clone();
        let Some((id, peer)) = self.host.stack.tcp_accept(id).ok().flatten() else {
            return would_block(nonblocking, libc::EAGAIN);
        };
        options.apply(now, &self.settings, &mut self.host, id);
        let socket = Socket { v6, kind: Kind::Stream(id), options, ..Socket::default() };
        let opened = self.entries.open(Entry::Socket(Box::new(socket)));
        Ok(Some((opened?, outward(v6, peer))))
    }

    fn connect(&mut self, now: Instant, fd: i32, to: SocketAddr) -> Result<i32> {
        let to = canonical(to);
        let socket = self.entries.get(fd)?;
        let (kind, bound) = (socket.kind, socket.bound);
        match kind {
            Kind::New => {}
            Kind::Stream(id) if self.host.state(id) == State::SynSent => {
                return fail(libc::EALREADY);
            }
            _ => return fail(libc::EISCONN),
        }
        let socket = self.entries.get(fd)?;
        let options = socket.options.clone();
        let cfg = options.config(&self.settings, Role::Client);
        let id = self.host.connect(now, bound, to, &cfg)?;
        options.apply(now, &self.settings, &mut self.host, id);
        self.entries.get_mut(fd)?.kind = Kind::Stream(id);
        Ok(0)
    }

    fn connected(&mut self, fd: i32) -> Result<Option<i32>> {
        let socket = self.entries.get(fd)?;
        let Kind::Stream(id) = socket.kind else { return fail(libc::EINVAL) };
        let nonblocking = socket.nonblocking;
        if let Some(error) = self.take_error(fd, id) {
            return Err(error);
        }
        if self.host.is_open(id) {
            return Ok(Some(0));
        }
        would_block(nonblocking, libc::EINPROGRESS)
    }

    fn receive(&mut self, fd: i32, into: &mut [&mut [u8]], flags: i32) -> Result<Option<Received>> {
        let socket = self.entries.get(fd)?;
        let Kind::Stream(id) = socket.kind else { return fail(libc::ENOTCONN) };
        let wait_all = flags & libc::MSG_WAITALL != 0;
        let nonblocking = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let (shut, inq) = (socket.shut_read, socket.options.inq);
        let room: usize = into.iter().map(|piece| piece.len()).sum();
        let finished = self.host.peer_has_finished(id);
        let over = finished || shut || self.host.state(id) == State::Closed;
        let readable = self.host.readable(id);
        if readable > 0 && (!wait_all || readable >= room || over || nonblocking) {
            let peek = flags & libc::MSG_PEEK != 0;
            let len = into.iter_mut().map(|piece| self.host.read(id, piece, peek)).sum();
            let left = self.host.readable(id) as u32;
            let queued = if left == 0 && finished { 1 } else { left };
            return Ok(Some(Received { len, flags: 0, queued: inq.then_some(queued) }));
        }
        if let Some(error) = self.take_error(fd, id) {
            return Err(error);
        }
        if over || room == 0 {
            return Ok(Some(Received { len: 0, flags: 0, queued: None }));
        }
        if self.host.state(id) == State::SynSent {
            return fail(libc::ENOTCONN);
        }
        would_block(nonblocking, libc::EAGAIN)
    }

    fn send(
        &mut self,
        now: Instant,
        fd: i32,
        from: &[u8],
        done: &mut usize,
        flags: i32,
    ) -> Result<Option<usize>> {
        let socket = self.entries.get(fd)?;
        let Kind::Stream(id) = socket.kind else { return fail(libc::EPIPE) };
        let nonblocking = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let shut = socket.shut_write;
        if let Some(error) = self.take_error(fd, id) {
            return Err(error);
        }
        if shut || self.host.state(id) == State::Closed {
            return fail(libc::EPIPE);
        }
        if *done > 0 && !self.host.is_writable(id) {
            return Ok(None);
        }
        let flags = SendFlags {
            more: flags & libc::MSG_MORE != 0,
            end_of_record: flags & libc::MSG_EOR != 0,
        };
        while *done < from.len() {
            match self.host.send(id, &from[*done..], flags)? {
                0 => break,
                taken => *done += taken,
            }
            // What was taken may leave at once, which makes room for more that is not yet sent.
            if !flags.more || *done < from.len() {
                self.host.poll(now);
            }
        }
        if *done == from.len() {
            return Ok(Some(*done));
        }
        self.await_room(fd);
        match nonblocking {
            true if *done > 0 => Ok(Some(*done)),
            _ => would_block(nonblocking, libc::EAGAIN),
        }
    }

    fn fcntl(&mut self, fd: i32, command: i32, argument: i32) -> Result<i32> {
        status(&mut self.entries.get_mut(fd)?.nonblocking, command, argument)
    }

    fn ioctl(&mut self, fd: i32, request: u64) -> Result<i32> {
        let Kind::Stream(id) = self.entries.get(fd)?.kind else { return fail(libc::EINVAL) };
        const SIOCOUTQNSD: u64 = 0x894b;
        match request {
            // SIOCINQ and SIOCOUTQ are these.
            r if r == libc::FIONREAD => Ok(self.host.readable(id) as i32),
            r if r == libc::TIOCOUTQ => Ok(self.host.info(id).unacked as i32),
            SIOCOUTQNSD => Ok(self.host.unsent(id) as i32),
            _ => fail(libc::ENOTTY),
        }
    }

    fn close(&mut self, now: Instant, fd: i32) -> Result<i32> {
        let entry = self.entries.remove(fd)?;
        for epoll in self.entries.epolls() {
            epoll.interests.remove(&fd);
        }
        if let Entry::Socket(socket) = entry {
            match socket.kind {
                Kind::New => {}
                Kind::Listener(id) => self.host.close(now, id),
                Kind::Stream(id) if socket.options.linger == Some(0) => {
                    let _ = self.host.stack.abort(now, id);
                    self.host.close(now, id);
                }
                Kind::Stream(id) => self.host.close(now, id),
            }
        }
        Ok(0)
    }

    fn shutdown(&mut self, fd: i32, how: i32) -> Result<i32> {
        let socket = self.entries.get_mut(fd)?;
        let Kind::Stream(id) = socket.kind else { return fail(libc::ENOTCONN) };
        let (read, write) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return fail(libc::EINVAL),
        };
        socket.shut_read |= read;
        socket.shut_write |= write;
        if write {
            let _ = self.host.stack.tcp_finish(id);
        }
        Ok(0)
    }

    fn peer(&mut self, fd: i32) -> Option<SocketAddr> {
        let socket = self.entries.get(fd).ok()?;
        let Kind::Stream(id) = socket.kind else { return None };
        let v6 = socket.v6;
        self.host.stack.tcp_tuple(id).ok().map(|tuple| outward(v6, tuple.remote))
    }

    fn ready(&mut self, fd: i32, wanted: i16) -> i16 {
        if !self.owns(fd) {
            return libc::POLLNVAL;
        }
        let always = libc::POLLERR | libc::POLLHUP;
        self.bits(fd) as i16 & (wanted | always)
    }

    fn epoll_create(&mut self) -> Result<i32> {
        self.entries.open(Entry::Epoll(Epoll::default()))
    }

    fn epoll_control(
        &mut self,
        epoll: i32,
        operation: i32,
        fd: i32,
        (events, data): Events,
    ) -> Result<i32> {
        self.entries.get(fd)?;
        let epoll = self.entries.epoll(epoll)?;
        let known = epoll.interests.contains_key(&fd);
        match operation {
            libc::EPOLL_CTL_ADD if known => return fail(libc::EEXIST),
            libc::EPOLL_CTL_ADD => {}
            _ if !known => return fail(libc::ENOENT),
            libc::EPOLL_CTL_DEL => {
                epoll.interests.remove(&fd);
                return Ok(0);
            }
            libc::EPOLL_CTL_MOD => {}
            _ => return fail(libc::EINVAL),
        }
        epoll.interests.insert(fd, Interest { events, data, seen: None });
        Ok(0)
    }

    fn epoll_events(&mut self, epoll: i32, most: usize) -> Result<Vec<Events>> {
        let fds: Vec<i32> = self.entries.epoll(epoll)?.interests.keys().copied().collect();
        let states: Vec<_> = fds.iter().map(|fd| (self.bits(*fd), self.received(*fd))).collect();
        let set = self.entries.epoll(epoll)?;
        let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let mut found = Vec::new();
        for (fd, (ready, received)) in fds.into_iter().zip(states) {
            let Some(interest) = set.interests.get_mut(&fd) else { continue };
            let events = ready & (interest.events | always);
            if interest.events & libc::EPOLLET as u32 != 0 {
                let news = match interest.seen {
                    None => events != 0,
                    Some((before, then)) => {
                        events & !before != 0
                            || (events & libc::EPOLLIN as u32 != 0 && received != then)
                    }
                };
                interest.seen = Some((ready, received));
                if !news {
                    continue;
                }
            }
            if events != 0 && found.len() < most {
                found.push((events, interest.data));
                if interest.events & libc::EPOLLONESHOT as u32 != 0 {
                    interest.events &= always;
                }
            }
        }
        Ok(found)
    }
}
