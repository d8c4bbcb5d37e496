//! How a thread of the application's waits: it leads, or follows who does.

use std::io;
use std::os::fd::AsFd;
use std::task::Poll;
use std::time::{Duration, Instant};

use fusewire_device as device;
use rustix::event::{PollFd, PollFlags};

use super::waiters::PARKER;
use super::{Leader, Leading, Locked, Machine, Shared};

/// Shortly after there was work a sleep is this short, so that who sends need not wake the sleeper for the timer
/// that it has set.
const BUSY_SLEEP: Duration = Duration::from_millis(4);
/// So many sleeps are, in a row, before one lasts until the next timer.
pub(super) const BUSY_SLEEPS: u32 = 4;
/// How long nobody looks at a descriptor that has nothing to read but an error.
const ERROR_NAP: Duration = Duration::from_millis(1);
/// How often a follower looks at its flag before it sleeps.
const SPINS: u32 = 60;

/// What a thread waits for.
pub(crate) struct Wait<'a, I> {
    /// News of any of them.
    pub on: &'a [I],
    /// For how long at most.
    pub deadline: Option<Instant>,
    /// How long it sleeps at a time at most: for what may become true without news.
    pub sleep_max: Option<Duration>,
}

impl<I> Wait<'_, I> {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    fn next_look(&self) -> Option<Instant> {
        let look = self.sleep_max.and_then(after);
        [self.deadline, look].into_iter().flatten().min()
    }
}

/// When a wait of `timeout` ends; `None`, never, when that is beyond all times.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// How a caller's lead ended.
enum Led<'a, M: Machine, T> {
    Done(Result<Option<T>, M::Error>),
    Deposed(Locked<'a, M>),
}

impl<M: Machine> Shared<M> {
    /// As [`Shared::block`], without waiting: `attempt`, and once more after a turn where nobody else gives it one.
    ///
    /// # Errors
    /// The device has failed.
    pub fn attempt<A: ?Sized, T>(
        &self,
        app: &mut A,
        turn: impl FnOnce(&mut M, &mut A) -> Result<bool, M::Error>,
        mut attempt: impl FnMut(&mut M, &mut A) -> Poll<T>,
    ) -> Result<Poll<T>, M::Error> {
        let mut locked = self.lock();
        let inner = &mut *locked;
        let mut ready = attempt(&mut inner.machine, app);
        // The background thread waits for nothing: news may come while it sleeps.
        let is_free = match inner.leader {
            Leader::Nobody => true,
            Leader::Background => inner.asleep,
            Leader::Caller => false,
        };
        let mut turned = Ok(true);
        if ready.is_pending() && is_free {
            if inner.leader == Leader::Nobody {
                // Who asks again and again drives as those do who wait.
                inner.epoch += 1;
            }
            turned = inner.turn(|machine| turn(machine, app));
            ready = attempt(&mut inner.machine, app);
        }
        self.after_call(&mut locked);
        turned.map(|_| ready)
    }

    /// Waits in the calling thread until `attempt` is ready, and leads when nobody else does, by `turn`. `None`
    /// when the deadline has come first.
    ///
    /// # Errors
    /// The device has failed.
    pub fn block<A: ?Sized, T>(
        &self,
        wait: &Wait<'_, M::Interest>,
        app: &mut A,
        mut turn: impl FnMut(&mut M, &mut A) -> Result<bool, M::Error>,
        mut attempt: impl FnMut(&mut M, &mut A) -> Poll<T>,
    ) -> Result<Option<T>, M::Error> {
        let mut inner = self.lock();
        let (mut may_depose, mut has_followed) = (true, false);
        loop {
            let ready = attempt(&mut inner.machine, app);
            if ready.is_ready() || wait.is_over() {
                self.after_call(&mut inner);
                return Ok(match ready {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                });
            }
            if has_followed && let Some(error) = &inner.failure {
                let error = M::again(error);
                self.after_call(&mut inner);
                return Err(error);
            }
            let is_free = match inner.leader {
                Leader::Nobody => true,
                Leader::Background => may_depose,
                Leader::Caller => may_depose && inner.asleep,
            };
            if !is_free {
                inner = self.follow(inner, wait);
                has_followed = true;
                continue;
            }
            match self.lead(inner, wait, app, &mut turn, &mut attempt) {
                Led::Done(result) => return result,
                Led::Deposed(locked) => inner = locked,
            }
            // Two that depose each other would wake each other for ever.
            may_depose = false;
        }
    }

    /// Sleeps until there is news, or nobody leads.
    fn follow<'a>(
        &'a self,
        mut inner: Locked<'a, M>,
        wait: &Wait<'_, M::Interest>,
    ) -> Locked<'a, M> {
        let key = inner.new_key();
        let parker = PARKER.with(|(parker, waker)| {
            parker.take();
            wait.on.iter().for_each(|interest| inner.register(*interest, key, waker));
            inner.followers.push((key, waker.clone()));
            parker.clone()
        });
        // What an earlier call has changed, its news and its timers, is the leader's now.
        self.after_call(&mut inner);
        drop(inner);
        parker.wait(wait.next_look(), SPINS);
        let mut inner = self.lock();
        wait.on.iter().for_each(|interest| inner.unregister(*interest, key));
        if let Some(at) = inner.followers.iter().position(|(known, _)| *known == key) {
            inner.followers.swap_remove(at);
        }
        inner
    }

    /// Turn after turn, with sleeps between, until `attempt` is ready or another caller has taken the lead.
    fn lead<'a, A: ?Sized, T>(
        &'a self,
        mut inner: Locked<'a, M>,
        wait: &Wait<'_, M::Interest>,
        app: &mut A,
        turn: &mut impl FnMut(&mut M, &mut A) -> Result<bool, M::Error>,
        attempt: &mut impl FnMut(&mut M, &mut A) -> Poll<T>,
    ) -> Led<'a, M, T> {
        if inner.asleep {
            inner.deposed += 1;
            self.nudge(&mut inner);
        }
        let epoch = inner.take_lead(Leader::Caller);
        // Should a turn unwind, what is declared last is dropped first: the lock.
        let leading = Leading { shared: self, epoch };
        let mut inner = inner;
        let mut for_others = false;
        let outcome = loop {
            let worked = match inner.turn(|machine| turn(machine, app)) {
                Ok(worked) => worked,
                Err(error) => break Err(error),
            };
            if let Poll::Ready(result) = attempt(&mut inner.machine, app) {
                break Ok(Some(result));
            }
            if wait.is_over() {
                break Ok(None);
            }
            let wakes_others = !inner.wakes.to_wake.is_empty();
            for_others = wakes_others || for_others && !worked;
            // Who was woken will come for the lead: spinning would only be in its way.
            if worked || inner.machine.wants_spin() && !for_others {
                inner.busy_sleeps = BUSY_SLEEPS;
                if worked && !wakes_others && !self.is_contended() {
                    continue;
                }
                let nap = if worked { None } else { inner.machine.nap() };
                drop(inner);
                match nap {
                    Some(nap) => std::thread::sleep(nap),
                    // The peer may be a process on this very processor.
                    None if !worked => std::thread::yield_now(),
                    None => {}
                }
                inner = self.lock_after_others();
            } else if !inner.spread() {
                // Nor has the attempt changed anything.
                let slept = self.sleep(inner, epoch, wait.next_look());
                inner = slept.0;
                if let Err(error) = slept.1 {
                    break Err(error);
                }
            }
            if inner.epoch != epoch {
                std::mem::forget(leading);
                return Led::Deposed(inner);
            }
            // Others may have made news for us.
            if let Poll::Ready(result) = attempt(&mut inner.machine, app) {
                break Ok(Some(result));
            }
        };
        std::mem::forget(leading);
        // What the last attempt has changed.
        inner.spread();
        inner.let_go();
        Led::Done(outcome)
    }

    /// One sleep of the leader `epoch` on the descriptor, without the lock.
    pub(super) fn sleep<'a>(
        &'a self,
        mut inner: Locked<'a, M>,
        epoch: u64,
        until: Option<Instant>,
    ) -> (Locked<'a, M>, Result<(), M::Error>) {
        if inner.is_nudged {
            if inner.deposed > 0 {
                // They have not seen it yet, so it stays.
                drop(inner);
                std::thread::yield_now();
                return (self.lock(), Ok(()));
            }
            inner.is_nudged = false;
            self.nudge.drain();
        }
        inner.machine.rest();
        let mut timeout = inner.machine.next_timeout();
        if inner.busy_sleeps > 0 {
            inner.busy_sleeps -= 1;
            timeout = Some(timeout.map_or(BUSY_SLEEP, |t| t.min(BUSY_SLEEP)));
        }
        let now = Instant::now();
        if let Some(left) = until.map(|at| at.saturating_duration_since(now)) {
            timeout = Some(timeout.map_or(left, |t| t.min(left)));
        }
        inner.asleep = true;
        inner.asleep_until = timeout.and_then(|t| now.checked_add(t));
        drop(inner);
        let slept = self.sleep_on_descriptors(timeout);
        let mut inner = self.lock();
        if inner.epoch == epoch {
            inner.asleep = false;
            if matches!(slept, Ok(true)) {
                self.device.drain();
            }
        } else if inner.deposed > 0 {
            inner.deposed -= 1;
        }
        let slept = slept.map(|_| ()).map_err(M::sleep_failed);
        if let Err(error) = &slept {
            inner.fail(error);
        }
        (inner, slept)
    }

    /// True when the device's waker ended it.
    fn sleep_on_descriptors(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let wakes = |waker| PollFd::new(waker, PollFlags::IN);
        let frames = self.frames.as_ref().map_or(self.nudge.as_fd(), |fd| fd.as_fd());
        let mut fds = [
            wakes(&self.device),
            wakes(&self.nudge),
            PollFd::from_borrowed_fd(frames, PollFlags::IN),
        ];
        let count = if self.frames.is_some() { 3 } else { 2 };
        device::sleep(&mut fds[..count], timeout)?;
        let frames = fds[2].revents();
        if !frames.is_empty() && !frames.contains(PollFlags::IN) {
            // In error, and perhaps for ever: what the turns make of it, they need not do at once.
            std::thread::sleep(ERROR_NAP);
        }
        Ok(!fds[0].revents().is_empty())
    }
}
