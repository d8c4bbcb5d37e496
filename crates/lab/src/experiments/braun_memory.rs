//! Braun and Diot, section 4.2: Figures 13 and 14, memory accesses and cache misses by width and kind; memory's part of
//! the time; and code.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fusewire_calibration::turn;
use fusewire_kernels::Level;

use crate::Result;
use crate::bench::{Bench, machine};
use crate::memory::{
    Cache, Caches, Counted, FILE, MESSAGE, Messages, RING, Task, Widths, counted, kinds,
};
use crate::record::Place;

const fn cache(bytes: u64, ways: usize, line: u64) -> Cache {
    Cache { bytes, ways, line, allocates: true }
}

/// A write that misses passes by, as in the paper's section 2.2: a miss for each write, and not for each line.
const fn passes_by(cache: Cache) -> Cache {
    Cache { allocates: false, ..cache }
}

const SUPERSPARC: Caches = Caches {
    data: passes_by(cache(16 << 10, 4, 32)),
    instructions: cache(20 << 10, 5, 64),
    second: cache(1 << 20, 1, 128),
};
const ALPHA: Caches = Caches {
    data: passes_by(cache(8 << 10, 1, 32)),
    instructions: cache(8 << 10, 1, 32),
    second: cache(512 << 10, 1, 32),
};

/// This machine's, as near as their sizes tell.
fn here(level: Level) -> Caches {
    let caches = machine(level).caches;
    let of = |wanted: &str, otherwise: u64| {
        let bytes = caches.iter().find(|(name, _)| name == wanted).map_or(otherwise, |(_, b)| *b);
        let ways = if (bytes / 64 / 8).is_power_of_two() { 8 } else { 12 };
        cache(bytes, ways, 64)
    };
    let second = of("L2", 512 << 10);
    Caches { data: of("L1d", 32 << 10), instructions: of("L1i", 32 << 10), second }
}

/// The paper's machines first, which stand beside its points.
const NAMES: [&str; 3] = ["SuperSPARC", "Alpha 21064", "here"];
const WAYS: [(&str, bool); 2] = [("send", true), ("receive", false)];
const SERIES: [(&str, bool); 2] = [("ILP", true), ("non-ILP", false)];
/// The paper's cipher, and its simple one.
const CIPHERS: [(&str, bool); 2] = [("", true), ("simple cipher, ", false)];

/// What is measured, and how far it is.
struct Counting {
    program: PathBuf,
    caches: [Caches; 3],
    messages: u32,
    base: Counted,
    done: f64,
    /// Runs of valgrind in all.
    total: f64,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    // valgrind knows these two.
    let levels = [("portable", "portable"), ("avx2", "AVX2")];
    let levels = bench.choose(&levels[..1], &levels[..]);
    let ciphers = bench.choose(&CIPHERS[..1], &CIPHERS[..]);
    let caches = [SUPERSPARC, ALPHA, here(bench.level)];
    let program = bench.program.clone();
    let nothing = |level| Task { level, integrated: true, send: true, safer: true, messages: 0 };
    let base = counted(&program, &nothing(Level::available()[0]), &caches)?;
    let runs = 1 + 4 * (levels.len() - 1 + ciphers.len());
    let (messages, total) = (bench.choose(64, 128), runs as f64);
    let mut counting = Counting { program, caches, messages, base, done: 1.0, total };
    for &(name, words) in levels {
        let Some(level) = Level::from_name(name) else { continue };
        for &(cipher, safer) in ciphers.iter().filter(|(_, safer)| *safer || name == "portable") {
            for (way, send) in WAYS {
                let task = Task { send, safer, messages: counting.messages, ..nothing(level) };
                let at = At { words, cipher, way };
                let both = SERIES.map(|(series, integrated)| {
                    counting.one(bench, &Task { integrated, ..task }, &format!("{at}, {series}"))
                });
                let [one, passes] = both;
                counting.compare(bench, &at, &[one?, passes?]);
            }
        }
    }
    Ok(())
}

/// What a run is of.
struct At<'a> {
    /// The level.
    words: &'a str,
    /// The cipher, where it is not the paper's first.
    cipher: &'a str,
    way: &'a str,
}

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}, {}", self.cipher, self.words, self.way)
    }
}

impl Counting {
    fn one(&mut self, bench: &mut Bench<'_>, task: &Task, what: &str) -> Result<Counted> {
        bench.step((self.done / self.total).min(1.0), what)?;
        self.done += 1.0;
        Ok(counted(&self.program, task, &self.caches)?.without(&self.base))
    }

    /// One loop, and passes.
    fn compare(&self, bench: &mut Bench<'_>, at: &At<'_>, both: &[Counted; 2]) {
        if at.cipher.is_empty() {
            self.accesses(bench, at, both);
        }
        for (i, name) in NAMES.into_iter().enumerate() {
            self.misses(bench, at, both, (i, name));
        }
    }

    /// Figure 13, and code.
    fn accesses(&self, bench: &mut Bench<'_>, at: &At<'_>, both: &[Counted; 2]) {
        let bytes = f64::from(self.messages) * MESSAGE as f64;
        let mut moved = [[0.0; 2]; 2];
        let name = if at.words == "portable" { "portable" } else { "avx2" };
        let chart = format!("widths-{name}{}", if at.way == "send" { "" } else { "-receive" });
        for (((series, _), counted), moved) in SERIES.into_iter().zip(both).zip(&mut moved) {
            for (width, counts) in &counted.accesses {
                for (i, kind) in ["loads", "stores"].into_iter().enumerate() {
                    moved[i] += counts[i] * f64::from(*width) / bytes;
                    if counts[i] / bytes > SEEN {
                        let at = format!("{kind} of {width} B");
                        bench.sample(Place::new(&chart, series, at), counts[i] / bytes);
                    }
                }
            }
            let [reads, writes] = kinds(&counted.accesses);
            let at = at.to_string();
            bench.sample(Place::new("accesses", series, at.clone()), (reads + writes) / bytes);
            bench.sample(Place::new("code", series, at), counted.code_bytes);
        }
        let [one, passes] = moved;
        let saved = [0, 1].map(|i| passes[i] - one[i]);
        let here = format!("this machine, {}", at.words);
        for (kind, saved) in ["read", "written"].into_iter().zip(saved) {
            let place = Place::new("saved-bytes", here.clone(), format!("{}, {kind}", at.way));
            bench.sample(place, saved);
        }
        let copies = (saved[0] + saved[1]) / 2.0;
        bench.sample(Place::new("saved", here, at.way), copies);
        let [one, passes] = [0, 1].map(|i| both[i].code_bytes);
        let Some(text) = text_bytes(&self.program) else { return };
        let grown = (one - passes) / text * 100.0;
        bench.sample(Place::new("code-growth", "this machine", at.to_string()), grown);
    }

    /// Figure 14.
    fn misses(&self, bench: &mut Bench<'_>, at: &At<'_>, both: &[Counted; 2], of: (usize, &str)) {
        let (i, name) = of;
        let messages = f64::from(self.messages);
        let sum = |widths: &Widths| kinds(widths).iter().sum::<f64>();
        let (cipher, way) = (at.cipher, at.way);
        let portable = at.words == "portable";
        for ((series, _), counted) in SERIES.into_iter().zip(both) {
            let misses = &counted.misses[i];
            let first = sum(&misses.first);
            let mut add = |chart: &str, at: String, value: f64| {
                bench.sample(Place::new(chart, series, at), value);
            };
            if cipher.is_empty() {
                let part = first / sum(&counted.accesses).max(1.0);
                add("misses", format!("{name}: {at}"), part * 100.0);
                let instructions = misses.instructions / messages;
                add("misses-instructions", format!("{name}: {at}"), instructions);
                let part = misses.instructions / (misses.instructions + first).max(1.0);
                add("instruction-part", format!("{name}: {at}"), part * 100.0);
                add("misses-second", format!("{name}: {at}"), sum(&misses.second) / messages);
            }
            if !portable {
                continue;
            }
            let chart = if cipher.is_empty() { "misses-line" } else { "misses-simple" };
            add(chart, format!("{name}, {way}"), first / messages);
            if !cipher.is_empty() {
                continue;
            }
            let [reads, writes] = kinds(&misses.first);
            add("misses-kinds", format!("{name}, {way}, reads"), reads / messages);
            add("misses-kinds", format!("{name}, {way}, writes"), writes / messages);
            for (width, counts) in &misses.first {
                let count = (counts[0] + counts[1]) / messages;
                if count > SEEN * MESSAGE as f64 {
                    add("misses-widths", format!("{name}, {way}, {width} B"), count);
                }
            }
        }
        let [one, passes] = [0, 1].map(|k| sum(&both[k].misses[i].first));
        if portable && passes > 0.0 {
            let place = Place::new("misses-ratio", name, format!("{cipher}{way}"));
            bench.sample(place, one / passes);
        }
    }
}

/// Fewer accesses a byte than this are the program's, not the loop's.
const SEEN: f64 = 0.002;

/// Bytes of a program's code: what its ELF file says of segments that are run.
fn text_bytes(program: &Path) -> Option<f64> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(program).ok()?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |bytes: &[u8], at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (from, size, count) = (word(&header, 32)?, half(&header, 54)?, half(&header, 56)?);
    let mut all = 0;
    for i in 0..u64::from(count) {
        let mut segment = [0; 56];
        file.read_exact_at(&mut segment, from.checked_add(i * u64::from(size))?).ok()?;
        // PT_LOAD, and PF_X.
        if segment[..4] == [1, 0, 0, 0] && segment[4] & 1 == 1 {
            all += word(&segment, 40)?;
        }
    }
    Some(all as f64).filter(|bytes| *bytes > 0.0)
}

/// How much longer a message takes that comes from the file and goes into the ring than one that stays where it is: what
/// lies farther away than the first level.
pub(super) fn time(bench: &mut Bench<'_>) -> Result<()> {
    let portable = Level::available()[0];
    let mut levels = vec![portable];
    levels.extend(Some(bench.level).filter(|level| *level != portable));
    let mut cases = Vec::new();
    for level in levels {
        for (way, send) in WAYS {
            for (series, integrated) in SERIES {
                let task = Task { level, integrated, send, safer: true, messages: 0 };
                let near = Messages::new(&task, 1, 1);
                let at = format!("{}, {way}", level.name());
                cases.push((series, at, Messages::new(&task, FILE, RING), near));
            }
        }
    }
    let length = Duration::from_micros(bench.choose(150, 600));
    bench.rounds(bench.choose(9, 61), |bench, round| {
        for (series, at, far, near) in &mut cases {
            let mut times = [0.0; 2];
            for i in [round % 2, 1 - round % 2] {
                let messages = if i == 0 { &mut *far } else { &mut *near };
                times[i] = turn(length, &mut || messages.pass());
            }
            let [all, near] = times;
            let mut add = |chart, value| bench.sample(Place::new(chart, *series, &**at), value);
            add("time", all);
            add("time-near", near);
            add("memory-part", (1.0 - near / all).max(0.0) * 100.0);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_code_is_part_of_it() {
        let program = std::env::current_exe().unwrap();
        let all = std::fs::metadata(&program).unwrap().len() as f64;
        let text = text_bytes(&program).unwrap();
        assert!(text > 1e5 && text < all, "{text} of {all}");
        assert_eq!(text_bytes(Path::new("/dev/null")), None);
    }
}
