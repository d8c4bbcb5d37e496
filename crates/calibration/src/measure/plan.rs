//! All that is to be measured, a little of each in turn, again and again: whoever else uses the machine
//! for a second disturbs a part of the samples of everything, and not all samples of one thing.
//!
//! Before and after each sample the clock says how fast instructions go abreast; samples beside which they
//! went slower than at the best of times do not count.

use std::time::{Duration, Instant};

use crate::Effort;
use crate::measure::arena::Arena;
use crate::measure::random::Random;
use crate::measure::timing::{Clock, quantile};

/// ns of one run, or of the mean of several.
type Run = Box<dyn FnMut(&mut Arena, Duration) -> f64>;

/// One thing to measure.
#[derive(Clone, Copy)]
pub(crate) struct Task(usize);

/// What one turn of a task gave.
#[derive(Clone, Copy)]
struct Sample {
    cycles: f64,
    /// Cycles that instructions took abreast of each other, before or after: the worse.
    control: f64,
}

/// Tasks, and what was measured of them.
pub(crate) struct Plan {
    runs: Vec<Run>,
    samples: Vec<Vec<Sample>>,
}

/// What the clock said.
pub(crate) struct Quiet {
    /// Cycles of an instruction abreast of others when nobody else was there.
    pub(crate) control_cycles: f64,
    /// Part of the samples that do not count.
    pub(crate) disturbed: f64,
    /// ns a cycle, typically.
    pub(crate) ns_per_cycle: f64,
}

/// Another thread on the core costs more than this.
const NEAR: f64 = 1.08;
/// Of a task as many samples count at least.
const SAMPLES_MIN: usize = 4;

impl Plan {
    pub(crate) fn new() -> Plan {
        Plan { runs: Vec::new(), samples: Vec::new() }
    }

    pub(crate) fn add(&mut self, run: impl FnMut(&mut Arena, Duration) -> f64 + 'static) -> Task {
        self.runs.push(Box::new(run));
        self.samples.push(Vec::new());
        Task(self.runs.len() - 1)
    }

    /// Rounds until the time is over: one at least.
    pub(crate) fn measure(
        &mut self,
        arena: &mut Arena,
        clock: &mut Clock,
        effort: Effort,
        says: &mut dyn FnMut(f64),
    ) -> Quiet {
        let start = Instant::now();
        let (mut controls, mut ns) = (Vec::new(), Vec::new());
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        let mut random = Random::new(0);
        loop {
            let mut before = clock.look();
            // In another order each time: what one leaves in the caches is not always found by the same other.
            shuffle(&mut order, &mut random);
            for &i in &order {
                let (run, samples) = (&mut self.runs[i], &mut self.samples[i]);
                let took = run(arena, effort.turn);
                let after = clock.look();
                // The clock may have changed meanwhile; the faster of the two is what it was near.
                let ns_per_cycle = before.ns_per_cycle.min(after.ns_per_cycle);
                let control = before.control.max(after.control);
                samples.push(Sample { cycles: took / ns_per_cycle, control });
                controls.push(after.control);
                ns.push(after.ns_per_cycle);
                before = after;
            }
            let spent = start.elapsed();
            says((spent.as_secs_f64() / effort.time.as_secs_f64().max(1e-9)).min(1.0));
            if spent >= effort.time {
                break;
            }
        }
        let best = quantile(&mut controls, 0.02);
        let all: usize = self.samples.iter().map(Vec::len).sum();
        let mut counted = 0;
        for samples in &mut self.samples {
            samples.sort_by(|a, b| a.control.total_cmp(&b.control));
            let quiet = samples.iter().filter(|s| s.control <= best * NEAR).count();
            samples.truncate(quiet.max(SAMPLES_MIN));
            counted += quiet;
        }
        Quiet {
            control_cycles: best,
            disturbed: 1.0 - counted as f64 / all.max(1) as f64,
            ns_per_cycle: quantile(&mut ns, 0.5),
        }
    }

    /// Cycles of a task when nothing disturbs it.
    pub(crate) fn undisturbed(&self, task: &Task) -> f64 {
        self.at(task, 0.15)
    }

    /// Of memory, where chance is a part of the matter.
    pub(crate) fn typical(&self, task: &Task) -> f64 {
        self.at(task, 0.35)
    }

    fn at(&self, task: &Task, part: f64) -> f64 {
        let mut cycles: Vec<f64> = self.samples[task.0].iter().map(|s| s.cycles).collect();
        quantile(&mut cycles, part)
    }
}

/// Fisher and Yates.
fn shuffle(order: &mut [usize], random: &mut Random) {
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u32 + 1) as usize);
    }
}
