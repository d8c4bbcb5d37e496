//! Running other programs, loudly.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
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
    timed(name, || {
        let status = command
            .stdin(Stdio::null())
            .status()
            .map_err(|e| format!("{name}: cannot start {:?}: {e}", command.get_program()))?;
        if status.success() { Ok(()) } else { Err(format!("{name} failed ({status})")) }
    })
}

/// A step that is more than one command.
pub fn timed<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("── {name}");
    let (start, cpu) = (Instant::now(), children_cpu_s());
    let result = work();
    let took = Took {
        name: name.to_owned(),
        seconds: start.elapsed().as_secs_f64(),
        cpu_s: children_cpu_s() - cpu,
    };
    println!(
        "   {name}: {} in {:.1} s",
        if result.is_ok() { "ok" } else { "FAILED" },
        took.seconds
    );
    STEPS.lock().unwrap_or_else(PoisonError::into_inner).push(took);
    result
}

/// What a step took.
struct Took {
    name: String,
    seconds: f64,
    /// Seconds of processors.
    cpu_s: f64,
}

/// The steps that [`timed`] has run.
static STEPS: Mutex<Vec<Took>> = Mutex::new(Vec::new());

/// Says what each step took, one a line, and all of them.
pub fn say_what_steps_took() {
    let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
    println!("── seconds, and seconds of processors");
    for Took { name, seconds, cpu_s } in steps.iter() {
        println!("{seconds:9.1} {cpu_s:9.1}  {name}");
    }
    let sum = |of: fn(&Took) -> f64| steps.iter().map(of).sum::<f64>();
    println!("{:9.1} {:9.1}  together", sum(|step| step.seconds), sum(|step| step.cpu_s));
}

/// Seconds of processors that ended children took, and theirs.
fn children_cpu_s() -> f64 {
    // In units of a hundredth (proc_pid_stat(5)); the second field, a name in brackets, may have anything in it.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after_name.split_whitespace().skip(13).take(2).map(|ticks| ticks.parse::<u32>());
    ticks.map(|ticks| f64::from(ticks.unwrap_or(0)) / 100.0).sum()
}

/// Runs one step beside others: what it says is shown when it ends.
pub fn step_beside(name: &str, command: &mut Command) -> Result {
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{name}: cannot start {:?}: {e}", command.get_program()))?;
    println!(
        "── {name}\n{}{}   {name}: {} in {:.1} s",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        if output.status.success() { "ok" } else { "FAILED" },
        start.elapsed().as_secs_f64()
    );
    if output.status.success() { Ok(()) } else { Err(format!("{name} failed ({})", output.status)) }
}

/// What a run of `cargo test` ran.
#[derive(Debug, Default)]
pub struct Tests {
    /// Tests that passed.
    pub passed: usize,
    /// Programs that had one.
    pub programs: usize,
    /// Tests that are left out unless asked for.
    pub ignored: usize,
}

impl Tests {
    /// Adds what a line of a test program's output says, if it is the one that counts.
    pub fn count(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ok. ") else { return };
        for count in counts.split("; ") {
            match count.split_once(' ').map(|(n, what)| (n.parse::<usize>(), what)) {
                Some((Ok(n), "passed")) => {
                    self.passed += n;
                    self.programs += usize::from(n > 0);
                }
                Some((Ok(n), "ignored")) => self.ignored += n,
                _ => {}
            }
        }
    }
}

impl AddAssign for Tests {
    fn add_assign(&mut self, more: Tests) {
        self.passed += more.passed;
        self.programs += more.programs;
        self.ignored += more.ignored;
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tests { passed, programs, ignored } = self;
        write!(f, "tests: {passed}, programs: {programs}, left out: {ignored}")
    }
}

/// Runs `cargo test` as a step and counts.
pub fn tests(name: &str, command: &mut Command) -> Result<Tests> {
    let (read, write) = std::io::pipe().map_err(|e| format!("{name}: no pipe: {e}"))?;
    let reader = std::thread::spawn(move || {
        let mut tests = Tests::default();
        for line in BufReader::new(read).lines().map_while(std::result::Result::ok) {
            println!("{line}");
            tests.count(&line);
        }
        tests
    });
    let result = step(name, command.stdout(write));
    // The command keeps our end of the pipe open.
    command.stdout(Stdio::null());
    let tests = reader.join().map_err(|_| format!("{name}: its output cannot be shown"))?;
    result.map(|()| tests)
}

/// True if a program of this name is on the PATH, or a file of this path is there.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_what_its_children_take() {
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        step("a child that counts", Command::new("/bin/sh").args(["-c", spin])).unwrap();
        assert!(step("a child that fails", &mut Command::new("/bin/false")).is_err());
        let steps = STEPS.lock().unwrap();
        let of = |name| steps.iter().find(|step| step.name == name).unwrap();
        let counting = of("a child that counts");
        assert!(counting.cpu_s > 0.0 && counting.seconds > 0.0);
        assert_eq!(of("a child that fails").name, "a child that fails");
    }

    #[test]
    fn counts_what_ran() {
        let mut tests = Tests::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 39 passed; 0 failed; 2 ignored; 0 measured; 5 filtered out; finished in 13.29s",
            "test result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ] {
            tests.count(line);
        }
        assert_eq!(tests.to_string(), "tests: 43, programs: 2, left out: 3");
    }
}
