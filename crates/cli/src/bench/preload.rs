//! `fusewire bench preload`.

use clap::Args;
use fusewire_lab::preload::{self, Line, Load, Plan, Rates};

use super::outboard::Device;
use super::whole;
use crate::output::{Columns, Result, figure, head, json, row, then};

/// What to compare, and how.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// How Fusewire takes the interface: packet, xdp or tap.
    #[arg(long, value_name = "DEVICE", default_value = "packet")]
    device: Device,
    /// Loads: redis-set, redis-get, redis-set-pipelined, redis-get-pipelined, nginx-small, nginx-large, memcached,
    /// iperf3-receive, iperf3-send [default: all].
    #[arg(long, value_delimiter = ',', value_name = "LOAD")]
    loads: Vec<Load>,
    /// The outboard's processor [default: a third one, or else the server's, 1; the load's is 0].
    #[arg(long, value_name = "N")]
    outboard_cpu: Option<usize>,
    /// Rounds; the result is the median.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of a round.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// A smoke test: one short round; figures of it mean nothing.
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,
}

/// Of one means.
fn of<'l>(line: &'l Line, means: &str) -> Option<&'l Rates> {
    line.rates.get(means)
}

/// In thousands of requests, or in GB.
fn rate(line: &Line, rate: Option<f64>) -> String {
    let (by, decimals) = if line.unit == "bytes" { (1e9, 2) } else { (1e3, 1) };
    figure(rate.map(|rate| rate / by), decimals)
}

fn spread(ratio: Option<f64>, range: Option<[f64; 2]>) -> String {
    let range = range.map(|[least, most]| format!(" ({least:.2} to {most:.2})"));
    figure(ratio, 2) + &range.unwrap_or_default()
}

fn busy(line: &Line, means: &str) -> String {
    let of = |what: fn(&Rates) -> Option<f64>| figure(of(line, means).and_then(what), 2);
    match of(|rates| rates.outboard_busy) {
        apart if means == "outboard" && apart != "–" => {
            format!("{}+{apart}:{}", of(|r| Some(r.server_busy)), of(|r| Some(r.load_busy)))
        }
        _ => format!("{}:{}", of(|r| Some(r.server_busy)), of(|r| Some(r.load_busy))),
    }
}

const COLUMNS: &Columns<Line> = &[
    ("load", -20, |l| l.load.to_string()),
    ("kernel", 7, |l| rate(l, of(l, "kernel").map(|r| r.per_s))),
    ("outboard", 8, |l| rate(l, of(l, "outboard").map(|r| r.per_s))),
    ("outboard by kernel", 20, |l| spread(l.ratio, l.ratio_range)),
    ("a core: kernel", 14, |l| rate(l, of(l, "kernel").map(|r| r.per_core_s))),
    ("outboard", 8, |l| rate(l, of(l, "outboard").map(|r| r.per_core_s))),
    ("outboard by kernel", 20, |l| spread(l.ratio_a_core, l.ratio_a_core_range)),
    ("processes", 9, |l| figure(l.ratio_a_core_of_processes, 2)),
    ("server alone", 12, |l| figure(l.ratio_a_core_of_server, 2)),
    ("busy, server:load kernel", 24, |l| busy(l, "kernel")),
    ("outboard", 14, |l| busy(l, "outboard")),
];

/// Runs the comparison.
pub fn run(options: &Options) -> Result {
    let all = if options.loads.is_empty() { Load::ALL } else { &options.loads };
    let plan = Plan {
        device: options.device.kind(),
        loads: all.to_vec(),
        outboard_cpu: options.outboard_cpu,
        rounds: if options.quick { 1 } else { options.rounds as usize },
        seconds: if options.quick { 0.1 } else { f64::from(options.seconds) },
        program: std::env::current_exe()?,
    };
    let mut written = if options.json { Ok(()) } else { head(COLUMNS) };
    whole(preload::run(&plan, &mut |line| match line {
        Ok(line) => then(&mut written, || match options.json {
            true => json(line),
            false => row(COLUMNS, line),
        }),
        Err(why) => eprintln!("{why}"),
    }))?;
    written
}
