//! `fusewire model predict`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use fusewire_kernels::Level;
use fusewire_model::{Cache, Implementation, Prediction, predict};
use serde_json::json;

use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, json, printable};

/// Asks the model about a pipeline.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Predict {
    /// The data pass of a record, as in `swap32 > aes-256-gcm > internet` (receiving: `internet > aes-256-gcm > swap32`);
    /// stages, as in `swap32 > cxor > internet`; or described functions, as in
    /// `scalar64:state=4,instructions=10,block=2 * 3 > scalar64:state=1,reads` (block and state in
    /// words; also lookups and table, in bytes).
    pipeline: String,
    /// Length of the message, in bytes.
    #[arg(long, value_name = "N", default_value_t = 1408)]
    bytes: u32,
    /// CPU level of the stages [default: the highest of this machine].
    #[arg(long, value_name = "LEVEL")]
    cpu_level: Option<String>,
    /// A machine that was kept elsewhere.
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Print a line of JSON for each answer.
    #[arg(long)]
    json: bool,
}

/// Answers.
pub fn run(options: &Predict) -> Result {
    let level = options.cpu_level.clone().unwrap_or_else(|| Level::detect().name().to_owned());
    let usage = |error: String| Failure::new(Code::Usage, error);
    let pipeline = crate::model::pipeline(&options.pipeline, &level)?;
    let machine = crate::machine::machine(options.machine.as_ref())?;
    if options.bytes == 0 {
        return Err(usage("--bytes: a message has one at least".to_owned()).into());
    }
    let bytes = f64::from(options.bytes);
    let mut rows = Vec::new();
    for cache in [Cache::Warm, Cache::Cold] {
        for implementation in Implementation::ALL {
            let said = predict(&machine, &pipeline, bytes, cache, implementation)
                .map_err(|error| usage(error.to_string()))?;
            rows.push((cache, implementation, said));
        }
    }
    if options.json {
        return rows.iter().try_for_each(|(cache, implementation, said)| {
            json(&json!({
                "pipeline": options.pipeline,
                "bytes": options.bytes,
                "cache": cache.name(),
                "implementation": implementation.name(),
                "cycles_per_byte": said.cycles / bytes,
                "ns_per_byte": said.cycles * machine.ns_per_cycle / bytes,
                "bound": said.bound.name(),
            }))
        });
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} bytes through {}", options.bytes, printable(&options.pipeline))?;
    writeln!(out, "\n{:5} {:12} {:>13} {:>10}   bound by", "", "", "cycles a byte", "ns a byte")?;
    for (cache, implementation, said) in &rows {
        let fastest =
            rows.iter().filter(|row| row.0 == *cache).all(|row| row.2.cycles >= said.cycles);
        let Prediction { cycles, bound } = said;
        writeln!(
            out,
            "{:5} {:12} {:>13.3} {:>10.3} {} {}",
            cache.name(),
            implementation.name(),
            cycles / bytes,
            cycles * machine.ns_per_cycle / bytes,
            if fastest { "◀" } else { " " },
            bound.name()
        )?;
    }
    Ok(())
}
