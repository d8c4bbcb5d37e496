//! What a loop over words costs: programs of known shape, and the parameters under which the model
//! comes nearest to all of them.

use fusewire_model::machine::{Lookup, Machine, Words};
use fusewire_model::predict::touched;
use fusewire_model::{Cache, Function, Implementation, Pipeline, predict};
use fusewire_synthetic::Lanes;

use crate::Error;
use crate::measure::arena::Places;
use crate::measure::fit::fit;
use crate::measure::plan::{Plan, Task};
use crate::measure::runner::{Runner, synthetic};
use crate::measure::runs;
use crate::measure::timing::turn;

/// Sizes of message, whole units of every program, which all lie in the first-level cache.
const SIZES: [usize; 2] = [1024, 6144];

/// Programs that each ask for one thing more than for others.
fn shapes(words: &str, registers: u32) -> Vec<Vec<Function>> {
    let f = |state, instructions, block| Function::new(words, state, instructions, block);
    let reads =
        |state, instructions, block| Function { writes: false, ..f(state, instructions, block) };
    let r = registers;
    vec![
        vec![f(0, 0, 1)],
        vec![f(0, 0, 2)],
        vec![f(0, 0, 8)],
        vec![f(0, 16, 8)],
        vec![f(0, 64, 8)],
        vec![f(0, 24, 4)],
        vec![f(0, 5, 1)],
        vec![f(0, 24, 1)],
        vec![f(0, 80, 1)],
        vec![f(0, 160, 1)],
        vec![f(0, 96, 2)],
        vec![f(2, 2, 1)],
        vec![f(5, 5, 1)],
        vec![f(r / 2, 2, 1)],
        vec![f(5, 30, 4)],
        vec![f(r + 9, 0, 4)],
        vec![f(3 * r, 60, 8)],
        vec![f(r + 4, 0, 1), f(0, 8, 4)],
        vec![f(r + 9, 0, 1), f(0, 24, 1)],
        vec![f(0, 12, 1), f(r + 9, 0, 1)],
        vec![f(0, 24, 1), f(r + 4, 0, 1)],
        vec![f(1, 12, 1), f(r + 14, 6, 1)],
        vec![f(3, 6, 2); 4],
        vec![f(2, 7, 1); 3],
        vec![f(9, 9, 1); 5],
        vec![reads(2, 2, 1)],
        vec![reads(5, 5, 1)],
        vec![reads(4, 12, 4)],
        vec![reads(r + 6, 0, 2)],
    ]
}

/// What is measured of words.
pub(crate) struct Tasks(Vec<OfLanes>);

struct OfLanes {
    lanes: Lanes,
    samples: Vec<Planned>,
    /// Additions that each wait for the one before.
    chained: [Planned; 2],
    /// The same to words of state that find no register, so many a turn.
    stored: Vec<(u32, [Planned; 2])>,
    /// With so many words of state that find no register.
    spills: Vec<(u32, [Planned; 2])>,
    runs: Vec<runs::Measured>,
    lookups: Vec<OfTable>,
}

/// Look-ups in a table of this size.
struct OfTable {
    table_bytes: u32,
    /// That do not wait for each other.
    apart: Planned,
    /// That do.
    chains: [Planned; 2],
    /// So many of them on a word that nothing but the chain counts.
    long: [Planned; 2],
}

struct Planned {
    pipeline: Pipeline,
    bytes: usize,
    task: Task,
}

/// A program, a size and what it took, in cycles.
struct Sample<'a> {
    pipeline: &'a Pipeline,
    bytes: usize,
    cycles: f64,
}

/// Words of a block whose look-ups do not wait for each other, and look-ups on it.
const APART: (u32, u32) = (8, 16);
/// A look-up is not as many instructions.
const WAITS_MAX: f64 = 20.0;
/// Look-ups on a word, each of which waits for the one before.
const CHAINS: [u32; 2] = [4, 8];
/// Bytes of message of these.
const LOOKUP_BYTES: usize = 4096;
/// The same, more than the processor looks ahead: the difference is of the chain alone. With fewer words they are as many.
const LONG: [u32; 2] = [256, 512];
/// Of a table up to this size they touch most.
const TABLE_TOUCHED: u32 = 256 << 10;
/// Bytes of their tables.
const TABLES: [u32; 8] =
    [4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20];

/// Additions to one word of state in a turn: more than all else that the turn asks for, where each waits for the one
/// before.
pub(super) const CHAINED: u32 = 24;
/// Additions a turn to two words of state that find no register, each of which waits for the one before to its word.
const STORED: [u32; 5] = [4, 8, 16, 32, 64];
/// Words of state that find no register.
const SPILLED: [u32; 9] = [1, 2, 4, 7, 12, 20, 32, 56, 100];
/// Bytes of message of these and of what is chained: the difference is of turns alone.
const TWO_BYTES: [usize; 2] = [1024, 6144];

pub(crate) fn tasks(plan: &mut Plan) -> Result<Tasks, Error> {
    let mut all = Vec::new();
    for lanes in Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()) {
        let mut samples = Vec::new();
        for shape in shapes(lanes.name(), lanes.registers() as u32) {
            for bytes in SIZES {
                samples.push(planned(plan, lanes, &shape, bytes)?);
            }
        }
        let mut both = |shape: &[Function]| -> Result<[Planned; 2], Error> {
            let [short, long] = TWO_BYTES;
            Ok([planned(plan, lanes, shape, short)?, planned(plan, lanes, shape, long)?])
        };
        let reads = Function { writes: false, ..Function::new(lanes.name(), 1, CHAINED, 1) };
        let chained = both(&[reads])?;
        let mut stored = Vec::new();
        for count in STORED {
            let registers = Function::new(lanes.name(), state_registers(lanes), 0, 1);
            let reads = Function { writes: false, ..Function::new(lanes.name(), 2, count, 1) };
            stored.push((count, both(&[registers, reads])?));
        }
        let mut spills = Vec::new();
        // One word of state more than there are registers is two in memory, where one works for those that are there.
        for count in SPILLED.into_iter().filter(|count| lanes.is_scalar() || *count > 1) {
            let state = state_registers(lanes) + count;
            spills.push((count, both(&[Function::new(lanes.name(), state, 0, 1)])?));
        }
        let mut lookups = Vec::new();
        if lanes.is_scalar() {
            for table_bytes in TABLES {
                let shape = |state, instructions, block, lookups| {
                    let function = Function::new(lanes.name(), state, instructions, block);
                    [Function { lookups, table_bytes, ..function }]
                };
                // Something follows from most look-ups.
                let [short, long] = CHAINS.map(|lookups| shape(1, 4, 1, lookups));
                let apart = shape(0, 0, APART.0, APART.1);
                let few = LOOKUP_BYTES * CHAINS[1] as usize / LONG[1] as usize;
                let [half, whole] = LONG.map(|lookups| shape(0, 0, 1, lookups));
                let mut planned = |shape, bytes| planned(plan, lanes, shape, bytes);
                lookups.push(OfTable {
                    table_bytes,
                    apart: planned(&apart, LOOKUP_BYTES)?,
                    chains: [planned(&short, LOOKUP_BYTES)?, planned(&long, LOOKUP_BYTES)?],
                    long: [planned(&half, few)?, planned(&whole, few)?],
                });
            }
        }
        let runs = runs::tasks(plan, lanes)?;
        all.push(OfLanes { lanes, samples, chained, stored, spills, runs, lookups });
    }
    Ok(Tasks(all))
}

fn planned(
    plan: &mut Plan,
    lanes: Lanes,
    shape: &[Function],
    bytes: usize,
) -> Result<Planned, Error> {
    let mut passes = synthetic(lanes, shape)?;
    let task = plan.add(move |arena, length| {
        let Places { src, dst, work } = arena.warm(bytes);
        turn(length, || passes.run(src, dst, work, Implementation::Integrated))
    });
    Ok(Planned { pipeline: Pipeline::Functions(shape.to_vec()), bytes, task })
}

/// The parameters under which the model comes nearest to all.
pub(crate) fn evaluate(tasks: &Tasks, plan: &Plan, machine: &mut Machine) -> Result<(), Error> {
    for of in &tasks.0 {
        let sample = |planned| Sample::new(planned, plan);
        let samples: Vec<_> = of.samples.iter().map(sample).collect();
        let mut guess = first_guess(of.lanes);
        guess.chained_cycles = turn_cycles(of, &of.chained, plan) / f64::from(CHAINED);
        guess.stored = of
            .stored
            .iter()
            .map(|(count, both)| (*count, turn_cycles(of, both, plan) / f64::from(count / 2)))
            .collect();
        guess.spills = spills(of, plan);
        guess.runs = of.runs.iter().map(|run| run.evaluate(guess.chained_cycles, plan)).collect();
        let mut candidate = machine.clone();
        // Absurd yet, and not asked for what lies in the first-level cache.
        candidate.words = vec![guess.clone()];
        let found = fit(&values(&guess), &mut |values| {
            set_values(&mut candidate.words[0], values);
            loss(&candidate, &samples)
        });
        let mut words = guess;
        set_values(&mut words, &found);
        if !of.lookups.is_empty() {
            candidate.words = vec![words.clone()];
            words.lookups = lookups(&candidate, of, plan)?;
        }
        machine.words.push(words);
    }
    Ok(())
}

/// Registers that one function of one word a block has for its state, as the model counts them.
pub(crate) fn state_registers(lanes: Lanes) -> u32 {
    lanes.registers() as u32 - 1 - u32::from(!lanes.is_scalar())
}

/// Cycles of a turn of one word, the start of the pass aside.
fn turn_cycles(of: &OfLanes, both: &[Planned; 2], plan: &Plan) -> f64 {
    let [short, long] = TWO_BYTES;
    let turns = ((long - short) / of.lanes.word_bytes()) as f64;
    let [short, long] = both.each_ref().map(|planned| plan.undisturbed(&planned.task));
    ((long - short) / turns).max(0.1)
}

fn spills(of: &OfLanes, plan: &Plan) -> Vec<(u32, f64)> {
    of.spills.iter().map(|(count, both)| (*count, turn_cycles(of, both, plan))).collect()
}

impl<'a> Sample<'a> {
    fn new(planned: &'a Planned, plan: &Plan) -> Sample<'a> {
        let cycles = plan.undisturbed(&planned.task);
        Sample { pipeline: &planned.pipeline, bytes: planned.bytes, cycles }
    }
}

/// What look-ups cost beyond their instructions: cycles that, joined with all other demands of a turn, give what was
/// measured.
fn lookups(machine: &Machine, of: &OfLanes, plan: &Plan) -> Result<Vec<Lookup>, Error> {
    let mut machine = machine.clone();
    let mut found = Vec::new();
    for of_table in &of.lookups {
        let words = LOOKUP_BYTES as f64 / of.lanes.word_bytes() as f64;
        let table = f64::from(of_table.table_bytes);
        // Of a large table the message touches a small part, but as many pages as there are.
        let table_bytes = match of_table.table_bytes <= TABLE_TOUCHED {
            true => touched(table, words * f64::from(CHAINS[1]), Cache::Warm),
            false => table,
        };
        let apart = Sample::new(&of_table.apart, plan);
        let mut at = Lookup { table_bytes, cycles: 0.0, latency_cycles: 0.0, waits: 0.0 };
        let [short, long] = of_table.long.each_ref().map(|planned| Sample::new(planned, plan));
        let chained = long.bytes / of.lanes.word_bytes() * (LONG[1] - LONG[0]) as usize;
        at.latency_cycles = ((long.cycles - short.cycles) / chained as f64).max(1.0);
        at.cycles = least(&mut machine, 100.0, &apart, |cycles| Lookup { cycles, ..at })?;
        // A short chain says more and a long one less: what joins the demands is not quite their norm.
        let mut waits = 1.0;
        for chain in &of_table.chains {
            let (chain, lookup) = (Sample::new(chain, plan), |waits| Lookup { waits, ..at });
            waits *= least(&mut machine, WAITS_MAX, &chain, lookup)?.max(1.0);
        }
        at.waits = waits.sqrt();
        found.push(at);
    }
    Ok(found)
}

/// The least cost of a look-up with which the model says no less than was measured.
fn least(
    machine: &mut Machine,
    most: f64,
    sample: &Sample<'_>,
    lookup: impl Fn(f64) -> Lookup,
) -> Result<f64, Error> {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        machine.words[0].lookups = vec![lookup(middle)];
        let bytes = sample.bytes as f64;
        let way = Implementation::Integrated;
        let said = predict(machine, sample.pipeline, bytes, Cache::Warm, way)?;
        *(if said.cycles < sample.cycles { &mut low } else { &mut high }) = middle;
    }
    Ok(if low == 0.0 { 0.0 } else { (low + high) / 2.0 })
}

/// Squared logarithms of ratios; infinite where the parameters are absurd.
fn loss(machine: &Machine, samples: &[Sample<'_>]) -> f64 {
    let mut sum = 0.0;
    for sample in samples {
        let bytes = sample.bytes as f64;
        match predict(machine, sample.pipeline, bytes, Cache::Warm, Implementation::Integrated) {
            Ok(prediction) => sum += (prediction.cycles / sample.cycles).ln().powi(2),
            Err(_) => return f64::INFINITY,
        }
    }
    sum / samples.len() as f64
}

fn first_guess(lanes: Lanes) -> Words {
    Words {
        name: lanes.name().to_owned(),
        word_bytes: lanes.word_bytes() as u32,
        registers: lanes.registers() as u32,
        issue_per_cycle: 5.0,
        compute_per_cycle: 3.0,
        copied_per_cycle: 1.0,
        chained_cycles: 1.0,
        stored: Vec::new(),
        spills: Vec::new(),
        window: 90.0,
        runs: Vec::new(),
        lookups: Vec::new(),
    }
}

fn values(words: &Words) -> [f64; 4] {
    [words.issue_per_cycle, words.compute_per_cycle, words.copied_per_cycle, words.window]
}

fn set_values(words: &mut Words, values: &[f64]) {
    if let [issue, compute, copied, window] = *values {
        words.issue_per_cycle = issue;
        words.compute_per_cycle = compute;
        words.copied_per_cycle = copied;
        words.window = window;
    }
}
