//! Synthetic data-manipulation functions (Ahlgren, Björkman and Gunningberg): state, instructions, block
//! and tables to order, run one after the other or fused into one loop.
//!
//! What a compiler does with registers differs by compiler and by the day. Here the loop is assembled
//! when it is asked for, so that a description says exactly which instructions run: state has a register
//! each until registers end, and is read and written in memory from there on.
//!
//! What a function does with a block of words `w[0]`, `w[1]`, … and state `s[0]`, `s[1]`, …: step `j` of
//! `max(instructions, state)` adds `w[j mod words]` to `s[j]` while there is state left; from there on a
//! function that writes changes `w[j mod words]`, in turns adding a constant and inverting bits, and one that
//! only reads adds to `s[j mod state]`. Before that each of its `lookups` changes a word by an entry of a
//! table of its own, which the word itself selects. [`Program::run`] does it fast, [`oracle`] obviously.
//!
//! Only x86-64 is known to the assembler; elsewhere [`Program::new`] says so.
#![deny(unsafe_code)]

mod code;
mod function;
mod oracle;
mod passes;
mod program;

pub use function::{Error, Function, Lanes, WORDS_MAX};
pub use oracle::oracle;
pub use passes::Passes;
pub use program::Program;
