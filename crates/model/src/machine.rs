//! A machine of today, as calibration finds it: what the model's equations need of it, with units.
//!
//! All costs are in clock cycles of the core that was measured; [`Machine::ns_per_cycle`] turns them
//! into time. A machine is data: it is written to a file and read back, so [`Machine::check`] refuses
//! what no machine can be.

use serde::{Deserialize, Serialize};

use crate::pipeline::Implementation;

/// The version of the form in which machines are kept.
pub const VERSION: u32 = 7;

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
    /// Cycles from one addition to the next that waits for it, in registers: a chain's link.
    pub chained_cycles: f64,
    /// Cycles from one addition to the next that waits for it, in memory, by the additions there of a turn: some
    /// processors find what they have just stored without memory, as long as that is little.
    pub stored: Vec<(u32, f64)>,
    /// Cycles of a turn that changes so many words of state in memory, by their number.
    pub spills: Vec<(u32, f64)>,
    /// Instructions that the processor keeps waiting for what they work on.
    pub window: f64,
    /// Passes one behind the other, by their number; of more than were measured it is as of the most.
    pub runs: Vec<Run>,
    /// Look-ups, by what their tables have together.
    pub lookups: Vec<Lookup>,
}

/// What each of so many passes, one behind the other, takes besides its turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// How many; then the first comes again.
    pub passes: u32,
    /// Whether they have the same instructions: then their branches look the same too, and less is foreseen.
    pub alike: bool,
    /// Cycles of a pass in which it only waits, and which the passes before and behind it fill.
    pub filled_cycles: f64,
    /// By the turns of a pass, ascending: the call, the first words, and the end of the loop, which is foreseen only
    /// where turns and passes are few.
    pub starts: Vec<(f64, f64)>,
}

/// What a table look-up costs; with tables of another size it lies between.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// Bytes of the tables.
    pub table_bytes: f64,
    /// Cycles from one to the next, when none waits for another.
    pub cycles: f64,
    /// Cycles from a word to what the table has for it.
    pub latency_cycles: f64,
    /// Instructions of it that wait for the word.
    pub waits: f64,
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
    /// It copies a strip, and passes behind it read that before the next strip comes.
    Reread,
    /// The same, with passes behind it that update.
    Rework,
    /// It reads a strip, and a pass behind it copies that before the next strip comes.
    Lead,
    /// It copies, and state goes through memory meanwhile.
    Spill,
}

/// How much longer a pass takes when its bytes are in a place than in the first-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beyond {
    /// What it does there.
    pub moves: Moves,
    /// Bytes of a word of the pass that was measured.
    pub word_bytes: u32,
    /// Bytes of message.
    pub bytes: f64,
    /// Cycles a byte of the pass in the first-level cache.
    pub near_cycles_per_byte: f64,
    /// Instructions a byte: they fill the window in which the processor looks for loads that it can begin.
    pub instructions_per_byte: f64,
    /// Cycles a byte more.
    pub cycles_per_byte: f64,
}

/// Stages of `kernels` at one CPU level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// The CPU level's name.
    pub name: String,
    /// Lengths of the messages that stages and pairs were measured with, in bytes, ascending.
    pub lengths: Vec<f64>,
    /// Cycles that a further pass of a run takes less than one that is a run of its own.
    pub shared_cycles: f64,
    /// Cycles of the pass that brings a message of each length from the buffer between the passes to its place.
    pub last_copy_cycles: Vec<f64>,
    /// Those that were measured.
    pub stages: Vec<Stage>,
    /// Pairs of them in one loop.
    pub pairs: Vec<Pair>,
    /// What pipelines take longer whose message and its place are in memory.
    pub far: Vec<Far>,
}

/// How much longer two stages take from memory to memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Far {
    /// How they run.
    pub implementation: Implementation,
    /// Whether one pass writes what the pass before wrote.
    pub rewrites: bool,
    /// Bytes of message.
    pub bytes: f64,
    /// Cycles a byte near.
    pub near_cycles_per_byte: f64,
    /// Cycles a byte more.
    pub cycles_per_byte: f64,
}

/// A stage of `kernels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The stage's name.
    pub name: String,
    /// Whether it puts out bytes.
    pub writes: bool,
    /// State that its loop needs at hand, in bytes.
    pub state_bytes: u32,
    /// Cycles of a message of each length in a loop of its own, from the first-level cache.
    pub alone_cycles: Vec<f64>,
    /// Cycles of its work on a message of each length in a loop with others: what comes nearest to all its pairs.
    pub work_cycles: Vec<f64>,
}

/// Two stages in one loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Their names.
    pub names: [String; 2],
    /// Cycles of a message of each length, from the first-level cache.
    pub cycles: Vec<f64>,
}

/// The data pass of a record in one direction and one implementation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transform {
    /// The cipher's name.
    pub cipher: String,
    /// Bytes of the words that it swaps; 1 for none.
    pub swap_bytes: u32,
    /// The CPU level's name.
    pub level: String,
    /// `true` for receiving: the sum is made before the cipher, and words are swapped after it.
    #[serde(default)]
    pub receives: bool,
    /// How it runs.
    pub implementation: Implementation,
    /// Cycles of whole messages in the first-level cache, by their bytes, shortest first.
    pub near: Vec<(f64, f64)>,
    /// Cycles per byte of a long message from memory to memory.
    pub cold_cycles_per_byte: f64,
}

/// Why a machine cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Written by another version.
    #[error("the machine is of version {0}, this program wants {VERSION}: calibrate anew")]
    Version(u32),
    /// Text that is no machine.
    #[error("{0}; `fusewire model calibrate` writes it anew")]
    Text(String),
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
    /// No such data pass.
    #[error(
        "cannot predict `{cipher}` at level {level}: calibration measured the data passes of {known}"
    )]
    NoTransform {
        /// The cipher.
        cipher: String,
        /// The level.
        level: String,
        /// The measured ciphers with their levels.
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

/// What every version of the form has.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

impl Machine {
    /// The machine of a file's text, checked.
    ///
    /// # Errors
    /// [`Error::Text`]; [`Error::Version`] and [`Error::Absurd`] as [`Machine::check`].
    pub fn of_json(text: &str) -> Result<Machine, Error> {
        let unread = |error: serde_json::Error| Error::Text(error.to_string());
        // The version first: another one has other fields.
        let Head { version } = serde_json::from_str(text).map_err(unread)?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let machine: Machine = serde_json::from_str(text).map_err(unread)?;
        machine.check()?;
        Ok(machine)
    }

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

    /// The same where memory answers after so many cycles: what it costs beyond the caches goes with that. Whoever shares
    /// the memory changes it from one minute to the next.
    #[must_use]
    pub fn with_memory(mut self, latency_cycles: f64) -> Machine {
        let Some(memory) = self.places.last_mut().filter(|place| place.latency_cycles > 0.0) else {
            return self;
        };
        let by = latency_cycles / memory.latency_cycles;
        memory.latency_cycles = latency_cycles;
        memory.beyond.iter_mut().for_each(|at| at.cycles_per_byte *= by);
        let far = self.levels.iter_mut().flat_map(|level| &mut level.far);
        far.for_each(|at| at.cycles_per_byte *= by);
        self
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
        within(&self.name, "lengths", self.lengths.len() as f64, 2.0, 64.0)?;
        let mut shorter = 0.0;
        for length in &self.lengths {
            within(&self.name, "lengths", *length, shorter + 1.0, 1e9)?;
            shorter = *length;
        }
        within(&self.name, "shared_cycles", self.shared_cycles, 0.0, 1e6)?;
        self.each_length(&self.name, "last_copy_cycles", &self.last_copy_cycles, 0.0)?;
        within(&self.name, "stages", self.stages.len() as f64, 1.0, 1024.0)?;
        for stage in &self.stages {
            self.each_length(&stage.name, "alone_cycles", &stage.alone_cycles, 0.1)?;
            self.each_length(&stage.name, "work_cycles", &stage.work_cycles, 0.0)?;
            within(&stage.name, "state_bytes", stage.state_bytes.into(), 0.0, 1e6)?;
        }
        self.pairs.iter().try_for_each(|pair| {
            let names = pair.names.join(" > ");
            self.each_length(&names, "cycles", &pair.cycles, 0.1)
        })?;
        within(&self.name, "far", self.far.len() as f64, 0.0, 4096.0)?;
        self.far.iter().try_for_each(|at| {
            within(&self.name, "far.bytes", at.bytes, 1.0, 1e12)?;
            within(&self.name, "far.near_cycles_per_byte", at.near_cycles_per_byte, 1e-4, 1e6)?;
            within(&self.name, "far.cycles_per_byte", at.cycles_per_byte, 0.0, 1e6)
        })
    }

    /// A value of each of the lengths.
    fn each_length(
        &self,
        of: &str,
        parameter: &'static str,
        found: &[f64],
        least: f64,
    ) -> Result<(), Error> {
        let count = self.lengths.len() as f64;
        within(of, parameter, found.len() as f64, count, count)?;
        found.iter().try_for_each(|cycles| within(of, parameter, *cycles, least, 1e12))
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

    /// Cycles of two stages in one loop, in whichever order they were measured.
    pub(crate) fn pair(&self, a: &str, b: &str) -> Option<&[f64]> {
        let same = |pair: &&Pair| {
            let [first, second] = &pair.names;
            (first == a && second == b) || (first == b && second == a)
        };
        self.pairs.iter().find(same).map(|pair| &pair.cycles[..])
    }
}

impl Transform {
    fn check(&self) -> Result<(), Error> {
        within(&self.cipher, "swap_bytes", self.swap_bytes.into(), 1.0, 8.0)?;
        within(&self.cipher, "near", self.near.len() as f64, 1.0, 1024.0)?;
        let mut shorter = 0.0;
        for (bytes, cycles) in &self.near {
            within(&self.cipher, "near", *bytes, shorter + 1.0, 1e9)?;
            within(&self.cipher, "near", *cycles, 0.1, 1e12)?;
            shorter = *bytes;
        }
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
            ("chained_cycles", self.chained_cycles, 0.01, 1e3),
            ("window", self.window, 1.0, 1e6),
        ] {
            within(&self.name, parameter, found, least, most)?;
        }
        for (parameter, by_number) in [("stored", &self.stored), ("spills", &self.spills)] {
            within(&self.name, parameter, by_number.len() as f64, 1.0, 1024.0)?;
            let mut fewer = 0;
            for (number, cycles) in by_number {
                within(&self.name, parameter, (*number).into(), f64::from(fewer) + 1.0, 1e6)?;
                within(&self.name, parameter, *cycles, 0.01, 1e6)?;
                fewer = *number;
            }
        }
        within(&self.name, "runs", self.runs.len() as f64, 1.0, 64.0)?;
        let mut fewer = 1;
        for run in &self.runs {
            within(&self.name, "runs.passes", run.passes.into(), f64::from(fewer), 1e3)?;
            run.check(&self.name)?;
            fewer = run.passes;
        }
        within(&self.name, "lookups", self.lookups.len() as f64, 0.0, 64.0)?;
        let mut smaller = 0.0;
        for lookup in &self.lookups {
            within(&self.name, "table_bytes", lookup.table_bytes, smaller + 1.0, 1e12)?;
            within(&self.name, "lookups.cycles", lookup.cycles, 0.0, 1e6)?;
            within(&self.name, "lookups.latency_cycles", lookup.latency_cycles, 0.0, 1e6)?;
            within(&self.name, "lookups.waits", lookup.waits, 0.0, 1e3)?;
            smaller = lookup.table_bytes;
        }
        Ok(())
    }
}

impl Run {
    fn check(&self, of: &str) -> Result<(), Error> {
        within(of, "runs.filled_cycles", self.filled_cycles, 0.0, 1e6)?;
        within(of, "runs.starts", self.starts.len() as f64, 1.0, 64.0)?;
        let mut fewer = 0.0;
        for (turns, cycles) in &self.starts {
            within(of, "runs.starts", *turns, fewer + 1.0, 1e9)?;
            within(of, "runs.starts", *cycles, 0.0, 1e9)?;
            fewer = *turns;
        }
        Ok(())
    }
}

impl Place {
    /// Whether it is no cache.
    pub(crate) fn is_memory(&self) -> bool {
        self.name == "memory"
    }

    /// Cycles a byte of a pass that does nothing but move; several passes have none.
    pub fn rate(&mut self, moves: Moves) -> Option<&mut f64> {
        match moves {
            Moves::Read => Some(&mut self.read_cycles_per_byte),
            Moves::Write => Some(&mut self.write_cycles_per_byte),
            Moves::Copy => Some(&mut self.copy_cycles_per_byte),
            Moves::Update => Some(&mut self.update_cycles_per_byte),
            Moves::Reread | Moves::Rework | Moves::Lead | Moves::Spill => None,
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
            within(&self.name, "word_bytes", at.word_bytes.into(), 1.0, 4096.0)?;
            within(&self.name, "beyond.bytes", at.bytes, 1.0, 1e12)?;
            within(&self.name, "near_cycles_per_byte", at.near_cycles_per_byte, 1e-4, 1e6)?;
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
