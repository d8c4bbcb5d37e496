//! One file or folder to many hosts at once. Specification: `docs/cast.md`.
//!
//! ```text
//! sender                                                    each member
//! Share ◀─ Board ◀────────── server::Session ═ session ═ Joiner ──▶ Mail     who, keys, names, hashes
//!            │                                                       │
//!          Caster ─▶ SealingChannel ─▶ Sending ~ group ~ Hearing ─▶ OpeningChannel ─▶ Catcher    contents
//! ```
//! Contents go to the group once, in the messages that a `get` is answered with, the number of a file in place of that of
//! a request. All else goes over the session that each member has with the sender, which is one of a file server: who may
//! be a member, the key of the group's records, which files there are, and the hash of each block. So no byte is taken
//! that the sender has not read, whoever sealed it. What a member has not had from the group, or what did not hold, it
//! gets over a session of its own as any client does.
//!
//! What carries the group's messages is a [`Sending`] and a [`Hearing`]; here is one in memory, [`bus`], for tests.

mod board;
pub mod bus;
mod casting;
mod catching;
mod channel;
mod member;

pub(crate) use board::Membership;
pub use board::{Board, MemberId, Standing};
pub use casting::Caster;
pub use catching::{Catcher, Catching, Wanted};
pub use channel::{Hearing, OpeningChannel, SealingChannel, Sending};
pub use member::{Joiner, Mail, Tally};
