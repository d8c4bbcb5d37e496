//! How a caller waits: it drives the stack, first without sleeping, then asleep on the interface.

mod any;

use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker as DeviceWaker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Inner, Shared, Way};
use crate::ip::config::{Error, SocketId};
use crate::ip::stack::Stack;

/// What a thread sleeps on.
struct Parker(DeviceWaker);

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}

thread_local! {
    static PARKER: OnceCell<Arc<Parker>> = const { OnceCell::new() };
}

fn parker() -> io::Result<Arc<Parker>> {
    PARKER.with(|cell| {
        if let Some(parker) = cell.get() {
            return Ok(parker.clone());
        }
        let parker = Arc::new(Parker(DeviceWaker::new()?));
        Ok(cell.get_or_init(|| parker).clone())
    })
}

/// Sleeps until `fd` can be read, `wake` wakes, or the time has passed.
pub(super) fn sleep(fd: Option<&OwnedFd>, wake: &DeviceWaker, timeout: Option<Duration>) {
    let timeout = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let mut fds = [
        PollFd::new(wake, PollFlags::IN),
        PollFd::from_borrowed_fd(fd.map_or(wake.as_fd(), |fd| fd.as_fd()), PollFlags::IN),
    ];
    let count = if fd.is_some() { 2 } else { 1 };
    let ready = poll(&mut fds[..count], timeout.as_ref());
    if ready.is_ok() && !fds[0].revents().is_empty() {
        wake.drain();
    }
}

/// Counts a caller that drives, as long as it does.
struct Driving<'a>(&'a Shared);

impl<'a> Driving<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.driving.fetch_add(1, Ordering::AcqRel);
        Driving(shared)
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.0.drove_at.store(self.0.clock.now().as_ns(), Ordering::Relaxed);
        self.0.driving.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Longer than anybody waits, and short enough to add to an instant.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

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

    /// Tries until it is done; `None` when the time has passed.
    fn wait_for<T>(
        &self,
        wait: &Wait<'_>,
        mut attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Attempt<T> {
        let begin = self.clock.now();
        if let Some(done) = self.attempt(&mut self.lock(), begin, &mut attempt)? {
            return Ok(Some(done));
        }
        let _driving = Driving::begin(self);
        let parker = parker()?;
        let waker = Waker::from(parker.clone());
        let mut spin_until = begin + self.config.spin;
        let deadline = wait.timeout.map(|timeout| begin + timeout.min(TIMEOUT_MAX));
        let unseen = self.fd.is_none().then_some(Duration::from_millis(1));
        let sleep_max = [wait.sleep_max, unseen].into_iter().flatten().min();
        loop {
            let now = self.clock.now();
            let due = {
                let mut inner = self.lock();
                let worked = if wait.receives { inner.drive_rest(now) } else { inner.drive(now) };
                if let Some(done) = self.attempt(&mut inner, now, &mut attempt)? {
                    return Ok(Some(done));
                }
                if deadline.is_some_and(|at| at <= now) {
                    // An attempt may have done a part.
                    inner.after(self, now)?;
                    return Ok(None);
                }
                if worked {
                    spin_until = now + self.config.spin;
                }
                if now >= spin_until {
                    for (id, way) in wait.on {
                        inner.register(*id, *way, &waker);
                    }
                }
                inner.due(now)
            };
            if now < spin_until {
                self.give_way();
                continue;
            }
            let until = [deadline, due].into_iter().flatten().min();
            let left = until.map(|at| at.saturating_since(self.clock.now()));
            sleep(self.fd.as_ref(), &parker.0, left.into_iter().chain(sleep_max).min());
        }
    }

    /// One attempt, and what it left to send.
    fn attempt<T>(
        &self,
        inner: &mut Inner,
        now: Instant,
        attempt: &mut impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Attempt<T> {
        inner.check()?;
        match attempt(&mut inner.stack, now)? {
            None => Ok(None),
            Some(done) => {
                inner.after(self, now)?;
                Ok(Some(done))
            }
        }
    }

    /// Tries once; when it is not done, the task is woken when it may be.
    pub(super) fn poll_on<T>(
        &self,
        context: &mut Context<'_>,
        id: SocketId,
        way: Way,
        mut attempt: impl FnMut(&mut Stack, Instant) -> Attempt<T>,
    ) -> Poll<io::Result<T>> {
        let now = self.clock.now();
        let mut inner = self.lock();
        match self.attempt(&mut inner, now, &mut attempt) {
            Ok(Some(done)) => Poll::Ready(Ok(done)),
            Err(error) => Poll::Ready(Err(error)),
            Ok(None) => {
                inner.register(id, way, context.waker());
                inner.schedule(self);
                if !self.is_async.swap(true, Ordering::AcqRel) {
                    self.wake.wake();
                }
                Poll::Pending
            }
        }
    }
}
