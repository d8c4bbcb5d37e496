//! `cargo xtask sanitize`: tests of `kernels` and `device`, which have most of the unsafe code, with AddressSanitizer built in,
//! and those of the rings in shared memory with ThreadSanitizer. It ends with a line for each run: how many tests, of what.
//!
//! It takes minutes, most of them for the loops, so it is a part of `cargo xtask soak` and none of `cargo xtask test`; there the
//! loops' own test at the end of a page and the fuzz targets, which have AddressSanitizer, look for the same.

use clap::Args;

use crate::instrument::{Mode, cargo_for};
use crate::shell::{Result, Tests, root, tests};

/// Which runs.
#[derive(Args)]
pub struct Options {
    /// Runs by name (`kernels`, `device`, `rings`, `leases`); all of them when absent.
    pub runs: Vec<String>,
}

/// Some tests of a crate with a sanitizer.
struct Run {
    name: &'static str,
    mode: Mode,
    /// Arguments of `cargo test`.
    args: &'static [&'static str],
}

const RUNS: [Run; 4] = [
    Run {
        name: "device",
        mode: Mode::Address,
        args: &["--package", "fusewire-device", "--lib", "--tests"],
    },
    Run {
        name: "kernels",
        mode: Mode::Address,
        args: &["--package", "fusewire-kernels", "--lib", "--tests"],
    },
    Run {
        name: "rings",
        mode: Mode::Thread,
        // This one alone: the sanitizer does not see that another test's memory was unmapped.
        args: &["--package", "fusewire-device", "--lib", "no_byte_is_read_while_it_is_written"],
    },
    Run {
        name: "leases",
        mode: Mode::Thread,
        args: &[
            "--package",
            "fusewire-outboard",
            "--lib",
            "no_byte_of_a_lease_is_read_while_it_is_written",
        ],
    },
];

/// What a sanitizer tells of other people's code, and need not.
const KNOWN_LEAKS: &str = "xtask/known-leaks.txt";
const KNOWN_RACES: &str = "xtask/known-races.txt";

/// Goes through the runs; each has to pass, and to have run something.
pub fn run(options: &Options) -> Result {
    let chosen = |run: &&Run| options.runs.is_empty() || options.runs.iter().any(|r| r == run.name);
    if let Some(name) = options.runs.iter().find(|r| !RUNS.iter().any(|run| run.name == *r)) {
        let names = RUNS.map(|run| run.name).join(", ");
        return Err(format!("no run {name:?}; there are: {names}"));
    }
    let results: Vec<_> = RUNS.iter().filter(chosen).map(|run| (run, one(run))).collect();
    for (run, result) in &results {
        match result {
            Ok(tests) => println!("{}, {}: nothing found; {tests}", run.name, sanitizer(run)),
            Err(message) => println!("{}, {}: {message}", run.name, sanitizer(run)),
        }
    }
    match results.iter().filter(|(_, result)| result.is_err()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} runs failed", results.len())),
    }
}

fn sanitizer(run: &Run) -> &'static str {
    match run.mode {
        Mode::Thread => "ThreadSanitizer",
        Mode::Address | Mode::Fuzz => "AddressSanitizer",
    }
}

fn one(run: &Run) -> Result<Tests> {
    let mut command = cargo_for(run.mode)?;
    let known = |file| format!("print_suppressions=0:suppressions={}", root().join(file).display());
    command.env("LSAN_OPTIONS", known(KNOWN_LEAKS)).env("TSAN_OPTIONS", known(KNOWN_RACES));
    command.args(["test", "--no-fail-fast"]).args(run.args);
    let tests = tests(&format!("{} with {}", run.name, sanitizer(run)), &mut command)?;
    if tests.passed == 0 { Err("no test ran".into()) } else { Ok(tests) }
}
