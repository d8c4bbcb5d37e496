//! Stages of `kernels`: what calibration measured of each alone and of each two in one loop.

use super::{Bound, Cost, Instructions, Pass, SHARPNESS, Work, together};
use crate::machine::{Error, Level, Machine, Stage};

/// Instructions that a loop of `kernels` runs in a cycle, more or less.
pub(super) const INSTRUCTIONS_PER_CYCLE: f64 = 3.5;

/// Bytes of a word at a level. At the portable level most stages work on words of 8 bytes, at the others on vectors.
pub(super) fn word_bytes(level: &str) -> u32 {
    if level == "portable" { 8 } else { 64 }
}

pub(super) fn work<'a>(
    machine: &'a Machine,
    names: &[String],
    level: &str,
) -> Result<Work<'a>, Error> {
    let level = machine.level_named(level)?;
    let found: Vec<_> = names.iter().map(|name| level.stage(name)).collect::<Result<_, _>>()?;
    let copy = level.stage("copy")?;
    let (cycles, bound) = match found[..] {
        [] => return Err(Error::NoFunctions),
        [one] if one.writes => (one.alone_cycles.clone(), Bound::Stages),
        _ => joined(level, copy, &found),
    };
    let pass = |cycles: &[f64], bound, writes| {
        let cost =
            Cost::Points(level.lengths.iter().copied().zip(cycles.iter().copied()).collect());
        let word_bytes = word_bytes(&level.name);
        let instructions = Instructions::PerCycle(INSTRUCTIONS_PER_CYCLE);
        Pass { cost, bound, instructions, spilled_per_byte: 0.0, word_bytes, writes }
    };
    let alone = |stage: &&Stage| pass(&stage.alone_cycles, Bound::Stages, stage.writes);
    Ok(Work {
        // One loop stores what it loads, also if no stage changes it.
        fused: pass(&cycles, bound, true),
        apart: found.iter().map(alone).collect(),
        shared_cycles: level.shared_cycles,
        copied: Some(pass(&level.last_copy_cycles, Bound::Message, true)),
        level: Some(level).filter(|level| !level.far.is_empty()),
    })
}

/// Cycles of stages in one loop, by the message's length: their work joined with that of loading and storing, and as
/// much more or less as their pairs take, in the geometric mean.
fn joined(level: &Level, copy: &Stage, found: &[&Stage]) -> (Vec<f64>, Bound) {
    let mut pairs = Vec::new();
    for (j, a) in found.iter().enumerate() {
        for b in &found[j + 1..] {
            pairs.extend(level.pair(&a.name, &b.name).map(|took| (*a, *b, took)));
        }
    }
    let at = |i: usize| {
        let base = |work: f64| {
            together(SHARPNESS, &[(Bound::Message, copy.alone_cycles[i]), (Bound::Stages, work)])
        };
        let off = |(a, b, took): &(&Stage, &Stage, &[f64])| {
            (took[i] / base(a.work_cycles[i] + b.work_cycles[i]).0).ln()
        };
        let (said, bound) = base(found.iter().map(|stage| stage.work_cycles[i]).sum());
        let logarithm = pairs.iter().map(off).sum::<f64>() / pairs.len().max(1) as f64;
        (said * logarithm.exp(), bound)
    };
    let (cycles, bounds): (Vec<_>, Vec<_>) = (0..level.lengths.len()).map(at).unzip();
    // That of the longest.
    (cycles, bounds.last().copied().unwrap_or(Bound::Stages))
}
