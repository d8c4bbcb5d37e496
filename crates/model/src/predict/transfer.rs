//! How much longer a pass takes where its bytes are not in the first-level cache: between what was
//! measured.

use crate::machine::{Beyond, Moves, Place};

/// What goes on beside a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Bytes of a word.
    pub(super) word_bytes: u32,
    /// They fill the window in which the processor looks for loads: memory is so far that this is what counts.
    pub(super) instructions_per_byte: f64,
    /// Cycles of work that hide what comes from nearer: it is there in time, or it is what everything waits for.
    pub(super) cycles_per_byte: f64,
}

impl Place {
    /// Cycles a byte.
    pub(super) fn beyond(&self, moves: Moves, bytes: f64, beside: &Beside) -> f64 {
        let is_memory = self.is_memory();
        // Words as long as the pass's own, or what comes nearest: with long words the processor sees more bytes ahead.
        let distance =
            |word_bytes: u32| (f64::from(word_bytes) / f64::from(beside.word_bytes)).ln().abs();
        let of_moves = || self.beyond.iter().filter(|at| at.moves == moves);
        let word_bytes =
            of_moves().map(|at| at.word_bytes).min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        let all = || of_moves().filter(|at| Some(at.word_bytes) == word_bytes);
        if moves == Moves::Write && all().next().is_none() {
            // Measured of memory alone; elsewhere it is what copying takes beyond reading.
            let [copy, read] =
                [Moves::Copy, Moves::Read].map(|moves| self.beyond(moves, bytes, beside));
            return (copy - read).max(0.0);
        }
        let below = all().map(|at| at.bytes).filter(|at| *at <= bytes).fold(f64::NAN, f64::max);
        let above = all().map(|at| at.bytes).filter(|at| *at > bytes).fold(f64::NAN, f64::min);
        let at = |size: f64| {
            let all = all().filter(|at| at.bytes == size);
            if is_memory {
                along(all, |at| at.instructions_per_byte, beside.instructions_per_byte)
            } else {
                along(all, |at| at.near_cycles_per_byte, beside.cycles_per_byte)
            }
        };
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
}

/// Of one size, between those that are nearest by what counts there.
fn along<'a>(all: impl Iterator<Item = &'a Beyond>, of: impl Fn(&Beyond) -> f64, x: f64) -> f64 {
    let (mut below, mut above): (Option<&Beyond>, Option<&Beyond>) = (None, None);
    for at in all {
        if of(at) <= x && below.is_none_or(|b| of(b) < of(at)) {
            below = Some(at);
        }
        if of(at) > x && above.is_none_or(|a| of(a) > of(at)) {
            above = Some(at);
        }
    }
    match (below, above) {
        (Some(a), Some(b)) => {
            let part = (x / of(a)).ln() / (of(b) / of(a)).ln();
            a.cycles_per_byte * (1.0 - part) + b.cycles_per_byte * part
        }
        (Some(at), None) | (None, Some(at)) => at.cycles_per_byte,
        (None, None) => 0.0,
    }
}
