//! `fusewire model check`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fusewire_calibration::{Check as Found, Checked, Effort, check, score};
use fusewire_model::Pipeline;
use serde_json::json;

use super::Bar;
use crate::output::{LOCAL_EXIT_CODES, Result, json};

/// Measures pipelines that calibration did not, and compares.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Check {
    /// A machine that was kept elsewhere.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Draw the described functions at random, by this number, instead of taking those that are listed.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Print a line of JSON for each measurement, then one for the score.
    #[arg(long)]
    json: bool,
    /// How long to measure.
    #[arg(long, value_name = "SECONDS", default_value_t = Effort::CHECK.time.as_secs(), value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// A few seconds, for tests: the figures mean little.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
}

/// Does it.
pub fn run(options: &Check) -> Result {
    let machine = crate::machine::machine(options.machine.as_ref())?;
    let effort = match options.quick {
        true => Effort::SMOKE,
        false => Effort { time: Duration::from_secs(options.seconds), ..Effort::CHECK },
    };
    let bar = Bar::new()?;
    let Found { all, memory_cycles } =
        check(&machine, options.seed, effort, &mut |part| bar.says(part))?;
    let calibrated_cycles = machine.places.last().map_or(f64::NAN, |memory| memory.latency_cycles);
    bar.clear();
    let score = score(&all);
    let [integrated, blocked, sequential] = score.right_always;
    if options.json {
        all.iter().try_for_each(|checked| json(&line(checked)))?;
        return json(&json!({
            "processor": machine.processor,
            "memory_cycles": memory_cycles,
            "memory_cycles_calibrated": calibrated_cycles,
            "cases": score.cases,
            "mean_error": score.mean_error,
            "worst_error": score.worst_error,
            "right": score.right,
            "right_always_integrated": integrated,
            "right_always_blocked": blocked,
            "right_always_sequential": sequential,
            "integration_loses": score.integration_loses,
        }));
    }
    let mut out = std::io::stdout().lock();
    let percent = |part: f64| format!("{:.1} %", part * 100.0);
    writeln!(out, "{}", machine.processor)?;
    writeln!(
        out,
        "memory answers after {memory_cycles:.0} cycles; when calibrated, after {calibrated_cycles:.0}: what it costs is taken in proportion"
    )?;
    writeln!(out, "{} cases (pipeline, size, cache), three implementations each", score.cases)?;
    writeln!(
        out,
        "error of a prediction: mean {}, worst {}",
        percent(score.mean_error),
        percent(score.worst_error)
    )?;
    writeln!(out, "\nthe choice is within 5 % of the best in")?;
    for (who, part) in [
        ("the model", score.right),
        ("always integrated", integrated),
        ("always blocked", blocked),
        ("always sequential", sequential),
    ] {
        writeln!(out, "  {who:18} {:>7} of the cases", percent(part))?;
    }
    writeln!(
        out,
        "integrated is more than 10 % slower than the best in {}",
        percent(score.integration_loses)
    )?;
    let mut worst: Vec<_> = all.iter().collect();
    worst.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
    writeln!(out, "\nfarthest off:")?;
    for checked in worst.iter().take(10) {
        writeln!(
            out,
            "  {:+4.0} %  {:>7} bytes {} {:10} {:.3} said, {:.3} measured  {}",
            checked.error() * 100.0,
            checked.bytes,
            checked.cache.name(),
            checked.implementation.name(),
            checked.predicted,
            checked.measured,
            name(&checked.pipeline)
        )?;
    }
    Ok(())
}

fn line(checked: &Checked) -> serde_json::Value {
    json!({
        "pipeline": name(&checked.pipeline),
        "bytes": checked.bytes,
        "cache": checked.cache.name(),
        "implementation": checked.implementation.name(),
        "predicted_cycles_per_byte": checked.predicted,
        "measured_cycles_per_byte": checked.measured,
    })
}

/// As `predict` reads it.
fn name(pipeline: &Pipeline) -> String {
    match pipeline {
        Pipeline::Stages { names, level } => format!("{} ({level})", names.join(" > ")),
        Pipeline::DataPass { cipher, level, .. } => format!("{cipher} ({level})"),
        Pipeline::Functions(functions) => {
            let mut text = String::new();
            for group in functions.chunk_by(|a, b| a == b) {
                if !text.is_empty() {
                    text += " > ";
                }
                text += &group[0].to_string();
                if group.len() > 1 {
                    text += &format!(" * {}", group.len());
                }
            }
            text
        }
    }
}
