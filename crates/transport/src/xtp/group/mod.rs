//! One stream to many, reliable or as it may be (`docs/xtp.md`, section 16): a sender and its members as machines without
//! I/O.
//!
//! | file | what |
//! |---|---|
//! | `config` | what both are told when they are made |
//! | `sender` | the sender: its state, what is queued, what can be asked of it |
//! | `member` | what a sender knows of one member |
//! | `membership` | joining, leaving, who is dropped |
//! | `answers` | what members say has come, what of it is lost, what the controller hears |
//! | `output` | what the sender sends, and when it asks |
//! | `timers` | the sender's deadlines |
//! | `receiver` | the receiver: hearing of groups, joining, the end |
//! | `arrivals` | what a receiver takes |
//! | `replies` | what a receiver says, after its delay |
//!
//! A sender is driven so: [`Sender::handle`] for each packet whose check is right, [`Sender::handle_timeout`] when
//! [`Sender::poll_timeout`] has come, then [`Sender::poll_transmit`] and [`Sender::poll_event`] until they give nothing. A
//! receiver takes packets in the two steps of [`crate::machine::Connection`].

mod answers;
mod arrivals;
mod config;
mod member;
mod membership;
mod output;
mod receiver;
mod replies;
mod sender;
mod timers;

pub use config::{ReceiverConfig, SenderConfig};
pub use member::{Leaving, MemberInfo};
pub use receiver::{Heard, Receiver, ReceiverEvent};
pub use sender::{Sender, SenderEvent};

use super::{Header, Transmit};
use crate::machine::TransmitKind;
use std::net::SocketAddr;

/// Where a packet of a sender's goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To all that hear the group.
    Group,
    /// To one receiver.
    One(SocketAddr),
}

/// A packet without data.
fn alone(header: Header, kind: TransmitKind) -> Transmit {
    Transmit { header, payload: None, retransmission: false, kind, ecn_capable: false }
}
