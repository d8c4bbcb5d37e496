//! What an application hears of a context.

use std::ops::Range;

pub use fusewire_wire::xtp::{Code, Diag, Reason};

/// A message that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it lies in the peer's stream.
    pub range: Range<u64>,
    /// The sender's 8 bytes.
    pub tag: Option<u64>,
    /// All of it is there: always, unless the peer sends with NOERR; then gaps in it were told before. Of more than 4,096 gaps
    /// before what was told last, the later ones count as one from the first of them to the end of the last: a message between
    /// them is said not to be whole, though it may be.
    pub is_whole: bool,
}

impl Message {
    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a message has a byte")]
    pub fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

/// Why a context is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both sides finished, and have everything.
    InOrder,
    /// The peer refused it.
    Refused(Diag),
    /// The peer gave it up, or was not content with us.
    Abandoned(Diag),
    /// The peer ended it at once, or does not know it any more.
    Aborted,
    /// We did.
    Ours,
    /// The peer does not answer.
    TimedOut,
    /// The network says that nobody is there.
    Unreachable,
    /// The peer began a message that is longer than the receive buffer.
    TooLong,
}

/// What happened on a context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody called a service that is listened to: this context is new. What it says may have come already.
    Accepted {
        /// The service.
        service: u16,
    },
    /// The peer has answered, or is known.
    Open,
    /// A message is there. Its memory is taken until [`Contexts::release`](super::Contexts::release).
    Message(Message),
    /// These bytes of the peer's stream were lost, and do not come (NOERR).
    Gap(Range<u64>),
    /// After [`Contexts::send`](super::Contexts::send) had no room: there may be room again.
    Writable,
    /// The peer sends no more.
    Finished,
    /// It is over.
    Closed(Ended),
}
