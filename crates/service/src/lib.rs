//! What a communication subsystem is made of beside transport and session (`docs/service.md`).
//!
//! Small blocks, each usable by hand: [`lifetime`], [`order`], [`fec`], [`playout`]. None of them does I/O, reads a clock or draws randomness; each is
//! bounded, and allocates only when it is made.
//!
//! Carriers, which `fusewire generate` writes ends around. They are generic over the constants that a specification became
//! ([`profile`]), so that what it did not choose is not in the program: [`stream`], over TCP or XTP, [`datagram`], of what is worth
//! nothing when it is late, and [`group`], over XTP's multicast. [`contract`] observes what ends promise.
#![forbid(unsafe_code)]

pub mod contract;
pub mod datagram;
mod error;
/// What stands beside generated ends; a role or a type of theirs that is called so is in its place.
pub mod ends {
    pub use crate::stream::Listener;
    pub use crate::{Allow, Error, Fingerprint, Identity, Result, codec};
}
pub mod fec;
pub mod group;
pub mod lifetime;
mod opening;
pub mod order;
pub mod playout;
pub mod profile;
pub mod stream;

pub use error::{Error, Result};
pub use stream::{Listener, Stream};
/// What generated code names: codecs, keys, and whom to trust.
pub use {
    fusewire_codec as codec,
    fusewire_session::{Allow, Cipher, DataPass, Execution, Fingerprint, Identity, Level},
    fusewire_stack::Congestion,
    fusewire_transport::media::Yields,
};
