//! The XDR compiler: the XDR language (RFC 4506, section 6) and the RPC language (RFC 5531, section 12) into
//! Rust.
//!
//! ```text
//! text ──lexer──▶ tokens ──parser──▶ ast ──meaning──▶ model ──rust──▶ types, stubs
//! ```
//! A file is read to its end whatever is wrong with it; what is wrong is a [`Diagnostic`] with its place, its
//! token and a line of help. Nothing here panics on input, and no nesting of it reaches the stack's end.
//! How places and diagnostics look is the ASN.1 compiler's to say, so that both look alike.
#![forbid(unsafe_code)]

pub mod ast;
pub mod build;
mod layout;
mod lexer;
mod meaning;
pub mod model;
mod names;
mod parser;
mod programs;
pub mod rust;
mod scope;

pub use fusewire_asn1::{Diagnostic, Severity, Source};

/// A file, what it means, and what is wrong with it.
#[derive(Debug)]
pub struct Checked {
    /// Its text.
    pub source: Source,
    /// What it means, as far as it could be read.
    pub model: model::Model,
    /// What is wrong, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Whether nothing is wrong but for warnings.
    pub fn is_ok(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads a file.
pub fn check(source: Source) -> Checked {
    let (tokens, mut diagnostics) = lexer::tokens(&source);
    let specification = parser::parse(&source, &tokens, &mut diagnostics);
    let model = meaning::model(&specification, &mut diagnostics);
    for diagnostic in diagnostics.iter_mut().filter(|d| d.token.is_empty()) {
        diagnostic.token = fusewire_asn1::diagnostic::shortened(source.slice(diagnostic.span));
    }
    diagnostics.sort_by_key(|d| (d.span, d.severity));
    diagnostics.dedup();
    Checked { source, model, diagnostics }
}
