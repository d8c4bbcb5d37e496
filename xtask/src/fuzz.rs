//! `cargo xtask fuzz`: libFuzzer and AddressSanitizer on the stable compiler.
//!
//! The targets live in `fuzz/`, all in one program, with a kept corpus each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use clap::Args;

use crate::instrument::{Mode, cargo_for};
use crate::shell::{Result, cargo, has, root, step, step_beside};

/// Which target, for how long.
#[derive(Args)]
pub struct Options {
    /// A target's name; all of them when absent.
    target: Option<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    seconds: u32,
    /// Keep what the run found new in the corpus, and of the whole corpus only what is needed to reach as much.
    #[arg(long)]
    keep: bool,
    /// First put the targets' seeds into the corpus, for `--keep` to sift.
    #[arg(long)]
    seeds: bool,
    /// Run this one input instead, as it failed.
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with = "keep")]
    input: Option<PathBuf>,
}

/// Runs one target, or all.
pub fn run(options: &Options) -> Result {
    let names = targets()?;
    let chosen = match &options.target {
        Some(target) if names.contains(target) => std::slice::from_ref(target),
        Some(target) => {
            return Err(format!("no fuzz target {target:?}; there are: {}", names.join(", ")));
        }
        None => &names,
    };
    if options.seeds {
        let args = ["test", "--package", "fusewire-fuzz", "--test", "corpus", "--", "--ignored"];
        step("seeds", cargo().args(args))?;
    }
    build()?;
    for target in chosen {
        match &options.input {
            Some(input) => step(&format!("fuzz {target}"), command(target).arg(input))?,
            None => one(target, options.seconds, step)?,
        }
        if options.keep {
            reduce(target)?;
        }
    }
    Ok(())
}

/// Runs every target for `seconds`, one on each CPU at a time, keeping nothing. Without a C++ compiler it says so and runs nothing.
pub fn all(seconds: u32) -> Result {
    if !has("g++") {
        println!("── no g++: the fuzzers do not run (the kept inputs did, among the tests)");
        return Ok(());
    }
    build()?;
    let (names, next) = (targets()?, AtomicUsize::new(0));
    let work = || -> Result {
        while let Some(target) = names.get(next.fetch_add(1, Relaxed)) {
            one(target, seconds, step_beside)?;
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        // One that failed stops for itself; the others do what is left.
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| "a worker failed")?)
    })
}

/// The targets' names: their folders in the corpus, which a test compares with the program's list.
fn targets() -> Result<Vec<String>> {
    let dir = root().join("fuzz/corpus");
    let entries = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut names: Vec<_> =
        entries.filter_map(|e| e.ok()?.file_name().to_str().map(String::from)).collect();
    names.sort();
    Ok(names)
}

fn build() -> Result {
    if !has("g++") {
        return Err("fuzz targets need g++ (libFuzzer is C++)".into());
    }
    let args = ["build", "--quiet", "--package", "fusewire-fuzz", "--features", "libfuzzer"];
    step("fuzz targets", cargo_for(Mode::Fuzz)?.args(args))
}

fn command(target: &str) -> Command {
    let mut command = Command::new(root().join("target/debug/fuzz"));
    command.env("FUZZ_TARGET", target).current_dir(root().join("target"));
    command
}

/// `target/fuzz/WHAT/TARGET`, made if it was not there.
fn folder(what: &str, target: &str) -> Result<PathBuf> {
    let dir = root().join("target/fuzz").join(what).join(target);
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}

fn corpus(target: &str) -> PathBuf {
    root().join("fuzz/corpus").join(target)
}

fn one(target: &str, seconds: u32, step: impl Fn(&str, &mut Command) -> Result) -> Result {
    let (found, failed) = (folder("found", target)?, folder("failed", target)?);
    let before = files(&failed)?;
    let result = step(
        &format!("fuzz {target}"),
        // The first folder takes what is new.
        command(target).arg(found).arg(corpus(target)).args([
            format!("-max_total_time={seconds}"),
            format!("-artifact_prefix={}/", failed.display()),
            "-max_len=4096".into(),
            "-rss_limit_mb=2048".into(),
            "-timeout=60".into(),
            "-verbosity=0".into(),
            "-print_funcs=0".into(),
            "-print_final_stats=1".into(),
        ]),
    );
    let mut new = files(&failed)?;
    new.retain(|input| !before.contains(input));
    result.map_err(|message| {
        let inputs: Vec<_> = new
            .iter()
            .map(|i| format!("\n  cargo xtask fuzz {target} --input {}", i.display()))
            .collect();
        format!("{message}; to see it again:{}", inputs.concat())
    })
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(entries.filter_map(|e| Some(e.ok()?.path())).collect())
}

/// Of the corpus and of what was found, the fewest and shortest inputs that reach every edge.
fn reduce(target: &str) -> Result {
    let reduced = folder("reduced", target)?;
    let remove = |dir: &Path| -> Result {
        files(dir)?
            .iter()
            .try_for_each(|f| std::fs::remove_file(f).map_err(|e| format!("{}: {e}", f.display())))
    };
    remove(&reduced)?;
    let mut merge = command(target);
    merge.args(["-set_cover_merge=1", "-use_counters=0", "-use_value_profile=0", "-verbosity=0"]);
    step(
        &format!("reduce {target}"),
        merge
            .args(["-max_len=4096"])
            .arg(&reduced)
            .arg(corpus(target))
            .arg(folder("found", target)?),
    )?;
    remove(&corpus(target))?;
    for file in files(&reduced)? {
        let to = corpus(target).join(file.file_name().unwrap_or_default());
        std::fs::copy(&file, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}
