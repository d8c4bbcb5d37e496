//! The file transfer: protocol, server, client. Specification: `docs/transfer.md`.
//!
//! Nothing here but [`net`] does network I/O or reads a clock. A connection is anything that implements [`Channel`];
//! [`server::Session`], `client::get::Worker`, `client::put::Worker` and `client::list::List` are machines ([`Machine`])
//! whose `turn` is called whenever the channel may have something to give or to take, with the time as an argument. A
//! turn does a bounded amount of work, so one thread can serve a thousand sessions in a circle.
//!
//! Contents are read with `pread` into a buffer that stays in the second-level cache (a [`Scratch`], one a
//! thread), hashed there, and pass the connection's loop from there one ADU at a time, each behind a head that is encoded
//! in it ([`message`]). On receive the loop puts them end to end into the same kind of buffer; they are hashed and written
//! from there.
#![forbid(unsafe_code)]

mod attributes;
mod blocks;
mod budget;
mod bundle;
pub mod cast;
pub mod channel;
pub mod client;
mod element;
mod error;
mod folder;
mod inbox;
mod machine;
pub mod memory;
pub mod message;
mod meta;
mod name;
pub mod net;
mod place;
mod ranges;
mod rate;
pub mod server;
mod source;
mod state;
mod target;

pub use attributes::Lost;
pub use blocks::BLOCK_LEN;
pub use channel::{Channel, ChannelError, Received, Sent};
pub use element::Element;
pub use error::{Error, Violation};
pub use inbox::Scratch;
pub use machine::{Machine, Work};
pub use message::{Entry, Hashing, Kind, Meta, Time, Version};
pub use name::{PathError, RemotePath, Shown, is_deceptive};
pub use rate::Rate;

/// What a turn of a machine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Something was received, sent, read or written: another turn may find more.
    pub worked: bool,
    /// Nothing can be done before this instant, whatever comes in: the rate limit says so.
    pub wait_until: Option<fusewire_base::Instant>,
    /// The machine is finished; further turns do nothing.
    pub finished: bool,
}
