//! Who writes which range of a target: sessions that began later take over what older ones of the same user
//! have begun, and nobody else's.
//!
//! A client that was killed leaves a session that lives on until its silence is noticed; the user's next attempt
//! must not wait for that. Of two clients that put the same file, the one that came last goes on. It is told by
//! numbers: a session has a higher one than those before it, and never takes anything from a later one, so two
//! clients cannot take a range from one another in turn.

use super::Target;
use fusewire_session::Fingerprint;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who asks for a range: a session of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// The key; `None` where nobody has said who it is, which is one user too.
    pub(crate) owner: Option<Fingerprint>,
    /// Higher than that of any session that began before.
    pub(crate) session: u64,
}

/// A range of a target that a session writes.
#[derive(Debug)]
pub(crate) struct Claim {
    who: Who,
    range: Range<u64>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_revoked: bool,
    /// Range writers at work for it.
    writers: usize,
}

/// A claim that is not taken away for the time being.
pub(crate) struct Held<'a> {
    _state: MutexGuard<'a, State>,
}

/// What becomes of a session that asks for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nobody has it.
    Free,
    /// Older sessions of the same user have it, and lose it.
    TakesOver,
    /// Another user has it, or a later session.
    Busy,
}

impl Claim {
    pub(crate) fn new(who: Who, range: Range<u64>) -> Arc<Claim> {
        Arc::new(Claim { who, range, state: Mutex::new(State { is_revoked: false, writers: 0 }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The range is somebody else's now.
    pub(crate) fn is_revoked(&self) -> bool {
        self.lock().is_revoked
    }

    /// As long as the answer lives, the range is not taken away; `None` if it was.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        let state = self.lock();
        (!state.is_revoked).then_some(Held { _state: state })
    }

    /// One more writer is at work for it, or one less. A revoked claim's count for nothing.
    pub(super) fn count_writer(&self, target: &Target, more: bool) {
        let mut state = self.lock();
        if state.is_revoked {
            return;
        }
        // In this order everywhere: a claim, then the target.
        let mut progress = target.lock();
        let change = |n: &mut usize| *n = if more { *n + 1 } else { *n - 1 };
        change(&mut state.writers);
        change(&mut progress.writers);
    }

    /// Takes the range away. Waits for what is just being written.
    pub(crate) fn revoke(&self, target: &Target) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.is_revoked, true) {
            target.lock().writers -= state.writers;
        }
    }

    /// What becomes of `who`, who asks for `range` of the same file, or for all of it in `another` state.
    pub(crate) fn asked(&self, who: Who, range: &Range<u64>, another: bool) -> Asked {
        let overlaps =
            self.range == *range || self.range.start < range.end && range.start < self.range.end;
        let is_free = self.who.session == who.session || !overlaps;
        match self.who.owner == who.owner {
            _ if self.is_revoked() => Asked::Free,
            true if !another && is_free => Asked::Free,
            true if self.who.session < who.session => Asked::TakesOver,
            _ => Asked::Busy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sessions_of_a_user_take_over_and_nobody_else_does() {
        let who =
            |owner: u8, session| Who { owner: Some(Fingerprint::from_bytes([owner; 32])), session };
        let claim = Claim::new(who(1, 5), 10..20);
        for (asks, range, another, expected) in [
            (who(1, 5), 10..20, false, Asked::Free),
            (who(1, 4), 20..30, false, Asked::Free),
            (who(1, 6), 0..10, false, Asked::Free),
            (who(1, 6), 10..20, false, Asked::TakesOver),
            (who(1, 6), 19..30, false, Asked::TakesOver),
            (who(1, 4), 19..30, false, Asked::Busy),
            (who(1, 6), 20..30, true, Asked::TakesOver),
            (who(1, 5), 20..30, true, Asked::Busy),
            (who(1, 4), 20..30, true, Asked::Busy),
            (who(2, 6), 20..30, false, Asked::Busy),
            (who(2, 6), 10..20, true, Asked::Busy),
        ] {
            assert_eq!(
                claim.asked(asks, &range, another),
                expected,
                "{asks:?} {range:?} {another}"
            );
        }
        let empty = Claim::new(who(1, 5), 0..0);
        assert_eq!(empty.asked(who(1, 6), &(0..0), false), Asked::TakesOver);
    }
}
