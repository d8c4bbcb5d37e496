//! Waiting for one of several sockets, with any attempt: what an interface of calls by name is made of.

use super::*;
use crate::ip::host::Host;

/// The longest sleep: an event between two sockets' states that nobody tells is not missed for longer.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Longer than anybody waits, and short enough to add to an instant.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

impl Host {
    /// Tries `attempt` until it gives something or fails, or `timeout` has passed: then `None`. Between
    /// attempts the stack is driven, and the caller sleeps until one of the sockets may be ready. A
    /// timeout of zero looks once at the interface and does not sleep.
    ///
    /// # Errors
    /// The attempt's; the interface is gone.
    pub fn wait_any<T>(
        &self,
        on: &[(SocketId, Way)],
        timeout: Option<Duration>,
        mut attempt: impl FnMut(&mut Stack, Instant) -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        let shared = &*self.shared;
        let begin = shared.clock.now();
        if let Some(done) = shared.attempt(&mut shared.lock(), begin, &mut attempt)? {
            return Ok(Some(done));
        }
        let _driving = Driving::begin(shared);
        let parker = parker()?;
        let waker = Waker::from(parker.clone());
        let mut spin_until = begin + shared.config.spin;
        let deadline = timeout.map(|timeout| begin + timeout.min(TIMEOUT_MAX));
        loop {
            let now = shared.clock.now();
            let due = {
                let mut inner = shared.lock();
                let worked = inner.drive(now);
                if let Some(done) = shared.attempt(&mut inner, now, &mut attempt)? {
                    return Ok(Some(done));
                }
                if deadline.is_some_and(|at| at <= now) {
                    // An attempt may have done a part.
                    inner.after(shared, now)?;
                    return Ok(None);
                }
                if worked {
                    spin_until = now + shared.config.spin;
                }
                if now >= spin_until {
                    for (id, way) in on {
                        inner.register(*id, *way, &waker);
                    }
                }
                inner.due(now)
            };
            if now < spin_until {
                shared.give_way();
                continue;
            }
            let until = [deadline, due].into_iter().flatten().min();
            let most = if shared.fd.is_some() { SLEEP_MAX } else { Duration::from_millis(1) };
            let timeout =
                until.map_or(most, |at| at.saturating_since(shared.clock.now()).min(most));
            sleep(shared.fd.as_ref(), &parker.0, Some(timeout));
        }
    }

    /// Wakes all who wait for a socket: its state was changed from outside of the stack.
    pub fn wake(&self, id: SocketId) {
        self.shared.lock().wake(id);
    }
}

impl Inner {
    fn wake(&mut self, id: SocketId) {
        let Some(waiters) = self.waiters.get_mut(id.index as usize) else { return };
        if waiters.generation == id.generation {
            waiters.read.drain(..).chain(waiters.write.drain(..)).for_each(Waker::wake);
        }
    }
}
