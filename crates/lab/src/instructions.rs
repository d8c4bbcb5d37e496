//! Instructions that a process executes, as `perf` counts them: where there is one, the machine has counters, and they may be read.

use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::namespace::Killed;

/// What is counted: the program's own, not the kernel's for it.
const EVENT: &str = "instructions:u";

/// A process whose instructions are counted until it ends.
pub struct Counted(Killed);

/// `perf stat` of what `target` says, in words for programs.
fn perf(target: &[&str]) -> Command {
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-e", EVENT]).args(target).env("LC_ALL", "C");
    perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    perf
}

/// Whether instructions are counted here.
pub fn are_counted() -> bool {
    let counted = perf(&["true"]).output();
    counted.is_ok_and(|out| count(&String::from_utf8_lossy(&out.stderr)).is_some())
}

impl Counted {
    /// Counts those of a process from now on.
    pub fn from_now(pid: u32) -> Option<Counted> {
        Some(Counted(Killed(perf(&["-p", &pid.to_string()]).spawn().ok()?)))
    }

    /// How many they were, when the process has ended.
    pub fn instructions(mut self) -> Option<f64> {
        let mut said = String::new();
        self.0.0.stderr.take()?.read_to_string(&mut said).ok()?;
        count(&said)
    }
}

/// The count in what `perf` says.
fn count(said: &str) -> Option<f64> {
    said.lines().find_map(|line| {
        let (count, of) = line.split_once(',')?;
        of.contains(EVENT).then(|| count.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_says_has_a_count_or_none() {
        assert_eq!(count("# started\n\n1234567,,instructions:u,999,100.00,,\n"), Some(1_234_567.0));
        assert_eq!(count("<not supported>,,instructions:u,0,100.00,,\n"), None);
        assert_eq!(count("1234567,,cycles:u,999,100.00,,\n"), None);
    }

    #[test]
    fn where_there_are_counters_a_process_has_instructions() {
        let child = Command::new("sh")
            .args(["-c", "sleep 0.3; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
            .spawn();
        let mut child = Killed(child.unwrap());
        let counted = Counted::from_now(child.0.id()).and_then(|counted| {
            child.0.wait().unwrap();
            counted.instructions()
        });
        assert_eq!(counted.is_some_and(|count| count > 100_000.0), are_counted());
    }
}
