//! Cache levels and memory: how large, how fast, how far.

use fusewire_model::machine::{Machine, Place};
use fusewire_model::{Cache, Implementation, Pipeline, predict};
use fusewire_synthetic::{Function, Lanes, Program};

use crate::arena::{Arena, MESSAGE_MAX, Places};
use crate::fit::fit;
use crate::runner::{Made, Runner};
use crate::timing::{Clock, Times, cold_turn, turn};
use crate::{Effort, Error};

/// The levels that Linux reports, or usual ones, and memory.
pub(crate) fn sizes() -> Vec<Place> {
    let mut found: Vec<(String, f64)> = (0..8).filter_map(reported).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    if found.is_empty() {
        found = [("L1", 32 << 10), ("L2", 1 << 20), ("L3", 16 << 20)]
            .map(|(name, bytes)| (name.to_owned(), f64::from(bytes)))
            .to_vec();
    }
    found.push(("memory".to_owned(), 1e15));
    let place = |(name, bytes)| Place {
        name,
        bytes,
        read_cycles_per_byte: 0.0,
        write_cycles_per_byte: 0.0,
        copy_cycles_per_byte: 0.0,
        update_cycles_per_byte: 0.0,
        latency_cycles: 0.0,
        start_cycles: 0.0,
        overlap: 6.0,
    };
    found.into_iter().map(place).collect()
}

fn reported(index: u32) -> Option<(String, f64)> {
    let read = |what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    };
    if read("type")? == "Instruction" {
        return None;
    }
    let size = read("size")?;
    let kib: f64 = size.strip_suffix('K')?.parse().ok()?;
    Some((format!("L{}", read("level")?), kib * 1024.0))
}

/// What is done to a message's bytes.
struct Moves {
    copy: Program,
    read: Program,
}

impl Moves {
    /// With the widest words that are no burden to the clock.
    fn new() -> Result<Moves, Error> {
        let lanes = if Lanes::Avx2.is_available() { Lanes::Avx2 } else { Lanes::Scalar64 };
        let read = Function { writes: false, ..Function::new(4, 4, 4) };
        Ok(Moves {
            copy: Program::new(lanes, &[Function::new(0, 0, 4)])?,
            read: Program::new(lanes, &[read])?,
        })
    }

    fn run(&mut self, what: What, places: Places<'_>) {
        let done = match what {
            What::Read => self.read.read(places.src),
            What::Copy => self.copy.run(places.src, places.dst),
            What::Update => self.copy.run_in_place(places.dst),
            What::Write => {
                places.dst.fill(1);
                Ok(())
            }
        };
        assert!(done.is_ok(), "messages have whole units");
    }
}

#[derive(Clone, Copy)]
enum What {
    Read,
    Write,
    Copy,
    Update,
}

const ALL: [What; 4] = [What::Read, What::Write, What::Copy, What::Update];

/// Fills in what was not known.
pub(crate) fn measure(
    machine: &mut Machine,
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
) -> Result<(), Error> {
    let mut moves = Moves::new()?;
    let last = machine.places.len() - 1;
    let lens: Vec<usize> =
        machine.places[..last].iter().map(|place| message(place.bytes)).collect();
    let mut times = vec![[(); 4].map(|()| Times::default()); last];
    for _ in 0..effort.rounds {
        for (times, len) in times.iter_mut().zip(&lens) {
            for (what, times) in ALL.into_iter().zip(times) {
                let ns_per_cycle = clock.quiet();
                let ns = turn(effort.turn, || moves.run(what, arena.warm(*len)));
                times.add(ns / ns_per_cycle);
            }
        }
    }
    let ns_per_cycle = machine.ns_per_cycle;
    for ((place, times), len) in machine.places.iter_mut().zip(&mut times).zip(&lens) {
        let per_byte = times.each_mut().map(|t| t.undisturbed() / *len as f64);
        set(place, per_byte);
        place.latency_cycles = latency(message(place.bytes)) / ns_per_cycle;
    }
    memory(machine, &mut moves, arena, clock, effort);
    Ok(())
}

/// A message that with its place is well within so many bytes, and beyond a level an eighth as large.
fn message(bytes: f64) -> usize {
    ((bytes * 0.3) as usize / 4096 * 4096).clamp(4096, MESSAGE_MAX)
}

fn set(place: &mut Place, [read, write, copy, update]: [f64; 4]) {
    place.read_cycles_per_byte = read;
    place.write_cycles_per_byte = write;
    place.copy_cycles_per_byte = copy;
    place.update_cycles_per_byte = update;
}

/// Memory: short and long messages, so that what each byte costs and what the first costs part.
fn memory(
    machine: &mut Machine,
    moves: &mut Moves,
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
) {
    const SHORT: usize = 1024;
    const LONG: usize = 128 << 10;
    let mut times = [(); 4].map(|()| [Times::default(), Times::default()]);
    for _ in 0..effort.rounds {
        for (what, times) in ALL.into_iter().zip(&mut times) {
            let ns_per_cycle = clock.quiet();
            let short = cold_turn(16, || moves.run(what, arena.cold(SHORT)));
            times[0].add(short / ns_per_cycle);
            let long = cold_turn(2, || moves.run(what, arena.cold(LONG)));
            times[1].add(long / ns_per_cycle);
        }
    }
    let ns_per_cycle = machine.ns_per_cycle;
    let pairs = times.each_mut().map(|[short, long]| {
        let [short, long] = [short, long].map(Times::typical);
        let per_byte = ((long - short) / (LONG - SHORT) as f64).max(0.0);
        (per_byte, (short - SHORT as f64 * per_byte).max(0.0))
    });
    let latency_cycles = latency(arena.len().min(256 << 20)) / ns_per_cycle;
    if let Some(place) = machine.places.last_mut() {
        set(place, pairs.map(|(per_byte, _)| per_byte));
        place.start_cycles = pairs[2].1;
        place.latency_cycles = latency_cycles;
    }
}

/// How well work goes on while bytes come: passes with as much work as transfer, half and twice.
pub(crate) fn overlaps(
    machine: &mut Machine,
    arena: &mut Arena,
    clock: &mut Clock,
    effort: Effort,
) -> Result<(), Error> {
    const WORDS: &str = "scalar64";
    let function = |instructions| fusewire_model::Function {
        words: WORDS.to_owned(),
        state_words: 2,
        instructions,
        block_words: 8,
        writes: true,
        lookups: 0,
        table_bytes: 0,
    };
    let last = machine.places.len() - 1;
    for index in 1..=last {
        let (is_cold, len) = match index == last {
            true => (true, 32 << 10),
            false => (false, message(machine.places[index].bytes).min(1 << 20)),
        };
        let cache = if is_cold { Cache::Cold } else { Cache::Warm };
        let mut samples = Vec::new();
        for instructions in [2, 16, 48, 96, 160] {
            let shape = [function(instructions)];
            let mut made = Made::new(Lanes::Scalar64, &shape)?;
            let mut times = Times::default();
            for _ in 0..effort.rounds {
                let ns_per_cycle = clock.quiet();
                let mut run = |places: Places<'_>| made.run(Implementation::Integrated, places);
                let ns = if is_cold {
                    cold_turn(4, || run(arena.cold(len)))
                } else {
                    turn(effort.turn, || run(arena.warm(len)))
                };
                times.add(ns / ns_per_cycle);
            }
            let cycles = if is_cold { times.typical() } else { times.undisturbed() };
            samples.push((Pipeline::Functions(shape.to_vec()), cycles));
        }
        let mut candidate = machine.clone();
        let found = fit(&[3.0], &mut |values| {
            candidate.places[index].overlap = values[0].clamp(1.0, 20.0);
            let ratio = |(pipeline, cycles): &(Pipeline, f64)| {
                predict(&candidate, pipeline, len as f64, cache, Implementation::Integrated)
                    .map_or(f64::INFINITY, |said| (said.cycles / cycles).ln().powi(2))
            };
            samples.iter().map(ratio).sum()
        });
        machine.places[index].overlap = found[0].clamp(1.0, 20.0);
    }
    Ok(())
}

/// ns from a load to the next that depends on it, over so many bytes.
fn latency(bytes: usize) -> f64 {
    const LINE: usize = 64 / 4;
    let lines = (bytes / 64).max(64);
    let mut next = vec![0u32; lines * LINE];
    // A full cycle through all lines: steps of a generator whose period is their number.
    let lines = lines.next_power_of_two() / 2;
    for i in 0..lines {
        let to = (i.wrapping_mul(1_664_525 / 4 * 4 + 5) + 1_013_904_223) % lines;
        next[i * LINE] = (to * LINE) as u32;
    }
    let mut times = Times::default();
    let mut at = 0;
    for _ in 0..20 {
        let steps = 2000;
        times.add(
            cold_turn(1, || {
                for _ in 0..steps {
                    at = next[at as usize];
                }
                at = std::hint::black_box(at);
            }) / f64::from(steps),
        );
    }
    times.undisturbed()
}
