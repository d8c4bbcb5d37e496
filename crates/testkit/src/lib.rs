//! Virtual time, simulated links, seeds and content oracles: what tests of machines stand on; network namespaces for
//! those that need the kernel; an allocator that counts; and Wireshark as a reader. It is a dev-dependency only.
#![deny(unsafe_code)]

pub mod content;
#[allow(unsafe_code)]
pub mod counting;
pub mod expect;
pub mod link;
pub mod namespace;
pub mod random;
pub mod scratch;
pub mod seeds;
pub mod wireshark;

pub use content::{Content, Received};
pub use link::{Impairments, Link, Packet};
pub use random::Random;
pub use seeds::{for_each_seed, for_each_seed_of};
