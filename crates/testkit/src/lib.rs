//! Virtual time, simulated links, seeds and content oracles: what tests of machines stand on. It is a
//! dev-dependency only and does no I/O but reading the environment for seeds.
#![forbid(unsafe_code)]

pub mod content;
pub mod link;
pub mod random;
pub mod seeds;

pub use content::{Content, Received};
pub use link::{Impairments, Link, Packet};
pub use random::Random;
pub use seeds::{for_each_seed, for_each_seed_of};
