//! What the application may change while the connection is open: the socket options of other stacks.

use super::connection::Connection;

/// Why a segment that is not full may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cork {
    /// The application said that more follows; forgotten when an acknowledgement comes.
    pub more: bool,
    /// It said so until further notice.
    pub on: bool,
}

impl Cork {
    pub fn waits(self) -> bool {
        self.more || self.on
    }
}

impl Connection {
    /// A segment that is not full waits until this is taken back, or a retransmission timeout long.
    pub fn set_cork(&mut self, on: bool) {
        self.send.cork.on = on;
    }

    /// What is committed next is followed by more at once: it is not pushed, and a segment that it does not
    /// fill waits for the rest, for an acknowledgement, or a retransmission timeout long.
    pub fn set_more(&mut self, on: bool) {
        self.send.cork.more = on;
    }

    /// What is queued leaves as soon as the windows let it, full segments or not.
    pub fn push(&mut self) {
        self.send.cork.more = false;
        self.send.pushed = self.send.end;
    }

    /// Acknowledges the next segments at once (`true`), or whatever the delay allows late.
    pub fn set_quick_ack(&mut self, on: bool) {
        self.recv.quick_acks = if on { self.settings.quick_acks.max(1) } else { 0 };
        if on && self.recv.unacked > 0 {
            self.events.send_ack = true;
        }
    }
}
