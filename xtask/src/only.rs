//! Which test programs run, and which of them alone.
//!
//! Cargo is told of all packages also where few are tested: told of these, it would unify features over these, and
//! build what they depend on once more with other features. What has not changed is not built again; and `cargo xtask note`,
//! which Cargo calls for each program, leaves out those of other packages.

use std::ffi::OsString;
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
    (
        "fusewire",
        &["bench_files", "bench_generate", "execution", "inca", "lab", "latency", "model"],
    ),
    ("fusewire-advise-example", &["stage"]),
    ("fusewire-calibration", &["smoke"]),
];

/// Test programs that suffer from neighbours, by their packages, and the tests of them that do, if not all: these wait for
/// something only so long, fill what the machine has once, or bound what a program takes.
const SUFFERING: [(&str, &str, Option<&str>); 13] = [
    ("bulk-example", "minute", None),
    ("conference-example", "runs", None),
    ("fusewire", "bench_outboard", None),
    ("fusewire", "outboard", None),
    ("fusewire", "programs", None),
    ("fusewire-files", "doors", None),
    ("fusewire-lab", "interop", Some("floods::")),
    ("fusewire-outboard", "budgets", None),
    ("fusewire-stack", "impaired", Some("seen::")),
    ("fusewire-service", "groups", None),
    ("rpc-example", "minute", None),
    ("telemetry-example", "contract", None),
    ("telemetry-example", "runs", None),
];

/// Programs that take longest: they begin first, so that none of them is left when all others have ended.
const LONGEST: [(&str, &str); 6] = [
    ("fusewire-asn1", "compiled"),
    ("fusewire-files", "get"),
    ("fusewire-lab", "interop"),
    ("fusewire-lab", "lab"),
    ("fusewire-transport", "simulated"),
    ("fusewire-transport", "xtp"),
];

/// Whether a program runs alone.
#[derive(Debug, PartialEq, Eq)]
pub enum Alone {
    /// All of it beside others.
    No,
    /// All of it alone.
    Yes,
    /// Tests of these names alone.
    Some(&'static str),
}

/// What is run.
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
    let is_chosen = is_among(PACKAGES) && (is_among(CHANGED) || !measures(&package, name(program)));
    is_chosen.then_some(package)
}

fn has(names: &str, package: &str) -> bool {
    names.split(' ').any(|name| name == package)
}

/// A program's name, without the dash and the hash that Cargo appends.
pub fn name(program: &Path) -> &str {
    let name = program.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    name.rsplit_once('-').map_or(name, |(name, _)| name)
}

/// True if a variable of the environment is ours, for Cargo's runner.
pub fn is_ours(variable: &str) -> bool {
    [PACKAGES, CHANGED].contains(&variable)
}

/// A command without our own variables.
pub fn forget(command: &mut Command) -> &mut Command {
    command.env_remove(PACKAGES).env_remove(CHANGED)
}

/// Whether this program of that package takes longest.
pub fn is_long(package: &str, name: &str) -> bool {
    LONGEST.contains(&(package, name))
}

/// Whether this program of that package runs alone.
pub fn alone(package: &str, name: &str) -> Alone {
    if measures(package, name) {
        return Alone::Yes;
    }
    let suffers = SUFFERING.iter().find(|(of, program, _)| *of == package && *program == name);
    suffers.map_or(Alone::No, |(_, _, tests)| tests.map_or(Alone::Yes, Alone::Some))
}

/// Whether this program of that package measures.
pub fn measures(package: &str, name: &str) -> bool {
    MEASURING.iter().any(|(of, programs)| *of == package && programs.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    #[test]
    fn programs_are_known_by_their_names() {
        assert_eq!(
            name(Path::new("target/debug/deps/bench_files-0123456789abcdef")),
            "bench_files"
        );
        assert!(measures("fusewire", "inca"));
        assert!(!measures("fusewire", "transfer"));
        assert!(!measures("fusewire-lab", "lab"));
        assert_eq!(alone("fusewire-lab", "interop"), Alone::Some("floods::"));
        assert_eq!(alone("fusewire-lab", "lab"), Alone::No);
        assert_eq!(
            [alone("fusewire", "inca"), alone("fusewire", "programs")],
            [Alone::Yes, Alone::Yes]
        );
    }

    #[test]
    fn what_measures_suffers_or_is_long_is_there() {
        let measuring = MEASURING
            .iter()
            .flat_map(|(of, names)| names.iter().map(move |name| (*of, *name, None)));
        let longest = LONGEST.map(|(package, program)| (package, program, None));
        for (package, program, tests) in measuring.chain(SUFFERING).chain(longest) {
            let folder = match (package.strip_prefix("fusewire-"), package.strip_suffix("-example"))
            {
                (Some(name), _) => format!("crates/{name}"),
                (None, Some(name)) => format!("examples/{name}"),
                (None, None) => "crates/cli".into(),
            };
            let file = root().join(format!("{folder}/tests/{program}"));
            let module = tests.and_then(|tests| tests.strip_suffix("::")).unwrap_or("main");
            let is_there = file.with_extension("rs").is_file()
                || file.join(module).with_extension("rs").is_file();
            assert!(is_there, "{}", file.display());
        }
    }
}
