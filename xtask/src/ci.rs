//! `cargo xtask ci`: `.ci/run` in a fresh clone of HEAD, as a machine that has never seen us would.

use std::process::Command;

use crate::shell::{Result, root, step};

/// Clones HEAD beside the target folder, runs `.ci/run` there, removes the clone.
pub fn run() -> Result {
    let clone = std::env::temp_dir().join(format!("fusewire-ci-{}", std::process::id()));
    step("clone", Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&clone))?;
    let result =
        step(".ci/run", Command::new("bash").arg(".ci/run").env("CI", "true").current_dir(&clone));
    if let Err(e) = std::fs::remove_dir_all(&clone) {
        eprintln!("xtask: cannot remove {}: {e}", clone.display());
    }
    result
}
