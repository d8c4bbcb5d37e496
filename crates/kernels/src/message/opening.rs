//! The way of a message's pieces through the pipeline to where they are unmarshalled.
#![forbid(unsafe_code)]

use super::sealing::copy_swapped;
use super::{BLOCK, DIRECT, Pass, joined};
use crate::Level;
use crate::arrays::{sum_of_few, swap, swap_sum};
use crate::transform::Swap;
use fusewire_base::Sum;

/// Bytes of a long message that pass ahead of those that are asked for: a unit of the widest level. A short one, for
/// which the gather has room, passes at once: to pass again costs more than to copy what is in the cache.
const AHEAD: usize = 512;
/// Fewer bytes are summed with what lies around them.
const SUMMED: usize = 32;

/// Gives the pieces of one message, in order, as they come out of load ▸ sum ▸ decipher ▸ swap. Not yet known to be
/// genuine: see [`Unmarshal`](super::Unmarshal).
///
/// Invariant: `passed` bytes of `src` have passed, a multiple of [`BLOCK`] or all; the last of them, `from..to` of
/// the gather, were not taken yet.
///
/// Bytes that nothing is to be done to but to sum them are taken from where they lie: `passed` of them then, `summed` of
/// which are in the sum. Arrays are summed as they are taken; scalars, which are in registers or next to it, together.
pub struct Opening<'t> {
    /// `None`: the bytes are taken from where they lie.
    pass: Option<Pass<'t>>,
    level: Level,
    /// Of what is taken from where it lies, if somebody wants to know.
    sums: bool,
    summed: usize,
    swap: Swap,
    src: &'t [u8],
    passed: usize,
    gather: &'t mut [u8],
    from: usize,
    to: usize,
    len: usize,
    sum: Sum,
}

impl<'t> Opening<'t> {
    #[inline]
    pub(super) fn new(
        pass: Option<Pass<'t>>,
        swap: Swap,
        src: &'t [u8],
        gather: &'t mut [u8],
        len: usize,
    ) -> Opening<'t> {
        let (level, sums, summed) = (Level::PORTABLE, false, 0);
        let (passed, from, to, sum) = (0, 0, 0, Sum::ZERO);
        Opening { pass, level, sums, summed, swap, src, passed, gather, from, to, len, sum }
    }

    /// Of `len` bytes that are taken from where they lie; they, and what is behind them, are summed if `sums`.
    #[inline]
    pub(super) fn lent(level: Level, (src, len): (&'t [u8], usize), sums: bool) -> Opening<'t> {
        Opening { level, sums, ..Opening::new(None, Swap::None, src, &mut [], len) }
    }

    /// Bytes given so far.
    #[inline]
    pub fn given(&self) -> usize {
        self.passed.min(self.len) - (self.to - self.from)
    }

    /// Bytes left.
    #[inline]
    pub fn left(&self) -> usize {
        self.len - self.given()
    }

    /// The first `N` bytes of the message, before any is given: what says which shape the rest has. `None`: it has
    /// fewer.
    pub fn peek<const N: usize>(&mut self) -> Option<[u8; N]> {
        const { assert!(N <= BLOCK, "some words") };
        debug_assert_eq!(self.given(), 0, "the first bytes");
        if self.pass.is_none() {
            return self.src[..self.len].first_chunk().copied();
        }
        if self.from == self.to {
            self.pass_ahead();
        }
        self.gather[self.from..self.to].first_chunk().copied()
    }

    /// Fills `into`. False: fewer bytes are left, and none were given.
    #[inline(always)]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        if self.pass.is_none() {
            let left = self.src.get(self.passed..self.len).unwrap_or_default();
            let Some(bytes) = left.get(..into.len()) else { return false };
            into.copy_from_slice(bytes);
            self.passed += into.len();
            return true;
        }
        match self.gather[self.from..self.to].get(..into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                self.from += into.len();
                true
            }
            None => self.take_elements(into, 1),
        }
    }

    /// Fills `into` with elements of `width` bytes (1, 2, 4 or 8), in the machine's byte order.
    ///
    /// # Panics
    /// With another width.
    #[inline(never)]
    pub fn take_elements(&mut self, into: &mut [u8], width: usize) -> bool {
        if into.len() > self.left() {
            return false;
        }
        if self.pass.is_none() {
            self.take_lent(into, width);
            return true;
        }
        let ready = (self.to - self.from).min(into.len());
        if !ready.is_multiple_of(width) {
            return self.take_across(into, width);
        }
        let (first, mut rest) = into.split_at_mut(ready);
        copy_swapped(first, &self.gather[self.from..self.from + ready], width);
        self.from += ready;
        if rest.len() >= DIRECT
            && let Some(swap) = joined(self.swap, width)
        {
            let ends = self.passed + rest.len() == self.src.len();
            let whole = if ends { rest.len() } else { rest.len() / BLOCK * BLOCK };
            let (blocks, after) = rest.split_at_mut(whole);
            let src = &self.src[self.passed..self.passed + whole];
            if let Some(pass) = &mut self.pass {
                self.sum += pass.run(swap, src, blocks);
            }
            self.passed += whole;
            rest = after;
        }
        while !rest.is_empty() {
            self.pass_ahead();
            let now = (self.to - self.from).min(rest.len()) / width * width;
            if now == 0 {
                return self.take_across(rest, width);
            }
            let (first, after) = rest.split_at_mut(now);
            copy_swapped(first, &self.gather[self.from..self.from + now], width);
            self.from += now;
            rest = after;
        }
        true
    }

    /// Elements from where they lie, all of which are there.
    #[inline]
    fn take_lent(&mut self, into: &mut [u8], width: usize) {
        assert!(matches!(width, 1 | 2 | 4 | 8), "elements of 1, 2, 4 or 8 bytes");
        let from = &self.src[self.passed..self.passed + into.len()];
        if self.sums && into.len() >= SUMMED {
            self.sum_taken();
            let sum = swap_sum(self.level, from, into, width);
            self.sum = self.sum.then(self.summed, sum);
            self.summed += into.len();
        } else {
            swap(self.level, from, into, width);
        }
        self.passed += into.len();
    }

    /// Sums what was taken from where it lies, and is not in the sum.
    #[inline]
    fn sum_taken(&mut self) {
        let bytes = &self.src[self.summed..self.passed];
        let sum = match bytes.len() {
            0 => return,
            1..SUMMED => sum_of_few(bytes),
            _ => crate::sum(self.level, bytes),
        };
        self.sum = self.sum.then(self.summed, sum);
        self.summed = self.passed;
    }

    /// Elements that lie across the ends of what passes at a time.
    fn take_across(&mut self, into: &mut [u8], width: usize) -> bool {
        let mut rest = &mut *into;
        while !rest.is_empty() {
            if self.from == self.to {
                self.pass_ahead();
            }
            let now = (self.to - self.from).min(rest.len());
            let (first, after) = rest.split_at_mut(now);
            first.copy_from_slice(&self.gather[self.from..self.from + now]);
            self.from += now;
            rest = after;
        }
        if width > 1 {
            into.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        true
    }

    /// The next bytes into the gather, of which all was taken.
    fn pass_ahead(&mut self) {
        let src = &self.src[self.passed..];
        let is_short = self.src.len() <= self.gather.len();
        let src = &src[..if is_short { src.len() } else { src.len().min(AHEAD) }];
        if src.is_empty() {
            return;
        }
        let Some(pass) = &mut self.pass else { return };
        self.sum += pass.run(self.swap, src, &mut self.gather[..src.len()]);
        (self.from, self.to) = (0, src.len().min(self.len.saturating_sub(self.passed)));
        self.passed += src.len();
    }

    /// What nobody took passes, too. The sum of the ciphertext; the tag that it should have goes to `tag`.
    #[inline]
    pub(super) fn finish(mut self, tag: &mut [u8]) -> Sum {
        if self.pass.is_none() {
            self.passed = self.src.len();
            if self.sums {
                self.sum_taken();
            }
            return self.sum;
        }
        while self.passed < self.src.len() {
            self.pass_ahead();
        }
        if let Some(pass) = self.pass {
            pass.pieces.finish(&pass.piece, tag);
        }
        self.sum
    }
}
