//! How a task waits: registered with what it waits for, once however often it is polled, and not at all when it is
//! dropped.

use std::future;
use std::task::{Poll, Waker};

use super::{Machine, Shared};

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

impl<M: Machine> Shared<M> {
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

/// For who keeps a list of what he waits for.
#[cfg(feature = "interfaces")]
impl<M: Machine> Shared<M> {
    /// A key for who watches.
    pub fn new_key(&self) -> u64 {
        self.lock().new_key()
    }

    /// Looks, and registers `waker` under `key` for news of each of `interests`, whatever `look` has seen.
    pub fn watch<T>(
        &self,
        interests: &[M::Interest],
        key: u64,
        waker: &Waker,
        look: impl FnOnce(&mut M) -> T,
    ) -> T {
        let mut inner = self.lock();
        let seen = look(&mut inner.machine);
        for interest in interests {
            inner.register(*interest, key, waker);
        }
        inner.has_tasks = true;
        self.after_call(&mut inner);
        seen
    }

    /// Who watched under `key` is told no more.
    pub fn unwatch(&self, interests: &[M::Interest], key: u64) {
        let mut inner = self.lock();
        for interest in interests {
            inner.unregister(*interest, key);
        }
    }
}
