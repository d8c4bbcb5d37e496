//! Data passes of records, which calibration measures whole: near for several lengths, and from memory for a long message.

use super::{Bound, Cost, Instructions, Pass, Prediction, Total, from, stages};
use crate::machine::{Error, Machine, Moves, Transform};
use crate::pipeline::{Cache, Implementation, Pipeline};

/// A data pass.
pub(super) struct Names<'a> {
    pub(super) cipher: &'a str,
    pub(super) swaps: bool,
    pub(super) receives: bool,
    pub(super) level: &'a str,
}

impl Names<'_> {
    /// The stages that it is made of.
    fn stages(&self) -> Vec<String> {
        let mut names = vec![self.cipher.to_owned(), "internet".to_owned()];
        if self.swaps {
            names.insert(0, "swap32".to_owned());
        }
        if self.receives {
            names.reverse();
        }
        names
    }

    fn is(&self, one: &Transform, implementation: Implementation) -> bool {
        one.cipher == self.cipher
            && one.swap_bytes == if self.swaps { 4 } else { 1 }
            && one.receives == self.receives
            && one.level == self.level
            && one.implementation == implementation
    }
}

/// Cycles of a message of `bytes` from memory to memory.
pub(crate) fn cold_cycles(one: &Transform, bytes: f64) -> f64 {
    let cost = Cost::Points(one.near.clone());
    cost.of(bytes) + bytes * (one.cold_cycles_per_byte - cost.per_byte()).max(0.0)
}

pub(super) fn predict(
    machine: &Machine,
    names: &Names<'_>,
    bytes: f64,
    cache: Cache,
    implementation: Implementation,
) -> Result<Prediction, Error> {
    let Some(one) = machine.transforms.iter().find(|one| names.is(one, implementation)) else {
        return by_stages(machine, names, bytes, cache, implementation);
    };
    let cost = Cost::Points(one.near.clone());
    let near = cost.of(bytes);
    let mut sum = Total::default();
    let pass = Pass {
        cost,
        bound: Bound::Stages,
        instructions: Instructions::PerCycle(stages::INSTRUCTIONS_PER_CYCLE),
        spilled_per_byte: 0.0,
        word_bytes: stages::word_bytes(&one.level),
        writes: true,
    };
    sum.work(&pass, bytes, near);
    match cache {
        Cache::Cold => sum.add(Bound::Transfer, cold_cycles(one, bytes) - near),
        Cache::Warm => {
            let place = from(machine, bytes * 2.0, cache);
            sum.transfer(machine, &pass.overlap(bytes), bytes, &[(place, Moves::Copy)]);
        }
    }
    Ok(sum.prediction())
}

/// Predicts from single stages if the whole data pass was not measured at this level.
fn by_stages(
    machine: &Machine,
    names: &Names<'_>,
    bytes: f64,
    cache: Cache,
    implementation: Implementation,
) -> Result<Prediction, Error> {
    let level = names.level.to_owned();
    let pipeline = Pipeline::Stages { names: names.stages(), level };
    super::predict(machine, &pipeline, bytes, cache, implementation).map_err(|error| match error {
        Error::NoStage { stage, level, .. } if stage == names.cipher => {
            let mut known: Vec<String> = Vec::new();
            for one in &machine.transforms {
                let name = format!("{} ({})", one.cipher, one.level);
                if !known.contains(&name) {
                    known.push(name);
                }
            }
            Error::NoTransform { cipher: stage, level, known: known.join(", ") }
        }
        other => other,
    })
}
