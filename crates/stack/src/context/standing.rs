//! What the list of contexts knows of each that was opened, whatever it is: its peer, what its application has not heard,
//! its places in other lists.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::event::{Ended, Event};

/// Events that wait for the application, but for those of messages, which have a bound of their own.
const EVENTS_MAX: usize = 4096;

/// See the module's text.
pub(super) struct Standing {
    pub remote: SocketAddr,
    pub events: VecDeque<Event>,
    /// Messages that were told and not released.
    pub outstanding: usize,
    pub closed: bool,
    /// In the list of those that wait for a turn, with this sort.
    pub ready: Option<u16>,
    /// In the list of those with events.
    pub is_eventful: bool,
    /// In the list of those that may go when there is no room.
    pub is_lingering: bool,
}

impl Standing {
    pub fn new(remote: SocketAddr) -> Standing {
        Standing {
            remote,
            events: VecDeque::new(),
            outstanding: 0,
            closed: false,
            ready: None,
            is_eventful: false,
            is_lingering: false,
        }
    }

    /// Events that a peer can make at will have a bound: what goes beyond is forgotten.
    pub fn push(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX || !matches!(event, Event::Gap(_) | Event::Writable) {
            self.events.push_back(event);
        }
    }

    /// It is over.
    pub fn close(&mut self, ended: Ended) {
        if !std::mem::replace(&mut self.closed, true) {
            self.events.push_back(Event::Closed(ended));
        }
    }

    /// The application has heard of its end, and has let go what came before.
    pub fn is_done(&self) -> bool {
        self.closed && self.events.is_empty() && self.outstanding == 0 && self.ready.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who sends with holes makes as many events as he likes: of those there are only so many, and no other is lost for them.
    #[test]
    fn events_that_a_peer_makes_at_will_have_a_bound() {
        let mut standing = Standing::new(([192, 0, 2, 1], 1).into());
        for at in 0..2 * EVENTS_MAX as u64 {
            standing.push(Event::Gap(at..at + 1));
            standing.push(Event::Writable);
        }
        assert_eq!(standing.events.len(), EVENTS_MAX);
        standing.push(Event::Finished);
        standing.close(Ended::InOrder);
        standing.close(Ended::Aborted);
        let last: Vec<Event> = standing.events.drain(EVENTS_MAX..).collect();
        assert_eq!(last, [Event::Finished, Event::Closed(Ended::InOrder)]);
    }
}
