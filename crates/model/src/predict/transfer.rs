//! How much longer a pass takes where its bytes are not in the first-level cache: between what was
//! measured.

use crate::machine::{Beyond, Moves, Place};

impl Place {
    /// Cycles a byte.
    pub(super) fn beyond(&self, moves: Moves, bytes: f64, instructions_per_byte: f64) -> f64 {
        let all = || self.beyond.iter().filter(|at| at.moves == moves);
        if moves == Moves::Write && all().next().is_none() {
            // Measured of memory alone; elsewhere it is what copying takes beyond reading.
            let [copy, read] = [Moves::Copy, Moves::Read]
                .map(|moves| self.beyond(moves, bytes, instructions_per_byte));
            return (copy - read).max(0.0);
        }
        let below = all().map(|at| at.bytes).filter(|at| *at <= bytes).fold(f64::NAN, f64::max);
        let above = all().map(|at| at.bytes).filter(|at| *at > bytes).fold(f64::NAN, f64::min);
        let at = |size: f64| along(all().filter(|at| at.bytes == size), instructions_per_byte);
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

/// Of one size, by instructions a byte.
fn along<'a>(all: impl Iterator<Item = &'a Beyond>, instructions: f64) -> f64 {
    let (mut below, mut above): (Option<&Beyond>, Option<&Beyond>) = (None, None);
    for at in all {
        let x = at.instructions_per_byte;
        if x <= instructions && below.is_none_or(|b| b.instructions_per_byte < x) {
            below = Some(at);
        }
        if x > instructions && above.is_none_or(|a| a.instructions_per_byte > x) {
            above = Some(at);
        }
    }
    match (below, above) {
        (Some(a), Some(b)) => {
            let [x, y] = [a, b].map(|at| at.instructions_per_byte.ln());
            let part = (instructions.ln() - x) / (y - x);
            a.cycles_per_byte * (1.0 - part) + b.cycles_per_byte * part
        }
        (Some(at), None) | (None, Some(at)) => at.cycles_per_byte,
        (None, None) => 0.0,
    }
}
