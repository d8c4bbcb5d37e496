//! Running other programs, loudly.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a task returns: nothing, or one line that says what went wrong.
pub type Result<T = ()> = std::result::Result<T, String>;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies below the root").to_path_buf()
}

/// `cargo` as the one that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs one step, says what it is and how long it took, and fails if it fails.
pub fn step(name: &str, command: &mut Command) -> Result {
    println!("── {name}");
    let start = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("{name}: cannot start {:?}: {e}", command.get_program()))?;
    println!(
        "   {name}: {} in {:.1} s",
        if status.success() { "ok" } else { "FAILED" },
        start.elapsed().as_secs_f64()
    );
    if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
}

/// True if a program of this name is on the PATH.
pub fn has(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// True if we are root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

/// Installs the Debian packages whose programs are missing. Never fails: what cannot be had is
/// named, and the tests that need it say that they are skipped.
pub fn install(wanted: &[(&str, &str)]) {
    let missing: Vec<_> = wanted.iter().filter(|(program, _)| !has(program)).collect();
    if missing.is_empty() {
        return;
    }
    let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    if !is_root() || !has("apt-get") {
        println!(
            "── not installed, and what needs them is skipped: {} (as root: apt-get install {})",
            packages.join(" "),
            packages.join(" ")
        );
        return;
    }
    println!("── installing {}", packages.join(" "));
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-qq", "-o", "Dpkg::Use-Pty=0"])
            .args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.status().is_ok_and(|s| s.success())
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(&packages);
    if !(apt(&install) || (apt(&["update"]) && apt(&install))) {
        println!("   could not install them: what needs them is skipped");
    }
}
