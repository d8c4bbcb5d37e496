//! The thread that leads when no caller does: for timers, for tasks, and for those who follow.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, TryLockError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::callers::{BUSY_SLEEPS, after};
use super::waiters::Parker;
use super::{EAGER, Leader, Leading, Locked, Machine, NAP, Shared};

/// Its pause after an error of the device; doubled up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl<M: Machine> Shared<M> {
    /// Starts the thread. It ends with [`Shared::end`].
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(self: &Arc<Self>, name: &str) -> io::Result<JoinHandle<()>> {
        let shared = self.clone();
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let thread = fusewire_device::thread::spawn(name, move || {
            let parker = Parker::new();
            shared.lock().background = Some(Waker::from(parker.clone()));
            let _ = ready.send(());
            shared.run(&parker);
        })?;
        let _ = started.recv();
        Ok(thread)
    }

    /// Ends the thread, and waits until it has.
    pub(super) fn end(&self, thread: Option<JoinHandle<()>>) {
        let mut inner = self.lock();
        inner.is_over = true;
        self.nudge(&mut inner);
        if let Some(background) = inner.background.clone() {
            inner.wakes.push(background);
        }
        drop(inner);
        // The last handle may have been dropped by a task that the thread itself has woken.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }

    fn run(&self, parker: &Parker) {
        let (mut seen, mut was_asleep, mut pause) = (0, false, PAUSES.0);
        let mut nap = Some(NAP);
        loop {
            let is_called = parker.wait(nap.and_then(after), 0);
            nap = Some(NAP);
            let mut inner = match self.inner.try_lock() {
                Ok(guard) => Locked(Some(guard)),
                Err(TryLockError::Poisoned(error)) => Locked(Some(error.into_inner())),
                Err(TryLockError::WouldBlock) if is_called => self.lock(),
                // Somebody is at it.
                Err(TryLockError::WouldBlock) => continue,
            };
            if inner.is_over {
                return;
            }
            let comes_and_goes = inner.epoch != seen;
            seen = inner.epoch;
            match inner.leader {
                Leader::Caller => {
                    // Deeply when the same one sleeps there twice.
                    let asleep = inner.asleep;
                    inner.is_deep = asleep && was_asleep && !comes_and_goes;
                    was_asleep = asleep;
                    if inner.is_deep {
                        nap = None;
                    }
                    continue;
                }
                Leader::Nobody if comes_and_goes && !inner.needs_background() => continue,
                _ => was_asleep = false,
            }
            // What a waker of the application's throws is not ours to die of.
            match catch_unwind(AssertUnwindSafe(|| self.lead_behind(inner))) {
                Ok(Ok(epoch)) => (seen, pause) = (epoch, PAUSES.0),
                _ => {
                    nap = Some(pause);
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    /// Leads until a caller takes over or all is over; gives the number of who leads then.
    fn lead_behind<'a>(&'a self, mut inner: Locked<'a, M>) -> Result<u64, M::Error> {
        let epoch = inner.take_lead(Leader::Background);
        // Should a turn unwind, what is declared last is dropped first: the lock.
        let leading = Leading { shared: self, epoch };
        let mut inner = inner;
        let mut is_first = true;
        let mut outcome = Ok(());
        while inner.epoch == epoch && !inner.is_over {
            let worked = match inner.turn(M::turn) {
                Ok(worked) => worked,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            let wakes_others = !inner.wakes.to_wake.is_empty();
            if std::mem::take(&mut is_first) && wakes_others {
                inner.eager_until = Instant::now().checked_add(EAGER);
            }
            // Threads come for the lead themselves; for tasks this one looks again.
            let spins = inner.has_tasks && inner.followers.is_empty() && inner.machine.wants_spin();
            if worked || spins {
                inner.busy_sleeps = BUSY_SLEEPS;
                if wakes_others || self.is_contended() {
                    drop(inner);
                    if wakes_others {
                        // A task that was woken may have been put behind this thread.
                        std::thread::yield_now();
                    }
                    inner = self.lock_after_others();
                }
                continue;
            }
            let slept = self.sleep(inner, epoch, None);
            inner = slept.0;
            if slept.1.is_err() {
                outcome = slept.1;
                break;
            }
        }
        std::mem::forget(leading);
        if inner.epoch == epoch {
            inner.leader = Leader::Nobody;
        }
        outcome.map(|()| inner.epoch)
    }
}
