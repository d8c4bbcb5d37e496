//! What is shown to a capture of a running stack: packets as they come and leave, with words on what became
//! of them. Without a capture nothing is done but to note the words of what is dropped.

use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_device::capture::Direction;
use fusewire_device::capture::feed::{Blocks, Feed};
use fusewire_device::{Ecn, TxFrame};

use crate::trace::Kind;

/// Two pieces of a comment; nothing to say when both are empty.
pub type Words = [&'static str; 2];

/// The capture, if there is one.
#[derive(Default)]
pub struct Watch {
    pub feed: Option<Box<Feed>>,
    /// The time of what is done.
    pub now: Instant,
    /// What became of the packet at hand.
    pub words: Words,
}

impl Watch {
    /// The packet at hand was dropped.
    pub fn dropped(&mut self, why: &'static str) {
        self.words = ["dropped", why];
    }

    /// This became of the packet at hand.
    #[inline]
    pub fn became(&mut self, kind: Kind) {
        if self.feed.is_some() {
            self.words = kind.words();
        }
    }

    /// Something else to say of the packet at hand.
    pub fn note(&mut self, words: Words) {
        self.words = words;
    }

    /// A TPDU came over a device, and the stack is done with it.
    #[inline]
    pub fn received_tpdu(&mut self, peer: SocketAddr, ecn: Ecn, frame: &[u8]) {
        if let Some(feed) = &mut self.feed {
            let words = std::mem::take(&mut self.words);
            feed.tpdu(self.now, Direction::In, words, (peer, ecn), [frame, &[]]);
        }
    }

    /// TPDUs leave over a device.
    #[inline]
    pub fn sent_tpdus(&mut self, frames: &[TxFrame<'_>], words: impl Fn(usize) -> Words) {
        if let Some(feed) = &mut self.feed {
            for (at, frame) in frames.iter().enumerate() {
                let parts = [frame.header, frame.payload];
                feed.tpdu(self.now, Direction::Out, words(at), (frame.peer, frame.ecn), parts);
            }
            self.flush();
        }
    }

    /// A capture begins; `None` when one is under way. `feed` makes its ends.
    pub fn begin(&mut self, feed: impl FnOnce() -> (Feed, Blocks)) -> Option<Blocks> {
        if self.feed.as_mut().is_some_and(|feed| feed.is_read()) {
            return None;
        }
        let (feed, blocks) = feed();
        (self.feed, self.words) = (Some(Box::new(feed)), ["", ""]);
        // Its head tells the reader that it has begun.
        self.flush();
        Some(blocks)
    }

    /// Shows what there is; a capture that nobody reads any more has ended.
    #[inline]
    pub fn flush(&mut self) {
        if self.feed.as_mut().is_some_and(|feed| !feed.flush()) {
            self.feed = None;
        }
    }
}
