//! Cache levels and memory: how large, how fast, how far.

use fusewire_model::machine::{Beyond, Machine, Moves, Place};
use fusewire_model::predict::{LINE, SPILLED_PER_LINE, STRIP_PASSES, pass_instructions};
use fusewire_synthetic::{Function, Lanes, Passes, Program};

use crate::Error;
use crate::measure::arena::{MESSAGE_MAX, Places};
use crate::measure::caches::{Cache, caches};
use crate::measure::plan::{Plan, Task};
use crate::measure::runner::STRIP;
use crate::measure::timing::{cold_turn, far, quantile, turn};
use crate::measure::words::state_registers;

/// The levels that Linux reports, or usual ones, and memory.
pub(crate) fn sizes() -> Vec<Place> {
    let name = |cache: &Cache| cache.name.trim_end_matches('d').to_owned();
    let of_data = caches().into_iter().filter(Cache::has_data);
    let mut found: Vec<_> = of_data.map(|cache| (name(&cache), cache.bytes as f64)).collect();
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
        beyond: Vec::new(),
    };
    found.into_iter().map(place).collect()
}

/// What is measured of one place: how much longer passes take there than in the first-level cache.
pub(crate) struct Tasks {
    all: Vec<Measured>,
    memory: Task,
}

struct Measured {
    place: usize,
    moves: Moves,
    bytes: usize,
    word_bytes: usize,
    instructions_per_byte: f64,
    /// The same pass in the first-level cache, and its length.
    near: Task,
    near_bytes: usize,
    far: Task,
}

/// A loop with as much work as its place in the table wants.
struct Worker {
    lanes: Lanes,
    function: Function,
    /// What it does to messages in memory.
    cold: &'static [Moves],
}

/// From nothing but moving bytes to several times what bytes from memory take.
fn workers() -> Vec<Worker> {
    let mut all = Vec::new();
    let lanes = [Lanes::Avx512, Lanes::Avx2, Lanes::Scalar64];
    for lanes in lanes.into_iter().filter(|lanes| lanes.is_available()) {
        for (instructions, block) in [(2, 4), (8, 2), (32, 2), (100, 2)] {
            let function = Function::new(1, instructions, block);
            all.push(Worker { lanes, function, cold: &COLD_MOVES });
        }
        let spilled = SPILLED_PER_LINE as usize * lanes.word_bytes() / LINE as usize;
        let function = Function::new(state_registers(lanes) as usize + spilled, 0, 1);
        all.push(Worker { lanes, function, cold: &[Moves::Spill] });
    }
    all
}

impl Worker {
    fn function(&self, moves: Moves) -> Function {
        match moves {
            // Reading alone needs state to put what it computes.
            Moves::Read => {
                Function { writes: false, state_words: self.function.block_words, ..self.function }
            }
            _ => self.function,
        }
    }

    /// As [`fusewire_model`] counts them.
    fn instructions_per_byte(&self, moves: Moves, bytes: usize) -> f64 {
        let of_pass = |f: &Function| {
            let moved = f.block_words as f64 * if f.writes { 2.0 } else { 1.0 };
            let turn = f.steps() as f64 + moved + 2.0;
            let state = f.state_words.min(state_registers(self.lanes) as usize) as f64;
            turn / (f.block_words * self.lanes.word_bytes()) as f64
                + pass_instructions(state) / bytes.min(STRIP) as f64
        };
        self.passes(moves).iter().map(of_pass).sum()
    }

    /// One, or two or three over each strip.
    fn passes(&self, moves: Moves) -> Vec<Function> {
        let read = self.function(Moves::Read);
        match moves {
            Moves::Reread => vec![self.function, read, read],
            Moves::Rework => vec![self.function; STRIP_PASSES as usize],
            Moves::Lead => vec![read, self.function],
            _ => vec![self.function(moves)],
        }
    }
}

/// Bytes of messages that lie in memory.
const COLD: [usize; 8] = [256, 512, 1024, 2048, 4096, 8192, 32 << 10, 384 << 10];

/// What is done with them.
const COLD_MOVES: [Moves; 6] =
    [Moves::Read, Moves::Copy, Moves::Write, Moves::Reread, Moves::Rework, Moves::Lead];

/// Runs a program with its message in a place.
fn task(
    plan: &mut Plan,
    worker: &Worker,
    moves: Moves,
    bytes: usize,
    cold: bool,
) -> Result<Task, Error> {
    let function = worker.function(moves);
    let mut program = Program::new(worker.lanes, &[function])?;
    let mut passes = Passes::new(worker.lanes, &worker.passes(moves))?;
    let mut run = move |src: &[u8], dst: &mut [u8]| {
        let done = match moves {
            Moves::Reread | Moves::Rework | Moves::Lead => passes.blocked(STRIP, src, dst),
            Moves::Read => program.read(src),
            Moves::Update => program.run_in_place(dst),
            Moves::Copy | Moves::Write | Moves::Spill => program.run(src, dst),
        };
        assert!(done.is_ok(), "messages have whole units");
    };
    Ok(plan.add(move |arena, length| {
        if !cold {
            return turn(length, || {
                let Places { src, dst, .. } = arena.warm(bytes);
                run(src, dst);
            });
        }
        far(arena, bytes, |Places { src, dst, work }| {
            run(if moves == Moves::Write { work } else { src }, dst);
        })
    }))
}

pub(crate) fn tasks(places: &[Place], cold_bytes: usize, plan: &mut Plan) -> Result<Tasks, Error> {
    let mut all = Vec::new();
    let last = places.len() - 1;
    for worker in workers() {
        let mut known: Vec<(Moves, usize, Task)> = Vec::new();
        let mut add = |place, moves, bytes: usize| -> Result<(), Error> {
            // Near, a long message is told from a short one by its length alone; and what is written lies near.
            let near_bytes = if place == last { bytes.min(NEAR_MAX) } else { NEAR_MAX };
            let as_near = if moves == Moves::Write { Moves::Copy } else { moves };
            let same = known.iter().find(|known| (known.0, known.1) == (as_near, near_bytes));
            let near = match same {
                Some((.., near)) => *near,
                None => {
                    let near = task(plan, &worker, as_near, near_bytes, false)?;
                    known.push((as_near, near_bytes, near));
                    near
                }
            };
            all.push(Measured {
                place,
                moves,
                bytes,
                word_bytes: worker.lanes.word_bytes(),
                instructions_per_byte: worker.instructions_per_byte(moves, bytes),
                near,
                near_bytes,
                far: task(plan, &worker, moves, bytes, place == last)?,
            });
            Ok(())
        };
        let levels = if worker.cold.contains(&Moves::Copy) { &places[..last] } else { &[] };
        for (index, pair) in levels.windows(2).enumerate() {
            for bytes in messages(pair[0].bytes, pair[1].bytes) {
                for moves in [Moves::Read, Moves::Copy, Moves::Update] {
                    add(index + 1, moves, bytes)?;
                }
            }
        }
        for bytes in COLD {
            for moves in worker.cold {
                add(last, *moves, bytes)?;
            }
        }
    }
    Ok(Tasks { all, memory: memory(plan, cold_bytes) })
}

/// The longest message that is measured in the first-level cache.
const NEAR_MAX: usize = 8192;

/// Messages that with their places are beyond a level of `inner` bytes and within one of `outer`.
fn messages(inner: f64, outer: f64) -> Vec<usize> {
    let whole = |bytes: f64| (bytes as usize / 4096 * 4096).clamp(4096, 1 << 20);
    let (least, most) = (inner * 0.6, outer * 0.12);
    let mut all = [least, least * 1.7, (least * most).sqrt(), most].map(whole).to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

/// Fills in what was not known.
pub(crate) fn evaluate(tasks: &Tasks, plan: &Plan, machine: &mut Machine) {
    let last = machine.places.len() - 1;
    machine.places[last].latency_cycles = plan.typical(&tasks.memory);
    for at in &tasks.all {
        let far = if at.place == last { plan.typical(&at.far) } else { plan.undisturbed(&at.far) };
        let near = plan.undisturbed(&at.near) / at.near_bytes as f64;
        let cycles_per_byte = far / at.bytes as f64;
        let place = &mut machine.places[at.place];
        place.beyond.push(Beyond {
            moves: at.moves,
            word_bytes: at.word_bytes as u32,
            bytes: at.bytes as f64,
            near_cycles_per_byte: near,
            instructions_per_byte: at.instructions_per_byte,
            cycles_per_byte: (cycles_per_byte - near).max(0.0),
        });
        // The first worker does no more than move bytes, and the longest message tells the rate.
        lower(place.rate(at.moves), cycles_per_byte);
        lower(machine.places[0].rate(at.moves), near);
    }
}

/// Takes what was found if it is less, or the first.
fn lower(rate: Option<&mut f64>, found: f64) {
    match rate {
        Some(rate) if *rate == 0.0 || found < *rate => *rate = found,
        _ => {}
    }
}

/// Of caches; memory's is measured with what lies there.
pub(crate) fn latencies(machine: &mut Machine) {
    let ns_per_cycle = machine.ns_per_cycle;
    let last = machine.places.len() - 1;
    for place in &mut machine.places[..last] {
        let mut chase = Chase::new(((place.bytes * 0.3) as usize).min(MESSAGE_MAX));
        let mut times: Vec<_> = (0..20).map(|_| chase.ns()).collect();
        place.latency_cycles = quantile(&mut times, 0.2) / ns_per_cycle;
    }
}

/// Memory's latency, in each round.
pub(crate) fn memory(plan: &mut Plan, cold_bytes: usize) -> Task {
    let mut chase = Chase::new(cold_bytes.min(256 << 20));
    plan.add(move |_, _| chase.ns())
}

/// Loads that each depend on the one before.
struct Chase {
    next: Vec<u32>,
    at: u32,
}

impl Chase {
    const STEPS: usize = 2000;

    /// Over so many bytes, or up to four times less.
    fn new(bytes: usize) -> Chase {
        const LINE: usize = 64 / 4;
        // A full cycle through all lines: steps of a generator whose period is their number.
        let lines = (bytes / 64).max(64).next_power_of_two() / 2;
        let mut next = vec![0; lines * LINE];
        for i in 0..lines {
            let to = (i.wrapping_mul(1_664_525 / 4 * 4 + 5) + 1_013_904_223) % lines;
            next[i * LINE] = (to * LINE) as u32;
        }
        Chase { next, at: 0 }
    }

    /// ns from a load to the next.
    fn ns(&mut self) -> f64 {
        cold_turn(1, || {
            for _ in 0..Chase::STEPS {
                self.at = self.next[self.at as usize];
            }
            self.at = std::hint::black_box(self.at);
        }) / Chase::STEPS as f64
    }
}
