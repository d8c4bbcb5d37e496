//! Braun and Diot, Figures 13 and 14: memory accesses by width, and cache misses.

use fusewire_kernels::Level;

use crate::Result;
use crate::bench::{Bench, machine};
use crate::experiment::{Axis, Beside, Chart, Experiment, Kind, Needs, Paper};
use crate::memory::{Cache, MESSAGE, Task, accesses, misses};
use crate::record::{Place, Point};

const PER_BYTE: Axis = Axis::linear("accesses a byte of message", "");

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "braun-memory",
    paper: Paper::BraunDiot,
    shows: "Figures 13 and 14",
    title: "Memory accesses and cache misses",
    question: "Does integration save accesses to memory, or misses of the cache?",
    method: "valgrind counts (lackey: loads and stores by width; cachegrind: misses of a simulated first-level cache) while \
             messages of 1 KiB pass byte swap, cipher and checksum in one loop and in passes, at the portable level and at \
             AVX2 (valgrind knows no AVX-512); from a file of 15 KiB into a ring of 64 KiB, as in the paper's transfer. A run \
             without messages is taken off. Caches: this machine's first level, the paper's SuperSPARC (16 KiB, 4 ways, \
             lines of 32 bytes) and Alpha 21064 (8 KiB, 1 way, lines of 32 bytes).",
    differs: "The paper's cipher reads tables and writes single bytes, and in one loop its tables were pushed out: fewer accesses, \
              more misses (4.7 to 18.7 % when receiving). With vectors there are no tables in memory, and nothing is written \
              byte by byte: what integration saves is visible in both. The protocol's own accesses are not counted here.",
    charts: &[
        Chart {
            id: "accesses",
            title: "Figure 13: accesses a byte of message",
            kind: Kind::Bars,
            value: PER_BYTE,
            beside: Beside::Together,
        },
        Chart {
            id: "saved",
            title: "Figure 13: bytes that ILP saves, in copies of the message (read and written)",
            kind: Kind::Bars,
            value: Axis::linear("copies saved", ""),
            beside: Beside::Together,
        },
        Chart {
            id: "widths-portable",
            title: "Figure 13: by width, portable, sending",
            kind: Kind::Bars,
            value: PER_BYTE,
            beside: Beside::Together,
        },
        Chart {
            id: "widths-avx2",
            title: "Figure 13: by width, AVX2, sending",
            kind: Kind::Bars,
            value: PER_BYTE,
            beside: Beside::Together,
        },
        Chart {
            id: "misses",
            title: "Figure 14: first-level misses by access",
            kind: Kind::Bars,
            value: Axis::linear("misses", "%"),
            beside: Beside::Apart,
        },
        Chart {
            id: "misses-line",
            title: "Figure 14: first-level misses a KiB of message, portable",
            kind: Kind::Bars,
            value: Axis::linear("misses a KiB", ""),
            beside: Beside::Together,
        },
    ],
    published,
    needs: Needs::Valgrind,
    seconds: [35.0, 75.0],
    run,
};

fn published() -> Vec<Point> {
    // Section 4.2: of 10.7 Mbyte; reads and writes of 4 bytes that ILP saves. A copy reads and writes each byte.
    let copies = |accesses: f64| accesses * 1e6 * 4.0 / (2.0 * 10.7e6);
    vec![
        Place::new("saved", "SPARCstation", "send").is(copies(25.7)),
        Place::new("saved", "SPARCstation", "receive").is(copies(8.3 + 8.4)),
        Place::new("misses", "non-ILP", "SPARCstation, receive").is(4.7),
        Place::new("misses", "ILP", "SPARCstation, receive").is(18.7),
    ]
}

const SUPERSPARC: Cache = Cache { bytes: 16 << 10, ways: 4, line: 32 };
const ALPHA: Cache = Cache { bytes: 8 << 10, ways: 1, line: 32 };

/// This machine's, as near as cachegrind takes it: a power of two of sets.
fn here(level: Level) -> Cache {
    let bytes =
        machine(level).caches.iter().find(|(name, _)| name == "L1d").map_or(32 << 10, |(_, b)| *b);
    let ways = if (bytes / 64 / 8).is_power_of_two() { 8 } else { 12 };
    Cache { bytes, ways, line: 64 }
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    // valgrind knows these two.
    let levels = [("portable", "portable"), ("avx2", "AVX2")];
    let levels: Vec<_> = levels
        .into_iter()
        .filter_map(|(name, words)| Some((Level::from_name(name)?, name, words)))
        .collect();
    let caches = [("here", here(bench.level)), ("SuperSPARC", SUPERSPARC), ("Alpha 21064", ALPHA)];
    let caches = bench.choose(&caches[1..2], &caches[..]);
    let messages = bench.choose(300, 4000);
    let program = bench.program.clone();
    let total = (levels.len() * 4 * (1 + caches.len())) as f64;
    let mut done = 0.0;
    for (level, name, words) in levels {
        let widths = if name == "portable" { "widths-portable" } else { "widths-avx2" };
        let nothing = Task { level, integrated: true, send: true, safer: true, messages: 0 };
        let base = accesses(&program, &nothing)?;
        let mut base_misses = Vec::new();
        for (_, cache) in caches {
            base_misses.push(misses(&program, &nothing, *cache)?);
        }
        let bytes = f64::from(messages) * MESSAGE as f64;
        for (way, send) in [("send", true), ("receive", false)] {
            let mut moved = [0.0; 2];
            for (i, (series, integrated)) in
                [("ILP", true), ("non-ILP", false)].into_iter().enumerate()
            {
                let task = Task { integrated, send, messages, ..nothing };
                let mut all = [0.0; 2];
                for (width, [loads, stores]) in accesses(&program, &task)? {
                    let [l0, s0] = base.get(&width).copied().unwrap_or_default();
                    let counts = [(loads - l0).max(0.0), (stores - s0).max(0.0)];
                    for (kind, count) in ["loads", "stores"].iter().zip(counts) {
                        if send && count / bytes > 1e-4 {
                            let at = format!("{kind} of {width} B");
                            bench.sample(Place::new(widths, series, at), count / bytes);
                        }
                    }
                    all[0] += counts[0];
                    all[1] += counts[1];
                    moved[i] += (counts[0] + counts[1]) * f64::from(width);
                }
                let at = format!("{words}, {way}");
                bench.sample(Place::new("accesses", series, at.clone()), (all[0] + all[1]) / bytes);
                done += 1.0;
                bench.step(done / total, &format!("{at}, {series}"))?;
                for ((cache_name, cache), base) in caches.iter().zip(&base_misses) {
                    let found = misses(&program, &task, *cache)?;
                    let own: Vec<f64> =
                        found.iter().zip(base).map(|(a, b)| (a - b).max(0.0)).collect();
                    let ratio = (own[2] + own[3]) / (own[0] + own[1]).max(1.0) * 100.0;
                    let at = format!("{cache_name}: {words}, {way}");
                    bench.sample(Place::new("misses", series, at), ratio);
                    if name == "portable" {
                        let at = format!("{cache_name}, {way}");
                        let kib = (own[2] + own[3]) / f64::from(messages);
                        bench.sample(Place::new("misses-line", series, at), kib);
                    }
                    done += 1.0;
                    bench.step(done / total, "")?;
                }
            }
            let saved = ((moved[1] - moved[0]) / (2.0 * bytes)).max(0.0);
            bench.sample(Place::new("saved", format!("this machine, {words}"), way), saved);
        }
    }
    Ok(())
}
