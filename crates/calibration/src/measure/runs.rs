//! What a pass takes besides its turns: alone, and one behind the other with others.
//!
//! A pass is called where nobody may have foreseen it, and its loop ends where nobody may have. Both depend on what ran
//! before, so passes are measured in runs, over and over: alike, and each of its own kind.

use fusewire_model::Implementation;
use fusewire_model::machine::Run;
use fusewire_synthetic::{Function, Lanes, Passes};

use crate::Error;
use crate::measure::arena::Places;
use crate::measure::plan::{Plan, Task};
use crate::measure::runner::Runner;
use crate::measure::timing::turn;
use crate::measure::words::CHAINED;

/// Passes of a run, beside one alone.
const RUNS: [usize; 3] = [2, 3, 6];
/// Turns of a pass.
const STARTS: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
/// Turns whose difference tells what one takes: of so many nothing foresees the end any more.
const LONG: [usize; 2] = [160, 320];
/// Turns of passes that wait for a chain.
const WAITING: [usize; 2] = [16, 48];

/// A run of passes.
pub(super) struct Measured {
    passes: usize,
    alike: bool,
    /// By turns.
    starts: Vec<(usize, Task)>,
    long: [Task; 2],
    /// By turns.
    waiting: Vec<(usize, Task)>,
}

pub(super) fn tasks(plan: &mut Plan, lanes: Lanes) -> Result<Vec<Measured>, Error> {
    let mut all = vec![Measured::new(plan, lanes, 1, true)?];
    for passes in RUNS {
        for alike in [true, false] {
            all.push(Measured::new(plan, lanes, passes, alike)?);
        }
    }
    Ok(all)
}

/// With state in half of the registers.
fn working(lanes: Lanes, other: usize) -> Function {
    let half = lanes.registers() / 2;
    Function::new(half - other % 3, half + other, 1)
}

/// That does nothing but wait.
fn waiting(other: usize) -> Function {
    Function { writes: false, ..Function::new(1, CHAINED as usize + other, 1) }
}

/// Passes one behind the other over so many turns.
fn task(
    plan: &mut Plan,
    lanes: Lanes,
    functions: &[Function],
    turns: usize,
) -> Result<Task, Error> {
    let mut passes = Passes::new(lanes, functions)?;
    let bytes = turns * lanes.word_bytes();
    Ok(plan.add(move |arena, length| {
        let Places { src, dst, work } = arena.warm(bytes);
        turn(length, || passes.run(src, dst, work, Implementation::Sequential))
    }))
}

impl Measured {
    fn new(plan: &mut Plan, lanes: Lanes, passes: usize, alike: bool) -> Result<Measured, Error> {
        let others = (0..passes).map(|pass| if alike { 0 } else { pass });
        let work: Vec<_> = others.clone().map(|other| working(lanes, other)).collect();
        let wait: Vec<_> = others.map(waiting).collect();
        let mut each = |functions: &[Function], turns: &[usize]| {
            let one = |turns: &usize| Ok((*turns, task(plan, lanes, functions, *turns)?));
            turns.iter().map(one).collect::<Result<Vec<_>, Error>>()
        };
        let (starts, waiting) = (each(&work, &STARTS)?, each(&wait, &WAITING)?);
        let long = [task(plan, lanes, &work, LONG[0])?, task(plan, lanes, &work, LONG[1])?];
        Ok(Measured { passes, alike, starts, long, waiting })
    }

    /// What is left of a pass when its turns are taken off.
    pub(super) fn evaluate(&self, chained_cycles: f64, plan: &Plan) -> Run {
        let pass = |task: &Task| plan.undisturbed(task) / self.passes as f64;
        let [short, long] = self.long.each_ref().map(pass);
        let turn = (long - short) / (LONG[1] - LONG[0]) as f64;
        let left = |(turns, task): &(usize, Task)| {
            let turns = *turns as f64;
            (turns, (pass(task) - turns * turn).max(0.0))
        };
        let starts: Vec<_> = self.starts.iter().map(left).collect();
        // Of the mean of them: each is one longer than the one before where they are not alike.
        let others = if self.alike { 0.0 } else { (self.passes - 1) as f64 / 2.0 };
        let links = f64::from(CHAINED) + others;
        let filled = self.waiting.iter().map(|(turns, task)| {
            let turns = *turns as f64;
            let start = starts.iter().find(|start| start.0 >= turns).map_or(0.0, |start| start.1);
            start + turns * links * chained_cycles - pass(task)
        });
        let filled_cycles = (filled.sum::<f64>() / WAITING.len() as f64).max(0.0);
        Run { passes: self.passes as u32, alike: self.alike, filled_cycles, starts }
    }
}
