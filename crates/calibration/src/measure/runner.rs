//! A pipeline ready to run in each of the three ways.

use fusewire_model::{Function, Implementation};
use fusewire_synthetic::{Lanes, Passes};

use crate::Error;

/// Bytes of a strip, as `kernels` has it.
pub(crate) const STRIP: usize = fusewire_kernels::execution::STRIP;

/// Runs a message through.
///
/// What it works on comes in registers, not as a struct: a compiler that passes a pointer and a length on together
/// loads 16 bytes where 8 and 8 were just stored, which takes longer than a short message.
pub(crate) trait Runner {
    fn run(&mut self, src: &[u8], dst: &mut [u8], work: &mut [u8], implementation: Implementation);
}

/// Described functions, made.
pub(crate) fn synthetic(lanes: Lanes, functions: &[Function]) -> Result<Passes, Error> {
    let functions: Vec<_> = functions
        .iter()
        .map(|function| fusewire_synthetic::Function {
            state_words: function.state_words as usize,
            instructions: function.instructions as usize,
            block_words: function.block_words as usize,
            writes: function.writes,
            lookups: function.lookups as usize,
            table_entries: function.table_bytes as usize / 8,
        })
        .collect();
    Ok(Passes::new(lanes, &functions)?)
}

impl Runner for Passes {
    fn run(&mut self, src: &[u8], dst: &mut [u8], _: &mut [u8], implementation: Implementation) {
        let done = match implementation {
            Implementation::Integrated => self.integrated(src, dst),
            Implementation::Sequential => self.sequential(src, dst),
            Implementation::Blocked => self.blocked(STRIP, src, dst),
        };
        assert!(done.is_ok(), "messages have whole units");
    }
}
