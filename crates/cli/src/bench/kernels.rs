//! `fusewire bench kernels`.

use std::io::Write;

use clap::Args;
use fusewire_kernels::measure::{self, Effort, SIZES};
use fusewire_session::Level;
use serde_json::json;

use crate::output::{Code, Failure, Result, json};

/// Which pipelines, and how long.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Lengths of the message, in bytes [default: 256 to 64 MiB].
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(8..=1 << 28))]
    sizes: Vec<u32>,
    /// Show only pipelines and check functions with one of these words in their name.
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pipelines: Vec<String>,
    /// CPU level [default: the best of this machine].
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// Measures and prints each line as soon as it is there.
pub fn run(options: &Options) -> Result {
    let level = match &options.level {
        None => Level::detect(),
        Some(name) => Level::from_name(name)
            .ok_or_else(|| Failure::new(Code::Usage, "this machine has no such level"))?,
    };
    let sizes: Vec<usize> = match options.sizes.is_empty() {
        true => SIZES.to_vec(),
        false => options.sizes.iter().map(|n| *n as usize).collect(),
    };
    let effort = if options.smoke { Effort::SMOKE } else { Effort::FULL };
    let wanted = |name: &str| {
        options.pipelines.is_empty() || options.pipelines.iter().any(|w| name.contains(w.as_str()))
    };
    if !options.json {
        heading(level)?;
    }
    let mut written: Result = Ok(());
    measure::pipelines(level, &sizes, effort, &mut |line| {
        if written.is_ok() && wanted(line.pipeline) {
            written = if options.json { json(&value(line)) } else { row(line) };
        }
    });
    written?;
    let mut written: Result = Ok(());
    measure::checks(level, &sizes, effort, &mut |line| {
        if written.is_ok() && wanted(line.function) {
            written = if options.json {
                json(&json!({
                    "function": line.function,
                    "form": line.form,
                    "size_bytes": line.size_bytes,
                    "level": line.level,
                    "bytes_per_s": line.rate,
                }))
            } else {
                check_row(line)
            };
        }
    });
    written
}

fn value(line: &measure::Line) -> serde_json::Value {
    json!({
        "pipeline": line.pipeline,
        "direction": line.direction.name(),
        "size_bytes": line.size_bytes,
        "level": line.level,
        "integrated": line.integrated,
        "blocked": line.blocked,
        "sequential": line.sequential,
        "function_pointers": line.function_pointers,
        "word_filters": line.word_filters,
        "reference": line.reference,
        "reference_is": line.reference_is,
        "without_store": line.without_store,
    })
}

fn heading(level: Level) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "GB/s at level {}; ÷seq and ÷ref: integrated to sequential, to reference",
        level.name()
    )?;
    writeln!(
        out,
        "{:<44} {:<7} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "pipeline", "way", "bytes", "integ", "block", "sequ", "pointer", "ref", "÷seq", "÷ref"
    )?;
    Ok(())
}

fn row(line: &measure::Line) -> Result {
    let gb = |rate: f64| format!("{:.2}", rate / 1e9);
    writeln!(
        std::io::stdout().lock(),
        "{:<44} {:<7} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6.2} {:>6.2}",
        line.pipeline,
        line.direction.name(),
        line.size_bytes,
        gb(line.integrated),
        gb(line.blocked),
        gb(line.sequential),
        line.function_pointers.map_or("–".into(), gb),
        gb(line.reference),
        line.integrated / line.sequential,
        line.integrated / line.reference
    )?;
    Ok(())
}

fn check_row(line: &measure::CheckLine) -> Result {
    writeln!(
        std::io::stdout().lock(),
        "{:<44} {:<7} {:>9} {:>7.2}",
        format!("{}, {}", line.function, line.form),
        "read",
        line.size_bytes,
        line.rate / 1e9
    )?;
    Ok(())
}
