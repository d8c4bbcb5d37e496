//! `fusewire bench trace`.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use fusewire_lab::trace::{self, Line, Plan};

use crate::output::{Result, json};

/// How much is measured.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Payload bytes of a segment; 0: super-frames of up to 64 KiB.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..=1448), default_value = "1,64,536,1448,0")]
    sizes: Vec<u16>,
    /// Pairs of turns, with and without.
    #[arg(long, value_name = "N", default_value_t = 101)]
    turns: usize,
    /// A short run whose figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// Measures and prints each line as soon as it is there.
pub fn run(options: &Options) -> Result {
    let plan = match options.smoke {
        true => Plan { turns: 2, turn: Duration::from_millis(2) },
        false => Plan { turns: options.turns, turn: Duration::from_millis(20) },
    };
    if !options.json {
        writeln!(
            std::io::stdout().lock(),
            "the trace of each connection: with it and without, by turns\n{:>8} {:>12} {:>9} {:>9} {:>7} {:>15}",
            "segment",
            "entries/s",
            "with ns",
            "without",
            "ratio",
            "half of them in"
        )?;
    }
    let sizes: Vec<_> = options.sizes.iter().map(|n| usize::from(*n)).collect();
    let mut written: Result = Ok(());
    trace::run(&plan, &sizes, &mut |line| {
        if written.is_ok() {
            written = if options.json { json(line) } else { row(line) };
        }
    })?;
    written
}

fn row(line: &Line) -> Result {
    let size =
        if line.segment_bytes == 0 { "super".into() } else { line.segment_bytes.to_string() };
    writeln!(
        std::io::stdout().lock(),
        "{size:>8} {:>12.0} {:>9.1} {:>9.1} {:>7.4} {:>7.4} {:>7.4}",
        line.entries_per_s,
        line.with_ns,
        line.without_ns,
        line.ratio,
        line.ratio_low,
        line.ratio_high
    )?;
    Ok(())
}
