//! A ring out as retransmission memory: what of it the stack refers to until it is acknowledged.
//!
//! ```text
//!  ring out   Taken                    taken by the stack            Sent
//!              │ held: frames are gathered from here │ not taken yet  │ free
//!              └── moves as bytes are acknowledged
//! ```
//! What was copied stays there as long as something before it is held, whether it is acknowledged or not: of that the stack tells nothing.
//! So nothing is copied on its way out but into frames. Where the ring is full of what was sent and is not acknowledged, and the
//! windows let more leave, what is held is copied to the connection's own memory, and what comes next is, until less is under
//! way: a long path has that memory, which is longer than a ring.

use std::collections::VecDeque;

use fusewire_stack::ip::{Sent, SocketId, Stack};

use super::Lease;
use crate::region::Slot;
use crate::ring::Ring;

/// Bytes that are worth it.
const LENT_MIN: usize = 4096;
/// Runs of bytes that lie one behind the other in the ring and in the stream.
const RUNS_MAX: usize = 64;

/// What is held of a ring.
#[derive(Debug, Default)]
pub struct Held {
    runs: VecDeque<Run>,
    /// What comes next is copied.
    copies: bool,
    /// Where the stream ended when it was to be looked at once more whether that has left.
    looked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Its end in the stream,
    offset: u64,
    /// and in the ring.
    position: u64,
    len: u64,
}

impl Held {
    /// Whether so many bytes are to stay where they are.
    pub fn lends(&self, len: usize) -> bool {
        !self.copies && len >= LENT_MIN && self.runs.len() < RUNS_MAX
    }

    /// So many bytes are taken and stay where they are, up to `offset` in the stream and `position` in the ring.
    fn push(&mut self, offset: u64, position: u64, len: u64) {
        match self.runs.back_mut() {
            Some(last) if (last.offset + len, last.position + len) == (offset, position) => {
                *last = Run { offset, position, len: last.len + len };
            }
            _ => self.runs.push_back(Run { offset, position, len }),
        }
    }

    /// All before `acked` is acknowledged: the position in the ring of the first byte that is needed still.
    fn free(&mut self, acked: u64) -> Option<u64> {
        while let Some(run) = self.runs.front_mut() {
            run.len = run.len.min(run.offset.saturating_sub(acked));
            if run.len > 0 {
                return Some(run.position - run.len);
            }
            self.runs.pop_front();
        }
        None
    }
}

impl Lease {
    /// What was acknowledged is the application's again, and all of it when the lease is over.
    pub(super) fn give_back(&mut self, slot: &Slot<'_>, stack: &mut Stack, id: SocketId) {
        if self.is_over {
            return self.keep(slot, stack, id);
        }
        if self.held.runs.is_empty() && !self.held.copies {
            return;
        }
        // Of a connection that is over nothing is sent again.
        let over = Sent { acked: u64::MAX, ..Sent::default() };
        let Sent { acked, written, .. } = stack.tcp_sent(id).unwrap_or(over);
        let first = self.held.free(acked);
        self.progress.free(slot, first.unwrap_or(self.progress.taken().0));
        self.held.copies &= written.saturating_sub(acked) > slot.ring_bytes() / 4;
    }

    /// The stack refers to nothing in the ring any more.
    pub(super) fn keep(&mut self, slot: &Slot<'_>, stack: &mut Stack, id: SocketId) {
        if self.held.runs.is_empty() {
            return;
        }
        // One that it does not know any more refers to nothing.
        let _ = stack.tcp_keep(id);
        self.held.runs.clear();
        self.progress.free(slot, self.progress.taken().0);
    }

    /// The stack has taken so many bytes, of which it refers to each (`is_lent`) or to none.
    pub(super) fn note_taken(
        &mut self,
        slot: &Slot<'_>,
        stack: &mut Stack,
        id: SocketId,
        (len, is_lent): (u64, bool),
    ) {
        if !is_lent && self.held.runs.is_empty() {
            self.progress.take(slot, len);
        } else {
            self.progress.borrow(len);
        }
        if is_lent {
            let written = stack.tcp_sent(id).map_or(0, |sent| sent.written);
            self.held.push(written, self.progress.taken().0, len);
        }
        slot.set_given(self.progress.taken().0);
    }

    /// The application waits for room in its ring, of which all is taken: what it has sent beside it has to wait, too. True when
    /// that is to be looked at again in another turn, otherwise there will be an event. `None`: there is room.
    pub(super) fn waits_for_room(
        &mut self,
        slot: &Slot<'_>,
        stack: &mut Stack,
        id: SocketId,
    ) -> Option<bool> {
        let held = self.progress.taken().1;
        // The placeholder shows room for a third of the buffer, as the kernel's send buffer does.
        if held < slot.ring_bytes() / 3 * 2 {
            return None;
        }
        let Sent { sent, written, .. } = stack.tcp_sent(id).ok()?;
        if sent < written {
            // What may leave does so behind this turn.
            return Some(std::mem::replace(&mut self.held.looked, written) != written);
        }
        self.keep(slot, stack, id);
        self.held.copies = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_free_up_to_what_is_acknowledged() {
        let mut held = Held::default();
        // 100 bytes of the stream came by another way before the ring was used, and 50 between.
        held.push(1100, 1000, 1000);
        held.push(1600, 1500, 500);
        held.push(1700, 1550, 50);
        assert_eq!(held.runs.len(), 2, "what lies side by side both ways is one");
        assert_eq!([50, 100, 101, 101].map(|acked| held.free(acked)), [0, 0, 1, 1].map(Some));
        assert_eq!(held.free(1600), Some(1500));
        assert_eq!(held.free(1649), Some(1500), "what came by another way");
        assert_eq!(held.free(1651), Some(1501));
        assert_eq!(held.free(u64::MAX), None, "the connection is over");
    }

    #[test]
    fn what_is_copied_is_held_no_longer_than_what_lies_before_it() {
        let mut held = Held::default();
        held.push(1000, 1000, 1000);
        // 400 bytes between were copied.
        held.push(2400, 2400, 1000);
        assert_eq!(held.free(999), Some(999));
        assert_eq!(held.free(1000), Some(1400), "before they are acknowledged");
        assert_eq!(held.free(2400), None);
    }

    #[test]
    fn what_is_short_or_scattered_is_copied() {
        let mut held = Held::default();
        assert!(held.lends(LENT_MIN) && !held.lends(LENT_MIN - 1));
        for run in 0..RUNS_MAX as u64 {
            assert!(held.lends(LENT_MIN));
            held.push(200 * (run + 1), 100 * (run + 1), 100);
        }
        assert!(!held.lends(LENT_MIN));
        assert_eq!(held.free(200), Some(100));
        assert!(held.lends(LENT_MIN));
    }
}
