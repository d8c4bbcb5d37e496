//! A machine of today, as calibration finds it: what the model's equations need of it, with units.
//!
//! All costs are in clock cycles of the core that was measured; [`Machine::ns_per_cycle`] turns them
//! into time. A machine is data: it is written to a file and read back, so [`Machine::check`] refuses
//! what no machine can be.

use serde::{Deserialize, Serialize};

use crate::pipeline::Implementation;

/// The version of the form in which machines are kept.
pub const VERSION: u32 = 2;

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
    /// Cycles that an instruction takes when others go on beside it and nobody else uses the core.
    pub control_cycles: f64,
    /// Part of the measurements during which somebody did, and which did not count.
    pub disturbed: f64,
    /// One entry for each kind of word that the processor has.
    pub words: Vec<Words>,
    /// From the first-level cache outward; memory is last.
    pub places: Vec<Place>,
    /// One entry for each CPU level at which stages were measured.
    pub levels: Vec<Level>,
    /// One entry for each data pass of the transfer that was measured.
    pub transforms: Vec<Transform>,
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
    /// Cycles of a turn that changes so many words of state in memory, by their number.
    pub spills: Vec<(u32, f64)>,
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
    /// What passes that work take longer than in the first-level cache; nothing of that level itself.
    pub beyond: Vec<Beyond>,
}

/// What a pass does with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moves {
    /// It reads a message there.
    Read,
    /// It writes one there, from nearer.
    Write,
    /// It reads one and writes one.
    Copy,
    /// It reads one and writes it where it is.
    Update,
}

/// How much longer a pass takes when its bytes are in a place than in the first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beyond {
    /// What it does there.
    pub moves: Moves,
    /// Bytes of message.
    pub bytes: f64,
    /// Instructions a byte: they fill the window in which the processor looks for loads that it can begin.
    pub instructions_per_byte: f64,
    /// Cycles a byte more.
    pub cycles_per_byte: f64,
}

/// Stages of the kernels at one CPU level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The CPU level's name.
    pub name: String,
    /// Cycles of one pass more over a strip.
    pub pass_cycles: f64,
    /// Those that were measured.
    pub stages: Vec<Stage>,
    /// Pairs of them in one loop.
    pub pairs: Vec<Pair>,
}

/// A stage of the kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The stage's name.
    pub name: String,
    /// Whether it puts out bytes.
    pub writes: bool,
    /// State that its loop needs at hand, in bytes.
    pub state_bytes: u32,
    /// Cycles a byte in a loop of its own, from the first-level cache.
    pub alone_cycles_per_byte: f64,
    /// Cycles a byte of its work in a loop with others: what comes nearest to all its pairs.
    pub work_cycles_per_byte: f64,
    /// Cycles of its start and its end beyond those of a copy, once a message.
    pub start_cycles: f64,
}

/// Two stages in one loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Their names.
    pub names: [String; 2],
    /// Cycles a byte, from the first-level cache.
    pub cycles_per_byte: f64,
}

/// A data pass of the transfer, run in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transform {
    /// The cipher's name.
    pub cipher: String,
    /// Bytes of the words that it swaps; 1 for none.
    pub swap_bytes: u32,
    /// The CPU level's name.
    pub level: String,
    /// How it runs.
    pub implementation: Implementation,
    /// Cycles of sending a message without a byte.
    pub start_cycles: f64,
    /// Cycles a byte of sending, near.
    pub cycles_per_byte: f64,
    /// The same, from memory to memory.
    pub cold_cycles_per_byte: f64,
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
    /// Nothing about stages at that level.
    #[error("the machine knows no stages at level `{0}`; it knows {1}")]
    NoLevel(String, String),
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
    /// Blocks whose least common multiple is too long.
    #[error("units of {0} words do not fit the {1} registers of {2}")]
    Unit(u64, u32, String),
    /// A pipeline without a function.
    #[error("the model wants one function at least")]
    NoFunctions,
    /// Functions over words of different kinds, or stages beside functions.
    #[error("{0} and {1} do not run in one loop: words must be of one kind")]
    Mixed(String, String),
}

impl Machine {
    /// Its stages at a CPU level.
    ///
    /// # Errors
    /// When none were measured there.
    pub fn level_named(&self, name: &str) -> Result<&Level, Error> {
        self.levels.iter().find(|level| level.name == name).ok_or_else(|| {
            let known: Vec<_> = self.levels.iter().map(|level| level.name.as_str()).collect();
            Error::NoLevel(name.to_owned(), known.join(", "))
        })
    }

    /// What is known of words of a kind.
    ///
    /// # Errors
    /// When the machine has none such.
    pub fn words_named(&self, name: &str) -> Result<&Words, Error> {
        self.words.iter().find(|words| words.name == name).ok_or_else(|| {
            let known: Vec<_> = self.words.iter().map(|words| words.name.as_str()).collect();
            Error::NoWords(name.to_owned(), known.join(", "))
        })
    }

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
        for level in &self.levels {
            level.check()?;
        }
        self.transforms.iter().try_for_each(Transform::check)
    }
}

impl Level {
    fn check(&self) -> Result<(), Error> {
        within(&self.name, "pass_cycles", self.pass_cycles, 0.0, 1e9)?;
        within(&self.name, "stages", self.stages.len() as f64, 1.0, 1024.0)?;
        for stage in &self.stages {
            within(&stage.name, "alone_cycles_per_byte", stage.alone_cycles_per_byte, 1e-4, 1e6)?;
            within(&stage.name, "work_cycles_per_byte", stage.work_cycles_per_byte, 0.0, 1e6)?;
            within(&stage.name, "start_cycles", stage.start_cycles, 0.0, 1e9)?;
            within(&stage.name, "state_bytes", stage.state_bytes.into(), 0.0, 1e6)?;
        }
        self.pairs.iter().try_for_each(|pair| {
            let names = pair.names.join(" > ");
            within(&names, "cycles_per_byte", pair.cycles_per_byte, 1e-4, 1e6)
        })
    }

    /// A stage by its name.
    ///
    /// # Errors
    /// When it was not measured.
    pub fn stage(&self, name: &str) -> Result<&Stage, Error> {
        self.stages.iter().find(|stage| stage.name == name).ok_or_else(|| Error::NoStage {
            stage: name.to_owned(),
            level: self.name.clone(),
            known: self.stages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Cycles a byte of two stages in one loop, in whichever order they were measured.
    pub(crate) fn pair(&self, a: &str, b: &str) -> Option<f64> {
        let same = |pair: &&Pair| {
            let [first, second] = &pair.names;
            (first == a && second == b) || (first == b && second == a)
        };
        self.pairs.iter().find(same).map(|pair| pair.cycles_per_byte)
    }
}

impl Transform {
    fn check(&self) -> Result<(), Error> {
        within(&self.cipher, "swap_bytes", self.swap_bytes.into(), 1.0, 8.0)?;
        within(&self.cipher, "start_cycles", self.start_cycles, 0.0, 1e9)?;
        within(&self.cipher, "cycles_per_byte", self.cycles_per_byte, 1e-4, 1e6)?;
        within(&self.cipher, "cold_cycles_per_byte", self.cold_cycles_per_byte, 1e-4, 1e6)
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
            ("window", self.window, 1.0, 1e6),
            ("pass_cycles", self.pass_cycles, 0.0, 1e9),
            ("state_cycles", self.state_cycles, 0.0, 1e6),
        ] {
            within(&self.name, parameter, found, least, most)?;
        }
        within(&self.name, "spills", self.spills.len() as f64, 1.0, 1024.0)?;
        let mut fewer = 0;
        for (words, cycles) in &self.spills {
            within(&self.name, "spills", (*words).into(), f64::from(fewer) + 1.0, 1e6)?;
            within(&self.name, "spills", *cycles, 0.01, 1e6)?;
            fewer = *words;
        }
        within(&self.name, "lookup_cycles", self.lookup_cycles.len() as f64, 1.0, 16.0)?;
        self.lookup_cycles
            .iter()
            .try_for_each(|cycles| within(&self.name, "lookup_cycles", *cycles, 0.0, 1e6))
    }
}

impl Place {
    /// Cycles a byte of a pass that does nothing but move.
    pub fn rate(&mut self, moves: Moves) -> &mut f64 {
        match moves {
            Moves::Read => &mut self.read_cycles_per_byte,
            Moves::Write => &mut self.write_cycles_per_byte,
            Moves::Copy => &mut self.copy_cycles_per_byte,
            Moves::Update => &mut self.update_cycles_per_byte,
        }
    }

    fn check(&self, smaller: f64) -> Result<(), Error> {
        within(&self.name, "bytes", self.bytes, smaller.max(1.0), 1e18)?;
        for (parameter, found) in [
            ("read_cycles_per_byte", self.read_cycles_per_byte),
            ("write_cycles_per_byte", self.write_cycles_per_byte),
            ("copy_cycles_per_byte", self.copy_cycles_per_byte),
            ("update_cycles_per_byte", self.update_cycles_per_byte),
            ("latency_cycles", self.latency_cycles),
        ] {
            within(&self.name, parameter, found, 0.0, 1e9)?;
        }
        within(&self.name, "beyond", self.beyond.len() as f64, 0.0, 4096.0)?;
        for at in &self.beyond {
            within(&self.name, "beyond.bytes", at.bytes, 1.0, 1e12)?;
            within(&self.name, "instructions_per_byte", at.instructions_per_byte, 1e-4, 1e6)?;
            within(&self.name, "beyond.cycles_per_byte", at.cycles_per_byte, 0.0, 1e6)?;
        }
        Ok(())
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
