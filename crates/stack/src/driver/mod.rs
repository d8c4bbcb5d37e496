//! One machine, many callers: who polls the device, who waits, and who is woken.
//!
//! A [`Machine`] (a stack, and what its callers wait for) lies behind one lock. At most one thread at a time
//! *leads*: it gives the machine its turns, and sleeps on the device's descriptor, without the lock, when there
//! is nothing to do. All others wait on a flag of their own ([`Parker`]) or in a task, and are woken one by one,
//! each for its own news.
//!
//! ```text
//!                 nobody leads, or the leader sleeps and can be deposed
//!   a caller waits ─────────────────────────────────────────────────────▶ it leads: turn, turn, sleep, turn …
//!        │ somebody leads and is awake                                        │ its news came, or its time is up
//!        ▼                                                                    ▼
//!   it follows: registered with the machine, asleep on its own flag       it leaves, and wakes nobody unless it must
//! ```
//! The fast path is one caller that comes, leads until its answer is there, and goes: no system calls but the
//! device's own, no thread woken. While it is away nobody leads. That is what the background thread is for
//! ([`Driver::Thread`]): while callers come and go it naps for [`NAP`] and looks whether anybody has led since;
//! if not, it takes the lead, for timers and for tasks, until a caller deposes it. When it finds that the same
//! caller sleeps in the lead it sleeps deeply, until the leader who leaves wakes it. With [`Driver::Caller`] there
//! is no such thread: who leaves hands the lead to one that follows.
//!
//! # No wake is lost
//! All of this state is read and written under the lock, so it is enough to look at who sleeps without it:
//! - *A follower* registers before it gives the lock up, and its flag stays set when it is woken before it
//!   sleeps. Whatever ends its wait is seen by a turn or by a call, both of which hand the machine's news to
//!   the registered before they give the lock up ([`Machine::dispatch`]).
//! - *A leader* is not registered: it looks for itself after each turn. While it sleeps, turns are given by nobody
//!   else, for who wants to must depose it first. Calls of others can make news for it (a connection is closed) or
//!   set an earlier timer: they write to `nudge`, which its sleep ends for. An event descriptor keeps what is
//!   written before the sleep begins.
//! - *A deposed leader* may still sleep on the descriptor, and is not registered either, so who deposes it writes
//!   to `nudge` too. Several sleep on `nudge`, and who read it would take the wake from the others: only a leader
//!   does, with the lock, and only when no deposed leader sleeps any more (`deposed`).
//! - *The background thread* waits for nothing of its own. Invariant: when nobody leads, it is not deeply asleep;
//!   who leaves the lead, in order or by a panic, sees to that ([`Inner::let_go`]).
//! - Without that thread: when nobody leads, nobody follows, or one that follows has been woken to lead; who was
//!   and has no need of it any more (its time is up) wakes the next as it goes ([`Inner::pass_on`]).
//!
//! Nothing here knows a connection.

mod background;
mod waiters;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use std::{future, io};

use fusewire_device as device;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use waiters::PARKER;
pub(crate) use waiters::{Waiters, Wakes};

/// Who serves timers and tasks while no thread of the application waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// A thread of the library's, which ends with the last handle.
    #[default]
    Thread,
    /// Nobody: the application's own threads, whenever they are in a call that waits. Timers ring late and peers
    /// see silence while none is, and tasks wait until one is.
    Caller,
}

/// How long the background thread sleeps at a time while callers come and go.
const NAP: Duration = Duration::from_millis(2);
/// Shortly after there was work a sleep is this short, so that who sends need not wake the sleeper for the timer
/// that it has set.
const BUSY_SLEEP: Duration = Duration::from_millis(4);
/// So many sleeps are, in a row, before one lasts until the next timer.
const BUSY_SLEEPS: u32 = 4;
/// A timer may ring so late before a sleeper is woken for it.
const SLACK: Duration = Duration::from_millis(1);
/// How long nobody looks at a descriptor that has nothing to read but an error.
const ERROR_NAP: Duration = Duration::from_millis(1);
/// How often a follower looks at its flag before it sleeps.
const SPINS: u32 = 60;
/// How often a leader looks whether others have got the lock that it gave up for them.
const YIELDS: u32 = 400;
/// How long who leaves the lead wakes the background thread at once, after it was found to be needed.
const EAGER: Duration = Duration::from_millis(50);

/// What is driven.
pub(crate) trait Machine: Send + 'static {
    /// What a caller can wait for.
    type Interest: Copy;
    /// What a turn fails with.
    type Error: Send;

    /// Frames, timers, transmissions: true if there was work. Nothing here blocks.
    fn turn(&mut self) -> Result<bool, Self::Error>;
    /// Puts out what calls have left to say, and wakes those whose wait may be over because of what turns and
    /// calls have brought. True if there was news.
    fn dispatch(&mut self, wakes: &mut Wakes) -> bool;
    /// True when looking again is cheaper than sleeping.
    fn wants_spin(&self) -> bool;
    /// Time until the next timer.
    fn next_timeout(&self) -> Option<Duration>;
    /// From now on `waker` is woken, once, for news of `interest`; it replaces the one with the same key.
    fn register(&mut self, interest: Self::Interest, key: u64, waker: &Waker, wakes: &mut Wakes);
    /// Not any more.
    fn unregister(&mut self, interest: Self::Interest, key: u64, wakes: &mut Wakes);
    /// Wakes everyone who waits: the device has failed.
    fn wake_all(&mut self, wakes: &mut Wakes);
    /// The same error for one more caller.
    fn again(error: &Self::Error) -> Self::Error;
    /// The error of a sleep that failed.
    fn sleep_failed(error: io::Error) -> Self::Error;
}

/// The key of waiters that hold no key of their own: the last of them counts.
pub(crate) const SHARED_KEY: u64 = 0;

/// Who leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Nobody,
    Caller,
    Background,
}

/// What lies behind the lock.
pub(crate) struct Inner<M: Machine> {
    pub machine: M,
    wakes: Wakes,
    leader: Leader,
    /// Counts leaders: who led under an earlier number was deposed.
    epoch: u64,
    /// The leader sleeps on the descriptor, at most until then.
    asleep: bool,
    asleep_until: Option<Instant>,
    /// Deposed leaders that still sleep on the descriptor.
    deposed: usize,
    /// `nudge` was written to and not read since.
    is_nudged: bool,
    /// Short sleeps that are still to come: there was work.
    busy_sleeps: u32,
    /// Threads asleep on their flags.
    followers: Vec<(u64, Waker)>,
    /// Tasks have waited.
    has_tasks: bool,
    /// The background thread sleeps until it is woken.
    is_deep: bool,
    /// The background thread found news for others when it took the lead: until then it is woken whenever
    /// nobody leads.
    eager_until: Option<Instant>,
    background: Option<Waker>,
    /// The error of the last turn.
    failure: Option<M::Error>,
    next_key: u64,
    is_over: bool,
}

impl<M: Machine> Inner<M> {
    fn take_lead(&mut self, leader: Leader) -> u64 {
        self.leader = leader;
        self.asleep = false;
        self.epoch += 1;
        self.epoch
    }

    /// Nobody leads from now on.
    fn let_go(&mut self) {
        self.leader = Leader::Nobody;
        self.asleep = false;
        self.pass_on();
    }

    /// Sees to it that somebody will lead, where nobody does.
    fn pass_on(&mut self) {
        if self.leader != Leader::Nobody {
            return;
        }
        if let Some(background) = &self.background {
            self.eager_until = self.eager_until.filter(|until| Instant::now() < *until);
            let eager = self.eager_until.is_some();
            if std::mem::take(&mut self.is_deep) || eager {
                self.wakes.push(background.clone());
            }
        } else if let Some((_, waker)) = self.followers.last() {
            self.wakes.push(waker.clone());
        }
    }

    /// Hands the machine's news to those who wait. True if there was any.
    fn spread(&mut self) -> bool {
        self.machine.dispatch(&mut self.wakes)
    }

    fn register(&mut self, interest: M::Interest, key: u64, waker: &Waker) {
        self.machine.register(interest, key, waker, &mut self.wakes);
    }

    fn unregister(&mut self, interest: M::Interest, key: u64) {
        self.machine.unregister(interest, key, &mut self.wakes);
    }

    /// Others wait than the one who leads.
    fn has_others(&self) -> bool {
        !self.followers.is_empty() || self.has_tasks
    }

    fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn fail(&mut self, error: &M::Error) {
        self.failure = Some(M::again(error));
        self.machine.wake_all(&mut self.wakes);
    }
}

/// A machine that is shared, and its driver.
pub(crate) struct Shared<M: Machine> {
    inner: Mutex<Inner<M>>,
    /// Threads that want the lock.
    contenders: AtomicUsize,
    /// The device's descriptor.
    frames: Option<OwnedFd>,
    /// Ends the sleep too: others wake the device by it.
    device: device::Waker,
    nudge: device::Waker,
}

/// The lock. Given up, it wakes whom it collected.
pub(crate) struct Locked<'a, M: Machine>(Option<MutexGuard<'a, Inner<M>>>);

impl<M: Machine> std::ops::Deref for Locked<'_, M> {
    type Target = Inner<M>;
    fn deref(&self) -> &Inner<M> {
        self.0.as_ref().expect("held until dropped")
    }
}

impl<M: Machine> std::ops::DerefMut for Locked<'_, M> {
    fn deref_mut(&mut self) -> &mut Inner<M> {
        self.0.as_mut().expect("held until dropped")
    }
}

impl<M: Machine> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        let Some(mut guard) = self.0.take() else { return };
        if guard.wakes.is_empty() {
            return;
        }
        let wakes = std::mem::take(&mut guard.wakes);
        drop(guard);
        wakes.wake();
    }
}

/// Lets the lead go when a turn unwinds.
struct Leading<'a, M: Machine> {
    shared: &'a Shared<M>,
    epoch: u64,
}

impl<M: Machine> Drop for Leading<'_, M> {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        if inner.epoch == self.epoch {
            inner.let_go();
        }
    }
}

/// A task that may be registered.
struct Registered<'a, M: Machine> {
    shared: &'a Shared<M>,
    interest: M::Interest,
    key: Option<u64>,
}

impl<M: Machine> Drop for Registered<'_, M> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.lock().unregister(self.interest, key);
        }
    }
}

/// How a caller's lead ended.
enum Led<'a, M: Machine, T> {
    Done(Result<Option<T>, M::Error>),
    Deposed(Locked<'a, M>),
}

impl<M: Machine> Shared<M> {
    /// Drives `machine`, which sleeps on `frames` and is woken through `device`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(machine: M, frames: Option<OwnedFd>, device: device::Waker) -> io::Result<Self> {
        Ok(Shared {
            inner: Mutex::new(Inner {
                machine,
                wakes: Wakes::default(),
                leader: Leader::Nobody,
                epoch: 0,
                asleep: false,
                asleep_until: None,
                deposed: 0,
                is_nudged: false,
                busy_sleeps: 0,
                followers: Vec::new(),
                has_tasks: false,
                is_deep: false,
                eager_until: None,
                background: None,
                failure: None,
                next_key: SHARED_KEY,
                is_over: false,
            }),
            contenders: AtomicUsize::new(0),
            frames,
            device,
            nudge: device::Waker::new()?,
        })
    }

    fn lock(&self) -> Locked<'_, M> {
        self.contenders.fetch_add(1, Ordering::Relaxed);
        // A panic elsewhere leaves a machine that is still right: each call completes or changes nothing.
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.contenders.fetch_sub(1, Ordering::Relaxed);
        Locked(Some(guard))
    }

    fn is_contended(&self) -> bool {
        self.contenders.load(Ordering::Relaxed) > 0
    }

    /// Lets others have the lock before it is taken again.
    fn lock_after_others(&self) -> Locked<'_, M> {
        for _ in 0..YIELDS {
            if !self.is_contended() {
                break;
            }
            std::hint::spin_loop();
        }
        self.lock()
    }

    /// Ends the leader's sleep.
    fn nudge(&self, inner: &mut Inner<M>) {
        if !std::mem::replace(&mut inner.is_nudged, true) {
            self.nudge.wake();
        }
    }

    /// A call that does not wait.
    pub fn call<T>(&self, f: impl FnOnce(&mut M) -> T) -> T {
        self.call_waking(|machine, _| f(machine))
    }

    /// A call that ends the waits of others.
    pub fn call_waking<T>(&self, f: impl FnOnce(&mut M, &mut Wakes) -> T) -> T {
        let mut locked = self.lock();
        let inner = &mut *locked;
        let result = f(&mut inner.machine, &mut inner.wakes);
        self.after_call(&mut locked);
        result
    }

    /// Looks at the machine.
    pub fn look<T>(&self, f: impl FnOnce(&M) -> T) -> T {
        f(&self.lock().machine)
    }

    /// What a call of one who does not lead may have changed for those who sleep.
    fn after_call(&self, inner: &mut Locked<'_, M>) {
        let inner = &mut **inner;
        let news = inner.spread();
        if inner.leader == Leader::Nobody {
            return inner.pass_on();
        }
        if !inner.asleep {
            return;
        }
        let is_early = || {
            let Some(left) = inner.machine.next_timeout() else { return false };
            inner.asleep_until.is_none_or(|until| Instant::now() + left + SLACK < until)
        };
        if news || is_early() {
            self.nudge(inner);
        }
    }

    /// Gives the machine a turn unless somebody leads: for calls that do not wait.
    pub fn turn<A>(
        &self,
        app: &mut A,
        turn: impl FnOnce(&mut M, &mut A) -> Result<bool, M::Error>,
    ) -> Result<(), M::Error> {
        let mut inner = self.lock();
        if inner.leader != Leader::Nobody {
            return Ok(());
        }
        let result = turn(&mut inner.machine, app);
        self.after_call(&mut inner);
        result.map(|_| ())
    }

    /// Waits in the calling thread until `attempt` is ready, and leads when nobody else does, by `turn`. `None`
    /// when `deadline` has come first.
    ///
    /// # Errors
    /// The device has failed.
    pub fn block<A: ?Sized, T>(
        &self,
        interest: M::Interest,
        deadline: Option<Instant>,
        app: &mut A,
        mut turn: impl FnMut(&mut M, &mut A) -> Result<bool, M::Error>,
        mut attempt: impl FnMut(&mut M, &mut A) -> Poll<T>,
    ) -> Result<Option<T>, M::Error> {
        let mut inner = self.lock();
        let (mut may_depose, mut has_followed) = (true, false);
        loop {
            let ready = attempt(&mut inner.machine, app);
            let is_late = || deadline.is_some_and(|at| Instant::now() >= at);
            if ready.is_ready() || is_late() {
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
                inner = self.follow(inner, interest, deadline);
                has_followed = true;
                continue;
            }
            match self.lead(inner, deadline, app, &mut turn, &mut attempt) {
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
        interest: M::Interest,
        deadline: Option<Instant>,
    ) -> Locked<'a, M> {
        let key = inner.new_key();
        let parker = PARKER.with(|(parker, waker)| {
            parker.take();
            inner.register(interest, key, waker);
            inner.followers.push((key, waker.clone()));
            parker.clone()
        });
        // What an earlier call has changed, its news and its timers, is the leader's now.
        self.after_call(&mut inner);
        drop(inner);
        parker.wait(deadline, SPINS);
        let mut inner = self.lock();
        inner.unregister(interest, key);
        if let Some(at) = inner.followers.iter().position(|(known, _)| *known == key) {
            inner.followers.swap_remove(at);
        }
        inner
    }

    /// Turn after turn, with sleeps between, until `attempt` is ready or another caller has taken the lead.
    fn lead<'a, A: ?Sized, T>(
        &'a self,
        mut inner: Locked<'a, M>,
        deadline: Option<Instant>,
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
            let worked = match turn(&mut inner.machine, app) {
                Ok(worked) => worked,
                Err(error) => {
                    inner.fail(&error);
                    break Err(error);
                }
            };
            inner.failure = None;
            inner.spread();
            if let Poll::Ready(result) = attempt(&mut inner.machine, app) {
                break Ok(Some(result));
            }
            if deadline.is_some_and(|at| Instant::now() >= at) {
                break Ok(None);
            }
            let wakes_others = !inner.wakes.to_wake.is_empty();
            for_others = wakes_others || for_others && !worked;
            // Who was woken will come for the lead: spinning would only be in its way.
            if worked || inner.machine.wants_spin() && !for_others {
                inner.busy_sleeps = BUSY_SLEEPS;
                if !wakes_others && !self.is_contended() {
                    continue;
                }
                drop(inner);
                inner = self.lock_after_others();
            } else {
                let slept = self.sleep(inner, epoch, deadline);
                inner = slept.0;
                if let Err(error) = slept.1 {
                    inner.fail(&error);
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
    fn sleep<'a>(
        &'a self,
        mut inner: Locked<'a, M>,
        epoch: u64,
        deadline: Option<Instant>,
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
        let mut timeout = inner.machine.next_timeout();
        if inner.busy_sleeps > 0 {
            inner.busy_sleeps -= 1;
            timeout = Some(timeout.map_or(BUSY_SLEEP, |t| t.min(BUSY_SLEEP)));
        }
        let now = Instant::now();
        if let Some(left) = deadline.map(|at| at.saturating_duration_since(now)) {
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
        (inner, slept.map(|_| ()).map_err(M::sleep_failed))
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
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match poll(&mut fds[..count], timeout.as_ref()) {
            Ok(_) => {
                let frames = fds[2].revents();
                if !frames.is_empty() && !frames.contains(PollFlags::IN) {
                    // In error, and perhaps for ever: what the turns make of it, they need not do at once.
                    std::thread::sleep(ERROR_NAP);
                }
                Ok(!fds[0].revents().is_empty())
            }
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    // ---- tasks --------------------------------------------------------------------------------

    /// Waits in a task until `attempt` is ready. Dropped before, it has changed nothing but what `attempt` did.
    ///
    /// # Errors
    /// The device has failed.
    pub async fn wait<T>(
        &self,
        interest: M::Interest,
        mut attempt: impl FnMut(&mut M) -> Poll<T>,
    ) -> Result<T, M::Error> {
        let mut registered = Registered { shared: self, interest, key: None };
        future::poll_fn(|cx| {
            let key = registered.key;
            let (ready, key) = self.poll(interest, key, cx.waker(), &mut attempt);
            registered.key = key;
            ready
        })
        .await
    }

    /// Asks `attempt` once, and registers the task under `key`, or a new one, when it is not ready; gives the key
    /// that it is registered under.
    pub fn poll<T>(
        &self,
        interest: M::Interest,
        key: Option<u64>,
        waker: &Waker,
        attempt: impl FnOnce(&mut M) -> Poll<T>,
    ) -> (Poll<Result<T, M::Error>>, Option<u64>) {
        let mut inner = self.lock();
        let ready = match (attempt(&mut inner.machine), &inner.failure) {
            (Poll::Ready(result), _) => Poll::Ready(Ok(result)),
            (Poll::Pending, Some(error)) => Poll::Ready(Err(M::again(error))),
            (Poll::Pending, None) => Poll::Pending,
        };
        let key = if ready.is_ready() {
            if let Some(key) = key {
                inner.unregister(interest, key);
            }
            None
        } else {
            let key = key.unwrap_or_else(|| inner.new_key());
            inner.register(interest, key, waker);
            inner.has_tasks = true;
            Some(key)
        };
        self.after_call(&mut inner);
        (ready, key)
    }
}
