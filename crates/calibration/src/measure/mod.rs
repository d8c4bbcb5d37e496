//! Calibration: what is measured, and how long.

mod arena;
mod caches;
mod cases;
mod check;
mod fit;
mod own;
mod places;
mod plan;
mod random;
mod runner;
mod runs;
mod stages;
mod timing;
mod transforms;
mod words;

pub use caches::{Cache, caches};
pub use check::{Check, Checked, Score, check, score};
pub use timing::turn;

use fusewire_kernels::stage::{AnyStage, Output};
use fusewire_model::machine::{Machine, VERSION};
use std::time::Duration;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Rounds in which everything has a turn begin until so much time has gone: one at least.
    pub time: Duration,
    /// How long a turn lasts.
    pub turn: Duration,
    /// Bytes that make the caches forget.
    pub cold_bytes: usize,
}

impl Effort {
    /// For figures.
    pub const FULL: Effort = Effort {
        time: Duration::from_secs(45),
        turn: Duration::from_micros(25),
        cold_bytes: 768 << 20,
    };
    /// For [`check`](fn@check): it has more to run.
    pub const CHECK: Effort = Effort { time: Duration::from_secs(150), ..Effort::FULL };
    /// For [`add_stage`].
    pub const STAGE: Effort =
        Effort { time: Duration::from_secs(2), cold_bytes: 16 << 20, ..Effort::FULL };
    /// For tests: the figures mean little.
    pub const SMOKE: Effort =
        Effort { time: Duration::ZERO, turn: Duration::from_micros(2), cold_bytes: 16 << 20 };
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A stage of that name was measured already.
    #[error("there is a stage `{0}` already: give yours another NAME")]
    Known(String),
    /// It only reads, and is to be measured as such.
    #[error("`{0}` puts out nothing: add_reader measures it")]
    Reads(&'static str),
    /// Calibrated with messages of other lengths.
    #[error("the machine was calibrated with messages of other lengths: calibrate anew")]
    Lengths,
    /// A function that calibration wanted cannot be made here.
    #[error(transparent)]
    Synthetic(#[from] fusewire_synthetic::Error),
    /// What was measured is no machine, or the model does not know a case.
    #[error(transparent)]
    Model(#[from] fusewire_model::machine::Error),
}

/// How often a machine is measured at most while others disturb it so much that what comes out is absurd.
const ATTEMPTS: usize = 3;

/// Measures this machine. `says` is told how far it is, 0 to 1; it begins anew where what came out was absurd.
///
/// # Errors
/// When functions cannot be made here, or the machine is so busy that what comes out is absurd time after time.
pub fn calibrate(effort: Effort, says: &mut dyn FnMut(f64)) -> Result<Machine, Error> {
    use fusewire_model::machine::Error::Absurd;
    for _ in 1..ATTEMPTS {
        match attempt(effort, says) {
            Err(Error::Model(Absurd { .. })) => {}
            done => return done,
        }
    }
    attempt(effort, says)
}

fn attempt(effort: Effort, says: &mut dyn FnMut(f64)) -> Result<Machine, Error> {
    let mut arena = arena::Arena::new(effort.cold_bytes);
    let mut clock = timing::Clock::new()?;
    let mut plan = plan::Plan::new();
    let mut machine = Machine {
        version: VERSION,
        processor: crate::processor(),
        ns_per_cycle: 0.0,
        control_cycles: 0.0,
        disturbed: 0.0,
        words: Vec::new(),
        places: places::sizes(),
        levels: Vec::new(),
        transforms: Vec::new(),
    };
    let places = places::tasks(&machine.places, effort.cold_bytes, &mut plan)?;
    let words = words::tasks(&mut plan)?;
    let stages = stages::tasks(&mut plan);
    let transforms = transforms::tasks(&mut plan);
    let quiet = plan.measure(&mut arena, &mut clock, effort, says);
    machine.ns_per_cycle = quiet.ns_per_cycle;
    machine.control_cycles = quiet.control_cycles;
    machine.disturbed = quiet.disturbed;
    places::evaluate(&places, &plan, &mut machine);
    places::latencies(&mut machine);
    words::evaluate(&words, &plan, &mut machine)?;
    machine.levels = stages::evaluate(&stages, &plan);
    machine.transforms = transforms::evaluate(transforms, &plan);
    machine.check()?;
    Ok(machine)
}

/// Measures a stage of one's own that puts out bytes, at the best CPU level here, alone and in one loop with stages of
/// `kernels`, and adds it to a machine that was calibrated here.
///
/// # Errors
/// When the machine is absurd, does not know that level, was calibrated with messages of other lengths, or has a stage
/// of that name; or the stage puts out nothing.
pub fn add_stage<S: AnyStage + Copy + 'static>(
    machine: &mut Machine,
    stage: S,
    effort: Effort,
) -> Result<(), Error> {
    if S::OUTPUT == Output::None {
        return Err(Error::Reads(S::NAME));
    }
    own::check::<S>(machine)?;
    add(machine, effort, |plan| own::writing(plan, stage))
}

/// The same of one that only reads: alone it is measured without storing. Of one that puts out bytes this does not
/// compile.
///
/// # Errors
/// As [`add_stage`].
pub fn add_reader<S: AnyStage + Copy + 'static>(
    machine: &mut Machine,
    stage: S,
    effort: Effort,
) -> Result<(), Error> {
    own::check::<S>(machine)?;
    add(machine, effort, |plan| own::reading(plan, stage))
}

fn add(
    machine: &mut Machine,
    effort: Effort,
    plans: impl FnOnce(&mut plan::Plan) -> own::Planned,
) -> Result<(), Error> {
    let mut plan = plan::Plan::new();
    let planned = plans(&mut plan);
    plan.measure(
        &mut arena::Arena::new(effort.cold_bytes),
        &mut timing::Clock::new()?,
        effort,
        &mut |_| {},
    );
    own::evaluate(&planned, &plan, machine)?;
    machine.check()?;
    Ok(())
}
