//! Measurements for `fusewire bench kernels`: every execution of a pipeline beside the others, in one
//! run.
//!
//! Methods alternate, round after round, on the same buffers; what a method made is compared with the
//! others' before it is timed; a figure is the median over rounds, in bytes of message a second. Up to
//! the cache's size that is the warm case, at 64 MiB the cold one.
#![forbid(unsafe_code)]

mod checks;
mod contest;
mod pipelines;

pub use checks::checks;
pub use pipelines::pipelines;

/// The sizes that the experiments ask for, in bytes.
pub const SIZES: [usize; 10] =
    [256, 512, 1024, 1280, 1408, 4096, 16_384, 65_536, 1_048_576, 67_108_864];

/// Which way a pipeline ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// swap ▸ encipher ▸ sum ▸ store.
    Send,
    /// load ▸ sum ▸ decipher ▸ swap.
    Receive,
}

impl Direction {
    /// `send` or `receive`.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Send => "send",
            Direction::Receive => "receive",
        }
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds in which every method has a turn; the median is over these.
    pub rounds: usize,
    /// Bytes that a method passes in its turn, one message at least.
    pub bytes_a_turn: usize,
}

impl Effort {
    /// Short, for tests: results mean nothing.
    pub const SMOKE: Effort = Effort { rounds: 3, bytes_a_turn: 1 };
    /// Full.
    pub const FULL: Effort = Effort { rounds: 41, bytes_a_turn: 2 << 20 };
}

/// What was measured of one pipeline, direction and size. Rates are bytes of message a second.
#[derive(Clone, Debug)]
pub struct Line {
    /// The stages, joined with ` ▸ `.
    pub pipeline: &'static str,
    /// Which way.
    pub direction: Direction,
    /// Length of the message.
    pub size_bytes: usize,
    /// The CPU level.
    pub level: &'static str,
    /// One loop.
    pub integrated: f64,
    /// Strip by strip.
    pub blocked: f64,
    /// A pass a stage.
    pub sequential: f64,
    /// One loop, each stage called through a function pointer a unit.
    pub function_pointers: Option<f64>,
    /// One 32-bit word at a time through each stage, as Abbott and Peterson have it, in one loop.
    pub word_filters: Option<f64>,
    /// The best that can be had without integration: see `reference_is`.
    pub reference: f64,
    /// What `reference` is.
    pub reference_is: &'static str,
    /// With an AEAD: as `reference`, but the first pass writes to the message's place and the others
    /// work there, so that there is no pass that only stores.
    pub without_store: Option<f64>,
}

/// What was measured of one form of a check function that only reads.
#[derive(Clone, Debug)]
pub struct CheckLine {
    /// `cxor`, `internet`, `iso-tp4`, `crc32c`, or `none` for a loop that only loads.
    pub function: &'static str,
    /// `standard`, `op1` to `op4`, `vector`, `load_only`.
    pub form: &'static str,
    /// Length of the message.
    pub size_bytes: usize,
    /// The CPU level; scalar forms do not use it.
    pub level: &'static str,
    /// Bytes a second.
    pub rate: f64,
}
