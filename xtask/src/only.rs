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

/// Lets `cargo` run programs by `task` of `program`, ourselves, and only those of `packages`.
pub fn by<'a>(
    cargo: &'a mut Command,
    program: &Path,
    task: &str,
    packages: Option<&[String]>,
) -> &'a mut Command {
    let runner = format!("target.'cfg(unix)'.runner=[{program:?}, {task:?}, \"--\"]");
    cargo.args(["--config", &runner]);
    match packages {
        Some(names) => cargo.env(PACKAGES, names.join(" ")),
        None => cargo.env_remove(PACKAGES),
    }
}

/// The package whose program this is, as Cargo says; `None` for one that was not chosen.
pub fn package() -> Option<String> {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    match std::env::var(PACKAGES) {
        Ok(names) if !names.split(' ').any(|name| name == package) => None,
        _ => Some(package),
    }
}

/// Becomes the program, if it is chosen.
pub fn run(options: &Options) -> Result {
    if package().is_none() {
        return Ok(());
    }
    let (program, args) = options.parts()?;
    let error = Command::new(program).args(args).env_remove(PACKAGES).exec();
    Err(format!("cannot start {}: {error}", program.display()))
}
