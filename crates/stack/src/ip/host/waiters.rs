//! Who waits for which socket: each with a waker of its own, that is woken when what it waits for has happened and at no
//! other time.

use std::task::Waker;

use super::Way;
use crate::ip::config::{Event, SocketId};

/// The name of somebody who waits, for as long as it does.
pub(super) type Key = u64;

/// Who polls by hand (`poll_read` and its like): one for each way of a socket, the last one.
pub(super) const POLLS: Key = 0;

struct Waiter {
    key: Key,
    way: Way,
    waker: Waker,
}

/// Who waits for a socket.
#[derive(Default)]
struct Socket {
    generation: u32,
    waiters: Vec<Waiter>,
}

/// Who waits for which socket.
#[derive(Default)]
pub(super) struct Waiters {
    sockets: Vec<Socket>,
    /// Those that are to be woken when the lock is given back.
    woken: Vec<Waker>,
}

impl Waiters {
    /// `waker` is woken, once, when the socket may be ready, in place of the one that `key` had before. That one is
    /// given back, to be dropped without the lock.
    pub fn register(&mut self, id: SocketId, way: Way, key: Key, waker: &Waker) -> Option<Waker> {
        let index = id.index as usize;
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, Socket::default);
        }
        let socket = &mut self.sockets[index];
        if socket.generation != id.generation {
            socket.generation = id.generation;
            // Their socket is gone, which they may hear.
            self.woken.extend(socket.waiters.drain(..).map(|waiter| waiter.waker));
        }
        match socket.waiters.iter_mut().find(|w| w.key == key && w.way == way) {
            Some(known) if known.waker.will_wake(waker) => None,
            Some(known) => Some(std::mem::replace(&mut known.waker, waker.clone())),
            None => {
                socket.waiters.push(Waiter { key, way, waker: waker.clone() });
                None
            }
        }
    }

    /// `key` waits no more. Its waker is given back, to be dropped without the lock.
    pub fn forget(&mut self, id: SocketId, way: Way, key: Key) -> Option<Waker> {
        let socket = self.sockets.get_mut(id.index as usize)?;
        if socket.generation != id.generation {
            return None;
        }
        let at = socket.waiters.iter().rposition(|w| w.key == key && w.way == way)?;
        Some(socket.waiters.swap_remove(at).waker)
    }

    /// Those who wait for this are woken.
    pub fn happened(&mut self, id: SocketId, event: Event) {
        let (read, write) = match event {
            Event::Readable | Event::PeerFinished | Event::Acceptable | Event::Urgent => {
                (true, false)
            }
            Event::Writable => (false, true),
            Event::Connected | Event::Error | Event::Closed => (true, true),
            Event::Congestion => return,
        };
        self.wake(id, |way| match way {
            Way::Read => read,
            Way::Write => write,
        });
    }

    /// Those who wait for a socket in such a way are woken.
    pub fn wake(&mut self, id: SocketId, concerns: impl Fn(Way) -> bool) {
        let Some(socket) = self.sockets.get_mut(id.index as usize) else { return };
        if socket.generation == id.generation {
            let concerned = socket.waiters.extract_if(.., |waiter| concerns(waiter.way));
            self.woken.extend(concerned.map(|waiter| waiter.waker));
        }
    }

    pub fn wake_everybody(&mut self) {
        for socket in &mut self.sockets {
            self.woken.extend(socket.waiters.drain(..).map(|waiter| waiter.waker));
        }
    }

    /// One who waits for no socket is woken too.
    pub fn wake_also(&mut self, waker: Waker) {
        self.woken.push(waker);
    }

    /// Somebody is to be woken.
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Moves some of those that are to be woken to `out`; true when there are more.
    pub fn take_woken(&mut self, out: &mut [Option<Waker>]) -> bool {
        for place in out {
            let Some(waker) = self.woken.pop() else { return false };
            *place = Some(waker);
        }
        self.has_woken()
    }
}
