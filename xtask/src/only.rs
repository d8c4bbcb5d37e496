//! Test programs of chosen packages alone.
//!
//! Cargo is told of all packages also where few are tested: told of these, it would unify features over these, and
//! build what they depend on once more with other features. What has not changed is not built again; and each program
//! is run by `cargo xtask only` (Cargo's `runner`), which leaves out those of other packages.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::shell::Result;

/// Where the packages are named, with spaces between.
const PACKAGES: &str = "FUSEWIRE_XTASK_ONLY";
/// Where those of them are named that have changed.
const CHANGED: &str = "FUSEWIRE_XTASK_CHANGED";

/// Test programs that measure, or run what measures, and their packages. What they measure has tests of its own: where
/// their package only depends on what has changed, they are left out. They take a quarter of the time that tests run.
const MEASURING: [(&str, &[&str]); 3] = [
    ("fusewire", &["bench_files", "execution", "inca", "lab", "latency", "model"]),
    ("fusewire-advise-example", &["stage"]),
    ("fusewire-calibration", &["smoke"]),
];

/// What is run, if it is of a chosen package.
#[derive(Args)]
pub struct Options {
    /// A program, and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

impl Options {
    /// The program, and its arguments.
    pub fn parts(&self) -> Result<(&OsString, &[OsString])> {
        self.command.split_first().ok_or_else(|| "no program".into())
    }
}

/// Packages whose tests are run, or all.
#[derive(Clone, Copy)]
pub struct Which<'a> {
    /// All of them.
    pub packages: Option<&'a [String]>,
    /// Of these, those that have changed.
    pub changed: Option<&'a [String]>,
}

/// Lets `cargo` run programs by `task` of `program`, ourselves, and only those that are chosen.
pub fn by<'a>(
    cargo: &'a mut Command,
    program: &Path,
    task: &str,
    which: Which<'_>,
) -> &'a mut Command {
    let runner = format!("target.'cfg(unix)'.runner=[{program:?}, {task:?}, \"--\"]");
    cargo.args(["--config", &runner]);
    for (name, packages) in [(PACKAGES, which.packages), (CHANGED, which.changed)] {
        match packages {
            Some(packages) => cargo.env(name, packages.join(" ")),
            None => cargo.env_remove(name),
        };
    }
    cargo
}

/// The package whose program this is, as Cargo says; `None` if it is not chosen.
pub fn package(program: &Path) -> Option<String> {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let is_among = |list| std::env::var(list).map_or(true, |names| has(&names, &package));
    let is_chosen = is_among(PACKAGES) && (is_among(CHANGED) || !measures(&package, program));
    is_chosen.then_some(package)
}

fn has(names: &str, package: &str) -> bool {
    names.split(' ').any(|name| name == package)
}

/// Cargo appends a dash and a hash to a test's name.
fn measures(package: &str, program: &Path) -> bool {
    let name = program.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
    MEASURING.iter().any(|(of, programs)| *of == package && programs.contains(&name))
}

/// Becomes the program, if it is chosen.
pub fn run(options: &Options) -> Result {
    let (program, args) = options.parts()?;
    if package(Path::new(program)).is_none() {
        return Ok(());
    }
    let mut command = Command::new(program);
    let error = command.args(args).env_remove(PACKAGES).env_remove(CHANGED).exec();
    Err(format!("cannot start {}: {error}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    #[test]
    fn what_measures_is_known_by_its_name() {
        assert!(measures("fusewire", Path::new("target/debug/deps/inca-0123456789abcdef")));
        assert!(!measures("fusewire", Path::new("target/debug/deps/get-0123456789abcdef")));
        assert!(!measures("fusewire-lab", Path::new("target/debug/deps/lab-0123456789abcdef")));
    }

    #[test]
    fn what_measures_is_there() {
        for (package, programs) in MEASURING {
            let folder = package.strip_prefix("fusewire-").unwrap_or("cli");
            for program in programs {
                let file = root().join(format!("crates/{folder}/tests/{program}.rs"));
                assert!(file.is_file(), "{}", file.display());
            }
        }
    }
}
