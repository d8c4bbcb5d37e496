//! What a developer runs: `cargo xtask test|ci|tidy|fuzz|packetdrill|sanitize|soak|suites|bench`.
//!
//! Nothing of the product depends on this crate, and it needs nothing installed by hand: what a
//! step lacks it installs (as root, from Debian's packages) or skips, and says which.
#![forbid(unsafe_code)]

mod bench;
mod change_table;
mod changed;
mod ci;
mod compliance;
mod fuzz;
mod house;
mod instrument;
mod lean;
mod only;
mod packetdrill;
mod programs;
mod sanitize;
mod shell;
mod soak;
mod suites;
mod test;
mod tidy;
mod user;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a developer runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Formatting, lints, house rules, every test.
    Test(test::Options),
    /// What the continuous integration does: `.ci/run` in a fresh clone of HEAD.
    Ci,
    /// The house rules alone: imports run one way, `unsafe` stays in its rooms, licences are allowed.
    Tidy,
    /// One fuzz target, or all, with libFuzzer and AddressSanitizer.
    Fuzz(fuzz::Options),
    /// packetdrill scripts on Fusewire's TCP: our own, or those of the given paths.
    Packetdrill(packetdrill::Options),
    /// Tests of `kernels` and `device` with AddressSanitizer, of the shared rings with ThreadSanitizer. Takes minutes.
    Sanitize(sanitize::Options),
    /// What takes too long for `test`: many seeds, a million files, the rate of the hot path.
    Soak,
    /// The test suites of other programs, on the kernel's sockets and over an outboard.
    Suites(suites::Options),
    /// Notes a test program instead of running it: what Cargo calls when `test` builds them.
    #[command(hide = true)]
    Note(only::Options),
    /// Builds the peers that Fusewire is compared with, then `fusewire bench transfer` with the rest of the line.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    if let Some(code) = instrument::as_wrapper() {
        return code;
    }
    let result = match Args::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Ci => ci::run(),
        Task::Tidy => tidy::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Packetdrill(options) => packetdrill::run(&options),
        Task::Sanitize(options) => sanitize::run(&options),
        Task::Soak => soak::run(),
        Task::Suites(options) => suites::run(&options),
        Task::Note(options) => programs::note(&options),
        Task::Bench(options) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
