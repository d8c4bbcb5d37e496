//! What a loop over words costs: programs of known shape, and the parameters under which the model
//! comes nearest to all of them.

use fusewire_model::machine::{Machine, Words};
use fusewire_model::{Cache, Function, Implementation, Pipeline, predict};
use fusewire_synthetic::Lanes;

use crate::arena::Arena;
use crate::fit::fit;
use crate::runner::{Made, Runner};
use crate::timing::{Clock, Times, turn};
use crate::{Effort, Error};

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
        vec![f(r + 2, 0, 1)],
        vec![f(r + 7, 0, 1)],
        vec![f(r + 20, 0, 1)],
        vec![f(3 * r, 0, 1)],
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

/// Measures each kind of word that this machine has.
pub(crate) fn measure(
    machine: &mut Machine,
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
    says: &mut dyn FnMut(&str, f64),
) -> Result<(), Error> {
    let all: Vec<_> = Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()).collect();
    for (i, lanes) in all.iter().enumerate() {
        says(lanes.name(), i as f64 / all.len() as f64);
        let mut words = measure_lanes(machine, *lanes, arena, clock, effort)?;
        if lanes.is_scalar() {
            words.lookup_cycles = lookups(machine, &words, *lanes, arena, clock, effort)?;
        }
        machine.words.push(words);
    }
    Ok(())
}

/// A program, a size and what it took, in cycles.
struct Sample {
    pipeline: Pipeline,
    bytes: usize,
    cycles: f64,
}

fn measure_lanes(
    machine: &Machine,
    lanes: Lanes,
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
) -> Result<Words, Error> {
    let shapes = shapes(lanes.name(), lanes.registers() as u32);
    let samples = samples(lanes, &shapes, &SIZES, arena, clock, effort)?;
    let mut candidate = Machine { words: vec![first_guess(lanes)], ..machine.clone() };
    let found = fit(&values(&candidate.words[0]), &mut |values| {
        set_values(&mut candidate.words[0], values);
        loss(&candidate, &samples)
    });
    let mut words = first_guess(lanes);
    set_values(&mut words, &found);
    Ok(words)
}

fn samples(
    lanes: Lanes,
    shapes: &[Vec<Function>],
    sizes: &[usize],
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
) -> Result<Vec<Sample>, Error> {
    let mut made: Vec<_> =
        shapes.iter().map(|shape| Made::new(lanes, shape)).collect::<Result<_, _>>()?;
    let mut times = vec![Times::default(); made.len() * sizes.len()];
    for _ in 0..effort.rounds {
        for (i, program) in made.iter_mut().enumerate() {
            for (j, size) in sizes.iter().enumerate() {
                let ns_per_cycle = clock.quiet();
                let ns = turn(effort.turn, || {
                    program.run(Implementation::Integrated, arena.warm(*size));
                });
                times[i * sizes.len() + j].add(ns / ns_per_cycle);
            }
        }
    }
    let mut samples = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        for (j, bytes) in sizes.iter().enumerate() {
            samples.push(Sample {
                pipeline: Pipeline::Functions(shape.clone()),
                bytes: *bytes,
                cycles: times[i * sizes.len() + j].undisturbed(),
            });
        }
    }
    Ok(samples)
}

/// Squared logarithms of ratios; infinite where the parameters are absurd.
fn loss(machine: &Machine, samples: &[Sample]) -> f64 {
    let mut sum = 0.0;
    for sample in samples {
        let bytes = sample.bytes as f64;
        match predict(machine, &sample.pipeline, bytes, Cache::Warm, Implementation::Integrated) {
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
        spill_cycles: 0.7,
        spill_latency_cycles: 8.0,
        window: 240.0,
        pass_cycles: 20.0,
        state_cycles: 1.0,
        lookup_cycles: vec![0.0],
    }
}

fn values(words: &Words) -> [f64; 8] {
    [
        words.issue_per_cycle,
        words.compute_per_cycle,
        words.copied_per_cycle,
        words.spill_cycles,
        words.spill_latency_cycles,
        words.window,
        words.pass_cycles,
        words.state_cycles,
    ]
}

fn set_values(words: &mut Words, values: &[f64]) {
    if let [issue, compute, copied, spill, latency, window, pass, state] = *values {
        words.issue_per_cycle = issue;
        words.compute_per_cycle = compute;
        words.copied_per_cycle = copied;
        words.spill_cycles = spill;
        words.spill_latency_cycles = latency;
        words.window = window;
        words.pass_cycles = pass;
        words.state_cycles = state;
    }
}

/// What a look-up costs beyond its instructions, its table being in each place but memory.
fn lookups(
    machine: &Machine,
    words: &Words,
    lanes: Lanes,
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
) -> Result<Vec<f64>, Error> {
    const LOOKUPS: u32 = 4;
    let mut found = Vec::new();
    for place in &machine.places[..machine.places.len() - 1] {
        // Larger than the place before, well within this one.
        let table_bytes = ((place.bytes * 0.6) as u32).next_power_of_two() / 2;
        let table_bytes = table_bytes.min(4 << 20);
        let shape = Function { lookups: LOOKUPS, table_bytes, ..function(lanes.name(), 0, 2, 1) };
        let samples = samples(lanes, &[vec![shape]], &[4096], arena, clock, effort)?;
        let turns = 4096.0 / lanes.word_bytes() as f64;
        let without = Machine { words: vec![words.clone()], ..machine.clone() };
        let loss_free = samples.iter().map(|sample| {
            let said = predict(
                &without,
                &sample.pipeline,
                4096.0,
                Cache::Warm,
                Implementation::Integrated,
            )?;
            Ok::<_, Error>((sample.cycles, said.cycles))
        });
        for pair in loss_free {
            let (took, said) = pair?;
            let more = took > said * 1.05;
            found.push(if more { took / turns / f64::from(LOOKUPS) } else { 0.0 });
        }
    }
    Ok(found)
}
