//! Who drives. There is always at most one who leads: it polls the stack, for a while without sleeping and then asleep
//! on the interface's descriptor.
//!
//! ```text
//!   a caller that has to wait      nobody leads        it leads
//!                                  the leader sleeps   it leads in its place; the other notices when it wakes, looks
//!                                                      once, and from then on sleeps on a wake of its own
//!                                  the leader is awake it looks at its own wake for a short while, then sleeps on it
//!   a caller that has what it      the lead is vacant: one that waits, and not for long, is woken for it, a few times
//!   waited for                     at most; else nobody, and the next call takes it
//!   the driver thread              naps for a millisecond at a time while callers come and go; leads when nobody has
//!                                  for as long; sleeps while a caller leads that comes and goes no more
//! ```
//! So a caller that asks and waits, again and again, finds the lead vacant each time: it makes no system call for it,
//! and wakes nobody, however many others wait.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker as DeviceWaker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wait::Parker;
use super::waiters::Key;
use super::{Inner, Shared};

/// The driver thread's name among those who lead.
const DRIVER: Key = 0;
/// The first name of those who wait.
pub(super) const FIRST_KEY: Key = 1;
/// For how long nobody leads at most before the driver does, and how often it looks.
const NAP: Duration = Duration::from_millis(1);
/// Callers come and go when one has within this time.
pub(super) const RECENT: Duration = Duration::from_millis(4);
/// How often a host looks that is ending, or whose interface has no descriptor.
const LOOK: Duration = Duration::from_millis(2);
/// How long a descriptor is left alone that is in error and gives nothing.
const IN_ERROR: Duration = Duration::from_millis(1);
/// Former leaders that still sleep on the descriptor, at most; one more is told to leave it.
const DEPOSED_MAX: usize = 3;
/// Wakes that are kept for the next who sleeps.
const SPARE_MAX: usize = 4;
const NEVER: u64 = u64::MAX;

/// Who sleeps on the descriptor.
struct Sleeper {
    key: Key,
    /// In nanoseconds; 0 when it was woken.
    until: u64,
    wake: DeviceWaker,
}

#[derive(Default)]
enum Lead {
    #[default]
    Vacant,
    Active(Key),
    Asleep(Sleeper),
}

/// What the driver thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Driver {
    /// It is awake, or will be in a moment: in nanoseconds.
    Naps(u64),
    /// It sleeps until it is woken, or leads.
    #[default]
    Sleeps,
}

/// Who leads, and who may next.
#[derive(Default)]
pub(super) struct Leading {
    lead: Lead,
    driver: Driver,
    /// Former leaders on the descriptor, oldest first.
    deposed: VecDeque<Sleeper>,
    /// Those that wait since then and not for long, to whom the lead is offered: the last one first.
    fresh: Vec<(Instant, Key, Arc<Parker>)>,
    /// A task has begun to wait since the driver last led.
    task_waits: bool,
    spare: Vec<DeviceWaker>,
    /// The driver is to be woken when the lock is given back.
    pub wakes_driver: bool,
}

impl Leading {
    /// `key` leads now, if it may: when it does already, nobody does, or the one who does sleeps.
    pub fn take(&mut self, shared: &Shared, key: Key) -> bool {
        match std::mem::take(&mut self.lead) {
            Lead::Active(other) if other != key => {
                self.lead = Lead::Active(other);
                return false;
            }
            Lead::Asleep(sleeper) if sleeper.key != key => {
                if sleeper.key != DRIVER {
                    self.deposed.push_back(sleeper);
                }
                if self.deposed.len() > DEPOSED_MAX
                    && let Some(oldest) = self.deposed.pop_front()
                {
                    oldest.wake.wake();
                }
            }
            _ => {}
        }
        self.lead = Lead::Active(key);
        shared.active.store(true, Ordering::Relaxed);
        true
    }

    /// `key` waits on a wake of its own since `begin`, and leads next if it has not waited for long by then.
    pub fn offers_to(&mut self, begin: Instant, key: Key, parker: &Arc<Parker>) {
        if !self.fresh.iter().any(|(_, known, _)| *known == key) {
            self.fresh.push((begin, key, parker.clone()));
        }
    }

    /// What to sleep on for who leads.
    pub fn wake(&mut self) -> std::io::Result<DeviceWaker> {
        self.spare.pop().map_or_else(DeviceWaker::new, Ok)
    }

    /// The leader `key` sleeps on the descriptor until `until`, or until `wake` wakes it.
    pub fn sleeps(&mut self, shared: &Shared, key: Key, until: Option<Instant>, wake: DeviceWaker) {
        let until = until.map_or(NEVER, Instant::as_ns);
        self.lead = Lead::Asleep(Sleeper { key, until, wake });
        shared.active.store(false, Ordering::Relaxed);
    }

    /// `key` has slept on the descriptor; true when it leads still.
    pub fn woke(&mut self, shared: &Shared, key: Key, wake: Option<DeviceWaker>) -> bool {
        if let Some(wake) = wake
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(wake);
        }
        if matches!(&self.lead, Lead::Asleep(sleeper) if sleeper.key == key) {
            self.lead = Lead::Active(key);
            shared.active.store(true, Ordering::Relaxed);
            return true;
        }
        self.deposed.retain(|deposed| deposed.key != key);
        false
    }

    /// Who is responsible wakes no later than `due`.
    fn wake_by(&mut self, due: Option<Instant>) {
        let Some(due) = due.map(Instant::as_ns) else { return };
        match (&mut self.lead, self.driver) {
            (Lead::Asleep(sleeper), _) if due < sleeper.until => {
                sleeper.until = 0;
                sleeper.wake.wake();
            }
            (Lead::Vacant, Driver::Naps(until)) if due < until => {
                self.driver = Driver::Naps(0);
                self.wakes_driver = true;
            }
            _ => {}
        }
    }

    /// The driver takes the lead, if nobody has it, or will.
    fn calls_driver(&mut self) {
        if self.driver != Driver::Naps(0) {
            self.driver = Driver::Naps(0);
            self.wakes_driver = true;
        }
    }
}

impl Inner {
    /// `key` has what it waited for, or waits no more.
    #[inline]
    pub fn leave(&mut self, shared: &Shared, key: Key, now: Instant) {
        let leading = &mut self.leading;
        if !leading.fresh.is_empty() {
            leading.fresh.retain(|(since, fresh, _)| *fresh != key && now < *since + RECENT);
        }
        let leads = match &leading.lead {
            Lead::Vacant => false,
            Lead::Active(leader) | Lead::Asleep(Sleeper { key: leader, .. }) => *leader == key,
        };
        if !leads {
            return;
        }
        leading.lead = Lead::Vacant;
        shared.active.store(false, Ordering::Relaxed);
        shared.drove_at.store(now.as_ns(), Ordering::Relaxed);
        if let Some((_, _, parker)) = leading.fresh.pop() {
            self.waiters.wake_also(parker.into());
        } else if leading.task_waits || leading.driver == Driver::Sleeps {
            leading.calls_driver();
        }
    }

    /// A task waits: somebody has to lead.
    pub fn task_waits(&mut self) {
        let leading = &mut self.leading;
        leading.task_waits = true;
        if matches!(leading.lead, Lead::Vacant) {
            leading.calls_driver();
        }
    }

    /// Whoever drives wakes in time for what was just begun.
    #[inline]
    pub fn schedule(&mut self, now: Instant) {
        match self.leading.lead {
            Lead::Active(_) => {}
            // The driver naps for so short a time that timers of the stack may wait, but not this promise.
            Lead::Vacant => self.leading.wake_by(self.stack.gathers_until()),
            Lead::Asleep(_) => {
                let due = self.due(now);
                self.leading.wake_by(due);
            }
        }
    }
}

impl Shared {
    /// The driver thread.
    pub fn run(&self) {
        let mut busy_until = Instant::ZERO;
        let mut end = None;
        loop {
            let now = self.clock.now();
            if self.stop.load(Ordering::Acquire) {
                let end = *end.get_or_insert(now + self.config.linger);
                if now >= end || self.lock().stack.unfinished() == 0 {
                    return;
                }
            }
            let mut inner = self.lock();
            if end.is_none()
                && let Some(nap) = self.nap(&mut inner, now)
            {
                drop(inner);
                sleep(None, &self.wake, nap);
                continue;
            }
            let worked = inner.drive(now);
            if inner.broken.is_some() {
                inner.leading.lead = Lead::Vacant;
                self.active.store(false, Ordering::Relaxed);
                return;
            }
            if worked && self.is_async.load(Ordering::Relaxed) {
                busy_until = now + self.config.spin;
            }
            if now < busy_until {
                drop(inner);
                std::thread::yield_now();
                continue;
            }
            let soon = (end.is_some() || self.fd.is_none()).then(|| now + LOOK);
            let due = [inner.due(now), soon].into_iter().flatten().min();
            inner.leading.sleeps(self, DRIVER, due, self.wake.clone());
            inner.leading.driver = Driver::Sleeps;
            drop(inner);
            let left = due.map(|at| at.saturating_since(now));
            sleep(self.fd.as_ref(), &self.wake, left);
            self.lock().leading.woke(self, DRIVER, None);
        }
    }

    /// How long the driver leaves the lead to others: `Some(None)` until it is woken. `None`: it leads now.
    fn nap(&self, inner: &mut Inner, now: Instant) -> Option<Option<Duration>> {
        let drove_at = Instant::from_ns(self.drove_at.load(Ordering::Relaxed));
        let within = |time| drove_at > Instant::ZERO && now.saturating_since(drove_at) < time;
        let leading = &mut inner.leading;
        let vacant = matches!(leading.lead, Lead::Vacant);
        let called = vacant && std::mem::take(&mut leading.task_waits);
        let nap = match leading.lead {
            Lead::Asleep(ref sleeper) if sleeper.key != DRIVER && !within(RECENT) => {
                leading.driver = Driver::Sleeps;
                return Some(None);
            }
            Lead::Active(key) | Lead::Asleep(Sleeper { key, .. }) if key != DRIVER => NAP,
            Lead::Vacant if !called && within(NAP) => {
                let left = (drove_at + NAP).saturating_since(now);
                match inner.due(now).map(|due| due.saturating_since(now)) {
                    Some(Duration::ZERO) => Duration::ZERO,
                    Some(due) => left.min(due),
                    None => left,
                }
            }
            _ => Duration::ZERO,
        };
        if nap.is_zero() {
            inner.leading.take(self, DRIVER);
            return None;
        }
        inner.leading.driver = Driver::Naps((now + nap).as_ns());
        Some(Some(nap))
    }
}

/// Sleeps until `fd` can be read, `wake` wakes, or the time has passed. A descriptor that is in error and cannot be read
/// is left alone for a while.
pub(super) fn sleep(fd: Option<&OwnedFd>, wake: &DeviceWaker, timeout: Option<Duration>) {
    let fd = fd.map_or(wake.as_fd(), AsFd::as_fd);
    let mut fds = [PollFd::new(wake, PollFlags::IN), PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let ready = poll(&mut fds, timespec(timeout).as_ref());
    if matches!(ready, Err(error) if error != rustix::io::Errno::INTR) {
        // No memory for it: who calls again and again gives others time.
        return std::thread::sleep(IN_ERROR);
    }
    if !fds[0].revents().is_empty() {
        wake.drain();
    } else if !fds[1].revents().is_empty() && !fds[1].revents().contains(PollFlags::IN) {
        let timeout = timeout.map_or(IN_ERROR, |timeout| timeout.min(IN_ERROR));
        let _ = poll(&mut fds[..1], timespec(Some(timeout)).as_ref());
    }
}

fn timespec(timeout: Option<Duration>) -> Option<Timespec> {
    timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    })
}
