//! The live view: what running stacks of this user do. `docs/observe.md`.

pub mod capture;
mod filter;
pub mod metrics;
mod rates;
mod screen;
pub mod ss;
mod table;
pub mod top;

use fusewire_view::Report;
use fusewire_view::client::{Process, is_dead, processes};

use crate::output::{Code, Failure, Result, printable};

/// The processes with these numbers, or all that there are, each with what it tells. One that does not answer
/// is named on standard error and left out.
///
/// # Errors
/// A process that was asked for is not there.
fn reports(pids: &[u32]) -> Result<Vec<(Process, Report)>> {
    let mut all = Vec::new();
    let mut dead = Vec::new();
    for process in processes().into_iter().filter(|p| pids.is_empty() || pids.contains(&p.pid)) {
        match process.report() {
            Ok(report) => all.push((process, report)),
            Err(error) if is_dead(&error) => dead.push(process.pid),
            Err(error) => {
                eprintln!("fusewire: process {}: {}", process.pid, printable(&error.to_string()));
                dead.push(process.pid);
            }
        }
    }
    let there = |pid: &u32| all.iter().any(|(process, _)| process.pid == *pid);
    if let Some(pid) = pids.iter().find(|pid| !there(pid)) {
        let what = format!(
            "process {pid} has no stack that can be asked: it does not run, is somebody else's, or does not \
             observe (Host::observe, FUSEWIRE_OBSERVE=1 for C programs)"
        );
        return Err(Failure::new(Code::Failed, what).into());
    }
    Ok(all)
}

/// A process for people.
fn who(report: &Report) -> String {
    format!("{}/{}", printable(&report.program), report.pid)
}
