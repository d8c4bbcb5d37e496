//! `cargo xtask sanitize`: tests of the crates that have unsafe code, with AddressSanitizer built in.
//!
//! It takes minutes, most of them for the kernels' loops, so it is no part of `cargo xtask test`; there the
//! kernels' own test at the end of a page and the fuzz targets, which have AddressSanitizer, look for the same.

use clap::Args;

use crate::instrument::{Mode, cargo_for};
use crate::shell::{Result, step};

/// Which crates.
#[derive(Args)]
pub struct Options {
    /// The crates; those that have unsafe code when absent.
    crates: Vec<String>,
}

const WITH_UNSAFE: [&str; 2] = ["kernels", "device"];

/// Runs the tests of each crate: unit tests and those in `tests/`.
pub fn run(options: &Options) -> Result {
    let chosen: Vec<&str> = match options.crates.is_empty() {
        true => WITH_UNSAFE.to_vec(),
        false => options.crates.iter().map(String::as_str).collect(),
    };
    for name in chosen {
        let package = format!("fusewire-{name}");
        let args = ["test", "--lib", "--tests", "--no-fail-fast", "--package", &package];
        step(&format!("{name} with AddressSanitizer"), cargo_for(Mode::Address)?.args(args))?;
    }
    Ok(())
}
