//! A limit of what is answered to what nobody should have sent.

use core::time::Duration;
use fusewire_base::Instant;

/// Challenges a second, of one connection alone: a limit over all connections would tell an attacker of one about
/// another (CVE-2016-5696).
pub(super) const CHALLENGES_A_SECOND: u32 = 10;

/// At most so many a second.
#[derive(Debug)]
pub struct Limit {
    since: Instant,
    count: u32,
    most: u32,
}

impl Limit {
    /// `most` in each second from `now` on.
    pub fn new(now: Instant, most: u32) -> Limit {
        Limit { since: now, count: 0, most }
    }

    /// Whether one more may be; if so it is counted.
    pub fn allows(&mut self, now: Instant) -> bool {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= self.most
    }
}
