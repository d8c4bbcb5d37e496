//! Braun and Diot, Figures 13 and 14: memory accesses by width, and cache misses.

use fusewire_kernels::Level;

use crate::Result;
use crate::bench::{Bench, machine};
use crate::memory::{Cache, Caches, MESSAGE, Misses, Task, accesses, misses};
use crate::record::Place;

const SUPERSPARC: Caches = Caches {
    data: Cache { bytes: 16 << 10, ways: 4, line: 32 },
    instructions: Cache { bytes: 20 << 10, ways: 5, line: 64 },
};
const ALPHA: Caches = Caches {
    data: Cache { bytes: 8 << 10, ways: 1, line: 32 },
    instructions: Cache { bytes: 8 << 10, ways: 1, line: 32 },
};

/// This machine's, as near as cachegrind takes it: a power of two of sets.
fn here(level: Level) -> Caches {
    let caches = machine(level).caches;
    let of = |wanted: &str| {
        let bytes = caches.iter().find(|(name, _)| name == wanted).map_or(32 << 10, |(_, b)| *b);
        let ways = if (bytes / 64 / 8).is_power_of_two() { 8 } else { 12 };
        Cache { bytes, ways, line: 64 }
    };
    Caches { data: of("L1d"), instructions: of("L1i") }
}

const WAYS: [(&str, bool); 2] = [("send", true), ("receive", false)];
const SERIES: [(&str, bool); 2] = [("ILP", true), ("non-ILP", false)];

/// What is measured, and how far it is.
struct Counting<'c> {
    program: std::path::PathBuf,
    caches: &'c [(&'static str, Caches)],
    messages: u32,
    done: f64,
    /// Runs of valgrind in all.
    total: f64,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    // valgrind knows these two.
    let levels = [("portable", "portable"), ("avx2", "AVX2")];
    let levels: Vec<_> = levels
        .into_iter()
        .filter_map(|(name, words)| Some((Level::from_name(name)?, name, words)))
        .collect();
    let caches = [("here", here(bench.level)), ("SuperSPARC", SUPERSPARC), ("Alpha 21064", ALPHA)];
    let caches = bench.choose(&caches[1..2], &caches[..]);
    // A run without messages, and four with, each with lackey and with cachegrind; the simple cipher without lackey.
    let runs = levels.len() * 5 * (1 + caches.len()) + 5 * caches.len();
    let mut counting = Counting {
        program: bench.program.clone(),
        caches,
        messages: bench.choose(300, 4000),
        done: 0.0,
        total: runs as f64,
    };
    for (level, name, words) in levels {
        let nothing = Task { level, integrated: true, send: true, safer: true, messages: 0 };
        counting.widths(bench, nothing, name, words)?;
        counting.misses(bench, nothing, words)?;
        if name == "portable" {
            counting.misses(bench, Task { safer: false, ..nothing }, words)?;
        }
    }
    Ok(())
}

impl Counting<'_> {
    fn step(&mut self, bench: &mut Bench<'_>, what: &str) -> Result<()> {
        self.done += 1.0;
        bench.step((self.done / self.total).min(1.0), what)
    }

    /// Figure 13.
    fn widths(
        &mut self,
        bench: &mut Bench<'_>,
        nothing: Task,
        name: &str,
        words: &str,
    ) -> Result<()> {
        let base = accesses(&self.program, &nothing)?;
        self.step(bench, "accesses of the program")?;
        let bytes = f64::from(self.messages) * MESSAGE as f64;
        for (way, send) in WAYS {
            let chart = format!("widths-{name}{}", if send { "" } else { "-receive" });
            let mut moved = [0.0; 2];
            for ((series, integrated), moved) in SERIES.into_iter().zip(&mut moved) {
                let task = Task { integrated, send, messages: self.messages, ..nothing };
                let mut all = 0.0;
                for (width, counts) in accesses(&self.program, &task)? {
                    let base = base.get(&width).copied().unwrap_or_default();
                    for (i, kind) in ["loads", "stores"].into_iter().enumerate() {
                        let count = (counts[i] - base[i]).max(0.0);
                        if count / bytes > SEEN {
                            let at = format!("{kind} of {width} B");
                            bench.sample(Place::new(&chart, series, at), count / bytes);
                        }
                        all += count;
                        *moved += count * f64::from(width);
                    }
                }
                let at = format!("{words}, {way}");
                bench.sample(Place::new("accesses", series, at.clone()), all / bytes);
                self.step(bench, &format!("accesses, {at}, {series}"))?;
            }
            let saved = ((moved[1] - moved[0]) / (2.0 * bytes)).max(0.0);
            bench.sample(Place::new("saved", format!("this machine, {words}"), way), saved);
        }
        Ok(())
    }

    /// Figure 14.
    fn misses(&mut self, bench: &mut Bench<'_>, nothing: Task, words: &str) -> Result<()> {
        for (name, caches) in self.caches {
            let base = misses(&self.program, &nothing, *caches)?;
            self.step(bench, "misses of the program")?;
            for (way, send) in WAYS {
                for (series, integrated) in SERIES {
                    let task = Task { integrated, send, messages: self.messages, ..nothing };
                    let found = misses(&self.program, &task, *caches)?;
                    let own = |of: fn(&Misses) -> f64| (of(&found) - of(&base)).max(0.0);
                    let kib = |of| own(of) / f64::from(self.messages);
                    let mut add = |chart: &str, at: String, value| {
                        bench.sample(Place::new(chart, series, at), value);
                    };
                    let at = format!("{name}: {words}, {way}");
                    if nothing.safer {
                        let part = own(|m| m.data) / own(|m| m.accesses).max(1.0);
                        add("misses", at.clone(), part * 100.0);
                        add("misses-instructions", at.clone(), kib(|m| m.instructions));
                    }
                    if words == "portable" {
                        let chart = if nothing.safer { "misses-line" } else { "misses-simple" };
                        add(chart, format!("{name}, {way}"), kib(|m| m.data));
                    }
                    self.step(bench, &format!("misses, {at}, {series}"))?;
                }
            }
        }
        Ok(())
    }
}

/// Fewer accesses a byte than this are the program's, not the loop's.
const SEEN: f64 = 0.002;
