//! The transfer over the network: joins its machines with `fusewire_stack`.
//!
//! A [`Server`] turns a session for each connection of one stack, in one thread; [`streams::serve`] does
//! the same for streams of the kernel's TCP or an outboard's, [`shm::serve`] for shared memory, a thread each. A [`Client`] is the client's side of one connection.
//! No payload byte is touched here: ADUs are sealed from, and opened into, the machines' own buffers.

mod channel;
mod client;
mod first;
pub mod group;
mod line;
mod observe;
mod race;
mod refusals;
mod server;
pub mod shm;
pub mod streams;

pub use client::{Client, Judge, TurnFn};
pub use first::{Call, said_first};
pub use line::ADU_LEN;
pub use observe::observe;
pub use race::Patience;
pub use server::{Control, Server};

use crate::Element;
use crate::channel::{ChannelError, MAX_ADU_LEN};
use fusewire_session::Swap;

/// The longest record body that both sides agree on.
pub const BODY_LEN_MAX: u32 = MAX_ADU_LEN as u32;

/// Bytes that a record adds to an ADU.
const RECORD_OVERHEAD: usize = 32;

impl Element {
    /// What the pipeline swaps for contents of this element.
    pub const fn swap_of(self) -> Swap {
        match self {
            Element::Octets => Swap::None,
            Element::Int16 => Swap::Bytes16,
            Element::Int32 => Swap::Bytes32,
            Element::Int64 => Swap::Bytes64,
        }
    }

    /// The element of a session whose pipeline swaps like this.
    pub const fn of_swap(swap: Swap) -> Element {
        match swap {
            Swap::None => Element::Octets,
            Swap::Bytes16 => Element::Int16,
            Swap::Bytes32 => Element::Int32,
            Swap::Bytes64 => Element::Int64,
        }
    }
}

impl From<fusewire_stack::Error> for ChannelError {
    fn from(error: fusewire_stack::Error) -> Self {
        ChannelError { reason: reason(&error) }
    }
}

/// Possible causes if the other side ended the connection early.
const GONE: &str = "it was stopped or restarted, it does not serve this client any more, or it gave up after an outage of the network";

/// Why a connection broke, in words for a user: what has become of the peer, whatever carried the records.
fn reason(error: &fusewire_stack::Error) -> String {
    use fusewire_session::Error as SessionError;
    use fusewire_stack::Error as StackError;
    match error {
        StackError::Session(SessionError::Truncated { .. }) => {
            format!("the other side ended the connection in the middle: {GONE}")
        }
        StackError::Reset(peer) => format!("{peer} reset the connection: {GONE}"),
        StackError::Silent { .. } => {
            format!("{error}: the network between is down, or the other side has stopped")
        }
        _ => error.to_string(),
    }
}
