//! The same stack in an outboard: a server in a thread of this process, on the script's clock, and sockets that are
//! placeholders.
//!
//! ```text
//!  call ──▶ client::Socket ──control──▶ thread: answers what is asked, at this moment of the clock
//!       └──bytes──▶ pair ────────────▶ poll: Server::settle, until nothing is left to do
//! ```
//! Between two moments everything is at rest, so that what happens at one of them does not depend on who is faster.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_outboard::client::{self, Placeholder};
use fusewire_outboard::protocol::{self, OptionName, SocketType, VALUE_MAX};
use fusewire_outboard::server::{self, Server};
use fusewire_stack::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::calls::{Calls, Events, Received};
use crate::descriptors::{
    Descriptors, Entry, TCP_INQ, canonical, fail, is_v6, outward, status, would_block,
};
use crate::errno::{Errno, Result};
use crate::host::stack;
use crate::option::SO_MEMINFO;
use crate::settings::{Role, Settings};
use crate::tape::Queues;

/// How long the thread sleeps before it looks whether it is over.
const LOOK: Duration = Duration::from_millis(100);

struct Socket {
    inner: client::Socket,
    v6: bool,
    nonblocking: bool,
    inq: bool,
    /// Options that the outboard does not know, which change nothing that we do: remembered.
    others: BTreeMap<(i32, i32), Vec<u8>>,
}

/// A set of epoll, and the placeholders in it.
struct Set(OwnedFd, BTreeMap<i32, Placeholder>);

/// All descriptors, and the outboard below.
pub struct Outboard {
    entries: Descriptors<Socket, Set>,
    client: Arc<client::Outboard>,
    server: Arc<Mutex<Server>>,
    is_over: Arc<AtomicBool>,
    clock: Arc<AtomicU64>,
    settings: Settings,
    queues: Queues,
    out: VecDeque<(Instant, Vec<u8>)>,
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

fn lock(server: &Mutex<Server>) -> MutexGuard<'_, Server> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outboard {
    /// An outboard at `path`, and nothing open.
    pub fn new(settings: Settings, path: &Path) -> Outboard {
        let (queues, clock) = (Queues::default(), Arc::<AtomicU64>::default());
        let below = stack(&settings, queues.clone());
        let at = server::Settings::at(path);
        let server = Server::new(below, Clock::virtual_ns(clock.clone()), at);
        let server = Arc::new(Mutex::new(server.expect("there is a place for its socket")));
        let is_over = Arc::<AtomicBool>::default();
        let (serves, ends) = (server.clone(), is_over.clone());
        std::thread::spawn(move || {
            let news = lock(&serves).news().expect("a descriptor is left");
            while !ends.load(Ordering::Acquire) {
                let timeout = Timespec::try_from(LOOK).ok();
                let _ = poll(&mut [PollFd::new(&news, PollFlags::IN)], timeout.as_ref());
                let _ = lock(&serves).settle();
            }
        });
        let client = client::Outboard::at(path).expect("it answers");
        let (entries, out) = (Descriptors::new(), VecDeque::new());
        Outboard { entries, client, server, is_over, clock, settings, queues, out }
    }

    fn settle(&self) {
        // An interface in memory does not break.
        let _ = lock(&self.server).settle();
    }

    /// Sockets that come into being next are as the script's settings say of this side.
    fn be(&self, role: Role) {
        lock(&self.server).set_tcp_config(self.settings.config(role));
    }

    fn add(&mut self, inner: client::Socket, v6: bool, nonblocking: bool) -> Result<i32> {
        inner.set_nonblocking(true)?;
        let (inq, others) = (false, BTreeMap::new());
        self.entries.open(Entry::Socket(Box::new(Socket { inner, v6, nonblocking, inq, others })))
    }
}

impl Socket {
    /// What is the case, in the bits of `poll`.
    fn bits(&self, wanted: i16) -> i16 {
        let placeholder = self.inner.placeholder();
        let wanted = PollFlags::from_bits_truncate(wanted as u16);
        let mut fds = [PollFd::new(&placeholder, wanted)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let shown = fds[0].revents().bits() as i16;
        match (self.inner.is_fresh(), self.inner.is_listening()) {
            (true, _) => libc::POLLHUP | libc::POLLOUT & wanted.bits() as i16,
            (_, true) => shown & !libc::POLLOUT,
            _ => shown,
        }
    }

    /// The peer's stream has ended, as far as the application can know.
    fn is_over(&self) -> bool {
        let over = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
        self.bits(libc::POLLRDHUP) & over != 0
    }
}

impl Calls for Outboard {
    fn at(&mut self, now: Instant) {
        self.clock.store(now.as_ns(), Ordering::Release);
    }

    fn poll(&mut self, now: Instant) {
        self.at(now);
        self.settle();
        let refuses = self.settings.device_refuses();
        while let Some(packet) = self.queues.take() {
            if !refuses {
                self.out.push_back((now, packet));
            }
        }
    }

    fn handle(&mut self, now: Instant, packet: &[u8]) {
        self.queues.put(packet);
        self.poll(now);
    }

    fn departure(&mut self) -> Option<(Instant, Vec<u8>)> {
        self.out.pop_front()
    }

    fn next_timeout(&self) -> Option<Instant> {
        lock(&self.server).next_timeout()
    }

    fn owns(&self, fd: i32) -> bool {
        self.entries.owns(fd)
    }

    fn forget(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.entries.forget();
    }

    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32> {
        let v6 = is_v6(domain, kind, protocol)?;
        let family = if v6 { protocol::Family::V6 } else { protocol::Family::V4 };
        let inner = self.client.socket(SocketType { family, kind: protocol::Kind::Stream })?;
        self.add(inner, v6, kind & libc::SOCK_NONBLOCK != 0)
    }

    fn bind(&mut self, fd: i32, address: SocketAddr) -> Result<i32> {
        self.entries.get_mut(fd)?.inner.bind(canonical(address))?;
        Ok(0)
    }

    fn listen(&mut self, fd: i32, backlog: i32) -> Result<i32> {
        self.be(Role::Server);
        self.entries.get_mut(fd)?.inner.listen(backlog.max(1) as u32 + 1)?;
        Ok(0)
    }

    fn accept(&mut self, _now: Instant, fd: i32) -> Result<Option<(i32, SocketAddr)>> {
        let socket = self.entries.get_mut(fd)?;
        let (v6, nonblocking) = (socket.v6, socket.nonblocking);
        let (inner, peer) = match socket.inner.accept() {
            Err(rustix::io::Errno::AGAIN) => return would_block(nonblocking, libc::EAGAIN),
            accepted => accepted?,
        };
        let opened = self.add(inner, v6, false)?;
        Ok(Some((opened, outward(v6, peer))))
    }

    fn connect(&mut self, _now: Instant, fd: i32, to: SocketAddr) -> Result<i32> {
        self.be(Role::Client);
        match self.entries.get_mut(fd)?.inner.connect(Some(canonical(to))) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn connected(&mut self, fd: i32) -> Result<Option<i32>> {
        let socket = self.entries.get_mut(fd)?;
        if socket.bits(libc::POLLOUT) == 0 {
            return would_block(socket.nonblocking, libc::EINPROGRESS);
        }
        match socket.inner.take_error()? {
            Some(error) => Err(error.into()),
            None => Ok(Some(0)),
        }
    }

    fn receive(&mut self, fd: i32, into: &mut [&mut [u8]], flags: i32) -> Result<Option<Received>> {
        let socket = self.entries.get_mut(fd)?;
        let nonblocking = socket.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        let room: usize = into.iter().map(|piece| piece.len()).sum();
        if flags & libc::MSG_WAITALL != 0
            && !nonblocking
            && socket.inner.unread()? < room
            && !socket.is_over()
        {
            return Ok(None);
        }
        let mut pieces: Vec<_> = into.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
        let peeks = flags & libc::MSG_PEEK != 0;
        let flags = if peeks { RecvFlags::PEEK } else { RecvFlags::empty() };
        let len = match socket.inner.recv(&mut pieces, flags | RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN) => return would_block(nonblocking, libc::EAGAIN),
            received => received?,
        };
        let left = socket.inner.unread()? as u32;
        let queued = if left == 0 && socket.is_over() { 1 } else { left };
        Ok(Some(Received { len, flags: 0, queued: socket.inq.then_some(queued) }))
    }

    fn send(
        &mut self,
        _now: Instant,
        fd: i32,
        from: &[u8],
        done: &mut usize,
        flags: i32,
    ) -> Result<Option<usize>> {
        let nonblocking = self.entries.get_mut(fd)?.nonblocking || flags & libc::MSG_DONTWAIT != 0;
        while *done < from.len() {
            let socket = self.entries.get_mut(fd)?;
            match socket.inner.send(&[IoSlice::new(&from[*done..])], SendFlags::DONTWAIT) {
                Ok(taken) => *done += taken,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
            // What was taken goes on, which makes room for more.
            self.settle();
        }
        match nonblocking {
            _ if *done == from.len() => Ok(Some(*done)),
            true if *done > 0 => Ok(Some(*done)),
            _ => would_block(nonblocking, libc::EAGAIN),
        }
    }

    fn fcntl(&mut self, fd: i32, command: i32, argument: i32) -> Result<i32> {
        status(&mut self.entries.get_mut(fd)?.nonblocking, command, argument)
    }

    fn ioctl(&mut self, fd: i32, request: u64) -> Result<i32> {
        match request {
            r if r == libc::FIONREAD => Ok(self.entries.get_mut(fd)?.inner.unread()? as i32),
            _ => fail(libc::ENOTTY),
        }
    }

    fn close(&mut self, _now: Instant, fd: i32) -> Result<i32> {
        let entry = self.entries.remove(fd)?;
        for Set(set, known) in self.entries.epolls() {
            if let Some(placeholder) = known.remove(&fd) {
                let _ = epoll::delete(set, placeholder);
            }
        }
        drop(entry);
        Ok(0)
    }

    fn shutdown(&mut self, fd: i32, how: i32) -> Result<i32> {
        self.entries.get_mut(fd)?.inner.shutdown(match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return fail(libc::EINVAL),
        })?;
        Ok(0)
    }

    fn peer(&mut self, fd: i32) -> Option<SocketAddr> {
        let socket = self.entries.get_mut(fd).ok()?;
        let v6 = socket.v6;
        socket.inner.peer().ok().map(|peer| outward(v6, peer))
    }

    fn set_option(
        &mut self,
        _now: Instant,
        fd: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<i32> {
        let socket = self.entries.get_mut(fd)?;
        if (level, name) == (libc::SOL_TCP, TCP_INQ) {
            socket.inq = value.first().is_some_and(|byte| *byte != 0);
            return Ok(0);
        }
        match socket.inner.set_option(OptionName { level, name }, value) {
            Err(rustix::io::Errno::NOPROTOOPT) => {
                socket.others.insert((level, name), value.to_vec());
                Ok(0)
            }
            done => Ok(done.map(|()| 0)?),
        }
    }

    fn option(&mut self, _now: Instant, fd: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        let socket = self.entries.get_mut(fd)?;
        if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
            let error = socket.inner.take_error()?;
            return Ok(error.map_or(0, |errno| errno.raw_os_error()).to_ne_bytes().to_vec());
        }
        match (level, name) {
            (libc::SOL_TCP, libc::TCP_CC_INFO) => return Ok(Vec::new()),
            (libc::SOL_SOCKET, SO_MEMINFO) => return Ok(vec![0; 36]),
            _ => {}
        }
        let mut value = vec![0; VALUE_MAX];
        match socket.inner.option(OptionName { level, name }, &mut value) {
            Ok(len) => value.truncate(len),
            Err(rustix::io::Errno::NOPROTOOPT) => {
                let known = socket.others.get(&(level, name)).cloned();
                value = known.ok_or(Errno(libc::ENOPROTOOPT))?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(value)
    }

    fn ready(&mut self, fd: i32, wanted: i16) -> i16 {
        match self.entries.get_mut(fd) {
            Ok(socket) => socket.bits(wanted) & (wanted | libc::POLLERR | libc::POLLHUP),
            Err(_) => libc::POLLNVAL,
        }
    }

    fn epoll_create(&mut self) -> Result<i32> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        self.entries.open(Entry::Epoll(Set(set, BTreeMap::new())))
    }

    fn epoll_control(
        &mut self,
        epoll: i32,
        operation: i32,
        fd: i32,
        (events, data): Events,
    ) -> Result<i32> {
        let placeholder = self.entries.get_mut(fd)?.inner.placeholder();
        let Set(set, known) = self.entries.epoll(epoll)?;
        let (data, flags) =
            (epoll::EventData::new_u64(data), epoll::EventFlags::from_bits_retain(events));
        match operation {
            libc::EPOLL_CTL_ADD => {
                epoll::add(&*set, placeholder.as_fd(), data, flags)?;
                known.insert(fd, placeholder);
            }
            libc::EPOLL_CTL_DEL => {
                epoll::delete(&*set, placeholder.as_fd())?;
                known.remove(&fd);
            }
            libc::EPOLL_CTL_MOD => epoll::modify(&*set, placeholder.as_fd(), data, flags)?,
            _ => return fail(libc::EINVAL),
        }
        Ok(0)
    }

    fn epoll_events(&mut self, epoll: i32, most: usize) -> Result<Vec<Events>> {
        let Set(set, _) = self.entries.epoll(epoll)?;
        let mut events = Vec::with_capacity(most.clamp(1, 64));
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(set, room, Some(&now))?;
        let told = |event: &epoll::Event| {
            let (flags, data) = (event.flags, event.data);
            (flags.bits(), data.u64())
        };
        Ok(events.iter().map(told).collect())
    }
}
