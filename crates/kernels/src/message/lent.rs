//! A message that nothing is to be done to but to sum it: its pieces are taken from where it lies.
#![forbid(unsafe_code)]

use super::check_width;
use crate::arrays::{reverse_each, swap, swap_sum};
use crate::{Level, SHORT};
use fusewire_base::Sum;

/// Gives the pieces of one message, in order, from where it lies. If it is summed on the way it is not known to be genuine:
/// see [`Unmarshal`](super::Unmarshal).
///
/// Long arrays are summed in the loop that takes them. What is shorter is in the first cache once it was taken, and is
/// summed together with what lies beside it.
///
/// Invariant: `summed <= taken <= src.len()`; of the first `summed` bytes the sum is `sum`.
#[derive(Debug)]
pub struct Lent<'t> {
    level: Level,
    src: &'t [u8],
    /// Bytes of the message; those behind it are only summed.
    len: usize,
    taken: usize,
    /// Somebody wants to know the sum.
    sums: bool,
    summed: usize,
    sum: Sum,
}

impl<'t> Lent<'t> {
    /// Of the first `len` bytes of `src`, all of which are summed if `sums`.
    #[inline(always)]
    pub(super) fn new(level: Level, (src, len): (&'t [u8], usize), sums: bool) -> Lent<'t> {
        Lent { level, src, len, taken: 0, sums, summed: 0, sum: Sum::ZERO }
    }

    /// Bytes given so far.
    #[inline(always)]
    pub fn given(&self) -> usize {
        self.taken
    }

    /// Bytes left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.len - self.taken
    }

    /// The bytes that are left, not taken yet.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'t [u8] {
        self.src.get(self.taken..self.len).unwrap_or_default()
    }

    /// Fills `into`. False: fewer bytes are left, and none were given.
    #[inline(always)]
    pub fn take(&mut self, into: &mut [u8]) -> bool {
        let Some(bytes) = self.rest().get(..into.len()) else { return false };
        into.copy_from_slice(bytes);
        self.taken += into.len();
        true
    }

    /// Fills `into` with elements of `width` bytes (1, 2, 4 or 8), in the machine's byte order. False: fewer are left, and none
    /// were given.
    ///
    /// # Panics
    /// With another width.
    #[inline(always)]
    pub fn take_elements(&mut self, into: &mut [u8], width: usize) -> bool {
        check_width(width);
        let Some(from) = self.rest().get(..into.len()) else { return false };
        match from.len() {
            ..SHORT => reverse_each(from, into, width),
            _ if self.sums => self.take_summed(from, into, width),
            _ => swap(self.level, from, into, width),
        }
        self.taken += from.len();
        true
    }

    /// In one loop.
    fn take_summed(&mut self, from: &[u8], into: &mut [u8], width: usize) {
        self.sum_taken();
        let sum = swap_sum(self.level, from, into, width);
        self.sum = self.sum.then(self.summed, sum);
        self.summed += from.len();
    }

    /// Sums what was taken, and is not in the sum.
    #[inline(always)]
    fn sum_taken(&mut self) {
        let bytes = self.src.get(self.summed..self.taken).unwrap_or_default();
        self.sum = self.sum.then(self.summed, crate::sum(self.level, bytes));
        self.summed = self.taken;
    }

    /// The sum, of what nobody took, too; nothing if nobody wants to know.
    #[inline(always)]
    pub fn finish(mut self) -> Sum {
        if self.sums {
            self.taken = self.src.len();
            self.sum_taken();
        }
        self.sum
    }
}
