//! Synthetic functions, as Ahlgren's figures are measured with.

use fusewire_synthetic::{Error, Function};

/// A function that writes.
pub(super) fn function(state_words: usize, instructions: usize, block_words: usize) -> Function {
    Function::new(state_words, instructions, block_words)
}

/// One that only reads.
pub(super) fn reader(state_words: usize, instructions: usize, block_words: usize) -> Function {
    Function { writes: false, ..function(state_words, instructions, block_words) }
}

/// That a message had whole units, as those of experiments have.
///
/// # Panics
/// When it had not.
pub(super) fn whole(done: Result<(), Error>) {
    assert!(done.is_ok(), "messages have whole units");
}
