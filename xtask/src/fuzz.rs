//! `cargo xtask fuzz`: libFuzzer and AddressSanitizer on the stable compiler.
//!
//! `RUSTC_BOOTSTRAP` opens the two unstable flags that this needs; it is set for these builds and
//! nowhere else. The targets live in `fuzz/`, a workspace of its own, with a kept corpus each.

use std::path::PathBuf;

use clap::Args;

use crate::shell::{Result, cargo, has, root, step};

/// Which target, for how long.
#[derive(Args)]
pub struct Options {
    /// A target's name; all of them when absent.
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    seconds: u32,
    /// Keep what the run found new in the corpus.
    #[arg(long)]
    keep: bool,
}

const TRIPLE: &str = "x86_64-unknown-linux-gnu";
const RUSTFLAGS: &str = "-Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing -Ccodegen-units=1";

/// Runs one target, or all.
pub fn run(options: &Options) -> Result {
    build()?;
    match &options.target {
        Some(target) if targets()?.contains(target) => one(target, options.seconds, options.keep),
        Some(target) => {
            Err(format!("no fuzz target {target:?}; there are: {}", targets()?.join(", ")))
        }
        None => targets()?.iter().try_for_each(|t| one(t, options.seconds, options.keep)),
    }
}

/// Runs every target for `seconds`, keeping nothing.
pub fn all(seconds: u32) -> Result {
    build()?;
    targets()?.iter().try_for_each(|t| one(t, seconds, false))
}

fn folder() -> PathBuf {
    root().join("fuzz")
}

fn targets() -> Result<Vec<String>> {
    let dir = folder().join("src/bin");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names: Vec<_> =
        entries.filter_map(|e| e.ok()?.path().file_stem()?.to_str().map(String::from)).collect();
    names.sort();
    Ok(names)
}

fn build() -> Result {
    if !has("g++") {
        return Err("fuzz targets need g++ (libFuzzer is C++)".into());
    }
    step(
        "fuzz targets",
        cargo()
            .current_dir(folder())
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", RUSTFLAGS)
            .args(["build", "--release", "--quiet", "--target", TRIPLE]),
    )
}

fn one(target: &str, seconds: u32, keep: bool) -> Result {
    let binary = folder().join("target").join(TRIPLE).join("release").join(target);
    let corpus = folder().join("corpus").join(target);
    let scratch = folder().join("target").join("found").join(target);
    for dir in [&corpus, &scratch] {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    let mut command = std::process::Command::new(binary);
    command.current_dir(folder().join("target"));
    // The first folder takes what is new.
    if keep {
        command.arg(&corpus)
    } else {
        command.arg(&scratch).arg(&corpus)
    };
    command.args([
        &format!("-max_total_time={seconds}"),
        "-rss_limit_mb=2048",
        "-timeout=10",
        "-verbosity=0",
        "-print_final_stats=1",
    ]);
    step(&format!("fuzz {target}"), &mut command)
}
