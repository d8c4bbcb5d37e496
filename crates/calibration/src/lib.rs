//! From a machine to the model's parameters, and from the model's answers back to the machine.
//!
//! [`calibrate`] measures what [`fusewire_model::Machine`] describes. [`check`](fn@check) runs pipelines, other than those
//! that calibration ran, and puts what they took beside what the model said.
//!
//! Machines are shared: another program, or another machine on the same processor, takes half of a core for
//! milliseconds at a time. So everything is measured in many short rounds, spread over the whole of the
//! time, and the fast ones of them count ([`timing`]).
#![forbid(unsafe_code)]

mod arena;
mod cases;
mod check;
mod fit;
mod places;
mod runner;
mod stages;
pub mod timing;
mod words;

pub use check::{Checked, Score, check, score};

use fusewire_model::machine::{Machine, VERSION};
use std::time::Duration;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Rounds in which everything has a turn.
    pub rounds: usize,
    /// How long a turn lasts.
    pub turn: Duration,
    /// Bytes that make the caches forget.
    pub cold_bytes: usize,
}

impl Effort {
    /// For figures.
    pub const FULL: Effort =
        Effort { rounds: 60, turn: Duration::from_micros(30), cold_bytes: 768 << 20 };
    /// For [`check`](fn@check): it has more to run.
    pub const CHECK: Effort =
        Effort { rounds: 15, turn: Duration::from_micros(30), cold_bytes: 768 << 20 };
    /// For tests: the figures mean little.
    pub const SMOKE: Effort =
        Effort { rounds: 1, turn: Duration::from_micros(2), cold_bytes: 16 << 20 };
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A function that calibration wanted cannot be made here.
    #[error(transparent)]
    Synthetic(#[from] fusewire_synthetic::Error),
    /// What was measured is no machine, or the model does not know a case.
    #[error(transparent)]
    Model(#[from] fusewire_model::machine::Error),
}

/// Measures this machine. `says` is told what is being measured and how far it is, 0 to 1.
///
/// # Errors
/// When functions cannot be made here, or the machine is so busy that what comes out is absurd.
pub fn calibrate(effort: Effort, says: &mut dyn FnMut(&str, f64)) -> Result<Machine, Error> {
    let mut arena = arena::Arena::new(effort.cold_bytes);
    says("clock", 0.0);
    let mut clock = timing::Clock::new(f64::INFINITY)?;
    let mut times = timing::Times::default();
    (0..200).for_each(|_| times.add(clock.quiet()));
    let ns_per_cycle = times.undisturbed();
    let mut machine = Machine {
        version: VERSION,
        processor: processor(),
        ns_per_cycle,
        control_cycles: clock.best(),
        disturbed: 0.0,
        words: Vec::new(),
        places: places::sizes(),
        stages: Vec::new(),
    };
    says("caches", 0.05);
    places::measure(&mut machine, &mut arena, &mut clock, effort)?;
    words::measure(&mut machine, &mut arena, &mut clock, effort, &mut |what, part| {
        says(what, 0.2 + 0.45 * part);
    })?;
    says("memory", 0.65);
    places::overlaps(&mut machine, &mut arena, &mut clock, effort)?;
    says("stages", 0.8);
    stages::measure(&mut machine, &mut arena, &mut clock, effort);
    machine.control_cycles = clock.best();
    machine.disturbed = clock.disturbed();
    says("done", 1.0);
    machine.check()?;
    Ok(machine)
}

/// The processor's name, as Linux has it.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}
