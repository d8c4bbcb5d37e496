//! The reasons behind a comparison, from what the equations count.

use crate::machine::{Error, Machine, Words};
use crate::pipeline::{Function, Implementation, Pipeline};
use crate::predict::{Bound, Counts, Prediction, counts};

/// What each implementation is bound by, and what one loop has less of than several.
pub(super) fn sentences(
    machine: &Machine,
    pipeline: &Pipeline,
    predictions: &[Prediction; 3],
) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    let passes = match pipeline {
        Pipeline::Functions(functions) => {
            let words = machine.words_named(&functions.first().ok_or(Error::NoFunctions)?.words)?;
            all.extend(registers(words, functions));
            all.extend(tables(machine, functions));
            functions.len()
        }
        Pipeline::Stages { names, .. } => names.len(),
        Pipeline::DataPass { swaps, .. } => 2 + usize::from(*swaps),
    };
    if passes > 1 {
        all.push(format!(
            "One loop loads and stores each byte once, separate passes up to {passes} times."
        ));
    }
    for (implementation, prediction) in Implementation::ALL.into_iter().zip(predictions) {
        all.push(bound(implementation, prediction.bound));
    }
    Ok(all)
}

fn registers(words: &Words, functions: &[Function]) -> Option<String> {
    let together = counts(words, functions);
    if together.state_words == 0 {
        return None;
    }
    let alone: Vec<Counts> =
        functions.iter().map(|one| counts(words, std::slice::from_ref(one))).collect();
    let spilled_alone: u32 = alone.iter().map(|counts| counts.spilled_words).sum();
    let Counts { state_words, spilled_words, unit_words, registers } = together;
    Some(if spilled_words == 0 {
        format!(
            "All state ({state_words} words) has registers in one loop: {registers} are left beside a unit \
             of {unit_words}."
        )
    } else {
        format!(
            "In one loop the functions keep {state_words} words of state and have {registers} registers for \
             them beside a unit of {unit_words}: {spilled_words} lie in memory and are loaded and stored for \
             each block. In loops of their own {}.",
            match spilled_alone {
                0 => "all have registers".to_owned(),
                n => format!("{n} do"),
            }
        )
    })
}

fn tables(machine: &Machine, functions: &[Function]) -> Option<String> {
    let all: u64 = functions.iter().map(Function::table).sum();
    let largest = functions.iter().map(Function::table).max()?;
    let first = machine.places.first()?;
    let kib = |bytes: u64| bytes.div_ceil(1024);
    (all > 0 && all as f64 > first.bytes).then(|| {
        format!(
            "Tables have {} KiB together, {} at most alone; {} has {}.",
            kib(all),
            kib(largest),
            first.name,
            kib(first.bytes as u64)
        )
    })
}

fn bound(implementation: Implementation, bound: Bound) -> String {
    let mut name = implementation.name().to_owned();
    name[..1].make_ascii_uppercase();
    format!("{name} is bound by {}.", bound.name())
}
