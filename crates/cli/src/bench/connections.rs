//! `fusewire bench connections`.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use fusewire_lab::connections::{self, Outcome, Plan};

use crate::options;
use crate::output::{Code, Failure, Result, json, rate, size};

/// How many, and how much.
#[derive(Args)]
pub struct Options {
    /// Connections open at once.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=4096))]
    open: u32,
    /// How many of them transfer at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1024))]
    transferring: u32,
    /// Bytes that each of those gets, for example 256MiB.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = options::bytes)]
    bytes: u64,
    /// Seconds over which the CPU time of the server at rest is measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    idle_seconds: f64,
    /// Print a line of JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it, and fails if a connection failed.
pub fn run(options: &Options) -> Result {
    let idle = Duration::try_from_secs_f64(options.idle_seconds)
        .map_err(|e| Failure::new(Code::Usage, format!("--idle-seconds: {e}")))?;
    if !(1..=options.open).contains(&options.transferring) {
        let what =
            "--transferring: at least one connection transfers, and no more than are open (--open)";
        return Err(Failure::new(Code::Usage, what).into());
    }
    let plan = Plan {
        open: options.open as usize,
        transferring: options.transferring as usize,
        bytes: options.bytes,
        idle,
        program: std::env::current_exe()?,
    };
    let outcome = connections::run(&plan, &mut |what| eprintln!("{what}"))?;
    if options.json {
        json(&outcome)?
    } else {
        table(&outcome)?
    }
    match outcome.verified {
        true => Ok(()),
        false => {
            let first = outcome.failures.first().map_or("", String::as_str);
            let text = format!("{} connections failed; the first: {first}", outcome.failures.len());
            Err(Failure::new(Code::Failed, text).into())
        }
    }
}

fn table(o: &Outcome) -> Result {
    let mut out = std::io::stdout().lock();
    let cpu = o.server_transfer_cpu_s;
    writeln!(out, "open         {} connections in {:.2} s", o.open, o.open_s)?;
    writeln!(
        out,
        "transferred  {} x {} in {:.1} s, {}; {}",
        o.transferring,
        size(o.bytes),
        o.transfer_s,
        rate(o.bytes_per_s),
        if o.verified { "all verified" } else { "NOT all verified" }
    )?;
    writeln!(
        out,
        "rates        {} slowest, {} median, {} fastest; slowest {:.2} of the median",
        rate(o.bytes_per_s_min),
        rate(o.bytes_per_s_median),
        rate(o.bytes_per_s_max),
        o.slowest_to_median
    )?;
    writeln!(
        out,
        "server       {} of memory at most, {} before the transfers; {:.1} s of CPU to open, {cpu:.1} s to send",
        size(o.server_memory_bytes),
        size(o.server_memory_idle_bytes),
        o.server_open_cpu_s
    )?;
    writeln!(
        out,
        "at rest      {:.2} % of a core without connections, {:.2} % with all of them",
        o.server_idle_percent, o.server_idle_open_percent
    )?;
    Ok(())
}
