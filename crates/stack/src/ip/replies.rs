//! Replies that belong to no connection (SYN-ACK, RST of a listener) and whose next hop is being asked for. Few
//! are kept, and not for long: what is lost here comes again after a second, when the peer repeats itself.

use std::collections::VecDeque;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_net::NoPath;
use fusewire_transport::tcp::Tuple;
use fusewire_wire::tcp::Header;

use super::config::Marking;
use super::stack::Core;
use crate::drops::Cause;

/// Replies that wait at most; the oldest makes room.
const WAITING_MAX: usize = 64;
/// How long one waits: by then a SYN-ACK is due again anyway.
const PATIENCE: Duration = Duration::from_secs(1);

/// A reply that waits.
pub struct Reply {
    tuple: Tuple,
    header: Header,
    marking: Marking,
    until: Instant,
}

/// Those that wait, oldest first.
pub type Replies = VecDeque<Reply>;

impl Core {
    /// Sends a segment that belongs to no connection, as soon as its way is known.
    pub(super) fn reply(&mut self, now: Instant, tuple: &Tuple, header: &Header, marking: Marking) {
        let until = now + PATIENCE;
        self.try_reply(now, Reply { tuple: *tuple, header: *header, marking, until });
    }

    fn try_reply(&mut self, now: Instant, reply: Reply) {
        self.layer_speaks = true;
        let Reply { tuple, header, marking, until } = &reply;
        match self.layer.route(now, tuple.remote.ip(), Some(tuple.local.ip())) {
            Ok(via) => {
                if !self.output.control(&via, header, *marking) {
                    self.counters.drops.count(Cause::OutputFull);
                }
            }
            Err(NoPath::Resolving) if now < *until => {
                // A repetition takes the place of what it repeats.
                self.replies.retain(|other| other.tuple != *tuple);
                if self.replies.len() >= WAITING_MAX {
                    self.replies.pop_front();
                    self.counters.drops.count(Cause::Unroutable);
                }
                self.replies.push_back(reply);
                self.resolve_later(now);
            }
            Err(_) => self.counters.drops.count(Cause::Unroutable),
        }
    }

    /// Tries each of those that wait once more.
    pub(super) fn retry_replies(&mut self, now: Instant) {
        for _ in 0..self.replies.len() {
            if let Some(reply) = self.replies.pop_front() {
                self.try_reply(now, reply);
            }
        }
    }
}
