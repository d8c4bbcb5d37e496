//! A stage that somebody else wrote: what it costs alone, and beside stages that are known.

use fusewire_kernels::Level;
use fusewire_kernels::stage::{AnyStage, Output, Stage, then};
use fusewire_kernels::stages::{InternetSum, PesEncrypt, Swap};
use fusewire_model::machine::{self, Machine};

use crate::Error;
use crate::plan::{Plan, Task};
use crate::stages::{PES, fused, line};

/// What is measured of it.
pub(crate) struct Planned {
    name: &'static str,
    writes: bool,
    state_bytes: usize,
    alone: [Task; 2],
    pairs: Vec<(&'static str, [Task; 2])>,
}

pub(crate) fn tasks<S: AnyStage + Copy + 'static>(plan: &mut Plan, stage: S) -> Planned {
    let level = Level::detect();
    let alone = fused(plan, stage, level);
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
    if known.stage(of.name).is_ok() {
        return Err(Error::Known(of.name.to_owned()));
    }
    let [short, long] = &of.alone;
    let (start, alone) = line(plan, short, long);
    let moved = copy.alone_cycles_per_byte.powi(6);
    let (mut works, mut pairs) = (Vec::new(), Vec::new());
    for (other, [short, long]) in &of.pairs {
        let (_, cycles_per_byte) = line(plan, short, long);
        let both = (cycles_per_byte.powi(6) - moved).max(0.0).powf(1.0 / 6.0);
        works.push((both - known.stage(other)?.work_cycles_per_byte).max(0.0));
        let names = [of.name.to_owned(), (*other).to_owned()];
        pairs.push(machine::Pair { names, cycles_per_byte });
    }
    let stage = machine::Stage {
        name: of.name.to_owned(),
        writes: of.writes,
        state_bytes: of.state_bytes as u32,
        alone_cycles_per_byte: alone,
        work_cycles_per_byte: works.iter().sum::<f64>() / works.len() as f64,
        start_cycles: (start - copy.start_cycles - known.pass_cycles).max(0.0),
    };
    for level in machine.levels.iter_mut().filter(|level| level.name == name) {
        level.stages.push(stage.clone());
        level.pairs.extend(pairs.iter().cloned());
    }
    Ok(())
}
