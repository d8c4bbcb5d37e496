//! How callers of a host wait, in threads and in tasks.

use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fusewire_base::Instant;

use super::inner::{Attempt, Inner};
use super::{Host, Interest};
use crate::driver::{SHARED_KEY, Wait, after};
use crate::ip::config::{Error, SocketId};
use crate::ip::stack::Stack;

/// The longest sleep of who waits for several sockets: what may become true of one without an event is not missed
/// for longer.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// What a caller tries, until it is done.
struct Trial<F, T> {
    attempt: F,
    /// It takes packets from the interface itself, so that they go straight to their place.
    receives: bool,
    /// What it had in a turn.
    got: Option<io::Result<T>>,
    has_begun: bool,
}

impl<T, F: FnMut(&mut Inner, bool) -> Attempt<T>> Trial<F, T> {
    fn turn(&mut self, inner: &mut Inner) -> io::Result<bool> {
        if !self.receives {
            return inner.poll_by(Stack::poll);
        }
        let before = inner.stack.counters().received;
        self.got = (self.attempt)(inner, true).transpose();
        let came = inner.stack.counters().received != before;
        match inner.poll_by(Stack::poll_rest) {
            // The next call hears of it.
            Err(_) if self.got.is_some() => Ok(true),
            rest => Ok(rest? || came),
        }
    }

    fn attempt(&mut self, inner: &mut Inner) -> Poll<io::Result<T>> {
        if let Some(got) = self.got.take() {
            return Poll::Ready(got);
        }
        let polled = inner.attempt(|inner| (self.attempt)(inner, false));
        if polled.is_pending() && !std::mem::replace(&mut self.has_begun, true) {
            inner.spin(inner.now());
        }
        polled
    }
}

fn both(id: SocketId) -> [(SocketId, Interest); 2] {
    [(id, Interest::Read), (id, Interest::Write)]
}

impl Host {
    /// Tries `attempt` until it gives something or fails, or `timeout` has passed: then `None`. Between
    /// attempts the stack is driven, and the caller sleeps until one of the sockets may be ready. A
    /// timeout of zero looks once at the interface and does not sleep.
    ///
    /// # Errors
    /// The attempt's; the interface is gone.
    pub fn wait_any<T>(
        &self,
        on: &[(SocketId, Interest)],
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Stack, Instant) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let attempt = |inner: &mut Inner, _| {
            let now = inner.now();
            attempt(&mut inner.stack, now)
        };
        self.wait_for(on, timeout, Some(SLEEP_MAX), false, attempt)
    }

    /// The same for one socket, when an attempt that is given `true` takes packets from the interface itself, as
    /// [`Stack::tcp_read_into`] does: what comes is not received twice, and goes straight to its place. Given
    /// `false` it takes what was received already.
    ///
    /// # Errors
    /// As [`Host::wait_any`].
    pub fn wait_receiving<T>(
        &self,
        id: SocketId,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Stack, Instant, bool) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let attempt = |inner: &mut Inner, receives| {
            let now = inner.now();
            attempt(&mut inner.stack, now, receives)
        };
        self.wait_for(&[(id, Interest::Read)], timeout, Some(SLEEP_MAX), true, attempt)
    }

    /// A key for [`Host::watch`].
    pub fn new_watcher(&self) -> u64 {
        self.driven().new_key()
    }

    /// What `look` sees of a socket now; `waker` is woken once when that may have changed. The last waker of a watcher
    /// counts, for as long as the socket is there or until [`Host::unwatch`].
    ///
    /// # Errors
    /// The interface is gone.
    pub fn watch<T>(
        &self,
        id: SocketId,
        watcher: u64,
        waker: &Waker,
        look: impl FnOnce(&mut Stack) -> T,
    ) -> io::Result<T> {
        self.driven().watch(&both(id), watcher, waker, |inner| {
            inner.check()?;
            Ok(look(&mut inner.stack))
        })
    }

    /// A watcher looks at a socket no more.
    pub fn unwatch(&self, id: SocketId, watcher: u64) {
        self.driven().unwatch(&both(id), watcher);
    }

    /// Takes what the interface has, without waiting, unless somebody else does so.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn turn(&self) -> io::Result<()> {
        self.wait_any(&[], Some(Duration::ZERO), |_, _| Ok(None::<()>)).map(|_| ())
    }

    /// Wakes all who wait for a socket: its state was changed from outside of the stack.
    pub fn wake(&self, id: SocketId) {
        self.driven().call_waking(|inner, wakes| inner.wake(id, wakes));
    }

    /// Tries until it is done, or `timeout` has passed.
    pub(super) fn block_on<T>(
        &self,
        on: (SocketId, Interest),
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Inner) -> Attempt<T>,
    ) -> io::Result<T> {
        let done = self.wait_for(&[on], timeout, None, false, |inner, _| attempt(inner))?;
        done.ok_or_else(|| Error::TimedOut.into())
    }

    /// The same for an attempt that, given `true`, takes packets from the interface itself.
    pub(super) fn receive_on<T>(
        &self,
        id: SocketId,
        timeout: Option<Duration>,
        attempt: impl FnMut(&mut Inner, bool) -> Attempt<T>,
    ) -> io::Result<T> {
        let done = self.wait_for(&[(id, Interest::Read)], timeout, None, true, attempt)?;
        done.ok_or_else(|| Error::TimedOut.into())
    }

    fn wait_for<T>(
        &self,
        on: &[(SocketId, Interest)],
        timeout: Option<Duration>,
        sleep_max: Option<Duration>,
        receives: bool,
        attempt: impl FnMut(&mut Inner, bool) -> Attempt<T>,
    ) -> Attempt<T> {
        let mut trial = Trial { attempt, receives, got: None, has_begun: false };
        let turn = |inner: &mut Inner, trial: &mut Trial<_, _>| trial.turn(inner);
        let attempt = |inner: &mut Inner, trial: &mut Trial<_, _>| trial.attempt(inner);
        if timeout == Some(Duration::ZERO) {
            return match self.driven().attempt(&mut trial, turn, attempt)? {
                Poll::Ready(done) => done.map(Some),
                Poll::Pending => Ok(None),
            };
        }
        let wait = Wait { on, deadline: timeout.and_then(after), sleep_max };
        self.driven().block(&wait, &mut trial, turn, attempt)?.transpose()
    }

    /// Tries once; when it is not done, the task is woken when it may be. One task at a time may wait for a way of a
    /// socket so: the last one.
    pub(super) fn poll_on<T>(
        &self,
        context: &mut Context<'_>,
        on: (SocketId, Interest),
        attempt: impl FnOnce(&mut Inner) -> Attempt<T>,
    ) -> Poll<io::Result<T>> {
        let attempt = |inner: &mut Inner| inner.attempt(attempt);
        let polled = self.driven().poll(on, Some(SHARED_KEY), context.waker(), attempt);
        polled.0.map(|done| done?)
    }

    /// Waits in a task, which any number may do at a time.
    pub(super) async fn wait<T>(
        &self,
        on: (SocketId, Interest),
        mut attempt: impl FnMut(&mut Inner) -> Attempt<T>,
    ) -> io::Result<T> {
        self.driven().wait(on, |inner| inner.attempt(&mut attempt)).await?
    }
}
