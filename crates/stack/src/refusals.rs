//! What strangers are told: that what they sent belongs to nobody. It has a bound of the host's, not of each stack.

use std::sync::{Arc, Mutex, PoisonError};

use fusewire_base::Instant;
use fusewire_transport::challenge::Limit;

/// So many a second: who comes back asks once (`docs/xtp.md`, section 12).
const A_SECOND: u32 = 100;

/// How many resets and DIAGs leave in a second; what is beyond is dropped and counted. Clones share one bound: give a clone
/// to each stack, or all contexts, of a host. ICMP's own answers have the limiter of their layer (RFC 1812, RFC 4443).
#[derive(Clone, Debug)]
pub struct Refusals(Arc<Mutex<Limit>>);

impl Refusals {
    /// At most so many in each second.
    pub fn new(a_second: u32) -> Refusals {
        Refusals(Arc::new(Mutex::new(Limit::new(Instant::ZERO, a_second))))
    }

    /// Whether one more may be; if so it is counted.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).allows(now)
    }
}

impl Default for Refusals {
    fn default() -> Self {
        Refusals::new(A_SECOND)
    }
}
