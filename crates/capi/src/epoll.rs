//! Sets of descriptors to be waited for, as `epoll` has them: sockets of ours, of any number of stacks, and descriptors of the
//! kernel's in one set.
//!
//! ```text
//!   news of a socket ──waker──▶ ready ──┐ looked at by who waits: told, and looked at again the next time (level)
//!                                       │ or when there is news (edge), or not before EPOLL_CTL_MOD (one shot)
//!   the kernel's descriptors ──────▶ its epoll ◀── bell, rung for those who sleep there
//! ```
//! A wait costs what is ready, not what is in the set. Who waits takes what the interfaces have before it sleeps.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::errno::{Errno, Result};
use crate::open::Opened;
use crate::socket::Socket;

/// What is asked of a descriptor, or told: bits of `EPOLL…`, and the user's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub events: u32,
    pub data: u64,
}

/// Told whether asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// What the bell is called among the kernel's descriptors.
const BELL: u64 = u64::MAX;
/// Events of the kernel's that one wait takes.
pub const KERNEL_EVENTS: usize = 256;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where news goes.
struct Ready {
    items: Mutex<VecDeque<Arc<Item>>>,
    /// Those who sleep in the kernel's epoll, or are about to.
    sleepers: AtomicUsize,
    bell: OwnedFd,
}

/// A socket in a set.
struct Item {
    ready: Arc<Ready>,
    fd: i32,
    socket: Weak<Socket>,
    watcher: u64,
    asked: Mutex<Event>,
    is_queued: AtomicBool,
}

impl Wake for Item {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        lock(&self.ready.items).push_back(self.clone());
        if self.ready.sleepers.load(Ordering::SeqCst) > 0 {
            // One that is full has been rung.
            let _ = rustix::io::write(&self.ready.bell, &1u64.to_ne_bytes());
        }
    }
}

#[derive(Default)]
struct Members {
    sockets: HashMap<i32, Arc<Item>>,
    /// The words of the kernel's descriptors.
    kernel: HashMap<i32, u64>,
    /// Stacks that sockets are or were of.
    stacks: Vec<Weak<Opened>>,
}

/// A set.
pub struct Epoll {
    kernel: OwnedFd,
    ready: Arc<Ready>,
    members: Mutex<Members>,
}

/// Sleeps in the kernel's epoll: its descriptor, where events go, and for how long. Returns how many there were.
pub type Sleep<'a> =
    &'a mut dyn FnMut(RawFd, &mut [libc::epoll_event], Option<Duration>) -> io::Result<usize>;

impl Epoll {
    /// An empty one.
    ///
    /// # Errors
    /// `EMFILE` and its like.
    pub fn new() -> Result<Epoll> {
        let kernel = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags).map_err(io::Error::from)?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&kernel, &bell, data, epoll::EventFlags::IN).map_err(io::Error::from)?;
        let (items, sleepers) = (Mutex::default(), AtomicUsize::new(0));
        let ready = Arc::new(Ready { items, sleepers, bell });
        Ok(Epoll { kernel, ready, members: Mutex::default() })
    }

    /// The kernel's epoll, for its own descriptors: each by its number, with its word here ([`Epoll::set_kernel_word`]).
    pub fn kernel(&self) -> RawFd {
        self.kernel.as_raw_fd()
    }

    /// A descriptor of the kernel's is in the set from now on, or not any more.
    pub fn set_kernel_word(&self, fd: i32, word: Option<u64>) {
        let mut members = lock(&self.members);
        match word {
            Some(word) => members.kernel.insert(fd, word),
            None => members.kernel.remove(&fd),
        };
    }

    /// Adds a socket.
    ///
    /// # Errors
    /// `EEXIST`.
    pub fn add(&self, fd: i32, socket: &Arc<Socket>, asked: Event) -> Result<()> {
        let mut members = lock(&self.members);
        let known = members.sockets.get(&fd).and_then(|item| item.socket.upgrade());
        if known.is_some_and(|known| Arc::ptr_eq(&known, socket)) {
            return Err(Errno(libc::EEXIST));
        }
        let item = Arc::new(Item {
            ready: self.ready.clone(),
            fd,
            socket: Arc::downgrade(socket),
            watcher: socket.opened().host().new_watcher(),
            asked: Mutex::new(asked),
            is_queued: AtomicBool::new(false),
        });
        socket.add_watcher(Waker::from(item.clone()));
        item.wake_by_ref();
        members.sockets.insert(fd, item);
        members.stacks.retain(|stack| stack.strong_count() > 0);
        let stack = Arc::downgrade(socket.opened());
        if !members.stacks.iter().any(|known| known.ptr_eq(&stack)) {
            members.stacks.push(stack);
        }
        Ok(())
    }

    /// Asks something else of a socket.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn modify(&self, fd: i32, socket: &Arc<Socket>, asked: Event) -> Result<()> {
        let item = self.member(fd, socket)?;
        *lock(&item.asked) = asked;
        item.wake_by_ref();
        Ok(())
    }

    /// Takes a socket out.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn remove(&self, fd: i32, socket: &Arc<Socket>) -> Result<()> {
        let item = self.member(fd, socket)?;
        lock(&self.members).sockets.remove(&fd);
        socket.unwatch(item.watcher, &Waker::from(item.clone()));
        Ok(())
    }

    fn member(&self, fd: i32, socket: &Arc<Socket>) -> Result<Arc<Item>> {
        let item = lock(&self.members).sockets.get(&fd).cloned();
        let same =
            |item: &Arc<Item>| item.socket.upgrade().is_some_and(|s| Arc::ptr_eq(&s, socket));
        item.filter(same).ok_or(Errno(libc::ENOENT))
    }

    /// The item is still in the set.
    fn has(&self, item: &Arc<Item>) -> bool {
        lock(&self.members).sockets.get(&item.fd).is_some_and(|known| Arc::ptr_eq(known, item))
    }

    /// Waits until something is the case, and says what, `most` at a time; nothing when time is up. `None`: for ever.
    ///
    /// # Errors
    /// What `sleep` says.
    pub fn wait(
        &self,
        most: usize,
        timeout: Option<Duration>,
        sleep: Sleep<'_>,
    ) -> Result<Vec<Event>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut told = Vec::new();
        loop {
            self.tell(most, &mut told);
            if told.is_empty() {
                self.turn();
                self.tell(most, &mut told);
            }
            let left = match deadline {
                _ if !told.is_empty() => Some(Duration::ZERO),
                Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
                None => None,
            };
            self.sleep(most, left, &mut told, sleep)?;
            if !told.is_empty() || left == Some(Duration::ZERO) {
                return Ok(told);
            }
        }
    }

    /// Takes what the interfaces of the sockets' stacks have.
    fn turn(&self) {
        let stacks: Vec<_> = lock(&self.members).stacks.iter().filter_map(Weak::upgrade).collect();
        for stack in stacks {
            // One whose interface is gone is told by its sockets.
            let _ = stack.host().turn();
        }
    }

    /// Looks at the sockets that have news, each once.
    fn tell(&self, most: usize, told: &mut Vec<Event>) {
        let count = lock(&self.ready.items).len();
        let mut again = Vec::new();
        for _ in 0..count {
            if told.len() == most {
                break;
            }
            let Some(item) = lock(&self.ready.items).pop_front() else { break };
            item.is_queued.store(false, Ordering::Release);
            if let Some(event) = self.look(&item) {
                if event.events & (EDGE | ONCE) == 0 {
                    again.push(item);
                }
                told.push(Event { events: event.events & !(EDGE | ONCE), ..event });
            }
        }
        // Behind those that nobody has looked at.
        for item in again {
            if !item.is_queued.swap(true, Ordering::AcqRel) {
                lock(&self.ready.items).push_back(item);
            }
        }
    }

    /// What is to be told of a socket, with how it was asked.
    fn look(&self, item: &Arc<Item>) -> Option<Event> {
        let socket = item.socket.upgrade().filter(|socket| !socket.is_closed());
        let Some(socket) = socket else {
            let mut members = lock(&self.members);
            if members.sockets.get(&item.fd).is_some_and(|known| Arc::ptr_eq(known, item)) {
                members.sockets.remove(&item.fd);
            }
            return None;
        };
        if !self.has(item) {
            return None;
        }
        let is = socket.watch(item.watcher, &Waker::from(item.clone())) as u16;
        let mut asked = lock(&item.asked);
        if asked.events & !(EDGE | ONCE) == 0 && asked.events & ONCE != 0 {
            return None;
        }
        let is = u32::from(is) & (asked.events | ALWAYS);
        if is == 0 {
            return None;
        }
        let event = Event { events: is | asked.events & (EDGE | ONCE), data: asked.data };
        if asked.events & ONCE != 0 {
            asked.events = ONCE;
        }
        Some(event)
    }

    /// Takes the kernel's events; sleeps where there is nothing to tell yet.
    fn sleep(
        &self,
        most: usize,
        left: Option<Duration>,
        told: &mut Vec<Event>,
        sleep: Sleep<'_>,
    ) -> Result<()> {
        let room = (most - told.len()).min(KERNEL_EVENTS);
        if room == 0 || (left == Some(Duration::ZERO) && lock(&self.members).kernel.is_empty()) {
            return Ok(());
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; KERNEL_EVENTS];
        self.ready.sleepers.fetch_add(1, Ordering::SeqCst);
        // Who has news now has seen that somebody sleeps, or has left it here.
        let is_there = told.is_empty() && !lock(&self.ready.items).is_empty();
        let left = if is_there { Some(Duration::ZERO) } else { left };
        // No more than can be told: what comes by edges comes once.
        let count = sleep(self.kernel.as_raw_fd(), &mut events[..room], left);
        self.ready.sleepers.fetch_sub(1, Ordering::SeqCst);
        let members = lock(&self.members);
        for event in &events[..count?] {
            let (events, place) = (event.events, event.u64);
            if place == BELL {
                let _ = rustix::io::read(&self.ready.bell, &mut [0; 8]);
                continue;
            }
            let word = members.kernel.get(&(place as i32));
            told.extend(word.map(|data| Event { events, data: *data }));
        }
        Ok(())
    }
}
