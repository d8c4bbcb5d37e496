//! A pipeline ready to run in each of the three ways.

use fusewire_model::{Function, Implementation};
use fusewire_synthetic::{Lanes, Program};

use crate::Error;
use crate::arena::Places;

/// Bytes of a strip, as the kernels have it.
const STRIP: usize = fusewire_kernels::execution::STRIP;

/// Runs a message through.
pub(crate) trait Runner {
    fn run(&mut self, implementation: Implementation, places: Places<'_>);
}

/// Synthetic functions: one loop, and a loop each.
pub(crate) struct Made {
    fused: Program,
    passes: Vec<Program>,
}

/// A described function, to be made.
pub(crate) fn synthetic(function: &Function) -> fusewire_synthetic::Function {
    fusewire_synthetic::Function {
        state_words: function.state_words as usize,
        instructions: function.instructions as usize,
        block_words: function.block_words as usize,
        writes: function.writes,
        lookups: function.lookups as usize,
        table_entries: function.table_bytes as usize / 8,
    }
}

impl Made {
    pub(crate) fn new(lanes: Lanes, functions: &[Function]) -> Result<Made, Error> {
        let functions: Vec<_> = functions.iter().map(synthetic).collect();
        Ok(Made {
            fused: Program::new(lanes, &functions)?,
            passes: Program::passes(lanes, &functions)?,
        })
    }

    fn apart(&mut self, src: &[u8], dst: &mut [u8]) {
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

impl Runner for Made {
    fn run(&mut self, implementation: Implementation, places: Places<'_>) {
        let Places { src, dst, .. } = places;
        match implementation {
            Implementation::Integrated => {
                let done = if self.fused.writes() {
                    self.fused.run(src, dst)
                } else {
                    self.fused.read(src)
                };
                assert!(done.is_ok(), "messages have whole units");
            }
            Implementation::Sequential => self.apart(src, dst),
            Implementation::Blocked => {
                for (src, dst) in src.chunks(STRIP).zip(dst.chunks_mut(STRIP)) {
                    self.apart(src, dst);
                }
            }
        }
    }
}
