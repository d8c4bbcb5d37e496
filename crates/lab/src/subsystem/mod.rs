//! Applications of `examples/`, each over one transport for all and over what `fusewire generate` chooses for it: on one link,
//! of one seed, by a clock that nobody waits for. What is found is the network's and no machine's: the same everywhere.
//!
//! One transport for all is a session over TCP as an `Endpoint` has it when nobody chooses: what is lost is sent again until it is
//! there, and all is handed over in order. What is chosen are the profiles of [`chosen`].

mod bulk;
pub mod chosen;
mod conference;
mod rpc;
mod world;

pub use bulk::{Blocks, Offered, blocks};
pub use conference::{Call, Makes, call, course};
pub use rpc::{Answers, answers};
pub use world::Path;

use std::sync::LazyLock;

use fusewire_stack::Config;

use crate::{Error, Result};

/// What carries ADUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One transport for all.
    One,
    /// What the application's requirements chose.
    Chosen,
}

impl Way {
    /// Both.
    pub const BOTH: [Way; 2] = [Way::One, Way::Chosen];

    /// As charts call it.
    pub const fn words(self) -> &'static str {
        match self {
            Way::One => "one transport for all",
            Way::Chosen => "as required",
        }
    }
}

/// Settings of one transport for all: what nobody chooses, but that ADUs wait in the transport's memory as bytes do in a socket's.
/// Otherwise one that is longer than what is left of the window waits for all of it, and what it leaves goes unused.
fn one_for_all() -> Config {
    let mut config = Config::default();
    config.transport.set_reserve_within_window(false);
    config
}

/// The longest ADU.
const LEN_MAX: usize = 64 << 10;
/// What differs between ADUs is how far into the pattern each begins.
const SHIFTS: usize = 251;

/// An ADU of at least eight bytes: its number, and what follows from that.
fn body(number: u64, len: usize) -> Vec<u8> {
    static PATTERN: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..LEN_MAX + SHIFTS).map(|at| (at * 7 + (at >> 8)) as u8).collect());
    let mut bytes = PATTERN[number as usize % SHIFTS..][..len].to_vec();
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number that an ADU says it has.
fn number_of(adu: &[u8]) -> Result<u64> {
    let number = adu.first_chunk().map(|number| u64::from_be_bytes(*number));
    number.ok_or_else(|| wrong(format!("an ADU of {} bytes has come", adu.len())))
}

/// From 0 to 1, evenly spread over numbers in a row (the golden ratio's parts).
fn spread(number: u64) -> f64 {
    (number as f64 * 0.618_033_988_749_894_9).fract()
}

/// What comes is what was sent.
fn same(what: &str, number: u64, adu: &[u8], len: usize) -> Result<()> {
    match adu == body(number, len) {
        true => Ok(()),
        false => Err(wrong(format!("{number} of {what} has come changed"))),
    }
}

fn wrong(what: String) -> Error {
    Error::Wrong { method: "two hosts on a virtual clock".into(), what }
}
