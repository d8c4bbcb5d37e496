//! Caches by their sizes: which access misses, of those that valgrind writes down.
//!
//! Lines that were used last stay (LRU); a line that misses at the first level is looked for at the second. What a write
//! does that misses is the cache's: it brings the line, or passes by, so that each of many writes to one line misses.

use std::collections::{BTreeMap, HashMap};

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// All of it.
    pub bytes: u64,
    /// Lines that an address may lie in.
    pub ways: usize,
    /// Bytes of a line: a power of two.
    pub line: u64,
    /// A write that misses brings its line.
    pub allocates: bool,
}

/// The caches of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Of data, first level.
    pub data: Cache,
    /// Of instructions, first level.
    pub instructions: Cache,
    /// Of both, second level.
    pub second: Cache,
}

/// Reads and writes by their width in bytes.
pub type Widths = BTreeMap<u32, [f64; 2]>;

/// What missed in caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Misses {
    /// Of data, at the first level.
    pub first: Widths,
    /// Of them, those that the second had not.
    pub second: Widths,
    /// Fetches of instructions, at the first level.
    pub instructions: f64,
}

/// What a program did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Reads and writes of data.
    pub accesses: Widths,
    /// What missed, in each of the caches that were asked for.
    pub misses: Vec<Misses>,
    /// Bytes of code that were run, each once.
    pub code_bytes: f64,
}

/// Sum over all widths: reads, writes.
pub fn kinds(widths: &Widths) -> [f64; 2] {
    widths.values().fold([0.0; 2], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]])
}

impl Counted {
    /// Without what another run did too.
    #[must_use]
    pub fn without(mut self, base: &Counted) -> Counted {
        less(&mut self.accesses, &base.accesses);
        for (misses, base) in self.misses.iter_mut().zip(&base.misses) {
            less(&mut misses.first, &base.first);
            less(&mut misses.second, &base.second);
            misses.instructions = (misses.instructions - base.instructions).max(0.0);
        }
        self.code_bytes = (self.code_bytes - base.code_bytes).max(0.0);
        self
    }
}

fn less(widths: &mut Widths, base: &Widths) {
    for (width, counts) in widths {
        let base = base.get(width).copied().unwrap_or_default();
        *counts = [0, 1].map(|i| (counts[i] - base[i]).max(0.0));
    }
}

/// Runs of lines through one cache.
struct Level {
    cache: Cache,
    sets: u64,
    /// Set by set, the line used last first.
    lines: Vec<u64>,
}

/// No line has this number.
const NONE: u64 = u64::MAX;

impl Level {
    fn new(cache: Cache) -> Level {
        let sets = (cache.bytes / cache.line / cache.ways as u64).max(1);
        Level { cache, sets, lines: vec![NONE; sets as usize * cache.ways] }
    }

    /// Whether the line misses; it is there afterwards, unless a write passes by.
    fn misses(&mut self, line: u64, write: bool) -> bool {
        let at = (line % self.sets) as usize * self.cache.ways;
        let set = &mut self.lines[at..at + self.cache.ways];
        match set.iter().position(|held| *held == line) {
            Some(place) => {
                set[..=place].rotate_right(1);
                false
            }
            None => {
                if self.cache.allocates || !write {
                    set.rotate_right(1);
                    set[0] = line;
                }
                true
            }
        }
    }
}

/// First and second level.
struct Hierarchy {
    data: Level,
    instructions: Level,
    second: Level,
    misses: Misses,
}

impl Hierarchy {
    /// Whether any line of so many bytes misses, at the first level and at the second.
    fn look(first: &mut Level, second: &mut Level, at: u64, size: u64, write: bool) -> [bool; 2] {
        let (line, mut missed) = (first.cache.line, [false; 2]);
        for number in at / line..=(at + size - 1) / line {
            if first.misses(number, write) {
                let far = second.misses(number * line / second.cache.line, write);
                missed = [true, missed[1] | far];
            }
        }
        missed
    }
}

/// Takes what a program does, access by access.
pub(super) struct Simulated {
    hierarchies: Vec<Hierarchy>,
    accesses: Widths,
    /// Bytes of the instruction at an address.
    code: HashMap<u64, u64>,
}

impl Simulated {
    pub(super) fn new(caches: &[Caches]) -> Simulated {
        let one = |caches: &Caches| Hierarchy {
            data: Level::new(caches.data),
            instructions: Level::new(caches.instructions),
            second: Level::new(caches.second),
            misses: Misses::default(),
        };
        let hierarchies = caches.iter().map(one).collect();
        Simulated { hierarchies, accesses: Widths::new(), code: HashMap::new() }
    }

    pub(super) fn fetch(&mut self, at: u64, size: u64) {
        self.code.insert(at, size);
        for Hierarchy { instructions, second, misses, .. } in &mut self.hierarchies {
            let [first, _] = Hierarchy::look(instructions, second, at, size, false);
            misses.instructions += f64::from(u8::from(first));
        }
    }

    pub(super) fn access(&mut self, at: u64, size: u64, write: bool) {
        let (width, kind) = (size as u32, usize::from(write));
        self.accesses.entry(width).or_default()[kind] += 1.0;
        for Hierarchy { data, second, misses, .. } in &mut self.hierarchies {
            let missed = Hierarchy::look(data, second, at, size, write);
            for (widths, missed) in [&mut misses.first, &mut misses.second].into_iter().zip(missed)
            {
                if missed {
                    widths.entry(width).or_default()[kind] += 1.0;
                }
            }
        }
    }

    pub(super) fn counted(self) -> Counted {
        let misses = self.hierarchies.into_iter().map(|hierarchy| hierarchy.misses).collect();
        let code_bytes = self.code.values().sum::<u64>() as f64;
        Counted { accesses: self.accesses, misses, code_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caches(allocates: bool) -> Caches {
        let data = Cache { bytes: 1024, ways: 2, line: 32, allocates };
        let second = Cache { bytes: 4096, ways: 4, line: 64, allocates: true };
        Caches { data, instructions: data, second }
    }

    fn run(allocates: bool, accesses: &[(u64, u64, bool)]) -> Misses {
        let mut simulated = Simulated::new(&[caches(allocates)]);
        accesses.iter().for_each(|&(at, size, write)| simulated.access(at, size, write));
        simulated.counted().misses.remove(0)
    }

    #[test]
    fn a_line_misses_once_until_others_push_it_out() {
        let reads: Vec<_> = (0..1024).map(|at| (at, 1, false)).collect();
        assert_eq!(run(true, &reads).first[&1], [32.0, 0.0]);
        let twice: Vec<_> = reads.iter().chain(&reads).copied().collect();
        assert_eq!(run(true, &twice).first[&1], [32.0, 0.0]);
        // Twice as much as it holds, in order: nothing is there when it comes again.
        let long: Vec<_> = (0..2048).chain(0..2048).map(|at| (at, 1, false)).collect();
        let misses = run(true, &long);
        assert_eq!((misses.first[&1], misses.second[&1]), ([128.0, 0.0], [32.0, 0.0]));
        // The line used last stays, of two that share a set with a third.
        let shared = [0, 512, 0, 1024, 0].map(|at| (at, 4, false));
        assert_eq!(run(true, &shared).first[&4], [3.0, 0.0]);
    }

    #[test]
    fn writes_that_pass_by_miss_each_time() {
        let bytes: Vec<_> = (0..32).map(|at| (at, 1, true)).collect();
        assert_eq!(run(true, &bytes).first[&1], [0.0, 1.0]);
        assert_eq!(run(false, &bytes).first[&1], [0.0, 32.0]);
        let words: Vec<_> = (0..8).map(|at| (at * 4, 4, true)).collect();
        assert_eq!(run(false, &words).first[&4], [0.0, 8.0]);
        assert_eq!(run(false, &words).second[&4], [0.0, 1.0]);
        // What was read is there to be written.
        assert_eq!(run(false, &[(0, 4, false), (0, 4, true)]).first[&4], [1.0, 0.0]);
    }

    #[test]
    fn what_crosses_lines_misses_once_and_code_counts_once() {
        assert_eq!(run(true, &[(28, 8, false)]).first[&8], [1.0, 0.0]);
        let mut simulated = Simulated::new(&[caches(true)]);
        for _ in 0..3 {
            simulated.fetch(100, 5);
            simulated.fetch(105, 2);
        }
        let counted = simulated.counted();
        assert_eq!((counted.code_bytes, counted.misses[0].instructions), (7.0, 1.0));
        let base = Counted { code_bytes: 5.0, ..Counted::default() };
        assert_eq!(counted.without(&base).code_bytes, 2.0);
    }
}
