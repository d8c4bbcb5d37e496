//! The payload of a segment on its way to where it belongs, verified in the same pass.

use fusewire_base::Sum;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stage::{AnyStage, then};
use fusewire_kernels::stages::InternetSum;
use fusewire_kernels::{Level, copy_sum, sum};

/// Copies pieces of a payload, and sums them if somebody wants to know.
pub struct Mover {
    pub level: Level,
    /// Of all so far.
    pub sum: Option<Sum>,
    /// Bytes that were summed.
    len: usize,
}

impl Mover {
    /// Goes on from `sum`, of an even number of bytes; `None`: nobody wants to know.
    pub fn new(level: Level, sum: Option<Sum>) -> Mover {
        Mover { level, sum, len: 0 }
    }

    /// The next `len` bytes, of which `next` makes the sum. False, and it was not called: nobody wants to know.
    pub fn add(&mut self, len: usize, next: impl FnOnce(Level) -> Sum) -> bool {
        let Some(sum) = self.sum else { return false };
        if len > 0 {
            self.sum = Some(sum.then(self.len, next(self.level)));
            self.len += len;
        }
        true
    }

    /// Sums what goes nowhere.
    pub fn pass(&mut self, bytes: &[u8]) {
        self.add(bytes.len(), |level| sum(level, bytes));
    }

    /// Copies.
    pub fn copy(&mut self, bytes: &[u8], to: &mut [u8]) {
        if !self.add(bytes.len(), |level| copy_sum(level, bytes, to)) {
            to.copy_from_slice(bytes);
        }
    }

    /// Runs `pipeline` over bytes on their way.
    pub fn through<S: AnyStage>(&mut self, pipeline: &S, src: &[u8], to: &mut [u8]) {
        let sums = self.add(src.len(), |level| {
            level.run(Integrated { stage: &then(InternetSum, pipeline), src, dst: to }).0
        });
        if !sums {
            self.level.run(Integrated { stage: pipeline, src, dst: to });
        }
    }
}
