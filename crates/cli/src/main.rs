//! The program `fusewire`: argument table, output, exit codes.
#![forbid(unsafe_code)]

mod bench;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Files and messages in one pass over a user-level TCP.
#[derive(Parser)]
#[command(name = "fusewire", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures: the whole transfer beside other transports, the pipelines beside separate passes.
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Bench(bench) => bench::run(bench),
    };
    output::finish(result)
}
