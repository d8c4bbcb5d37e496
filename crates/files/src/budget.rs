//! Memory that a peer may make this side use for what it has begun and not ended.
//!
//! A [`Budget`] bounds it; an [`Account`] says how much of it one thing uses, and gives it back when it goes.
//! A budget can lie within another: what is used beyond its free part counts there too. So all sessions of a
//! server have one bound, and one that uses little is served whatever the others do.

use crate::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an entry of an ordered map takes, in bytes, about.
pub(crate) const RUN_BYTES: usize = 48;

/// A bound of bytes.
///
/// `used <= max`, and the outer budget's use holds `max(used - free, 0)` of it.
#[derive(Debug)]
pub(crate) struct Budget {
    used: Mutex<usize>,
    max: usize,
    free: usize,
    outer: Option<Arc<Budget>>,
}

impl Budget {
    /// Of `max` bytes.
    pub(crate) fn new(max: usize) -> Arc<Budget> {
        Arc::new(Budget { used: Mutex::new(0), max, free: 0, outer: None })
    }

    /// Of `max` bytes, of which all but `free` are `outer`'s too.
    pub(crate) fn within(outer: &Arc<Budget>, max: usize, free: usize) -> Arc<Budget> {
        Arc::new(Budget { used: Mutex::new(0), max, free, outer: Some(Arc::clone(outer)) })
    }

    /// An account that uses nothing yet.
    pub(crate) fn account(self: &Arc<Self>) -> Account {
        Account { budget: Arc::clone(self), used: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bound that `bytes` more would exceed, if there is one.
    fn take(&self, bytes: usize) -> Result<(), usize> {
        let mut used = self.lock();
        let more = used.checked_add(bytes).filter(|&more| more <= self.max).ok_or(self.max)?;
        if let Some(outer) = &self.outer {
            outer.take(more.saturating_sub(self.free) - used.saturating_sub(self.free))?;
        }
        *used = more;
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        let mut used = self.lock();
        debug_assert!(bytes <= *used);
        let less = used.saturating_sub(bytes);
        if let Some(outer) = &self.outer {
            outer.give_back(used.saturating_sub(self.free) - less.saturating_sub(self.free));
        }
        *used = less;
    }
}

/// What one thing uses of a budget.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    used: usize,
}

impl Account {
    /// It uses `bytes` from now on.
    ///
    /// # Errors
    /// [`Error::Memory`]: there is not so much left; it uses what it used before.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes > self.used {
            let taken = self.budget.take(bytes - self.used);
            taken.map_err(|max| Error::Memory { max })?;
        } else if bytes < self.used {
            self.budget.give_back(self.used - bytes);
        }
        self.used = bytes;
        Ok(())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.give_back(self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bound_lies_within_another() {
        let server = Budget::new(100);
        let sessions = [50, 70, 1000].map(|max| Budget::within(&server, max, 10));
        let [mut a, mut b, mut c] = [0, 1, 2].map(|n| sessions[n].account());
        let mut other = sessions[0].account();
        a.set(30).unwrap();
        other.set(20).unwrap();
        let Err(Error::Memory { max: 50 }) = other.set(21) else { panic!("beyond its own") };
        assert_eq!(*server.lock(), 40);
        b.set(70).unwrap();
        assert_eq!(*server.lock(), 100);
        // Everybody has the free part, and no more.
        c.set(10).unwrap();
        let Err(Error::Memory { max: 100 }) = c.set(11) else { panic!("beyond all") };
        a.set(5).unwrap();
        assert_eq!(*server.lock(), 60 + 15);
        c.set(35).unwrap();
        let Err(Error::Memory { max: 100 }) = a.set(6) else { panic!("beyond all") };
        drop((a, b, other, c));
        assert!(sessions.iter().all(|session| *session.lock() == 0));
        assert_eq!(*server.lock(), 0);
    }
}
