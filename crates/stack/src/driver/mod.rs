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
//! A turn of a caller's is its own: what comes may go straight to where the caller wants it. An attempt takes nothing
//! from the device, and so whoever is served by the device leads, and counts as one who drives.
//!
//! # No wake is lost
//! All of this state is read and written under the lock, so it is enough to look at who sleeps without it:
//! - *A follower* registers before it gives the lock up, and its flag stays set when it is woken before it
//!   sleeps. Whatever ends its wait is seen by a turn or by a call, both of which hand the machine's news to
//!   the registered before they give the lock up ([`Machine::dispatch`]).
//! - *A leader* is not registered: it looks for itself after each turn. While it sleeps, turns are given by nobody
//!   else, for who wants to must depose it first; but for the background thread, beside which a call that does not
//!   wait may give one ([`Shared::attempt`]). Calls of others can make news for it (a connection is closed) or
//!   set an earlier timer: they write to `nudge`, which its sleep ends for. An event descriptor keeps what is
//!   written before the sleep begins.
//! - *A deposed leader* may still sleep on the descriptor, and is not registered either, so who deposes it writes
//!   to `nudge` too. Several sleep on `nudge`, and who read it would take the wake from the others: only a leader
//!   does, with the lock, and only when no deposed leader sleeps any more (`deposed`).
//! - *The background thread* waits for nothing of its own. Invariant: when nobody leads, it is not deeply asleep;
//!   who leaves the lead, in order or by a panic, sees to that ([`Inner::let_go`]). When a call has made a promise
//!   ([`Machine::next_promise`]) and nobody leads, it is woken at once.
//! - Without that thread: when nobody leads, nobody follows, or one that follows has been woken to lead; who was
//!   and has no need of it any more (its time is up) wakes the next as it goes ([`Inner::pass_on`]).
//!
//! Nothing here knows a connection.

mod background;
mod callers;
mod tasks;
mod waiters;

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_device as device;

pub(crate) use callers::{Wait, after};
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
/// A timer may ring so late before a sleeper is woken for it.
const SLACK: Duration = Duration::from_millis(1);
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
    /// Who leads is about to sleep: what has waited for more to come waits no longer.
    fn rest(&mut self) {}
    /// For how long nobody need look, when looking again is cheaper than sleeping until something comes.
    fn nap(&mut self) -> Option<Duration> {
        None
    }
    /// Time until the next timer.
    fn next_timeout(&self) -> Option<Duration>;
    /// Time until a timer that may not be late, as others may: what a call has promised.
    fn next_promise(&self) -> Option<Duration> {
        None
    }
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
            let eager = self.eager_until.is_some() || self.machine.next_promise().is_some();
            if std::mem::take(&mut self.is_deep) || eager {
                self.wakes.push(background.clone());
            }
        } else if let Some((_, waker)) = self.followers.last() {
            self.wakes.push(waker.clone());
        }
    }

    /// A turn, and its news to those who wait.
    fn turn(
        &mut self,
        turn: impl FnOnce(&mut M) -> Result<bool, M::Error>,
    ) -> Result<bool, M::Error> {
        let turned = turn(&mut self.machine);
        match &turned {
            Ok(_) => self.failure = None,
            Err(error) => self.fail(error),
        }
        self.spread();
        turned
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

    /// There is something to do that callers who come and go may not be there for.
    fn needs_background(&self) -> bool {
        !self.followers.is_empty() || self.has_tasks || self.machine.next_promise().is_some()
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

impl<M: Machine> Deref for Locked<'_, M> {
    type Target = Inner<M>;
    fn deref(&self) -> &Inner<M> {
        self.0.as_ref().expect("held until dropped")
    }
}

impl<M: Machine> DerefMut for Locked<'_, M> {
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

impl<M: Machine> Shared<M> {
    /// Drives `machine`, which sleeps on `frames` and is woken through `device`.
    ///
    /// # Errors
    /// No descriptor is left.
    fn new(machine: M, frames: Option<OwnedFd>, device: device::Waker) -> io::Result<Self> {
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
        // A panic elsewhere leaves a machine that is still right: each call completes or changes nothing.
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.contenders.fetch_add(1, Ordering::Relaxed);
                let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                self.contenders.fetch_sub(1, Ordering::Relaxed);
                guard
            }
        };
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
        let is_before = |left: Option<Duration>| {
            let Some(left) = left else { return false };
            inner.asleep_until.is_none_or(|until| Instant::now() + left < until)
        };
        // The background thread waits for no news of its own.
        if news && inner.leader == Leader::Caller
            || is_before(inner.machine.next_timeout().map(|left| left + SLACK))
            || is_before(inner.machine.next_promise())
        {
            self.nudge(inner);
        }
    }
}

/// A machine that is shared, and its background thread, which ends when this is dropped.
pub(crate) struct Driven<M: Machine> {
    /// What outlives it: without a thread.
    pub shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine> Driven<M> {
    /// Drives `machine`, which sleeps on `frames` and is woken through `device`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(machine: M, frames: Option<OwnedFd>, device: device::Waker) -> io::Result<Self> {
        Ok(Driven { shared: Arc::new(Shared::new(machine, frames, device)?), thread: None })
    }

    /// Starts the background thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(&mut self, name: &str) -> io::Result<()> {
        self.thread = Some(self.shared.start(name)?);
        Ok(())
    }
}

impl<M: Machine> Deref for Driven<M> {
    type Target = Shared<M>;
    fn deref(&self) -> &Shared<M> {
        &self.shared
    }
}

impl<M: Machine> Drop for Driven<M> {
    fn drop(&mut self) {
        self.shared.end(self.thread.take());
    }
}
