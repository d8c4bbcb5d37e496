//! What lies behind the lock of a host: the stack, and who waits for which socket.

use std::io;
use std::task::{Poll, Waker};
use std::time::Duration;

use fusewire_base::Instant;

use super::{HostConfig, Interest};
use crate::clock::Clock;
use crate::driver::{Machine, Waiters, Wakes};
use crate::ip::config::{Error, Event, SocketId};
use crate::ip::stack::Stack;

/// How soon an interface that was full is tried again.
const RETRY: Duration = Duration::from_micros(500);
/// How often an interface without a descriptor is looked at.
const UNSEEN: Duration = Duration::from_millis(1);

/// The answer to "is it done?".
pub type Attempt<T> = io::Result<Option<T>>;

/// Who waits for a socket.
#[derive(Default)]
struct Socket {
    generation: u32,
    readers: Waiters,
    writers: Waiters,
}

impl Socket {
    fn waiters(&mut self, interest: Interest) -> &mut Waiters {
        match interest {
            Interest::Read => &mut self.readers,
            Interest::Write => &mut self.writers,
        }
    }

    fn wake(&mut self, wakes: &mut Wakes) {
        self.readers.wake(wakes);
        self.writers.wake(wakes);
    }
}

/// The stack, and who waits.
pub struct Inner {
    pub stack: Stack,
    pub config: HostConfig,
    clock: Clock,
    /// By their place in the stack's table.
    sockets: Vec<Socket>,
    /// Looking is cheaper than sleeping until then.
    spin_until: Instant,
    has_descriptor: bool,
    /// The interface is gone: why.
    broken: Option<io::ErrorKind>,
    /// Something changed that the stack does not tell of.
    has_news: bool,
}

impl Inner {
    pub fn new(stack: Stack, config: HostConfig, clock: Clock, has_descriptor: bool) -> Inner {
        Inner {
            stack,
            config,
            clock,
            sockets: Vec::new(),
            spin_until: Instant::ZERO,
            has_descriptor,
            broken: None,
            has_news: false,
        }
    }

    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Somebody begins to wait, or there was work.
    pub fn spin(&mut self, now: Instant) {
        self.spin_until = now + self.config.spin;
    }

    pub fn check(&self) -> io::Result<()> {
        match self.broken {
            Some(kind) => Err(io::Error::new(kind, Error::Interface)),
            None => Ok(()),
        }
    }

    /// What the interface says; when it is gone, everybody is told.
    fn heed<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            tracing::error!(%error, "the interface is gone");
            self.broken = Some(error.kind());
            self.has_news = true;
            io::Error::new(error.kind(), Error::Interface)
        })
    }

    /// Polls the stack, all of it or what is left when packets were just received.
    pub fn poll_by(
        &mut self,
        poll: impl FnOnce(&mut Stack, Instant) -> io::Result<bool>,
    ) -> io::Result<bool> {
        self.check()?;
        let now = self.now();
        let polled = poll(&mut self.stack, now);
        let worked = self.heed(polled)?;
        if worked {
            self.spin(now);
        }
        Ok(worked)
    }

    /// Sends what a call has left to send.
    pub fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        if self.stack.wants_transmit() {
            let sent = self.stack.transmit(self.clock.now());
            self.heed(sent)?;
        }
        Ok(())
    }

    /// One attempt, and what it left to send.
    pub fn attempt<T>(
        &mut self,
        attempt: impl FnOnce(&mut Inner) -> Attempt<T>,
    ) -> Poll<io::Result<T>> {
        self.check()?;
        match attempt(self)? {
            Some(done) => Poll::Ready(self.flush().map(|()| done)),
            None => {
                // It may have done a part.
                if !self.stack.is_blocked() {
                    self.flush()?;
                }
                Poll::Pending
            }
        }
    }

    /// Those who wait for the socket are woken: its state was changed from outside of the stack.
    pub fn wake(&mut self, id: SocketId, wakes: &mut Wakes) {
        self.has_news = true;
        if let Some(socket) = self.socket(id) {
            socket.wake(wakes);
        }
    }

    fn socket(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.index as usize).filter(|socket| socket.generation == id.generation)
    }

    /// Wakes those whom it concerns; true when it may be anybody.
    fn take_event(&mut self, id: SocketId, event: Event, wakes: &mut Wakes) -> bool {
        let interests: &[Interest] = match event {
            Event::Readable | Event::PeerFinished | Event::Acceptable | Event::Urgent => {
                &[Interest::Read]
            }
            Event::Writable => &[Interest::Write],
            Event::Connected | Event::Error | Event::Closed => &[Interest::Read, Interest::Write],
            Event::Congestion | Event::Acked => return false,
        };
        if let Some(socket) = self.socket(id) {
            interests.iter().for_each(|interest| socket.waiters(*interest).wake(wakes));
        }
        true
    }
}

impl Machine for Inner {
    type Interest = (SocketId, Interest);
    type Error = io::Error;

    fn turn(&mut self) -> io::Result<bool> {
        self.poll_by(Stack::poll)
    }

    fn dispatch(&mut self, wakes: &mut Wakes) -> bool {
        let mut any = std::mem::take(&mut self.has_news);
        if any && self.broken.is_some() {
            self.wake_all(wakes);
        }
        while let Some((id, event)) = self.stack.poll_event() {
            any |= self.take_event(id, event, wakes);
        }
        any
    }

    fn wants_spin(&self) -> bool {
        self.now() < self.spin_until
    }

    fn next_timeout(&self) -> Option<Duration> {
        if self.stack.has_unread() {
            return Some(Duration::ZERO);
        }
        let due = self.stack.poll_timeout().map(|at| at.saturating_since(self.now()));
        let retry = self.stack.is_blocked().then_some(RETRY);
        let look = (!self.has_descriptor).then_some(UNSEEN);
        [due, retry, look].into_iter().flatten().min()
    }

    fn next_promise(&self) -> Option<Duration> {
        self.stack.gathers_until().map(|at| at.saturating_since(self.now()))
    }

    fn register(
        &mut self,
        (id, interest): (SocketId, Interest),
        key: u64,
        waker: &Waker,
        wakes: &mut Wakes,
    ) {
        let index = id.index as usize;
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, Socket::default);
        }
        let socket = &mut self.sockets[index];
        if socket.generation != id.generation {
            socket.generation = id.generation;
            // Their socket is gone, which they may hear.
            socket.wake(wakes);
        }
        socket.waiters(interest).register(key, waker, wakes);
    }

    fn unregister(&mut self, (id, interest): (SocketId, Interest), key: u64, wakes: &mut Wakes) {
        if let Some(socket) = self.socket(id) {
            socket.waiters(interest).unregister(key, wakes);
        }
    }

    fn wake_all(&mut self, wakes: &mut Wakes) {
        self.sockets.iter_mut().for_each(|socket| socket.wake(wakes));
    }

    fn again(error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), Error::Interface)
    }

    fn sleep_failed(error: io::Error) -> io::Error {
        error
    }
}
