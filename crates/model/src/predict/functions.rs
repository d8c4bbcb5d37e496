//! Loops over described functions: what each turn asks for.

use super::{Bound, Cost, Pass, SHARPNESS, Work, together};
use crate::machine::{Error, Lookup, Machine, Words};
use crate::pipeline::{Cache, Function};

/// Instructions of a loop for itself: index and branch.
const LOOP_INSTRUCTIONS: f64 = 2.0;
/// Cycles from a load to its word in a register, the first link of every chain.
const LOAD_CYCLES: f64 = 5.0;

/// Bytes of a cache line.
const LINE: f64 = 64.0;

pub(super) fn work(
    machine: &Machine,
    functions: &[Function],
    bytes: f64,
    cache: Cache,
) -> Result<Work, Error> {
    let words = words_of(machine, functions)?;
    let apart = functions.iter().map(|f| pass(words, std::slice::from_ref(f), bytes, cache));
    Ok(Work {
        fused: pass(words, functions, bytes, cache),
        apart: apart.collect(),
        shared_cycles: 0.0,
        copied: None,
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

/// One loop over described functions.
fn pass(words: &Words, functions: &[Function], bytes: f64, cache: Cache) -> Pass {
    let unit = unit_of(functions);
    let writes = functions.iter().any(|f| f.writes);
    let mut free = registers_for_state(words, functions, unit);
    let (mut compute, mut spilled, mut spill_chain, mut state_chain) = (0.0, 0.0, 0.0f64, 0.0f64);
    let touched = |f: &Function| {
        let blocks = bytes / f64::from(f.block_words * words.word_bytes);
        touched(f.table() as f64, blocks * f64::from(f.lookups), cache)
    };
    let look_up = look_up(words, functions.iter().map(touched).sum());
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
        chain += f64::from(f.lookups.div_ceil(f.block_words))
            * look_up.latency_cycles.max(LOAD_CYCLES + 3.0);
        lookups += blocks * f64::from(f.lookups);
    }
    let moved = f64::from(unit) * if writes { 1.0 } else { 0.5 };
    let instructions = compute + 2.0 * moved + 2.0 * spilled + 3.0 * lookups + LOOP_INSTRUCTIONS;
    let apart = together(
        SHARPNESS,
        &[
            (Bound::Issue, instructions / words.issue_per_cycle),
            (Bound::Compute, (compute + 2.0 * lookups) / words.compute_per_cycle),
            (Bound::Message, moved / words.copied_per_cycle),
            (Bound::StateChain, state_chain),
            (Bound::Window, chain * instructions / words.window),
            (Bound::Tables, lookups * look_up.cycles),
            (Bound::Issue, 1.0),
        ],
    );
    // What was measured of spilled state has the instructions for it in it: not the norm, but the larger.
    let all = [
        apart,
        (spills(words, spilled), Bound::Spills),
        (spill_chain * spills(words, 1.0f64.min(spilled)), Bound::SpillChain),
    ];
    let (turn, bound) = all.into_iter().fold(apart, |a, b| if b.0 > a.0 { b } else { a });
    let unit_bytes = f64::from(unit * words.word_bytes);
    let start = words.pass_cycles + words.state_cycles * in_registers;
    Pass {
        cost: Cost::Line { start, per_byte: turn / unit_bytes },
        bound,
        word_bytes: words.word_bytes,
        instructions_per_byte: instructions / unit_bytes,
        writes,
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

/// Cycles of a turn that changes so many words of state in memory: between what was measured, and beyond
/// it in proportion.
fn spills(words: &Words, spilled: f64) -> f64 {
    if spilled < 1.0 {
        return 0.0;
    }
    let (mut below, mut above) = (None, None);
    for (count, cycles) in words.spills.iter().map(|(count, cycles)| (f64::from(*count), *cycles)) {
        if count <= spilled {
            below = Some((count, cycles));
        } else if above.is_none() {
            above = Some((count, cycles));
        }
    }
    match (below, above) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (spilled - a.0) / (b.0 - a.0),
        (Some((count, cycles)), None) => cycles * spilled / count,
        (None, Some((_, cycles))) => cycles,
        (None, None) => 0.0,
    }
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

/// A look-up in tables of so many bytes together.
fn look_up(words: &Words, bytes: f64) -> Lookup {
    let nothing = Lookup { table_bytes: bytes, cycles: 0.0, latency_cycles: 0.0 };
    let below = words.lookups.iter().rfind(|at| at.table_bytes <= bytes);
    let above = words.lookups.iter().find(|at| at.table_bytes > bytes);
    match (below, above) {
        (Some(a), Some(b)) => {
            // The part that a level holds falls with every doubling.
            let part = (bytes / a.table_bytes).ln() / (b.table_bytes / a.table_bytes).ln();
            let between = |a: f64, b: f64| a + (b - a) * part;
            Lookup {
                cycles: between(a.cycles, b.cycles),
                latency_cycles: between(a.latency_cycles, b.latency_cycles),
                ..nothing
            }
        }
        (Some(at), None) | (None, Some(at)) => *at,
        (None, None) => nothing,
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
