//! Who is timed when, so that what is compared was run under the same conditions.
//!
//! - All run on one CPU, ours and the processes of the peers, which inherit it: the CPUs of a machine are not equally
//!   fast at a time, least of all where it is virtual and each has a neighbour of its own on its core.
//! - What is compared runs one behind the other: cases are in the order of type and direction, not of codecs.
//! - Each time is between two of a probe, a loop that needs most of a core's units. Where either was slow, a neighbour
//!   had the core, too: codecs suffer from that unequally, the faster the more. Such a time does not count, and
//!   the case is run again in another round, up to a limit.
//! - Each is run for a while untimed in front of its time, for caches and predictors that the one before it left.

use super::{Case, Plan};
use crate::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::hint::black_box;
use std::time::Instant;

/// How much longer than its shortest a probe may take.
const SLACK: f64 = 1.06;
/// Rounds for each that is asked for, at most.
const PATIENCE: usize = 6;
/// Turns of the probe's loop: some 20 microseconds.
const TURNS: u64 = 16_000;
/// Probes of each CPU, to choose one.
const TRIALS: usize = 200;

/// The times of a case in nanoseconds, least first.
pub(super) struct Samples {
    /// Those that count, unless there are none: then all.
    pub(super) times: Vec<f64>,
    /// How many do not.
    pub(super) disturbed: usize,
}

/// The thread is on one CPU; what it started before it is let go, too.
pub(super) struct Pinned(CpuSet);

impl Pinned {
    /// Of the CPUs that we may use, that on which the probe is fastest now.
    pub(super) fn new() -> Result<Pinned> {
        let pinned = Pinned(sched_getaffinity(None).map_err(os)?);
        let mut best = (f64::INFINITY, pinned.0);
        for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| pinned.0.is_set(cpu)) {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).map_err(os)?;
            let mut times: Vec<f64> = (0..TRIALS).map(|_| probe()).collect();
            times.sort_by(f64::total_cmp);
            if times[TRIALS / 2] < best.0 {
                best = (times[TRIALS / 2], only);
            }
        }
        sched_setaffinity(None, &best.1).map_err(os)?;
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Of no consequence if it fails: the process is at its end.
        let _ = sched_setaffinity(None, &self.0);
    }
}

fn os(errno: rustix::io::Errno) -> Error {
    Error::os("choose a CPU")(errno.into())
}

/// Nanoseconds of four chains of additions and multiplications side by side.
fn probe() -> f64 {
    let begin = Instant::now();
    let mut x = black_box([1u64, 2, 3, 4]);
    for turn in 0..TURNS {
        for x in &mut x {
            *x = (*x ^ turn).wrapping_add(*x << 3);
        }
    }
    black_box(x);
    begin.elapsed().as_nanos() as f64
}

/// Runs all cases; `time` gives the nanoseconds of so many repeats of one.
pub(super) fn run<'c>(
    plan: &Plan<'_>,
    cases: &mut [Case<'c>],
    mut time: impl FnMut(usize, u64, &mut [Case<'c>]) -> Result<u64>,
) -> Result<Vec<Samples>> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |case: usize| (&cases[case].of, cases[case].direction);
        key(a).cmp(&key(b))
    });
    // How often each fits into a round.
    let mut repeats = vec![1; cases.len()];
    for &case in &order {
        let (mut tried, round) = (1, plan.round.as_nanos() as u64);
        let ns = loop {
            let ns = time(case, tried, cases)?;
            if ns > 50_000 {
                break ns;
            }
            tried *= 2;
        };
        repeats[case] = (round * tried / ns.max(1)).max(1);
    }
    let mut samples: Vec<Vec<(f64, f64)>> = vec![Vec::new(); cases.len()];
    let (wanted, mut quickest) = (plan.rounds.max(1), f64::INFINITY);
    for _ in 0..PATIENCE * wanted {
        let counted = |samples: &[(f64, f64)], quickest: f64| {
            samples.iter().filter(|sample| sample.1 <= SLACK * quickest).count()
        };
        let mut all = true;
        for &case in &order {
            if counted(&samples[case], quickest) >= wanted {
                continue;
            }
            all = false;
            time(case, repeats[case].div_ceil(8), cases)?;
            let before = probe();
            let ns = time(case, repeats[case], cases)?;
            let after = probe();
            quickest = quickest.min(before).min(after);
            samples[case].push((ns as f64 / repeats[case] as f64, before.max(after)));
        }
        if all {
            break;
        }
    }
    Ok(samples.into_iter().map(|all| judged(all, SLACK * quickest)).collect())
}

/// Those samples whose probe took no longer than `most`.
fn judged(all: Vec<(f64, f64)>, most: f64) -> Samples {
    let counted: Vec<f64> = all.iter().filter(|(_, probe)| *probe <= most).map(|s| s.0).collect();
    let disturbed = all.len() - counted.len();
    let mut times = match counted.is_empty() {
        true => all.iter().map(|sample| sample.0).collect(),
        false => counted,
    };
    times.sort_by(f64::total_cmp);
    Samples { times, disturbed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_disturbed_does_not_count() {
        let judged = judged(vec![(3.0, 10.0), (9.0, 20.0), (1.0, 10.4)], 10.6);
        assert_eq!((judged.times, judged.disturbed), (vec![1.0, 3.0], 1));
        let judged = super::judged(vec![(9.0, 20.0), (8.0, 30.0)], 10.6);
        assert_eq!((judged.times, judged.disturbed), (vec![8.0, 9.0], 2));
    }
}
