//! CPU time, as the system has counted it.

use std::fs;
use std::ops::Range;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the children of this process that have ended, in seconds.
pub fn children_cpu_seconds() -> f64 {
    seconds("/proc/self/stat", 13..15)
}

/// User and system time of this process so far, in seconds.
pub fn own_cpu_seconds() -> f64 {
    clock_seconds(ClockId::ProcessCPUTime)
}

/// The same of this thread.
pub fn thread_cpu_seconds() -> f64 {
    clock_seconds(ClockId::ThreadCPUTime)
}

fn clock_seconds(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// CPU time of the process `pid` and of those of its children that have ended, in seconds; 0 if it is gone.
pub fn cpu_seconds(pid: u32) -> f64 {
    seconds(&format!("/proc/{pid}/stat"), 11..15)
}

/// CPU time of the process `pid`, of those of its threads that live, in seconds as exact as the scheduler counts; 0 if it
/// is gone.
#[cfg(feature = "experiments")]
pub fn run_seconds(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let ns = |thread: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.into_iter().flatten().flatten().filter_map(ns).sum::<f64>() * 1e-9
}

/// The process that has started `pid`; `None` if that is gone.
#[cfg(feature = "experiments")]
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    after_name(&stat).split_whitespace().nth(1)?.parse().ok()
}

/// Time in which a processor was not idle so far, interrupts included, in seconds; 0 if there is none of this number.
#[cfg(feature = "experiments")]
pub fn busy_seconds(core: usize) -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{core} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("");
    // user nice system idle iowait irq softirq, of proc(5).
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let busy: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&field| ticks.get(field)).sum();
    busy / rustix::param::clock_ticks_per_second() as f64
}

/// The sum of some fields of proc(5)'s `stat`, the first behind the name being number 0.
fn seconds(path: &str, fields: Range<usize>) -> f64 {
    let stat = fs::read_to_string(path).unwrap_or_default();
    let words = after_name(&stat).split_whitespace().skip(fields.start).take(fields.len());
    let ticks: f64 = words.filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

fn after_name(stat: &str) -> &str {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest)
}
