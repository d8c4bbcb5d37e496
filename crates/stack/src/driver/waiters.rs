//! Those who wait: threads on a flag of their own, tasks on their wakers, one kind of list for both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Wakers to be woken, and such to be dropped, when the lock is given up: both run code of the application's,
/// which may be the end of a task that holds one of our handles.
#[derive(Default)]
pub(crate) struct Wakes {
    pub(super) to_wake: Vec<Waker>,
    retired: Vec<Waker>,
}

impl Wakes {
    pub fn push(&mut self, waker: Waker) {
        self.to_wake.push(waker);
    }

    /// To be called without the lock.
    pub fn wake(self) {
        self.to_wake.into_iter().for_each(Waker::wake);
    }

    pub fn is_empty(&self) -> bool {
        self.to_wake.is_empty() && self.retired.is_empty()
    }
}

/// Those who wait for one kind of news.
#[derive(Default)]
pub(crate) struct Waiters(Vec<(u64, Waker)>);

impl Waiters {
    /// `waker` in place of the one that had `key`.
    pub fn register(&mut self, key: u64, waker: &Waker, wakes: &mut Wakes) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if known.will_wake(waker) => {}
            Some((_, known)) => wakes.retired.push(std::mem::replace(known, waker.clone())),
            None => self.0.push((key, waker.clone())),
        }
    }

    pub fn unregister(&mut self, key: u64, wakes: &mut Wakes) {
        if let Some(at) = self.0.iter().position(|(known, _)| *known == key) {
            wakes.retired.push(self.0.swap_remove(at).1);
        }
    }

    /// Nobody will be woken any more.
    pub fn retire(&mut self, wakes: &mut Wakes) {
        wakes.retired.extend(self.0.drain(..).map(|(_, waker)| waker));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, once.
    pub fn wake(&mut self, wakes: &mut Wakes) {
        wakes.to_wake.extend(self.0.drain(..).map(|(_, waker)| waker));
    }
}

/// A thread's own flag to sleep on.
pub(super) struct Parker {
    is_ready: AtomicBool,
    thread: Thread,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

impl Parker {
    /// The calling thread's.
    pub fn new() -> Arc<Parker> {
        let thread = std::thread::current();
        Arc::new(Parker { is_ready: AtomicBool::new(false), thread })
    }

    /// True once after each time that it was woken.
    pub fn take(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed) && self.is_ready.swap(false, Ordering::Acquire)
    }

    /// Sleeps until it is woken, or the time has come: false.
    pub fn wait(&self, until: Option<Instant>, spins: u32) -> bool {
        for _ in 0..spins {
            if self.take() {
                return true;
            }
            std::hint::spin_loop();
        }
        while !self.take() {
            match until.map(|at| at.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return false,
                Some(left) => std::thread::park_timeout(left),
            }
        }
        true
    }
}

thread_local! {
    pub(super) static PARKER: (Arc<Parker>, Waker) = {
        let parker = Parker::new();
        (parker.clone(), Waker::from(parker))
    };
}
