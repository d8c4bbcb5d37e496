//! From a machine and a pipeline to cycles: `docs/model.md` has the equations.
//!
//! On a processor that does several things at once the time of a loop is not the sum of what it does but
//! nearly the largest of it. Each turn of a loop asks for instructions, for computation, for words of
//! message and of spilled state to be moved; it waits for chains of results; around it bytes come from
//! where they lie. [`together`] joins such demands: the largest counts, others that are near it add a
//! little, since two queues that are both nearly full get into each other's way.

mod functions;
mod stages;
mod transfer;

pub(crate) use functions::{Counts, counts, lcm_bounded};

use crate::machine::{Error, Machine, Moves};
use crate::pipeline::{Cache, Implementation, Pipeline};

/// Bytes of a strip of the blocked implementation.
pub const STRIP: f64 = 4096.0;
/// How much demands that are near the largest count: the exponent of their norm.
const SHARPNESS: f64 = 6.0;
/// Of a cache, what a message can have for itself.
const USABLE: f64 = 0.9;

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
    /// Instructions a byte.
    instructions_per_byte: f64,
    writes: bool,
}

/// A pipeline's passes.
struct Work {
    fused: Pass,
    apart: Vec<Pass>,
    /// Cycles of a run besides its passes, however they are run.
    call_cycles: f64,
    /// Stages of the kernels run in a buffer between the passes and then bring the message to its place:
    /// the pass that does so.
    copied: Option<Pass>,
}

impl Work {
    fn new(machine: &Machine, pipeline: &Pipeline) -> Result<Work, Error> {
        match pipeline {
            Pipeline::Functions(functions) => functions::work(machine, functions),
            Pipeline::Stages { names, level } => stages::work(machine, names, level),
        }
    }

    fn whole(
        &self,
        machine: &Machine,
        bytes: f64,
        cache: Cache,
        implementation: Implementation,
    ) -> Prediction {
        let mut sum = Sum::default();
        sum.add(Bound::Start, self.call_cycles);
        match implementation {
            Implementation::Integrated => {
                // A message and its place; what only reads has no place.
                let footprint = bytes * if self.fused.writes { 2.0 } else { 1.0 };
                let moves = if self.fused.writes { Moves::Copy } else { Moves::Read };
                let place = from(machine, footprint, cache);
                sum.pass(machine, &self.fused, bytes, &[(place, moves)]);
            }
            Implementation::Sequential => self.sequential(machine, bytes, cache, &mut sum),
            Implementation::Blocked => self.blocked(machine, bytes, cache, &mut sum),
        }
        sum.prediction()
    }

    /// Each pass finds the message where the one before it left it.
    fn sequential(&self, machine: &Machine, bytes: f64, cache: Cache, sum: &mut Sum) {
        let mut source = from(machine, bytes * 2.0, cache);
        let place = source;
        let near = nearest(machine, bytes);
        // Message or place push a part of it out.
        let buffer = nearest(machine, bytes * 2.0);
        let mut moved = false;
        for pass in &self.apart {
            let moves: &[_] = match (pass.writes, moved) {
                (false, false) => &[(source, Moves::Read)],
                (false, true) => &[(near, Moves::Read)],
                (true, true) => &[(near, Moves::Update)],
                // Into the buffer between the passes, which is always the same.
                (true, false) if self.copied.is_some() => {
                    &[(source, Moves::Read), (buffer, Moves::Write)]
                }
                (true, false) if source == place => &[(place, Moves::Copy)],
                (true, false) => &[(source, Moves::Read), (place, Moves::Write)],
            };
            sum.pass(machine, pass, bytes, moves);
            moved |= pass.writes;
            if !moved {
                source = near;
            }
        }
        if let Some(pass) = &self.copied {
            sum.pass(machine, pass, bytes, &[(buffer, Moves::Read), (place, Moves::Write)]);
        }
    }

    /// The same over strips in the first-level cache, each of which comes from the message and goes to its
    /// place.
    fn blocked(&self, machine: &Machine, bytes: f64, cache: Cache, sum: &mut Sum) {
        let strips = (bytes / STRIP).ceil().max(1.0);
        let mut source = from(machine, bytes * 2.0, cache);
        let place = source;
        let mut moved = false;
        let copy =
            if self.apart.iter().any(|pass| pass.writes) { None } else { self.copied.as_ref() };
        for pass in self.apart.iter().chain(copy) {
            let moves: &[_] = match (pass.writes, moved) {
                (false, false) => &[(source, Moves::Read)],
                (_, true) => &[],
                (true, false) if source == place => &[(place, Moves::Copy)],
                (true, false) => &[(place, Moves::Write)],
            };
            sum.pass(machine, pass, bytes, moves);
            sum.add(Bound::Start, (strips - 1.0) * pass.start_cycles);
            moved |= pass.writes;
            source = 0;
        }
    }
}

/// Where a message lies before the work.
fn from(machine: &Machine, footprint: f64, cache: Cache) -> usize {
    match cache {
        Cache::Warm => nearest(machine, footprint),
        Cache::Cold => machine.places.len() - 1,
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

    /// A pass whose bytes come from and go to places.
    fn pass(&mut self, machine: &Machine, pass: &Pass, bytes: f64, moves: &[(usize, Moves)]) {
        self.add(pass.bound, bytes * pass.cycles_per_byte);
        self.add(Bound::Start, pass.start_cycles);
        for (place, moves) in moves {
            let place = &machine.places[*place];
            let more = place.beyond(*moves, bytes, pass.instructions_per_byte);
            self.add(Bound::Transfer, bytes * more);
        }
    }

    fn prediction(self) -> Prediction {
        let bound = self.largest.map_or(Bound::Issue, |(bound, _)| bound);
        Prediction { cycles: self.cycles, bound }
    }
}
