//! From a machine and a pipeline to cycles: `docs/model.md` has the equations.
//!
//! On a processor that does several things at once the time of a loop is not the sum of what it does but
//! nearly the largest of it. Each turn of a loop asks for instructions, for computation, for words of
//! message and of spilled state to be moved; it waits for chains of results; around it bytes come from
//! where they lie. [`together`] joins such demands: the largest counts, others that are near it add a
//! little, since two queues that are both nearly full get into each other's way.

use crate::machine::{Error, Machine, Place, Stage, Words};
use crate::pipeline::{Cache, Function, Implementation, Pipeline};

/// Bytes of a strip of the blocked implementation.
pub const STRIP: f64 = 4096.0;
/// How much demands that are near the largest count: the exponent of their norm.
const SHARPNESS: f64 = 6.0;
/// Of a cache, what a message can have for itself.
const USABLE: f64 = 0.9;
/// Instructions of a loop for itself: index and branch.
const LOOP_INSTRUCTIONS: f64 = 2.0;
/// Cycles from a load to its word in a register, the first link of every chain.
const LOAD_CYCLES: f64 = 5.0;

/// What bounds a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Instructions of all kinds.
    Issue,
    /// Instructions that compute.
    Compute,
    /// Loading and storing the message in the first-level cache.
    Message,
    /// State that found no register: its loads and stores.
    Spills,
    /// The same, as a chain from one turn to the next.
    SpillChain,
    /// State in registers, as a chain from one turn to the next.
    StateChain,
    /// A chain of results longer than the processor looks ahead.
    Window,
    /// Table look-ups beyond the first-level cache.
    Tables,
    /// Bytes that come from and go to beyond the first-level cache.
    Transfer,
    /// Passes for themselves: calls, ends of loops, first bytes.
    Start,
    /// The stages' own work, as calibrated.
    Stages,
}

impl Bound {
    /// In words, for a table.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Issue => "instructions",
            Bound::Compute => "computation",
            Bound::Message => "message loads and stores",
            Bound::Spills => "state in memory",
            Bound::SpillChain => "chain through state in memory",
            Bound::StateChain => "chain through state",
            Bound::Window => "chain of results",
            Bound::Tables => "tables",
            Bound::Transfer => "transfer between caches or memory",
            Bound::Start => "start of each pass",
            Bound::Stages => "the stages' work",
        }
    }
}

/// What the model says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// For the whole message.
    pub cycles: f64,
    /// Its largest part.
    pub bound: Bound,
}

/// Cycles of a message of `bytes` through a pipeline.
///
/// # Errors
/// When the machine does not know what the pipeline needs, or a function cannot be.
pub fn predict(
    machine: &Machine,
    pipeline: &Pipeline,
    bytes: f64,
    cache: Cache,
    implementation: Implementation,
) -> Result<Prediction, Error> {
    machine.check()?;
    let work = Work::new(machine, pipeline)?;
    Ok(work.whole(machine, bytes, cache, implementation))
}

/// Demands on a loop at once.
fn together(sharpness: f64, demands: &[(Bound, f64)]) -> (f64, Bound) {
    let (bound, largest) =
        demands.iter().fold((Bound::Issue, 0.0), |a, b| if b.1 > a.1 { *b } else { a });
    if largest <= 0.0 {
        return (0.0, bound);
    }
    let sum: f64 = demands.iter().map(|(_, x)| (x / largest).powf(sharpness)).sum();
    (largest * sum.powf(1.0 / sharpness), bound)
}

/// One pass of a loop.
struct Pass {
    /// Cycles a byte in the first-level cache.
    cycles_per_byte: f64,
    bound: Bound,
    /// Cycles without a byte.
    start_cycles: f64,
    writes: bool,
}

/// A pipeline's passes.
struct Work {
    fused: Pass,
    apart: Vec<Pass>,
    /// Cycles of a run besides its passes.
    call_cycles: f64,
    /// The pass that brings a message from a buffer between passes to its place.
    copied: Option<Pass>,
}

impl Work {
    fn new(machine: &Machine, pipeline: &Pipeline) -> Result<Work, Error> {
        match pipeline {
            Pipeline::Functions(functions) => {
                let words = words_of(machine, functions)?;
                let apart = functions.iter();
                let apart = apart.map(|f| pass(machine, words, std::slice::from_ref(f)));
                Ok(Work {
                    fused: pass(machine, words, functions),
                    apart: apart.collect(),
                    call_cycles: 0.0,
                    copied: None,
                })
            }
            Pipeline::Stages { names, level } => stages(machine, names, level),
        }
    }

    fn whole(
        &self,
        machine: &Machine,
        bytes: f64,
        cache: Cache,
        implementation: Implementation,
    ) -> Prediction {
        // A message and its place; what only reads has no place.
        let footprint = bytes * if self.fused.writes { 2.0 } else { 1.0 };
        let near = nearest(machine, footprint);
        let from = match cache {
            Cache::Warm => near,
            Cache::Cold => machine.places.len() - 1,
        };
        let mut sum = Sum::default();
        sum.add(Bound::Start, self.call_cycles);
        let apart = || self.apart.iter();
        match implementation {
            Implementation::Integrated => {
                sum.pass(machine, &self.fused, bytes, At { place: from, cache, moved: false });
            }
            Implementation::Sequential => {
                let mut at = At { place: from, cache, moved: false };
                for pass in apart().chain(&self.copied) {
                    sum.pass(machine, pass, bytes, at);
                    at = at.after(pass, nearest(machine, bytes), near);
                }
            }
            Implementation::Blocked => {
                let strips = (bytes / STRIP).ceil().max(1.0);
                let mut at = At { place: from, cache, moved: false };
                for pass in apart() {
                    sum.pass(machine, pass, bytes, at);
                    at = at.after(pass, 0, 0);
                    sum.add(Bound::Start, (strips - 1.0) * pass.start_cycles);
                }
            }
        }
        sum.prediction()
    }
}

/// Where the bytes of a pass are.
#[derive(Clone, Copy)]
struct At {
    place: usize,
    cache: Cache,
    /// They lie where they go to already.
    moved: bool,
}

impl At {
    /// After a pass: what was written lies in `written`, what was only read in `read`.
    fn after(self, pass: &Pass, written: usize, read: usize) -> At {
        let moved = self.moved || pass.writes;
        At { place: if moved { written } else { read }, cache: Cache::Warm, moved }
    }
}

/// The innermost place that so many bytes fit.
fn nearest(machine: &Machine, footprint: f64) -> usize {
    let last = machine.places.len() - 1;
    machine.places[..last]
        .iter()
        .position(|place| footprint <= place.bytes * USABLE)
        .unwrap_or(last)
}

/// Costs of one pass after the other.
#[derive(Default)]
struct Sum {
    cycles: f64,
    largest: Option<(Bound, f64)>,
}

impl Sum {
    fn add(&mut self, bound: Bound, cycles: f64) {
        self.cycles += cycles;
        if self.largest.is_none_or(|(_, most)| cycles > most) {
            self.largest = Some((bound, cycles));
        }
    }

    fn pass(&mut self, machine: &Machine, pass: &Pass, bytes: f64, at: At) {
        let place: &Place = &machine.places[at.place];
        let per_byte = match (pass.writes, at.moved) {
            (false, _) => place.read_cycles_per_byte,
            (true, false) => place.copy_cycles_per_byte,
            (true, true) => place.update_cycles_per_byte,
        };
        let transfer = if at.place == 0 { 0.0 } else { bytes * per_byte };
        let (cycles, bound) = together(
            place.overlap,
            &[(pass.bound, bytes * pass.cycles_per_byte), (Bound::Transfer, transfer)],
        );
        self.add(bound, cycles);
        let first = if at.cache == Cache::Cold { place.start_cycles } else { 0.0 };
        self.add(Bound::Start, pass.start_cycles + first);
    }

    fn prediction(self) -> Prediction {
        let bound = self.largest.map_or(Bound::Issue, |(bound, _)| bound);
        Prediction { cycles: self.cycles, bound }
    }
}

/// The kind of words that they all work on.
fn words_of<'a>(machine: &'a Machine, functions: &[Function]) -> Result<&'a Words, Error> {
    let first = functions.first().ok_or(Error::NoFunctions)?;
    for f in functions {
        if f.words != first.words {
            return Err(Error::Mixed(first.words.clone(), f.words.clone()));
        }
        let wrong = |why| Err(Error::Function(f.to_string(), why));
        if f.block_words == 0 || f.block_words > 64 {
            return wrong("a block has 1 to 64 words");
        }
        if !f.writes && f.state_words == 0 {
            return wrong("what neither writes nor keeps state does nothing");
        }
        if f.lookups > 0 && f.table_bytes == 0 {
            return wrong("it looks up a table that has no bytes");
        }
    }
    machine.words.iter().find(|words| words.name == first.words).ok_or_else(|| {
        let known: Vec<_> = machine.words.iter().map(|words| words.name.as_str()).collect();
        Error::NoWords(first.words.clone(), known.join(", "))
    })
}

fn lcm(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// One loop over described functions.
fn pass(machine: &Machine, words: &Words, functions: &[Function]) -> Pass {
    let unit = functions.iter().map(|f| f.block_words).fold(1, lcm);
    let writes = functions.iter().any(|f| f.writes);
    let mut free = registers_for_state(words, functions, unit);
    let (mut compute, mut spilled, mut spill_chain, mut state_chain) = (0.0, 0.0, 0.0f64, 0.0f64);
    let (mut chain, mut lookups, mut in_registers) = (LOAD_CYCLES, 0.0, 0.0);
    for f in functions {
        let blocks = f64::from(unit / f.block_words);
        let kept = f.state_words.min(free);
        free -= kept;
        in_registers += f64::from(kept);
        compute += blocks * f64::from(f.steps());
        spilled += blocks * f64::from(f.state_words - kept);
        if kept < f.state_words {
            spill_chain = spill_chain.max(blocks);
        }
        if kept > 0 {
            // What only reads goes through its state again and again.
            let rounds = if f.writes { 1 } else { f.steps().div_ceil(f.state_words) };
            state_chain = state_chain.max(blocks * f64::from(rounds));
        }
        chain += f64::from(f.changes().div_ceil(f.block_words));
        chain += f64::from(f.lookups.div_ceil(f.block_words)) * (LOAD_CYCLES + 3.0);
        lookups += blocks * f64::from(f.lookups);
    }
    let moved = f64::from(unit) * if writes { 1.0 } else { 0.5 };
    let instructions = compute + 2.0 * moved + 2.0 * spilled + 3.0 * lookups + LOOP_INSTRUCTIONS;
    let tables: u32 = functions.iter().filter(|f| f.lookups > 0).map(|f| f.table_bytes).sum();
    let table_place = nearest(machine, f64::from(tables));
    let lookup_cycles = words.lookup_cycles.get(table_place).or(words.lookup_cycles.last());
    let (turn, bound) = together(
        SHARPNESS,
        &[
            (Bound::Issue, instructions / words.issue_per_cycle),
            (Bound::Compute, (compute + 2.0 * lookups) / words.compute_per_cycle),
            (Bound::Message, moved / words.copied_per_cycle),
            (Bound::Spills, moved / words.copied_per_cycle + spilled * words.spill_cycles),
            (Bound::SpillChain, spill_chain * words.spill_latency_cycles),
            (Bound::StateChain, state_chain),
            (Bound::Window, chain * instructions / words.window),
            (Bound::Tables, lookups * lookup_cycles.copied().unwrap_or(0.0)),
            (Bound::Issue, 1.0),
        ],
    );
    Pass {
        cycles_per_byte: turn / f64::from(unit * words.word_bytes),
        bound,
        start_cycles: words.pass_cycles + words.state_cycles * in_registers,
        writes,
    }
}

/// Registers that are left when the unit, a constant and what spilling needs have theirs.
fn registers_for_state(words: &Words, functions: &[Function], unit: u32) -> u32 {
    let is_vector = !words.name.starts_with("scalar");
    let constant = is_vector && functions.iter().any(|f| f.changes() > 0);
    let left = words.registers.saturating_sub(unit + u32::from(constant));
    let state: u32 = functions.iter().map(|f| f.state_words).sum();
    let spare = is_vector && state > left || functions.iter().any(|f| f.lookups > 0);
    left.saturating_sub(spare.into())
}

/// Calibrated stages.
fn stages(machine: &Machine, names: &[String], level: &str) -> Result<Work, Error> {
    let find = |name: &String| -> Result<&Stage, Error> {
        let known = || machine.stages.iter().filter(|stage| stage.level == level);
        known().find(|stage| stage.name == *name).ok_or_else(|| Error::NoStage {
            stage: name.clone(),
            level: level.to_owned(),
            known: known().map(|stage| stage.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    let found: Vec<_> = names.iter().map(find).collect::<Result<_, _>>()?;
    let copy = find(&"copy".to_owned())?;
    let first = found.first().ok_or(Error::NoFunctions)?;
    let joined: f64 = found.iter().map(|stage| stage.joined_cycles_per_byte).sum();
    let writes = found.iter().any(|stage| stage.writes);
    let (cycles_per_byte, bound) = together(
        SHARPNESS,
        &[
            (Bound::Message, copy.alone_cycles_per_byte),
            (Bound::Stages, if found.len() == 1 { first.alone_cycles_per_byte } else { joined }),
        ],
    );
    let start = found.iter().map(|stage| stage.pass_cycles).fold(0.0, f64::max);
    let fused = Pass { cycles_per_byte, bound, start_cycles: start, writes };
    let alone = |stage: &Stage| Pass {
        cycles_per_byte: stage.alone_cycles_per_byte,
        bound: Bound::Stages,
        start_cycles: stage.pass_cycles,
        writes: stage.writes,
    };
    let apart = found.iter().map(|stage| alone(stage)).collect();
    let call_cycles = found.iter().map(|stage| stage.call_cycles).fold(0.0, f64::max);
    Ok(Work { fused, apart, call_cycles, copied: Some(alone(copy)) })
}
