//! What a loop over words costs: programs of known shape, and the parameters under which the model
//! comes nearest to all of them.

use fusewire_model::machine::{Machine, Place, Words};
use fusewire_model::{Cache, Function, Implementation, Pipeline, predict};
use fusewire_synthetic::Lanes;

use crate::Error;
use crate::fit::fit;
use crate::plan::{Plan, Task};
use crate::runner::{Made, Runner};
use crate::timing::turn;

/// Sizes of message, whole units of every program: pass and turn can be told apart, and all lie in the
/// first-level cache.
const SIZES: [usize; 3] = [512, 1024, 6144];

fn function(words: &str, state: u32, instructions: u32, block: u32) -> Function {
    Function {
        words: words.to_owned(),
        state_words: state,
        instructions,
        block_words: block,
        writes: true,
        lookups: 0,
        table_bytes: 0,
    }
}

/// Programs that each ask for one thing more than for others.
fn shapes(words: &str, registers: u32) -> Vec<Vec<Function>> {
    let f = |state, instructions, block| function(words, state, instructions, block);
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
    /// With so many words of state that find no register.
    spills: Vec<(u32, [Planned; 2])>,
    /// With tables in each place but memory.
    lookups: Vec<Planned>,
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

/// Look-ups on a word of the programs that measure them.
const LOOKUPS: u32 = 4;
/// Bytes of message of these.
const LOOKUP_BYTES: usize = 4096;

/// Words of state that find no register.
const SPILLED: [u32; 9] = [1, 2, 4, 7, 12, 20, 32, 56, 100];
/// Bytes of message of these.
const SPILL_BYTES: [usize; 2] = [1024, 6144];

pub(crate) fn tasks(places: &[Place], plan: &mut Plan) -> Result<Tasks, Error> {
    let mut all = Vec::new();
    for lanes in Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()) {
        let mut samples = Vec::new();
        for shape in shapes(lanes.name(), lanes.registers() as u32) {
            for bytes in SIZES {
                samples.push(planned(plan, lanes, &shape, bytes)?);
            }
        }
        let mut spills = Vec::new();
        for count in SPILLED {
            let state = state_registers(lanes) + count;
            let shape = [function(lanes.name(), state, 0, 1)];
            let [short, long] = SPILL_BYTES;
            let both = [planned(plan, lanes, &shape, short)?, planned(plan, lanes, &shape, long)?];
            spills.push((count, both));
        }
        let mut lookups = Vec::new();
        if lanes.is_scalar() {
            for place in &places[..places.len() - 1] {
                // Larger than the place before, well within this one.
                let table_bytes = ((place.bytes * 0.6) as u32).next_power_of_two() / 2;
                let table_bytes = table_bytes.min(4 << 20);
                let shape =
                    Function { lookups: LOOKUPS, table_bytes, ..function(lanes.name(), 0, 2, 1) };
                lookups.push(planned(plan, lanes, &[shape], LOOKUP_BYTES)?);
            }
        }
        all.push(OfLanes { lanes, samples, spills, lookups });
    }
    Ok(Tasks(all))
}

fn planned(
    plan: &mut Plan,
    lanes: Lanes,
    shape: &[Function],
    bytes: usize,
) -> Result<Planned, Error> {
    let mut made = Made::new(lanes, shape)?;
    let task = plan.add(move |arena, length| {
        turn(length, || made.run(Implementation::Integrated, arena.warm(bytes)))
    });
    Ok(Planned { pipeline: Pipeline::Functions(shape.to_vec()), bytes, task })
}

/// The parameters under which the model comes nearest to all.
pub(crate) fn evaluate(tasks: &Tasks, plan: &Plan, machine: &mut Machine) -> Result<(), Error> {
    for of in &tasks.0 {
        let sample = |planned| Sample::new(planned, plan);
        let samples: Vec<_> = of.samples.iter().map(sample).collect();
        let mut guess = first_guess(of.lanes);
        guess.spills = spills(of, plan);
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
            words.lookup_cycles = lookups(&candidate, of, plan)?;
        }
        machine.words.push(words);
    }
    Ok(())
}

/// Registers that one function of one word a block has for its state, as the model counts them.
fn state_registers(lanes: Lanes) -> u32 {
    lanes.registers() as u32 - 1 - u32::from(!lanes.is_scalar())
}

/// Cycles of a turn, the start of the pass aside.
fn spills(of: &OfLanes, plan: &Plan) -> Vec<(u32, f64)> {
    let [short, long] = SPILL_BYTES;
    let turns = ((long - short) / of.lanes.word_bytes()) as f64;
    let cycles = |both: &[Planned; 2]| {
        let [short, long] = both.each_ref().map(|planned| plan.undisturbed(&planned.task));
        ((long - short) / turns).max(0.1)
    };
    of.spills.iter().map(|(count, both)| (*count, cycles(both))).collect()
}

impl<'a> Sample<'a> {
    fn new(planned: &'a Planned, plan: &Plan) -> Sample<'a> {
        let cycles = plan.undisturbed(&planned.task);
        Sample { pipeline: &planned.pipeline, bytes: planned.bytes, cycles }
    }
}

/// What a look-up costs beyond its instructions, its table being in each place but memory.
fn lookups(machine: &Machine, of: &OfLanes, plan: &Plan) -> Result<Vec<f64>, Error> {
    let turns = LOOKUP_BYTES as f64 / of.lanes.word_bytes() as f64;
    let mut found = Vec::new();
    for planned in &of.lookups {
        let Sample { pipeline, bytes, cycles } = Sample::new(planned, plan);
        let bytes = bytes as f64;
        let said = predict(machine, pipeline, bytes, Cache::Warm, Implementation::Integrated)?;
        let more = cycles > said.cycles * 1.05;
        found.push(if more { cycles / turns / f64::from(LOOKUPS) } else { 0.0 });
    }
    Ok(found)
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
        spills: vec![(1, 8.0)],
        window: 240.0,
        pass_cycles: 20.0,
        state_cycles: 1.0,
        lookup_cycles: vec![0.0],
    }
}

fn values(words: &Words) -> [f64; 6] {
    [
        words.issue_per_cycle,
        words.compute_per_cycle,
        words.copied_per_cycle,
        words.window,
        words.pass_cycles,
        words.state_cycles,
    ]
}

fn set_values(words: &mut Words, values: &[f64]) {
    if let [issue, compute, copied, window, pass, state] = *values {
        words.issue_per_cycle = issue;
        words.compute_per_cycle = compute;
        words.copied_per_cycle = copied;
        words.window = window;
        words.pass_cycles = pass;
        words.state_cycles = state;
    }
}
