//! How much longer a pass takes where its bytes are not in the first-level cache: between what was
//! measured.

use super::{LINE, SPILLED_PER_LINE};
use crate::machine::{Far, Level, Moves, Place};
use crate::pipeline::Implementation;

/// What the processor does meanwhile, while a transfer is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlap {
    /// Bytes of a word.
    pub(super) word_bytes: u32,
    /// They fill the window in which the processor looks for loads: memory is so far that this is what counts.
    pub(super) instructions_per_byte: f64,
    /// Cycles of work that hide what comes from nearer: it is there in time, or it is what everything waits for.
    pub(super) cycles_per_byte: f64,
    /// Words of state that go through memory for each byte.
    pub(super) spilled_per_byte: f64,
}

impl Overlap {
    /// Both, one behind the other.
    pub(super) fn and(&self, other: &Overlap) -> Overlap {
        Overlap {
            word_bytes: self.word_bytes,
            instructions_per_byte: self.instructions_per_byte + other.instructions_per_byte,
            cycles_per_byte: self.cycles_per_byte + other.cycles_per_byte,
            spilled_per_byte: self.spilled_per_byte + other.spilled_per_byte,
        }
    }

    /// As if there were other passes of the same kind, more or fewer.
    pub(super) fn times(&self, by: f64) -> Overlap {
        Overlap {
            word_bytes: self.word_bytes,
            instructions_per_byte: self.instructions_per_byte * by,
            cycles_per_byte: self.cycles_per_byte * by,
            spilled_per_byte: self.spilled_per_byte * by,
        }
    }
}

impl Place {
    /// Cycles a byte.
    pub(super) fn beyond(&self, moves: Moves, bytes: f64, overlap: &Overlap) -> f64 {
        let more = self.unspilled(moves, bytes, overlap);
        if !self.is_memory() || moves != Moves::Copy || overlap.spilled_per_byte <= 0.0 {
            return more;
        }
        let part = (overlap.spilled_per_byte * LINE / SPILLED_PER_LINE).min(1.0);
        let spilling = self.unspilled(Moves::Spill, bytes, overlap);
        more * (1.0 - part) + spilling.max(more) * part
    }

    /// As if all state were in registers.
    fn unspilled(&self, moves: Moves, bytes: f64, overlap: &Overlap) -> f64 {
        let is_memory = self.is_memory();
        // Words as long as the pass's own, or what comes nearest: with long words the processor sees more bytes ahead.
        let distance =
            |word_bytes: u32| (f64::from(word_bytes) / f64::from(overlap.word_bytes)).ln().abs();
        let of_moves = || self.beyond.iter().filter(|at| at.moves == moves);
        let word_bytes =
            of_moves().map(|at| at.word_bytes).min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        let all = || of_moves().filter(|at| Some(at.word_bytes) == word_bytes);
        if moves == Moves::Write && all().next().is_none() {
            // Measured of memory alone; elsewhere it is what copying takes beyond reading.
            let [copy, read] =
                [Moves::Copy, Moves::Read].map(|moves| self.unspilled(moves, bytes, overlap));
            return (copy - read).max(0.0);
        }
        if matches!(moves, Moves::Reread | Moves::Rework | Moves::Lead) && all().next().is_none() {
            // The same: in caches the passes behind the first only hide what that one waits for.
            return self.unspilled(Moves::Copy, bytes, overlap);
        }
        let points: Vec<_> = all()
            .map(|at| Point {
                bytes: at.bytes,
                at: if is_memory { at.instructions_per_byte } else { at.near_cycles_per_byte },
                found: Found { near: at.near_cycles_per_byte, more: at.cycles_per_byte },
            })
            .collect();
        if is_memory {
            let more = |found: &Found| overlap.longer(found);
            between(&points, bytes, overlap.instructions_per_byte, more)
        } else {
            // A part of fewer bytes than were measured there is nearer.
            let least = points.iter().map(|point| point.bytes).fold(f64::INFINITY, f64::min);
            between(&points, bytes.max(least), overlap.cycles_per_byte, |found| found.more)
        }
    }
}

impl Level {
    /// Cycles a byte that a pipeline of so many near takes longer in memory, if such was measured.
    pub(super) fn beyond(
        &self,
        implementation: Implementation,
        rewrites: bool,
        bytes: f64,
        near_cycles_per_byte: f64,
    ) -> Option<f64> {
        let same = |at: &&Far| (at.implementation, at.rewrites) == (implementation, rewrites);
        let point = |at: &Far| Point {
            bytes: at.bytes,
            at: at.near_cycles_per_byte,
            found: Found { near: at.near_cycles_per_byte, more: at.cycles_per_byte },
        };
        let points: Vec<_> = self.far.iter().filter(same).map(point).collect();
        let more = |found: &Found| found.more;
        (!points.is_empty()).then(|| between(&points, bytes, near_cycles_per_byte, more))
    }
}

/// What was measured of a message of some bytes, beside so much of what counts there.
struct Point {
    bytes: f64,
    at: f64,
    found: Found,
}

/// Cycles a byte more, of a message between those that were measured.
fn between(points: &[Point], bytes: f64, x: f64, more: impl Fn(&Found) -> f64) -> f64 {
    let lengths = || points.iter().map(|point| point.bytes);
    let below = lengths().filter(|at| *at <= bytes).fold(f64::NAN, f64::max);
    let above = lengths().filter(|at| *at > bytes).fold(f64::NAN, f64::min);
    let at = |size: f64| more(&along(points.iter().filter(|point| point.bytes == size), x));
    match (below.is_nan(), above.is_nan()) {
        (true, true) => 0.0,
        // What comes before the first byte is the same, however few there are.
        (true, false) => at(above) * above / bytes,
        (false, true) => at(below),
        // Along a line, of cycles by bytes: each byte more costs the same.
        (false, false) => {
            let part = (bytes - below) / (above - below);
            (at(below) * below * (1.0 - part) + at(above) * above * part) / bytes
        }
    }
}

/// Cycles a byte: near, and what a place adds to them.
#[derive(Clone, Copy, Default)]
struct Found {
    near: f64,
    more: f64,
}

impl Overlap {
    /// What memory adds: as much as was measured beside as many instructions. Where ours wait for each other longer than
    /// those did, a part of that goes on beside the transfer.
    fn longer(&self, found: &Found) -> f64 {
        let waits = self.cycles_per_byte - found.near;
        if waits <= 0.0 {
            return found.more;
        }
        let far = found.near + found.more;
        let with = |near: f64| (far.powi(HIDING) + near.powi(HIDING)).powf(1.0 / f64::from(HIDING));
        let longer = with(self.cycles_per_byte) - with(found.near);
        (found.more + longer - waits).max(0.0)
    }
}

/// Exponent of the norm in which work and transfer join.
const HIDING: i32 = 3;

/// Of one size, between those that are nearest by what counts there.
fn along<'a>(points: impl Iterator<Item = &'a Point>, x: f64) -> Found {
    let (mut below, mut above): (Option<&Point>, Option<&Point>) = (None, None);
    for point in points {
        if point.at <= x && below.is_none_or(|b| b.at < point.at) {
            below = Some(point);
        }
        if point.at > x && above.is_none_or(|a| a.at > point.at) {
            above = Some(point);
        }
    }
    match (below, above) {
        (Some(a), Some(b)) => {
            let part = (x / a.at).ln() / (b.at / a.at).ln();
            let between = |a: f64, b: f64| a * (1.0 - part) + b * part;
            Found {
                near: between(a.found.near, b.found.near),
                more: between(a.found.more, b.found.more),
            }
        }
        (Some(point), None) | (None, Some(point)) => point.found,
        (None, None) => Found::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Beyond;

    fn overlap(instructions_per_byte: f64, cycles_per_byte: f64) -> Overlap {
        Overlap { word_bytes: 8, instructions_per_byte, cycles_per_byte, spilled_per_byte: 0.0 }
    }

    fn memory(all: &[(Moves, f64, f64, f64)]) -> Place {
        let beyond =
            |(moves, bytes, instructions_per_byte, cycles_per_byte): &(Moves, f64, f64, f64)| {
                Beyond {
                    moves: *moves,
                    word_bytes: 8,
                    bytes: *bytes,
                    near_cycles_per_byte: 0.5,
                    instructions_per_byte: *instructions_per_byte,
                    cycles_per_byte: *cycles_per_byte,
                }
            };
        Place {
            name: "memory".to_owned(),
            bytes: 1e15,
            read_cycles_per_byte: 0.0,
            write_cycles_per_byte: 0.0,
            copy_cycles_per_byte: 0.0,
            update_cycles_per_byte: 0.0,
            latency_cycles: 0.0,
            beyond: all.iter().map(beyond).collect(),
        }
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn between_lengths_each_byte_more_costs_the_same() {
        let place = memory(&[(Moves::Copy, 512.0, 1.0, 2.0), (Moves::Copy, 1536.0, 1.0, 1.0)]);
        let more = |bytes| place.beyond(Moves::Copy, bytes, &overlap(1.0, 0.5));
        near(more(512.0), 2.0);
        near(more(1024.0) * 1024.0, f64::midpoint(512.0 * 2.0, 1536.0));
        near(more(1e6), 1.0);
        // What comes before the first byte is there of one byte too.
        near(more(1.0), 1024.0);
    }

    #[test]
    fn fewer_bytes_than_were_measured_in_a_cache_cost_no_more_each() {
        let cache = Place { name: "L2".to_owned(), ..memory(&[(Moves::Copy, 512.0, 1.0, 2.0)]) };
        near(cache.beyond(Moves::Copy, 256.0, &overlap(1.0, 0.5)), 2.0);
    }

    #[test]
    fn instructions_fill_the_window_and_waiting_hides() {
        let place = memory(&[(Moves::Copy, 512.0, 1.0, 1.0), (Moves::Copy, 512.0, 4.0, 3.0)]);
        let more = |overlap| place.beyond(Moves::Copy, 512.0, &overlap);
        near(more(overlap(2.0, 0.5)), 2.0);
        near(more(overlap(0.1, 0.5)), 1.0);
        near(more(overlap(9.0, 0.1)), 3.0);
        // Chains that wait as long as the transfer takes hide most of it, and never more than all.
        let hidden = more(overlap(1.0, 1.5));
        assert!(0.0 < hidden && hidden < 0.5, "{hidden}");
        near(more(overlap(1.0, 1e9)), 0.0);
    }

    #[test]
    fn spilled_state_goes_from_none_to_what_was_measured() {
        let place = memory(&[(Moves::Copy, 512.0, 1.0, 1.0), (Moves::Spill, 512.0, 1.0, 3.0)]);
        let more = |words: f64| {
            let spilled_per_byte = words / LINE;
            place.beyond(Moves::Copy, 512.0, &Overlap { spilled_per_byte, ..overlap(1.0, 0.5) })
        };
        near(more(0.0), 1.0);
        near(more(SPILLED_PER_LINE / 2.0), 2.0);
        near(more(SPILLED_PER_LINE * 9.0), 3.0);
    }

    #[test]
    fn what_was_not_measured_follows_from_what_was() {
        let place = memory(&[(Moves::Copy, 512.0, 1.0, 3.0), (Moves::Read, 512.0, 1.0, 1.0)]);
        for (moves, expected) in
            [(Moves::Write, 2.0), (Moves::Rework, 3.0), (Moves::Reread, 3.0), (Moves::Update, 0.0)]
        {
            near(place.beyond(moves, 512.0, &overlap(1.0, 0.5)), expected);
        }
    }
}
