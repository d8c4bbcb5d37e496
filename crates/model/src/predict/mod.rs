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
mod transforms;

use transfer::Overlap;

pub use functions::touched;
pub(crate) use functions::{Counts, counts, lcm_bounded};
pub(crate) use transforms::cold_cycles;

use crate::machine::{Error, Level, Machine, Moves, Place, Run};
use crate::pipeline::{Cache, Implementation, Pipeline};

/// Bytes of a strip of the blocked implementation.
pub const STRIP: f64 = 4096.0;
/// How much demands that are near the largest count: the exponent of their norm.
const SHARPNESS: f64 = 6.0;
/// Of a cache, what a message can have for itself.
const USABLE: f64 = 0.9;

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;
/// Instructions of a pass before and after its loop.
const PASS_INSTRUCTIONS: f64 = 40.0;
/// Those of a stage of `kernels` in a cycle.
const PASS_INSTRUCTIONS_PER_CYCLE: f64 = 2.0;
/// Passes over each strip that calibration measured with it in memory.
pub const STRIP_PASSES: f64 = 3.0;
/// The same where the first only reads.
pub const LEAD_PASSES: f64 = 2.0;
/// Words of state that go through memory for each line of message, as calibration measured it.
pub const SPILLED_PER_LINE: f64 = 64.0;

/// Instructions of a pass before and after its loop, with so many words of state in registers.
pub fn pass_instructions(state: f64) -> f64 {
    PASS_INSTRUCTIONS + 2.0 * state
}

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
    /// Instructions that wait for results, more than the processor keeps.
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
    if let Pipeline::DataPass { cipher, swaps, receives, level } = pipeline {
        let names = transforms::Names { cipher, swaps: *swaps, receives: *receives, level };
        return transforms::predict(machine, &names, bytes, cache, implementation);
    }
    let run = if implementation == Implementation::Blocked { bytes.min(STRIP) } else { bytes };
    let work = Work::new(machine, pipeline, bytes, run, cache)?;
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

/// Cycles of a pass in the first-level cache, by its bytes.
enum Cost {
    /// Of turns of so many bytes, of whose cycles the part behind the least is spent waiting; and what a pass of such a
    /// run takes besides.
    Turns { run: Run, unit_bytes: f64, cycles: f64, least: f64 },
    /// Of these lengths; lines lie between them, and go on behind the last.
    Points(Vec<(f64, f64)>),
}

impl Cost {
    /// Of each byte more, where there are many.
    fn per_byte(&self) -> f64 {
        match self {
            Cost::Turns { unit_bytes, cycles, .. } => cycles / unit_bytes,
            Cost::Points(points) => match points[..] {
                [.., (a, at_a), (b, at_b)] if at_b > at_a => (at_b - at_a) / (b - a),
                [.., (b, at_b)] => at_b / b,
                [] => 0.0,
            },
        }
    }

    fn of(&self, bytes: f64) -> f64 {
        let points = match self {
            Cost::Turns { run, unit_bytes, cycles, least } => {
                let turns = bytes / unit_bytes;
                let all = turns * cycles - run.filled_cycles;
                return between(&run.starts, turns) + all.max(turns * least);
            }
            Cost::Points(points) => points,
        };
        let below = points.iter().rfind(|point| point.0 <= bytes);
        match (below, points.iter().find(|point| point.0 > bytes)) {
            (Some((a, at_a)), Some((b, at_b))) => at_a + (at_b - at_a) * (bytes - a) / (b - a),
            (Some((a, at_a)), None) => at_a + self.per_byte() * (bytes - a),
            // There is no message as short among them; something is spent on the shortest.
            (None, Some((b, at_b))) => at_b * (0.5 + 0.5 * bytes / b),
            (None, None) => 0.0,
        }
    }
}

/// Between what was measured, as of the nearest before and behind it.
fn between(measured: &[(f64, f64)], x: f64) -> f64 {
    let below = measured.iter().rfind(|point| point.0 <= x);
    match (below, measured.iter().find(|point| point.0 > x)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
        (Some(one), None) | (None, Some(one)) => one.1,
        (None, None) => 0.0,
    }
}

/// How many instructions a pass runs.
enum Instructions {
    /// Of each byte; and so many words of state are brought into registers and back.
    Counted { per_byte: f64, state: f64 },
    /// So many in a cycle of the loop.
    PerCycle(f64),
}

/// One pass of a loop.
struct Pass {
    /// In the first-level cache.
    cost: Cost,
    bound: Bound,
    instructions: Instructions,
    /// Words of state that go through memory for each byte.
    spilled_per_byte: f64,
    /// Bytes of a word that its instructions work on.
    word_bytes: u32,
    writes: bool,
}

impl Pass {
    fn overlap(&self, bytes: f64) -> Overlap {
        let instructions_per_byte = match self.instructions {
            Instructions::Counted { per_byte, state } => {
                per_byte + pass_instructions(state) / bytes
            }
            Instructions::PerCycle(instructions) => {
                let looping = self.cost.per_byte();
                let before = (self.cost.of(bytes) - looping * bytes).max(0.0);
                instructions * looping + PASS_INSTRUCTIONS_PER_CYCLE * before / bytes
            }
        };
        Overlap {
            word_bytes: self.word_bytes,
            instructions_per_byte,
            cycles_per_byte: self.cost.per_byte(),
            spilled_per_byte: self.spilled_per_byte,
        }
    }
}

/// A pipeline's passes.
struct Work<'a> {
    fused: Pass,
    apart: Vec<Pass>,
    /// Cycles that each pass behind the first takes less than one alone.
    shared_cycles: f64,
    /// Stages of `kernels` run in a buffer between the passes and then bring the message to its place:
    /// the pass that does so.
    copied: Option<Pass>,
    /// Where stages of `kernels` were measured in memory.
    level: Option<&'a Level>,
}

impl<'a> Work<'a> {
    fn new(
        machine: &'a Machine,
        pipeline: &Pipeline,
        bytes: f64,
        run: f64,
        cache: Cache,
    ) -> Result<Work<'a>, Error> {
        match pipeline {
            Pipeline::Functions(functions) => {
                functions::work(machine, functions, bytes, run, cache)
            }
            Pipeline::Stages { names, level } => stages::work(machine, names, level),
            Pipeline::DataPass { .. } => Err(Error::NoFunctions),
        }
    }

    fn whole(
        &self,
        machine: &Machine,
        bytes: f64,
        cache: Cache,
        implementation: Implementation,
    ) -> Prediction {
        let mut sum = Total::default();
        match implementation {
            Implementation::Integrated => {
                // A message and its place; what only reads has no place.
                let footprint = bytes * if self.fused.writes { 2.0 } else { 1.0 };
                let moves = if self.fused.writes { Moves::Copy } else { Moves::Read };
                let place = from(machine, footprint, cache);
                sum.work(&self.fused, bytes, self.fused.cost.of(bytes));
                let more = self.far(implementation, bytes, cache, &sum).unwrap_or_else(|| {
                    machine.places[place].beyond(moves, bytes, &self.fused.overlap(bytes))
                });
                sum.add(Bound::Transfer, bytes * more);
            }
            // Of one strip, and without a buffer between the passes, it is the same.
            Implementation::Sequential if self.copied.is_none() && bytes <= STRIP => {
                self.blocked(machine, bytes, cache, &mut sum);
            }
            Implementation::Sequential => self.sequential(machine, bytes, cache, &mut sum),
            Implementation::Blocked => self.blocked(machine, bytes, cache, &mut sum),
        }
        sum.prediction()
    }

    /// Each pass finds the message where the one before it left it.
    fn sequential(&self, machine: &Machine, bytes: f64, cache: Cache, sum: &mut Total) {
        let mut source = from(machine, bytes * 2.0, cache);
        let place = source;
        let near = nearest(machine, bytes);
        // Message or place push a part of it out.
        let buffer = nearest(machine, bytes * 2.0);
        let mut moved = false;
        sum.saved((self.apart.len() - 1) as f64 * self.shared_cycles);
        if bytes <= STRIP && self.level.is_some() {
            // So few bytes stay near but for the first pass and the last, which were measured together.
            for pass in self.apart.iter().chain(&self.copied) {
                sum.work(pass, bytes, pass.cost.of(bytes));
            }
            let more = self.far(Implementation::Sequential, bytes, cache, sum);
            sum.add(Bound::Transfer, bytes * more.unwrap_or(0.0));
            return;
        }
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
    fn blocked(&self, machine: &Machine, bytes: f64, cache: Cache, sum: &mut Total) {
        let strips = (bytes / STRIP).ceil().max(1.0);
        sum.saved((strips * self.apart.len() as f64 - 1.0) * self.shared_cycles);
        let writes = self.apart.iter().any(|pass| pass.writes);
        let copy = if writes { None } else { self.copied.as_ref() };
        for pass in self.apart.iter().chain(copy) {
            let whole = strips - 1.0;
            let cycles = whole * pass.cost.of(STRIP) + pass.cost.of(bytes - whole * STRIP);
            sum.work(pass, bytes, cycles);
        }
        let more = self.far(Implementation::Blocked, bytes, cache, sum).unwrap_or_else(|| {
            let place = &machine.places[from(machine, bytes * 2.0, cache)];
            self.beside_strips(place, bytes, writes || copy.is_some())
        });
        sum.add(Bound::Transfer, bytes * more);
    }

    /// Cycles a byte more: where a strip comes from, and what it pushes out, goes on beside all its passes.
    fn beside_strips(&self, place: &Place, bytes: f64, writes: bool) -> f64 {
        let strip = bytes.min(STRIP);
        let all =
            self.apart.iter().map(|pass| pass.overlap(strip)).reduce(|all, one| all.and(&one));
        let Some(all) = all else { return 0.0 };
        // More passes than were measured are as if each was one of those.
        let count = self.apart.len() as f64;
        if writes && !self.apart[0].writes {
            return place.beyond(Moves::Lead, bytes, &all.times((LEAD_PASSES / count).min(1.0)));
        }
        let all = all.times((STRIP_PASSES / count).min(1.0));
        let more = |moves| place.beyond(moves, bytes, &all);
        // Passes that write again what is still on its way wait for it; two of them were measured.
        match (writes, self.rewrites()) {
            (false, _) => more(Moves::Read),
            (true, 0) => more(Moves::Reread),
            (true, 1) => (more(Moves::Reread) + more(Moves::Rework)) / 2.0,
            (true, _) => more(Moves::Rework),
        }
    }

    /// Passes that write what a pass before wrote.
    fn rewrites(&self) -> usize {
        self.apart.iter().filter(|pass| pass.writes).count().saturating_sub(1)
    }

    /// Cycles a byte that stages of `kernels` take longer than near, if that was measured.
    fn far(
        &self,
        implementation: Implementation,
        bytes: f64,
        cache: Cache,
        near: &Total,
    ) -> Option<f64> {
        let level = self.level.filter(|_| cache == Cache::Cold)?;
        let rewrites = implementation != Implementation::Integrated && self.rewrites() > 0;
        level.beyond(implementation, rewrites, bytes, near.prediction().cycles / bytes)
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
struct Total {
    cycles: f64,
    saved: f64,
    largest: Option<(Bound, f64)>,
}

impl Total {
    fn add(&mut self, bound: Bound, cycles: f64) {
        self.cycles += cycles;
        if self.largest.is_none_or(|(_, most)| cycles > most) {
            self.largest = Some((bound, cycles));
        }
    }

    /// What passes one behind the other have in common.
    fn saved(&mut self, cycles: f64) {
        self.saved += cycles;
    }

    /// A pass in the first-level cache.
    fn work(&mut self, pass: &Pass, bytes: f64, cycles: f64) {
        let work = cycles.min(bytes * pass.cost.per_byte());
        self.add(pass.bound, work);
        self.add(Bound::Start, cycles - work);
    }

    /// What it takes longer for bytes that come from and go to places.
    fn transfer(
        &mut self,
        machine: &Machine,
        overlap: &Overlap,
        bytes: f64,
        moves: &[(usize, Moves)],
    ) {
        for (place, moves) in moves {
            let more = machine.places[*place].beyond(*moves, bytes, overlap);
            self.add(Bound::Transfer, bytes * more);
        }
    }

    fn pass(&mut self, machine: &Machine, pass: &Pass, bytes: f64, moves: &[(usize, Moves)]) {
        self.work(pass, bytes, pass.cost.of(bytes));
        self.transfer(machine, &pass.overlap(bytes), bytes, moves);
    }

    fn prediction(&self) -> Prediction {
        let bound = self.largest.map_or(Bound::Issue, |(bound, _)| bound);
        // No more is saved than a part: what was measured of other passes is a guess for these.
        let cycles = (self.cycles - self.saved).max(self.cycles / 2.0);
        Prediction { cycles, bound }
    }
}
