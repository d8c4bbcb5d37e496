//! How a caller waits: it leads, or sleeps on a wake of its own; and how a task does.

mod any;

use std::cell::OnceCell;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker as DeviceWaker;

use super::lead::{RECENT, sleep};
use super::waiters::{Key, POLLS};
use super::{Inner, Locked, Shared, Way};
use crate::ip::config::{Error, SocketId};
use crate::ip::stack::Stack;

/// What a thread sleeps on while another leads.
pub(super) struct Parker {
    thread: Thread,
    ready: AtomicBool,
    /// While it leads, asleep on the interface: what wakes it there.
    leads: Mutex<Option<DeviceWaker>>,
}

impl Parker {
    /// From now on it sleeps on the interface, with this, or does not.
    fn lead(&self, wake: Option<DeviceWaker>) {
        *self.leads.lock().unwrap_or_else(PoisonError::into_inner) = wake;
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.store(true, Ordering::Release);
        match &*self.leads.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(wake) => wake.wake(),
            None => self.thread.unpark(),
        }
    }
}

thread_local! {
    static PARKER: OnceCell<(Arc<Parker>, Waker)> = const { OnceCell::new() };
}

fn parker() -> (Arc<Parker>, Waker) {
    PARKER.with(|cell| {
        let known = cell.get_or_init(|| {
            let (thread, ready) = (std::thread::current(), AtomicBool::new(false));
            let parker = Arc::new(Parker { thread, ready, leads: Mutex::default() });
            (parker.clone(), parker.into())
        });
        known.clone()
    })
}

/// Longer than anybody waits, and short enough to add to an instant.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How often an interface without a descriptor is looked at by who leads.
const UNSEEN: Duration = Duration::from_millis(1);
/// How often the lead is offered to one who waits, while it has not waited for long.
const OFFERS_MAX: u8 = 4;

/// What somebody waits for, and how.
struct Wait<'a> {
    /// Who may become ready.
    on: &'a [(SocketId, Way)],
    timeout: Option<Duration>,
    /// Each attempt takes packets from the interface itself, so that they go straight to their place.
    receives: bool,
    sleep_max: Option<Duration>,
}

/// The answer to "is it done?".
pub(super) type Attempt<T> = io::Result<Option<T>>;

/// A caller that waits, until it is dropped.
struct Turn<'a> {
    shared: &'a Shared,
    key: Key,
    on: &'a [(SocketId, Way)],
    /// Its wakers stand beside the sockets.
    registered: bool,
    begin: Instant,
    /// How often it has stood among those to whom the lead is offered.
    offers: u8,
    /// It has led, and another came: it leads no more unless that is offered to it, so that who waits long stands in
    /// nobody's way.
    cold: bool,
    /// It looks at the interface once without leading: who has slept there in vain, or does not wait at all.
    looks: bool,
    /// What it waited for may have happened: it tries before it does anything else.
    told: bool,
    left: bool,
}

impl Turn<'_> {
    fn register(&mut self, inner: &mut Inner, waker: &Waker) {
        self.registered = true;
        for (id, way) in self.on {
            // A thread's waker is dropped without further ado.
            inner.waiters.register(*id, *way, self.key, waker);
        }
    }

    /// It waits no more.
    #[inline]
    fn leave(&mut self, inner: &mut Inner, now: Instant) {
        self.left = true;
        if self.registered {
            for (id, way) in self.on {
                inner.waiters.forget(*id, *way, self.key);
            }
        }
        inner.leave(self.shared, self.key, now);
    }
}

impl Drop for Turn<'_> {
    /// Left by an error or a panic.
    fn drop(&mut self) {
        if !self.left {
            let now = self.shared.clock.now();
            self.leave(&mut self.shared.lock(), now);
        }
    }
}

impl Shared {
    /// Tries until it is done, or `timeout` has passed.
    pub(super) fn block_on<T>(
        &self,
        id: SocketId,
        way: Way,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> io::Result<T> {
        self.block(id, way, timeout, false, attempt)
    }

    /// The same when each attempt takes packets from the interface itself.
    pub(super) fn receive_on<T>(
        &self,
        id: SocketId,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> io::Result<T> {
        self.block(id, Way::Read, timeout, true, attempt)
    }

    fn block<T>(
        &self,
        id: SocketId,
        way: Way,
        timeout: Option<Duration>,
        receives: bool,
        attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> io::Result<T> {
        let wait = Wait { on: &[(id, way)], timeout, receives, sleep_max: None };
        self.wait_for(&wait, attempt)?.ok_or_else(|| Error::TimedOut.into())
    }

    /// A name for somebody who waits.
    fn key(&self) -> Key {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    /// Tries until it is done; `None` when the time has passed.
    fn wait_for<T>(
        &self,
        wait: &Wait<'_>,
        mut attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Attempt<T> {
        let begin = self.clock.now();
        let mut inner = self.lock();
        if let Some(done) = inner.attempt(begin, &mut attempt)? {
            return Ok(Some(done));
        }
        let mut spin_until = begin + self.config.spin;
        let deadline = wait.timeout.map(|timeout| begin + timeout.min(TIMEOUT_MAX));
        // Declared before the lock is taken again: an error or a panic gives that back first.
        let mut inner = Some(inner);
        let mut turn = Turn {
            shared: self,
            key: self.key(),
            on: wait.on,
            registered: false,
            begin,
            offers: 0,
            cold: wait.timeout == Some(Duration::ZERO),
            looks: wait.timeout == Some(Duration::ZERO),
            told: false,
            left: false,
        };
        loop {
            let now = self.clock.now();
            let mut held = inner.take().unwrap_or_else(|| self.lock());
            let told = std::mem::take(&mut turn.told);
            let leads = !told && !turn.cold && held.leading.take(self, turn.key);
            if leads || std::mem::take(&mut turn.looks) {
                let worked = if wait.receives { held.drive_rest(now) } else { held.drive(now) };
                if worked {
                    spin_until = now + self.config.spin;
                }
            }
            let result = held.attempt(now, &mut attempt);
            let late = deadline.is_some_and(|at| at <= now);
            if late || !matches!(result, Ok(None)) {
                turn.leave(&mut held, now);
                if let Ok(None) = result {
                    // An attempt may have done a part.
                    held.after(now)?;
                }
                return result;
            }
            if leads && now < spin_until {
                drop(held);
                self.give_way();
                continue;
            }
            if told {
                // It was for the lead that it was woken, or in vain.
                turn.cold = false;
                inner = Some(held);
                continue;
            }
            let until = [deadline, wait.sleep_max.map(|most| now + most)];
            let until = until.into_iter().flatten().min();
            inner = Some(if leads {
                self.sleep_leading(held, &mut turn, until)?
            } else {
                self.sleep_apart(held, &mut turn, until, spin_until)
            });
        }
    }

    /// The leader sleeps on the interface.
    fn sleep_leading<'a>(
        &'a self,
        mut inner: Locked<'a>,
        turn: &mut Turn<'_>,
        until: Option<Instant>,
    ) -> io::Result<Locked<'a>> {
        let now = self.clock.now();
        let unseen = self.fd.is_none().then(|| now + UNSEEN);
        let until = [until, inner.due(now), unseen].into_iter().flatten().min();
        let wake = inner.leading.wake()?;
        let (parker, waker) = parker();
        turn.register(&mut inner, &waker);
        parker.lead(Some(wake.clone()));
        inner.leading.sleeps(self, turn.key, until, wake.clone());
        drop(inner);
        sleep(self.fd.as_ref(), &wake, until.map(|at| at.saturating_since(now)));
        parker.lead(None);
        let mut inner = self.lock();
        if !inner.leading.woke(self, turn.key, Some(wake)) {
            (turn.cold, turn.looks) = (true, true);
        }
        Ok(inner)
    }

    /// Another leads: one sleeps until what one waits for has happened.
    fn sleep_apart<'a>(
        &'a self,
        mut inner: Locked<'a>,
        turn: &mut Turn<'_>,
        until: Option<Instant>,
        spin_until: Instant,
    ) -> Locked<'a> {
        let (parker, waker) = parker();
        parker.ready.store(false, Ordering::Relaxed);
        turn.register(&mut inner, &waker);
        let mut now = self.clock.now();
        if turn.offers < OFFERS_MAX && now < turn.begin + RECENT {
            turn.offers += 1;
            inner.leading.offers_to(turn.begin, turn.key, &parker);
        }
        drop(inner);
        let ready = || parker.ready.load(Ordering::Acquire);
        while !ready() && now < spin_until {
            if !turn.cold && !self.active.load(Ordering::Relaxed) {
                // Nobody leads, or who does sleeps.
                return self.lock();
            }
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            now = self.clock.now();
        }
        while !ready() && until.is_none_or(|at| now < at) {
            match until {
                Some(at) => std::thread::park_timeout(at.saturating_since(now)),
                None => std::thread::park(),
            }
            now = self.clock.now();
        }
        turn.told = ready();
        // Who has slept for so long in vain wants to be told, not to lead.
        turn.cold |= !turn.told;
        self.lock()
    }

    /// Tries once; when it is not done, the task is woken when it may be. One task at a time may wait for a way of a
    /// socket so: the last one.
    pub(super) fn poll_on<T>(
        &self,
        context: &mut Context<'_>,
        id: SocketId,
        way: Way,
        mut attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_as(POLLS, context, id, way, &mut attempt)
    }

    /// Waits in a task, which any number may do at a time: each has a place of its own among those who wait, and gives
    /// it back when it is dropped.
    pub(super) async fn wait<T>(
        &self,
        id: SocketId,
        way: Way,
        mut attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> io::Result<T> {
        let mut place = Place { shared: self, id, way, key: self.key(), taken: false };
        // As a whole: a copy of a field would not be what is looked at in the end.
        let place = &mut place;
        poll_fn(move |context| {
            let polled = self.poll_as(place.key, context, id, way, &mut attempt);
            place.taken |= polled.is_pending();
            polled
        })
        .await
    }

    fn poll_as<T>(
        &self,
        key: Key,
        context: &mut Context<'_>,
        id: SocketId,
        way: Way,
        attempt: &mut impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Poll<io::Result<T>> {
        let now = self.clock.now();
        let mut inner = self.lock();
        match inner.attempt(now, attempt) {
            Ok(Some(done)) => Poll::Ready(Ok(done)),
            Err(error) => Poll::Ready(Err(error)),
            Ok(None) => {
                let before = inner.waiters.register(id, way, key, context.waker());
                inner.schedule(now);
                inner.task_waits();
                self.is_async.store(true, Ordering::Relaxed);
                drop(inner);
                drop(before);
                Poll::Pending
            }
        }
    }
}

/// A task's place among those who wait.
struct Place<'a> {
    shared: &'a Shared,
    id: SocketId,
    way: Way,
    key: Key,
    taken: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.taken {
            let mut inner = self.shared.lock();
            let waker = inner.waiters.forget(self.id, self.way, self.key);
            drop(inner);
            drop(waker);
        }
    }
}

impl Inner {
    /// One attempt, and what it left to send. Whom it concerns what it has received meanwhile is woken.
    #[inline]
    fn attempt<T>(
        &mut self,
        now: Instant,
        attempt: &mut impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Attempt<T> {
        self.check()?;
        let result = attempt(&mut self.stack, now);
        match result {
            Ok(Some(done)) => {
                self.after(now)?;
                Ok(Some(done))
            }
            result => {
                self.dispatch();
                result
            }
        }
    }
}
