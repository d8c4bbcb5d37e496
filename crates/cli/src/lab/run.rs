//! `fusewire lab run`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use fusewire_lab::change::Change;
use fusewire_lab::experiment::Experiment;
use fusewire_lab::experiments::ALL;
use fusewire_lab::lab::{self, Outcome, Plan, Progress};
use fusewire_lab::record::Record;
use fusewire_session::Level;
use serde_json::json;

use super::records;
use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, count, json, printable, then};
use crate::progress::Progress as Shown;

/// Which experiments.
#[derive(Args)]
#[command(after_help = format!("{LOCAL_EXIT_CODES}\n  130  interrupted: what had ended is kept"))]
pub struct Run {
    /// Experiments, or papers: braun, ahlgren, dabbous, maclean, inca.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// All that can run here.
    #[arg(long)]
    all: bool,
    /// A short run, under three minutes for all: the figures are rough.
    #[arg(long)]
    quick: bool,
    /// Print each record as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Where records are kept [default: fusewire/lab in the XDG data folder].
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// CPU level of the loops [default: the best of this machine].
    #[arg(long, value_name = "NAME")]
    level: Option<Level>,
}

/// Runs them. Ctrl-C ends after the step at hand, and keeps the records that are there.
pub fn run(options: &Run) -> Result {
    let chosen = match options.all {
        true => ALL.iter().collect(),
        false => {
            let wrong = |e: fusewire_lab::Error| Failure::new(Code::Usage, e.to_string());
            lab::select(&options.names).map_err(wrong)?
        }
    };
    let records = records(options.records.as_ref())?;
    records.open()?;
    let plan = Plan {
        quick: options.quick,
        level: options.level.unwrap_or_else(Level::detect),
        program: std::env::current_exe()?,
        command: command(),
    };
    let stop = crate::transfer::stop_flag()?;
    let mut bar = Bar { shown: Shown::new(), said: None };
    let mut report = |progress: &Progress<'_>| {
        bar.report(progress);
        !stop.load(Ordering::Relaxed)
    };
    let (mut done, mut failed, mut written) = (0u64, 0u64, Ok(()));
    let ended = lab::run(&chosen, &plan, &records, &mut report, &mut |experiment, outcome| {
        Shown::new().clear();
        match &outcome {
            Outcome::Done { .. } => done += 1,
            Outcome::Failed(_) => failed += 1,
            Outcome::Left(_) => {}
        }
        then(&mut written, || print(experiment, &outcome, options.json));
    });
    Shown::new().clear();
    written?;
    match ended {
        Err(fusewire_lab::Error::Interrupted) => {
            let kept = count(done, "record");
            let why = format!("interrupted; {kept} kept in {}", records.folder().display());
            return Err(Failure::new(Code::Interrupted, why).into());
        }
        other => other?,
    }
    if !options.json && done > 0 {
        println!(
            "kept in {}; `fusewire lab report -o DIR` makes a page of it",
            records.folder().display()
        );
    }
    match failed {
        0 => Ok(()),
        n => Err(Failure::new(Code::Failed, format!("{} failed", count(n, "experiment"))).into()),
    }
}

/// What the user typed, without what a shell needs.
fn command() -> String {
    let words = std::env::args().skip(1).map(|word| printable(&word));
    let mut text = "fusewire".to_owned();
    for word in words {
        text += " ";
        text += &word;
    }
    text.chars().take(400).collect()
}

/// How far it is, on standard error: in place on a terminal, elsewhere a line now and then.
struct Bar {
    shown: Shown,
    said: Option<(Instant, usize)>,
}

impl Bar {
    fn report(&mut self, progress: &Progress<'_>) {
        let pause = Duration::from_millis(if self.shown.terminal { 100 } else { 15_000 });
        let soon = self.said.is_some_and(|(at, index)| {
            at.elapsed() < pause && (self.shown.terminal || index == progress.index)
        });
        if soon {
            return;
        }
        self.said = Some((Instant::now(), progress.index));
        let left = progress.left.as_secs();
        let line = format!(
            "{:>3.0} %, {}:{:02} left; {} of {}: {}, {}",
            progress.part * 100.0,
            left / 60,
            left % 60,
            progress.index + 1,
            progress.count,
            progress.experiment,
            progress.what
        );
        let most = if self.shown.terminal { 100 } else { usize::MAX };
        self.shown.report(&line.chars().take(most).collect::<String>());
    }
}

fn print(experiment: &Experiment, outcome: &Outcome, as_json: bool) -> Result {
    if as_json {
        return match outcome {
            Outcome::Done { record, .. } => json(record),
            Outcome::Left(why) => json(&json!({ "experiment": experiment.name, "left_out": why })),
            Outcome::Failed(error) => {
                json(&json!({ "experiment": experiment.name, "failed": error.to_string() }))
            }
        };
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{:<22} ", experiment.name)?;
    match outcome {
        Outcome::Left(why) => writeln!(out, "left out: {why}")?,
        Outcome::Failed(error) => writeln!(out, "failed: {}", printable(&error.to_string()))?,
        Outcome::Done { record, change } => {
            writeln!(
                out,
                "{} in {:.1} s{}",
                count(record.points.len() as u64, "point"),
                record.seconds,
                since(change.as_ref())
            )?;
            beside(&mut out, record)?;
        }
    }
    Ok(())
}

fn since(change: Option<&Change>) -> String {
    change.map_or_else(String::new, |change| format!("; {}", change.words()))
}

/// What is wrong with the record, if anything.
fn beside(out: &mut impl Write, record: &Record) -> Result {
    if record.is_measured() && record.noise.noisy {
        writeln!(
            out,
            "{:<22} the machine was noisy: the control loop was disturbed in {:.0} % of {} looks",
            "",
            record.noise.disturbed * 100.0,
            record.noise.looks
        )?;
    }
    for remark in &record.remarks {
        writeln!(out, "{:<22} {remark}", "")?;
    }
    Ok(())
}
