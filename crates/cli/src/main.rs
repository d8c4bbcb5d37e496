//! The program `fusewire`: argument table, output, exit codes.
#![forbid(unsafe_code)]
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "doc comments are help texts: [:port] is no link"
)]

#[cfg(not(feature = "full"))]
mod absent;
#[cfg(feature = "full")]
mod advise;
#[cfg(feature = "full")]
mod asn1;
#[cfg(feature = "full")]
mod bench;
mod cast;
mod connect;
mod demo;
mod device;
mod devices;
#[cfg(feature = "full")]
mod generate;
mod get;
mod key;
#[cfg(feature = "full")]
mod lab;
mod ls;
mod machine;
#[cfg(feature = "full")]
mod model;
mod options;
mod outboard;
mod output;
mod progress;
mod put;
mod receive;
mod report;
mod run;
mod serve;
mod transfer;
mod url;
mod view;
#[cfg(feature = "full")]
mod xdr;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Files in one pass over a user-level TCP, encrypted.
#[derive(Parser)]
#[command(name = "fusewire", version, arg_required_else_help = true, after_help = after_help())]
struct Args {
    /// What to log on standard error: off, error, warn, info, debug, trace, or such for parts of it, as RUST_LOG has
    /// them [default: RUST_LOG, or warn].
    #[arg(long, global = true, value_name = "LEVEL", value_parser = log_filter)]
    log_level: Option<String>,
    #[command(subcommand)]
    command: Command,
}

/// Below the commands: exit codes, and what else there is.
fn after_help() -> String {
    #[cfg(not(feature = "full"))]
    return format!("{}\n\n{}", output::EXIT_CODES, absent::HELP);
    #[cfg(feature = "full")]
    output::EXIT_CODES.into()
}

#[derive(Subcommand)]
enum Command {
    /// Shows it at work: one file between two processes on this machine.
    Demo(demo::Demo),
    /// Serves a folder.
    Serve(Box<serve::Serve>),
    /// Gets a file or a folder.
    Get(Box<get::Get>),
    /// Puts files and folders on a server.
    Put(Box<put::Put>),
    /// Casts files and folders to a group: one to many.
    Cast(Box<cast::Cast>),
    /// Receives what is cast to a group.
    Receive(Box<receive::Receive>),
    /// Lists a folder of a server.
    Ls(Box<ls::Ls>),
    /// Shows, replaces and forgets keys.
    #[command(subcommand)]
    Key(key::Key),
    /// Lists network interfaces and what each would give.
    Devices(devices::Devices),
    /// Runs a stack in a process of its own, for applications that share it.
    Outboard(outboard::Outboard),
    /// Runs a program whose sockets are an outboard's.
    Run(Box<run::Run>),
    /// Lists sockets of running stacks.
    Ss(view::ss::Ss),
    /// Shows connections of running stacks as they work.
    Top(view::top::Top),
    /// Prints or serves Prometheus text of running stacks.
    Metrics(view::metrics::Metrics),
    /// Captures packets of running stacks, with comments on what became of them.
    Capture(view::capture::Capture),
    /// One side of a measurement, in a process of its own: what `demo`, `bench` and `lab` start.
    #[command(hide = true)]
    Worker {
        /// What it is to do, as JSON.
        task: String,
    },
    #[cfg(feature = "full")]
    /// ASN.1: checks modules, compiles them to Rust, reads and writes values, shows BER.
    #[command(subcommand)]
    Asn1(asn1::Asn1),
    #[cfg(feature = "full")]
    /// Says what one pass costs and saves, before the work.
    #[command(subcommand)]
    Model(model::Model),
    #[cfg(feature = "full")]
    /// Says whether functions of yours should run in one loop, by how much it pays, and why.
    Advise(advise::Advise),
    #[cfg(feature = "full")]
    /// Checks files of the XDR language, and compiles them to Rust, with stubs for remote procedure calls.
    #[command(subcommand)]
    Xdr(xdr::Xdr),
    #[cfg(feature = "full")]
    /// Makes a communication subsystem of what an application requires.
    Generate(generate::Generate),
    #[cfg(feature = "full")]
    /// Repeats the experiments of five papers on this machine, and shows theirs beside ours.
    #[command(subcommand)]
    Lab(lab::Lab),
    #[cfg(feature = "full")]
    /// Measures: the whole transfer beside other transports, the pipelines beside separate passes.
    #[command(subcommand)]
    Bench(bench::Bench),
    #[cfg(not(feature = "full"))]
    #[command(flatten)]
    Absent(absent::Absent),
}

/// What is cast goes over XTP, and its sessions do unless another transport is named.
fn command() -> clap::Command {
    let over_xtp =
        |command: clap::Command| command.mut_arg("transport", |arg| arg.default_value("xtp"));
    ["cast", "receive"]
        .into_iter()
        .fold(Args::command(), |all, name| all.mut_subcommand(name, over_xtp))
}

fn main() -> ExitCode {
    let args = Args::from_arg_matches(&command().get_matches()).unwrap_or_else(|e| e.exit());
    if let Err(error) = log(args.log_level.as_deref(), args.command.is_quiet()) {
        return output::finish(Err(error));
    }
    if let Err(error) = survive_limits() {
        return output::finish(Err(error.into()));
    }
    let result = match args.command {
        Command::Demo(demo) => demo::run(&demo),
        Command::Serve(serve) => serve::run(&serve),
        Command::Get(get) => get::run(&get),
        Command::Put(put) => put::run(&put),
        Command::Cast(cast) => cast::run(&cast),
        Command::Receive(receive) => receive::run(*receive),
        Command::Ls(ls) => ls::run(&ls),
        Command::Key(key) => key::run(&key),
        Command::Devices(devices) => devices::run(&devices),
        Command::Outboard(outboard) => outboard::run(&outboard),
        Command::Run(run) => run::run(&run),
        Command::Ss(ss) => view::ss::run(&ss),
        Command::Top(top) => view::top::run(&top),
        Command::Metrics(metrics) => view::metrics::run(&metrics),
        Command::Capture(capture) => view::capture::run(&capture),
        Command::Worker { task } => fusewire_lab::worker::work(&task).map_err(Into::into),
        #[cfg(feature = "full")]
        Command::Asn1(asn1) => asn1::run(&asn1),
        #[cfg(feature = "full")]
        Command::Model(model) => model::run(&model),
        #[cfg(feature = "full")]
        Command::Advise(advise) => advise::run(&advise),
        #[cfg(feature = "full")]
        Command::Xdr(xdr) => xdr::run(&xdr),
        #[cfg(feature = "full")]
        Command::Generate(generate) => generate::run(&generate),
        #[cfg(feature = "full")]
        Command::Lab(lab) => lab::run(lab),
        #[cfg(feature = "full")]
        Command::Bench(bench) => bench::run(bench),
        #[cfg(not(feature = "full"))]
        Command::Absent(absent) => absent::run(&absent),
    };
    output::finish(result)
}

/// A file that may not grow any more (`ulimit -f`) is an error of that file and not the end of the program.
fn survive_limits() -> std::io::Result<()> {
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen).map(drop)
}

/// A level, or directives `PART=LEVEL`; a word alone would be taken for the name of a part.
fn log_filter(text: &str) -> Result<String, String> {
    let is_level = |part: &str| !part.is_empty() && LevelFilter::from_str(part).is_ok();
    let is_known = |part: &str| part.contains('=') || is_level(part);
    if !text.split(',').all(is_known) {
        return Err("expected off, error, warn, info, debug or trace".into());
    }
    text.parse::<Targets>().map(|_| text.to_string()).map_err(|error| error.to_string())
}

impl Command {
    /// Returns `true` if a client is to print nothing but errors.
    fn is_quiet(&self) -> bool {
        match self {
            Command::Get(get) => get.moving.quiet,
            Command::Put(put) => put.moving.quiet,
            Command::Receive(receive) => receive.moving.quiet,
            _ => false,
        }
    }
}

/// Logs go to standard error; the option wins over RUST_LOG. A client that is quiet logs errors only, unless one of
/// them says otherwise.
fn log(level: Option<&str>, is_quiet: bool) -> output::Result {
    let wrong =
        |name: &str, error| output::Failure::new(output::Code::Usage, format!("{name}: {error}"));
    let filter: Targets = match (level, std::env::var("RUST_LOG")) {
        (Some(level), _) => level.parse().map_err(|e| wrong("--log-level", e))?,
        (None, Ok(level)) => level.parse().map_err(|e| wrong("RUST_LOG", e))?,
        (None, Err(_)) if is_quiet => Targets::new().with_default(LevelFilter::ERROR),
        (None, Err(_)) => Targets::new().with_default(LevelFilter::WARN),
    };
    let format = tracing_subscriber::fmt::layer().with_ansi(std::io::stderr().is_terminal());
    let format = format.with_writer(std::io::stderr);
    tracing_subscriber::registry().with(filter).with(format).init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_one_that_there_is() {
        for level in ["off", "info", "DEBUG", "warn,fusewire_stack=debug", "fusewire_files=trace"] {
            assert!(log_filter(level).is_ok(), "{level}");
        }
        for wrong in ["loud", "", "info,loud", "fusewire_stack=loud"] {
            assert!(log_filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_argument_table_holds() {
        command().debug_assert();
    }
}
