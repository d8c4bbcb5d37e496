//! `fusewire bench latency`.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fusewire_lab::latency::{self, Api, Line, Plan, Side, Stack, Task};

use super::transfer::peers;
use crate::output::{Result, json};

/// What to measure.
#[derive(Args)]
pub struct Options {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// What carries the messages [default: all that are here]; ip-host needs root, quinn `cargo xtask bench latency`.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STACK")]
    stacks: Vec<Carries>,
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

/// [`Stack`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Carries {
    Fusewire,
    KernelUdp,
    #[value(alias = "ip-host")]
    IpHost,
    Quinn,
}

impl From<Carries> for Stack {
    fn from(carries: Carries) -> Stack {
        match carries {
            Carries::Fusewire => Stack::Fusewire,
            Carries::KernelUdp => Stack::KernelUdp,
            Carries::IpHost => Stack::IpHost,
            Carries::Quinn => Stack::Quinn,
        }
    }
}

/// [`Api`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum Waits {
    Blocking,
    Async,
}

/// Runs it.
pub fn run(options: &Options) -> Result {
    let chosen: Vec<Stack> = options.stacks.iter().copied().map(Stack::from).collect();
    let plan = Plan {
        stacks: if chosen.is_empty() { Stack::ALL.to_vec() } else { chosen },
        idle: options.idle.iter().copied().map(usize::from).collect(),
        seconds: options.seconds,
        rounds: options.rounds as usize,
        program: std::env::current_exe()?,
        peers: peers(),
    };
    let terminal = std::io::stderr().is_terminal();
    let lines = latency::run(&plan, &mut |what| {
        if terminal && what.starts_with("round ") {
            eprint!("\r\x1b[K{what}");
        } else if terminal {
            eprintln!("\r\x1b[K{what}");
        } else {
            eprintln!("{what}");
        }
        let _ = std::io::stderr().flush();
    })?;
    if terminal {
        eprint!("\r\x1b[K");
    }
    if options.json { lines.iter().try_for_each(json) } else { table(&lines) }
}

fn table(lines: &[Line]) -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<12} {:<9} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "stack", "api", "idle", "in accept", "p50 µs", "p99 µs", "÷ alone"
    )?;
    for line in lines {
        writeln!(
            out,
            "{:<12} {:<9} {:>6} {:>9} {:>9.1} {:>9.1} {:>9}",
            line.stack.name(),
            line.api.name(),
            line.idle_connections,
            if line.accepting { "one" } else { "–" },
            line.round_trip_us_p50,
            line.round_trip_us_p99,
            line.ratio_to_alone.map_or("–".into(), |ratio| format!("{ratio:.2}"))
        )?;
    }
    Ok(())
}

/// One side of one case.
#[derive(Args)]
pub struct Worker {
    role: Role,
    #[arg(long, value_enum)]
    stack: Carries,
    #[arg(long, value_enum)]
    api: Waits,
    #[arg(long)]
    idle: usize,
    #[arg(long)]
    accepting: bool,
    #[arg(long)]
    identity: PathBuf,
    #[arg(long)]
    connect: Option<SocketAddr>,
    #[arg(long, default_value_t = 0.0)]
    seconds: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Serve,
    Ask,
}

/// Does one side.
pub fn work(worker: &Worker) -> Result {
    let side = match worker.role {
        Role::Serve => Side::Serve,
        Role::Ask => Side::Ask(worker.connect.ok_or("who asks needs --connect")?),
    };
    latency::work(&Task {
        side,
        stack: worker.stack.into(),
        api: match worker.api {
            Waits::Blocking => Api::Blocking,
            Waits::Async => Api::Async,
        },
        idle: worker.idle,
        accepting: worker.accepting,
        seconds: worker.seconds,
        identity: worker.identity.clone(),
    })?;
    Ok(())
}
