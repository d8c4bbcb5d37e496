//! The ASN.1 compiler: notation of X.680 to X.683, of X.208 and of 1984 into Rust.
//!
//! Syntax gives a lossless tree and a syntax tree of each file ([`File`]), with what is wrong in it. It
//! never panics and never gives up: what cannot be read is passed over. [`check`] reads files together,
//! finds what each name means ([`names`]), and says what is wrong.
#![forbid(unsafe_code)]

pub mod ast;
pub mod build;
mod check;
pub mod circles;
pub mod diagnostic;
pub mod lexer;
pub mod names;
pub mod objects;
pub mod parser;
pub mod resolve;
pub mod rust;
mod simple;
pub mod source;
pub mod tree;

pub use check::{Checked, check, diagnose};
pub use diagnostic::{Diagnostic, Severity};
pub use parser::File;
pub use source::{FileId, Position, Source, Span};
