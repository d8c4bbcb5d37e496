//! Stages of the kernels: what calibration measured of each alone and of each two in one loop.

use super::{Bound, Pass, SHARPNESS, Work, together};
use crate::machine::{Error, Level, Machine, Stage};

/// Instructions that a loop of the kernels runs in a cycle, more or less.
const INSTRUCTIONS_PER_CYCLE: f64 = 3.5;

pub(super) fn work(machine: &Machine, names: &[String], level: &str) -> Result<Work, Error> {
    let level = machine.level_named(level)?;
    let found: Vec<_> = names.iter().map(|name| level.stage(name)).collect::<Result<_, _>>()?;
    let copy = level.stage("copy")?;
    let (cycles_per_byte, bound) = match found[..] {
        [] => return Err(Error::NoFunctions),
        [one] if one.writes => (one.alone_cycles_per_byte, Bound::Stages),
        _ => joined(level, copy, &found),
    };
    let pass = |cycles_per_byte, bound, start_cycles, writes| Pass {
        cycles_per_byte,
        bound,
        start_cycles,
        instructions_per_byte: cycles_per_byte * INSTRUCTIONS_PER_CYCLE,
        writes,
    };
    let alone = |stage: &Stage| {
        pass(stage.alone_cycles_per_byte, Bound::Stages, level.pass_cycles, stage.writes)
    };
    let starts: f64 = found.iter().map(|stage| stage.start_cycles).sum();
    Ok(Work {
        // One loop stores what it loads, also if no stage changes it.
        fused: pass(cycles_per_byte, bound, level.pass_cycles, true),
        apart: found.iter().map(|stage| alone(stage)).collect(),
        call_cycles: copy.start_cycles + starts,
        copied: Some(alone(copy)),
    })
}

/// Cycles a byte of stages in one loop: their work joined with that of loading and storing, and as much
/// more or less as their pairs take, in the geometric mean.
fn joined(level: &Level, copy: &Stage, found: &[&Stage]) -> (f64, Bound) {
    let base = |work: f64| {
        together(SHARPNESS, &[(Bound::Message, copy.alone_cycles_per_byte), (Bound::Stages, work)])
    };
    let (mut logarithms, mut pairs) = (0.0, 0.0);
    for (i, a) in found.iter().enumerate() {
        for b in &found[i + 1..] {
            if let Some(took) = level.pair(&a.name, &b.name) {
                let said = base(a.work_cycles_per_byte + b.work_cycles_per_byte).0;
                logarithms += (took / said).ln();
                pairs += 1.0;
            }
        }
    }
    let (said, bound) = base(found.iter().map(|stage| stage.work_cycles_per_byte).sum());
    (said * (logarithms / f64::max(pairs, 1.0)).exp(), bound)
}
