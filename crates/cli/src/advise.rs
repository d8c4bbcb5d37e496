//! `fusewire advise`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use fusewire_kernels::Level;
use fusewire_model::{Comparison, Description, Implementation, Machine, Pipeline, advise};
use serde_json::json;

use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, json, printable};

/// Describes functions as JSON; docs/model.md has every field.
const EXAMPLE: &str = r#"A description:
  { "version": 1, "words": "scalar64", "bytes": 1408,
    "functions": [
      { "name": "swap",     "block_bytes": 8, "instructions": 1 },
      { "name": "cipher",   "block_bytes": 16, "state_words": 4, "instructions": 12,
        "lookups": 2, "table_bytes": 16384 },
      { "name": "checksum", "block_bytes": 8, "state_words": 1, "instructions": 2,
        "output": "none", "order": "first-to-last" } ] }"#;

/// Says whether functions should run in one loop, by how much it pays, and why.
#[derive(Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{LOCAL_EXIT_CODES}\n  3    refused: a function that cannot be in one loop with the others"))]
pub struct Advise {
    /// Functions, described in a file of JSON.
    #[arg(value_name = "FILE", required_unless_present = "pipeline")]
    description: Option<PathBuf>,
    /// Stages or functions as `fusewire model predict` takes them, in place of a file.
    #[arg(long, value_name = "PIPELINE", conflicts_with = "description")]
    pipeline: Option<String>,
    /// Length of the message, in bytes [default: what the description says, or 1408].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    bytes: Option<u32>,
    /// CPU level of the stages [default: the highest of this machine].
    #[arg(long, value_name = "LEVEL")]
    cpu_level: Option<String>,
    /// A machine that was kept elsewhere.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Print a line of JSON for each place that the message can lie in.
    #[arg(long)]
    json: bool,
}

/// Bytes of a message that nobody said the length of: a packet's payload.
const BYTES: u32 = 1408;

/// Advises.
pub fn run(options: &Advise) -> Result {
    let machine = crate::machine::machine(options.machine.as_ref())?;
    let (pipeline, said) = match (&options.description, &options.pipeline) {
        (Some(path), _) => described(path, &machine)?,
        (None, text) => {
            let text = text.as_deref().unwrap_or_default();
            let level =
                options.cpu_level.clone().unwrap_or_else(|| Level::detect().name().to_owned());
            (crate::model::pipeline(text, &level)?, None)
        }
    };
    let bytes = options.bytes.or(said).unwrap_or(BYTES);
    let advice = advise(&machine, &pipeline, bytes.into())
        .map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    for comparison in [&advice.warm, &advice.cold] {
        if options.json {
            json(&line(comparison, bytes))?;
        } else {
            print(comparison, bytes, &machine)?;
        }
    }
    Ok(())
}

/// The functions of a file, and the length of message that it says.
fn described(path: &std::path::Path, machine: &Machine) -> Result<(Pipeline, Option<u32>)> {
    let failure = |code, why: String| Failure::new(code, format!("{}: {why}", path.display()));
    let text = crate::machine::text(path).map_err(|why| failure(Code::Failed, why))?;
    let description: Description =
        serde_json::from_str(&text).map_err(|error| failure(Code::Usage, error.to_string()))?;
    if description.bytes == Some(0) {
        return Err(
            failure(Code::Usage, "bytes is 0: a message has one at least".to_owned()).into()
        );
    }
    let pipeline = description.pipeline(machine).map_err(|error| {
        let code = match error {
            fusewire_model::advise::Error::Rule(_) => Code::Refused,
            _ => Code::Usage,
        };
        failure(code, error.to_string())
    })?;
    Ok((pipeline, description.bytes))
}

fn line(comparison: &Comparison, bytes: u32) -> serde_json::Value {
    let [integrated, blocked, sequential] =
        comparison.predictions.map(|said| said.cycles / f64::from(bytes));
    json!({
        "bytes": bytes,
        "cache": comparison.cache.name(),
        "choice": comparison.choice.name(),
        "integrate": comparison.choice == Implementation::Integrated,
        "gain": comparison.gain,
        "integrated_cycles_per_byte": integrated,
        "blocked_cycles_per_byte": blocked,
        "sequential_cycles_per_byte": sequential,
        "why": comparison.why,
    })
}

fn print(comparison: &Comparison, bytes: u32, machine: &Machine) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(out, "A message of {bytes} bytes, {}:", comparison.cache.in_words())?;
    for sentence in &comparison.why {
        writeln!(out, "  {}", printable(sentence))?;
    }
    writeln!(out, "\n  {:12} {:>13} {:>10}", "", "cycles a byte", "ns a byte")?;
    for (implementation, said) in Implementation::ALL.into_iter().zip(&comparison.predictions) {
        let cycles = said.cycles / f64::from(bytes);
        let mark = if implementation == comparison.choice { "◀" } else { "" };
        let ns = cycles * machine.ns_per_cycle;
        writeln!(out, "  {:12} {cycles:>13.3} {ns:>10.3} {mark}", implementation.name())?;
    }
    writeln!(out)?;
    Ok(())
}
