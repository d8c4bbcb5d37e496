//! The model's answers beside what the machine does.

use fusewire_model::{Cache, Implementation, Machine, Pipeline, predict};

use std::cell::RefCell;
use std::rc::Rc;

use crate::measure::arena::{Arena, Places};
use crate::measure::cases::cases;
use crate::measure::places;
use crate::measure::plan::Plan;
use crate::measure::timing::{Clock, far, turn};
use crate::{Effort, Error};

/// Sizes of message, in bytes.
const SIZES: [usize; 6] = [512, 1536, 4096, 16_384, 65_536, 262_144];

/// One pipeline at one size from one place, run one way.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What ran.
    pub pipeline: Pipeline,
    /// Bytes of message.
    pub bytes: usize,
    /// Where it lay.
    pub cache: Cache,
    /// How it ran.
    pub implementation: Implementation,
    /// Cycles a byte that the model says.
    pub predicted: f64,
    /// Cycles a byte that it took.
    pub measured: f64,
}

impl Checked {
    /// How far the prediction is off, as a part of what was measured.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Check {
    /// Every case in every way.
    pub all: Vec<Checked>,
    /// Cycles after which memory answered meanwhile.
    pub memory_cycles: f64,
}

/// Runs every case in every way: described functions that are listed, or with a seed drawn at random, and stages. The model is
/// asked about the machine with memory as it is meanwhile: who shares that changes it by a third within minutes.
///
/// # Errors
/// When a case cannot be made here, or the machine does not know it.
pub fn check(
    machine: &Machine,
    seed: Option<u64>,
    effort: Effort,
    says: &mut dyn FnMut(f64),
) -> Result<Check, Error> {
    let mut arena = Arena::new(effort.cold_bytes);
    let mut clock = Clock::new()?;
    let mut plan = Plan::new();
    let memory = places::memory(&mut plan, effort.cold_bytes);
    let mut tasks = Vec::new();
    for (pipeline, runner) in cases(seed)? {
        let runner = Rc::new(RefCell::new(runner));
        for cache in [Cache::Warm, Cache::Cold] {
            for bytes in SIZES {
                for implementation in Implementation::ALL {
                    let runner = Rc::clone(&runner);
                    let task = plan.add(move |arena, length| {
                        let mut runner = runner.borrow_mut();
                        match cache {
                            Cache::Warm => {
                                let Places { src, dst, work } = arena.warm(bytes);
                                turn(length, || runner.run(src, dst, work, implementation))
                            }
                            Cache::Cold => far(arena, bytes, |Places { src, dst, work }| {
                                runner.run(src, dst, work, implementation);
                            }),
                        }
                    });
                    tasks.push((pipeline.clone(), cache, bytes, implementation, task));
                }
            }
        }
    }
    plan.measure(&mut arena, &mut clock, effort, says);
    let memory_cycles = plan.typical(&memory);
    let machine = &machine.clone().with_memory(memory_cycles);
    let mut all = Vec::new();
    for (pipeline, cache, bytes, implementation, task) in tasks {
        let cycles = match cache {
            Cache::Warm => plan.undisturbed(&task),
            Cache::Cold => plan.typical(&task),
        };
        let len = bytes as f64;
        let said = predict(machine, &pipeline, len, cache, implementation)?;
        let (predicted, measured) = (said.cycles / len, cycles / len);
        all.push(Checked { pipeline, bytes, cache, implementation, predicted, measured });
    }
    Ok(Check { all, memory_cycles })
}

/// How good the model is.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Mean of the errors, without their sign.
    pub mean_error: f64,
    /// The largest.
    pub worst_error: f64,
    /// Part of the cases (pipeline, size, cache) in which the implementation that the model takes is
    /// within 5 % of the best.
    pub right: f64,
    /// The same, were the answer always integrated, blocked, sequential.
    pub right_always: [f64; 3],
    /// Part of the cases in which integrated is more than 10 % slower than the best.
    pub integration_loses: f64,
    /// Cases.
    pub cases: usize,
}

/// The score of a check.
pub fn score(all: &[Checked]) -> Score {
    let errors = || all.iter().map(|checked| checked.error().abs());
    let mut cases: Vec<Vec<&Checked>> = Vec::new();
    for checked in all {
        let same = cases.iter_mut().find(|case| {
            let first = case[0];
            first.pipeline == checked.pipeline
                && first.bytes == checked.bytes
                && first.cache == checked.cache
        });
        match same {
            Some(case) => case.push(checked),
            None => cases.push(vec![checked]),
        }
    }
    let part = |good: &dyn Fn(&[&Checked]) -> bool| {
        cases.iter().filter(|case| good(case)).count() as f64 / cases.len().max(1) as f64
    };
    let best = |case: &[&Checked]| case.iter().map(|c| c.measured).fold(f64::INFINITY, f64::min);
    let took = |case: &[&Checked], implementation| {
        case.iter().find(|c| c.implementation == implementation).map_or(f64::NAN, |c| c.measured)
    };
    let chosen = |case: &[&Checked]| {
        let by = |a: &&&Checked, b: &&&Checked| a.predicted.total_cmp(&b.predicted);
        case.iter().min_by(by).map_or(f64::NAN, |c| c.measured)
    };
    Score {
        mean_error: errors().sum::<f64>() / all.len().max(1) as f64,
        worst_error: errors().fold(0.0, f64::max),
        right: part(&|case| chosen(case) <= best(case) * 1.05),
        right_always: Implementation::ALL
            .map(|always| part(&|case| took(case, always) <= best(case) * 1.05)),
        integration_loses: part(&|case| took(case, Implementation::Integrated) > best(case) * 1.1),
        cases: cases.len(),
    }
}
