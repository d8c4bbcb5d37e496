//! `fusewire bench trace`.

use std::time::Duration;

use clap::Args;
use fusewire_lab::trace::{self, Line, Plan};

use crate::output::{Columns, Result, head, json, row, text, then};

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
        text("the trace of each connection: with it and without, by turns")?;
        head(COLUMNS)?;
    }
    let sizes: Vec<_> = options.sizes.iter().map(|n| usize::from(*n)).collect();
    let mut written = Ok(());
    trace::run(&plan, &sizes, &mut |line| {
        then(&mut written, || if options.json { json(line) } else { row(COLUMNS, line) });
    })?;
    written
}

const COLUMNS: &Columns<Line> = &[
    ("segment", 8, |l| match l.segment_bytes {
        0 => "super".into(),
        bytes => bytes.to_string(),
    }),
    ("entries/s", 12, |l| format!("{:.0}", l.entries_per_s)),
    ("with ns", 9, |l| format!("{:.1}", l.with_ns)),
    ("without", 9, |l| format!("{:.1}", l.without_ns)),
    ("ratio", 7, |l| format!("{:.4}", l.ratio)),
    ("half of them in", 15, |l| format!("{:>7.4} {:>7.4}", l.ratio_low, l.ratio_high)),
];
