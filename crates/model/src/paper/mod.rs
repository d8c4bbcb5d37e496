//! Ahlgren's model: equations 1 to 11, Tables 1, 3 and 4 of "A Performance Model for Integrated Layer
//! Processing".
//!
//! Time is the sum of instructions and memory accesses, which holds for processors that do one thing
//! after the other. Constants and tables are left out, as in the paper; a function puts out as many
//! bytes as it takes, or none.

mod abbott;
mod machines;
mod surfaces;

pub use abbott::AbbottPeterson;
pub use machines::{BSWAP_PES_CKSUM, MACHINES, Published, SPARCSTATION_2, TABLE_2};
pub use machines::{HP_9000_735, SPARCSTATION_20};
pub use surfaces::{Axis, Figure, Point};

pub use crate::pipeline::Cache;
use crate::{ClocksPerByte, NsPerByte};

/// A computer, as Table 1's architecture parameters describe it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// What it is called.
    pub name: &'static str,
    /// `R`: registers that a compiler has for state, in words.
    pub registers: u32,
    /// `A_C`: a load or store that the first-level cache answers, clocks a word.
    pub cache_clocks_per_word: f64,
    /// `A_M`: one that memory answers, read in sequence, clocks a word.
    pub memory_clocks_per_word: f64,
    /// `CPI`: clocks an instruction.
    pub clocks_per_instruction: f64,
    /// `L`: instructions that a turn of a loop takes for itself.
    pub loop_instructions: f64,
    /// `C`: the clock, in MHz.
    pub clock_mhz: f64,
    /// `W`: a word, in bytes.
    pub word_bytes: u32,
}

/// A data-manipulation function, as Table 1's function parameters describe it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Function {
    /// What it is called.
    pub name: &'static str,
    /// `s`: state, in words.
    pub state_words: u32,
    /// `a`: instructions that compute, for each input block.
    pub instructions: f64,
    /// `b^in`: the input block, in bytes.
    pub block_bytes: u32,
    /// `b^out > 0`: whether it puts out what it made.
    pub writes: bool,
}

/// How the functions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// Each function over the whole message.
    Sequential,
    /// All functions in one loop.
    Integrated,
}

impl Implementation {
    /// As tables and JSON name it.
    pub const fn name(self) -> &'static str {
        match self {
            Implementation::Sequential => "sequential",
            Implementation::Integrated => "integrated",
        }
    }
}

/// A machine or a list of functions that there cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no function.
    #[error("the model wants one function at least")]
    NoFunctions,
    /// A parameter is not a number, is negative, or is zero where that means nothing.
    #[error("{of}: {parameter} cannot be what it is")]
    Absurd {
        /// Whose it is.
        of: String,
        /// Which.
        parameter: &'static str,
    },
}

impl Machine {
    fn check(&self) -> Result<(), Error> {
        let positive = [
            ("memory_clocks_per_word", self.memory_clocks_per_word),
            ("cache_clocks_per_word", self.cache_clocks_per_word),
            ("clocks_per_instruction", self.clocks_per_instruction),
            ("clock_mhz", self.clock_mhz),
            ("word_bytes", self.word_bytes.into()),
            // Zero is the machine that has none to spare.
            ("loop_instructions", self.loop_instructions + f64::MIN_POSITIVE),
        ];
        check(self.name, &positive)
    }
}

impl Function {
    fn check(&self) -> Result<(), Error> {
        let positive = [
            ("block_bytes", self.block_bytes.into()),
            ("instructions", self.instructions + f64::MIN_POSITIVE),
        ];
        check(self.name, &positive)
    }
}

fn check(of: &str, positive: &[(&'static str, f64)]) -> Result<(), Error> {
    match positive.iter().find(|(_, value)| !value.is_finite() || *value <= 0.0) {
        Some((parameter, _)) => Err(Error::Absurd { of: of.to_owned(), parameter }),
        None => Ok(()),
    }
}

/// Clock cycles per byte of message: equations 1 to 10.
///
/// # Errors
/// When a parameter is absurd or there is no function.
pub fn clocks(
    machine: &Machine,
    functions: &[Function],
    cache: Cache,
    implementation: Implementation,
) -> Result<ClocksPerByte, Error> {
    machine.check()?;
    functions.iter().try_for_each(Function::check)?;
    if functions.is_empty() {
        return Err(Error::NoFunctions);
    }
    let access = match cache {
        Cache::Cold => machine.memory_clocks_per_word,
        Cache::Warm => machine.cache_clocks_per_word,
    };
    let accesses = match implementation {
        Implementation::Integrated => integrated(machine, functions),
        Implementation::Sequential => sequential(machine, functions),
    };
    let computation: f64 =
        functions.iter().map(|f| f.instructions / f64::from(f.block_bytes)).sum();
    // Equations 7 and 10: the state is in the cache in both.
    Ok(ClocksPerByte(
        machine.clocks_per_instruction * (computation + accesses.loop_instructions)
            + access * accesses.data
            + machine.cache_clocks_per_word * accesses.state,
    ))
}

/// The same in time: equation 11.
///
/// # Errors
/// As [`clocks`].
pub fn time(
    machine: &Machine,
    functions: &[Function],
    cache: Cache,
    implementation: Implementation,
) -> Result<NsPerByte, Error> {
    Ok(clocks(machine, functions, cache, implementation)?.at_mhz(machine.clock_mhz))
}

/// What an implementation does besides computing, per byte of message.
struct Accesses {
    /// `DA`: words of message loaded and stored.
    data: f64,
    /// `SA`: words of state loaded and stored.
    state: f64,
    /// `LO`: instructions of loop overhead.
    loop_instructions: f64,
}

fn integrated(machine: &Machine, functions: &[Function]) -> Accesses {
    // Equation 5.
    let block = functions.iter().map(|f| u64::from(f.block_bytes)).fold(1, lcm) as f64;
    // Equation 4.
    let state: u64 = functions.iter().map(|f| u64::from(f.state_words)).sum();
    Accesses {
        // Equation 1.
        data: 2.0 / f64::from(machine.word_bytes),
        // Equation 3.
        state: 2.0 / block * state.saturating_sub(machine.registers.into()) as f64,
        // Equation 8.
        loop_instructions: machine.loop_instructions / block,
    }
}

fn sequential(machine: &Machine, functions: &[Function]) -> Accesses {
    let mut sum = Accesses { data: 0.0, state: 0.0, loop_instructions: 0.0 };
    for function in functions {
        let block = f64::from(function.block_bytes);
        // Equation 2.
        sum.data += if function.writes { 2.0 } else { 1.0 } / f64::from(machine.word_bytes);
        // Equation 6.
        let overflow = function.state_words.saturating_sub(machine.registers);
        sum.state += 2.0 / block * f64::from(overflow);
        // Equation 9.
        sum.loop_instructions += machine.loop_instructions / block;
    }
    sum
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}
