//! A stage that somebody else wrote: what it costs alone, and beside stages that are known.

use fusewire_kernels::Level;
use fusewire_kernels::stage::{Output, Stage, then};
use fusewire_kernels::stages::{InternetSum, PesEncrypt, Swap};
use fusewire_model::machine::{self, Machine};

use crate::Error;
use crate::measure::plan::Plan;
use crate::measure::stages::{ByLength, LENGTHS, Measured, PES, cycles, fused, scanned};

/// What is measured of it.
pub(crate) struct Planned {
    name: &'static str,
    writes: bool,
    state_bytes: usize,
    alone: ByLength,
    pairs: Vec<(&'static str, ByLength)>,
}

/// Refuses a machine that the stage cannot be added to, before anything is measured.
pub(crate) fn check<S: Stage>(machine: &Machine) -> Result<(), Error> {
    machine.check()?;
    let level = machine.level_named(Level::detect().name())?;
    for needed in ["copy", <Swap<4> as Stage>::NAME, InternetSum::NAME, PesEncrypt::NAME] {
        level.stage(needed)?;
    }
    if level.stage(S::NAME).is_ok() {
        return Err(Error::Known(S::NAME.to_owned()));
    }
    if level.lengths != LENGTHS.map(|bytes| bytes as f64) {
        return Err(Error::Lengths);
    }
    Ok(())
}

/// One that puts out bytes.
pub(crate) fn writing<S: Measured>(plan: &mut Plan, stage: S) -> Planned {
    let alone = fused(plan, stage, Level::detect());
    tasks(plan, stage, alone)
}

/// One that only reads.
pub(crate) fn reading<S: Measured>(plan: &mut Plan, stage: S) -> Planned {
    let alone = scanned(plan, stage, Level::detect());
    tasks(plan, stage, alone)
}

fn tasks<S: Measured>(plan: &mut Plan, stage: S, alone: ByLength) -> Planned {
    let level = Level::detect();
    let pairs = vec![
        (<Swap<4> as Stage>::NAME, fused(plan, then(Swap::<4>, stage), level)),
        (InternetSum::NAME, fused(plan, then(stage, InternetSum), level)),
        (PesEncrypt::NAME, fused(plan, then(stage, PES), level)),
    ];
    let (writes, state_bytes) = (S::OUTPUT == Output::Same, S::STATE);
    Planned { name: S::NAME, writes, state_bytes, alone, pairs }
}

pub(crate) fn evaluate(of: &Planned, plan: &Plan, machine: &mut Machine) -> Result<(), Error> {
    let name = Level::detect().name();
    let known = machine.level_named(name)?.clone();
    let copy = known.stage("copy")?;
    let mut work_cycles = vec![0.0; LENGTHS.len()];
    let mut pairs = Vec::new();
    for (other, tasks) in &of.pairs {
        let took = cycles(plan, tasks);
        let other_work = &known.stage(other)?.work_cycles;
        for (i, work) in work_cycles.iter_mut().enumerate() {
            let both = (took[i].powi(6) - copy.alone_cycles[i].powi(6)).max(0.0).powf(1.0 / 6.0);
            *work += (both - other_work[i]).max(0.0) / of.pairs.len() as f64;
        }
        let names = [of.name.to_owned(), (*other).to_owned()];
        pairs.push(machine::Pair { names, cycles: took });
    }
    let stage = machine::Stage {
        name: of.name.to_owned(),
        writes: of.writes,
        state_bytes: of.state_bytes as u32,
        alone_cycles: cycles(plan, &of.alone),
        work_cycles,
    };
    for level in machine.levels.iter_mut().filter(|level| level.name == name) {
        level.stages.push(stage.clone());
        level.pairs.extend(pairs.iter().cloned());
    }
    Ok(())
}
