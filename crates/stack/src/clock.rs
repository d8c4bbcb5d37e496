//! The only place where this crate reads a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time;

use fusewire_base::Instant;

/// Monotonic time since the clock was made, or whatever a test says.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Real(time::Instant),
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Clock(Kind::Real(time::Instant::now()))
    }

    /// A clock that shows these nanoseconds.
    pub fn virtual_ns(ns: Arc<AtomicU64>) -> Self {
        Clock(Kind::Virtual(ns))
    }

    /// Time since it began.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Kind::Real(start) => Instant::from_ns(start.elapsed().as_nanos() as u64),
            Kind::Virtual(ns) => Instant::from_ns(ns.load(Ordering::Relaxed)),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
