//! Loops over described functions: what each turn asks for.

use super::{Bound, Cost, Instructions, LINE, Pass, SHARPNESS, Work, between, together};
use crate::machine::{Error, Lookup, Machine, Run, Words};
use crate::pipeline::{Cache, Function};

/// Instructions of a loop for itself: index and branch.
const LOOP_INSTRUCTIONS: f64 = 2.0;
/// Of the first-level cache, what tables of several passes may have before each pass loses its own to the others, and
/// what they have when it has lost all.
const LOST: [f64; 2] = [0.75, 1.25];
/// Tables of so many times the first-level cache are beyond it.
const BEYOND: f64 = 8.0;
/// Instructions of an addition in memory: it loads, adds and stores.
const STORED_INSTRUCTIONS: f64 = 3.0;
/// Cycles of a change of a word that is no addition, which half of them are: bits inverted.
const INVERT_CYCLES: f64 = 1.0;
/// Instructions of a look-up: what selects the entry is copied and cut, the entry is loaded and joined.
const LOOKUP_INSTRUCTIONS: f64 = 3.0;
/// Those of them that compute; some processors need not execute the copy.
const LOOKUP_COMPUTES: f64 = 2.5;

/// Of a message, of which each pass has a `run` before the next pass has it.
pub(super) fn work<'a>(
    machine: &'a Machine,
    functions: &[Function],
    bytes: f64,
    run: f64,
    cache: Cache,
) -> Result<Work<'a>, Error> {
    let words = words_of(machine, functions)?;
    let lookups = |f: &Function, bytes: f64| {
        bytes / f64::from(f.block_words * words.word_bytes) * f64::from(f.lookups)
    };
    let of_message = |f: &Function| touched(f.table() as f64, lookups(f, bytes), cache);
    let all: f64 = functions.iter().map(of_message).sum();
    let near = machine.places[0].bytes;
    let lost = ((all / near - LOST[0]) / (LOST[1] - LOST[0])).clamp(0.0, 1.0);
    let beyond = look_up(words, near * BEYOND);
    let apart = functions.iter().map(|f| {
        // What the other passes' tables have pushed out since the pass before is looked up anew.
        let (lookups, table) = (lookups(f, run), f.table() as f64);
        let anew = touched(table, lookups, Cache::Warm) / LINE / lookups.max(1.0);
        let look_up = look_up(words, of_message(f)).towards(&beyond, lost * anew.min(1.0));
        pass(machine, words, std::slice::from_ref(f), &look_up, run_of(words, functions))
    });
    Ok(Work {
        fused: pass(
            machine,
            words,
            functions,
            &look_up(words, all),
            run_of(words, &functions[..1]),
        ),
        apart: apart.collect(),
        shared_cycles: 0.0,
        copied: None,
        level: None,
    })
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
    let words = machine.words_named(&first.words)?;
    let unit = functions.iter().fold(1, |unit, f| lcm_bounded(unit, f.block_words.into()));
    if unit > words.registers.into() {
        return Err(Error::Unit(unit, words.registers, words.name.clone()));
    }
    Ok(words)
}

/// The least common multiple, or the largest number there is.
pub(crate) fn lcm_bounded(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}

/// Words in a unit: [`words_of`] has seen that they are few.
fn unit_of(functions: &[Function]) -> u32 {
    functions.iter().fold(1, |unit, f| lcm_bounded(unit, f.block_words.into())) as u32
}

/// What functions ask for in a turn of one loop.
#[derive(Default)]
struct Turn {
    /// Instructions that compute, look-ups aside.
    compute: f64,
    lookups: f64,
    /// Words of state in registers.
    in_registers: f64,
    /// Changes of words of state in memory.
    spilled: f64,
    /// Changes of one word of state, one behind the other, in memory and in a register.
    spill_chain: f64,
    state_chain: f64,
    /// Instructions that wait for a word, and their cycles, all together.
    waiting: f64,
    waited: f64,
}

impl Turn {
    /// `load` cycles from a load to its word in a register, the first link of every chain.
    fn new(words: &Words, functions: &[Function], look_up: &Lookup, load: f64) -> Turn {
        let unit = unit_of(functions);
        let mut free = registers_for_state(words, functions, unit);
        let change_cycles = (words.chained_cycles + INVERT_CYCLES) / 2.0;
        let mut word = Word { at: load, waiting: 0.0, waited: 0.0 };
        let mut turn = Turn::default();
        for f in functions {
            let blocks = f64::from(unit / f.block_words);
            let kept = f.state_words.min(free);
            free -= kept;
            turn.in_registers += f64::from(kept);
            turn.compute += blocks * f64::from(f.steps());
            turn.lookups += blocks * f64::from(f.lookups);
            // What only reads goes through its state again and again.
            let rounds = if f.writes { 1 } else { f.steps().div_ceil(f.state_words) };
            let chain = blocks * f64::from(rounds);
            turn.spilled += chain * f64::from(f.state_words - kept);
            if kept < f.state_words {
                turn.spill_chain = turn.spill_chain.max(chain);
            }
            if kept > 0 {
                turn.state_chain = turn.state_chain.max(chain);
            }
            let of_word = |count: u32| f64::from(count) / f64::from(f.block_words);
            word.chain(of_word(f.lookups), look_up.waits, look_up.latency_cycles);
            let in_memory = f64::from(f.state_words - kept) / f64::from(f.state_words.max(1));
            let instructions = 1.0 + (STORED_INSTRUCTIONS - 1.0) * in_memory;
            word.chain(of_word(f.steps() - f.changes()), instructions, 0.0);
            word.chain(of_word(f.changes()), 1.0, change_cycles);
        }
        if functions.iter().any(|f| f.writes) {
            word.chain(1.0, 1.0, 0.0);
        }
        turn.waiting = f64::from(unit) * word.waiting;
        turn.waited = f64::from(unit) * word.waited;
        turn
    }
}

impl Turn {
    /// Cycles from one turn to the next with which as many instructions wait as there is room for. When a turn begins, of
    /// the turn before those wait that are not done after so many cycles, of the one before that those after twice as many,
    /// and so on: their sum, by the trapezoidal rule, is what they wait all together, divided by these cycles, less half of
    /// those of one turn.
    fn window(&self, words: &Words) -> f64 {
        self.waited / (words.window + self.waiting / 2.0)
    }
}

/// As many passes as functions, or the most that were measured.
fn run_of<'a>(words: &'a Words, functions: &[Function]) -> &'a Run {
    let alike = functions.iter().all(|f| *f == functions[0]);
    let fits = |run: &&Run| {
        run.passes as usize <= functions.len() && (run.alike == alike || run.passes == 1)
    };
    words.runs.iter().rfind(fits).unwrap_or(&words.runs[0])
}

/// One loop over described functions, a pass of such a run.
fn pass(
    machine: &Machine,
    words: &Words,
    functions: &[Function],
    look_up: &Lookup,
    run: &Run,
) -> Pass {
    let turn = Turn::new(words, functions, look_up, machine.places[0].latency_cycles);
    let unit = unit_of(functions);
    let writes = functions.iter().any(|f| f.writes);
    let moved = f64::from(unit) * if writes { 1.0 } else { 0.5 };
    let instructions = turn.compute
        + 2.0 * moved
        + (STORED_INSTRUCTIONS - 1.0) * turn.spilled
        + LOOKUP_INSTRUCTIONS * turn.lookups
        + LOOP_INSTRUCTIONS;
    // Vectors have units of their own, which the loop's own instructions do not ask for.
    let looping = if is_vector(words) { 0.0 } else { LOOP_INSTRUCTIONS };
    let computing = turn.compute + LOOKUP_COMPUTES * turn.lookups + looping;
    let demands = |state_chain| {
        let demands = [
            (Bound::Issue, instructions / words.issue_per_cycle),
            (Bound::Compute, computing / words.compute_per_cycle),
            (Bound::Message, moved / words.copied_per_cycle),
            (Bound::StateChain, state_chain),
            (Bound::Window, turn.window(words)),
            (Bound::Tables, turn.lookups * look_up.cycles),
            (Bound::Issue, 1.0),
        ];
        together(SHARPNESS, &demands)
    };
    // What was measured of spilled state has the instructions for it in it: not the norm, but the larger.
    let spilled = if turn.spilled < 1.0 { 0.0 } else { spills(words, turn.spilled) };
    let chain = turn.spill_chain * by_number(&words.stored, turn.spilled);
    let larger = |a: (f64, Bound), b: (f64, Bound)| if b.0 > a.0 { b } else { a };
    let all = [(spilled, Bound::Spills), (chain, Bound::SpillChain)];
    let chained = turn.state_chain * words.chained_cycles;
    let (cycles, bound) = all.into_iter().fold(demands(chained), larger);
    let least = demands(0.0).0.max(spilled);
    let unit_bytes = f64::from(unit * words.word_bytes);
    Pass {
        cost: Cost::Turns { run: run.clone(), unit_bytes, cycles, least },
        spilled_per_byte: turn.spilled / unit_bytes,
        bound,
        word_bytes: words.word_bytes,
        instructions: Instructions::Counted {
            per_byte: instructions / unit_bytes,
            state: turn.in_registers,
        },
        writes,
    }
}

/// A word on its way through the functions. Instructions that wait for what comes before them are in the processor's
/// scheduler, which has room for so many.
struct Word {
    /// Cycles since its load began.
    at: f64,
    /// Instructions that waited for it.
    waiting: f64,
    /// Cycles that they waited, all together.
    waited: f64,
}

impl Word {
    /// Results one behind the other, of some instructions each, that each take so many cycles.
    fn chain(&mut self, count: f64, instructions: f64, cycles: f64) {
        let waits = count * self.at + cycles * count * (count - 1.0).max(0.0) / 2.0;
        self.waiting += instructions * count;
        self.waited += instructions * waits;
        self.at += count * cycles;
    }
}

/// What functions in one loop ask of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Words in a unit.
    pub(crate) unit_words: u32,
    /// Words of state.
    pub(crate) state_words: u32,
    /// Registers for it.
    pub(crate) registers: u32,
    /// Words of it that found none.
    pub(crate) spilled_words: u32,
}

pub(crate) fn counts(words: &Words, functions: &[Function]) -> Counts {
    let unit_words = unit_of(functions);
    let registers = registers_for_state(words, functions, unit_words);
    let state_words = functions.iter().map(|f| f.state_words).sum::<u32>();
    let spilled_words = state_words.saturating_sub(registers);
    Counts { unit_words, state_words, registers, spilled_words }
}

/// Cycles of a turn that changes so many words of state in memory; of more than were measured in proportion.
fn spills(words: &Words, spilled: f64) -> f64 {
    let most = words.spills.last().map_or(spilled, |(count, _)| f64::from(*count));
    by_number(&words.spills, spilled) * (spilled / most).max(1.0)
}

/// Between what was measured, as of the nearest before and behind it.
fn by_number(measured: &[(u32, f64)], number: f64) -> f64 {
    let point = |(count, cycles): &(u32, f64)| (f64::from(*count), *cycles);
    between(&measured.iter().map(point).collect::<Vec<_>>(), number)
}

/// What look-ups touch of a table of so many bytes: a message that comes again finds the same entries again, another one
/// finds others.
pub fn touched(table_bytes: f64, lookups: f64, cache: Cache) -> f64 {
    let lines = table_bytes / LINE;
    match cache {
        Cache::Warm if lines > 1.0 => table_bytes * (1.0 - (1.0 - 1.0 / lines).powf(lookups)),
        _ => table_bytes,
    }
}

impl Lookup {
    /// A part of the way to another.
    fn towards(&self, other: &Lookup, part: f64) -> Lookup {
        let between = |a: f64, b: f64| a + (b - a) * part;
        Lookup {
            cycles: between(self.cycles, other.cycles),
            latency_cycles: between(self.latency_cycles, other.latency_cycles),
            waits: between(self.waits, other.waits),
            ..*self
        }
    }
}

/// A look-up in tables of so many bytes together.
fn look_up(words: &Words, bytes: f64) -> Lookup {
    let nothing = Lookup { table_bytes: bytes, cycles: 0.0, latency_cycles: 0.0, waits: 0.0 };
    let below = words.lookups.iter().rfind(|at| at.table_bytes <= bytes);
    let above = words.lookups.iter().find(|at| at.table_bytes > bytes);
    match (below, above) {
        (Some(a), Some(b)) => {
            // The part that a level holds falls with every doubling.
            let part = (bytes / a.table_bytes).ln() / (b.table_bytes / a.table_bytes).ln();
            Lookup { table_bytes: bytes, ..a.towards(b, part) }
        }
        (Some(at), None) | (None, Some(at)) => *at,
        (None, None) => nothing,
    }
}

fn is_vector(words: &Words) -> bool {
    !words.name.starts_with("scalar")
}

/// Registers that are left when the unit, a constant and what spilling needs have theirs.
fn registers_for_state(words: &Words, functions: &[Function], unit: u32) -> u32 {
    let is_vector = is_vector(words);
    let constant = is_vector && functions.iter().any(|f| f.changes() > 0);
    let left = words.registers.saturating_sub(unit + u32::from(constant));
    let state: u32 = functions.iter().map(|f| f.state_words).sum();
    let spare = is_vector && state > left || functions.iter().any(|f| f.lookups > 0);
    left.saturating_sub(spare.into())
}
