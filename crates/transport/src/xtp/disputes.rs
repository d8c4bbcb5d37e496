//! What one answer said had come, and later ones do not know of (`docs/xtp.md`, section 9, rule 5): somebody else said the one or
//! the others, or the peer has forgotten. A context that only waited would do so for ever, as each answer shows that its peer is
//! there.

use super::connection::Connection;
use super::sync::behind;
use crate::queue::flag;
use crate::rack;
use fusewire_base::Instant;
use fusewire_wire::xtp::Control;

/// Answers in a row that know of less. One may be another's; and where these are genuine, nothing moves meanwhile.
const DISPUTES_MAX: u8 = 3;

/// When what is held to have come was said.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// All below `una`: our latest sync by then, as what was on the way may know of less. Or that of what disputed it.
    below_una: u32,
    /// Something beyond it: our latest sync that was echoed with that.
    beyond: u32,
    /// Answers in a row that disputed `una`, each to a later question.
    disputes: u8,
}

impl Said {
    /// Nothing was; our sync begins at `start`.
    pub fn new(start: u32) -> Said {
        Said { below_una: start, beyond: start, disputes: 0 }
    }
}

/// The later of two syncs.
fn later(a: u32, b: u32) -> u32 {
    if comes_after(a, b) { b } else { a }
}

fn comes_after(known: u32, echo: u32) -> bool {
    behind(known, echo).is_some_and(|by| by > 0)
}

impl Connection {
    /// An accepted control. True where nothing will ever move: what was acknowledged is not there any more, and the peer waits for
    /// it.
    pub(super) fn is_disputed(&mut self, control: &Control) -> bool {
        let send = &mut self.send;
        if send.done {
            return false;
        }
        if control.rseq >= send.una {
            send.said.below_una = self.sync.latest;
            send.said.disputes = 0;
            return false;
        }
        // All is held to have come, and no question is under way: else nothing would ask for long.
        send.ask |= send.queue.sent() == 0 && control.echo == self.sync.latest;
        if comes_after(send.said.below_una, control.echo) {
            send.said.below_una = control.echo;
            send.said.disputes += 1;
        }
        send.said.disputes >= DISPUTES_MAX
    }

    /// An answer that lacks what an earlier one had a span of: that is forgotten, and lost (RFC 2018, section 8). Returns the bytes.
    pub(super) fn take_back_spans(&mut self, now: Instant, control: &Control) -> u64 {
        let send = &mut self.send;
        let lacks = send.queue.sent() > 0
            && send.queue.at(0).start == control.rseq
            && send.queue.at(0).has(flag::SACKED);
        if !lacks || !comes_after(send.said.beyond, control.echo) || self.settings.noerr {
            return 0;
        }
        let (queue, cc) = (&mut send.queue, &mut self.cc);
        let mut bytes = 0;
        for index in 0..queue.sent() {
            if queue.forget_sack(index) {
                bytes += rack::mark_lost(now, queue, cc, index);
            }
        }
        bytes
    }

    /// Spans of this one told of something new.
    pub(super) fn note_spans(&mut self, control: &Control) {
        self.send.said.beyond = later(self.send.said.beyond, control.echo);
    }
}
