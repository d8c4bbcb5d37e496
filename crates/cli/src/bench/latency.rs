//! `fusewire bench latency`.

use std::time::Duration;

use clap::Args;
use fusewire_lab::latency::{self, Line, Plan, Stack, cold};
use fusewire_transport::either::Protocol;

use super::transfer::{milliseconds, peers};
use crate::output::{Columns, Result, figure, lines};
use crate::progress::Progress;

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// What carries the messages: fusewire, fusewire_calls, kernel_udp, ip_host (which needs root), quinn (`cargo xtask bench latency`)
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
    /// Cold requests instead, over a path with a round trip: from nothing to the first byte of the answer, each from an
    /// address of its own; encrypted, sent behind the handshake and within it; and raw, by TCP and by XTP's transactions.
    #[arg(long)]
    cold: bool,
    /// The transports of cold requests, a row each: tcp, xtp.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME",
        default_value = "tcp,xtp",
        requires = "cold"
    )]
    transport: Vec<Protocol>,
    /// Milliseconds there and back, for cold requests.
    #[arg(long, value_name = "MS", default_value_t = 20.0, value_parser = milliseconds, requires = "cold")]
    round_trip: f64,
    /// Cold requests of a round.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "cold", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    requests: u32,
    /// Rounds; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// Runs it.
pub fn run(options: &Options) -> Result {
    if options.cold {
        return run_cold(options);
    }
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

fn run_cold(options: &Options) -> Result {
    let plan = cold::Plan {
        transports: options.transport.clone(),
        round_trip: Duration::from_secs_f64(options.round_trip / 1e3),
        requests: options.requests,
        rounds: options.rounds,
        program: std::env::current_exe()?,
    };
    let progress = Progress::new();
    let found = cold::run(&plan, &mut |what| progress.round(what))?;
    progress.clear();
    lines(&found, COLD, options.json)
}

const COLD: &Columns<cold::Line> = &[
    ("transport", -12, |l| l.transport.into()),
    ("request", -9, |l| l.request.name().into()),
    ("requests", 9, |l| l.requests.to_string()),
    ("connected ms", 13, |l| format!("{:.2}", l.connected_ms)),
    ("first byte ms", 14, |l| format!("{:.2}", l.first_byte_ms)),
    ("from – to", 17, |l| l.first_byte_ms_range.map(|ms| format!("{ms:.1}")).join(" – ")),
    ("round trips", 12, |l| format!("{:.2}", l.round_trips)),
    ("÷ first", 8, |l| format!("{:.2}", l.ratio)),
];

const COLUMNS: &Columns<Line> = &[
    ("stack", -14, |l| l.stack.name().into()),
    ("api", -9, |l| l.api.name().into()),
    ("idle", 6, |l| l.idle_connections.to_string()),
    ("in accept", 9, |l| if l.accepting { "one" } else { "–" }.into()),
    ("p50 µs", 9, |l| format!("{:.1}", l.round_trip_us_p50)),
    ("p99 µs", 9, |l| format!("{:.1}", l.round_trip_us_p99)),
    ("÷ alone", 9, |l| figure(l.ratio_to_alone, 2)),
];
