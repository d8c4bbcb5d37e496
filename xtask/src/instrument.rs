//! Sanitizers on the stable compiler: `xtask` as the `rustc` of our own crates.
//!
//! Cargo calls a workspace wrapper for the members of the workspace only. So nothing but our crates is
//! instrumented, and what they depend on is shared with ordinary builds. `RUSTC_BOOTSTRAP`, which
//! opens the unstable flags, is set for these calls and nowhere else.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::shell::{Result, cargo, root};

/// What is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// AddressSanitizer and the coverage that libFuzzer follows.
    Fuzz,
    /// AddressSanitizer.
    Address,
    /// ThreadSanitizer.
    Thread,
}

const MODES: [Mode; 3] = [Mode::Fuzz, Mode::Address, Mode::Thread];
/// How the wrapper's name begins.
const PREFIX: &str = "rustc-for-";
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// Built without coverage: there is much of it, and which loop runs says little about the input.
const WITHOUT_COVERAGE: &str = "fusewire_kernels";

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Fuzz => "fuzz",
            Mode::Address => "address",
            Mode::Thread => "thread",
        }
    }

    fn flags(self, crate_name: &str) -> Vec<&'static str> {
        let mut flags = match self {
            Mode::Fuzz => vec!["-Zsanitizer=address", "--cfg", "fuzzing", "-Adead_code"],
            Mode::Address => vec!["-Zsanitizer=address"],
            // The standard library is not built so. What it does by itself is not seen; calls agree.
            Mode::Thread => vec!["-Zsanitizer=thread", "-Cunsafe-allow-abi-mismatch=sanitizer"],
        };
        if self == Mode::Fuzz && crate_name != WITHOUT_COVERAGE {
            flags.extend(COVERAGE);
        }
        // Also of crates that tests build without: a fuzzer is as good as it is fast.
        flags.extend(["-Copt-level=1", "-Cdebuginfo=line-tables-only"]);
        flags
    }
}

/// A `cargo` that builds our crates in this mode, beside the ordinary ones in the same target folder.
pub fn cargo_for(mode: Mode) -> Result<Command> {
    let dir = root().join("target/instrument");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    // Cargo tells builds apart by the wrapper's path.
    let mut hasher = DefaultHasher::new();
    (mode.flags(""), mode.flags(WITHOUT_COVERAGE)).hash(&mut hasher);
    let wrapper = dir.join(format!("{PREFIX}{}-{:016x}", mode.name(), hasher.finish()));
    let program = std::env::current_exe().map_err(|e| format!("our own path: {e}"))?;
    let _ = std::fs::remove_file(&wrapper);
    std::os::unix::fs::symlink(program, &wrapper)
        .map_err(|e| format!("{}: {e}", wrapper.display()))?;
    let mut command = cargo();
    command.env("RUSTC_WORKSPACE_WRAPPER", wrapper).env("CARGO_INCREMENTAL", "0");
    Ok(command)
}

/// Becomes the compiler if we were called as the wrapper.
pub fn as_wrapper() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    let name = Path::new(&name).file_name()?.to_str()?.strip_prefix(PREFIX)?;
    let mode = MODES.into_iter().find(|m| name.starts_with(m.name()))?;
    let rustc = args.next()?;
    let args: Vec<OsString> = args.collect();
    let error = Command::new(&rustc)
        .args(&args)
        // Questions about the compiler have no crate, and the same answers.
        .args(crate_name(&args).map_or_else(Vec::new, |name| mode.flags(name)))
        .env("RUSTC_BOOTSTRAP", "1")
        .exec();
    eprintln!("xtask: cannot start {}: {error}", rustc.display());
    Some(ExitCode::FAILURE)
}

fn crate_name(args: &[OsString]) -> Option<&str> {
    let at = args.iter().position(|a| a == OsStr::new("--crate-name"))?;
    args.get(at + 1)?.to_str().filter(|name| *name != "___")
}
