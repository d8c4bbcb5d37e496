//! The deadlines of a connection, a flat array, so that arming one is a store.

use core::marker::PhantomData;
use fusewire_base::Instant;

const NEVER: Instant = Instant::from_ns(u64::MAX);

/// What a deadline is for: an enum whose values count from 0.
pub(super) trait Deadline: Copy {
    /// Its place in the array.
    fn place(self) -> usize;
}

/// `N` deadlines, each set or not.
#[derive(Clone, Debug)]
pub(super) struct Deadlines<T, const N: usize>([Instant; N], PhantomData<T>);

impl<T, const N: usize> Default for Deadlines<T, N> {
    fn default() -> Self {
        Deadlines([NEVER; N], PhantomData)
    }
}

/// The list of a machine's deadlines: the enum `Timer`, what each is for, and `Timers`, the deadlines themselves.
macro_rules! timers {
    ($($(#[$what:meta])+ $name:ident,)+) => {
        /// What a deadline is for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(super) enum Timer { $($(#[$what])+ $name,)+ }

        impl $crate::deadlines::Deadline for Timer {
            fn place(self) -> usize {
                self as usize
            }
        }

        /// All deadlines.
        pub(super) type Timers =
            $crate::deadlines::Deadlines<Timer, { [$(Timer::$name),+].len() }>;
    };
}
pub(crate) use timers;

impl<T: Deadline, const N: usize> Deadlines<T, N> {
    pub fn set(&mut self, timer: T, at: Instant) {
        self.0[timer.place()] = at;
    }

    pub fn clear(&mut self, timer: T) {
        self.0[timer.place()] = NEVER;
    }

    pub fn is_set(&self, timer: T) -> bool {
        self.0[timer.place()] != NEVER
    }

    pub fn at(&self, timer: T) -> Option<Instant> {
        Some(self.0[timer.place()]).filter(|at| *at != NEVER)
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        let mut earliest = NEVER;
        for at in self.0 {
            earliest = earliest.min(at);
        }
        Some(earliest).filter(|at| *at != NEVER)
    }

    /// Takes a deadline that has passed: true once.
    pub fn take(&mut self, timer: T, now: Instant) -> bool {
        let due = self.0[timer.place()] <= now;
        if due {
            self.clear(timer);
        }
        due
    }
}
