//! `fusewire bench latency`.

use clap::Args;
use fusewire_lab::latency::{self, Line, Plan, Stack};

use super::transfer::peers;
use crate::output::{Columns, Result, figure, lines};
use crate::progress::Progress;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// What carries the messages: fusewire, kernel_udp, ip_host (which needs root), quinn (`cargo xtask bench latency`)
    /// [default: all that are here].
    #[arg(long, value_delimiter = ',', value_name = "STACK")]
    stacks: Vec<Stack>,
    /// Idle connections beside the one that asks, each with its thread or task in `recv` at both ends; 0 is measured with
    /// somebody in `accept` too.
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "0,50,800", value_parser = clap::value_parser!(u16).range(0..=3000))]
    idle: Vec<u16>,
    /// Seconds that each case asks, a round.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5)]
    seconds: f64,
    /// Rounds; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// Runs it.
pub fn run(options: &Options) -> Result {
    let plan = Plan {
        stacks: if options.stacks.is_empty() { Stack::ALL } else { &options.stacks }.to_vec(),
        idle: options.idle.iter().copied().map(usize::from).collect(),
        seconds: options.seconds,
        rounds: options.rounds as usize,
        program: std::env::current_exe()?,
        peers: peers(),
    };
    let progress = Progress::new();
    let found = latency::run(&plan, &mut |what| progress.round(what))?;
    progress.clear();
    lines(&found, COLUMNS, options.json)
}

const COLUMNS: &Columns<Line> = &[
    ("stack", -12, |l| l.stack.name().into()),
    ("api", -9, |l| l.api.name().into()),
    ("idle", 6, |l| l.idle_connections.to_string()),
    ("in accept", 9, |l| if l.accepting { "one" } else { "–" }.into()),
    ("p50 µs", 9, |l| format!("{:.1}", l.round_trip_us_p50)),
    ("p99 µs", 9, |l| format!("{:.1}", l.round_trip_us_p99)),
    ("÷ alone", 9, |l| figure(l.ratio_to_alone, 2)),
];
