//! The only place where this crate reads a clock.

use std::time;

use fusewire_base::Instant;

/// Monotonic time since the clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(time::Instant);

impl Clock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Clock(time::Instant::now())
    }

    /// Time since it began.
    pub fn now(&self) -> Instant {
        Instant::from_ns(self.0.elapsed().as_nanos() as u64)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}
