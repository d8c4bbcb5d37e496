//! A limit of what is answered to what nobody should have sent.

use core::time::Duration;
use fusewire_base::Instant;

/// At most so many challenges a second, for this connection alone: a limit over all connections
/// would tell an attacker of one about another (CVE-2016-5696).
#[derive(Debug)]
pub(super) struct ChallengeLimit {
    since: Instant,
    count: u8,
}

const CHALLENGES_A_SECOND: u8 = 10;

impl ChallengeLimit {
    pub fn new(now: Instant) -> ChallengeLimit {
        ChallengeLimit { since: now, count: 0 }
    }

    pub fn allows(&mut self, now: Instant) -> bool {
        if now - self.since >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= CHALLENGES_A_SECOND
    }
}
