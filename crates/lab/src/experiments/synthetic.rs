//! Synthetic functions, made and run in each way: what Ahlgren's figures are measured with.

use fusewire_synthetic::{Function, Lanes, Program};

use crate::Result;

/// The same functions in one loop and in a loop each.
pub(super) struct Made {
    fused: Program,
    passes: Vec<Program>,
}

/// A function that writes.
pub(super) fn function(state_words: usize, instructions: usize, block_words: usize) -> Function {
    Function::new(state_words, instructions, block_words)
}

/// One that only reads.
pub(super) fn reader(state_words: usize, instructions: usize, block_words: usize) -> Function {
    Function { writes: false, ..function(state_words, instructions, block_words) }
}

impl Made {
    pub(super) fn new(lanes: Lanes, functions: &[Function]) -> Result<Made> {
        Ok(Made {
            fused: Program::new(lanes, functions)?,
            passes: Program::passes(lanes, functions)?,
        })
    }

    /// One loop.
    ///
    /// # Panics
    /// When the message has no whole units.
    pub(super) fn integrated(&mut self, src: &[u8], dst: &mut [u8]) {
        assert!(self.fused.run(src, dst).is_ok(), "messages have whole units");
    }

    /// A loop each.
    ///
    /// # Panics
    /// As [`Made::integrated`].
    pub(super) fn sequential(&mut self, src: &[u8], dst: &mut [u8]) {
        let mut moved = false;
        for pass in &mut self.passes {
            let done = match (pass.writes(), moved) {
                (false, false) => pass.read(src),
                (false, true) => pass.read(dst),
                (true, false) => pass.run(src, dst),
                (true, true) => pass.run_in_place(dst),
            };
            assert!(done.is_ok(), "messages have whole units");
            moved |= pass.writes();
        }
    }
}
