//! Running experiments: which, how long it will take, what came out and how it differs from last time.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fusewire_kernels::Level;

use crate::bench::{Bench, machine};
use crate::change::Change;
use crate::experiment::{Experiment, Paper};
use crate::experiments::ALL;
use crate::record::{Record, Records, SCHEMA, date};
use crate::{Error, Result};

/// How to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Short: rough figures.
    pub quick: bool,
    /// Which instructions the loops use.
    pub level: Level,
    /// This program.
    pub program: PathBuf,
    /// The command that the user gave.
    pub command: String,
}

/// What runs hear of.
pub struct Progress<'a> {
    /// The experiment.
    pub experiment: &'a str,
    /// Which of how many, from 0.
    pub index: usize,
    /// How many.
    pub count: usize,
    /// What it does.
    pub what: &'a str,
    /// Part of all that is done, 0 to 1.
    pub part: f64,
    /// Until all is done.
    pub left: Duration,
}

/// What became of an experiment.
pub enum Outcome {
    /// It ran.
    Done {
        /// What it found.
        record: Box<Record>,
        /// How that differs from the last record of the same kind on the same machine.
        change: Option<Change>,
    },
    /// It cannot run here.
    Left(String),
    /// It failed.
    Failed(Error),
}

/// Experiments by name, or by the name of their paper.
///
/// # Errors
/// When nothing has that name.
pub fn select(names: &[String]) -> Result<Vec<&'static Experiment>> {
    let mut chosen: Vec<&'static Experiment> = Vec::new();
    for name in names {
        let of = |e: &&Experiment| e.name == name || e.paper.name() == name;
        let mut found = ALL.iter().filter(of).peekable();
        if found.peek().is_none() {
            let papers = Paper::ALL.map(Paper::name).join(", ");
            let why = format!(
                "no experiment {name:?}: `fusewire lab list` names them; all of a paper are {papers}"
            );
            return Err(Error::Unsupported(why));
        }
        for experiment in found {
            if !chosen.iter().any(|c| c.name == experiment.name) {
                chosen.push(experiment);
            }
        }
    }
    Ok(chosen)
}

/// Runs them one after the other. `tell` hears of progress and gives whether to go on; `each` hears of every
/// outcome, whose record has been kept already.
///
/// # Errors
/// [`Error::Interrupted`] when the user wanted no more, and what keeps records from being kept.
pub fn run(
    experiments: &[&'static Experiment],
    plan: &Plan,
    records: &Records,
    report: &mut dyn FnMut(&Progress<'_>) -> bool,
    each: &mut dyn FnMut(&'static Experiment, Outcome),
) -> Result<()> {
    let clock = Clock::new(experiments, plan.quick);
    for (index, experiment) in experiments.iter().enumerate() {
        if let Some(why) = experiment.obstacle() {
            each(experiment, Outcome::Left(why));
            continue;
        }
        let mut said = String::new();
        let mut watch = |part: f64, what: &str| {
            if !what.is_empty() {
                said = what.to_owned();
            }
            let (part, left) = clock.at(index, part);
            let (count, experiment) = (experiments.len(), experiment.name);
            report(&Progress { experiment, index, count, what: &said, part, left })
        };
        let outcome = match one(experiment, plan, &mut watch) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The terminal's Ctrl-C ended a program that it had started.
            Err(_) if !watch(1.0, "") => return Err(Error::Interrupted),
            Err(error) => Outcome::Failed(error),
            Ok(record) => {
                let change = Change::between(&records.of(&record.experiment).0, &record);
                match records.keep(&record) {
                    Err(error @ Error::Record(_)) => Outcome::Failed(error),
                    kept => {
                        kept?;
                        Outcome::Done { record: Box::new(record), change }
                    }
                }
            }
        };
        each(experiment, outcome);
    }
    Ok(())
}

fn one<'w>(
    experiment: &Experiment,
    plan: &Plan,
    watch: &'w mut (dyn FnMut(f64, &str) -> bool + 'w),
) -> Result<Record> {
    let start = Instant::now();
    let taken_unix_s =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut bench = Bench::new(plan.quick, plan.level, plan.program.clone(), watch);
    bench.step(0.0, "begins")?;
    (experiment.run)(&mut bench)?;
    let (points, remarks, noise) = bench.finish();
    if points.is_empty() {
        return Err(Error::Unsupported(match remarks.first() {
            Some(remark) => remark.clone(),
            None => "nothing came out".to_owned(),
        }));
    }
    Ok(Record {
        schema: SCHEMA,
        experiment: experiment.name.to_owned(),
        taken_unix_s,
        taken: date(taken_unix_s),
        seconds: start.elapsed().as_secs_f64(),
        command: plan.command.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        quick: plan.quick,
        machine: machine(plan.level),
        noise,
        remarks,
        points,
    })
}

/// What is left, from what was thought and what has been needed.
struct Clock {
    thought: Vec<f64>,
    start: Instant,
}

impl Clock {
    fn new(experiments: &[&Experiment], quick: bool) -> Clock {
        let seconds = |e: &&Experiment| match e.obstacle() {
            Some(_) => 0.0,
            None => e.seconds[usize::from(!quick)],
        };
        Clock { thought: experiments.iter().map(seconds).collect(), start: Instant::now() }
    }

    fn at(&self, index: usize, part: f64) -> (f64, Duration) {
        let all: f64 = self.thought.iter().sum();
        let done = self.thought[..index].iter().sum::<f64>() + self.thought[index] * part;
        let needed = self.start.elapsed().as_secs_f64();
        // Thoughts count as much as what ten seconds have shown.
        let pace = (needed + 10.0) / (done + 10.0);
        let left = ((all - done) * pace).clamp(0.0, 1e6);
        (if all > 0.0 { done / all } else { 1.0 }, Duration::from_secs_f64(left))
    }
}
