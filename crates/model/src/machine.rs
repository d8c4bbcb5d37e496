//! A machine of today, as calibration finds it: what the model's equations need of it, with units.
//!
//! All costs are in clock cycles of the core that was measured; [`Machine::ns_per_cycle`] turns them
//! into time. A machine is data: it is written to a file and read back, so [`Machine::check`] refuses
//! what no machine can be.

use serde::{Deserialize, Serialize};

/// The version of the form in which machines are kept.
pub const VERSION: u32 = 1;

/// What was measured of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Of the form; another than [`VERSION`] is refused.
    pub version: u32,
    /// The processor's name, as the operating system has it.
    pub processor: String,
    /// A cycle, in ns.
    pub ns_per_cycle: f64,
    /// Cycles that an instruction takes when others go on beside it and nobody else uses the core: what
    /// measurements are compared with to see whether somebody does.
    pub control_cycles: f64,
    /// Part of the measurements during which somebody did.
    pub disturbed: f64,
    /// One entry for each kind of word that the processor has.
    pub words: Vec<Words>,
    /// From the first-level cache outward; memory is last.
    pub places: Vec<Place>,
    /// One entry for each stage and CPU level that was measured.
    pub stages: Vec<Stage>,
}

/// What a loop over words of one kind costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// `scalar32`, `scalar64`, `avx2`, `avx512`.
    pub name: String,
    /// Bytes in a word.
    pub word_bytes: u32,
    /// Registers for words, state and what a loop needs besides.
    pub registers: u32,
    /// Instructions that begin in a cycle, of all kinds.
    pub issue_per_cycle: f64,
    /// Of them, those that compute.
    pub compute_per_cycle: f64,
    /// Words of message loaded and stored in a cycle.
    pub copied_per_cycle: f64,
    /// Cycles for a word of state that lies in memory: loaded, changed and stored.
    pub spill_cycles: f64,
    /// Cycles from one change of such a word to the next.
    pub spill_latency_cycles: f64,
    /// Instructions that the processor looks ahead.
    pub window: f64,
    /// Cycles of a pass without a byte: the call, and the end of the loop that nothing foresaw.
    pub pass_cycles: f64,
    /// Cycles a pass for each word of state that is brought into a register and back.
    pub state_cycles: f64,
    /// Cycles of a table look-up beyond its instructions, the table being in places 0, 1, 2, ….
    pub lookup_cycles: Vec<f64>,
}

/// A cache level, or memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// `L1`, `L2`, `L3`, `memory`.
    pub name: String,
    /// What fits; memory has all the room.
    pub bytes: f64,
    /// Cycles a byte that is read from there.
    pub read_cycles_per_byte: f64,
    /// Cycles a byte that is written there.
    pub write_cycles_per_byte: f64,
    /// Cycles a byte that is copied there.
    pub copy_cycles_per_byte: f64,
    /// Cycles a byte that is read and written again where it is.
    pub update_cycles_per_byte: f64,
    /// Cycles from a load to what it loads, each depending on the one before.
    pub latency_cycles: f64,
    /// Cycles until the first bytes of a message come.
    pub start_cycles: f64,
    /// How well work and transfer from there go on at once: the exponent of their norm, 1 for one after
    /// the other.
    pub overlap: f64,
}

/// A stage of the kernels at one CPU level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The stage's name.
    pub name: String,
    /// The CPU level's name.
    pub level: String,
    /// Whether it puts out bytes.
    pub writes: bool,
    /// State that its loop needs at hand, in bytes.
    pub state_bytes: u32,
    /// Cycles a byte in a loop of its own, from the first-level cache.
    pub alone_cycles_per_byte: f64,
    /// Cycles a byte that it adds to a loop that loads and stores already.
    pub joined_cycles_per_byte: f64,
    /// Cycles of a pass without a byte, within a loop over passes.
    pub pass_cycles: f64,
    /// Cycles of a whole run without a byte and a pass.
    pub call_cycles: f64,
}

/// Why a machine cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Written by another version.
    #[error("the machine is of version {0}, this program wants {VERSION}: calibrate anew")]
    Version(u32),
    /// A value that no machine has.
    #[error("{of}: {parameter} is {found}: no machine has that; calibrate anew")]
    Absurd {
        /// What part of the machine.
        of: String,
        /// Which value.
        parameter: &'static str,
        /// What it is.
        found: f64,
    },
    /// Nothing about words of that kind.
    #[error("the machine has no `{0}`; it has {1}")]
    NoWords(String, String),
    /// No such stage at that level.
    #[error("`{stage}` was not calibrated at level {level}; those are: {known}")]
    NoStage {
        /// The stage.
        stage: String,
        /// The level.
        level: String,
        /// What there is.
        known: String,
    },
    /// A function that cannot be.
    #[error("a function of {0}: {1}")]
    Function(String, &'static str),
    /// A pipeline without a function.
    #[error("the model wants one function at least")]
    NoFunctions,
    /// Functions over words of different kinds, or stages beside functions.
    #[error("{0} and {1} do not run in one loop: words must be of one kind")]
    Mixed(String, String),
}

impl Machine {
    /// Refuses another version, and what no machine can be.
    ///
    /// # Errors
    /// As it says.
    pub fn check(&self) -> Result<(), Error> {
        if self.version != VERSION {
            return Err(Error::Version(self.version));
        }
        within(&self.processor, "ns_per_cycle", self.ns_per_cycle, 0.01, 1e3)?;
        within(&self.processor, "control_cycles", self.control_cycles, 0.01, 1e3)?;
        within(&self.processor, "disturbed", self.disturbed, 0.0, 1.0)?;
        within(&self.processor, "words", self.words.len() as f64, 1.0, 64.0)?;
        within(&self.processor, "places", self.places.len() as f64, 2.0, 16.0)?;
        for words in &self.words {
            words.check()?;
        }
        let mut smaller = 0.0;
        for place in &self.places {
            place.check(smaller)?;
            smaller = place.bytes;
        }
        for stage in &self.stages {
            within(&stage.name, "alone_cycles_per_byte", stage.alone_cycles_per_byte, 1e-4, 1e6)?;
            within(&stage.name, "joined_cycles_per_byte", stage.joined_cycles_per_byte, 0.0, 1e6)?;
            within(&stage.name, "pass_cycles", stage.pass_cycles, 0.0, 1e9)?;
            within(&stage.name, "call_cycles", stage.call_cycles, 0.0, 1e9)?;
        }
        Ok(())
    }
}

impl Words {
    fn check(&self) -> Result<(), Error> {
        for (parameter, found, least, most) in [
            ("word_bytes", self.word_bytes.into(), 1.0, 4096.0),
            ("registers", self.registers.into(), 1.0, 1e4),
            ("issue_per_cycle", self.issue_per_cycle, 0.01, 1e3),
            ("compute_per_cycle", self.compute_per_cycle, 0.01, 1e3),
            ("copied_per_cycle", self.copied_per_cycle, 0.001, 1e3),
            ("spill_cycles", self.spill_cycles, 0.0, 1e4),
            ("spill_latency_cycles", self.spill_latency_cycles, 0.0, 1e4),
            ("window", self.window, 1.0, 1e6),
            ("pass_cycles", self.pass_cycles, 0.0, 1e9),
            ("state_cycles", self.state_cycles, 0.0, 1e6),
        ] {
            within(&self.name, parameter, found, least, most)?;
        }
        self.lookup_cycles
            .iter()
            .try_for_each(|cycles| within(&self.name, "lookup_cycles", *cycles, 0.0, 1e6))
    }
}

impl Place {
    fn check(&self, smaller: f64) -> Result<(), Error> {
        within(&self.name, "bytes", self.bytes, smaller.max(1.0), 1e18)?;
        for (parameter, found) in [
            ("read_cycles_per_byte", self.read_cycles_per_byte),
            ("write_cycles_per_byte", self.write_cycles_per_byte),
            ("copy_cycles_per_byte", self.copy_cycles_per_byte),
            ("update_cycles_per_byte", self.update_cycles_per_byte),
            ("latency_cycles", self.latency_cycles),
            ("start_cycles", self.start_cycles),
        ] {
            within(&self.name, parameter, found, 0.0, 1e9)?;
        }
        within(&self.name, "overlap", self.overlap, 1.0, 100.0)
    }
}

/// Also refuses what is not a number.
fn within(
    of: &str,
    parameter: &'static str,
    found: f64,
    least: f64,
    most: f64,
) -> Result<(), Error> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::Absurd { of: of.to_owned(), parameter, found })
}
