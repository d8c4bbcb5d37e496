//! What a script calls, wherever the stack is: inline ([`crate::file`]) or in an outboard ([`crate::outboard`]).

use std::net::SocketAddr;

use fusewire_base::Instant;

use crate::errno::Result;

/// Event bits and the user's data, as `struct epoll_event` has them.
pub type Events = (u32, u64);

/// What `recvmsg` gives besides bytes.
pub struct Received {
    /// Bytes.
    pub len: usize,
    /// `msg_flags`.
    pub flags: i32,
    /// With `TCP_INQ`: bytes that are left.
    pub queued: Option<u32>,
}

/// The stack below, and the calls of POSIX on its descriptors. `None` from a call means: it would block.
pub trait Calls: Send {
    // ---- the stack

    /// It is that late.
    fn at(&mut self, _now: Instant) {}
    /// Timers, and what leaves.
    fn poll(&mut self, now: Instant);
    /// A packet comes in.
    fn handle(&mut self, now: Instant, packet: &[u8]);
    /// The next packet that left, and when.
    fn departure(&mut self) -> Option<(Instant, Vec<u8>)>;
    /// When something happens by itself.
    fn next_timeout(&self) -> Option<Instant>;

    // ---- descriptors

    /// True for a descriptor of ours.
    fn owns(&self, fd: i32) -> bool;
    /// Leaves every descriptor to the kernel.
    fn forget(&mut self);
    /// `socket(2)`: TCP alone.
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32>;
    /// `bind(2)`.
    fn bind(&mut self, fd: i32, address: SocketAddr) -> Result<i32>;
    /// `listen(2)`.
    fn listen(&mut self, fd: i32, backlog: i32) -> Result<i32>;
    /// `accept(2)`.
    fn accept(&mut self, now: Instant, fd: i32) -> Result<Option<(i32, SocketAddr)>>;
    /// The first half of `connect(2)`: SYN leaves.
    fn connect(&mut self, now: Instant, fd: i32, to: SocketAddr) -> Result<i32>;
    /// The second half of `connect(2)`.
    fn connected(&mut self, fd: i32) -> Result<Option<i32>>;
    /// `recvmsg(2)`.
    fn receive(&mut self, fd: i32, into: &mut [&mut [u8]], flags: i32) -> Result<Option<Received>>;
    /// `sendmsg(2)`; `done` bytes of `from` were taken before it had to wait.
    fn send(
        &mut self,
        now: Instant,
        fd: i32,
        from: &[u8],
        done: &mut usize,
        flags: i32,
    ) -> Result<Option<usize>>;
    /// `fcntl(2)`.
    fn fcntl(&mut self, fd: i32, command: i32, argument: i32) -> Result<i32>;
    /// `ioctl(2)`.
    fn ioctl(&mut self, fd: i32, request: u64) -> Result<i32>;
    /// `close(2)`.
    fn close(&mut self, now: Instant, fd: i32) -> Result<i32>;
    /// `shutdown(2)`.
    fn shutdown(&mut self, fd: i32, how: i32) -> Result<i32>;
    /// The peer, as the socket's family shows it.
    fn peer(&mut self, fd: i32) -> Option<SocketAddr>;
    /// `setsockopt(2)`.
    fn set_option(
        &mut self,
        now: Instant,
        fd: i32,
        level: i32,
        name: i32,
        value: &[u8],
    ) -> Result<i32>;
    /// `getsockopt(2)`.
    fn option(&mut self, now: Instant, fd: i32, level: i32, name: i32) -> Result<Vec<u8>>;

    // ---- readiness

    /// `poll(2)` for one descriptor.
    fn ready(&mut self, fd: i32, wanted: i16) -> i16;
    /// `epoll_create(2)`.
    fn epoll_create(&mut self) -> Result<i32>;
    /// `epoll_ctl(2)`.
    fn epoll_control(&mut self, epoll: i32, operation: i32, fd: i32, event: Events) -> Result<i32>;
    /// `epoll_wait(2)` without the waiting.
    fn epoll_events(&mut self, epoll: i32, most: usize) -> Result<Vec<Events>>;
}
