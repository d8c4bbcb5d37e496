//! A value that is set once, without a lock: nobody ever waits for another.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;

/// What is not there until it is set, and never changes then. It is never dropped.
pub struct Once<T> {
    /// Invariant: `value` is initialised when this is [`FULL`], and written only by who made it [`FILLING`].
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: it is written by one thread, before any reads it, which may be another: `Send`; then they share it: `Sync`.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// Not set.
    pub const fn new() -> Once<T> {
        Once { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The value, if it was set.
    pub fn get(&self) -> Option<&T> {
        let is_there = self.state.load(Ordering::Acquire) == FULL;
        // SAFETY: by the invariant; what made it full is seen with it, and nobody writes any more.
        is_there.then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// Sets it, unless somebody has or is about to: then `value` is forgotten.
    pub fn set(&self, value: T) {
        let (order, or) = (Ordering::Acquire, Ordering::Relaxed);
        if self.state.compare_exchange(EMPTY, FILLING, order, or).is_ok() {
            // SAFETY: by the invariant it is ours alone to write, and nobody reads before it is full.
            unsafe { (*self.value.get()).write(value) };
            self.state.store(FULL, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        let once = Once::new();
        assert_eq!(once.get(), None);
        once.set(1);
        once.set(2);
        assert_eq!(once.get(), Some(&1));
    }
}
